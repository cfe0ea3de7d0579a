//! What comes in on a line and is no request.

use midex_domain::limits;
use serde_json::{Value, json};

use midex_test::{
    Client, Fields, Server, output, serve_alone,
    witness::{WITNESS, Witness},
};

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

/// The code of a refusal, the id under which that is said, `null` for none, and the line that is refused.
const REFUSED: &str = r#"-32700 null this is not JSON

# Cut off, not UTF-8, two at once, and what other notations allow.
-32700 1 {"jsonrpc":"2.0","id":1,"method":"pi
-32700 "a" {"jsonrpc":"2.0","id":"a","method":"ping","params":{
-32700 1 {"jsonrpc":"2.0","id":1,"method":"ping"} {"jsonrpc":"2.0","id":2,"method":"ping"}
-32700 1 {"jsonrpc":"2.0","id":1,"method":"ping",}
-32700 1 {"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}
-32700 1 {"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":-Infinity}}
-32700 1 {"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":1e999}}
-32700 1 {"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\ud800"}}

# A number that would come out as another one.
-32602 1 {"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":18446744073709551616}}

# JSON, and nothing that is asked.
-32600 null null
-32600 null true
-32600 null 42
-32600 null "ping"
-32600 null {}
-32600 null []
-32600 null [{"jsonrpc":"2.0","id":1,"method":"ping"}]
-32600 1 {"jsonrpc":"2.0","id":1}
-32600 1 {"jsonrpc":"2.0","id":1,"method":5}
-32600 1 {"jsonrpc":"2.0","id":1,"method":null}
-32600 null {"jsonrpc":"2.0","method":"notifications/progress","params":5}

# Another protocol's version.
-32600 1 {"id":1,"method":"ping"}
-32600 1 {"jsonrpc":"1.0","id":1,"method":"ping"}
-32600 1 {"jsonrpc":2.0,"id":1,"method":"ping"}
-32600 1 {"jsonrpc":null,"id":1,"method":"ping"}

# Ids that are none.
-32600 null {"jsonrpc":"2.0","id":null,"method":"ping"}
-32600 null {"jsonrpc":"2.0","id":true,"method":"ping"}
-32600 null {"jsonrpc":"2.0","id":1.5,"method":"ping"}
-32600 null {"jsonrpc":"2.0","id":{},"method":"ping"}
-32600 null {"jsonrpc":"2.0","id":[1],"method":"ping"}
-32600 null {"jsonrpc":"2.0","id":99999999999999999999,"method":"ping"}"#;

/// Lines that are no text, or end with a carriage return.
const BYTES: &[(&[u8], i64, &str)] = &[
    (b"\x00\x01\x02\xff\xfe", PARSE_ERROR, "null"),
    (b"GET / HTTP/1.1\r", PARSE_ERROR, "null"),
    (b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", PARSE_ERROR, "1"),
    (
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"x\":\"\xff\"}}",
        PARSE_ERROR,
        "1",
    ),
];

#[test]
fn a_line_that_is_no_request_is_refused_under_its_id_where_it_has_one() {
    let mut witness = Witness::new();
    let written = REFUSED.lines().filter(|line| line.starts_with('-'));
    let mut all: Vec<_> = written
        .map(|line| {
            let [code, id, line] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            (line.as_bytes(), code.parse().unwrap(), id)
        })
        .collect();
    all.extend(BYTES);
    for (line, code, id) in all {
        let shown = String::from_utf8_lossy(line);
        let said = witness.says_to(line);
        let [answer] = said.as_slice() else { panic!("{shown}: {said:?}") };
        let id: Value = serde_json::from_str(id).unwrap();
        assert_eq!(
            (&answer["error"]["code"], &answer["id"]),
            (&json!(code), &id),
            "{shown}: {answer}"
        );
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.len() < 200 && !message.is_empty(), "{shown}: {answer}");
    }
    witness.survives();
}

#[test]
fn a_line_that_asks_for_nothing_gets_no_answer() {
    let mut witness = Witness::new();
    for line in [
        "",
        "   ",
        "\r",
        r#"{"jsonrpc":"2.0","method":"ping"}"#,
        r#"{"jsonrpc":"2.0","method":"no/such"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":12345}}"#,
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"execution.abandon","arguments":{"execution_id":"witness"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":5}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}"#,
    ] {
        assert_eq!(witness.says_to(line.as_bytes()), Vec::<Value>::new(), "{line}");
    }
    witness.survives();
}

#[test]
fn any_number_and_any_text_is_an_id() {
    let mut witness = Witness::new();
    let long = format!("\"{}\"", "x".repeat(100_000));
    for (id, echoed) in [
        ("-7", "-7"),
        ("0", "0"),
        ("9223372036854775807", "9223372036854775807"),
        ("1.0", "1"),
        (r#""""#, r#""""#),
        (r#""\u0000\n\u202e""#, r#""\u0000\n\u202e""#),
        (&long, &long),
    ] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping","more":1}}"#);
        let echoed: Value = serde_json::from_str(echoed).unwrap();
        assert_eq!(witness.answer_to(&line, &echoed)["result"], json!({}));
    }
    witness.survives();
}

#[test]
fn an_id_that_is_in_use_is_refused_and_its_first_call_is_answered() {
    let mut witness = Witness::new();
    witness.victim("victim");
    let wait = r#"{"jsonrpc":"2.0","id":"w","method":"tools/call","params":
        {"name":"execution.wait","arguments":{"execution_id":"victim","since_revision":1}}}"#;
    witness.server.send_raw(&wait.replace('\n', " "));
    let said = witness.says_to(br#"{"jsonrpc":"2.0","id":"w","method":"ping"}"#);
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(
        (&said[0]["error"]["code"], &said[0]["id"]),
        (&json!(INVALID_REQUEST), &Value::Null),
        "under no id: it would settle the call that has it"
    );
    witness.server.post_call("execution.pause", json!({ "execution_id": "victim" }));
    let answer = std::iter::repeat_with(|| witness.server.next_line())
        .find(|answer| answer["id"] == "w")
        .unwrap();
    assert_eq!(answer["result"]["structuredContent"]["state"], "paused");
    witness.survives();
}

/// Methods that need params.
const NEEDY: [&str; 7] = [
    "prompts/get",
    "skills/get",
    "initialize",
    "server/discover",
    "tools/call",
    "resources/read",
    "completion/complete",
];
/// Methods that need none.
const PLAIN: [&str; 6] = [
    "prompts/list",
    "skills/list",
    "ping",
    "tools/list",
    "resources/list",
    "resources/templates/list",
];
/// Methods that are the client's, or nobody's.
const FOREIGN: [&str; 10] = [
    "logging/setLevel",
    "tasks/get",
    "roots/list",
    "sampling/createMessage",
    "elicitation/create",
    "no/such",
    "",
    "tools/call ",
    "Ping",
    "../ping",
];

/// The code with which this method is refused with these params; none where it is answered.
fn refusal(witness: &mut Witness, method: &str, params: &str) -> Option<i64> {
    let answer = witness.ask(&format!(r#""method":"{method}"{params}"#));
    answer["error"]["code"].as_i64()
}

#[test]
fn params_that_are_no_object_are_refused_by_every_method_under_the_calls_id() {
    let mut witness = Witness::new();
    for method in NEEDY.into_iter().chain(PLAIN).chain(FOREIGN) {
        for params in ["1", "-1.5", "true", "\"x\"", "[]", "[{}]"] {
            let code = refusal(&mut witness, method, &format!(",\"params\":{params}"));
            assert_eq!(code, Some(INVALID_REQUEST), "{method} {params}");
        }
    }
    witness.survives();
}

#[test]
fn missing_and_strange_params_are_refused_where_something_is_needed() {
    let mut witness = Witness::new();
    let none = ["", r#","params":null"#, r#","params":{}"#];
    for params in none.into_iter().chain([r#","params":{"name":1,"uri":[],"ref":"x"}"#]) {
        for method in NEEDY {
            let code = refusal(&mut witness, method, params);
            assert_eq!(code, Some(INVALID_PARAMS), "{method} {params}");
        }
    }
    for params in none.into_iter().chain([r#","params":{"unexpected":[1]}"#]) {
        for method in PLAIN {
            assert_eq!(
                refusal(&mut witness, method, params),
                None,
                "{method} {params}: nothing is missing"
            );
        }
    }
    for method in FOREIGN {
        let code = refusal(&mut witness, method, r#","params":{}"#);
        assert_eq!(code, Some(METHOD_NOT_FOUND), "{method}");
    }
    witness.survives();
}

#[test]
fn a_frame_past_its_limit_is_refused_under_its_id_and_is_not_done() {
    let mut witness = Witness::new();
    let call = |summary: &str| {
        let arguments = json!({ "token": witness.token, "output": output(summary) });
        json!({ "name": "workflow.next_step", "arguments": arguments })
    };
    let line =
        json!({ "jsonrpc": "2.0", "id": "early", "method": "tools/call", "params": call("") });
    let room = limits::FRAME_BYTES_MAX - line.to_string().len();
    let early = json!({ "jsonrpc": "2.0", "id": "early", "method": "tools/call", "params": call(&"x".repeat(room + 1)) });
    // The id stands behind what is too long.
    let late = json!({ "method": "tools/call", "params": call(&"x".repeat(room + 100)), "jsonrpc": "2.0", "id": "late" });
    for (line, id) in [(early, json!("early")), (late, Value::Null)] {
        let said = witness.says_to(line.to_string().as_bytes());
        assert_eq!(said.len(), 1);
        said[0].has_fields(json!({ "/error/code": INVALID_REQUEST, "id": id }));
    }
    let whole = |bytes: usize| {
        let line = |x: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":"whole","method":"ping","params":{{"x":"{x}"}}}}"#)
        };
        line(&"x".repeat(bytes - line("").len()))
    };
    let answer = witness.answer_to(&whole(limits::FRAME_BYTES_MAX), &json!("whole"));
    assert_eq!(answer["result"], json!({}), "what just fits is read");
    witness.survives();
}

#[test]
fn a_frame_nested_without_end_is_refused_under_its_id() {
    let mut witness = Witness::new();
    // Deeper ones hold more values than a frame may.
    for depth in [1000, 400_000] {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        for (line, id) in [
            (format!("{open}{close}"), Value::Null),
            (open.clone(), Value::Null),
            ("{\"a\":".repeat(depth), Value::Null),
            (
                format!(
                    r#"{{"jsonrpc":"2.0","id":3,"method":"ping","params":{{"x":{open}{close}}}}}"#
                ),
                json!(3),
            ),
            (
                format!(r#"{{"jsonrpc":"2.0","id":4,"method":"ping","params":{open}{close}}}"#),
                json!(4),
            ),
        ] {
            let said = witness.says_to(line.as_bytes());
            assert_eq!(said.len(), 1);
            said[0].has_fields(json!({ "/error/code": PARSE_ERROR, "id": id }));
        }
    }
    witness.survives();
}

#[test]
fn five_thousand_lines_of_garbage_are_answered_each() {
    const LINES: usize = 5000;
    let mut witness = Witness::new();
    witness.server.send_bytes(&b"garbage\n".repeat(LINES));
    for _ in 0..LINES {
        assert_eq!(witness.server.next_line()["error"]["code"], PARSE_ERROR);
    }
    witness.survives();
}

#[test]
fn a_call_that_breaks_off_is_not_done() {
    let witness = Witness::new();
    let (home, token, mut server) = (witness.home, witness.token, witness.server);
    let arguments = json!({ "token": token, "output": output("cut off") });
    let params = json!({ "name": "workflow.next_step", "arguments": arguments });
    let line = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params });
    // It is whole but for its end.
    server.send_bytes(line.to_string().as_bytes());
    let (exit, _, lines) = server.close();
    assert!(exit.success() && lines.is_empty(), "{exit} {lines:?}");
    let mut server = Server::greeted(serve_alone(home.path(), &[]));
    let status = server.status(WITNESS);
    assert_eq!(status, witness.status);
}

#[test]
fn garbage_before_the_handshake_is_refused_and_the_handshake_follows() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::spawn(dir.path(), &[]);
    for line in ["garbage", "[]", r#"{"jsonrpc":"2.0","id":"#] {
        server.send_raw(line);
        assert!(server.next_line()["error"]["code"].is_number());
    }
    let early = server.request("tools/call", json!({ "name": "workflow.start", "arguments": {} }));
    assert_eq!(early["error"]["code"], INVALID_PARAMS, "{early}");
    assert_eq!(server.shake_hands()["result"]["serverInfo"]["name"], "midex");
    server.begin_with(json!({ "workflow_name": "bug-fix" }));
}

#[test]
fn half_a_character_in_a_call_is_a_sign_that_it_was_cut() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    for (id, (sent, kept)) in [
        (r"half of one \ud83d", "half of one \u{fffd}"),
        (r"\uDE00 first, \ud83d\ude00 whole", "\u{fffd} first, \u{1f600} whole"),
        (r"\ud83d\ud83d\ude00", "\u{fffd}\u{1f600}"),
        (r"\\ud83d as text, \ud83d\n", "\\ud83d as text, \u{fffd}\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("e{id}");
        let token = server.begin("bug-fix", &id)["new_token"].clone();
        server.send_raw(&format!(
            r#"{{"jsonrpc":"2.0","id":"{id}","method":"tools/call","params":{{"name":"workflow.next_step","arguments":{{"token":{token},"output":{{"summary":"{sent}"}}}}}}}}"#
        ));
        let answer = server.next_line();
        answer.has_fields(json!({ "id": id, "/result/isError": false }));
        assert_eq!(server.history(&id)[0]["output"]["summary"], kept);
    }
}
