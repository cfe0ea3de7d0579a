//! What is wrong with an expression, and where: at parsing, and at evaluation.

use std::fmt;

use super::reference::Segment;
use crate::domain::nearest::is_sure;

/// What kind of fault of its text an expression has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The text is no expression.
    Syntax,
    /// An operator, method or function that another language has and expressions write differently.
    Foreign,
    /// A name that stands for nothing an expression can see.
    UnknownName,
    /// A filter or test that does not exist, or has other arguments.
    Filter,
    /// A secret anywhere but alone.
    Secret,
    /// Longer, deeper or of more parts than the limit.
    Limit,
}

/// A replacement in the source that a tool can make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// First byte of what is replaced.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
    /// What to put there.
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

/// One thing that is wrong with the text of an expression. Offsets are bytes of the text that was parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionFault {
    /// What kind of fault it is.
    pub kind: FaultKind,
    /// Its first byte.
    pub offset: usize,
    /// Its length in bytes; 0 where something is missing.
    pub length: usize,
    /// What is wrong, in words for the author.
    pub message: String,
    /// What to write instead, where that is known.
    pub suggestion: Option<String>,
    /// The same as a replacement, where it can be made without thinking.
    pub edit: Option<Edit>,
}

impl ExpressionFault {
    pub(super) fn new(
        kind: FaultKind,
        start: usize,
        end: usize,
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

    pub(super) fn replace(mut self, start: usize, end: usize, replacement: String) -> Self {
        self.edit = Some(Edit {
            start,
            end,
            replacement,
        });
        self
    }
}

impl ExpressionFault {
    /// Suggests `meant` for `wrong`, which is all that the fault is about. A program may write it where that is certain.
    pub(super) fn did_you_mean(self, wrong: &str, meant: &str, certain: bool) -> Self {
        let (start, end) = (self.offset, self.offset + self.length);
        let fault = self.suggest(format!("did you mean `{meant}`?"));
        if certain || is_sure(wrong, meant) {
            fault.replace(start, end, meant.to_owned())
        } else {
            fault
        }
    }
}

impl fmt::Display for ExpressionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_fault(f, &self.message, self.suggestion.as_deref())
    }
}

impl std::error::Error for ExpressionFault {}

/// One thing that is wrong with a text inside a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateFault {
    /// Where the text stands in the value; empty where the value is that text.
    pub path: Vec<Segment>,
    /// What is wrong. Offsets are bytes of that text.
    pub fault: ExpressionFault,
}

/// Why an expression that is well-formed has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvaluationFaultKind {
    /// A path leads to nothing.
    Unresolved,
    /// The values do not suit what is done with them.
    Unsuitable,
    /// The work or its result is larger than the limit.
    Limit,
    /// A secret where its value would have to be known.
    Secret,
}

/// Why an evaluation failed. It names paths and types, never the values themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvaluationFault {
    /// Why.
    pub kind: EvaluationFaultKind,
    /// The path that leads to nothing, as it is written, where that is the reason.
    pub path: Option<String>,
    /// Where the text stands in the value of a template; empty for a single expression.
    pub place: Vec<Segment>,
    /// First byte, in the source, of what has no value.
    pub offset: usize,
    /// Its length in bytes.
    pub length: usize,
    /// What happened, in words for the reader.
    pub message: String,
    /// What to write instead, where that is known.
    pub suggestion: Option<String>,
}

impl EvaluationFault {
    pub(super) fn new(
        kind: EvaluationFaultKind,
        start: usize,
        end: usize,
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
