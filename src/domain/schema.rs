//! JSON Schema as midex uses it: compiled once, every violation reported. Schemas never reach for
//! the network or the disk.

use std::fmt;

use jsonschema::{Draft, Validator, error::ValidationErrorKind};
use serde_json::Value;

use crate::{error::Violation, limits};

/// A compiled JSON Schema (2020-12 unless its `$schema` says otherwise).
pub struct Schema(Validator);

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema(..)")
    }
}

impl Schema {
    /// Compiles a schema; the error says what is wrong with it.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        jsonschema::options()
            .with_draft(Draft::Draft202012)
            .build(schema)
            .map(Self)
            .map_err(|error| error.to_string())
    }

    /// What keeps `schema` from being one: a JSON pointer to the fault and words for it.
    pub fn fault(schema: &Value) -> Option<(String, String)> {
        jsonschema::options()
            .with_draft(Draft::Draft202012)
            .build(schema)
            .err()
            .map(|error| (error.instance_path().to_string(), error.to_string()))
    }

    /// Every way in which `value` breaks the schema, at most [`limits::VIOLATIONS_MAX`] of them.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        self.violations_named(value, "the value")
    }

    /// The same, in words about something that has a `name`.
    pub fn violations_named(&self, value: &Value, name: &str) -> Vec<Violation> {
        self.0
            .iter_errors(value)
            .take(limits::VIOLATIONS_MAX)
            .map(|error| violation(&error, name))
            .collect()
    }
}

fn violation(error: &jsonschema::ValidationError<'_>, whole: &str) -> Violation {
    let path = error.instance_path().to_string();
    let expected = match error.kind() {
        ValidationErrorKind::Required { property } => {
            property.as_str().map(|name| format!("property `{name}`"))
        }
        ValidationErrorKind::Enum { options } => Some(options.to_string()),
        ValidationErrorKind::Constant { expected_value } => Some(expected_value.to_string()),
        _ => None,
    };
    Violation {
        rule: error.kind().keyword().to_owned(),
        // The value itself may be large, and may be secret: the message speaks of it by its place.
        message: error
            .masked_with(if path.is_empty() {
                whole.to_owned()
            } else {
                format!("`{path}`")
            })
            .to_string(),
        path,
        expected,
        actual: Some(describe(error.instance())),
        suggestion: None,
    }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "a boolean".into(),
        Value::Number(_) => "a number".into(),
        Value::String(text) => format!("a string of {} characters", text.chars().count()),
        Value::Array(items) => format!("an array of {} items", items.len()),
        Value::Object(map) => format!("an object with {} properties", map.len()),
    }
}
