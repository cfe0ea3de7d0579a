//! A report on each input of a start: its value, source and violations.

use serde::Serialize;
use serde_json::{Map, Value};

use super::{DefaultFrom, DefaultSources, Input, Inputs};
use crate::error::Violation;

/// The status of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InputStatus {
    /// The caller provides a valid value.
    Given,
    /// The caller provides no value, and the default has one.
    Defaulted,
    /// The caller provides no value for a required input.
    Missing,
    /// The value violates the rules of the input.
    Invalid,
    /// The caller provides no value for an optional input, so it is null.
    Optional,
}

/// The report on one input.
#[derive(Clone, Debug, Serialize)]
pub struct InputReport {
    /// Its name.
    pub name: String,
    /// The status of the input.
    pub status: InputStatus,
    /// The value; null if there is none or if it is invalid.
    pub value: Value,
    /// The source of the value, or where a value would come from: `caller` or [`Input::value_source`].
    pub source: &'static str,
    /// What is wrong with it.
    pub violations: Vec<Violation>,
}

impl InputReport {
    /// Whether the input prevents a start: it is missing or invalid.
    pub fn is_unresolved(&self) -> bool {
        matches!(self.status, InputStatus::Missing | InputStatus::Invalid)
    }
}

impl Input {
    /// The source of the value if the caller does not provide it: the kind of the default, `none` for an optional input
    /// without one, and `caller` if the caller must provide it.
    pub fn value_source(&self) -> &'static str {
        match self.default.as_ref().map(|default| default.from) {
            Some(DefaultFrom::Literal) => "literal",
            Some(DefaultFrom::Env) => "env",
            Some(DefaultFrom::History) => "history",
            Some(DefaultFrom::WorkflowOutput) => "workflow_output",
            None if self.optional => "none",
            None => "caller",
        }
    }
}

impl Inputs {
    /// The report on each input, in order, and a violation for each given name that is no declared input.
    pub fn build_report(
        &self,
        provided: &Map<String, Value>,
        sources: &DefaultSources,
    ) -> (Vec<InputReport>, Vec<Violation>) {
        let reports = self.iter().enumerate().map(|(position, input)| {
            let value = provided.get(input.key.as_str());
            let is_provided = value.is_some_and(|value| !value.is_null());
            let source = if is_provided { "caller" } else { input.value_source() };
            let (status, value, violations) =
                match self.resolve_input_value(position, input, value, sources) {
                    Ok(value) if is_provided => (InputStatus::Given, value, Vec::new()),
                    Ok(Value::Null) => (InputStatus::Optional, Value::Null, Vec::new()),
                    Ok(value) => (InputStatus::Defaulted, value, Vec::new()),
                    Err(violations)
                        if !is_provided && violations.iter().all(|one| one.rule == "required") =>
                    {
                        (InputStatus::Missing, Value::Null, violations)
                    }
                    Err(violations) => (InputStatus::Invalid, Value::Null, violations),
                };
            InputReport { name: input.key.to_string(), status, value, source, violations }
        });
        (reports.collect(), self.unknown_input_violations(provided))
    }
}
