//! `midex demo`: a client takes a shipped workflow from start to end through a real server in a child process. Half way the
//! server is killed, and a new one goes on where it was.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::process::Command;

use super::{EXIT_OK, Output};
use crate::{
    config::Config,
    error::{Code, Error, Result},
    mcp::client::Client,
    uri,
};

const WORKFLOW: &str = "feature-development";
const TASK: &str = "Add a dark mode to the settings page";

/// Runs the demonstration; its JSON has everything that its text shows.
pub(super) async fn demo(
    config: &Config,
    data_dir: Option<PathBuf>,
    out: Output<'_>,
) -> Result<u8> {
    let data_dir = match data_dir {
        Some(data_dir) => data_dir,
        None => fresh_dir()?,
    };
    let data_dir = std::path::absolute(&data_dir).map_err(|error| unusable(&data_dir, error))?;
    let mut tour = Tour {
        data_dir,
        config,
        out,
        steps: Vec::new(),
    };
    let shown = tour.run().await?;
    if tour.out.json {
        tour.out.write(format!("{shown:#}\n"))?;
    }
    Ok(EXIT_OK)
}

/// A new temporary directory; it is left behind, so that the user can look into it.
fn fresh_dir() -> Result<PathBuf> {
    let name = format!("midex-demo-{:08x}", rand::random::<u32>());
    let path = std::env::temp_dir().join(name);
    std::fs::create_dir(&path).map_err(|error| unusable(&path, error))?;
    Ok(path)
}

fn unusable(path: &Path, error: std::io::Error) -> Error {
    let shown = path.display().to_string();
    let message = format!("{shown} could not be made: {}", error.kind());
    Error::new(Code::FileUnusable, message)
        .with("path", shown)
        .because(error)
}

struct Tour<'a> {
    data_dir: PathBuf,
    config: &'a Config,
    out: Output<'a>,
    steps: Vec<Value>,
}

impl Tour<'_> {
    async fn run(&mut self) -> Result<Value> {
        let client = Client::start(self.server()?).await?;
        self.say("A server is running as a child process; this is its MCP client.\n")?;
        let start = json!({ "workflow_name": WORKFLOW, "inputs": { "task": TASK } });
        let first = client.call("workflow.start", start).await?;
        let id = first["execution_id"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        self.say(&format!("Started `{WORKFLOW}` as {id}\n  task: {TASK}\n"))?;
        let second = self.step(&client, &first).await?;
        client.kill_server().await?;
        self.say(
            "  -- the server was just killed (SIGKILL); a new one reads the same directory --\n",
        )?;
        let client = Client::start(self.server()?).await?;
        let current = client.read(&address("current_step", &id)).await?;
        self.check_resumed(&second, &current)?;
        let mut next = with_token(current);
        while next["workflow_state"] == "running" {
            next = self.step(&client, &next).await?;
        }
        let shown = self.look_back(&client, &id, &next).await?;
        client.stop().await?;
        Ok(shown)
    }

    /// Does one step as its agent would: reads the persona, works, sends an output.
    async fn step(&mut self, client: &Client, step: &Value) -> Result<Value> {
        let text = |name: &str| step[name].as_str().unwrap_or_default().to_owned();
        let (name, agent) = (text("step_name"), text("agent_name"));
        let persona = text("agent_content");
        let title = persona
            .lines()
            .find(|line| !line.trim().is_empty())
            .unwrap_or_default();
        let output = json!({
            "summary": format!("{name}: done for \"{TASK}\""),
            "findings": [],
            "next_step_recommendation": "go on"
        });
        self.say(&format!(
            "Step {} `{name}` as {agent}\n  persona: {} ({} bytes)\n  task:    {}\n  output:  {}\n",
            text("progress"),
            title.trim_start_matches('#').trim(),
            persona.len(),
            text("description"),
            output["summary"].as_str().unwrap_or_default(),
        ))?;
        self.steps
            .push(json!({ "step_name": name, "agent_name": agent, "output": output }));
        client
            .call(
                "workflow.next_step",
                json!({ "token": step["new_token"], "output": output }),
            )
            .await
    }

    fn check_resumed(&mut self, before: &Value, after: &Value) -> Result<()> {
        if before["new_token"] == after["continuation_token"]
            && before["step_name"] == after["current_step"]
        {
            let step = after["current_step"].as_str().unwrap_or_default();
            return self.say(&format!(
                "Resumed at `{step}` with the same token: nothing acknowledged was lost\n"
            ));
        }
        Err(Error::internal(
            "the new server does not stand where the killed one did",
        ))
    }

    async fn look_back(&mut self, client: &Client, id: &str, last: &Value) -> Result<Value> {
        let status = client.read(&address("workflow_status", id)).await?;
        let history = client.read(&address("step_history", id)).await?;
        let telemetry = client.read(&address("telemetry", id)).await?;
        self.say(&format!(
            "{}\n",
            last["message"].as_str().unwrap_or_default()
        ))?;
        self.say("Timeline")?;
        for event in telemetry.as_array().into_iter().flatten() {
            let text = |name: &str| event[name].as_str().unwrap_or_default();
            self.say(&format!(
                "  {}  {:<25} {}",
                text("created_at"),
                text("event_type"),
                text("step_name")
            ))?;
        }
        let steps = &status["steps"];
        self.say(&format!(
            "\n{} of {} steps completed in {} ms; the execution is {}",
            steps["completed"],
            steps["total"],
            status["duration_ms"],
            status["state"].as_str().unwrap_or_default()
        ))?;
        self.say(&format!(
            "The data lies in {}",
            self.data_dir.join("executions.redb").display()
        ))?;
        Ok(json!({
            "execution_id": id, "data_dir": self.data_dir, "status": status, "steps": self.steps,
            "history": history, "telemetry": telemetry
        }))
    }

    fn server(&self) -> Result<Command> {
        let program = std::env::current_exe()
            .map_err(|error| Error::internal("this program cannot find itself").because(error))?;
        std::fs::create_dir_all(&self.data_dir).map_err(|error| unusable(&self.data_dir, error))?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--data-dir").arg(&self.data_dir);
        command
            .arg("--token-ttl")
            .arg(format!("{}s", self.config.token_ttl.as_secs()));
        // An empty project and an empty home, so that no other definition takes precedence over the shipped ones.
        command
            .current_dir(&self.data_dir)
            .env("XDG_CONFIG_HOME", &self.data_dir);
        let definitions: [(&str, Option<&Path>); 2] = [
            ("--workflows", self.config.workflows_dir.as_deref()),
            ("--agents", self.config.agents_dir.as_deref()),
        ];
        for (flag, dir) in definitions {
            if let Some(dir) = dir {
                command
                    .arg(flag)
                    .arg(std::path::absolute(dir).map_err(|error| unusable(dir, error))?);
            }
        }
        // The server's start-up lines would appear between the steps.
        command.stderr(std::process::Stdio::null());
        Ok(command)
    }

    fn say(&mut self, text: &str) -> Result<()> {
        if self.out.json {
            return Ok(());
        }
        self.out.write(format!("{text}\n"))
    }
}

fn address(resource: &str, id: &str) -> String {
    format!("midex://workflow/{resource}/{}", uri::encode(id))
}

/// Converts `current_step` to the form of a reply, which has other names for the same fields.
fn with_token(mut current: Value) -> Value {
    current["new_token"] = current["continuation_token"].take();
    current["step_name"] = current["current_step"].take();
    current
}
