//! Reads the open steps from the resource `current_step`.

use std::collections::HashMap;

use serde_json::Value;

use super::link::Link;
use midex_domain::{error::Result, uri};

/// The fields that `current_step` has at its top level for the first open step.
const OWN: &[&str] = &[
    "kind",
    "description",
    "progress",
    "visit",
    "attempt",
    "item",
    "optional",
    "continuation_token",
    "expires_at",
    "agent_content",
    "instructions",
    "input",
    "output_schema",
    "example",
    "previous",
    "inputs",
    "items",
];

/// `current_step` for a `reader`: a `worker` receives valid tokens.
pub(super) async fn read_as(link: &mut Link<'_>, id: &str, reader: &str) -> Result<Value> {
    let id = uri::encode(id);
    let address = format!("midex://workflow/current_step/{id}?reader={reader}");
    link.read(&address).await
}

/// The open steps of `current_step`, each with all of its fields.
fn open(current: &Value) -> Vec<Value> {
    let steps = current["ready_steps"].as_array();
    let mut steps = steps.cloned().unwrap_or_default();
    if let Some(first) = steps.first_mut() {
        for field in OWN {
            if let Some(value) = current.get(field).filter(|value| !value.is_null()) {
                first[field] = value.clone();
            }
        }
    }
    // In the list of steps, missing fields are null.
    let fields = steps.iter_mut().filter_map(Value::as_object_mut);
    fields.for_each(|fields| fields.retain(|_, value| !value.is_null()));
    for step in &mut steps {
        step["execution_id"] = current["execution_id"].clone();
    }
    steps
}

/// The open steps of `current_step`, each with all of its fields and the persona of its agent.
pub(super) async fn open_with_personas(link: &mut Link<'_>, current: &Value) -> Result<Vec<Value>> {
    let mut steps = open(current);
    let mut personas = HashMap::new();
    for step in &mut steps {
        let Some(agent) = step["agent_name"].as_str().map(str::to_owned) else {
            continue;
        };
        if let Some(address) = step["agent_uri"].as_str() {
            step["agent_content"] = link.read(address).await?["content"].take();
        }
        let known = personas
            .entry(agent)
            .or_insert_with(|| step["agent_content"].clone());
        step["agent_content"] = known.clone();
    }
    Ok(steps)
}
