//! Lets a caller skip personas that are still in its context.

use serde_json::{Map, Value};

/// The agents whose personas to skip, as the argument `known_agents` lists them.
pub(crate) fn known_agents(arguments: &Map<String, Value>) -> Vec<String> {
    let names = arguments.get("known_agents").and_then(Value::as_array);
    let names = names.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}
