//! Reports the error of a command: as text with a suggested action, or as JSON.

use std::io::Write as _;

use serde_json::{Map, Value, json};

use super::{
    Cli,
    command::{HintContext, quoted, suggested_action_for_person},
    config,
    diagnostic::replace_tools_by_commands,
    screen::one_line,
    value::json_text,
    visible::replace_hidden_chars,
};
use midex_domain::error::{Code, Error, Violation};

/// Reports the error of a command on stderr.
pub(super) fn report_error(error: &Error, json: bool, hints: &HintContext) {
    let reported = format_report(error, json, hints);
    let _ = writeln!(anstream::stderr().lock(), "{reported}");
}

/// The error as it is reported. A server writes it to its log.
pub(super) fn format_report(error: &Error, json: bool, hints: &HintContext) -> String {
    if !json {
        return describe_error(error, hints);
    }
    let mut whole = Map::new();
    whole.insert("success".to_owned(), json!(false));
    whole.extend(error.to_payload(""));
    json_text(&Value::Object(whole), false)
}

/// Prints the error of an invalid command line, or the help that it requests.
pub(super) fn print_command_line_error(error: &clap::Error) {
    let asks_for_json = std::env::args_os().any(|argument| argument == "--json");
    if !(asks_for_json && error.use_stderr()) {
        let _ = error.print();
        return;
    }
    let (words, tip) = config::split_message_and_tip(&error.to_string());
    let words = tip.map_or_else(|| words.clone(), |tip| format!("{words}; {tip}"));
    let error = Error::new(Code::UsageInvalid, words)
        .with_action("Run the command with `--help`: it shows what can be typed");
    report_error(&error, true, &HintContext::new(String::new()));
}

/// Prints a warning of a command that succeeded.
pub(super) fn print_warning(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "warning: {}", replace_hidden_chars(text));
}

/// An error as text: the message, its violations, and a suggested action.
fn describe_error(error: &Error, hints: &HintContext) -> String {
    let help = match corrected_command_line(error) {
        Some(command) => format!("Run `{command}`, if that is meant"),
        None => suggested_action_for_person(error, hints),
    };
    format!("{}\n  help: {}", message_with_violations(error), replace_hidden_chars(&help))
}

/// The given command line with an unknown workflow name replaced by the nearest known one.
fn corrected_command_line(error: &Error) -> Option<String> {
    let text = |name: &str| error.context(name).and_then(Value::as_str);
    let near = text("nearest").filter(|_| error.code() == Code::WorkflowNotFound)?;
    let given = std::env::args_os().skip(1);
    let given: Option<Vec<_>> = given.map(|word| word.into_string().ok()).collect();
    let words = replace_workflow_name(&given?, text("workflow")?, near)?;
    let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
    Some(format!("midex {}", words.join(" ")))
}

/// The flags whose value is a workflow name.
const WORKFLOW_NAME_FLAGS: [&str; 2] = ["--from", "--print"];

/// The words of a command line with `asked` replaced by `near`: after a flag that names a workflow, else at its first
/// occurrence that is not the value of another flag.
fn replace_workflow_name(given: &[String], asked: &str, near: &str) -> Option<Vec<String>> {
    let mut words = given.to_vec();
    let is_naming = |word: &str| WORKFLOW_NAME_FLAGS.contains(&word);
    let glued = |word: &str| {
        let (flag, value) = word.split_once('=')?;
        (is_naming(flag) && value == asked).then(|| format!("{flag}={near}"))
    };
    let mut numbered = given.iter().enumerate();
    if let Some((at, new)) = numbered.find_map(|(at, word)| Some((at, glued(word)?))) {
        words[at] = new;
        return Some(words);
    }
    let pairs = || given.windows(2).zip(1..);
    let behind_flag = pairs().find(|(pair, _)| is_naming(&pair[0]) && pair[1] == asked);
    let first = || pairs().find(|(pair, _)| pair[1] == asked && !takes_value(&pair[0]));
    let (_, at) = behind_flag.or_else(first)?;
    near.clone_into(&mut words[at]);
    Some(words)
}

/// Whether this word is a flag, of any command, that takes the next word as its value.
fn takes_value(flag: &str) -> bool {
    fn has_value_flag(command: &clap::Command, name: &str) -> bool {
        let is_it =
            |arg: &clap::Arg| arg.get_long() == Some(name) && arg.get_action().takes_values();
        command.get_arguments().any(is_it)
            || command.get_subcommands().any(|below| has_value_flag(below, name))
    }
    let name = flag.strip_prefix("--");
    name.is_some_and(|name| has_value_flag(&<Cli as clap::CommandFactory>::command(), name))
}

/// The message of an error, with each violation on a separate line.
pub(super) fn message_with_violations(error: &Error) -> String {
    let mut text = format!("error[{}]: {}", error.code(), one_line(&message_for_person(error)));
    // A violation with the same text as the message is not repeated.
    let is_said = |violation: &&Violation| error.message() == violation.message;
    for violation in error.violations().iter().filter(|one| !is_said(one)) {
        let place = violation_place(error, &violation.path);
        text.extend(["\n  ", &replace_hidden_chars(place), ": "]);
        if let (Some(line), Some(column)) = (violation.line, violation.column) {
            let place = format!("line {line}, column {column}: ");
            text.push_str(&place);
        }
        text.push_str(&replace_hidden_chars(&violation.message));
        let meant = violation.suggestion.as_ref().map(|meant| &meant.text);
        // Some messages contain their suggestion already.
        if let Some(meant) = meant.filter(|meant| !violation.message.contains(*meant)) {
            text.extend(["; ", &replace_hidden_chars(&replace_tools_by_commands(meant))]);
        }
    }
    text
}

/// The message for a person. Messages about the arguments of a tool are replaced: a person did not type these
/// arguments.
fn message_for_person(error: &Error) -> String {
    let is_of_tool = error.message().starts_with("the arguments of ");
    if error.code() == Code::ArgumentsInvalid && is_of_tool && !error.violations().is_empty() {
        return "what was given cannot be taken as it is".to_owned();
    }
    error.message().to_owned()
}

/// The place of a violation. For arguments of a tool it is the argument's name.
fn violation_place<'a>(error: &Error, path: &'a str) -> &'a str {
    match path {
        "" => "/",
        path if error.code() == Code::ArgumentsInvalid => path.trim_start_matches('/'),
        path => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_is_corrected() {
        for (given, expected) in [
            ("cat a", Some("cat b")),
            ("--json show workflow a", Some("--json show workflow b")),
            ("new workflow a --from a", Some("new workflow a --from b")),
            ("new workflow a --from=a --force", Some("new workflow a --from=b --force")),
            ("validate --print a", Some("validate --print b")),
            ("run a --id a", Some("run b --id a")),
            ("run --id a a", Some("run --id a b")),
            ("--data-dir a run a", Some("--data-dir a run b")),
            ("run c", None),
            ("a", None),
        ] {
            let words: Vec<_> = given.split(' ').map(str::to_owned).collect();
            let found = replace_workflow_name(&words, "a", "b").map(|words| words.join(" "));
            assert_eq!(found.as_deref(), expected, "{given}");
        }
    }
}
