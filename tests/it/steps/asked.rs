//! Asking people, and what may happen meanwhile.

use midex::{
    domain::{
        Lifecycle,
        check::Built,
        execution::{Report, SignalRequest},
    },
    error::Code,
    registry::{self, Registry, Sources},
};
use serde_json::{Value, json};

use super::{Play, gates::answer, id};
use crate::{
    cli::terminal::Terminal,
    support::{
        Client, Server, assert_has,
        play::Calls,
        project::{Project, list, text},
    },
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
    play.engine.commanded(answer(&first, false, None)).await;
    let current = play.engine.current_now("e").await;
    let token = current.continuation_token.unwrap();
    play.report(&token, Report::Output(json!({ "v": 2 }))).await;
    let second = play.engine.status_now("e").await;
    assert_eq!(second.waits[0].visit, 2);
    // The other one's approval, of the first build, comes now.
    let error = play.engine.command(&id(), answer(&first, true, None)).await;
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
    let first = play
        .engine
        .refuse(&token, Report::Output(json!({ "a": null })))
        .await;
    assert_eq!(first.code(), Code::StepOutputInvalid);
    assert!(first.message().contains("the step failed"), "{first}");
    let again = play
        .engine
        .refuse(&token, Report::Output(json!({ "a": null })))
        .await;
    assert_eq!(again.message(), first.message());
    let current = play.engine.current_now("e").await;
    play.report(
        &current.continuation_token.unwrap(),
        Report::Output(json!({ "a": "x" })),
    )
    .await;
    let again = play
        .engine
        .advance(&token, Report::Output(json!({ "a": null })))
        .await;
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
    let first = play
        .engine
        .refuse(&token, Report::Output(said.clone()))
        .await;
    let current = play.engine.current_now("e").await;
    play.report(
        &current.continuation_token.unwrap(),
        Report::Output(json!({ "a": "x", "b": "y" })),
    )
    .await;
    let again = play.engine.refuse(&token, Report::Output(said)).await;
    assert_eq!(
        (again.message(), again.violations()),
        (first.message(), first.violations())
    );
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
    play.report(&ask, Report::Output(json!({ "userUtterance": "x please" })))
        .await;
    let again = play.engine.report(&work, Report::Output(json!(1))).await;
    let (one, two) = (
        serde_json::to_value(&first).unwrap(),
        serde_json::to_value(&again).unwrap(),
    );
    assert_eq!(one["open_steps"], two["open_steps"]);
}

#[tokio::test(start_paused = true)]
async fn where_an_execution_stands_is_told_with_its_state() {
    let play = Play::begin("steps:\n  - { id: go, gate: 'Go?' }\n", json!({})).await;
    play.engine
        .commanded(SignalRequest::new("ping", json!(1)))
        .await;
    let standing = play.engine.standing(&id()).await.unwrap();
    let status = play.engine.status_now("e").await;
    assert_eq!(standing.workflow_state, status.state);
    assert_has(&standing.message, &["midex approve e"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_while_a_person_keeps_it_paused_tells_the_state() {
    let play = Play::begin("steps:\n  - { id: go, gate: 'Go?' }\n", json!({})).await;
    let shown = play.engine.status_now("e").await;
    play.engine.changed("e", Lifecycle::Pause).await;
    play.engine.commanded(answer(&shown, true, None)).await;
    let said = play.engine.standing(&id()).await.unwrap();
    let status = play.engine.status_now("e").await;
    assert_eq!(
        (said.workflow_state.as_str(), status.state.as_str()),
        ("paused", "paused")
    );
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
    let mut terminal = Terminal::open(project.command(&["approve", "e"]));
    terminal.answer("Approve?", "y");
    terminal.ends(0);
    server.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "cancel" } }));
    let line = next(&mut server);
    let reply = line["result"]["structuredContent"].clone();
    assert_eq!(
        reply["workflow_state"],
        server.status("e")["state"],
        "{reply}"
    );
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
    accept(
        &mut server,
        &asked,
        json!({ "decision": "approve", "comment": comment }),
    );
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
    let mut terminal = Terminal::open(project.command(&["approve", "e"]));
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

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "0" },
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} } }
    })
}

#[test]
fn a_paused_execution_is_never_said_to_run() {
    let w = yaml(
        "w",
        "steps:
  - { id: go, gate: 'Go?' }
  - { id: tell, guidance: T, result: {} }
",
    );
    let project = Project::new(&[("workflows/w.yaml", &w)]);
    let mut server = Server::run(project.command(&["serve"]));
    let start = json!({ "name": "workflow.start", "arguments": { "workflow_name": "w", "execution_id": "e" }, "_meta": meta() });
    let needs = server.request("tools/call", start.clone())["result"].clone();
    let signal = json!({ "name": "execution.signal", "arguments": { "execution_id": "e", "signal": "s" }, "_meta": meta() });
    server.request("tools/call", signal);
    let key = needs["inputRequests"]
        .as_object()
        .unwrap()
        .keys()
        .next()
        .unwrap()
        .clone();
    let mut again = start;
    again["requestState"] = needs["requestState"].clone();
    again["inputResponses"] = json!({ (key): { "action": "decline" } });
    let reply = server.request("tools/call", again)["result"]["structuredContent"].clone();
    assert_eq!(reply["workflow_state"], "paused", "{reply}");
}

#[test]
fn a_stateless_client_is_asked_after_every_refused_form() {
    let w = yaml(
        "w",
        "inputs:
  a: { type: integer, validate: { min: 1 }, optional: true }
steps:
  - { id: one, input: { properties: [a], via: elicitation } }
  - { id: tell, guidance: T, result: {} }
",
    );
    let project = Project::new(&[("workflows/w.yaml", &w)]);
    let mut server = Server::run(project.command(&["serve"]));
    let start = json!({ "name": "workflow.start", "arguments": { "workflow_name": "w", "execution_id": "e" }, "_meta": meta() });
    let mut needs = server.request("tools/call", start.clone())["result"].clone();
    for n in [0, -1, -2] {
        assert_eq!(needs["resultType"], "input_required", "{n}: {needs}");
        let key = needs["inputRequests"]
            .as_object()
            .unwrap()
            .keys()
            .next()
            .unwrap()
            .clone();
        let mut again = start.clone();
        again["requestState"] = needs["requestState"].clone();
        again["inputResponses"] = json!({ (key): { "action": "accept", "content": { "a": n } } });
        needs = server.request("tools/call", again)["result"].clone();
    }
}

/// The answer to a question of the server.
fn accept(server: &mut Server, asked: &Value, content: Value) {
    let result = json!({ "action": "accept", "content": content });
    server.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }));
}

fn begin(server: &mut Server) {
    let arguments = json!({ "workflow_name": "w", "execution_id": "e" });
    server.post(
        "tools/call",
        json!({ "name": "workflow.start", "arguments": arguments }),
    );
}

fn finish(server: &mut Server, token: &Value, output: Value) {
    let arguments = json!({ "token": token, "output": output });
    server.post(
        "tools/call",
        json!({ "name": "workflow.next_step", "arguments": arguments }),
    );
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
    assert_eq!(
        asked["params"]["requestedSchema"]["required"],
        json!(["a"]),
        "{asked}"
    );
    accept(&mut server, &asked, json!({ "a": "x" }));
    let asked = next(&mut server);
    assert_eq!(
        asked["params"]["requestedSchema"]["required"],
        json!(["b"]),
        "{asked}"
    );
    accept(&mut server, &asked, json!({ "b": "y" }));
    let reply = next(&mut server)["result"]["structuredContent"].clone();
    let offers = list(&reply["new_tokens"]);
    let names: Vec<_> = offers
        .iter()
        .map(|offer| text(&offer["step_name"]))
        .collect();
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
    assert_has(words, &["The user alone answers", "An empty object"]);
    finish(&mut server, &reply["new_token"], json!({}));
    let asked = next(&mut server);
    accept(&mut server, &asked, json!({ "a": "x" }));
    let reply = next(&mut server)["result"]["structuredContent"].clone();
    assert_eq!(reply["open_steps"][0]["step_name"], "work", "{reply}");
}

#[test]
fn answers_without_their_state_begin_nothing() {
    let w = yaml(
        "w",
        "steps:\n  - { id: go, gate: 'Go?' }\n  - { id: tell, guidance: T, result: {} }\n",
    );
    let project = Project::new(&[("workflows/w.yaml", &w)]);
    let mut server = Server::run(project.command(&["serve"]));
    let params = |extra: &Value| {
        let mut params = json!({ "name": "workflow.start", "arguments": { "workflow_name": "w" }, "_meta": meta() });
        for (key, value) in extra.as_object().unwrap() {
            params[key] = value.clone();
        }
        params
    };
    let needs = server.request("tools/call", params(&json!({})))["result"].clone();
    let key = needs["inputRequests"]
        .as_object()
        .unwrap()
        .keys()
        .next()
        .unwrap()
        .clone();
    let responses = json!({ (key): { "action": "accept", "content": { "decision": "approve" } } });
    let other = json!({ "name": "workflow.start", "arguments": { "workflow_name": "w", "known_agents": [] }, "_meta": meta(),
        "inputResponses": responses, "requestState": needs["requestState"] });
    for lost in [params(&json!({ "inputResponses": responses })), other] {
        let refused = server.request("tools/call", lost)["result"]["structuredContent"].clone();
        assert_eq!(refused["error_code"], "REQUEST_STATE_MISSING", "{refused}");
    }
    let listed = json!({ "name": "execution.list", "arguments": {}, "_meta": meta() });
    let listed = server.request("tools/call", listed)["result"]["structuredContent"].clone();
    let executions = list(&listed["executions"]);
    assert_eq!(
        (executions.len(), &executions[0]["state"]),
        (1, &json!("paused"))
    );
}

#[test]
fn a_person_at_a_terminal_answers_what_the_user_alone_answers() {
    let project = Project::new(&[("workflows/w.yaml", &yaml("w", ALONE))]);
    let mut terminal = Terminal::open(project.command(&["run", "w", "--id", "e"]));
    terminal.answer("empty to stop> ", "{\"a\": \"x\"}");
    terminal.expect("T x");
    terminal.answer("empty to stop> ", "done");
    terminal.ends(0);
}

#[test]
fn a_form_holds_every_kind_of_plain_input_and_drops_the_bounds_that_fit_into_none() {
    for kind in [
        "type: integer, validate: { min: 1, max: 10 }",
        "type: integer, validate: { min: 0.5 }",
        "type: integer, validate: { min: 18446744073709551615 }",
        "type: number, validate: { min: 0.5, max: 1e30 }",
        "type: boolean",
        "type: string, validate: { min_length: 1, max_length: 5000000000 }",
        "type: string, validate: { pattern: '^a' }, name: A, hint: h, example: abc",
        "enum: [a, b]",
        "description: any",
    ] {
        let w = yaml(
            "w",
            &format!(
                "inputs:\n  a: {{ {kind}, optional: true }}\nsteps:\n  - {{ id: one, input: {{ properties: [a], via: elicitation }} }}\n"
            ),
        );
        let project = Project::new(&[("workflows/w.yaml", &w)]);
        let mut server = project.serve_asking();
        begin(&mut server);
        let line = next(&mut server);
        assert_eq!(line["method"], "elicitation/create", "{kind}: {line}");
    }
}

#[test]
fn what_fits_into_no_form_is_found_where_the_user_alone_is_asked() {
    for kind in [
        "type: array",
        "type: object",
        "enum: [1, 2]",
        "type: boolean, validate: { enum: [true] }",
    ] {
        let text = |via: &str| {
            yaml(
                "w",
                &format!(
                    "inputs:\n  a: {{ {kind}, optional: true }}\nsteps:\n  - {{ id: one, input: {{ properties: [a], via: {via} }} }}\n"
                ),
            )
        };
        let none = Registry::load(&Sources::default());
        let (_, findings) = registry::check_text("w.yaml", &text("elicitation"), &none, Built::Now);
        let told: Vec<_> = findings
            .iter()
            .map(|finding| (finding.rule.as_str(), finding.path.as_str()))
            .collect();
        assert_eq!(
            told,
            [("contradiction", "steps[0].input.properties[0]")],
            "{kind}"
        );
        assert!(
            registry::check_text("w.yaml", &text("auto"), &none, Built::Now)
                .1
                .is_empty()
        );
    }
}

#[test]
fn nobody_is_asked_for_what_is_paused() {
    let (project, mut server) = asking(ALONE);
    begin(&mut server);
    let asked = next(&mut server);
    let said = project.command(&["pause", "e"]).output().unwrap();
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
    let big = "x".repeat(midex::limits::INPUTS_BYTES_MAX / 2 + 100);
    let token = play.token("one");
    let error = play
        .engine
        .refuse(&token, Report::Output(json!({ "a": big, "b": big })))
        .await;
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
    assert_eq!(
        again.as_object_mut().unwrap().remove("replayed"),
        Some(json!(true))
    );
    assert_eq!(again, asks);
}
