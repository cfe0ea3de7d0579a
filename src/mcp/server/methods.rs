//! The names of the requests that the server supports.

/// Methods that this server supports. If rmcp cannot decode a request for one of them, its parameters are invalid.
const KNOWN_METHODS: &[&str] = &[
    "server/discover",
    "tools/call",
    "tools/list",
    "resources/read",
    "resources/list",
    "resources/templates/list",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "skills/list",
    "skills/get",
];
/// Additional methods for clients with a handshake.
const SESSION_METHODS: &[&str] = &["initialize", "resources/subscribe", "resources/unsubscribe"];
/// Additional methods for clients without a handshake.
const STATELESS_METHODS: &[&str] =
    &["subscriptions/listen", "tasks/get", "tasks/update", "tasks/cancel"];

/// Whether the server supports a method, for clients with a handshake or without one (`is_modern`).
pub(super) fn is_known_method(method: &str, is_modern: bool) -> bool {
    let era_methods = if is_modern { STATELESS_METHODS } else { SESSION_METHODS };
    KNOWN_METHODS.contains(&method) || era_methods.contains(&method)
}
