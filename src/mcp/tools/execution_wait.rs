//! `execution.wait`: a long poll for a change.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{ToolSpec, acts, execution, execution_id_schema, shape_of, view, whole};
use midex_domain::{
    State,
    error::{Result, in_quotes},
    limits,
    view::StatusView,
};
use midex_server::app::App;

const NAME: &str = "execution.wait";

/// Where the execution stands after the wait.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Waited {
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

pub(super) fn spec() -> ToolSpec {
    let longest = limits::WAIT_MAX.as_secs();
    let properties = json!({
        "execution_id": execution_id_schema(),
        "since_revision": {
            "type": "integer", "minimum": 0, "description": "The one you know"
        },
        "timeout_s": {
            "type": "number", "minimum": 0, "maximum": longest, "default": longest
        }
    });
    ToolSpec::new(
        (
            NAME,
            "Wait for a change",
            "Waits until an execution moves, and returns its status.",
        ),
        || acts(true, false, true),
        (properties, &["execution_id"], shape_of::<Waited>()),
        |app, arguments| Box::pin(run(app, arguments)),
    )
    .lasting(longest_wait)
}

/// The time limit of the call. Must accept arguments that are not checked yet.
fn longest_wait(arguments: &Map<String, Value>) -> Duration {
    let seconds = arguments.get("timeout_s").and_then(Value::as_f64);
    let asked = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    asked.map_or(limits::WAIT_MAX, |asked| asked.min(limits::WAIT_MAX))
}

async fn run(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    let id = execution(&arguments, NAME)?;
    let since = whole(&arguments, "since_revision");
    let timeout = longest_wait(&arguments);
    let (status, changed) = app.wait(&id, since, timeout).await?;
    let is_of_model = |step: &&String| {
        let mut waits = status.waits.iter();
        waits.all(|wait| wait.step_name != **step)
    };
    let step = status.current_step.as_ref().filter(is_of_model);
    let message = step.filter(|_| status.state == State::Running.as_str());
    let message = message.map(|step| {
        let id = in_quotes(id.as_str());
        format!("Step '{step}' is ready. Call execution.resume with execution_id '{id}': it has the task and the token")
    });
    view(&Waited {
        success: true,
        changed,
        message,
        workflow_state: status.state.clone(),
        status,
    })
}
