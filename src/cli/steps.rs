//! Reads the open steps of an execution, each with everything that is needed to do it.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::link::{ServerLink, parse_reply};
use midex_domain::{error::Result, view::ReadyStep};

/// The fields of the first open step that `current_step` has only at its top level.
const FIRST_STEP_FIELDS: &str =
    "description agent_content instructions input output_schema example previous inputs";

/// An open step.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct OpenStep {
    /// The execution, which may be a child of the one that was started.
    pub(super) execution_id: String,
    /// The workflow of that execution.
    pub(super) workflow_name: Option<String>,
    #[serde(flatten)]
    pub(super) ready: ReadyStep,
    /// The persona of its agent.
    pub(super) agent_content: Option<String>,
    /// The inputs of the execution; only the first open step has them.
    pub(super) inputs: Option<Value>,
    /// The fields of the step as the server sent them, for a command that reads JSON.
    #[serde(skip)]
    pub(super) json: Value,
}

impl OpenStep {
    pub(super) fn name(&self) -> &str {
        &self.ready.step_name
    }

    /// Its kind: `agent`, `input`, `tool` and so on.
    pub(super) fn kind(&self) -> &str {
        &self.ready.step.kind
    }

    /// The structured input of the step, if it has one.
    pub(super) fn input(&self) -> Option<&Value> {
        self.ready.step.input.as_ref()
    }

    /// A key that identifies this turn of the step.
    pub(super) fn turn_key(&self) -> String {
        let step = &self.ready.step;
        let turn = (step.visit, step.attempt, step.item);
        format!("{:?}", (&self.execution_id, self.name(), turn))
    }
}

/// The open steps of the reply `current_step`, each with the persona of its agent.
pub(super) async fn fetch_open_steps(
    link: &mut ServerLink<'_>,
    current: &Value,
) -> Result<Vec<OpenStep>> {
    let mut ready_steps = current["ready_steps"].clone();
    for field in FIRST_STEP_FIELDS.split(' ') {
        if let (Some(first_step), Some(value)) = (ready_steps.get_mut(0), current.get(field)) {
            first_step[field] = value.clone();
        }
    }
    let mut personas = HashMap::new();
    let mut steps = Vec::new();
    for json in ready_steps.as_array_mut().into_iter().flatten() {
        // All entries of the list have the same keys: null means that a step lacks the field.
        if let Value::Object(fields) = json {
            fields.retain(|_, value| !value.is_null());
        }
        json["execution_id"] = current["execution_id"].clone();
        let mut step: OpenStep = parse_reply(json.clone())?;
        step.workflow_name = current["workflow_name"].as_str().map(str::to_owned);
        if let Some(agent) = &step.ready.agent_name {
            if let Some(address) = &step.ready.agent_uri {
                step.agent_content = link.fetch_persona(address).await?;
            }
            let cached = personas.entry(agent.clone());
            step.agent_content = cached.or_insert(step.agent_content).clone();
            json["agent_content"] = json!(step.agent_content);
        }
        step.json = json.take();
        steps.push(step);
    }
    Ok(steps)
}

#[cfg(test)]
impl OpenStep {
    /// A step with these fields, for tests.
    pub(super) fn from_fields(fields: &Value) -> Self {
        let mut json = json!({
            "execution_id": "x", "progress": "1/1", "continuation_token": "", "expires_at": "", "kind": "agent"
        });
        let object = json.as_object_mut().expect("an object");
        object.extend(fields.as_object().expect("fields").clone());
        let mut step: Self = serde_json::from_value(json.clone()).expect("a step");
        step.json = json;
        step
    }
}
