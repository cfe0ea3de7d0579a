//! Translates the next call that an error suggests to the command that a person types for it. Errors name calls, as
//! [`crate::error::Error::suggested_action`] prints them.

use crate::{error::Error, uri};

/// Tools with their commands: the name of the tool, the argument that the command takes, and the command.
const TOOLS: &[(&str, &str, &str)] = &[
    ("catalog.list", "", "midex catalog list"),
    ("command.list", "query", "midex call --search"),
    ("execution.list", "", "midex list executions"),
    ("execution.resume", "execution_id", "midex resume"),
    ("execution.wait", "execution_id", "midex tail"),
    ("workflow.start", "workflow_name", "midex run"),
    ("catalog.list", "", "midex catalog list"),
    ("command.list", "", "midex catalog list"),
    ("command.run_safe", "id", "midex call"),
    ("command.run", "id", "midex call"),
    ("command.run_destructive", "id", "midex call"),
];

/// Resources with their commands: how the address begins, and the command. After a slash the rest of the address is the
/// command's operand.
const RESOURCES: &[(&str, &str)] = &[
    ("available_workflows", "midex list workflows"),
    ("current_step/", "midex show"),
    ("workflow_status/", "midex show"),
    ("step_history/", "midex show"),
];

/// Words that only make sense to models: a clause with one of them is left out.
const FOR_MODELS: [&str; 5] = ["workflow.", "execution.", "midex://", "token", "project '"];

/// What hints for people after an error refer to.
pub(super) struct Hints {
    /// The flags that further commands need to reach the same executions.
    pub(super) flags: String,
    /// The sentence that takes the place of "send the same call again".
    pub(super) retry: String,
}

impl Hints {
    /// Hints after a command that may be typed again as it was.
    pub(super) fn new(flags: String) -> Self {
        let retry = "Run the same command again".to_owned();
        Self { flags, retry }
    }
}

/// What an error asks of its user, else what it suggests as it stands.
pub(super) fn mend(error: &Error) -> String {
    let action = error.suggested_action();
    user_request(&action).unwrap_or(action)
}

/// Translates the suggested action of an error for a person: a call becomes a command, and of a sentence that asks the user
/// to do something only that remains.
pub(super) fn for_people(action: &str, hints: &Hints) -> String {
    if let Some(asked) = user_request(action) {
        return asked;
    }
    let Some(call) = Call::read(action) else {
        return action.to_owned();
    };
    let todo = match call.command() {
        _ if call.is_again => hints.retry.clone(),
        Some(command) => format!("Run `{command}{}`", hints.flags),
        None => return action.to_owned(),
    };
    let is_for_people = |clause: &&str| !FOR_MODELS.iter().any(|word| clause.contains(word));
    let words: Vec<_> = call.words.split("; ").filter(is_for_people).collect();
    match words.join("; ") {
        words if words.is_empty() => todo,
        words => format!("{todo}: {words}"),
    }
}

/// The request in a sentence `Ask your user to …`; `None` for other sentences.
pub(super) fn user_request(action: &str) -> Option<String> {
    let asked = action.strip_prefix("Ask your user to ")?;
    let ends = [". Call ", ". Send "].map(|next| asked.find(next));
    let end = ends.into_iter().flatten().min().unwrap_or(asked.len());
    let mut letters = asked[..end].chars();
    let first = letters.next().map(char::to_uppercase);
    Some(first.into_iter().flatten().chain(letters).collect())
}

/// A call as an error prints it: `Call TOOL[ again][ with NAME 'VALUE'[ and NAME 'VALUE']…][: WORDS]`.
struct Call<'a> {
    tool: &'a str,
    is_again: bool,
    arguments: Vec<(&'a str, String)>,
    words: &'a str,
}

impl<'a> Call<'a> {
    fn read(action: &'a str) -> Option<Self> {
        let (tool, mut rest) = if let Some(rest) = action.strip_prefix("Send the same call") {
            ("", rest)
        } else {
            let call = action.strip_prefix("Call ")?;
            call.split_at(call.find([' ', ':']).unwrap_or(call.len()))
        };
        let again = rest.strip_prefix(" again");
        rest = again.unwrap_or(rest);
        let mut arguments = Vec::new();
        while let Some(argument) = [" with ", " and "]
            .iter()
            .find_map(|it| rest.strip_prefix(it))
        {
            let (name, after) = argument.split_once(" '")?;
            let (value, after) = unquoted(after)?;
            arguments.push((name, value));
            rest = after;
        }
        let is_read = rest.is_empty() || rest.starts_with(": ");
        is_read.then(|| Self {
            tool,
            is_again: again.is_some(),
            arguments,
            words: rest.strip_prefix(": ").unwrap_or_default(),
        })
    }

    fn argument(&self, name: &str) -> Option<&str> {
        let mut arguments = self.arguments.iter();
        arguments.find_map(|(known, value)| (*known == name).then_some(value.as_str()))
    }

    /// The command that does the same as the call, if there is one.
    fn command(&self) -> Option<String> {
        if let Some(address) = self.argument("uri") {
            let path = address.strip_prefix("midex://workflow/")?;
            let mut known = RESOURCES.iter();
            let (operand, command) =
                known.find_map(|(start, command)| Some((path.strip_prefix(start)?, *command)))?;
            return Some(with_operand(command, &uri::decode(operand)?));
        }
        let (_, name, command) = TOOLS.iter().find(|(tool, ..)| *tool == self.tool)?;
        // The command cannot pass on other arguments, and they must not be dropped silently.
        if self.arguments.iter().any(|(given, _)| given != name) {
            return None;
        }
        let operand = self.argument(name).unwrap_or_default();
        Some(with_operand(command, operand))
    }
}

/// Splits `text` at its closing quote into the value, whose doubled quotes become single, and the rest.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut from = 0;
    loop {
        let end = from + text[from..].find('\'')?;
        if !text[end + 1..].starts_with('\'') {
            return Some((text[..end].replace("''", "'"), &text[end + 1..]));
        }
        from = end + 2;
    }
}

fn with_operand(command: &str, operand: &str) -> String {
    if operand.is_empty() {
        return command.to_owned();
    }
    format!("{command} {}", quoted(operand))
}

/// A word, quoted for a shell if need be.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Code, Error};

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("exec_01"), "exec_01");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_call_is_told_as_the_command_that_does_the_same() {
        for (action, expected) in [
            (
                "Call execution.list: use an id that it shows; project '*' shows those of other projects",
                "Run `midex list executions --data-dir d`: use an id that it shows",
            ),
            (
                "Call workflow.read with uri 'midex://workflow/step_history/it%27s%20x': read; workflow.start begins anew",
                r"Run `midex show 'it'\''s x' --data-dir d`: read",
            ),
            (
                "Call execution.resume with execution_id 'it''s': once it may; its tokens stay valid",
                r"Run `midex resume 'it'\''s' --data-dir d`: once it may",
            ),
            (
                "Call workflow.start with workflow_name 'a': z",
                "Run `midex run a --data-dir d`: z",
            ),
            (
                "Call execution.list with state 'open': z",
                "Call execution.list with state 'open': z",
            ),
            (
                "Send the same call again: in a second",
                "Run the same command again: in a second",
            ),
            ("Call a.b again", "Run the same command again"),
            ("Ask your user to run `x`. Call a.b again: y", "Run `x`"),
            (
                "Ask your user to free room. Send the same call again",
                "Free room",
            ),
            // Nothing a person types does the same.
            ("Call a.b with x 'y': z", "Call a.b with x 'y': z"),
            ("Call me: 'x", "Call me: 'x"),
            ("Add --force", "Add --force"),
        ] {
            let hints = Hints::new(" --data-dir d".to_owned());
            assert_eq!(for_people(action, &hints), expected);
        }
    }

    #[test]
    fn no_code_speaks_of_calls_to_a_person() {
        for code in Code::ALL {
            let error = Error::new(*code, "x").with("execution_id", "e");
            let error = error
                .with("workflow", "w")
                .with("address", "current_step/e");
            let action = error.with("path", "/p").suggested_action();
            let told = for_people(&action, &Hints::new(String::new()));
            assert!(
                !told.starts_with("Call ") || told.starts_with("Call the server"),
                "{code}: {told}"
            );
            assert!(!told.contains("midex://"), "{code}: {told}");
        }
    }
}
