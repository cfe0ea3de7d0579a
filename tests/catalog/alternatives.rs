//! Bodies of which several schemas of a `oneOf` hold, and those that a discriminator tells apart.

use serde_json::{Value, json};

use super::api::{Api, json_body};
use midex_test::{says, service::json as answer_json};

fn animal(of_its_own: &str) -> Value {
    json!({ "type": "object", "required": ["kind", "name"], "properties": {
        "kind": { "type": "string" }, "name": { "type": "string" }, of_its_own: { "type": "boolean" } } })
}

async fn pets() -> Api {
    let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let pet = json!({ "oneOf": [reference("Cat"), reference("Dog")], "discriminator": {
        "propertyName": "kind", "mapping": { "cat": "#/components/schemas/Cat", "dog": "Dog" } } });
    let post =
        |schema: Value| json!({ "post": { "requestBody": json_body(schema), "responses": {} } });
    let number = json!({ "oneOf": [{ "type": "integer" }, { "type": "number" }] });
    let keys = json!({
        "paths": {
            "/pets": post(pet.clone()),
            "/kennels": post(json!({ "type": "object", "required": ["pets"], "properties": { "pets": { "type": "array", "items": pet } } })),
            "/untold": post(json!({ "oneOf": [reference("Cat"), reference("Dog")], "discriminator": { "propertyName": "kind" } })),
            "/plain": post(json!({ "oneOf": [animal("a"), animal("b")] })),
            "/numbers": post(json!({ "type": "object", "properties": { "n": number, "list": { "anyOf": [{ "type": "array", "items": number }, { "type": "null" }] } } }))
        },
        "components": { "schemas": { "Cat": animal("meow"), "Dog": animal("bark") } }
    });
    Api::with(keys, |_| answer_json(200, &json!({}))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_several_schemas_hold_for_is_sent() {
    let mut api = pets().await;
    for (operation, body, is_told) in [
        ("pets:create", json!({ "kind": "dog", "name": "Rex", "bark": true }), true),
        ("plain:create", json!({ "kind": "x", "name": "Rex" }), true),
        ("numbers:create", json!({ "n": 1, "list": [1, 2] }), true),
        ("numbers:create", json!({ "n": 1.5 }), false),
    ] {
        let call = json!({ "id": format!("api {operation}"), "body": body });
        let ran = api.done("command.run", call);
        let sent: Value = serde_json::from_str(&api.service.seen().pop().unwrap().text()).unwrap();
        assert_eq!(sent, body);
        let notes = ran["notes"].to_string();
        assert_eq!(notes.contains("oneOf"), is_told, "{operation}: {ran}");
    }
    // None of them is still refused.
    let refused =
        api.refused("command.run", json!({ "id": "api plain:create", "body": { "kind": 1 } }));
    assert_eq!(refused["violations"][0]["rule"], "oneOf", "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_discriminator_chooses_whose_violations_are_told_and_its_values_are_shown() {
    let mut api = pets().await;
    let refused = |api: &mut Api, operation: &str, body: Value| {
        let call = json!({ "id": format!("api {operation}"), "body": body });
        api.refused("command.run", call)["violations"].clone()
    };
    let told = refused(&mut api, "pets:create", json!({ "kind": "dog", "bark": "loud" }));
    let all = told.as_array().unwrap().iter();
    let mut places: Vec<_> = all.map(|one| one["path"].as_str().unwrap()).collect();
    places.sort_unstable();
    assert_eq!(places, ["/body", "/body/bark"], "{told}");
    let told =
        refused(&mut api, "kennels:create", json!({ "pets": [{ "kind": "cat", "name": 7 }] }));
    assert_eq!(told[0]["path"], "/body/pets/0/name", "{told}");
    let told = refused(&mut api, "untold:create", json!({ "kind": "Dog", "name": 7 }));
    assert_eq!(told[0]["path"], "/body/name", "{told}");
    // Of no kind that the document knows.
    let told = refused(&mut api, "pets:create", json!({ "kind": "cow", "name": 7 }));
    assert_eq!(told[0]["path"], "/body/kind", "{told}");
    says(&told[0]["message"], "cat");
    for (operation, values) in [("pets:create", ["cat", "dog"]), ("untold:create", ["Cat", "Dog"])]
    {
        let schema = api.command(operation)["body_schema"].clone();
        assert_eq!(schema["discriminator"]["propertyName"], "kind", "{schema}");
        let shown = schema["discriminator"]["mapping"].as_object().unwrap();
        assert!(values.iter().all(|value| shown.contains_key(*value)), "{schema}");
    }
}
