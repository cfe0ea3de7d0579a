//! `midex demo`: a client runs a built-in workflow from start to end through a real server in a child process. Halfway
//! the server is killed, and a new server continues the execution.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use super::{
    EXIT_OK, Output,
    command::quoted,
    end_signals::{subscribe_to_signals, wait_for_signal},
    link::parse_reply,
};
use midex_domain::{
    State,
    clock::{Clock, SystemClock},
    error::{Code, Error, Result, describe_io_error},
    uri,
    view::{AdvanceReply, CurrentStep, StatusView, TelemetryEvent},
};
use midex_mcp::client::Client;
use midex_server::config::Config;

const DEMO_WORKFLOW: &str = "feature-development";
const DEMO_TASK: &str = "Add a dark mode to the settings page";

/// Runs the demonstration; its JSON contains everything that its text shows. Without `--data-dir` it works in a
/// temporary directory, which is removed afterwards, also after a failure.
pub(super) async fn run_demo(
    config: &Config,
    data_dir: Option<PathBuf>,
    out: Output<'_>,
) -> Result<u8> {
    let directory = match data_dir {
        Some(path) => DemoDirectory::Persistent(
            std::path::absolute(&path).map_err(|e| unusable_directory_error(&path, e))?,
        ),
        None => DemoDirectory::Temporary(make_temp_dir()?),
    };
    let mut run = DemoRun { directory, config, out, steps: Vec::new(), kill_record: Value::Null };
    let signals = subscribe_to_signals()?;
    let report = tokio::select! {
        shown = run.run() => shown?,
        () = wait_for_signal(signals) => return Err(interrupted_error()),
    };
    if run.out.is_json {
        run.out.write_unchanged(format!("{report:#}\n"))?;
    }
    Ok(EXIT_OK)
}

fn interrupted_error() -> Error {
    Error::new(Code::Cancelled, "the demo was interrupted")
        .with_action("Run `midex demo` again: it begins anew")
}

/// A new temporary directory.
fn make_temp_dir() -> Result<TempDir> {
    let temp_dir = tempfile::Builder::new().prefix("midex-demo-").tempdir();
    temp_dir.map_err(|error| unusable_directory_error(&std::env::temp_dir(), error))
}

/// The directory of the demonstration's executions.
enum DemoDirectory {
    /// A directory that the user named, which is kept.
    Persistent(PathBuf),
    /// A temporary directory, which is removed at the end.
    Temporary(TempDir),
}

impl DemoDirectory {
    fn path(&self) -> &Path {
        match self {
            Self::Persistent(path) => path,
            Self::Temporary(directory) => directory.path(),
        }
    }
}

fn unusable_directory_error(path: &Path, error: std::io::Error) -> Error {
    let path_text = path.display().to_string();
    let message = format!("{path_text} could not be made: {}", describe_io_error(&error));
    Error::new(Code::FileUnusable, message).with_context("path", path_text).with_source(error)
}

struct DemoRun<'a> {
    directory: DemoDirectory,
    config: &'a Config,
    out: Output<'a>,
    steps: Vec<Value>,
    /// The times at which the server was killed and at which the next one had answered.
    kill_record: Value,
}

impl DemoRun<'_> {
    async fn run(&mut self) -> Result<Value> {
        let client = Client::start(self.server_command()?).await?;
        self.print_text("A server is running as a child process; this is its MCP client.\n")?;
        let start = json!({ "workflow_name": DEMO_WORKFLOW, "inputs": { "task": DEMO_TASK } });
        let first: AdvanceReply = parse_reply(client.call_tool("workflow.start", start).await?)?;
        let id = first.execution_id.clone();
        self.print_text(&format!("Started `{DEMO_WORKFLOW}` as {id}\n  task: {DEMO_TASK}\n"))?;
        let second = self.do_step(&client, &first).await?;
        let killed_at = SystemClock.now();
        client.kill_server().await?;
        self.print_text(
            "  -- the server was just killed (SIGKILL); a new one reads the same directory --\n",
        )?;
        let client = Client::start(self.server_command()?).await?;
        self.kill_record = json!({
            "at": killed_at, "signal": "SIGKILL", "started_at": SystemClock.now(), "during": second.step_name
        });
        let current: CurrentStep =
            parse_reply(client.read_resource(&uri::execution_uri("current_step", &id)).await?)?;
        self.check_resumed_step(&second, &current)?;
        let mut step = second;
        while step.workflow_state == State::Running.as_str() {
            step = self.do_step(&client, &step).await?;
        }
        let report = self.show_history(&client, &id, &step).await?;
        client.stop().await?;
        Ok(report)
    }

    /// Does one step like an agent: reads the persona and the task, and submits an output.
    async fn do_step(&mut self, client: &Client, step: &AdvanceReply) -> Result<AdvanceReply> {
        let fields = [
            &step.step_name,
            &step.agent_name,
            &step.agent_content,
            &step.progress,
            &step.description,
        ];
        let [name, agent, persona, progress, task] =
            fields.map(|field| field.as_deref().unwrap_or_default());
        let mut lines = persona.lines();
        let title = lines.find(|line| !line.trim().is_empty());
        let title = title.unwrap_or_default().trim_start_matches('#').trim();
        let summary = format!("{name}: done for \"{DEMO_TASK}\"");
        self.print_text(&format!(
            "Step {progress} `{name}` as {agent}\n  persona: {title} ({} bytes)\n  task:    {task}\n  output:  {summary}\n",
            persona.len(),
        ))?;
        let output =
            json!({ "summary": summary, "findings": [], "next_step_recommendation": "go on" });
        self.steps.push(json!({ "step_name": name, "agent_name": agent, "output": output }));
        let arguments = json!({ "token": step.new_token, "output": output });
        parse_reply(client.call_tool("workflow.next_step", arguments).await?)
    }

    fn check_resumed_step(
        &mut self,
        killed_step: &AdvanceReply,
        resumed_step: &CurrentStep,
    ) -> Result<()> {
        let is_same_token = killed_step.new_token == resumed_step.continuation_token;
        if is_same_token && killed_step.step_name == resumed_step.current_step {
            let step = resumed_step.current_step.as_deref().unwrap_or_default();
            return self.print_text(&format!(
                "Resumed at `{step}` with the same token: nothing acknowledged was lost\n"
            ));
        }
        Err(Error::internal("the new server does not stand where the killed one did"))
    }

    async fn show_history(
        &mut self,
        client: &Client,
        id: &str,
        last: &AdvanceReply,
    ) -> Result<Value> {
        let reply = client.read_resource(&uri::execution_uri("workflow_status", id)).await?;
        let status: StatusView = parse_reply(reply.clone())?;
        let history = client.read_resource(&uri::execution_uri("step_history", id)).await?;
        let telemetry = client.read_resource(&uri::execution_uri("telemetry", id)).await?;
        self.print_text(&format!("{}\n", last.message))?;
        self.print_timeline(&parse_reply::<Vec<TelemetryEvent>>(telemetry.clone())?)?;
        self.print_text(&format!(
            "\n{} of {} steps completed in {} ms, the kill included; the execution is {}",
            status.steps.completed,
            status.steps.total,
            status.duration_ms.unwrap_or_default(),
            status.state
        ))?;
        self.print_next_commands(id)?;
        let is_kept = matches!(self.directory, DemoDirectory::Persistent(_));
        Ok(json!({
            "execution_id": id, "data_dir": self.directory.path(), "data_dir_kept": is_kept, "status": reply,
            "steps": self.steps, "history": history, "telemetry": telemetry, "killed": self.kill_record
        }))
    }

    /// Prints the events in order, with a line for the kill.
    fn print_timeline(&mut self, telemetry: &[TelemetryEvent]) -> Result<()> {
        let killed_at = self.kill_record["at"].as_str().unwrap_or_default().to_owned();
        let kill_line = format!("  {killed_at}  -- server killed (SIGKILL), new one started --");
        let mut is_kill_printed = false;
        self.print_text("Timeline")?;
        for event in telemetry {
            // Times in the same format sort as texts. The kill follows the last answer of the first server.
            if !is_kill_printed && event.created_at > killed_at {
                self.print_text(&kill_line)?;
                is_kill_printed = true;
            }
            let duration = event.metadata["duration_ms"].as_u64();
            let duration = duration.map_or_else(String::new, |took| format!("  {took} ms"));
            let line = format!(
                "  {}  {:<25} {}{duration}",
                event.created_at,
                event.event_type.as_str(),
                event.step_name.as_deref().unwrap_or_default()
            );
            self.print_text(line.trim_end())?;
        }
        Ok(())
    }

    /// Prints the location of the data, and suggests three next commands.
    fn print_next_commands(&mut self, id: &str) -> Result<()> {
        let path = self.directory.path().display().to_string();
        let location_note = match self.directory {
            DemoDirectory::Persistent(_) => format!(
                "The data lies in {path}/executions.redb: midex show {id} --data-dir {}",
                quoted(&path)
            ),
            DemoDirectory::Temporary(_) => format!(
                "The data lay in {path}, which is removed now; `midex demo --data-dir DIR` keeps it"
            ),
        };
        self.print_text(&location_note)?;
        self.print_text(
            "\nNext\n  \
             midex install --client claude-code   gives midex to your agent (or cursor, codex, vscode, …)\n  \
             midex run bug-fix                    takes a workflow through yourself, here\n  \
             README.md and docs/                  say what else it does, and how to write a workflow",
        )
    }

    fn server_command(&self) -> Result<Command> {
        let program = std::env::current_exe().map_err(|error| {
            Error::internal("this program cannot find itself").with_source(error)
        })?;
        let path = self.directory.path();
        std::fs::create_dir_all(path).map_err(|error| unusable_directory_error(path, error))?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--data-dir").arg(path);
        command.arg("--token-ttl").arg(format!("{}s", self.config.token_ttl.as_secs()));
        // Use an empty project and an empty home, so that no other definition takes precedence over the built-in ones.
        command.current_dir(path).env("XDG_CONFIG_HOME", path);
        let definitions: [(&str, Option<&Path>); 2] = [
            ("--workflows", self.config.workflows_dir.as_deref()),
            ("--agents", self.config.agents_dir.as_deref()),
        ];
        for (flag, dir) in definitions {
            if let Some(dir) = dir {
                command.arg(flag).arg(
                    std::path::absolute(dir)
                        .map_err(|error| unusable_directory_error(dir, error))?,
                );
            }
        }
        // Discard the log: the server's start-up lines would appear between the steps.
        command.stderr(std::process::Stdio::null());
        Ok(command)
    }

    fn print_text(&mut self, text: &str) -> Result<()> {
        if self.out.is_json {
            return Ok(());
        }
        self.out.write_unchanged(format!("{text}\n"))
    }
}
