//! Converts results and errors of use cases to MCP. Every error has the same payload everywhere. A refused tool call
//! also has `success: false` and `error`.

use rmcp::model::{CallToolResult, ClientCapabilities, ErrorCode, ErrorData};
use serde_json::{Map, Value, json};

use midex_domain::{
    clock::IdSource,
    error::{Category, Code, Error},
};

/// The result of a refused tool call, marked with `isError` as the protocol requires. `execution_id` is the execution that its
/// arguments name.
pub(super) fn build_error_result(
    error: &Error,
    execution_id: Option<String>,
    tool: &str,
    ids: &dyn IdSource,
) -> CallToolResult {
    let payload = log_error_payload(error, tool, ids);
    let mut body = Map::new();
    body.insert("success".into(), json!(false));
    let is_known_state = !error.code().retryable() && error.code().category() != Category::Internal;
    // If the execution does not exist, the id is empty and the state is `failed`. If the server could not look it up,
    // both are left out.
    let has_state = ["workflow.start", "workflow.next_step"].contains(&tool);
    let execution_id = execution_id.filter(|_| !is_known_state).map(|id| json!(id));
    let id = error.context("execution_id").cloned().or(execution_id);
    let id = id.or_else(|| has_state.then(|| json!("")));
    let unknown_state = (is_known_state && has_state).then(|| json!("failed"));
    let state = error.context("workflow_state").cloned().or(unknown_state);
    body.extend(id.map(|id| ("execution_id".to_owned(), id)));
    body.extend(state.map(|state| ("workflow_state".to_owned(), state)));
    body.insert("error".into(), json!(error.message()));
    body.extend(payload);
    CallToolResult::structured_error(Value::Object(body))
}

/// The error of a request that is not a tool call: a JSON-RPC error with the payload as its data.
pub(super) fn build_error_data(error: &Error, request_name: &str, ids: &dyn IdSource) -> ErrorData {
    let mut payload = log_error_payload(error, request_name, ids);
    if let Some(uri) = error.context("uri") {
        // The field that the protocol defines for the address of a missing resource.
        payload.insert("uri".into(), uri.clone());
    }
    let data = Some(Value::Object(payload));
    let message = error.message().to_owned();
    match error.code() {
        Code::ResourceNotFound
        | Code::ExecutionNotFound
        | Code::ExecutionDeleted
        | Code::WorkflowNotFound => ErrorData::resource_not_found(message, data),
        Code::ArgumentsInvalid
        | Code::ParamsInvalid
        | Code::ToolNotFound
        | Code::PromptNotFound
        | Code::LimitExceeded => ErrorData::invalid_params(message, data),
        Code::TaskCapabilityRequired => {
            let required = ClientCapabilities::builder().enable_tasks().build();
            let mut missing = ErrorData::missing_required_client_capability(required);
            if let (Some(Value::Object(data)), Some(Value::Object(payload))) =
                (&mut missing.data, data)
            {
                data.extend(payload);
            }
            missing.message = message.into();
            missing
        }
        Code::MethodNotFound => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, data),
        Code::RequestInvalid | Code::Unauthorized | Code::Forbidden | Code::SessionNotFound => {
            ErrorData::invalid_request(message, data)
        }
        _ => ErrorData::new(ErrorCode::INTERNAL_ERROR, message, data),
    }
}

/// Adds the midex payload to a protocol error that lacks it.
pub(super) fn add_error_payload(mut error: ErrorData, ids: &dyn IdSource) -> ErrorData {
    if error.data.is_none() {
        let code = match error.code {
            ErrorCode::METHOD_NOT_FOUND => Code::MethodNotFound,
            // rmcp also uses this code for invalid request metadata.
            ErrorCode::INVALID_PARAMS if !error.message.contains("_meta") => Code::ParamsInvalid,
            _ => Code::RequestInvalid,
        };
        let replacement = Error::new(code, error.message.clone());
        let replacement = match error.code {
            ErrorCode::PARSE_ERROR | ErrorCode::INVALID_REQUEST => replacement,
            _ if code == Code::RequestInvalid => replacement.with_action(PROTOCOL_VERSION_ADVICE),
            _ => replacement,
        };
        error.data = Some(Value::Object(log_error_payload(&replacement, "protocol", ids)));
    }
    error
}

/// The advice for a request that names no protocol version, or contradictory ones.
const PROTOCOL_VERSION_ADVICE: &str = "Correct the request: its headers and its `_meta` name one protocol version, and Mcp-Method and \
                       Mcp-Name say what the body says";

/// The error payload, after logging it under its correlation id. The log contains codes and causes, but never request
/// content.
fn log_error_payload(error: &Error, request_name: &str, ids: &dyn IdSource) -> Map<String, Value> {
    let correlation_id = format!("{:016x}", ids.random() >> 64);
    let code = error.code().as_str();
    let cause = find_loggable_cause(error);
    if error.code().category() == Category::Internal {
        tracing::error!(
            correlation_id,
            code,
            request_name,
            cause,
            "a call failed: {}",
            error.message()
        );
    } else if is_invalid_call_code(error.code()) {
        // Log at debug level, since any client that can connect can cause these in large numbers.
        tracing::debug!(correlation_id, code, request_name, cause, "a request was refused");
    } else {
        tracing::info!(correlation_id, code, request_name, cause, "a call was refused");
    }
    error.to_payload(&correlation_id)
}

/// Whether the error refuses input that is not a valid call.
fn is_invalid_call_code(code: Code) -> bool {
    matches!(
        code,
        Code::Unauthorized
            | Code::Forbidden
            | Code::SessionNotFound
            | Code::RequestInvalid
            | Code::ParamsInvalid
            | Code::MethodNotFound
    )
}

/// The cause, for the log. Leaves out panic messages and JSON parser messages, since they may contain request content.
fn find_loggable_cause(error: &Error) -> Option<String> {
    let cause = std::error::Error::source(error)?;
    if cause.is::<tokio::task::JoinError>() {
        return Some("a task did not come to its end".into());
    }
    Some(match cause.downcast_ref::<serde_json::Error>() {
        Some(fault) => format!("{:?} error in JSON", fault.classify()),
        None => cause.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_cause_names_no_values() {
        let parsed = serde_json::from_str::<u32>("\"canary\"").expect_err("no number");
        assert!(parsed.to_string().contains("canary"));
        let panicked = tokio::spawn(async { panic!("{}", "canary".to_owned()) }).await;
        let panicked = panicked.expect_err("a panic");
        assert!(panicked.to_string().contains("canary"));
        let said = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let causes = [
            Error::internal("x").with_source(parsed),
            Error::internal("x").with_source(panicked),
            Error::internal("x").with_source(said),
        ]
        .map(|error| find_loggable_cause(&error).expect("a cause"));
        assert!(causes.iter().all(|cause| !cause.contains("canary")), "{causes:?}");
        assert_eq!(causes[2], "no storage space");
        assert_eq!(find_loggable_cause(&Error::internal("x")), None);
    }
}
