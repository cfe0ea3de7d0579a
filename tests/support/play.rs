//! A workflow played in this process, under paused time: what a test asks of an engine, and an execution under way.

use std::sync::Arc;

use crate::TokioClock;
use midex_domain::{
    Definition, Digest, ExecutionId, LifecycleAction, LifecycleChange, StepId,
    check::ServerCapabilities,
    error::Error,
    event::Channel,
    execution::{Command, GateAnswer, Report},
    finding::filter_errors,
    view::{AdvanceReply, CurrentStep, HistoryRow, ReadyStep, StatusView},
};
use midex_engine::{
    Engine, StartRequest,
    store::{MemoryStore, Store},
};
use midex_registry::{self as registry, Registry, Sources};
use serde_json::{Value, json};

use super::{EPOCH, engine, output};

pub fn id(text: &str) -> ExecutionId {
    ExecutionId::parse(text).expect("an id")
}

/// An output with a summary.
pub fn good(summary: &str) -> Report {
    Report::Output(output(summary))
}

/// A report that a step could not be done.
pub fn failed(message: &str, code: Option<&str>) -> Report {
    Report::Error { message: message.to_owned(), code: code.map(str::to_owned), retryable: None }
}

/// A change that nobody gives a reason for.
pub fn change_to(lifecycle: LifecycleAction) -> LifecycleChange {
    LifecycleChange { action: lifecycle, reason: None }
}

/// A start without inputs, of no project.
pub fn request(definition: Arc<Definition>, name: &str) -> StartRequest {
    StartRequest { execution_id: Some(id(name)), ..StartRequest::new(definition) }
}

/// The token of the step that an answer opened.
pub fn token(advanced: &AdvanceReply) -> String {
    advanced.new_token.clone().expect("a token")
}

/// An engine on a store of its own in memory.
pub async fn memory_engine() -> Engine {
    let clock = TokioClock::starting_at(EPOCH);
    engine(Arc::new(MemoryStore::new()), clock, 1).await
}

/// The definition that a manifest with these lines after its head gives.
pub fn defined(lines: &str) -> Arc<Definition> {
    defined_with(lines, &[])
}

/// The same where the server has these activities.
pub fn defined_with(lines: &str, activities: &[&str]) -> Arc<Definition> {
    let text = format!("workflow: w\ndescription: d\n{lines}");
    let abilities = ServerCapabilities {
        activities: activities.iter().map(ToString::to_string).collect(),
        ..ServerCapabilities::default()
    };
    let shipped = Registry::load_with_abilities(&Sources::default(), &abilities);
    let (workflow, findings) = registry::check_text("w.yaml", &text, &shipped);
    let errors: Vec<_> = filter_errors(&findings).collect();
    assert!(errors.is_empty(), "{text}: {errors:?}");
    let whole = json!({ "workflow": workflow.unwrap(), "personas": {} });
    Arc::new(Definition::decode(whole.to_string().as_bytes()).unwrap())
}

/// Calls of an engine that must succeed, or must not.
pub trait Calls {
    /// Starts an execution.
    async fn begin(&self, definition: Arc<Definition>, name: &str) -> AdvanceReply;
    /// Reports on a step.
    async fn report(&self, token: &str, report: Report) -> AdvanceReply;
    /// Finishes a step with this summary.
    async fn finish(&self, token: &str, summary: &str) -> AdvanceReply;
    /// Reports on a step, and is refused.
    async fn refuse(&self, token: &str, report: Report) -> Error;
    /// Commands the execution `e`.
    async fn commanded(&self, command: impl Into<Command>) -> StatusView;
    /// Commands the execution `e`, and is refused.
    async fn not_commanded(&self, command: impl Into<Command>) -> Error;
    /// Changes the state of an execution.
    async fn changed(&self, name: &str, lifecycle: LifecycleAction) -> StatusView;
    /// How an execution stands.
    async fn status_now(&self, name: &str) -> StatusView;
    /// What an execution waits for.
    async fn current_now(&self, name: &str) -> CurrentStep;
    /// What an execution did.
    async fn history_now(&self, name: &str) -> Vec<HistoryRow>;
}

impl Calls for Engine {
    async fn begin(&self, definition: Arc<Definition>, name: &str) -> AdvanceReply {
        self.start(request(definition, name)).await.expect("a start")
    }

    async fn report(&self, token: &str, report: Report) -> AdvanceReply {
        self.advance(token, report).await.expect("an advance")
    }

    async fn finish(&self, token: &str, summary: &str) -> AdvanceReply {
        self.report(token, good(summary)).await
    }

    async fn refuse(&self, token: &str, report: Report) -> Error {
        self.advance(token, report).await.expect_err("a refusal")
    }

    async fn commanded(&self, command: impl Into<Command>) -> StatusView {
        let done = self.apply_command(&id("e"), command).await;
        done.expect("a command")
    }

    async fn not_commanded(&self, command: impl Into<Command>) -> Error {
        let done = self.apply_command(&id("e"), command).await;
        done.expect_err("a refusal")
    }

    async fn changed(&self, name: &str, lifecycle: LifecycleAction) -> StatusView {
        let change = LifecycleChange { action: lifecycle, reason: None };
        self.apply_command(&id(name), change).await.expect("a change")
    }

    async fn status_now(&self, name: &str) -> StatusView {
        self.status(&id(name)).await.expect("a status")
    }

    async fn current_now(&self, name: &str) -> CurrentStep {
        self.current_step(&id(name)).await.expect("a step")
    }

    async fn history_now(&self, name: &str) -> Vec<HistoryRow> {
        self.history(&id(name)).await.expect("a history")
    }
}

/// An execution under way, and what it last answered.
pub struct Play {
    pub engine: Engine,
    pub store: Arc<dyn Store>,
    pub last: AdvanceReply,
}

impl Play {
    pub async fn begin(lines: &str, inputs: Value) -> Self {
        Self::begin_with(lines, Some(inputs)).await
    }

    pub async fn begin_with(lines: &str, inputs: Option<Value>) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let engine = engine(store.clone(), TokioClock::starting_at(EPOCH), 1).await;
        let request = StartRequest { inputs, ..request(defined(lines), "e") };
        let last = engine.start(request).await.unwrap();
        Self { engine, store, last }
    }

    /// Every call from now on wakes the execution from the store.
    pub async fn restart(&mut self) {
        self.engine = engine(self.store.clone(), TokioClock::starting_at(EPOCH), 2).await;
    }

    /// The offers that the last call made.
    pub fn offers(&self) -> Vec<&ReadyStep> {
        self.last.new_tokens.iter().collect()
    }

    pub fn open(&self) -> Vec<&str> {
        self.offers().iter().map(|offer| offer.step_name.as_str()).collect()
    }

    /// What the model is told to do first.
    pub fn words(&self) -> &str {
        self.last.instructions.as_deref().unwrap()
    }

    pub async fn report(&mut self, token: &str, report: Report) -> &AdvanceReply {
        self.last = self.engine.report(token, report).await;
        &self.last
    }

    /// Ends the step, which the last call opened, with this output.
    pub async fn done(&mut self, step: &str, output: Value) -> &AdvanceReply {
        let token = self.token(step);
        self.report(&token, Report::Output(output)).await
    }

    /// Ends the step that `current_step` shows with this output.
    pub async fn goes_on(&mut self, output: Value) -> &AdvanceReply {
        let current = self.engine.current_now("e").await;
        let token = current.continuation_token.expect("an open step");
        self.report(&token, Report::Output(output)).await
    }

    /// Says that the step could not be done.
    pub async fn fails(&mut self, step: &str, code: &str) -> &AdvanceReply {
        let token = self.token(step);
        self.report(&token, failed("it could not be done", Some(code))).await
    }

    pub fn token(&self, step: &str) -> String {
        let mut offers = self.last.new_tokens.iter().chain(&self.last.open_steps);
        let offer = offers.find(|offer| offer.step_name == step);
        let offer = offer.unwrap_or_else(|| panic!("{step} is not open: {:?}", self.last));
        offer.continuation_token.clone()
    }

    pub async fn change(&self, lifecycle: LifecycleAction) -> StatusView {
        self.engine.changed("e", lifecycle).await
    }

    /// The refusal of an output for the step.
    pub async fn refused(&self, token: &str, output: Value) -> Error {
        self.engine.refuse(token, Report::Output(output)).await
    }

    pub async fn status(&self) -> StatusView {
        self.engine.status_now("e").await
    }

    pub async fn history(&self) -> Vec<HistoryRow> {
        self.engine.history_now("e").await
    }

    /// Every entry of the history as `step status`.
    pub async fn path(&self) -> Vec<String> {
        let told = |row: &HistoryRow| format!("{} {}", row.step_name, row.status);
        self.history().await.iter().map(told).collect()
    }

    pub fn state(&self) -> &str {
        &self.last.workflow_state
    }
}

/// The answer of a person to the gate that this status shows.
pub fn gate_answer(status: &StatusView, approved: bool, comment: Option<&str>) -> GateAnswer {
    let wait = status.waits.iter().find(|wait| wait.gate.is_some()).unwrap();
    GateAnswer {
        step: StepId::parse(&wait.step_name).unwrap(),
        visit: wait.visit,
        question_digest: Digest::parse(&wait.gate.as_ref().unwrap().shown).unwrap(),
        is_approved: approved,
        person: "ann".into(),
        channel: Channel::Terminal,
        comment: comment.map(str::to_owned),
    }
}
