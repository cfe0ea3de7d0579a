//! Answers: values, texts, bytes, and failures with what the service said.

use midex_catalog::call::ResponseBody;
use midex_domain::limits;

use super::*;
use midex_test::assert_has;
use midex_test::service::{answer, json as answer_json};

async fn answered(reply: midex_test::service::Reply) -> Result<Answer, OperationFailure> {
    let service = Service::new(move |_| reply.clone()).await;
    let operation = operation("GET", "/x", json!({}));
    call_with(&service, operation, &CallOptions::default()).await
}

#[tokio::test]
async fn an_answer_is_a_value_a_text_bytes_or_nothing() {
    let json_answer = answered(answer_json(200, &json!({ "a": [1, null] }))).await.unwrap();
    assert_eq!(json_answer.payload, ResponseBody::Json(json!({ "a": [1, null] })));
    assert_eq!((json_answer.status, json_answer.pages), (200, 1));
    assert_eq!(json_answer.headers["content-type"], "application/json");
    let text = answered(answer(200, &[("content-type", "text/csv")], b"a,b")).await.unwrap();
    assert_eq!(text.payload, ResponseBody::Text("a,b".into()));
    let bytes =
        answered(answer(200, &[("content-type", "image/png")], &[0x89, 0, 0xff])).await.unwrap();
    assert_eq!(
        bytes.payload,
        ResponseBody::Bytes { media_type: "image/png".into(), bytes: vec![0x89, 0, 0xff] }
    );
    let nothing =
        answered(answer(204, &[("location", "/x/1"), ("set-cookie", "a=b")], b"")).await.unwrap();
    assert_eq!(nothing.payload, ResponseBody::Empty);
    assert_eq!(nothing.headers["location"], "/x/1");
    assert!(!nothing.headers.contains_key("set-cookie"));
}

#[tokio::test]
async fn f14_a_failure_has_its_status_and_what_the_service_said() {
    let said = json!({ "message": "the name is taken", "errors": [{ "field": "name" }] });
    for (status, class, is_retried) in [
        (400, "http_4xx", false),
        (404, "http_4xx", false),
        (408, "http_4xx", true),
        (422, "http_4xx", false),
        (429, "http_429", true),
        (500, "http_5xx", true),
        (501, "http_5xx", false),
        (503, "http_5xx", true),
        (304, "http_3xx", false),
    ] {
        let reply = match status {
            304 => answer(304, &[], b""),
            status => answer_json(status, &said),
        };
        let failure = answered(reply).await.unwrap_err();
        assert_eq!(failure.class.as_str(), class, "{status}");
        assert_eq!(failure.is_retryable, is_retried, "{status}");
        assert_eq!(failure.code, Some(format!("HTTP_{status}")));
        let response = failure.response.unwrap();
        assert_eq!(response.status, status);
        if status != 304 {
            assert_eq!(response.payload.unwrap().value(), said);
            assert_has(&failure.message, &[&format!("/x` answered {status}")]);
            assert!(failure.message.ends_with(": the name is taken; name"), "{}", failure.message);
        }
    }
}

#[tokio::test]
async fn of_a_long_failure_the_beginning_is_kept() {
    for body in [json!("x".repeat(20_000)), json!({ "a": "x".repeat(200_000) })] {
        let failure = answered(answer_json(500, &body)).await.unwrap_err();
        let payload = failure.response.unwrap().payload.unwrap();
        let bytes = payload.as_str().len();
        assert!(
            bytes <= limits::CALL_ERROR_BYTES_MAX && bytes > limits::CALL_ERROR_BYTES_MAX / 2,
            "{bytes}"
        );
        assert!(failure.message.len() < 1100);
    }
}

#[tokio::test]
async fn a_service_that_asks_to_be_left_alone_is_heard() {
    let failure = answered(answer(429, &[("retry-after", "7")], b"")).await.unwrap_err();
    assert_eq!(failure.retry_after.unwrap().as_secs(), 7);
    let date = [
        ("retry-after", "Sun, 06 Nov 1994 08:50:37 GMT"),
        ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ];
    let failure = answered(answer(503, &date, b"")).await.unwrap_err();
    assert_eq!(failure.retry_after.unwrap().as_secs(), 60);
}

#[tokio::test]
async fn an_operation_that_cannot_be_called_says_why() {
    let service = Service::new(|_| answer(204, &[], b"")).await;
    let why = json!({ "uncallable": "its body is `multipart/x-mixed-replace`" });
    let failure = fails_at(&service, operation("POST", "/", why)).await;
    assert_eq!(failure.code.as_deref(), Some("OPERATION_UNCALLABLE"));
    assert!(failure.message.contains("x-mixed-replace"));
    let broken = CallTarget { base_url: "https://{region}.example".into(), ..target(&service) };
    let failure =
        call(operation("GET", "/", json!({})), &broken, json!({}), None).await.unwrap_err();
    assert!(
        failure.message.contains("the base URL `https://{region}.example` has a variable"),
        "{}",
        failure.message
    );
    let typo = json!({ "parameters": [parameter("limit", "query", false, json!({}))] });
    let failure = call(operation("GET", "/", typo), &target(&service), json!({ "limti": 1 }), None)
        .await
        .unwrap_err();
    assert_eq!(failure.class.as_str(), "arguments_invalid");
    assert_eq!(failure.code.as_deref(), Some("ARGUMENTS_INVALID"));
    assert_has(&failure.message, &["/with/limti", "did you mean `limit`?"]);
    assert!(service.seen().is_empty());
}

/// What is not idempotent is done again only where it was certainly not carried out.
#[tokio::test]
async fn a_call_that_changes_something_is_tried_again_only_where_nothing_was_done() {
    let later: &[(&str, &str)] = &[("retry-after", "1")];
    for (status, headers, is_retried) in [
        (408, &[][..], false),
        (425, &[], false),
        (429, &[], true),
        (429, later, true),
        (500, &[], false),
        (502, &[], false),
        (503, &[], false),
        (503, later, true),
        (504, later, false),
    ] {
        let service = Service::new(move |_| answer(status, headers, b"")).await;
        for (method, key, is_idempotent, expected) in [
            ("POST", None, None, is_retried),
            ("PATCH", None, Some(false), is_retried),
            // Its step, or the service, knows a repeated call.
            ("POST", None, Some(true), true),
            ("POST", Some("Idempotency-Key"), None, true),
            ("PUT", None, None, true),
            ("GET", None, Some(false), is_retried),
        ] {
            let mut operation = operation(method, "/x", json!({}));
            operation.idempotency_header = key.map(str::to_owned);
            let options = CallOptions { is_idempotent, ..CallOptions::default() };
            let failure = call_with(&service, operation, &options).await.unwrap_err();
            assert_eq!(failure.is_retryable, expected, "{method} {status} {is_idempotent:?}");
        }
    }
}
