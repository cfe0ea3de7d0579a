//! Violations: the rules that a request breaks, and what to write instead.

use serde::{Deserialize, Serialize};

/// One rule that a value breaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The JSON pointer of the value in the arguments or the output; empty for the whole. For an input of a workflow
    /// `inputs.` and its name.
    pub path: String,
    /// The rule, as JSON Schema names it: `required`, `type`, `maxLength`…
    pub rule: String,
    /// The message for the reader.
    pub message: String,
    /// The line in the text of a definition, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The column in characters, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// The value that the rule asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// The actual value, described or shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual: Option<String>,
    /// What to write instead, if midex knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<Suggestion>,
}

impl Violation {
    /// The value at `path` breaks `rule`.
    pub fn new(
        path: impl Into<String>,
        rule: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            path: path.into(),
            rule: rule.into(),
            message: message.into(),
            line: None,
            column: None,
            expected: None,
            actual: None,
            suggestion: None,
        }
    }

    /// Adds the value that the rule asks for.
    #[must_use]
    pub fn with_expected(self, expected: impl Into<String>) -> Self {
        Self { expected: Some(expected.into()), ..self }
    }
}

/// What to write instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suggestion {
    /// In words.
    pub text: String,
    /// Changes of the text that a program can make, all at once; empty if they are left to a person.
    pub edits: Vec<Edit>,
}

/// The replacement of a part of a text. Lines and columns count from 1, columns in characters; `start` and `end` are
/// offsets in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// The first line of the part.
    pub line: usize,
    /// The column of its first character.
    pub column: usize,
    /// The last line of the part.
    pub end_line: usize,
    /// The column after its last character.
    pub end_column: usize,
    /// Its first byte.
    pub start: usize,
    /// The byte after its last one.
    pub end: usize,
    /// The text that replaces the part.
    pub new_text: String,
}

/// A number of things, in words.
pub fn format_count(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}
