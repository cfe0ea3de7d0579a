//! `midex run`: runs a workflow in the terminal. The outputs of its steps come from a person, a file, a script or a command.

mod agent;
mod answer;
mod draft;
mod editor;
mod field;
mod form;
pub(super) mod input;
pub(super) mod inputs;
mod lines;
mod page;
mod person;
mod progress;
mod source;
mod start;
mod submission;
mod submit;
mod words;

use std::path::PathBuf;

use serde_json::{Value, json};

pub(super) use self::field::InputField;
use self::{page::RunPage, progress::ProgressLine, source::OutputSource, submission::RunDecision};
use super::{
    EXIT_FINDINGS, EXIT_OK, Output, approve,
    command::{HintContext, execution_id_flag, insert_flags, quoted},
    end_signals::{subscribe_to_signals, wait_for_signal},
    execution_id,
    link::{ServerLink, is_final_state, remove_nulls},
    message_with_violations,
    picker::{PickerItem, pick_choice},
    print_warning,
    prompt::stop::{self, StopRequest},
    question, report_error,
    steps::{self, OpenStep},
    visible::is_hidden,
    waits::{self, find_awaited_child},
};
use midex_domain::{
    ExecutionId, State,
    clock::{Clock, SystemClock, SystemIds},
    error::{Code, Error, Result},
    label::{Labels, collect_labels, parse_label},
    limits,
    view::{CurrentStep, HistoryRow, StatusView},
};
use midex_server::config::Config;

/// Which workflow, and where its outputs come from.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RunArgs {
    /// The workflow; optional if --id names an existing execution; if neither is given, midex asks on a terminal
    #[arg(value_name = "WORKFLOW")]
    workflow: Option<String>,
    /// The id of the execution; if it already exists, it is continued, as with `@last`
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// The inputs of the workflow: a JSON object, or a file that contains one
    #[arg(long, value_name = "JSON|@FILE")]
    inputs: Option<String>,
    /// One input of the workflow, which overrides the one in `--inputs`; may be given several times. The value is parsed
    /// as the type that the workflow declares: as JSON, unless that type is `string`
    #[arg(long, value_name = "NAME=VALUE")]
    input: Vec<String>,
    /// A label of the execution, to find it by; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_label)]
    label: Vec<(String, String)>,
    #[command(flatten)]
    output_flags: OutputSourceArgs,
    /// Show the personas of agents in full, instead of one line each
    #[arg(long)]
    persona: bool,
}

/// Where outputs come from.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct OutputSourceArgs {
    /// Outputs, one JSON value per line: for the next step, or `{"step_name", "output" or "error"}` for the named step. An
    /// error ends the execution, unless the step has `retry` or `on_error`
    #[arg(long, value_name = "FILE")]
    outputs: Option<PathBuf>,
    /// The output of the currently open step, from a file or from standard input: JSON or text
    #[arg(long, value_name = "FILE|-", conflicts_with_all = ["outputs", "editor"])]
    output: Option<PathBuf>,
    /// Write each output in `$VISUAL` or `$EDITOR`
    #[arg(long)]
    editor: bool,
    #[command(flatten)]
    agent: agent::AgentArgs,
}

/// Runs a workflow, or continues an existing execution. All arguments are checked before anything is started.
pub(super) async fn run(
    args: RunArgs,
    config: &Config,
    flags: String,
    out: Output<'_>,
) -> Result<u8> {
    let inputs = args.inputs.as_deref().map(inputs::parse_inputs_flag).transpose()?;
    let inputs_flags = format_inputs_flags(&args);
    let single_inputs = args.input.iter().map(|flag| inputs::split_name_and_value("--input", flag));
    let single_inputs = single_inputs.collect::<Result<Vec<_>>>()?;
    let source = OutputSource::from_flags(&args.output_flags)?;
    let labels = collect_labels(&args.label)?;
    let mut link = ServerLink::new_worker(config);
    let workflow = match (args.workflow, &args.id) {
        (None, None) => match pick_workflow(config, out.is_json, &mut link).await? {
            None => return Ok(EXIT_FINDINGS),
            workflow => workflow,
        },
        (workflow, _) => workflow,
    };
    let signals = subscribe_to_signals()?;
    if args.id.as_ref().is_some_and(|id| id.trim().is_empty()) {
        return Err(execution_id::empty_id_error());
    }
    let id = args.id.clone().unwrap_or_else(generate_id);
    let mut runner = WorkflowRunner {
        flags: &flags,
        link,
        page: RunPage::new(out, args.persona, &flags),
        source,
        workflow,
        source_flags: if args.output_flags.editor {
            " --editor".to_owned()
        } else {
            args.output_flags.agent.flags()
        },
        has_id_flag: args.id.is_some(),
        had_nothing_to_continue: false,
        active_id: id.clone(),
        id,
        inputs,
        inputs_flags,
        single_inputs,
        labels,
        has_declared_inputs: false,
        start_outcome: StartOutcome::NotStarted,
    };
    let end = tokio::select! {
        end = runner.start_and_work() => end,
        () = wait_for_signal(signals) => Ok(RunEnd::Stopped("interrupted".into())),
    };
    let code = runner.report_end(end);
    runner.link.close().await?;
    code
}

/// Lets the person at the terminal pick a workflow; `None` if they pick none.
async fn pick_workflow(
    config: &Config,
    is_json: bool,
    link: &mut ServerLink<'_>,
) -> Result<Option<String>> {
    if is_json || !question::can_ask_person() {
        return Err(Error::new(Code::UsageInvalid, "no workflow is named")
            .with_action("Run `midex list`, and name one of its workflows behind `midex run`"));
    }
    let registry = config.registry();
    let choices = registry.workflows().filter_map(|entry| {
        let definition = entry.value.as_ref()?;
        Some(PickerItem {
            key: entry.name.clone(),
            description: definition.workflow.description.clone(),
            question: String::new(),
        })
    });
    let mut choices: Vec<_> = choices.collect();
    let index = pick_choice("workflow", &choices, link).await?;
    Ok(index.map(|index| choices.swap_remove(index).key))
}

/// The `--inputs` and `--input` flags as they were given, each after a space. `None` if they are too long to print or
/// hold characters that a terminal does not show, so that they could not be retyped.
fn format_inputs_flags(args: &RunArgs) -> Option<String> {
    let inputs_flag = args.inputs.iter().map(|it| (" --inputs ", it));
    let all_flags = inputs_flag.chain(args.input.iter().map(|it| (" --input ", it)));
    let words = all_flags.flat_map(|(flag, it)| [flag.to_owned(), quoted(it)]);
    let flags: String = words.collect();
    let is_printable = flags.len() <= limits::FLAGS_TOLD_BYTES_MAX && !flags.contains(is_hidden);
    is_printable.then_some(flags)
}

/// Generates an execution id. The client chooses it, so that a start whose reply is lost can be repeated with the same
/// id.
fn generate_id() -> String {
    ExecutionId::generate(SystemClock.now(), &SystemIds).to_string()
}

/// How the command ended.
enum RunEnd {
    /// The execution has ended.
    Ended(Box<EndedExecution>),
    /// The command stopped, for this reason; the execution can be continued.
    Stopped(String),
    /// The execution is paused.
    Paused(PauseReport),
}

/// An execution that has ended.
struct EndedExecution {
    /// The status as the server replied it.
    reply: Value,
    status: StatusView,
    /// The visits, from which the page lists the effects that were compensated; empty if the execution completed.
    history: Vec<HistoryRow>,
}

/// Why an execution is paused, in words for a person, and the commands that resume it.
struct PauseReport {
    explanation: String,
    resume_commands: Vec<String>,
    /// Whether a gate is open, which can be answered at the prompt.
    is_at_gate: bool,
}

struct WorkflowRunner<'a> {
    /// The flags that a follow-up command needs to reach the same executions.
    flags: &'a str,
    link: ServerLink<'a>,
    page: RunPage<'a>,
    source: OutputSource,
    /// The workflow, once it is known.
    workflow: Option<String>,
    /// The flags that choose the source of outputs, to print in a follow-up command.
    source_flags: String,
    id: String,
    /// The execution whose steps are open now: `id` itself, or a child execution below it.
    active_id: String,
    /// Whether `--id` was given.
    has_id_flag: bool,
    /// True if an execution was to be continued, without a workflow to start, and had ended already.
    had_nothing_to_continue: bool,
    /// The inputs that were given.
    inputs: Option<Value>,
    /// The flags that gave the inputs, to print in a follow-up command; `None` as in [`format_inputs_flags`].
    inputs_flags: Option<String>,
    /// The values of `--input` by name, as they were written.
    single_inputs: Vec<(String, String)>,
    labels: Labels,
    /// Whether the workflow is known to declare its inputs.
    has_declared_inputs: bool,
    start_outcome: StartOutcome,
}

/// Whether the execution exists, so that it can be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StartOutcome {
    NotStarted,
    /// The start got no reply. Running again with the same id starts the execution or continues it.
    Unknown,
    Started,
}

impl WorkflowRunner<'_> {
    async fn start_and_work(&mut self) -> Result<RunEnd> {
        self.read_inputs().await?;
        let existing = if self.has_id_flag { self.find_existing_execution().await? } else { None };
        match existing {
            Some((reply, status)) => self.continue_execution(reply, status).await?,
            None if self.start_execution().await? => {}
            None => return Ok(RunEnd::Stopped("Nothing was started.".to_owned())),
        }
        self.start_outcome = StartOutcome::Started;
        self.work_on_steps().await
    }

    /// Works on one open step after another until the execution ends, is paused, or the command has to stop.
    async fn work_on_steps(&mut self) -> Result<RunEnd> {
        let mut complaint: Option<(String, Error)> = None;
        loop {
            let steps = match self.wait_until_steps_open().await? {
                Ok(steps) => steps,
                Err(RunEnd::Paused(pause))
                    if pause.is_at_gate && self.ask_gate_at_prompt().await? =>
                {
                    continue;
                }
                Err(end) => return Ok(end),
            };
            let refusal = complaint
                .take()
                .and_then(|(turn, error)| self.take_open_turn_refusal(&turn, error, &steps));
            let (source, page) = (&mut self.source, &mut self.page);
            let decision = source.next_decision(&steps, refusal, page, &mut self.link);
            match decision.await? {
                RunDecision::Submit(submission) => {
                    let step = submission.find_step(&steps).unwrap_or(&steps[0]);
                    let refusal = self.submit_result(step, submission).await?;
                    complaint = refusal.map(|error| (step.turn_key(), error));
                }
                RunDecision::Pause(reason) => self.pause_execution(reason).await?,
                RunDecision::Stop(reason) => return Ok(RunEnd::Stopped(reason)),
            }
        }
    }

    /// Returns the refusal if the turn it is about is still open. Otherwise prints it, and prints the draft as not
    /// recorded.
    fn take_open_turn_refusal(
        &mut self,
        turn: &str,
        error: Error,
        steps: &[OpenStep],
    ) -> Option<Error> {
        if steps.first().is_some_and(|step| step.turn_key() == turn) {
            return Some(error);
        }
        let _ = question::write_prompt(&format!("{}\n", message_with_violations(&error)));
        self.source.draft.print_unrecorded();
        None
    }

    /// Waits until steps are open and returns them with live tokens, or returns how the run ended. While the execution
    /// waits for a child execution, the steps are those of the child.
    async fn wait_until_steps_open(&mut self) -> Result<Result<Vec<OpenStep>, RunEnd>> {
        loop {
            // Registered before `wait` prints anything, so that a Ctrl-Z after that always releases the store.
            let mut stop_request = StopRequest::new();
            let (reply, current) =
                self.link.fetch_current_step(&self.active_id, "?reader=worker").await?;
            if is_final_state(&current.workflow_state) {
                if self.active_id == self.id {
                    return Ok(Err(self.fetch_ended_execution().await?));
                }
                let status = self.link.fetch_status(&self.active_id).await?;
                self.page.print_child_end(&status)?;
                self.active_id = status.parent.unwrap_or_else(|| self.id.clone());
                continue;
            }
            if current.workflow_state == State::Paused.as_str() {
                let status = self.link.fetch_status(&self.active_id).await?;
                if status.state != State::Paused.as_str() {
                    // The execution was resumed between the two reads.
                    continue;
                }
                return Ok(Err(RunEnd::Paused(make_pause_report(&status))));
            }
            let steps = steps::fetch_open_steps(&mut self.link, &reply).await?;
            if !steps.is_empty() {
                return Ok(Ok(steps));
            }
            match self.find_open_child(&current).await? {
                Some(child) => {
                    self.page.print_child(&child)?;
                    self.active_id = child;
                }
                None => self.wait_for_change(&current, &mut stop_request).await?,
            }
        }
    }

    /// The final status and, unless the execution completed, its step history.
    async fn fetch_ended_execution(&mut self) -> Result<RunEnd> {
        let (reply, status) = self.link.fetch_status_reply(&self.id).await?;
        let history = if status.state == State::Completed.as_str() {
            Vec::new()
        } else {
            self.link.fetch_history(&self.id).await?
        };
        Ok(RunEnd::Ended(Box::new(EndedExecution { reply, status, history })))
    }

    /// Returns a child execution that `current` waits for and that has not ended.
    async fn find_open_child(&mut self, current: &CurrentStep) -> Result<Option<String>> {
        let waits = current.waits.iter();
        if waits.clone().all(|wait| wait.waits_for != "child") {
            return Ok(None);
        }
        let children = self.link.fetch_status(&self.active_id).await?.children;
        for child in waits.filter_map(|wait| find_awaited_child(&children, wait)) {
            // A child that is about to be started does not exist yet.
            let Some((_, status)) = self.fetch_status(child).await? else {
                continue;
            };
            if !is_final_state(&status.state) {
                return Ok(Some(child.to_owned()));
            }
        }
        Ok(None)
    }

    /// Asks the person at the prompt to answer an open gate; true if they did.
    async fn ask_gate_at_prompt(&mut self) -> Result<bool> {
        match self.source.open_terminal_prompt() {
            Some(prompt) => approve::ask_at_prompt(&mut self.link, &self.active_id, prompt).await,
            None => Ok(false),
        }
    }

    /// Pauses the execution. The next read reports the pause, and the commands that resume it.
    async fn pause_execution(&mut self, reason: Option<String>) -> Result<()> {
        let arguments = remove_nulls(json!({ "execution_id": self.active_id, "reason": reason }));
        match self.link.call("execution.pause", arguments).await {
            // Another client changed the state first: the next read reports the current state.
            Err(error) if error.code() != Code::StateTransitionRefused => Err(error),
            _ => Ok(()),
        }
    }

    /// The status of the execution with this id, if there is one.
    async fn fetch_status(&mut self, id: &str) -> Result<Option<(Value, StatusView)>> {
        match self.link.fetch_status_reply(id).await {
            Err(error) if execution_id::is_unknown_execution(&error) => Ok(None),
            status => status.map(Some),
        }
    }

    /// Returns the status of the execution that `--id` names. The value is an id, a word such as `@last`, or, without a
    /// workflow, a part of an id. `None` if nothing matches, so that `--id` names a new execution.
    async fn find_existing_execution(&mut self) -> Result<Option<(Value, StatusView)>> {
        let id = self.id.clone();
        if let Some(status) = self.fetch_status(&id).await? {
            return Ok(Some(status));
        }
        let resolved_id = match execution_id::resolve_word(&mut self.link, &id).await? {
            // Without a workflow nothing can be started, so the value must be a part of an existing id.
            None if self.workflow.is_none() => {
                let unknown_id_error = no_such_execution_error(&id);
                Some(execution_id::resolve_id(&mut self.link, &id, unknown_id_error).await?)
            }
            resolved => resolved,
        };
        let Some(id) = resolved_id else {
            return Ok(None);
        };
        (self.active_id, self.id) = (id.clone(), id.clone());
        self.fetch_status(&id).await
    }

    /// Continues an existing execution.
    ///
    /// # Errors
    /// `EXECUTION_ID_TAKEN` if its workflow, its inputs or its labels differ from those that were given.
    async fn continue_execution(&mut self, reply: Value, status: StatusView) -> Result<()> {
        let id_taken_error = |message: String| {
            Error::new(Code::ExecutionIdTaken, message)
                .with_context("execution_id", self.id.clone())
                .with_action("Choose another --id, or leave it out")
        };
        let workflow = status.workflow_name.clone();
        if self.workflow.as_ref().is_some_and(|name| *name != workflow) {
            let message = format!("execution '{}' is one of workflow '{workflow}'", self.id);
            return Err(id_taken_error(message));
        }
        let has_ended = is_final_state(&status.state);
        self.had_nothing_to_continue = has_ended && self.workflow.is_none();
        self.workflow = Some(workflow);
        let (current_reply, current) = self.link.fetch_current_step(&self.id, "").await?;
        let initial_inputs = current.inputs_at_start.as_ref();
        let is_same = inputs::has_same_inputs(
            self.inputs.as_ref(),
            initial_inputs.or(current.inputs.as_ref()).unwrap_or(&Value::Null),
            self.has_declared_inputs,
        );
        if !is_same {
            let message = format!("execution '{}' was started with other inputs", self.id);
            return Err(id_taken_error(message));
        }
        if self.labels.iter().any(|(name, value)| status.labels.get(name) != Some(value)) {
            let message = format!("execution '{}' was started with other labels", self.id);
            return Err(id_taken_error(message));
        }
        let reply = if has_ended { &reply } else { &current_reply };
        self.page.print_resumed(reply, &status, current.inputs.as_ref())
    }

    /// Waits until the execution has a new revision, and shows meanwhile what it waits for. On Ctrl-Z it releases the
    /// store, stops the process, and returns when the process continues.
    async fn wait_for_change(
        &mut self,
        current: &CurrentStep,
        stop_request: &mut StopRequest,
    ) -> Result<()> {
        self.page.print_waits(current)?;
        {
            let mut progress = ProgressLine::from_waits(&current.waits, self.page.is_json());
            let moved = self.link.wait_for_change(&self.active_id, Some(current.revision));
            tokio::pin!(moved);
            loop {
                tokio::select! {
                    moved = &mut moved => return moved.map(|_| ()),
                    () = progress.redraw_when_due() => {}
                    () = stop_request.wait_for_stop() => break,
                }
            }
        }
        // Another process may need the store to answer what this execution waits for.
        self.link.release_store().await?;
        stop::stop_process();
        Ok(())
    }

    /// Prints how the run ended and, if the execution can be continued, the command for that. Returns the exit code.
    fn report_end(&mut self, end: Result<RunEnd>) -> Result<u8> {
        self.source.restore_terminal();
        self.source.draft.print_unrecorded();
        match end {
            Ok(RunEnd::Ended(execution)) => {
                self.page.print_end(&execution)?;
                let unused = self.source.unused_line_places();
                if !unused.is_empty() {
                    print_warning(&format!("not used: {}", unused.join(", ")));
                }
                let is_completed = execution.status.state == State::Completed.as_str();
                let is_done = is_completed && !self.had_nothing_to_continue;
                Ok(if is_done { EXIT_OK } else { EXIT_FINDINGS })
            }
            Ok(RunEnd::Stopped(reason)) if self.start_outcome != StartOutcome::NotStarted => {
                self.page
                    .print_stop(&self.note_omitted_inputs(reason), &[self.continue_command()])?;
                Ok(EXIT_FINDINGS)
            }
            Ok(RunEnd::Stopped(_)) => {
                self.page.print_stop("Nothing was started.", &[])?;
                Ok(EXIT_FINDINGS)
            }
            Ok(RunEnd::Paused(pause)) => {
                let resume_commands = pause.resume_commands.iter();
                let mut commands: Vec<_> =
                    resume_commands.map(|command| insert_flags(command, self.flags)).collect();
                commands.push(self.continue_command());
                self.page.print_stop(&pause.explanation, &commands)?;
                Ok(EXIT_FINDINGS)
            }
            Err(error) if self.start_outcome != StartOutcome::NotStarted => {
                // The hint names the execution id: repeating the original command would start another execution.
                let retry_sentence = format!("Run `{}`", self.continue_command());
                let flags = self.flags.to_owned();
                report_error(&error, self.page.is_json(), &HintContext { flags, retry_sentence });
                self.page.print_stop(
                    &self.note_omitted_inputs(String::new()),
                    &[self.continue_command()],
                )?;
                Ok(error.exit_code())
            }
            Err(error) => Err(error),
        }
    }

    /// The reason for stopping, with a note if [`Self::continue_command`] had to leave the inputs out.
    fn note_omitted_inputs(&self, reason: String) -> String {
        if self.start_outcome != StartOutcome::Unknown || self.inputs_flags.is_some() {
            return reason;
        }
        let separator = if reason.is_empty() { "" } else { ". " };
        format!("{reason}{separator}{INPUTS_LEFT_OUT_NOTE}")
    }

    /// The command that continues the execution.
    fn continue_command(&self) -> String {
        let workflow = self.workflow.as_deref().map(quoted);
        let workflow = workflow.map_or_else(String::new, |name| format!(" {name}"));
        // If the start was not confirmed, this command may have to start the execution, so it needs the inputs.
        let inputs = self.inputs_flags.as_deref();
        let inputs = inputs.filter(|_| self.start_outcome == StartOutcome::Unknown);
        let inputs = inputs.unwrap_or_default();
        format!(
            "midex run{workflow} {}{inputs}{}{}",
            execution_id_flag(&self.id),
            self.source_flags,
            self.flags
        )
    }
}

/// The note for a command that is printed without its inputs.
const INPUTS_LEFT_OUT_NOTE: &str =
    "The inputs are too long or too odd to be told: add their flags as they were given";

fn make_pause_report(status: &StatusView) -> PauseReport {
    let waits = &status.waits;
    let is_for_resume = status.needs_resume();
    let explanation = if is_for_resume {
        let reason = status.reason.as_ref();
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        format!("The execution is paused{reason}")
    } else {
        let now = SystemClock.now();
        let words = waits.iter().map(|wait| waits::describe_wait(wait, now, true));
        words.collect::<Vec<_>>().join("; ")
    };
    let resume_commands = waits::list_wait_actions(status, SystemClock.now())
        .into_iter()
        .map(|action| action.command);
    PauseReport {
        explanation,
        resume_commands: resume_commands.collect(),
        is_at_gate: !is_for_resume && waits.iter().any(|wait| wait.gate.is_some()),
    }
}

fn no_such_execution_error(id: &str) -> Error {
    Error::new(Code::ExecutionNotFound, format!("there is no execution '{id}'"))
        .with_context("execution_id", id)
}
