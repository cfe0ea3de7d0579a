//! The structure of values that a converted schema accepts.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{reference::get_entries, schema::parse_shared_name};
use midex_domain::{limits, schema::non_null_types};

/// The schemas that several operations share.
pub(super) type SharedSchemas = BTreeMap<String, Value>;

/// How many nested levels of `allOf` are followed.
const ALL_OF_DEPTH_MAX: usize = 4;

/// Follows the references from `value` until a schema that is no reference.
pub(super) fn resolve_schema<'a>(value: &'a Value, shared: &'a SharedSchemas) -> &'a Value {
    let mut current = value;
    for _ in 0..limits::REFERENCE_HOPS_MAX {
        let reference = current.get("$ref").and_then(Value::as_str);
        match reference.and_then(parse_shared_name).and_then(|name| shared.get(name)) {
            Some(next) => current = next,
            None => break,
        }
    }
    current
}

/// The properties of an object, including those in its `allOf`.
pub(super) fn collect_all_properties<'a>(
    value: &'a Value,
    shared: &'a SharedSchemas,
) -> Vec<(&'a str, &'a Value)> {
    let mut properties = Vec::new();
    collect_properties(value, shared, ALL_OF_DEPTH_MAX, &mut properties);
    properties
}

fn collect_properties<'a>(
    value: &'a Value,
    shared: &'a SharedSchemas,
    depth: usize,
    properties: &mut Vec<(&'a str, &'a Value)>,
) {
    let value = resolve_schema(value, shared);
    properties.extend(get_entries(value, "properties").map(|(name, value)| (name.as_str(), value)));
    let parts = value.get("allOf").and_then(Value::as_array).filter(|_| depth > 0);
    for part in parts.into_iter().flatten() {
        collect_properties(part, shared, depth - 1, properties);
    }
}

/// The schema of the items of a list; `None` if the value is no list.
pub(super) fn find_items_schema<'a>(
    value: &'a Value,
    shared: &'a SharedSchemas,
) -> Option<&'a Value> {
    resolve_schema(value, shared).get("items")
}

/// The first type of a value besides null. If the schema is composed of others, that of the first one.
pub(super) fn find_schema_type<'a>(value: &'a Value, shared: &'a SharedSchemas) -> Option<&'a str> {
    let mut current = resolve_schema(value, shared);
    for _ in 0..ALL_OF_DEPTH_MAX {
        if current.get("type").is_some() {
            return non_null_types(current).first().copied();
        }
        let parts = ["allOf", "anyOf", "oneOf"].iter().find_map(|word| current.get(word));
        current = resolve_schema(parts?.as_array()?.first()?, shared);
    }
    None
}
