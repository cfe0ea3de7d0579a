//! From what a file says to what may be run. Every finding is reported, not the first one; a
//! workflow or persona comes out only where there is none but warnings. The findings come in no order.

mod alike;
mod asking;
mod expression;
mod flow;
mod input;
mod kind;
mod known;
mod names;
mod order;
mod schema;
mod section;
mod shape;
mod step;
mod unbuilt;

pub use self::{
    known::{Abilities, Agent, Agents, Known},
    shape::{unknown_key, wrong_type},
    unbuilt::Built,
};
use super::{
    complexity::Complexity,
    definition::{Persona, Step, Workflow},
    draft::{Field, Form, PersonaDraft, StepDraft, WorkflowDraft},
    finding::{Finding, Place, Rule, is_broken},
    grammar,
    id::{AgentName, StepId, WorkflowName},
    node::{At, Node},
    schema::Quota,
};
use crate::{error::Result, limits};

/// Checks a workflow against what is known beside it. It may use so much of the grammar.
pub fn workflow(
    draft: &WorkflowDraft,
    known: Known<'_>,
    built: Built,
) -> (Option<Workflow>, Vec<Finding>) {
    let mut findings = Vec::new();
    let found = &mut findings;
    let form = draft.form;
    let name = name(
        found,
        &draft.name,
        draft.place,
        form.name_key(),
        WorkflowName::parse,
    );
    let description = purpose(found, draft);
    length(found, &draft.title, "title", limits::DESCRIPTION_BYTES_MAX);
    length(found, &draft.version, "version", limits::VERSION_BYTES_MAX);
    let tags = tags(found, &draft.tags);
    let complexity = complexity(found, &draft.complexity);
    let mut quota = Quota::default();
    let inputs = input::inputs(found, draft, &mut quota);
    unbuilt::unbuilt(found, draft, built);
    for said in &draft.said {
        if let Some(key) = grammar::WORKFLOW.iter().find(|key| key.name == said.key) {
            shape::conform(found, &said.value, &said.path, &key.shape);
        }
    }
    let steps = steps(found, draft, known, &mut quota);
    if is_broken(&findings) {
        return (None, findings);
    }
    let title = text(&draft.title);
    let workflow = name.zip(steps).map(|(name, steps)| Workflow {
        name,
        description: description.or_else(|| title.clone()).unwrap_or_default(),
        title,
        version: text(&draft.version),
        tags,
        complexity,
        content: draft.content.clone(),
        inputs,
        steps,
        memory: said(draft, "memory")
            .and_then(kind::map)
            .unwrap_or_default(),
        final_output: said(draft, "final_output").map(Node::to_json),
        timeout: said(draft, "timeout").and_then(kind::parsed),
        max_visits: limit(draft, "max_visits"),
        max_steps: limit(draft, "max_steps"),
    });
    (workflow, findings)
}

fn said<'a>(draft: &'a WorkflowDraft, key: &str) -> Option<&'a Node> {
    let said = draft.said.iter().find(|said| said.key == key);
    said.map(|said| &said.value)
}

fn limit(draft: &WorkflowDraft, key: &str) -> Option<u32> {
    kind::count(said(draft, "limits")?.get(key))
}

/// Checks an agent.
pub fn persona(draft: &PersonaDraft) -> (Option<Persona>, Vec<Finding>) {
    let mut findings = Vec::new();
    let found = &mut findings;
    let name = name(found, &draft.name, draft.place, "name", AgentName::parse);
    let description = required(found, &draft.description, draft.place, "description");
    length(
        found,
        &draft.description,
        "description",
        limits::DESCRIPTION_BYTES_MAX,
    );
    length(found, &draft.version, "version", limits::VERSION_BYTES_MAX);
    let tags = tags(found, &draft.tags);
    if draft.content.value.trim().is_empty() {
        found.push(
            Finding::new(
                Rule::EmptyPersona,
                "",
                draft.content.place,
                "the file has no text after its front matter",
            )
            .suggest("write the persona below the closing `---`".to_owned()),
        );
    }
    if is_broken(&findings) {
        return (None, findings);
    }
    let persona = name.zip(description).map(|(name, description)| Persona {
        name,
        description,
        tags,
        version: text(&draft.version),
        content: draft.content.value.clone(),
        extra: draft.extra.clone(),
    });
    (persona, findings)
}

fn text(field: &Field<String>) -> Option<String> {
    field.given().map(|at| at.value.clone())
}

/// The text of a key that must be there; `place` is where its absence is shown.
fn required(
    found: &mut Vec<Finding>,
    field: &Field<String>,
    place: Place,
    path: &str,
) -> Option<String> {
    let key = path.rsplit('.').next().unwrap_or(path);
    match field {
        Field::Broken => None,
        Field::Absent => {
            let message = format!("`{key}` is missing");
            found.push(Finding::new(Rule::MissingKey, path, place, message));
            None
        }
        Field::Given(at) if at.value.trim().is_empty() => {
            found.push(empty(at, key));
            None
        }
        Field::Given(at) => Some(at.value.clone()),
    }
}

fn empty(at: &At<String>, key: &str) -> Finding {
    let message = format!("`{key}` is empty");
    Finding::new(Rule::EmptyValue, &at.path, at.place, message)
}

/// A required text that must also be a name.
fn name<T>(
    found: &mut Vec<Finding>,
    field: &Field<String>,
    place: Place,
    path: &str,
    parse: fn(&str) -> Result<T>,
) -> Option<T> {
    required(found, field, place, path)?;
    let at = field.given()?;
    match parse(&at.value) {
        Ok(name) => Some(name),
        Err(error) => {
            found.push(Finding::new(
                Rule::IllFormedName,
                &at.path,
                at.place,
                error.message(),
            ));
            None
        }
    }
}

/// What a workflow is for. Front matter must say so; a manifest should, for an agent chooses by these words.
fn purpose(found: &mut Vec<Finding>, draft: &WorkflowDraft) -> Option<String> {
    let field = &draft.description;
    if *field == Field::Absent && draft.form == Form::Manifest {
        let message = "`description` is missing: an agent chooses a workflow by these words";
        found.push(
            Finding::new(
                Rule::MissingDescription,
                "description",
                draft.place,
                message,
            )
            .suggest("say in a sentence what the workflow is for".to_owned()),
        );
        return None;
    }
    length(found, field, "description", limits::DESCRIPTION_BYTES_MAX);
    required(found, field, draft.place, "description")
}

fn length(found: &mut Vec<Finding>, field: &Field<String>, what: &str, bytes_max: usize) {
    let Some(at) = field.given() else { return };
    if at.value.len() > bytes_max {
        found.push(too_long(at, what, bytes_max));
    }
}

fn too_long(at: &At<String>, what: &str, bytes_max: usize) -> Finding {
    let bytes = at.value.len();
    let message = format!("`{what}` has {bytes} bytes, the limit is {bytes_max}");
    Finding::new(Rule::LimitExceeded, &at.path, at.place, message).expected(
        format!("at most {bytes_max} bytes"),
        format!("{bytes} bytes"),
    )
}

fn too_many<T>(list: &At<Vec<T>>, what: &str, max: usize) -> Option<Finding> {
    let count = list.value.len();
    (count > max).then(|| {
        let message = format!("there are {count} {what}, the limit is {max}");
        Finding::new(Rule::LimitExceeded, &list.path, list.place, message)
            .expected(format!("at most {max}"), count.to_string())
    })
}

fn tags(found: &mut Vec<Finding>, field: &Field<Vec<At<String>>>) -> Vec<String> {
    let Some(list) = field.given() else {
        return Vec::new();
    };
    found.extend(too_many(list, "tags", limits::TAGS_MAX));
    for tag in &list.value {
        if tag.value.trim().is_empty() {
            found.push(empty(tag, "tags"));
        } else if tag.value.len() > limits::TAG_BYTES_MAX {
            found.push(too_long(tag, "tags", limits::TAG_BYTES_MAX));
        }
    }
    list.value.iter().map(|tag| tag.value.clone()).collect()
}

fn complexity(found: &mut Vec<Finding>, field: &Field<String>) -> Option<Complexity> {
    let at = field.given()?;
    match at.value.as_str() {
        "simple" => Some(Complexity::Simple),
        "moderate" => Some(Complexity::Moderate),
        "high" => Some(Complexity::High),
        other => {
            let message = format!("`{other}` is not a complexity");
            let finding = Finding::new(Rule::UnknownValue, &at.path, at.place, message)
                .expected("simple, moderate or high", other);
            let known = ["simple", "moderate", "high"];
            found.push(shape::meant(finding, &at.path, at.place, other, known));
            None
        }
    }
}

/// The steps of a draft; `None` where one of them cannot be one.
fn steps(
    found: &mut Vec<Finding>,
    draft: &WorkflowDraft,
    known: Known<'_>,
    quota: &mut Quota,
) -> Option<Vec<Step>> {
    let key = draft.form.steps_key();
    let list = match &draft.steps {
        Field::Broken => return None,
        Field::Absent => {
            let message = format!("`{key}` is missing");
            found.push(Finding::new(Rule::MissingKey, key, draft.place, message));
            return None;
        }
        Field::Given(list) => list,
    };
    if list.value.is_empty() {
        let message = format!("`{key}` is empty: a workflow needs at least one");
        found.push(Finding::new(Rule::NoSteps, key, list.place, message));
    }
    if let Some(finding) = too_many(list, key, limits::STEPS_MAX) {
        found.push(finding);
        return None;
    }
    let list = section::with_instructions(found, &list.value, &draft.sections);
    step::duplicate_ids(found, &list, draft.form);
    let order = order::dependencies(found, &list, draft.form);
    let mut flow = flow::Flow::of(found, &list, order);
    flow.check(found);
    asking::check(found, draft, &list);
    schema::check(found, &list, quota);
    let secrets = known.abilities.secrets.as_ref();
    expression::check(found, draft, &list, secrets, &mut flow);
    let steps: Vec<_> = list
        .iter()
        .zip(flow.before())
        .map(|(step, before)| {
            let before = before
                .iter()
                .filter_map(|before| id(&list, before.position));
            step::step(found, step, draft.form, before.collect(), known)
        })
        .collect();
    steps.into_iter().collect()
}

fn id(steps: &[StepDraft], position: usize) -> Option<StepId> {
    StepId::parse(&steps[position].id.given()?.value).ok()
}
