//! The transport of lines, over scripted streams.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use midex_domain::{
    clock::{SeededIds, SystemClock},
    limits,
};
use midex_mcp::{self as mcp, LineTransport, Server};
use midex_server::{app::App, config::Config};
use midex_test::Fields;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio_util::sync::CancellationToken;

fn app(dir: &tempfile::TempDir) -> Arc<App> {
    let config = Config::new(Some(dir.path().join("data"))).expect("a configuration");
    Arc::new(App::new(config, Arc::new(SystemClock), Arc::new(SeededIds::new(1))))
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Writes these bytes to a server as one client, ends the input, and gives what was answered.
async fn converse(input: &[u8]) -> Vec<Value> {
    let dir = tempfile::tempdir().expect("a directory");
    let (client, server) = tokio::io::duplex(1 << 20);
    let (read, write) = tokio::io::split(server);
    let app = app(&dir);
    let serving = tokio::spawn(mcp::serve(
        Server::new(app.clone()),
        LineTransport::new(read, write),
        CancellationToken::new(),
    ));
    let answers = tokio::spawn(talk(client, input.to_vec()));
    serving.await.expect("no panic").expect("an orderly end");
    app.stop().await.expect("a stop");
    answers.await.expect("no panic")
}

async fn talk(client: DuplexStream, input: Vec<u8>) -> Vec<Value> {
    let (read, mut write) = tokio::io::split(client);
    let writing = tokio::spawn(async move {
        write.write_all(&input).await.expect("the server reads");
        write.shutdown().await.expect("an end");
    });
    let mut lines = BufReader::new(read).lines();
    let mut answers = Vec::new();
    while let Some(line) = lines.next_line().await.expect("UTF-8") {
        answers.push(serde_json::from_str(&line).expect("every line is JSON"));
    }
    writing.await.expect("no panic");
    answers
}

fn script(lines: &[&str]) -> Vec<u8> {
    let mut text = [INITIALIZE, INITIALIZED].join("\n") + "\n";
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    text.into_bytes()
}

fn answer(answers: &[Value], id: u64) -> &Value {
    answers
        .iter()
        .find(|answer| answer["id"] == id)
        .unwrap_or_else(|| panic!("no answer to {id}: {answers:?}"))
}

#[tokio::test]
async fn bytes_that_trickle_in_are_answered_like_any_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut read = tokio_test::io::Builder::new();
    for byte in script(&[r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#]) {
        read.read(&[byte]);
    }
    let (far, near) = tokio::io::duplex(1 << 16);
    let transport = LineTransport::new(read.build(), near);
    mcp::serve(Server::new(app(&dir)), transport, CancellationToken::new())
        .await
        .expect("an orderly end");
    let mut lines = BufReader::new(far).lines();
    let first: Value =
        serde_json::from_str(&lines.next_line().await.expect("UTF-8").expect("a line"))
            .expect("JSON");
    let second: Value =
        serde_json::from_str(&lines.next_line().await.expect("UTF-8").expect("a line"))
            .expect("JSON");
    assert_eq!(first["result"]["serverInfo"]["name"], "midex");
    second.has_fields(json!({ "id": 1, "result": {} }));
}

#[tokio::test]
async fn frames_that_are_no_calls_are_answered_and_the_connection_lives() {
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":4,"method":"ping","params":{{"x":{}1{}}}}}"#,
        "[".repeat(1000),
        "]".repeat(1000)
    );
    let answers = converse(&script(&[
        "this is not JSON",
        "[]",
        r#"{"jsonrpc":"2.0","id":2}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"no/such"}"#,
        &deep,
        "",
        r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#,
    ]))
    .await;
    let codes: Vec<_> = answers
        .iter()
        .filter(|answer| answer["id"].is_null())
        .map(|a| &a["error"]["code"])
        .collect();
    assert_eq!(codes, [&json!(-32700), &json!(-32600)]);
    assert_eq!(answer(&answers, 2)["error"]["code"], -32600);
    assert_eq!(answer(&answers, 3)["error"]["code"], -32601);
    assert_eq!(answer(&answers, 4)["error"]["code"], -32700, "nested too deep");
    assert_eq!(answer(&answers, 9)["result"], json!({}));
}

#[tokio::test]
async fn an_oversized_frame_is_answered_under_its_id() {
    let mut input = script(&[]);
    input.extend_from_slice(br#"{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":""#);
    input.resize(input.len() + limits::FRAME_BYTES_MAX, b'x');
    input.extend_from_slice(b"\"}}\n{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"ping\"}\n");
    let answers = converse(&input).await;
    assert_eq!(answer(&answers, 5)["error"]["code"], -32600);
    assert_eq!(answer(&answers, 6)["result"], json!({}));
}

#[tokio::test]
async fn an_end_before_the_handshake_is_an_orderly_end() {
    assert!(converse(b"").await.is_empty());
    assert!(converse(b"{\"jsonrpc\":").await.is_empty());
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_read_no_further() {
    let dir = tempfile::tempdir().expect("a directory");
    let (client, server) = tokio::io::duplex(4096);
    let (read, write) = tokio::io::split(server);
    let serving = tokio::spawn(mcp::serve(
        Server::new(app(&dir)),
        LineTransport::new(read, write),
        CancellationToken::new(),
    ));
    let (answers, mut requests) = tokio::io::split(client);
    requests.write_all(&script(&[])).await.expect("the server reads");
    // More calls than may be outstanding: the writer must come to a halt, and go on once it is read.
    let total = limits::CLIENT_CALLS_MAX * 2;
    let written = Arc::new(AtomicUsize::new(0));
    let writing = tokio::spawn({
        let written = written.clone();
        async move {
            for id in 1..=total {
                let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n");
                requests.write_all(line.as_bytes()).await.expect("the server reads in the end");
                written.store(id, Ordering::SeqCst);
            }
            requests.shutdown().await.expect("an end");
        }
    });
    while written.load(Ordering::SeqCst) < limits::CLIENT_CALLS_MAX {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Time enough to read the rest, if it were read.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let halted = written.load(Ordering::SeqCst);
    // Besides the calls that may be outstanding: what lies in the streams' own buffers, in lines of some 45 bytes.
    assert!(halted < limits::CLIENT_CALLS_MAX + 500, "{halted} calls were read");
    let mut lines = BufReader::new(answers).lines();
    let mut count = 0;
    while lines.next_line().await.expect("UTF-8").is_some() {
        count += 1;
    }
    assert_eq!(count, total + 1, "every call is answered");
    writing.await.expect("no panic");
    serving.await.expect("no panic").expect("an orderly end");
}

#[tokio::test]
async fn what_comes_before_the_handshake_and_is_no_request_is_passed_over() {
    let mut input = format!("{INITIALIZED}\n").into_bytes();
    input.extend_from_slice(
        br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
    );
    input.push(b'\n');
    input.extend_from_slice(&script(&[r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#]));
    assert_eq!(answer(&converse(&input).await, 1)["result"], json!({}));
}
