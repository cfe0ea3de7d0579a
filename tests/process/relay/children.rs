//! Children follow the definitions that the root was started with, whichever process owns the store and whichever called
//! last.

use std::{fs, path::Path};

use serde_json::{Value, json};

use midex_test::{
    Client, Server, Shows,
    project::{Project, eventually, text},
};

/// A parent whose child begins once the model's step is done.
const PARENT: &str = "workflow: parent
description: d
steps:
  - { id: go, guidance: Go }
  - { id: kid, workflow: kid }
final_output: '${{ steps.kid }}'
";

/// The same where time begins the child.
const TIMED: &str = "workflow: timed
description: d
steps:
  - { id: rest, wait: { for: 300ms } }
  - { id: kid, workflow: kid }
final_output: '${{ steps.kid }}'
";

/// A child whose output is `word`.
fn kid(word: &str) -> String {
    format!(
        "workflow: kid\ndescription: d\nsteps:\n  - {{ id: a, set: {{ word: {word} }} }}\nfinal_output: '${{{{ memory.word }}}}'\n"
    )
}

/// A directory for `--workflows`, beside the project's own workflows.
fn aside(project: &Project, directory: &str, word: &str) -> String {
    project.write(&format!("{directory}/kid.yaml"), &kid(word));
    for parent in [PARENT, TIMED] {
        let name = parent.split(['\n', ' ']).nth(1).unwrap_or_default();
        project.write(&format!("{directory}/{name}.yaml"), parent);
    }
    project.path(directory).display().to_string()
}

/// A server of `project` on the data directory of `home` that owns it, or relays to its owner.
fn on(home: &Project, project: &Project, flags: &[&str]) -> Server {
    let data = home.path("data").display().to_string();
    let mut command = project.command(&[&["serve", "--data-dir", &data], flags].concat());
    command.env("HOME", home.path("home"));
    let mut server = Server::run(command);
    server.shake_hands();
    server.done("execution.list", json!({}));
    server
}

/// The output of an execution, or its failure.
fn end_of(server: &mut Server, id: &str) -> Value {
    let status = eventually("the execution ends", || {
        let status = server.status(id);
        ["completed", "failed"].contains(&status["state"].as_str()?).then_some(status)
    });
    match status["final_output"].clone() {
        Value::Null => status["error"].clone(),
        output => output,
    }
}

fn show(home: &Project, project: &Project, id: &str) {
    let data = home.path("data").display().to_string();
    let mut command = project.command(&["show", id, "--data-dir", &data]);
    let shown = command.output().expect("midex runs");
    assert!(shown.status.success(), "{shown:?}");
}

#[test]
fn children_follow_the_directories_that_the_root_was_started_with() {
    let project = Project::new(&[]);
    let (mine, others) = (aside(&project, "mine", "mine"), aside(&project, "others", "others"));
    let mut first = on(&project, &project, &["--workflows", &mine]);
    let (shown, greeted) = (first.begin("parent", "shown"), first.begin("parent", "greeted"));
    // A command without the flag reads, and changes nothing.
    show(&project, &project, "shown");
    first.finish(&shown["new_token"], "s");
    assert_eq!(end_of(&mut first, "shown"), "mine");
    // Another window of the same project with other workflows says hello.
    let mut second = on(&project, &project, &["--workflows", &others]);
    first.finish(&greeted["new_token"], "s");
    assert_eq!(end_of(&mut first, "greeted"), "mine");
    let own = second.begin("parent", "own");
    second.finish(&own["new_token"], "s");
    assert_eq!(end_of(&mut second, "own"), "others");
}

#[test]
fn after_a_restart_under_another_project_a_timer_starts_the_first_ones_child() {
    let (one, two) = (Project::new(&[]), Project::new(&[]));
    for (project, word) in [(&one, "one"), (&two, "two")] {
        aside(project, "workflows", word);
    }
    let mut first = on(&one, &one, &[]);
    first.begin("timed", "live");
    first.begin("timed", "gone");
    first.begin("timed", "broken");
    first.close();
    let mut second = on(&one, &two, &[]);
    assert_eq!(end_of(&mut second, "live"), "one");
    second.close();
}

/// What ends a server before the timer of its execution is due, and what a later server makes of it.
fn after(change: impl FnOnce(&Path), started: &str) -> (Project, Value) {
    let project = Project::new(&[]);
    let flag = aside(&project, "mine", "mine");
    let mut first = on(&project, &project, &["--workflows", &flag]);
    let reply = first.begin(started, "e");
    first.close();
    change(&project.path("mine"));
    let mut second = on(&project, &project, &[]);
    if reply["new_token"].is_string() {
        second.finish(&reply["new_token"], "s");
    }
    let end = end_of(&mut second, "e");
    (project, end)
}

#[test]
fn where_the_file_is_gone_or_broken_the_child_is_as_it_was_at_the_start() {
    let (_, end) = after(|mine| fs::remove_dir_all(mine).expect("it is there"), "parent");
    assert_eq!(end, "mine");
    let (_, end) = after(
        |mine| fs::write(mine.join("kid.yaml"), "workflow: kid\nsteps: 7\n").expect("a file"),
        "parent",
    );
    assert_eq!(end, "mine");
}

#[test]
fn a_child_that_never_was_is_looked_for_in_the_named_directory() {
    let project = Project::new(&[]);
    let flag = aside(&project, "mine", "mine");
    project.remove("mine/kid.yaml");
    let mut server = on(&project, &project, &["--workflows", &flag]);
    let started = server.begin("parent", "e");
    server.finish(&started["new_token"], "s");
    let failure = end_of(&mut server, "e");
    assert_eq!(failure["code"], "WORKFLOW_NOT_FOUND", "{failure}");
    text(&failure["message"]).shows(&[&flag]);
}
