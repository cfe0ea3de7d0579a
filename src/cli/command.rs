//! The suggested action after an error for a person: the words of `advice`, with its placeholders filled in
//! and quoted for a shell.

use serde_json::Value;

use super::advice::Advice;

use midex_domain::error::Error;
pub(super) use midex_domain::error::quote_for_shell as quoted;

/// The sentence in the table for errors after which the same command may succeed.
const REPEAT_COMMAND_ADVICE: &str = "Run the same command again";

/// The context of the suggested actions.
pub(super) struct HintContext {
    /// The flags that a follow-up command needs to reach the same executions and definitions.
    pub(super) flags: String,
    /// The sentence that replaces "Run the same command again".
    pub(super) retry_sentence: String,
}

impl HintContext {
    /// Hints after a command that can be repeated as it was typed.
    pub(super) fn new(flags: String) -> Self {
        let retry_sentence = REPEAT_COMMAND_ADVICE.to_owned();
        Self { flags, retry_sentence }
    }
}

/// The suggested action for an error, without flags.
pub(super) fn suggested_action(error: &Error) -> String {
    suggested_action_for_person(error, &HintContext::new(String::new()))
}

/// The suggested action for a person. Commands in it carry the flags that were given.
pub(super) fn suggested_action_for_person(error: &Error, hints: &HintContext) -> String {
    let value_or_name =
        |name: &str| Some(context_value(error, name).unwrap_or_else(|| name.replace('_', " ")));
    let sentence = match Advice::from_error(error) {
        Advice::Words(words) => fill_placeholders(words, hints, value_or_name),
        Advice::Verbatim(words) => {
            fill_placeholders(&words, hints, |name| Some(format!("{{{name}}}")))
        }
        Advice::OneOf(sentences) => sentences
            .iter()
            .find_map(|words| fill_placeholders(words, hints, |name| context_value(error, name)))
            .or_else(|| fill_placeholders(sentences.last()?, hints, value_or_name)),
    };
    let words = rewrite_user_request(sentence.unwrap_or_default());
    let lowercase_first = |sentence| change_first_letter(sentence, char::to_lowercase);
    match words.strip_prefix(REPEAT_COMMAND_ADVICE) {
        Some(rest) => format!("{}{rest}", hints.retry_sentence),
        None => words.replace(
            &lowercase_first(REPEAT_COMMAND_ADVICE),
            &lowercase_first(&hints.retry_sentence),
        ),
    }
}

/// A sentence with the case of its first letter changed.
fn change_first_letter<I: Iterator<Item = char>>(sentence: &str, change: fn(char) -> I) -> String {
    let mut letters = sentence.chars();
    let first = letters.next().map(change);
    first.into_iter().flatten().chain(letters).collect()
}

/// A value of the error's context as text.
fn context_value(error: &Error, name: &str) -> Option<String> {
    match error.context(name)? {
        Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    }
}

/// Fills the placeholders in a sentence, quoted for a shell inside backticks, and adds the flags to its commands.
/// `None` if a value is missing.
fn fill_placeholders(
    words: &str,
    hints: &HintContext,
    value: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let mut result = String::new();
    for (index, part) in words.split('`').enumerate() {
        let is_code = index % 2 == 1;
        let quoted_value = |name: &str| {
            let text = value(name)?;
            Some(match name {
                _ if !is_code => text,
                "execution_id" | "nearest" | "open_retry" | "completed_retry" | "failed_retry"
                | "forked_from" | "root" | "parent" | "text" => quote_operand(&text),
                _ => quoted(&text),
            })
        };
        let part = fill_template(part, quoted_value)?;
        if !is_code {
            result.push_str(&part);
            continue;
        }
        let takes_flags =
            part.starts_with("midex ") && !part.contains("--help") && !part.contains("--data-dir");
        let flags = if takes_flags { &hints.flags } else { "" };
        let part = insert_flags(&part.replace("--id -- ", "--id="), flags);
        result.extend(["`", &part, "`"]);
    }
    Some(result)
}

fn fill_template(template: &str, value: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut result = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        result.push_str(before);
        let is_name = |text: &str| {
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        };
        let name = after.split_once('}').filter(|(name, _)| is_name(name));
        rest = if let Some((name, after)) = name {
            result.push_str(&value(name)?);
            after
        } else {
            result.push('{');
            after
        };
    }
    Some(result + rest)
}

/// Turns `Ask your user to …` into a direct request; other sentences are returned unchanged.
fn rewrite_user_request(action: String) -> String {
    let Some(request) = action.strip_prefix("Ask your user to ") else {
        return action;
    };
    change_first_letter(request, char::to_uppercase)
}

/// A word as an operand of a command, quoted if needed. Before a word with a leading dash goes `--`, so that it is no
/// flag.
pub(super) fn quote_operand(word: &str) -> String {
    let dashes = if word.starts_with('-') { "-- " } else { "" };
    format!("{dashes}{}", quoted(word))
}

/// The flag that passes an execution id to `midex run`.
pub(super) fn execution_id_flag(id: &str) -> String {
    let separator = if id.starts_with('-') { '=' } else { ' ' };
    format!("--id{separator}{}", quoted(id))
}

/// A command with the flags added: at the end, or before a `--`.
pub(super) fn insert_flags(command: &str, flags: &str) -> String {
    let mut separators = command.match_indices(" -- ").map(|(at, _)| at);
    match separators.find(|at| !is_inside_quotes(&command[..*at])) {
        Some(at) => format!("{}{flags}{}", &command[..at], &command[at..]),
        None => format!("{command}{flags}"),
    }
}

/// Whether the text after this part of a command is inside quotes that [`quoted`] has written.
fn is_inside_quotes(part: &str) -> bool {
    let (mut is_quoted, mut letters) = (false, part.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => is_quoted = !is_quoted,
            '\\' if !is_quoted => _ = letters.next(),
            _ => {}
        }
    }
    is_quoted
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use midex_domain::error::Code;

    #[test]
    fn hint_words_are_shell_quoted() {
        assert_eq!(quoted("exec_01"), "exec_01");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn flags_go_before_double_dash() {
        for (command, expected) in [
            ("midex show -- -x", "midex show --d -- -x"),
            ("midex show 'a -- b'", "midex show 'a -- b' --d"),
            (r"midex show 'it'\''s -- b' -- -x", r"midex show 'it'\''s -- b' --d -- -x"),
        ] {
            assert_eq!(insert_flags(command, " --d"), expected);
        }
    }

    fn suggest_for_person(error: &Error) -> String {
        suggested_action_for_person(error, &HintContext::new(" --data-dir d".to_owned()))
    }

    #[test]
    fn suggestion_has_quotes_and_flags() {
        let make_error = |code| Error::new(code, "x");
        assert_eq!(
            suggest_for_person(
                &make_error(Code::ExecutionFinished).with_context("execution_id", "it's x")
            ),
            r"Run `midex show 'it'\''s x' --data-dir d`: it shows the result of every step"
        );
        assert_eq!(
            suggest_for_person(&make_error(Code::ExecutionNotFound).with_context("nearest", "a")),
            "Run `midex show a --data-dir d`, if you meant that one"
        );
        assert_eq!(
            suggest_for_person(&make_error(Code::WorkflowNotFound)),
            "Run `midex list workflows --data-dir d`: use one of its names"
        );
        assert_eq!(suggest_for_person(&make_error(Code::UsageInvalid)), "Run `midex --help`");
        let paused = make_error(Code::ExecutionPaused).with_context("execution_id", "e");
        assert_eq!(
            suggest_for_person(
                &paused.clone().with_context("pause_reasons", json!(["gate", "person"]))
            ),
            "Run `midex resume e --data-dir d` when it may continue"
        );
        assert_eq!(
            suggest_for_person(&paused.with_context("workflow_state", "failed")),
            "Run `midex retry e --data-dir d`: finished steps are kept, and the step that failed is open again"
        );
    }

    #[test]
    fn an_id_that_begins_with_a_dash_can_be_typed_from_a_hint() {
        let make_error = |code| Error::new(code, "x").with_context("execution_id", "-x");
        assert_eq!(
            suggest_for_person(&make_error(Code::ExecutionFinished)),
            "Run `midex show --data-dir d -- -x`: it shows the result of every step"
        );
        let repeated =
            make_error(Code::UsageInvalid).with_action("Run `midex run w --id {execution_id}`");
        assert_eq!(suggest_for_person(&repeated), "Run `midex run w --id=-x --data-dir d`");
    }

    #[test]
    fn own_advice_has_precedence() {
        let make_error =
            |words| Error::new(Code::UsageInvalid, "x").with_context("a", "b c").with_action(words);
        assert_eq!(
            suggest_for_person(&make_error("Add {a} to {lacking_it} {}")),
            "Add b c to lacking it {}"
        );
        assert_eq!(
            suggest_for_person(&make_error("Run `midex x {a}`")),
            "Run `midex x 'b c' --data-dir d`"
        );
        let suggest_for_reply = |words: &str| {
            let payload =
                json!({ "error_code": "STORE_BUSY", "message": "m", "suggested_action": words });
            suggest_for_person(&Error::from_payload(payload.as_object().unwrap_or(&Map::new())))
        };
        assert_eq!(suggest_for_reply("Ask your user to end it"), "End it");
        for call in [
            "Call a.b again: in a second",
            "Ask your user to end it. Call a.b again",
            "Send the same call again",
        ] {
            assert!(
                suggest_for_reply(call).starts_with("Run the same command again in a second"),
                "{call}"
            );
        }
    }
}
