//! Views of inputs: the declared inputs of a workflow, and the input values of an execution.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ViewContext, same_keys::deserialize_if_known};
use crate::{
    input::{Input, InputDefault, Inputs},
    truncate::truncate_value,
    uri,
};

/// The inputs of an execution, as whoever does a step of it is shown them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InputsView {
    /// The inputs, as they stand.
    pub inputs: Value,
    /// The address that has them whole, if they are shortened here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs_uri: Option<String>,
}

impl InputsView {
    /// The inputs of an execution in at most `bytes_max` bytes of JSON; `None` if it has none.
    pub(super) fn from_execution(context: &ViewContext<'_>, bytes_max: usize) -> Option<Self> {
        let inputs = context.value(context.execution.inputs()?)?;
        let (inputs, is_cut) = truncate_value(&inputs, bytes_max);
        let inputs_uri = is_cut.then(|| {
            let id = uri::encode_segment(context.execution.id().as_str());
            format!("midex://workflow/current_step/{id}?reader=person")
        });
        Some(Self { inputs, inputs_uri })
    }
}

/// A declared input, as it is shown to the caller that starts the workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputView {
    /// The name under which the value is passed.
    pub name: String,
    /// The label for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// A description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether a start must provide the value.
    pub required: bool,
    /// The source of the value if it is not given. For an environment variable the view shows its name, never its
    /// value.
    #[serde(
        default,
        deserialize_with = "deserialize_if_known",
        skip_serializing_if = "Option::is_none"
    )]
    pub default: Option<InputDefault>,
    /// A hint for the person who fills in the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The placeholder of an empty form field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<String>,
    /// An example value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<Value>,
    /// The operation that lists the choices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The constraints of the value as JSON Schema, without title and description.
    pub schema: Value,
}

/// The views of all inputs, in the order of declaration.
pub fn input_views(inputs: &Inputs) -> Vec<InputView> {
    inputs.iter().map(input_view).collect()
}

/// The view of one input.
pub(super) fn input_view(input: &Input) -> InputView {
    InputView {
        name: input.key.to_string(),
        label: input.label.clone(),
        description: input.description.clone(),
        required: input.is_required(),
        default: input.default.clone(),
        hint: input.hint.clone(),
        placeholder: input.placeholder.clone(),
        example: input.example.clone(),
        provider: input.provider.clone(),
        schema: Value::Object(input.constraints()),
    }
}
