//! What the command line needs from JSON Schemas: the type of a value.

use serde_json::Value;

use midex_domain::{
    limits,
    schema::{follow_references, member_schemas, non_null_types},
};

/// The type of a value other than `null`, if the schema has one. `root` contains the shared schemas.
pub(crate) fn find_value_type(schema: &Value, root: &Value) -> Option<String> {
    find_value_type_at_depth(schema, root, limits::SCHEMA_REFERENCES_FOLLOWED_MAX)
}

fn find_value_type_at_depth(schema: &Value, root: &Value, depth: usize) -> Option<String> {
    let schema = follow_references(schema, root);
    let direct_type = non_null_types(schema).first().map(|name| (*name).to_owned());
    direct_type.or_else(|| {
        let depth = depth.checked_sub(1)?;
        let keywords = ["anyOf", "oneOf", "allOf"].into_iter();
        let mut members = keywords.flat_map(|key| member_schemas(schema, key));
        members.find_map(|member| find_value_type_at_depth(member, root, depth))
    })
}
