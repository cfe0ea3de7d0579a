//! `execution.{pause,abandon,diverge,fail}`: the changes of S0's seven states. Resume has a file of its own, for it
//! also tells what was going on.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Running, ToolSpec, acts, execution, execution_id_schema, shape_of, text, view};
use crate::{
    app::App,
    domain::{Change, Lifecycle, view::StatusView},
    error::Result,
    limits,
};

/// What a change of state answers: where the execution stands now.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Changed {
    /// True: the state was changed.
    success: bool,
    /// The state after the call.
    workflow_state: String,
    /// What happened, in a sentence.
    message: String,
    #[serde(flatten)]
    status: StatusView,
}

impl Changed {
    /// Where the execution stands after a call, and what happened.
    pub(super) fn of(status: StatusView, message: String) -> Self {
        Self {
            success: true,
            workflow_state: status.state.clone(),
            message,
            status,
        }
    }
}

/// The four tools.
pub(super) fn specs() -> [ToolSpec; 4] {
    [
        spec(
            (
                "execution.pause",
                "Pause an execution",
                "Holds a running execution until execution.resume. Its tokens stay valid.",
            ),
            false,
            |app, arguments| Box::pin(change(app, arguments, "execution.pause", Lifecycle::Pause)),
        ),
        spec(
            (
                "execution.abandon",
                "Abandon an execution",
                "Gives up an execution for good. Its open tokens are void; what was done stays readable.",
            ),
            true,
            |app, arguments| {
                Box::pin(change(
                    app,
                    arguments,
                    "execution.abandon",
                    Lifecycle::Abandon,
                ))
            },
        ),
        spec(
            (
                "execution.diverge",
                "Mark an execution as diverged",
                "Ends an execution whose work took another path than its workflow.",
            ),
            true,
            |app, arguments| {
                Box::pin(change(
                    app,
                    arguments,
                    "execution.diverge",
                    Lifecycle::Diverge,
                ))
            },
        ),
        spec(
            (
                "execution.fail",
                "Fail an execution",
                "Fails an execution: run_when steps first; called again, at once. To fail a step, use workflow.next_step.",
            ),
            true,
            |app, arguments| Box::pin(change(app, arguments, "execution.fail", Lifecycle::Fail)),
        ),
    ]
}

fn spec(
    names: (&'static str, &'static str, &'static str),
    destructive: bool,
    run: for<'a> fn(&'a App, Map<String, Value>) -> Running<'a>,
) -> ToolSpec {
    let input = json!({
        "type": "object",
        "properties": { "execution_id": execution_id_schema(), "reason": reason_schema() },
        "required": ["execution_id"],
        "additionalProperties": false
    });
    let annotations = if destructive {
        || acts(false, true, false)
    } else {
        || acts(false, false, false)
    };
    ToolSpec::new(names, annotations, (input, shape_of::<Changed>()), run)
}

/// The schema of the argument that says why.
pub(super) fn reason_schema() -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": limits::REASON_CHARS_MAX
    })
}

async fn change(
    app: &App,
    arguments: Map<String, Value>,
    tool: &'static str,
    lifecycle: Lifecycle,
) -> Result<Value> {
    let id = execution(&arguments, tool)?;
    let reason = text(&arguments, "reason").map(str::to_owned);
    let status = app.command(&id, Change { lifecycle, reason }).await?;
    let message = format!("Execution '{id}' is {}", status.state);
    view(&Changed::of(status, message))
}
