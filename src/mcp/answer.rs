//! Answers: what a use case gives, as MCP has it. Errors have one payload wherever they appear; a refused tool call also
//! carries `success: false` and `error`.

use rmcp::model::{CallToolResult, ErrorCode, ErrorData};
use serde_json::{Map, Value, json};

use midex_domain::{
    clock::IdSource,
    error::{Category, Code, Error},
};

/// A tool's refusal: a result that says `isError`, as the protocol asks of tool failures. `named` is the execution that
/// its arguments name.
pub(super) fn refusal(
    error: &Error,
    named: Option<String>,
    tool: &str,
    ids: &dyn IdSource,
) -> CallToolResult {
    let payload = logged(error, tool, ids);
    let mut body = Map::new();
    body.insert("success".into(), json!(false));
    let could_look = !error.code().retryable() && error.code().category() != Category::Internal;
    // Empty and `failed` where there is no such execution. Where the server could not look, the state is unknown.
    let has_state = ["workflow.start", "workflow.next_step"].contains(&tool);
    let named = named.filter(|_| !could_look).map(|id| json!(id));
    let id = error.context("execution_id").cloned().or(named);
    let id = id.or_else(|| has_state.then(|| json!("")));
    let unknown = (could_look && has_state).then(|| json!("failed"));
    let state = error.context("workflow_state").cloned().or(unknown);
    body.extend(id.map(|id| ("execution_id".to_owned(), id)));
    body.extend(state.map(|state| ("workflow_state".to_owned(), state)));
    body.insert("error".into(), json!(error.message()));
    body.extend(payload);
    CallToolResult::structured_error(Value::Object(body))
}

/// A fault of a request that is no tool call: a JSON-RPC error with the payload as its data.
pub(super) fn fault(error: &Error, what: &str, ids: &dyn IdSource) -> ErrorData {
    let mut payload = logged(error, what, ids);
    if let Some(uri) = error.context("uri") {
        // Where the protocol has the address of a resource that there is not.
        payload.insert("uri".into(), uri.clone());
    }
    let data = Some(Value::Object(payload));
    let message = error.message().to_owned();
    match error.code() {
        Code::ResourceNotFound | Code::ExecutionNotFound | Code::WorkflowNotFound => {
            ErrorData::resource_not_found(message, data)
        }
        Code::ArgumentsInvalid
        | Code::ParamsInvalid
        | Code::ToolNotFound
        | Code::PromptNotFound
        | Code::LimitExceeded => ErrorData::invalid_params(message, data),
        Code::MethodNotFound => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, data),
        Code::RequestInvalid | Code::Unauthorized | Code::Forbidden | Code::SessionNotFound => {
            ErrorData::invalid_request(message, data)
        }
        _ => ErrorData::new(ErrorCode::INTERNAL_ERROR, message, data),
    }
}

/// An error of the protocol with the payload that every error of midex has, where it came without.
pub(super) fn completed(mut error: ErrorData, ids: &dyn IdSource) -> ErrorData {
    if error.data.is_none() {
        let code = match error.code {
            ErrorCode::METHOD_NOT_FOUND => Code::MethodNotFound,
            // rmcp has the same number for what a request says of itself.
            ErrorCode::INVALID_PARAMS if !error.message.contains("_meta") => Code::ParamsInvalid,
            _ => Code::RequestInvalid,
        };
        let ours = Error::new(code, error.message.clone());
        let ours = match error.code {
            ErrorCode::PARSE_ERROR | ErrorCode::INVALID_REQUEST => ours,
            _ if code == Code::RequestInvalid => ours.with_action(AT_ODDS),
            _ => ours,
        };
        error.data = Some(Value::Object(logged(&ours, "protocol", ids)));
    }
    error
}

/// What to do where a request does not say which protocol it speaks, or says two things.
const AT_ODDS: &str = "Correct the request: its headers and its `_meta` name one protocol version, and Mcp-Method and \
                       Mcp-Name say what the body says";

/// The payload, logged under its correlation id. The log names codes and causes, never what was sent.
fn logged(error: &Error, what: &str, ids: &dyn IdSource) -> Map<String, Value> {
    let correlation_id = format!("{:016x}", ids.random() >> 64);
    let code = error.code().as_str();
    let cause = cause(error);
    if error.code().category() == Category::Internal {
        tracing::error!(
            correlation_id,
            code,
            what,
            cause,
            "a call failed: {}",
            error.message()
        );
    } else if is_of_strangers(error.code()) {
        // Whoever can connect can have these by the thousand.
        tracing::debug!(correlation_id, code, what, cause, "a request was refused");
    } else {
        tracing::info!(correlation_id, code, what, cause, "a call was refused");
    }
    error.payload(&correlation_id)
}

/// Whether it refuses what has not come so far as to be a call.
fn is_of_strangers(code: Code) -> bool {
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

/// Why, for the log. What a task says when it panics may hold what was sent, and what a parser says does hold what it
/// did not understand.
fn cause(error: &Error) -> Option<String> {
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
            Error::internal("x").because(parsed),
            Error::internal("x").because(panicked),
            Error::internal("x").because(said),
        ]
        .map(|error| cause(&error).expect("a cause"));
        assert!(
            causes.iter().all(|cause| !cause.contains("canary")),
            "{causes:?}"
        );
        assert_eq!(causes[2], "no storage space");
        assert_eq!(cause(&Error::internal("x")), None);
    }
}
