//! The seven states: every one that is not passing is reached by a tool, and stands in the way of what it forbids.

use serde_json::json;

use crate::support::{
    Client, output,
    project::{each, line, list, text},
};

/// Each tool that changes the state, and the state it leads to.
const CHANGES: [(&str, &str); 5] = [
    ("pause", "paused"),
    ("resume", "running"),
    ("abandon", "abandoned"),
    ("diverge", "diverged"),
    ("fail", "failed"),
];

/// Fault F4 of the study: executions that were paused, abandoned or failed went on as if they were not.
#[test]
fn f04_an_execution_that_is_not_running_does_not_go_on() {
    let project = line();
    let mut server = project.serve();
    for (verb, state) in CHANGES {
        if state == "running" {
            continue;
        }
        let token = server.begin("line", state)["new_token"].clone();
        server.change(verb, state);
        let before = server.status(state);
        let refused = server.refuse(&token, output("on I go"));
        let code = match state {
            "paused" => "EXECUTION_PAUSED",
            // Its steps were closed, and their tokens are void.
            _ => "TOKEN_SUPERSEDED",
        };
        assert_eq!(refused["error_code"], code, "{refused}");
        assert_eq!(
            (&refused["execution_id"], &refused["workflow_state"]),
            (&json!(state), &json!(state))
        );
        assert_eq!(server.status(state), before);
        assert_eq!(
            each(&server.history(state), "step_name"),
            ["a"],
            "no step was opened"
        );
    }
    let token = server.current("paused")["continuation_token"].clone();
    server.change("resume", "paused");
    assert_eq!(
        server.finish(&token, "the token was kept")["step_name"],
        "b"
    );
}

/// Fault F5 of the study: there were no tools to pause, resume, give up or fail an execution; four of seven states
/// could not be reached.
#[test]
fn f05_each_lifecycle_tool_exists_and_reaches_its_state() {
    let project = line();
    let mut server = project.serve();
    let tools = list(&server.request("tools/list", json!({}))["result"]["tools"]);
    let tools = each(&tools, "name");
    for (verb, state) in CHANGES {
        assert!(
            tools.contains(&format!("execution.{verb}")),
            "{verb} is missing in {tools:?}"
        );
        server.begin("line", verb);
        if verb == "resume" {
            server.change("pause", verb);
        }
        let changed = server.change(verb, verb);
        assert_eq!(
            (&changed["success"], &changed["workflow_state"]),
            (&json!(true), &json!(state))
        );
        let status = server.status(verb);
        assert_eq!(status["state"], state);
        assert_eq!(status["reason"], format!("to {verb} it"));
        assert_eq!(
            status["completed_at"].is_string(),
            !["running", "paused"].contains(&state)
        );
        let current = server.current(verb);
        assert_eq!(current["workflow_state"], state);
        assert_eq!(
            current["continuation_token"].is_string(),
            ["running", "paused"].contains(&state)
        );
    }
}

/// Fault F5 of the study: no step could be reported as failed.
#[test]
fn f05_a_step_that_could_not_be_done_fails_the_execution_with_its_reason() {
    let project = line();
    let mut server = project.serve();
    let token = server.begin("line", "e")["new_token"].clone();
    let error = json!({ "message": "there is no disk", "code": "NO_DISK" });
    let reply = server.done(
        "workflow.next_step",
        json!({ "token": token, "error": error }),
    );
    let failure = json!({ "code": "NO_DISK", "message": "there is no disk", "step_name": "a" });
    assert_eq!(
        (&reply["workflow_state"], &reply["failure"]),
        (&json!("failed"), &failure)
    );
    let status = server.status("e");
    assert_eq!(
        (&status["state"], &status["error"]),
        (&json!("failed"), &failure)
    );
    assert_eq!(status["steps"]["failed"], 1);
    let history = server.history("e");
    assert_eq!(
        (history.len(), &history[0]["status"]),
        (1, &json!("failed"))
    );
    assert_eq!(history[0]["error"]["message"], "there is no disk");
    let told = each(&server.telemetry("e"), "event_type");
    assert!(
        told.contains(&"step_failed".to_owned()) && told.contains(&"workflow_failed".to_owned()),
        "{told:?}"
    );
}

/// Fault F5 of the study: executions could not be listed.
#[test]
fn f05_executions_are_listed_by_a_tool_and_a_resource() {
    let project = line();
    let mut server = project.serve();
    server.begin("line", "one");
    server.begin("line", "two");
    server.change("pause", "one");
    let listed = server.done("execution.list", json!({}));
    let executions = list(&listed["executions"]);
    assert_eq!(
        each(&executions, "execution_id"),
        ["one", "two"],
        "the one that moved last first"
    );
    assert_eq!(each(&executions, "state"), ["paused", "running"]);
    for execution in &executions {
        assert_eq!(
            (
                text(&execution["workflow_name"]),
                text(&execution["current_step"])
            ),
            ("line", "a")
        );
        assert!(execution["started_at"].is_string() && execution["updated_at"].is_string());
    }
    let resource = server.read("midex://workflow/executions");
    assert_eq!(resource["executions"], listed["executions"]);
}
