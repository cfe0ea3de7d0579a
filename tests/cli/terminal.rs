//! `midex run` as a person at a terminal sees it.

use std::process::Command;

use rustix::{
    process::{Pid, Signal, kill_process},
    termios::tcgetattr,
};

use super::Place;
use midex_test::{Shows, terminal::Terminal};

/// The command that runs the shipped workflow of this name, which is told what it is to work on.
fn bug_fix(place: &Place) -> Command {
    place.command("run bug-fix --id p --input 'task=it hangs'")
}

/// A line, and the empty one that ends an answer.
fn words(text: &str) -> String {
    format!("{text}\n")
}

#[test]
fn a_person_is_asked_for_each_output_and_again_where_it_is_refused() {
    let place = Place::new();
    let mut terminal = Terminal::open(bug_fix(&place));
    let shown = terminal.expect("diagnose> ");
    shown.shows("\u{1b}[1m[1/3] diagnose\u{1b}[0m (debugger)");
    // The persona is one line, and nothing is said of calls and tokens.
    shown.shows("persona (--persona shows it):");
    shown.lacks("token…next_step");
    assert!(shown.lines().count() < 30, "{shown}");
    terminal.type_line(&words("the cause"));
    terminal.expect("[2/3] fix");
    terminal.expect("fix> ");
    // While a person thinks a server finds the store free; the run goes on as its client.
    let server = place.listening();
    assert_eq!(place.history("p")[0]["output"]["summary"], "the cause");
    terminal.type_line("{nonsense}");
    terminal.expect("not JSON");
    terminal.answer("fix> ", "{\"summary\": 7}");
    terminal.expect("/summary: ");
    terminal.answer("fix> ", "{\"summary\":");
    terminal.answer("...> ", "\"the remedy\"}");
    terminal.expect("[3/3] verify");
    terminal.expect("verify> ");
    drop(server);
    terminal.type_line("it is");
    terminal.answer("...> ", "gone");
    terminal.answer("...> ", "");
    let shown = terminal.ends(0);
    assert!(shown.contains("\u{1b}[32mcompleted\u{1b}[0m"), "{shown}");
    let history = place.history("p");
    assert_eq!(history[1]["output"]["summary"], "the remedy");
    assert_eq!(history[2]["output"]["summary"], "it is\ngone");
}

#[test]
fn the_persona_is_shown_where_that_is_asked_for() {
    let place = Place::new();
    let mut command = bug_fix(&place);
    command.arg("--persona");
    let mut terminal = Terminal::open(command);
    let shown = terminal.expect("diagnose> ");
    shown.shows("\u{1b}[2m  │ # Debugger\u{1b}[0m");
    terminal.type_line("later");
    terminal.ends(1);
}

#[test]
fn an_empty_line_stops_and_a_failure_can_be_told() {
    let place = Place::new();
    let mut terminal = Terminal::open(bug_fix(&place));
    terminal.answer("diagnose> ", "");
    let shown = terminal.ends(1);
    shown.shows("To go on: midex run bug-fix --id p");
    let mut terminal = Terminal::open(bug_fix(&place));
    terminal.answer("diagnose> ", r#"{"step_name":"verify","output":{"summary":"x"}}"#);
    terminal.expect("step 'verify' is not open");
    terminal.answer("diagnose> ", "skip");
    terminal.expect("the workflow needs this step");
    terminal.answer("diagnose> ", "?");
    terminal.expect("- later: stops here");
    terminal.answer("diagnose> ", "This failed, because it cannot be reproduced");
    terminal.answer("End it? ", "y");
    let shown = terminal.ends(1);
    assert!(shown.contains("it cannot be reproduced"), "{shown}");
    assert_eq!(place.state("p"), "failed");
}

#[test]
fn pausing_is_an_answer_too() {
    let place = Place::new();
    let mut terminal = Terminal::open(bug_fix(&place));
    terminal.answer("diagnose> ", "pause");
    let shown = terminal.ends(1);
    shown.shows("To go on: midex resume p");
    assert_eq!(place.state("p"), "paused");
}

#[test]
fn an_interrupt_says_how_to_go_on_and_leaves_the_store_in_order() {
    let place = Place::new();
    for interrupt in ["signal", "\u{3}", "\u{4}"] {
        let mut terminal = Terminal::open(bug_fix(&place));
        terminal.expect("diagnose> ");
        if interrupt == "signal" {
            kill_process(Pid::from_child(&terminal.child), Signal::INT).unwrap();
        } else {
            terminal.type_keys(interrupt);
        }
        let shown = terminal.ends(1);
        shown.shows("midex run bug-fix --id p");
        assert!(!place.socket().exists());
    }
}

#[test]
fn what_was_typed_before_an_interrupt_is_shown_and_the_terminal_is_as_it_was() {
    let place = Place::new();
    for (is_term, keys) in [(true, ""), (false, "\u{3}")] {
        let mut terminal = Terminal::open(bug_fix(&place));
        let before = terminal.modes();
        terminal.answer("diagnose> ", "half of it");
        terminal.expect("...> ");
        let keys_fd = terminal.keys.try_clone().unwrap();
        if is_term {
            kill_process(Pid::from_child(&terminal.child), Signal::TERM).unwrap();
        } else {
            terminal.type_keys(keys);
        }
        let shown = terminal.ends(1);
        shown.shows("To go on: midex run bug-fix --id p");
        shown.shows("not recorded: {\"summary\":\"half of it\"}");
        let after = tcgetattr(&keys_fd).unwrap();
        assert_eq!(after.local_modes, before.local_modes);
        assert_eq!(after.input_modes, before.input_modes);
    }
}

#[test]
fn a_paste_of_a_megabyte_is_one_answer() {
    let place = Place::new();
    let mut terminal = Terminal::open(bug_fix(&place));
    terminal.expect("diagnose> ");
    let line = "x".repeat(99);
    let text = vec![line.as_str(); 10_000].join("\n");
    terminal.type_keys(&format!("\u{1b}[200~{text}\u{1b}[201~"));
    terminal.type_line("\n");
    terminal.expect("[2/3] fix");
    terminal.answer("fix> ", "later");
    terminal.ends(1);
    let history = place.history("p");
    let output = &history[0]["output"]["summary"];
    assert_eq!(output.as_str().map(str::len), Some(999_999));
}

#[test]
fn lines_fit_the_terminal_and_no_color_is_no_color() {
    let place = Place::new();
    let mut command = bug_fix(&place);
    command.arg("--persona").env("NO_COLOR", "1");
    let mut terminal = Terminal::open(command);
    let shown = terminal.expect("diagnose> ");
    assert!(!shown.contains("\u{1b}[1m"), "{shown:?}");
    let persona: Vec<_> = shown.lines().filter_map(|line| line.strip_prefix("  │")).collect();
    assert!(persona.len() > 20, "{shown}");
    // Only a word that is longer than the line may pass its end.
    let fits = |line: &&str| line.trim_end().chars().count() <= 57 || !line.trim().contains(' ');
    assert!(persona.iter().all(fits), "{shown}");
    terminal.type_line("");
    terminal.end();
    for args in ["show p", "tail p --no-follow", "list executions"] {
        let mut command = place.command(args);
        command.env("NO_COLOR", "1");
        let shown = Terminal::open(command).ends(0);
        assert!(!shown.contains('\u{1b}'), "{shown:?}");
    }
    place.begun("q");
    let mut command = place.command("show q");
    command.env("NO_COLOR", "1");
    let (_, shown) = Terminal::open(command).end();
    assert!(
        shown.lines().filter(|line| !line.contains("project")).all(|line| line
            .chars()
            .filter(|c| !c.is_control())
            .count()
            <= 66),
        "{shown}"
    );
    shown.shows("✓…the cause");
    let (_, shown) = place.terminal("show p").end();
    assert!(shown.contains("\u{1b}[1mp\u{1b}[0m  bug-fix"), "{shown:?}");
}

#[test]
fn a_simple_terminal_is_asked_without_any_escape() {
    let place = Place::new();
    let mut command = bug_fix(&place);
    // Where this is set, color is often taken to be fine.
    command.env("CI", "true");
    let mut terminal = Terminal::open_as(command, "dumb");
    let shown = terminal.expect("diagnose> ");
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    terminal.type_line(&words("the cause"));
    terminal.answer("fix> ", "later");
    let shown = terminal.ends(1);
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
}

#[test]
fn whoever_is_overtaken_is_told_and_loses_no_words() {
    let place = Place::new();
    let mut terminal = Terminal::open(bug_fix(&place));
    terminal.expect("diagnose> ");
    place.begun("p");
    terminal.type_line(&words("my own words"));
    terminal.expect("not recorded: {\"summary\":\"my own words\"}");
    terminal.expect("[2/3] fix");
    terminal.expect("fix> ");
    place.done("pause p");
    terminal.type_line(&words("the remedy"));
    terminal.expect("not recorded: {\"summary\":\"the remedy\"}");
    terminal.expect("midex resume p");
    terminal.ends(1);
}
