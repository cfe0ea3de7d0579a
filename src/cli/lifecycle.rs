//! `midex pause`, `resume` and `abandon`.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{
    EXIT_FINDINGS, EXIT_OK, Output,
    command::{execution_id_flag, insert_flags},
    continuation::find_continuation,
    execution_id::{ExecutionChoice, has_execution_in_state, run_with_named_or_picked},
    link::{ServerLink, is_final_state, remove_nulls},
    question::{self, can_ask_person},
    screen::{Screen, one_line},
    value::list_items,
    visible::replace_hidden_chars,
    waits,
};
use midex_domain::{
    State,
    clock::{Clock as _, SystemClock},
    error::{Code, Error, Result},
    event::PauseReason,
    view::{OpenExecution, ReadyStep, StatusView},
};
use midex_server::{app::OpenWork, config::Config};

/// A change of an execution's state by a person.
#[derive(Clone, Copy, Debug)]
pub(super) enum LifecycleCommand {
    Pause,
    Resume,
    Abandon,
}

impl LifecycleCommand {
    const fn execution_choice(self) -> ExecutionChoice {
        let (command, state) = match self {
            Self::Pause => ("midex pause", "running"),
            Self::Resume => ("midex resume", "paused"),
            Self::Abandon => ("midex abandon", "open"),
        };
        ExecutionChoice { command, state: Some(state), waits_for: None }
    }

    const fn tool_name(self) -> &'static str {
        match self {
            Self::Pause => "execution.pause",
            Self::Resume => "execution.resume",
            Self::Abandon => "execution.abandon",
        }
    }

    /// The state after the change.
    const fn target_state(self) -> State {
        match self {
            Self::Pause => State::Paused,
            Self::Resume => State::Running,
            Self::Abandon => State::Abandoned,
        }
    }
}

/// Which execution, and why.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ChangeArgs {
    /// The execution: its id, the beginning of its id, @last or @last-failed; without it, midex asks on a terminal
    #[arg(value_name = "EXECUTION")]
    execution_id: Option<String>,
    /// The reason; it is stored, and shown in the status
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Which execution shall go on; none for what was going on.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ResumeArgs {
    /// The execution to resume; without it, midex asks on a terminal if one is paused, else lists the open ones of this project
    #[arg(value_name = "EXECUTION")]
    execution_id: Option<String>,
    /// The reason; it is stored, and shown in the status
    #[arg(long, value_name = "TEXT", requires = "execution_id")]
    reason: Option<String>,
}

/// Calls the tool for a change of state, and prints its reply.
pub(super) async fn change_state(
    change: LifecycleCommand,
    args: ChangeArgs,
    config: &Config,
    flags: &str,
    mut out: Output<'_>,
) -> Result<u8> {
    let mut link = ServerLink::new(config);
    let (execution_arg, reason) = (args.execution_id.as_deref(), args.reason.as_deref());
    let apply = async |link: &mut ServerLink<'_>, id: &str| {
        // Confirm only an execution that was picked from a list, where another line may have been meant; a typed id is
        // deliberate.
        let needs_confirmation =
            execution_arg.is_none() && matches!(change, LifecycleCommand::Abandon);
        if needs_confirmation
            && !question::ask_yes_or_no(&irreversible_question(id), "EXECUTION", link).await?
        {
            return Ok(None);
        }
        call_change_tool(link, change, id, reason).await.map(Some)
    };
    let answer =
        run_with_named_or_picked(&mut link, execution_arg, change.execution_choice(), apply).await;
    let answer = answer.map(Option::flatten);
    if let (Ok(Some(reply)), LifecycleCommand::Resume, false) = (&answer, change, out.is_json) {
        let result = print_resumed(&mut link, reply, flags, &mut out).await;
        link.close_and_log().await;
        return result;
    }
    finish_change(link, answer, flags, out).await
}

/// Prints the reply of a change, if one was made, and closes the link.
pub(super) async fn finish_change(
    mut link: ServerLink<'_>,
    answer: Result<Option<Value>>,
    flags: &str,
    mut out: Output<'_>,
) -> Result<u8> {
    let result = match answer {
        Ok(Some(answer)) => print_changed(&mut link, &answer, flags, &mut out).await,
        Ok(None) => Ok(EXIT_FINDINGS),
        Err(error) => Err(error),
    };
    link.close_and_log().await;
    result
}

/// Prints the state of a resumed execution. The reply's own message is for models: it names tools to call.
async fn print_resumed(
    link: &mut ServerLink<'_>,
    answer: &Value,
    flags: &str,
    out: &mut Output<'_>,
) -> Result<u8> {
    let has_steps = !list_items(&answer["ready_steps"]).is_empty();
    let state = answer["workflow_state"].as_str().unwrap_or_default();
    let id = answer["execution_id"].as_str().unwrap_or_default();
    if is_final_state(state) && state != State::Completed.as_str() {
        let status = link.fetch_status(id).await?;
        out.write_unchanged(format_ended_execution(&status, flags))?;
        return Ok(EXIT_FINDINGS);
    }
    if has_steps || is_final_state(state) {
        return print_changed(link, answer, flags, out).await;
    }
    let status = link.fetch_status(id).await?;
    let (now, is_served) = (SystemClock.now(), link.is_served());
    let mut text =
        format!("Execution '{}' is {}\n", replace_hidden_chars(id), one_line(&status.state));
    for wait in &status.waits {
        text +=
            &Screen::stdout().indent_block(None, "  ", &waits::describe_wait(wait, now, is_served));
    }
    for action in waits::list_wait_actions(&status, now) {
        let command = replace_hidden_chars(&insert_flags(&action.command, flags));
        let _ = writeln!(text, "To go on: {command}");
    }
    out.write_unchanged(text)?;
    if status.state == State::Paused.as_str() {
        return Ok(EXIT_FINDINGS);
    }
    if !is_served {
        out.write_unchanged(continue_command_line(&status, flags))?;
    }
    Ok(EXIT_OK)
}

/// The lines about an execution that ended without completing: its state, and the command that continues it, if there
/// is one.
fn format_ended_execution(status: &StatusView, flags: &str) -> String {
    let (id, state) = (&status.execution_id, &status.state);
    let has_failed = state == State::Failed.as_str();
    let what = if has_failed { "has failed".to_owned() } else { format!("has ended, as {state}") };
    let mut text = format!("Execution '{id}' {what}\n");
    if let Some(action) = find_continuation(status) {
        let command = insert_flags(&action.command, flags);
        let _ = writeln!(text, "To go on: {command}");
    }
    text.lines().map(|line| replace_hidden_chars(line) + "\n").collect()
}

/// Prints the reply of a change and, if no server works on the execution, the command that does.
async fn print_changed(
    link: &mut ServerLink<'_>,
    answer: &Value,
    flags: &str,
    out: &mut Output<'_>,
) -> Result<u8> {
    out.print_reply(answer)?;
    match answer["execution_id"].as_str() {
        Some(id) => print_continue_command(link, id, flags, out).await,
        None => Ok(EXIT_OK),
    }
}

/// Prints the command that works on an execution, if it is running and there is no server to do so.
pub(super) async fn print_continue_command(
    link: &mut ServerLink<'_>,
    id: &str,
    flags: &str,
    out: &mut Output<'_>,
) -> Result<u8> {
    if !out.is_json && !link.is_served() {
        let status = link.fetch_status(id).await?;
        out.write_unchanged(continue_command_line(&status, flags))?;
    }
    Ok(EXIT_OK)
}

/// The line with the command that continues a running execution; empty in other states.
fn continue_command_line(status: &StatusView, flags: &str) -> String {
    if status.state != State::Running.as_str() {
        return String::new();
    }
    let command =
        insert_flags(&format!("midex run {}", execution_id_flag(&status.execution_id)), flags);
    format!("To go on: {command}\n")
}

fn irreversible_question(id: &str) -> String {
    format!("Abandon '{}'? It cannot go on afterwards.", replace_hidden_chars(id))
}

/// Resumes an execution. If none is named, asks at the terminal for a paused one, else lists the open executions of the
/// project. `flags` make follow-up commands reach the same executions.
pub(super) async fn resume(
    args: ResumeArgs,
    config: &Config,
    flags: &str,
    mut out: Output<'_>,
) -> Result<u8> {
    if args.execution_id.is_some() || (can_ask_person() && has_paused_execution(config).await?) {
        let ResumeArgs { execution_id, reason } = args;
        let args = ChangeArgs { execution_id, reason };
        return change_state(LifecycleCommand::Resume, args, config, flags, out).await;
    }
    let mut link = ServerLink::new(config);
    let result = fetch_open_work_and_failed(&mut link).await;
    link.close_and_log().await;
    let ((reply, open_work), failed) = result?;
    // The reply's own message is for models: it names a tool.
    let text = match open_work {
        OpenWork::One(current) => format_execution_line(
            &current.execution_id,
            &current.workflow_name,
            &current.workflow_state,
            &current.ready_steps,
        ),
        OpenWork::Several(several) if !several.open_executions.is_empty() => {
            let executions = &several.open_executions;
            let mut lines: String = executions.iter().map(open_execution_line).collect();
            if several.more > 0 {
                let more = several.more;
                let command = insert_flags("midex list executions --state open", flags);
                let _ = writeln!(lines, "At least {more} more: {command}");
            }
            let command = format!("midex run {}", execution_id_flag(&executions[0].execution_id));
            format!("{lines}To go on: {}\n", insert_flags(&command, flags))
        }
        OpenWork::Several(_) => {
            let failed =
                failed.map_or_else(String::new, |status| format_ended_execution(&status, flags));
            format!("Nothing is open in this project\n{failed}")
        }
    };
    out.print(|| reply, || text).map(|()| EXIT_OK)
}

/// Fetches the open executions of the project, and the execution that changed last if that has failed.
async fn fetch_open_work_and_failed(
    link: &mut ServerLink<'_>,
) -> Result<((Value, OpenWork), Option<StatusView>)> {
    let open_work = link.fetch_open_work().await?;
    let page = link.list_executions(json!({ "limit": 1 })).await?;
    let latest = page.executions.into_iter().next();
    let failed = match latest.filter(|latest| latest.state == State::Failed.as_str()) {
        Some(failed) => Some(link.fetch_status(&failed.execution_id).await?),
        None => None,
    };
    Ok((open_work, failed))
}

async fn has_paused_execution(config: &Config) -> Result<bool> {
    let mut link = ServerLink::new(config);
    let result = has_execution_in_state(&mut link, State::Paused.as_str()).await;
    link.close_and_log().await;
    result
}

async fn call_change_tool(
    link: &mut ServerLink<'_>,
    change: LifecycleCommand,
    id: &str,
    reason: Option<&str>,
) -> Result<Value> {
    let arguments = remove_nulls(json!({ "execution_id": id, "reason": reason }));
    let answer = link.call(change.tool_name(), arguments).await;
    match answer {
        Err(refusal) if refusal.code() == Code::StateTransitionRefused => {
            accept_existing_state(link, change, id, refusal).await
        }
        answer => answer,
    }
}

/// Returns the status of an execution that is already in the wanted state: another client made the change first, or the
/// call was repeated because the server went away before it replied. Otherwise returns the refusal.
async fn accept_existing_state(
    link: &mut ServerLink<'_>,
    change: LifecycleCommand,
    id: &str,
    refusal: Error,
) -> Result<Value> {
    let (mut reply, status) = link.fetch_status_reply(id).await?;
    if status.imported || !is_in_target_state(change, &status) {
        return Err(refusal);
    }
    let state = status.state;
    let message = if link.has_retried() {
        format!("Execution '{id}' is {state}")
    } else {
        format!("'{id}' is {state} already")
    };
    reply["success"] = json!(true);
    reply["workflow_state"] = json!(state);
    reply["message"] = json!(message);
    Ok(reply)
}

/// Whether the execution is in the state that the command is to bring about. A pause counts only if a person is among
/// its reasons.
fn is_in_target_state(change: LifecycleCommand, status: &StatusView) -> bool {
    status.state == change.target_state().as_str()
        && (change.target_state() != State::Paused
            || status.pause_reasons.contains(&PauseReason::Person))
}

fn open_execution_line(execution: &OpenExecution) -> String {
    let state = format!("{}, {} done", execution.state, execution.done);
    let (id, workflow) = (&execution.execution_id, &execution.workflow_name);
    format_execution_line(id, workflow, &state, &execution.current_steps)
}

/// An open execution in a line, with its open steps.
fn format_execution_line(id: &str, workflow: &str, state: &str, steps: &[ReadyStep]) -> String {
    let names: Vec<_> = steps.iter().map(|step| step.step_name.as_str()).collect();
    let separator = if names.is_empty() { "" } else { " of " };
    let line = format!("{id}  {}{separator}{workflow}, {state}", names.join(", "));
    replace_hidden_chars(&line) + "\n"
}
