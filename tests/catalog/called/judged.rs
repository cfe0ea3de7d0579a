//! The judge itself: it takes what a small document declares, and refuses each way of doing otherwise.

use serde_json::{Value, json};

use super::judge::{Judge, Meant};
use midex_test::{rows, service::Seen};

/// A document of all that the judge knows, for requests that are written by hand.
fn document() -> Value {
    let text = json!({ "type": "string", "minLength": 2 });
    let query = |name: &str, style: &str, schema: Value| json!({ "name": name, "in": "query", "style": style, "schema": schema });
    let list = json!({ "type": "array", "items": { "type": "integer" } });
    let body = json!({ "type": "object", "required": ["a", "id"], "properties": {
        "a": { "type": "integer", "nullable": true, "minimum": 1, "exclusiveMinimum": true },
        "id": { "type": "string", "readOnly": true },
    } });
    let contents = json!({
        "application/json": { "schema": { "$ref": "#/components/schemas/Body" } },
        "application/x-www-form-urlencoded": { "schema": { "$ref": "#/components/schemas/Body" } },
    });
    json!({
        "openapi": "3.0.3", "servers": [{ "url": "https://example.com/v1" }],
        "components": { "schemas": { "Body": body } },
        "paths": {
            "/things/{id}": {
                "parameters": [{ "name": "id", "in": "path", "schema": text }],
                "get": { "parameters": [
                    query("list", "form", list.clone()), query("deep", "deepObject", list),
                    { "name": "X-Key", "in": "header", "required": true, "schema": text },
                ] },
                "put": { "requestBody": { "required": true, "content": contents } },
            },
            "/things/mine": { "get": {} },
        },
    })
}

type Header = (&'static str, &'static str);

const KEY: Header = ("x-key", "ab");
const JSON: Header = ("content-type", "application/json");
const FORM: Header = ("content-type", "application/x-www-form-urlencoded");
const TEXT: Header = ("content-type", "text/plain");

/// Queries of `GET` with their path, and the rule that each breaks.
const QUERIES: &str = r#"
"/v1/things/a%2Fb", "list=1&list=2&deep[0]=3", ""
"/v1/things/a/b", "list=1&list=2&deep[0]=3", "path"
"/things/a%2Fb", "list=1&list=2&deep[0]=3", "path"
"/v1/things/mine", "list=1&list=2&deep[0]=3", "path"
"/v1/things/b", "list=1&list=2&deep[0]=3", "path parameter breaks minLength"
"/v1/things/a%252Fb", "list=1&list=2&deep[0]=3", "path parameter arrives as another value"
"/v1/things/a%2Fb", "list=1,2&deep[0]=3", "query parameter breaks type"
"/v1/things/a%2Fb", "list=1&list=2&deep=3&deep=4", "style"
"/v1/things/a%2Fb", "list=2&list=1&deep[0]=3", "query parameter arrives as another value"
"/v1/things/a%2Fb", "list=1&list=2", "query parameter lost"
"/v1/things/a%2Fb", "list=1&list=2&deep[0]=3&x=1", "query parameter unknown"
"#;

/// Bodies of `PUT` with their header, and the rule that each breaks.
const BODIES: &[(&str, Header, &str)] = &[
    (r#"{"a":2}"#, JSON, ""),
    ("a=2", FORM, ""),
    (r#"{"a":1}"#, JSON, "body breaks anyOf"),
    (r#"{"a":3}"#, JSON, "body arrives as another value"),
    (r#"{"a":null}"#, JSON, "body arrives as another value"),
    (r#"{"a":"2"}"#, JSON, "body breaks anyOf"),
    ("{}", JSON, "body breaks required"),
    ("a=2", JSON, "body is no JSON"),
    (r#"{"a":2}"#, KEY, "body missing"),
    ("2", TEXT, "content type not declared"),
];

#[test]
fn the_judge_refuses_what_the_document_does_not_declare_or_nobody_meant() {
    let judge = Judge::new(document());
    let given = [
        ("id", "path", json!("a/b")),
        ("X-Key", "header", json!("ab")),
        ("list", "query", json!([1, 2])),
        ("deep", "query", json!([3])),
    ];
    let meant =
        Meant { method: "GET", path: "/things/{id}", parameters: given.to_vec(), body: None };
    let line = |path: &str, query: &str| format!("GET {path}?{query} HTTP/1.1");
    for [path, query, rule] in rows(QUERIES) {
        let seen = seen(line(path, query), KEY, "");
        assert_eq!(broken(&judge, &seen, &meant), rule, "{path}?{query}");
    }
    let without_key = seen(line("/v1/things/a%2Fb", "list=1&list=2&deep[0]=3"), JSON, "");
    assert_eq!(broken(&judge, &without_key, &meant), "header parameter missing");
    let meant = Meant {
        method: "PUT",
        parameters: given[..1].to_vec(),
        body: Some(json!({ "a": 2 })),
        ..meant
    };
    for (body, header, rule) in BODIES {
        let seen = seen("PUT /v1/things/a%2Fb HTTP/1.1".to_owned(), *header, body);
        assert_eq!(broken(&judge, &seen, &meant), *rule, "{body}");
    }
    let other = seen("POST /v1/things/a%2Fb HTTP/1.1".to_owned(), JSON, r#"{"a":2}"#);
    assert_eq!(broken(&judge, &other, &meant), "path");
}

fn seen(line: String, header: Header, body: &str) -> Seen {
    Seen {
        line,
        headers: vec![(header.0.to_owned(), header.1.to_owned())],
        body: body.as_bytes().to_vec(),
    }
}

/// The rule that a request breaks, without the particulars.
fn broken(judge: &Judge, seen: &Seen, meant: &Meant<'_>) -> String {
    let refused = judge.refused(seen, meant).unwrap_or_default();
    refused.split(':').next().unwrap_or_default().to_owned()
}
