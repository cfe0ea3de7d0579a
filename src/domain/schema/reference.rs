//! References within a self-contained schema, which point into its own `$defs`.

use serde_json::Value;

use crate::limits;

/// The target of the `$ref` of a subschema, if it has one.
pub fn find_ref_target<'a>(schema: &Value, root: &'a Value) -> Option<&'a Value> {
    let pointer = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
    root.pointer(&crate::uri::decode_segment(pointer)?)
}

/// The subschema after following its references, at most [`limits::SCHEMA_REFERENCES_FOLLOWED_MAX`] of them.
pub fn follow_references<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let hops = 0..limits::SCHEMA_REFERENCES_FOLLOWED_MAX;
    hops.fold(schema, |at, _| find_ref_target(at, root).unwrap_or(at))
}

/// The schemas in the list under a key: `allOf`, `anyOf`, `oneOf`.
pub fn member_schemas<'a>(schema: &'a Value, key: &str) -> &'a [Value] {
    let list = schema.get(key).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// The types in the `type` keyword of the schema itself, without null.
pub fn non_null_types(schema: &Value) -> Vec<&str> {
    let names = match schema.get("type") {
        Some(Value::Array(names)) => names.as_slice(),
        Some(name) => std::slice::from_ref(name),
        None => &[],
    };
    let names = names.iter().filter_map(Value::as_str);
    names.filter(|name| *name != "null").collect()
}

/// The schemas that a schema combines: the target of its reference, its parts and its alternatives.
pub fn composed_schemas<'a>(schema: &'a Value, root: &'a Value) -> impl Iterator<Item = &'a Value> {
    let lists = ["allOf", "anyOf", "oneOf"].into_iter();
    let listed = lists.flat_map(|key| member_schemas(schema, key));
    find_ref_target(schema, root).into_iter().chain(listed)
}
