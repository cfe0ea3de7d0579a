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
    let report = format_report(error, json, hints);
    let _ = writeln!(anstream::stderr().lock(), "{report}");
}

/// The error as it is reported. A server writes it to its log.
pub(super) fn format_report(error: &Error, json: bool, hints: &HintContext) -> String {
    if !json {
        return describe_error(error, hints);
    }
    let mut payload = Map::new();
    payload.insert("success".to_owned(), json!(false));
    payload.extend(error.to_payload(""));
    json_text(&Value::Object(payload), false)
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
    let nearest = text("nearest").filter(|_| error.code() == Code::WorkflowNotFound)?;
    let args = std::env::args_os().skip(1);
    let args: Option<Vec<_>> = args.map(|word| word.into_string().ok()).collect();
    let words = replace_workflow_name(&args?, text("workflow")?, nearest)?;
    let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
    Some(format!("midex {}", words.join(" ")))
}

/// The flags whose value is a workflow name.
const WORKFLOW_NAME_FLAGS: [&str; 2] = ["--from", "--print"];

/// The words of a command line with `old_name` replaced by `new_name`: after a flag that names a workflow, else at its first
/// occurrence that is not the value of another flag.
fn replace_workflow_name(args: &[String], old_name: &str, new_name: &str) -> Option<Vec<String>> {
    let mut words = args.to_vec();
    let is_name_flag = |word: &str| WORKFLOW_NAME_FLAGS.contains(&word);
    let replace_inline_value = |word: &str| {
        let (flag, value) = word.split_once('=')?;
        (is_name_flag(flag) && value == old_name).then(|| format!("{flag}={new_name}"))
    };
    let mut numbered = args.iter().enumerate();
    if let Some((index, replacement)) =
        numbered.find_map(|(at, word)| Some((at, replace_inline_value(word)?)))
    {
        words[index] = replacement;
        return Some(words);
    }
    let pairs = || args.windows(2).zip(1..);
    let flag_match = pairs().find(|(pair, _)| is_name_flag(&pair[0]) && pair[1] == old_name);
    let first = || pairs().find(|(pair, _)| pair[1] == old_name && !takes_value(&pair[0]));
    let (_, index) = flag_match.or_else(first)?;
    new_name.clone_into(&mut words[index]);
    Some(words)
}

/// Whether this word is a flag, of any command, that takes the next word as its value.
fn takes_value(flag: &str) -> bool {
    fn has_value_flag(command: &clap::Command, name: &str) -> bool {
        let is_match =
            |arg: &clap::Arg| arg.get_long() == Some(name) && arg.get_action().takes_values();
        command.get_arguments().any(is_match)
            || command.get_subcommands().any(|subcommand| has_value_flag(subcommand, name))
    }
    let name = flag.strip_prefix("--");
    name.is_some_and(|name| has_value_flag(&<Cli as clap::CommandFactory>::command(), name))
}

/// The message of an error, with each violation on a separate line.
pub(super) fn message_with_violations(error: &Error) -> String {
    let mut text = format!("error[{}]: {}", error.code(), one_line(&message_for_person(error)));
    // A violation with the same text as the message is not repeated.
    let is_repeated = |violation: &&Violation| error.message() == violation.message;
    for violation in error.violations().iter().filter(|one| !is_repeated(one)) {
        let place = violation_place(error, &violation.path);
        text.extend(["\n  ", &replace_hidden_chars(place), ": "]);
        if let (Some(line), Some(column)) = (violation.line, violation.column) {
            let place = format!("line {line}, column {column}: ");
            text.push_str(&place);
        }
        text.push_str(&replace_hidden_chars(&violation.message));
        let suggestion = violation.suggestion.as_ref().map(|meant| &meant.text);
        // Some messages contain their suggestion already.
        if let Some(suggestion) = suggestion.filter(|meant| !violation.message.contains(*meant)) {
            text.extend(["; ", &replace_hidden_chars(&replace_tools_by_commands(suggestion))]);
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
        for (line, expected) in [
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
            let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            let corrected = replace_workflow_name(&words, "a", "b").map(|words| words.join(" "));
            assert_eq!(corrected.as_deref(), expected, "{line}");
        }
    }
}
