//! JSON Schema as midex uses it: read once, every violation reported, and never more work than a budget allows. Schemas
//! never reach for the network or the disk.

mod equal;
mod evaluate;
mod format;
mod keyword;
mod node;
mod pattern;
mod quota;
mod read;
mod words;

use std::fmt;

use serde_json::{Value, json};

pub use self::{equal::Measure, quota::Quota};
use self::{
    evaluate::{Evaluation, Stop},
    node::{Keyword, Program},
    pattern::Pattern,
};
use crate::{
    error::{Code, Error, Violation},
    limits,
};

/// A compiled JSON Schema: 2020-12, or an earlier draft where its `$schema` says so.
pub struct Schema {
    program: Program,
    /// Steps that each value may cost, as far as that can be seen.
    cost: u64,
    /// Looks at states of regular expressions that each byte of a text may cost.
    states: u64,
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema(..)")
    }
}

/// The formats of texts that are enforced, by name.
pub fn formats() -> impl Iterator<Item = &'static str> {
    format::names()
}

/// Something that is wrong with a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// A JSON pointer to the value that it is about.
    pub pointer: String,
    /// The key in that value that it is about.
    pub key: Option<String>,
    /// What kind of fault it is.
    pub kind: FaultKind,
    /// What is wrong, for a reader.
    pub message: String,
    /// What to do instead.
    pub hint: Option<String>,
    /// What stands there, and what to write for it.
    pub meant: Option<(String, String)>,
}

/// What kinds of faults a schema may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It is no schema, or one that cannot be evaluated.
    Invalid,
    /// A keyword that there is not.
    UnknownKeyword,
    /// Properties stand where a schema was to be.
    BareProperties,
    /// A regular expression that is none.
    Pattern,
    /// More than a limit allows.
    Limit,
}

/// The rule of a violation that says that a value could not be held to a schema within the limits.
pub const BUDGET_RULE: &str = "schema_budget";

/// The error of something that could not be held to its schema within the limits, where violations say so.
pub fn over_budget(what: &str, violations: &[Violation]) -> Option<Error> {
    let spent = violations
        .first()
        .filter(|first| first.rule == BUDGET_RULE)?;
    let limit = format!(
        "an evaluation of JSON Schema may take {} steps",
        limits::SCHEMA_STEPS_MAX
    );
    let message = format!("{what}: {}", spent.message);
    Some(Error::new(Code::LimitExceeded, message).with("limit", limit))
}

impl Schema {
    /// Reads a schema, and says all that is wrong with it. Its regular expressions are taken from the quota.
    pub fn read(schema: &Value, quota: &mut Quota) -> (Self, Vec<Fault>) {
        let (program, faults) = read::read(schema, quota);
        let keywords = program.nodes.iter().flat_map(|node| &node.keywords);
        let patterns = program.patterns.iter().map(Pattern::states);
        let schema = Self {
            weight: program.nodes.iter().map(|node| node.cost).sum(),
            states: keywords.map(Keyword::states).chain(patterns).sum(),
            program,
        };
        (schema, faults)
    }

    /// Compiles a schema that was looked at before; the error says what is wrong with it. What it says beyond JSON
    /// Schema has no effect.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        let (schema, faults) = Self::read(schema, &mut Quota::default());
        let mut grave = faults.into_iter().filter(|fault| {
            !matches!(
                fault.kind,
                FaultKind::UnknownKeyword | FaultKind::BareProperties
            )
        });
        match grave.next() {
            Some(fault) => Err(format!("{}: {}", fault.pointer, fault.message)),
            None => Ok(schema),
        }
    }

    /// What is wrong with a regular expression.
    pub fn pattern_fault(pattern: &str, quota: &mut Quota) -> Option<Fault> {
        let (_, faults) = Self::read(&json!({ "pattern": pattern }), quota);
        faults.into_iter().next()
    }

    /// Every way in which `value` breaks the schema, at most [`limits::VIOLATIONS_MAX`] of them.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        self.violations_named(value, "the value")
    }

    /// The same, in words about something that has a `name`.
    pub fn violations_named(&self, value: &Value, name: &str) -> Vec<Violation> {
        self.violations_within(value, name, limits::SCHEMA_STEPS_MAX)
    }

    /// The same in so many steps. Where they do not suffice a violation says so, under [`BUDGET_RULE`].
    pub fn violations_within(&self, value: &Value, name: &str, steps: u64) -> Vec<Violation> {
        let mut evaluation = Evaluation::new(&self.program, name, steps);
        let end = evaluation.run(value);
        let mut found = evaluation.found;
        if end == Err(Stop::Spent) {
            found.insert(0, unfinished(value, name, steps));
        }
        found
    }

    /// Whether it may take long to hold a value of this measure to it: others should not have to wait for that.
    pub fn is_long(&self, measure: Measure) -> bool {
        let values = measure.values.saturating_mul(self.weight);
        let texts = measure.bytes.saturating_mul(1 + self.states) / pattern::LOOKS_PER_STEP;
        values.saturating_add(texts) > limits::SCHEMA_STEPS_INLINE_MAX
    }
}

fn unfinished(value: &Value, name: &str, steps: u64) -> Violation {
    Violation {
        path: String::new(),
        rule: BUDGET_RULE.to_owned(),
        message: format!(
            "{name} cannot be held to its schema within {steps} steps and {} levels",
            limits::SCHEMA_DEPTH_MAX
        ),
        expected: Some("a smaller value, or a simpler schema".to_owned()),
        actual: Some(words::describe(value)),
        suggestion: None,
    }
}
