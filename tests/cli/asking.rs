//! `midex run` asks a person value by value: for inputs, for what a step asks of the user, and for outputs with fields.

use serde_json::json;

use super::{Place, Words};
use midex_test::{Fields, Shows, terminal::Terminal};

const INVITE: &str = "workflow: invite
description: Write an invitation
inputs:
  topic: { type: string, name: Topic, description: What it is about, example: tea }
  seats: { type: integer, default: { from: literal, value: 2 }, validate: { min: 1, max: 5 } }
  tone: { type: string, enum: [warm, dry], optional: true, hint: how it should sound }
  guest: { type: string, description: Who comes, optional: true }
steps:
  - id: draft
    guidance: Write about ${{ inputs.topic }} for ${{ inputs.seats }} in a ${{ inputs.tone }} tone
    result:
      type: object
      properties: { text: { type: string, minLength: 5 }, tags: { type: array, items: { type: string } }, formal: { type: boolean } }
      required: [text]
  - id: who
    input: { properties: [guest] }
  - id: check
    optional: true
    guidance: Check it for ${{ inputs.guest }}
";

/// What begins it as `i` with all that it must be given.
const JAM: &str = "run invite --id i --input topic=jam";

fn place() -> Place {
    let place = Place::new();
    place.manifest(INVITE);
    place
}

#[test]
fn each_input_is_asked_by_its_own_question_and_each_field_of_an_output_too() {
    let place = place();
    let mut terminal = place.terminal("run invite --id i");
    let shown = terminal.expect("topic> ");
    shown.shows("Write an invitation…Topic: What it is about (text; such as tea)");
    terminal.type_line("");
    terminal.expect("it is needed");
    terminal.answer("topic> ", "jam");
    let shown = terminal.expect("seats [2]> ");
    shown.shows("whole number; 1 to 5");
    terminal.type_line("many");
    terminal.expect("that is no whole number");
    // What the schema refuses is refused where it is typed.
    terminal.answer("seats [2]> ", "9");
    let shown = terminal.expect("seats [2]> ");
    shown.shows("greater than the maximum of 5");
    terminal.type_line("3");
    let shown = terminal.expect("tone> ");
    shown.shows("one of warm, dry; may be left empty;");
    // Tab completes a choice.
    terminal.type_keys("d\t");
    terminal.type_line("");
    // The guest is asked for later, by a step.
    let shown = terminal.expect("text> ");
    shown.shows("[1/3] draft…Write about jam for 3 in a dry tone…text, tags?, formal?");
    terminal.type_line("hey");
    terminal.expect("shorter than 5");
    terminal.answer("text> ", "hello");
    terminal.answer("tags> ", "a");
    terminal.answer("...> ", "b");
    terminal.answer("...> ", "");
    terminal.answer("formal> ", "n");
    let shown = terminal.expect("guest> ");
    shown.shows("[2/3] who…Who comes");
    terminal.type_line("Ada");
    let shown = terminal.expect("check> ");
    shown.shows("Check it for Ada");
    terminal.type_line("skip");
    terminal.ends(0);
    let shown = place.json("show i");
    shown["history"][0]["output"]
        .has_fields(json!({ "text": "hello", "tags": ["a", "b"], "formal": false }));
    shown["history"][2]["error"].has_fields(json!({ "code": "skipped" }));
}

#[test]
fn only_what_is_missing_is_asked_where_some_is_given_and_leaving_starts_nothing() {
    let place = place();
    let mut run = place.command("run invite --id i --input seats=4");
    let mut terminal = Terminal::open(run);
    terminal.answer("topic> ", "jam");
    terminal.answer("text> ", "later");
    terminal.ends(1);
    let inputs = &place.inputs("i");
    inputs.has_fields(json!({ "topic": "jam", "seats": 4 }));
    run = place.command("run invite --id j");
    terminal = Terminal::open(run);
    terminal.answer("topic> ", "jam");
    let shown = terminal.left_at("seats [2]> ", "\u{3}");
    shown.shows("Nothing was started…not recorded: {\"topic\":\"jam\"}");
    place.ends(1, "show j").says("EXECUTION_NOT_FOUND");
}

#[test]
fn a_word_at_the_question_of_an_input_ends_nothing_that_has_not_begun() {
    let place = place();
    let mut terminal = place.terminal("run invite --id i");
    terminal.answer("topic> ", "jam");
    for (word, said) in [
        ("?", "leaves it; nothing was started"),
        ("pause", "nothing runs yet"),
        ("skip", "nothing runs yet"),
    ] {
        terminal.answer("seats [2]> ", word);
        let shown = terminal.expect("seats [2]> ");
        shown.shows(&[said]);
        terminal.type_line("x");
    }
    terminal.answer("seats [2]> ", "3");
    // What was typed before the words is kept, and here a failure is a text like another.
    terminal.answer("tone> ", "");
    terminal.expect("text> ");
    terminal.type_line("?");
    let shown = terminal.expect("text> ");
    shown.shows("hands in…pauses the");
    assert!(!shown.contains("- skip"), "the step is needed: {shown}");
    terminal.type_line("skip");
    terminal.expect("needs this step");
    terminal.answer("text> ", "later");
    terminal.ends(1);
    let inputs = &place.inputs("i");
    inputs.has_fields(json!({ "topic": "jam", "seats": 3 }));
}

#[test]
fn an_input_that_the_workflow_has_not_is_refused_once_and_asked_no_more() {
    let place = place();
    let json = place.terminal(JAM.and("--input nope=1 --json"));
    json.ends(1).shows("INPUTS_INVALID");
    let mut terminal = place.terminal(JAM.and("--input nope=1"));
    terminal.expect("has no input `nope`");
    // All of them are asked, for none of them is what was refused.
    for (asked, answer) in [
        // What was given and not refused is kept.
        ("topic [jam]> ", ""),
        ("seats [2]> ", ""),
        ("tone> ", ""),
        ("guest> ", ""),
        ("text> ", "hello"),
    ] {
        terminal.answer(asked, answer);
    }
    // What was typed for a field before is not lost where it is left.
    terminal.answer("tags> ", "later");
    terminal.ends(1).shows("not recorded: {\"text\":\"hello\"}");
    let inputs = &place.inputs("i");
    inputs.has_fields(json!({ "topic": "jam" }));
}

#[test]
fn an_execution_goes_on_by_its_id_alone_and_says_what_it_works_on() {
    let place = place();
    let begun = "run invite --id invitation --input topic=jam";
    place.with_stdin(begun, "").ends(1);
    // A part of the id will do, where nothing can be started.
    let ran = place.with_stdin("run --id invit", "{\"text\": \"hello\"}\n");
    ran.shows(&[
        "Going on with invitation of invite",
        "topic: jam",
        "seats: 2",
        "To go on: midex run invite --id invitation",
    ]);
    let ran = place.with_stdin("run --id nope", "").ends(1);
    ran.says("EXECUTION_NOT_FOUND…there is no execution 'nope'");
    let ran = place.with_stdin("run --id invitation --input topic=x", "");
    ran.ends(2).says("no workflow that takes them");
    place.with_stdin("run", "").ends(2);
    let shown = place.done("show invitation");
    shown.shows("inputs\n  topic: jam\n  seats: 2\n…  midex run --id invitation");
}

#[test]
fn what_is_told_to_type_can_be_typed_also_of_an_id_that_begins_with_a_dash() {
    let place = place();
    let begun = "run invite --id=-i --input topic=jam";
    let ran = place.with_stdin(begun, "").ends(1);
    ran.shows("To go on: midex run invite --id=-i\n");
    place.done("pause -- -i");
    let shown = place.done("show -- -i");
    shown.shows("  midex resume -- -i  (lets it go on)\n");
    place.done("resume -- -i");
    let shown = place.done("show --data-dir ../data -- -i");
    shown.shows("  midex run --id=-i --data-dir ../data  (goes on");
    place.done("abandon -- -i");
    place
        .with_stdin("run invite --id=-i --input topic=x", "")
        .ends(1)
        .says("was started with other inputs");
}

#[test]
fn the_turns_of_items_are_numbered() {
    let place = Place::new();
    place.manifest("workflow: each\ndescription: E\ninputs:\n  pages: { type: array }\nsteps:\n  - id: look\n    foreach: { in: '${{ inputs.pages }}', as: page, do: { guidance: 'Look at ${{ page }}' } }\n");
    let args = "run each --id e --inputs '{\"pages\": [\"a\", \"b\"]}'";
    let ran = place.with_stdin(args, "{\"summary\": \"one\"}\n");
    ran.shows("look (item 1 of 2)…look (item 2 of 2)");
    place.done("pause e");
    let resumed = place.done("resume e");
    resumed.shows("at 'look' (item 2)");
    let told = place.done("tail e --no-follow");
    told.shows("#1 begins…#1 done…#2 begins");
}

#[test]
fn a_run_that_waits_for_a_signal_names_the_command_that_brings_it() {
    let place = Place::new();
    place.manifest(
        "workflow: hear\ndescription: H\nsteps:\n  - { id: hear, wait: { signal: all clear } }\n",
    );
    let mut terminal = place.terminal("run hear --id h");
    terminal.expect("hear waits for the signal 'all clear'");
    terminal.expect("  midex signal h 'all clear'");
    place.done("signal h 'all clear'");
    terminal.ends(0);
}

#[test]
fn the_whole_output_may_be_given_as_json_or_in_a_file() {
    let place = place();
    place.file("draft.json", "{\"text\": \"from a file\"}");
    let ran = place.with_stdin(JAM.and("--output draft.json"), "");
    ran.out.shows("To go on: midex run invite --id i");
    let history = place.history("i");
    assert_eq!(history[0]["output"]["text"], "from a file");
    let ran =
        place.with_stdin("run invite --id j --input topic=jam --output -", "{\"text\": \"piped\"}");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let history = place.history("j");
    assert_eq!(history[0]["output"]["text"], "piped");
    let mut terminal = place.terminal("run invite --id k --input topic=jam");
    terminal.answer("text> ", "{\"text\": \"typed\",");
    terminal.answer("...> ", "\"tags\": []}");
    terminal.answer("guest> ", "later");
    terminal.ends(1);
    let history = place.history("k");
    assert_eq!(history[0]["output"], json!({ "text": "typed", "tags": [] }));
}

#[test]
fn a_parent_leads_into_its_child_and_a_gate_is_asked_in_place() {
    let place = Place::new();
    place.manifest("workflow: parent\ndescription: P\nsteps:\n  - { id: below, workflow: child }\n  - { id: after, guidance: 'After ${{ steps.below.summary }}' }\n");
    place.manifest("workflow: child\ndescription: C\nsteps:\n  - { id: agree, gate: Is it so? }\n  - { id: inner, guidance: Inner }\n");
    let mut terminal = place.terminal("run parent --id p");
    terminal.answer("leaves it open: ", "y");
    terminal.answer("inner> ", "done below\n");
    terminal.expect("is \u{1b}[32mcompleted");
    let shown = terminal.expect("after> ");
    shown.shows("After done below");
    terminal.type_line("done\n");
    terminal.ends(0);
}

#[test]
fn personas_are_told_what_to_work_on_though_their_workflow_declares_no_inputs() {
    let place = Place::new();
    place.workflow("plain", &[("diagnose", &[])]);
    let mut terminal = place.terminal("run plain --id a");
    let shown = terminal.expect("task> ");
    shown.shows("A test…What it is to work on (text");
    terminal.type_line("the export hangs");
    let shown = terminal.expect("diagnose> ");
    shown.shows("task:…the export hangs");
    terminal.type_line("later");
    terminal.ends(1);
    let inputs = &place.inputs("a");
    assert_eq!(*inputs, json!({ "task": "the export hangs" }));
    // It may be left empty, and nobody is asked who said it, or who is no person.
    let mut terminal = place.terminal("run plain --id b");
    terminal.answer("task> ", "");
    terminal.answer("diagnose> ", "later");
    terminal.ends(1);
    assert_eq!(place.inputs("b"), json!(null));
    place.with_stdin("run plain --id c", "").ends(1);
}
