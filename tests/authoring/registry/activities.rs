//! Steps name the activities of the server that will run them, and no others.

use std::sync::Arc;

use midex_registry::{LiveDefinitions, check_text, load_workflow_file, validate_paths};

use super::*;

const SEND: &str = "  - id: a\n    activity: send\n";

/// The places of what is found in a manifest by a server with these activities, and the first message and its hint.
fn found(body: &str, has: &[&str]) -> (Vec<String>, String, String) {
    let registry = Registry::load_with_abilities(&Sources::default(), &activities(has));
    let (workflow, findings) = check_text("w.yaml", &steps(body), &registry);
    let findings = strict(findings);
    assert_eq!(workflow.is_some(), findings.is_empty(), "{findings:#?}");
    let first = findings.first();
    let message = first.map(|finding| finding.message.clone());
    let hint = first.and_then(|finding| finding.suggestion.clone());
    (places(&findings), message.unwrap_or_default(), hint.unwrap_or_default())
}

#[test]
fn an_activity_of_the_server_may_be_named_with_all_that_belongs_to_it() {
    let whole = "    idempotent: true\n    timeout: 5s\n    retry: {max_attempts: 2, on: [timeout]}\n    repeat: {until: steps.a.sent, every: 1s, max_attempts: 3}\n    with: {to: me}\n    result: {type: object}\n";
    let each = "  - id: b\n    foreach:\n      in: [1, 2]\n      do: {activity: note, idempotent: true, repeat: {until: 'true'}}\n";
    let (places, ..) = found(&format!("{SEND}{whole}{each}"), &["note", "send"]);
    assert_eq!(places, [""; 0]);
}

#[test]
fn one_that_the_server_does_not_have_is_a_finding_at_its_name() {
    let (places, message, hint) = found(SEND, &["senda", "note"]);
    assert_eq!(places, ["5:15 unknown_activity steps[0].activity"]);
    assert_eq!(message, "no activity is called `send`");
    // Too many short words are alike.
    assert_eq!(hint, "give the server an activity with this name");
    let (_, _, hint) = found(&SEND.replace("send", "sender"), &["sendre"]);
    assert_eq!(hint, "did you mean `sendre`?");
    let (_, _, hint) = found(SEND, &["unlike"]);
    assert_eq!(hint, "give the server an activity with this name");
    let each = "  - id: a\n    foreach:\n      in: [1]\n      do:\n        activity: sned\n";
    let (places, ..) = found(each, &["send"]);
    assert_eq!(places, ["8:19 unknown_activity steps[0].foreach.do.activity"]);
}

#[test]
fn a_near_name_can_be_written_by_a_program() {
    let registry = Registry::load_with_abilities(&Sources::default(), &activities(&["send-mail"]));
    let text = steps("  - id: a\n    activity: 'send-mial'\n");
    let (_, findings) = check_text("w.yaml", &text, &registry);
    let [edit] = &findings[0].edits[..] else { panic!("{findings:#?}") };
    assert_eq!((edit.line, edit.column), (5, 16), "within the quotes");
    assert!(edit.new_text.contains("send-mail"), "{edit:?}");
}

#[test]
fn a_server_without_activities_says_who_brings_them() {
    let (places, message, hint) = found(SEND, &[]);
    assert_eq!(places, ["5:15 unknown_activity steps[0].activity"]);
    assert_eq!(message, "no activity is called `send`: this server has none");
    assert!(hint.contains("programs that embed midex"), "{hint}");
    // The same wherever the binary looks at files.
    let project = Project::new(&[("workflows/w.yaml", &steps(SEND))]);
    let registry = project.load();
    let loaded = &registry.workflow("w").unwrap().findings;
    let named = project.path("workflows/w.yaml");
    let validated = validate_paths(std::slice::from_ref(&named), &registry).unwrap();
    let everything = validate_paths(&[], &registry).unwrap();
    let everything = everything.iter().find(|report| report.name == "w").unwrap();
    let (drawn, workflow) = load_workflow_file(&named, &registry).unwrap();
    assert!(workflow.is_none());
    for findings in [loaded, &validated[0].findings, &everything.findings, &drawn.findings] {
        assert_eq!(findings[0].message, message, "{findings:#?}");
    }
}

#[test]
fn what_is_no_name_is_only_that() {
    for (value, rule) in
        [("''", "empty_value"), ("' send'", "ill_formed_name"), ("[send]", "wrong_type")]
    {
        let (places, ..) = found(&format!("  - id: a\n    activity: {value}\n"), &["send"]);
        let expected = format!("5:15 {rule} steps[0].activity");
        assert_eq!(places, [expected]);
    }
}

#[test]
fn what_belongs_to_work_of_the_server_has_no_effect_elsewhere() {
    let told = ["agent: reviewer", "guidance: x", "tool: x"];
    let others = ["set: {x: 1}", "wait: {for: 1s}"];
    for kind in told.into_iter().chain(others) {
        for said in ["repeat: {until: inputs.x}", "idempotent: true", "interrupted: fail"] {
            if told.contains(&kind) && said.starts_with("repeat") {
                continue;
            }
            let key = said.split(':').next().unwrap();
            let (places, ..) = found(&format!("  - id: a\n    {kind}\n    {said}\n"), &[]);
            let expected = format!("6:5 no_effect steps[0].{key}");
            assert_eq!(places, [expected], "{kind}");
        }
    }
    let each =
        "  - id: a\n    foreach: {in: [1], do: {guidance: x}}\n    repeat: {until: inputs.x}\n";
    let (places, ..) = found(each, &[]);
    assert_eq!(places, ["6:5 no_effect steps[0].repeat"]);
    let call =
        "  - id: a\n    run: shop order\n    idempotent: true\n    repeat: {until: steps.a.done}\n";
    let (places, ..) = found(call, &[]);
    assert_eq!(places, [""; 0]);
}

#[test]
fn definitions_that_are_read_again_are_held_to_the_same_activities() {
    let sound = steps(&format!("{SEND}  - id: b\n    activity: send\n"));
    let broken = steps("  - id: a\n    activity: sent\n");
    let project = Project::new(&[("workflows/w.yaml", &steps(SEND))]);
    let own = || places_of(project.0.path());
    let registry = Registry::load_with_abilities(&project.sources(), &activities(&["send"]));
    let plain = LiveDefinitions::with_abilities(own(), activities(&["send"]));
    let watched = LiveDefinitions::with_abilities(own(), activities(&["send"]));
    watched.start_watching();
    let read = |text: &str| {
        project.write("workflows/w.yaml", text);
        // Whether it was this that read it, or the background before it, does not matter.
        let _ = (plain.reload(), watched.reload());
        [
            Arc::new(registry.reload(&project.sources())),
            plain.last_loaded_registry(),
            watched.last_loaded_registry(),
        ]
    };
    for registry in read(&sound) {
        let definition = registry.definition("w").unwrap();
        assert_eq!(definition.workflow.steps.len(), 2);
    }
    for registry in read(&broken) {
        finds(&registry, "w", &["5:15 unknown_activity steps[0].activity"]);
    }
}
