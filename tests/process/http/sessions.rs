//! Sessions: what each has for itself, how it ends, and what outlives it.

use serde_json::{Value, json};
use tempfile::tempdir;

use midex_test::{
    Fields,
    door::until,
    http::{Client, Http, HttpServer, Session},
    says,
};

fn request(id: Value, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// A call that is in work for as long as the execution does not move.
fn waiting(id: Value, execution: &str) -> Value {
    let arguments = json!({ "execution_id": execution, "timeout_s": 25 });
    request(id, "tools/call", json!({ "name": "execution.wait", "arguments": arguments }))
}

/// Starts an execution; its id and token.
fn started(session: &mut Session) -> (String, Value) {
    let reply = session.begin_with(json!({ "workflow_name": "bug-fix" }));
    (reply["execution_id"].as_str().unwrap().to_owned(), reply["new_token"].clone())
}

/// Moves an execution on.
fn moved(session: &mut Session, token: &Value) -> Value {
    session.finish(token, "done")["new_token"].clone()
}

/// rmcp brings what happens to one stream of a session, and never turns to another one by itself.
#[test]
fn where_the_stream_that_brings_something_ends_the_others_end_too_and_the_next_one_brings_it() {
    let server = HttpServer::alone();
    let mut session = server.session();
    let (id, token) = started(&mut session);
    let uri = format!("midex://workflow/workflow_status/{id}");
    let answer = session.request("resources/subscribe", json!({ "uri": uri }));
    assert_eq!(answer["error"], Value::Null, "{answer}");
    let [first, mut second] = [(); 2].map(|()| session.stream().unwrap());
    drop(first);
    // Its client is told by the end that it shall open another.
    while second.chunk().unwrap().is_some() {}
    let mut third = until("another stream", || session.stream().ok());
    moved(&mut session, &token);
    let mut heard = String::new();
    while !heard.contains("notifications/resources/updated") {
        let chunk = third.chunk().unwrap().expect("it stays open");
        heard += &String::from_utf8(chunk).unwrap();
    }
    assert!(heard.contains(&uri), "{heard}");
}

#[test]
fn a_session_ends_when_its_client_says_so() {
    let server = HttpServer::alone();
    let mut session = server.session();
    let id = session.whole_execution();
    let mut stream = session.stream().unwrap();
    let ended = session.plain("DELETE");
    assert_eq!((ended.status, ended.body.len()), (204, 0), "{ended:?}");
    while stream.chunk().unwrap().is_some() {}
    session.plain("DELETE").refuses(404, "SESSION_NOT_FOUND");
    session.plain("GET").refuses(404, "SESSION_NOT_FOUND");
    let again = session.post(&request(json!(9), "ping", json!({})));
    let payload = again.refuses(404, "SESSION_NOT_FOUND");
    says(&payload["suggested_action"], "initialize");
    assert_eq!(again.json()["id"], 9);
    session.tell("notifications/cancelled").refuses(404, "SESSION_NOT_FOUND");
    assert_eq!(server.session().status(&id)["state"], "completed");
}

#[test]
fn what_needs_a_session_says_so() {
    let server = HttpServer::alone();
    let mut session = server.session();
    let id = std::mem::take(&mut session.id);
    for unknown in ["no-such-session", "x", "\u{e9}"] {
        unknown.clone_into(&mut session.id);
        let answer = session.post(&request(json!(1), "ping", json!({})));
        assert!([400, 404].contains(&answer.status), "{answer:?}");
        answer.refuses(answer.status, "SESSION_NOT_FOUND");
    }
    let list = request(json!(1), "tools/list", json!({})).to_string();
    let headers = [midex_test::http::ACCEPT, midex_test::http::JSON];
    for method in ["POST", "GET", "DELETE"] {
        let answer = server.connect().ask(method, &headers, list.as_bytes());
        answer.refuses(400, "SESSION_NOT_FOUND");
    }
    session.id = id;
    session.whole_execution();
}

#[test]
fn an_id_is_in_work_once_in_a_session_and_free_after_its_answer() {
    let server = HttpServer::alone();
    let mut session = server.session();
    let mut other = server.session();
    let (execution, token) = started(&mut session);
    let mut first = session.in_work(&waiting(json!(7), &execution));
    let again = session.post(&waiting(json!(7), &execution));
    let payload = again.refuses(400, "REQUEST_INVALID");
    assert!(payload["message"].as_str().unwrap().contains('7'), "{payload}");
    assert_eq!(again.json()["id"], 7);
    // The text "7" is another id, and another client's 7 is none of this one's.
    let text = session.post(&request(json!("7"), "ping", json!({})));
    assert_eq!(text.json()["id"], "7");
    let mut others = other.in_work(&waiting(json!(7), &execution));
    moved(&mut session, &token);
    for http in [&mut first, &mut others] {
        let answer = http.answer().unwrap().json();
        assert_eq!(answer["id"], 7);
        answer.has_fields(json!({ "/result/structuredContent/changed": true }));
    }
    let reused = session.post(&request(json!(7), "tools/list", json!({})));
    assert!(reused.json()["result"]["tools"].is_array());
    other.whole_execution();
}

#[test]
fn a_call_whose_client_has_gone_keeps_its_id_until_it_is_done_and_not_longer() {
    let server = HttpServer::alone();
    let mut session = server.session();
    let (execution, token) = started(&mut session);
    let gone: Http = session.in_work(&waiting(json!("gone"), &execution));
    drop(gone);
    let again = session.post(&waiting(json!("gone"), &execution));
    again.refuses(400, "REQUEST_INVALID");
    moved(&mut session, &token);
    until("the id is free", || {
        let again = session.post(&request(json!("gone"), "ping", json!({})));
        (again.status == 200).then_some(())
    });
}

#[test]
fn sessions_die_with_the_process_and_executions_go_on() {
    let home = tempdir().unwrap();
    let mut server = HttpServer::start(home.path());
    let mut session = server.session();
    let (execution, token) = started(&mut session);
    server.terminate();
    assert!(server.wait().success());
    let server = HttpServer::start(home.path());
    session.http.address = server.address;
    session.post(&request(json!(1), "tools/list", json!({}))).refuses(404, "SESSION_NOT_FOUND");
    let mut session = server.session();
    moved(&mut session, &token);
    let status = session.status(&execution);
    status.has_fields(json!({ "state": "running", "revision": 2 }));
}
