//! The JSON Schemas of definition files, step outputs and errors, for editors and code generators.
//!
//! The schemas of definition files list exactly those keys of [`midex_domain::grammar`] that are read. Some rules
//! cannot be expressed in a schema, so only `midex validate` checks them: that a dependency or a jump names another
//! step, that steps do not wait for each other in a cycle, that an extended workflow exists and has the steps that the
//! manifest refers to, that the arms of a branch do not overlap and every step is reachable, that step ids are
//! distinct, that an agent exists and has a persona, that the server has an activity, that `allowParallel: false` can
//! be kept, that `result` is a valid schema and `example` satisfies it, that expressions parse, that a duration or an
//! instant is valid, that no key is repeated and no two files have the same name.
//! Limits in bytes are expressed in characters, so for non-ASCII texts the schema accepts more than the check.

mod grammar;

use serde_json::{Map, Value, json};

use midex_domain::{
    definition::output_schema_json,
    draft::WorkflowFormat,
    error::{Category, Code},
};

/// The kinds of documents that have a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaKind {
    /// A workflow in YAML or JSON.
    Manifest,
    /// The front matter of a workflow in Markdown.
    FrontMatter,
    /// The front matter of an agent.
    Agent,
    /// The output of a step that does not declare its own schema.
    Output,
    /// An error, in the form in which every interface reports it.
    Error,
}

/// The JSON Schema draft that a schema is written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchemaDraft {
    /// Draft 2020-12, the newest.
    #[default]
    Draft202012,
    /// Draft 7, which most editors support.
    Draft7,
}

/// The schema, self-contained: it refers to no other document.
pub fn build_schema(schema_kind: SchemaKind, draft: SchemaDraft) -> Value {
    let schema = match schema_kind {
        SchemaKind::Manifest => {
            add_title("A midex workflow", grammar::workflow_schema(WorkflowFormat::Manifest))
        }
        SchemaKind::FrontMatter => {
            let schema = grammar::workflow_schema(WorkflowFormat::Phases);
            add_title("Front matter of a midex workflow", schema)
        }
        SchemaKind::Agent => add_title("Front matter of a midex agent", grammar::persona_schema()),
        SchemaKind::Output => add_title("The output of a midex step", output_schema_json()),
        SchemaKind::Error => add_title("An error of midex", error_schema()),
    };
    add_draft_keywords(schema, draft)
}

fn add_title(title: &str, schema: Value) -> Value {
    let mut titled = Map::from_iter([("title".to_owned(), json!(title))]);
    if let Value::Object(schema) = schema {
        titled.extend(schema);
    }
    Value::Object(titled)
}

/// Adds the keywords of a draft to a schema. All other keywords in use are the same in both drafts.
fn add_draft_keywords(schema: Value, draft: SchemaDraft) -> Value {
    let (uri, definitions) = match draft {
        SchemaDraft::Draft202012 => ("https://json-schema.org/draft/2020-12/schema", "$defs"),
        SchemaDraft::Draft7 => ("http://json-schema.org/draft-07/schema#", "definitions"),
    };
    let mut keyword_schema = Map::from_iter([("$schema".to_owned(), json!(uri))]);
    if let Value::Object(schema) = rename_definitions_key(schema, definitions) {
        keyword_schema.extend(schema);
    }
    Value::Object(keyword_schema)
}

/// Renames the key of the definitions throughout the schema.
fn rename_definitions_key(schema: Value, definitions: &str) -> Value {
    let entry = |(key, value): (String, Value)| match (key.as_str(), value) {
        ("$defs", value) => (definitions.to_owned(), rename_definitions_key(value, definitions)),
        ("$ref", Value::String(to)) => (key, json!(to.replace("$defs", definitions))),
        (_, value) => (key, rename_definitions_key(value, definitions)),
    };
    match schema {
        Value::Object(map) => Value::Object(map.into_iter().map(entry).collect()),
        Value::Array(items) => {
            items.into_iter().map(|item| rename_definitions_key(item, definitions)).collect()
        }
        other => other,
    }
}

/// The schema of an error payload ([`midex_domain::error::Error::to_payload`]). Interfaces may add their own keys.
fn error_schema() -> Value {
    let codes: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    json!({
        "type": "object",
        "properties": {
            "error_code": { "description": "The stable name of what went wrong", "enum": codes },
            "category": { "description": "The kind of the error", "enum": list_error_categories() },
            "message": { "description": "What went wrong, for a reader", "type": "string" },
            "context": { "description": "The identifiers it concerns", "type": "object" },
            "retryable": { "description": "Whether the same call may succeed later", "type": "boolean" },
            "suggested_action": { "description": "The one right next call", "type": "string" },
            "correlation_id": { "description": "What the log has it under", "type": "string" },
            "violations": {
                "description": "Every way in which what was sent breaks a rule",
                "type": "array",
                "items": { "$ref": "#/$defs/violation" },
                "minItems": 1,
            },
            "step_id": { "description": "The step it concerns" },
        },
        "required": [
            "error_code", "category", "message", "context", "retryable", "suggested_action", "correlation_id"
        ],
        "$defs": { "violation": violation_schema() },
    })
}

fn list_error_categories() -> Vec<Category> {
    let mut categories = Vec::new();
    for category in Code::ALL.iter().map(|code| code.category()) {
        if !categories.contains(&category) {
            categories.push(category);
        }
    }
    categories
}

fn violation_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": { "description": "Where it stands; empty for the whole", "type": "string" },
            "rule": { "description": "The rule that is broken", "type": "string" },
            "message": { "description": "What is wrong, for a reader", "type": "string" },
            "line": { "description": "The line in the text of a definition, from 1", "type": "integer", "minimum": 1 },
            "column": { "description": "The column there, in characters from 1", "type": "integer", "minimum": 1 },
            "expected": { "description": "What the rule asks for", "type": "string" },
            "actual": { "description": "What was found", "type": "string" },
            "suggestion": suggestion_schema(),
        },
        "required": ["path", "rule", "message"],
        "additionalProperties": false,
    })
}

fn suggestion_schema() -> Value {
    let position = |what: &str| json!({ "description": what, "type": "integer", "minimum": 0 });
    json!({
        "type": "object",
        "description": "What to write instead",
        "properties": {
            "text": { "description": "In words", "type": "string" },
            "edits": {
                "description": "As changes of the text that a program can make, all at once",
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "line": position("The line where the part begins, from 1"),
                        "column": position("The column where it begins, in characters from 1"),
                        "end_line": position("The line where it ends"),
                        "end_column": position("The column after its last character"),
                        "start": position("Its first byte, from 0"),
                        "end": position("The byte after its last one"),
                        "new_text": { "description": "What stands there instead", "type": "string" },
                    },
                    "required": ["line", "column", "end_line", "end_column", "start", "end", "new_text"],
                    "additionalProperties": false,
                },
            },
        },
        "required": ["text", "edits"],
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use midex_domain::{
        error::{Error, Violation},
        schema::Schema,
    };

    const ALL_SCHEMA_KINDS: [SchemaKind; 5] = [
        SchemaKind::Manifest,
        SchemaKind::FrontMatter,
        SchemaKind::Agent,
        SchemaKind::Output,
        SchemaKind::Error,
    ];

    /// The schema and all its subschemas.
    fn all_subschemas(value: &Value) -> Vec<&Value> {
        let below: Vec<_> = match value {
            Value::Object(map) => map.values().flat_map(all_subschemas).collect(),
            Value::Array(items) => items.iter().flat_map(all_subschemas).collect(),
            _ => Vec::new(),
        };
        [value].into_iter().chain(below).collect()
    }

    #[test]
    fn every_schema_stands_alone_in_both_drafts() {
        for of in ALL_SCHEMA_KINDS {
            for (draft, definitions) in
                [(SchemaDraft::Draft202012, "#/$defs/"), (SchemaDraft::Draft7, "#/definitions/")]
            {
                let schema = build_schema(of, draft);
                jsonschema::meta::validate(&schema).unwrap();
                jsonschema::validator_for(&schema).unwrap();
                for part in all_subschemas(&schema) {
                    let Some(to) = part.get("$ref") else { continue };
                    let to = to.as_str().unwrap();
                    assert!(to.starts_with(definitions), "{to}");
                    assert!(schema.pointer(&to[1..]).is_some(), "{to}");
                    // Drafts before 2019-09 ignore all siblings of `$ref`.
                    assert_eq!(part.as_object().unwrap().len(), 1, "{part}");
                }
            }
        }
    }

    #[test]
    fn every_error_satisfies_its_schema() {
        let schema = build_schema(SchemaKind::Error, SchemaDraft::default());
        let schema = Schema::compile(&schema).unwrap();
        let violation = |expected: Option<&str>| Violation {
            expected: expected.map(str::to_owned),
            ..Violation::new("/x", "type", "m")
        };
        for code in Code::ALL {
            let error = Error::new(*code, "words").with_context("step_id", "a");
            let plain = Value::Object(error.to_payload(""));
            assert_eq!(schema.find_violations(&plain), [], "{code}");
            let error = error.with_violations(vec![violation(None), violation(Some("a text"))]);
            let full = Value::Object(error.to_payload("0123"));
            assert_eq!(schema.find_violations(&full), [], "{code}");
            for key in ["error_code", "category", "retryable", "suggested_action"] {
                let mut broken = full.clone();
                broken.as_object_mut().unwrap().remove(key);
                assert_eq!(schema.find_violations(&broken).len(), 1, "{key}");
            }
            let mut unknown = full;
            unknown["error_code"] = json!("NO_SUCH_CODE");
            unknown["violations"][0]["colour"] = json!("red");
            assert_eq!(schema.find_violations(&unknown).len(), 2);
        }
    }

    #[test]
    fn the_output_schema_is_the_one_that_is_enforced() {
        let mut shown = build_schema(SchemaKind::Output, SchemaDraft::Draft7);
        let shown = shown.as_object_mut().unwrap();
        for added in ["$schema", "title"] {
            assert!(shown.shift_remove(added).is_some());
        }
        assert_eq!(Value::Object(shown.clone()), output_schema_json());
    }
}
