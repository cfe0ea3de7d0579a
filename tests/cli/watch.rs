//! `midex show --watch` and the pictures of workflows and executions.

use serde_json::Value;

use super::Place;
use midex_test::{Shows, terminal::Terminal};

#[test]
fn watching_shows_each_move_and_ends_with_the_execution() {
    let place = Place::new();
    place.begun("p");
    let server = place.listening();
    let mut watched = place.terminal("show p --watch");
    watched.expect("●");
    watched.expect("fix");
    place.run(1, "p", "{\"summary\":\"the remedy\"}\n");
    let shown = watched.expect("the remedy");
    // What stays is not drawn again.
    assert!(!shown.contains("the cause"), "{shown:?}");
    place.run(0, "p", "{\"summary\":\"it is gone\"}\n");
    let shown = watched.ends(0);
    shown.shows("it is gone…completed");
    drop(server);
}

#[test]
fn watching_without_a_server_leaves_the_store_to_others_and_an_interrupt_ends_it_well() {
    let place = Place::new();
    place.begun("p");
    let mut watched = place.terminal("show p --watch");
    watched.expect("fix");
    place.run(1, "p", "{\"summary\":\"the remedy\"}\n");
    watched.expect("the remedy");
    watched.interrupt();
    watched.ends(0);
}

/// What begins a frame: long lines are cut from there on.
const FRAME: &str = "\u{1b}[?7l";

#[test]
fn a_burst_of_moves_is_drawn_ten_times_a_second_at_most() {
    const STEPS: usize = 60;
    let place = Place::new();
    let step = |at| format!("  - {{ id: s{at}, guidance: Do it }}\n");
    let steps: String = (0..STEPS).map(step).collect();
    place.manifest(&format!("workflow: long\ndescription: L\nsteps:\n{steps}"));
    let server = place.listening();
    place.with_stdin("run long --id l", "").ends(1);
    let mut watched = place.terminal("show l --watch");
    let before = watched.expect("s0");
    place.with_stdin("run --id l", &"{\"summary\":\"done\"}\n".repeat(STEPS));
    let shown = before + &watched.ends(0);
    let frames = shown.matches(FRAME).count();
    let took = place.json("show l")["status"]["duration_ms"].take();
    // However slow the machine is: a frame begins a tenth of a second after the one before, or later. Of what came before the
    // end one may be drawn after it, and the end itself is.
    let most = took.as_u64().unwrap() / 100 + 3;
    assert!(frames > 1 && frames as u64 <= most, "{frames} of {most}");
    drop(server);
}

#[test]
fn in_a_pipe_each_move_is_a_line_of_json_or_a_page() {
    let place = Place::new();
    place.run(0, "p", "{\"summary\":\"a\"}\n{\"summary\":\"b\"}\n{\"summary\":\"c\"}\n");
    let lines = place.done("show p --watch --json");
    assert_eq!(lines.lines().count(), 1, "{lines}");
    let shown: Value = serde_json::from_str(&lines).unwrap();
    assert_eq!(shown["status"]["state"], "completed");
    let page = place.done("show p --watch");
    page.shows("✓ verify");
    assert!(!page.contains('\u{1b}'), "{page:?}");
}

#[test]
fn an_execution_is_drawn_with_where_its_steps_stand() {
    let place = Place::new();
    place.begun("p");
    let text = place.done("graph p --format text");
    assert_eq!(text, "  ✓ diagnose  debugger\n  ● fix       implementer\n  ○ verify    reviewer\n");
    let graph = place.json("graph p");
    assert_eq!(graph["nodes"][1]["standing"]["status"], "running");
    let svg = place.done("graph p --format svg");
    svg.shows("class=\"n completed\"…class=\"n running\"…</svg>");
    // A name that is neither is told by what is nearest.
    place.ends(1, "graph bug-fixx").says("bug-fix");
}

#[test]
fn items_rounds_and_gates_are_told_apart() {
    let place = Place::new();
    place.manifest(
        "workflow: w
description: Items, rounds, a gate
steps:
  - { id: each, foreach: { in: [1, 2, 3], do: { guidance: 'Do ${{ item }}', on_error: continue } } }
  - { id: agree, gate: Is it so? }
  - { id: nap, wait: { for: 2h } }
",
    );
    place.with_stdin("run w --id x", "{\"summary\":\"one\"}\n");
    let shown = place.done("show x");
    shown.shows("● each 1/3  foreach…○ agree…gate…○ nap…wait");
    place.with_stdin(
        "run w --id x",
        "{\"summary\":\"two\"}\n{\"step_name\":\"each\",\"error\":{\"message\":\"no\"}}\n",
    );
    let shown = place.done("show x");
    shown.shows("✓ each 3/3 (1 failed)…● agree…agree waits for an approval: Is it so?");
    let mut terminal = place.terminal("approve x --as ann");
    terminal.answer("leaves it open: ", "y");
    terminal.ends(0);
    let shown = place.done("show x");
    shown.shows("✓ agree…approved by ann…● nap…nap waits until…(1 h 59 m left)");
}

#[test]
fn pictures_and_pages_fit_every_width() {
    let place = Place::new();
    place.begun("p");
    for columns in [40, 60, 80, 120, 200] {
        for args in [
            "graph app-scaffold",
            "graph parallel-code-review",
            "graph p",
            "list",
            "list agents",
            "list executions",
        ] {
            let mut command = place.command(args);
            command.env("NO_COLOR", "1");
            let shown = Terminal::sized(command, columns).ends(0);
            let fits = |line: &str| line.trim_end().chars().count() <= usize::from(columns);
            // A single word that is longer than the line is not broken.
            let is_word = |line: &str| !line.trim().contains(' ');
            for line in shown.lines() {
                assert!(fits(line) || is_word(line), "{args:?} at {columns}: {line:?}");
            }
        }
    }
}

/// What stands on a terminal of so many rows after this, from the last time that it was wiped.
fn since_wiped(shown: &str) -> Vec<String> {
    let last = shown.rsplit("\u{1b}[H\u{1b}[J").next().unwrap();
    super::screens::shown::Shown::of(last).lines()
}

#[test]
fn a_window_that_gets_lower_and_higher_again_shows_the_page_whole() {
    let place = Place::new();
    place.begun("p");
    let _server = place.listening();
    let mut watched = place.terminal("show p --watch");
    let first = watched.expect("verify");
    assert!(first.contains("diagnose"), "{first:?}");
    watched.expect("\u{1b}[?7h");
    watched.resize(6, 60);
    let lower = watched.expect("more lines") + &watched.expect("\u{1b}[?7h");
    assert!(lower.contains("\u{1b}[H\u{1b}[J"), "{lower:?}");
    assert!(since_wiped(&lower).len() <= 5, "{lower:?}");
    watched.resize(24, 60);
    let higher = watched.expect("verify");
    higher.shows("\u{1b}[H\u{1b}[J…diagnose…fix");
    // A narrower one is laid out anew too.
    watched.resize(24, 40);
    let narrow = watched.expect("\u{1b}[H\u{1b}[J") + &watched.expect("verify");
    narrow.shows("diagnose");
    watched.interrupt();
    watched.ends(0);
}
