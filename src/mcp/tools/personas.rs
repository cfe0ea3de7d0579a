//! A caller that still has a persona in its context need not be sent it again.

use serde_json::{Map, Value, json};

use crate::{domain::view::Advanced, error::Result, limits};

/// The schema of the argument that names those agents.
pub(super) fn known_agents_schema() -> Value {
    json!({
        "type": "array", "items": { "type": "string", "maxLength": limits::AGENT_NAME_BYTES_MAX },
        "maxItems": limits::STEPS_MAX,
        "description": "Agents whose persona you still have in your context: agent_content is left out for them"
    })
}

/// Takes the agents' names out of the arguments.
pub(super) fn take_known_agents(arguments: &mut Map<String, Value>) -> Vec<String> {
    let names = arguments.remove("known_agents");
    let names = names
        .as_ref()
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Leaves out of a reply the personas of the agents that its caller knows.
pub(super) fn leave_out(reply: &mut Value, known: &[String]) {
    let Some(fields) = reply.as_object_mut() else {
        return;
    };
    let agent = fields.get("agent_name").and_then(Value::as_str);
    if agent.is_some_and(|agent| known.iter().any(|name| name == agent)) {
        fields.remove("agent_content");
    }
    for list in ["new_tokens", "open_steps", "ready_steps"] {
        let steps = fields.get_mut(list).and_then(Value::as_array_mut);
        steps
            .into_iter()
            .flatten()
            .for_each(|step| leave_out(step, known));
    }
}

/// How the replies to a call with these arguments are shown.
#[derive(Debug)]
pub(in crate::mcp) struct Shown(Vec<String>);

impl Shown {
    pub(in crate::mcp) fn to(arguments: &Map<String, Value>) -> Self {
        Self(take_known_agents(&mut arguments.clone()))
    }

    /// A reply, without the personas that the caller knows.
    pub(in crate::mcp) fn view(&self, reply: &Advanced) -> Result<Value> {
        let mut reply = super::view(reply)?;
        leave_out(&mut reply, &self.0);
        Ok(reply)
    }
}
