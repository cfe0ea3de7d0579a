//! Which body is sent: one of several media types, or none.

use super::{
    requests::{broken, one, reaches},
    *,
};

/// The arguments and the body of a call, the media type that reaches the service, and what of it.
type Case = (Value, Option<Value>, Option<String>, String);

#[tokio::test]
async fn the_caller_chooses_one_of_several_media_types() {
    let choice =
        json!({ "enum": ["application/json", "application/x-www-form-urlencoded", "text/plain"] });
    let content = |media_type: &str, schema: Value| json!({ "media_type": media_type, "schema": schema, "encoding": {} });
    let object = |required: &str| json!({ "type": "object", "required": [required], "properties": { "a": {}, "b": {} } });
    let contents = json!([
        content("application/json", object("a")),
        content("application/x-www-form-urlencoded", object("b")),
        content("text/plain", json!({ "type": "string" })),
    ]);
    let put = operation(
        "PUT",
        "/things",
        json!({
            "parameters": [parameter("Content-Type", "header", false, choice)],
            "body": { "is_required": false, "description": "", "contents": contents }
        }),
    );
    let cases = json!([
        [{ "a": 1 }, null, "application/json", "{\"a\":1}"],
        [{ "Content-Type": "application/json", "a": 1 }, null, "application/json", "{\"a\":1}"],
        [{ "Content-Type": "application/x-www-form-urlencoded" }, { "b": 1 }, "application/x-www-form-urlencoded", "b=1"],
        [{ "Content-Type": "text/plain" }, "x", "text/plain; charset=utf-8", "x"],
        [{ "Content-Type": "text/plain" }, null, null, ""],
    ]);
    let cases: Vec<Case> = serde_json::from_value(cases).unwrap();
    for (with, body, media_type, text) in cases {
        let seen = reaches(put.clone(), with, body).await;
        assert_eq!(seen.header("content-type"), media_type.as_deref());
        assert_eq!(seen.text(), text);
    }
    let chosen = |media_type: &str| json!({ "Content-Type": media_type });
    let form = "application/x-www-form-urlencoded";
    for (with, body, place, rule) in [
        (chosen("text/html"), json!({ "a": 1 }), "/with/Content-Type", "enum"),
        (chosen(form), json!({ "a": 1 }), "/body", "required"),
        (json!({}), json!({ "b": 1 }), "/body", "required"),
    ] {
        assert_eq!(broken(put.clone(), with, Some(body)), one(place, rule, ""));
    }
}

#[tokio::test]
async fn a_call_that_changes_something_says_the_length_of_no_body() {
    for (method, length) in [
        ("POST", Some("0")),
        ("PUT", Some("0")),
        ("PATCH", Some("0")),
        ("GET", None),
        ("DELETE", None),
    ] {
        let seen = reaches(operation(method, "/x", json!({})), json!({}), None).await;
        assert_eq!(seen.header("content-length"), length, "{method}");
    }
}
