//! Files that change while the server runs.

use serde_json::{Value, json};

use midex_test::{
    Client, Server, has_fields,
    project::{Project, agent, each, eventually, line, workflow},
};

/// The workflow `line` with other phases.
fn rewrite(project: &Project, phases: &[&str]) {
    let phases: Vec<(&str, &str, &[&str])> =
        phases.iter().map(|name| (*name, "worker", &[] as &[&str])).collect();
    project.write("workflows/line.md", &workflow("line", &phases));
}

/// Waits until `line` is listed with these phases.
fn phases(server: &mut Server, wanted: &[&str]) {
    eventually(&format!("phases {wanted:?}"), || {
        let shown = server.available("line");
        let phases = shown["phases"].as_array()?;
        (each(phases, "phase") == wanted).then_some(())
    });
}

/// "changed → update", "upsert"; "running executions keep their version"
#[test]
fn an_edited_file_replaces_what_it_said_and_running_executions_keep_theirs() {
    let project = line();
    let mut server = project.serve();
    let first = server.begin("line", "old");
    rewrite(&project, &["x", "y"]);
    project.write("agents/worker.md", &agent("worker", "Somebody else"));
    phases(&mut server, &["x", "y"]);
    eventually("the new persona", || {
        let shown = server.read("midex://workflow/agent/worker");
        (shown["content"] == "Somebody else").then_some(())
    });
    let begun = eventually("a start with the new persona", || {
        let begun = server.done("workflow.start", json!({ "workflow_name": "line" }));
        (begun["agent_content"] == "Somebody else").then_some(begun)
    });
    has_fields(&begun, json!({ "step_name": "x", "progress": "1/2" }));
    let second = server.finish(&first["new_token"], "s");
    has_fields(&second, json!({ "step_name": "b", "agent_content": first["agent_content"] }));
    assert_eq!(server.run_to_end(&second), ["b", "c"]);
}

/// "a deleted one disappears"
#[test]
fn a_deleted_file_disappears_and_a_new_one_appears() {
    let project = line();
    let mut server = project.serve();
    let first = server.begin("line", "e");
    project.remove("workflows/line.md");
    project.write("workflows/new.md", &workflow("new", &[("a", "worker", &[])]));
    eventually("the deleted one is gone", || {
        (server.available("line") == Value::Null).then_some(())
    });
    eventually("the new one is there", || {
        server.available("new")["phases"].is_array().then_some(())
    });
    let refused = server.refused("workflow.start", json!({ "workflow_name": "line" }));
    assert_eq!(refused["error_code"], "WORKFLOW_NOT_FOUND");
    server.begin("new", "f");
    assert_eq!(server.run_to_end(&first), ["a", "b", "c"], "who runs goes on");
    // A file of the project that hid a shipped one gives it back.
    project.write("workflows/bug-fix.md", &workflow("bug-fix", &[("mine", "worker", &[])]));
    eventually("mine", || {
        (server.available("bug-fix")["phases"][0]["phase"] == "mine").then_some(())
    });
    project.remove("workflows/bug-fix.md");
    eventually("the shipped one", || {
        (server.available("bug-fix")["phases"][0]["phase"] == "diagnose").then_some(())
    });
}

/// "unchanged → skip"
#[test]
fn a_file_that_is_written_again_unchanged_changes_nothing() {
    let project = line();
    let mut server = project.serve();
    let details = "midex://workflow/workflow_details/line";
    let before = (server.available("line"), server.read(details));
    let start = json!({ "workflow_name": "line", "execution_id": "e" });
    let first = server.done("workflow.start", start.clone());
    let same = std::fs::read_to_string(project.path("workflows/line.md")).unwrap();
    project.write("workflows/line.md", &same);
    // Whoever has seen this has also seen that.
    project.write("workflows/mark.md", &workflow("mark", &[("a", "worker", &[])]));
    eventually("the mark", || server.available("mark")["phases"].is_array().then_some(()));
    assert_eq!((server.available("line"), server.read(details)), before);
    let mut again = server.done("workflow.start", start);
    let replayed = again.as_object_mut().unwrap().remove("replayed");
    assert_eq!((replayed, again), (Some(json!(true)), first));
}
