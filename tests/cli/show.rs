//! `midex show`, and what was told so far as `midex tail` shows it.

use serde_json::json;

use super::{OUTPUTS, Place, lines, until};
use midex_test::{Shows, project::outlive, table};

#[test]
fn show_tells_where_an_execution_stands_and_what_came_of_its_steps() {
    let place = Place::new();
    let output = json!({
        "summary": format!("the cause {}", "and more ".repeat(40)),
        "artifacts": [{ "type": "report", "name": "recipe.md", "content": "# Recipe" }]
    });
    place.run(1, "s", &format!("{output}\n"));
    place.done("pause s --reason lunch");
    let shown = place.done("show");
    shown.shows(&[
        "s  bug-fix",
        "paused (person)",
        "lunch",
        "1 of 3 done, 1 open",
        place.project().to_str().unwrap(),
        "the cause and more",
        "recipe.md",
        "report",
        "open steps",
        "fix (implementer): ",
    ]);
    assert!(shown.lines().all(|line| line.chars().count() <= 120), "{shown}");
    assert!(!shown.contains('\u{1b}'));
    // The steps stand in their order, those to come too.
    let row = |start: &str| shown.lines().find(|line| line.trim_start().starts_with(start));
    let done = row("✓ diagnose").unwrap();
    assert!(done.contains("debugger") && done.ends_with('…'), "{done}");
    assert!(row("● fix").is_some() && row("○ verify").is_some(), "{shown}");
    // Every visit is listed where that is asked for.
    let visits = place.done("show s --visits");
    let row = visits.lines().find(|line| line.contains("and more")).unwrap();
    assert!(row.contains("debugger") && row.contains("completed") && row.ends_with('…'), "{row}");
    let json = place.json("show s");
    assert_eq!(json["status"]["state"], "paused");
    assert_eq!(json["history"].as_array().unwrap().len(), 2);
    assert_eq!(json["artifacts"][0]["name"], "recipe.md");
    assert_eq!(json["current_step"]["current_step"], "fix");
}

#[test]
fn a_refusal_names_the_command_that_leads_on_and_no_call() {
    const ALL: &str = "use an id that it shows; --all-projects includes other projects";
    let place = Place::new();
    place.begun("fixit");
    let data = place.data.to_str().unwrap();
    for [args, help] in table(
        "show nope | Run `midex list executions`: ALL
        resume nope --data-dir DATA | Run `midex list executions --data-dir DATA`: ALL
        run nope | Run `midex list workflows`: use one of its names
        pause fixitt | Run `midex show fixit`, if you meant that one",
    ) {
        let help = help.replace("ALL", ALL).replace("DATA", data);
        let ran = place.ends(1, &args.replace("DATA", data));
        assert!(ran.err.ends_with(&format!("\n  help: {help}\n")), "{ran:?}");
        let offered = help.split('`').nth(1).unwrap();
        place.ends(0, offered.trim_start_matches("midex"));
    }
    place.done("abandon fixit");
    let ran = place.midex("pause fixit");
    ran.says("help: Run `midex show fixit`: it shows the result of every step\n");
    // Programs get the call.
    let ran = place.midex("pause fixit --json");
    ran.says("Call workflow.read with uri");
}

#[test]
fn show_tells_what_an_execution_came_to() {
    let place = Place::new();
    place.run(0, "good", OUTPUTS);
    let shown = place.done("show good");
    shown.shows("completed…took…final output…summary: it is gone");
    let failure = r#"{"step_name":"diagnose","error":"cannot be reproduced"}"#;
    place.run(1, "bad", failure);
    let shown = place.done("show bad");
    shown.shows("failed in step diagnose…cannot be reproduced…1 failed");
    // The one that moved last is the one that is meant.
    place.done("show").shows("bad  bug-fix");
}

/// Its first step is not taken back, and a hook of it and one of the workflow fail.
const FAILING: &str = r#"
workflow: failing
description: d
memory: { a: 0 }
steps:
  - id: put
    set: { a: 1 }
    hooks: { on_success: { set: { a: "${{ 1 / 0 }}" } } }
    compensate: { set: { a: "${{ 1 / 0 }}" } }
  - { id: stop, fail: { code: NOT_NOW, message: it rains } }
hooks: { on_complete: { set: { a: "${{ 1 / 0 }}" } } }
"#;

#[test]
fn show_tells_what_an_end_left_behind() {
    let place = Place::new();
    place.file("workflows/failing.yaml", FAILING);
    place.with_stdin("run failing --id f", "");
    let shown = place.done("show f");
    shown.shows(&[
        "✓ put ",
        "+ compensate: set",
        "✗ stop ",
        "not taken back\n  put: ",
        "hooks that failed\n  on_success of put: ",
        "  on_complete of the workflow: ",
        "failed in step stop",
    ]);
    let visits = place.done("show f --visits");
    visits.shows("on_success of put…compensate of put");
}

const LATE: &str = "workflow: late\ndescription: d\nmemory: { a: 0 }\nsteps:\n  \
    - { id: slow, wait: { for: 1s } }\n  - { id: quick, depends_on: [], set: { a: 1 } }\n  \
    - { id: go, depends_on: [slow, quick], join: any, set: { a: 2 } }\n";

#[test]
fn show_tells_which_step_came_too_late_for_its_join() {
    let place = Place::new();
    place.manifest(LATE);
    place.done("run late --id l");
    let shown = place.done("show l");
    let row = shown.lines().find(|line| line.contains("slow")).unwrap();
    assert!(row.contains("  late"), "{shown}");
    shown.shows("waits for any of 2");
    let shown = place.done("show l --visits");
    let late = shown.lines().filter(|line| line.contains("completed, late"));
    let late: Vec<_> = late.collect();
    assert!(late.len() == 1 && late[0].contains("slow"), "{shown}");
}

const PARENT: &str = "workflow: parent\ndescription: d\nsteps:\n  \
    - { id: sub, workflow: bug-fix, with: { task: it } }\n  - { id: ask, depends_on: [], guidance: Ask. }\n\
    on_failure: [{ id: look, guidance: Look. }]\n";

#[test]
fn show_leads_from_a_parent_to_its_child_and_back() {
    let place = Place::new();
    place.manifest(PARENT);
    place.with_stdin("run parent --id p", "").ends(1);
    let status = place.json("show p")["status"].take();
    let child = status["children"][0]["execution_id"].as_str().unwrap();
    let next = format!("  midex show {child}  (shows the child)");
    place.done("show p").shows(&[
        "sub waits for its child",
        &next,
        "  midex run --id p  (goes on with it here)",
    ]);
    // A process that ends at once may not have started the child yet, so let one stay until it has.
    let terminal = place.terminal("run --id p");
    until(|| place.midex(&["show", child]).code == Some(0), "the child has begun");
    terminal.interrupt();
    terminal.end();
    let head = format!("{child}  bug-fix");
    let shown = place.done(&["show", child]);
    shown.shows(&[&head, "parent   p\n", "diagnose"]);
    place.done(&["abandon", child]);
    // The parent hears of it from a process that stays.
    place.with_stdin("run --id p", "").ends(1);
    let shown = place.done("show p");
    shown.shows("ending   failed…failing in step sub…look: ");
}

#[test]
fn what_is_not_there_is_said() {
    let place = Place::new();
    let ran = place.ends(1, "show");
    ran.says("this project has no executions");
    for command in ["show", "tail"] {
        let ran = place.midex(&[command, "nobody"]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{command}");
        ran.says("EXECUTION_NOT_FOUND");
        assert_eq!(ran.err.lines().count(), 2, "{}", ran.err);
    }
}

#[test]
fn what_an_agent_writes_cannot_steer_the_terminal() {
    let place = Place::new();
    let evil = "\u{1b}[2J\u{9b}31m\u{7}\u{7f}red";
    let output = json!({
        "summary": evil, "findings": [evil],
        "artifacts": [{ "type": "data", "name": "a\u{9d}b", "content": evil }]
    });
    let error = json!({ "step_name": "fix", "error": { "message": evil, "code": evil } });
    let lines = format!("{output}\n{error}\n");
    let run = ["run", "bug-fix", "--id", "evil", "--inputs", &json!({ "task": evil }).to_string()];
    let mut shown = place.with_stdin(&run, &lines).out;
    shown += &place.with_stdin("run bug-fix --json --id json", &lines).out;
    for command in
        ["show evil", "show evil --json", "tail evil", "tail evil --json", "list executions"]
    {
        shown += &place.done(command);
    }
    let control = |c: char| c.is_control() && c != '\n';
    assert!(!shown.contains(control), "{shown:?}");
    assert_eq!(place.json("show evil")["status"]["error"]["message"], evil);
}

/// What a line of `tail` says after `2026-01-15 11:00:00`.
fn without_time(line: &str) -> &str {
    line[19..].trim_start()
}

#[test]
fn tail_shows_the_last_events_of_one_execution_or_of_all() {
    let place = Place::new();
    place.run(0, "one", OUTPUTS);
    place.begun("two");
    let all = lines(&place.done("tail one --json -n 1000"));
    let kinds: Vec<_> = all.iter().map(|event| event["event_type"].as_str().unwrap()).collect();
    assert_eq!(kinds[0], "workflow_created");
    assert_eq!(kinds.last(), Some(&"workflow_completed"));
    // An execution that has ended is not waited for.
    assert_eq!(lines(&place.done("tail one --json")), all[all.len().saturating_sub(20)..]);
    assert_eq!(lines(&place.done("tail one --json -n 2")), all[all.len() - 2..]);
    assert_eq!(place.done("tail one -n 0"), "");
    let text = place.done("tail one -n 100");
    // What only follows from another event, as that there is a token, is left to `--json`.
    let words: Vec<_> = text.lines().map(without_time).collect();
    assert_eq!(words[0], "bug-fix begins");
    words[1].shows("diagnose…begins, for debugger");
    words[2].shows("diagnose…done after ");
    assert_eq!(words.last(), Some(&"completed: 3 steps"));
    assert_eq!(words.len(), 2 + 2 * 3, "{text}");
    let last = place.done("tail one -n 1");
    assert_eq!(Some(last.trim_end()), text.lines().last());
    assert!(!text.contains('\u{1b}'));
    // Of all executions each line says which it is of.
    let text = place.done("tail --no-follow -n 1000");
    assert!(
        text.lines().any(|line| line.contains("one"))
            && text.lines().any(|line| line.contains("two"))
    );
    let last = place.done("tail --no-follow -n 5");
    assert_eq!(last.lines().count(), 5);
    let more = (midex_domain::limits::TELEMETRY_LIMIT_MAX + 1).to_string();
    place.ends(2, &["tail", "-n", &more]);
}

/// Steps whose effects are taken back by children, of which one fails; a step that is tried three times.
const TAKEN_BACK: &str = r#"
workflow: back
description: Takes back
memory: { x: 0 }
steps:
  - { id: make, set: { x: 1 }, compensate: { set: { x: 0 } } }
  - { id: keep, set: { x: 2 }, compensate: { set: { x: "${{ 1 / 0 }}" } } }
  - id: each
    foreach: { in: [1, 2], as: i, do: { agent: reviewer, compensate: { set: { x: 4 } } } }
  - { id: tries, retry: { max_attempts: 3, on: [STEP_FAILED], backoff: 1ms }, guidance: Try }
on_failure:
  - { id: clean, set: { x: 5 } }
"#;

#[test]
fn a_failure_is_told_with_what_was_taken_back_and_how_often_it_was_tried() {
    let place = Place::new();
    place.file("workflows/back.yaml", TAKEN_BACK);
    let lines = "{\"summary\":\"s\"}\n".repeat(2)
        + &"{\"step_name\":\"tries\",\"error\":\"no\"}\n".repeat(3);
    let ran = place.with_stdin("run back --id b", &lines).ends(1);
    let left = ["taken back", "each #2", "each #1", "make", "not taken back", "keep: "];
    ran.shows("tries (attempt 2)…tries (attempt 3)");
    ran.shows(&left);
    let shown = place.done("show b");
    shown.shows(&left);
    shown.shows("attempt 3  STEP_FAILED: no…attempt 1: STEP_FAILED: no…attempt 2: STEP_FAILED: no");
    let visits = place.done("show b --visits");
    visits.shows("each #1…compensate of each #2…tries, attempt 3");
}

#[test]
fn a_picture_of_text_has_the_steps_of_on_failure_behind_the_others_and_tells_what_is_for_each_item()
{
    let place = Place::new();
    place.file("workflows/back.yaml", TAKEN_BACK);
    let drawn = place.done("graph back --format text");
    let at = |what: &str| drawn.find(what).unwrap_or_else(|| panic!("no {what}: {drawn}"));
    let title = at("✗ on_failure: once the execution is failing");
    assert!(at("tries") < title && title < at("clean"), "{drawn}");
    drawn.shows("reviewer\n     for each item");
}

#[test]
fn a_look_at_an_execution_writes_nothing_even_where_a_token_has_expired() {
    let place = Place::new();
    place.begun("s");
    let show = ["--token-ttl", "1s", "show", "s"];
    let before = place.json(&show);
    outlive(&before["current_step"]["expires_at"]);
    place.done(&show);
    place.done(&["--token-ttl", "1s", "show"]);
    place.done(&["--token-ttl", "1s", "list", "executions"]);
    place.done(&["--token-ttl", "1s", "tail", "s", "--no-follow"]);
    let after = place.json(&show);
    assert_eq!(after["status"]["revision"], before["status"]["revision"]);
    assert_eq!(
        after["current_step"]["continuation_token"],
        before["current_step"]["continuation_token"]
    );
}
