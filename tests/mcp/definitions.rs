//! Parallel steps, definitions that change, and both eras of the protocol.

use serde_json::{Value, json};

use super::{next, pause};
use midex_test::{Client, Fields, Server, address, output, says, steps};

#[test]
fn parallel_steps_come_with_all_that_they_need() {
    let dir = tempfile::tempdir().unwrap();
    let file = "workflow: audit\ndescription: x\nsteps:\n\
        - { id: a, agent: reviewer, depends_on: [] }\n\
        - { id: b, agent: reviewer, depends_on: [] }\n\
        - { id: c, agent: architect, depends_on: [], instructions: Look closely. }\n\
        - { id: d, agent: architect, depends_on: [a, b, c], result: { type: integer } }\n";
    std::fs::write(dir.path().join("audit.yaml"), file).unwrap();
    let flags = ["--workflows", dir.path().to_str().unwrap()];
    let mut server = Server::start_with(&dir.path().join("data"), &flags);
    let first = server.begin("audit", "e");
    let named = json!({ "step_name": "a", "agent_name": "reviewer", "instructions": null });
    first["new_tokens"][0].has_fields(named);
    let offers = steps(&first, "new_tokens");
    assert_eq!(offers.len(), 3);
    let persona = |step: &Value| {
        let (content, uri) = (&step["agent_content"], &step["agent_uri"]);
        (content.is_string(), uri.as_str().map(str::to_owned))
    };
    let shown: Vec<_> = offers.iter().map(persona).collect();
    let uri = "midex://workflow/agent/architect?execution_id=e".to_owned();
    let told = [(true, None), (false, None), (false, Some(uri.clone()))];
    assert_eq!(shown, told, "the persona of the first step, of the other agent where it is read");
    let read = server.read(&uri);
    assert!(read["content"].as_str().unwrap().starts_with("# Architect"), "{read}");
    says(&offers[2]["instructions"], "Look closely.");
    let current = server.current("e");
    let shown: Vec<_> = steps(&current, "ready_steps").iter().map(persona).collect();
    assert_eq!(shown, told);
    let one = next(&mut server, &offers[1]["continuation_token"], "b");
    assert_eq!((&one["new_token"], one["open_steps"].as_array().unwrap().len()), (&Value::Null, 2));
    next(&mut server, &offers[0]["continuation_token"], "a");
    let last = next(&mut server, &offers[2]["continuation_token"], "c");
    last.has_fields(json!({ "step_name": "d", "output_schema": { "type": "integer" } }));
    let refused = server.refuse(&last["new_token"], output("x"));
    assert_eq!(refused["violations"][0]["rule"], "type");
    let end = server.hand_in(&last["new_token"], 7);
    assert_eq!(end["workflow_state"], "completed");
}

#[test]
fn an_execution_keeps_the_definition_it_started_with() {
    let dir = tempfile::tempdir().unwrap();
    let (workflows, agents) = (dir.path().join("workflows"), dir.path().join("agents"));
    std::fs::create_dir(&workflows).unwrap();
    std::fs::create_dir(&agents).unwrap();
    let workflow = |second: &str| {
        let text = format!(
            "workflow: mine\ndescription: x\nsteps:\n- {{ id: a, agent: me }}\n- {{ id: {second}, agent: me }}\n"
        );
        std::fs::write(workflows.join("mine.yaml"), text).unwrap();
    };
    let agent = |persona: &str| {
        let text = format!("---\nname: me\ndescription: x\n---\n{persona}\n");
        std::fs::write(agents.join("me.md"), text).unwrap();
    };
    let data = dir.path().join("data");
    let flags = ["--workflows", workflows.to_str().unwrap(), "--agents", agents.to_str().unwrap()];
    workflow("b");
    agent("The first persona");
    let mut server = Server::start_with(&data, &flags);
    let first = server.begin("mine", "e");
    server.kill();
    workflow("other");
    agent("The second persona");
    let mut server = Server::start_with(&data, &flags);
    let second = next(&mut server, &first["new_token"], "done");
    second.has_fields(json!({ "step_name": "b", "agent_content": first["agent_content"] }));
    let fresh = server.begin("mine", "f");
    says(&fresh["agent_content"], "The second persona");
}

#[test]
fn a_retry_with_the_current_file_follows_it_or_says_why_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mine.yaml");
    let file = |last: &str| {
        format!("workflow: mine\ndescription: x\nsteps:\n- {{ id: a, guidance: A. }}\n- {last}\n")
    };
    std::fs::write(&path, file("{ id: b, guidance: The first text. }")).unwrap();
    let flags = ["--workflows", dir.path().to_str().unwrap()];
    let mut server = Server::start_with(&dir.path().join("data"), &flags);
    let first = server.begin("mine", "e");
    let artifact = json!({ "type": "file", "name": "b.txt", "content": "hello" });
    let made = json!({ "summary": "done", "artifacts": [artifact] });
    let second = server.hand_in(&first["new_token"], made);
    let error = json!({ "message": "the disk is full", "code": "DISK_FULL" });
    let failed = server.next_step(json!({ "token": second["new_token"], "error": error }));
    assert_eq!(failed["workflow_state"], "failed");
    // The server still has the last good version, and the caller asks for the present file.
    std::fs::write(&path, file("{ id: b, guidence: A typing error. }")).unwrap();
    for dry_run in [true, false] {
        let tool = if dry_run { "execution.fork" } else { "execution.retry" };
        let mut arguments = json!({ "execution_id": "e", "definition": "current" });
        if dry_run {
            arguments["dry_run"] = json!(true);
        }
        let refused = server.refused(tool, arguments);
        assert_eq!(refused["error_code"], "WORKFLOW_VALIDATION_FAILED", "{tool}");
    }
    // A stored artifact is not the one that was handed in, and fits all the same.
    std::fs::write(&path, file("{ id: b, guidance: The second text. }")).unwrap();
    let retry = json!({ "execution_id": "e", "definition": "current" });
    let retried = server.done("execution.retry", retry);
    says(&retried["instructions"], "The second text.");
    let end = server.hand_in(&retried["new_token"], json!({ "summary": "done" }));
    assert_eq!(end["workflow_state"], "completed");
}

#[test]
fn the_stateless_era_is_served_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::spawn(dir.path(), &[]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "0" }
    });
    let discovered = server.request("server/discover", json!({ "_meta": meta }));
    assert!(
        discovered["result"]["supportedVersions"].to_string().contains("2026-07-28"),
        "{discovered}"
    );
    let arguments = json!({ "workflow_name": "bug-fix", "execution_id": "e" });
    let call = json!({ "_meta": meta, "name": "workflow.start", "arguments": arguments });
    let started = server.request("tools/call", call);
    started.has_fields(json!({ "/result/structuredContent/step_name": "diagnose" }));
    let read = json!({ "_meta": meta, "uri": address("workflow_status", "e") });
    assert!(server.request("resources/read", read)["result"]["contents"].is_array());
    let unknown = json!({ "_meta": meta, "uri": address("workflow_status", "nobody") });
    assert_eq!(server.request("resources/read", unknown)["error"]["code"], -32602);
}

#[test]
fn a_start_without_an_id_gets_one_that_sorts_by_age() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let mut ids = Vec::new();
    for _ in 0..3 {
        let first = server.begin_with(json!({ "workflow_name": "bug-fix" }));
        ids.push(first["execution_id"].as_str().unwrap().to_owned());
        // Ids carry the time in milliseconds; within one they are in no order.
        pause();
    }
    assert!(ids.is_sorted() && ids.iter().all(|id| id.starts_with("exec_")), "{ids:?}");
}
