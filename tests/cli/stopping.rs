//! Ctrl-C, Ctrl-Z, closed pipes and long pastes: nothing is lost, and what is said tells how to go on.

use std::{
    io::Read,
    process::{Command, Stdio},
};

use rustix::termios::LocalModes;

use super::{Place, Words, screens::seed::Seed, until};
use midex_test::{Fields, Shows, terminal::Terminal, wait};

/// Asks for inputs, for fields of an output, for several lines, and for an approval.
const ASKS: &str = "workflow: asks
description: Ask for everything
inputs:
  topic: { type: string }
steps:
  - id: draft
    guidance: Write about ${{ inputs.topic }}
    result: { type: object, properties: { text: { type: string }, note: { type: string } }, required: [text, note] }
  - { id: tell, guidance: Tell it. }
  - { id: agree, gate: Is it so? }
";

fn place() -> Place {
    let place = Place::new();
    place.manifest(ASKS);
    place
}

/// What is answered before a prompt, the prompt, what is half typed at it, and what must be said after a Ctrl-C.
type Stop =
    (&'static [(&'static str, &'static str)], &'static str, &'static str, &'static [&'static str]);

const BEFORE_DRAFT: &[(&str, &str)] = &[("topic> ", "tea\r")];
const BEFORE_NOTE: &[(&str, &str)] = &[("topic> ", "tea\r"), ("text> ", "a text\r")];
const BEFORE_TELL: &[(&str, &str)] =
    &[("topic> ", "tea\r"), ("text> ", "a text\r"), ("note> ", "a note\r")];
const BEFORE_GATE: &[(&str, &str)] = &[
    ("topic> ", "tea\r"),
    ("text> ", "a text\r"),
    ("note> ", "a note\r"),
    ("tell> ", "told\r"),
    ("...> ", "\r"),
];
const GO_ON: &str = "To go on: midex run asks --id s";

const STOPS: &[Stop] = &[
    (&[], "topic> ", "te", &["Nothing was started"]),
    (BEFORE_DRAFT, "text> ", "hal", &[GO_ON]),
    (BEFORE_NOTE, "note> ", "hal", &[GO_ON, "not recorded: {\"text\":\"a text\"}"]),
    (BEFORE_TELL, "tell> ", "hal", &[GO_ON]),
    (BEFORE_GATE, "leaves it open: ", "y", &["midex run asks --id s"]),
];

/// A run that stands at a prompt, with a half typed word.
fn at_prompt((before, prompt, keys, _): &Stop, place: &Place) -> Terminal {
    let mut terminal = place.terminal("run asks --id s");
    for (expected, keys) in *before {
        terminal.expect(expected);
        terminal.type_keys(keys);
    }
    terminal.expect(prompt);
    terminal.type_keys(keys);
    terminal
}

#[test]
fn an_interrupt_at_every_prompt_says_how_to_go_on_and_loses_nothing_that_was_recorded() {
    for stop in STOPS {
        for is_key in [true, false] {
            let place = place();
            let mut terminal = at_prompt(stop, &place);
            if is_key {
                terminal.type_keys("\u{3}");
            } else {
                terminal.interrupt();
            }
            let shown = terminal.ends(1);
            // What a signal finds in the line editor nobody knows, and before a start there is nothing to go on with.
            let said = match (is_key, stop.0) {
                (true, _) => stop.3,
                (false, []) => &["Nothing was started"],
                (false, _) => &stop.3[..1],
            };
            shown.shows(said);
            let shown = place.midex("show s --json");
            let recorded = stop.0.len().checked_sub(1).map_or(0, |answers| answers / 2);
            match shown.code {
                Some(0) => {
                    let shown: serde_json::Value = serde_json::from_str(&shown.out).unwrap();
                    let done = &shown["status"]["steps"]["completed"];
                    assert_eq!(*done, recorded.min(2), "{stop:?}");
                }
                _ => assert!(stop.0.is_empty(), "{shown:?}"),
            }
        }
    }
}

#[test]
fn an_interrupt_of_a_list_or_a_question_does_nothing() {
    let place = Place::new();
    place.begun("p");
    for (args, asked) in [("pause", "empty: none) "), ("abandon", "empty: none) ")] {
        let mut terminal = place.terminal(args);
        terminal.expect(asked);
        terminal.interrupt();
        let (code, shown) = terminal.end();
        // The default of the signal, or the answer no.
        assert!(matches!(code, None | Some(1)), "{args:?}: {code:?} {shown}");
        assert_eq!(place.state("p"), "running");
    }
    let mut terminal = place.terminal("abandon");
    terminal.answer("empty: none) ", "1");
    terminal.expect("anything else does nothing: ");
    terminal.interrupt();
    let (code, shown) = terminal.end();
    assert!(matches!(code, None | Some(1)), "{code:?} {shown}");
    assert_eq!(place.state("p"), "running");
}

#[test]
fn a_stop_of_a_question_goes_on_where_it_was() {
    let place = Place::new();
    place.begun("p");
    let mut terminal = shell(&place);
    terminal.type_keys("\"$MIDEX\" abandon\r");
    terminal.expect("empty: none) ");
    terminal.type_keys("1\r");
    terminal.expect("anything else does nothing: ");
    stopped_and_taken_up(&mut terminal);
    until(
        || terminal.modes().local_modes.contains(LocalModes::ICANON),
        "the terminal reads lines again",
    );
    terminal.type_keys("y\n");
    terminal.expect("is abandoned");
    terminal.expect("shell$ ");
    terminal.type_keys("exit\r");
    terminal.end();
}

/// Whether keys are read one by one.
fn is_raw(terminal: &Terminal) -> bool {
    let modes = terminal.modes().local_modes;
    !modes.intersects(LocalModes::ICANON | LocalModes::ECHO)
}

/// A bash with job control at a terminal of its own.
fn shell(place: &Place) -> Terminal {
    shell_of(place, &["bash", "--norc", "--noprofile", "-i"])
}

fn shell_of(place: &Place, line: &[&str]) -> Terminal {
    for (program, probe) in [("setsid", "--version"), (line[0], "-c true")] {
        let probe = Command::new(program).args(probe.words()).stdout(Stdio::null()).status();
        let is_there = probe.is_ok_and(|status| status.success());
        assert!(is_there, "this test needs the program `{program}`");
    }
    let midex = place.command("");
    let mut command = Command::new("setsid");
    command
        .args(["--ctty", "--wait"])
        .args(line)
        .env("PS1", "shell$ ")
        .env("MIDEX", midex_test::binary())
        .current_dir(place.project());
    for (name, value) in midex.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut terminal = Terminal::open(command);
    terminal.expect("shell$ ");
    terminal
}

/// Stops what runs in the shell, and lets it go on: line editing is there again at once.
fn stopped_and_taken_up(terminal: &mut Terminal) {
    terminal.type_keys("\u{1a}");
    terminal.expect("Stopped");
    terminal.expect("shell$ ");
    // The shell's own line works as before.
    terminal.type_keys("echo it is$((40 + 2))\r");
    terminal.expect("it is42");
    terminal.expect("shell$ ");
    terminal.type_keys("fg\r");
}

#[test]
fn a_stop_at_every_prompt_gives_the_terminal_back_and_editing_goes_on_after_it() {
    for stop in STOPS {
        let place = place();
        let mut terminal = shell(&place);
        terminal.type_keys("\"$MIDEX\" run asks --id s\r");
        for (expected, keys) in stop.0 {
            terminal.expect(expected);
            terminal.type_keys(keys);
        }
        terminal.expect(stop.1);
        // What is half typed is there afterwards, and can be edited: what is rubbed out never was.
        terminal.type_keys("zz");
        terminal.expect("zz");
        stopped_and_taken_up(&mut terminal);
        terminal.expect(stop.1);
        terminal.expect("zz");
        until(|| is_raw(&terminal), "keys are read one by one");
        terminal.type_keys("\u{7f}\u{7f}");
        terminal.type_keys("\u{3}");
        terminal.expect(stop.3[0].rsplit("midex").next().unwrap());
        terminal.expect("shell$ ");
        terminal.type_keys("exit\r");
        terminal.end();
    }
}

#[test]
fn a_stop_leaves_the_terminal_as_it_was_also_where_the_shell_does_not_see_to_it() {
    let place = Place::new();
    let mut terminal = shell_of(&place, &["dash", "-i"]);
    let before = terminal.modes().local_modes;
    terminal.type_keys("\"$MIDEX\" run bug-fix --id s --input task=x\r");
    terminal.expect("diagnose> ");
    until(|| is_raw(&terminal), "keys are read one by one");
    terminal.type_keys("half");
    terminal.expect("half");
    terminal.type_keys("\u{1a}");
    terminal.expect("shell$ ");
    assert_eq!(terminal.modes().local_modes, before);
    terminal.type_keys("fg\r");
    terminal.expect("half");
    until(|| is_raw(&terminal), "keys are read one by one");
    // Ctrl-\\ is an interrupt like the other one.
    terminal.type_keys("\u{1c}");
    terminal.expect("midex run bug-fix --id s");
    terminal.expect("shell$ ");
    assert_eq!(terminal.modes().local_modes, before);
    terminal.type_keys("exit\r");
    terminal.end();
}

#[test]
fn a_stop_in_the_middle_of_an_answer_keeps_it() {
    let place = Place::new();
    let mut terminal = shell(&place);
    terminal.type_keys("\"$MIDEX\" run bug-fix --id s --input task=x\r");
    terminal.expect("diagnose> ");
    terminal.type_keys("the first line\r");
    terminal.expect("...> ");
    terminal.type_keys("the secondX");
    terminal.expect("X");
    for _ in 0..2 {
        stopped_and_taken_up(&mut terminal);
        terminal.expect("the secondX");
        until(|| is_raw(&terminal), "keys are read one by one");
    }
    terminal.type_keys("\u{7f} one\r");
    terminal.expect("...> ");
    terminal.type_keys("\r");
    terminal.expect("fix> ");
    terminal.type_keys("later\r");
    terminal.expect("shell$ ");
    terminal.type_keys("exit\r");
    terminal.end();
    let history = place.history("s");
    history
        .has_fields(serde_json::json!({ "/0/output/summary": "the first line\nthe second one" }));
}

#[test]
fn a_stop_of_a_list_to_pick_from_goes_on_where_it_was() {
    let place = Place::new();
    place.begun("p");
    let mut terminal = shell(&place);
    terminal.type_keys("\"$MIDEX\" pause\r");
    terminal.expect("empty: none) ");
    stopped_and_taken_up(&mut terminal);
    until(
        || terminal.modes().local_modes.contains(LocalModes::ICANON),
        "the terminal reads lines again",
    );
    terminal.type_keys("1\n");
    terminal.expect("is paused");
    terminal.expect("shell$ ");
    terminal.type_keys("exit\r");
    terminal.end();
    assert_eq!(place.state("p"), "paused");
}

#[test]
fn a_stopped_run_that_waits_lets_others_bring_what_it_waits_for() {
    let place = Place::new();
    place.manifest(
        "workflow: hear\ndescription: H\nsteps: [{ id: hear, wait: { signal: paid } }]\n",
    );
    let mut terminal = shell(&place);
    terminal.type_keys("\"$MIDEX\" run hear --id h\r");
    terminal.expect("midex signal h paid");
    terminal.type_keys("\u{1a}");
    terminal.expect("topped");
    terminal.expect("shell$ ");
    place.done("signal h paid");
    assert_eq!(place.state("h"), "completed");
    terminal.type_keys("fg\r");
    terminal.expect("completed");
    terminal.expect("shell$ ");
    terminal.type_keys("exit\r");
    terminal.end();
}

#[test]
fn a_paste_of_a_megabyte_is_taken_or_refused_at_every_kind_of_prompt() {
    let line = "x".repeat(1_000_000);
    let paste = format!("\u{1b}[200~{line}\u{1b}[201~\r");
    for (before, prompt, _, _) in STOPS {
        let place = place();
        let mut terminal = at_prompt(&(before, prompt, "", &[]), &place);
        terminal.type_keys(&paste);
        match *prompt {
            // What it begins is not ended yet.
            "tell> " => terminal.answer("...> ", "\r"),
            // Anything else leaves the gate open, and the run ends.
            "leaves it open: " => {
                terminal.ends(1).shows("midex run asks --id s");
                continue;
            }
            _ => {}
        }
        let next = match *prompt {
            "topic> " => "text> ",
            "text> " => "note> ",
            "note> " => "tell> ",
            _ => "leaves it open: ",
        };
        terminal.expect(next);
        terminal.type_keys("later\r");
        terminal.ends(1).shows("midex run asks --id s");
    }
}

#[test]
fn a_list_to_pick_from_survives_a_paste_of_a_megabyte() {
    let place = Place::new();
    place.begun("p");
    let mut terminal = place.terminal("pause");
    terminal.expect("empty: none) ");
    // A terminal that reads lines takes no more of one than it has room for.
    terminal.type_keys(&("x".repeat(1_000_000) + "\n"));
    terminal.answer("empty: none) ", "");
    terminal.ends(1);
    assert_eq!(place.state("p"), "running");
}

/// What prints: with the pipe closed before the first byte it ends quietly.
const PRINTS: &[&str] = &[
    "list",
    "list agents",
    "list executions",
    "list executions --json",
    "show loop",
    "show loop --json",
    "show workflow letter",
    "tail --no-follow",
    "tail loop --no-follow --json",
    "graph letter",
    "graph loop",
    "validate",
    "cat letter",
    "catalog list",
    "catalog show pantry",
    "catalog headers pantry",
    "call",
    "schema",
    "doctor",
    "config",
    "install --client cursor --print",
    "completions bash",
    "help",
    "help run",
    "help errors",
    "--help",
    "list --help",
    "--version",
    "resume",
    "approve",
    "show completed --watch",
];

#[test]
fn a_closed_pipe_ends_every_command_quietly() {
    let seed = Seed::new();
    for args in PRINTS {
        let mut child = seed.reading(args).spawn().unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let status = wait(&mut child);
        assert_eq!(said, "", "{args:?}");
        assert!(matches!(status.code(), Some(0 | 1)), "{args:?}: {status}");
    }
}
