//! What is wrong with a definition is found when it is loaded, not when an execution comes to it.

use serde_json::{Value, json};

use midex_test::{
    Client, address,
    client::offers,
    has_code, has_fields, output,
    project::{agent, each, line, list, text, workflow},
};

/// Fault F8 of the study: a persona that was missing at a later step left the execution stuck for ever.
#[test]
fn f08_a_workflow_with_a_missing_persona_is_refused_when_it_is_loaded() {
    let phases: [(&str, &str, &[&str]); 2] = [("a", "worker", &[]), ("b", "nobody", &["a"])];
    let project = line();
    project.write("workflows/lacking.md", &workflow("lacking", &phases));
    let mut server = project.serve();
    let shown = server.available("lacking");
    assert_eq!(shown["valid"], false, "{shown}");
    let finding = &shown["findings"][0];
    has_fields(finding, json!({ "rule": "missing_persona", "path": "phases[1].agent" }));
    let start = json!({ "workflow_name": "lacking", "execution_id": "e" });
    let refused = server.refused("workflow.start", start);
    has_code(&refused, "WORKFLOW_VALIDATION_FAILED");
    assert!(text(&refused["context"]["path"]).ends_with("workflows/lacking.md"));
    server.read_error(&address("workflow_status", "e"));
    assert_eq!(server.begin("line", "e")["step_name"], "a", "the others can be started");
}

/// Fault F8 of the study: a persona that went missing on the way left the execution stuck for ever.
#[test]
fn f08_a_persona_that_is_deleted_does_not_harm_an_execution_under_way() {
    let phases: [(&str, &str, &[&str]); 2] = [("a", "worker", &[]), ("b", "second", &["a"])];
    let project = line();
    project.write("workflows/two.md", &workflow("two", &phases));
    project.write("agents/second.md", &agent("second", "The second persona"));
    let mut server = project.serve();
    let token = server.begin("two", "e")["new_token"].clone();
    project.remove("agents/second.md");
    project.remove("workflows/two.md");
    assert_eq!(server.finish(&token, "done")["agent_content"], "The second persona");
    // Nor does it after a restart, which reads the files again.
    server.kill();
    let mut server = project.serve();
    assert_eq!(server.available("two"), Value::Null);
    let current = server.current("e");
    assert_eq!(current["agent_content"], "The second persona");
    let end = server.finish(&current["continuation_token"], "done");
    assert_eq!(end["workflow_state"], "completed");
}

/// Fault F9 of the study: a list out of the order of its dependencies lost steps without a word.
#[test]
fn f09_phases_run_in_the_order_of_their_dependencies_whatever_that_of_the_file() {
    let phases: [(&str, &str, &[&str]); 5] = [
        ("last", "worker", &["fourth", "second"]),
        ("fourth", "worker", &["third"]),
        ("second", "worker", &["first"]),
        ("first", "worker", &[]),
        ("third", "worker", &["second"]),
    ];
    let project = line();
    project.write("workflows/mixed.md", &workflow("mixed", &phases));
    let mut server = project.serve();
    let first = server.begin("mixed", "e");
    assert_eq!(first["step_name"], "first");
    let done = server.run_to_end(&first);
    assert_eq!(done, ["first", "second", "third", "fourth", "last"]);
    let status = server.status("e");
    assert_eq!(status["steps"]["completed"], 5);
    assert_eq!(status["steps"]["total"], 5);
}

/// Fault F9 of the study: cycles, unknown dependencies and two phases of one name went unseen until the execution stuck.
#[test]
fn f09_dependencies_that_cannot_be_met_are_findings_and_never_start() {
    type Phases<'a> = &'a [(&'a str, &'a str, &'a [&'a str])];
    let cases: [(&str, Phases<'_>, &str, &str); 5] = [
        (
            "cyclic",
            &[("a", "worker", &["c"]), ("b", "worker", &["a"]), ("c", "worker", &["b"])],
            "cyclic_dependency",
            "phases[1].dependsOn[0]",
        ),
        (
            "cyclic-later",
            &[("a", "worker", &[]), ("b", "worker", &["a", "c"]), ("c", "worker", &["b"])],
            "cyclic_dependency",
            "phases[2].dependsOn[0]",
        ),
        (
            "unknown",
            &[("a", "worker", &[]), ("b", "worker", &["nowhere"])],
            "unknown_dependency",
            "phases[1].dependsOn[0]",
        ),
        (
            "duplicate",
            &[("a", "worker", &[]), ("a", "worker", &["a"])],
            "duplicate_step",
            "phases[1].phase",
        ),
        ("self", &[("a", "worker", &["a"])], "self_dependency", "phases[0].dependsOn[0]"),
    ];
    let project = line();
    for (name, phases, ..) in cases {
        project.write(&format!("workflows/{name}.md"), &workflow(name, phases));
    }
    let mut server = project.serve();
    for (name, _, rule, path) in cases {
        let shown = server.available(name);
        assert_eq!(shown["valid"], false, "{shown}");
        let findings = list(&shown["findings"]);
        let found =
            findings.iter().any(|finding| finding["rule"] == rule && finding["path"] == path);
        assert!(found, "{name}: {rule} at {path} is missing in {findings:?}");
        let start = json!({ "workflow_name": name, "execution_id": name });
        let refused = server.refused("workflow.start", start);
        has_code(&refused, "WORKFLOW_VALIDATION_FAILED");
        assert_eq!(refused["violations"][0]["rule"], rule);
        server.read_error(&address("workflow_status", name));
    }
}

/// Fault F10 of the study: phases that wait for nobody were handed out strictly one after another.
#[test]
fn f10_independent_phases_are_offered_together_and_the_synthesis_after_all_of_them() {
    let phases: [(&str, &str, &[&str]); 4] = [
        ("left", "worker", &[]),
        ("middle", "worker", &[]),
        ("right", "worker", &[]),
        ("synthesis", "worker", &["left", "middle", "right"]),
    ];
    let project = line();
    project.write("workflows/side.md", &workflow("side", &phases));
    let mut server = project.serve();
    let offered = offers(&server.begin("side", "e"));
    let names: Vec<_> = offered.iter().map(|(step, _)| step.as_str()).collect();
    assert_eq!(names, ["left", "middle", "right"]);
    let open = server.current("e");
    assert_eq!(each(&list(&open["ready_steps"]), "step_name"), names);
    for at in [1, 2] {
        let reply = server.finish(&offered[at].1, &offered[at].0);
        assert_eq!(reply["new_token"], Value::Null);
        assert_eq!(list(&reply["new_tokens"]).len(), 0);
        assert_eq!(list(&reply["open_steps"]).len(), 3 - at, "{reply}");
    }
    assert_eq!(server.status("e")["steps"]["pending"], 1, "the synthesis waits");
    let reply = server.finish(&offered[0].1, &offered[0].0);
    assert_eq!(reply["step_name"], "synthesis");
    let previous = list(&reply["previous"]);
    assert_eq!(each(&previous, "step_name"), names);
    let again = server.refuse(&offered[2].1, output("another"));
    assert_eq!(again["error_code"], "TOKEN_ALREADY_USED");
    assert_eq!(server.finish(&reply["new_token"], "all")["workflow_state"], "completed");
}
