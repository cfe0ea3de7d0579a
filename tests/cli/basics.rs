//! The command line, as a person or a script sees it.

use serde_json::{Value, json};

use super::{Place, Running};
use midex_test::{Client, Fields, Shows, project::each};

#[test]
fn the_demo_takes_a_workflow_through_a_crash_to_its_end() {
    let place = Place::new();
    let data = place.dir.path().join("demo");
    let ran = place.ends(0, &["demo", "--data-dir", data.to_str().unwrap()]);
    let shown = &ran.out;
    ran.shows("`design` as architect…`implement` as implementer…`review` as reviewer…SIGKILL");
    ran.shows("Resumed at `implement`…Workflow completed successfully…workflow_completed");
    ran.shows("3 of 3 steps completed…midex install --client claude-code…midex run bug-fix…docs/");
    ran.shows(data.join("executions.redb").to_str().unwrap());
    assert!(data.join("executions.redb").is_file());
    // The kill stands where it happened: after the first step, before the end of the second.
    let (_, timeline) = shown.split_once("Timeline\n").unwrap();
    let at = |words: &str| {
        let line = timeline.lines().position(|line| line.contains(words));
        line.unwrap_or_else(|| panic!("{words} is missing in\n{timeline}"))
    };
    let killed = at("-- server killed (SIGKILL), new one started --");
    assert!(at("step_completed            design") < killed, "{timeline}");
    assert!(killed < at("step_completed            implement"), "{timeline}");
    let times: Vec<_> = timeline
        .lines()
        .take_while(|line| line.starts_with("  2"))
        .map(|line| &line[2..26])
        .collect();
    assert!(times.is_sorted(), "{timeline}");
    let done = timeline.lines().filter(|line| line.contains("step_completed"));
    assert!(done.clone().all(|line| line.ends_with(" ms")), "{timeline}");
    assert_eq!(done.count(), 3);
}

#[test]
fn the_demo_leaves_nothing_behind() {
    let (place, temporary) = (Place::new(), tempfile::tempdir().unwrap());
    let mut command = place.command("demo");
    command.env("TMPDIR", temporary.path());
    let ran = Running::start(command).end().ends(0);
    ran.shows("which is removed now");
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn the_demo_gives_json_when_asked() {
    let place = Place::new();
    let shown = place.json("demo --data-dir demo");
    shown.has_fields(json!({ "/status/state": "completed", "data_dir_kept": true }));
    assert_eq!(shown["history"].as_array().unwrap().len(), 3);
    let killed = &shown["killed"];
    killed.has_fields(json!({ "signal": "SIGKILL", "during": "implement" }));
    assert!(killed["at"].as_str() < killed["started_at"].as_str());
}

#[test]
fn validate_says_where_and_exits_1() {
    let place = Place::new();
    let file = |name: &str, agent: &str| {
        let text =
            format!("workflow: {name}\ndescription: x\nsteps:\n  - id: a\n    agent: {agent}\n");
        place.file("broken.yaml", &text);
    };
    file("broken", "architekt");
    let ran = place.ends(1, "validate broken.yaml");
    (ran.out + &ran.err).shows("broken.yaml:5:12…architect");
    let ran = place.ends(1, "validate --json broken.yaml");
    let shown: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(shown["findings"], 1);
    file("sound", "architect");
    place.done("validate broken.yaml");
}

#[test]
fn list_shows_shipped_workflows_and_those_of_a_directory() {
    let place = Place::new();
    place.file(
        "flows/mine.yaml",
        "workflow: mine\ndescription: My own\nsteps:\n  - id: a\n    agent: architect\n",
    );
    let shown = place.rows("list --workflows flows");
    let names = each(shown.as_array().unwrap(), "name");
    for name in ["mine", "bug-fix", "feature-development"] {
        assert!(names.contains(&name.to_owned()), "{names:?}");
    }
    place.done("list").shows("feature-development");
}

#[test]
fn a_wrong_command_line_exits_2_and_says_so() {
    let place = Place::new();
    for args in ["nonsense", "serve --token-ttl soon", "serve --snapshot-every 0"] {
        let ran = place.ends(2, args);
        assert!(ran.out.is_empty() && !ran.err.is_empty(), "{ran:?}");
    }
    place.done("--help");
}

#[test]
fn a_damaged_database_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("executions.redb");
    std::fs::write(&file, b"this is no database").unwrap();
    let mut server = midex_test::Server::start(dir.path());
    let refused = server.refused("workflow.start", json!({ "workflow_name": "bug-fix" }));
    refused.has_fields(json!({ "error_code": "STORE_CORRUPT", "retryable": false }));
    drop(server);
    assert_eq!(std::fs::read(&file).unwrap(), b"this is no database");
}

/// The code blocks of the page of workflows in this language.
fn page(language: &str) -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/workflows.md");
    let text = std::fs::read_to_string(page).unwrap();
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_page_of_workflows_shows_what_is_so() {
    let place = Place::new();
    place.file("workflows/cut-release.md", &page("markdown")[0]);
    place.file("workflows/audit.yaml", &page("yaml")[0]);
    place.done("validate workflows");
    let wrong = page("yaml")[0].replace("agent: architect", "agent: architekt");
    place.file("workflows/audit.yaml", &wrong);
    let shown = place.midex("validate workflows").out;
    shown.shows(page("text")[0].trim_end());
}
