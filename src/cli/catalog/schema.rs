//! What the command line needs from JSON Schemas: the type of a value.

use serde_json::Value;

use midex_domain::{
    limits,
    schema::{follow_references, member_schemas, non_null_types},
};

/// The type of a value other than `null`, if the schema has one. `root` contains the shared schemas.
pub(crate) fn schema_kind(schema: &Value, root: &Value) -> Option<String> {
    schema_kind_at_depth(schema, root, limits::SCHEMA_REFERENCES_FOLLOWED_MAX)
}

fn schema_kind_at_depth(schema: &Value, root: &Value, depth: usize) -> Option<String> {
    let schema = follow_references(schema, root);
    let own = non_null_types(schema).first().map(|name| (*name).to_owned());
    own.or_else(|| {
        let depth = depth.checked_sub(1)?;
        let parts = ["anyOf", "oneOf", "allOf"].into_iter();
        let mut parts = parts.flat_map(|key| member_schemas(schema, key));
        parts.find_map(|part| schema_kind_at_depth(part, root, depth))
    })
}
