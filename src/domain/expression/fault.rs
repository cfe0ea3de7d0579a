//! The fault of an expression with its place in the text: why it does not parse, or has no value.

use std::fmt;

use super::segment::Segment;

/// The kinds of faults that an expression may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The text is no expression.
    Syntax,
    /// An operator, method or function that another language has and expressions write differently.
    Foreign,
    /// A name that is not defined in the scope of the expression.
    UnknownName,
    /// An unknown filter or test, or one with wrong arguments.
    Filter,
    /// A secret inside a larger expression, where its value would have to be known; it can only stand alone.
    Secret,
    /// The text, the cost of an evaluation or its result exceeds a limit.
    Limit,
    /// A path leads to nothing.
    Unresolved,
    /// An operator or a filter got values of the wrong types.
    TypeMismatch,
}

/// A replacement in the source that a tool can make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuggestedEdit {
    /// The first byte to replace.
    pub start: usize,
    /// The byte after the last one to replace.
    pub end: usize,
    /// The text that takes their place.
    pub replacement: String,
}

/// Why an expression does not parse, or has no value. Offsets are bytes of the text that was parsed. The fault of an
/// evaluation names paths and types, never the values themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionFault {
    /// The kind of the fault.
    pub kind: FaultKind,
    /// The path that leads to nothing, as it is written, if that is the reason.
    pub path: Option<Box<str>>,
    /// The path of the text in a template's value; empty if the value itself is the text.
    pub place: Vec<Segment>,
    /// The first faulty byte.
    pub offset: usize,
    /// The number of faulty bytes; 0 where something is missing.
    pub length: usize,
    /// The message for the author.
    pub message: String,
    /// A hint what to write instead, if there is one.
    pub suggestion: Option<String>,
    /// The hint as an edit that a program may make, if it is certain enough.
    pub edit: Option<Box<SuggestedEdit>>,
}

impl ExpressionFault {
    pub(super) fn new(
        kind: FaultKind,
        (start, end): (usize, usize),
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            path: None,
            place: Vec::new(),
            offset: start,
            length: end.saturating_sub(start),
            message: message.into(),
            suggestion: None,
            edit: None,
        }
    }

    pub(super) fn with_suggestion(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }

    /// Offers `replacement` for the bytes from `start` to `end` as an edit that a program may make.
    pub(super) fn with_replacement(
        mut self,
        (start, end): (usize, usize),
        replacement: String,
    ) -> Self {
        self.edit = Some(Box::new(SuggestedEdit { start, end, replacement }));
        self
    }

    /// Suggests `word` for the word at `span`, with an edit.
    pub(super) fn with_word_suggestion(self, span: (usize, usize), word: &str) -> Self {
        self.with_suggestion(format!("did you mean `{word}`?"))
            .with_replacement(span, word.to_owned())
    }
}

impl fmt::Display for ExpressionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let suggestion = self.suggestion.as_ref();
        suggestion.map_or(Ok(()), |suggestion| write!(f, ": {suggestion}"))
    }
}

impl std::error::Error for ExpressionFault {}
