//! `workflow.run`: starts an execution, and waits while the server can advance it, up to a time limit.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{author::DefinitionSelection, wait_duration};
use midex_domain::{
    State,
    error::{Code, NextCall, Result, repeat_call},
    event::OutputFailure,
    limits,
    state::Vocabulary,
    view::{CurrentStep, FailureView, WaitView},
};
use midex_server::app::{App, RunOutcome};

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    #[serde(flatten)]
    selection: DefinitionSelection,
    inputs: Option<Map<String, Value>>,
    #[schemars(
        range(min = 0, max = limits::WAIT_MAX.as_secs()),
        extend("default" = limits::WAIT_MAX.as_secs())
    )]
    wait_s: Option<f64>,
}

/// The next call if inputs are invalid.
const INVALID_INPUTS_CALL: NextCall = repeat_call(
    "correct every violation; workflow.resolve_inputs with the same arguments says when they are ready",
);

/// An execution when it ended, or when the call stopped waiting for it.
#[derive(Serialize, JsonSchema)]
pub(super) struct WorkflowRun {
    run_id: String,
    execution_id: String,
    workflow_id: String,
    status: &'static str,
    state: String,
    revision: u64,
    waits: Vec<WaitView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    final_output: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    final_output_error: Vec<OutputFailure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_summary: Option<FailureView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    warnings: Option<[String; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    awaiting: Option<CurrentStep>,
}

/// The time limit of a call with these arguments, which need not be checked yet.
pub(super) fn max_duration(arguments: &Map<String, Value>) -> Duration {
    wait_duration(arguments.get("wait_s").and_then(Value::as_f64))
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<WorkflowRun> {
    let subject = arguments.selection.into_subject("workflow.run")?;
    let definition = app.find_valid_definition(subject).await?;
    let (inputs, wait) = (arguments.inputs.map(Value::Object), wait_duration(arguments.wait_s));
    let warning = app.hidden_definition_warning(&definition).await;
    let run_result = app.run_execution(definition, inputs, wait).await;
    let RunOutcome { step, status } = run_result.map_err(|error| match error.code() {
        // A manifest that is not saved has no details resource to suggest.
        Code::InputsInvalid => error.with_next(INVALID_INPUTS_CALL),
        _ => error,
    })?;
    let state = State::parse(&status.state).unwrap_or(State::Running);
    Ok(WorkflowRun {
        run_id: status.execution_id.clone(),
        execution_id: status.execution_id,
        workflow_id: status.workflow_name,
        status: state.word(Vocabulary::Run),
        state: status.state,
        revision: status.revision,
        waits: status.waits,
        final_output: status.final_output,
        final_output_error: status.final_output_error,
        failure_summary: status.error,
        warnings: warning.map(|warning| [warning]),
        awaiting: Some(step).filter(|step| step.current_step.is_some()),
    })
}
