//! Lets a caller skip personas that are still in its context.

use serde_json::{Map, Value, json};

use midex_domain::limits;

/// The schema of the argument that lists the agents whose personas to skip.
pub(super) fn known_agents_schema() -> Value {
    json!({
        "type": "array", "items": { "type": "string", "maxLength": limits::AGENT_NAME_BYTES_MAX },
        "maxItems": limits::STEPS_MAX,
        "description": "Agents whose persona you still have"
    })
}

/// The agents that the argument lists.
pub(crate) fn known_agents(arguments: &Map<String, Value>) -> Vec<String> {
    let names = arguments.get("known_agents").and_then(Value::as_array);
    let names = names.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}
