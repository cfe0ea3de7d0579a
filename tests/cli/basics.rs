//! The command line, as a person or a script sees it.

use std::process::{Command, Output};

use serde_json::Value;

use midex_test::Client;

fn midex(args: &[&str]) -> Output {
    let mut command = Command::new(midex_test::binary());
    command
        .args(args)
        .env_remove("MIDEX_DATA_DIR")
        .env_remove("RUST_LOG")
        .env("NO_COLOR", "1");
    command.output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn the_demo_takes_a_workflow_through_a_crash_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let output = midex(&["demo", "--data-dir", data.to_str().unwrap()]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}{}", text(&output.stderr));
    for expected in [
        "`design` as architect",
        "`implement` as implementer",
        "`review` as reviewer",
        "SIGKILL",
        "Resumed at `implement`",
        "Workflow completed successfully",
        "workflow_completed",
        "3 of 3 steps completed",
        "midex install --client claude-code",
        "midex run bug-fix",
        "docs/",
        data.join("executions.redb").to_str().unwrap(),
    ] {
        assert!(
            shown.contains(expected),
            "{expected} is missing in\n{shown}"
        );
    }
    assert!(data.join("executions.redb").is_file());
    // The kill stands where it happened: after the first step, before the end of the second.
    let (_, timeline) = shown.split_once("Timeline\n").unwrap();
    let at = |words: &str| {
        let line = timeline.lines().position(|line| line.contains(words));
        line.unwrap_or_else(|| panic!("{words} is missing in\n{timeline}"))
    };
    let killed = at("-- server killed (SIGKILL), new one started --");
    assert!(
        at("step_completed            design") < killed,
        "{timeline}"
    );
    assert!(
        killed < at("step_completed            implement"),
        "{timeline}"
    );
    let times: Vec<_> = timeline
        .lines()
        .take_while(|line| line.starts_with("  2"))
        .map(|line| &line[2..26])
        .collect();
    assert!(times.is_sorted(), "{timeline}");
    let done = timeline
        .lines()
        .filter(|line| line.contains("step_completed"));
    assert!(done.clone().all(|line| line.ends_with(" ms")), "{timeline}");
    assert_eq!(done.count(), 3);
}

#[test]
fn the_demo_leaves_nothing_behind() {
    let temporary = tempfile::tempdir().unwrap();
    let ran = Command::new(midex_test::binary())
        .arg("demo")
        .env("TMPDIR", temporary.path())
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let shown = text(&ran.stdout);
    assert!(ran.status.success(), "{shown}{}", text(&ran.stderr));
    assert!(shown.contains("which is removed now"), "{shown}");
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn the_demo_gives_json_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let output = midex(&[
        "demo",
        "--json",
        "--data-dir",
        dir.path().join("data").to_str().unwrap(),
    ]);
    let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON alone on stdout");
    assert_eq!(shown["status"]["state"], "completed");
    assert_eq!(shown["history"].as_array().unwrap().len(), 3);
    let killed = &shown["killed"];
    assert_eq!(
        (&killed["signal"], &killed["during"]),
        (&"SIGKILL".into(), &"implement".into())
    );
    assert!(killed["at"].as_str() < killed["started_at"].as_str());
    assert_eq!(shown["data_dir_kept"], true);
}

#[test]
fn validate_says_where_and_exits_1() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("broken.yaml");
    std::fs::write(
        &file,
        "workflow: broken\ndescription: x\nsteps:\n  - id: a\n    agent: architekt\n",
    )
    .unwrap();
    let path = file.to_str().unwrap();
    let output = midex(&["validate", path]);
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stdout) + &text(&output.stderr);
    assert!(shown.contains("broken.yaml:5:12"), "{shown}");
    assert!(shown.contains("architect"), "did you mean: {shown}");
    let output = midex(&["validate", "--json", path]);
    let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&shown["findings"], output.status.code()),
        (&Value::from(1), Some(1))
    );
    std::fs::write(
        &file,
        "workflow: sound\ndescription: x\nsteps:\n  - id: a\n    agent: architect\n",
    )
    .unwrap();
    assert_eq!(midex(&["validate", path]).status.code(), Some(0));
}

#[test]
fn list_shows_shipped_workflows_and_those_of_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("mine.yaml"),
        "workflow: mine\ndescription: My own\nsteps:\n  - id: a\n    agent: architect\n",
    )
    .unwrap();
    let output = midex(&[
        "list",
        "--json",
        "--workflows",
        dir.path().to_str().unwrap(),
    ]);
    let shown = super::lines(&text(&output.stdout));
    let names: Vec<_> = shown
        .iter()
        .map(|entry| entry["name"].as_str().unwrap())
        .collect();
    for name in ["mine", "bug-fix", "feature-development"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(text(&midex(&["list"]).stdout).contains("feature-development"));
}

#[test]
fn a_wrong_command_line_exits_2_and_says_so() {
    for args in [
        &["nonsense"][..],
        &["serve", "--token-ttl", "soon"],
        &["serve", "--snapshot-every", "0"],
    ] {
        let output = midex(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
    assert!(midex(&["--help"]).status.success());
}

#[test]
fn a_damaged_database_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("executions.redb");
    std::fs::write(&file, b"this is no database").unwrap();
    let mut server = midex_test::Server::start(dir.path());
    let refused = server.refused(
        "workflow.start",
        serde_json::json!({ "workflow_name": "bug-fix" }),
    );
    assert_eq!(
        (&refused["error_code"], &refused["retryable"]),
        (&"STORE_CORRUPT".into(), &false.into())
    );
    drop(server);
    assert_eq!(std::fs::read(&file).unwrap(), b"this is no database");
}

/// The code blocks of the page of workflows in this language.
fn page(language: &str) -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/workflows.md");
    let text = std::fs::read_to_string(page).unwrap();
    let fence = format!("```{language}\n");
    text.split(&fence)
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap().to_owned())
        .collect()
}

#[test]
fn the_page_of_workflows_shows_what_is_so() {
    let dir = tempfile::tempdir().unwrap();
    let workflows = dir.path().join("workflows");
    std::fs::create_dir(&workflows).unwrap();
    std::fs::write(workflows.join("cut-release.md"), &page("markdown")[0]).unwrap();
    std::fs::write(workflows.join("audit.yaml"), &page("yaml")[0]).unwrap();
    let validate = || {
        let mut command = Command::new(midex_test::binary());
        command
            .args(["validate", "workflows"])
            .current_dir(dir.path())
            .env("NO_COLOR", "1")
            .output()
            .unwrap()
    };
    let sound = validate();
    assert!(sound.status.success(), "{}", text(&sound.stdout));
    std::fs::write(
        workflows.join("audit.yaml"),
        page("yaml")[0].replace("agent: architect", "agent: architekt"),
    )
    .unwrap();
    let shown = text(&validate().stdout);
    assert!(
        shown.contains(page("text")[0].trim_end()),
        "the page shows\n{}\nbut it is\n{shown}",
        page("text")[0]
    );
}
