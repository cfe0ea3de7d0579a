//! Formats JSON values as text without terminal control characters.

use std::fmt::Write;

use serde_json::Value;

use super::{screen::one_line, visible::is_hidden};
pub(super) use midex_domain::format::{format_bytes, format_duration};
use midex_domain::{event::OutputFailure, view::StatusView};

/// A value in one line: only its summary, if it has one.
pub(super) fn one_line_summary(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => one_line(text),
        value => match value.get("summary").and_then(Value::as_str) {
            Some(summary) => one_line(summary),
            None => one_line(&value.to_string()),
        },
    }
}

/// Whether a value has content: null and an object of nulls have none.
pub(super) fn has_content(value: &Value) -> bool {
    match value.as_object() {
        Some(values) => values.values().any(|value| !value.is_null()),
        None => !value.is_null(),
    }
}

/// The fields of a value, each in one line; a value that is no object is one line.
pub(super) fn field_lines(value: &Value) -> Vec<String> {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(_, value)| !value.is_null() && **value != Value::Array(Vec::new()))
            .map(|(name, value)| format!("{}: {}", one_line(name), one_line_summary(value)))
            .collect(),
        value => vec![one_line_summary(value)],
    }
}

/// A text field of a JSON object in one line; empty if it is missing.
pub(super) fn text_field(value: &Value, name: &str) -> String {
    one_line(value[name].as_str().unwrap_or_default())
}

/// The items of a list; empty if the value is not a list.
pub(super) fn list_items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A text that may be missing, in one line.
pub(super) fn optional_text_line(text: Option<&str>) -> String {
    one_line(text.unwrap_or_default())
}

/// The parts of an execution's final output that could not be computed, one per line.
pub(super) fn final_output_faults(status: &StatusView) -> Vec<String> {
    let line = |fault: &OutputFailure| {
        let part = fault.part.as_deref().unwrap_or("final_output");
        format!("{part} could not be computed: {}", one_line(&fault.message))
    };
    status.final_output_error.iter().map(line).collect()
}

/// A number with its noun.
pub(super) fn format_number(count: u64, singular: &str, plural: &str) -> String {
    format!("{count} {}", if count == 1 { singular } else { plural })
}

/// Where a text stops being JSON; the parser's own message is left out.
pub(super) fn describe_json_error(error: &serde_json::Error) -> String {
    match (error.is_eof(), error.line(), error.column()) {
        (true, ..) => "not JSON: it ends too early".to_owned(),
        (false, 1, column) => format!("not JSON from column {column} on"),
        (false, line, column) => format!("not JSON from line {line}, column {column} on"),
    }
}

/// JSON text without control characters: those that JSON allows unescaped are escaped too.
pub(super) fn json_text(value: &Value, pretty: bool) -> String {
    escape_json_text(&if pretty { format!("{value:#}") } else { value.to_string() })
}

/// Escapes control and invisible characters in text that is JSON already, or a part of JSON.
pub(super) fn escape_json_text(text: &str) -> String {
    let is_hidden = |c| c != '\n' && is_hidden(c);
    if !text.contains(is_hidden) {
        return text.to_owned();
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if !is_hidden(c) {
            escaped.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(escaped, "\\u{unit:04x}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_cannot_control_terminal() {
        let evil = "a\u{1b}[2J\r\n\u{9b}31m\tb\u{200b}\u{202e}\u{e0041}";
        for text in [
            one_line_summary(&json!(evil)),
            one_line_summary(&json!({ "summary": evil })),
            json_text(&json!({ evil: [evil, "\u{7f}"] }), false),
        ] {
            assert!(!text.contains(is_hidden), "{text:?}");
        }
        let value = json!({ "a": ["\u{9b}\u{7f}\u{200b}\u{e0041}"] });
        let parsed: Value = serde_json::from_str(&json_text(&value, true)).expect("JSON");
        assert_eq!(parsed, value);
    }
}
