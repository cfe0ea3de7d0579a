//! The schemas of tools as clients see them: narrow for strict hosts, and short.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The schema of arguments as it is listed. Strict hosts take no property without a type, so that one which may be any JSON
/// is listed as an object; and each bound that a refusal names only costs room in every model's context.
pub(super) fn listed_input(checked: &Value) -> Value {
    const BOUNDS: [&str; 5] = ["minLength", "maxLength", "maxItems", "minimum", "maximum"];
    let mut listed = checked.clone();
    if let Some(listed) = listed.as_object_mut() {
        // That nothing is required, or that something is off, is what a model takes for granted.
        listed.retain(|_, value| *value != json!([]) && *value != json!(false));
    }
    let properties = listed.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(Map::values_mut) {
        // A property may have properties.
        *property = listed_input(property);
        if let Some(property) = property.as_object_mut() {
            property.retain(|key, _| !BOUNDS.contains(&key.as_str()));
            let kind = if property.contains_key("enum") {
                "string"
            } else {
                "object"
            };
            let kind = match property.get("type") {
                Some(Value::String(_)) => None,
                // One that may be of several types is listed as of the first.
                Some(Value::Array(kinds)) => kinds.first().cloned(),
                _ => Some(json!(kind)),
            };
            property.extend(kind.map(|kind| ("type".to_owned(), kind)));
            if let Some(items) = property.get_mut("items").and_then(Value::as_object_mut) {
                items.retain(|key, _| !BOUNDS.contains(&key.as_str()));
            }
        }
    }
    listed
}

/// Output schemas must admit the error shape too: some clients validate it on `isError`.
pub(super) fn with_error_shape(mut output: Value) -> Value {
    const ERROR: [&str; 2] = ["error", "error_code"];
    if let Some(schema) = output.as_object_mut() {
        let success = schema.remove("required").unwrap_or(json!(["success"]));
        schema.insert(
            "anyOf".into(),
            json!([{ "required": success }, { "required": ERROR }]),
        );
        // A refusal has its message in `error`, where a status has why the execution failed.
        let error = schema["properties"].get_mut("error");
        if let Some(error) = error {
            *error = json!({ "type": ["string", "object", "null"] });
        }
    }
    output
}

/// The JSON Schema of a view: fields and types. Words stand in the resources and the instructions; what a client is sent
/// with its list of tools counts.
pub(super) fn schema_of<T: schemars::JsonSchema>() -> Value {
    // As answers are written: a field that may be left out is not required.
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    leave_out_words(&mut schema);
    schema
}

/// The same, of the fields of the view alone and not of theirs: for a view that several tools answer with, of which one
/// says all.
pub(super) fn shape_of<T: schemars::JsonSchema>() -> Value {
    let mut schema = schema_of::<T>();
    let defined = schema["$defs"].take();
    let required = schema["required"].clone();
    let is_required = |name: &str| {
        required
            .as_array()
            .is_some_and(|names| names.contains(&json!(name)))
    };
    for (name, field) in schema["properties"].as_object_mut().into_iter().flatten() {
        *field = outline(field, &defined);
        // Where it is none it is left out.
        if !is_required(name)
            && let Some([kind, _]) = field["type"].as_array().map(Vec::as_slice)
        {
            *field = json!({ "type": kind });
        }
    }
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("$defs");
    }
    schema
}

/// The type of a field, and no more.
fn outline(field: &Value, defined: &Value) -> Value {
    let named = field["$ref"]
        .as_str()
        .and_then(|path| path.strip_prefix("#/$defs/"));
    if let Some(name) = named {
        return outline(&defined[name], defined);
    }
    let branches = field["anyOf"].as_array().into_iter().flatten();
    let branches = branches.map(|branch| outline(branch, defined)["type"].take());
    let mut types: Vec<_> = branches.filter(|kind| !kind.is_null()).collect();
    types.dedup();
    match (types.len(), field.get("type")) {
        (_, Some(kind)) => json!({ "type": kind }),
        (0, None) => json!({}),
        (_, None) => json!({ "type": types }),
    }
}

/// Takes out what is words, and what only Rust has a use for: `format: uint64` and its like.
fn leave_out_words(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            // A property may be called `description`: that one is a schema.
            map.retain(|key, value| {
                let is_word = ["description", "title", "format", "$schema"].contains(&key.as_str());
                let is_bound = key == "minimum" || key == "maximum";
                !(is_word && value.is_string() || is_bound && value.is_number())
            });
            map.values_mut().for_each(leave_out_words);
        }
        Value::Array(items) => items.iter_mut().for_each(leave_out_words),
        _ => {}
    }
}
