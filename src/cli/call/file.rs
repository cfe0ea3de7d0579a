//! Writes the payload of an answer to a file, whether it is in the answer or kept as an artifact.

use std::{fs, path::Path};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::Value;

use crate::{link::ServerLink, value::json_text};
use midex_domain::error::{Code, Error, Result, describe_io_error};

/// Writes the payload; an existing file is overwritten.
pub(super) async fn write_payload_file(
    answer: &Value,
    path: &Path,
    link: &mut ServerLink<'_>,
) -> Result<()> {
    let bytes = match answer["artifact"]["uri"].as_str() {
        Some(uri) => read_artifact(uri, link).await?,
        None => payload_bytes(answer),
    };
    fs::write(path, bytes).map_err(|error| {
        let message = format!("{} cannot be written: {}", path.display(), describe_io_error(&error));
        Error::new(Code::FileUnusable, message)
            .with_context("path", path.display().to_string())
            .with_context("execution_id", answer["execution_id"].clone())
            .with_action(
                "The call was done: `midex show {execution_id}` has its answer; for another call name a file that can be written",
            )
            .with_source(error)
    })
}

/// Reads the content of an artifact in parts.
async fn read_artifact(uri: &str, link: &mut ServerLink<'_>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut next_offset = Some(0);
    while let Some(offset) = next_offset {
        let chunk = link.read_artifact(uri, offset).await?;
        let decoded = chunk.base64.as_deref().and_then(decode_base64);
        let content = chunk.content.map(String::into_bytes).or(decoded);
        bytes.extend(content.ok_or_else(no_content_error)?);
        next_offset = chunk.next_offset;
    }
    Ok(bytes)
}

fn no_content_error() -> Error {
    Error::internal("the server shows an artifact without content")
}

fn decode_base64(base64: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(base64).ok()
}

/// The bytes of a payload in the answer: of text, of base64-encoded bytes, else of its JSON.
fn payload_bytes(answer: &Value) -> Vec<u8> {
    let payload = &answer["payload"];
    let content_type = answer["headers"]["content-type"].as_str();
    let media_type = payload["content_type"].as_str();
    // A service's own JSON may have the same form, but then its media type differs.
    let is_binary = media_type
        .is_some_and(|media_type| content_type.unwrap_or_default().starts_with(media_type));
    match payload {
        Value::Null => Vec::new(),
        Value::String(text) => text.clone().into_bytes(),
        payload => payload["base64"]
            .as_str()
            .and_then(decode_base64)
            .filter(|_| is_binary)
            .unwrap_or_else(|| (json_text(payload, true) + "\n").into_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn payload_is_written_unchanged() {
        let bytes_of = |media_type: &str, body: Value| {
            payload_bytes(&json!({ "headers": { "content-type": media_type }, "payload": body }))
        };
        let bytes = json!({ "content_type": "image/png", "base64": "if8=" });
        assert_eq!(bytes_of("image/png", bytes.clone()), [0x89, 0xff]);
        assert!(bytes_of("application/json", bytes).starts_with(b"{"));
        assert_eq!(bytes_of("text/plain", json!("a\u{1b}b")), b"a\x1bb");
        assert_eq!(bytes_of("application/json", json!(null)), b"");
        assert_eq!(bytes_of("application/json", json!([1])), b"[\n  1\n]\n");
    }
}
