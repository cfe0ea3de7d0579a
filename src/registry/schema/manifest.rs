//! The schema of the steps of a manifest, from the tables that the checker uses.

use serde_json::{Map, Value, json};

use super::{CONTROL, WHITE_SPACE, depends_on, name, not_blank, text};
use crate::{
    domain::{
        draft::Form,
        grammar::{self, Field, Key, Kind, Record, Shape},
    },
    limits,
};

/// Where `${{ … }}` is allowed and stands.
const TEMPLATE: &str = r"\$\{\{";

/// A key of a workflow that is read by shape.
pub(super) fn of_workflow(key: &str) -> Value {
    let key = grammar::WORKFLOW.iter().find(|known| known.name == key);
    key.map_or_else(|| json!({}), described)
}

/// A step.
pub(super) fn step() -> Value {
    let mut properties = Map::from_iter([("id".to_owned(), json!({ "$ref": "#/$defs/stepId" }))]);
    properties.insert("description".into(), description());
    for key in ["depends_on", "dependsOn"] {
        properties.insert(key.into(), dependencies());
    }
    let said = grammar::KINDS.iter().map(|kind| &kind.key);
    for key in said.chain(grammar::FIELDS.iter().map(|field| &field.key)) {
        properties.insert(key.name.to_owned(), described(key));
    }
    let kinds: Vec<_> = grammar::KINDS.iter().collect();
    let fields: Vec<_> = grammar::FIELDS.iter().collect();
    let mut schema = mapping(properties, &["id"]);
    let mut rules = vec![one_kind(&kinds), not_both("depends_on", "dependsOn")];
    rules.extend(fields_of(&kinds, &fields));
    schema.insert("allOf".into(), Value::Array(rules));
    Value::Object(schema)
}

/// What a `foreach` does.
pub(super) fn each() -> Value {
    let kinds: Vec<_> = grammar::KINDS.iter().filter(|kind| kind.each).collect();
    let fields: Vec<_> = grammar::FIELDS.iter().filter(|field| field.each).collect();
    let mut properties = Map::from_iter([("description".to_owned(), description())]);
    let said = kinds.iter().map(|kind| &kind.key);
    for key in said.chain(fields.iter().map(|field| &field.key)) {
        let schema = match key.name {
            "on_error" => json!({ "description": key.what, "enum": grammar::ON_ERROR }),
            _ => described(key),
        };
        properties.insert(key.name.to_owned(), schema);
    }
    let mut schema = mapping(properties, &[]);
    let mut rules = vec![one_kind(&kinds)];
    rules.extend(fields_of(&kinds, &fields));
    schema.insert("allOf".into(), Value::Array(rules));
    Value::Object(schema)
}

fn mapping(properties: Map<String, Value>, required: &[&str]) -> Map<String, Value> {
    let mut schema = Map::new();
    schema.insert("type".into(), json!("object"));
    schema.insert("properties".into(), Value::Object(properties));
    schema.insert("required".into(), json!(required));
    schema.insert("additionalProperties".into(), json!(false));
    schema
}

fn description() -> Value {
    text(
        limits::DESCRIPTION_BYTES_MAX,
        "What the step does, in a sentence",
    )
}

fn dependencies() -> Value {
    json!({
        "description": depends_on(Form::Manifest),
        "anyOf": [
            { "$ref": "#/$defs/stepId" },
            {
                "type": "array",
                "items": { "$ref": "#/$defs/stepId" },
                "maxItems": limits::DEPENDENCIES_MAX,
                "uniqueItems": true,
            },
        ],
    })
}

/// Exactly one of the kinds' keys.
fn one_kind(kinds: &[&Kind]) -> Value {
    let each = kinds
        .iter()
        .map(|kind| json!({ "required": [kind.key.name] }));
    json!({ "oneOf": each.collect::<Vec<_>>() })
}

fn not_both(one: &str, other: &str) -> Value {
    json!({ "not": { "required": [one, other] } })
}

/// Which fields go with which kinds, and with each other.
fn fields_of(kinds: &[&Kind], fields: &[&Field]) -> Vec<Value> {
    let mut rules: Vec<_> = grammar::EXCLUSIVE
        .iter()
        .map(|(one, other)| not_both(one, other))
        .collect();
    for kind in kinds {
        let idle = fields
            .iter()
            .filter(|field| !field.kinds.contains(&kind.key.name));
        let idle: Vec<_> = idle
            .map(|field| json!({ "required": [field.key.name] }))
            .collect();
        if !idle.is_empty() {
            rules.push(json!({
                "if": { "required": [kind.key.name] },
                "then": { "not": { "anyOf": idle } },
            }));
        }
    }
    rules
}

/// A key's schema with what it means.
fn described(key: &Key) -> Value {
    let mut schema = shape(&key.shape);
    if let Value::Object(map) = &mut schema
        && !map.contains_key("$ref")
    {
        map.insert("description".into(), json!(key.what));
    }
    schema
}

fn shape(shape: &Shape) -> Value {
    match shape {
        Shape::Text(max) | Shape::Template(max) => said(*max),
        Shape::Condition => said(limits::EXPRESSION_BYTES_MAX),
        Shape::Name(max) => {
            let mut name = name(*max, "");
            if let Value::Object(map) = &mut name {
                map.shift_remove("description");
            }
            name
        }
        Shape::Word => {
            json!({ "type": "string", "maxLength": limits::WORD_BYTES_MAX, "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" })
        }
        Shape::Operation => operation(),
        Shape::Value | Shape::Data => {
            json!({ "type": ["string", "number", "boolean", "object", "array", "null"] })
        }
        Shape::Values => json!({ "type": "object" }),
        Shape::Memory(min) => memory(*min),
        Shape::Items => json!({ "anyOf": [{ "type": "array" }, template()] }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Count(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Shape::Span => span(),
        Shape::SpanOrTemplate => json!({ "anyOf": [span(), template()] }),
        Shape::InstantOrTemplate => json!({ "anyOf": [instant(), template()] }),
        Shape::Choice(words) => json!({ "enum": words }),
        Shape::Target(words) => {
            json!({ "anyOf": [{ "enum": words }, { "$ref": "#/$defs/stepId" }] })
        }
        Shape::List(of, min, max) => list(of, *min, *max),
        Shape::Record(keys) => record(keys),
        Shape::TextOr(keys) => {
            let first = keys.keys.first().map(|key| self::shape(&key.shape));
            json!({ "anyOf": [first, record(keys)] })
        }
        Shape::Schema => json!({ "type": ["object", "boolean"] }),
        Shape::Step => json!({ "$ref": "#/$defs/each" }),
    }
}

/// A text with something in it.
fn said(bytes_max: usize) -> Value {
    json!({ "type": "string", "maxLength": bytes_max, "pattern": not_blank() })
}

fn template() -> Value {
    json!({ "type": "string", "maxLength": limits::EXPRESSION_BYTES_MAX, "pattern": TEMPLATE })
}

fn operation() -> Value {
    let (word, space) = (
        format!("[^{CONTROL}{WHITE_SPACE}]+"),
        format!("[{WHITE_SPACE}]"),
    );
    let pattern = format!("^{space}*{word}({space}+{word})+{space}*$");
    json!({ "type": "string", "maxLength": limits::WORD_BYTES_MAX, "pattern": pattern })
}

fn memory(min: usize) -> Value {
    json!({
        "type": "object",
        "minProperties": min,
        "maxProperties": limits::MEMORY_ENTRIES_MAX,
        "propertyNames": { "pattern": "^[A-Za-z0-9_][A-Za-z0-9_-]*$", "maxLength": limits::MEMORY_NAME_BYTES_MAX },
    })
}

/// Units from the largest to the smallest, each at most once, at least one, not all of them zero.
fn span() -> Value {
    let units = ["d", "h", "m", "s", "ms"].map(|unit| format!("[0-9]+{unit}"));
    let from = |first: usize| {
        let rest = units[first + 1..].iter().map(|unit| format!("({unit})?"));
        units[first].clone() + &rest.collect::<String>()
    };
    let all: Vec<_> = (0..units.len()).map(from).collect();
    let around = format!("[{WHITE_SPACE}]*");
    json!({
        "type": "string",
        "pattern": format!("^{around}({}){around}$", all.join("|")),
        "allOf": [{ "pattern": "[1-9]" }],
    })
}

/// As far as a pattern can tell.
fn instant() -> Value {
    json!({ "type": "string", "pattern": "^[-+]?[0-9]{4,6}-?[0-9]{2}-?[0-9]{2}[Tt ]" })
}

fn list(of: &Shape, min: usize, max: usize) -> Value {
    let mut schema = json!({
        "type": "array",
        "items": shape(of),
        "minItems": min,
        "maxItems": max,
    });
    if let (Value::Object(map), Shape::Name(_)) = (&mut schema, of) {
        map.insert("uniqueItems".into(), json!(true));
    }
    schema
}

fn record(record: &Record) -> Value {
    let properties = record
        .keys
        .iter()
        .map(|key| (key.name.to_owned(), described(key)));
    let required = record.keys.iter().filter(|key| key.required);
    let required: Vec<_> = required.map(|key| key.name).collect();
    let mut schema = mapping(properties.collect(), &required);
    if record.exactly_one {
        schema.insert("minProperties".into(), json!(1));
        schema.insert("maxProperties".into(), json!(1));
    }
    Value::Object(schema)
}
