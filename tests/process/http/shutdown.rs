//! The end of the server, with clients in every posture.

use serde_json::json;

use midex_test::http::{ACCEPT, Client, HttpServer, JSON, Stateless};

#[test]
fn whoever_waits_is_answered_and_everybody_else_is_let_go() {
    let mut server = HttpServer::alone();
    let mut session = server.session();
    let started = session.begin_with(json!({ "workflow_name": "bug-fix" }));
    let arguments = json!({ "execution_id": started["execution_id"], "timeout_s": 25 });
    let wait = json!({ "name": "execution.wait", "arguments": arguments });
    let message = json!({ "jsonrpc": "2.0", "id": "w", "method": "tools/call", "params": wait });
    let mut waits = session.in_work(&message);
    let mut waits_too = Stateless::begin(server.address, "tools/call", wait);
    let mut stream = session.stream().unwrap();
    let mut idle = server.connect();
    let mut half = server.connect();
    half.write(b"POST /mcp HTTP/1.1\r\nHost: x").unwrap();
    let mut slow = server.connect();
    let headers = [ACCEPT, JSON, ("Content-Length", "100")];
    slow.send("POST", "/mcp", &headers, b"{").unwrap();
    // Sent after the call that waits without a sign, and answered.
    server.stateless().request("tools/list", json!({}));
    server.terminate();
    for http in [&mut waits, &mut waits_too] {
        let answer = http.answer().unwrap();
        assert_eq!(answer.status, 200);
        let result = answer.json()["result"].clone();
        assert!(result["structuredContent"].is_object(), "{result}");
    }
    assert!(server.wait().success());
    for http in [&mut stream, &mut idle, &mut half, &mut slow] {
        assert!(http.is_closed());
    }
}

#[test]
fn a_server_that_nobody_uses_ends() {
    let mut server = HttpServer::alone();
    server.terminate();
    assert!(server.wait().success());
}
