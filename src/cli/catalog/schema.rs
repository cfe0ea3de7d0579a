//! What the command line needs to know of JSON Schemas: the type of a value, and the fields of an object.

use serde_json::Value;

use crate::limits;

/// The schema, with references to the shared ones beside it followed.
pub(in crate::cli) fn followed(schema: &Value) -> &Value {
    follow(schema, schema)
}

fn follow<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let mut at = schema;
    for _ in 0..limits::SCHEMA_REFERENCES_FOLLOWED_MAX {
        let reference = at["$ref"].as_str().and_then(|text| text.strip_prefix('#'));
        match reference.and_then(|pointer| root.pointer(pointer)) {
            Some(next) => at = next,
            None => break,
        }
    }
    at
}

/// The type that a value is to have beside `null`, if there is one. `root` has the shared schemas.
pub(in crate::cli) fn kind(schema: &Value, root: &Value) -> Option<String> {
    kind_in(schema, root, limits::SCHEMA_REFERENCES_FOLLOWED_MAX)
}

fn kind_in(schema: &Value, root: &Value, depth: usize) -> Option<String> {
    let schema = follow(schema, root);
    let word = |name: &Value| {
        name.as_str()
            .filter(|name| *name != "null")
            .map(str::to_owned)
    };
    let of_type = match &schema["type"] {
        Value::Array(names) => names.iter().find_map(word),
        name => word(name),
    };
    of_type.or_else(|| {
        let depth = depth.checked_sub(1)?;
        let parts = ["anyOf", "oneOf", "allOf"]
            .into_iter()
            .filter_map(|key| schema[key].as_array());
        parts.flatten().find_map(|part| kind_in(part, root, depth))
    })
}
