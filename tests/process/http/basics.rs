//! What a client that behaves gets, in both eras of the protocol.

use serde_json::{Value, json};
use tempfile::tempdir;

use midex_test::{
    address,
    http::{
        ACCEPT, Client, HttpClient, HttpServer, JSON, SESSION_VERSIONS, STATELESS_VERSION, Session,
        Stateless, initialize,
    },
};

#[test]
fn a_whole_execution_in_every_version() {
    let server = HttpServer::alone();
    let mut ids = Vec::new();
    for version in SESSION_VERSIONS {
        let mut session = Session::open(server.address, version);
        ids.push(session.whole_execution());
    }
    let mut stateless = server.stateless();
    ids.push(stateless.whole_execution());
    // Executions belong to no session and to no era.
    let mut session = server.session();
    for id in ids {
        let uri = address("workflow_status", &id);
        let status = session.read(&uri);
        assert_eq!(status["state"], "completed");
        assert_eq!(stateless.read(&uri), status);
    }
    assert_eq!(server.stdout(), "", "HTTP alone says nothing on stdout");
}

#[test]
fn answers_have_the_form_of_their_era() {
    let server = HttpServer::alone();
    let mut session = server.session();
    let answer = session.exchange("tools/list", json!({}));
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.header("transfer-encoding"), Some("chunked"));
    let mut stateless = server.stateless();
    let discovered = stateless.exchange("server/discover", json!({}));
    assert_eq!(discovered.status, 200);
    assert_eq!(discovered.header("content-type"), Some("application/json"));
    let versions = &discovered.json()["result"]["supportedVersions"];
    assert!(versions.as_array().unwrap().contains(&json!(STATELESS_VERSION)), "{versions}");
    let listed = stateless.exchange("tools/list", json!({}));
    assert_eq!(listed.header("content-type"), Some("application/json"));
    assert_eq!(
        listed.json()["result"]["tools"].as_array().unwrap().len(),
        answer.json()["result"]["tools"].as_array().unwrap().len()
    );
    assert!(listed.header("mcp-session-id").is_none());
}

/// A call in which nothing is out of the ordinary is answered without rmcp.
#[test]
fn a_plain_call_gets_the_answer_that_any_other_gets() {
    let server = HttpServer::alone();
    let mut http = server.connect();
    let mut ask = |accept, name: &str, arguments: &Value| {
        let params = json!({ "name": name, "arguments": arguments });
        let (headers, message) = Stateless::message(7, "tools/call", params);
        let mut headers = headers.all();
        headers[0] = ("Accept", accept);
        http.ask("POST", &headers, message.to_string().as_bytes())
    };
    for (name, arguments, is_same) in [
        ("workflow.read", json!({ "uri": "midex://workflow/available_workflows" }), true),
        ("workflow_read", json!({ "uri": "midex://x\"\n" }), false),
        ("workflow.start", json!({ "workflow_name": 1 }), false),
        ("no.tool", json!({}), false),
    ] {
        let plain = ask(ACCEPT.1, name, &arguments);
        // The same to a client, and out of the ordinary.
        let other = ask("application/json;q=1, text/event-stream", name, &arguments);
        assert_eq!(plain.status, other.status, "{name}");
        for header in ["content-type", "content-length"] {
            assert_eq!(plain.header(header), other.header(header), "{name}");
        }
        // Refusals differ in their correlation ids alone, which have one length.
        assert_eq!(plain.body.len(), other.body.len(), "{name}");
        assert!(!is_same || plain.body == other.body, "{name}: {plain:?}");
        assert_eq!(plain.json()["id"], 7);
    }
}

#[test]
fn a_handshake_that_asks_for_a_version_nobody_knows_gets_one_that_is_known() {
    let server = HttpServer::alone();
    for version in ["1999-01-01", STATELESS_VERSION, "x"] {
        let answer = server.connect().ask("POST", &[ACCEPT, JSON], &initialize(version));
        assert_eq!(answer.status, 200, "{version}: {answer:?}");
        let given = answer.json()["result"]["protocolVersion"].clone();
        assert!(SESSION_VERSIONS.iter().any(|known| given == *known), "{version}: {given}");
    }
}

#[test]
fn a_handshake_that_cannot_be_read_is_refused_and_the_stateless_era_has_none() {
    let server = HttpServer::alone();
    let malformed = br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
    let mut stateless = server.stateless();
    let http = &mut stateless.http;
    let refused = http.ask("POST", &[ACCEPT, JSON], malformed);
    refused.refuses(400, "PARAMS_INVALID");
    let (headers, message) = Stateless::message(2, "initialize", json!({}));
    let refused = http.ask("POST", &headers.all(), message.to_string().as_bytes());
    refused.refuses(404, "METHOD_NOT_FOUND");
}

#[test]
fn a_refused_tool_call_is_a_result_with_the_payload() {
    let server = HttpServer::alone();
    let arguments = json!({ "workflow_name": "nothing" });
    for result in [
        server.session().call("workflow.start", arguments.clone()),
        server.stateless().call("workflow.start", arguments),
    ] {
        assert_eq!(result["isError"], true, "{result}");
        let payload = &result["structuredContent"];
        assert_eq!(payload["error_code"], "WORKFLOW_NOT_FOUND");
        assert_eq!(payload["success"], false);
    }
}

#[test]
fn start_up_lines_say_where_it_runs_and_standard_input_is_served_where_it_was_asked_for() {
    use std::io::Write;

    use midex_test::door::until;

    let home = tempdir().unwrap();
    let alone = HttpServer::start(home.path());
    let said = alone.stderr();
    let place = format!("running on http://{}/mcp\n", alone.address);
    assert!(said.contains(&place), "{said}");
    drop(alone);
    let mut both = HttpServer::with(home.path(), &["--stdio"]);
    let said = both.stderr();
    let place = format!("running on stdio and http://{}/mcp\n", both.address);
    assert!(said.contains(&place), "{said}");
    let mut line = initialize("2025-06-18");
    line.push(b'\n');
    both.stdin().as_mut().unwrap().write_all(&line).unwrap();
    let answer = until("an answer on stdout", || {
        let said = both.stdout();
        said.ends_with('\n').then_some(said)
    });
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["result"]["serverInfo"]["name"], "midex");
    // The end of input is the end of one client.
    drop(both.stdin().take());
    both.session().whole_execution();
    assert!(!both.has_ended());
    both.terminate();
    assert!(both.wait().success());
}

#[test]
fn http_alone_does_not_look_at_standard_input() {
    use std::io::Write;

    let mut server = HttpServer::alone();
    let mut line = initialize("2025-06-18");
    line.push(b'\n');
    // It may be that nobody holds the other end.
    let _ = server.stdin().as_mut().unwrap().write_all(&line);
    drop(server.stdin().take());
    server.session().whole_execution();
    assert_eq!(server.stdout(), "");
    assert!(!server.has_ended());
}
