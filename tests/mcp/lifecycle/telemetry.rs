//! "should record telemetry for all operations": which events, in which order, with what in them.

use serde_json::{Value, json};

use midex_test::{
    Client, output,
    project::{each, line, list, outlive, text},
};

const START: [&str; 5] = [
    "workflow_created",
    "workflow_state_transition",
    "workflow_started",
    "step_started",
    "token_generated",
];

#[track_caller]
fn ordered(events: &[Value]) {
    let ids: Vec<_> = events.iter().map(|event| event["id"].as_u64().unwrap()).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
    let times = each(events, "created_at");
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn a_run_of_three_steps_with_an_artifact_each_tells_twenty_events_in_order() {
    let project = line();
    let mut server = project.serve();
    let mut token = server.begin("line", "e")["new_token"].clone();
    for step in ["a", "b", "c"] {
        let artifact = json!({ "type": "file", "name": step, "content": step });
        let reply = server.hand_in(&token, json!({ "summary": step, "artifacts": [artifact] }));
        token = reply["new_token"].clone();
    }
    let events = server.telemetry("e");
    let done = ["token_validated", "step_completed", "artifact_stored"];
    let next = ["step_started", "token_generated"];
    let end = ["workflow_state_transition", "workflow_completed"];
    let expected = [&START[..], &done, &next, &done, &next, &done, &end].concat();
    assert_eq!(each(&events, "event_type"), expected);
    assert_eq!(events.len(), 20);
    ordered(&events);
    let told =
        |at: usize, metadata: Value| assert_eq!(events[at]["metadata"], metadata, "{}", events[at]);
    told(0, json!({ "workflow_name": "line" }));
    told(1, json!({ "old_state": "idle", "new_state": "running" }));
    told(2, json!({ "workflow_name": "line" }));
    told(3, Value::Null);
    told(4, json!({ "step_name": "a" }));
    told(5, json!({ "step_name": "a" }));
    assert!(events[6]["metadata"]["duration_ms"].is_u64());
    assert_eq!(events[7]["metadata"]["artifact_id"], 1);
    told(18, json!({ "old_state": "running", "new_state": "completed" }));
    told(19, json!({ "total_steps": 3 }));
    for event in &events {
        assert_eq!(event["execution_id"], "e");
        let of_step = !text(&event["event_type"]).starts_with("workflow");
        assert_eq!(event["step_name"].is_string(), of_step, "{event}");
    }
    assert_eq!(events[3]["agent_name"], "worker");
    assert_eq!(events[6]["step_name"], "a");
}

#[test]
fn failures_refusals_and_changes_of_state_are_told_too() {
    let project = line();
    let mut server = project.serve();
    let token = server.begin("line", "e")["new_token"].clone();
    server.refuse(&token, json!({}));
    server.refuse(json!(text(&token).repeat(2)), output("s"));
    server.change("pause", "e");
    server.change("resume", "e");
    server.next_step(json!({ "token": token, "error": { "message": "no" } }));
    let events = server.telemetry("e");
    let after = ["error", "workflow_state_transition", "workflow_state_transition"];
    let end = ["token_validated", "step_failed", "workflow_state_transition", "workflow_failed"];
    assert_eq!(each(&events, "event_type"), [&START[..], &after, &end].concat());
    ordered(&events);
    assert_eq!(events[9]["metadata"]["error"], "no");
    assert_eq!(events[11]["metadata"]["error"], "no");
    let all = list(&server.read("midex://workflow/telemetry?limit=1000"));
    ordered(&all);
    assert_eq!(all.len(), events.len() + 1, "a token that names no execution is told of none");
    assert_eq!(list(&server.read("midex://workflow/telemetry?limit=4")), all[all.len() - 4..]);
    let errors = list(&server.read("midex://workflow/telemetry/e?event_type=error"));
    assert_eq!(errors, events[5..6]);
}

#[test]
fn a_token_that_expired_and_the_one_that_replaced_it_are_told() {
    let project = line();
    let mut server = project.serve_with(&["--token-ttl", "1s"]);
    let first = server.begin("line", "e");
    outlive(&first["expires_at"]);
    server.refuse(&first["new_token"], output("late"));
    server.current("e");
    let events = server.telemetry("e");
    let after = ["token_expired", "token_generated"];
    assert_eq!(each(&events, "event_type"), [&START[..], &after].concat());
    ordered(&events);
    assert!(text(&events[5]["metadata"]["error"]).starts_with("Token expired (issued "));
    assert_eq!(events[6]["metadata"]["step_name"], "a");
}
