//! `midex demo`: a client runs a built-in workflow from start to end through a real server in a child process. Halfway
//! the server is killed, and a new server continues the execution.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use super::{
    EXIT_OK, Output,
    command::quoted,
    link::parse_reply,
    serve::{subscribe_to_signals, wait_for_signal},
};
use midex_domain::{
    State,
    clock::{Clock, SystemClock},
    error::{Code, Error, Result, describe_io_error},
    uri,
    view::{Advanced, CurrentStep, StatusView, TelemetryEvent},
};
use midex_mcp::client::Client;
use midex_server::config::Config;

const DEMO_WORKFLOW: &str = "feature-development";
const DEMO_TASK: &str = "Add a dark mode to the settings page";

/// Runs the demonstration; its JSON contains everything that its text shows. Without `--data-dir` it works in a
/// temporary directory, which is removed afterwards, also after a failure.
pub(super) async fn demo(
    config: &Config,
    data_dir: Option<PathBuf>,
    out: Output<'_>,
) -> Result<u8> {
    let place = match data_dir {
        Some(path) => DemoDirectory::Kept(
            std::path::absolute(&path).map_err(|e| unusable_directory_error(&path, e))?,
        ),
        None => DemoDirectory::Temporary(make_temp_dir()?),
    };
    let mut tour = DemoRun { place, config, out, steps: Vec::new(), killed: Value::Null };
    let signals = subscribe_to_signals()?;
    let shown = tokio::select! {
        shown = tour.run() => shown?,
        () = wait_for_signal(signals) => return Err(interrupted_error()),
    };
    if tour.out.json {
        tour.out.write_unchanged(format!("{shown:#}\n"))?;
    }
    Ok(EXIT_OK)
}

fn interrupted_error() -> Error {
    Error::new(Code::Cancelled, "the demo was interrupted")
        .with_action("Run `midex demo` again: it begins anew")
}

/// A new temporary directory.
fn make_temp_dir() -> Result<TempDir> {
    let made = tempfile::Builder::new().prefix("midex-demo-").tempdir();
    made.map_err(|error| unusable_directory_error(&std::env::temp_dir(), error))
}

/// The directory of the demonstration's executions.
enum DemoDirectory {
    /// A directory that the user named, which is kept.
    Kept(PathBuf),
    /// A temporary directory, which is removed at the end.
    Temporary(TempDir),
}

impl DemoDirectory {
    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(directory) => directory.path(),
        }
    }
}

fn unusable_directory_error(path: &Path, error: std::io::Error) -> Error {
    let shown = path.display().to_string();
    let message = format!("{shown} could not be made: {}", describe_io_error(&error));
    Error::new(Code::FileUnusable, message).with_context("path", shown).with_source(error)
}

struct DemoRun<'a> {
    place: DemoDirectory,
    config: &'a Config,
    out: Output<'a>,
    steps: Vec<Value>,
    /// The times at which the server was killed and at which the next one had answered.
    killed: Value,
}

impl DemoRun<'_> {
    async fn run(&mut self) -> Result<Value> {
        let client = Client::start(self.server_command()?).await?;
        self.print_text("A server is running as a child process; this is its MCP client.\n")?;
        let start = json!({ "workflow_name": DEMO_WORKFLOW, "inputs": { "task": DEMO_TASK } });
        let first: Advanced = parse_reply(client.call_tool("workflow.start", start).await?)?;
        let id = first.execution_id.clone();
        self.print_text(&format!("Started `{DEMO_WORKFLOW}` as {id}\n  task: {DEMO_TASK}\n"))?;
        let second = self.do_step(&client, &first).await?;
        let at = SystemClock.now();
        client.kill_server().await?;
        self.print_text(
            "  -- the server was just killed (SIGKILL); a new one reads the same directory --\n",
        )?;
        let client = Client::start(self.server_command()?).await?;
        self.killed = json!({
            "at": at, "signal": "SIGKILL", "started_at": SystemClock.now(), "during": second.step_name
        });
        let current: CurrentStep =
            parse_reply(client.read_resource(&resource_address("current_step", &id)).await?)?;
        self.check_resumed_step(&second, &current)?;
        let mut next = second;
        while next.workflow_state == State::Running.as_str() {
            next = self.do_step(&client, &next).await?;
        }
        let shown = self.show_history(&client, &id, &next).await?;
        client.stop().await?;
        Ok(shown)
    }

    /// Does one step like an agent: reads the persona and the task, and submits an output.
    async fn do_step(&mut self, client: &Client, step: &Advanced) -> Result<Advanced> {
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

    fn check_resumed_step(&mut self, before: &Advanced, after: &CurrentStep) -> Result<()> {
        let is_same_token = before.new_token == after.continuation_token;
        if is_same_token && before.step_name == after.current_step {
            let step = after.current_step.as_deref().unwrap_or_default();
            return self.print_text(&format!(
                "Resumed at `{step}` with the same token: nothing acknowledged was lost\n"
            ));
        }
        Err(Error::internal("the new server does not stand where the killed one did"))
    }

    async fn show_history(&mut self, client: &Client, id: &str, last: &Advanced) -> Result<Value> {
        let reply = client.read_resource(&resource_address("workflow_status", id)).await?;
        let status: StatusView = parse_reply(reply.clone())?;
        let history = client.read_resource(&resource_address("step_history", id)).await?;
        let telemetry = client.read_resource(&resource_address("telemetry", id)).await?;
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
        let is_kept = matches!(self.place, DemoDirectory::Kept(_));
        Ok(json!({
            "execution_id": id, "data_dir": self.place.path(), "data_dir_kept": is_kept, "status": reply,
            "steps": self.steps, "history": history, "telemetry": telemetry, "killed": self.killed
        }))
    }

    /// Prints the events in order, with a line for the kill.
    fn print_timeline(&mut self, telemetry: &[TelemetryEvent]) -> Result<()> {
        let killed_at = self.killed["at"].as_str().unwrap_or_default().to_owned();
        let killed = format!("  {killed_at}  -- server killed (SIGKILL), new one started --");
        let mut is_told = false;
        self.print_text("Timeline")?;
        for event in telemetry {
            // Times in the same format sort as texts. The kill follows the last answer of the first server.
            if !is_told && event.created_at > killed_at {
                self.print_text(&killed)?;
                is_told = true;
            }
            let took = event.metadata["duration_ms"].as_u64();
            let took = took.map_or_else(String::new, |took| format!("  {took} ms"));
            let line = format!(
                "  {}  {:<25} {}{took}",
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
        let path = self.place.path().display().to_string();
        let lies = match self.place {
            DemoDirectory::Kept(_) => format!(
                "The data lies in {path}/executions.redb: midex show {id} --data-dir {}",
                quoted(&path)
            ),
            DemoDirectory::Temporary(_) => format!(
                "The data lay in {path}, which is removed now; `midex demo --data-dir DIR` keeps it"
            ),
        };
        self.print_text(&lies)?;
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
        let path = self.place.path();
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
        if self.out.json {
            return Ok(());
        }
        self.out.write_unchanged(format!("{text}\n"))
    }
}

fn resource_address(resource: &str, id: &str) -> String {
    format!("midex://workflow/{resource}/{}", uri::encode_segment(id))
}
