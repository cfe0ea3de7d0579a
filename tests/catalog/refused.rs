//! Calls that are refused before anything is sent, and the examples that are not.

use serde_json::{Value, json};

use super::api::{Api, json_body};
use midex_test::{has_fields, list_of, rows, says, service::json as answer_json};

fn form(media_type: &str, properties: Value) -> Value {
    json!({ "required": true, "content": { media_type: { "schema": {
        "type": "object", "required": ["name"], "properties": properties } } } })
}

fn post(body: Value) -> Value {
    json!({ "post": { "requestBody": body, "responses": { "200": { "description": "" } } } })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_its_operation_is_refused_with_every_violation_and_leaves_nothing() {
    let pet = json!({ "type": "object", "required": ["name", "kind"], "properties": {
        "name": { "type": "string" }, "kind": { "enum": ["cat", "dog"] } } });
    let paths = json!({
        "/pets": {
            "post": { "requestBody": json_body(pet), "responses": {} },
            "delete": { "parameters": [{ "name": "id", "in": "query", "required": true, "schema": { "type": "integer" } }], "responses": {} }
        },
        "/pets/{id}": { "get": { "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "integer" } }], "responses": {} } }
    });
    let mut api = Api::open(paths, |_| answer_json(200, &json!({}))).await;
    for (tool, arguments, places) in [
        ("command.run", json!({ "id": "api pets:create", "with": {} }), &["/with", "/with"][..]),
        (
            "command.run",
            json!({ "id": "api pets:create", "body": { "name": 1, "kind": "bird" } }),
            &["/body/name", "/body/kind"],
        ),
        (
            "command.run",
            json!({ "id": "api pets:create" , "with": { "nmae": "x", "name": "y" } }),
            &["/with/nmae", "/with"],
        ),
        (
            "command.run_safe",
            json!({ "id": "api pets:info", "with": { "id": "x" } }),
            &["/with/id"],
        ),
        ("command.run_safe", json!({ "id": "api pets:info" }), &["/with/id"]),
        (
            "command.run_destructive",
            json!({ "id": "api pets:delete", "confirm": true }),
            &["/with/id"],
        ),
        // The user is not asked about a call that cannot be sent.
        ("command.run_destructive", json!({ "id": "api pets:delete" }), &["/with/id"]),
    ] {
        let refused = api.refused(tool, arguments.clone());
        has_fields(
            &refused,
            json!({ "error_code": "ARGUMENTS_INVALID", "category": "validation", "failure_stage": "parse", "retryable": false }),
        );
        let violations = refused["violations"].as_array().unwrap();
        let found = list_of(violations, |one| one["path"].as_str().unwrap());
        let mut expected = places.to_vec();
        expected.sort_unstable();
        let mut sorted = found.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, expected, "{refused}");
        let action = refused["suggested_action"].as_str().unwrap();
        assert!(
            !action.contains("service") && action.contains("command.list with id 'api pets:"),
            "{action}"
        );
    }
    assert!(api.service.seen().is_empty());
    assert_eq!(api.executions(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_nobody_allowed_is_refused_before_the_call_is_kept() {
    let paths = json!({ "/a": { "get": { "responses": {} } } });
    let mut api = Api::open(paths, |_| answer_json(200, &json!({}))).await;
    for [url, code, words] in rows(
        r#"
        "http://127.0.0.1:1/x", "ADDRESS_REFUSED", "midex catalog allow api 127.0.0.1:1"
        "http://10.0.0.1/x", "ADDRESS_REFUSED", "midex catalog allow api 10.0.0.1:80"
        "#,
    ) {
        api.done("catalog.set_base_url", json!({ "catalog_id": "api", "base_url": url }));
        let refused = api.refused("command.run_safe", json!({ "id": "api a:list" }));
        assert_eq!(refused["error_code"], code, "{refused}");
        says(&refused["suggested_action"], words);
    }
    let refused = api.refused(
        "catalog.set_base_url",
        json!({ "catalog_id": "api", "base_url": "https://me:secret@api.example/v1" }),
    );
    assert_eq!(refused["error_code"], "ARGUMENTS_INVALID");
    says(&refused["message"], "user");
    assert!(!refused.to_string().contains("secret"), "{refused}");
    assert_eq!(api.executions(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_without_a_host_is_told_at_its_import_and_at_its_calls() {
    for (servers, shown) in [
        (json!([{ "url": "/api/v3" }]), "/api/v3"),
        (json!([]), ""),
        (json!([{ "url": "api.example.com/v1" }]), "api.example.com/v1"),
    ] {
        let keys = json!({ "servers": servers, "paths": { "/a": { "get": { "responses": {} } } } });
        let mut api = Api::with(keys, |_| answer_json(200, &json!({}))).await;
        let again = json!({ "source": "api.json", "catalog_title": "Api", "overwrite": true });
        let imported = api.done("catalog.import_openapi", again);
        let warning = &imported["warnings"][0];
        assert_eq!(warning["rule"], "base_url", "{imported}");
        says(&warning["message"], "catalog.set_base_url");
        let refused = api.refused("command.run_safe", json!({ "id": "api a:list" }));
        assert_eq!(refused["error_code"], "ADDRESS_REFUSED", "{refused}");
        says(&refused["message"], shown);
        assert!(!refused["message"].as_str().unwrap().contains(": :"), "{refused}");
        says(
            &refused["suggested_action"],
            "catalog.set_base_url with catalog_id 'api' and base_url 'https://",
        );
        let url = format!("{}/v3", api.service.url());
        api.done("catalog.set_base_url", json!({ "catalog_id": "api", "base_url": url }));
        api.done("command.run_safe", json!({ "id": "api a:list" }));
        assert_eq!(api.targets(), ["/v3/a"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fields_of_a_form_stand_among_the_arguments() {
    let name = json!({ "name": { "type": "string" }, "age": { "type": "integer" } });
    let file = json!({ "name": { "type": "string" }, "file": { "type": "string", "format": "binary" }, "data": { "type": "object" } });
    let paths = json!({
        "/form": post(form("application/x-www-form-urlencoded", name)),
        "/parts": post(form("multipart/form-data", file))
    });
    let mut api = Api::open(paths, |_| answer_json(200, &json!({}))).await;
    api.done(
        "command.run",
        json!({ "id": "api form:create", "with": { "name": "x y", "age": 3 } }),
    );
    let parts =
        json!({ "name": "x", "file": { "content": "bytes" }, "data": { "content": "kept" } });
    api.done("command.run", json!({ "id": "api parts:create", "with": parts }));
    let seen = api.service.seen();
    assert_eq!(seen[0].text(), "name=x%20y&age=3");
    let text = seen[1].text();
    assert!(
        text.contains("name=\"file\"; filename=\"file\"") && text.contains("\r\n\r\nbytes"),
        "{text}"
    );
    // What the document does not call a file is JSON, whatever its keys are.
    assert!(text.contains("name=\"data\"\r\n") && text.contains(r#"{"content":"kept"}"#), "{text}");
    let refused =
        api.refused("command.run", json!({ "id": "api form:create", "with": { "nmae": "x" } }));
    assert_eq!(refused["error_code"], "ARGUMENTS_INVALID");
    assert_eq!(api.command("form:create")["input_schema"]["properties"]["name"]["type"], "string");
}

/// Schemas that are hard to write an example for.
fn hard() -> Value {
    let object = |required: &[&str], properties: Value| json!({ "type": "object", "required": required, "properties": properties });
    json!({
        "text": object(&["a", "b", "c", "d", "e"], json!({
            "a": { "type": "string", "minLength": 12, "maxLength": 14 }, "b": { "type": "string", "pattern": "^[A-Z]{3}-\\d{4}$" },
            "c": { "type": "string", "format": "date-time" }, "d": { "type": "string", "format": "uuid" }, "e": { "type": "string", "format": "email" } })),
        "numbers": object(&["a", "b", "c", "d"], json!({
            "a": { "type": "integer", "minimum": 7 }, "b": { "type": "number", "exclusiveMinimum": true, "minimum": 3 },
            "c": { "type": "integer", "multipleOf": 25, "minimum": 30 }, "d": { "type": "integer", "maximum": -5 } })),
        "lists": object(&["a", "b"], json!({
            "a": { "type": "array", "minItems": 2, "items": { "type": "string" } },
            "b": { "type": "array", "minItems": 2, "items": { "type": "integer" } } })),
        "parts": json!({ "allOf": [object(&["a"], json!({ "a": { "type": "boolean" } })), { "oneOf": [object(&["b"], json!({ "b": { "enum": ["x"] } })), object(&["c"], json!({ "c": { "type": "string" } }))] }] }),
        "given": json!({ "type": "object", "required": ["a"], "properties": { "a": { "type": "string", "pattern": "^(?!x)y+z$", "example": "yyz" }, "b": { "type": "string", "readOnly": true } } }),
        "nested": object(&["a"], json!({ "a": object(&["b"], json!({ "b": { "type": "array", "minItems": 1, "items": object(&["c"], json!({ "c": { "type": "string", "nullable": true } })) } })) })),
        "free": json!({}),
        "list": json!({ "type": "array", "minItems": 1, "items": { "type": "integer" } })
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_a_document_can_be_called() {
    let mut paths = serde_json::Map::new();
    for (name, schema) in hard().as_object().unwrap() {
        paths.insert(format!("/{name}"), post(json_body(schema.clone())));
    }
    let parameter = |name: &str, place: &str, schema: Value| json!({ "name": name, "in": place, "required": true, "schema": schema });
    paths.insert("/things/{id}".into(), json!({
        "parameters": [parameter("id", "path", json!({ "type": "string", "format": "uuid" })), parameter("ids", "query", json!({ "type": "array", "minItems": 1, "items": { "type": "integer" } }))],
        "get": { "parameters": [parameter("X-Mode", "header", json!({ "enum": ["fast", "slow"] }))], "responses": {} },
        "delete": { "responses": {} }
    }));
    paths.insert(
        "/form".into(),
        post(form("application/x-www-form-urlencoded", json!({ "name": { "type": "string" } }))),
    );
    paths.insert(
        "/file".into(),
        post(form(
            "multipart/form-data",
            json!({ "name": { "type": "string", "format": "binary" } }),
        )),
    );
    paths.insert(
        "/bytes".into(),
        post(json!({ "required": true, "content": { "application/octet-stream": {} } })),
    );
    paths
        .insert("/note".into(), post(json!({ "required": true, "content": { "text/plain": {} } })));
    let count = paths.len() + 1;
    let mut api = Api::open(Value::Object(paths), |_| answer_json(200, &json!({}))).await;
    let listed = api.done("command.list", json!({ "catalog": "api", "limit": 50 }));
    let listed = listed["commands"].as_array().unwrap().clone();
    assert_eq!(listed.len(), count);
    for one in listed {
        let id = one["id"].as_str().unwrap().strip_prefix("api ").unwrap();
        let command = api.command(id);
        let mut arguments = command["example"]["arguments"].clone();
        let tool = command["example"]["tool"].as_str().unwrap();
        if tool == "command.run_destructive" {
            arguments["confirm"] = json!(true);
        }
        let ran = api.done(tool, arguments.clone());
        assert_eq!(ran["status_code"], 200, "{id} {arguments}");
        // What the example gives is what the schema of the arguments takes.
        let schema = jsonschema::validator_for(&command["input_schema"]).unwrap();
        assert!(schema.is_valid(&arguments["with"]), "{id} {arguments}");
    }
    let shown = api.command("given:create")["body_schema"]["properties"].clone();
    assert!(shown["b"].is_null() && shown["a"].is_object(), "{shown}");
}
