//! The main job over MCP: a raw client against the real binary.

mod arguments;
mod definitions;
mod errors;
mod frames;
mod fuzz;
mod lives;
mod names;
mod processes;
mod replies;
mod resources;
mod schemas;
mod times;
mod transport;
mod unknown;
mod values;

use std::{collections::HashSet, time::Duration};

use serde_json::{Value, json};

use crate::support::{Client, Server, address, output};

const STEPS: [(&str, &str); 3] = [
    ("design", "architect"),
    ("implement", "implementer"),
    ("review", "reviewer"),
];

fn start(server: &mut Server, id: &str) -> Value {
    server.begin("feature-development", id)
}

fn next(server: &mut Server, token: &Value, summary: &str) -> Value {
    server.finish(token, summary)
}

fn keys(value: &Value) -> HashSet<&str> {
    value
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect()
}

fn has(value: &Value, wanted: &[&str]) {
    let keys = keys(value);
    for key in wanted {
        assert!(keys.contains(key), "{key} is missing in {value}");
    }
}

#[test]
fn a_shipped_workflow_runs_from_start_to_completed() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let listed = server.read("midex://workflow/available_workflows");
    let listed: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .filter(|w| w["name"] == "feature-development")
        .collect();
    has(
        listed[0],
        &["name", "description", "tags", "complexity", "phases"],
    );
    assert_eq!(listed[0]["complexity"], "high");

    let mut step = start(&mut server, "exec_001");
    assert_eq!(
        step["message"],
        "Workflow 'feature-development' started. Step 'design' ready."
    );
    for (at, (name, agent)) in STEPS.iter().enumerate() {
        assert_eq!(
            (&step["step_name"], &step["agent_name"]),
            (&json!(name), &json!(agent))
        );
        assert_eq!(
            (&step["workflow_state"], &step["success"]),
            (&json!("running"), &json!(true))
        );
        assert_eq!(step["progress"], format!("{}/3", at + 1));
        let named = json!([{ "step_name": name, "agent_name": agent }]);
        assert_eq!(step["new_tokens"], named, "its token stands beside it");
        assert!(
            step["agent_content"].as_str().unwrap().len() > 1000,
            "a persona worth reading"
        );
        step = next(&mut server, &step["new_token"], name);
    }
    assert_eq!(
        (&step["workflow_state"], &step["message"]),
        (
            &json!("completed"),
            &json!("Workflow completed successfully")
        )
    );
    assert!(step["new_token"].is_null() && step["step_name"].is_null());

    let status = server.status("exec_001");
    assert_eq!(
        (&status["state"], &status["steps"]["completed"]),
        (&json!("completed"), &json!(3))
    );
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
        &[
            "execution_id",
            "workflow_name",
            "workflow_state",
            "current_step",
            "step_status",
            "agent_name",
            "progress",
            "continuation_token",
            "agent_content",
            "instructions",
            "ready_steps",
            "expires_at",
        ],
    );
    assert_eq!(
        (&current["current_step"], &current["step_status"]),
        (&json!("design"), &json!("running"))
    );
    assert_eq!(current["continuation_token"], first["new_token"]);
    assert_eq!(current["agent_content"], first["agent_content"]);
    next(&mut server, &first["new_token"], "done");

    let status = server.status("exec_001");
    has(
        &status,
        &[
            "execution_id",
            "workflow_name",
            "state",
            "current_step",
            "started_at",
            "updated_at",
            "completed_at",
            "duration_ms",
            "steps",
            "revision",
        ],
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
    has(
        &history[0],
        &[
            "step_name",
            "agent_name",
            "status",
            "started_at",
            "completed_at",
            "duration_ms",
            "output",
        ],
    );
    assert_eq!(
        (&history[0]["status"], &history[0]["output"]["summary"]),
        (&json!("completed"), &json!("done"))
    );
    assert_eq!(
        (&history[1]["status"], &history[1]["output"]),
        (&json!("running"), &Value::Null)
    );

    let details = server.read("midex://workflow/workflow_details/feature-development");
    has(
        &details,
        &[
            "name",
            "description",
            "content",
            "tags",
            "complexity",
            "phases",
        ],
    );
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
    let types: Vec<_> = told
        .iter()
        .map(|event| event["event_type"].as_str().unwrap())
        .collect();
    let between = [
        "token_validated",
        "step_completed",
        "step_started",
        "token_generated",
    ];
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
    let ids: Vec<_> = told
        .iter()
        .map(|event| event["id"].as_u64().unwrap())
        .collect();
    assert!(ids.is_sorted() && ids.iter().collect::<HashSet<_>>().len() == ids.len());
    has(
        &told[0],
        &[
            "id",
            "event_type",
            "execution_id",
            "step_name",
            "agent_name",
            "metadata",
            "created_at",
        ],
    );
    assert_eq!(
        told[0]["metadata"],
        json!({ "workflow_name": "feature-development" })
    );
    assert_eq!(told[4]["metadata"], json!({ "step_name": "design" }));
    assert_eq!(
        told.last().unwrap()["metadata"],
        json!({ "total_steps": 3 })
    );

    let uri = format!(
        "{}?event_type=step_completed&limit=2",
        address("telemetry", "exec_001")
    );
    let some = server.read(&uri);
    let steps: Vec<_> = some
        .as_array()
        .unwrap()
        .iter()
        .map(|event| &event["step_name"])
        .collect();
    assert_eq!(
        steps,
        [&json!("implement"), &json!("review")],
        "the latest two, oldest first"
    );
    let all = server.read("midex://workflow/telemetry?event_type=workflow_created");
    assert_eq!(all.as_array().unwrap().len(), 2);
    for bad in [
        "?event_type=nonsense",
        "?limit=0",
        "?limit=x",
        "?limit=1001",
        "?other=1",
    ] {
        let error = server.read_error(&format!("midex://workflow/telemetry{bad}"));
        assert_eq!(
            error["data"]["error_code"], "ARGUMENTS_INVALID",
            "{bad}: {error}"
        );
    }
}

#[test]
fn every_refusal_of_a_token_has_its_own_code() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start_with(dir.path(), &["--token-ttl", "1s"]);
    let first = start(&mut server, "exec_001");
    let token = first["new_token"].as_str().unwrap().to_owned();
    let mut refused = |token: &str| server.refuse(token, output("x"));
    let malformed = refused("garbage");
    assert_eq!(
        (&malformed["error_code"], &malformed["error"]),
        (
            &json!("TOKEN_MALFORMED"),
            &json!("Invalid or malformed token")
        )
    );
    assert_eq!(
        (&malformed["execution_id"], &malformed["workflow_state"]),
        (&json!(""), &json!("failed"))
    );
    has(
        &malformed,
        &[
            "success",
            "error",
            "error_code",
            "category",
            "message",
            "context",
            "retryable",
            "suggested_action",
            "correlation_id",
        ],
    );
    let change = |from: &str, to: &str| {
        use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as base64url};
        let text = String::from_utf8(base64url.decode(&token).unwrap()).unwrap();
        assert!(text.contains(from), "{text}");
        base64url.encode(text.replace(from, to))
    };
    assert_eq!(
        refused(&change("exec_001", "exec_002"))["error_code"],
        "EXECUTION_NOT_FOUND"
    );
    let foreign = refused(&change("design", "review"));
    assert_eq!(foreign["error_code"], "TOKEN_MISMATCH");
    assert_eq!(
        (&foreign["execution_id"], &foreign["workflow_state"]),
        (&json!("exec_001"), &json!("running"))
    );
    assert_eq!(
        refused(&change("\"issued_at\":\"20", "\"issued_at\":\"21"))["error_code"],
        "TOKEN_FROM_FUTURE"
    );
    assert_eq!(
        refused(&token[..token.len() - 8])["error_code"],
        "TOKEN_MALFORMED"
    );
    outlive_a_second();
    let expired = refused(&token);
    assert_eq!(expired["error_code"], "TOKEN_EXPIRED");
    assert!(
        expired["error"]
            .as_str()
            .unwrap()
            .starts_with("Token expired (issued "),
        "{expired}"
    );
    assert!(
        expired["suggested_action"]
            .as_str()
            .unwrap()
            .contains("midex://workflow/current_step/exec_001")
    );
    let status = server.status("exec_001");
    assert_eq!(status["revision"], 1, "no refusal changed anything");
}

#[test]
fn a_repeated_call_gets_the_recorded_answer_and_another_output_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let first = start(&mut server, "exec_001");
    let answer = next(&mut server, &first["new_token"], "done");
    let mut again = next(&mut server, &first["new_token"], "done");
    assert_eq!(again["replayed"], true);
    again.as_object_mut().unwrap().remove("replayed");
    assert_eq!(again, answer);
    let refused = server.refuse(&first["new_token"], output("something else"));
    assert_eq!(refused["error_code"], "TOKEN_ALREADY_USED");
    assert!(
        refused["error"]
            .as_str()
            .unwrap()
            .contains("running, at 'implement'"),
        "{refused}"
    );
    assert_eq!(
        start_again(&mut server, "feature-development")["error_code"],
        "EXECUTION_ID_TAKEN"
    );
}

fn start_again(server: &mut Server, workflow: &str) -> Value {
    server.refused(
        "workflow.start",
        json!({ "workflow_name": workflow, "execution_id": "exec_001" }),
    )
}

#[test]
fn outputs_and_arguments_are_checked_and_all_violations_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let first = start(&mut server, "exec_001");
    let refused = server.refuse(
        &first["new_token"],
        json!({ "artifacts": "x", "findings": [1] }),
    );
    assert_eq!(refused["error_code"], "STEP_OUTPUT_INVALID");
    let paths: Vec<_> = refused["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths.len(), 3, "{refused}");
    assert!(paths.contains(&"/artifacts") && paths.contains(&"/findings/0") && paths.contains(&""));
    assert_eq!(
        (&refused["step_id"], &refused["execution_id"]),
        (&json!("design"), &json!("exec_001"))
    );
    let cases = [
        ("workflow.start", json!({}), 1),
        (
            "workflow.start",
            json!({ "workflow_name": 1, "inputs": [], "more": 1 }),
            3,
        ),
        ("workflow.next_step", json!({ "output": 1, "other": 2 }), 2),
        ("workflow.next_step", json!({ "token": "x" }), 1),
        (
            "workflow.next_step",
            json!({ "token": "x", "output": 1, "error": { "message": "m" } }),
            1,
        ),
        (
            "workflow.next_step",
            json!({ "token": "x", "error": { "retryable": "no" } }),
            2,
        ),
    ];
    for (tool, arguments, count) in cases {
        let refused = server.refused(tool, arguments);
        assert_eq!(refused["error_code"], "ARGUMENTS_INVALID", "{refused}");
        assert_eq!(
            refused["violations"].as_array().unwrap().len(),
            count,
            "{refused}"
        );
    }
    next(&mut server, &first["new_token"], "the token is still valid");
}

#[test]
fn a_step_that_could_not_be_done_is_reported_with_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let first = start(&mut server, "exec_001");
    let report = json!({ "token": first["new_token"], "error": { "message": "no access", "code": "NO_ACCESS" } });
    let failed = server.done("workflow.next_step", report);
    assert_eq!(
        (&failed["success"], &failed["workflow_state"]),
        (&json!(true), &json!("failed"))
    );
    assert_eq!(
        failed["failure"],
        json!({ "code": "NO_ACCESS", "message": "no access", "step_name": "design" })
    );
    let status = server.status("exec_001");
    assert_eq!(
        (&status["state"], &status["error"]["code"]),
        (&json!("failed"), &json!("NO_ACCESS"))
    );
}

#[expect(
    clippy::disallowed_methods,
    reason = "the life of a token in a real process"
)]
fn outlive_a_second() {
    std::thread::sleep(Duration::from_millis(1100));
}

#[expect(
    clippy::disallowed_methods,
    reason = "between two looks at a real process"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}
