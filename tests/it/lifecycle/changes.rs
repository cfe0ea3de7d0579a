//! Changes of state, legal and illegal.

use serde_json::{Value, json};

use crate::support::{
    Client, Server, output,
    project::{line, text},
};

/// Every state that an execution can be found in. The seventh, `idle`, lives only within the commit of a start.
const STATES: [&str; 6] = [
    "running",
    "paused",
    "completed",
    "failed",
    "abandoned",
    "diverged",
];

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
    [
        server.status(id),
        server.current(id),
        json!(server.history(id)),
    ]
}

/// "should handle all valid state transitions"
#[test]
fn every_legal_change_is_made_by_its_tool() {
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
        assert_eq!(
            (&status["revision"], &status["reason"]),
            (&json!(revision + 1), &json!("a reason"))
        );
        let ended = !["running", "paused"].contains(to);
        assert_eq!(
            (
                status["completed_at"].is_string(),
                status["duration_ms"].is_u64()
            ),
            (ended, ended),
            "{id}"
        );
        assert_eq!(
            status["current_step"],
            if ended { Value::Null } else { json!("a") }
        );
        assert_eq!(
            status["pause_reasons"],
            if *to == "paused" {
                json!(["person"])
            } else {
                json!([])
            }
        );
        let told = server.telemetry(&id);
        let told = told
            .iter()
            .rfind(|event| event["event_type"] == "workflow_state_transition")
            .unwrap();
        assert_eq!(
            told["metadata"],
            json!({ "old_state": from, "new_state": to }),
            "{id}"
        );
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
            assert_eq!(
                (&refused["execution_id"], &refused["workflow_state"]),
                (&json!(from), &json!(from))
            );
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
        assert_eq!(
            (&status["state"], &status["current_step"]),
            (&json!("running"), &json!(step))
        );
        assert_eq!(
            (&status["completed_at"], &status["duration_ms"]),
            (&Value::Null, &Value::Null)
        );
        token = server
            .finish(&token, step)
            .get("new_token")
            .cloned()
            .unwrap_or_default();
    }
    let status = server.status("e");
    assert_eq!(
        (&status["state"], &status["current_step"]),
        (&json!("completed"), &Value::Null)
    );
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
    assert_eq!(
        (&refused["error_code"], &refused["workflow_state"]),
        (&json!("EXECUTION_PAUSED"), &json!("paused"))
    );
    assert_eq!(server.finish(&second, "s")["replayed"], true);
    server.change("resume", "e");
    let current = server.current("e");
    assert_eq!(
        (&current["current_step"], &current["continuation_token"]),
        (&json!("b"), &token)
    );
    assert_eq!(server.finish(&token, "s")["step_name"], "c");
}
