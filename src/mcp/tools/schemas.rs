//! Tool schemas as clients see them: restricted to what strict hosts accept, and short.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// The schema that arguments are checked against. A property that may be left out must not be `null`.
pub(super) fn input_schema<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let generator = settings.into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    if let Some(schema) = schema.as_object_mut() {
        schema.shift_remove("description");
        schema.entry("properties").or_insert_with(|| json!({}));
    }
    tidy_schema(&mut schema);
    schema
}

/// Removes what only Rust uses, closes objects that list their properties, and writes every choice as an `enum`.
fn tidy_schema(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    for key in ["$schema", "title", "format"] {
        schema.shift_remove(key);
    }
    schema.retain(|key, value| {
        let is_empty = value.is_null() || *value == json!({});
        !(key == "additionalProperties" && *value == true || key == "default" && is_empty)
    });
    let choices = schema.get("oneOf").and_then(Value::as_array);
    if let Some(choices) = choices {
        let choices = choices.iter().map(|choice| choice["const"].clone());
        let choices = choices.collect();
        schema.shift_remove("oneOf");
        schema.insert("enum".to_owned(), choices);
    }
    if schema.contains_key("enum") {
        schema.shift_remove("type");
    }
    if let Some(items) = schema.get_mut("items") {
        tidy_schema(items);
    }
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required = |name: &str| {
        let mut names = required.as_array().into_iter().flatten();
        names.any(|required| required == name)
    };
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for (name, property) in properties {
        if property.is_boolean() {
            *property = json!({});
        }
        if !is_required(name) {
            remove_null_type(property);
        }
        tidy_schema(property);
    }
    schema.insert("additionalProperties".to_owned(), false.into());
}

/// Removes `null` from the types of a property that is left out instead.
fn remove_null_type(property: &mut Value) {
    if let Some([kind, null]) = property["type"].as_array().map(Vec::as_slice)
        && null == "null"
    {
        property["type"] = kind.clone();
    }
}

/// The input schema, as it is listed. Strict hosts require a type for each property, so one that accepts any JSON is
/// listed as an object. Left out are bounds, defaults, and the choices of what midex recognizes by itself: refusals name
/// them, and they would only use up each model's context.
pub(super) fn listed_input_schema(input_schema: &Value) -> Value {
    const OMITTED_KEYWORDS: [&str; 7] = [
        "minLength",
        "maxLength",
        "maxItems",
        "minimum",
        "maximum",
        "default",
        "additionalProperties",
    ];
    const RECOGNIZED_PROPERTIES: [&str; 2] = ["format", "source_type"];
    let mut listed = input_schema.clone();
    if let Some(listed) = listed.as_object_mut() {
        // An empty `required` and a `false` are defaults, so leave them out.
        listed.retain(|_, value| *value != json!([]) && *value != json!(false));
    }
    let properties = listed.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        // Recurse, since a property may have its own properties.
        *property = listed_input_schema(property);
        if let Some(property) = property.as_object_mut() {
            let is_recognized = RECOGNIZED_PROPERTIES.contains(&name.as_str());
            property.retain(|key, _| {
                let is_choice = is_recognized && key == "enum";
                !is_choice && !OMITTED_KEYWORDS.contains(&key.as_str())
            });
            if is_recognized {
                property.insert("type".to_owned(), json!("string"));
            }
            let kind = if property.contains_key("enum") { "string" } else { "object" };
            let kind = match property.get("type") {
                Some(Value::String(_)) => None,
                // A property with several types is listed with the first one.
                Some(Value::Array(kinds)) => kinds.first().cloned(),
                _ => Some(json!(kind)),
            };
            property.extend(kind.map(|kind| ("type".to_owned(), kind)));
            if let Some(items) = property.get_mut("items").and_then(Value::as_object_mut) {
                items.retain(|key, _| !OMITTED_KEYWORDS.contains(&key.as_str()));
            }
        }
    }
    listed
}

/// The schema of a reply that always has these fields. It names no types.
pub(super) fn fields_schema(names: &[&str]) -> Value {
    let properties: Map<_, _> =
        { names.iter() }.map(|name| ((*name).to_owned(), json!({}))).collect();
    with_success(json!({ "type": "object", "required": names, "properties": properties }))
}

/// Like [`shallow_view_schema`], for a reply that `success` is added to. Lists also have the type of their items.
pub(super) fn reply_schema<T: JsonSchema>() -> Value {
    with_success(outline_schema::<T>(|field, defined| {
        let mut outline = outline_field(field, defined);
        if outline["type"] == "array" {
            let items = outline_field(&field["items"], defined);
            // Items that are any JSON are listed as objects, like arguments.
            let kind = items.get("type").cloned().unwrap_or(json!("object"));
            outline["items"] = json!({ "type": kind });
        }
        outline
    }))
}

/// The schema of a reply that may have this list.
pub(super) fn list_answer_schema(field: &str) -> Value {
    let list = json!({ "type": "array", "items": { "type": "object" } });
    with_success(json!({ "type": "object", "required": [], "properties": { field: list } }))
}

fn with_success(mut reply: Value) -> Value {
    if let Some(Value::Array(required)) = reply.get_mut("required") {
        required.insert(0, json!("success"));
    }
    reply
}

/// Output schemas must admit the error shape too: some clients validate it on `isError`.
pub(super) fn with_error_shape(mut output: Value) -> Value {
    const ERROR_FIELDS: [&str; 2] = ["error", "error_code"];
    if let Some(schema) = output.as_object_mut() {
        let success = schema.remove("required").unwrap_or(json!(["success"]));
        schema
            .insert("anyOf".into(), json!([{ "required": success }, { "required": ERROR_FIELDS }]));
        // In a refusal, `error` is the message. In a status, it is the failure of the execution.
        let error = schema["properties"].get_mut("error");
        if let Some(error) = error {
            *error = json!({ "type": ["string", "object", "null"] });
        }
    }
    output
}

/// The JSON Schema of a view: fields and types without descriptions. Those are in the resources and the instructions,
/// since the list of tools must stay small.
pub(super) fn view_schema<T: JsonSchema>() -> Value {
    // Describe the serialized form, where a field that may be skipped is not required.
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    remove_descriptions(&mut schema);
    schema
}

/// Like [`view_schema`], but without nested fields. For views that several tools return, of which only one lists the
/// complete schema.
pub(super) fn shallow_view_schema<T: JsonSchema>() -> Value {
    outline_schema::<T>(outline_field)
}

/// The schema of a view, each of whose fields `describe_field` describes.
fn outline_schema<T: JsonSchema>(describe_field: impl Fn(&Value, &Value) -> Value) -> Value {
    let mut schema = view_schema::<T>();
    let definitions = schema["$defs"].take();
    let required = schema["required"].clone();
    let is_required =
        |name: &str| required.as_array().is_some_and(|names| names.contains(&json!(name)));
    for (name, field) in schema["properties"].as_object_mut().into_iter().flatten() {
        *field = describe_field(field, &definitions);
        // An optional field is skipped when it is `None`, so leave `null` out of its types.
        if !is_required(name)
            && let Some([kind, _]) = field["type"].as_array().map(Vec::as_slice)
        {
            field["type"] = kind.clone();
        }
    }
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("$defs");
    }
    schema
}

/// The type of a field, without nested fields.
fn outline_field(field: &Value, definitions: &Value) -> Value {
    let definition_name = field["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"));
    if let Some(name) = definition_name {
        return outline_field(&definitions[name], definitions);
    }
    let branches = field["anyOf"].as_array().into_iter().flatten();
    let branches = branches.map(|branch| outline_field(branch, definitions)["type"].take());
    let mut types: Vec<_> = branches.filter(|kind| !kind.is_null()).collect();
    types.dedup();
    match (types.len(), field.get("type")) {
        (_, Some(kind)) => json!({ "type": kind }),
        (0, None) => json!({}),
        (_, None) => json!({ "type": types }),
    }
}

/// Removes descriptions, and formats that only Rust uses, such as `uint64`.
fn remove_descriptions(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            // A property may be named `description`. Its value is a schema, not a string, so it stays.
            map.retain(|key, value| {
                let is_word = ["description", "title", "format", "$schema"].contains(&key.as_str());
                let is_bound = key == "minimum" || key == "maximum";
                !(is_word && value.is_string() || is_bound && value.is_number())
            });
            map.values_mut().for_each(remove_descriptions);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_descriptions),
        _ => {}
    }
}
