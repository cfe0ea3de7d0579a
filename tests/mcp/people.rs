//! Asking people through the client, and on a terminal: through the real server.

use serde_json::{Value, json};

use crate::asked::{finish, send};
use midex_test::{
    Client, Fields, Server, Shows, address,
    http::{HttpServer, SESSION_VERSIONS, Session},
    project::{Project, eventually, list, text},
    says,
    terminal::Terminal,
};

const APP: &str = "workflow: app
description: Make an app for a platform, once somebody approves
inputs:
  platform: { type: string, name: Platform, enum: [iOS, Android], hint: one of two, optional: true }
  seats: { type: integer, validate: { min: 1 }, optional: true }
steps:
  - { id: ask, input: { properties: [platform, seats] }, description: What shall it be? }
  - { id: ship, gate: { ask: 'Make it for ${{ inputs.platform }}?', expires: 1h } }
  - { id: make, guidance: 'Make it for ${{ inputs.platform }}.', result: {} }
final_output: { platform: '${{ inputs.platform }}', by: '${{ steps.ship.by }}' }
";

fn project() -> Project {
    let alone = APP.replace("seats] }", "seats], via: elicitation }");
    let alone = alone.replace("workflow: app", "workflow: alone");
    Project::new(&[("workflows/app.yaml", APP), ("workflows/alone.yaml", &alone)])
}

fn start(workflow: &str) -> Value {
    json!({ "name": "workflow.start", "arguments": { "workflow_name": workflow, "execution_id": "e" } })
}

/// The next question of the server; what else it writes is passed by.
fn question(server: &mut Server) -> Value {
    loop {
        let line = server.next_line();
        if line["method"] == "elicitation/create" {
            return line;
        }
        assert!(line["id"].is_null(), "an answer instead of a question: {line}");
    }
}

fn answer(server: &mut Server, question: &Value, result: Value) {
    server.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }));
}

fn accept(content: Value) -> Value {
    json!({ "action": "accept", "content": content })
}

/// The answer to the request with this id.
fn answered(server: &mut Server, id: u64) -> Value {
    loop {
        let line = server.next_line();
        if line["id"] == id && line["method"].is_null() {
            return line["result"]["structuredContent"].clone();
        }
    }
}

#[test]
fn a_client_that_can_asks_its_user_what_is_missing_and_for_approval() {
    let project = project();
    let mut server = project.serve_asking();
    let call = server.post("tools/call", start("app"));
    let asked = question(&mut server);
    let params = &asked["params"];
    assert_eq!(params["message"], "What shall it be?");
    let schema = &params["requestedSchema"];
    assert_eq!(schema["required"], json!(["platform", "seats"]));
    assert_eq!(
        schema["properties"]["platform"],
        json!({ "type": "string", "enum": ["iOS", "Android"], "title": "Platform", "description": "one of two" })
    );
    schema.has_fields(json!({ "/properties/seats": { "type": "integer", "minimum": 1 } }));
    let given = accept(json!({ "platform": "iOS", "seats": 0 }));
    answer(&mut server, &asked, given);
    // What was refused is asked for again, with why; the rest is known.
    let again = question(&mut server);
    let message = text(&again["params"]["message"]);
    message.shows("`seats` is less than the minimum of 1");
    again.has_fields(json!({ "/params/requestedSchema/required": ["seats"] }));
    answer(&mut server, &again, accept(json!({ "seats": 2 })));
    let gate = question(&mut server);
    assert!(text(&gate["params"]["message"]).starts_with("Make it for iOS?\n(until "));
    let given = accept(json!({ "decision": "approve", "comment": " " }));
    answer(&mut server, &gate, given);
    let reply = answered(&mut server, call);
    reply.has_fields(json!({ "step_name": "make", "workflow_state": "running" }));
    let reply = server.hand_in(&reply["new_token"], json!("made"));
    reply.has_fields(json!({ "final_output": { "platform": "iOS", "by": "the user of test" } }));
    let history = server.history("e");
    assert_eq!(history[1]["output"]["via"], "elicitation");
}

#[test]
fn a_user_who_puts_the_question_aside_is_asked_by_the_agent() {
    let project = project();
    let mut server = project.serve_asking();
    let call = server.post("tools/call", start("app"));
    let asked = question(&mut server);
    answer(&mut server, &asked, json!({ "action": "decline" }));
    let reply = answered(&mut server, call);
    assert_eq!(reply["step_name"], "ask");
    assert!(
        text(&reply["message"]).ends_with("The user declined; the step stays open."),
        "{reply}"
    );
    // The agent may ask in words of its own; then the gate is put aside, and stays.
    let output = json!({ "platform": "iOS", "seats": 1 });
    let call = finish(&mut server, &reply["new_token"], output);
    let gate = question(&mut server);
    answer(&mut server, &gate, json!({ "action": "cancel" }));
    let reply = answered(&mut server, call);
    reply.has_fields(json!({ "workflow_state": "paused", "new_token": null }));
    says(&reply["message"], "`midex approve e`");
    assert!(
        text(&reply["message"]).ends_with("The user gave no answer; the gate stays open."),
        "{reply}"
    );
    assert_eq!(server.status("e")["pause_reasons"], json!(["gate"]));
}

#[test]
fn what_only_the_user_may_answer_no_agent_answers() {
    let project = project();
    let mut server = project.serve();
    let reply = server.begin("alone", "e");
    let own = json!({ "platform": "iOS", "seats": 1 });
    let refused = server.refuse(&reply["new_token"], own.clone());
    assert_eq!(refused["error_code"], "USER_ALONE");
    drop(server);
    let mut server = project.serve_asking();
    let current = server.current("e");
    let call = finish(&mut server, &current["continuation_token"], own);
    let asked = question(&mut server);
    let given = accept(json!({ "platform": "Android", "seats": 3 }));
    answer(&mut server, &asked, given);
    let gate = question(&mut server);
    assert!(text(&gate["params"]["message"]).starts_with("Make it for Android?"));
    let given = accept(json!({ "decision": "reject", "comment": "not yet" }));
    answer(&mut server, &gate, given);
    let reply = answered(&mut server, call);
    assert_eq!(reply["workflow_state"], "failed");
    reply["failure"].has_fields(
        json!({ "code": "GATE_REJECTED", "message": "the user of test rejected 'ship': not yet" }),
    );
}

#[test]
fn a_stateless_client_sends_the_call_again_with_the_answers() {
    let project = project();
    let mut server = Server::run(project.command("serve"));
    // An id that the server makes: done twice, the start would make two executions.
    let start = |server: &mut Server, again: Option<(&Value, Value)>| {
        let again = again.map(|(needs, responses)| {
            json!({ "inputResponses": responses, "requestState": needs["requestState"] })
        });
        let arguments = json!({ "workflow_name": "app" });
        send(server, "workflow.start", arguments, &json!(again))
    };
    let needs = start(&mut server, None);
    assert_eq!(needs["resultType"], "input_required", "{needs}");
    let asked = needs["inputRequests"].as_object().unwrap().clone();
    let (key, request) = asked.iter().next().unwrap();
    assert_eq!((asked.len(), &request["method"]), (1, &json!("elicitation/create")));
    // The call again without an answer needs the same one.
    let again = start(&mut server, Some((&needs, json!({}))));
    assert_eq!(again["inputRequests"], needs["inputRequests"]);
    let answers = json!({ (key): accept(json!({ "platform": "iOS", "seats": 2 })) });
    let needs = start(&mut server, Some((&needs, answers.clone())));
    let asked = needs["inputRequests"].as_object().unwrap().clone();
    let (gate, request) = asked.iter().next().unwrap();
    assert!(text(&request["params"]["message"]).starts_with("Make it for iOS?"), "{request}");
    // An answer to a question that is no more counts for nothing.
    let again = start(&mut server, Some((&needs, answers)));
    assert_eq!(again["inputRequests"], needs["inputRequests"]);
    let answers = json!({ (gate): accept(json!({ "decision": "approve" })) });
    let done = start(&mut server, Some((&needs, answers)));
    let reply = &done["structuredContent"];
    assert_eq!((&done["resultType"], &reply["step_name"]), (&json!("complete"), &json!("make")));
    let listed = send(&mut server, "execution.list", json!({}), &json!({}));
    let executions = list(&listed["structuredContent"]["executions"]);
    assert_eq!(executions.len(), 1, "{executions:?}");
}

#[test]
fn over_http_the_question_comes_on_the_stream_of_the_call() {
    let project = project();
    let server = HttpServer::run(project.command("serve --http 127.0.0.1:0"));
    let session = Session::open_asking(server.loopback(), SESSION_VERSIONS[2]);
    let message =
        json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": start("app") });
    let mut stream = session.follow(&message);
    let asked = stream.event();
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    let result = accept(json!({ "platform": "iOS", "seats": 2 }));
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result });
    assert_eq!(session.post(&answer).status, 202);
    let gate = stream.event();
    let result = json!({ "action": "cancel" });
    let answer = json!({ "jsonrpc": "2.0", "id": gate["id"], "result": result });
    assert_eq!(session.post(&answer).status, 202);
    let reply = stream.event();
    assert_eq!(reply["id"], 7);
    reply.has_fields(json!({ "/result/structuredContent/workflow_state": "paused" }));
}

#[test]
fn no_agent_sees_or_calls_what_people_answer_with() {
    let project = project();
    let mut server = project.serve();
    let tools = server.request("tools/list", json!({}))["result"]["tools"].clone();
    assert!(list(&tools).iter().all(|tool| tool["name"] != "execution.approve"));
    for name in ["execution.approve", "execution_approve"] {
        let params = json!({ "name": name, "arguments": {} });
        let error = server.request("tools/call", params)["error"].clone();
        assert_eq!(error["data"]["error_code"], "TOOL_NOT_FOUND");
        says(&error["data"]["suggested_action"], "`midex approve`");
    }
}

/// A workflow that waits for approval from its start.
fn waiting() -> Project {
    let gate = "workflow: go\ndescription: d\nsteps:\n  - { id: go, gate: { ask: 'Go?', approvers: [ann] } }\n";
    Project::new(&[("workflows/go.yaml", gate)])
}

#[test]
fn neither_a_script_nor_an_agent_approves_by_running_the_command() {
    let project = waiting();
    let mut server = project.serve();
    server.begin("go", "e");
    let shown = project.command("show e").output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    shown.shows("  go waits for an approval: Go?\n…  midex approve e go  (answers the gate)\n");
    let said = project.command("approve e").output().unwrap();
    let told = String::from_utf8_lossy(&said.stderr).into_owned();
    assert_eq!(said.status.code(), Some(2), "{told}");
    told.shows("an approval is given on a terminal");
    let listed = project.command("approve").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&listed.stdout), "e  go  Go?\n");
    let listed = project.command("approve --json").output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["gate"]["approvers"], json!(["ann"]));
    assert_eq!(server.status("e")["state"], "paused");
}

#[test]
fn a_person_approves_on_a_terminal_while_the_server_runs() {
    let project = waiting();
    let mut server = project.serve();
    server.begin("go", "e");
    let mut terminal = Terminal::open(project.command("approve e --as ann"));
    let page = terminal.expect("Approve?");
    for part in ["Gate 'go' of execution 'e' (workflow 'go')", "To be answered by: ann", "  Go?"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    terminal.type_line("");
    terminal.ends(1);
    assert_eq!(server.status("e")["state"], "paused");
    let mut terminal = Terminal::open(project.command("approve e --as ann --comment fine"));
    terminal.answer("Approve?", "y");
    let shown = terminal.ends(0);
    shown.shows("'go' of execution 'e' is approved; the execution is");
    let output = &server.history("e")[0]["output"];
    output.has_fields(json!({ "by": "ann", "via": "terminal", "comment": "fine" }));
    let again = project.command("approve e").output().unwrap();
    let told = String::from_utf8_lossy(&again.stdout).into_owned();
    assert_eq!(told, "gate 'go' of 'e' is approved already, by ann\n");
}

#[test]
fn a_person_rejects_on_a_terminal_with_no_server_about_and_the_store_is_let_go_meanwhile() {
    let project = waiting();
    let mut server = project.serve();
    server.begin("go", "e");
    drop(server);
    let mut terminal = Terminal::open(project.command("approve e"));
    terminal.expect("Approve?");
    // While the person thinks a server finds the store free.
    let mut server = project.serve();
    eventually("the store", || {
        let uri = json!({ "uri": address("workflow_status", "e") });
        let answer = server.request("resources/read", uri);
        answer["error"].is_null().then_some(())
    });
    // A `no` may mean either: it is asked which.
    terminal.type_line("n");
    terminal.answer("leave it [o]pen", "r");
    terminal.answer("Why?", "not like this");
    terminal.ends(0);
    let status = server.status("e");
    assert_eq!(status["state"], "failed");
    assert!(
        text(&status["error"]["message"]).ends_with("rejected 'go': not like this"),
        "{status}"
    );
}

#[test]
fn whoever_runs_a_workflow_on_a_terminal_is_asked_for_approval_there() {
    let project = waiting();
    let mut terminal = Terminal::open(project.command("run go --id e"));
    terminal.answer("Approve?", "y");
    let shown = terminal.ends(0);
    assert!(shown.contains("completed"), "{shown}");
    // Left open, it says how to go on; and so it does to a script.
    let mut terminal = Terminal::open(project.command("run go --id f"));
    terminal.answer("Approve?", "later");
    let shown = terminal.ends(1);
    assert!(shown.contains("To go on: midex approve f"), "{shown}");
    let mut script = project.command("run go --id g");
    let said = script.stdin(std::process::Stdio::null()).output().unwrap();
    let shown = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(shown.contains("go waits for an approval: "), "{shown}");
    assert!(shown.contains("To go on: midex approve g"), "{shown}");
}

#[test]
fn a_run_goes_on_with_the_inputs_it_was_started_with_whatever_was_answered_since() {
    let project = project();
    let run = |flags: &[&str]| {
        let mut command = project.command(&[&["run", "app", "--id", "e"], flags].concat());
        let said = command.stdin(std::process::Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr)
    };
    let begun = run(&["--input", "platform=iOS"]);
    assert!(begun.contains("Started app as e"), "{begun}");
    let mut server = project.serve();
    let token = server.current("e")["continuation_token"].clone();
    server.hand_in(&token, json!({ "seats": 1 }));
    let current = server.current("e");
    assert_eq!(current["inputs"], json!({ "platform": "iOS", "seats": 1 }));
    current.has_fields(json!({ "inputs_at_start": { "platform": "iOS", "seats": null } }));
    server.close();
    let again = run(&["--input", "platform=iOS"]);
    assert!(again.contains("Going on with e"), "{again}");
    let other = run(&["--input", "platform=Android"]);
    assert!(other.contains("EXECUTION_ID_TAKEN"), "{other}");
}
