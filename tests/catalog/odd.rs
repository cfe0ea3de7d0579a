//! Documents with something odd anywhere: they are compiled or refused, and every schema that comes of one can be evaluated.

use midex_catalog::document::{DocumentKind, DocumentReader, compile_document};
use midex_domain::schema::Schema;
use serde_json::{Value, json};

use super::schemas;
use midex_test::long::{Dice, rounds, seed};

fn whole() -> Value {
    json!({
        "openapi": "3.0.3", "info": { "title": "Shop", "version": "1" },
        "servers": [{ "url": "https://{a}.example.com", "variables": { "a": { "default": "b", "enum": ["b", "c"] } } }],
        "security": [{ "key": [] }],
        "paths": {
            "/things/{id}": {
                "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "integer", "minimum": 1, "exclusiveMinimum": true } }],
                "get": { "operationId": "one", "summary": "One thing", "deprecated": true, "x-a": { "b": 1 },
                    "responses": { "200": { "headers": { "Link": {} }, "content": { "application/json": { "schema": { "$ref": "#/components/schemas/thing" } } } } } },
                "put": { "requestBody": { "$ref": "#/components/requestBodies/thing" }, "responses": {} },
            },
            "/things": {
                "get": { "operationId": "all", "parameters": [
                        { "$ref": "#/components/parameters/cursor" },
                        { "name": "filter", "in": "query", "style": "deepObject", "explode": true, "schema": { "type": "object", "additionalProperties": { "type": "string", "nullable": true } } },
                        { "name": "where", "in": "header", "content": { "application/json": { "schema": {} } } } ],
                    "responses": { "200": { "content": { "application/json": { "schema": { "properties": {
                        "data": { "type": "array", "items": { "allOf": [{ "$ref": "#/components/schemas/thing" }, { "required": ["id"] }] } },
                        "meta": { "properties": { "next_cursor": { "type": "string" } } } } } } } } } },
                "post": { "security": [], "requestBody": { "content": { "multipart/form-data": { "schema": { "type": "object", "properties": { "file": { "type": "string", "format": "binary" } } }, "encoding": { "file": { "style": "form" } } } } } },
            },
            "/moved": { "$ref": "#/paths/~1things" },
        },
        "components": {
            "schemas": {
                "thing": { "type": "object", "required": ["id"], "properties": {
                    "id": { "type": "string", "pattern": "^[a-z]+$", "format": "uuid", "readOnly": true, "minLength": 1 },
                    "kind": { "enum": ["a", "b"], "default": "a", "example": "b", "nullable": true },
                    "parts": { "type": "array", "minItems": 0, "uniqueItems": true, "items": { "$ref": "#/components/schemas/other" } } },
                    "patternProperties": { "^x-": true }, "not": { "required": ["x"] }, "oneOf": [{ "$ref": "#/components/schemas/other" }, {}], "discriminator": { "propertyName": "kind" } },
                "other": { "anyOf": [{ "$ref": "#/components/schemas/thing/properties/kind" }, { "type": ["integer", "null"], "multipleOf": 2, "const": 4 }], "if": {}, "then": true,
                    "dependentRequired": { "a": ["b"] }, "dependentSchemas": { "a": {} }, "propertyNames": { "maxLength": 9 }, "contains": {}, "prefixItems": [{}] },
            },
            "parameters": { "cursor": { "name": "cursor", "in": "query", "schema": { "type": "string" } } },
            "requestBodies": { "thing": { "required": true, "content": { "application/json": { "schema": { "$ref": "#/components/schemas/thing" } }, "text/plain": {} } } },
            "securitySchemes": { "key": { "type": "apiKey", "in": "header", "name": "X-Key" } },
        },
    })
}

fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    let inside = |key: &str| format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
    for (key, value) in value.as_object().into_iter().flatten() {
        pointers(value, &inside(key), found);
    }
    for (key, value) in value.as_array().into_iter().flatten().enumerate() {
        pointers(value, &inside(&key.to_string()), found);
    }
}

fn odd(dice: &mut Dice, document: &Value, pointers: &[String]) -> Value {
    let values = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(""),
        json!("x"),
        json!([]),
        json!({}),
        json!(["a", "a"]),
        json!([[]]),
        json!({ "$ref": "#/components/schemas/thing" }),
        json!({ "$ref": "#/components/schemas/other" }),
        json!({ "$ref": "#" }),
        json!({ "$ref": "x.json" }),
        json!({ "$ref": "#/nowhere" }),
        json!("integer"),
        json!("^(?=a)"),
        json!({ "nullable": true }),
    ];
    let roll = usize::try_from(dice.roll(values.len() as u64 + 8)).unwrap();
    let other = usize::try_from(dice.roll(pointers.len() as u64)).unwrap();
    let copied = document.pointer(&pointers[other]).cloned();
    values.get(roll).cloned().or(copied).unwrap_or_default()
}

#[test]
fn whatever_stands_anywhere_is_compiled_or_refused() {
    let mut dice = Dice(seed(11));
    let mut refusals = 0;
    let rounds = rounds(400, 50_000);
    for _ in 0..rounds {
        let mut document = whole();
        for _ in 0..=dice.roll(3) {
            let mut all = Vec::new();
            pointers(&document, "", &mut all);
            let value = odd(&mut dice, &document, &all);
            let at = usize::try_from(dice.roll(all.len() as u64)).unwrap();
            *document.pointer_mut(&all[at]).unwrap() = value;
        }
        let compiled = match compile_document(document.to_string().as_bytes()) {
            Ok(compiled) => compiled,
            Err(refused) => {
                assert!(!refused.violations.is_empty() && refused.kind != DocumentKind::OpenApi2);
                refusals += 1;
                continue;
            }
        };
        let book = DocumentReader::from_bytes(compiled.encode()).unwrap();
        for place in 0..book.entries().len() {
            let operation = book.read_operation(place).unwrap();
            assert_eq!(book.find_operation_index(&operation.name), Some(place));
            for schema in schemas(&operation) {
                let made = Schema::compile(schema);
                assert!(made.is_ok(), "{made:?}: {schema} of {document}");
            }
        }
    }
    assert!(refusals * 3 < rounds, "{refusals} of {rounds} were refused");
}
