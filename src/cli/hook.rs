//! `midex hook`: a command that hosts run at their events, so that an agent whose context was compacted, cleared or
//! started anew learns of its open work. A hook must not fail its host: on any error it prints nothing and exits with
//! code 0.

mod host;
mod said;

use std::{fmt::Write as _, path::Path};

use serde_json::{Value, json};
use tokio::task::LocalSet;

use self::host::{HostEvent, bare};

use super::{
    EXIT_OK, Output,
    link::Link,
    value::{field, gist, is_said},
    when,
};
use midex_domain::{
    State,
    clock::{Clock, SystemClock, Timestamp},
    error::{Result, in_quotes},
    limits,
    truncate::{length, shortened},
};
use midex_server::{
    app,
    config::{self, Config},
};

/// The bytes of JSON that `session-start` prints around the executions: the wrapper for the host, the first and the
/// last sentences.
const AROUND_BYTES: usize = 400;

/// The event of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Subcommand)]
pub(super) enum Event {
    /// Show the open work of the project when a session begins, or is resumed, cleared or compacted
    SessionStart,
    /// Say how to finish or pause each open step, once per step, when the agent is about to end its turn
    Stop,
}

/// Prints the answer to the host's event, if there is one.
pub(super) async fn hook(event: Event, config: Config, mut out: Output<'_>) -> Result<u8> {
    let tasks = LocalSet::new();
    // Run in a task of its own, so that a panic ends only the task.
    let answer = tasks.spawn_local(answer(event, config));
    let answer = tasks.run_until(tokio::time::timeout(limits::HOOK_WITHIN, answer));
    if let Ok(Ok(Ok(text))) = answer.await {
        out.write(text)?;
    }
    Ok(EXIT_OK)
}

async fn answer(event: Event, config: Config) -> Result<String> {
    let told = HostEvent::read().await;
    let named = told.directory().map(|dir| config::project_around(&dir));
    let project_dir = named.unwrap_or(config.project_dir);
    let config = Config {
        project_dir,
        ..config
    };
    // Do not create a data directory: a hook must not be its first user.
    let is_silent = event == Event::Stop && !told.may_go_on();
    if is_silent || !config.data_dir.join(app::STORE_FILE).exists() {
        return Ok(String::new());
    }
    let mut link = Link::new(&config);
    let open = open(&mut link).await;
    link.end().await;
    let mut open = open?;
    let project = || config.project_dir.display().to_string();
    let session = told.session().map_or_else(project, str::to_owned);
    let said = match event {
        Event::SessionStart => open.recap().map(|text| told.context(&text)),
        Event::Stop => {
            if let Some(transcript) = told.transcript() {
                open.executions.retain(|one| has_moved(one, &transcript));
            }
            let reason = open.reminder(&config.data_dir, &session)?;
            reason.map(|reason| told.go_on(&reason))
        }
    };
    Ok(said.map_or_else(String::new, |said| format!("{said}\n")))
}

/// The open executions of the project. If there is only one, its `updated_at` is read separately: the reply lacks it.
async fn open(link: &mut Link<'_>) -> Result<Open> {
    let mut open = Open::of(link.call("execution.resume", json!({})).await?);
    for execution in &mut open.executions {
        if execution["updated_at"].is_null() {
            let id = field(execution, "execution_id");
            execution["updated_at"] = json!(link.status(&id).await?.updated_at);
        }
    }
    Ok(open)
}

/// Whether this session started the execution or finished a step of it: the replies of both calls contain this text.
fn has_moved(execution: &Value, transcript: &str) -> bool {
    let id = field(execution, "execution_id");
    transcript.contains(&bare(&format!(
        "\"success\":true,\"execution_id\":\"{id}\""
    )))
}

/// The open executions of a project, from the reply of `execution.resume`.
struct Open {
    executions: Vec<Value>,
    /// How many further executions there are, at least.
    more: u64,
}

impl Open {
    /// Parses both forms of the reply: the only execution, or a list of several.
    fn of(mut answer: Value) -> Self {
        let more = answer["more"].as_u64().unwrap_or_default();
        let executions = match answer["open_executions"].take() {
            Value::Array(several) => several,
            _ => vec![answer],
        };
        Self { executions, more }
    }

    /// The summary that a new context needs to continue the work: without personas and tokens, and at most
    /// [`limits::HOOK_BYTES_MAX`] bytes.
    fn recap(&self) -> Option<String> {
        const HEAD: &str = "Work is open in this project. midex keeps it on disk: it is not lost with a context.\n";
        const TAIL: &str = "\nIf this is your work, go on with it instead of beginning it anew. If another window is at it, or your user wants something else, leave it.\n";
        let mut room = limits::HOOK_BYTES_MAX - AROUND_BYTES;
        if self.executions.is_empty() {
            return None;
        }
        let mut text = HEAD.to_owned();
        let mut more = self.more;
        for execution in &self.executions {
            let recap = recap(execution, SystemClock.now());
            let bytes = length(&recap);
            if bytes > room {
                more += 1;
            } else {
                room -= bytes;
                text += &recap;
            }
        }
        if more > 0 {
            let _ = writeln!(text, "\n{more} more open: execution.list");
        }
        Some(text + TAIL)
    }

    /// Asks the agent not to end its turn before finishing or pausing the open steps. `None` if this session was
    /// reminded of all of them before.
    fn reminder(&self, data_dir: &Path, session: &str) -> Result<Option<String>> {
        let steps: Vec<_> = self.executions.iter().flat_map(steps_to_do).collect();
        let new = said::not_yet(data_dir, session, steps)?;
        if new.is_empty() {
            return Ok(None);
        }
        let named = &new[..new.len().min(limits::HOOK_STEPS_TOLD_MAX)];
        Ok(Some(format!(
            "midex: open in this project: {}. Finish a step with workflow.next_step (execution.resume with the execution_id has its task and token), or call execution.pause. If it is another window's, or your user wants it to stay open, end your turn: this is said once.",
            named.join(", ")
        )))
    }
}

/// The summary of one execution in a few lines.
fn recap(execution: &Value, now: Timestamp) -> String {
    let id = field(execution, "execution_id");
    let moved = when::ago(&field(execution, "updated_at"), now).replace(" m ago", " min ago");
    let mut text = format!(
        "\nExecution '{id}' of workflow '{}', {}, moved {moved}\n",
        field(execution, "workflow_name"),
        state(execution)
    );
    let mut line = |name: &str, words: &str| {
        if !words.is_empty() {
            let words = shortened(words, limits::HOOK_LINE_CHARS_MAX);
            let _ = writeln!(text, "  {name}: {words}");
        }
    };
    line("paused because", &field(execution, "reason"));
    let asked = asked(execution);
    line("waits for your user", &asked);
    if is_said(&execution["inputs"]) {
        line("inputs", &gist(&execution["inputs"]));
    }
    for decided in ["decided", "previous"]
        .iter()
        .flat_map(|name| list(execution, name))
    {
        line(
            &format!("decided in '{}'", field(decided, "step_name")),
            &gist(&decided["output"]),
        );
    }
    for (at, step) in steps(execution).enumerate() {
        let described = if !field(step, "description").is_empty() || at > 0 {
            step
        } else {
            execution
        };
        let words = field(described, "description");
        let words = if words.is_empty() {
            words
        } else {
            format!(": {words}")
        };
        line(
            "open step",
            &format!("'{}'{words}", field(step, "step_name")),
        );
    }
    for wait in list(execution, "waits") {
        let what = match wait["gate"]["ask"].as_str() {
            Some(ask) => format!("asks a person: {ask}"),
            None => format!("waits for {}", field(wait, "waits_for")),
        };
        line("waiting", &format!("'{}' {what}", field(wait, "step_name")));
    }
    if is_paused(execution) && !asked.is_empty() {
        return text;
    }
    let id = in_quotes(&id);
    let how = if is_paused(execution) {
        "once it may go on"
    } else {
        "go on"
    };
    let _ = writeln!(text, "  {how}: execution.resume with execution_id '{id}'");
    text
}

/// The question of an open gate with the command that answers it; empty if no gate is open.
fn asked(execution: &Value) -> String {
    let is_of_gate = list(execution, "waits").any(|wait| !wait["gate"].is_null());
    match field(execution, "asked") {
        asked if asked.is_empty() && is_of_gate => field(execution, "message"),
        asked => asked,
    }
}

fn state(execution: &Value) -> String {
    match execution["workflow_state"].as_str() {
        Some(state) => state.to_owned(),
        None => format!(
            "{}, {} steps done",
            field(execution, "state"),
            field(execution, "done")
        ),
    }
}

/// The steps of an execution that an agent can do now; none while it is paused.
fn steps_to_do(execution: &Value) -> impl Iterator<Item = String> {
    let id = field(execution, "execution_id");
    steps(execution)
        .filter(|_| !is_paused(execution))
        .map(move |step| format!("'{}' of execution '{id}'", field(step, "step_name")))
}

fn is_paused(execution: &Value) -> bool {
    let states = [&execution["workflow_state"], &execution["state"]];
    states.iter().any(|state| **state == State::Paused.as_str())
}

fn steps(execution: &Value) -> impl Iterator<Item = &Value> {
    ["ready_steps", "current_steps"]
        .into_iter()
        .flat_map(|name| list(execution, name))
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}
