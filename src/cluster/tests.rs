//! Two servers: who is heard, and who is called.

use std::{fs, os::unix::fs::PermissionsExt as _};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{AdvertisedAddress, Credentials, HttpPeers, TlsFiles, serve_peers};
use midex_domain::error::{Code, Error, Result};
use midex_engine::{PeerAnswer, PeerCall, Peers as _};
use midex_test::certificates::Authority;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// The files of a server on loopback.
fn sign(authority: &Authority) -> TlsFiles {
    let files = authority.sign("127.0.0.1");
    TlsFiles { authority: authority.file(), certificate: files.certificate, key: files.key }
}

fn load(token: &str, tls: Option<&TlsFiles>) -> Result<Credentials> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("token");
    fs::write(&path, token).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
    Credentials::load(&path, tls)
}

/// Serves with these credentials, and calls with those.
async fn call(served: Credentials, called: Credentials) -> Result<PeerAnswer> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let scheme = if served.has_certificate() { "https" } else { "http" };
    let address = format!("{scheme}://{}", listener.local_addr().expect("an address"));
    let stop = CancellationToken::new();
    let answer = |call: PeerCall| -> midex_domain::operation::BoxFuture<'static, _> {
        Box::pin(async move {
            if format!("{call:?}").contains("unknown") {
                let error = Error::new(Code::ExecutionNotFound, "there is no such execution");
                return Err(error.with_context("asked", "unknown"));
            }
            Ok(serde_json::from_str(r#"{"revision":7,"is_replayed":true}"#).expect("an answer"))
        })
    };
    let serving = tokio::spawn(serve_peers(listener, served, Box::new(answer), stop.clone()));
    let peers = HttpPeers::new(called).expect("a client");
    let name = if scheme == "https" { "known" } else { "unknown" };
    let call = format!(r#"{{"delete":{{"execution_id":"{name}"}}}}"#);
    let answer = peers.send(&address, &serde_json::from_str(&call).expect("a call")).await;
    stop.cancel();
    serving.await.expect("no panic");
    answer
}

fn text(answer: &Result<PeerAnswer>) -> String {
    serde_json::to_string(answer.as_ref().expect("an answer")).expect("JSON")
}

#[tokio::test]
async fn servers_of_one_cluster_call_each_other_encrypted() {
    let authority = Authority::new();
    let credentials = || load(TOKEN, Some(&sign(&authority))).expect("credentials");
    let answer = call(credentials(), credentials()).await;
    assert_eq!(text(&answer), r#"{"revision":7,"is_replayed":true}"#);
}

#[tokio::test]
async fn errors_arrive_as_they_were() {
    let credentials = || load(TOKEN, None).expect("credentials");
    let error = call(credentials(), credentials()).await.expect_err("a refusal");
    assert_eq!(error.code(), Code::ExecutionNotFound);
    assert_eq!(error.message(), "there is no such execution");
    assert_eq!(error.context("asked").and_then(|asked| asked.as_str()), Some("unknown"));
}

#[tokio::test]
async fn strangers_are_not_heard() {
    let (ours, other) = (Authority::new(), Authority::new());
    let credentials = |authority: &Authority| load(TOKEN, Some(&sign(authority))).expect("files");
    // The caller refuses a certificate that its authority has not signed.
    let error = call(credentials(&other), credentials(&ours)).await.expect_err("a refusal");
    assert_eq!(error.code(), Code::ShardLost, "{error}");
    assert!(error.message().contains("cannot be reached"), "{error}");
    // So does the server that is called.
    let forged = TlsFiles { authority: sign(&ours).authority, ..sign(&other) };
    let forged = load(TOKEN, Some(&forged)).expect("files");
    let error = call(credentials(&ours), forged).await.expect_err("a refusal");
    assert!(error.code().retryable(), "{error}");
    // The right certificate, but another token.
    let other_token = load(&TOKEN.replace('0', "f"), Some(&sign(&ours))).expect("files");
    let error = call(credentials(&ours), other_token).await.expect_err("a refusal");
    assert!(error.message().contains("has another token") && !error.is_retryable(), "{error}");
    // Only one of both encrypts: nothing is sent.
    let plain = load(TOKEN, None).expect("files");
    let error = call(credentials(&ours), plain).await.expect_err("a refusal");
    assert!(error.message().contains("only one of both encrypts"), "{error}");
}

#[test]
fn unusable_files_are_named() {
    let authority = Authority::new();
    let files = sign(&authority);
    let error = |files: &TlsFiles| load(TOKEN, Some(files)).expect_err("a refusal");
    let swapped = TlsFiles { certificate: files.key.clone(), ..files.clone() };
    assert!(error(&swapped).message().contains("key.pem"), "{}", error(&swapped));
    let missing = TlsFiles { key: "/nowhere/key.pem".into(), ..files.clone() };
    assert!(error(&missing).message().contains("/nowhere/key.pem"), "{}", error(&missing));
    let credentials = load(TOKEN, Some(&files)).expect("files");
    let plain = AdvertisedAddress::parse("http://127.0.0.1:7400").expect("an address");
    assert_eq!(
        credentials.check_address(&plain).expect_err("a refusal").code(),
        Code::UsageInvalid
    );
}

#[test]
fn a_certificate_is_refused_that_the_other_servers_would_refuse() {
    let authority = Authority::new();
    let address = |text: &str| AdvertisedAddress::parse(text).expect("an address");
    let files = sign(&authority);
    files.check_certificate(&address("https://127.0.0.1:7")).expect("it is good");
    let elsewhere = files.check_certificate(&address("https://127.0.0.2:7"));
    let stranger = Authority::new();
    let other = TlsFiles { authority: stranger.file(), ..files.clone() };
    let other = other.check_certificate(&address("https://127.0.0.1:7"));
    for error in [elsewhere, other].map(|refused| refused.expect_err("a refusal")) {
        assert_eq!(error.code(), Code::FileUnusable);
        assert!(error.message().contains(&files.certificate.display().to_string()), "{error}");
    }
}
