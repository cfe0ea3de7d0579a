//! What a service says of a call that it does not take: it reaches the caller whatever its shape.

use serde_json::{Value, json};

use super::api::Api;
use midex_test::{
    says,
    service::{answer, json as answer_json},
};

/// Bodies of failures as services write them, and what of each a caller is told.
fn shapes() -> Vec<(Value, Vec<String>)> {
    let shapes = json!([
        [{ "detail": [{ "loc": ["body", "qty"], "msg": "value is not a valid integer", "type": "x" }, { "loc": ["query", "q"], "msg": "field required" }] }, ["body.qty: value is not a valid integer", "query.q: field required"]],
        [{ "errors": [{ "status": "422", "source": { "pointer": "/data/attributes/name" }, "title": "Invalid", "detail": "Name is taken" }] }, ["/data/attributes/name: Name is taken"]],
        [{ "errors": [{ "message": "Cannot query field", "path": ["a", 0, "b"] }] }, ["a.0.b: Cannot query field"]],
        [{ "title": "One or more validation errors occurred.", "errors": { "Name": ["The Name field is required."], "Age": ["Too young", "Too odd"] } }, ["Name: The Name field is required.", "Age: Too young", "Too odd"]],
        [{ "errors": ["first", "second"] }, ["first", "second"]],
        [{ "message": "Validation Failed", "errors": [{ "resource": "Issue", "field": "title", "code": "missing_field" }] }, ["Validation Failed", "title: missing_field"]],
        [{ "error": { "message": "No such customer" } }, ["No such customer"]],
        [{ "name": ["This field is required."], "non_field_errors": ["Odd."] }, ["This field is required.", "Odd."]],
        [{ "fault": { "reason": "unheard of" } }, ["unheard of"]],
        [["a list", 7], ["a list"]],
    ]);
    serde_json::from_value(shapes).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_service_says_is_told_whatever_its_shape() {
    let paths = json!({ "/as/{shape}": { "get": { "parameters": [{ "name": "shape", "in": "path", "required": true, "schema": { "type": "integer" } }], "responses": {} } } });
    let mut api = Api::open(paths, |seen| {
        let at: usize = seen.target().rsplit('/').next().unwrap().parse().unwrap();
        match shapes().get(at) {
            Some((body, _)) => answer_json(422, body),
            None => answer(
                500,
                &[("content-type", "text/html")],
                format!("<p>{}</p>", "x".repeat(3000)).as_bytes(),
            ),
        }
    })
    .await;
    let call = |at: usize| json!({ "id": "api as:info", "with": { "shape": at } });
    for (at, (body, words)) in shapes().into_iter().enumerate() {
        let failed = api.refused("command.run_safe", call(at));
        for word in words {
            says(&failed["message"], word);
        }
        assert_eq!(failed["response_payload"], body);
    }
    let failed = api.refused("command.run_safe", call(99));
    let message = failed["message"].as_str().unwrap();
    assert!(message.contains("<p>xxx") && message.len() < 1400, "{message}");
}
