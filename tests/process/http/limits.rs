//! What there may be at once: sessions, streams, calls. At the limit it goes on, past it somebody is told.

use std::{io::Write, process::Command};

use midex_domain::limits;
use serde_json::{Value, json};
use tempfile::tempdir;

use midex_test::{
    door::until,
    http::{ACCEPT, Answer, Client, Http, HttpServer, JSON, Session, Stateless, initialize},
    serve_alone,
};

/// The arguments of a call that is in work until the execution moves.
fn waiting(session: &mut Session) -> (Value, Value) {
    let started = session.begin_with(json!({ "workflow_name": "bug-fix" }));
    let arguments = json!({ "execution_id": started["execution_id"], "timeout_s": 25 });
    let wait = json!({ "name": "execution.wait", "arguments": arguments });
    (wait, started["new_token"].clone())
}

fn call(id: usize, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

fn is_busy(answer: &Answer) {
    let payload = answer.refuses(503, "SERVER_BUSY");
    assert_eq!(payload["retryable"], true);
    assert_eq!(answer.header("retry-after"), Some("1"));
}

#[test]
fn past_the_limit_of_sessions_the_idle_go_and_the_busy_stay() {
    let server = HttpServer::alone();
    let mut busy = server.session();
    let streams = server.session();
    let idle = server.session();
    let (wait, token) = waiting(&mut busy);
    let mut waits = busy.in_work(&call(7, &wait));
    let mut stream = streams.stream().unwrap();
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let mut flood = server.connect();
    let body = initialize("2025-06-18");
    let mut initialize = || {
        let answer = flood.ask("POST", &[ACCEPT, JSON], &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.header("mcp-session-id").unwrap().to_owned()
    };
    for _ in 3..limits::HTTP_SESSIONS_MAX {
        initialize();
    }
    assert_eq!(idle.post(&ping).status, 200, "there is room for all of them");
    let mut last = String::new();
    for _ in 1..limits::HTTP_SESSIONS_MAX {
        last = initialize();
    }
    idle.post(&ping).refuses(404, "SESSION_NOT_FOUND");
    assert_eq!(streams.post(&ping).status, 200);
    assert!(stream.is_quiet(), "its stream is open");
    let mut newest = server.session();
    newest.hand_in(&token, json!({ "summary": "x" }));
    let answer = waits.answer().unwrap().json();
    assert_eq!(answer["result"]["structuredContent"]["changed"], true);
    newest.id = last;
    assert_eq!(newest.tell("notifications/initialized").status, 202);
    newest.whole_execution();
}

#[test]
fn past_the_limit_of_streams_no_other_opens() {
    let server = HttpServer::alone();
    let mut sessions: Vec<_> =
        (0..=limits::HTTP_STREAMS_MAX / 32).map(|_| server.session()).collect();
    let mut last = sessions.pop().unwrap();
    let mut streams: Vec<_> =
        sessions.iter().flat_map(|session| (0..32).map(|_| session.stream().unwrap())).collect();
    assert_eq!(streams.len(), limits::HTTP_STREAMS_MAX);
    is_busy(&last.stream().err().expect("no room"));
    last.whole_execution();
    drop(streams.pop());
    let stream = until("a place", || last.stream().ok());
    is_busy(&last.stream().err().expect("no room again"));
    drop(stream);
}

#[test]
fn past_the_limit_of_calls_no_other_is_taken_and_the_idle_are_left_alone() {
    let mut server = HttpServer::alone_with(&["--stdio"]);
    let mut session = server.session();
    let (wait, token) = waiting(&mut session);
    // Their clients go; the calls of a session go on.
    let crowd = limits::HTTP_CALLS_MAX / limits::HTTP_SESSION_CALLS_MAX;
    let mut crowd: Vec<_> = (0..crowd).map(|_| server.session()).collect();
    for one in &mut crowd {
        for id in 0..limits::HTTP_SESSION_CALLS_MAX {
            drop(one.in_work(&call(1000 + id, &wait)));
        }
    }
    is_busy(&crowd[0].post(&call(1, &wait)));
    let mut stateless = server.stateless();
    let (headers, message) = Stateless::message(5, "tools/call", wait);
    let body = message.to_string();
    for _ in 0..3 {
        let http = &mut stateless.http;
        let refused = http.ask("POST", &headers.all(), body.as_bytes());
        is_busy(&refused);
        assert_eq!(refused.json()["id"], 5);
    }
    assert!(session.http.is_quiet(), "an idle connection holds no call");
    // Whoever is not a client over HTTP moves the execution, and all of them are done.
    let handshake = initialize("2025-06-18");
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let arguments = json!({ "token": token, "output": { "summary": "x" } });
    let next = call(1, &json!({ "name": "workflow.next_step", "arguments": arguments }));
    let lines = format!("{}\n{told}\n{next}\n", String::from_utf8_lossy(&handshake));
    let input = server.stdin().as_mut().unwrap();
    input.write_all(lines.as_bytes()).unwrap();
    until("room again", || {
        let http = &mut stateless.http;
        let (headers, message) = Stateless::message(6, "tools/list", json!({}));
        let answer = http.ask("POST", &headers.all(), message.to_string().as_bytes());
        (answer.status == 200).then_some(())
    });
    stateless.whole_execution();
}

/// A server that may have so few files open, as the shell's `ulimit` says it.
fn with_files(home: &std::path::Path, ulimit: &str) -> HttpServer {
    let serve = serve_alone(home, &["--http", "127.0.0.1:0"]);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("ulimit {ulimit}; exec \"$@\""), "sh"])
        .arg(serve.get_program())
        .args(serve.get_args())
        .current_dir(home);
    for (name, value) in serve.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    HttpServer::run(shell)
}

#[test]
fn a_process_that_may_have_few_files_open_takes_fewer_connections_and_one_that_may_ask_for_more_does()
 {
    const FILES: usize = 400;
    let home = tempdir().unwrap();
    let server = with_files(home.path(), &format!("-n {FILES}"));
    let held: Vec<_> = (0..FILES).map(|_| server.connect()).collect();
    let mut waits = server.connect();
    waits.send("POST", "/mcp", &[ACCEPT, JSON], &initialize("2025-06-18")).unwrap();
    let taken = FILES - limits::HTTP_FILES_BESIDES;
    until("no place is free", || (server.descriptors() >= taken).then_some(()));
    assert!(waits.is_quiet(), "it waits for a place");
    drop(held);
    assert_eq!(waits.answer().unwrap().status, 200);
    server.session().whole_execution();
    server.stateless().whole_execution();
    assert!(!server.stderr().contains("could not be taken"), "before the files run out");
    drop(server);
    let server = with_files(home.path(), &format!("-Sn {FILES}"));
    let mut held: Vec<_> = (0..FILES).map(|_| server.connect()).collect();
    server.session().whole_execution();
    assert!(held.iter_mut().all(Http::is_quiet), "there is room for all");
}
