//! Where may be called: names by what they resolve to at the moment, and every redirect anew.

use std::{
    io,
    net::IpAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use midex_catalog::call::Resolver;
use midex_domain::{error::Code, operation::BoxFuture};

use super::*;
use midex_test::assert_has;
use midex_test::service::{Reply, answer, json as answer_json};

/// Answers with these addresses, one list after the other, the last again and again; and keeps what it was asked.
#[derive(Debug, Default)]
struct Names {
    answers: Mutex<Vec<Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl Names {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let read = |list: &&[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
        Arc::new(Self {
            answers: Mutex::new(answers.iter().map(read).collect()),
            asked: Mutex::default(),
        })
    }
}

impl Resolver for Names {
    fn resolve_addresses(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.asked.lock().unwrap().push(name.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() };
        Box::pin(async move { Ok(answer) })
    }
}

fn resolving(names: &Arc<Names>) -> Caller {
    Caller::with_resolver(SecretSources::default(), names.clone())
}

async fn get(caller: &Caller, target: &CallTarget) -> Result<Answer, OperationFailure> {
    let prepared = prepared(operation("GET", "/", json!({})));
    caller.call_operation(&prepared, target, &json!({}), None, &CallOptions::default()).await
}

fn elsewhere(url: &str) -> CallTarget {
    CallTarget {
        address_policy: AddressPolicy::new("shop", []).unwrap(),
        base_url: url.to_owned(),
        ..CallTarget::default()
    }
}

#[tokio::test]
async fn a_name_that_leads_to_an_address_that_is_not_public_is_refused_before_a_connect() {
    let service = Service::new(|_| answer(204, &[], b"")).await;
    let port = service.host.rsplit(':').next().unwrap();
    for (address, rule) in [
        ("127.0.0.1", "loopback"),
        ("10.0.0.1", "private"),
        ("169.254.169.254", "metadata"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "v4_mapped"),
        ("64:ff9b::7f00:1", "nat64"),
        ("fd00::1", "unique_local"),
        ("0.0.0.0", "unspecified"),
    ] {
        let names = Names::new(&[&[address]]);
        let failure = get(&resolving(&names), &elsewhere(&format!("https://shop.example:{port}")))
            .await
            .unwrap_err();
        assert_eq!(failure.code.as_deref(), Some("ADDRESS_REFUSED"), "{failure:?}");
        assert!(!failure.is_retryable);
        for words in
            [format!("rule `{rule}`"), format!("midex catalog allow shop shop.example:{port}")]
        {
            assert!(failure.message.contains(&words), "{}", failure.message);
        }
    }
    assert!(service.seen().is_empty());
}

#[tokio::test]
async fn a_name_that_changes_its_address_changes_nothing() {
    // The first answer is public, and nobody is there: that block was given back. By the second call the name leads home.
    let names = Names::new(&[&["3ffe::1"], &["127.0.0.1", "10.0.0.1"]]);
    let caller = resolving(&names);
    let target = elsewhere("https://rebinding.example:1");
    let prepared = prepared(operation("GET", "/", json!({})));
    let options =
        CallOptions { timeout: Some(Duration::from_millis(100)), ..CallOptions::default() };
    for expected in [None, Some("ADDRESS_REFUSED")] {
        let outcome = caller.call_operation(&prepared, &target, &json!({}), None, &options).await;
        let code = outcome.unwrap_err().code;
        assert_eq!(code.as_deref() == Some("ADDRESS_REFUSED"), expected.is_some());
    }
    assert_eq!(names.asked.lock().unwrap().len(), 2, "each connection resolves anew");
}

#[tokio::test]
async fn a_connection_that_one_catalog_may_use_is_no_other_one_s() {
    let service = Service::new(|_| answer(204, &[], b"")).await;
    let names = Names::new(&[&["127.0.0.1"]]);
    let caller = resolving(&names);
    let port = service.host.rsplit(':').next().unwrap();
    let host = format!("home.example:{port}");
    let allowed = CallTarget {
        address_policy: AddressPolicy::new("mine", [host.as_str()]).unwrap(),
        base_url: format!("http://{host}"),
        ..CallTarget::default()
    };
    get(&caller, &allowed).await.unwrap();
    let failure = get(&caller, &elsewhere(&allowed.base_url)).await.unwrap_err();
    assert_has(&failure.message, &["rule `plain_http`"]);
    let failure = get(&caller, &elsewhere(&format!("https://{host}"))).await.unwrap_err();
    assert_has(&failure.message, &["rule `loopback`"]);
    assert_eq!(service.seen().len(), 1);
}

fn redirect(status: u16, to: &str) -> Reply {
    answer(status, &[("location", to)], b"")
}

#[tokio::test]
async fn a_redirect_of_any_status_is_held_to_the_same_rules() {
    let inner = Service::new(|_| answer(200, &[], b"inner")).await;
    let inner_url = inner.url();
    for status in [301, 302, 303, 307, 308] {
        for (to, rule) in [
            (inner_url.as_str(), "loopback"),
            ("http://169.254.169.254/latest/meta-data/", "metadata"),
            ("//2130706433/", "loopback"),
            ("http://[::ffff:127.0.0.1]/", "v4_mapped"),
            ("file:///etc/passwd", "scheme"),
            ("http://user:pass@1.1.1.1/", "userinfo"),
            ("http://1.1.1.1/", "plain_http"),
            ("http://exa%00mple/", "url"),
        ] {
            let to = to.to_owned();
            let service = Service::new(move |_| redirect(status, &to)).await;
            let failure = fails_at(&service, operation("GET", "/", json!({}))).await;
            assert!(
                failure.message.contains(&format!("rule `{rule}`")),
                "{status}: {}",
                failure.message
            );
            assert_eq!(service.seen().len(), 1);
        }
    }
    assert!(inner.seen().is_empty(), "refused before a connect");
}

#[tokio::test]
async fn a_redirect_keeps_its_method_as_the_protocol_says() {
    for (method, status, expected) in [
        ("POST", 303, "GET"),
        ("PUT", 303, "GET"),
        ("DELETE", 303, "GET"),
        ("POST", 302, "GET"),
        ("POST", 301, "GET"),
        ("PUT", 302, "PUT"),
        ("POST", 307, "POST"),
        ("POST", 308, "POST"),
        ("GET", 302, "GET"),
        ("HEAD", 303, "HEAD"),
    ] {
        let service = Service::new(move |seen| match seen.target() {
            "/from" => redirect(status, "to?x=1"),
            _ => answer(204, &[], b""),
        })
        .await;
        let has_body = !matches!(method, "GET" | "HEAD" | "DELETE");
        let of_body = body("application/json", json!({}), json!({}));
        let more = if has_body { json!({ "body": of_body }) } else { json!({}) };
        let answer = call(
            operation(method, "/from", more),
            &target(&service),
            json!({}),
            has_body.then(|| json!({ "a": 1 })),
        )
        .await;
        answer.unwrap();
        let seen = service.seen();
        assert_eq!(seen[1].line, format!("{expected} /to?x=1 HTTP/1.1"), "{method} {status}");
        let keeps = expected == method && has_body;
        assert_eq!(seen[1].text(), if keeps { "{\"a\":1}" } else { "" });
        assert_eq!(seen[1].header("content-type").is_some(), keeps);
    }
}

#[tokio::test]
async fn redirects_are_followed_so_often_and_no_more() {
    let most = midex_domain::limits::CALL_REDIRECTS_MAX;
    for (count, is_answered) in [(most, true), (most + 1, false)] {
        let service = Service::new(move |seen| {
            let done: usize = seen.target()[1..].parse().unwrap_or(0);
            if done == count {
                answer_json(200, &json!("here"))
            } else {
                redirect(302, &format!("/{}", done + 1))
            }
        })
        .await;
        let outcome =
            call(operation("GET", "/0", json!({})), &target(&service), json!({}), None).await;
        match outcome {
            Ok(_) => assert!(is_answered),
            Err(failure) => {
                assert!(!is_answered);
                assert_eq!(failure.code.as_deref(), Some("REDIRECT_REFUSED"));
            }
        }
        assert_eq!(service.seen().len(), most + 1);
    }
}

#[tokio::test]
async fn a_document_is_fetched_from_where_may_be_called_and_nowhere_else() {
    let document = Service::new(|seen| match seen.target() {
        "/a.yaml" => answer(200, &[], b"openapi: 3.1.0"),
        "/from" => redirect(302, "/a.yaml"),
        "/inner" => redirect(302, "http://127.0.0.1:1/"),
        _ => answer(404, &[], b""),
    })
    .await;
    let reach = AddressPolicy::new("shop", [document.host.as_str()]).unwrap();
    let fetch = async |path: &str| {
        caller().fetch_document(&format!("{}{path}", document.url()), &reach).await
    };
    assert_eq!(fetch("/a.yaml").await.unwrap(), b"openapi: 3.1.0");
    assert_eq!(fetch("/from").await.unwrap(), b"openapi: 3.1.0");
    let refused = fetch("/inner").await.unwrap_err();
    assert_eq!(refused.code(), Code::AddressRefused);
    assert_has(&refused.suggested_action(), &["`--import-from 127.0.0.1:1`"]);
    let failed = fetch("/none").await.unwrap_err();
    assert_eq!(failed.code(), Code::FetchFailed);
    assert!(failed.message().contains("404"), "{failed}");
    for url in ["file:///etc/passwd", "nothing", "http://user@127.0.0.1/"] {
        let refused = caller().fetch_document(url, &reach).await.unwrap_err();
        assert_eq!(refused.code(), Code::AddressRefused, "{url}");
        assert!(!refused.suggested_action().contains("midex catalog allow"), "{url}");
    }
}
