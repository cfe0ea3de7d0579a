//! What is driven: the pure domain, or the whole engine.

mod again;

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use midex_domain::{
    Command, Decision, DecisionContext, DefaultSources, Definition, Event, Execution, ExecutionId,
    LifecycleChange, Row, Token, Transition, WorkflowLookup,
    clock::{Clock, SeededIds},
    error::Result,
    execution::{
        AttemptId, Effect, EffectOutput, OperationFailure, Report, SignalRequest, StartArguments,
        Submission, ValueReference, Values,
    },
    limits,
    offer::CONTINUE_OPTION_ID,
    operation::BoxFuture,
    view::{self, AdvanceReply, LoadedValues, ReadyStep, StatusView, TruncatedValue, ValueRequest},
};
use midex_engine::{
    Engine, Options, StartRequest, Workflows,
    store::{ListQuery, MemoryStore, Store},
};
use midex_test::{EPOCH, TokioClock};
use serde_json::{Value, json};

pub(super) use self::again::Again;

/// What is handed in with a report: an odd number comes with the choice of going on, which changes nothing else.
fn submitted(report: Report) -> Submission {
    let is_odd = |value: &Value| value.as_i64().is_some_and(|number| number % 2 == 1);
    let chooses = matches!(&report, Report::Output(value) if is_odd(value));
    Submission { choice: chooses.then(|| CONTINUE_OPTION_ID.to_owned()), ..report.into() }
}

/// Something that runs one execution: the pure domain, or the whole engine.
pub(super) trait Subject {
    async fn start(&mut self, id: &str, same: bool) -> Result<AdvanceReply>;
    async fn advance(&mut self, token: &str, report: Report) -> Result<AdvanceReply>;
    /// The tokens of all open steps by step, renewed where they have expired; and the revision.
    async fn read(&mut self) -> (BTreeMap<String, String>, u64);
    async fn state(&mut self) -> StatusView;
    async fn change(&mut self, change: LifecycleChange) -> Result<()>;
    async fn signal(&mut self, signal: SignalRequest) -> Result<()>;
    /// What the server works on comes to something.
    async fn work(
        &mut self,
        attempt_id: AttemptId,
        outcome: Result<EffectOutput, OperationFailure>,
    );
    async fn restart(&mut self);
    /// The child of an attempt, which begins now where nobody but the test sees to that.
    async fn child(&mut self, attempt_id: &AttemptId, definition: Arc<Definition>) -> Self;
    /// Its parent did something; its child was told. Where an engine sees to children, it does that.
    async fn hear(&mut self, command: Command);
    /// Everything in memory was lost, as `root` knows.
    async fn restart_below(&mut self, root: &Self);
    /// All executions that there are, where somebody counts them.
    async fn all(&self) -> Option<BTreeSet<String>>;
    /// What it came to once it is completed, where the test tells its parent.
    fn output(&self) -> Option<Value>;
    /// The open turns, in the order in which a model is shown them.
    async fn turns(&mut self) -> Vec<ReadyStep>;
    /// The execution and its journal as they are kept.
    async fn kept(&self) -> (Execution, Vec<Row>);
    /// Milliseconds since the start.
    fn now(&self) -> u64;
    /// Whether it sees to what is due by itself.
    fn keeps_time(&self) -> bool;
    /// Lets time pass until that many milliseconds after the start, and sees to what is due then.
    async fn pass_until(&mut self, end: u64);
}

pub(super) const ID: &str = "modelled execution";

pub(super) fn inputs(same: bool) -> Value {
    json!({ "same": same })
}

/// The domain alone: decide, apply, answer from the row.
pub(super) struct Pure {
    pub(super) definition: Arc<Definition>,
    pub(super) clock: TokioClock,
    pub(super) ids: Arc<SeededIds>,
    execution: Option<Execution>,
    rows: Vec<Row>,
    /// The values that are stored by digest.
    contents: Values,
    /// The attempts that begin a child.
    begun: BTreeSet<AttemptId>,
}

impl Pure {
    pub(super) fn new(definition: Arc<Definition>, clock: TokioClock) -> Self {
        Self {
            definition,
            clock,
            ids: Arc::new(SeededIds::new(7)),
            execution: None,
            rows: Vec::new(),
            contents: Values::new(),
            begun: BTreeSet::new(),
        }
    }

    fn execution(&self) -> &Execution {
        self.execution.as_ref().expect("an execution")
    }

    fn facts(&self) -> DecisionContext<'_> {
        DecisionContext::new(&self.definition, limits::TOKEN_TTL)
    }

    fn become_next(&mut self, transition: Transition) -> Result<AdvanceReply> {
        let before = self.execution.take();
        let next = Execution::apply_row(before, &transition.row).expect("events apply");
        assert_eq!(next, transition.execution, "the events say all that the transition does");
        self.take(&transition.effects, &transition.row);
        for (digest, content) in transition.contents {
            // What an artifact holds may be anything, and no decision asks for it.
            if let Ok(value) = serde_json::from_slice(&content) {
                self.contents.insert(digest, Arc::new(value));
            }
        }
        self.rows.push(transition.row);
        self.execution = Some(next);
        match transition.refusal {
            Some(refusal) => Err(refusal),
            None => Ok(self.answer(self.rows.len() as u64, false)),
        }
    }

    /// No child is begun twice, and each order in the row is also sent.
    fn take(&mut self, effects: &[Effect], row: &Row) {
        let mut sent = Vec::new();
        for effect in effects {
            match effect {
                Effect::BeginAttempt(begin) if begin.workflow().is_some() => {
                    let is_new = self.begun.insert(begin.attempt_id.clone());
                    assert!(is_new, "begun again: {begin:?}");
                }
                Effect::SendOrder(order) => sent.push(order),
                Effect::BeginAttempt(_) | Effect::CancelAttempt(_) => {}
            }
        }
        let orders = row.events.iter().filter_map(|event| match event {
            Event::ChildOrdered(order) => Some(order),
            _ => None,
        });
        assert_eq!(sent, orders.collect::<Vec<_>>());
    }

    fn answer(&self, revision: u64, replayed: bool) -> AdvanceReply {
        let rows = &self.rows[..usize::try_from(revision).expect("a small number")];
        let row = rows.last().expect("a row");
        let then = Execution::replay(rows).expect("rows");
        self.show(&then, Some(row), |subject| view::build_advance_reply(subject, row, replayed))
    }

    fn shown<T>(&self, view: impl Fn(&view::ViewContext<'_>) -> T) -> T {
        self.show(self.execution.as_ref().expect("an execution"), None, view)
    }

    /// What a view shows once it was given what it asked for.
    fn show<T>(
        &self,
        execution: &Execution,
        row: Option<&Row>,
        view: impl Fn(&view::ViewContext<'_>) -> T,
    ) -> T {
        let mut found = LoadedValues::default();
        loop {
            let asked = RefCell::default();
            let shown = view(&view::ViewContext {
                definition: &self.definition,
                execution,
                row,
                loaded: &found,
                requested: &asked,
                ttl: limits::TOKEN_TTL,
                command_flags: "",
            });
            let asked = asked.into_inner();
            if asked.is_empty() {
                return shown;
            }
            // Steps with equal outputs ask for one value in one round.
            let is_known = |ValueRequest { need, bytes_max }: &ValueRequest| match bytes_max {
                None => found.values.contains_key(&need.digest),
                Some(bytes) => found.shortened.contains_key(&(need.digest, *bytes)),
            };
            let again = asked.iter().find(|asked| is_known(asked));
            assert!(again.is_none(), "asked for again: {again:?}");
            for ValueRequest { need, bytes_max } in asked {
                let value = self.look_up(&need);
                if let Some(bytes) = bytes_max {
                    let shortened = TruncatedValue::truncate(&value, bytes);
                    found.shortened.insert((need.digest, bytes), shortened);
                } else {
                    found.values.insert(need.digest, value);
                }
            }
        }
    }

    /// What the engine would look up: in the row that is named, else by digest.
    fn look_up(&self, need: &ValueReference) -> Arc<Value> {
        if let Some(value) = self.contents.get(&need.digest) {
            return value.clone();
        }
        let revision = need.revision.expect("it is in a row");
        let row = usize::try_from(revision).expect("a small number") - 1;
        find_value(&self.rows[row..=row], need).expect("the row has it")
    }

    fn command(&mut self, command: &Command) -> Result<Option<AdvanceReply>> {
        let mut known = Values::new();
        loop {
            let execution = self.execution.as_ref().expect("an execution");
            let facts = DecisionContext { values: &known, ..self.facts() };
            match execution.decide(facts, command, self.clock.now(), &*self.ids)? {
                Decision::Transition(transition) => return self.become_next(*transition).map(Some),
                Decision::Replay(key) => return Ok(Some(self.answer(key, true))),
                Decision::NoChange => return Ok(None),
                Decision::MissingValues(needs) => {
                    let before = known.len();
                    for need in &needs {
                        known.insert(need.digest, self.look_up(need));
                    }
                    assert!(known.len() > before, "asked for what was given: {needs:?}");
                }
            }
        }
    }
}

/// A small value, where one of these rows has it.
fn find_value(rows: &[Row], need: &ValueReference) -> Option<Arc<Value>> {
    let mut outputs = rows.iter().flat_map(Row::outputs);
    let (_, document) = outputs.find(|(digest, _)| *digest == need.digest)?;
    Some(Arc::new(document.value()))
}

impl Subject for Pure {
    async fn start(&mut self, id: &str, same: bool) -> Result<AdvanceReply> {
        let start = StartArguments {
            id: ExecutionId::parse(id)?,
            project: None,
            inputs: Some(inputs(same)),
            defaults: DefaultSources::default(),
            parent: None,
            lookup: None,
            is_paced: false,
            labels: midex_domain::label::Labels::new(),
        };
        if let Some(execution) = &self.execution {
            execution
                .check_repeated_start(start.call_digest(&self.definition))
                .map(|key| self.answer(key, true))
        } else {
            let transition = Execution::start(self.facts(), start, self.clock.now(), &*self.ids)?;
            self.become_next(transition)
        }
    }

    async fn advance(&mut self, token: &str, report: Report) -> Result<AdvanceReply> {
        let command = Command::Advance {
            token: Token::parse(token)?,
            submission: Arc::new(submitted(report)),
        };
        self.command(&command).map(|answer| answer.expect("an advance moves or replays"))
    }

    async fn read(&mut self) -> (BTreeMap<String, String>, u64) {
        self.command(&Command::RenewTokens).expect("renewal is never refused");
        let current = self.shown(view::current_step);
        (tokens(&current), current.revision)
    }

    async fn state(&mut self) -> StatusView {
        self.shown(view::build_status)
    }

    async fn change(&mut self, change: LifecycleChange) -> Result<()> {
        self.command(&Command::ChangeState(change)).map(|_| ())
    }

    async fn work(
        &mut self,
        attempt_id: AttemptId,
        outcome: Result<EffectOutput, OperationFailure>,
    ) {
        let outcome = Arc::new(outcome);
        let command = Command::RecordOutcome { attempt_id, outcome, notes: Arc::default() };
        let moved = self.command(&command).expect("an outcome is never refused");
        assert!(moved.is_some(), "nobody waits for {command:?}");
    }

    async fn child(&mut self, attempt_id: &AttemptId, definition: Arc<Definition>) -> Self {
        assert!(self.begun.contains(attempt_id), "{attempt_id:?}");
        let mut child = Self::new(definition, self.clock);
        let start = StartArguments {
            id: attempt_id.child_execution_id(self.execution().id()),
            project: None,
            inputs: None,
            defaults: DefaultSources::default(),
            parent: Some(Box::new(self.execution().build_parent_record(attempt_id))),
            lookup: None,
            is_paced: false,
            labels: midex_domain::label::Labels::new(),
        };
        let transition = Execution::start(child.facts(), start, child.clock.now(), &*child.ids);
        let started = transition.and_then(|transition| child.become_next(transition));
        started.expect("a start");
        child
    }

    async fn hear(&mut self, command: Command) {
        self.command(&command).expect("an order is never refused");
    }

    async fn restart_below(&mut self, _: &Self) {
        self.restart().await;
    }

    async fn all(&self) -> Option<BTreeSet<String>> {
        None
    }

    fn output(&self) -> Option<Value> {
        self.shown(view::full_output)
    }

    async fn restart(&mut self) {
        let rebuilt = Execution::replay(&self.rows);
        assert_eq!(rebuilt, self.execution, "the journal rebuilds the state");
        self.execution = rebuilt;
    }

    async fn signal(&mut self, signal: SignalRequest) -> Result<()> {
        let command = Command::ReceiveSignal(signal);
        self.command(&command).map(|_| ())
    }

    async fn turns(&mut self) -> Vec<ReadyStep> {
        self.shown(view::current_step).ready_steps
    }

    async fn kept(&self) -> (Execution, Vec<Row>) {
        let execution = self.execution.clone().expect("an execution");
        (execution, self.rows.clone())
    }

    fn now(&self) -> u64 {
        milliseconds(self.clock)
    }

    fn keeps_time(&self) -> bool {
        false
    }

    async fn pass_until(&mut self, end: u64) {
        let execution = self.execution.as_ref().expect("an execution");
        let deadline = execution.deadline(&self.definition);
        sleep_until(self.clock, end).await;
        let before = execution.revision();
        self.command(&Command::Tick).expect("time is never refused");
        let execution = self.execution.as_ref().expect("an execution");
        let was_due = deadline.is_some_and(|deadline| deadline <= self.clock.now());
        assert_eq!(execution.revision() > before, was_due, "it moves where it said that it would");
    }
}

/// The whole engine, on a store in memory.
pub(super) struct Whole {
    definition: Arc<Definition>,
    clock: TokioClock,
    store: Arc<dyn Store>,
    engine: Engine,
    seed: u64,
    id: ExecutionId,
    workflows: Arc<Known>,
}

/// The workflows that children follow, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Known(BTreeMap<&'static str, Arc<Definition>>);

impl Workflows for Known {
    fn find<'a>(
        &'a self,
        _: Option<&'a WorkflowLookup>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Arc<Definition>>> {
        let found = self.0.get(name).cloned();
        Box::pin(std::future::ready(Ok(found.expect("a workflow"))))
    }
}

impl Whole {
    pub(super) async fn new(
        definition: Arc<Definition>,
        children: impl IntoIterator<Item = (&'static str, Arc<Definition>)>,
    ) -> Self {
        let clock = TokioClock::starting_at(EPOCH);
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let workflows = Arc::new(Known(children.into_iter().collect()));
        let engine = begun(store.clone(), clock, workflows.clone(), 1).await;
        Self {
            definition,
            clock,
            store,
            engine,
            seed: 1,
            id: ExecutionId::parse(ID).expect("an id"),
            workflows,
        }
    }
}

impl Whole {
    /// Another execution on the same engine.
    fn beside(&self, id: ExecutionId, definition: Arc<Definition>) -> Self {
        Self {
            definition,
            clock: self.clock,
            store: self.store.clone(),
            engine: self.engine.clone(),
            seed: self.seed,
            id,
            workflows: self.workflows.clone(),
        }
    }
}

async fn begun(
    store: Arc<dyn Store>,
    clock: TokioClock,
    workflows: Arc<Known>,
    seed: u64,
) -> Engine {
    let ids = Arc::new(SeededIds::new(seed));
    let options = Options { workflows, ..Options::new(store, Arc::new(clock), ids) };
    Engine::new(options).await.expect("an engine")
}

impl Subject for Whole {
    async fn start(&mut self, id: &str, same: bool) -> Result<AdvanceReply> {
        let execution_id = Some(ExecutionId::parse(id)?);
        let definition = self.definition.clone();
        let request = StartRequest {
            execution_id,
            inputs: Some(inputs(same)),
            ..StartRequest::new(definition)
        };
        self.engine.start(request).await
    }

    async fn advance(&mut self, token: &str, report: Report) -> Result<AdvanceReply> {
        self.engine.advance(token, submitted(report)).await
    }

    async fn read(&mut self) -> (BTreeMap<String, String>, u64) {
        let current = self.engine.current_step(&self.id).await.expect("the execution exists");
        (tokens(&current), current.revision)
    }

    async fn state(&mut self) -> StatusView {
        self.engine.status(&self.id).await.expect("the execution exists")
    }

    async fn change(&mut self, change: LifecycleChange) -> Result<()> {
        let answered = self.engine.apply_command(&self.id, change).await?;
        let status = self.engine.status(&self.id).await.expect("the execution exists");
        // What it told its children may have been done meanwhile.
        if answered.revision == status.revision {
            assert_eq!(answered, status, "the answer is the status");
        }
        Ok(())
    }

    // It has no activities, and the engine sees to children.
    async fn work(&mut self, _: AttemptId, _: Result<EffectOutput, OperationFailure>) {}

    async fn child(&mut self, attempt_id: &AttemptId, definition: Arc<Definition>) -> Self {
        self.beside(attempt_id.child_execution_id(&self.id), definition)
    }

    async fn hear(&mut self, _: Command) {}

    async fn restart(&mut self) {
        // As a crash: nobody is told, the old actors are simply never asked again.
        self.seed += 1;
        let (store, workflows) = (self.store.clone(), self.workflows.clone());
        self.engine = begun(store, self.clock, workflows, self.seed).await;
    }

    async fn restart_below(&mut self, root: &Self) {
        self.engine = root.engine.clone();
    }

    async fn all(&self) -> Option<BTreeSet<String>> {
        let query = ListQuery { limit: 200, ..ListQuery::default() };
        let all = self.engine.list(query).await.expect("a list").executions;
        Some(all.into_iter().map(|row| row.execution_id).collect())
    }

    fn output(&self) -> Option<Value> {
        None
    }

    async fn signal(&mut self, signal: SignalRequest) -> Result<()> {
        let answered = self.engine.apply_command(&self.id, signal).await?;
        let status = self.engine.status(&self.id).await.expect("the execution exists");
        // What it told its children may have been done meanwhile.
        if answered.revision == status.revision {
            assert_eq!(answered, status, "the answer is the status");
        }
        Ok(())
    }

    async fn turns(&mut self) -> Vec<ReadyStep> {
        let current = self.engine.current_step(&self.id).await;
        current.expect("the execution exists").ready_steps
    }

    async fn kept(&self) -> (Execution, Vec<Row>) {
        let stored = self.store.load(&self.id).await.expect("the store answers");
        let rows = self.store.load_history(&self.id).await.expect("the store answers");
        (stored.expect("the execution exists").execution, rows)
    }

    fn now(&self) -> u64 {
        milliseconds(self.clock)
    }

    fn keeps_time(&self) -> bool {
        true
    }

    async fn pass_until(&mut self, end: u64) {
        sleep_until(self.clock, end).await;
    }
}

fn milliseconds(clock: TokioClock) -> u64 {
    u64::try_from(clock.now().since(EPOCH).as_millis()).expect("a time")
}

async fn sleep_until(clock: TokioClock, end: u64) {
    let left = end.saturating_sub(milliseconds(clock));
    tokio::time::sleep(Duration::from_millis(left)).await;
}

pub(super) fn tokens(current: &view::CurrentStep) -> BTreeMap<String, String> {
    let pair = |step: &ReadyStep| (step.step_name.clone(), step.continuation_token.clone());
    current.ready_steps.iter().map(pair).collect()
}
