//! Every code of the table is met: by a client over MCP, where one can meet it; else by the test that is named here.

mod elsewhere;

use std::{collections::BTreeSet, fs, path::Path};

use midex_domain::error::Code;
use serde_json::{Value, json};

use self::elsewhere::elsewhere;
use midex_test::{
    Client, Fields, Server, TOOLS, advice,
    door::Door,
    output,
    project::{Project, forge, line, outlive, payload, text},
    serve_alone, table,
};

/// What a client asks, the code that it is refused with, and what the context of the refusal names.
struct Case(Code, String, Ask);

enum Ask {
    Tool(String, Value),
    Method(String, Value),
}

/// The code of this name.
fn named(name: &str) -> Code {
    let found = Code::ALL.iter().find(|code| code.as_str() == name);
    *found.unwrap_or_else(|| panic!("no code is called {name}"))
}

fn tool(code: Code, context: &str, name: &str, arguments: Value) -> Case {
    Case(code, context.to_owned(), Ask::Tool(name.to_owned(), arguments))
}

/// A table of cases: a code, the names in its context, a tool or a method, and what that is called with.
fn cases(text: &str) -> Vec<Case> {
    let case = |[code, context, name, params]: [String; 4]| {
        let params = serde_json::from_str(&params).expect("JSON");
        let ask = if name.contains('/') { Ask::Method } else { Ask::Tool };
        Case(named(&code), context, ask(name, params))
    };
    table(text).map(case).collect()
}

/// A call with its refusal.
type Refused = (String, Value, Value);

/// Asks in turn; the codes that were met.
fn provoke(client: &mut dyn Client, cases: Vec<Case>) -> Vec<Code> {
    provoke_calls(client, cases).0
}

/// The same with the calls that were refused.
fn provoke_calls(client: &mut dyn Client, cases: Vec<Case>) -> (Vec<Code>, Vec<Refused>) {
    let (mut met, mut calls) = (Vec::new(), Vec::new());
    for Case(code, context, ask) in cases {
        let error = match ask {
            Ask::Tool(name, arguments) => {
                let error = client.refused(&name, arguments.clone());
                calls.push((name, arguments, error.clone()));
                error
            }
            Ask::Method(name, params) => refusal(&client.request(&name, params)),
        };
        is_whole(&error, code, &context);
        met.push(code);
    }
    (met, calls)
}

/// The refusal of an answer, be it of a tool or of the protocol.
fn refusal(answer: &Value) -> Value {
    match &answer["error"] {
        Value::Null => answer["result"]["structuredContent"].clone(),
        error => error["data"].clone(),
    }
}

/// Holds a refusal to its code and to all fields that a refusal has.
#[track_caller]
fn is_whole(error: &Value, code: Code, context: &str) {
    let of_table = json!({
        "error_code": code.as_str(), "category": code.category(), "failure_stage": code.stage(), "retryable": code.retryable()
    });
    error.has_fields(of_table);
    for field in ["message", "correlation_id"] {
        assert!(!text(&error[field]).is_empty(), "{field}: {error}");
    }
    let names = error["context"].as_object();
    let names = names.unwrap_or_else(|| panic!("no context: {error}"));
    for name in context.split_whitespace() {
        let shown = names.get(name).map(Value::to_string).unwrap_or_default();
        assert!(!["", "null", "\"\""].contains(&&*shown), "{name}: {error}");
    }
    for (ours, of_s2) in [("execution_id", "run_id"), ("workflow", "workflow_id")] {
        if let Some(value) = names.get(ours) {
            assert_eq!(names.get(of_s2), Some(value), "{error}");
        }
    }
    for violation in error["violations"].as_array().into_iter().flatten() {
        for field in ["path", "rule", "message"] {
            assert!(violation[field].is_string(), "{field}: {violation}");
        }
    }
    leads_on(text(&error["suggested_action"]));
}

/// The next call names a tool that there is, or says in words what to do.
#[track_caller]
fn leads_on(action: &str) {
    assert!(!action.is_empty());
    for call in action.split("Call ").skip(1) {
        let name = call.split([' ', ':']).next().unwrap_or_default();
        // The user is told of the server, not of a tool.
        assert!(TOOLS.contains(&name) || name == "the", "{action}");
    }
}

/// A workflow with an input, which a person must approve.
const GATED: &str = "\
workflow: gated
description: d
inputs: { n: { type: integer, default: { from: literal, value: 1 } } }
steps:
  - id: approve
    gate: { ask: May it go on? }
";

/// A workflow that only the user may answer.
const ALONE: &str = "\
workflow: alone
description: d
inputs: { seats: { type: integer, optional: true } }
steps:
  - { id: ask, input: { properties: [seats], via: elicitation } }
";

/// A workflow that the tools of authors have saved.
const MINE: &str = "\
workflow: mine
description: d
steps:
  - { id: look, guidance: Look. }
";

/// A project with workflows of all these kinds, its first server, and executions in every state.
struct Scene {
    _project: Project,
    server: Server,
    door: Door,
    /// The token of `e` that was used, and the one that is live.
    used: Value,
    live: Value,
    /// Tokens of executions that are paused, abandoned, and waiting for the user.
    paused: Value,
    abandoned: Value,
    alone: Value,
}

impl Scene {
    fn new() -> Self {
        let project = line();
        project.write("workflows/gated.yaml", GATED);
        project.write("workflows/alone.yaml", ALONE);
        let wrong = GATED.replace("gated", "wrong").replace("gate:", "gat:");
        project.write("workflows/wrong.yaml", &wrong);
        let mut server = project.serve();
        server.done("workflow.save", json!({ "manifest": MINE }));
        let used = server.begin("line", "e")["new_token"].clone();
        let live = server.finish(&used, "a")["new_token"].clone();
        let mut begun = |workflow: &str, id: &str| server.begin(workflow, id)["new_token"].clone();
        let (paused, abandoned) = (begun("line", "paused"), begun("line", "abandoned"));
        let alone = begun("alone", "alone");
        begun("gated", "gated");
        server.change("pause", "paused");
        server.change("abandon", "abandoned");
        let door = Door::enter(&project.data_dir(), project.root());
        Self { _project: project, server, door, used, live, paused, abandoned, alone }
    }
}

fn next(token: &Value, output: Value) -> Value {
    json!({ "token": token, "output": output })
}

/// The token with another value of a field.
fn forged(token: &Value, field: &str, value: &str) -> Value {
    let mut forged = payload(token);
    forged[field] = json!(value);
    forge(&forged)
}

fn of_tokens(scene: &Scene) -> Vec<Case> {
    const TOKENS: &str = r#"
        TOKEN_MALFORMED | tool | nonsense | {"summary": "a"}
        TOKEN_FROM_FUTURE | execution_id | from the future | {"summary": "a"}
        TOKEN_MISMATCH | execution_id step_id | never issued | {"summary": "a"}
        STEP_OUTPUT_INVALID | execution_id step_id workflow_state | live | {}
        TOKEN_ALREADY_USED | execution_id step_id | used | {"summary": "b"}
        EXECUTION_PAUSED | execution_id pause_reasons | paused | {"summary": "a"}
        TOKEN_SUPERSEDED | execution_id workflow_state | abandoned | {"summary": "a"}
        USER_ALONE | execution_id workflow | alone | {"seats": 1}
    "#;
    let token = |name: &str| match name {
        "from the future" => forged(&scene.live, "issued_at", "2999-01-01T00:00:00.000Z"),
        "never issued" => forged(&scene.live, "nonce", "0123456789abcdef0123456789abcdef"),
        "live" => scene.live.clone(),
        "used" => scene.used.clone(),
        "paused" => scene.paused.clone(),
        "abandoned" => scene.abandoned.clone(),
        "alone" => scene.alone.clone(),
        other => json!(other),
    };
    let case = |[code, context, name, output]: [String; 4]| {
        let output = serde_json::from_str(&output).expect("JSON");
        let arguments = next(&token(&name), output);
        tool(named(&code), &context, "workflow.next_step", arguments)
    };
    let choice = json!({ "token": scene.live, "output": output("a"), "choice": "nowhere" });
    let context = "execution_id step_id workflow_state choices";
    let unknown = tool(Code::ChoiceUnknown, context, "workflow.next_step", choice);
    table(TOKENS).map(case).chain([unknown]).collect()
}

fn of_executions() -> Vec<Case> {
    let long = json!({ "workflow_name": "line", "inputs": { "x": "x".repeat(2 << 20) } });
    let mut cases = cases(
        r#"
        EXECUTION_ID_TAKEN | execution_id | workflow.start | {"workflow_name": "gated", "execution_id": "e"}
        EXECUTION_NOT_FOUND | asked | execution.wait | {"execution_id": "nobody"}
        OUTCOME_KNOWN | execution_id step_id | execution.resolve | {"execution_id": "e", "step_name": "a", "verdict": "retry"}
        STATE_TRANSITION_REFUSED | execution_id workflow_state | execution.fail | {"execution_id": "paused", "reason": "x"}
        EXECUTION_FINISHED | execution_id workflow_state | execution.signal | {"execution_id": "abandoned", "signal": "s"}
        INPUTS_INVALID | workflow | workflow.start | {"workflow_name": "gated", "inputs": {"n": "x"}}
        "#,
    );
    cases.push(tool(Code::LimitExceeded, "limit tool", "workflow.start", long));
    cases
}

fn of_definitions() -> Vec<Case> {
    let mut cases = cases(
        r#"
        WORKFLOW_NOT_FOUND | workflow | workflow.start | {"workflow_name": "gone"}
        WORKFLOW_NOT_FOUND | workflow | workflow.get | {"workflow_id": "gone"}
        WORKFLOW_VALIDATION_FAILED | workflow path line column | workflow.start | {"workflow_name": "wrong"}
        IDENTIFIER_INVALID | workflow_id | workflow.rename | {"workflow_id": "mine", "new_id": "../mine"}
        WORKFLOW_NOT_WRITABLE | workflow_id path source | workflow.delete | {"workflow_id": "gated", "confirm": true}
        CONFIRMATION_REQUIRED | workflow_id path | workflow.delete | {"workflow_id": "mine"}
        "#,
    );
    let mut save = |code, context, manifest: Value| {
        cases.push(tool(code, context, "workflow.save", manifest));
    };
    let wrong = json!({ "manifest": MINE.replace("guidance", "guidence") });
    save(Code::WorkflowValidationFailed, "workflow line column", wrong);
    let mine = json!({ "manifest": MINE });
    save(Code::WorkflowAlreadyExists, "workflow_id path version", mine);
    let stale = json!({ "manifest": MINE, "expected_version": "0".repeat(64) });
    let context = "workflow_id path expected_version actual_version";
    save(Code::VersionConflict, context, stale);
    cases
}

fn of_the_protocol() -> Vec<Case> {
    cases(
        r#"
        ARGUMENTS_INVALID | tool | workflow.start | {}
        TOOL_NOT_FOUND | tools | tools/call | {"name": "no.tool"}
        RESOURCE_NOT_FOUND | uri | resources/read | {"uri": "midex://nothing"}
        PROMPT_NOT_FOUND |  | prompts/get | {"name": "no.prompt"}
        METHOD_NOT_FOUND |  | nothing/at_all | {}
        PARAMS_INVALID |  | tools/call | {"name": 1}
        "#,
    )
}

/// What midex's own commands ask on the control socket, where people answer.
fn of_people() -> Vec<Case> {
    let answer = |step: &str| {
        json!({
            "execution_id": "gated", "step_name": step, "visit": 1, "shown": "0".repeat(64), "approved": true, "by": "ann"
        })
    };
    [(Code::GateChanged, "approve"), (Code::GateNotOpen, "other")]
        .map(|(code, step)| tool(code, "execution_id step_id", "execution.approve", answer(step)))
        .into()
}

/// The code that a server refuses a start with whose data directory this was done to.
fn of_a_directory(damage: impl FnOnce(&Path), code: Code) -> Vec<Code> {
    let home = tempfile::tempdir().unwrap();
    damage(&home.path().join("data"));
    let mut server = Server::greeted(serve_alone(home.path(), &[]));
    let start = json!({ "workflow_name": "bug-fix" });
    provoke(&mut server, vec![tool(code, "path tool", "workflow.start", start)])
}

/// Puts a database there that says its format so.
fn write_format(data: &Path, key: &str, format: &[u8]) {
    fs::create_dir(data).unwrap();
    let database = redb::Database::create(data.join("executions.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    let meta = redb::TableDefinition::<&str, &[u8]>::new("meta.v1");
    let mut meta = transaction.open_table(meta).unwrap();
    meta.insert(key, format).unwrap();
    drop(meta);
    transaction.commit().unwrap();
}

fn of_stores() -> Vec<Code> {
    let mut met = of_a_directory(|data| fs::write(data, "x").unwrap(), Code::FileUnusable);
    met.extend(of_a_directory(
        |data| {
            fs::create_dir(data).unwrap();
            fs::write(data.join("executions.redb"), "").unwrap();
        },
        Code::StoreCorrupt,
    ));
    let formats = [
        ("format", &b"\x03"[..], Code::StoreFormat),
        ("file_format", b"midex-2", Code::StoreTooNew),
    ];
    for (key, format, code) in formats {
        met.extend(of_a_directory(|data| write_format(data, key, format), code));
    }
    met
}

/// A stateless client that sends answers without what they belong to.
fn of_answers_astray() -> Vec<Code> {
    let home = tempfile::tempdir().unwrap();
    let mut server = Server::run(serve_alone(home.path(), &[]));
    let call = json!({ "name": "workflow.start", "arguments": { "workflow_name": "bug-fix" }, "inputResponses": {}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "0" },
        "io.modelcontextprotocol/clientCapabilities": {}
    } });
    let ask = Ask::Method("tools/call".to_owned(), call);
    let astray = Case(Code::RequestStateMissing, "tool".to_owned(), ask);
    provoke(&mut server, vec![astray])
}

/// A server whose tokens live for a second, and whose database is then taken away.
fn of_short_lives() -> Vec<Code> {
    let project = line();
    let mut server = project.serve_with(&["--token-ttl", "1s"]);
    let started = server.begin("line", "e");
    outlive(&started["expires_at"]);
    let late = next(&started["new_token"], output("a"));
    let context = "execution_id step_id";
    let expired = tool(Code::TokenExpired, context, "workflow.next_step", late);
    let mut met = provoke(&mut server, vec![expired]);
    fs::remove_dir_all(project.data_dir()).unwrap();
    let start = json!({ "workflow_name": "line" });
    let lost = tool(Code::StoreLost, "path tool", "workflow.start", start);
    met.extend(provoke(&mut server, vec![lost]));
    met
}

#[test]
fn every_code_is_met_over_mcp_or_by_the_test_that_is_named_for_it() {
    let mut scene = Scene::new();
    let (mut met, mut calls) = (Vec::new(), Vec::new());
    for cases in [of_tokens(&scene), of_executions(), of_definitions(), of_the_protocol()] {
        let (codes, refused) = provoke_calls(&mut scene.server, cases);
        met.extend(codes);
        calls.extend(refused);
    }
    met.extend(provoke(&mut scene.door, of_people()));
    scene.server.send_raw("[1]");
    let refused = scene.server.next_line();
    is_whole(&refused["error"]["data"], Code::RequestInvalid, "");
    met.push(Code::RequestInvalid);
    met.extend(of_stores());
    met.extend(of_answers_astray());
    met.extend(of_short_lives());

    for (name, arguments, error) in &calls {
        advice::follow_change(&mut scene.server, (name.as_str(), arguments), error);
    }

    let met: BTreeSet<_> = met.iter().map(|code| code.as_str()).collect();
    let others: BTreeSet<_> = elsewhere().map(|(code, ..)| code.as_str()).collect();
    let twice: Vec<_> = met.intersection(&others).collect();
    assert!(twice.is_empty(), "met over MCP after all: {twice:?}");
    let all: BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    let unmet: Vec<_> =
        all.iter().filter(|code| !met.contains(*code) && !others.contains(*code)).collect();
    assert!(unmet.is_empty(), "no test meets {unmet:?}");
}
