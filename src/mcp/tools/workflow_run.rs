//! `workflow.run`: starts an execution, and waits while the server can advance it, up to a time limit.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{StartedRun, author::DefinitionSelection, wait_duration};
use midex_domain::{
    State,
    error::{Code, Error, NextCall, Result, repeat_call},
    event::OutputFailure,
    label::Labels,
    limits,
    state::Vocabulary,
    view::{CurrentStep, FailureView, StatusView, WaitView},
};
use midex_server::app::{App, ExecutionTurn, Turn};

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    #[serde(flatten)]
    selection: DefinitionSelection,
    inputs: Option<Map<String, Value>>,
    labels: Option<Labels>,
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
pub(crate) struct WorkflowRun {
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    awaiting: Option<Box<CurrentStep>>,
}

/// The time for which a call with these arguments waits. They need not be checked yet.
pub(crate) fn wait_argument(arguments: &Map<String, Value>) -> Duration {
    wait_duration(arguments.get("wait_s").and_then(Value::as_f64))
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<StartedRun> {
    let subject = arguments.selection.into_subject("workflow.run")?;
    let definition = app.find_valid_definition(subject).await?;
    let warnings = app.hidden_definition_warning(&definition).into_iter().collect();
    let labels = arguments.labels.unwrap_or_default();
    let started = app.start_run(definition, arguments.inputs.map(Value::Object), labels).await;
    let execution_id = started.map_err(|error| match error.code() {
        // A manifest that is not saved has no details resource to suggest.
        Code::InputsInvalid => error.with_next(INVALID_INPUTS_CALL),
        _ => error,
    })?;
    Ok(StartedRun { execution_id, warnings, timeout: wait_duration(arguments.wait_s) })
}

impl WorkflowRun {
    /// The answer of a run that stands here.
    ///
    /// # Errors
    /// `RUN_FAILED` if the execution has failed.
    pub(crate) fn from_turn(turn: ExecutionTurn, warnings: Vec<String>) -> Result<Self> {
        let ExecutionTurn { status, turn } = turn;
        let state = State::parse(&status.state).unwrap_or(State::Running);
        if state == State::Failed {
            return Err(run_failed_error(&status));
        }
        let step = match turn {
            Turn::Model(step) | Turn::Person { step, .. } => Some(step),
            Turn::Ended | Turn::Server | Turn::Outside(_) => None,
        };
        Ok(Self {
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
            warnings,
            awaiting: step.filter(|step| step.current_step.is_some()),
        })
    }
}

/// The error of a run that has failed: what failed, and the call that continues it.
pub(super) fn run_failed_error(status: &StatusView) -> Error {
    let failure = status.error.as_ref();
    let message = failure.map_or("the run has not ended well", |failure| failure.message.as_str());
    let error = Error::new(Code::RunFailed, message)
        .with_context("run_id", status.execution_id.as_str())
        .with_context("execution_id", status.execution_id.as_str())
        .with_context("workflow_id", status.workflow_name.as_str())
        .with_context("workflow_state", status.state.as_str());
    let Some(failure) = failure else {
        return error;
    };
    let fields = [
        ("step_id", failure.step_id.as_deref().map(Value::from)),
        ("command", failure.command.as_deref().map(Value::from)),
        ("failure_code", Some(failure.code.as_str().into())),
        ("status_code", failure.status.map(Value::from)),
        ("response_payload", failure.response_payload.clone()),
        ("failure_summary", serde_json::to_value(failure).ok()),
    ];
    let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
    fields.fold(error, |error, (name, value)| error.with_context(name, value))
}
