//! Lenient argument handling: JSON that was sent as text, and argument names of other systems.

use serde_json::{Map, Number, Value, json};

use midex_domain::{
    error::{Suggestion, Violation},
    limits,
    nearest::find_nearest,
};

/// Argument names that other systems use for ours.
const ARGUMENT_ALIASES: &[(&str, &[&str])] = &[
    ("token", &["continuation_token", "new_token", "step_token"]),
    ("output", &["result", "outputs", "response", "answer"]),
    ("workflow_name", &["workflow", "name", "workflow_id", "id"]),
    (
        "execution_id",
        &["id", "run_id", "session_id", "thread_id", "execution", "workflow_execution_id"],
    ),
    ("inputs", &["input", "args", "arguments", "params", "parameters", "context"]),
    ("payload", &["data", "value", "body", "output"]),
    ("signal", &["signal_name", "name", "event"]),
    ("timeout_s", &["timeout", "timeout_seconds", "timeout_ms"]),
    ("since_revision", &["revision", "since"]),
    ("step_name", &["step", "step_id", "phase", "name"]),
    ("uri", &["url", "address", "resource", "path"]),
    ("known_agents", &["agents"]),
    ("manifest", &["content", "text", "yaml", "definition", "document", "source"]),
    ("workflow_id", &["workflow_name", "workflow", "name", "id"]),
    ("new_id", &["new_name", "name", "to"]),
    ("overwrite", &["force", "replace"]),
    ("expected_version", &["version", "etag"]),
    ("confirm", &["confirmed", "force", "yes"]),
    ("reason", &["message", "comment", "why"]),
    ("state", &["status"]),
];

/// Parses arguments that were sent as JSON text, if the tool requires another type than text, and writes whole numbers
/// without a fraction.
pub(super) fn normalize_arguments(listed_schema: &Value, arguments: &mut Map<String, Value>) {
    for (name, value) in arguments.iter_mut() {
        let Some(kind) = listed_schema["properties"][name]["type"].as_str() else {
            continue;
        };
        let parsed = value.as_str().map(str::trim).map(serde_json::from_str::<Value>);
        if let Some(Ok(parsed)) = parsed
            && has_json_type(&parsed, kind)
        {
            *value = parsed;
        }
    }
    normalize_whole_numbers(listed_schema, arguments);
}

/// Writes `2.0` as `2` where an integer is required. JSON Schema accepts both.
fn normalize_whole_numbers(listed_schema: &Value, arguments: &mut Map<String, Value>) {
    for (name, value) in arguments {
        let property_schema = &listed_schema["properties"][name];
        match value {
            Value::Number(number) if property_schema["type"] == "integer" => {
                if let Some(whole_number) = to_whole_number(number) {
                    *value = whole_number.into();
                }
            }
            Value::Object(inner) => normalize_whole_numbers(property_schema, inner),
            _ => {}
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be whole and not negative; a cast of what is too large gives the largest"
)]
fn to_whole_number(number: &Number) -> Option<u64> {
    let number = number.as_f64().filter(|_| number.is_f64())?;
    (number.fract() == 0.0 && number >= 0.0).then_some(number as u64)
}

fn has_json_type(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "boolean" => value.is_boolean(),
        "integer" | "number" => value.is_number(),
        _ => false,
    }
}

/// Suggests the intended names for unknown arguments.
pub(super) fn suggest_argument_names(
    listed_schema: &Value,
    arguments: &Value,
    violations: &mut [Violation],
) {
    let unknown_violation = violations
        .iter_mut()
        .find(|violation| violation.rule == "additionalProperties" && violation.path.is_empty());
    let (Some(violation), Some(arguments), Some(properties)) =
        (unknown_violation, arguments.as_object(), listed_schema["properties"].as_object())
    else {
        return;
    };
    let names = arguments.keys().filter(|name| !properties.contains_key(*name));
    let suggestions: Vec<_> = names
        .filter_map(|name| Some((name, find_intended_argument(name, properties, arguments)?)))
        .map(|(name, ours)| format!("`{}`: did you mean `{ours}`?", shorten_name(name)))
        .collect();
    if !suggestions.is_empty() {
        let text = suggestions.join(" ");
        violation.suggestion = Some(Suggestion { text, edits: Vec::new() });
    }
}

/// The argument that `name` probably means, among those that are not given.
fn find_intended_argument<'a>(
    name: &str,
    properties: &'a Map<String, Value>,
    arguments: &Map<String, Value>,
) -> Option<&'a str> {
    let unused_names =
        properties.keys().filter(|name| !arguments.contains_key(*name)).map(String::as_str);
    find_argument_alias(name, unused_names.clone()).or_else(|| find_nearest(name, unused_names))
}

/// The arguments with their intended names and enum values. Arguments without a probable meaning are dropped.
pub(super) fn correct_arguments(listed_schema: &Value, arguments: &Value) -> Value {
    let (Some(properties), Some(given_arguments)) =
        (listed_schema["properties"].as_object(), arguments.as_object())
    else {
        return arguments.clone();
    };
    let mut corrected = Map::new();
    for (name, value) in given_arguments {
        let exact_name = properties.contains_key(name).then_some(name.as_str());
        if let Some(name) =
            exact_name.or_else(|| find_intended_argument(name, properties, given_arguments))
        {
            corrected.insert(name.to_owned(), find_nearest_value(&properties[name], value));
        }
    }
    Value::Object(corrected)
}

/// Whether the arguments are short enough to repeat in an error message: only texts of limited length, on one line.
pub(super) fn is_short_enough_to_repeat(arguments: &Value) -> bool {
    let values = arguments.as_object().into_iter().flatten();
    values.map(|(_, value)| value.as_str()).all(|text| {
        text.is_some_and(|text| text.len() <= limits::REPEATED_BYTES_MAX && !text.contains('\n'))
    })
}

/// The enum value of `schema` that is nearest to `value`, if it has enum values. A permutation of the letters also
/// counts.
fn find_nearest_value(schema: &Value, value: &Value) -> Value {
    let options = || {
        let options = schema["enum"].as_array().into_iter().flatten();
        options.filter_map(Value::as_str)
    };
    let sorted_letters = |word: &str| {
        let mut letters: Vec<_> = word.chars().collect();
        letters.sort_unstable();
        letters
    };
    let find_permutation =
        |text: &str| options().find(|option| sorted_letters(option) == sorted_letters(text));
    let nearest = value
        .as_str()
        .and_then(|text| find_nearest(text, options()).or_else(|| find_permutation(text)));
    nearest.map_or_else(|| value.clone(), |meant| json!(meant))
}

/// The name among `unused_names` for which other systems use `name`.
fn find_argument_alias<'a>(
    name: &str,
    mut unused_names: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let name = name.to_lowercase();
    unused_names.find(|ours| {
        let mut table = ARGUMENT_ALIASES.iter().filter(|(known, _)| known == ours);
        table.any(|(_, theirs)| theirs.contains(&name.as_str()))
    })
}

fn shorten_name(name: &str) -> String {
    name.chars().take(60).collect()
}

/// The token without white space and quotes around it.
pub(super) fn trim_token(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed_schema() -> Value {
        json!({ "properties": {
            "token": { "type": "string" }, "output": {}, "inputs": { "type": "object" },
            "limit": { "type": "integer" }, "known_agents": { "type": "array" }, "approved": { "type": "boolean" },
            "paginate": { "type": "object", "properties": { "max_pages": { "type": "integer" } } }
        }, "additionalProperties": false })
    }

    #[test]
    fn json_text_is_parsed_if_needed() {
        let mut arguments = json!({
            "token": "1", "output": "{\"a\":1}", "inputs": " {\"b\":2}\n", "limit": "3", "known_agents": "[\"x\"]", "approved": "true"
        });
        normalize_arguments(&listed_schema(), arguments.as_object_mut().expect("an object"));
        let taken = json!({
            "token": "1", "output": "{\"a\":1}", "inputs": { "b": 2 }, "limit": 3, "known_agents": ["x"], "approved": true
        });
        assert_eq!(arguments, taken);
        let mut whole = json!({ "limit": 2.0, "paginate": { "max_pages": 3.0 }, "output": 2.0 });
        normalize_arguments(&listed_schema(), whole.as_object_mut().expect("an object"));
        let written = json!({ "limit": 2, "paginate": { "max_pages": 3 }, "output": 2.0 });
        assert_eq!(whole, written);
        let mut wrong = json!({ "inputs": "[1]", "limit": "many", "approved": "yes" });
        let before = wrong.clone();
        normalize_arguments(&listed_schema(), wrong.as_object_mut().expect("an object"));
        assert_eq!(wrong, before);
    }

    #[test]
    fn argument_alias_is_recognized() {
        let suggested = |arguments: Value| {
            let mut violations = [Violation::new("", "additionalProperties", "m")];
            suggest_argument_names(&listed_schema(), &arguments, &mut violations);
            violations[0].suggestion.clone().map(|suggestion| suggestion.text)
        };
        assert_eq!(
            suggested(json!({ "continuation_token": "t", "result": {} })).as_deref(),
            Some("`continuation_token`: did you mean `token`? `result`: did you mean `output`?")
        );
        assert_eq!(
            suggested(json!({ "inptus": {} })).as_deref(),
            Some("`inptus`: did you mean `inputs`?")
        );
        let of_authors = json!({ "properties": { "manifest": {}, "format": {} } });
        let mut violations = [Violation::new("", "additionalProperties", "m")];
        suggest_argument_names(&of_authors, &json!({ "content": "x" }), &mut violations);
        let meant = violations[0].suggestion.as_ref();
        assert_eq!(
            meant.map(|meant| meant.text.as_str()),
            Some("`content`: did you mean `manifest`?")
        );
        // An argument that is given under its own name is not suggested for another one.
        assert_eq!(suggested(json!({ "inputs": {}, "args": {} })), None);
        assert_eq!(suggested(json!({ "zebra": 1 })), None);
    }

    #[test]
    fn clear_argument_errors_are_fixed() {
        let listed = json!({ "properties": {
            "state": { "enum": ["open", "paused"] }, "workflow_name": { "type": "string" }
        } });
        for (given, meant) in [
            (json!({ "state": "opne" }), json!({ "state": "open" })),
            (json!({ "state": "pasued" }), json!({ "state": "paused" })),
            (json!({ "state": "paused" }), json!({ "state": "paused" })),
            (json!({ "state": "gone" }), json!({ "state": "gone" })),
            (json!({ "workflow": "w", "zebra": 1 }), json!({ "workflow_name": "w" })),
        ] {
            assert_eq!(correct_arguments(&listed, &given), meant);
        }
        let of = |bytes: usize| json!({ "state": "x".repeat(bytes) });
        assert!(is_short_enough_to_repeat(&of(limits::REPEATED_BYTES_MAX)));
        assert!(!is_short_enough_to_repeat(&of(limits::REPEATED_BYTES_MAX + 1)));
        assert!(!is_short_enough_to_repeat(&json!({ "limit": 3 })));
    }

    #[test]
    fn token_is_trimmed() {
        for text in ["abc", " abc\n", "\"abc\"", "'abc' ", "`abc`"] {
            assert_eq!(trim_token(text), "abc");
        }
    }
}
