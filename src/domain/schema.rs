//! JSON Schema: a schema is compiled once, a validation reports every violation within a budget of steps. Nothing is ever
//! fetched from the network or the disk.

mod equal;
mod evaluate;
mod format;
mod keyword;
mod node;
mod pattern;
mod quota;
mod read;
mod reference;
mod sample;
mod words;

use std::fmt;

use serde_json::{Value, json};

pub use self::{
    equal::{ValueSize, is_equal},
    format::format_names as formats,
    keyword::{KeywordValueForm, TYPE_NAMES, find_keyword_form},
    quota::PatternQuota,
    reference::{
        composed_schemas, find_ref_target, follow_references, member_schemas, non_null_types,
    },
    sample::sample_value,
};
use self::{
    evaluate::{Evaluation, EvaluationStop},
    node::{Keyword, SchemaProgram},
    pattern::RegexPattern,
};
use crate::{
    error::{Error, Violation},
    finding::Rule,
    limits,
};

/// A compiled JSON Schema: of draft 2020-12, or of an earlier one that its `$schema` names.
pub struct Schema {
    program: SchemaProgram,
    /// An estimate of the steps that each value costs.
    cost_per_value: u64,
    /// The states of regular expressions that each byte of a text may have to be matched against.
    states_per_byte: u64,
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema(..)")
    }
}

/// A finding about a schema, whose place is a pointer: the schema does not know where in a file it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaFinding {
    /// A JSON pointer to the faulty value.
    pub pointer: String,
    /// The key in that value, if the fault is about one key.
    pub key: Option<String>,
    /// The broken rule.
    pub rule: Rule,
    /// The message for the author.
    pub message: String,
    /// A hint what to do instead.
    pub hint: Option<String>,
    /// The faulty text and its replacement, if a program may make it.
    pub replacement: Option<(String, String)>,
}

impl SchemaFinding {
    /// Suggests `replacement` for the word `wrong`, which a program may replace.
    fn suggest_replacement(&mut self, wrong: &str, replacement: &str) {
        self.hint = Some(format!("did you mean `{replacement}`?"));
        self.replacement = Some((wrong.to_owned(), replacement.to_owned()));
    }
}

/// The rule of the violation that says that a validation exceeded its limits.
pub const BUDGET_RULE: &str = "schema_budget";

/// The error for `subject` if its validation exceeded the limits, as the first violation then says.
pub fn budget_exceeded_error(subject: &str, violations: &[Violation]) -> Option<Error> {
    let budget_violation = violations.first().filter(|first| first.rule == BUDGET_RULE)?;
    let limit = format!("an evaluation of JSON Schema may take {} steps", limits::SCHEMA_STEPS_MAX);
    let message = format!("{subject}: {}", budget_violation.message);
    Some(Error::limit_exceeded(limit).with_message(message))
}

impl Schema {
    /// Compiles a schema and returns all its faults. Its regular expressions count against the quota.
    pub fn compile_with_faults(
        schema: &Value,
        quota: &mut PatternQuota,
    ) -> (Self, Vec<SchemaFinding>) {
        let (program, faults) = read::read_schema(schema, quota);
        let keywords = program.nodes.iter().flat_map(|node| &node.keywords);
        let patterns = program.patterns.iter().map(RegexPattern::states_per_byte_max);
        let schema = Self {
            cost_per_value: program.nodes.iter().map(|node| node.cost).sum(),
            states_per_byte: keywords.map(Keyword::regex_states_per_byte).chain(patterns).sum(),
            program,
        };
        (schema, faults)
    }

    /// Compiles a schema that was checked before; the error is its first fault. Unknown keywords have no effect.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        let (schema, faults) = Self::compile_with_faults(schema, &mut PatternQuota::default());
        let mut fatal = faults
            .into_iter()
            .filter(|fault| !matches!(fault.rule, Rule::UnknownKeyword | Rule::BareProperties));
        match fatal.next() {
            Some(fault) => Err(format!("{}: {}", fault.pointer, fault.message)),
            None => Ok(schema),
        }
    }

    /// The fault of a regular expression; `None` if it has none.
    pub fn check_pattern(pattern: &str, quota: &mut PatternQuota) -> Option<SchemaFinding> {
        let (_, faults) = Self::compile_with_faults(&json!({ "pattern": pattern }), quota);
        faults.into_iter().next()
    }

    /// All violations of the schema by `value`, at most [`limits::VIOLATIONS_MAX`] of them.
    pub fn find_violations(&self, value: &Value) -> Vec<Violation> {
        self.find_violations_named(value, "the value")
    }

    /// [`Self::find_violations`], whose messages call the value `name`.
    pub fn find_violations_named(&self, value: &Value, name: &str) -> Vec<Violation> {
        self.find_violations_within(value, name, limits::SCHEMA_STEPS_MAX)
    }

    /// [`Self::find_violations_named`] of a value that another judges in the end: several schemas of a `oneOf` may hold for it.
    /// Whether they did comes with the violations.
    pub fn find_lenient_violations(&self, value: &Value, name: &str) -> (Vec<Violation>, bool) {
        let steps = limits::SCHEMA_STEPS_MAX;
        let mut evaluation = Evaluation::new(&self.program, name, steps).make_lenient();
        let outcome = evaluation.run(value);
        (
            collect_violations(&mut evaluation, outcome, (value, name, steps)),
            evaluation.has_multiple_matches,
        )
    }

    /// [`Self::find_violations_named`] within `steps`. If they do not suffice a violation says so, under [`BUDGET_RULE`].
    pub fn find_violations_within(&self, value: &Value, name: &str, steps: u64) -> Vec<Violation> {
        let mut evaluation = Evaluation::new(&self.program, name, steps);
        let outcome = evaluation.run(value);
        collect_violations(&mut evaluation, outcome, (value, name, steps))
    }

    /// Whether validating a value of this measure may take so long that other calls should not wait for it.
    pub fn is_slow_to_validate(&self, measure: ValueSize) -> bool {
        let values = measure.values.saturating_mul(self.cost_per_value);
        let texts =
            measure.bytes.saturating_mul(1 + self.states_per_byte) / pattern::STATE_VISITS_PER_STEP;
        values.saturating_add(texts) > limits::SCHEMA_STEPS_INLINE_MAX
    }
}

fn collect_violations(
    evaluation: &mut Evaluation<'_>,
    outcome: Result<bool, EvaluationStop>,
    (value, name, steps): (&Value, &str, u64),
) -> Vec<Violation> {
    let mut violations = std::mem::take(&mut evaluation.violations);
    if outcome == Err(EvaluationStop::BudgetExhausted) {
        violations.insert(0, unfinished_violation(value, name, steps));
    }
    violations
}

fn unfinished_violation(value: &Value, name: &str, steps: u64) -> Violation {
    let message = format!(
        "{name} cannot be held to its schema within {steps} steps and {} levels",
        limits::SCHEMA_DEPTH_MAX
    );
    Violation {
        actual: Some(words::describe_value(value)),
        ..Violation::new("", BUDGET_RULE, message)
            .with_expected("a smaller value, or a simpler schema")
    }
}
