//! Clients that are slow, greedy or hostile: whoever behaves beside them is served, and memory stays bounded.

use std::{
    io::Write,
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use midex_domain::{
    clock::{Clock, SeededIds, SystemClock, Timestamp},
    limits,
};
use midex_mcp::{self as mcp, Server};
use midex_server::{app::App, config::Config};
use serde_json::{Value, json};
use tempfile::tempdir;
use tokio_util::sync::CancellationToken;

use midex_test::{
    self,
    door::until,
    http::{
        ACCEPT, Client, Http, HttpClient, HttpServer, JSON, Session, Stateless, head, initialize,
    },
    says, serve_alone,
};

/// What a server may take at most beside what [`limits::HTTP_BYTES_MAX`] lets clients make it hold: its store, its
/// sessions, and the replies that are just being made.
const MEMORY_BESIDES: usize = 400 << 20;
/// What a server may take at most whatever its clients do.
const MEMORY_MAX: usize = limits::HTTP_BYTES_MAX + MEMORY_BESIDES;

#[expect(clippy::print_stdout, reason = "measured, never judged")]
fn tell(words: &str) {
    println!("{words}");
}

/// A client that behaves, of either era, does its work; and the server has not grown too large.
fn goes_on(server: &HttpServer) {
    #[expect(clippy::disallowed_methods, reason = "told, never judged")]
    let start = std::time::Instant::now();
    server.session().whole_execution();
    server.stateless().whole_execution();
    let memory = server.memory();
    let (took, mebibytes) = (start.elapsed(), memory >> 20);
    tell(&format!("two executions beside it: {took:?}, {mebibytes} MiB"));
    assert!(memory < MEMORY_MAX, "{} MiB", memory >> 20);
}

/// As many files as this process may have open.
fn all_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let all = Rlimit { current: maximum, maximum };
    setrlimit(Resource::Nofile, all).unwrap();
    let needed = 2 * limits::HTTP_CONNECTIONS_MAX as u64;
    assert!(maximum.is_none_or(|files| files > needed), "the test needs {needed} files");
}

/// Connects and says nothing.
fn silent(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).unwrap()
}

/// A server in this process, which `act` is a client of.
async fn beside(
    home: &Path,
    clock: Arc<dyn Clock>,
    options: mcp::http::Options,
    act: impl FnOnce(SocketAddr) + Send + 'static,
) {
    let config = Config::new(Some(home.join("data"))).unwrap();
    let app = Arc::new(App::new(config, clock, Arc::new(SeededIds::new(1))));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let serving = tokio::spawn({
        let (app, stop) = (app.clone(), stop.clone());
        let handler = move || Server::new(app.clone());
        async move { mcp::http::serve_http(listener, handler, options, stop).await }
    });
    tokio::task::spawn_blocking(move || act(address)).await.unwrap();
    stop.cancel();
    serving.await.unwrap().unwrap();
    app.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_that_nobody_takes() {
    const BYTES_MAX: usize = 6 << 20;
    const CLIENTS: usize = 6;
    let home = tempdir().unwrap();
    let options = mcp::http::Options { bytes_max: BYTES_MAX, ..mcp::http::Options::default() };
    beside(home.path(), Arc::new(SystemClock), options, |address| {
        let mut session = Session::open(address, "2025-11-25");
        let mut stateless = Stateless::new(address);
        let start = json!({ "workflow_name": "bug-fix" });
        let reply = session.begin_with(start);
        let output = json!({ "summary": "x".repeat(limits::OUTPUT_BYTES_MAX - 1000) });
        session.hand_in(&reply["new_token"], &output);
        let id = reply["execution_id"].as_str().unwrap();
        let read = json!({ "uri": midex_test::address("step_history", id) });
        // Of either era: replies in one piece, and replies in a stream.
        let mut never_read: Vec<_> = (0..CLIENTS)
            .map(|number| {
                if number % 2 == 0 {
                    return Stateless::begin(address, "resources/read", read.clone());
                }
                session.in_work(&json!({
                    "jsonrpc": "2.0", "id": format!("c{number}"), "method": "resources/read", "params": read
                }))
            })
            .collect();
        for http in &mut never_read {
            // Its reply has begun to come, or it has been broken off.
            until("a reply", || (!http.is_quiet()).then_some(()));
        }
        session.whole_execution();
        drop(never_read);
        until("room again", || {
            let answer = stateless.exchange("resources/read", read.clone());
            let is_whole = answer.body.len() > limits::OUTPUT_BYTES_MAX - 1000;
            is_whole.then_some(()).or_else(|| {
                answer.refuses(503, "SERVER_BUSY");
                None
            })
        });
        session.whole_execution();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_do_not_end_fill_the_memory_for_them_until_they_go() {
    const BYTES_MAX: usize = 1 << 20;
    let home = tempdir().unwrap();
    let options = mcp::http::Options { bytes_max: BYTES_MAX, ..mcp::http::Options::default() };
    beside(home.path(), Arc::new(SystemClock), options, |address| {
        let mut slow = Http::connect(address);
        let length = (BYTES_MAX + 1).to_string();
        let headers = [ACCEPT, JSON, ("Content-Length", &length)];
        slow.send("POST", "/mcp", &headers, &vec![b' '; BYTES_MAX]).unwrap();
        let ask = || {
            let body = initialize("2025-11-25");
            Http::connect(address).ask("POST", &[ACCEPT, JSON], &body)
        };
        let busy = until("no room", || Some(ask()).filter(|answer| answer.status != 200));
        busy.refuses(503, "SERVER_BUSY");
        assert_eq!(busy.header("retry-after"), Some("1"));
        drop(slow);
        until("room again", || (ask().status == 200).then_some(()));
        Session::open(address, "2025-11-25").whole_execution();
    })
    .await;
}

#[test]
fn thousands_of_calls_on_one_connection_and_no_answer_taken() {
    let server = HttpServer::alone();
    let (headers, message) = Stateless::message(1, "tools/list", json!({}));
    let body = message.to_string();
    let head = head("POST", "/mcp", server.address, &headers.all(), body.len());
    let call = format!("{head}{body}").into_bytes();
    let mut stream = silent(server.address);
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut sent = 0;
    // Its socket takes no more once the server stops reading.
    while sent < 20_000 && stream.write_all(&call).is_ok() {
        sent += 1;
    }
    tell(&format!("{sent} calls were taken by the socket"));
    assert!(sent < 20_000, "nobody stopped it");
    goes_on(&server);
}

#[test]
fn a_byte_now_and_then_in_heads_and_in_bodies() {
    let server = HttpServer::alone();
    let head = head("POST", "/mcp", server.address, &[ACCEPT, JSON], 1000);
    let mut slow: Vec<(TcpStream, String)> = Vec::new();
    for number in 0..200 {
        let mut stream = silent(server.address);
        let mut text = head.clone();
        if number % 2 == 0 {
            stream.write_all(text.as_bytes()).unwrap();
            text = "{".to_owned() + &" ".repeat(998);
        }
        slow.push((stream, text));
    }
    for at in 0..3 {
        for (stream, text) in &mut slow {
            stream.write_all(&text.as_bytes()[at..=at]).unwrap();
        }
        goes_on(&server);
        pause();
    }
}

#[test]
fn half_closed() {
    let server = HttpServer::alone();
    let mut session = server.session();
    let started = session.begin_with(json!({ "workflow_name": "bug-fix" }));
    let arguments = json!({ "execution_id": started["execution_id"], "timeout_s": 25 });
    let wait = json!({ "name": "execution.wait", "arguments": arguments });
    for _ in 0..20 {
        let mut http = Stateless::begin(server.address, "tools/call", wait.clone());
        http.half_close();
        assert!(http.is_closed(), "who says nothing more waits for nothing");
        let mut http = server.connect();
        http.write(b"POST /mcp HTTP/1.1\r\n").unwrap();
        http.half_close();
        assert!(http.is_closed());
    }
    // A session's call goes on; its answer is for nobody.
    let call = json!({ "jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": wait });
    let mut http = session.in_work(&call);
    http.half_close();
    assert!(http.is_closed());
    goes_on(&server);
}

#[test]
fn bodies_at_the_limit_past_it_and_far_past_it() {
    let server = HttpServer::alone();
    let mut session = server.session();
    let sized = |size: usize| {
        let mut body =
            json!({ "jsonrpc": "2.0", "id": "big", "method": "ping" }).to_string().into_bytes();
        body.resize(size, b' ');
        body
    };
    let post = |body: &[u8]| {
        let mut http = server.connect();
        http.ask("POST", &session.headers(), body)
    };
    let at = post(&sized(limits::FRAME_BYTES_MAX));
    assert_eq!((at.status, &at.json()["id"]), (200, &json!("big")));
    for size in [limits::FRAME_BYTES_MAX + 1, 64 << 20] {
        let answer = post(&sized(size));
        let payload = answer.refuses(413, "LIMIT_EXCEEDED");
        let limit = limits::FRAME_BYTES_MAX.to_string();
        says(&payload["suggested_action"], &limit);
        assert_eq!(answer.json()["id"], "big");
        assert!(server.memory() < MEMORY_MAX);
    }
    let late = format!(
        r#"{{"jsonrpc":"2.0","x":"{}","id":"late","method":"ping"}}"#,
        "x".repeat(limits::FRAME_BYTES_MAX)
    );
    let answer = post(late.as_bytes());
    answer.refuses(413, "LIMIT_EXCEEDED");
    assert_eq!(answer.json()["id"], Value::Null, "its id lies too far in it");
    let mut huge = server.connect();
    let length = (limits::HTTP_DROPPED_BYTES_MAX + limits::FRAME_BYTES_MAX + (1 << 20)).to_string();
    let headers = [ACCEPT, JSON, ("Content-Length", &length)];
    huge.send("POST", "/mcp", &headers, b"").unwrap();
    let piece = vec![b' '; 1 << 20];
    // It is not read to its end.
    while huge.write(&piece).is_ok() {}
    assert!(huge.is_closed());
    // Its own connection may have been idle for too long by now.
    session.http = server.connect();
    session.whole_execution();
    goes_on(&server);
}

#[test]
fn silent_connections_in_every_place() {
    all_files();
    let server = HttpServer::alone();
    let mut session = server.session();
    let started = session.begin_with(json!({ "workflow_name": "bug-fix" }));
    let arguments = json!({ "execution_id": started["execution_id"], "timeout_s": 25 });
    let wait = json!({ "name": "execution.wait", "arguments": arguments });
    let call = json!({ "jsonrpc": "2.0", "id": "w", "method": "tools/call", "params": wait });
    let mut waits = session.in_work(&call);
    let mut stream = session.stream().unwrap();
    let more_than_places = limits::HTTP_CONNECTIONS_MAX + 500;
    let held: Vec<_> = (0..more_than_places).map(|_| silent(server.address)).collect();
    let mut newest = Http::connect(server.address);
    newest.send("POST", "/mcp", &[ACCEPT, JSON], &initialize("2025-06-18")).unwrap();
    let taken = limits::HTTP_CONNECTIONS_MAX;
    until("no place is free", || (server.descriptors() >= taken).then_some(()));
    assert!(newest.is_quiet(), "it waits for a place");
    let besides = server.descriptors() - taken;
    assert!(besides < limits::HTTP_FILES_BESIDES, "{besides} files beside the connections");
    // Clients that have a connection are served.
    session.whole_execution();
    assert!(waits.is_quiet() && stream.is_quiet(), "who waits is not cut");
    session.hand_in(&started["new_token"], json!({ "summary": "x" }));
    let answer = waits.answer().unwrap().json();
    assert_eq!(answer["result"]["structuredContent"]["changed"], true);
    assert!(server.memory() < MEMORY_MAX);
    drop(held);
    assert_eq!(newest.answer().unwrap().status, 200);
    goes_on(&server);
}

/// A clock that can be made to panic.
#[derive(Debug, Default)]
struct Faulty(AtomicBool);

impl Clock for Faulty {
    fn now(&self) -> Timestamp {
        let panics = self.0.load(Ordering::SeqCst);
        assert!(!panics, "a fault made by a test");
        SystemClock.now()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_answered() {
    let home = tempdir().unwrap();
    let clock = Arc::new(Faulty::default());
    let panics = clock.clone();
    let options = mcp::http::Options::default();
    beside(home.path(), clock, options, move |address| {
        let mut session = Session::open(address, "2025-11-25");
        let mut stateless = Stateless::new(address);
        session.whole_execution();
        let start = json!({ "workflow_name": "bug-fix" });
        panics.0.store(true, Ordering::SeqCst);
        for result in
            [session.call("workflow.start", start.clone()), stateless.call("workflow.start", start)]
        {
            assert_eq!(result["isError"], true, "{result}");
            assert!(result["structuredContent"]["error_code"].is_string());
        }
        panics.0.store(false, Ordering::SeqCst);
        session.whole_execution();
        stateless.whole_execution();
    })
    .await;
}

#[test]
fn nothing_that_is_sent_is_in_the_log() {
    const CANARY: &str = "canary-5f0c2e7a";
    let home = tempdir().unwrap();
    let token = format!("{CANARY}-bearer-token");
    let file = home.path().join("token");
    std::fs::write(&file, &token).unwrap();
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o600);
    std::fs::set_permissions(&file, mode).unwrap();
    let flags = ["--http", "127.0.0.1:0", "--http-token-file", file.to_str().unwrap()];
    let mut command = serve_alone(home.path(), &flags);
    command.env("RUST_LOG", "trace");
    let mut server = HttpServer::run(command);
    let bearer = format!("Bearer {token}");
    let with = |headers: &[(&str, &str)], body: &[u8]| {
        let headers = [headers, &[("Authorization", &bearer)]].concat();
        server.connect().ask("POST", &headers, body)
    };
    let wrong = [ACCEPT, JSON, ("Authorization", "Bearer canary-5f0c2e7a-wrong")];
    server.connect().ask("POST", &wrong, CANARY.as_bytes()).refuses(401, "UNAUTHORIZED");
    let call = |tool: &str, arguments: Value| {
        let params = json!({ "name": tool, "arguments": arguments });
        let (headers, message) = Stateless::message(1, "tools/call", params);
        with(&headers.all(), message.to_string().as_bytes()).json()["result"]["structuredContent"]
            .clone()
    };
    let inputs = json!({ "task": CANARY });
    let reply = call("workflow.start", json!({ "workflow_name": "bug-fix", "inputs": inputs }));
    let output = json!({ "summary": CANARY, CANARY: [CANARY] });
    let next = call("workflow.next_step", json!({ "token": reply["new_token"], "output": output }));
    assert_eq!(next["success"], true, "{next}");
    call("workflow.start", json!({ "workflow_name": CANARY, CANARY: CANARY }));
    call("workflow.next_step", json!({ "token": CANARY, "output": 5 }));
    call(CANARY, json!({}));
    // Bodies that are no message, headers that are wrong, and sessions.
    let garbage = format!("{{\"id\":1,\"{CANARY}\":\"{CANARY}\", {CANARY}");
    with(&[ACCEPT, JSON], garbage.as_bytes()).refuses(400, "REQUEST_INVALID");
    let strange =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{CANARY}","params":["{CANARY}"]}}"#);
    for headers in [
        vec![ACCEPT, JSON, ("Mcp-Session-Id", CANARY)],
        vec![ACCEPT, JSON, ("MCP-Protocol-Version", CANARY)],
        vec![ACCEPT, JSON, ("Mcp-Name", CANARY), ("Mcp-Method", CANARY)],
        vec![ACCEPT, ("Content-Type", CANARY)],
        vec![("Accept", CANARY), JSON],
        vec![ACCEPT, JSON, ("Origin", "http://canary-5f0c2e7a.test")],
    ] {
        assert!(with(&headers, strange.as_bytes()).status >= 400);
    }
    let opened = with(&[ACCEPT, JSON], &initialize("2025-11-25"));
    let id = opened.header("mcp-session-id").unwrap();
    let session = [ACCEPT, JSON, ("Mcp-Session-Id", id)];
    // A call before the handshake is over, which rmcp may take amiss.
    let early = json!({ "name": "workflow.start", "arguments": { "workflow_name": CANARY } });
    let early = json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": early });
    let mut http = server.connect();
    let headers = [&session[..], &[("Authorization", &bearer)]].concat();
    http.send("POST", "/mcp", &headers, early.to_string().as_bytes()).unwrap();
    http.answer_head().unwrap();
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": CANARY, "reason": CANARY } });
    with(&session, cancelled.to_string().as_bytes());
    with(&session, strange.as_bytes());
    server.terminate();
    assert!(server.wait().success());
    let log = server.stderr();
    assert!(log.contains("a call was refused"), "it does log: {log}");
    let told: Vec<_> = log.lines().filter(|line| line.contains(CANARY)).collect();
    assert!(told.is_empty(), "{told:#?}");
}

#[expect(clippy::disallowed_methods, reason = "it is slow in real time")]
fn pause() {
    std::thread::sleep(Duration::from_millis(300));
}
