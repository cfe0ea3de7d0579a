//! `execution.{pause,abandon,diverge,fail}` and `workflow.cancel`: the state changes that a client may request. Resume has
//! its own file, since it also returns the current step.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{parse_execution_id, parse_id_argument};
use midex_domain::{
    LifecycleAction, LifecycleChange, State, error::Result, limits, state::Vocabulary,
    view::StatusView,
};
use midex_server::app::App;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    #[schemars(length(min = 1, max = limits::EXECUTION_ID_BYTES_MAX))]
    execution_id: String,
    #[schemars(length(min = 1, max = limits::REASON_CHARS_MAX))]
    reason: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct CancelArguments {
    /// The `run_id`
    #[schemars(length(min = 1, max = limits::EXECUTION_ID_BYTES_MAX))]
    operation_id: String,
}

/// The state of a run after it was cancelled.
#[derive(Serialize, JsonSchema)]
pub(super) struct CancelAnswer {
    operation_id: String,
    status: &'static str,
    state: String,
    /// The state to come, while compensations still run.
    #[serde(skip_serializing_if = "Option::is_none")]
    ending: Option<String>,
}

/// The reply to a change of state.
#[derive(Serialize, JsonSchema)]
pub(super) struct StateChangeAnswer {
    /// True: the state was changed.
    success: bool,
    /// The state after the call.
    workflow_state: String,
    /// What happened, in a sentence.
    message: String,
    #[serde(flatten)]
    status: StatusView,
}

impl StateChangeAnswer {
    /// The answer of a state change: the new status, and a sentence about what happened.
    pub(super) fn from_status(status: StatusView, message: String) -> Self {
        Self { success: true, workflow_state: status.state.clone(), message, status }
    }
}

pub(super) async fn pause_execution(app: &App, arguments: Arguments) -> Result<StateChangeAnswer> {
    change_lifecycle(app, arguments, LifecycleAction::Pause).await
}

pub(super) async fn abandon_execution(
    app: &App,
    arguments: Arguments,
) -> Result<StateChangeAnswer> {
    change_lifecycle(app, arguments, LifecycleAction::Abandon).await
}

pub(super) async fn diverge_execution(
    app: &App,
    arguments: Arguments,
) -> Result<StateChangeAnswer> {
    change_lifecycle(app, arguments, LifecycleAction::Diverge).await
}

pub(super) async fn fail_execution(app: &App, arguments: Arguments) -> Result<StateChangeAnswer> {
    change_lifecycle(app, arguments, LifecycleAction::Fail).await
}

pub(super) async fn cancel_run(app: &App, arguments: CancelArguments) -> Result<CancelAnswer> {
    let id = parse_id_argument("/operation_id", &arguments.operation_id)?;
    let abandon = LifecycleChange { action: LifecycleAction::Abandon, reason: None };
    app.command(&id, abandon).await?;
    // Its children are told, and its compensations run, before it has ended.
    let status = app.turn(&id, limits::CANCEL_WAIT_MAX).await?.status;
    let state = State::parse(&status.state).unwrap_or(State::Running);
    Ok(CancelAnswer {
        operation_id: status.execution_id,
        status: state.word(Vocabulary::Run),
        state: status.state,
        ending: status.ending,
    })
}

async fn change_lifecycle(
    app: &App,
    arguments: Arguments,
    lifecycle: LifecycleAction,
) -> Result<StateChangeAnswer> {
    let id = parse_execution_id(&arguments.execution_id)?;
    let reason = arguments.reason;
    let status = app.command(&id, LifecycleChange { action: lifecycle, reason }).await?;
    let ending_note = status.ending.as_ref();
    let ending_note = ending_note.map_or_else(String::new, |ending| {
        format!(", and becomes {ending} once the steps for that are done")
    });
    let message = format!("Execution '{id}' is {}{ending_note}", status.state);
    Ok(StateChangeAnswer::from_status(status, message))
}
