//! The README: short, and its scene is what midex says.

use std::{io::Write as _, process::Stdio};

use serde_json::{Value, json};

use midex_test::{Client, assert_has, project::Project};

fn readme() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap()
}

/// The workflow of the scene, and what its first four steps came to.
const STEPS: [(&str, &str); 9] = [
    ("inventory", "412 tables, 9 of them hold orders"),
    ("plan", "orders first, invoices after"),
    ("schema", "orders_v2 is created, with the id of the old row kept"),
    ("backfill", "2,114,902 rows copied; 37 without a customer are listed in orphans.csv"),
    ("dual-write", "Write every order to both databases"),
    ("compare", "Compare both"),
    ("switch", "Read from the new one"),
    ("clean-up", "Drop the old tables"),
    ("report", "Say what was done"),
];

#[test]
fn it_is_a_page() {
    assert!(readme().lines().count() <= 120);
}

#[test]
fn its_two_commands_are_those_that_ci_runs() {
    assert_has(&readme(), &["\ncargo run --release -- demo\ncargo test\n"]);
}

#[test]
fn its_scene_is_what_an_agent_reads_that_lost_its_context_after_step_4_of_9() {
    let steps = STEPS.map(|(id, what)| {
        format!("  - {{ id: {id}, description: \"{what}\", guidance: \"{what}\" }}\n")
    });
    let manifest = format!(
        "workflow: split-database\ndescription: Move the orders into a database of their own\nsteps:\n{}",
        steps.concat()
    );
    let project = Project::new(&[("workflows/split-database.yaml", &manifest)]);
    let mut server = project.serve();
    let mut reply = server.begin("split-database", "orders");
    for (_, summary) in &STEPS[..4] {
        reply = server.finish(&reply["new_token"], summary);
    }
    assert_eq!(reply["progress"], "5/9");

    let mut hook = project
        .command(&["hook", "session-start"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let told = json!({
        "session_id": "s", "cwd": project.root(), "hook_event_name": "SessionStart", "source": "compact"
    });
    let mut input = hook.stdin.take().unwrap();
    input.write_all(told.to_string().as_bytes()).unwrap();
    drop(input);
    let said: Value = serde_json::from_slice(&hook.wait_with_output().unwrap().stdout).unwrap();
    let readme = readme();
    let (_, scene) = readme.split_once("```text\n").unwrap();
    let (scene, _) = scene.split_once("```").unwrap();
    let context = said["hookSpecificOutput"]["additionalContext"].as_str();
    // The page shows a later moment than a test waits for.
    let moved = |word: &str| word.replace("3 min", "0 s");
    let folded = |text: &str| moved(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    assert_eq!(folded(scene), folded(context.unwrap()));
    let resumed = server.done("execution.resume", json!({}));
    assert_eq!(resumed["current_step"], "dual-write");
}
