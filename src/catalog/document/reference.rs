//! References (`$ref`) within a document.

use std::fmt;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use midex_domain::{limits, truncate::truncate_to_chars};

/// Why a reference cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BrokenReference {
    /// It points out of the document.
    External(String),
    /// Its target does not exist.
    Missing(String),
    /// It is circular, or the chain of references is too long.
    Endless(String),
}

impl fmt::Display for BrokenReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::External(text) => write!(
                f,
                "`$ref: {text}` leads out of the document, and midex fetches nothing: bundle the document into one file first (`npx @redocly/cli bundle`)"
            ),
            Self::Missing(text) => write!(f, "`$ref: {text}` leads to nothing in the document"),
            Self::Endless(text) => write!(
                f,
                "`$ref: {text}` leads to itself, or over more than {} others",
                limits::REFERENCE_HOPS_MAX
            ),
        }
    }
}

/// The `$ref` of a value, if it has one.
pub(super) fn get_reference(value: &Value) -> Option<&str> {
    value.get("$ref")?.as_str()
}

/// Follows references from `value` until a value that is no reference.
pub(super) fn follow_references<'a>(
    root: &'a Value,
    value: &'a Value,
) -> Result<&'a Value, BrokenReference> {
    let mut current = value;
    for _ in 0..limits::REFERENCE_HOPS_MAX {
        let Some(text) = get_reference(current) else {
            return Ok(current);
        };
        current = resolve_reference(root, text)?;
    }
    let text = get_reference(value).unwrap_or_default();
    Err(BrokenReference::Endless(shorten_reference(text)))
}

/// The target of one reference.
pub(super) fn resolve_reference<'a>(
    root: &'a Value,
    text: &str,
) -> Result<&'a Value, BrokenReference> {
    let pointer = parse_reference_pointer(text)?;
    let target = root.pointer(&pointer);
    target.ok_or_else(|| BrokenReference::Missing(shorten_reference(text)))
}

/// The JSON pointer of a reference within the document.
pub(super) fn parse_reference_pointer(text: &str) -> Result<String, BrokenReference> {
    let Some(fragment) = text.strip_prefix('#') else {
        return Err(BrokenReference::External(shorten_reference(text)));
    };
    Ok(percent_decode_str(fragment).decode_utf8_lossy().into_owned())
}

fn shorten_reference(text: &str) -> String {
    truncate_to_chars(text, limits::VIOLATION_PART_CHARS_MAX).to_string()
}

/// The entries of the mapping under a key; none if there is no mapping.
pub(super) fn get_entries<'a>(
    value: &'a Value,
    key: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
    let map: Option<&Map<String, Value>> = value.get(key).and_then(Value::as_object);
    map.into_iter().flatten()
}

/// The text under a key; empty if there is no text.
pub(super) fn get_text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The flag under a key; false if there is no flag.
pub(super) fn get_flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or_default()
}
