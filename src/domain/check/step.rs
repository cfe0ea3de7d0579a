//! One step: its id, who acts in it, and whether something acts on all that it says.

use std::collections::BTreeMap;

use super::{
    super::{
        definition::{Step, StepKind},
        draft::{Field, Form, Said, StepDraft},
        finding::{Finding, Rule},
        grammar,
        id::{AgentName, StepId},
        nearest::did_you_mean,
        node::At,
        span::Span,
    },
    Abilities, Agent, Agents, Known, kind, length, name,
    shape::conform,
    text,
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
    known: Known<'_>,
) -> Option<Step> {
    let path = format!("{}.{}", draft.path, form.id_key());
    let id = name(found, &draft.id, draft.place, &path, StepId::parse);
    // What a `foreach` does is checked also where the step has no id to give it.
    let borrowed = id.clone().or_else(|| StepId::parse("step").ok());
    let each = match (&draft.each, borrowed) {
        (Some(each), Some(id)) => each_step(found, each, id, known),
        _ => None,
    };
    let kind = whole(found, draft, form, known, each);
    Some(Step {
        depends_on,
        ..kind::fields(Step::new(id?, kind?), draft)
    })
    .map(|step| described(step, draft))
}

fn described(step: Step, draft: &StepDraft) -> Step {
    Step {
        description: text(&draft.description).unwrap_or_default(),
        ..step
    }
}

/// Checks what a `foreach` does.
fn each_step(
    found: &mut Vec<Finding>,
    draft: &StepDraft,
    id: StepId,
    known: Known<'_>,
) -> Option<Step> {
    let kind = whole(found, draft, Form::Manifest, known, None);
    apart(found, draft);
    let step = kind::fields(Step::new(id, kind?), draft);
    Some(described(step, draft))
}

/// A finding for each thing that only a step of its own can say.
fn apart(found: &mut Vec<Finding>, draft: &StepDraft) {
    let mut no = |path: &str, place, key: &str, why: &str| {
        let message = format!("`{key}` has no effect in what a `foreach` does");
        found.push(Finding::new(Rule::NoEffect, path, place, message).suggest(why.to_owned()));
    };
    let foreach = "say it of the `foreach` itself";
    if let Some(at) = draft.id.given() {
        no(
            &at.path,
            at.place,
            "id",
            "it is known by the id of the `foreach`",
        );
    }
    if let Some(at) = draft.depends_on.given() {
        no(&at.path, at.place, "depends_on", foreach);
    }
    for said in &draft.said {
        if grammar::field_of(said.key).is_some_and(|field| !field.each) {
            no(&said.path, said.place, said.key, foreach);
        } else if grammar::kind_of(said.key).is_some_and(|kind| !kind.each) {
            let why = match said.key {
                "branch" => {
                    "say `if` in `do`, or branch after the `foreach`: an item leads nowhere"
                }
                _ => "make one list of all items in a step before, and go through that",
            };
            no(&said.path, said.place, said.key, why);
        }
    }
    let leads = draft
        .said("on_error")
        .and_then(|said| Some((said, said.value.text()?)));
    if let Some((said, text)) = leads.filter(|(_, text)| !grammar::ON_ERROR.contains(text)) {
        let message = format!("`on_error` cannot lead to `{text}` from inside a `foreach`");
        let finding = Finding::new(Rule::NoEffect, &said.path, said.value.place, message);
        found.push(
            finding
                .suggest("write fail or continue here, and the step at the `foreach`".to_owned()),
        );
    }
}

/// Checks all that a step says, and makes its kind of it.
fn whole(
    found: &mut Vec<Finding>,
    draft: &StepDraft,
    form: Form,
    known: Known<'_>,
    each: Option<Step>,
) -> Option<StepKind> {
    length(
        found,
        &draft.description,
        "description",
        limits::DESCRIPTION_BYTES_MAX,
    );
    let acting = acting(found, draft, form);
    for said in &draft.said {
        if let Some(kind) = grammar::kind_of(said.key) {
            let before = found.len();
            conform(found, &said.value, &said.path, &kind.key.shape);
            if said.key == "activity" && found.len() == before {
                found.extend(unknown_activity(said, known.abilities));
            }
        } else if let Some(field) = grammar::field_of(said.key) {
            conform(found, &said.value, &said.path, &field.key.shape);
            found.extend(acting.and_then(|acting| idle(said, field, &acting.value)));
        }
    }
    between(found, draft);
    match acting?.value.as_str() {
        "agent" => agent(found, draft, known.agents).map(|agent| StepKind::Agent { agent }),
        key => kind::kind(draft, key, each),
    }
}

/// The finding for a field that nothing would act on in a step of this kind.
fn idle(said: &Said, field: &grammar::Field, kind: &str) -> Option<Finding> {
    // A kind that is planned says so itself.
    if field.kinds.contains(&kind) || grammar::kind_of(kind).is_none() {
        return None;
    }
    let message = format!("`{}` has no effect on a step with `{kind}`", said.key);
    let hint = field.instead.map_or_else(
        || format!("it belongs to steps with {}", field.kinds.join(", ")),
        str::to_owned,
    );
    Some(Finding::new(Rule::NoEffect, &said.path, said.place, message).suggest(hint))
}

/// What fields say of each other.
fn between(found: &mut Vec<Finding>, draft: &StepDraft) {
    for (one, other) in grammar::EXCLUSIVE {
        if draft.said(one).is_some()
            && let Some(other) = draft.said(other)
        {
            let message = format!("`{}` and `{one}` cannot both be given", other.key);
            let finding = Finding::new(Rule::ConflictingKeys, &other.path, other.place, message);
            found.push(finding.suggest("keep one of them".to_owned()));
        }
    }
    pauses(found, draft);
}

fn pauses(found: &mut Vec<Finding>, draft: &StepDraft) {
    let Some(retry) = draft.said("retry") else {
        return;
    };
    let span = |key: &str| retry.value.get(key).and_then(kind::parsed::<Span>);
    let most = retry.value.get("max_backoff").zip(span("max_backoff"));
    if let (Some(first), Some((node, most))) = (span("backoff"), most)
        && most < first
    {
        let message = format!("`max_backoff` of {most} is shorter than `backoff` of {first}");
        let path = format!("{}.max_backoff", retry.path);
        found.push(Finding::new(Rule::OutOfRange, path, node.place, message));
    }
}

/// The one kind key of the step. One too many, or none, is a finding.
fn acting<'a>(
    found: &mut Vec<Finding>,
    draft: &'a StepDraft,
    form: Form,
) -> Option<&'a At<String>> {
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
            .suggest("add `agent: NAME`, `guidance: TEXT` or another kind".to_owned()),
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
    draft.kinds.first()
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
            let known = || agents.keys().map(String::as_str);
            let finding = Finding::new(Rule::MissingPersona, path, at.place, message);
            found.push(match did_you_mean(name.as_str(), known()) {
                Some(_) => finding.did_you_mean(at.place, &at.value, known()),
                None => finding.suggest(format!("write `agents/{name}.md`")),
            });
            None
        }
    }
}

/// The finding for an activity that the server does not have.
fn unknown_activity(said: &Said, abilities: &Abilities) -> Option<Finding> {
    let name = said.value.text()?;
    let known = &abilities.activities;
    if known.contains(name) {
        return None;
    }
    let finding =
        |message| Finding::new(Rule::UnknownActivity, &said.path, said.value.place, message);
    if known.is_empty() {
        let message = format!("no activity is called `{name}`: this server has none");
        let hint = "activities are brought by programs that embed midex: run this workflow with the one that has it";
        return Some(finding(message).suggest(hint.to_owned()));
    }
    let finding = finding(format!("no activity is called `{name}`"));
    let known = || known.iter().map(String::as_str);
    Some(match did_you_mean(name, known()) {
        Some(_) => finding.did_you_mean(said.value.place, name, known()),
        None => finding.suggest("give the server an activity with this name".to_owned()),
    })
}
