//! The part of the manifest's JSON Schema that is about `inputs`.
//!
//! What it cannot say stays with `midex validate`: that values and defaults keep the other rules of their input,
//! that a pattern is one, that rules fit the type and each other, and what inputs refer to.

use serde_json::{Map, Value, json};

use super::{
    inputs::{DEFAULT, INPUT, VALIDATE},
    keys::Keys,
    schema::{identifier, mapping, not_blank, text},
};
use crate::{
    domain::input::{DefaultFrom, InputType},
    limits,
};

/// The schema of `inputs`.
pub(super) fn inputs() -> Value {
    json!({
        "description": "What the workflow is to be told at its start, in this order; without this key any object is taken, and {} takes nothing",
        "type": "object",
        "propertyNames": identifier(limits::INPUT_NAME_BYTES_MAX, "The name of an input"),
        "additionalProperties": { "$ref": "#/$defs/input" },
        "maxProperties": limits::INPUTS_DECLARED_MAX,
    })
}

/// What `inputs` refers to.
pub(super) fn definitions() -> Map<String, Value> {
    Map::from_iter([("input".to_owned(), closed(&INPUT, &[], input_property))])
}

fn closed(keys: &Keys, required: &[&str], property: fn(&str) -> Value) -> Value {
    Value::Object(mapping(keys, required, false, property))
}

fn words(text_of: &str) -> Value {
    text(limits::DESCRIPTION_BYTES_MAX, text_of)
}

/// Anything but nothing.
fn any(description: &str) -> Value {
    json!({ "description": description, "type": ["string", "number", "boolean", "array", "object"] })
}

fn values() -> Value {
    json!({
        "description": "The values that it may have",
        "type": "array",
        "items": any("One of them"),
        "maxItems": limits::INPUT_ENUM_MAX,
    })
}

fn input_property(key: &str) -> Value {
    match key {
        "name" => words("What people call it"),
        "description" => words("What it is, in a sentence"),
        "placeholder" => words("What an empty field shows"),
        "hint" => words("A word of help"),
        "example" => any("What a value may look like"),
        "type" => json!({
            "description": "The type of its value; without it that is not looked at",
            "enum": InputType::ALL.map(InputType::as_str),
        }),
        "enum" => values(),
        "validate" => closed(&VALIDATE, &[], validate_property),
        "optional" => json!({
            "description": "Whether it may be left out although it has no default: it is null then",
            "type": "boolean",
        }),
        "default" => default(),
        // A test sees to it that no key comes this far.
        _ => json!({}),
    }
}

fn whole(description: &str) -> Value {
    json!({ "description": description, "type": "integer", "minimum": 0 })
}

fn validate_property(key: &str) -> Value {
    match key {
        "required" => json!({
            "description": "Inputs are required unless they say `optional: true`; this may say so again",
            "type": "boolean",
        }),
        "enum" => values(),
        "pattern" => json!({
            "description": "A regular expression that is found in it; anchored only where it says so",
            "type": "string",
            "maxLength": limits::INPUT_PATTERN_BYTES_MAX,
        }),
        "min_length" => whole("The fewest characters"),
        "max_length" => whole("The most characters"),
        "min" => json!({ "description": "The least number", "type": "number" }),
        "max" => json!({ "description": "The greatest number", "type": "number" }),
        // A test sees to it that no key comes this far.
        _ => json!({}),
    }
}

fn default() -> Value {
    let mut schema = mapping(&DEFAULT, &["from"], false, |key| match key {
        "from" => json!({
            "description": "Where the value comes from: from here, from an environment variable that the server lets in, from the execution before",
            "enum": DefaultFrom::NAMES,
        }),
        _ => any("The value, or the name of the environment variable"),
    });
    let when = |from: &str, value: Value| {
        json!({
            "if": { "properties": { "from": { "const": from } } },
            "then": { "required": ["value"], "properties": { "value": value } },
        })
    };
    let no_template = json!({ "not": { "type": "string", "pattern": r"\$\{\{" } });
    let variable = json!({ "type": "string", "pattern": not_blank() });
    schema.insert(
        "allOf".into(),
        json!([when("literal", no_template), when("env", variable)]),
    );
    Value::Object(schema)
}
