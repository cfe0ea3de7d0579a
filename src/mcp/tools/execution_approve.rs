//! `execution.approve` and `execution.answer`: a person's answer, at a terminal or in the dashboard, to a gate or to a step that only the
//! user may answer. Both are offered only to midex's own commands, at the control socket. An agent is not offered them,
//! but an agent that runs as the same user can connect to that socket too.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{arguments::trim_token, lifecycle::StateChangeAnswer, parse_execution_id};
use midex_domain::{
    Digest, StepId,
    error::{Error, Result},
    event::Channel,
    execution::{GateAnswer, Report},
    limits,
    view::AdvanceReply,
};
use midex_server::app::App;

#[derive(Deserialize, JsonSchema)]
pub(super) struct ApproveArguments {
    #[schemars(length(min = 1, max = limits::EXECUTION_ID_BYTES_MAX))]
    execution_id: String,
    /// As waits has it
    #[schemars(length(min = 1, max = limits::STEP_ID_BYTES_MAX))]
    step_name: String,
    /// Which visit of the step, as waits has it
    #[schemars(range(min = 1, max = u32::MAX))]
    visit: u32,
    /// The digest of what the person was shown, as waits has it
    #[schemars(length(min = 64, max = 64))]
    shown: String,
    /// Whether the person approves
    approved: bool,
    /// Who the person is
    #[schemars(length(min = 1, max = limits::PERSON_BYTES_MAX))]
    by: String,
    /// What else the person says
    #[schemars(length(min = 1, max = limits::COMMENT_BYTES_MAX))]
    comment: Option<String>,
    /// Where they answer, by default terminal
    via: Option<Channel>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct AnswerArguments {
    /// The step's token
    #[schemars(length(min = 1))]
    token: String,
    /// What the user answered
    output: Value,
}

pub(super) async fn answer_step(app: &App, arguments: AnswerArguments) -> Result<AdvanceReply> {
    let report = Report::Answer(arguments.output);
    app.next_step(trim_token(&arguments.token), report).await
}

pub(super) async fn approve_gate(
    app: &App,
    arguments: ApproveArguments,
) -> Result<StateChangeAnswer> {
    let id = parse_execution_id(&arguments.execution_id)?;
    let shown_digest = Digest::parse(&arguments.shown);
    let answer = GateAnswer {
        step: parse_step_name(&arguments.step_name)?,
        visit: arguments.visit,
        question_digest: shown_digest
            .ok_or_else(|| Error::argument_rule("/shown", "format", "`shown` is not a digest"))?,
        is_approved: arguments.approved,
        person: arguments.by,
        channel: arguments.via.unwrap_or(Channel::Terminal),
        comment: arguments.comment,
    };
    let decision = if answer.is_approved { "approved" } else { "rejected" };
    let message = format!("'{}' of execution '{id}' is {decision}", answer.step);
    let status = app.command(&id, answer).await?;
    let message = format!("{message}; the execution is {}", status.state);
    Ok(StateChangeAnswer::from_status(status, message))
}

/// The step of this name. The schema does not check every rule of names.
pub(super) fn parse_step_name(name: &str) -> Result<StepId> {
    StepId::parse(name)
        .map_err(|error| Error::argument_rule("/step_name", "format", error.message()))
}
