//! A tool result contains its answer twice: as text, and as `structuredContent`. The answer is serialized once. If the
//! line transport writes the result, it copies that text into the line instead of serializing the answer again.

use rmcp::{
    RoleServer,
    model::{CallToolResult, ContentBlock, JsonRpcMessage, ProtocolVersion, ServerResult},
    service::{RequestContext, TxJsonRpcMessage},
};
use serde::Serialize;
use serde_json::json;

use midex_domain::error::{Error, Result};

/// A marker in the extensions of a request: its result is written by [`encode_message`].
#[derive(Clone, Copy, Debug)]
pub(super) struct SplicedResult;

/// A placeholder for structured content that equals the text of the result.
const STRUCTURED_PLACEHOLDER: &str = "(the text of this result)";
/// The placeholder as it occurs in a serialized line. It cannot occur inside a text, where quotes are escaped.
const ENCODED_PLACEHOLDER: &[u8] = br#""structuredContent":"(the text of this result)""#;

/// The result of a call that answers with `view`.
pub(super) fn build_spliced_result(
    view: &impl Serialize,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult> {
    let structured_content = if context.extensions.get::<SplicedResult>().is_some() {
        serde_json::to_string(view).map(|text| {
            let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
            result.structured_content = Some(STRUCTURED_PLACEHOLDER.into());
            result
        })
    } else {
        serde_json::to_value(view).map(CallToolResult::structured)
    };
    structured_content.map_err(|error| Error::internal("a view cannot be shown").with_source(error))
}

/// Serializes a message of the line transport as JSON, and fills in the placeholder.
pub(super) fn encode_message(
    message: &TxJsonRpcMessage<RoleServer>,
) -> serde_json::Result<Vec<u8>> {
    if let JsonRpcMessage::Response(response) = message
        && let ServerResult::InitializeResult(result) = &response.result
        && result.protocol_version == ProtocolVersion::V_2025_11_25
    {
        // rmcp lacks this capability.
        let mut message = serde_json::to_value(message)?;
        message["result"]["capabilities"]["tasks"] =
            json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
        return serde_json::to_vec(&message);
    }
    let Some(text) = find_placeholder_text(message) else {
        return serde_json::to_vec(message);
    };
    let mut line = Vec::with_capacity(estimate_line_capacity(text));
    serde_json::to_writer(&mut line, message)?;
    let placeholder_start =
        line.windows(ENCODED_PLACEHOLDER.len()).rposition(|bytes| bytes == ENCODED_PLACEHOLDER);
    if let Some(placeholder_start) = placeholder_start {
        let end = placeholder_start + ENCODED_PLACEHOLDER.len();
        let rest = line.split_off(end);
        line.truncate(end - STRUCTURED_PLACEHOLDER.len() - 2);
        line.extend_from_slice(text.as_bytes());
        line.extend_from_slice(&rest);
    }
    Ok(line)
}

/// The text of a result whose structured content is the placeholder.
fn find_placeholder_text(message: &TxJsonRpcMessage<RoleServer>) -> Option<&str> {
    let JsonRpcMessage::Response(response) = message else {
        return None;
    };
    let ServerResult::CallToolResult(result) = &response.result else {
        return None;
    };
    let is_spliced = result.structured_content.as_ref()?.as_str() == Some(STRUCTURED_PLACEHOLDER);
    let text = is_spliced.then(|| result.content.first()?.as_text())??;
    Some(&text.text)
}

/// The capacity for a line: the text twice, once with its quotes escaped, plus the rest of the message.
fn estimate_line_capacity(text: &str) -> usize {
    text.len() * 9 / 4 + 512
}

#[cfg(test)]
mod tests {
    use rmcp::model::RequestId;
    use serde_json::json;

    use super::*;

    fn encode_result(result: CallToolResult) -> Vec<u8> {
        let result = ServerResult::CallToolResult(result);
        let message = JsonRpcMessage::response(result, RequestId::Number(7));
        encode_message(&message).expect("JSON")
    }

    #[test]
    fn spliced_line_equals_rmcp_line() {
        for view in [
            json!({}),
            json!({ "a": str::from_utf8(ENCODED_PLACEHOLDER).expect("UTF-8"), "b": [1.5, "é\n\\", null] }),
        ] {
            let whole = CallToolResult::structured(view.clone());
            let mut spliced = whole.clone();
            spliced.structured_content = Some(STRUCTURED_PLACEHOLDER.into());
            assert_eq!(encode_result(spliced), encode_result(whole), "{view}");
        }
    }
}
