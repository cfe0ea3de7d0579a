//! The main job over MCP: a raw client against the real binary.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]
#![allow(clippy::needless_pass_by_value, reason = "`json!` makes values that nobody else wants")]

mod arguments;
mod asked;
mod beside;
mod chosen;
mod clumsy;
mod codes;
mod definitions;
mod errors;
mod flows;
mod frames;
mod fuzz;
mod given;
mod lifecycle;
mod limits;
mod lists;
mod lives;
mod names;
mod options;
mod people;
mod processes;
mod reads;
mod replies;
mod resources;
mod schemas;
mod served;
mod session_tasks;
mod subscriptions;
mod tasks;
mod times;
mod token;
mod transport;
mod unknown;
mod values;

use std::{collections::HashSet, time::Duration};

use serde_json::{Value, json};

use midex_test::{Client, Fields, Server, address};

const STEPS: [(&str, &str); 3] =
    [("design", "architect"), ("implement", "implementer"), ("review", "reviewer")];

fn start(server: &mut Server, id: &str) -> Value {
    server.begin("feature-development", id)
}

fn next(server: &mut Server, token: &Value, summary: &str) -> Value {
    server.finish(token, summary)
}

fn keys(value: &Value) -> HashSet<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn has(value: &Value, wanted: &str) {
    let keys = keys(value);
    for key in wanted.split(' ') {
        assert!(keys.contains(&key), "{key} is missing in {value}");
    }
}

#[test]
fn a_shipped_workflow_runs_from_start_to_completed() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let listed = server.read("midex://workflow/available_workflows");
    let listed: Vec<_> =
        listed.as_array().unwrap().iter().filter(|w| w["name"] == "feature-development").collect();
    has(listed[0], "name description tags complexity phases");
    assert_eq!(listed[0]["complexity"], "high");

    let mut step = start(&mut server, "exec_001");
    step.has_fields(
        json!({ "message": "Workflow 'feature-development' started. Step 'design' ready." }),
    );
    for (at, (name, agent)) in STEPS.iter().enumerate() {
        step.has_fields(json!({ "step_name": name, "agent_name": agent }));
        step.has_fields(json!({ "workflow_state": "running", "success": true }));
        assert_eq!(step["progress"], format!("{}/3", at + 1));
        let listed = step["new_tokens"].as_array().unwrap();
        assert_eq!(listed.len(), 1);
        listed[0].has_fields(json!({ "step_name": name, "agent_name": agent, "continuation_token": step["new_token"] }));
        assert!(step["agent_content"].as_str().unwrap().len() > 1000, "a persona worth reading");
        step = next(&mut server, &step["new_token"], name);
    }
    step.has_fields(
        json!({ "workflow_state": "completed", "message": "Workflow completed successfully" }),
    );
    assert!(step["new_token"].is_null() && step["step_name"].is_null());

    let status = server.status("exec_001");
    status.has_fields(json!({ "state": "completed", "/steps/completed": 3 }));
    assert!(status["completed_at"].is_string() && status["duration_ms"].is_number());
}

#[test]
fn the_resources_have_every_field_of_the_documents() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let first = start(&mut server, "exec_001");
    let current = server.current("exec_001");
    has(
        &current,
        "execution_id workflow_name workflow_state current_step step_status agent_name progress \
         continuation_token agent_content instructions ready_steps expires_at",
    );
    current.has_fields(json!({ "current_step": "design", "step_status": "running" }));
    assert_eq!(current["continuation_token"], first["new_token"]);
    assert_eq!(current["agent_content"], first["agent_content"]);
    next(&mut server, &first["new_token"], "done");

    let status = server.status("exec_001");
    has(
        &status,
        "execution_id workflow_name state current_step started_at updated_at completed_at duration_ms steps \
         revision",
    );
    assert_eq!(
        status["steps"],
        json!({ "total": 3, "completed": 1, "failed": 0, "running": 1, "pending": 1, "skipped": 0 })
    );
    assert!(status["completed_at"].is_null() && status["duration_ms"].is_null());
    let started = status["started_at"].as_str().unwrap();
    assert!(started.len() == 24 && started.ends_with('Z'), "{started}");

    let history = server.read(&address("step_history", "exec_001"));
    assert_eq!(history.as_array().unwrap().len(), 2);
    has(&history[0], "step_name agent_name status started_at completed_at duration_ms output");
    history.has_fields(json!({ "/0/status": "completed", "/0/output/summary": "done" }));
    history[1].has_fields(json!({ "status": "running", "output": null }));

    let details = server.read("midex://workflow/workflow_details/feature-development");
    has(&details, "name description content tags complexity phases");
}

#[test]
fn telemetry_tells_what_happened_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let mut step = start(&mut server, "exec_001");
    for (name, _) in STEPS {
        step = next(&mut server, &step["new_token"], name);
    }
    start(&mut server, "other");
    let told = server.read(&address("telemetry", "exec_001"));
    let told = told.as_array().unwrap();
    let types: Vec<_> = told.iter().map(|event| event["event_type"].as_str().unwrap()).collect();
    let between = ["token_validated", "step_completed", "step_started", "token_generated"];
    let mut expected = vec![
        "workflow_created",
        "workflow_state_transition",
        "workflow_started",
        "step_started",
        "token_generated",
    ];
    expected.extend(between);
    expected.extend(between);
    expected.extend([
        "token_validated",
        "step_completed",
        "workflow_state_transition",
        "workflow_completed",
    ]);
    assert_eq!(types, expected);
    let ids: Vec<_> = told.iter().map(|event| event["id"].as_u64().unwrap()).collect();
    assert!(ids.is_sorted() && ids.iter().collect::<HashSet<_>>().len() == ids.len());
    has(&told[0], "id event_type execution_id step_name agent_name metadata created_at");
    told[0].has_fields(json!({ "metadata": { "workflow_name": "feature-development" } }));
    assert_eq!(told[4]["metadata"], json!({ "step_name": "design" }));
    assert_eq!(told.last().unwrap()["metadata"], json!({ "total_steps": 3 }));

    let uri = format!("{}?event_type=step_completed&limit=2", address("telemetry", "exec_001"));
    let some = server.read(&uri);
    let steps: Vec<_> = some.as_array().unwrap().iter().map(|event| &event["step_name"]).collect();
    assert_eq!(steps, [&json!("implement"), &json!("review")], "the latest two, oldest first");
    let all = server.read("midex://workflow/telemetry?event_type=workflow_created");
    assert_eq!(all.as_array().unwrap().len(), 2);
    for bad in ["?event_type=nonsense", "?limit=0", "?limit=x", "?limit=1001", "?other=1"] {
        let error = server.read_error(&format!("midex://workflow/telemetry{bad}"));
        assert_eq!(error["data"]["error_code"], "ARGUMENTS_INVALID", "{bad}: {error}");
    }
}

#[test]
fn outputs_and_arguments_are_checked_and_all_violations_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let first = start(&mut server, "exec_001");
    let refused = server.refuse(&first["new_token"], json!({ "artifacts": "x", "findings": [1] }));
    assert_eq!(refused["error_code"], "STEP_OUTPUT_INVALID");
    let paths: Vec<_> = refused["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths.len(), 3, "{refused}");
    assert!(paths.contains(&"/artifacts") && paths.contains(&"/findings/0") && paths.contains(&""));
    refused.has_fields(json!({ "step_id": "design", "execution_id": "exec_001" }));
    let cases = [
        ("workflow.start", json!({}), 1),
        ("workflow.start", json!({ "workflow_name": 1, "inputs": [], "more": 1 }), 3),
        ("workflow.next_step", json!({ "output": 1, "other": 2 }), 2),
        ("workflow.next_step", json!({ "token": "x" }), 1),
        (
            "workflow.next_step",
            json!({ "token": "x", "output": 1, "error": { "message": "m" } }),
            1,
        ),
        ("workflow.next_step", json!({ "token": "x", "error": { "retryable": "no" } }), 2),
    ];
    for (tool, arguments, count) in cases {
        let refused = server.refused(tool, arguments);
        assert_eq!(refused["error_code"], "ARGUMENTS_INVALID", "{refused}");
        assert_eq!(refused["violations"].as_array().unwrap().len(), count, "{refused}");
    }
    next(&mut server, &first["new_token"], "the token is still valid");
}

#[expect(clippy::disallowed_methods, reason = "it looks at a real process")]
fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}
