//! What each input of a workflow comes to with what a caller gives, one by one.

use serde::Serialize;
use serde_json::{Map, Value};

use super::{DefaultFrom, DefaultSources, Input, Inputs};
use crate::error::Violation;

/// What became of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InputStatus {
    /// The caller gives it.
    Given,
    /// It is not given, and its default has a value.
    Defaulted,
    /// It must be given, and is not.
    Missing,
    /// Its value breaks its rules.
    Invalid,
    /// It is not given, and need not be: it is null.
    Optional,
}

/// One input with its value.
#[derive(Clone, Debug, Serialize)]
pub struct InputReport {
    /// Its name.
    pub name: String,
    /// What became of it.
    pub status: InputStatus,
    /// Its value; null where it has none, and where the one it has does not do.
    pub value: Value,
    /// Where that comes from, or would.
    pub source: &'static str,
    /// What is wrong with it.
    pub violations: Vec<Violation>,
}

impl InputReport {
    /// Whether it has no value that a start could be made with.
    pub fn is_open(&self) -> bool {
        matches!(self.status, InputStatus::Missing | InputStatus::Invalid)
    }
}

impl Input {
    /// Where its value comes from where a start does not give it: the word for its default, `none`, or `caller` where
    /// nothing stands in for the caller.
    pub fn source(&self) -> &'static str {
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
    /// What becomes of each input, in order, and every name that is given and is none of them.
    pub fn report(
        &self,
        given: &Map<String, Value>,
        sources: &DefaultSources,
    ) -> (Vec<InputReport>, Vec<Violation>) {
        let reports = self.iter().enumerate().map(|(position, input)| {
            let value = given.get(input.key.as_str());
            let is_given = value.is_some_and(|value| !value.is_null());
            let source = if is_given { "caller" } else { input.source() };
            let (status, value, violations) = match self.value(position, input, value, sources) {
                Ok(value) if is_given => (InputStatus::Given, value, Vec::new()),
                Ok(Value::Null) => (InputStatus::Optional, Value::Null, Vec::new()),
                Ok(value) => (InputStatus::Defaulted, value, Vec::new()),
                Err(violations)
                    if !is_given && violations.iter().all(|one| one.rule == "required") =>
                {
                    (InputStatus::Missing, Value::Null, violations)
                }
                Err(violations) => (InputStatus::Invalid, Value::Null, violations),
            };
            InputReport {
                name: input.key.to_string(),
                status,
                value,
                source,
                violations,
            }
        });
        (reports.collect(), self.unknown_names(given))
    }
}
