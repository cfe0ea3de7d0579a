//! `midex hook`: a command that hosts run at their events, so that an agent whose context was compacted, cleared or
//! started anew learns of its open work. A hook must not fail its host: on any error it prints nothing and exits with
//! code 0.

mod host;
mod reminders;

use std::{fmt::Write as _, path::Path};

use serde_json::json;
use tokio::task::LocalSet;

use self::host::{HostEvent, strip_whitespace_and_backslashes};

use super::{
    EXIT_OK, Output,
    link::ServerLink,
    screen::one_line,
    value::{has_content, one_line_summary, optional_text_line as in_line},
    when,
};
use midex_domain::{
    State,
    clock::{Clock, SystemClock, Timestamp},
    error::{Result, double_quotes},
    limits,
    truncate::{json_length, truncate_to_chars},
    view::{ExecutionRow, OpenExecution, WaitView},
};
use midex_server::{
    app::{self, OpenWork},
    config::{self, Config},
};

/// The bytes of JSON that `session-start` prints around the executions: the wrapper for the host, the first and the
/// last sentences.
const HOOK_WRAPPER_BYTES: usize = 400;

/// The event of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Subcommand)]
pub(super) enum HookEvent {
    /// Show the open work of the project when a session begins, or is resumed, cleared or compacted
    SessionStart,
    /// Say how to finish or pause each open step, once per step, when the agent is about to end its turn
    Stop,
}

/// Prints the answer to the host's event, if there is one.
pub(super) async fn run_hook(event: HookEvent, config: Config, mut out: Output<'_>) -> Result<u8> {
    let tasks = LocalSet::new();
    // Run in a task of its own, so that a panic ends only the task.
    let answer = tasks.spawn_local(answer_event(event, config));
    let answer = tasks.run_until(tokio::time::timeout(limits::HOOK_WITHIN, answer));
    if let Ok(Ok(Ok(text))) = answer.await {
        out.write_unchanged(text)?;
    }
    Ok(EXIT_OK)
}

async fn answer_event(event: HookEvent, config: Config) -> Result<String> {
    let host_event = HostEvent::read().await;
    let session_project = host_event.session_directory().map(|dir| config::find_project_root(&dir));
    let project_dir = session_project.unwrap_or(config.project_dir);
    let config = Config { project_dir, ..config };
    // Do not create a data directory: a hook must not be its first user.
    let is_silent = event == HookEvent::Stop && !host_event.may_continue();
    if is_silent || !config.data_dir.join(app::STORE_FILE).exists() {
        return Ok(String::new());
    }
    let mut link = ServerLink::new(&config);
    let transcript = host_event.transcript_tail();
    let result = fetch_work(&mut link, transcript.as_deref()).await;
    link.close_and_log().await;
    let (mut open_executions, failed) = result?;
    let project = || config.project_dir.display().to_string();
    let session = host_event.session_id().map_or_else(project, str::to_owned);
    let answer = match event {
        HookEvent::SessionStart => {
            open_executions.recap_all(&failed).map(|text| host_event.context_answer(&text))
        }
        HookEvent::Stop => {
            if let Some(transcript) = &transcript {
                let is_ours = |id: &str| has_session_advanced(id, transcript);
                open_executions.executions.retain(|execution| is_ours(&execution.execution_id));
            }
            let reason = open_executions.write_reminder(&failed, &config.data_dir, &session)?;
            reason.map(|reason| host_event.continue_answer(&reason))
        }
    };
    Ok(answer.map_or_else(String::new, |said| format!("{said}\n")))
}

/// Whether this session started the execution or finished a step of it: the replies of both calls contain this text.
fn has_session_advanced(id: &str, transcript: &str) -> bool {
    let id = one_line(id);
    transcript.contains(&strip_whitespace_and_backslashes(&format!(
        "\"success\":true,\"execution_id\":\"{id}\""
    )))
}

/// Fetches the open executions, and the failed executions that this session advanced and that have no fork. Without a
/// transcript no failed execution is returned, because nothing tells whether this session worked on it.
async fn fetch_work(
    link: &mut ServerLink<'_>,
    transcript: Option<&str>,
) -> Result<(OpenExecutions, Vec<ExecutionRow>)> {
    let open_executions = OpenExecutions::fetch(link).await?;
    let mut failed = Vec::new();
    if let Some(transcript) = transcript {
        let arguments = json!({ "state": "failed", "limit": limits::HOOK_FAILED_TOLD_MAX });
        for row in link.list_executions(arguments).await?.executions {
            if has_session_advanced(&row.execution_id, transcript)
                && link.fetch_status(&row.execution_id).await?.forks.is_empty()
            {
                failed.push(row);
            }
        }
    }
    Ok((open_executions, failed))
}

/// The open executions of a project.
struct OpenExecutions {
    executions: Vec<OpenExecution>,
    /// The waits of the only one; the reply for several does not list them.
    waits: Vec<WaitView>,
    /// How many further executions there are, at least.
    more_count: usize,
}

impl OpenExecutions {
    /// Asks for the open executions. The reply for the only one lacks `updated_at`, which is read separately.
    async fn fetch(link: &mut ServerLink<'_>) -> Result<Self> {
        let current = match link.fetch_open_work().await?.1 {
            OpenWork::Several(several) => {
                return Ok(Self {
                    executions: several.open_executions,
                    waits: Vec::new(),
                    more_count: several.more,
                });
            }
            OpenWork::One(current) => current,
        };
        let updated_at = link.fetch_status(&current.execution_id).await?.updated_at;
        let is_at_gate = current.waits.iter().any(|wait| wait.gate.is_some());
        let execution = OpenExecution {
            current_steps: current.open_steps(),
            asked: current.asked.or(current.message.filter(|_| is_at_gate)),
            execution_id: current.execution_id,
            workflow_name: current.workflow_name,
            state: current.workflow_state,
            reason: None,
            inputs: current.inputs,
            done: String::new(),
            updated_at,
            more_steps: 0,
            decided: current.previous,
        };
        Ok(Self { executions: vec![execution], waits: current.waits, more_count: 0 })
    }

    /// The summary that a new context needs to continue the work: without personas and tokens, and at most
    /// [`limits::HOOK_BYTES_MAX`] bytes.
    fn recap_all(&self, failed: &[ExecutionRow]) -> Option<String> {
        const RECAP_HEAD: &str = "Work is open in this project. midex keeps it on disk: it is not lost with a context.\n";
        const RECAP_TAIL: &str = "\nIf this is your work, go on with it instead of beginning it anew. If another window is at it, or your user wants something else, leave it.\n";
        let mut remaining_bytes = limits::HOOK_BYTES_MAX - HOOK_WRAPPER_BYTES;
        let failed: String = failed.iter().map(recap_failed_execution).collect();
        remaining_bytes = remaining_bytes.saturating_sub(json_length(&failed));
        if self.executions.is_empty() {
            return (!failed.is_empty()).then(|| failed.trim_start().to_owned());
        }
        let mut text = RECAP_HEAD.to_owned();
        let mut more_count = self.more_count;
        for execution in &self.executions {
            let recap = recap_execution(execution, &self.waits, SystemClock.now());
            let bytes = json_length(&recap);
            if bytes > remaining_bytes {
                more_count += 1;
            } else {
                remaining_bytes -= bytes;
                text += &recap;
            }
        }
        if more_count > 0 {
            let _ = writeln!(text, "\n{more_count} more open: execution.list");
        }
        Some(text + RECAP_TAIL + &failed)
    }

    /// The reminder to finish or pause the open steps, and to retry failed executions, before the turn ends. `None` if this
    /// session was reminded of all of them before.
    fn write_reminder(
        &self,
        failed: &[ExecutionRow],
        data_dir: &Path,
        session: &str,
    ) -> Result<Option<String>> {
        let steps: Vec<_> = self.executions.iter().flat_map(actionable_steps).collect();
        let new_steps = reminders::filter_new_reminders(data_dir, session, steps)?;
        let failed = failed.iter().map(|row| retry_call(&row.execution_id)).collect();
        let retry_calls = reminders::filter_new_reminders(data_dir, session, failed)?;
        let mut text = "midex:".to_owned();
        if !new_steps.is_empty() {
            let shown_steps = &new_steps[..new_steps.len().min(limits::HOOK_STEPS_TOLD_MAX)];
            let _ = write!(
                text,
                " open in this project: {}. Finish a step with workflow.next_step (execution.resume with the execution_id has its task and token), or call execution.pause. If it is another window's, or your user wants it to stay open, end your turn: this is said once.",
                shown_steps.join(", ")
            );
        }
        if !retry_calls.is_empty() {
            let _ = write!(
                text,
                " What you worked on has failed; {RETRY_CONDITION}: {}. Else tell your user, and end your turn: this is said once.",
                retry_calls.join(", ")
            );
        }
        Ok((!new_steps.is_empty() || !retry_calls.is_empty()).then_some(text))
    }
}

/// The summary of one execution in a few lines.
fn recap_execution(execution: &OpenExecution, waits: &[WaitView], now: Timestamp) -> String {
    let id = one_line(&execution.execution_id);
    let time_ago =
        when::format_time_ago(&one_line(&execution.updated_at), now).replace(" m ago", " min ago");
    let workflow = one_line(&execution.workflow_name);
    let mut text = format!(
        "\nExecution '{id}' of workflow '{workflow}', {}, moved {time_ago}\n",
        describe_state(execution)
    );
    let mut add_line = |name: &str, words: &str| {
        if !words.is_empty() {
            let words = truncate_to_chars(words, limits::HOOK_LINE_CHARS_MAX);
            let _ = writeln!(text, "  {name}: {words}");
        }
    };
    add_line("paused because", &in_line(execution.reason.as_deref()));
    let question = in_line(execution.asked.as_deref());
    add_line("waits for your user", &question);
    if let Some(inputs) = execution.inputs.as_ref().filter(|inputs| has_content(inputs)) {
        add_line("inputs", &one_line_summary(inputs));
    }
    for decision in &execution.decided {
        let name = format!("decided in '{}'", one_line(&decision.step_name));
        add_line(&name, &one_line_summary(&decision.output));
    }
    for step in &execution.current_steps {
        let [name, words] = [&step.step_name, &step.description].map(|text| one_line(text));
        let colon = if words.is_empty() { "" } else { ": " };
        add_line("open step", &format!("'{name}'{colon}{words}"));
    }
    for wait in waits {
        let wait_text = match &wait.gate {
            Some(gate) => format!("asks a person: {}", gate.ask),
            None => format!("waits for {}", one_line(&wait.waits_for)),
        };
        let step = one_line(&wait.step_name);
        add_line("waiting", &format!("'{step}' {wait_text}"));
    }
    if is_paused(execution) && !question.is_empty() {
        return text;
    }
    let id = double_quotes(&id);
    let condition = if is_paused(execution) { "once it may go on" } else { "go on" };
    let _ = writeln!(text, "  {condition}: execution.resume with execution_id '{id}'");
    text
}

/// When a retry makes sense.
const RETRY_CONDITION: &str = "once the cause is gone, go on in a new execution";

/// The call that retries a failed execution.
fn retry_call(id: &str) -> String {
    format!("execution.retry with execution_id '{}'", double_quotes(&one_line(id)))
}

/// The lines about a failed execution.
fn recap_failed_execution(row: &ExecutionRow) -> String {
    let [id, workflow] = [&row.execution_id, &row.workflow_name].map(|text| one_line(text));
    format!(
        "\nExecution '{id}' of workflow '{workflow}' has failed, and its finished steps are kept\n  {RETRY_CONDITION}: {}\n",
        retry_call(&row.execution_id)
    )
}

fn describe_state(execution: &OpenExecution) -> String {
    let [state, done] = [&execution.state, &execution.done].map(|text| one_line(text));
    match done.as_str() {
        "" => state,
        done => format!("{state}, {done} steps done"),
    }
}

/// The steps of an execution that an agent can do now; none while it is paused.
fn actionable_steps(execution: &OpenExecution) -> impl Iterator<Item = String> {
    let id = one_line(&execution.execution_id);
    let steps = execution.current_steps.iter();
    steps
        .filter(|_| !is_paused(execution))
        .map(move |step| format!("'{}' of execution '{id}'", one_line(&step.step_name)))
}

fn is_paused(execution: &OpenExecution) -> bool {
    execution.state == State::Paused.as_str()
}
