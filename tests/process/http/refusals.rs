//! Every refusal is JSON-RPC with our payload, and has the right status.

use midex_domain::limits;
use serde_json::{Value, json};

use midex_test::{
    Shows,
    http::{
        ACCEPT, Answer, Client, Headers, Http, HttpClient, HttpServer, JSON, STATELESS_VERSION,
        Stateless, head, initialize,
    },
};

/// What a message that is not to be understood is answered with, on a connection of its own.
fn posted(server: &HttpServer, body: &str) -> Answer {
    server.connect().ask("POST", &[ACCEPT, JSON], body.as_bytes())
}

#[test]
fn what_is_no_request_of_ours() {
    let server = HttpServer::alone();
    for path in ["/", "/mcp/x", "/MCP", "/mcp%2f", "/favicon.ico"] {
        let mut http = server.connect();
        http.send("POST", path, &[ACCEPT, JSON], &initialize("2025-06-18")).unwrap();
        http.answer().unwrap().refuses(404, "RESOURCE_NOT_FOUND");
    }
    for method in ["PUT", "PATCH", "OPTIONS", "TRACE", "X"] {
        let answer = server.connect().ask(method, &[], b"");
        answer.refuses(405, "REQUEST_INVALID");
        assert_eq!(answer.header("allow"), Some("GET, POST, DELETE"));
    }
    let body = initialize("2025-06-18");
    for accept in ["application/json", "text/event-stream", "text/html", ""] {
        let headers = [("Accept", accept), JSON];
        let answer = server.connect().ask("POST", &headers, &body);
        answer.refuses(406, "REQUEST_INVALID");
        assert_eq!(answer.json()["id"], 0, "the id of the call");
    }
    for kind in ["text/plain", "application/xml", ""] {
        let headers = [ACCEPT, ("Content-Type", kind)];
        let answer = server.connect().ask("POST", &headers, &body);
        answer.refuses(415, "REQUEST_INVALID");
    }
    let answer = server.connect().ask("GET", &[("Accept", "text/html")], b"");
    answer.refuses(406, "REQUEST_INVALID");
    server.session().whole_execution();
}

#[test]
fn a_client_that_accepts_anything_by_the_rules_of_http_is_answered() {
    let server = HttpServer::alone();
    let body = initialize("2025-06-18");
    for accept in [
        "*/*",
        "application/*, text/*;q=0.5",
        "TEXT/event-stream ; q=0.1,*/*;q=0.8",
        "application/json;charset=utf-8, text/event-stream",
    ] {
        let answer = server.connect().ask("POST", &[("Accept", accept), JSON], &body);
        assert_eq!(answer.status, 200, "{accept}");
    }
    assert_eq!(server.connect().ask("POST", &[JSON], &body).status, 200);
    for accept in ["*/*;q=0", "application/*", "text/*, application/xml", "*/*;q=0.0"] {
        let answer = server.connect().ask("POST", &[("Accept", accept), JSON], &body);
        answer.refuses(406, "REQUEST_INVALID");
    }
}

#[test]
fn a_body_that_is_packed_is_refused_as_such() {
    let server = HttpServer::alone();
    let body = initialize("2025-06-18");
    for encoding in ["gzip", "br", "gzip, identity"] {
        let headers = [ACCEPT, JSON, ("Content-Encoding", encoding)];
        let refused = server.connect().ask("POST", &headers, &body).refuses(415, "REQUEST_INVALID");
        refused.to_string().shows("Content-Encoding");
    }
    let plain = [ACCEPT, JSON, ("Content-Encoding", "identity")];
    assert_eq!(server.connect().ask("POST", &plain, &body).status, 200);
}

#[test]
fn half_a_character_in_a_call_is_a_sign_that_it_was_cut() {
    let server = HttpServer::alone();
    let mut session = server.session();
    let first = session.begin("bug-fix", "e");
    let call = json!({ "name": "workflow.next_step", "arguments": { "token": first["new_token"], "output": { "summary": "half of one HALF" } } });
    let message = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": call });
    let body = message.to_string().replace("HALF", "\\ud83d");
    let headers = session.headers();
    let answer = server.connect().ask("POST", &headers, body.as_bytes());
    assert_eq!(answer.status, 200);
    assert_eq!(session.history("e")[0]["output"]["summary"], "half of one \u{fffd}");
}

#[test]
fn what_is_no_message() {
    let server = HttpServer::alone();
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    let cases = [
        ("", -32700),
        ("garbage", -32700),
        ("{", -32700),
        ("\u{0}", -32700),
        (&deep, -32700),
        ("[]", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        ("{}", -32600),
        ("5", -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
    ];
    for (body, code) in cases {
        let answer = posted(&server, body);
        answer.refuses(400, "REQUEST_INVALID");
        assert_eq!(answer.json()["error"]["code"], code, "{body:.50}");
    }
    let answer = server.connect().ask("POST", &[ACCEPT, JSON], b"{\"id\":\xff}");
    answer.refuses(400, "REQUEST_INVALID");
    let answer = posted(&server, r#"{"jsonrpc":"2.0","id":"mine","params":{"#);
    assert_eq!(answer.json()["id"], "mine", "an id that can be read");
    // The connection goes on.
    let mut session = server.session();
    let headers = [ACCEPT, JSON];
    session.http.ask("POST", &headers, b"garbage").refuses(400, "REQUEST_INVALID");
    session.whole_execution();
}

#[test]
fn methods_that_nobody_knows_and_parameters_that_nobody_can_read() {
    let server = HttpServer::alone();
    let mut session = server.session();
    let mut stateless = server.stateless();
    let unknown = session.exchange("no/such", json!({}));
    assert_eq!((unknown.status, &unknown.json()["error"]["code"]), (200, &json!(-32601)));
    let unknown = stateless.exchange("no/such", json!({}));
    unknown.refuses(404, "METHOD_NOT_FOUND");
    assert_eq!(unknown.json()["error"]["code"], -32601);
    let bad = json!({ "name": "workflow.start", "arguments": [1] });
    for answer in [session.request("tools/call", bad.clone()), stateless.request("tools/call", bad)]
    {
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    session.whole_execution();
    stateless.whole_execution();
}

/// A stateless call of a tool, its headers changed.
fn changed(server: &HttpServer, change: impl FnOnce(&mut Headers, &mut Value)) -> Answer {
    let params = json!({ "name": "workflow.start", "arguments": { "workflow_name": "bug-fix" } });
    let (mut headers, mut message) = Stateless::message(7, "tools/call", params);
    change(&mut headers, &mut message);
    let body = message.to_string();
    server.connect().ask("POST", &headers.all(), body.as_bytes())
}

#[test]
fn headers_that_say_something_else_than_the_body() {
    let server = HttpServer::alone();
    assert_eq!(changed(&server, |_, _| {}).status, 200);
    let refused = |change: fn(&mut Headers, &mut Value)| {
        let answer = changed(&server, change);
        answer.refuses(400, "REQUEST_INVALID");
        assert_eq!(answer.json()["id"], 7);
        answer.json()["error"]["code"].clone()
    };
    assert_eq!(refused(|headers, _| headers.0[1].1 = "tools/list".into()), -32020);
    assert_eq!(refused(|headers, _| headers.0[2].1 = "other".into()), -32020);
    assert_eq!(refused(|headers, _| drop(headers.0.remove(1))), -32020);
    assert_eq!(refused(|headers, _| drop(headers.0.remove(0))), -32020);
    assert_eq!(refused(|headers, _| headers.0[0].1 = "2025-11-25".into()), -32020);
    assert_eq!(
        refused(|_, message| {
            let meta = message["params"]["_meta"].as_object_mut().unwrap();
            meta.remove("io.modelcontextprotocol/protocolVersion");
        }),
        -32602
    );
    let versions = |version: &str| {
        changed(&server, |headers, message| {
            headers.0[0].1 = version.into();
            message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(version);
        })
    };
    let unknown = versions("2099-01-01");
    assert_eq!(unknown.status, 400, "{unknown:?}");
    assert_eq!(unknown.json()["error"]["code"], -32022);
    let supported = &unknown.json()["error"]["data"]["supported"];
    assert!(supported.as_array().unwrap().contains(&json!(STATELESS_VERSION)), "{unknown:?}");
    // A session's header too.
    let session = server.session();
    let mut headers = session.headers();
    headers.pop();
    headers.push(("MCP-Protocol-Version", "1999-01-01"));
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    server.connect().ask("POST", &headers, list.as_bytes()).refuses(400, "REQUEST_INVALID");
}

#[test]
fn the_stateless_era_has_no_streams_and_no_sessions_to_end() {
    let server = HttpServer::alone();
    for method in ["GET", "DELETE"] {
        let headers = [ACCEPT, ("MCP-Protocol-Version", STATELESS_VERSION)];
        let answer = server.connect().ask(method, &headers, b"");
        answer.refuses(405, "REQUEST_INVALID");
        assert!(answer.header("allow").unwrap().contains("POST"));
    }
}

#[test]
fn a_name_or_a_page_that_is_not_let_in() {
    let server = HttpServer::alone_with(&["--http-host", "midex.test"]);
    let port = server.address.port();
    let body = initialize("2025-06-18");
    let asked = |headers: &[(&str, &str)], method: &str| {
        let headers = [&[ACCEPT, JSON], headers].concat();
        server.connect().ask(method, &headers, &body)
    };
    let hosts =
        ["evil.test", "evil.test:80", "127.0.0.1.evil.test", "169.254.169.254", "midex.test.evil"];
    for host in hosts {
        for method in ["POST", "GET", "DELETE", "PUT"] {
            asked(&[("Host", host)], method).refuses(403, "FORBIDDEN");
        }
    }
    for host in ["", "a b", "[", "http://127.0.0.1"] {
        let answer = asked(&[("Host", host)], "POST");
        assert!([400, 403].contains(&answer.status), "{host}: {answer:?}");
    }
    let origins = [
        "http://evil.test".to_owned(),
        "null".into(),
        "garbage".into(),
        format!("http://evil.test:{port}"),
        format!("https://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{}", port.wrapping_add(1)),
        "http://127.0.0.1".into(),
        format!("http://127.0.0.1.evil.test:{port}"),
    ];
    for origin in &origins {
        for method in ["POST", "GET", "DELETE"] {
            asked(&[("Origin", origin)], method).refuses(403, "FORBIDDEN");
        }
    }
    for name in ["localhost", "127.0.0.1", "[::1]", "midex.test"] {
        for host in [name.to_owned(), format!("{name}:{port}"), name.to_uppercase()] {
            assert_eq!(asked(&[("Host", &host)], "POST").status, 200, "{host}");
        }
        let origin = format!("http://{name}:{port}");
        assert_eq!(asked(&[("Origin", &origin)], "POST").status, 200, "{origin}");
    }
}

/// A page that is not let in is refused before its body is waited for.
#[test]
fn a_page_that_is_not_let_in_is_told_before_it_has_sent_anything() {
    let server = HttpServer::alone();
    let mut http = server.connect();
    let headers = [ACCEPT, JSON, ("Origin", "http://evil.test"), ("Content-Length", "1000")];
    http.send("POST", "/mcp", &headers, b"").unwrap();
    http.answer().unwrap().refuses(403, "FORBIDDEN");
}

/// Bytes that are no HTTP at all.
#[test]
fn what_is_no_http_ends_its_connection_alone() {
    let server = HttpServer::alone();
    let mut session = server.session();
    let huge = format!("GET /mcp HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
    let many = format!("GET /mcp HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(10_000));
    let cases: [&[u8]; 8] = [
        b"garbage\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /mcp HTTP/9.9\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        huge.as_bytes(),
        many.as_bytes(),
    ];
    for bytes in cases {
        let mut http = server.connect();
        // It may be ended before all of it is written.
        let _ = http.write(bytes);
        http.half_close();
        assert!(http.is_closed());
    }
    let chunks = [ACCEPT, JSON, ("Transfer-Encoding", "chunked")];
    let mut http = server.connect();
    http.send("POST", "/mcp", &chunks, b"zz\r\n").unwrap();
    http.answer().unwrap().refuses(400, "REQUEST_INVALID");
    session.whole_execution();
    // Chunks that are well-formed are as good as a length.
    let mut http: Http = server.connect();
    let body = initialize("2025-06-18");
    let mut pieces = Vec::new();
    for byte in body {
        pieces.extend_from_slice(&[b'1', b'\r', b'\n', byte, b'\r', b'\n']);
    }
    pieces.extend_from_slice(b"0\r\n\r\n");
    http.send("POST", "/mcp", &chunks, &pieces).unwrap();
    assert_eq!(http.answer().unwrap().status, 200);
}

/// Of two, a proxy before the server may have looked at the one that the server does not take.
#[test]
fn headers_that_come_twice_and_targets_of_another_host() {
    let server = HttpServer::alone_with(&["--http-host", "midex.test"]);
    let body = initialize("2025-06-18");
    let address = server.address.to_string();
    let page = format!("http://{address}");
    let twice = [
        ("Host", &*address, "evil.test"),
        ("Host", &address, &address),
        ("Origin", &page, "http://evil.test"),
        ("Authorization", "Bearer one", "Bearer two"),
        ("Content-Type", "application/json", "text/plain"),
        ("Mcp-Session-Id", "one", "two"),
        ("MCP-Protocol-Version", "2025-06-18", STATELESS_VERSION),
        ("Last-Event-Id", "1/0", "2/0"),
        ("Mcp-Method", "initialize", "tools/list"),
        ("Mcp-Name", "one", "two"),
    ];
    for (name, one, other) in twice {
        for (one, other) in [(one, other), (other, one)] {
            let headers = [ACCEPT, JSON, (name, one), (name, other)];
            // The type of the content comes once already.
            let headers = &headers[usize::from(name == "Content-Type") * 2..];
            for method in ["POST", "GET", "DELETE"] {
                let answer = server.connect().ask(method, headers, &body);
                let payload = answer.refuses(400, "REQUEST_INVALID");
                let said = payload["suggested_action"].as_str().unwrap();
                assert_eq!(said, format!("Send the header `{}` once", name.to_lowercase()));
            }
        }
    }
    // A header that is a list may come in parts.
    let halves = [("Accept", "application/json"), ("Accept", "text/event-stream")];
    let headers = [&halves[..], &[JSON]].concat();
    assert_eq!(server.connect().ask("POST", &headers, &body).status, 200);
    let asked = |target: &str, host: &str| {
        let mut http = server.connect();
        let headers = [ACCEPT, JSON, ("Host", host)];
        http.send("POST", target, &headers, &body).unwrap();
        http.answer().unwrap()
    };
    for (target, host) in [
        ("http://evil.test/mcp", &*address),
        ("http://evil.test/mcp", "evil.test"),
        ("http://midex.test/mcp", &address),
        (&format!("http://x@{address}/mcp"), &address),
        (&format!("http://{address}/mcp"), "midex.test"),
    ] {
        asked(target, host).refuses(403, "FORBIDDEN");
    }
    assert_eq!(asked(&format!("http://{address}/mcp"), &address).status, 200);
    assert_eq!(asked("http://MIDEX.test/mcp", "midex.test:80").status, 200);
}

#[test]
fn a_head_past_its_limit() {
    let server = HttpServer::alone();
    let body = initialize("2025-06-18");
    let asked = |bytes: usize| {
        let value = "x".repeat(bytes);
        let headers = [ACCEPT, JSON, ("X-Long", &value)];
        server.connect().ask("POST", &headers, &body).status
    };
    // The rest of the head takes some 150 bytes.
    assert_eq!(asked(limits::HTTP_HEAD_BYTES_MAX - 1000), 200);
    for bytes in [limits::HTTP_HEAD_BYTES_MAX, 70_000, 200_000] {
        assert_eq!(asked(bytes), 431);
    }
    server.session().whole_execution();
}

/// Whatever a `Content-Length` beside it says; and nothing that follows is taken for a request.
#[test]
fn a_body_in_pieces_ends_where_its_pieces_end() {
    let server = HttpServer::alone();
    let body = initialize("2025-06-18");
    let mut pieces = format!("{:x}\r\n", body.len()).into_bytes();
    pieces.extend([&body[..], b"\r\n0\r\n\r\n"].concat());
    let (length, chunked) = (("Content-Length", "4"), ("Transfer-Encoding", "chunked"));
    for both in [[length, chunked], [chunked, length]] {
        let mut http = server.connect();
        let headers = [&[ACCEPT, JSON], &both[..]].concat();
        let next = head("PUT", "/mcp", server.address, &[], 0);
        let bytes = [&pieces[..], next.as_bytes()].concat();
        assert_eq!(http.ask("POST", &headers, &bytes).status, 200);
        assert!(http.is_closed());
    }
    for wrong in [
        &[length, ("Content-Length", "5")][..],
        &[chunked, chunked],
        &[chunked, ("Transfer-Encoding", "identity")],
        &[("Transfer-Encoding", "identity")],
    ] {
        let headers = [&[ACCEPT, JSON], wrong].concat();
        assert_eq!(server.connect().ask("POST", &headers, &pieces).status, 400);
    }
}
