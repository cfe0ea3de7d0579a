//! Services that answer slowly, never, too much, or break off: each is bounded, and named by its class.

use std::{io::Write as _, time::Duration};

use midex_domain::{error::Code, limits};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;
use midex_test::service::{Reply, answer, head};

async fn get(service: &Service, options: &CallOptions) -> Result<Answer, OperationFailure> {
    let prepared = prepared(operation("GET", "/", json!({})));
    caller().call_operation(&prepared, &target(service), &json!({}), None, options).await
}

fn within(milliseconds: u64) -> CallOptions {
    CallOptions { timeout: Some(Duration::from_millis(milliseconds)), ..CallOptions::default() }
}

async fn class_of(reply: Reply, options: &CallOptions) -> (String, bool) {
    let service = Service::new(move |_| reply.clone()).await;
    let failure = get(&service, options).await.expect_err("a failure");
    (failure.class, failure.is_retryable)
}

#[tokio::test]
async fn a_service_that_answers_never_slowly_or_without_an_end_is_left_at_its_time() {
    let whole = head(200, &[], Some(1000)).into_bytes();
    for reply in [
        Reply::Bytes(Vec::new()),
        Reply::Bytes(whole[..9].to_vec()),
        Reply::Bytes(whole.clone()),
        Reply::Slow(whole),
    ] {
        let class = class_of(reply, &within(100)).await;
        assert_eq!(class, ("timeout".to_owned(), true));
    }
    // A head whose line has no end.
    let endless = Reply::Endless(b"HTTP/1.1 200 OK\r\nx: ".to_vec(), b"y".repeat(1000));
    assert_eq!(class_of(endless, &within(10_000)).await.0, "network");
}

#[tokio::test]
async fn an_answer_past_its_limits_is_read_no_further() {
    let most = limits::CALL_ANSWER_BYTES_MAX;
    // It says that it has too much, or does not say.
    let says = Reply::Bytes(head(200, &[], Some(most + 1)).into_bytes());
    assert_eq!(class_of(says, &CallOptions::default()).await.0, "too_large");
    let chunk = [b"10000\r\n".to_vec(), b"x".repeat(0x10000), b"\r\n".to_vec()].concat();
    let chunked = head(200, &[("transfer-encoding", "chunked")], None).into_bytes();
    assert_eq!(
        class_of(Reply::Endless(chunked, chunk), &CallOptions::default()).await.0,
        "too_large"
    );
    let large = "x".repeat(limits::CALL_HEADERS_BYTES_MAX);
    let large = answer(200, &[("x-large", &large)], b"");
    assert_eq!(class_of(large, &CallOptions::default()).await.0, "too_large");
    let fits =
        Service::new(move |_| answer(200, &[("content-type", "text/plain")], &b"x".repeat(most)))
            .await;
    assert_eq!(get(&fits, &CallOptions::default()).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_connection_that_breaks_is_named_and_tried_again_only_where_that_does_no_harm() {
    let half = [head(200, &[], Some(10)).into_bytes(), b"half".to_vec()].concat();
    for (bytes, words) in [
        (Vec::new(), "`http://"),
        (b"HTTP/1.1 2".to_vec(), "`http://"),
        (half, "broke off"),
        (b"no http at all\r\n\r\n".to_vec(), "`http://"),
    ] {
        let service = Service::new(move |_| Reply::Broken(bytes.clone())).await;
        for (method, is_retried) in [("GET", true), ("POST", false)] {
            let failure = fails_at(&service, operation(method, "/", json!({}))).await;
            assert_eq!(failure.class.as_str(), "network", "{failure:?}");
            assert_eq!(failure.is_retryable, is_retried, "{failure:?}");
            assert!(failure.message.contains(words), "{}", failure.message);
        }
    }
    let gone = Service::new(|_| answer(204, &[], b"")).await;
    let nobody = target(&gone);
    drop(gone);
    tokio::task::yield_now().await;
    let failure =
        call(operation("POST", "/", json!({})), &nobody, json!({}), None).await.unwrap_err();
    assert_eq!(
        (failure.class.as_str(), failure.is_retryable),
        ("network", true),
        "nothing was sent: {failure:?}"
    );
}

/// A service that speaks no TLS where https is asked for gets nothing of the request.
#[tokio::test]
async fn what_is_no_https_is_not_taken_for_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let secure = CallTarget {
        address_policy: AddressPolicy::new("shop", [host.as_str()]).unwrap(),
        base_url: format!("https://{host}"),
        ..CallTarget::default()
    };
    let plain = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad\r\n\r\n").await.unwrap();
        let mut came = Vec::new();
        let _ = stream.read_to_end(&mut came).await;
        came
    };
    let calling = call(operation("POST", "/secret", json!({})), &secure, json!({}), None);
    let (outcome, came) = tokio::join!(calling, plain);
    let failure = outcome.unwrap_err();
    assert_eq!(failure.class.as_str(), "network", "{failure:?}");
    assert!(failure.is_retryable, "{failure:?}");
    assert!(!came.is_empty() && !came.windows(7).any(|bytes| bytes == b"/secret"));
}

#[tokio::test]
async fn a_call_that_is_dropped_closes_its_connection() {
    let service = Service::new(|_| Reply::Bytes(Vec::new())).await;
    let (came, options) = (service.came.clone(), CallOptions::default());
    tokio::select! {
        outcome = get(&service, &options) => panic!("the service is silent: {outcome:?}"),
        () = came.notified() => {}
    }
    // The service, which would be silent for ever, sees that its client has gone.
    service.closed.notified().await;
}

fn packed(bytes: &[u8], times: usize) -> Vec<u8> {
    let mut packing = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for _ in 0..times {
        packing.write_all(bytes).unwrap();
    }
    packing.finish().unwrap()
}

#[tokio::test]
async fn a_document_that_unpacks_without_an_end_is_bounded_while_it_is_unpacked() {
    let (small, bomb) = (packed(b"openapi: 3.1.0", 1), packed(&vec![b' '; 1 << 20], 40));
    assert!(bomb.len() < 1 << 20);
    let service = Service::new(move |seen| {
        let bytes = if seen.target() == "/small" { &small } else { &bomb };
        answer(200, &[("content-encoding", "gzip")], bytes)
    })
    .await;
    let reach = AddressPolicy::new("shop", [service.host.as_str()]).unwrap();
    let fetch = async |path: &str| {
        caller().fetch_document(&format!("{}{path}", service.url()), &reach).await
    };
    assert_eq!(fetch("/small").await.unwrap(), b"openapi: 3.1.0");
    let refused = fetch("/bomb").await.unwrap_err();
    assert_eq!(refused.code(), Code::LimitExceeded);
    assert!(refused.message().contains(&limits::DOCUMENT_BYTES_MAX.to_string()), "{refused}");
    assert_eq!(
        get(&service, &CallOptions::default()).await.unwrap_err().class,
        "too_large",
        "of calls too"
    );
}
