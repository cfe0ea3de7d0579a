//! Documents as people write them, and as they should not.

use midex_catalog::{
    document::{
        CompiledDocument, DocumentKind, DocumentReader, Inspection, NameCollision,
        SearchableCatalog, compile_document, inspect_document, search_operations,
    },
    operation::{
        Method, Operation, Pagination, ParameterLocation, ParameterStyle, SecurityScheme,
        ValueStyle,
    },
};
use midex_domain::{limits, schema::Schema};
use midex_test::{list_of, rows};
use serde_json::{Value, json};

/// A document of 3.1 with these paths and what else is said at its top.
fn document(paths: Value, more: Value) -> Value {
    let mut document = json!({
        "openapi": "3.1.0",
        "info": { "title": "Shop", "version": "1" },
        "paths": paths,
    });
    let top = document.as_object_mut().unwrap();
    top.extend(more.as_object().unwrap().clone());
    document
}

#[track_caller]
fn compiled(document: &Value) -> CompiledDocument {
    compile_document(document.to_string().as_bytes())
        .unwrap_or_else(|refused| panic!("{refused:?}"))
}

/// The only operation of a document, as it comes back from its compiled form.
#[track_caller]
fn only(document: &Value) -> Operation {
    let compiled = compiled(document);
    let book = DocumentReader::from_bytes(compiled.encode()).unwrap();
    assert_eq!(book.entries().len(), 1, "{:?}", book.entries());
    book.read_operation(0).unwrap()
}

/// The operation `GET /things` with these keys.
#[track_caller]
fn things(operation: Value, more: Value) -> Operation {
    only(&document(json!({ "/things": { "get": operation } }), more))
}

fn refused(text: &str) -> (Inspection, String) {
    let inspection = inspect_document(text.as_bytes());
    let rule = inspection.violations.first().map(|first| first.rule.clone());
    (inspection, rule.unwrap_or_default())
}

#[test]
fn what_cannot_be_imported_is_named_with_its_rule() {
    for [text, kind, rule, says] in rows(
        r#"
        "", "Unknown", "document_empty", "empty"
        "<!doctype html><html></html>", "Unknown", "document_kind", "HTML"
        "[]", "Unknown", "document_type", "a list"
        "a: b", "Unknown", "openapi_version", "no key `openapi`"
        "openapi: 4.0.0", "Unknown", "openapi_version", "4.0.0"
        "openapi: {}", "Unknown", "openapi_version", "{}"
        "swagger: '2.0'\npaths: {/a: {get: {}}}", "OpenApi2", "openapi_generation", "npx swagger2openapi"
        "openapi: 3.0.0", "OpenApi3", "paths_required", "paths"
        "openapi: 3.0.0\npaths: []", "OpenApi3", "paths_type", "a list"
        "openapi: 3.1.0\npaths: {}", "OpenApi3", "operations_presence", "nothing to call"
        "openapi: 3.1.0\npaths: {/a: {parameters: []}}", "OpenApi3", "operations_presence", "nothing to call"
        "{\"openapi\": \"3.0.0\",\n \"paths\": {,}}", "Unknown", "syntax", "JSON"
        "openapi: 3.0.0\npaths: {", "Unknown", "syntax", "YAML"
        "#,
    ) {
        let (inspection, found) = refused(text);
        assert_eq!(format!("{:?}", inspection.kind), kind, "{text}");
        assert_eq!(found, rule, "{text}");
        let message = &inspection.violations[0].message;
        assert!(message.contains(says), "{text}: {message}");
        assert_eq!(compile_document(text.as_bytes()).unwrap_err(), inspection);
    }
    let (inspection, _) = refused("{\"openapi\": \"3.0.0\",\n \"paths\": {,}}");
    let first = &inspection.violations[0];
    assert_eq!((first.line, first.column), (Some(2), Some(12)));
    assert_eq!(refused("swagger: '2.0'\npaths: {/a: {get: {}}}").0.operation_count, 1);
    assert_eq!(inspect_document(b"\xff\xfe{").violations[0].rule, "encoding");
}

#[test]
fn json_and_yaml_say_the_same() {
    let yaml = "openapi: 3.1\ninfo: {title: Shop, version: 1.0}\npaths:\n  /a: &a\n    get:\n      operationId: one\n      responses: {200: {description: ok, content: {application/json: {schema: {type: array}}}}}\n  /b: *a\n";
    let compiled = compile_document(yaml.as_bytes()).unwrap();
    let names = list_of(&compiled.operations, |operation| operation.name.as_str());
    assert_eq!(names, ["a:list", "b:list"]);
    assert_eq!(compiled.operations[1].output, Some(json!({ "type": "array" })));
    assert_eq!(compiled.title.as_str(), "Shop");
    assert_eq!(compiled.version.as_str(), "1.0");
    let rules = list_of(&compiled.warnings, |warning| warning.rule.as_str());
    assert_eq!(rules, ["duplicate_operation_id"; 2]);
    assert_eq!(compiled.operations[0].aliases, [""; 0]);
}

#[test]
fn yaml_may_hold_what_json_cannot() {
    let yaml = "openapi: 3.0.3\npaths:\n  /a:\n    get:\n      parameters:\n      - {name: n, in: query, schema: {maximum: 18446744073709552000, default: 2020-01-01}}\n      responses: {200: {description: no}}\n      x-on: on\n      x-1: {1: a, true: b}\n";
    let compiled = compile_document(yaml.as_bytes()).unwrap();
    let operation = &compiled.operations[0];
    assert_eq!(operation.parameters[0].schema["default"], "2020-01-01");
    assert_eq!(
        json!(operation.extensions),
        json!({ "x-on": "on", "x-1": { "1": "a", "true": "b" } })
    );
}

#[test]
fn documents_past_a_limit_are_refused_by_name() {
    let large = format!("openapi: 3.0.0\n# {}", "x".repeat(limits::DOCUMENT_BYTES_MAX));
    assert_eq!(refused(&large).1, "document_size");
    let many = format!("{{\"a\":[{}0]}}", "0,".repeat(limits::DOCUMENT_NODES_MAX));
    assert_eq!(refused(&many).1, "document_size");
    for open in ["[", "{\"a\":"] {
        let deep = format!("{{\"a\":{}", open.repeat(limits::DOCUMENT_DEPTH_MAX));
        assert_eq!(refused(&deep).1, "syntax");
    }
    let deep = format!("a: {}", "[".repeat(limits::DOCUMENT_DEPTH_MAX + 1));
    assert_eq!(refused(&deep).1, "syntax");
    let aliases = format!("a: &a 1\nb: [{}*a]", "*a,".repeat(100_000));
    assert_eq!(refused(&aliases).1, "syntax");
    let mut bomb = "a0: &a0 [1,1]\n".to_owned();
    for level in 1..60 {
        let line = format!("a{level}: &a{level} [*a{0},*a{0}]\n", level - 1);
        bomb.push_str(&line);
    }
    assert_eq!(refused(&bomb).1, "syntax");
    let item = json!({ "get": {} });
    let paths = (0..=limits::DOCUMENT_OPERATIONS_MAX).map(|at| (format!("/p{at}"), item.clone()));
    let many = document(paths.collect(), json!({}));
    let (inspection, rule) = refused(&many.to_string());
    assert_eq!(rule, "operations_limit");
    assert_eq!(inspection.operation_count, limits::DOCUMENT_OPERATIONS_MAX + 1);
}

#[test]
fn references_are_followed_everywhere_and_those_outside_refuse_one_operation() {
    let more = json!({ "components": {
        "parameters": { "limit": { "$ref": "#/components/parameters/deep~1er" },
            "deep/er": { "name": "limit", "in": "query", "schema": { "$ref": "#/components/schemas/a%20b" } } },
        "schemas": { "a b": { "type": "integer" }, "far": { "properties": { "x": { "$ref": "other.yaml#/X" } } } },
        "requestBodies": { "b": { "required": true, "content": { "application/json": { "schema": { "$ref": "#/components/schemas/far" } } } } },
        "responses": { "r": { "content": { "application/json": { "schema": { "$ref": "#/paths/~1things/get/x-answer" } } } } },
        "pathItems": { "p": { "get": { "responses": { "200": { "$ref": "#/components/responses/r" } } } } },
    }});
    let paths = json!({
        "/things": { "get": {
            "x-answer": { "type": "array", "items": { "$ref": "#/components/schemas/a b" } },
            "parameters": [{ "$ref": "#/components/parameters/limit" }],
            "responses": { "200": { "$ref": "#/components/responses/r" } },
        } },
        "/moved": { "$ref": "#/components/pathItems/p" },
        "/gone": { "$ref": "elsewhere.json" },
        "/far": {
            "post": { "requestBody": { "$ref": "#/components/requestBodies/b" } },
            "get": { "parameters": [{ "$ref": "https://example.org/p.json" }] },
            "put": { "requestBody": { "content": { "application/json": { "schema": { "$ref": "x.json" } } } } },
            "delete": { "responses": { "200": { "content": { "application/json": { "schema": { "$ref": "x.json" } } } } } },
        },
    });
    let compiled = compiled(&document(paths, more));
    let book = DocumentReader::from_bytes(compiled.encode()).unwrap();
    let get =
        |name: &str| book.read_operation(book.find_operation_index(name).expect(name)).unwrap();
    let things = get("things:list");
    assert_eq!(things.parameters[0].schema["$defs"]["a_b"], json!({ "type": "integer" }));
    let schema = Schema::compile(&things.parameters[0].schema).unwrap();
    assert!(
        !schema.find_violations(&json!("1")).is_empty()
            && schema.find_violations(&json!(1)).is_empty()
    );
    let schema = Schema::compile(get("moved:list").output.as_ref().unwrap()).unwrap();
    assert!(
        !schema.find_violations(&json!(["1"])).is_empty()
            && schema.find_violations(&json!([1])).is_empty()
    );
    for name in ["far:create", "far:list", "far:update"] {
        let why = get(name).uncallable.expect(name);
        assert!(why.contains("leads out of the document"), "{why}");
    }
    assert_eq!(get("far:delete").uncallable, None);
    assert_eq!(get("far:delete").output, None);
    assert!(compiled.warnings.iter().any(|warning| warning.path == "/paths/~1gone"));
    assert_eq!(
        compiled.warnings.iter().filter(|warning| warning.rule == "operation_uncallable").count(),
        3
    );
}

#[test]
fn schemas_that_hold_themselves_end() {
    let chain: Vec<(String, Value)> = (0..100)
        .map(|at| {
            (format!("c{at:03}"), json!({ "$ref": format!("#/components/schemas/c{:03}", at + 1) }))
        })
        .collect();
    let mut schemas = json!({
        "tree": { "properties": { "children": { "type": "array", "items": { "$ref": "#/components/schemas/tree" } } } },
        "one": { "allOf": [{ "$ref": "#/components/schemas/two" }] },
        "two": { "anyOf": [{ "$ref": "#/components/schemas/one" }, { "type": "string" }] },
        "self": { "$ref": "#/components/schemas/self" },
        "c100": { "type": "string" },
    });
    schemas.as_object_mut().unwrap().extend(chain);
    let names = ["tree", "one", "self", "c000"];
    let parameters: Vec<_> = names.iter().map(|name| json!({ "name": name, "in": "query", "schema": { "$ref": format!("#/components/schemas/{name}") } })).collect();
    let looped = json!({ "a": { "$ref": "#/components/parameters/b" }, "b": { "$ref": "#/components/parameters/a" } });
    let more = json!({ "components": { "schemas": schemas, "parameters": looped } });
    let operation = things(json!({ "parameters": parameters }), more.clone());
    for parameter in &operation.parameters {
        let schema = Schema::compile(&parameter.schema);
        assert!(schema.is_ok(), "{}: {schema:?}", parameter.name);
    }
    let tree = Schema::compile(&operation.parameters[0].schema).unwrap();
    assert!(!tree.find_violations(&json!({ "children": [{ "children": 1 }] })).is_empty());
    let operation =
        things(json!({ "parameters": [{ "$ref": "#/components/parameters/a" }] }), more);
    assert!(operation.uncallable.unwrap().contains("leads to itself"));
}

#[test]
fn what_3_0_says_in_its_own_way_is_said_as_json_schema_does() {
    let schema = json!({
        "type": "object", "required": ["a", "id", "a"], "xml": {}, "externalDocs": {}, "discriminator": { "propertyName": "a" },
        "properties": {
            "a": { "type": "string", "nullable": true, "enum": ["x"], "example": "x" },
            "n": { "type": "integer", "format": "int64", "minimum": 1, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false },
            "id": { "type": "string", "readOnly": true },
            "r": { "nullable": true, "allOf": [{ "type": "integer" }] },
            "p": { "type": "string", "pattern": "^(?=a)" },
            "odd": { "type": "int", "required": true, "items": 3, "minLength": "1", "enum": [], "allOf": [], "x-a": 1, "desciption": "" },
        },
    });
    let operation = json!({ "parameters": [{ "name": "q", "in": "query", "schema": schema }] });
    let mut document = document(json!({ "/things": { "get": operation } }), json!({}));
    document["openapi"] = "3.0.3".into();
    let schema = only(&document).parameters[0].schema.clone();
    assert_eq!(
        schema,
        json!({
            "type": "object", "required": ["a"],
            "properties": {
                "a": { "type": ["string", "null"], "enum": ["x", null], "examples": ["x"] },
                "n": { "type": "integer", "format": "int64", "maximum": 9, "exclusiveMinimum": 1 },
                "id": { "type": "string", "readOnly": true },
                "r": { "anyOf": [{ "allOf": [{ "type": "integer" }] }, { "type": "null" }] },
                "p": { "type": "string" },
                "odd": {},
            },
        })
    );
    Schema::compile(&schema).unwrap();
}

#[test]
fn parameters_are_inherited_overridden_and_kept_apart() {
    let item = json!({
        "parameters": [
            { "name": "id", "in": "path", "required": true, "schema": { "type": "string" } },
            { "name": "limit", "in": "query", "description": "of the path" },
            { "name": "X-Trace", "in": "header" },
        ],
        "get": { "parameters": [
            { "name": "limit", "in": "query", "description": "of the operation", "required": true },
            { "name": "id", "in": "query", "style": "spaceDelimited" },
            { "name": "id", "in": "cookie" },
            { "name": "filter", "in": "query", "style": "deepObject", "explode": true },
            { "name": "where", "in": "query", "content": { "application/json": { "schema": { "type": "object" } } } },
            { "name": "Accept", "in": "header" }, { "name": "Authorization", "in": "header" },
            { "name": "Content-Length", "in": "header", "required": true }, { "name": "Host", "in": "header", "required": true },
            { "name": "Idempotency-Key", "in": "header", "required": true },
            { "name": "gone", "in": "path", "required": true },
        ] },
    });
    let operation = only(&document(json!({ "/things/{id}/{part}": item }), json!({})));
    let seen: Vec<_> = operation
        .parameters
        .iter()
        .map(|one| (one.argument.as_str(), one.location, one.is_required))
        .collect();
    assert_eq!(
        seen,
        [
            ("id", ParameterLocation::Path, true),
            ("part", ParameterLocation::Path, true),
            ("limit", ParameterLocation::Query, true),
            ("query.id", ParameterLocation::Query, false),
            ("filter", ParameterLocation::Query, false),
            ("where", ParameterLocation::Query, false),
            ("X-Trace", ParameterLocation::Header, false),
            ("cookie.id", ParameterLocation::Cookie, false),
        ]
    );
    let styled = |style, explode| ValueStyle::Styled { style, explode, allow_reserved: false };
    let written = list_of(&operation.parameters, |one| one.written.clone());
    assert_eq!(written[0], styled(ParameterStyle::Simple, false));
    assert_eq!(written[2], styled(ParameterStyle::Form, true));
    assert_eq!(written[3], styled(ParameterStyle::SpaceDelimited, false));
    assert_eq!(written[4], styled(ParameterStyle::DeepObject, true));
    assert_eq!(written[5], ValueStyle::Content("application/json".into()));
    assert_eq!(written[7], styled(ParameterStyle::Form, true));
    assert_eq!(operation.parameters[2].description, "of the operation");
    assert_eq!(operation.idempotency_header.as_deref(), Some("Idempotency-Key"));
}

#[test]
fn too_many_parameters_refuse_the_operation() {
    let parameters: Vec<_> = (0..=limits::OPERATION_PARAMETERS_MAX)
        .map(|at| json!({ "name": format!("p{at}"), "in": "query" }))
        .collect();
    let operation = things(json!({ "parameters": parameters }), json!({}));
    assert!(operation.uncallable.unwrap().contains("the limit is 500"));
    assert_eq!(operation.parameters.len(), limits::OPERATION_PARAMETERS_MAX);
}

#[test]
fn servers_are_filled_and_bounded() {
    let document = document(
        json!({ "/things": { "servers": [{ "url": "https://path.example/" }],
            "get": {}, "post": { "servers": [{ "url": "/own" }] } } }),
        json!({ "servers": [
            { "url": "https://{region}.example.com/{base}/", "variables": {
                "region": { "default": "eu", "enum": ["us", "eu"] }, "base": { "default": "v2" } } },
            { "url": "/relative" }, { "url": "/" },
        ] }),
    );
    let made = compiled(&document);
    assert_eq!(
        made.servers,
        ["https://eu.example.com/v2", "https://us.example.com/v2", "/relative"]
    );
    assert_eq!(made.operations[0].servers, ["/own"]);
    assert_eq!(made.operations[1].servers, ["https://path.example"]);
    let values: Vec<_> = (0..1000).map(|at| at.to_string()).collect();
    let variable = json!({ "default": "0", "enum": values });
    let mut bomb = document;
    bomb["servers"] = json!([{ "url": "{a}{b}{c}", "variables": { "a": variable, "b": variable, "c": variable } }]);
    assert_eq!(compiled(&bomb).servers.len(), limits::DOCUMENT_SERVERS_MAX);
}

#[test]
fn bodies_are_in_the_order_in_which_they_are_easiest_to_send() {
    let body = json!({ "required": true, "description": "what to make", "content": {
        "application/octet-stream": {}, "text/plain": {}, "application/xml": { "schema": { "type": "object" } },
        "multipart/form-data": { "schema": { "properties": { "file": { "type": "string", "format": "binary" } } },
            "encoding": { "file": { "contentType": "image/png", "headers": {} } } },
        "application/x-www-form-urlencoded": {}, "application/merge-patch+json; charset=utf-8": {}, "application/JSON": {},
    } });
    let document = document(json!({ "/things": { "post": { "requestBody": body } } }), json!({}));
    let operation = only(&document);
    let body = operation.body.as_ref().unwrap();
    let types = list_of(&body.contents, |content| content.media_type.as_str());
    assert_eq!(
        types,
        [
            "application/merge-patch+json",
            "application/json",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "text/plain",
            "application/xml",
            "application/octet-stream",
        ]
    );
    assert_eq!(body.contents[3].schema["properties"]["file"]["format"], "binary");
    assert_eq!(json!(body.contents[3].encoding), json!({ "file": { "contentType": "image/png" } }));
    assert_eq!(body.contents[5].schema, json!({ "type": "string" }));
    assert!(body.is_required);
    // The caller chooses.
    let choice = &operation.parameters[0];
    assert_eq!(choice.argument.as_str(), "Content-Type");
    assert!(!choice.is_required);
    assert_eq!(choice.schema["enum"], json!(types));
}

#[test]
fn a_body_that_lists_changes_comes_after_the_other_json() {
    let types = ["json-patch+json", "merge-patch+json", "apply-patch+yaml"];
    let contents = types.map(|name| (format!("application/{name}"), json!({})));
    let contents: serde_json::Map<_, _> = contents.into_iter().collect();
    let patch = json!({ "/pods": {
        "patch": { "requestBody": { "content": contents }, "parameters": [{ "name": "s", "in": "cookie" }] },
    } });
    let operation = only(&document(patch, json!({})));
    let of_body = operation.body.unwrap().contents;
    let types: Vec<_> = of_body.iter().map(|one| one.media_type.as_str()).collect();
    assert_eq!(
        types,
        [
            "application/merge-patch+json",
            "application/json-patch+json",
            "application/apply-patch+yaml"
        ]
    );
    let names = operation.parameters.iter().map(|one| one.argument.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["Content-Type", "s"]);
}

#[test]
fn security_is_the_operations_own_or_the_documents() {
    let schemes = json!({
        "key": { "type": "apiKey", "in": "query", "name": "k" }, "cookie": { "type": "apiKey", "in": "cookie", "name": "c" },
        "basic": { "type": "http", "scheme": "Basic" }, "bearer": { "type": "http", "scheme": "bearer" },
        "oauth": { "type": "oauth2", "flows": {} }, "oidc": { "type": "openIdConnect" }, "tls": { "type": "mutualTLS" },
        "digest": { "$ref": "#/components/x" },
    });
    let document = document(
        json!({ "/a": { "get": {}, "post": { "security": [] }, "put": { "security": [{}, { "key": [], "basic": [] }] } } }),
        json!({ "security": [{ "oauth": ["read"] }], "components": { "securitySchemes": schemes, "x": { "type": "http", "scheme": "digest" } } }),
    );
    let made = compiled(&document);
    let get =
        |name: &str| made.operations.iter().find(|one| one.name == name).unwrap().security.clone();
    assert_eq!(get("a:list"), [["oauth"]]);
    assert!(get("a:create").is_empty());
    assert_eq!(get("a:update"), [vec![], vec!["key".to_owned(), "basic".into()]]);
    let other = |scheme: &str| SecurityScheme::Other { scheme: scheme.into() };
    for (name, scheme) in [
        ("key", SecurityScheme::ApiKey { location: ParameterLocation::Query, name: "k".into() }),
        (
            "cookie",
            SecurityScheme::ApiKey { location: ParameterLocation::Cookie, name: "c".into() },
        ),
        ("basic", SecurityScheme::Basic),
        ("bearer", SecurityScheme::Bearer),
        ("oauth", SecurityScheme::Bearer),
        ("oidc", SecurityScheme::Bearer),
        ("tls", other("mutualTLS")),
        ("digest", other("digest")),
    ] {
        assert_eq!(made.schemes[name], scheme);
    }
}

#[test]
fn pages_and_answers_are_read_from_the_document() {
    let answer = |schema: Value| json!({ "204": {}, "200": { "content": { "application/problem+json": {}, "application/json": { "schema": schema } } }, "400": {} });
    let query = |names: &[&str]| {
        names.iter().map(|name| json!({ "name": name, "in": "query" })).collect::<Value>()
    };
    let link = json!({ "200": { "headers": { "link": {} } } });
    assert_eq!(things(json!({ "responses": link }), json!({})).pagination, Some(Pagination::Link));
    let page = json!({ "properties": { "has_more": { "type": "boolean" }, "response_metadata": { "allOf": [{ "properties": { "next_cursor": { "type": "string" } } }] } } });
    let operation = things(
        json!({ "parameters": query(&["cursor", "limit"]), "responses": { "200": { "content": { "application/json": { "schema": page } } } } }),
        json!({}),
    );
    assert_eq!(
        operation.pagination,
        Some(Pagination::Cursor {
            argument: "cursor".into(),
            field: "response_metadata.next_cursor".into()
        })
    );
    let operation = things(json!({ "parameters": query(&["perPage", "page"]) }), json!({}));
    assert_eq!(
        operation.pagination,
        Some(Pagination::Page {
            argument: "page".into(),
            size: Some("perPage".into()),
            counts_items: false
        })
    );
    let token = json!([{ "name": "offset", "in": "query", "schema": { "type": "string" } }]);
    assert_eq!(things(json!({ "parameters": token }), json!({})).pagination, None);
    let operation = things(
        json!({ "parameters": query(&["offset"]), "responses": answer(json!({ "type": "array" })) }),
        json!({}),
    );
    assert_eq!(
        operation.pagination,
        Some(Pagination::Page { argument: "offset".into(), size: None, counts_items: true })
    );
    assert_eq!(operation.output, None, "the first JSON of 200 has no schema");
}

#[test]
fn words_extensions_and_odd_paths_are_kept_within_bounds() {
    let large = "x".repeat(limits::OPERATION_EXTENSION_BYTES_MAX);
    let operation = things(
        json!({ "description": "First  line.\nSecond.", "deprecated": true, "operationId": "getThings",
        "x-small": { "a": 1 }, "x-large": large, "tags": [] }),
        json!({}),
    );
    assert_eq!(operation.summary.as_str(), "First line.");
    assert_eq!(operation.description.as_str(), "First  line.\nSecond.");
    assert_eq!(json!(operation.extensions), json!({ "x-small": { "a": 1 } }));
    assert_eq!(operation.aliases, ["getThings"]);
    assert!(operation.is_deprecated && operation.uncallable.is_none());
    for path in ["things", "/a?b=c", "/a b"] {
        let operation = only(&document(json!({ path: { "get": {} } }), json!({})));
        assert!(operation.uncallable.is_some(), "{path}");
    }
    let operation = only(&document(json!({ "/a#add": { "get": {} } }), json!({})));
    assert_eq!(operation.name.as_str(), "a-add:list");
    assert_eq!(operation.path.as_str(), "/a");
}

#[test]
fn what_an_operation_shares_comes_with_it_up_to_a_bound() {
    let text = "x".repeat(10_000);
    let schemas: serde_json::Map<_, _> = (0..200)
        .map(|at| {
            let next = json!({ "$ref": format!("#/components/schemas/s{:03}", at + 1) });
            (
                format!("s{at:03}"),
                json!({ "description": text, "type": "object", "properties": { "next": next } }),
            )
        })
        .chain([("s200".to_owned(), json!({}))])
        .collect();
    let more = json!({ "components": { "schemas": schemas } });
    let first = json!({ "$ref": "#/components/schemas/s000" });
    let operation =
        things(json!({ "parameters": [{ "name": "a", "in": "query", "schema": first }] }), more);
    let schema = &operation.parameters[0].schema;
    let bytes = schema.to_string().len();
    assert!(bytes < limits::OPERATION_SCHEMAS_BYTES_MAX + 20_000, "{bytes}");
    let kept = schema["$defs"].as_object().unwrap();
    assert!(
        kept.len() > 20 && kept.values().filter(|value| value.is_boolean()).count() == 1,
        "{}",
        kept.len()
    );
    Schema::compile(schema).unwrap();
}

#[test]
fn a_compiled_form_that_is_cut_foreign_or_damaged_is_not_opened() {
    let document =
        document(json!({ "/things": { "get": { "summary": "All things" } } }), json!({}));
    let compiled = compiled(&document);
    let bytes = compiled.encode();
    let book = DocumentReader::from_bytes(bytes.clone()).unwrap();
    assert_eq!(book.digest(), compiled.digest);
    assert_eq!(book.head().title.as_str(), "Shop");
    assert_eq!(book.find_operation_index("things:list"), Some(0));
    assert_eq!(book.find_operation_index("x"), None);
    assert_eq!(book.read_operation(0).unwrap(), compiled.operations[0]);
    assert!(book.read_operation(1).is_err());
    for length in 0..bytes.len() {
        assert!(DocumentReader::from_bytes(bytes[..length].to_vec()).is_err(), "{length}");
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        let is_noticed = DocumentReader::from_bytes(damaged).is_ok_and(|book| {
            let same = book.read_operation(0).is_ok_and(|one| one == compiled.operations[0])
                && book.read_notes().is_ok();
            same && book.digest() == compiled.digest
        });
        assert!(!is_noticed, "{at}");
    }
}

#[test]
fn collisions_are_resolved_in_one_way_and_listed() {
    let document = document(
        json!({
            "/things/{id}": { "post": { "operationId": "touchThing" }, "put": {}, "patch": {} },
            "/things": { "post": {} },
            "/v2/things/{id}/{part}": { "post": { "operationId": "touchPart" } },
            "/v3/things/{id}/{part}": { "post": {} },
        }),
        json!({}),
    );
    let made = compiled(&document);
    let name = |method, path: &str| {
        made.operations
            .iter()
            .find(|one| one.method == method && one.path == path)
            .unwrap()
            .name
            .clone()
    };
    assert_eq!(name(Method::Post, "/things"), "things:create");
    assert_eq!(name(Method::Post, "/things/{id}"), "touch-thing");
    assert_eq!(name(Method::Post, "/v2/things/{id}/{part}"), "touch-part");
    assert!(name(Method::Post, "/v3/things/{id}/{part}").starts_with("things:create-post-"));
    assert_eq!(name(Method::Patch, "/things/{id}"), "things:update");
    assert_eq!(name(Method::Put, "/things/{id}"), "things:update-things");
    assert_eq!(made.collisions.len(), 4);
    let first = NameCollision {
        wanted: "things:create".into(),
        name: "touch-thing".into(),
        method: Method::Post,
        path: "/things/{id}".into(),
    };
    assert!(made.collisions.contains(&first), "{:?}", made.collisions);
}

#[test]
fn providers_are_inferred_with_the_arguments_that_take_their_values() {
    let app = json!({ "type": "object", "properties": { "id": { "type": "string" }, "name": { "type": ["string", "null"] }, "owner": { "type": "object" } } });
    let list = |schema: Value| json!({ "responses": { "200": { "content": { "application/json": { "schema": schema } } } } });
    let apps = list(
        json!({ "properties": { "total": { "type": "integer" }, "apps": { "type": "array", "items": { "$ref": "#/components/schemas/app" } } } }),
    );
    let dynos = list(
        json!({ "type": "array", "items": { "allOf": [{ "$ref": "#/components/schemas/app" }] } }),
    );
    let app_id = json!([{ "name": "app_id", "in": "query" }]);
    let document = document(
        json!({
            "/apps": { "get": apps }, "/apps/{id}": { "get": {} }, "/apps/{id}/dynos": { "get": dynos },
            "/apps/{id}/dynos/{dyno}": { "delete": {} }, "/logs": { "get": { "parameters": app_id } }, "/texts": { "get": list(json!({ "type": "array", "items": { "type": "string" } })) },
        }),
        json!({ "components": { "schemas": { "app": app } } }),
    );
    let made = compiled(&document);
    let providers = json!(made.providers);
    assert_eq!(
        providers["providers"],
        json!([
            { "id": "apps:dynos:list", "arguments": [{ "name": "id", "required": true, "accepts": ["id", "app_id"] }], "items_path": "",
              "fields": [{ "name": "id", "type": "string", "tags": ["dyno_id", "id"] }, { "name": "name", "type": "string", "tags": ["dyno_name", "name"] }, { "name": "owner", "type": "object", "tags": ["owner"] }],
              "select": { "value_field": "id", "display_field": "name", "id_field": "id" } },
            { "id": "apps:list", "arguments": [], "items_path": "apps",
              "fields": [{ "name": "id", "type": "string", "tags": ["app_id", "id"] }, { "name": "name", "type": "string", "tags": ["app_name", "name"] }, { "name": "owner", "type": "object", "tags": ["owner"] }],
              "select": { "value_field": "id", "display_field": "name", "id_field": "id" } },
        ])
    );
    let uses: Vec<_> = made
        .providers
        .uses
        .iter()
        .map(|one| format!("{} {} {}", one.operation, one.argument, one.provider))
        .collect();
    assert_eq!(
        uses,
        [
            "apps:dynos:delete id apps:list",
            "apps:dynos:delete dyno apps:dynos:list",
            "apps:dynos:list id apps:list",
            "apps:info id apps:list",
            "logs:list app_id apps:list",
        ]
    );
}

#[test]
fn what_is_past_a_count_is_left_out() {
    let contents: Value = (0..=limits::OPERATION_CONTENTS_MAX)
        .map(|at| (format!("application/x{at:03}"), json!({})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let properties = |count: usize, schema: &dyn Fn(usize) -> Value| -> Value {
        let all = (0..count).map(|at| (format!("p{at:04}"), schema(at)));
        all.collect::<serde_json::Map<_, _>>().into()
    };
    let fields = properties(limits::PROVIDER_FIELDS_MAX + 1, &|_| json!({ "type": "string" }));
    let item = json!({ "properties": { "id": { "type": "string" } }, "allOf": [{ "properties": fields }] });
    let answer = json!({ "type": "array", "items": item });
    let long = "word ".repeat(limits::OPERATION_DESCRIPTION_CHARS_MAX);
    let operation = json!({
        "summary": long, "description": long, "requestBody": { "content": contents },
        "responses": { "200": { "content": { "application/json": { "schema": answer } } } },
    });
    let made = compiled(&document(json!({ "/things": { "get": operation } }), json!({})));
    let operation = &made.operations[0];
    assert_eq!(operation.body.as_ref().unwrap().contents.len(), limits::OPERATION_CONTENTS_MAX);
    assert_eq!(operation.summary.chars().count(), limits::OPERATION_SUMMARY_CHARS_MAX + 1);
    assert_eq!(operation.description.chars().count(), limits::OPERATION_DESCRIPTION_CHARS_MAX + 1);
    assert_eq!(made.providers.providers[0].fields.len(), limits::PROVIDER_FIELDS_MAX);

    let tried = properties(
        limits::DOCUMENT_PATTERNS_MAX + 1,
        &|at| json!({ "pattern": format!("^{at}$") }),
    );
    let parameter = json!([{ "name": "a", "in": "query", "schema": { "properties": tried } }]);
    let operation = things(json!({ "parameters": parameter }), json!({}));
    let made = operation.parameters[0].schema["properties"].as_object().unwrap();
    assert_eq!(
        made.values().filter(|one| one.get("pattern").is_some()).count(),
        limits::DOCUMENT_PATTERNS_MAX
    );

    let count = limits::OPERATION_SCHEMAS_MAX + 1;
    let shared = properties(count, &|_| json!({ "type": "string" }));
    let named =
        properties(count, &|at| json!({ "$ref": format!("#/components/schemas/p{at:04}") }));
    let parameter = json!([{ "name": "a", "in": "query", "schema": { "properties": named } }]);
    let operation =
        things(json!({ "parameters": parameter }), json!({ "components": { "schemas": shared } }));
    let made = operation.parameters[0].schema["$defs"].as_object().unwrap();
    assert_eq!(made.values().filter(|one| one.is_object()).count(), limits::OPERATION_SCHEMAS_MAX);
    assert_eq!(made.len(), count);
}

#[test]
fn chains_of_references_and_warnings_have_an_end() {
    let hops = |count: usize| {
        let chain = (0..count).map(|at| {
            (format!("h{at}"), json!({ "$ref": format!("#/components/parameters/h{}", at + 1) }))
        });
        let end = (format!("h{count}"), json!({ "name": "a", "in": "query" }));
        let all: serde_json::Map<_, _> = chain.chain([end]).collect();
        let first = json!([{ "$ref": "#/components/parameters/h0" }]);
        things(json!({ "parameters": first }), json!({ "components": { "parameters": all } }))
            .uncallable
    };
    assert_eq!(hops(limits::REFERENCE_HOPS_MAX - 2), None);
    assert!(hops(limits::REFERENCE_HOPS_MAX).unwrap().contains("more than 50"));

    let paths = (0..limits::DOCUMENT_WARNINGS_MAX + 50)
        .map(|at| (format!("/p{at}"), json!({ "get": { "operationId": "same" } })));
    let warnings = compiled(&document(paths.collect(), json!({}))).warnings;
    assert_eq!(warnings.len(), limits::DOCUMENT_WARNINGS_MAX);
    assert_eq!(warnings.last().unwrap().message, "51 further warnings are not shown");
}

#[test]
fn a_small_document_that_comes_to_a_large_one_is_refused() {
    let text = "x".repeat(1 << 20);
    let shared = json!({ "name": "a", "in": "query", "schema": { "description": text } });
    let item = json!({ "get": { "parameters": [{ "$ref": "#/components/parameters/a" }] } });
    let paths = |count: usize| (0..count).map(|at| (format!("/p{at}"), item.clone())).collect();
    let made = |count: usize| {
        document(paths(count), json!({ "components": { "parameters": { "a": shared } } }))
    };
    let (inspection, rule) = refused(&made(200).to_string());
    assert_eq!(inspection.kind, DocumentKind::OpenApi3);
    assert_eq!(inspection.operation_count, 200);
    assert_eq!(rule.as_str(), "document_expansion");
    assert_eq!(compiled(&made(20)).operations.len(), 20);
    let url = "{a}".repeat(600);
    let servers = json!([{ "url": url, "variables": { "a": { "default": "y".repeat(limits::SERVER_URL_BYTES_MAX) } } }, { "url": text }, { "url": "/ok" }]);
    let document = document(
        paths(1),
        json!({ "servers": servers, "components": { "parameters": { "a": shared } } }),
    );
    assert_eq!(compiled(&document).servers, ["/ok"]);
}

#[test]
fn what_a_catalog_is_called_is_found_and_may_change() {
    let book = |thing: &str| {
        let document = document(
            json!({ format!("/{thing}"): { "get": { "summary": format!("List all {thing}") }, "post": { "deprecated": true } } }),
            json!({}),
        );
        DocumentReader::from_bytes(compiled(&document).encode()).unwrap()
    };
    let (apples, pears) = (book("apples"), book("pears"));
    let find = |title: &str, query: &str| {
        let shelf = |book, title| SearchableCatalog {
            document: book,
            title,
            vendor: "fruit",
            description: "",
        };
        let shelves = [shelf(&apples, title), shelf(&pears, "Other")];
        let hits = search_operations(&shelves, query, 5).into_iter();
        hits.map(|hit| {
            format!(
                "{} {}",
                hit.catalog_index,
                shelves[hit.catalog_index].document.entries()[hit.operation_index].name
            )
        })
        .collect::<Vec<_>>()
    };
    assert_eq!(find("Garden", "list pear"), ["1 pears:list", "1 pears:create"]);
    assert_eq!(find("Garden", "show apples"), ["0 apples:list", "0 apples:create"]);
    assert_eq!(find("Garden", "the garden"), ["0 apples:list", "0 apples:create"]);
    assert_eq!(find("Orchard", "garden"), [""; 0]);
    assert_eq!(find("Orchard", "fruit orchard").first().unwrap(), "0 apples:list");
    assert_eq!(find("Orchard", "appl"), ["0 apples:list", "0 apples:create"]);
    assert_eq!(find("Orchard", "of the"), [""; 0]);
    assert_eq!(find("Orchard", ""), [""; 0]);
    let before: Vec<_> = (0..limits::SEARCH_WORDS_MAX).map(|at| format!("w{at}")).collect();
    let late = format!("{} pears", before.join(" "));
    assert_eq!(find("Orchard", &late), [""; 0]);
}
