//! Secrets and credentials: where they are put, where they may go, and that nobody sees them come back.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use midex_catalog::{
    call::{ResponseBody, normalize_secret_host},
    operation::SecurityScheme,
};
use midex_domain::uri;

use super::*;
use midex_test::assert_has;
use midex_test::service::{Reply, answer, json as answer_json};

const TOKEN: &str = "canary-0f/9+e d\"ü~token";

fn sources() -> SecretSources {
    let environment =
        [("TOKEN", TOKEN), ("PASSWORD", "canary-password"), ("PLAIN", "canary-plain-7")];
    SecretSources {
        environment: environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        ..SecretSources::default()
    }
}

fn secured(service: &Service, scheme: Value, credential: &str) -> CallTarget {
    CallTarget {
        schemes: [("key".to_owned(), serde_json::from_value(scheme).unwrap())].into(),
        credentials: [("key".to_owned(), credential.to_owned())].into(),
        ..target(service)
    }
}

fn guarded() -> Operation {
    operation("GET", "/x?a=1", json!({ "security": [["other"], ["key"]] }))
}

async fn call_with(
    sources: SecretSources,
    operation: Operation,
    target: &CallTarget,
) -> Result<Answer, OperationFailure> {
    let prepared = prepared(operation);
    Caller::new(sources)
        .call_operation(&prepared, target, &json!({}), None, &CallOptions::default())
        .await
}

#[tokio::test]
async fn each_security_scheme_stands_in_its_place() {
    let cases = json!([
        [{ "type": "api_key", "location": "header", "name": "X-Key" }, "${env:PLAIN}", "x-key", "canary-plain-7"],
        [{ "type": "api_key", "location": "query", "name": "key" }, "${env:TOKEN}", "target", "/x?a=1&key=canary-0f%2F9%2Be%20d%22%C3%BC~token"],
        [{ "type": "api_key", "location": "cookie", "name": "sid" }, "${env:PLAIN}", "cookie", "sid=canary-plain-7"],
        [{ "type": "basic" }, "me:${env:PASSWORD}", "authorization", "Basic bWU6Y2FuYXJ5LXBhc3N3b3Jk"],
        [{ "type": "bearer" }, "${env:PLAIN}", "authorization", "Bearer canary-plain-7"],
    ]);
    let cases: Vec<(Value, String, String, String)> = serde_json::from_value(cases).unwrap();
    for (scheme, credential, place, expected) in cases {
        let service = Service::new(|_| answer(204, &[], b"")).await;
        call_with(sources(), guarded(), &secured(&service, scheme, &credential)).await.unwrap();
        let seen = service.only();
        let sent = if place == "target" { seen.target() } else { seen.header(&place).unwrap() };
        assert_eq!(sent, expected);
    }
    let service = Service::new(|_| answer(204, &[], b"")).await;
    let with_headers = CallTarget {
        headers: vec![
            ("Authorization".into(), "Token ${env:PLAIN}".into()),
            ("X-Version".into(), "2".into()),
        ],
        ..target(&service)
    };
    call_with(sources(), operation("GET", "/", json!({})), &with_headers).await.unwrap();
    let seen = service.only();
    assert_eq!(seen.header("authorization"), Some("Token canary-plain-7"));
    assert_eq!(seen.header("x-version"), Some("2"));
}

/// Every way in which a service could repeat what it was given.
fn echoes() -> Vec<String> {
    let hex: Vec<_> = TOKEN.bytes().map(|byte| format!("{byte:02x}")).collect();
    let hex = hex.concat();
    vec![
        TOKEN.to_owned(),
        BASE64_STANDARD.encode(TOKEN),
        BASE64_STANDARD.encode(format!("user:{TOKEN}")),
        BASE64_STANDARD.encode(TOKEN).replace('+', "-").replace('/', "_"),
        uri::encode_segment(TOKEN),
        uri::encode_segment(TOKEN).to_lowercase(),
        json!(TOKEN).to_string(),
        hex.to_uppercase(),
        hex,
    ]
}

fn is_clean(shown: &str) {
    for echo in echoes() {
        assert!(!shown.contains(echo.trim_matches('"')), "{echo} in {shown}");
    }
    assert!(!shown.contains("canary"), "{shown}");
}

/// The canary in two chunks, and as whatever else a service makes of it.
fn repeating(
    status: u16,
    media_type: &'static str,
) -> impl Fn(&midex_test::service::Seen) -> Reply + Send + Sync {
    move |_| {
        let mut text = echoes().join(" | ");
        if media_type == "application/json" {
            text = json!({ "message": text, TOKEN: [TOKEN, { "deep": echoes() }] }).to_string();
        }
        let middle = text.floor_char_boundary(9);
        let head = midex_test::service::head(
            status,
            &[
                ("content-type", media_type),
                ("transfer-encoding", "chunked"),
                ("x-request-id", &BASE64_STANDARD.encode(TOKEN)),
            ],
            None,
        );
        let chunks = [&text[..middle], &text[middle..], ""]
            .map(|chunk| format!("{:x}\r\n{chunk}\r\n", chunk.len()));
        Reply::Bytes((head + &chunks.concat()).into_bytes())
    }
}

#[tokio::test]
async fn a_secret_that_an_answer_repeats_is_covered_however_it_is_written() {
    let query_key = json!({ "type": "api_key", "location": "query", "name": "key" });
    for media_type in ["application/json", "text/plain", "application/octet-stream"] {
        let service = Service::new(repeating(200, media_type)).await;
        let target = secured(&service, query_key.clone(), "${env:TOKEN}");
        let answer = call_with(sources(), guarded(), &target).await.unwrap();
        assert!(service.only().target().contains("canary"), "it was sent");
        is_clean(&format!("{answer:?}"));
        is_clean(&answer.payload.into_value().to_string());
        let service = Service::new(repeating(500, media_type)).await;
        let target = secured(&service, query_key.clone(), "${env:TOKEN}");
        let failure = call_with(sources(), guarded(), &target).await.unwrap_err();
        is_clean(&format!("{failure:?}"));
        let payload = failure.response.unwrap().payload.unwrap();
        is_clean(payload.as_str());
        assert!(payload.as_str().contains("${env:TOKEN}"), "{payload:?}");
        is_clean(&format!("{target:?} {:?} {:?}", sources(), Caller::new(sources())));
    }
}

#[tokio::test]
async fn no_error_of_the_network_and_no_redirect_repeats_a_secret() {
    let query_key = json!({ "type": "api_key", "location": "query", "name": "key" });
    let back = |seen: &midex_test::service::Seen| {
        let key = seen.target().rsplit("key=").next().unwrap().to_owned();
        answer(302, &[("location", &format!("http://10.0.0.1/{key}"))], b"")
    };
    let redirecting = Service::new(back).await;
    let broken = Service::new(|_| Reply::Broken(b"HTTP/1.1 200".to_vec())).await;
    for service in [&redirecting, &broken] {
        let failure =
            call_with(sources(), guarded(), &secured(service, query_key.clone(), "${env:TOKEN}"))
                .await;
        is_clean(&format!("{:?}", failure.unwrap_err()));
        assert!(service.only().target().contains("canary"), "it was sent");
    }
    // What the user wrote as it is, without a reference, is covered too.
    let echo = Service::new(|seen| answer_json(200, &json!(seen.headers))).await;
    let literal = CallTarget {
        headers: vec![("X-Api-Key".into(), "canary-literal".into())],
        ..secured(&echo, json!({ "type": "basic" }), "me:canary-basic")
    };
    let answer = call_with(sources(), guarded(), &literal).await.unwrap();
    is_clean(&format!("{answer:?}"));
    assert!(!format!("{answer:?}").contains(&BASE64_STANDARD.encode("me:canary-basic")));
}

#[tokio::test]
async fn f01_headers_and_credentials_go_to_the_origins_that_they_were_given_for_alone() {
    let (own, other) = (
        Service::new(|_| answer(204, &[], b"")).await,
        Service::new(|_| answer(204, &[], b"")).await,
    );
    let moved = CallTarget {
        base_url: other.url(),
        address_policy: AddressPolicy::new("shop", [own.host.as_str(), other.host.as_str()])
            .unwrap(),
        headers: vec![("X-Trace".into(), "canary-plain".into())],
        ..secured(&own, json!({ "type": "bearer" }), "${env:PLAIN}")
    };
    let failure = call_with(sources(), guarded(), &moved).await.unwrap_err();
    assert_eq!(failure.code.as_deref(), Some("SECRET_NOT_ALLOWED"));
    assert!(failure.message.contains(&other.url()), "{}", failure.message);
    assert!(other.seen().is_empty(), "nothing was sent");
    // Where the operation needs none it goes, without them, and says so.
    for security in [json!([]), json!([["key"], []])] {
        let free = operation("GET", "/", json!({ "security": security }));
        let answer = call_with(sources(), free, &moved).await.unwrap();
        assert!(answer.notes[0].contains("got none"), "{:?}", answer.notes);
    }
    // A server that one operation has of its own is another origin too.
    let servers = json!({ "servers": [other.url()], "security": [["key"]] });
    let own_target = CallTarget { base_url: own.url(), ..moved.clone() };
    let failure =
        call_with(sources(), operation("GET", "/", servers), &own_target).await.unwrap_err();
    assert_eq!(failure.code.as_deref(), Some("SECRET_NOT_ALLOWED"));
    call_with(sources(), guarded(), &own_target).await.unwrap();
    assert!(own.only().header("authorization").is_some());
    for seen in other.seen() {
        assert!(!format!("{seen:?}").contains("canary"), "{seen:?}");
    }
}

#[tokio::test]
async fn a_redirect_to_another_origin_gets_no_secret_and_says_so() {
    let other = Service::new(|_| answer(401, &[], b"who are you?")).await;
    let to = other.url();
    for status in [301, 302, 303, 307, 308] {
        let to = to.clone();
        let own =
            Service::new(move |_| answer(status, &[("location", &format!("{to}/there"))], b""))
                .await;
        let target = CallTarget {
            address_policy: AddressPolicy::new("shop", [own.host.as_str(), other.host.as_str()])
                .unwrap(),
            headers: vec![("X-Key".into(), "${env:PLAIN}".into())],
            ..secured(
                &own,
                json!({ "type": "api_key", "location": "cookie", "name": "sid" }),
                "${env:PASSWORD}",
            )
        };
        let failure = call_with(sources(), guarded(), &target).await.unwrap_err();
        assert_has(&failure.message, &["redirected to"]);
        assert!(own.only().header("x-key").is_some());
        // What changes something does not follow, with what it carries.
        let create = json!({ "body": body("text/plain", json!({}), json!({})) });
        let prepared = prepared(operation("POST", "/", create));
        let outcome = Caller::new(sources())
            .call_operation(
                &prepared,
                &target,
                &json!({}),
                Some(&json!("canary-body")),
                &CallOptions::default(),
            )
            .await;
        let failure = outcome.unwrap_err();
        let is_get = matches!(status, 301..=303);
        assert_eq!(
            failure.code.as_deref(),
            Some(if is_get { "HTTP_401" } else { "REDIRECT_REFUSED" }),
            "{status}"
        );
    }
    for seen in other.seen() {
        assert!(!format!("{seen:?}").contains("canary"), "{seen:?}");
        assert!(seen.body.is_empty() && seen.line.starts_with("GET "));
    }
}

#[tokio::test]
async fn a_secret_that_is_not_there_stops_the_call_before_anything_is_sent() {
    let service = Service::new(|_| answer(204, &[], b"")).await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("secrets");
    fs::write(&file, "KEY=canary-of-file\n").unwrap();
    let of_file = SecretSources { file: Some(file.clone()), ..sources() };
    let bearer = json!({ "type": "bearer" });
    for (sources, credential, mode, code) in [
        (sources(), "${env:NONE}", 0o600, Some("SECRET_MISSING")),
        (sources(), "${file:KEY}", 0o600, Some("SECRET_MISSING")),
        (of_file.clone(), "${file:NONE}", 0o600, Some("SECRET_MISSING")),
        (of_file.clone(), "${file:KEY}", 0o644, Some("SECRETS_FILE_UNSAFE")),
        (of_file.clone(), "bad\nheader", 0o600, Some("OPERATION_UNCALLABLE")),
        (of_file.clone(), "${file:KEY}", 0o600, None),
    ] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let outcome =
            call_with(sources, guarded(), &secured(&service, bearer.clone(), credential)).await;
        let found = outcome.err().map(|failure| {
            assert!(!failure.message.contains("canary"), "{}", failure.message);
            failure.code.unwrap()
        });
        assert_eq!(found.as_deref(), code, "{credential}");
    }
    assert_eq!(service.only().header("authorization"), Some("Bearer canary-of-file"));
}

#[tokio::test]
async fn what_an_operation_asks_for_and_a_catalog_has_not_is_named_in_its_failure() {
    let service = Service::new(|_| answer(401, &[], b"")).await;
    let failure = call_with(sources(), guarded(), &target(&service)).await.unwrap_err();
    assert!(
        failure.message.contains("it asks for `other`, for which the catalog has no credential"),
        "{}",
        failure.message
    );
    let unknown = CallTarget {
        schemes: BTreeMap::from([(
            "key".into(),
            SecurityScheme::Other { scheme: "mutualTLS".into() },
        )]),
        ..secured(&service, json!({ "type": "basic" }), "a:b")
    };
    let failure = call_with(sources(), guarded(), &unknown).await.unwrap_err();
    assert!(failure.message.contains("mutualTLS"), "{}", failure.message);
    let _ = ResponseBody::Empty;
}

#[tokio::test]
async fn a_secret_goes_only_to_the_hosts_that_its_user_names() {
    let service = Service::new(|_| answer(204, &[], b"")).await;
    let scheme = json!({ "type": "bearer" });
    let target = secured(&service, scheme, "${env:PLAIN}");
    for (hosts, is_sent) in [
        (&["127.0.0.1"][..], true),
        (&["api.example.com", "127.0.0.1"], true),
        (&[&*service.host], true),
        (&["127.0.0.1:1"], false),
        (&["api.example.com"], false),
        (&[], false),
    ] {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        let sources =
            SecretSources { allowed_hosts: [("PLAIN".to_owned(), hosts)].into(), ..sources() };
        let before = service.seen().len();
        // In a credential of the catalog, and in an argument of a step.
        let by_header = call_with(sources.clone(), guarded(), &target).await;
        let options = CallOptions { secrets: vec!["PLAIN".to_owned()], ..CallOptions::default() };
        let (with, free) = (json!({}), self::target(&service));
        let prepared = prepared(operation("GET", "/x", json!({})));
        let by_argument =
            Caller::new(sources).call_operation(&prepared, &free, &with, None, &options).await;
        for outcome in [by_header, by_argument] {
            match outcome {
                Ok(_) => assert!(is_sent),
                Err(failure) => {
                    assert!(!is_sent, "{failure:?}");
                    assert_eq!(failure.code.as_deref(), Some("SECRET_NOT_ALLOWED"));
                    assert!(failure.message.contains("[secrets.PLAIN]"), "{failure:?}");
                }
            }
        }
        assert_eq!(service.seen().len() - before, if is_sent { 2 } else { 0 });
    }
}

#[test]
fn a_host_of_a_secret_is_a_host_with_or_without_a_port() {
    for (text, expected) in [
        ("API.Example.com", Some("api.example.com")),
        ("api.example.com:443", Some("api.example.com:443")),
        ("[::1]:80", Some("[::1]:80")),
        ("127.1", Some("127.0.0.1")),
        ("", None),
        ("a b", None),
        ("https://a", None),
        ("a/b", None),
        ("me@a", None),
        ("a?b", None),
    ] {
        assert_eq!(normalize_secret_host(text).as_deref(), expected, "{text}");
    }
}
