//! Asking people, and what may happen meanwhile.

use midex_domain::{
    LifecycleAction,
    error::Code,
    execution::{Report, SignalRequest},
};
use midex_registry::{self as registry, Registry, Sources};
use serde_json::{Value, json};

use midex_test::{
    Client, Fields, Server, Shows,
    play::{self, Calls, Play, gate_answer},
    project::{Project, list, text},
    terminal::Terminal,
};

#[tokio::test(start_paused = true)]
async fn an_answer_to_an_earlier_visit_of_a_gate_counts_for_nothing() {
    let lines = "steps:
  - { id: build, guidance: Build., result: {}, max_visits: 3 }
  - { id: ship, gate: { ask: 'Ship it?' }, on_error: build, max_visits: 3 }
  - { id: tell, guidance: T, result: {} }";
    let mut play = Play::begin(lines, json!({})).await;
    play.done("build", json!({ "v": 1 })).await;
    let first = play.engine.status_now("e").await;
    // Two people look at the first build; one rejects.
    play.engine.commanded(gate_answer(&first, false, None)).await;
    play.goes_on(json!({ "v": 2 })).await;
    let second = play.engine.status_now("e").await;
    assert_eq!(second.waits[0].visit, 2);
    // The other one's approval, of the first build, comes now.
    let error = play.engine.apply_command(&play::id("e"), gate_answer(&first, true, None)).await;
    assert_eq!(error.unwrap_err().code(), Code::GateChanged);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_for_good_is_repeated_as_it_was() {
    let lines = "inputs:
  a: { type: string, optional: true }
steps:
  - { id: one, input: { properties: [a] }, on_error: continue }
  - { id: two, input: { properties: [a] } }
  - { id: tell, guidance: T, result: {} }";
    let mut play = Play::begin(lines, json!({})).await;
    let token = play.token("one");
    for at in 1..5 {
        play.refused(&token, json!({ "a": at })).await;
    }
    let first = play.refused(&token, json!({ "a": null })).await;
    assert_eq!(first.code(), Code::StepOutputInvalid);
    assert!(first.message().contains("the step failed"), "{first}");
    let again = play.refused(&token, json!({ "a": null })).await;
    assert_eq!(again.message(), first.message());
    play.goes_on(json!({ "a": "x" })).await;
    let again = play.engine.advance(&token, Report::Output(json!({ "a": null }))).await;
    assert!(again.is_err(), "a refusal became {:?}", again.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_for_good_lists_the_same_violations() {
    let lines = "inputs:
  a: { type: string, optional: true }
  b: { type: string, optional: true }
  c: { type: integer, optional: true }
steps:
  - { id: one, input: { properties: [a, b, c] }, on_error: continue }
  - { id: two, input: { properties: [a, b] } }
  - { id: tell, guidance: T, result: {} }";
    let mut play = Play::begin(lines, json!({})).await;
    let token = play.token("one");
    for at in 1..5 {
        play.refused(&token, json!({ "c": at.to_string() })).await;
    }
    let said = json!({ "c": "no" });
    let first = play.refused(&token, said.clone()).await;
    play.goes_on(json!({ "a": "x", "b": "y" })).await;
    let again = play.refused(&token, said).await;
    assert_eq!((again.message(), again.violations()), (first.message(), first.violations()));
}

#[tokio::test(start_paused = true)]
async fn a_reply_with_open_steps_is_repeated_as_it_was() {
    let lines = "inputs:
  a: { type: string, optional: true }
steps:
  - { id: ask, input: { properties: [a], reextract: true }, depends_on: [] }
  - { id: work, guidance: W, result: {}, depends_on: [] }
  - { id: tell, guidance: T, result: {}, depends_on: [ask, work] }";
    let mut play = Play::begin(lines, json!({})).await;
    let (ask, work) = (play.token("ask"), play.token("work"));
    let first = play.engine.report(&work, Report::Output(json!(1))).await;
    play.report(&ask, Report::Output(json!({ "userUtterance": "x please" }))).await;
    let again = play.engine.report(&work, Report::Output(json!(1))).await;
    let (one, two) = (serde_json::to_value(&first).unwrap(), serde_json::to_value(&again).unwrap());
    assert_eq!(one["open_steps"], two["open_steps"]);
}

#[tokio::test(start_paused = true)]
async fn where_an_execution_stands_is_told_with_its_state() {
    let play = Play::begin("steps:\n  - { id: go, gate: 'Go?' }\n", json!({})).await;
    let ping = SignalRequest::new("ping", json!(1));
    play.engine.commanded(ping).await;
    let standing = play.engine.last_reply(&play::id("e")).await.unwrap();
    let status = play.engine.status_now("e").await;
    assert_eq!(standing.workflow_state, status.state);
    standing.message.shows("midex approve e");
}

#[tokio::test(start_paused = true)]
async fn an_answer_while_a_person_keeps_it_paused_tells_the_state() {
    let play = Play::begin("steps:\n  - { id: go, gate: 'Go?' }\n", json!({})).await;
    let shown = play.engine.status_now("e").await;
    play.engine.changed("e", LifecycleAction::Pause).await;
    play.engine.commanded(gate_answer(&shown, true, None)).await;
    let said = play.engine.last_reply(&play::id("e")).await.unwrap();
    let status = play.engine.status_now("e").await;
    assert_eq!((said.workflow_state.as_str(), status.state.as_str()), ("paused", "paused"));
}

/// The next question of the server, or its next answer.
fn next(server: &mut Server) -> Value {
    loop {
        let line = server.next_line();
        if line["method"] == "elicitation/create"
            || (!line["id"].is_null() && line["method"].is_null())
        {
            return line;
        }
    }
}

fn yaml(name: &str, rest: &str) -> String {
    format!("workflow: {name}\ndescription: d\n{rest}")
}

/// A project with the workflow `w` of these lines, and a server of a client that can ask its user.
fn asking(rest: &str) -> (Project, Server) {
    let project = Project::new(&[("workflows/w.yaml", &yaml("w", rest))]);
    let server = project.serve_asking();
    (project, server)
}

#[test]
fn what_came_of_a_form_is_answered() {
    let lines = "inputs:
  a: { type: integer, validate: { min: 1 }, optional: true }
steps:
  - { id: one, input: { properties: [a] } }
  - { id: tell, guidance: T, result: {} }";
    let (_project, mut server) = asking(lines);
    begin(&mut server);
    for at in 0..5 {
        let asked = next(&mut server);
        accept(&mut server, &asked, json!({ "a": -at }));
    }
    let line = next(&mut server);
    let reply = &line["result"]["structuredContent"];
    let state = reply["workflow_state"].clone();
    let reply = reply.clone();
    assert_eq!(state, "paused", "{reply}");
    assert_eq!(state, server.status("e")["state"], "{reply}");
}

#[test]
fn a_gate_that_somebody_else_answered_meanwhile_is_told_as_it_stands() {
    let lines = "steps:
  - { id: go, gate: 'Go?' }
  - { id: tell, guidance: T, result: {} }";
    let (project, mut server) = asking(lines);
    begin(&mut server);
    let asked = next(&mut server);
    let mut terminal = Terminal::open(project.command("approve e"));
    terminal.answer("Approve?", "y");
    terminal.ends(0);
    server.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "cancel" } }));
    let line = next(&mut server);
    let reply = line["result"]["structuredContent"].clone();
    assert_eq!(reply["workflow_state"], server.status("e")["state"], "{reply}");
    let _ = text(&reply["message"]);
}

#[test]
fn a_long_comment_is_cut_and_the_decision_counts() {
    let lines = "steps:
  - { id: go, gate: 'Go?' }
  - { id: tell, guidance: T, result: {} }";
    let (_project, mut server) = asking(lines);
    begin(&mut server);
    let asked = next(&mut server);
    let comment = "x".repeat(4001);
    accept(&mut server, &asked, json!({ "decision": "approve", "comment": comment }));
    let line = next(&mut server);
    assert_eq!(line["result"]["isError"], json!(false), "{line}");
}

#[test]
fn a_dialog_of_an_earlier_visit_decides_nothing() {
    let lines = "steps:
  - { id: build, guidance: Build., result: {}, max_visits: 3 }
  - { id: ship, gate: { ask: 'Ship it?' }, on_error: build, max_visits: 3 }
  - { id: tell, guidance: T, result: {} }";
    let (project, mut server) = asking(lines);
    let reply = server.begin("w", "e");
    finish(&mut server, &reply["new_token"], json!(1));
    let asked = next(&mut server);
    // Somebody rejects on a terminal; another agent makes the next build.
    let mut terminal = Terminal::open(project.command("approve e"));
    terminal.answer("Approve?", "r");
    terminal.answer("Why?", "");
    terminal.ends(0);
    let current = server.current("e");
    assert_eq!(current["current_step"], "build", "{current}");
    finish(&mut server, &current["continuation_token"], json!(2));
    let asked_two = next(&mut server);
    assert_ne!(asked_two["id"], asked["id"]);
    // The dialog about the first build is answered.
    accept(&mut server, &asked, json!({ "decision": "approve" }));
    let line = next(&mut server);
    assert_eq!(server.status("e")["state"], "paused", "{line}");
}

const ALONE: &str = "inputs:
  a: { type: string, optional: true }
steps:
  - { id: one, input: { properties: [a], via: elicitation } }
  - { id: tell, guidance: 'T ${{ inputs.a }}', result: {} }
";

/// A project with the workflow `w` of these lines, and a server of a client of the stateless era.
fn stateless(rest: &str) -> (Project, Server) {
    let project = Project::new(&[("workflows/w.yaml", &yaml("w", rest))]);
    let server = Server::run(project.command("serve"));
    (project, server)
}

/// The result of a stateless call of a client that can ask its user, with whatever else it sends.
pub(crate) fn send(server: &mut Server, tool: &str, arguments: Value, more: &Value) -> Value {
    let mut params = json!({ "name": tool, "arguments": arguments, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "0" },
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} } }
    } });
    for (key, value) in more.as_object().into_iter().flatten() {
        params[key] = value.clone();
    }
    server.request("tools/call", params)["result"].clone()
}

/// What a call sends again with this answer to the question that it needs answered.
fn with_answer(needs: &Value, answer: Value) -> Value {
    let asked = needs["inputRequests"].as_object().unwrap();
    let key = asked.keys().next().unwrap();
    json!({ "requestState": needs["requestState"], "inputResponses": { (key): answer } })
}

#[test]
fn a_paused_execution_is_never_said_to_run() {
    let lines = "steps:
  - { id: go, gate: 'Go?' }
  - { id: tell, guidance: T, result: {} }";
    let (_project, mut server) = stateless(lines);
    let start = json!({ "workflow_name": "w", "execution_id": "e" });
    let needs = send(&mut server, "workflow.start", start.clone(), &json!({}));
    let signal = json!({ "execution_id": "e", "signal": "s" });
    send(&mut server, "execution.signal", signal, &json!({}));
    let again = with_answer(&needs, json!({ "action": "decline" }));
    let reply = send(&mut server, "workflow.start", start, &again)["structuredContent"].clone();
    assert_eq!(reply["workflow_state"], "paused", "{reply}");
}

#[test]
fn a_stateless_client_is_asked_after_every_refused_form() {
    let lines = "inputs:
  a: { type: integer, validate: { min: 1 }, optional: true }
steps:
  - { id: one, input: { properties: [a], via: elicitation } }
  - { id: tell, guidance: T, result: {} }";
    let (_project, mut server) = stateless(lines);
    let start = json!({ "workflow_name": "w", "execution_id": "e" });
    let mut needs = send(&mut server, "workflow.start", start.clone(), &json!({}));
    for n in [0, -1, -2] {
        assert_eq!(needs["resultType"], "input_required", "{n}: {needs}");
        let answer = json!({ "action": "accept", "content": { "a": n } });
        let again = with_answer(&needs, answer);
        needs = send(&mut server, "workflow.start", start.clone(), &again);
    }
}

/// The answer to a question of the server.
fn accept(server: &mut Server, asked: &Value, content: Value) {
    let result = json!({ "action": "accept", "content": content });
    server.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }));
}

fn begin(server: &mut Server) {
    let arguments = json!({ "workflow_name": "w", "execution_id": "e" });
    server.post_call("workflow.start", arguments);
}

/// Finishes a step, and does not wait for the answer; the id of the call.
pub(crate) fn finish(server: &mut Server, token: &Value, output: Value) -> u64 {
    let arguments = json!({ "token": token, "output": output });
    server.post_call("workflow.next_step", arguments)
}

#[test]
fn several_steps_that_ask_are_asked_one_after_the_other_and_none_beside_them_is_lost() {
    let lines = "inputs:
  a: { type: string, optional: true }
  b: { type: string, optional: true }
steps:
  - { id: work, guidance: W., result: {}, depends_on: [] }
  - { id: one, input: { properties: [a], via: elicitation }, depends_on: [] }
  - { id: two, input: { properties: [b] }, depends_on: [] }
  - { id: tell, guidance: 'T ${{ inputs.a }} ${{ inputs.b }}', result: {}, depends_on: [one, two] }";
    let (_project, mut server) = asking(lines);
    begin(&mut server);
    let asked = next(&mut server);
    asked["params"]["requestedSchema"].has_fields(json!({ "required": ["a"] }));
    accept(&mut server, &asked, json!({ "a": "x" }));
    let asked = next(&mut server);
    asked["params"]["requestedSchema"].has_fields(json!({ "required": ["b"] }));
    accept(&mut server, &asked, json!({ "b": "y" }));
    let reply = next(&mut server)["result"]["structuredContent"].clone();
    let offers = list(&reply["new_tokens"]);
    let names: Vec<_> = offers.iter().map(|offer| text(&offer["step_name"])).collect();
    assert_eq!(names, ["tell", "work"], "{reply}");
    assert!(text(&offers[1]["instructions"]).contains("W."), "{reply}");
    let token = offers[1]["continuation_token"].clone();
    server.hand_in(&token, json!(1));
}

#[test]
fn a_step_that_the_user_put_aside_is_asked_again_when_the_agent_comes_back() {
    let lines = "inputs:
  a: { type: string, optional: true }
steps:
  - { id: one, input: { properties: [a], via: elicitation }, depends_on: [] }
  - { id: work, guidance: W, result: {}, depends_on: [] }";
    let (_project, mut server) = asking(lines);
    begin(&mut server);
    let asked = next(&mut server);
    server.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "decline" } }));
    let reply = next(&mut server)["result"]["structuredContent"].clone();
    let words = text(&reply["instructions"]);
    words.shows("The user alone answers…An empty object");
    finish(&mut server, &reply["new_token"], json!({}));
    let asked = next(&mut server);
    accept(&mut server, &asked, json!({ "a": "x" }));
    let reply = next(&mut server)["result"]["structuredContent"].clone();
    assert_eq!(reply["open_steps"][0]["step_name"], "work", "{reply}");
}

#[test]
fn answers_without_their_state_begin_nothing() {
    let lines = "steps:\n  - { id: go, gate: 'Go?' }\n  - { id: tell, guidance: T, result: {} }\n";
    let (_project, mut server) = stateless(lines);
    let start = json!({ "workflow_name": "w" });
    let needs = send(&mut server, "workflow.start", start.clone(), &json!({}));
    let answer = json!({ "action": "accept", "content": { "decision": "approve" } });
    let whole = with_answer(&needs, answer);
    let lost = json!({ "inputResponses": whole["inputResponses"] });
    let other = json!({ "workflow_name": "w", "known_agents": [] });
    for (arguments, again) in [(start, lost), (other, whole)] {
        let refused = send(&mut server, "workflow.start", arguments, &again);
        let refused = &refused["structuredContent"];
        assert_eq!(refused["error_code"], "REQUEST_STATE_MISSING", "{refused}");
    }
    let listed = send(&mut server, "execution.list", json!({}), &json!({}));
    let executions = list(&listed["structuredContent"]["executions"]);
    assert_eq!((executions.len(), &executions[0]["state"]), (1, &json!("paused")));
}

#[test]
fn a_person_at_a_terminal_answers_what_the_user_alone_answers() {
    let project = Project::new(&[("workflows/w.yaml", &yaml("w", ALONE))]);
    let mut terminal = Terminal::open(project.command("run w --id e"));
    terminal.expect("[1/");
    terminal.answer("a> ", "x");
    terminal.expect("T x");
    terminal.answer("tell> ", "done\n");
    terminal.ends(0);
}

/// A workflow that asks the user, this way, for an input of this kind.
fn form(name: &str, kind: &str, via: &str) -> String {
    let inputs = format!("inputs:\n  a: {{ {kind}, optional: true }}\n");
    let step = format!("  - {{ id: one, input: {{ properties: [a], via: {via} }} }}\n");
    yaml(name, &format!("{inputs}steps:\n{step}"))
}

#[test]
fn a_form_holds_every_kind_of_plain_input_and_drops_the_bounds_that_fit_into_none() {
    let project = Project::new(&[]);
    let kinds = [
        "type: integer, validate: { min: 1, max: 10 }",
        "type: integer, validate: { min: 0.5 }",
        "type: integer, validate: { min: 18446744073709551615 }",
        "type: number, validate: { min: 0.5, max: 1e30 }",
        "type: boolean",
        "type: string, validate: { min_length: 1, max_length: 5000000000 }",
        "type: string, validate: { pattern: '^a' }, name: A, hint: h, example: abc",
        "enum: [a, b]",
        "description: any",
    ];
    for (at, kind) in kinds.iter().enumerate() {
        let name = format!("w{at}");
        let path = format!("workflows/{name}.yaml");
        project.write(&path, &form(&name, kind, "elicitation"));
    }
    let mut server = project.serve_asking();
    for (at, kind) in kinds.iter().enumerate() {
        let arguments = json!({ "workflow_name": format!("w{at}") });
        server.post_call("workflow.start", arguments);
        let line = next(&mut server);
        assert_eq!(line["method"], "elicitation/create", "{kind}: {line}");
    }
}

#[test]
fn what_fits_into_no_form_is_found_where_the_user_alone_is_asked() {
    for kind in
        ["type: array", "type: object", "enum: [1, 2]", "type: boolean, validate: { enum: [true] }"]
    {
        let found = |via: &str| {
            let none = Registry::load(&Sources::default());
            registry::check_text("w.yaml", &form("w", kind, via), &none).1
        };
        let findings = found("elicitation");
        let told: Vec<_> =
            findings.iter().map(|finding| (finding.rule.as_str(), finding.path.as_str())).collect();
        assert_eq!(told, [("contradiction", "steps[0].input.properties[0]")], "{kind}");
        assert!(found("auto").is_empty());
    }
}

#[test]
fn nobody_is_asked_for_what_is_paused() {
    let (project, mut server) = asking(ALONE);
    begin(&mut server);
    let asked = next(&mut server);
    let said = project.command("pause e").output().unwrap();
    assert!(said.status.success(), "{said:?}");
    accept(&mut server, &asked, json!({ "a": "x" }));
    let line = next(&mut server);
    let reply = &line["result"]["structuredContent"];
    assert_eq!(reply["workflow_state"], "paused", "{line}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_too_large_is_refused_with_its_place() {
    let lines = "inputs:
  a: { type: string, optional: true }
  b: { type: string, optional: true }
steps:
  - { id: one, input: { properties: [a, b] } }";
    let play = Play::begin(lines, json!({})).await;
    let big = "x".repeat(midex_domain::limits::INPUTS_BYTES_MAX / 2 + 100);
    let token = play.token("one");
    let error = play.refused(&token, json!({ "a": big, "b": big })).await;
    assert_eq!(error.code(), Code::LimitExceeded);
    assert_eq!(
        (error.context("execution_id"), error.context("step_id")),
        (Some(&json!("e")), Some(&json!("one")))
    );
}

#[test]
fn where_nobody_is_asked_a_call_again_gets_the_answer_that_it_got() {
    let lines = "inputs:
  a: { type: string, optional: true }
steps:
  - { id: work, guidance: W, result: {} }
  - { id: one, input: { properties: [a], via: guidance } }
  - { id: tell, guidance: T, result: {} }";
    let (_project, mut server) = asking(lines);
    let first = server.begin("w", "e");
    let asks = server.hand_in(&first["new_token"], json!(1));
    assert_eq!(asks["step_name"], "one", "{asks}");
    server.hand_in(&asks["new_token"], json!({ "a": "x" }));
    let mut again = server.hand_in(&first["new_token"], json!(1));
    assert_eq!(again.as_object_mut().unwrap().remove("replayed"), Some(json!(true)));
    assert_eq!(again, asks);
}
