//! Answers that are the same whatever is asked.

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, ResourceContents};

/// One green pixel.
pub(crate) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mPQyDsBAAIgAV8TLdKwAAAAAElFTkSuQmCC";
/// Four samples of sound.
const WAV: &str = "UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQQAAACAyIA4";

pub(crate) fn said(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

pub(crate) fn refused(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

pub(crate) fn text(_: &JsonObject) -> CallToolResult {
    said("This is a simple text response for testing.")
}

pub(crate) fn error(_: &JsonObject) -> CallToolResult {
    refused("This tool intentionally returns an error for testing")
}

pub(crate) fn image(_: &JsonObject) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::image(PNG, "image/png")])
}

pub(crate) fn audio(_: &JsonObject) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::audio(WAV, "audio/wav")])
}

pub(crate) fn embedded(_: &JsonObject) -> CallToolResult {
    let text = "This is an embedded resource content.";
    let resource = ResourceContents::text(text, "test://embedded-resource");
    let resource = resource.with_mime_type("text/plain");
    CallToolResult::success(vec![ContentBlock::resource(resource)])
}

pub(crate) fn mixed(_: &JsonObject) -> CallToolResult {
    let text = r#"{"test":"data","value":123}"#;
    let resource = ResourceContents::text(text, "test://mixed-content-resource");
    CallToolResult::success(vec![
        ContentBlock::text("Multiple content types test:"),
        ContentBlock::image(PNG, "image/png"),
        ContentBlock::resource(resource.with_mime_type("application/json")),
    ])
}

pub(crate) fn greeting(arguments: &JsonObject) -> CallToolResult {
    said(format!("Hello, {}!", word(arguments, "name")))
}

pub(crate) fn echo(arguments: &JsonObject) -> CallToolResult {
    said(serde_json::Value::Object(arguments.clone()).to_string())
}

/// A text among the arguments; empty where there is none.
pub(crate) fn word<'a>(arguments: &'a JsonObject, name: &str) -> &'a str {
    arguments.get(name).and_then(serde_json::Value::as_str).unwrap_or_default()
}
