//! What is wrong with what was sent, rule by rule, and what to write instead.

use serde::{Deserialize, Serialize};

/// One way in which a value breaks a rule (S2, section 10.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// JSON pointer to the value, from the arguments or the output; empty for the whole. Of an input of a
    /// workflow `inputs.` and its name.
    pub path: String,
    /// The rule, as JSON Schema names it: `required`, `type`, `maxLength`…
    pub rule: String,
    /// What is wrong, for a reader.
    pub message: String,
    /// What the rule asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What was found, shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual: Option<String>,
    /// What to write instead, where that can be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<Suggestion>,
}

/// What to write instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suggestion {
    /// In words.
    pub text: String,
    /// As changes of the text that a program can make, all at once; none where it is left to a person.
    pub edits: Vec<Edit>,
}

/// The replacement of a part of a text. Lines and columns count from 1, columns in characters; `start` and `end` are
/// offsets in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// The line where the part begins.
    pub line: usize,
    /// The column where it begins.
    pub column: usize,
    /// The line where it ends.
    pub end_line: usize,
    /// The column after its last character.
    pub end_column: usize,
    /// Its first byte.
    pub start: usize,
    /// The byte after its last one.
    pub end: usize,
    /// What stands there instead.
    pub new_text: String,
}
