//! What a person typed is not lost where they leave, or where a part of it is refused.

use midex_domain::limits;
use rustix::process::Signal;
use serde_json::json;

use super::Place;
use midex_test::{Shows, terminal::Terminal};

const TAG: &str = "workflow: tag
description: Tag it
steps:
  - id: label
    guidance: Name it and tag it
    result:
      type: object
      properties:
        name: { type: string }
        tags: { type: array, items: { type: string }, minItems: 2, uniqueItems: true }
        more: { type: object }
        grade: { type: integer }
        counts: { type: array, items: { type: integer }, minItems: 1 }
        parts: { type: array, items: { type: object } }
      required: [name, tags]
  - { id: note, guidance: Write what you saw }
";

fn place() -> Place {
    let place = Place::new();
    place.manifest(TAG);
    place
}

/// A run that asks for the fields after the name.
fn named(place: &Place, id: &str) -> Terminal {
    let mut terminal = place.terminal(&["run", "tag", "--id", id]);
    terminal.answer("name> ", "Ada");
    terminal
}

#[test]
fn items_of_a_list_and_lines_of_json_are_printed_where_they_are_left() {
    let place = place();
    for (keys, leaves) in [("\u{3}", "interrupted"), ("\u{4}", "stopped")] {
        let mut terminal = named(&place, leaves);
        terminal.answer("tags> ", "a");
        let shown = terminal.left_at("...> ", keys);
        let left = "not recorded: {\"name\":\"Ada\",\"tags\":[\"a\"]}";
        shown.shows(&[left, leaves]);
    }
    let mut terminal = named(&place, "json");
    terminal.answer("tags> ", "a");
    terminal.answer("...> ", "b");
    terminal.answer("...> ", "");
    terminal.answer("more> ", "{\"color\":");
    let shown = terminal.left_at("...> ", "\u{3}");
    shown.shows(&["\"tags\":[\"a\",\"b\"]", r#""more":"{\"color\":""#]);
}

#[test]
fn lines_of_words_are_printed_where_they_are_left() {
    let place = place();
    let mut terminal = named(&place, "words");
    terminal.answer("tags> ", "[\"a\", \"b\"]");
    terminal.answer("more> ", "");
    for asked in ["grade> ", "counts> ", "parts> "] {
        terminal.answer(asked, "");
    }
    terminal.answer("note> ", "a line");
    terminal.answer("...> ", "and another");
    let shown = terminal.left_at("...> ", "\u{3}");
    shown.shows(&[r#"not recorded: {"summary":"a line\nand another"}"#]);
    let mut terminal = place.terminal("run --id words");
    terminal.answer("note> ", "{\"summary\":");
    let shown = terminal.left_at("...> ", "\u{3}");
    shown.shows("not recorded: {\"summary\":\r\n");
}

#[test]
fn a_list_that_is_too_short_goes_on_and_one_that_is_refused_is_shown() {
    let place = place();
    let mut terminal = named(&place, "i");
    terminal.answer("tags> ", "a");
    terminal.answer("...> ", "");
    let shown = terminal.expect("...> ");
    shown.shows("fewer than 2 items; `later` stops here");
    terminal.answer("", "a");
    terminal.answer("...> ", "");
    let shown = terminal.expect("tags> ");
    shown.shows("you typed [\"a\",\"a\"]");
    terminal.type_line("[\"a\", \"b\"]");
    terminal.answer("more> ", "");
    // What was typed before is kept where the rest is given at once.
    terminal.answer("grade> ", "{\"grade\": 3}");
    terminal.answer("note> ", "later");
    terminal.ends(1);
    let output = &place.history("i")[0]["output"];
    let expected = json!({ "name": "Ada", "tags": ["a", "b"], "grade": 3 });
    assert_eq!(*output, expected);
}

#[test]
fn a_failure_without_a_reason_asks_the_same_field_again() {
    let place = place();
    let mut terminal = named(&place, "i");
    terminal.answer("tags> ", "failed");
    terminal.answer("why> ", "");
    let shown = terminal.expect("tags> ");
    shown.shows("a failure needs a reason");
    assert!(!shown.contains("name> "), "{shown}");
    terminal.type_line("failed");
    let shown = terminal.left_at("why> ", "\u{3}");
    shown.shows("not recorded: {\"name\":\"Ada\"}");
    let mut terminal = named(&place, "i");
    terminal.answer("tags> ", "failed");
    terminal.answer("why> ", "no ink");
    terminal.answer("End it? ", "y");
    terminal.ends(1);
    let status = &place.json("show i")["status"];
    assert_eq!(status["error"]["message"], "no ink");
}

#[test]
fn words_have_their_meaning_in_a_list_and_where_a_reason_is_asked_for() {
    let place = place();
    let mut terminal = named(&place, "i");
    terminal.answer("tags> ", "a");
    terminal.answer("...> ", "?");
    let shown = terminal.expect("...> ");
    shown.shows("- pause: pauses the…one a line, ended by an");
    terminal.type_line("\"pause\"");
    terminal.answer("...> ", "failed");
    terminal.answer("why> ", "?");
    let shown = terminal.expect("why> ");
    shown.shows("empty line takes it back…- later");
    terminal.type_line("later");
    let left = "not recorded: {\"name\":\"Ada\",\"tags\":[\"a\",\"pause\"]}";
    terminal.ends(1).shows(&[left, "To go on:"]);
    let status = &place.json("show i")["status"];
    assert_eq!(status["state"], "running");
}

#[test]
fn a_list_of_which_nothing_could_be_taken_is_asked_again_and_its_items_may_be_json() {
    let place = place();
    let mut terminal = named(&place, "i");
    terminal.answer("tags> ", "[\"a\", \"b\"]");
    terminal.answer("more> ", "");
    terminal.answer("grade> ", "");
    terminal.answer("counts> ", "many");
    terminal.expect("that is no whole number");
    terminal.answer("...> ", "");
    terminal.expect("no item could be taken");
    // Of a paste each line is an item.
    terminal.answer("counts> ", "\u{1b}[200~3\n\n4\u{1b}[201~");
    terminal.answer("...> ", "");
    terminal.answer("parts> ", "{\"a\":");
    terminal.answer("...> ", "1}");
    terminal.answer("...> ", "{\"b\": {");
    terminal.answer("...> ", "");
    let shown = terminal.expect("...> ");
    shown.shows("it ends too early…you typed {\"b\": {");
    terminal.type_line("");
    terminal.answer("note> ", "later");
    terminal.ends(1);
    let output = &place.history("i")[0]["output"];
    let expected =
        json!({ "name": "Ada", "tags": ["a", "b"], "counts": [3, 4], "parts": [{ "a": 1 }] });
    assert_eq!(*output, expected);
}

#[test]
fn what_was_typed_is_printed_also_where_a_signal_ends_it_at_a_simple_terminal() {
    let place = place();
    for signal in [Signal::INT, Signal::TERM] {
        let id = format!("at-{}", signal.as_raw());
        let mut terminal = Terminal::open_as(place.command(&["run", "tag", "--id", &id]), "dumb");
        terminal.answer("name> ", "Ada");
        terminal.answer("tags> ", "a");
        terminal.expect("...> ");
        terminal.signal(signal);
        let left = "not recorded: {\"name\":\"Ada\",\"tags\":[\"a\"]}";
        terminal.ends(1).shows(&[left, "To go on:"]);
    }
}

#[test]
fn an_answer_that_nobody_takes_is_printed_whether_or_not_it_is_on_its_way() {
    let place = place();
    let server = place.listening();
    let mut terminal = named(&place, "i");
    terminal.answer("tags> ", "[\"a\", \"b\"]");
    for asked in ["more> ", "grade> ", "counts> "] {
        terminal.answer(asked, "");
    }
    terminal.expect("parts> ");
    server.signal(Signal::STOP);
    terminal.type_line("");
    // Once its end is shown the line is taken, and the answer is on its way, or about to be.
    terminal.expect("\n");
    terminal.interrupt();
    let left = ": {\"name\":\"Ada\",\"tags\":[\"a\",\"b\"]}";
    let shown = terminal.ends(1);
    server.signal(Signal::CONT);
    shown.shows(&[left, "To go on: midex run tag --id i"]);
}

#[test]
fn what_another_answer_takes_the_place_of_is_printed() {
    let place = place();
    let mut terminal = named(&place, "i");
    terminal.answer("tags> ", "[\"a\", \"b\"]");
    terminal.answer("more> ", "{\"color\":");
    terminal.answer("...> ", "red}");
    let shown = terminal.expect("more> ");
    shown.shows("not JSON from line 2…you typed {\"color\":");
    terminal.type_line("failed: no ink");
    terminal.answer("End it? ", "y");
    let shown = terminal.ends(1);
    shown.shows("not recorded: {\"name\":\"Ada\",\"tags\":[\"a\",\"b\"]}");
    let status = &place.json("show i")["status"];
    assert_eq!(status["error"]["message"], "no ink");
}

#[test]
fn refused_lines_are_printed_and_one_line_where_it_is_left() {
    let place = Place::new();
    place.manifest(NOTE);
    let mut terminal = place.terminal("run note --id i");
    terminal.answer("note> ", "{\"summary\":");
    terminal.answer("...> ", "what}");
    let shown = terminal.expect("note> ");
    shown.shows("not JSON…not recorded:\r\n{\"summary\":\r\nwhat}");
    terminal.type_line("{\"summary\": 7}");
    terminal.expect("/summary: ");
    let shown = terminal.left_at("note> ", "\u{3}");
    shown.shows("not recorded: {\"summary\":7}");
}

const NOTE: &str = "workflow: note
description: Note it
steps: [{ id: note, guidance: Write what you saw }]
";

#[test]
fn of_a_rest_given_at_once_what_it_lacks_is_asked() {
    let place = place();
    let mut terminal = place.terminal("run tag --id i");
    // What is begun like that is no name, and what the rest lacks is the name too.
    terminal.answer("name> ", "{ \"grade\": 1, nope}");
    terminal.expect("not JSON from column");
    terminal.answer("name> ", "{\"grade\":");
    terminal.answer("...> ", "\u{1b}[200~failed: x\ny\u{1b}[201~");
    terminal.expect("not JSON from line 2");
    terminal.answer("name> ", "{\"grade\": 1}");
    terminal.answer("name> ", "Ada");
    terminal.answer("tags> ", "[\"a\", \"b\"]");
    terminal.answer("note> ", "later");
    terminal.ends(1);
    let output = &place.history("i")[0]["output"];
    assert_eq!(*output, json!({ "name": "Ada", "grade": 1, "tags": ["a", "b"] }));
}

#[test]
fn where_nobody_knows_what_was_wrong_each_value_is_kept_or_taken_away() {
    let place = Place::new();
    place.manifest(PAY);
    let mut terminal = place.terminal("run pay --id i");
    terminal.answer("sum> ", "3");
    terminal.answer("card> ", "17");
    let shown = terminal.expect("sum [3]> ");
    shown.shows("\"street\" is a required property");
    // It is kept too where another was typed and refused.
    terminal.type_line("x");
    terminal.expect("that is no whole number");
    terminal.answer("sum [3]> ", "");
    let shown = terminal.expect("card [17]> ");
    shown.shows("\"\" takes it away");
    terminal.type_line("\"\"");
    terminal.ends(0);
    let output = &place.history("i")[0]["output"];
    assert_eq!(*output, json!({ "sum": 3 }));
}

#[test]
fn what_was_typed_for_a_step_that_has_failed_is_not_handed_in_for_the_next() {
    let place = Place::new();
    let next = PAY
        .replace("workflow: pay", "workflow: next")
        .replace("    guidance", "    optional: true\n    guidance")
        + &PAY[PAY.find("  - id").unwrap()..].replace("id: pay", "id: again");
    place.file("workflows/next.yaml", &next);
    let mut terminal = place.terminal("run next --id i");
    terminal.answer("sum> ", "3");
    terminal.answer("card> ", "17");
    // The same output is not counted twice.
    for sum in 4..limits::OUTPUT_ATTEMPTS_MAX + 3 {
        terminal.answer(&format!("sum [{}]> ", sum - 1), &sum.to_string());
        terminal.answer("card [17]> ", "");
    }
    let shown = terminal.expect("sum> ");
    let left = "not recorded: {\"sum\":7,\"card\":\"17\"}";
    shown.shows(&["the step failed", left, "[2/2] again"]);
    terminal.type_line("4");
    terminal.answer("card> ", "");
    terminal.ends(0);
    let output = &place.history("i")[1]["output"];
    assert_eq!(*output, json!({ "sum": 4 }));
}

#[test]
fn an_input_that_was_given_as_a_flag_can_be_taken_away_where_all_are_asked_again() {
    let place = Place::new();
    place.manifest("workflow: w\ndescription: W\ninputs: { a: { type: string, optional: true } }\nsteps: [{ id: note, guidance: Note }]\n");
    let run = "run w --id i --input a=b --input no=1";
    let mut terminal = place.terminal(run);
    terminal.answer("a [b]> ", "\"\"");
    terminal.answer("note> ", "later");
    terminal.ends(1);
    let inputs = &place.inputs("i");
    assert_eq!(inputs["a"], json!(null));
}

#[test]
fn items_of_all_kinds_are_items() {
    let place = Place::new();
    place.manifest("workflow: kinds\ndescription: K\nsteps:\n  - id: a\n    guidance: A\n    result:\n      type: object\n      properties:\n        words: { type: array, items: { type: string } }\n        rows: { type: array, items: { type: array } }\n        parts: { type: array, items: { type: object } }\n        one: { type: string, enum: [now, later] }\n  - { id: note, guidance: Note }\n");
    let mut terminal = place.terminal("run kinds --id i");
    terminal.answer("words> ", "[\"a\", b]");
    terminal.expect("that is no list");
    terminal.answer("words> ", "[x] todo");
    terminal.answer("...> ", "failed: the second");
    terminal.answer("...> ", "\u{1b}[200~failed: 3\nfailed: 4\u{1b}[201~");
    terminal.answer("...> ", "");
    terminal.answer("rows> ", "[1,");
    terminal.answer("...> ", "2]");
    terminal.answer("...> ", "[3]");
    terminal.answer("...> ", "");
    terminal.answer("parts> ", "\u{1b}[200~{\"a\": 1}\n{\"b\": 2}\u{1b}[201~");
    terminal.answer("...> ", "");
    terminal.answer("one> ", "\"later\"");
    terminal.answer("note> ", "later");
    terminal.ends(1);
    let output = &place.history("i")[0]["output"];
    let expected = json!({
        "words": ["[x] todo", "failed: the second", "failed: 3", "failed: 4"],
        "rows": [[1, 2], [3]], "parts": [{ "a": 1 }, { "b": 2 }], "one": "later"
    });
    assert_eq!(*output, expected);
}

const PAY: &str = "workflow: pay
description: Pay it
steps:
  - id: pay
    guidance: Say how
    result:
      type: object
      properties: { sum: { type: integer }, card: { type: string } }
      required: [sum]
      dependentRequired: { card: [street] }
";
