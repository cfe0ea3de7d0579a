//! Reports the error of a command: as text with what to do next, or as JSON.

use std::io::Write as _;

use serde_json::{Map, Value, json};

use super::{
    command::{Hints, for_people},
    config,
    value::json_text,
    visible::visible,
};
use crate::error::{Code, Error, Violation};

/// Reports the error of a command on stderr.
pub(super) fn report(error: &Error, json: bool, hints: &Hints) {
    let reported = reported(error, json, hints);
    let _ = writeln!(anstream::stderr().lock(), "{reported}");
}

/// The error as it is reported; a server writes it to its log.
pub(super) fn reported(error: &Error, json: bool, hints: &Hints) -> String {
    if !json {
        return described(error, hints);
    }
    let mut whole = Map::new();
    whole.insert("success".to_owned(), json!(false));
    whole.extend(error.payload(""));
    json_text(&Value::Object(whole), false)
}

/// Says what is wrong with the command line, or prints the help that it asks for.
pub(super) fn refuse(error: &clap::Error) {
    let asks_for_json = std::env::args_os().any(|argument| argument == "--json");
    if !(asks_for_json && error.use_stderr()) {
        let _ = error.print();
        return;
    }
    let (words, tip) = config::words(&error.to_string());
    let words = tip.map_or_else(|| words.clone(), |tip| format!("{words}; {tip}"));
    let error = Error::new(Code::UsageInvalid, words)
        .with_action("Run the command with `--help`: it shows what can be typed");
    report(&error, true, &Hints::new(String::new()));
}

/// Warns the user of a command that did its work.
pub(super) fn warn(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "warning: {}", visible(text));
}

/// An error as text: the message with its violations, and what to do next.
fn described(error: &Error, hints: &Hints) -> String {
    let help = visible(&for_people(error, hints));
    format!("{}\n  help: {help}", wrong(error))
}

/// The message of an error, with each violation on a line of its own.
pub(super) fn wrong(error: &Error) -> String {
    let mut text = format!("error[{}]: {}", error.code(), visible(&headline(error)));
    // What one violation says, the message may have said.
    let is_said = |violation: &&Violation| error.message() == violation.message;
    for violation in error.violations().iter().filter(|one| !is_said(one)) {
        let place = place(error, &violation.path);
        text.extend(["\n  ", &visible(place), ": "]);
        if let (Some(line), Some(column)) = (violation.line, violation.column) {
            let place = format!("line {line}, column {column}: ");
            text.push_str(&place);
        }
        text.push_str(&visible(&violation.message));
        let meant = violation.suggestion.as_ref().map(|meant| &meant.text);
        // Some messages contain their suggestion already.
        if let Some(meant) = meant.filter(|meant| !violation.message.contains(*meant)) {
            text.extend(["; ", &visible(meant)]);
        }
    }
    text
}

/// The message. A person has typed no arguments of a tool, and knows none of its schema.
fn headline(error: &Error) -> String {
    let is_of_tool = error.message().starts_with("the arguments of ");
    if error.code() == Code::ArgumentsInvalid && is_of_tool && !error.violations().is_empty() {
        return "what was given cannot be taken as it is".to_owned();
    }
    error.message().to_owned()
}

/// What a violation is of: of the arguments of a tool by its name.
fn place<'a>(error: &Error, path: &'a str) -> &'a str {
    match path {
        "" => "/",
        path if error.code() == Code::ArgumentsInvalid => path.trim_start_matches('/'),
        path => path,
    }
}
