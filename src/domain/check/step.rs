//! One step: its id, who acts in it, and the schema of what comes out.

use std::collections::BTreeMap;

use super::{
    super::{
        definition::{Step, StepKind},
        draft::{Field, Form, StepDraft},
        finding::{Finding, Rule},
        id::{AgentName, StepId},
        nearest::did_you_mean,
        schema::Schema,
    },
    Agent, Agents, length, name, text,
};
use crate::limits;

/// A finding for each id that an earlier step has.
pub(super) fn duplicate_ids(found: &mut Vec<Finding>, steps: &[StepDraft], form: Form) {
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for at in steps.iter().filter_map(|step| step.id.given()) {
        let Some(line) = first.get(at.value.as_str()) else {
            first.insert(&at.value, at.place.line);
            continue;
        };
        let message = format!(
            "{} id `{}` is taken: it first stands on line {line}",
            form.step_word(),
            at.value
        );
        found.push(
            Finding::new(Rule::DuplicateStep, &at.path, at.place, message)
                .suggest(format!("give each {} an id of its own", form.step_word())),
        );
    }
}

/// Checks one step that waits for `depends_on`.
pub(super) fn step(
    found: &mut Vec<Finding>,
    draft: &StepDraft,
    form: Form,
    depends_on: Vec<StepId>,
    agents: &Agents,
) -> Option<Step> {
    let path = |key: &str| format!("{}.{key}", draft.path);
    let id = name(
        found,
        &draft.id,
        draft.place,
        &path(form.id_key()),
        StepId::parse,
    );
    length(
        found,
        &draft.description,
        "description",
        limits::DESCRIPTION_BYTES_MAX,
    );
    let acting = kind(found, draft, form)
        .then(|| agent(found, draft, agents))
        .flatten();
    let result = result(found, draft);
    let kind = StepKind::Agent {
        agent: acting?,
        instructions: None,
    };
    Some(Step {
        description: text(&draft.description).unwrap_or_default(),
        depends_on,
        instructions: text(&draft.instructions),
        result,
        ..Step::new(id?, kind)
    })
}

/// Whether the step has its one kind key, and it is `agent`.
fn kind(found: &mut Vec<Finding>, draft: &StepDraft, form: Form) -> bool {
    if draft.kinds.is_empty() && draft.agent != Field::Broken {
        let missing = match form {
            Form::Phases => Finding::new(
                Rule::MissingKey,
                format!("{}.agent", draft.path),
                draft.place,
                "`agent` is missing",
            ),
            Form::Manifest => Finding::new(
                Rule::MissingKind,
                &draft.path,
                draft.place,
                "the step does not say who acts",
            )
            .suggest("add `agent: NAME`".to_owned()),
        };
        found.push(missing);
    }
    for extra in draft.kinds.iter().skip(1) {
        let message = format!(
            "a step has one kind: this one has `{}` already",
            draft.kinds[0].value
        );
        found.push(
            Finding::new(Rule::SeveralKinds, &extra.path, extra.place, message)
                .suggest("make it two steps".to_owned()),
        );
    }
    draft.kinds.iter().any(|kind| kind.value == "agent")
}

fn agent(found: &mut Vec<Finding>, draft: &StepDraft, agents: &Agents) -> Option<AgentName> {
    let path = format!("{}.agent", draft.path);
    let name = name(found, &draft.agent, draft.place, &path, AgentName::parse)?;
    let at = draft.agent.given()?;
    match agents.get(name.as_str()) {
        Some(Agent::Usable) => Some(name),
        Some(Agent::Broken) => {
            let message = format!("the file of agent `{name}` has findings of its own");
            found.push(Finding::new(Rule::InvalidPersona, path, at.place, message));
            None
        }
        None => {
            let message = format!("no agent is called `{name}`");
            let hint = did_you_mean(name.as_str(), agents.keys().map(String::as_str))
                .unwrap_or_else(|| format!("write `agents/{name}.md`"));
            found.push(Finding::new(Rule::MissingPersona, path, at.place, message).suggest(hint));
            None
        }
    }
}

fn result(found: &mut Vec<Finding>, draft: &StepDraft) -> Option<serde_json::Value> {
    let at = draft.result.given()?;
    let schema = at.value.to_json();
    if let Some((pointer, fault)) = Schema::fault(&schema) {
        let (node, path) = at.value.at_pointer(&pointer, &at.path);
        let message = format!("`result` is not a JSON Schema: {fault}");
        found.push(Finding::new(Rule::InvalidSchema, path, node.place, message));
    }
    Some(schema)
}
