//! Changes of state, legal and illegal: every state that is not passing is reached by a tool, and stands in the way of what
//! it forbids.

use serde_json::{Value, json};

use midex_test::{
    Client, Fields, Server, output,
    project::{each, line, text},
};

/// Every state that an execution can be found in. The seventh, `idle`, lives only within the commit of a start.
const STATES: [&str; 6] = ["running", "paused", "completed", "failed", "abandoned", "diverged"];

/// Every tool that changes the state, with the state it leads to.
const CHANGES: [(&str, &str); 5] = [
    ("pause", "paused"),
    ("resume", "running"),
    ("abandon", "abandoned"),
    ("diverge", "diverged"),
    ("fail", "failed"),
];

const LEGAL: [(&str, &str); 6] = [
    ("running", "pause"),
    ("running", "abandon"),
    ("running", "diverge"),
    ("running", "fail"),
    ("paused", "resume"),
    ("paused", "abandon"),
];

/// Starts an execution and brings it into `state`; the token that it had last.
fn bring(server: &mut Server, id: &str, state: &str) -> Value {
    let mut token = server.begin("line", id)["new_token"].clone();
    match state {
        "running" => {}
        "completed" => {
            for _ in 0..3 {
                let reply = server.finish(&token, "s");
                token = reply.get("new_token").cloned().unwrap_or(token);
            }
        }
        state => {
            let (verb, _) = CHANGES.iter().find(|(_, to)| *to == state).unwrap();
            server.change(verb, id);
        }
    }
    assert_eq!(server.status(id)["state"], state);
    token
}

/// Everything that an execution shows of itself.
fn shown(server: &mut Server, id: &str) -> [Value; 3] {
    [server.status(id), server.current(id), json!(server.history(id))]
}

/// Fault F5 of the study: there were no tools to pause, resume, give up or fail an execution; four of seven states
/// could not be reached.
#[test]
fn f05_every_legal_change_is_made_by_its_tool() {
    let project = line();
    let mut server = project.serve();
    for (from, verb) in LEGAL {
        let id = format!("{from} {verb}");
        bring(&mut server, &id, from);
        let revision = server.status(&id)["revision"].as_u64().unwrap();
        let call = json!({ "execution_id": id, "reason": "a reason" });
        let changed = server.done(&format!("execution.{verb}"), call);
        let (_, to) = CHANGES.iter().find(|(name, _)| *name == verb).unwrap();
        assert_eq!(
            (&changed["success"], &changed["workflow_state"]),
            (&json!(true), &json!(to)),
            "{id}"
        );
        let status = server.status(&id);
        assert_eq!(status["state"], *to, "{id}");
        status.has_fields(json!({ "revision": revision + 1, "reason": "a reason" }));
        let ended = !["running", "paused"].contains(to);
        assert_eq!(
            (status["completed_at"].is_string(), status["duration_ms"].is_u64()),
            (ended, ended),
            "{id}"
        );
        assert_eq!(status["current_step"], if ended { Value::Null } else { json!("a") });
        assert_eq!(
            status["pause_reasons"],
            if *to == "paused" { json!(["person"]) } else { json!([]) }
        );
        let current = server.current(&id);
        assert_eq!(current["workflow_state"], *to, "{id}");
        assert_eq!(current["continuation_token"].is_string(), !ended, "{id}");
        let told = server.telemetry(&id);
        let told =
            told.iter().rfind(|event| event["event_type"] == "workflow_state_transition").unwrap();
        assert_eq!(told["metadata"], json!({ "old_state": from, "new_state": to }), "{id}");
    }
}

/// "should reject invalid state transitions"
#[test]
fn every_illegal_change_is_refused_with_both_states_and_changes_nothing() {
    let project = line();
    let mut server = project.serve();
    let mut refusals = 0;
    for from in STATES {
        bring(&mut server, from, from);
        let before = shown(&mut server, from);
        for (verb, to) in CHANGES {
            if LEGAL.contains(&(from, verb)) {
                continue;
            }
            let call = json!({ "execution_id": from, "reason": "a reason" });
            if verb == "resume" {
                // There is nothing to lift: it reads, whatever the state.
                let read = server.done("execution.resume", call);
                assert_eq!(read["workflow_state"], from);
                assert_eq!(shown(&mut server, from), before, "{from} {verb}");
                continue;
            }
            let refused = server.refused(&format!("execution.{verb}"), call);
            assert_eq!(
                refused["error_code"], "STATE_TRANSITION_REFUSED",
                "{from} {verb}: {refused}"
            );
            let message = text(&refused["error"]);
            assert!(
                message.contains(&format!("`{from}`")) && message.contains(&format!("`{to}`")),
                "{message}"
            );
            refused.has_fields(json!({ "execution_id": from, "workflow_state": from }));
            assert_eq!(shown(&mut server, from), before, "{from} {verb}");
            refusals += 1;
        }
    }
    let reads = STATES.len() - 1;
    assert_eq!(refusals + reads, STATES.len() * CHANGES.len() - LEGAL.len());
}

/// "should transition states correctly"
#[test]
fn an_execution_runs_at_its_current_step_and_completes_with_its_time() {
    let project = line();
    let mut server = project.serve();
    let mut token = server.begin("line", "e")["new_token"].clone();
    for step in ["a", "b", "c"] {
        let status = server.status("e");
        status.has_fields(json!({ "state": "running", "current_step": step }));
        status.has_fields(json!({ "completed_at": null, "duration_ms": null }));
        token = server.finish(&token, step).get("new_token").cloned().unwrap_or_default();
    }
    let status = server.status("e");
    status.has_fields(json!({ "state": "completed", "current_step": null }));
    assert!(text(&status["completed_at"]) >= text(&status["started_at"]));
    assert_eq!(status["completed_at"], status["updated_at"]);
    assert!(status["duration_ms"].is_u64());
    assert_eq!(status["final_output"], output("c"));
}

/// A pause keeps the step and its token; it holds through a restart.
#[test]
fn a_paused_execution_goes_on_where_it_was_when_it_is_resumed() {
    let project = line();
    let mut server = project.serve();
    let second = server.begin("line", "e")["new_token"].clone();
    let token = server.finish(&second, "s")["new_token"].clone();
    server.change("pause", "e");
    server.kill();
    let mut server = project.serve();
    let refused = server.refuse(&token, output("s"));
    refused.has_fields(json!({ "error_code": "EXECUTION_PAUSED", "workflow_state": "paused" }));
    assert_eq!(server.finish(&second, "s")["replayed"], true);
    server.change("resume", "e");
    let current = server.current("e");
    current.has_fields(json!({ "current_step": "b", "continuation_token": token }));
    assert_eq!(server.finish(&token, "s")["step_name"], "c");
}

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
        refused.has_fields(json!({ "execution_id": state, "workflow_state": state }));
        assert_eq!(server.status(state), before);
        assert_eq!(each(&server.history(state), "step_name"), ["a"], "no step was opened");
    }
    let token = server.current("paused")["continuation_token"].clone();
    server.change("resume", "paused");
    assert_eq!(server.finish(&token, "the token was kept")["step_name"], "b");
}

/// Fault F5 of the study: no step could be reported as failed.
#[test]
fn f05_a_step_that_could_not_be_done_fails_the_execution_with_its_reason() {
    let project = line();
    let mut server = project.serve();
    let token = server.begin("line", "e")["new_token"].clone();
    let error = json!({ "message": "there is no disk", "code": "NO_DISK" });
    let reply = server.next_step(json!({ "token": token, "error": error }));
    let failure = json!({ "code": "NO_DISK", "message": "there is no disk", "step_name": "a", "step_id": "a" });
    reply.has_fields(json!({ "success": true, "workflow_state": "failed", "failure": failure }));
    let status = server.status("e");
    status.has_fields(json!({ "state": "failed", "error": failure }));
    assert_eq!(status["steps"]["failed"], 1);
    let history = server.history("e");
    assert_eq!((history.len(), &history[0]["status"]), (1, &json!("failed")));
    assert_eq!(history[0]["error"]["message"], "there is no disk");
    let told = each(&server.telemetry("e"), "event_type");
    assert!(
        told.contains(&"step_failed".to_owned()) && told.contains(&"workflow_failed".to_owned()),
        "{told:?}"
    );
}
