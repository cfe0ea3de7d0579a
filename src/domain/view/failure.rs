//! The view of a failure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    definition::{Definition, StepKind},
    document::JsonText,
    event::Failure,
};

/// Why an execution failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailureView {
    /// A stable name.
    pub code: String,
    /// What happened.
    pub message: String,
    /// The step it began in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_name: Option<String>,
    /// The same, by the name that the errors of runs have for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<String>,
    /// The command that this step calls, where it calls one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Which item of that step, from 0, where it is a `foreach`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    /// The status of HTTP that the operation answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The body of that answer, in part where it is long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_payload: Option<Value>,
    /// Whether the same call may succeed later. The errors of tools say so.
    #[serde(skip)]
    pub is_retryable: bool,
}

impl From<&Failure> for FailureView {
    fn from(failure: &Failure) -> Self {
        let response = failure.response.as_deref();
        let payload = response.and_then(|response| response.payload.as_ref());
        let step_name = failure.step.as_ref().map(ToString::to_string);
        Self {
            status: response.map(|response| response.status),
            response_payload: payload.map(JsonText::value),
            code: failure.code.clone(),
            message: failure.message.clone(),
            step_id: step_name.clone(),
            step_name,
            command: None,
            item: failure.item,
            is_retryable: failure.is_retryable,
        }
    }
}

impl FailureView {
    /// The same failure, with the command that the failed step of this definition calls.
    pub(super) fn with_command(mut self, definition: &Definition) -> Self {
        let mut steps = definition.workflow.steps.iter();
        let step = steps.find(|step| self.step_id.as_deref() == Some(step.id.as_str()));
        self.command = step.and_then(|step| match &step.acting_step().kind {
            StepKind::Run { catalog, operation, .. } => Some(format!("{catalog} {operation}")),
            _ => None,
        });
        self
    }
}
