//! Defaults of inputs: the source of a value that the caller does not give.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Input, InputType, WorkflowOutputPath};
use crate::id::WorkflowName;

/// The default of an input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputDefault {
    /// The source of the value.
    pub from: DefaultFrom,
    /// The literal, the name of the environment variable, or the path of another workflow's output. `None` for the
    /// history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// The sources of defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefaultFrom {
    /// A literal in the definition.
    Literal,
    /// An environment variable of the server. Only variables that the configuration allows are visible.
    Env,
    /// The same input in the most recently changed execution of this workflow.
    History,
    /// The final output of the last completed execution of another workflow, or a part of it.
    WorkflowOutput,
}

impl DefaultFrom {
    /// The names in manifests, in the order of the variants.
    pub const NAMES: &[&str] = &["literal", "env", "history", "workflow_output"];
}

/// The values that defaults outside of the definition are taken from. `Debug` omits them, since they may be secret.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct DefaultSources {
    /// The allowed environment variables.
    pub env: Arc<BTreeMap<String, String>>,
    /// The inputs of the execution of this workflow that moved last.
    pub history: Map<String, Value>,
    /// The final outputs of other workflows' last completed executions, by workflow.
    pub outputs: BTreeMap<WorkflowName, Value>,
}

impl fmt::Debug for DefaultSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DefaultSources").field("env", &self.env.keys()).finish_non_exhaustive()
    }
}

impl Input {
    /// The default, if it currently has a value. A value from the history or from another workflow's output counts only
    /// if it satisfies the rules: the caller did not choose it, so it must cause no violation.
    pub(super) fn default_value(
        &self,
        sources: &DefaultSources,
        is_valid: impl Fn(&Value) -> bool,
    ) -> Option<Value> {
        let InputDefault { from, value } = self.default.as_ref()?;
        let default = match from {
            DefaultFrom::Literal => value.clone(),
            DefaultFrom::Env => {
                let text = sources.env.get(value.as_ref()?.as_str()?)?;
                Some(parse_typed_text(self.effective_type(), &self.one_of, text))
            }
            DefaultFrom::History => {
                let previous = sources.history.get(self.key.as_str()).cloned();
                previous.filter(is_valid)
            }
            DefaultFrom::WorkflowOutput => {
                let output_path = self.workflow_output_default()?;
                let output = sources.outputs.get(&output_path.workflow)?;
                output_path.select_from_output(output).filter(is_valid)
            }
        };
        default.filter(|value| !value.is_null())
    }

    /// The reference to another workflow's output that is the default, if it is one.
    pub(super) fn workflow_output_default(&self) -> Option<WorkflowOutputPath> {
        let InputDefault { from, value } = self.default.as_ref()?;
        let text = value.as_ref().filter(|_| *from == DefaultFrom::WorkflowOutput)?;
        WorkflowOutputPath::parse(text.as_str()?).ok()
    }

    /// An explanation why a declared default yields no value; empty if no default is declared.
    pub(super) fn no_default_reason(&self) -> String {
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

    /// A clause for messages that names the source of a default value.
    pub(super) fn default_origin(&self) -> String {
        match &self.default {
            Some(InputDefault { from: DefaultFrom::Env, value: Some(Value::String(name)) }) => {
                format!(" (its default, the environment variable `{name}` of the server)")
            }
            _ => " (its default)".into(),
        }
    }
}

/// Converts a text from a command line or an environment variable into a value of the type. A text that does not parse
/// stays a string, and the rules of the input report it.
pub fn parse_typed_text(kind: Option<InputType>, one_of: &[Value], text: &str) -> Value {
    let plain = Value::String(text.to_owned());
    let parsed = || serde_json::from_str::<Value>(text).ok();
    match kind {
        Some(InputType::String) => plain,
        Some(_) => parsed().unwrap_or(plain),
        None if one_of.contains(&plain) => plain,
        None => parsed().filter(|value| one_of.contains(value)).unwrap_or(plain),
    }
}
