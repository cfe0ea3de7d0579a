//! Reads the flags `--inputs` and `--input`.

use std::path::Path;

use serde_json::{Map, Value};

use super::{
    field::{InputField, select_violated_fields},
    input::read_file,
};
use crate::value::describe_json_error;
use midex_domain::{
    document::oversized_integer_message,
    error::{Code, Error, Result},
    input::parse_typed_text,
    limits,
    view::InputView,
};

/// Reads `--inputs`: a JSON object, or `@` and a file that holds one.
///
/// # Errors
/// `USAGE_INVALID` if it is no object; `FILE_UNUSABLE`, `LIMIT_EXCEEDED`.
pub(super) fn parse_inputs_flag(flag: &str) -> Result<Value> {
    match parse_json_flag("--inputs", flag, limits::INPUTS_BYTES_MAX) {
        Ok((_, inputs @ Value::Object(_))) => Ok(inputs),
        Ok((place, _)) => {
            let error = Error::new(Code::UsageInvalid, format!("{place}: not a JSON object"));
            Err(error.with_action(INPUTS_OBJECT_ADVICE))
        }
        Err(error) => Err(error.with_action(INPUTS_OBJECT_ADVICE)),
    }
}

const INPUTS_OBJECT_ADVICE: &str =
    "Give a JSON object, or @FILE with one in it; nothing was started";

/// Reads the JSON value of the flag `name`, or of the file that it names after `@`; also returns the place for messages.
///
/// # Errors
/// `USAGE_INVALID` if it is no JSON; `FILE_UNUSABLE`, `LIMIT_EXCEEDED`.
pub(crate) fn parse_json_flag(name: &str, flag: &str, bytes_max: usize) -> Result<(String, Value)> {
    let (place, text) = match flag.strip_prefix('@') {
        Some(path) => (format!("{name}: {path}"), read_file(Path::new(path), bytes_max)?),
        None => (name.to_owned(), flag.to_owned()),
    };
    if let Some(fault) = oversized_integer_message(text.as_bytes()) {
        return Err(Error::new(Code::UsageInvalid, format!("{place}: {fault}")));
    }
    match serde_json::from_str(&text) {
        Ok(value) => Ok((place, value)),
        Err(error) => {
            let message = format!("{place}: {}", describe_json_error(&error));
            Err(Error::new(Code::UsageInvalid, message)
                .with_action("Give a JSON value, or @FILE with one in it"))
        }
    }
}

/// Splits the value `NAME=VALUE` of the flag `name` into the name and the value.
///
/// # Errors
/// `USAGE_INVALID` without a name or `=`.
pub(crate) fn split_name_and_value(name: &str, flag: &str) -> Result<(String, String)> {
    match flag.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => {
            let message = format!("{name}: there is no name with `=` behind it");
            Err(Error::new(Code::UsageInvalid, message)
                .with_context("flag", name)
                .with_action("Write {flag} NAME=VALUE; nothing was started"))
        }
    }
}

/// Adds each `--input` to the object of `--inputs`, read as the type in its schema, or as a text if none is declared.
pub(crate) fn merge_inputs(
    json_inputs: Option<Value>,
    single_inputs: Vec<(String, String)>,
    schemas: &[(String, Value)],
) -> Option<Value> {
    if single_inputs.is_empty() {
        return json_inputs;
    }
    let mut inputs = match json_inputs {
        Some(Value::Object(inputs)) => inputs,
        _ => Map::new(),
    };
    for (name, text) in single_inputs {
        let input = schemas.iter().find(|(known, _)| *known == name);
        let schema = input.map_or(&Value::Null, |(_, schema)| schema);
        let kind = serde_json::from_value(schema["type"].clone()).ok();
        let choices = schema["enum"].as_array().map_or(&[][..], Vec::as_slice);
        let value = parse_typed_text(kind, choices, &text);
        inputs.insert(name, value);
    }
    Some(Value::Object(inputs))
}

/// Whether an execution with the inputs `stored_inputs` can have been started with `given_inputs`. If the workflow declares inputs,
/// `stored_inputs` holds their defaults too.
pub(super) fn has_same_inputs(
    given_inputs: Option<&Value>,
    stored_inputs: &Value,
    has_declared: bool,
) -> bool {
    let Some(given_inputs) = given_inputs else { return true };
    match given_inputs {
        Value::Object(object) if has_declared => object
            .iter()
            .all(|(name, value)| value.is_null() || stored_inputs.get(name) == Some(value)),
        value => value == stored_inputs,
    }
}

/// Adds to an error about inputs how they are written as flags.
pub(super) fn explain_as_flags(error: Error, declared_inputs: &[InputView]) -> Error {
    if error.code() != Code::InputsInvalid {
        return error;
    }
    let fields: Vec<_> = declared_inputs.iter().map(InputField::from_input).collect();
    let refused_fields = select_violated_fields(&fields, error.violations(), &Map::new());
    let descriptions: Vec<_> = refused_fields.iter().map(InputField::describe_as_flag).collect();
    if descriptions.is_empty() {
        return error.with_action("Leave --input and --inputs out: this workflow takes none");
    }
    error
        .with_context("takes", descriptions.join("; "))
        .with_action("Write --input NAME=VALUE, or all in --inputs JSON. {takes}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::command::suggested_action;
    use midex_domain::error::Violation;

    #[test]
    fn inputs_are_an_object() {
        assert_eq!(parse_inputs_flag(r#"{"a":1}"#).expect("inputs")["a"], 1);
        for flag in ["", "x", "[1]", "3", "{"] {
            let error = parse_inputs_flag(flag).expect_err("no inputs");
            assert_eq!(error.code(), Code::UsageInvalid, "{flag}");
        }
        let error = parse_inputs_flag("@/no/such/file").expect_err("no file");
        assert_eq!(error.code(), Code::FileUnusable);
        assert!(error.message().contains("/no/such/file"));
    }

    #[test]
    fn single_inputs_are_read_as_their_types() {
        let declared = [
            ("n", json!({ "type": "integer" })),
            ("s", json!({ "type": "string" })),
            ("l", json!({ "type": "array" })),
            ("e", json!({ "enum": [1, "2"] })),
        ]
        .map(|(name, schema)| (name.to_owned(), schema));
        let flags = ["n=5", "s=5", "l=[1,{}]", "e=1", "x=5", "s=a=b"];
        let single =
            flags.map(|flag| split_name_and_value("--input", flag).expect("a flag")).to_vec();
        let json_inputs = json!({ "n": 1, "kept": true });
        assert_eq!(
            merge_inputs(Some(json_inputs), single, &declared),
            Some(json!({ "n": 5, "kept": true, "s": "a=b", "l": [1, {}], "e": 1, "x": "5" }))
        );
        let error_code = split_error_code("n");
        assert_eq!(error_code, split_error_code("=n"));
        assert_eq!(merge_inputs(None, Vec::new(), &declared), None);
    }

    #[test]
    fn a_refusal_says_what_to_write() {
        let declared = [
            json!({ "name": "topic", "required": true, "schema": { "type": "string" } }),
            json!({ "name": "n", "required": true, "schema": { "type": "integer", "minimum": 1 } }),
        ];
        let declared = declared.map(|it| serde_json::from_value(it).expect("an input"));
        let action_for = |path: &str| {
            let violation = Violation::new(path, "type", "no");
            let error = Error::new(Code::InputsInvalid, "x").with_violations(vec![violation]);
            suggested_action(&explain_as_flags(error, &declared))
        };
        assert_eq!(
            action_for("inputs.n"),
            "Write --input NAME=VALUE, or all in --inputs JSON. n (whole number; at least 1)"
        );
        assert!(action_for("inputs").ends_with("topic (text); n (whole number; at least 1)"));
        let error = explain_as_flags(Error::new(Code::InputsInvalid, "x"), &[]);
        assert!(suggested_action(&error).contains("takes none"));
    }

    fn split_error_code(flag: &str) -> Code {
        split_name_and_value("--input", flag).expect_err("no flag").code()
    }

    #[test]
    fn stored_inputs_may_have_defaults() {
        let stored = json!({ "a": 1, "b": 2 });
        for (given, declared, expected) in [
            (None, false, true),
            (Some(json!({ "a": 1 })), true, true),
            (Some(json!({ "a": 1, "b": null })), true, true),
            (Some(json!({ "a": 2 })), true, false),
            (Some(json!({ "c": 1 })), true, false),
            (Some(json!({ "a": 1 })), false, false),
            (Some(stored.clone()), false, true),
        ] {
            assert_eq!(has_same_inputs(given.as_ref(), &stored, declared), expected, "{given:?}");
        }
    }
}
