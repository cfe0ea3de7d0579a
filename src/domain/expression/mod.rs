//! The expression language: of `${{ … }}` in texts, and of the keys `if`, `when` and `until`.
//!
//! * Paths begin with `inputs`, `steps`, `memory`, `env`, `secrets`, `run`, or in a `foreach` with `item`, the
//!   name that `as` gives it, or `index`. `steps.a.b` is the field `b` of the output of step `a`;
//!   `steps.a.output.b` is the same, always: an output with a field `output` of its own is reached into as
//!   `steps.a.output.output` or `steps.a["output"]`. `x[0].y` and `x.0.y` both index. A hyphen between letters
//!   belongs to the name: `steps.code-review.x` is a path, `inputs.n - 1` is a difference.
//! * A path that leads to nothing is a fault, unless `is defined` or `default(…)` asks. `default` also stands
//!   in for null, for optional inputs that are not set are null.
//! * `false`, `0`, `""`, null, empty lists and empty maps count as false.
//! * A secret is a placeholder and can only stand alone.
//!
//! Everything is bounded: the length, parts and nesting of the text when it is parsed, and the cost of an evaluation. This
//! module only computes: it reads no clock, file or environment.

mod call;
mod engine;
mod fault;
mod filters;
mod foreign;
mod functions;
mod operand;
mod operators;
mod parse;
mod reference;
mod run;
mod segment;
mod template;
mod token;

#[cfg(test)]
mod tests;

use std::{borrow::Cow, fmt, sync::Arc};

use serde_json::Value;

use self::{
    engine::Program,
    filters::ENVIRONMENT,
    token::{Tokens, tokenize},
};
pub use self::{
    fault::{ExpressionFault, FaultKind, SuggestedEdit},
    reference::{ALL_INPUTS_MEMORY_KEY, EvaluationContext, ForeachItem, Reference, ReferenceRoot},
    segment::Segment,
    template::{MissingReasonFn, RenderedValue, SecretPlace, Template, UnresolvedExpression},
};
pub(super) use self::{
    run::{
        ENDED_FIELDS, ENDED_KEY, ERROR_FIELDS, ERROR_KEY, HOOK_RUN_FIELDS, LAST_OUTPUT_FIELD,
        RUN_FIELDS, SubpathRule,
    },
    segment::to_dotted_path,
};

/// A parsed expression: a condition or a value. Clones share what was parsed.
#[derive(Clone)]
pub struct Expression {
    source: Arc<str>,
    /// The bytes of the expression in the text that it was parsed from.
    span: (usize, usize),
    references: Arc<[Reference]>,
    form: ExpressionForm,
}

#[derive(Clone)]
enum ExpressionForm {
    /// A single path, which needs no evaluation: its value is passed on as it is.
    Path,
    Computed(Arc<Program>),
}

impl Expression {
    /// Parses one expression; a `${{ }}` around it may be left out. Reports all faults at once.
    pub fn parse(text: &str) -> Result<Self, Vec<ExpressionFault>> {
        Self::parse_with(text, &[])
    }

    /// [`Self::parse`], where `names` are further names of the item of a `foreach`.
    pub fn parse_with(text: &str, names: &[&str]) -> Result<Self, Vec<ExpressionFault>> {
        let (open, start, is_braced) = find_opening(text);
        let tokens = tokenize(text, start, is_braced).map_err(|fault| vec![fault])?;
        if is_braced && !tokens.is_closed {
            return Err(vec![unclosed_fault(text, open)]);
        }
        let last_end = tokens.list.last().map_or(open, |token| token.end);
        let end = if is_braced { tokens.end + 2 } else { last_end };
        let rest = text[end..].trim_end().len();
        if rest > 0 {
            let message = "there should be one expression and nothing after it";
            let fault = ExpressionFault::new(FaultKind::Syntax, (end, end + rest), message);
            let suggestion = "put all of it between one `${{` and its `}}`";
            return Err(vec![fault.with_suggestion(suggestion)]);
        }
        Self::parse_tokens(text, (open, end), &tokens, names)
    }

    /// [`Self::parse_with`] for a condition, which cannot read a secret at all.
    pub fn parse_condition(text: &str, names: &[&str]) -> Result<Self, Vec<ExpressionFault>> {
        let expression = Self::parse_with(text, names)?;
        match expression.secret_reference() {
            None => Ok(expression),
            Some(secret) => {
                let message = secret_read_message(secret);
                let fault = ExpressionFault::new(FaultKind::Secret, secret.span(), message);
                Err(vec![fault])
            }
        }
    }

    /// All references of a condition, also of one that cannot be parsed to its end, and all its faults.
    pub fn collect_condition_references(
        text: &str,
        names: &[&str],
    ) -> (Vec<Reference>, Vec<ExpressionFault>) {
        match Self::parse_condition(text, names) {
            Ok(expression) => (expression.references.to_vec(), Vec::new()),
            Err(faults) => {
                let (_, start, is_braced) = find_opening(text);
                let tokens = tokenize(text, start, is_braced);
                let references =
                    tokens.map(|tokens| parse::collect_references(text, &tokens, names));
                (references.unwrap_or_default(), faults)
            }
        }
    }

    fn parse_tokens(
        text: &str,
        span: (usize, usize),
        tokens: &Tokens,
        names: &[&str],
    ) -> Result<Self, Vec<ExpressionFault>> {
        let parsed = parse::parse(text, tokens, names)?;
        let form = if parsed.is_path {
            ExpressionForm::Path
        } else {
            let program = Program::compile(&ENVIRONMENT, &parsed)
                .map_err(|message| vec![ExpressionFault::new(FaultKind::Limit, span, message)])?;
            ExpressionForm::Computed(Arc::new(program))
        };
        Ok(Self {
            source: text[span.0..span.1].into(),
            span,
            references: parsed.references.into(),
            form,
        })
    }

    /// The text of the expression, without the white space around it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Every path that the expression reads, each once, in order.
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    fn secret_reference(&self) -> Option<&Reference> {
        let mut references = self.references.iter();
        references.find(|reference| reference.root == ReferenceRoot::Secrets)
    }

    /// Evaluates the expression to its value.
    pub fn evaluate(&self, roots: &EvaluationContext) -> Result<Value, ExpressionFault> {
        let mut values = self.references.iter().map(|reference| roots.resolve_reference(reference));
        match &self.form {
            ExpressionForm::Path => {
                values.next().map_or(Ok(Value::Null), |value| value.map(Cow::into_owned))
            }
            ExpressionForm::Computed(program) => {
                program.run(values, &self.source).map_err(|fault| self.shift_fault_offset(fault))
            }
        }
    }

    /// Adds the offset of the expression in its text to a fault that concerns the whole expression.
    fn shift_fault_offset(&self, mut fault: ExpressionFault) -> ExpressionFault {
        if fault.offset == 0 && fault.length == self.source.len() {
            fault.offset = self.span.0;
        }
        fault
    }

    /// Evaluates a condition: whether its value counts as true.
    pub fn evaluate_condition(&self, roots: &EvaluationContext) -> Result<bool, ExpressionFault> {
        if let Some(secret) = self.secret_reference() {
            let (kind, message) = (FaultKind::Secret, secret_read_message(secret));
            return Err(ExpressionFault::new(kind, secret.span(), message));
        }
        self.evaluate(roots).map(|value| is_truthy(&value))
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.source).finish()
    }
}

/// Whether a value counts as true: false, 0, `""`, null, `[]` and `{}` do not.
pub fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

/// The placeholder of a secret, until the runner fills in its value.
pub fn secret_placeholder(secret: &str) -> String {
    format!("${{secret:{secret}}}")
}

/// A value as a part of a text: texts as they are, null as nothing, anything else as JSON.
fn value_to_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn secret_read_message(secret: &Reference) -> String {
    format!("`{secret}` cannot be asked for: its value is not known here")
}

/// The offset where an expression starts in `text`, the offset of its first token, and whether it starts with `${{`.
fn find_opening(text: &str) -> (usize, usize, bool) {
    let open = text.len() - text.trim_start().len();
    let is_braced = text[open..].starts_with("${{");
    (open, if is_braced { open + 3 } else { open }, is_braced)
}

/// The fault of a `${{` at `open` that is never closed.
fn unclosed_fault(text: &str, open: usize) -> ExpressionFault {
    let message = "the `${{` that begins here has no `}}`";
    let fault = ExpressionFault::new(FaultKind::Syntax, (open, open + 3), message);
    // It may be closed by a single brace: `${{ inputs.x }`.
    let line = text.get(open + 3..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    let single_brace =
        line.find('}').filter(|at| !line[..*at].contains("${{") && !line[..*at].contains('{'));
    match single_brace {
        Some(at) => {
            let at = open + 3 + at;
            fault
                .with_suggestion("close it with `}}`")
                .with_replacement((at, at + 1), "}}".to_owned())
        }
        None => fault.with_suggestion(
            "close it with `}}`, or write `${{ '${{' }}` where these signs are meant",
        ),
    }
}
