//! The inputs of a workflow, for who is to give them, and those of an execution, for who works on them.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::Subject;
use crate::{
    input::{Input, InputDefault, Inputs},
    truncate::truncate,
    uri,
};

/// The inputs of an execution, as whoever does a step of it is shown them.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct InputsView {
    /// The inputs, as they stand.
    pub inputs: Value,
    /// The address that has them whole, if they are shortened here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs_uri: Option<String>,
}

impl InputsView {
    /// The inputs of an execution in at most `bytes_max` bytes of JSON; `None` if it has none.
    pub(super) fn of(subject: &Subject<'_>, bytes_max: usize) -> Option<Self> {
        let whole = subject.value(subject.execution.inputs()?)?;
        let (inputs, is_cut) = truncate(&whole, bytes_max);
        let inputs_uri = is_cut.then(|| {
            let id = uri::encode(subject.execution.id().as_str());
            format!("midex://workflow/current_step/{id}?reader=person")
        });
        Some(Self { inputs, inputs_uri })
    }
}

/// One input, as whoever starts the workflow is shown it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InputView {
    /// The name to give it by.
    pub name: String,
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it must be given.
    pub required: bool,
    /// Where its value comes from when it is not given. Of the environment it shows the variable's name, never its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<InputDefault>,
    /// A word of help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What an empty field shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<String>,
    /// What a value may look like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<Value>,
    /// What its value is held to, as JSON Schema without words.
    pub schema: Value,
}

/// The inputs, in the order in which they are declared.
pub fn inputs(inputs: &Inputs) -> Vec<InputView> {
    inputs.iter().map(view_of).collect()
}

/// One input, as it is shown.
pub(super) fn view_of(input: &Input) -> InputView {
    InputView {
        name: input.key.to_string(),
        label: input.label.clone(),
        description: input.description.clone(),
        required: input.is_required(),
        default: input.default.clone(),
        hint: input.hint.clone(),
        placeholder: input.placeholder.clone(),
        example: input.example.clone(),
        schema: Value::Object(input.constraints()),
    }
}
