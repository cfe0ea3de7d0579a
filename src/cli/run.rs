//! `midex run`: runs a workflow in the terminal. The outputs of its steps come from a person, a file, a script or a command.

mod agent;
mod answer;
mod begin;
mod draft;
mod editor;
mod field;
mod form;
mod hand_in;
pub(super) mod input;
pub(super) mod inputs;
mod lines;
mod page;
mod person;
mod progress;
mod source;
mod submission;
mod words;

use std::path::PathBuf;

use serde_json::{Value, json};

pub(super) use self::field::Field;
use self::{
    page::Page,
    progress::Progress,
    source::OutputSource,
    submission::{Next, turn},
};
use super::{
    EXIT_FINDINGS, EXIT_OK, Output, approve,
    command::{Hints, of_id, quoted, with_flags},
    execution_id,
    link::{Link, is_final},
    picker::{Choice, pick},
    prompt::stop::{self, StopRequest},
    question, report,
    serve::{signalled, signals},
    steps,
    value::list,
    visible::is_hidden,
    waits::{self, child_of},
    warn, wrong,
};
use midex_domain::{
    ExecutionId, State,
    clock::{Clock, SystemClock, SystemIds},
    error::{Code, Error, Result},
    limits,
};
use midex_server::config::Config;

/// Which workflow, and where its outputs come from.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RunArgs {
    /// The workflow; where --id names an execution that goes on, it need not be named; without either a terminal is asked
    #[arg(value_name = "WORKFLOW")]
    workflow: Option<String>,
    /// The id of the execution; where it exists already, it goes on, as `@last` does
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// What the workflow is to work on: a JSON object, or a file that holds one
    #[arg(long, value_name = "JSON|@FILE")]
    inputs: Option<String>,
    /// One input of the workflow, over what `--inputs` says; may be given several times. Its value is read as the
    /// type that the workflow declares: JSON unless that is a text
    #[arg(long, value_name = "NAME=VALUE")]
    input: Vec<String>,
    #[command(flatten)]
    from: OutputFrom,
    /// Show the personas of agents, which are folded to a line else
    #[arg(long)]
    persona: bool,
}

/// Where outputs come from.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct OutputFrom {
    /// Outputs, one JSON value a line: of the next step, or `{"step_name", "output" or "error"}` of a certain one
    #[arg(long, value_name = "FILE")]
    outputs: Option<PathBuf>,
    /// The output of the step that is open now, from a file or from standard input: JSON or text
    #[arg(long, value_name = "FILE|-", conflicts_with_all = ["outputs", "editor"])]
    output: Option<PathBuf>,
    /// Write each output in `$VISUAL` or `$EDITOR`
    #[arg(long)]
    editor: bool,
    #[command(flatten)]
    agent: agent::AgentArgs,
}

/// Runs a workflow, or goes on with an execution of it. All arguments are checked before anything is started.
pub(super) async fn run(
    args: RunArgs,
    config: &Config,
    flags: String,
    out: Output<'_>,
) -> Result<u8> {
    let inputs = args.inputs.as_deref().map(inputs::whole).transpose()?;
    let inputs_flags = inputs_flags(&args);
    let single = args
        .input
        .iter()
        .map(|flag| inputs::single("--input", flag));
    let single = single.collect::<Result<Vec<_>>>()?;
    let source = OutputSource::of(&args.from)?;
    let mut link = Link::working(config);
    let workflow = match (args.workflow, &args.id) {
        (None, None) => match picked(config, out.json, &mut link).await? {
            None => return Ok(EXIT_FINDINGS),
            picked => picked,
        },
        (workflow, _) => workflow,
    };
    let signals = signals()?;
    let id = args.id.clone().unwrap_or_else(new_id);
    let mut runner = Runner {
        flags: &flags,
        link,
        page: Page::new(out, args.persona, &flags),
        source,
        workflow,
        by: if args.from.editor {
            " --editor".to_owned()
        } else {
            args.from.agent.flags()
        },
        is_named: args.id.is_some(),
        at: id.clone(),
        id,
        inputs,
        inputs_flags,
        single,
        declared: None,
        begun: Begun::No,
    };
    let end = tokio::select! {
        end = runner.go() => end,
        () = signalled(signals) => Ok(End::Stopped("interrupted".into())),
    };
    let code = runner.report_end(end);
    runner.link.close().await?;
    code
}

/// The workflow that a person at the terminal picks; `None` where they pick none.
async fn picked(config: &Config, is_json: bool, link: &mut Link<'_>) -> Result<Option<String>> {
    if is_json || !question::is_possible() {
        return Err(Error::new(Code::UsageInvalid, "no workflow is named")
            .with_action("Run `midex list`, and name one of its workflows behind `midex run`"));
    }
    let registry = config.registry();
    let choices = registry.workflows().filter_map(|entry| {
        let definition = entry.value.as_ref()?;
        Some(Choice {
            key: entry.name.clone(),
            about: definition.workflow.description.clone(),
            question: String::new(),
        })
    });
    let mut choices: Vec<_> = choices.collect();
    let picked = pick("workflow", &choices, link).await?;
    Ok(picked.map(|at| choices.swap_remove(at).key))
}

/// The flags of the inputs as they were given, each behind a space; `None` where they cannot be typed again as they are shown.
fn inputs_flags(args: &RunArgs) -> Option<String> {
    let whole = args.inputs.iter().map(|it| (" --inputs ", it));
    let all = whole.chain(args.input.iter().map(|it| (" --input ", it)));
    let flags: String = all
        .flat_map(|(flag, it)| [flag.to_owned(), quoted(it)])
        .collect();
    let is_told = flags.len() <= limits::FLAGS_TOLD_BYTES_MAX && !flags.contains(is_hidden);
    is_told.then_some(flags)
}

/// A new execution id, made here so that a start whose reply is lost can be sent again.
fn new_id() -> String {
    ExecutionId::generate(SystemClock.now(), &SystemIds).to_string()
}

/// How the command ended.
enum End {
    /// The execution has ended, with this `status` and `history`.
    Ended(Box<Value>),
    /// The command stopped, for this reason; the execution can go on.
    Stopped(String),
    /// The execution is paused.
    Paused(Pause),
}

/// Why an execution is paused, for people, and what lifts it.
struct Pause {
    why: String,
    /// The commands that lift it.
    lifting: Vec<String>,
    /// Whether a gate can be answered.
    is_at_gate: bool,
}

fn owned(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

struct Runner<'a> {
    /// The flags that further commands need to reach the same executions.
    flags: &'a str,
    link: Link<'a>,
    page: Page<'a>,
    source: OutputSource,
    /// The workflow, once it is known.
    workflow: Option<String>,
    /// The flags that say who does the steps.
    by: String,
    id: String,
    /// The execution that is worked at: that one, or a child below it.
    at: String,
    /// Whether `--id` was given.
    is_named: bool,
    /// The inputs that were given.
    inputs: Option<Value>,
    /// The flags that gave them, where they can be told.
    inputs_flags: Option<String>,
    /// The values of `--input` by name, as they were written.
    single: Vec<(String, String)>,
    /// The inputs that the workflow declares; `None` if it declares none, or is not known.
    declared: Option<Vec<Value>>,
    begun: Begun,
}

/// Whether there is an execution to go on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    No,
    /// It was asked to begin, and nobody answered: the same id begins it or goes on with it.
    Perhaps,
    Yes,
}

impl Runner<'_> {
    async fn go(&mut self) -> Result<End> {
        self.read_inputs().await?;
        let existing = if self.is_named {
            self.existing().await?
        } else {
            None
        };
        match existing {
            Some(status) => self.go_on(status).await?,
            None if self.start().await? => {}
            None => return Ok(End::Stopped("Nothing was started.".to_owned())),
        }
        self.begun = Begun::Yes;
        self.work().await
    }

    /// Goes from step to step until there is no more to do.
    async fn work(&mut self) -> Result<End> {
        let mut complaint: Option<(String, Error)> = None;
        loop {
            let steps = match self.open_steps().await? {
                Ok(steps) => steps,
                Err(End::Paused(pause))
                    if pause.is_at_gate && self.ask_gate_at_prompt().await? =>
                {
                    continue;
                }
                Err(end) => return Ok(end),
            };
            let refused = complaint.take();
            let refused = refused.and_then(|(of, error)| self.of_turn(&of, error, &steps));
            let page = &mut self.page;
            let next = self.source.next(&steps, refused, page, &mut self.link);
            match next.await? {
                Next::Submit(at, submission) => {
                    let refused = self.submit(&steps[at], submission).await?;
                    complaint = refused.map(|error| (turn(&steps[at]), error));
                }
                Next::Pause => self.pause().await?,
                Next::Stop(why) => return Ok(End::Stopped(why)),
            }
        }
    }

    /// A refusal, if its turn can still be answered; else it is told, and what was typed for that turn is let go.
    fn of_turn(&mut self, of: &str, error: Error, steps: &[Value]) -> Option<Error> {
        if steps.first().is_some_and(|step| turn(step) == of) {
            return Some(error);
        }
        let _ = question::prompt(&format!("{}\n", wrong(&error)));
        self.source.draft.spill();
        None
    }

    /// Waits for open steps and returns them with live tokens; or returns how the run ended. Where the execution waits for a
    /// child, it is the child that is worked at.
    async fn open_steps(&mut self) -> Result<Result<Vec<Value>, End>> {
        loop {
            // Registered before `wait` prints anything, so that a Ctrl-Z after that always releases the store.
            let mut stop_request = StopRequest::new();
            let current = self.current_step().await?;
            let state = &current["workflow_state"];
            if is_final(state) {
                let status = self.link.read_of("workflow_status", &self.at).await?;
                if self.at == self.id {
                    return Ok(Err(self.ended(status).await?));
                }
                self.page.child_ended(&status)?;
                self.at = owned(&status["parent"]).unwrap_or_else(|| self.id.clone());
                continue;
            }
            if *state == State::Paused.as_str() {
                let status = self.link.read_of("workflow_status", &self.at).await?;
                if status["state"] != State::Paused.as_str() {
                    // Somebody let it go on meanwhile.
                    continue;
                }
                return Ok(Err(End::Paused(paused(&status))));
            }
            let steps = steps::open_with_personas(&mut self.link, &current).await?;
            if !steps.is_empty() {
                return Ok(Ok(steps));
            }
            match self.open_child(&current).await? {
                Some(child) => {
                    self.page.child(&child)?;
                    self.at = child;
                }
                None => self.wait(&current, &mut stop_request).await?,
            }
        }
    }

    /// The final status and, unless the execution completed, its history: that shows which effects were taken back.
    async fn ended(&mut self, status: Value) -> Result<End> {
        let history = if status["state"] == State::Completed.as_str() {
            Value::Null
        } else {
            self.link.read_of("step_history", &self.id).await?
        };
        Ok(End::Ended(Box::new(
            json!({ "status": status, "history": history }),
        )))
    }

    async fn current_step(&mut self) -> Result<Value> {
        steps::read_as(&mut self.link, &self.at, "worker").await
    }

    /// A child that is waited for and has not ended.
    async fn open_child(&mut self, current: &Value) -> Result<Option<String>> {
        let waits = current["waits"].as_array().into_iter().flatten();
        if waits.clone().all(|wait| wait["waits_for"] != "child") {
            return Ok(None);
        }
        let status = self.link.read_of("workflow_status", &self.at).await?;
        for child in waits.filter_map(|wait| child_of(&status, wait)) {
            // One that is about to begin is not there yet.
            let Some(found) = self.status_of(&child).await? else {
                continue;
            };
            if !is_final(&found["state"]) {
                return Ok(Some(child));
            }
        }
        Ok(None)
    }

    /// Asks the person at the prompt to answer an open gate; true if they did.
    async fn ask_gate_at_prompt(&mut self) -> Result<bool> {
        match self.source.at_prompt() {
            Some(prompt) => approve::ask_at_prompt(&mut self.link, &self.at, prompt).await,
            None => Ok(false),
        }
    }

    /// Pauses the execution: the next read says so, and how it goes on.
    async fn pause(&mut self) -> Result<()> {
        let arguments = json!({ "execution_id": self.at });
        match self.link.call("execution.pause", arguments).await {
            // Somebody was faster: the next read says how it stands.
            Err(error) if error.code() != Code::StateTransitionRefused => Err(error),
            _ => Ok(()),
        }
    }

    /// The status of the execution with this id, if there is one.
    async fn status_of(&mut self, id: &str) -> Result<Option<Value>> {
        match self.link.read_of("workflow_status", id).await {
            Ok(status) => Ok(Some(status)),
            Err(error)
                if matches!(
                    error.code(),
                    Code::ExecutionNotFound | Code::ResourceNotFound
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The status of the execution that `--id` names, if there is one of this name or if it is a word for one.
    async fn existing(&mut self) -> Result<Option<Value>> {
        let id = self.id.clone();
        if let Some(status) = self.status_of(&id).await? {
            return Ok(Some(status));
        }
        let meant = match execution_id::of_word(&mut self.link, &id).await? {
            // Without a workflow nothing can be started: it is a part of an id.
            None if self.workflow.is_none() => {
                let unknown = no_execution(&id);
                Some(execution_id::meant(&mut self.link, &id, unknown).await?)
            }
            meant => meant,
        };
        let Some(id) = meant else {
            return Ok(None);
        };
        (self.at, self.id) = (id.clone(), id.clone());
        self.status_of(&id).await
    }

    /// Goes on with an existing execution, which must be of the same workflow and inputs.
    async fn go_on(&mut self, status: Value) -> Result<()> {
        let taken = |what: String| {
            Error::new(Code::ExecutionIdTaken, what)
                .with("execution_id", self.id.clone())
                .with_action("Choose another --id, or leave it out")
        };
        let workflow = owned(&status["workflow_name"]).unwrap_or_default();
        if self.workflow.as_ref().is_some_and(|said| *said != workflow) {
            let what = format!("execution '{}' is one of workflow '{workflow}'", self.id);
            return Err(taken(what));
        }
        self.workflow = Some(workflow);
        let current = self.link.read_of("current_step", &self.id).await?;
        let same = inputs::same(
            self.inputs.as_ref(),
            current.get("inputs_at_start").unwrap_or(&current["inputs"]),
            self.declared.is_some(),
        );
        if !same {
            let what = format!("execution '{}' was started with other inputs", self.id);
            return Err(taken(what));
        }
        let ended = is_final(&status["state"]);
        let reply = if ended { &status } else { &current };
        self.page.resumed(reply, &status, &current["inputs"])
    }

    /// Waits until the execution moves, and shows meanwhile what for.
    async fn wait(&mut self, current: &Value, stop_request: &mut StopRequest) -> Result<()> {
        self.page.waits(current)?;
        let arguments = json!({
            "execution_id": self.at, "since_revision": current["revision"],
            "timeout_s": limits::TAIL_WAIT_S
        });
        {
            let mut progress = Progress::of(current, self.page.json());
            let moved = self.link.call("execution.wait", arguments);
            tokio::pin!(moved);
            loop {
                tokio::select! {
                    moved = &mut moved => return moved.map(|_| ()),
                    () = progress.tick() => {}
                    () = stop_request.received() => break,
                }
            }
        }
        // Whoever brings what is waited for needs the store.
        self.link.release().await?;
        stop::stop();
        Ok(())
    }

    /// Prints how the run ended, and the command that goes on if the execution can; returns the exit code.
    fn report_end(&mut self, end: Result<End>) -> Result<u8> {
        self.source.close();
        self.source.draft.spill();
        match end {
            Ok(End::Ended(shown)) => {
                self.page.ended(&shown)?;
                let left = self.source.left_over();
                if !left.is_empty() {
                    warn(&format!("not used: {}", left.join(", ")));
                }
                let done = shown["status"]["state"] == State::Completed.as_str();
                Ok(if done { EXIT_OK } else { EXIT_FINDINGS })
            }
            Ok(End::Stopped(why)) if self.begun != Begun::No => {
                self.page
                    .stopped(&self.with_left_out(why), &[self.command()])?;
                Ok(EXIT_FINDINGS)
            }
            Ok(End::Stopped(_)) => {
                self.page.stopped("Nothing was started.", &[])?;
                Ok(EXIT_FINDINGS)
            }
            Ok(End::Paused(pause)) => {
                let lifting = pause.lifting.iter();
                let mut commands: Vec<_> = lifting
                    .map(|command| with_flags(command, self.flags))
                    .collect();
                commands.push(self.command());
                self.page.stopped(&pause.why, &commands)?;
                Ok(EXIT_FINDINGS)
            }
            Err(error) if self.begun != Begun::No => {
                // The same command would start another execution.
                let retry = format!("Run `{}`", self.command());
                let flags = self.flags.to_owned();
                report(&error, self.page.json(), &Hints { flags, retry });
                self.page
                    .stopped(&self.with_left_out(String::new()), &[self.command()])?;
                Ok(error.exit_code())
            }
            Err(error) => Err(error),
        }
    }

    /// Why it stops, with what [`Self::command`] lacks.
    fn with_left_out(&self, why: String) -> String {
        if self.begun != Begun::Perhaps || self.inputs_flags.is_some() {
            return why;
        }
        let between = if why.is_empty() { "" } else { ". " };
        format!("{why}{between}{LEFT_OUT}")
    }

    /// The command that goes on with the execution.
    fn command(&self) -> String {
        let workflow = self.workflow.as_deref().map(quoted);
        let workflow = workflow.map_or_else(String::new, |name| format!(" {name}"));
        // Where it has not begun the same command begins it.
        let inputs = self.inputs_flags.as_deref();
        let inputs = inputs.filter(|_| self.begun == Begun::Perhaps);
        let inputs = inputs.unwrap_or_default();
        format!(
            "midex run{workflow} {}{inputs}{}{}",
            of_id(&self.id),
            self.by,
            self.flags
        )
    }
}

/// What is said where a command cannot be told with its inputs.
const LEFT_OUT: &str =
    "The inputs are too long or too odd to be told: add their flags as they were given";

fn paused(status: &Value) -> Pause {
    let waits = list(&status["waits"]);
    let is_for_resume = waits::is_for_resume(status);
    let why = if is_for_resume {
        let reason = status["reason"].as_str();
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        format!("The execution is paused{reason}")
    } else {
        let now = SystemClock.now();
        let words = waits.iter().map(|wait| waits::words(wait, now, true));
        words.collect::<Vec<_>>().join("; ")
    };
    let lifting = waits::ways(status).into_iter().map(|way| way.command);
    Pause {
        why,
        lifting: lifting.collect(),
        is_at_gate: !is_for_resume && waits.iter().any(|wait| wait["gate"].is_object()),
    }
}

fn no_execution(id: &str) -> Error {
    Error::new(
        Code::ExecutionNotFound,
        format!("there is no execution '{id}'"),
    )
    .with("execution_id", id)
}
