//! A second chance at a terminal: `midex retry`, `fork` and `rewind`, and the page about them.

use super::{catalog::Shop, *};

const PAGE: &str = include_str!("../../docs/history.md");

/// The text of the first block of this language in the page.
fn block(language: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("```{language}\n")).expect("a block");
    rest.split_once("```").expect("its end").0
}

fn place() -> Place {
    let place = Place::new();
    place.file("workflows/ship.yaml", block("yaml"));
    let failing = "{\"step_name\":\"build\",\"output\":{\"file\":\"ship.tar\"}}\n{\"step_name\":\"publish\",\"error\":\"the disk is full\"}\n";
    place.file("failing.jsonl", failing);
    place.file("rest.jsonl", "{\"url\":\"x\"}\n{\"sent\":true}\n");
    let failing = "{\"step_name\":\"publish\",\"output\":{\"url\":\"x\"}}\n{\"step_name\":\"announce\",\"error\":\"no ink\"}\n";
    place.file("failing_again.jsonl", failing);
    place
}

#[test]
fn the_story_of_the_page_is_true() {
    let place = place();
    let mut commands = 0;
    for story in block("text").split("$ midex ").skip(1) {
        let (command, lines) = story.split_once('\n').unwrap();
        let ran = place.midex(command);
        commands += 1;
        for line in lines.lines() {
            assert!(ran.out.contains(line), "{command} does not say `{line}`: {ran:?}");
        }
    }
    assert_eq!(commands, 4);
    let history = place.json("show first~2")["history"].clone();
    let steps: Vec<_> = history
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["step_name"].as_str().unwrap(), row["inherited"] == true))
        .collect();
    assert_eq!(steps, [("build", true), ("publish", false), ("announce", false)]);
    assert_eq!(history[0]["output"]["file"], "ship.tar");
}

#[test]
fn show_names_the_retry_and_each_execution_the_other() {
    let place = place();
    place.ends(1, "run ship --id first --outputs failing.jsonl");
    let shown = place.done("show first");
    shown.shows("midex retry first");
    place.done("retry first");
    let status = place.json("show first")["status"].clone();
    assert_eq!(status["forks"], json!(["first~2"]));
    let status = place.json("show first~2")["status"].clone();
    assert_eq!(status["forked_from"]["execution_id"], "first");
    // A second retry while the first one is open and untouched is the same one.
    place.done("retry first").shows("first~2");
}

#[test]
fn a_corrected_file_is_followed_where_its_schemas_allow_it() {
    let place = place();
    place.ends(1, "run ship --id first --outputs failing.jsonl");
    assert!(place.json("show first")["status"]["definition"]["newer"].is_null());
    let stricter =
        block("yaml").replace("Build it., result: {}", "Build it., result: { required: [size] }");
    place.file("workflows/ship.yaml", &stricter);
    assert!(place.json("show first")["status"]["definition"]["newer"].is_object());
    let refused = place.midex("retry first --with-current-file").ends(1);
    refused.says("break the current definition in 1 place…--from…without `--with-current-file`");
    let plan = place.done("fork first --with-current-file --dry-run");
    plan.shows("output does not fit: build…size…would be refused");
    let corrected = block("yaml").replace(
        "  - { id: announce",
        "  - { id: check, guidance: Check it., result: {} }\n  - { id: announce",
    );
    place.file("workflows/ship.yaml", &corrected);
    let plan = place.done("fork first --with-current-file --dry-run");
    plan.shows("new: check");
    place.done("retry first --with-current-file").shows(&["kept: build", "new: check"]);
}

#[test]
fn a_rewind_takes_an_open_execution_back() {
    let place = place();
    place.file("one.jsonl", "{\"file\":\"ship.tar\"}\n");
    place.ends(1, "run ship --id first --outputs one.jsonl");
    place.done("rewind first build --reason wrong").shows("Execution 'first' is back at 'build'");
    let status = place.json("show first")["status"].clone();
    assert_eq!(
        (status["current_step"].as_str().unwrap(), status["reason"].as_str().unwrap()),
        ("build", "wrong")
    );
    place.ends(1, "rewind first announce").says("'announce' was not entered yet");
}

#[test]
fn show_tells_what_it_was_like() {
    let place = place();
    place.file("one.jsonl", "{\"file\":\"ship.tar\"}\n");
    place.ends(1, "run ship --id first --outputs one.jsonl");
    let then = place.json("show first --at 1");
    assert_eq!(then["status"]["current_step"], "build");
    assert_eq!(then["history"].as_array().unwrap().len(), 1);
    assert!(then["current_step"]["continuation_token"].is_null());
    let page = place.done("show first --at 1");
    page.shows("as of    a past state: revision 1, of …; the execution is at revision 2 now\n…state…0 of 3 done");
    assert!(!page.contains("midex run --id"), "nothing can be done in the past: {page}");
    assert!(!page.contains(" ago"), "its times are not counted up to now: {page}");
    // A time as it is printed there.
    let (_, time) = page.split_once("revision 1, of ").unwrap();
    let (time, _) = time.split_once(';').unwrap();
    place.done(&["show", "first", "--at", time]).shows("as of    a past state: revision");
    // A time as `show` prints it.
    let started = page.lines().find_map(|line| line.trim().strip_prefix("started")).unwrap();
    let (year, rest) = started.trim().split_once('-').unwrap();
    let at = |year: &str| format!("{year}-{rest}");
    place.done(&["show", "first", "--at", &at("2999")]).shows("revision 2, of");
    place.ends(1, &["show", "first", "--at", &at("1999")]).says(&format!("began at {year}-"));
    place.ends(1, "show first --at 9").says("has the revisions 1 to 2");
    place.ends(2, "show first --at soon").says("--at");
}

/// The advice of a refusal, and what `show` names next, lead to the retry and on from there.
#[test]
fn a_retry_that_exists_is_found_from_the_execution_that_it_continues() {
    let place = place();
    place.ends(1, "run ship --id first --outputs failing.jsonl");
    place.done("retry first");
    let named = |text: &str| {
        let command = text.split("midex ").skip(1).find(|rest| rest.contains("first~2"));
        let command = command.unwrap_or_else(|| panic!("no command with the retry: {text}"));
        command.split(['`', '\n']).next().unwrap().split("  (").next().unwrap().replace('\'', "")
    };
    let shown = place.done("show first");
    assert!(!shown.contains("midex retry first "), "it would be refused: {shown}");
    place.done(&named(&shown)).shows("first~2");
    let refused = place.ends(1, "retry first --from build");
    refused.says("is being retried already");
    place.ends(1, &format!("{} --outputs failing_again.jsonl", named(&refused.err)));
    // It failed further on: its own retry is named.
    let refused = place.ends(1, "retry first");
    refused.says("'first~2' is failed…midex retry 'first~2'");
    place.done(&named(&refused.err)).shows("'first~3' continues 'first~2'");
}

#[test]
fn a_gate_that_a_rewind_opens_again_does_not_look_approved() {
    let place = place();
    let gated = "workflow: gated
description: Asks before it goes on
steps:
  - { id: build, guidance: Build it., result: {} }
  - { id: ship, gate: Ship it? }
  - { id: announce, guidance: Announce it., result: {} }
";
    place.file("workflows/gated.yaml", gated);
    place.with_stdin("run gated --id g", "{}\n").ends(1);
    let mut terminal = place.terminal("approve g");
    terminal.answer("leaves it open: ", "y");
    terminal.ends(0);
    place.done("show g").shows("approved by");
    place.done("rewind g build");
    let pending = place.done("show g");
    assert!(!pending.contains("approved"), "the gate is pending: {pending}");
    place.with_stdin("run --id g", "{}\n").ends(1);
    let shown = place.done("show g");
    assert!(!shown.contains("approved by"), "the gate is open: {shown}");
}

#[test]
fn a_failed_execution_names_its_retry_also_where_it_is_run_or_resumed() {
    let place = place();
    place.ends(1, "run ship --id first --outputs failing.jsonl");
    place.done("resume").shows("To go on: midex retry first\n");
    place.done("retry first");
    place.ends(1, "run --id first").shows("retry: midex show 'first~2'\n");
    place.ends(1, "run --id first~2 --outputs failing_again.jsonl");
    // A retry that failed is retried itself.
    place.done("show first~2").shows("midex retry 'first~2'");
    place.done("resume").shows("To go on: midex retry 'first~2'\n");
}

/// The command in backticks that a text names last, without the word `midex`.
fn advised(text: &str) -> &str {
    let (_, command) = text.rsplit_once("`midex ").expect("a command");
    command.split_once('`').expect("its end").0
}

#[test]
fn what_a_refused_rewind_advises_can_be_done() {
    let place = place();
    place.manifest(
        "workflow: notes
description: d
memory: { last: none }
steps:
  - { id: a, guidance: A. }
  - { id: b, set: { last: '${{ steps.a.summary }}' } }
  - { id: c, guidance: C. }
",
    );
    let failing = "{\"summary\":\"x\"}\n{\"step_name\":\"c\",\"error\":\"no\"}\n";
    place.file("notes.jsonl", failing);
    place.ends(1, "run notes --id k --outputs notes.jsonl");
    let ended = place.ends(1, "rewind k a");
    ended.says("cannot be rewound…help: Run `midex fork k --from a`");
    place.done(advised(&ended.err)).shows("done again: a");
    place.done("retry k").shows("kept: a");
    let inherited = place.ends(1, "rewind k~2 a");
    inherited.says("help: Run `midex fork k --from a`: it has the values from before");
    place.done(advised(&inherited.err)).shows("done again: a");
}

#[tokio::test(flavor = "multi_thread")]
async fn work_of_an_unknown_outcome_is_repeated_only_if_a_person_says_so() {
    let shop = Shop::open().await;
    shop.place.manifest(
        "workflow: stock
description: Stock the shelf
steps:
  - { id: first, run: pantry jars:create, with: { label: slow } }
",
    );
    let run = Running::start(shop.place.command("run stock --id s"));
    until(|| !shop.service.seen().is_empty(), "the service was called");
    run.signal(rustix::process::Signal::KILL);
    run.end();
    shop.ends(0, "abandon s");
    for command in ["fork s --dry-run", "fork s", "retry s"] {
        let refused = shop.ends(1, command);
        refused.says("outcome of step 'first' is unknown…Run the same command with `--again`");
        shop.place.done(advised(&refused.err)).shows("s  stock\n  state    abandoned");
        shop.place.done(&format!("{command} --again")).shows("done again: …first");
    }
}

#[test]
fn items_of_a_step_that_was_kept_are_no_difference() {
    let place = place();
    place.manifest(
        "workflow: each
description: d
steps:
  - { id: visit, foreach: { in: [1, 2], do: { guidance: Visit. } } }
  - { id: last, guidance: Last. }
",
    );
    let last = "{\"step_name\":\"last\",\"error\":\"no\"}\n";
    place.file("visits.jsonl", &format!("{{\"summary\":\"x\"}}\n{{\"summary\":\"y\"}}\n{last}"));
    place.file("last.jsonl", last);
    place.ends(1, "run each --id e --outputs visits.jsonl");
    place.done("retry e");
    place.ends(1, "run --id e~2 --outputs last.jsonl");
    for diff in ["diff e e~2", "diff e~2 e"] {
        let page = place.done(diff);
        page.shows("visit: 'e~2' kept this step, and does not list its 2 items");
        assert!(!page.contains("visit[1]"), "{page}");
    }
}

#[test]
fn an_execution_that_is_run_as_a_workflow_is_run_by_its_id() {
    let place = place();
    place.manifest("workflow: first1\ndescription: d\nsteps: [{ id: a, guidance: A. }]\n");
    place.ends(1, "run ship --id first --outputs failing.jsonl");
    place.ends(1, "run first").says("help: Run `midex run --id first`: that is an execution");
    let terminal = place.terminal("run first");
    terminal.ends(1).shows("midex run --id first");
}
