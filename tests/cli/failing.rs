//! Before an error ends an execution the person at the terminal is asked, and after it each text names its retry. Each
//! such piece of advice is followed once.

use std::fs;

use serde_json::{Value, json};

use super::{Client, Place, Ran, Server, Shows, Terminal, advice, until};

const NINE: &str = "workflow: nine
description: Nine steps
steps: [{ id: s1, guidance: Do it }, { id: s2, guidance: Do it }, { id: s3, guidance: Do it }, { id: s4, guidance: Do it },
  { id: s5, guidance: Do it }, { id: s6, guidance: Do it }, { id: s7, guidance: Do it }, { id: s8, guidance: Do it },
  { id: s9, guidance: Do it }]
";
/// A step whose error is tried again, one whose error is ignored, and one whose error ends the execution.
const THREE: &str = "workflow: three
description: Three steps
steps:
  - { id: twice, guidance: Do it, retry: { max_attempts: 2 } }
  - { id: maybe, guidance: Do it, on_error: continue }
  - id: tags
    guidance: Tag it
    result: { type: object, properties: { name: { type: string }, color: { type: string } }, required: [name, color] }
";
const FAILS: &str = "{\"step_name\":\"one\",\"error\":\"the disk is full\"}\n";
const QUESTION: &str = "End it? [y]es, [p]ause instead, anything else goes back: ";

/// Makes a text about the failed execution of this id.
type Text = fn(&Place, &str) -> String;

/// A place with a workflow of one step.
fn place() -> Place {
    let place = Place::new();
    place.manifest("workflow: one\ndescription: One step\nsteps: [{ id: one, guidance: Do it }]\n");
    place
}

/// Begins `one` as an execution that fails.
#[track_caller]
fn fail(place: &Place, id: &str) -> Ran {
    place.with_stdin(&["run", "one", "--id", id], FAILS).ends(1)
}

/// The command that a text names, without `midex`: it begins like this.
#[track_caller]
fn named_command(text: &str, start: &str) -> String {
    let at = text.find(start).unwrap_or_else(|| panic!("`{start}` is not named: {text}"));
    let rest = &text[at..];
    let ends = ["\r", "\n", "`", "\u{1b}", "  ("].into_iter().filter_map(|end| rest.find(end));
    let command = &rest[..ends.min().unwrap_or(rest.len())];
    command.strip_prefix("midex ").unwrap().to_owned()
}

fn answer_text(terminal: &mut Terminal, steps: std::ops::RangeInclusive<u8>) {
    for step in steps {
        terminal.answer(&format!("s{step}> "), &format!("did {step}"));
        terminal.answer("...> ", "");
    }
}

#[test]
fn a_newcomer_goes_on_after_the_fifth_of_nine_steps_has_failed() {
    let place = Place::new();
    place.manifest(NINE);
    let mut terminal = place.terminal("run nine --id first");
    terminal.expect("failed: WHY, which ends the");
    answer_text(&mut terminal, 1..=4);
    terminal.answer("s5> ", "failed: the disk is full");
    terminal.expect("This ends the execution as failed: 's5'");
    terminal.answer(QUESTION, "y");
    let ended = terminal.ends(1);
    assert_eq!(named_command(&ended, "midex retry"), "retry first");
    let shown = place.terminal("show first").ends(0);
    shown.shows("4 of 9 done…the disk is full");
    let retried = place.terminal(&named_command(&shown, "midex retry")).ends(0);
    retried.shows("kept: s1, s2, s3, s4");
    terminal = place.terminal(&named_command(&retried, "midex run"));
    answer_text(&mut terminal, 5..=9);
    terminal.ends(0).shows("9 of 9");
    let history = place.history("first~2");
    let rows = history.as_array().unwrap().iter();
    let rows: Vec<_> =
        rows.map(|row| (row["output"]["summary"].clone(), row["inherited"] == true)).collect();
    let expected: Vec<_> = (1..=9).map(|step| (json!(format!("did {step}")), step < 5)).collect();
    assert_eq!(rows, expected);
    let compared = place.midex("diff first first~2").out;
    let steps = compared.lines().filter_map(|line| {
        let (sign, step) = line.trim_start().split_once(' ')?;
        Some((sign, step.split_once(": ")?.0)).filter(|_| ["~", "+", "-"].contains(&sign))
    });
    let steps: Vec<_> = steps.collect();
    // One step went another way, and the retry went further.
    assert_eq!(
        steps,
        [("~", "s5"), ("+", "s6"), ("+", "s7"), ("+", "s8"), ("+", "s9")],
        "{compared}"
    );
    compared.shows("s5: failed (STEP_FAILED: the disk is full)");
}

#[test]
fn an_error_that_ends_the_execution_is_confirmed_once_or_becomes_a_pause() {
    let place = Place::new();
    place.manifest(THREE);
    let mut terminal = place.terminal("run three --id i");
    // This one is tried again.
    terminal.answer("twice> ", "failed: no ink");
    terminal.expect("(attempt 2)");
    terminal.answer("twice> ", "{\"step_name\": \"twice\", \"error\": \"still no ink\"}");
    // A typo of the answer goes back.
    terminal.answer(QUESTION, "?");
    terminal.expect("`midex retry` can go on");
    terminal.answer(QUESTION, "n");
    terminal.answer("twice> ", "found some");
    terminal.answer("...> ", "");
    terminal.answer("maybe> ", "failed: not this one");
    terminal.answer("name> ", "Ada");
    terminal.answer("color> ", "failed: no colors here");
    terminal.answer(QUESTION, "back");
    // What was typed before is kept.
    terminal.answer("name [Ada]> ", "");
    terminal.answer("color> ", "failed: no colors here");
    terminal.answer(QUESTION, "p");
    let ended = terminal.ends(1);
    ended.shows("The execution is paused: no colors here…not recorded: {\"name\":\"Ada\"}");
    let status = place.json("show i")["status"].take();
    assert_eq!((&status["state"], &status["reason"]), (&json!("paused"), &json!("no colors here")));
    place.done(&named_command(&ended, "midex resume"));
    terminal = place.terminal("run --id i");
    terminal.answer("name> ", "failed: no names");
    terminal.left_at(QUESTION, "\u{3}").shows("not recorded: failed: no names");
    assert_eq!(place.state("i"), "running");
}

#[test]
fn only_a_person_at_a_terminal_is_asked_about_an_error() {
    let place = place();
    assert!(!fail(&place, "piped").err.contains("End it?"));
    let mut terminal = place.terminal("run one --id json --json");
    terminal.answer("one> ", "failed: no ink");
    terminal.ends(1).shows("\"workflow_state\":\"failed\"");
    // A command has failed, and no person has said so.
    let ended = place.terminal("run one --id agent --agent 'exit 1'").ends(1);
    assert!(!ended.contains("End it?"), "{ended}");
    let mut command = place.command("run one --id editor --editor");
    command.env("EDITOR", "printf '{\"step_name\":\"one\",\"error\":\"no ink\"}' >");
    let mut terminal = Terminal::open(command);
    terminal.answer(QUESTION, "n");
    terminal.expect("not recorded: {\"step_name\"");
    terminal.answer(QUESTION, "yes");
    terminal.ends(1);
    assert_eq!(place.json("show editor")["status"]["error"]["message"], "no ink");
}

#[test]
fn each_text_about_a_failed_execution_names_the_command_that_retries_it() {
    let place = place();
    let texts: [(&str, Text); 8] = [
        ("run", |place, id| fail(place, id).out),
        ("show", |place, id| place.done(&["show", id])),
        ("resume", |place, id| place.ends(1, &["resume", id]).out),
        ("latest", |place, _| place.done("resume")),
        ("again", |place, id| {
            let ran = place.with_stdin(&["run", "--id", id], "").ends(1);
            ran.shows("has ended");
            ran.out
        }),
        ("pause", |place, id| place.ends(1, &["pause", id]).err),
        ("help", |place, _| place.done("help errors STEP_FAILED")),
        ("page", |_, _| include_str!("../../docs/troubleshooting.md").to_owned()),
    ];
    for (id, text) in texts {
        if id != "run" {
            fail(&place, id);
        }
        let command = named_command(&text(&place, id), "midex retry");
        let command = command.replace("EXECUTION_ID", id).replace("EXECUTION", id);
        place.done(&command).shows(&format!("'{id}~2' continues '{id}'"));
        place.done(&["abandon", &format!("{id}~2")]);
    }
}

#[test]
fn an_execution_that_was_given_up_can_be_retried_and_a_child_is_retried_with_its_root() {
    let place = place();
    place.manifest("workflow: above\ndescription: A\nsteps: [{ id: below, workflow: one }]\n");
    let mut server = Server::greeted(place.command("serve"));
    for (verb, state) in [("abandon", "abandoned"), ("diverge", "diverged"), ("fail", "failed")] {
        server.begin("one", verb);
        server.change(verb, verb);
        let shown = place.done(&["show", verb]);
        shown.shows(state);
        let resumed = place.ends(1, &["resume", verb]).out;
        let command = named_command(&shown, "midex retry");
        assert_eq!(named_command(&resumed, "midex retry"), command);
        place.done(&command).shows("continues");
    }
    server.begin("above", "root");
    let status = server.status("root");
    let child = status["children"][0]["execution_id"].as_str().unwrap();
    // The parent names its child before the server has started it.
    until(|| place.midex(&["show", child]).code == Some(0), "the child has begun");
    server.change("fail", child);
    assert_eq!(server.done("execution.wait", json!({ "execution_id": "root" }))["state"], "failed");
    place.done(&["show", child]).lacks("midex retry");
    place.done("show root").shows("midex retry root");
}

#[test]
fn each_text_for_an_agent_names_the_call_that_retries_what_has_failed() {
    let place = place();
    let mut server = Server::greeted(place.command("serve"));
    let names_retry = |server: &mut Server, id: &str, text: &Value| {
        let text = text.as_str().expect("a text");
        let at = text.find("execution.retry").unwrap_or_else(|| panic!("no retry: {text}"));
        let call = advice::parse(&format!("Call {}", &text[at..])).expect("a call");
        let arguments: Value = call.arguments.into_iter().collect();
        let retried = server.done(&call.tool, arguments);
        assert_eq!(retried["execution_id"], format!("{id}~2"));
        server.change("abandon", &format!("{id}~2"));
    };
    let fail = |server: &mut Server, id: &str| {
        let begun = server.begin("one", id);
        let error = json!({ "message": "the disk is full" });
        server.next_step(json!({ "token": begun["new_token"], "error": error }))
    };
    let reply = fail(&mut server, "a");
    names_retry(&mut server, "a", &reply["message"]);
    fail(&mut server, "b");
    let resumed = server.done("execution.resume", json!({ "execution_id": "b" }));
    names_retry(&mut server, "b", &resumed["message"]);
    fail(&mut server, "c");
    let resumed = server.done("execution.resume", json!({}));
    names_retry(&mut server, "c", &resumed["message"]);
    // Nothing to retry: what moved last has not failed.
    let resumed = server.done("execution.resume", json!({}));
    resumed["message"].as_str().unwrap().lacks("execution.retry");
    let reply = fail(&mut server, "d");
    let transcript = place.project().join("transcript.jsonl");
    fs::write(&transcript, reply.to_string()).unwrap();
    let hook = |event: &str, transcript: &std::path::Path| {
        let event_json = json!({ "session_id": "s", "transcript_path": transcript });
        place.with_stdin(&["hook", event], &event_json.to_string()).ends_quietly(0).out
    };
    let call = "execution.retry with execution_id 'd'";
    for event in ["stop", "session-start"] {
        hook(event, &transcript).shows(call);
        // Another session has not worked on it.
        assert_eq!(hook(event, &place.project().join("none")), "");
    }
    assert_eq!(hook("stop", &transcript), "");
    names_retry(&mut server, "d", &json!(call));
    assert_eq!(hook("session-start", &transcript), "");
}
