//! `midex run --agent CMD`: a command does the work of each step. It is given the task on standard input and answers on
//! standard output with one JSON value, so a script or a headless coding agent can take a model's place.

use std::{io, path::PathBuf, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
};

use super::{
    answer,
    submission::{StepReport, StepSubmission, build_person_submission},
};
use crate::{
    command::quoted,
    guard,
    link::ServerLink,
    message_with_violations, question,
    screen::{one_line, truncate_text},
    steps::OpenStep,
    value::format_duration,
};
use midex_domain::{
    document::Digest,
    error::{Code, Error, Result, describe_io_error},
    limits,
};
use midex_server::config::parse_duration_within;

/// The default of `--agent-timeout`.
const AGENT_TIMEOUT_DEFAULT: &str = "30m";
/// The subdirectory of the data directory with one record file per running command.
const RECORDS_DIRECTORY: &str = "agents";
/// The flag that starts the command for a step although an earlier one for it still runs.
const AGENT_AGAIN_FLAG: &str = "--agent-again";

/// The command, and how it is spoken to.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AgentArgs {
    /// A command that does the work of each step: it reads the task from standard input and prints one JSON value. A nonzero exit
    /// code reports that the step failed, which ends the execution unless the step has `retry` or `on_error`; 126 and 127 (the
    /// command cannot be run) leave the step open
    #[arg(long = "agent", value_name = "CMD", conflicts_with_all = ["editor", "outputs", "output"])]
    command: Option<String>,
    /// How the task is passed to the command
    #[arg(long = "agent-format", value_enum, default_value_t, requires = "command")]
    format: AgentFormat,
    /// Timeout of the command for one step
    #[arg(
        long = "agent-timeout",
        value_name = "DURATION",
        default_value = AGENT_TIMEOUT_DEFAULT,
        value_parser = parse_timeout,
        requires = "command"
    )]
    timeout: Duration,
    /// Run the command for a step even if an earlier command for that step is still running
    #[arg(long = "agent-again", requires = "command")]
    again: bool,
}

/// How a command is given its task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum AgentFormat {
    /// As text that ends with the schema of the answer
    #[default]
    Text,
    /// As one JSON object
    Json,
}

impl AgentArgs {
    /// The flags as they were given, each after a space; empty without `--agent`.
    pub(super) fn flags(&self) -> String {
        let Some(command) = &self.command else {
            return String::new();
        };
        let format = match self.format {
            AgentFormat::Text => "",
            AgentFormat::Json => " --agent-format json",
        };
        let timeout =
            Some(self.timeout).filter(|it| parse_timeout(AGENT_TIMEOUT_DEFAULT) != Ok(*it));
        let timeout = timeout.map_or_else(String::new, |it| format!(" --agent-timeout {it:?}"));
        format!(" --agent {}{format}{timeout}", quoted(command))
    }
}

fn parse_timeout(text: &str) -> std::result::Result<Duration, String> {
    let max_timeout = limits::AGENT_COMMAND_TIMEOUT_MAX;
    parse_duration_within(text, Duration::from_secs(1)..=max_timeout, || {
        format!("a command may take from 1s to {}h", max_timeout.as_secs() / 3600)
    })
}

/// The command of `--agent`, which does the work of each step.
pub(super) struct AgentCommand {
    args: AgentArgs,
    command: String,
    /// The turn that the command last ran for, and how many times it ran for that turn.
    turn_runs: (String, u32),
}

/// The result of a command that has ended.
struct CommandEnd {
    is_success: bool,
    /// Whether the exit code is 126 or 127: the shell found no such command, or could not execute it.
    is_unrunnable: bool,
    /// Its exit status, in words.
    status: String,
    output: Vec<u8>,
    /// The last line that it wrote to stderr.
    last_stderr_line: String,
}

impl AgentCommand {
    pub(super) fn from_args(args: &AgentArgs) -> Option<Self> {
        Some(Self {
            args: args.clone(),
            command: args.command.clone()?,
            turn_runs: (String::new(), 0),
        })
    }

    /// Runs the command for a step and returns the output or the failure to submit. If the command prints nothing that
    /// can be submitted, it runs again with the reason.
    ///
    /// # Errors
    /// Nothing is submitted then: `LIMIT_EXCEEDED` if the command does not end in time, `STEP_OUTPUT_INVALID` if it
    /// prints nothing that can be submitted in [`limits::AGENT_COMMAND_TRIES_MAX`] runs, `FILE_UNUSABLE` if the shell
    /// cannot execute it, and the error of [`Self::choose_record_path`].
    pub(super) async fn run_for_step(
        &mut self,
        step: &OpenStep,
        complaint: Option<Error>,
        link: &mut ServerLink<'_>,
    ) -> Result<StepSubmission> {
        let mut complaint = complaint;
        // The command may run for long: release the store so that other processes can open it.
        link.release_store().await?;
        loop {
            let reason = complaint.as_ref().map(message_with_violations);
            self.count_run(step, complaint)?;
            let record = self.choose_record_path(step, link).await?;
            let result = self.run_command(step, reason.as_deref(), record).await?;
            if result.is_unrunnable {
                return Err(command_not_run_error(&result));
            }
            let report = if result.is_success {
                answer::parse_answer(&result.output).map(StepReport::Output)
            } else {
                Some(StepReport::Error(json!({ "message": failure_message(&result) })))
            };
            match report {
                Some(report) => return Ok(build_person_submission(step, report)),
                None => complaint = Some(no_answer_error(&result)),
            }
        }
    }

    /// Returns the path of the record file that names the step's command while it runs. `None` with `--agent-again`, or
    /// if the person at the terminal agrees to start a second command beside a running one.
    ///
    /// # Errors
    /// `STATE_TRANSITION_REFUSED` (retryable) if an earlier command for the step still runs, and neither applies.
    async fn choose_record_path(
        &self,
        step: &OpenStep,
        link: &mut ServerLink<'_>,
    ) -> Result<Option<PathBuf>> {
        if self.args.again {
            return Ok(None);
        }
        let (name, item) = (step.name(), step.ready.step.item);
        let key_parts = [json!(step.execution_id), json!(name), json!(item)];
        let key = key_parts.map(|part| part.to_string()).join(" ");
        let file = Digest::compute(key.as_bytes()).to_string();
        let record = link.data_dir().join(RECORDS_DIRECTORY).join(file);
        let Some(pid) = guard::find_running_group(&record) else {
            return Ok(Some(record));
        };
        let name = one_line(name);
        let message = format!(
            "the command of --agent that was begun for the step '{name}' still runs, as process group {}",
            pid.as_raw_nonzero()
        );
        let question = "Begin another one beside it?";
        if question::can_ask_person()
            && question::ask_yes_or_no(&format!("{message}. {question}"), AGENT_AGAIN_FLAG, link)
                .await?
        {
            return Ok(None);
        }
        Err(Error::new(Code::StateTransitionRefused, message).with_retryable(true).with_action(
            "Wait until it has ended, or end it; --agent-again begins the step again beside it",
        ))
    }

    /// Counts a run of the command for a turn. Returns the complaint as an error after
    /// [`limits::AGENT_COMMAND_TRIES_MAX`] runs.
    fn count_run(&mut self, step: &OpenStep, complaint: Option<Error>) -> Result<()> {
        let turn = step.turn_key();
        if self.turn_runs.0 != turn || complaint.is_none() {
            self.turn_runs = (turn, 0);
        }
        self.turn_runs.1 += 1;
        match complaint {
            Some(error) if self.turn_runs.1 > limits::AGENT_COMMAND_TRIES_MAX => Err(error),
            _ => Ok(()),
        }
    }

    async fn run_command(
        &self,
        step: &OpenStep,
        complaint: Option<&str>,
        record: Option<PathBuf>,
    ) -> Result<CommandEnd> {
        let task = match self.args.format {
            AgentFormat::Text => answer::task_text(step, complaint),
            AgentFormat::Json => answer::task_json(step, complaint).to_string(),
        };
        let mut group = ProcessGroup::start_command(&self.command, step, record)?;
        let timeout = self.args.timeout;
        if let Ok(result) = tokio::time::timeout(timeout, group.write_task_and_wait(task)).await {
            return result;
        }
        group.terminate().await;
        let timeout_text = format_duration(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        let message =
            format!("the command of --agent did not end in {timeout_text}: it was killed");
        Err(Error::new(Code::LimitExceeded, message)
            .with_context("limit", format!("at most {timeout_text}"))
            .with_action("Mend the command, or give it longer with --agent-timeout"))
    }
}

/// Why a command failed, as a message: its exit status, and the last line of its stderr.
fn failure_message(result: &CommandEnd) -> String {
    let last_line = if result.last_stderr_line.is_empty() {
        String::new()
    } else {
        format!(": {}", result.last_stderr_line)
    };
    format!("the command of --agent ended with {}{last_line}", result.status)
}

/// The error for exit codes 126 and 127. The command never ran, so no failure is submitted and the step stays open.
fn command_not_run_error(result: &CommandEnd) -> Error {
    Error::new(Code::FileUnusable, failure_message(result)).with_action(
        "Mend the command of --agent: it, or the last that it runs, is not there or cannot be run; the step is still open",
    )
}

/// How many columns of output that is not JSON an error message quotes.
const QUOTED_OUTPUT_COLUMNS: usize = 60;

fn no_answer_error(result: &CommandEnd) -> Error {
    let message = if result.output.len() > limits::AGENT_COMMAND_OUTPUT_BYTES_MAX {
        let max_bytes = limits::AGENT_COMMAND_OUTPUT_BYTES_MAX;
        format!("the command of --agent printed more than {max_bytes} bytes")
    } else {
        match String::from_utf8_lossy(&result.output).trim() {
            "" => "the command of --agent printed nothing".to_owned(),
            text => format!(
                "the command of --agent printed no JSON value, but `{}`",
                truncate_text(&one_line(text), QUOTED_OUTPUT_COLUMNS)
            ),
        }
    };
    Error::new(Code::StepOutputInvalid, message).with_action(
        "Have the command print one JSON value, as the task says; nothing was handed in",
    )
}

/// The process group of a running command. It ends with the command, and with this process: see [`guard`].
struct ProcessGroup {
    child: Child,
    id: Option<Pid>,
    record: Option<PathBuf>,
}

impl ProcessGroup {
    fn start_command(command: &str, step: &OpenStep, record: Option<PathBuf>) -> Result<Self> {
        let start_error = |error: io::Error| {
            let reason = describe_io_error(&error);
            let message = format!("the command of --agent could not be started: {reason}");
            Error::new(Code::FileUnusable, message)
                .with_action("Name a command that `sh` can run")
                .with_source(error)
        };
        let mut guard = Command::new(std::env::current_exe().map_err(start_error)?);
        guard.arg("agent-guard");
        if let Some(record) = &record {
            guard.arg("--record").arg(record);
        }
        guard
            .arg("--")
            .arg(command)
            .env("MIDEX_STEP", step.name())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let child = guard.spawn().map_err(start_error)?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let id = id.and_then(Pid::from_raw);
        Ok(Self { child, id, record })
    }

    /// Writes the task to the command's stdin, reads its output to the end, and waits for its exit.
    async fn write_task_and_wait(&mut self, task: String) -> Result<CommandEnd> {
        let (stdin, stdout, stderr) =
            (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take());
        let write_task = async move {
            let mut stdin = stdin?;
            let task = format!("{}\n{task}", task.len());
            // If the command does not read its input, its exit status says why.
            let _ = stdin.write_all(task.as_bytes()).await;
            Some(stdin)
        };
        let max_bytes = limits::AGENT_COMMAND_OUTPUT_BYTES_MAX as u64 + 1;
        let read_output = async move {
            let mut output = Vec::new();
            if let Some(stdout) = stdout {
                let mut stdout = stdout.take(max_bytes);
                let _ = stdout.read_to_end(&mut output).await;
                // Output beyond the limit is discarded, but read on, so that the command is not blocked and can finish.
                let _ = tokio::io::copy(&mut stdout.into_inner(), &mut tokio::io::sink()).await;
            }
            output
        };
        // Stdin stays open until then: the guard takes its end to mean that this process is gone.
        let (_input, output, last_stderr_line) =
            tokio::join!(write_task, read_output, forward_stderr(stderr));
        let status = self.child.wait().await.map_err(|error| {
            Error::internal("the command of --agent cannot be waited for").with_source(error)
        })?;
        Ok(CommandEnd {
            is_success: status.success(),
            is_unrunnable: matches!(status.code(), Some(126 | 127)),
            status: status.to_string(),
            output,
            last_stderr_line,
        })
    }

    /// Asks the process group to end with SIGTERM, and kills it after [`limits::AGENT_COMMAND_GRACE`].
    async fn terminate(&mut self) {
        self.send_signal(Signal::TERM);
        let result = tokio::time::timeout(limits::AGENT_COMMAND_GRACE, self.child.wait()).await;
        if result.is_err() {
            self.send_signal(Signal::KILL);
            let _ = self.child.wait().await;
        }
    }

    fn send_signal(&self, signal: Signal) {
        if let Some(id) = self.id {
            let _ = kill_process_group(id, signal);
        }
    }
}

/// Kills every process that the command started, also when this process is interrupted.
impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.send_signal(Signal::KILL);
        // The guard normally removes the record file, but the guard was killed too.
        if let Some(record) = &self.record {
            let _ = std::fs::remove_file(record);
        }
    }
}

/// Prints each line that a command writes to stderr; returns the last one.
async fn forward_stderr(stderr: Option<impl AsyncRead + Unpin>) -> String {
    let mut last = String::new();
    let Some(stderr) = stderr else { return last };
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = (&mut reader).take(limits::AGENT_COMMAND_LINE_BYTES_MAX as u64);
        match limited.read_until(b'\n', &mut line).await {
            Ok(1..) => {}
            _ => return last,
        }
        let text = one_line(&String::from_utf8_lossy(&line));
        if !text.is_empty() {
            let _ = question::write_prompt(&format!("  {text}\n"));
            last = text;
        }
    }
}
