//! Who is let in.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use serde_json::json;
use tempfile::tempdir;

use midex_test::{
    http::{ACCEPT, HttpServer, JSON, initialize},
    serve_alone,
};

const TOKEN: &str = "0123456789abcdef-a-secret-token";

fn token_file(home: &Path, mode: u32) -> PathBuf {
    let path = home.join("token");
    fs::write(&path, format!("{TOKEN}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn without_the_token_nothing_but_the_path_is_looked_at() {
    let home = tempdir().unwrap();
    let file = token_file(home.path(), 0o600);
    let server = HttpServer::with(home.path(), &["--http-token-file", file.to_str().unwrap()]);
    let right = format!("Bearer {TOKEN}");
    let body = initialize("2025-06-18");
    let wrong = [
        None,
        Some(String::new()),
        Some("Bearer".into()),
        Some("Bearer 0123456789abcdef-another-token".into()),
        Some(format!("Basic {TOKEN}")),
        Some(TOKEN.into()),
        Some(format!("{right}x")),
    ];
    for given in &wrong {
        let mut headers = vec![ACCEPT, JSON];
        headers.extend(given.as_deref().map(|given| ("Authorization", given)));
        for method in ["POST", "GET", "DELETE", "PUT", "OPTIONS"] {
            let mut http = server.connect();
            http.send(method, "/mcp", &headers, &body).unwrap();
            let answer = http.answer().unwrap();
            answer.refuses(401, "UNAUTHORIZED");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            assert!(!String::from_utf8_lossy(&answer.body).contains(TOKEN));
        }
        // Hosts look there for what this server does not have; a second demand for a token would mislead them.
        let mut http = server.connect();
        let elsewhere = "/.well-known/oauth-protected-resource";
        http.send("GET", elsewhere, &headers, b"").unwrap();
        http.answer().unwrap().refuses(404, "RESOURCE_NOT_FOUND");
        // Before the name it is called by, and before any body.
        let mut headers = headers.clone();
        headers.extend([("Host", "evil.test"), ("Content-Length", "1000")]);
        let mut http = server.connect();
        http.send("POST", "/mcp", &headers, b"").unwrap();
        http.answer().unwrap().refuses(401, "UNAUTHORIZED");
    }
    let headers = [ACCEPT, JSON, ("Authorization", &right)];
    let answer = server.connect().ask("POST", &headers, &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    // A session is no way in.
    let session = answer.header("mcp-session-id").unwrap();
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let with_session = [ACCEPT, JSON, ("Mcp-Session-Id", session)];
    let mut http = server.connect();
    http.ask("POST", &with_session, list.as_bytes()).refuses(401, "UNAUTHORIZED");
    http.ask("GET", &with_session, b"").refuses(401, "UNAUTHORIZED");
    http.ask("DELETE", &with_session, b"").refuses(401, "UNAUTHORIZED");
    let with_both = [&with_session[..], &[("Authorization", &right)]].concat();
    assert_eq!(http.ask("POST", &with_both, list.as_bytes()).status, 200);
    assert_eq!(http.ask("DELETE", &with_both, b"").status, 204);
    assert!(!server.stderr().contains(TOKEN));
}

/// Starts a server that must not start; its exit code and what it said.
fn refused(home: &Path, flags: &[&str]) -> (i32, String) {
    let output = serve_alone(home, flags).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("running on"), "{said}");
    (output.status.code().unwrap(), said)
}

#[test]
fn a_token_that_others_can_read_is_none() {
    let home = tempdir().unwrap();
    let file = token_file(home.path(), 0o644);
    let flags = ["--http", "127.0.0.1:0", "--http-token-file", file.to_str().unwrap()];
    let (code, said) = refused(home.path(), &flags);
    assert_ne!(code, 0);
    assert!(said.contains("chmod 600") && said.contains(file.to_str().unwrap()), "{said}");
    assert!(!said.contains(TOKEN), "{said}");
    let missing = home.path().join("missing");
    let flags = ["--http", "127.0.0.1:0", "--http-token-file", missing.to_str().unwrap()];
    let (code, said) = refused(home.path(), &flags);
    assert!(code != 0 && said.contains("missing"), "{said}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&file, "short").unwrap();
    let flags = ["--http", "127.0.0.1:0", "--http-token-file", file.to_str().unwrap()];
    let (code, said) = refused(home.path(), &flags);
    assert!(code != 0 && said.contains("openssl rand"), "{said}");
}

#[test]
fn an_address_that_can_be_reached_from_outside_wants_a_token() {
    let home = tempdir().unwrap();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let (code, said) = refused(home.path(), &["--http", address]);
        assert_ne!(code, 0);
        assert!(said.contains("--http-token-file"), "{said}");
    }
    let file = token_file(home.path(), 0o600);
    let flags = ["--http", "0.0.0.0:0", "--http-token-file", file.to_str().unwrap()];
    let server = HttpServer::run(serve_alone(home.path(), &flags));
    let body = initialize("2025-06-18");
    let right = format!("Bearer {TOKEN}");
    let headers = [ACCEPT, JSON, ("Authorization", &right)];
    let answer = server.connect().ask("POST", &headers, &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    server.connect().ask("POST", &[ACCEPT, JSON], &body).refuses(401, "UNAUTHORIZED");
}

#[test]
fn a_place_that_is_taken_and_flags_that_do_not_go_together() {
    let server = HttpServer::alone();
    let other = tempdir().unwrap();
    let address = server.address.to_string();
    let (code, said) = refused(other.path(), &["--http", &address]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains(&address) && said.contains("choose another address"), "{said}");
    assert!(!other.path().join("data").exists(), "nothing was opened");
    for flags in [
        &["--stdio"][..],
        &["--http-host", "x"],
        &["--http-token-file", "x"],
        &["--http", "nowhere"],
        &["--http", "127.0.0.1"],
    ] {
        let (code, said) = refused(other.path(), flags);
        assert_eq!(code, 2, "{flags:?}: {said}");
    }
}
