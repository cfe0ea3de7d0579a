//! What steps offer to do next, as clients see it: in results, in `_meta`, and by the choice that they send back.

use serde_json::{Value, json};

use midex_test::{Client, Fields, Server, address, project::Project};

const CHECKED: &str = "\
workflow: checked
description: Check it
steps:
  - id: check
    guidance: Check it.
    result: {}
    branches:
      valid:false: { toolName: error_handler_start, parameters: { of: check }, continueWorkflow: false }
  - { id: after, guidance: Go on., result: {} }
";

fn served() -> (Project, Server) {
    let project = Project::new(&[]);
    project.write("workflows/checked.yaml", CHECKED);
    let server = project.serve();
    (project, server)
}

fn call(server: &mut Server, name: &str, arguments: Value) -> Value {
    let params = json!({ "name": name, "arguments": arguments });
    server.request("tools/call", params)["result"].take()
}

fn tools(options: &Value) -> Vec<&str> {
    let options = options.as_array().expect("options").iter();
    options.map(|option| option["toolName"].as_str().unwrap()).collect()
}

#[test]
fn options_stand_in_results_and_in_their_metadata() {
    let (_project, mut server) = served();
    let started = call(
        &mut server,
        "workflow.start",
        json!({ "workflow_name": "checked", "execution_id": "e" }),
    );
    let started_meta = &started["_meta"];
    assert!(started_meta.get("branchingEnabled").is_none(), "{started}");
    let token = started["structuredContent"]["new_token"].clone();
    let arguments = json!({ "token": token, "output": { "valid": false } });
    let done = call(&mut server, "workflow.next_step", arguments);
    let reply = &done["structuredContent"];
    let options = &reply["nextStepOptions"];
    assert_eq!(tools(options), ["error_handler_start", "workflow.next_step"]);
    assert_eq!(
        options[0],
        json!({
            "id": "check.1", "toolName": "error_handler_start", "parameters": { "of": "check" }, "priority": 100,
            "pattern": "valid:false", "from": "step", "continueWorkflow": false
        })
    );
    assert_eq!(
        options[1],
        json!({
            "id": "continue", "toolName": "workflow.next_step", "parameters": { "token": reply["new_token"] },
            "priority": 50, "from": "continue"
        })
    );
    let suggests = |meta: &Value| {
        assert_eq!(meta["branchingEnabled"], true, "{meta}");
        assert_eq!(meta["suggestedNextTool"], "error_handler_start", "{meta}");
    };
    suggests(&done["_meta"]);
    let uri = address("current_step", "e");
    for (name, arguments) in [
        ("execution.resume", json!({ "execution_id": "e" })),
        ("workflow.read", json!({ "uri": uri })),
    ] {
        let read = call(&mut server, name, arguments);
        suggests(&read["_meta"]);
    }
    let read = server.request("resources/read", json!({ "uri": uri }));
    suggests(&read["result"]["contents"][0]["_meta"]);
    assert_eq!(&server.current("e")["nextStepOptions"], options);
}

#[test]
fn a_choice_is_refused_with_what_was_offered_and_leaves_where_it_says_so() {
    let (_project, mut server) = served();
    let started = server.begin("checked", "e");
    let reply = server.hand_in(&started["new_token"], json!({ "valid": false }));
    let token = &reply["new_token"];
    let wrong = json!({ "token": token, "output": 1, "choice": "publish" });
    let refused = server.refused("workflow.next_step", wrong);
    assert_eq!(refused["error_code"], "CHOICE_UNKNOWN");
    assert_eq!(refused["context"]["choices"][0]["id"], "check.1");
    let neither = json!({ "token": token, "choice": "continue" });
    let refused = server.refused("workflow.next_step", neither);
    assert_eq!(refused["error_code"], "ARGUMENTS_INVALID");
    let leave = json!({ "token": token, "choice": "check.1" });
    let left = server.next_step(leave.clone());
    assert_eq!(left["workflow_state"], "diverged");
    let again = server.next_step(leave);
    again.has_fields(json!({ "replayed": true, "workflow_state": "diverged" }));
    let history = server.read(&address("step_history", "e"));
    let decision = &history[0]["branchDecision"];
    decision
        .has_fields(json!({ "toolName": "error_handler_start", "branchPattern": "valid:false" }));
}
