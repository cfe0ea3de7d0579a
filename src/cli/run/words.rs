//! Command words: answers that are not a value, such as `failed`, `skip`, `pause` and `later`.

use serde_json::{Value, json};

use crate::question::asks_for_help;

/// A command word: an answer of a person that is not an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PersonAction {
    /// The step failed, for this reason; empty if the person gave none.
    Failed(String),
    /// The step is skipped.
    Skip,
    /// The execution is to be paused, for this reason if the person gave one.
    Pause(Option<String>),
    /// The command ends, and the execution stays as it is.
    Leave,
    /// The person pressed Ctrl-C: as `Later`.
    Interrupted,
}

/// Where an answer is asked for, which decides the meaning of command words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerContext {
    /// Before the start: no execution exists that could fail or be paused.
    Start,
    Step {
        /// Whether the step can be skipped.
        is_optional: bool,
        /// Whether a failure of the step ends the execution.
        ends_on_error: bool,
    },
}

/// The meaning of a typed line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineMeaning {
    /// The line is a value, or part of one.
    Value,
    /// The line is a command word.
    Command(PersonAction),
    /// The line is a request for help, or a command word that does not apply here. The text explains it; ask again.
    Help(String),
}

impl AnswerContext {
    /// Classifies a line that was typed here.
    pub(super) fn classify_line(self, line: &str) -> LineMeaning {
        if asks_for_help(&line.trim().to_lowercase()) {
            return LineMeaning::Help(self.describe_answers());
        }
        let Some(word) = parse_command_word(line) else {
            return LineMeaning::Value;
        };
        match (self, word) {
            (_, PersonAction::Leave) => LineMeaning::Command(PersonAction::Leave),
            (Self::Start, PersonAction::Failed(reason)) if !reason.is_empty() => LineMeaning::Value,
            (Self::Start, _) => LineMeaning::Help(NOT_STARTED_MESSAGE.to_owned()),
            (Self::Step { is_optional: false, ends_on_error }, PersonAction::Skip) => {
                LineMeaning::Help(format!("{STEP_REQUIRED_MESSAGE}, {}", effect_of(ends_on_error)))
            }
            (Self::Step { .. }, word) => LineMeaning::Command(word),
        }
    }

    /// The effect of stopping here, in words.
    pub(super) const fn describe_stopping(self) -> &'static str {
        match self {
            Self::Start => "`later` leaves it: nothing was started",
            Self::Step { .. } => "`later` stops here: the execution waits for it",
        }
    }

    /// The other possible answers, in a line.
    pub(super) const fn describe_other_answers(self) -> &'static str {
        match self {
            Self::Start => "(other answers: later; ? explains them)",
            Self::Step { is_optional: true, .. } => {
                "(other answers: failed: WHY, skip, pause, later; ? explains them)"
            }
            Self::Step { ends_on_error: true, .. } => {
                "(other answers: failed: WHY, which ends the execution; pause, later; ? explains them)"
            }
            Self::Step { .. } => "(other answers: failed: WHY, pause, later; ? explains them)",
        }
    }

    /// The possible answers, explained for people.
    fn describe_answers(self) -> String {
        let mut lines = match self {
            Self::Start => vec!["- later: leaves it; nothing was started".to_owned()],
            Self::Step { is_optional, ends_on_error } => {
                let failed = "- this failed, because WHY (or: failed: WHY): hands in that it could not be done";
                let mut lines = vec![format!("{failed}, {}", effect_of(ends_on_error))];
                lines.extend(STEP_ANSWER_LINES.map(str::to_owned));
                lines.extend(is_optional.then(|| "- skip: goes on without this step".to_owned()));
                lines
            }
        };
        lines.extend(INPUT_LINES.map(str::to_owned));
        lines.join("\n")
    }
}

/// The effect of a failure, in words that follow a comma.
const fn effect_of(ends_on_error: bool) -> &'static str {
    if ends_on_error { "which ends the execution" } else { "and the workflow says what follows" }
}

const STEP_ANSWER_LINES: [&str; 2] = [
    "- pause: pauses the execution",
    "- later: stops here; the execution waits, and nothing is lost",
];
const INPUT_LINES: [&str; 3] = [
    "- Ctrl-D: ends a list or a text as an empty line does; where neither can end, it is `later`",
    "- {…}: the rest of the answer at once, as JSON; where a list or an object is asked for, only that",
    "- \"later\": a word like these as a text, in quotes",
];
const NOT_STARTED_MESSAGE: &str =
    "nothing runs yet: `later` leaves it, and a word in quotes is taken as a text";
const STEP_REQUIRED_MESSAGE: &str =
    "the workflow needs this step: `failed: WHY` says that it cannot be done";

/// The prefixes that report a failure.
const FAILURE_PREFIXES: &[&str] =
    &["failed:", "this failed, because ", "this failed because ", "this failed:"];

/// Parses a command word; `None` if the line is a value, or part of one.
fn parse_command_word(line: &str) -> Option<PersonAction> {
    let line = line.trim();
    let lowercase = line.to_lowercase();
    if let Some(start) = FAILURE_PREFIXES.iter().find(|start| lowercase.starts_with(*start)) {
        let reason = line.get(start.len()..).unwrap_or_default().trim();
        return Some(PersonAction::Failed(reason.to_owned()));
    }
    match lowercase.as_str() {
        "failed" | "this failed" => Some(PersonAction::Failed(String::new())),
        "skip" => Some(PersonAction::Skip),
        "pause" => Some(PersonAction::Pause(None)),
        "later" => Some(PersonAction::Leave),
        _ => None,
    }
}

/// Whether a line reports a failure with its reason.
pub(super) fn is_failure_line(line: &str) -> bool {
    matches!(parse_command_word(line), Some(PersonAction::Failed(why)) if !why.is_empty())
}

/// The error that is submitted for a skipped step.
pub(super) fn skipped_step_error() -> Value {
    json!({ "code": "skipped", "message": "skipped by the user", "retryable": false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_words_are_not_outputs() {
        let failure_of = |why: &str| Some(PersonAction::Failed(why.to_owned()));
        for (line, expected) in [
            ("skip", Some(PersonAction::Skip)),
            (" Later ", Some(PersonAction::Leave)),
            ("failed", failure_of("")),
            ("failed: no room", failure_of("no room")),
            ("This failed, because İt is gone", failure_of("İt is gone")),
            ("later that day", None),
            ("\"later\"", None),
            ("it failed", None),
        ] {
            assert_eq!(parse_command_word(line), expected, "{line}");
        }
    }

    #[test]
    fn unusable_word_is_explained() {
        let required_step = AnswerContext::Step { is_optional: false, ends_on_error: true };
        let handled_step = AnswerContext::Step { is_optional: false, ends_on_error: false };
        let optional = AnswerContext::Step { is_optional: true, ends_on_error: false };
        let help_text = |meaning: LineMeaning| match meaning {
            LineMeaning::Help(words) => words,
            meaning => panic!("{meaning:?}"),
        };
        assert!(
            help_text(AnswerContext::Start.classify_line("pause")).starts_with("nothing runs yet")
        );
        assert!(
            help_text(AnswerContext::Start.classify_line("skip")).starts_with("nothing runs yet")
        );
        assert_eq!(AnswerContext::Start.classify_line("failed: the login"), LineMeaning::Value);
        assert_eq!(
            AnswerContext::Start.classify_line("later"),
            LineMeaning::Command(PersonAction::Leave)
        );
        assert!(!help_text(AnswerContext::Start.classify_line("?")).contains("pause"));
        assert!(help_text(required_step.classify_line("skip")).contains("needs this step"));
        assert_eq!(optional.classify_line("skip"), LineMeaning::Command(PersonAction::Skip));
        let pause = LineMeaning::Command(PersonAction::Pause(None));
        assert_eq!(required_step.classify_line("pause"), pause);
        assert!(help_text(optional.classify_line("?")).contains("- skip"));
        assert!(!help_text(required_step.classify_line("?")).contains("- skip"));
        assert!(!required_step.describe_other_answers().contains("skip"));
        for word in ["skip", "?"] {
            let [ending, handled] = [required_step, handled_step].map(|step| {
                help_text(step.classify_line(word)).contains("which ends the execution")
            });
            assert!(ending && !handled, "{word}");
        }
    }
}
