//! Answers that are no output: that a step failed, is skipped, or that it goes on later.

use serde_json::{Value, json};

/// An answer of a person that is no output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// It could not be done, and why.
    Failed(String),
    /// It is left out.
    Skip,
    /// The execution pauses.
    Pause,
    /// The command ends; the execution stays as it is.
    Later,
    /// What can be answered.
    Help,
    /// None that can be used: it is asked again.
    Again,
}

/// What an answer begins with that says that a step failed.
const FAILED: &[&str] = &[
    "failed:",
    "this failed, because ",
    "this failed because ",
    "this failed:",
];

/// The word that a line is; `None` where it is part of an output.
pub(super) fn word(line: &str) -> Option<Word> {
    let line = line.trim();
    let low = line.to_lowercase();
    if let Some(start) = FAILED.iter().find(|start| low.starts_with(*start)) {
        let why = line.get(start.len()..).unwrap_or_default().trim();
        return Some(Word::Failed(why.to_owned()));
    }
    match low.as_str() {
        "failed" | "this failed" => Some(Word::Failed(String::new())),
        "skip" => Some(Word::Skip),
        "pause" => Some(Word::Pause),
        "later" => Some(Word::Later),
        "?" | "help" => Some(Word::Help),
        _ => None,
    }
}

/// What a step is told where it is left out.
pub(super) fn skipped() -> Value {
    json!({ "code": "skipped", "message": "skipped by the user", "retryable": false })
}

/// What can be answered to a step, for people.
pub(super) fn help(is_optional: bool) -> String {
    let skip = is_optional.then_some("- skip: goes on without this step");
    let lines = [
        Some("- this failed, because WHY (or: failed: WHY): hands in that it could not be done"),
        skip,
        Some("- pause: pauses the execution"),
        Some("- later, or Ctrl-D: stops here; the execution waits, and nothing is lost"),
        Some("- {…}: the whole output as JSON"),
        Some("- \"later\": a word like these as a text, in quotes"),
    ];
    let lines: Vec<_> = lines.into_iter().flatten().collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_a_meaning_are_told_from_outputs() {
        let failed = |why: &str| Some(Word::Failed(why.to_owned()));
        for (line, expected) in [
            ("skip", Some(Word::Skip)),
            (" Later ", Some(Word::Later)),
            ("?", Some(Word::Help)),
            ("failed", failed("")),
            ("failed: no room", failed("no room")),
            ("This failed, because İt is gone", failed("İt is gone")),
            ("later that day", None),
            ("\"later\"", None),
            ("it failed", None),
        ] {
            assert_eq!(word(line), expected, "{line}");
        }
    }
}
