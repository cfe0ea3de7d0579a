//! From what a file says to what may be run. Every finding is reported, not the first one; a
//! workflow or persona comes out only where there is none.

mod order;
mod step;

use std::collections::BTreeMap;

use serde_json::Map;

use super::{
    definition::{Complexity, Persona, Step, Workflow},
    draft::{Field, PersonaDraft, WorkflowDraft},
    finding::{Finding, Place, Rule, arrange},
    id::{AgentName, WorkflowName},
    nearest::did_you_mean,
    node::At,
};
use crate::{error::Result, limits};

/// What is known of an agent that a step may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// Its file has no findings.
    Usable,
    /// Its file has findings.
    Broken,
}

/// The agents that steps may name.
pub type Agents = BTreeMap<String, Agent>;

/// Checks a workflow against the agents that are known.
pub fn workflow(draft: &WorkflowDraft, agents: &Agents) -> (Option<Workflow>, Vec<Finding>) {
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
    let description = description(found, &draft.description, draft.place);
    length(found, &draft.title, "title", limits::DESCRIPTION_BYTES_MAX);
    length(found, &draft.version, "version", limits::VERSION_BYTES_MAX);
    let tags = tags(found, &draft.tags);
    let complexity = complexity(found, &draft.complexity);
    let steps = steps(found, draft, agents);
    if !findings.is_empty() {
        return (None, arrange(findings));
    }
    let workflow = name
        .zip(description)
        .zip(steps)
        .map(|((name, description), steps)| Workflow {
            name,
            title: text(&draft.title),
            description,
            version: text(&draft.version),
            tags,
            complexity,
            content: draft.content.clone(),
            steps,
            memory: Map::new(),
            final_output: None,
            timeout: None,
            max_visits: None,
            max_steps: None,
        });
    (workflow, findings)
}

/// Checks an agent.
pub fn persona(draft: &PersonaDraft) -> (Option<Persona>, Vec<Finding>) {
    let mut findings = Vec::new();
    let found = &mut findings;
    let name = name(found, &draft.name, draft.place, "name", AgentName::parse);
    let description = description(found, &draft.description, draft.place);
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
    if !findings.is_empty() {
        return (None, arrange(findings));
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

/// The description that a workflow and an agent must both have.
fn description(found: &mut Vec<Finding>, field: &Field<String>, place: Place) -> Option<String> {
    let description = required(found, field, place, "description");
    length(found, field, "description", limits::DESCRIPTION_BYTES_MAX);
    description
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
            found.push(
                Finding::new(Rule::UnknownValue, &at.path, at.place, message)
                    .expected("simple, moderate or high", other)
                    .suggest(did_you_mean(other, ["simple", "moderate", "high"])),
            );
            None
        }
    }
}

/// The steps of a draft; `None` where one of them cannot be one.
fn steps(found: &mut Vec<Finding>, draft: &WorkflowDraft, agents: &Agents) -> Option<Vec<Step>> {
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
    step::duplicate_ids(found, &list.value, draft.form);
    let dependencies = order::dependencies(found, &list.value, draft.form);
    let steps: Vec<_> = list
        .value
        .iter()
        .zip(dependencies)
        .map(|(step, depends_on)| step::step(found, step, draft.form, depends_on, agents))
        .collect();
    steps.into_iter().collect()
}
