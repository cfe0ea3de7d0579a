//! `execution.approve` and `execution.answer`: a person's answer, at a terminal, to a gate or to a step that only the
//! user may answer. Both are offered only to midex's own commands, at the control socket. An agent is not offered them,
//! but an agent that runs as the same user can connect to that socket too.

use serde_json::{Map, Value, json};

use super::{
    ToolSpec, acts, arguments::token, count, execution, execution_id_schema, lifecycle::Changed,
    shape_of, step_name_schema, text, unfit, view,
};
use midex_domain::{
    Digest, StepId,
    error::Result,
    event::Channel,
    execution::{GateAnswer, Report},
    limits,
    view::Advanced,
};
use midex_server::app::App;

pub(super) const NAME: &str = "execution.approve";
pub(super) const ANSWER: &str = "execution.answer";

pub(super) fn spec() -> ToolSpec {
    let properties = json!({
        "execution_id": execution_id_schema(),
        "step_name": step_name_schema(),
        "visit": { "type": "integer", "minimum": 1, "maximum": u32::MAX, "description": "Which visit of the step, as waits has it" },
        "shown": { "type": "string", "minLength": 64, "maxLength": 64, "description": "The digest of what the person was shown, as waits has it" },
        "approved": { "type": "boolean", "description": "Whether the person approves" },
        "by": { "type": "string", "minLength": 1, "maxLength": limits::PERSON_BYTES_MAX, "description": "Who the person is" },
        "comment": { "type": "string", "minLength": 1, "maxLength": limits::COMMENT_BYTES_MAX, "description": "What else the person says" }
    });
    ToolSpec::new(
        (
            NAME,
            "Answer a gate",
            "Takes in what a person answers to a gate, on a terminal.",
        ),
        || acts(false, true, false),
        (
            properties,
            &[
                "execution_id",
                "step_name",
                "visit",
                "shown",
                "approved",
                "by",
            ],
            shape_of::<Changed>(),
        ),
        |app, arguments| Box::pin(approve(app, arguments)),
    )
}

/// The tool that takes the user's answer to a step.
pub(super) fn answer_spec() -> ToolSpec {
    let properties = json!({
        "token": { "type": "string", "minLength": 1, "description": "The step's token" },
        "output": { "description": "What the user answered" }
    });
    ToolSpec::new(
        (
            ANSWER,
            "Answer a step",
            "Takes in what the user answers to a step that only the user may answer, on a terminal.",
        ),
        || acts(false, false, true),
        (properties, &["token", "output"], shape_of::<Advanced>()),
        |app, arguments| Box::pin(answer(app, arguments)),
    )
}

async fn answer(app: &App, mut arguments: Map<String, Value>) -> Result<Value> {
    let report = Report::Answer(arguments.remove("output").unwrap_or_default());
    let token = token(text(&arguments, "token").unwrap_or_default());
    view(&app.next_step(token, report).await?)
}

async fn approve(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    let id = execution(&arguments, NAME)?;
    let owned = |name| text(&arguments, name).map(str::to_owned);
    let shown = Digest::parse(text(&arguments, "shown").unwrap_or_default());
    let answer = GateAnswer {
        step: step(&arguments, NAME)?,
        visit: count(&arguments, "visit").unwrap_or_default(),
        shown: shown.ok_or_else(|| unfit(NAME, "/shown", "format", "`shown` is not a digest"))?,
        approved: arguments["approved"] == true,
        by: owned("by").unwrap_or_default(),
        via: Channel::Terminal,
        comment: owned("comment"),
    };
    let word = if answer.approved {
        "approved"
    } else {
        "rejected"
    };
    let message = format!("'{}' of execution '{id}' is {word}", answer.step);
    let status = app.command(&id, answer).await?;
    let message = format!("{message}; the execution is {}", status.state);
    view(&Changed::of(status, message))
}

/// The step that the arguments name.
pub(super) fn step(arguments: &Map<String, Value>, tool: &'static str) -> Result<StepId> {
    let name = text(arguments, "step_name").unwrap_or_default();
    StepId::parse(name).map_err(|error| unfit(tool, "/step_name", "format", error.message()))
}
