//! Requests as they reach the service: every style in every place, every content type, and what is never sent.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use midex_catalog::{
    call::{CallArguments, Request},
    operation::{Method, OperationClass},
};

use super::*;
use midex_test::service::{Seen, answer};
use midex_test::{list_of, rows};

/// What reaches the service of a call.
pub(super) async fn reaches(operation: Operation, with: Value, body: Option<Value>) -> Seen {
    let service = Service::new(|_| answer(204, &[], b"")).await;
    let answer = call(operation, &target(&service), with, body).await;
    answer.expect("an answer");
    service.only()
}

fn written(style: &str, explode: bool, allow_reserved: bool) -> Value {
    json!({ "styled": { "style": style, "explode": explode, "allow_reserved": allow_reserved } })
}

/// Style, explode and location, with what is sent of a text, a list and an object.
const STYLES: &str = r#"
"path", "simple", "", "/v1/a%20b%2Fc", "/v1/1,2", "/v1/R,1,G,x%26y"
"path", "simple", "explode", "/v1/a%20b%2Fc", "/v1/1,2", "/v1/R=1,G=x%26y"
"path", "label", "", "/v1/.a%20b%2Fc", "/v1/.1,2", "/v1/.R,1,G,x%26y"
"path", "label", "explode", "/v1/.a%20b%2Fc", "/v1/.1.2", "/v1/.R=1.G=x%26y"
"path", "matrix", "", "/v1/;p=a%20b%2Fc", "/v1/;p=1,2", "/v1/;p=R,1,G,x%26y"
"path", "matrix", "explode", "/v1/;p=a%20b%2Fc", "/v1/;p=1;p=2", "/v1/;R=1;G=x%26y"
"query", "form", "", "/v1?p=a%20b%2Fc", "/v1?p=1,2", "/v1?p=R,1,G,x%26y"
"query", "form", "explode", "/v1?p=a%20b%2Fc", "/v1?p=1&p=2", "/v1?R=1&G=x%26y"
"query", "spaceDelimited", "", "/v1?p=a%20b%2Fc", "/v1?p=1%202", "/v1?p=R%201%20G%20x%26y"
"query", "pipeDelimited", "", "/v1?p=a%20b%2Fc", "/v1?p=1%7C2", "/v1?p=R%7C1%7CG%7Cx%26y"
"query", "deepObject", "explode", "/v1?p=a%20b%2Fc", "/v1?p%5B0%5D=1&p%5B1%5D=2", "/v1?p%5BR%5D=1&p%5BG%5D=x%26y"
"header", "simple", "", "a b/c", "1,2", "R,1,G,x&y"
"header", "simple", "explode", "a b/c", "1,2", "R=1,G=x&y"
"cookie", "form", "", "p=a%20b%2Fc", "p=1,2", "p=R,1,G,x%26y"
"cookie", "form", "explode", "p=a%20b%2Fc", "p=1; p=2", "R=1; G=x%26y"
"#;

#[tokio::test]
async fn every_style_reaches_the_service_from_every_place_as_the_document_says() {
    let values = [json!("a b/c"), json!([1, 2]), json!({ "R": 1, "G": "x&y" })];
    for [location, style, explode, expected @ ..] in rows::<6>(STYLES) {
        for (value, expected) in values.iter().zip(expected) {
            let mut one = parameter("p", location, true, json!({}));
            one["written"] = written(style, explode == "explode", false);
            let path = if location == "path" { "/v1/{p}" } else { "/v1" };
            let operation = operation("GET", path, json!({ "parameters": [one] }));
            let seen = reaches(operation, json!({ "p": value }), None).await;
            let sent = match location {
                "header" => seen.header("p").unwrap(),
                "cookie" => seen.header("cookie").unwrap(),
                _ => seen.target(),
            };
            assert_eq!(sent, expected, "{location} {style} {explode} {value}");
        }
    }
}

#[tokio::test]
async fn parameters_of_one_name_stay_apart_and_documents_are_sent_as_json() {
    let mut of_query = parameter("id", "query", false, json!({ "type": "integer" }));
    of_query["argument"] = json!("query.id");
    let mut filter = parameter("filter", "query", false, json!({ "type": "object" }));
    filter["written"] = json!({ "content": "application/json" });
    let mut note = parameter("X-Note", "header", false, json!({}));
    note["written"] = json!({ "content": "application/json" });
    let mut url = parameter("url", "query", false, json!({ "type": "string" }));
    url["written"] = written("form", true, true);
    let id = parameter("id", "path", true, json!({ "type": "string" }));
    let parameters = json!([id, of_query, filter, note, url]);
    let operation = operation("GET", "/a/{id}?fixed=1#part", json!({ "parameters": parameters }));
    let with = json!({
        "id": "x", "query.id": 7, "filter": { "a": [1] }, "X-Note": "ü", "url": "http://h/p?q=1&r#s"
    });
    let seen = reaches(operation, with, None).await;
    let expected = "/a/x?fixed=1&id=7&filter=%7B%22a%22%3A%5B1%5D%7D&url=http://h/p?q=1%26r%23s";
    // f07: the value of a path stands in the path alone.
    assert_eq!(seen.line, format!("GET {expected} HTTP/1.1"));
    assert_eq!(seen.header("x-note"), Some("\"\\u00fc\""));
    assert_eq!(seen.header("accept"), Some("application/json, */*;q=0.8"));
    assert!(seen.header("user-agent").unwrap().starts_with("midex/"));
}

#[tokio::test]
async fn json_is_sent_as_a_body_or_as_keys_that_are_no_arguments() {
    let schema = json!({ "type": "object", "required": ["name"], "properties": {
        "name": { "type": "string" }, "size": { "type": "integer" }
    } });
    let make = || {
        let more = json!({
            "parameters": [parameter("dry", "query", false, json!({ "type": "boolean" }))],
            "body": body("application/json", schema.clone(), json!({}))
        });
        operation("POST", "/things", more)
    };
    assert!(prepared(make()).has_body_fields());
    // f13: what stands beside a body is sent too.
    let with_body =
        reaches(make(), json!({ "dry": true }), Some(json!({ "name": "a", "size": 1 }))).await;
    let with_keys = reaches(make(), json!({ "dry": true, "name": "a", "size": 1 }), None).await;
    for seen in [with_body, with_keys] {
        assert_eq!(seen.target(), "/things?dry=true");
        assert_eq!(seen.text(), "{\"name\":\"a\",\"size\":1}");
        assert_eq!(seen.header("content-type"), Some("application/json"));
    }
}

#[tokio::test]
async fn forms_texts_and_bytes_are_sent_as_the_document_says() {
    let form = |encoding: Value| {
        let body = body("application/x-www-form-urlencoded", json!({ "type": "object" }), encoding);
        operation("POST", "/f", json!({ "body": body }))
    };
    let fields = json!({ "a": "x y&z", "list": [1, 2], "deep": { "k": [true] }, "none": null });
    let seen = reaches(form(json!({})), Value::Null, Some(fields.clone())).await;
    assert_eq!(seen.text(), "a=x%20y%26z&list=1&list=2&deep=%7B%22k%22%3A%5Btrue%5D%7D");
    assert_eq!(seen.header("content-type"), Some("application/x-www-form-urlencoded"));
    let encoding =
        json!({ "deep": { "style": "deepObject" }, "list": { "style": "form", "explode": false } });
    let seen = reaches(form(encoding), Value::Null, Some(fields)).await;
    assert_eq!(seen.text(), "a=x%20y%26z&list=1,2&deep%5Bk%5D%5B0%5D=true");

    let of = |media_type: &str| {
        operation("PUT", "/f", json!({ "body": body(media_type, json!({}), json!({})) }))
    };
    let seen = reaches(of("text/plain"), Value::Null, Some(json!("grüß"))).await;
    assert_eq!(seen.text(), "grüß");
    assert_eq!(seen.header("content-type"), Some("text/plain; charset=utf-8"));
    let seen = reaches(of("application/xml"), Value::Null, Some(json!("<a/>"))).await;
    assert_eq!(seen.text(), "<a/>");
    let bytes = [0, 255, 13, 10];
    let base64 = BASE64_STANDARD.encode(bytes);
    for body in [json!(base64), json!({ "base64": base64 })] {
        let seen = reaches(of("application/octet-stream"), Value::Null, Some(body)).await;
        assert_eq!(seen.body, bytes);
        assert_eq!(seen.header("content-type"), Some("application/octet-stream"));
    }
}

#[tokio::test]
async fn files_are_uploaded_with_their_names_and_bytes() {
    let schema = json!({ "type": "object", "properties": {
        "title": { "type": "string" }, "file": { "type": "string", "format": "binary" },
        "more": { "type": "array", "items": { "type": "string", "format": "binary" } }
    } });
    let encoding = json!({ "title": { "contentType": "text/plain" } });
    let body = body("multipart/form-data", schema, encoding);
    let operation = operation("POST", "/upload", json!({ "body": body }));
    let fields = json!({
        "title": "A\r\nB", "meta": { "a": 1 }, "note": { "content": "x" },
        "log": { "filename": "log.txt", "content": "y" },
        "file": { "filename": "a\"b\r\n.png", "content_type": "image/png", "base64": BASE64_STANDARD.encode([0, 1, 255]) },
        "more": [{ "content": "one" }, { "filename": "two.txt", "content": "two" }]
    });
    let seen = reaches(operation, Value::Null, Some(fields)).await;
    let content_type = seen.header("content-type").unwrap();
    let boundary = content_type.strip_prefix("multipart/form-data; boundary=").unwrap();
    let part = |head: &str, content: &[u8]| {
        let mut part =
            format!("--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n").into_bytes();
        part.extend_from_slice(content);
        part.extend_from_slice(b"\r\n");
        part
    };
    let expected = [
        part("name=\"title\"\r\nContent-Type: text/plain", b"A\r\nB"),
        part("name=\"meta\"\r\nContent-Type: application/json", b"{\"a\":1}"),
        // The document does not declare these two, so only a `filename` makes a file of one.
        part("name=\"note\"\r\nContent-Type: application/json", b"{\"content\":\"x\"}"),
        part("name=\"log\"; filename=\"log.txt\"\r\nContent-Type: application/octet-stream", b"y"),
        part(
            "name=\"file\"; filename=\"a%22b%0D%0A.png\"\r\nContent-Type: image/png",
            &[0, 1, 255],
        ),
        part("name=\"more\"; filename=\"more\"\r\nContent-Type: application/octet-stream", b"one"),
        part(
            "name=\"more\"; filename=\"two.txt\"\r\nContent-Type: application/octet-stream",
            b"two",
        ),
        format!("--{boundary}--\r\n").into_bytes(),
    ];
    assert_eq!(String::from_utf8_lossy(&seen.body), String::from_utf8_lossy(&expected.concat()));
    assert_eq!(seen.body, expected.concat());
}

/// The rules that a call breaks, each with its place; nothing is sent, for this is pure.
pub(super) fn broken(
    operation: Operation,
    with: Value,
    body: Option<Value>,
) -> Vec<(String, String, String)> {
    let arguments = CallArguments { with: &with, body: body.as_ref(), idempotency_key: None };
    let built = Request::build(&prepared(operation), "https://api.example.com/v1", arguments);
    let violations = built.map(|request| request.url().to_owned()).expect_err("violations");
    let each = violations.into_iter().map(|violation| {
        let meant = violation.suggestion.map(|suggestion| suggestion.text);
        (violation.path, violation.rule, meant.unwrap_or_default())
    });
    each.collect()
}

pub(super) fn one(path: &str, rule: &str, meant: &str) -> Vec<(String, String, String)> {
    vec![(path.into(), rule.into(), meant.into())]
}

#[test]
fn f02_no_value_of_a_path_leads_elsewhere() {
    let delete = |path: &str| {
        let parameters =
            [parameter("id", "path", true, json!({})), parameter("b", "path", false, json!({}))];
        operation("DELETE", path, json!({ "parameters": parameters }))
    };
    for value in [json!(""), json!("."), json!(".."), json!([]), json!({})] {
        assert_eq!(
            broken(delete("/things/{id}"), json!({ "id": value }), None),
            one("/with/id", "path", ""),
            "{value}"
        );
    }
    // Together they would.
    for (path, with) in
        [("/a/{id}{b}", json!({ "id": "..", "b": "x" })), ("/a/.{id}", json!({ "id": ".x" }))]
    {
        let found = broken_or_url(delete(path), with);
        assert!(found.is_ok_and(|url| url.contains("..x")) || path.contains('b'), "{path}");
    }
    let mut label = parameter("id", "path", true, json!({}));
    label["written"] = written("label", false, false);
    let labelled = operation("DELETE", "/a/{id}/b", json!({ "parameters": [label] }));
    assert_eq!(broken(labelled, json!({ "id": [] }), None)[0].1, "path");
    for (value, expected) in [
        ("a/b", "a%2Fb"),
        ("%2e%2e", "%252e%252e"),
        ("..\\..", "..%5C.."),
        ("{b}", "%7Bb%7D"),
        ("x?y#z", "x%3Fy%23z"),
        ("\u{0}\n", "%00%0A"),
    ] {
        let url = broken_or_url(delete("/things/{id}"), json!({ "id": value })).unwrap();
        assert_eq!(url, format!("https://api.example.com/v1/things/{expected}"));
    }
}

fn broken_or_url(operation: Operation, with: Value) -> Result<String, String> {
    let arguments = CallArguments { with: &with, body: None, idempotency_key: None };
    let built = Request::build(&prepared(operation), "https://api.example.com/v1/", arguments);
    built.map(|request| request.url().to_owned()).map_err(|violations| format!("{violations:?}"))
}

#[test]
fn f03_a_missing_value_of_a_path_is_named_and_nothing_is_sent_in_its_place() {
    let id = parameter("id", "path", true, json!({ "type": "string" }));
    let info = operation("GET", "/things/{id}", json!({ "parameters": [id] }));
    for with in [json!({}), json!({ "id": null }), Value::Null] {
        assert_eq!(broken(info.clone(), with, None), one("/with/id", "required", ""));
    }
    // The document forgot to declare it.
    let undeclared = operation("GET", "/things/{id}", json!({}));
    assert_eq!(broken(undeclared, json!({}), None), one("/with", "path", ""));
}

#[test]
fn every_argument_that_is_missing_unknown_or_of_another_kind_is_named() {
    let limit = parameter("limit", "query", false, json!({ "type": "integer", "maximum": 100 }));
    let key = parameter("X-Key", "header", true, json!({ "type": "string" }));
    let list = operation("GET", "/things", json!({ "parameters": [limit, key] }));
    let found = broken(list.clone(), json!({ "limti": 5 }), None);
    assert_eq!(found[0], ("/with/X-Key".into(), "required".into(), String::new()));
    assert_eq!(
        found[1],
        ("/with/limti".into(), "unknown_argument".into(), "did you mean `limit`?".into())
    );
    let found = broken(list.clone(), json!({ "limit": 101, "X-Key": 1 }), None);
    let rules = list_of(&found, |(path, rule, _)| (path.as_str(), rule.as_str()));
    assert_eq!(rules, [("/with/limit", "maximum"), ("/with/X-Key", "type")]);
    assert_eq!(broken(list.clone(), json!([]), None), one("/with", "type", ""));
    for value in ["a\r\nHost: evil", "a\nb", "ü", "\u{7f}"] {
        assert_eq!(
            broken(list.clone(), json!({ "X-Key": value }), None),
            one("/with/X-Key", "header", ""),
            "{value:?}"
        );
    }
    let host = parameter("Host", "header", true, json!({}));
    let smuggling = operation("GET", "/", json!({ "parameters": [host] }));
    assert_eq!(broken(smuggling, json!({ "Host": "evil" }), None), one("/with/Host", "header", ""));
    assert_eq!(broken(list, json!({ "X-Key": "a" }), Some(json!({}))), one("/body", "body", ""));
}

#[test]
fn a_body_is_held_to_its_schema_wherever_its_keys_stand() {
    let schema = json!({ "$ref": "#/$defs/New", "$defs": { "New": {
        "allOf": [{ "type": "object", "properties": { "name": { "$ref": "#/$defs/Name" } } }],
        "required": ["name"]
    }, "Name": { "type": "string", "minLength": 2 }, "Other": {} } });
    let id = parameter("id", "query", false, json!({}));
    let more = json!({ "parameters": [id], "body": body("application/json", schema, json!({})) });
    let create = prepared(operation("POST", "/things", more));
    let rules = |with: Value, body: Option<Value>| -> Vec<(String, String)> {
        let arguments = CallArguments { with: &with, body: body.as_ref(), idempotency_key: None };
        match Request::build(&create, "https://a.example", arguments) {
            Ok(_) => Vec::new(),
            Err(violations) => violations.into_iter().map(|one| (one.path, one.rule)).collect(),
        }
    };
    let pair = |path: &str, rule: &str| vec![(path.to_owned(), rule.to_owned())];
    assert_eq!(rules(json!({ "name": "ab" }), None), []);
    assert_eq!(rules(json!({}), Some(json!({ "name": "ab" }))), []);
    assert_eq!(rules(json!({ "name": "a" }), None), pair("/with/name", "minLength"));
    assert_eq!(rules(json!({}), Some(json!({ "name": "a" }))), pair("/body/name", "minLength"));
    assert_eq!(rules(json!({}), None), pair("/with", "required"));
    assert_eq!(rules(json!({ "nam": "ab" }), None)[0].1, "unknown_argument");
    // With a body no key stands for a part of it.
    let found = rules(json!({ "name": "ab" }), Some(json!({ "name": "ab" })));
    assert_eq!(found, pair("/with/name", "unknown_argument"));
}

#[test]
fn a_request_past_its_limits_is_refused() {
    let q = parameter("q", "query", false, json!({}));
    let search = operation("GET", "/", json!({ "parameters": [q] }));
    let most = midex_domain::limits::CALL_URL_BYTES_MAX - "https://api.example.com/v1/?q=".len();
    assert!(broken_or_url(search.clone(), json!({ "q": "x".repeat(most) })).is_ok());
    assert_eq!(
        broken(search, json!({ "q": "x".repeat(most + 1) }), None),
        one("/with", "limit", "")
    );
    let put = operation("PUT", "/", json!({ "body": body("text/plain", json!({}), json!({})) }));
    let large = json!("x".repeat(midex_domain::limits::CALL_REQUEST_BYTES_MAX + 1));
    assert_eq!(broken(put, Value::Null, Some(large)), one("/body", "limit", ""));
}

#[tokio::test]
async fn the_key_of_a_repeated_call_is_sent_with_what_changes_something_and_believed_where_it_is_declared()
 {
    let service = Service::new(|_| answer(204, &[], b"")).await;
    let mut target = target(&service);
    let options = CallOptions { idempotency_key: Some("k-1".into()), ..CallOptions::default() };
    let declared = parameter("X-Once", "header", true, json!({}));
    let declared = json!({ "parameters": [declared], "idempotency_header": "x-once" });
    for (method, more, with) in [
        ("GET", json!({}), json!({})),
        ("POST", json!({}), json!({})),
        ("DELETE", json!({}), json!({})),
        ("POST", declared.clone(), json!({})),
        ("POST", declared, json!({ "X-Once": "mine" })),
    ] {
        let prepared = prepared(operation(method, "/", more));
        caller().call_operation(&prepared, &target, &with, None, &options).await.unwrap();
    }
    let sent: Vec<_> = service
        .seen()
        .iter()
        .map(|seen| {
            let header = |name| seen.header(name).map(str::to_owned);
            (header("idempotency-key"), header("x-once"))
        })
        .collect();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        sent,
        [
            (None, None),
            (text("k-1"), None),
            (None, None),
            (None, text("k-1")),
            (None, text("mine"))
        ]
    );
    let post = operation("POST", "/", json!({}));
    assert_eq!(post.method, Method::Post);
    assert_eq!(post.method.class(), OperationClass::Standard);
    assert!(!target.is_repeatable(&post));
    target.has_idempotency_keys = true;
    assert!(target.is_repeatable(&post));
}
