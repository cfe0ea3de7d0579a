//! Infers from the schema of a JSON or form body which fields it has, so that a call may give them among its arguments.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::{media_type::BodyFormat, operation::BodyContent};
use midex_domain::{
    check::{Argument, BodyFields},
    schema::{composed_schemas, find_ref_target, follow_references, member_schemas},
};

/// The fields of a body of this content; `None` if the body cannot be an object.
pub(super) fn infer_body_fields(content: &BodyContent) -> Option<BodyFields> {
    let root = &content.schema;
    // `BodyFormat` is ordered: JSON, forms and multipart come first, and have fields.
    let has_fields = BodyFormat::from_media_type(&content.media_type) <= BodyFormat::Multipart;
    let is_object = has_fields && may_be_object(root, root, &mut VisitedSchemas::new());
    is_object.then(|| FieldReader::read_fields(root))
}

/// A short schema of a field of the body: its type, choices, format and description.
pub(super) fn short_field_schema(root: &Value, name: &str) -> Value {
    let field = &follow_references(root, root)["properties"][name];
    let short_entries = ["type", "enum", "format", "description"].into_iter();
    let short_entries = short_entries.filter_map(|key| {
        let value = follow_references(field, root).get(key)?;
        Some((key.to_owned(), value.clone()))
    });
    Value::Object(short_entries.collect())
}

/// The schemas visited so far, by address, and whether as binding ones. A schema that several parts share, or that
/// contains itself, is visited at most once as each.
type VisitedSchemas = BTreeSet<(*const Value, bool)>;

fn may_be_object(schema: &Value, root: &Value, visited: &mut VisitedSchemas) -> bool {
    if schema.is_boolean() || !visited.insert((schema, true)) {
        return schema != &Value::Bool(false);
    }
    let is_object = |kind: &Value| kind == "object";
    let has_object_type = match schema.get("type") {
        None => true,
        Some(Value::Array(kinds)) => kinds.iter().any(is_object),
        Some(kind) => is_object(kind),
    };
    let mut composed = composed_schemas(schema, root).peekable();
    has_object_type
        && (composed.peek().is_none() || composed.any(|one| may_be_object(one, root, visited)))
}

/// Keywords that describe fields. An object schema with none of them accepts every field. One with only `required`
/// declares no fields, and accepts no others.
const FIELD_KEYWORDS: [&str; 6] = ["properties", "required", "$ref", "allOf", "anyOf", "oneOf"];

struct FieldReader<'a> {
    root: &'a Value,
    visited: VisitedSchemas,
    names: Vec<&'a str>,
    required: BTreeSet<&'a str>,
    is_open: bool,
}

impl<'a> FieldReader<'a> {
    fn read_fields(root: &'a Value) -> BodyFields {
        let mut reader = Self {
            root,
            visited: VisitedSchemas::new(),
            names: Vec::new(),
            required: BTreeSet::new(),
            is_open: false,
        };
        reader.read_schema_part(root, true);
        let mut known_names = BTreeSet::new();
        reader.names.retain(|name| known_names.insert(*name));
        let fields = reader.names.iter().map(|name| Argument {
            name: (*name).to_owned(),
            is_required: reader.required.contains(name),
            is_header: false,
        });
        BodyFields {
            // The operation decides: `PreparedOperation` sets it.
            is_required: false,
            fields: fields.collect(),
            is_extensible: reader.is_open,
        }
    }

    /// Reads a part of the schema. Its `required` counts if `is_binding`, which is false for alternatives (`anyOf`,
    /// `oneOf`).
    fn read_schema_part(&mut self, schema: &'a Value, is_binding: bool) {
        if !self.visited.insert((schema, is_binding)) {
            return;
        }
        let Value::Object(map) = schema else {
            self.is_open = true;
            return;
        };
        let declared = map.get("properties").and_then(Value::as_object);
        let names = declared.into_iter().flat_map(Map::keys);
        self.names.extend(names.map(String::as_str));
        if is_binding {
            let required = member_schemas(schema, "required").iter();
            self.required.extend(required.filter_map(Value::as_str));
        }
        let additional = map.get("additionalProperties");
        let can_have_others = additional.is_some_and(|others| *others != Value::Bool(false));
        let has_no_fields = !FIELD_KEYWORDS.iter().any(|key| map.contains_key(*key));
        self.is_open |= can_have_others || has_no_fields || map.contains_key("patternProperties");
        let parts = member_schemas(schema, "allOf").iter();
        let parts = find_ref_target(schema, self.root).into_iter().chain(parts);
        parts.for_each(|part| self.read_schema_part(part, is_binding));
        let choices = ["anyOf", "oneOf"].into_iter();
        let choices = choices.flat_map(|key| member_schemas(schema, key));
        choices.for_each(|choice| self.read_schema_part(choice, false));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The names of the fields, with `!` if they are required, and `…` if other fields are accepted.
    fn describe_fields(schema: Value) -> Option<String> {
        let content = BodyContent {
            media_type: "application/json".to_owned(),
            schema,
            encoding: Map::default(),
        };
        let fields = infer_body_fields(&content)?;
        let names = fields.fields.iter().map(|field| {
            let mark = if field.is_required { "!" } else { "" };
            format!("{}{mark}", field.name)
        });
        let others = fields.is_extensible.then(|| "…".to_owned());
        Some(names.chain(others).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn body_fields_come_from_all_schema_parts() {
        let a = json!({ "properties": { "a": {} }, "required": ["a"] });
        let b = json!({ "properties": { "b": {} }, "required": ["b"] });
        for (schema, expected) in [
            (a.clone(), Some("a!")),
            (json!({ "type": "array" }), None),
            (json!({ "type": "object" }), Some("…")),
            (json!({ "type": "object", "properties": { "a": {} } }), Some("a")),
            (json!({ "properties": { "a": {} }, "additionalProperties": {} }), Some("a …")),
            (json!({ "allOf": [a, { "required": ["a"] }, b] }), Some("a! b!")),
            (json!({ "oneOf": [a, b], "required": ["b"] }), Some("a b!")),
            (json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }), None),
            (
                json!({ "$ref": "#/$defs/One~1Two", "$defs": { "One/Two": { "$ref": "#/$defs/A" }, "A": a } }),
                Some("a!"),
            ),
            (
                json!({ "$ref": "#/$defs/A", "$defs": { "A": { "allOf": [{ "$ref": "#/$defs/A" }, b] } } }),
                Some("b!"),
            ),
            (
                json!({
                    "allOf": [{ "anyOf": [{ "$ref": "#/$defs/A" }] }, { "$ref": "#/$defs/A" }], "$defs": { "A": a },
                }),
                Some("a!"),
            ),
        ] {
            assert_eq!(describe_fields(schema.clone()).as_deref(), expected, "{schema}");
        }
    }
}
