//! Where the value of an input comes from when nobody gives it.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Input, InputType, OutputOf};
use crate::id::WorkflowName;

/// The default of an input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputDefault {
    /// Where it comes from.
    pub from: DefaultFrom,
    /// The value itself, or the name of the environment variable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// Where defaults come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefaultFrom {
    /// The definition has it.
    Literal,
    /// An environment variable of the server, of those that its configuration lets in.
    Env,
    /// The execution of the workflow that moved last had it.
    History,
    /// What another workflow came to, where it was completed last.
    WorkflowOutput,
}

impl DefaultFrom {
    /// Those that can be written.
    pub const NAMES: &[&str] = &["literal", "env", "history", "workflow_output"];
}

/// What defaults that stand outside the definition are taken from. Its `Debug` shows no values.
#[derive(Clone, Default)]
pub struct DefaultSources {
    /// The environment variables that are let in.
    pub env: Arc<BTreeMap<String, String>>,
    /// The inputs of the execution of the same workflow that moved last.
    pub history: Map<String, Value>,
    /// What other workflows came to, by their names: the executions that were completed last.
    pub outputs: BTreeMap<WorkflowName, Value>,
}

impl fmt::Debug for DefaultSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DefaultSources")
            .field("env", &self.env.keys())
            .finish_non_exhaustive()
    }
}

impl Input {
    /// Its default, where that has a value just now. One out of history counts only while it fits: nobody who
    /// starts the workflow has given it.
    pub(super) fn default_value(
        &self,
        sources: &DefaultSources,
        fits: impl Fn(&Value) -> bool,
    ) -> Option<Value> {
        let InputDefault { from, value } = self.default.as_ref()?;
        let found = match from {
            DefaultFrom::Literal => value.clone(),
            DefaultFrom::Env => {
                let text = sources.env.get(value.as_ref()?.as_str()?)?;
                Some(read_text(self.effective_type(), &self.one_of, text))
            }
            DefaultFrom::History => {
                let before = sources.history.get(self.key.as_str()).cloned();
                before.filter(fits)
            }
            DefaultFrom::WorkflowOutput => {
                let of = self.output_of()?;
                let output = sources.outputs.get(&of.workflow)?;
                of.of(output).filter(fits)
            }
        };
        found.filter(|value| !value.is_null())
    }

    /// The output that is its default, where one is.
    pub(super) fn output_of(&self) -> Option<OutputOf> {
        let InputDefault { from, value } = self.default.as_ref()?;
        let text = value
            .as_ref()
            .filter(|_| *from == DefaultFrom::WorkflowOutput)?;
        OutputOf::parse(text.as_str()?).ok()
    }

    /// Why it has no value although it has a default.
    pub(super) fn why_no_default(&self) -> String {
        let Some(InputDefault { from, value }) = &self.default else {
            return String::new();
        };
        match (from, value.as_ref().and_then(Value::as_str)) {
            (DefaultFrom::Env, Some(name)) => format!(
                "; its default is the environment variable `{name}` of the server, which is not set, or not let in with --allow-env"
            ),
            (DefaultFrom::History, _) => {
                "; its default is what the execution before had, and there is none that fits".into()
            }
            (DefaultFrom::WorkflowOutput, Some(what)) => format!(
                "; its default is `{what}` of what that workflow came to last in this project, and there is none that fits"
            ),
            _ => String::new(),
        }
    }

    /// Whose value it is when it is the default.
    pub(super) fn default_origin(&self) -> String {
        match &self.default {
            Some(InputDefault {
                from: DefaultFrom::Env,
                value: Some(Value::String(name)),
            }) => format!(" (its default, the environment variable `{name}` of the server)"),
            _ => " (its default)".into(),
        }
    }
}

/// A text from outside of JSON, from a command line or an environment variable, as a value of this type. What is
/// none stays a text, and the rules of the input say what is wrong with it.
pub fn read_text(kind: Option<InputType>, one_of: &[Value], text: &str) -> Value {
    let plain = Value::String(text.to_owned());
    let parsed = || serde_json::from_str::<Value>(text).ok();
    match kind {
        Some(InputType::String) => plain,
        Some(_) => parsed().unwrap_or(plain),
        None if one_of.contains(&plain) => plain,
        None => parsed()
            .filter(|value| one_of.contains(value))
            .unwrap_or(plain),
    }
}
