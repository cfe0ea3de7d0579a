//! What a person typed is not lost where they leave, or where a part of it is refused.

use serde_json::json;

use super::{Place, terminal::Terminal};
use crate::support::assert_has;

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
      required: [name, tags]
  - { id: note, guidance: Write what you saw }
";

fn place() -> Place {
    let place = Place::new();
    place.file("workflows/tag.yaml", TAG);
    place
}

/// A run that asks for the fields after the name.
fn named(place: &Place, id: &str) -> Terminal {
    let mut terminal = Terminal::open(place.command(&["run", "tag", "--id", id]));
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
        assert_has(&shown, &[left, leaves]);
    }
    let mut terminal = named(&place, "json");
    terminal.answer("tags> ", "a");
    terminal.answer("...> ", "b");
    terminal.answer("...> ", "");
    terminal.answer("more> ", "{\"color\":");
    let shown = terminal.left_at("...> ", "\u{3}");
    assert_has(
        &shown,
        &["\"tags\":[\"a\",\"b\"]", r#""more":"{\"color\":""#],
    );
}

#[test]
fn lines_of_words_are_printed_where_they_are_left() {
    let place = place();
    let mut terminal = named(&place, "words");
    terminal.answer("tags> ", "[\"a\", \"b\"]");
    terminal.answer("more> ", "");
    terminal.answer("grade> ", "");
    terminal.answer("note> ", "a line");
    terminal.answer("...> ", "and another");
    let shown = terminal.left_at("...> ", "\u{3}");
    assert_has(
        &shown,
        &[r#"not recorded: {"summary":"a line\nand another"}"#],
    );
    let mut terminal = Terminal::open(place.command(&["run", "--id", "words"]));
    terminal.answer("note> ", "{\"summary\":");
    let shown = terminal.left_at("...> ", "\u{3}");
    assert_has(&shown, &[r#"not recorded: {"summary":"{\"summary\":"}"#]);
}

#[test]
fn a_list_that_is_too_short_goes_on_and_one_that_is_refused_is_shown() {
    let place = place();
    let mut terminal = named(&place, "i");
    terminal.answer("tags> ", "a");
    terminal.answer("...> ", "");
    let shown = terminal.expect("...> ");
    assert_has(&shown, &["less than 2 items"]);
    terminal.answer("", "a");
    terminal.answer("...> ", "");
    let shown = terminal.expect("tags> ");
    assert_has(&shown, &["typed was [\"a\",\"a\"]"]);
    terminal.type_line("[\"a\", \"b\"]");
    terminal.answer("more> ", "");
    // What was typed before is kept where the rest is given at once.
    terminal.answer("grade> ", "{\"grade\": 3}");
    terminal.answer("note> ", "later");
    terminal.ends(1);
    let output = &place.json(&["show", "i"])["history"][0]["output"];
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
    assert_has(&shown, &["a failure needs a reason"]);
    assert!(!shown.contains("name> "), "{shown}");
    terminal.type_line("failed");
    let shown = terminal.left_at("why> ", "\u{3}");
    assert_has(&shown, &["not recorded: {\"name\":\"Ada\"}"]);
    let mut terminal = named(&place, "i");
    terminal.answer("tags> ", "failed");
    terminal.answer("why> ", "no ink");
    terminal.ends(1);
    let status = &place.json(&["show", "i"])["status"];
    assert_eq!(status["error"]["message"], "no ink");
}
