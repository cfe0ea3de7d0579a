//! The parts of a JSON-RPC message that a relay needs. Everything else is copied unchanged.

use std::borrow::Cow;

use rmcp::model::{RequestId, SubscriptionFilter};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value, json, value::RawValue};

use crate::{
    metadata, resources,
    tools::{self, Toolsets},
};

/// The metadata key for the protocol version of a request, since 2026-07-28.
const PROTOCOL_VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

/// The envelope of a message. A line without one is parsed to an empty envelope.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// The parameters of a tool call that decide whether it may be repeated.
#[derive(Deserialize)]
pub(super) struct ToolCallParameters {
    #[serde(default)]
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    #[serde(default)]
    task: Option<IgnoredAny>,
}

/// The parameters of `subscriptions/listen`.
#[derive(Deserialize)]
struct ListenParams {
    notifications: SubscriptionFilter,
}

/// The parameters of requests that name a resource.
#[derive(Deserialize)]
struct ResourceParams {
    uri: String,
}

impl ResourceParams {
    fn needs_no_store(&self) -> bool {
        resources::needs_no_store(&self.uri)
    }
}

/// The kind of a request, as far as repeating it after a takeover is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestRepeatability {
    /// May be repeated: a read, a call with a token, or a start with an execution id chosen by the caller.
    Repeatable,
    /// The handshake.
    Handshake,
    /// Starts or ends a subscription to a resource.
    Subscription { uri: String, begins: bool },
    /// Notifies the client of everything that matches the filter, until it is cancelled.
    Listen(SubscriptionFilter),
    /// Must not be repeated, since it may have been done.
    Once,
}

impl<'a> Message<'a> {
    pub(super) fn parse(line: &'a [u8]) -> Self {
        serde_json::from_slice(line).unwrap_or_default()
    }

    pub(super) fn id(&self) -> Option<RequestId> {
        serde_json::from_str(self.id?.get()).ok()
    }

    /// The parameters, if they have this type.
    pub(super) fn params<T: Deserialize<'a>>(&self) -> Option<T> {
        serde_json::from_str(self.params?.get()).ok()
    }

    /// Whether any server with the same definitions can answer the request without a store.
    pub(super) fn needs_no_store(&self) -> bool {
        match self.method.as_deref() {
            Some(
                "initialize"
                | "notifications/initialized"
                | "ping"
                | "server/discover"
                | "tools/list"
                | "resources/list"
                | "resources/templates/list"
                | "prompts/list"
                | "skills/list"
                | "skills/get",
            ) => true,
            Some("resources/read") => {
                self.params().is_some_and(|read: ResourceParams| read.needs_no_store())
            }
            Some("tools/call") => self.tool_call().is_some_and(|call| {
                matches!(&*call.name, "workflow.read" | "workflow_read")
                    && serde_json::from_value(Value::Object(call.arguments))
                        .is_ok_and(|read: ResourceParams| read.needs_no_store())
            }),
            _ => false,
        }
    }

    /// Whether the line is not a valid request, notification or response.
    pub(super) fn is_invalid(&self) -> bool {
        let is_answer = self.id().is_some() && (self.result.is_some() || self.error.is_some());
        (self.method.is_none() && !is_answer) || (self.id.is_some() && self.id().is_none())
    }

    /// The request that this notification cancels.
    pub(super) fn cancelled_request(&self) -> Option<RequestId> {
        #[derive(Deserialize)]
        struct CancelledParams {
            #[serde(rename = "requestId")]
            request_id: RequestId,
        }
        let is_cancellation = self.method.as_deref() == Some("notifications/cancelled");
        let params: Option<CancelledParams> = is_cancellation.then(|| self.params()).flatten();
        params.map(|cancelled| cancelled.request_id)
    }

    /// The kind of the request.
    pub(super) fn repeatability(&self) -> RequestRepeatability {
        match self.method.as_deref() {
            Some("initialize") => RequestRepeatability::Handshake,
            Some("tools/call") => self
                .tool_call()
                .map_or(RequestRepeatability::Repeatable, |call| call.repeatability()),
            Some("resources/subscribe") => self.classify_subscription(true),
            Some("resources/unsubscribe") => self.classify_subscription(false),
            Some("subscriptions/listen") => {
                let listen: Option<ListenParams> = self.params();
                listen.map_or(RequestRepeatability::Repeatable, |listen| {
                    RequestRepeatability::Listen(listen.notifications)
                })
            }
            _ => RequestRepeatability::Repeatable,
        }
    }

    /// The tool call, if the request is one.
    pub(super) fn tool_call(&self) -> Option<ToolCallParameters> {
        let is_tool_call = self.method.as_deref() == Some("tools/call");
        is_tool_call.then(|| self.params()).flatten()
    }

    /// Whether the request names its own protocol version, as requests without a handshake do.
    pub(super) fn is_modern(&self) -> bool {
        #[derive(Deserialize)]
        struct VersionParams {
            #[serde(rename = "_meta")]
            meta: Map<String, Value>,
        }
        let params: Option<VersionParams> = self.params();
        let version = params.and_then(|mut params| params.meta.remove(PROTOCOL_VERSION_KEY));
        let version = version.as_ref().and_then(Value::as_str);
        version.is_some_and(metadata::is_modern_version)
    }

    fn classify_subscription(&self, is_subscribing: bool) -> RequestRepeatability {
        let resource: Option<ResourceParams> = self.params();
        resource.map_or(RequestRepeatability::Repeatable, |ResourceParams { uri }| {
            RequestRepeatability::Subscription { uri, begins: is_subscribing }
        })
    }
}

impl ToolCallParameters {
    /// The dotted name of the tool. For an unknown tool, the name that was used.
    pub(super) fn tool_name(&self) -> &str {
        tools::find_tool(Toolsets::ALL, &self.name).map_or(&*self.name, |tool| tool.name())
    }

    /// The execution that the arguments name.
    pub(super) fn execution_id(&self) -> Option<String> {
        tools::find_execution_id(&self.arguments)
    }

    /// Whether the answer is a task of protocol version 2025-11-25, so that a refusal is an error of the request.
    pub(super) fn is_task(&self) -> bool {
        self.task.is_some()
    }

    /// Whether the call changes definition files.
    pub(super) fn is_definition_write(&self) -> bool {
        matches!(self.tool_name(), "workflow.save" | "workflow.rename" | "workflow.delete")
    }

    /// Whether the call is one of a command, which the list of executions leaves out unless it is asked for calls.
    pub(super) fn is_command_call(&self) -> bool {
        matches!(self.tool_name(), "command.run" | "command.run_safe" | "command.run_destructive")
    }

    fn repeatability(&self) -> RequestRepeatability {
        // Repeating a call of an unknown tool is safe: it is refused again.
        let Ok(tool) = tools::find_tool(Toolsets::ALL, &self.name) else {
            return RequestRepeatability::Repeatable;
        };
        let has_argument = |name| self.arguments.get(name).is_some_and(Value::is_string);
        let is_repeatable = match tool.name() {
            "workflow.start" => has_argument("execution_id"),
            // Without an id, `execution.resume` only lists open executions.
            "execution.resume" => !has_argument("execution_id"),
            _ => tool.is_read_only() || has_argument("token"),
        };
        if is_repeatable { RequestRepeatability::Repeatable } else { RequestRepeatability::Once }
    }
}

/// The message with another id. `None` if it is not a JSON object.
pub(super) fn replace_message_id(line: &[u8], id: &RequestId) -> Option<Vec<u8>> {
    let mut message: Map<String, Value> = serde_json::from_slice(line).ok()?;
    message.insert("id".to_owned(), id.clone().into_json_value());
    serde_json::to_vec(&message).ok()
}

/// A request that the relay itself sends.
pub(super) fn build_request(id: &str, method: &str, params: &Value) -> Vec<u8> {
    let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    request.to_string().into_bytes()
}

/// A notification that the relay itself sends.
pub(super) fn build_notification(method: &str, params: &Value) -> Vec<u8> {
    let notification = json!({ "jsonrpc": "2.0", "method": method, "params": params });
    notification.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeatability_of(method: &str, params: &Value) -> RequestRepeatability {
        Message::parse(&build_request("1", method, params)).repeatability()
    }

    fn tool_call_repeatability(tool: &str, arguments: &Value) -> RequestRepeatability {
        repeatability_of("tools/call", &json!({ "name": tool, "arguments": arguments }))
    }

    #[test]
    fn harmless_calls_are_repeatable() {
        for (tool, arguments) in [
            ("workflow.next_step", json!({ "token": "t" })),
            ("workflow_next_step", json!({ "token": "t" })),
            ("workflow.start", json!({ "execution_id": "e" })),
            ("workflow.read", json!({ "uri": "u" })),
            ("execution.wait", json!({ "execution_id": "e" })),
            ("execution.resume", json!({})),
            ("no.such_tool", json!({})),
        ] {
            assert_eq!(
                tool_call_repeatability(tool, &arguments),
                RequestRepeatability::Repeatable,
                "{tool}"
            );
        }
        for (tool, arguments) in [
            ("workflow.start", json!({ "workflow_name": "w" })),
            ("execution.signal", json!({ "execution_id": "e" })),
            ("execution.pause", json!({ "execution_id": "e" })),
            ("execution.resume", json!({ "execution_id": "e" })),
        ] {
            assert_eq!(
                tool_call_repeatability(tool, &arguments),
                RequestRepeatability::Once,
                "{tool}"
            );
        }
        assert_eq!(
            repeatability_of("resources/read", &json!({})),
            RequestRepeatability::Repeatable
        );
    }

    #[test]
    fn replacing_the_id_keeps_the_rest() {
        let line = build_request("1", "tools/list", &json!({ "cursor": "c" }));
        let other = replace_message_id(&line, &RequestId::Number(7)).expect("an object");
        let message = Message::parse(&other);
        assert_eq!(message.id(), Some(RequestId::Number(7)));
        assert_eq!(message.method.as_deref(), Some("tools/list"));
        assert_eq!(replace_message_id(b"[]", &RequestId::Number(7)), None);
    }
}
