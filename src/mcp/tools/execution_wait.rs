//! `execution.wait`: a long poll for a change.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{parse_execution_id, wait_duration};
use midex_domain::{
    State,
    error::{Result, double_quotes},
    limits,
    view::StatusView,
};
use midex_server::app::App;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    #[schemars(length(min = 1, max = limits::EXECUTION_ID_BYTES_MAX))]
    execution_id: String,
    /// The one you know
    since_revision: Option<u64>,
    #[schemars(
        range(min = 0, max = limits::WAIT_MAX.as_secs()),
        extend("default" = limits::WAIT_MAX.as_secs())
    )]
    timeout_s: Option<f64>,
}

/// Where the execution stands after the wait.
#[derive(Serialize, JsonSchema)]
pub(super) struct WaitAnswer {
    /// True: the call did what it says.
    success: bool,
    /// Whether the execution moved past `since_revision` (or, without it, moved at all).
    changed: bool,
    /// Its state.
    workflow_state: String,
    /// What to do next, if a step is a model's.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(flatten)]
    status: StatusView,
}

/// The time limit of a call with these arguments, which need not be checked yet.
pub(super) fn max_duration(arguments: &Map<String, Value>) -> Duration {
    wait_duration(arguments.get("timeout_s").and_then(Value::as_f64))
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<WaitAnswer> {
    let id = parse_execution_id(&arguments.execution_id)?;
    let timeout = wait_duration(arguments.timeout_s);
    let (status, changed) = app.wait(&id, arguments.since_revision, timeout).await?;
    let is_model_step = |step: &&String| {
        let mut waits = status.waits.iter();
        waits.all(|wait| wait.step_name != **step)
    };
    let step = status.current_step.as_ref().filter(is_model_step);
    let message = step.filter(|_| status.state == State::Running.as_str());
    let message = message.map(|step| {
        let id = double_quotes(id.as_str());
        format!("Step '{step}' is ready. Call execution.resume with execution_id '{id}': it has the task and the token")
    });
    Ok(WaitAnswer { success: true, changed, message, workflow_state: status.state.clone(), status })
}
