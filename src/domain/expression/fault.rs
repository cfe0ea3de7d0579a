//! The faults of expressions, each with its place in the text: those of parsing, and those of evaluation.

use std::fmt;

use super::segment::Segment;

/// The kinds of faults that the text of an expression may have.
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
    /// A secret inside a larger expression; a secret can only stand alone.
    Secret,
    /// The text exceeds a limit on length, depth or number of parts.
    Limit,
}

/// A replacement in the source that a tool can make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The first byte to replace.
    pub start: usize,
    /// The byte after the last one to replace.
    pub end: usize,
    /// The text that takes their place.
    pub replacement: String,
}

impl Edit {
    /// `source` with the edit made.
    pub fn apply(&self, source: &str) -> String {
        let before = source.get(..self.start).unwrap_or_default();
        let after = source.get(self.end..).unwrap_or_default();
        format!("{before}{}{after}", self.replacement)
    }
}

/// One fault of the text of an expression. Offsets are bytes of the text that was parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionFault {
    /// The kind of the fault.
    pub kind: FaultKind,
    /// The first faulty byte.
    pub offset: usize,
    /// The number of faulty bytes; 0 where something is missing.
    pub length: usize,
    /// The message for the author.
    pub message: String,
    /// A hint what to write instead, if there is one.
    pub suggestion: Option<String>,
    /// The hint as an edit that a program may make, if it is certain enough.
    pub edit: Option<Edit>,
}

impl ExpressionFault {
    pub(super) fn new(
        kind: FaultKind,
        (start, end): (usize, usize),
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            offset: start,
            length: end.saturating_sub(start),
            message: message.into(),
            suggestion: None,
            edit: None,
        }
    }

    pub(super) fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }

    /// Offers `replacement` for the bytes from `start` to `end` as an edit that a program may make.
    pub(super) fn replace(mut self, (start, end): (usize, usize), replacement: String) -> Self {
        self.edit = Some(Edit {
            start,
            end,
            replacement,
        });
        self
    }

    /// Suggests `meant` for the word at `span`, with an edit.
    pub(super) fn did_you_mean(self, span: (usize, usize), meant: &str) -> Self {
        self.suggest(format!("did you mean `{meant}`?"))
            .replace(span, meant.to_owned())
    }
}

impl fmt::Display for ExpressionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_fault(f, &self.message, self.suggestion.as_deref())
    }
}

impl std::error::Error for ExpressionFault {}

/// One fault of a text inside a template's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateFault {
    /// The path of the text in the value; empty if the value itself is the text.
    pub path: Vec<Segment>,
    /// The fault. Its offsets are bytes of that text.
    pub fault: ExpressionFault,
}

/// The kinds of reasons why a well-formed expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvaluationFaultKind {
    /// A path leads to nothing.
    Unresolved,
    /// An operator or a filter got values of the wrong types.
    Unsuitable,
    /// The evaluation costs more than its budget, or the result is too large.
    Limit,
    /// The value of a secret would have to be known.
    Secret,
}

/// Why an evaluation failed. It names paths and types, never the values themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvaluationFault {
    /// The kind of the reason.
    pub kind: EvaluationFaultKind,
    /// The path that leads to nothing, as it is written, if that is the reason.
    pub path: Option<String>,
    /// The path of the text in a template's value; empty for a single expression.
    pub place: Vec<Segment>,
    /// The first byte, in the source, of the part that has no value.
    pub offset: usize,
    /// The length of that part in bytes.
    pub length: usize,
    /// The message for the reader.
    pub message: String,
    /// A hint what to write instead, if there is one.
    pub suggestion: Option<String>,
}

impl EvaluationFault {
    pub(super) fn new(
        kind: EvaluationFaultKind,
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
        }
    }
}

impl fmt::Display for EvaluationFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_fault(f, &self.message, self.suggestion.as_deref())
    }
}

impl std::error::Error for EvaluationFault {}

fn write_fault(f: &mut fmt::Formatter<'_>, message: &str, suggestion: Option<&str>) -> fmt::Result {
    f.write_str(message)?;
    suggestion.map_or(Ok(()), |suggestion| write!(f, ": {suggestion}"))
}
