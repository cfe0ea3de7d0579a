//! `execution.{pause,abandon,diverge,fail}`: the state changes that a client may request. Resume has its own file,
//! since it also returns the current step.

use rmcp::model::ToolAnnotations;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Run, ToolSpec, acts, execution, execution_id_schema, shape_of, text, view};
use midex_domain::{Change, Lifecycle, error::Result, limits, view::StatusView};
use midex_server::app::App;

const PAUSE: &str = "execution.pause";
const ABANDON: &str = "execution.abandon";
const DIVERGE: &str = "execution.diverge";
const FAIL: &str = "execution.fail";

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
    /// The answer of a state change: the new status, and a sentence about what happened.
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
                PAUSE,
                "Pause an execution",
                "Holds an execution until execution.resume. Tokens stay valid.",
            ),
            || acts(false, false, false),
            |app, arguments| Box::pin(change(app, arguments, PAUSE, Lifecycle::Pause)),
        ),
        spec(
            (
                ABANDON,
                "Abandon an execution",
                "Gives up an execution for good.",
            ),
            || acts(false, true, false),
            |app, arguments| Box::pin(change(app, arguments, ABANDON, Lifecycle::Abandon)),
        ),
        spec(
            (
                DIVERGE,
                "Diverge an execution",
                "Ends an execution whose work took another path.",
            ),
            || acts(false, true, false),
            |app, arguments| Box::pin(change(app, arguments, DIVERGE, Lifecycle::Diverge)),
        ),
        spec(
            (
                FAIL,
                "Fail an execution",
                "Fails an execution. A step: workflow.next_step with error.",
            ),
            || acts(false, true, false),
            |app, arguments| Box::pin(change(app, arguments, FAIL, Lifecycle::Fail)),
        ),
    ]
}

fn spec(
    names: (&'static str, &'static str, &'static str),
    annotations: fn() -> ToolAnnotations,
    run: Run<Value>,
) -> ToolSpec {
    let properties = json!({ "execution_id": execution_id_schema(), "reason": reason_schema() });
    ToolSpec::new(
        names,
        annotations,
        (properties, &["execution_id"], shape_of::<Changed>()),
        run,
    )
}

/// The schema of the argument for the reason.
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
    let becomes = status.ending.as_ref();
    let becomes = becomes.map_or_else(String::new, |ending| {
        format!(", and becomes {ending} once the steps for that are done")
    });
    let message = format!("Execution '{id}' is {}{becomes}", status.state);
    view(&Changed::of(status, message))
}
