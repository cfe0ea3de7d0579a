//! Starting an execution and going through its steps.

use serde_json::json;

use midex_test::{
    Client, Fields, address, output,
    project::{Project, each, line, list, text, workflow},
};

/// "should create workflow execution", "should start workflow and create first step"
#[test]
fn a_start_creates_the_execution_and_its_first_step() {
    let project = line();
    let mut server = project.serve();
    let first = server.begin("line", "my own id");
    first.has_fields(json!({ "success": true, "execution_id": "my own id" }));
    first.has_fields(json!({ "step_name": "a", "agent_name": "worker" }));
    assert_eq!(first["workflow_state"], "running");
    assert!(
        first["new_token"].is_string() && text(&first["agent_content"]).contains("You do what")
    );
    let status = server.status("my own id");
    status.has_fields(json!({ "execution_id": "my own id", "workflow_name": "line" }));
    let counts = json!({ "total": 3, "completed": 0, "failed": 0, "running": 1, "pending": 2, "skipped": 0 });
    assert_eq!(status["steps"], counts);
    let history = server.history("my own id");
    assert_eq!(each(&history, "step_name"), ["a"]);
    history[0].has_fields(json!({ "status": "running", "output": null }));
    assert!(
        each(&server.telemetry("my own id"), "event_type").contains(&"workflow_created".to_owned())
    );
}

/// "idempotent log for a duplicate key": a start is known by its id and what it was asked.
#[test]
fn a_start_that_is_repeated_is_one_start() {
    let project = line();
    let mut server = project.serve();
    let call = json!({ "workflow_name": "line", "execution_id": "e", "inputs": { "task": "x" } });
    let first = server.begin_with(call.clone());
    let mut again = server.begin_with(call.clone());
    assert_eq!(again.as_object_mut().unwrap().remove("replayed"), Some(json!(true)));
    assert_eq!((&again, server.history("e").len()), (&first, 1));
    for (field, value) in [("workflow_name", json!("bug-fix")), ("inputs", json!({ "task": "y" }))]
    {
        let mut other = call.clone();
        other[field] = value;
        assert_eq!(
            server.refused("workflow.start", other)["error_code"],
            "EXECUTION_ID_TAKEN",
            "{field}"
        );
    }
    server.finish(&first["new_token"], "s");
    assert_eq!(server.refused("workflow.start", call)["error_code"], "EXECUTION_ID_TAKEN");
    assert_eq!(server.status("e")["revision"], 2);
}

/// "should continue workflow through all steps"
#[test]
fn an_execution_goes_through_all_its_steps_with_a_fresh_token_each() {
    let project = line();
    let mut server = project.serve();
    let mut reply = server.begin("line", "e");
    let mut tokens = Vec::new();
    for (at, step) in ["a", "b", "c"].into_iter().enumerate() {
        reply.has_fields(json!({ "step_name": step, "agent_name": "worker" }));
        let token = reply["new_token"].clone();
        assert!(!tokens.contains(&token));
        let artifact = json!({ "type": "report", "name": format!("{step}.md"), "content": format!("# {step}") });
        reply = server.hand_in(&token, json!({ "summary": step, "artifacts": [artifact] }));
        let artifacts = list(&server.read(&address("workflow_artifacts", "e")));
        assert_eq!((artifacts.len(), &artifacts[at]["step_name"]), (at + 1, &json!(step)));
        tokens.push(token);
    }
    reply.has_fields(json!({ "success": true, "workflow_state": "completed" }));
    assert_eq!((reply.get("new_token"), reply.get("step_name")), (None, None));
    let history = server.history("e");
    assert_eq!(each(&history, "step_name"), ["a", "b", "c"]);
    for row in &history {
        row.has_fields(json!({ "status": "completed", "/output/summary": row["step_name"] }));
        assert!(row["completed_at"].is_string() && row["duration_ms"].is_u64());
    }
}

/// "should maintain consistency on step completion": also for those who look after a crash.
#[test]
fn after_one_step_the_first_is_completed_and_the_second_runs() {
    let project = line();
    let mut server = project.serve();
    let token = server.begin("line", "e")["new_token"].clone();
    let second = server.finish(&token, "s");
    for crashed in [false, true] {
        if crashed {
            server.kill();
            server = project.serve();
        }
        let history = server.history("e");
        assert_eq!(each(&history, "step_name"), ["a", "b"]);
        assert_eq!(each(&history, "status"), ["completed", "running"]);
        assert_eq!(history[1]["started_at"], history[0]["completed_at"], "one commit, one time");
        let status = server.status("e");
        let counts = json!({ "total": 3, "completed": 1, "failed": 0, "running": 1, "pending": 1, "skipped": 0 });
        status.has_fields(json!({ "steps": counts, "revision": 2 }));
        let current = server.current("e");
        current
            .has_fields(json!({ "current_step": "b", "continuation_token": second["new_token"] }));
    }
}

/// "should persist suggested findings in step output": whatever else is in an output stays in it.
#[test]
fn an_output_is_kept_as_it_was_handed_in() {
    let project = line();
    let mut server = project.serve();
    let token = server.begin("line", "e")["new_token"].clone();
    let output = json!({
        "summary": "", "artifacts": ["doc_1"], "findings": ["one"], "next_step_recommendation": "go on",
        "suggested_findings": [{ "scope": "global", "title": "t", "score": 0.1, "none": null, "big": 9_007_199_254_740_993_u64 }]
    });
    server.hand_in(&token, output.clone());
    assert_eq!(server.history("e")[0]["output"], output);
    assert_eq!(server.current("e")["previous"][0]["output"], output);
}

/// "should handle workflow with no phases"
#[test]
fn a_workflow_without_phases_is_refused_and_leaves_no_execution() {
    let project = Project::new(&[
        ("workflows/none.md", &workflow("none", &[]).replace("phases:\n", "phases: []\n")),
        ("workflows/unsaid.md", &workflow("unsaid", &[]).replace("phases:\n", "")),
        ("workflows/steps.yaml", "workflow: steps\ndescription: d\nsteps: []\n"),
    ]);
    let mut server = project.serve();
    for name in ["none", "unsaid", "steps"] {
        let start = json!({ "workflow_name": name, "execution_id": name });
        let refused = server.refused("workflow.start", start);
        refused.has_fields(json!({ "error_code": "WORKFLOW_VALIDATION_FAILED" }));
        let error = server.read_error(&address("workflow_status", name));
        assert_eq!(error["data"]["error_code"], "EXECUTION_NOT_FOUND");
        assert_eq!(server.begin("bug-fix", name)["step_name"], "diagnose", "the id is free");
    }
    assert_eq!(
        list(&server.read("midex://workflow/telemetry?event_type=workflow_created")).len(),
        3
    );
    assert_eq!(server.refuse(json!("x"), output("s"))["execution_id"], "");
}
