//! Several processes on one data directory: one owns it, the others relay their clients to it and take over when it goes.

mod callers;
mod children;
mod door;
mod http;
mod load;
mod moved;
mod stopped;
mod stub;
mod takeover;
mod windows;

use std::fs::File;

use serde_json::{Value, json};

use midex_test::{
    Client, Fields, Server,
    project::{Project, line, text},
};

/// A workflow of one step that a person must allow.
const GATE: &str = "workflow: gated
description: d
steps:
  - { id: go, gate: 'Go?' }
  - { id: tell, guidance: T, result: {} }
";

/// Two servers of one project: the first owns the directory, the second relays.
fn two_of(project: &Project) -> (Server, Server) {
    let mut owner = project.serve();
    // It has answered a call, so the directory is its own.
    owner.done("execution.list", json!({}));
    let relay = project.serve();
    (owner, relay)
}

/// An owner, and a relay whose client began an execution that asks its user: that call, and the question.
fn asked() -> (Project, Server, Server, u64, Value) {
    let project = Project::new(&[("workflows/gated.yaml", GATE)]);
    let mut owner = project.serve();
    owner.done("execution.list", json!({}));
    let mut relay = project.serve_asking();
    let arguments = json!({ "workflow_name": "gated", "execution_id": "e" });
    let call = json!({ "name": "workflow.start", "arguments": arguments });
    let call = relay.post("tools/call", call);
    let question = relay.next_line();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    (project, owner, relay, call, question)
}

/// The parameters of a call as a client makes it that never shakes hands and can ask its user.
fn stateless(tool: &str, arguments: Value) -> Value {
    json!({ "name": tool, "arguments": arguments, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "0" },
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} } }
    } })
}

/// The user approves.
fn approve(client: &mut Server, question: &Value) {
    let result = json!({ "action": "accept", "content": { "decision": "approve" } });
    client.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }));
}

/// Holds the directory of the project, as a process does that opens no door.
fn hold(project: &Project) -> File {
    let lock = project.data_dir().join("executions.lock");
    let lock = File::options().create(true).write(true).truncate(false).open(lock);
    let lock = lock.expect("a lock");
    lock.lock().expect("nobody has it");
    lock
}

/// The names of the tools that a server offers.
fn tools(server: &mut Server) -> Vec<String> {
    let answer = server.request("tools/list", json!({}));
    let tools = answer["result"]["tools"].as_array().expect("a list").clone();
    let name = |tool: &Value| text(&tool["name"]).to_owned();
    tools.iter().map(name).collect()
}

#[test]
fn two_servers_of_one_directory_work_on_the_same_executions() {
    let project = line();
    let (mut owner, mut relay) = two_of(&project);
    assert_eq!(tools(&mut relay), tools(&mut owner));
    let first = owner.begin("line", "e");
    let second = relay.finish(&first["new_token"], "a is done");
    assert_eq!(second["step_name"], "b");
    let third = owner.finish(&second["new_token"], "b is done");
    assert_eq!(third["step_name"], "c");
    let end = relay.finish(&third["new_token"], "c is done");
    assert_eq!(end["workflow_state"], "completed");
    assert_eq!(relay.history("e"), owner.history("e"));
}

#[test]
fn many_calls_in_flight_are_each_answered_once() {
    let project = line();
    let (_owner, mut relay) = two_of(&project);
    let start = |n: u64| json!({ "name": "workflow.start", "arguments": { "workflow_name": "line", "execution_id": format!("e{n}") } });
    let mut waiting: std::collections::HashSet<_> =
        (0..500).map(|n| relay.post("tools/call", start(n))).collect();
    while !waiting.is_empty() {
        let answer = relay.next_line();
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        assert!(waiting.remove(&answer["id"].as_u64().expect("a number")));
    }
}

#[test]
fn frames_that_nobody_can_use_are_answered_through_a_relay_too() {
    let project = line();
    let (_owner, mut relay) = two_of(&project);
    relay.send_raw("no JSON");
    assert_eq!(relay.next_line()["error"]["code"], -32700);
    let long = "x".repeat(midex_domain::limits::FRAME_BYTES_MAX);
    relay.send_raw(&format!("{{\"id\":7,\"jsonrpc\":\"2.0\",\"x\":\"{long}\"}}"));
    let answer = relay.next_line();
    answer.has_fields(json!({ "id": 7, "/error/code": -32600 }));
    relay.begin("line", "e");
}

#[test]
fn a_relayed_client_is_told_of_what_another_one_moves() {
    let project = line();
    let (mut owner, mut relay) = two_of(&project);
    let first = owner.begin("line", "e");
    let uri = "midex://workflow/workflow_status/e";
    relay.request("resources/subscribe", json!({ "uri": uri }));
    owner.finish(&first["new_token"], "a is done");
    let told = relay.next_line();
    assert_eq!(told["method"], "notifications/resources/updated", "{told}");
    assert_eq!(told["params"]["uri"], uri);
}

#[test]
fn a_relayed_client_is_asked_for_its_user() {
    let (_project, _owner, mut relay, call, question) = asked();
    approve(&mut relay, &question);
    let answer = relay.next_line();
    assert_eq!(answer["id"], call);
    answer.has_fields(json!({ "/result/structuredContent/step_name": "tell" }));
}

#[test]
fn a_question_is_withdrawn_with_the_call_that_asked_it() {
    let (_project, _owner, mut relay, call, question) = asked();
    let params = json!({ "requestId": call });
    relay.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
    let withdrawn = relay.next_line();
    withdrawn.has_fields(
        json!({ "method": "notifications/cancelled", "/params/requestId": question["id"] }),
    );
    // Who answers all the same answers nobody.
    approve(&mut relay, &question);
    assert_eq!(relay.status("e")["pause_reasons"], json!(["gate"]));
}
