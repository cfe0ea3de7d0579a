//! Lets a caller skip personas that are still in its context.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use midex_domain::limits;

/// The agents whose personas to skip. Tools that advance a workflow only list it: the server reads it from their
/// arguments, since it holds for a reply after questions too.
#[derive(Deserialize, JsonSchema)]
pub(super) struct KnownAgents {
    /// Whose persona you have
    #[schemars(length(max = limits::STEPS_MAX), inner(length(max = limits::AGENT_NAME_BYTES_MAX)))]
    pub(super) known_agents: Option<Vec<String>>,
}

/// The agents whose personas to skip, as the argument `known_agents` lists them.
pub(crate) fn read_known_agents(arguments: &Map<String, Value>) -> Vec<String> {
    let names = arguments.get("known_agents").and_then(Value::as_array);
    let names = names.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}
