//! `midex pause`, `resume` and `abandon`.

use serde_json::{Value, json};

use super::{
    EXIT_OK, Output,
    link::{Link, given},
    visible::visible,
};
use crate::{
    config::Config,
    domain::{Lifecycle, State},
    error::{Code, Error, Result},
};

/// Which execution, and why.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ChangeArgs {
    /// The execution
    #[arg(value_name = "EXECUTION")]
    execution_id: String,
    /// Why; kept, and shown in the status
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Which execution shall go on; none for what was going on.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ResumeArgs {
    /// The execution that may go on; without it, what was going on in this project
    #[arg(value_name = "EXECUTION")]
    execution_id: Option<String>,
    /// Why; kept, and shown in the status
    #[arg(long, value_name = "TEXT", requires = "execution_id")]
    reason: Option<String>,
}

/// Calls a tool that changes the state of an execution, and prints its reply.
pub(super) async fn change(
    tool: &'static str,
    args: ChangeArgs,
    config: &Config,
    mut out: Output<'_>,
) -> Result<u8> {
    let answer = call(tool, Some(args.execution_id), args.reason, config).await?;
    out.reply(&answer).map(|()| EXIT_OK)
}

/// Resumes an execution, or without one, lists the open executions of the project.
pub(super) async fn resume(args: ResumeArgs, config: &Config, mut out: Output<'_>) -> Result<u8> {
    let is_lost = args.execution_id.is_none();
    let answer = call("execution.resume", args.execution_id, args.reason, config).await?;
    if !out.json {
        // If only one execution is open, the reply is that one.
        if is_lost && answer["execution_id"].is_string() {
            out.write(open_execution(&answer, "ready_steps"))?;
            return Ok(EXIT_OK);
        }
        for execution in answer["open_executions"].as_array().into_iter().flatten() {
            out.write(open_execution(execution, "current_steps"))?;
        }
    }
    out.reply(&answer).map(|()| EXIT_OK)
}

async fn call(
    tool: &'static str,
    id: Option<String>,
    reason: Option<String>,
    config: &Config,
) -> Result<Value> {
    let mut link = Link::new(config);
    let arguments = given(json!({ "execution_id": id, "reason": reason }));
    let mut answer = link.call(tool, arguments).await;
    if let (Err(refusal), Some(id), true) = (&answer, &id, link.has_retried())
        && refusal.code() == Code::StateTransitionRefused
    {
        answer = already_done(&mut link, tool, id, refusal).await;
    }
    link.end().await;
    answer
}

/// The status of an execution that is in the wanted state already. If the server went away before its reply, the repeated
/// call is refused although the first one did its work.
async fn already_done(link: &mut Link<'_>, tool: &str, id: &str, refusal: &Error) -> Result<Value> {
    let mut status = link.read_of("workflow_status", id).await?;
    let state = status["state"].take();
    if state_after(tool).is_none_or(|wanted| state != wanted.as_str()) {
        return Err(refusal.clone());
    }
    let message = format!("Execution '{id}' is {}", state.as_str().unwrap_or_default());
    status["success"] = json!(true);
    status["workflow_state"] = state.clone();
    status["message"] = json!(message);
    status["state"] = state;
    Ok(status)
}

/// The state of an execution after a call of `tool`.
fn state_after(tool: &str) -> Option<State> {
    match tool {
        "execution.pause" => Some(Lifecycle::Pause.state()),
        "execution.resume" => Some(Lifecycle::Resume.state()),
        "execution.abandon" => Some(Lifecycle::Abandon.state()),
        _ => None,
    }
}

fn open_execution(execution: &Value, steps: &str) -> String {
    let text = |name: &str| visible(execution[name].as_str().unwrap_or_default());
    let open = execution[steps].as_array().into_iter().flatten();
    let open: Vec<_> = open
        .filter_map(|step| step["step_name"].as_str().map(visible))
        .collect();
    let done = execution["done"].as_str();
    format!(
        "{}  {} of {}, {}{}\n",
        text("execution_id"),
        open.join(", "),
        text("workflow_name"),
        text("state"),
        done.map_or_else(String::new, |done| format!(", {done} done")),
    )
}
