//! The actor of one execution: a mailbox around one state machine. For each command it decides, commits the transition
//! to the store, updates its state in memory, and then replies.

use std::{
    collections::BTreeSet,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::watch;

use super::{
    DurableExecution, Shared,
    message::{ActorAnswer, ActorMessage, PreparedFork, PreparedPurge},
    runner::Runner,
    value_lookup::ValueLookup,
};
use crate::store::{Commit, Deletion, PastChange, Position, find_row_contents};
use midex_domain::{
    Command, Decision, Definition, Digest, Execution, ExecutionId, Row, State, Transition,
    error::{Code, Error, Result},
    event::OwnerEpoch,
    execution::{AttemptId, AttemptRequest, Effect, StartArguments, Values},
    expression::RenderedValue,
    limits,
};

/// The actor of one execution.
pub(super) struct ExecutionActor;

pub(super) struct Arguments {
    pub(super) id: ExecutionId,
    pub(super) shared: Arc<Shared>,
    /// Its attempts are marked with it.
    pub(super) owner: OwnerEpoch,
    pub(super) durable_sender: watch::Sender<Option<DurableExecution>>,
}

pub(super) struct ActorState {
    id: ExecutionId,
    shared: Arc<Shared>,
    owner: OwnerEpoch,
    durable_sender: watch::Sender<Option<DurableExecution>>,
    live: Option<LiveExecution>,
    /// Whether lost attempts were recovered since the execution was loaded, was last paused, or received
    /// [`Command::RecoverAttempts`].
    is_recovered: bool,
    /// A cache of small values, which later decisions may need again.
    values: Values,
}

/// The execution as last made durable.
#[derive(Clone)]
struct LiveExecution {
    durable: DurableExecution,
    position: Position,
    /// The last row. A repeat of the last call is answered from it without a read.
    last_row: Option<Arc<Row>>,
}

/// Whether the actor may continue after an answer.
enum AfterAnswer {
    Continue,
    /// The durable state is unknown, or there is none. The actor ends, and the next call starts a new one, which loads
    /// the execution from the store.
    Stop,
}

impl Actor for ExecutionActor {
    type Msg = ActorMessage;
    type State = ActorState;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        _: ActorRef<ActorMessage>,
        arguments: Arguments,
    ) -> Result<ActorState, ActorProcessingErr> {
        let Arguments { id, shared, owner, durable_sender: seen } = arguments;
        Ok(ActorState {
            id,
            shared,
            owner,
            durable_sender: seen,
            live: None,
            is_recovered: false,
            values: Values::new(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<ActorMessage>,
        message: ActorMessage,
        state: &mut ActorState,
    ) -> Result<(), ActorProcessingErr> {
        let is_tick = message.is_tick();
        if let ActorMessage::Command { command: Command::RecoverAttempts { .. }, .. } = &message {
            state.is_recovered = false;
        }
        // Each live actor keeps the memory of this future, so the large futures inside it are boxed.
        let (reply, (answer, after)) = match message {
            ActorMessage::Start { start, definition, named_workflows, reply } => {
                (reply, Box::pin(state.start(*start, definition, &named_workflows)).await)
            }
            ActorMessage::Fork { fork, reply } => (reply, Box::pin(state.create_fork(&fork)).await),
            ActorMessage::Purge { purge, reply } => {
                (reply, Box::pin(state.purge_inputs(&purge)).await)
            }
            ActorMessage::Delete { reply } => (reply, Box::pin(state.delete()).await),
            ActorMessage::Command { command, reply } => {
                (reply, Box::pin(state.run_command(&command)).await)
            }
        };
        let has_transition = matches!(&answer, Ok(ActorAnswer { row: Some(_), .. }));
        // Fails if the caller has gone away. The transition stands, and a repeat of the call gets the same answer.
        let _ = reply.send(answer);
        let after = match after {
            AfterAnswer::Continue => state.recover_lost_attempts().await,
            AfterAnswer::Stop => AfterAnswer::Stop,
        };
        if matches!(after, AfterAnswer::Continue) {
            state.plan_next_deadline(is_tick && !has_transition);
        } else {
            // Messages that are already in the mailbox are answered from the store, and then the actor ends. `drain`
            // lets no new message in. It fails only if the actor is already ending.
            state.live = None;
            let _ = myself.drain();
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _: ActorRef<ActorMessage>,
        state: &mut ActorState,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(live) = &state.live
            && let Err(error) =
                state.shared.store.checkpoint(live.durable.execution.clone(), live.position).await
        {
            tracing::debug!(execution = %state.id, %error, "no snapshot at the end; the journal has it all");
        }
        Ok(())
    }
}

impl ActorState {
    async fn start(
        &mut self,
        start: StartArguments,
        definition: Arc<Definition>,
        named_workflows: &[Arc<Definition>],
    ) -> (Result<ActorAnswer>, AfterAnswer) {
        match self.check_creation().await {
            Err(error) => (Err(error), AfterAnswer::Stop),
            Ok(true) => {
                (self.repeat_creation(start.call_digest(&definition)).await, AfterAnswer::Continue)
            }
            Ok(false) => {
                let definition = self.shared.definitions.intern(definition);
                let is_long = start.inputs.as_ref();
                let is_long = is_long.is_some_and(|inputs| definition.is_slow_to_validate(inputs));
                let env = self.shared.environments.environment_of_project(start.project.as_deref());
                let start = || {
                    let owner = (&self.id, self.owner);
                    let context = self.shared.build_context(owner, &definition, &self.values, &env);
                    Execution::start(context, start, self.shared.clock.now(), &*self.shared.ids)
                };
                let transition = run_decision(&self.shared, is_long, start).await;
                match transition {
                    Err(error) => (Err(error), AfterAnswer::Stop),
                    Ok(transition) => {
                        self.persist_first(transition, definition, named_workflows).await
                    }
                }
            }
        }
    }

    /// Stores the first transition of a fork.
    async fn create_fork(&mut self, fork: &PreparedFork) -> (Result<ActorAnswer>, AfterAnswer) {
        match self.check_creation().await {
            Err(error) => (Err(error), AfterAnswer::Stop),
            Ok(true) => (self.repeat_creation(fork.call).await, AfterAnswer::Continue),
            Ok(false) => {
                let definition = self.shared.definitions.intern(fork.definition.clone());
                let transition = fork.transition.clone();
                self.persist_first(transition, definition, &fork.named_workflows).await
            }
        }
    }

    /// Stores a purge, unless the execution has moved since it was prepared. Afterwards the actor ends, and forgets the
    /// values that it holds.
    async fn purge_inputs(&mut self, purge: &PreparedPurge) -> (Result<ActorAnswer>, AfterAnswer) {
        let live = match self.load_existing().await {
            Err(error) => return (Err(error), AfterAnswer::Stop),
            Ok(live) => live,
        };
        if live.durable.execution.revision() + 1 != purge.transition.row.revision {
            let error = Error::new(Code::RevisionConflict, "the execution has moved meanwhile");
            return (Err(self.with_execution_context(error)), AfterAnswer::Continue);
        }
        let (transition, past) = (purge.transition.clone(), Box::new(purge.past.clone()));
        let definition = live.durable.definition;
        let (answer, _) = self.persist(transition, definition, live.position, Some(past)).await;
        (answer, AfterAnswer::Stop)
    }

    /// Removes the execution. Afterwards the actor ends.
    async fn delete(&mut self) -> (Result<ActorAnswer>, AfterAnswer) {
        let deleted = async {
            let LiveExecution { durable, .. } = self.load_existing().await?;
            let execution = &durable.execution;
            let rows = self.shared.store.load_history(&self.id).await?;
            let deletion = Deletion {
                id: self.id.clone(),
                revision: execution.revision(),
                at: self.shared.clock.now(),
                fork_of: execution.origin().map(|origin| origin.execution_id.clone()),
                contents: find_row_contents(&rows)?,
            };
            self.shared.store.delete(deletion).await?;
            self.durable_sender.send_replace(None);
            Ok(ActorAnswer { durable, row: None, new_values: Values::new(), is_replayed: false })
        };
        let answer = deleted.await;
        (answer.map_err(|error| self.with_execution_context(error)), AfterAnswer::Stop)
    }

    /// Stores the first transition of a new execution, with its definition and the workflows that the definition names.
    async fn persist_first(
        &mut self,
        mut transition: Transition,
        definition: Arc<Definition>,
        named_workflows: &[Arc<Definition>],
    ) -> (Result<ActorAnswer>, AfterAnswer) {
        self.shared.definitions.share_pending_steps(&mut transition.execution);
        let definitions = named_workflows.iter().chain([&definition]);
        let encoded = definitions.map(|definition| (definition.digest(), definition.encode()));
        transition.contents.extend(encoded);
        self.persist(transition, definition, Position::default(), None).await
    }

    /// Takes up lost attempts again: the process that ran them has ended, or the execution was paused meanwhile. Runs
    /// after the reply to the caller has been sent.
    async fn recover_lost_attempts(&mut self) -> AfterAnswer {
        let Some(live) = &self.live else {
            return AfterAnswer::Continue;
        };
        let execution = &live.durable.execution;
        let is_worker = self.shared.runner.executors.is_worker;
        if !is_worker || self.missing_capability().is_some() {
            return AfterAnswer::Continue;
        }
        if execution.state() != State::Running || execution.is_imported() {
            self.is_recovered = false;
            return AfterAnswer::Continue;
        }
        // Attempts that begin from here on are started in this process, so one recovery is enough.
        if mem::replace(&mut self.is_recovered, true) {
            return AfterAnswer::Continue;
        }
        let in_flight = self.shared.runner.attempts_in_flight(&self.id);
        if let Err(error) =
            self.restart_child_waits(execution, &live.durable.definition, &in_flight).await
        {
            tracing::warn!(execution = %self.id, code = error.code().as_str(), "its children cannot be waited for now");
        }
        if execution.find_lost_attempts(self.owner, &in_flight).next().is_none() {
            return AfterAnswer::Continue;
        }
        let in_flight = Arc::new(in_flight);
        let (answer, after) =
            Box::pin(self.run_command(&Command::RecoverAttempts { live_attempts: in_flight }))
                .await;
        if let Err(error) = answer {
            tracing::warn!(execution = %self.id, code = error.code().as_str(), "what was in work cannot be taken up again now");
        }
        after
    }

    /// Begins again, under the same ids, the attempts that wait for a child and have no task in this process: after a
    /// restart, after a pause, or because the child was held back. A child that exists is only waited for.
    async fn restart_child_waits(
        &self,
        execution: &Execution,
        definition: &Definition,
        in_flight: &BTreeSet<AttemptId>,
    ) -> Result<()> {
        for (attempt_id, kind, input) in
            execution.child_attempts_without_task(definition, in_flight)
        {
            let input = match input {
                Some(digest) => self.shared.contents.value(digest).await?,
                None => None,
            };
            let missing_value_error =
                || Error::internal("a value that the execution names is gone");
            let input = input.ok_or_else(missing_value_error)?;
            let begin = AttemptRequest {
                attempt_id,
                step_kind: kind,
                input: RenderedValue::from_stored_json(&input)?,
                cursor: None,
                timeout: None,
            };
            Runner::carry_out_effect(&self.shared, &self.id, Effect::BeginAttempt(Box::new(begin)));
        }
        Ok(())
    }

    /// Schedules the next deadline of the execution. If the deadline has passed but its tick changed nothing, it is
    /// retried later, with backoff.
    fn plan_next_deadline(&self, is_stuck: bool) {
        let Some(live) = &self.live else {
            return;
        };
        let (deadlines, now) = (&self.shared.deadlines, self.shared.clock.now());
        let definition = &live.durable.definition;
        let due = live.durable.execution.deadline(definition);
        let due = due.filter(|_| self.missing_capability().is_none());
        if is_stuck && due.is_some_and(|due| due <= now) {
            deadlines.retry_later(&self.id, now);
        } else {
            deadlines.set(&self.id, due);
        }
    }

    async fn repeat_creation(&self, call: Digest) -> Result<ActorAnswer> {
        let revision = self.live()?.durable.execution.check_repeated_start(call)?;
        self.replay(revision).await
    }

    async fn run_command(&mut self, command: &Command) -> (Result<ActorAnswer>, AfterAnswer) {
        if let Err(error) = self.load_existing().await {
            return (Err(error), AfterAnswer::Stop);
        }
        // Timers are not applied while this process lacks an activity that the workflow names.
        let is_tick = matches!(command, Command::Tick);
        let missing = is_tick.then(|| self.missing_capability()).flatten();
        let decided = match missing {
            Some(activity) => {
                tracing::warn!(execution = %self.id, activity, "an open execution waits for a process that has its activity");
                self.live().map(|live| (Decision::NoChange, live.clone()))
            }
            None => self.decide(command).await,
        };
        match decided {
            Err(error) => (Err(error), AfterAnswer::Continue),
            Ok((Decision::Replay(revision), _)) => {
                (self.replay(revision).await, AfterAnswer::Continue)
            }
            Ok((Decision::NoChange, live)) => (
                Ok(ActorAnswer {
                    durable: live.durable,
                    row: None,
                    new_values: Values::new(),
                    is_replayed: false,
                }),
                AfterAnswer::Continue,
            ),
            Ok((Decision::Transition(transition), live)) => {
                self.persist(*transition, live.durable.definition, live.position, None).await
            }
            Ok((Decision::MissingValues(_), _)) => {
                let error = Error::internal("a decision still asks for values");
                (Err(self.with_execution_context(error)), AfterAnswer::Continue)
            }
        }
    }

    /// Decides, after looking up the values that the decision needs.
    async fn decide(&mut self, command: &Command) -> Result<(Decision, LiveExecution)> {
        let live = self.live()?.clone();
        let known_values = mem::take(&mut self.values).into();
        let mut lookup =
            ValueLookup::new(&self.shared, &self.id, live.last_row.as_deref(), known_values);
        let decision = self.decide_with(&mut lookup, &live, command).await;
        self.values = lookup.into_small_values();
        Ok((decision?, live))
    }

    async fn decide_with(
        &self,
        lookup: &mut ValueLookup<'_>,
        live: &LiveExecution,
        command: &Command,
    ) -> Result<Decision> {
        let definition = &live.durable.definition;
        let is_long = command.schema_checked_value();
        let is_long = is_long.is_some_and(|value| definition.is_slow_to_validate(value));
        let env = self.shared.environments.environment_of_project(live.durable.execution.project());
        loop {
            let values = &lookup.found_values.values;
            let decide = || {
                let owner = (&self.id, self.owner);
                let context = self.shared.build_context(owner, definition, values, &env);
                let now = self.shared.clock.now();
                live.durable.execution.decide(context, command, now, &*self.shared.ids)
            };
            let decision = run_decision(&self.shared, is_long, decide).await?;
            let Decision::MissingValues(needs) = decision else {
                return Ok(decision);
            };
            lookup.look_up(needs.into_iter().map(Into::into).collect()).await?;
            if !lookup.found_values.missing.is_empty() {
                return Err(Error::internal("a value that the execution names is gone"));
            }
        }
    }

    /// Commits the transition, then updates the state in memory, then starts the effects, and returns the answer.
    async fn persist(
        &mut self,
        transition: Transition,
        definition: Arc<Definition>,
        position: Position,
        past: Option<Box<PastChange>>,
    ) -> (Result<ActorAnswer>, AfterAnswer) {
        let Transition { execution: next, row, contents, refusal, effects, new_values: made } =
            transition;
        let (next, row) = (Arc::new(next), Arc::new(row));
        let commit = Commit {
            execution: next.clone(),
            row: row.clone(),
            contents,
            due: next.wake_at(&definition),
            position,
            past,
        };
        let committed = match self.shared.store.commit(commit).await {
            Ok(committed) => committed,
            Err(error) => {
                // After a conflict, or where another server owns the execution, nothing of the transition was stored.
                // After any other error it is treated as possibly stored.
                if !matches!(error.code(), Code::RevisionConflict | Code::ShardLost) {
                    self.shared.runner.keep_indeterminate(&self.id, effects);
                    let now = self.shared.clock.now();
                    self.shared.deadlines.retry_later(&self.id, now);
                }
                return (Err(self.with_execution_context(error)), AfterAnswer::Stop);
            }
        };
        if next.revision() == limits::EVENTS_WARNED {
            let events = limits::EVENTS_WARNED;
            tracing::warn!(execution = %self.id, events, "an execution has so many events that it is slow to read: a loop may belong into child workflows");
        }
        if next.parent().is_none() && next.is_over() {
            self.shared.removal_signals.count_ended();
        }
        let durable = DurableExecution { execution: next, definition };
        if self.values.len() >= limits::VALUES_KEPT_MAX {
            self.values = Values::new();
        }
        let new_values = made.iter().map(|(digest, value)| (*digest, value.clone()));
        self.values.extend(new_values);
        self.publish_state(LiveExecution {
            durable: durable.clone(),
            position: committed.position,
            last_row: Some(row.clone()),
        });
        for effect in effects {
            Runner::carry_out_effect(&self.shared, &self.id, effect);
        }
        let answer = match refusal {
            Some(refusal) => {
                Err(refusal.with_context("workflow_state", durable.execution.state().as_str()))
            }
            None => {
                Ok(ActorAnswer { durable, row: Some(row), new_values: made, is_replayed: false })
            }
        };
        (answer, AfterAnswer::Continue)
    }

    /// Repeats the answer of an earlier revision, with the execution as it was at that revision.
    async fn replay(&self, revision: u64) -> Result<ActorAnswer> {
        let live = self.live()?;
        self.shared.load_answer(live.durable.clone(), live.last_row.as_ref(), revision).await
    }

    /// The name of an activity that the workflow needs and this process lacks. Until a process that has it takes over,
    /// no attempt is started for the execution and no timer is applied to it.
    fn missing_capability(&self) -> Option<&str> {
        let definition = &self.live.as_ref()?.durable.definition;
        self.shared.runner.executors.missing_capability(definition)
    }

    /// Loads the execution from the store unless it is loaded already. Returns false if it does not exist.
    async fn load_execution(&mut self) -> Result<bool> {
        if self.live.is_some() {
            return Ok(true);
        }
        let Some(mut stored) = self.shared.store.load(&self.id).await? else {
            return Ok(false);
        };
        let definitions = &self.shared.definitions;
        let definition = definitions.get(stored.execution.definition()).await?;
        definitions.share_pending_steps(&mut stored.execution);
        let durable = DurableExecution { execution: Arc::new(stored.execution), definition };
        let has_orders = !durable.execution.is_over() && !durable.execution.orders().is_empty();
        let awaited_attempts = durable.execution.open_attempts().collect();
        self.is_recovered = false;
        Runner::reconcile(&self.shared, &self.id, &awaited_attempts);
        self.publish_state(LiveExecution { durable, position: stored.position, last_row: None });
        if has_orders {
            self.shared.runner.start_order_delivery(&self.shared, &self.id);
        }
        Ok(true)
    }

    /// The execution, which must exist.
    async fn load_existing(&mut self) -> Result<LiveExecution> {
        if self.load_execution().await? {
            return self.live().cloned();
        }
        Err(self.shared.not_found_error(&self.id).await)
    }

    /// Whether the execution exists already. Refuses an id that was deleted: a repeat of the call that started that
    /// execution must not start another one.
    async fn check_creation(&mut self) -> Result<bool> {
        if self.load_execution().await? {
            return Ok(true);
        }
        let error = self.shared.not_found_error(&self.id).await;
        if error.code() == Code::ExecutionNotFound { Ok(false) } else { Err(error) }
    }

    /// Adds to the error which execution it concerns, and the state of that execution before the command.
    fn with_execution_context(&self, error: Error) -> Error {
        match &self.live {
            Some(live) => live.durable.execution.with_execution_context(error),
            None => error.with_context("execution_id", self.id.as_str()),
        }
    }

    fn publish_state(&mut self, live: LiveExecution) {
        self.durable_sender.send_replace(Some(live.durable.clone()));
        self.shared.notifier.notify(&self.id);
        let held_back = self.shared.descendants.record_execution(&live.durable.execution);
        Runner::release_held_back_children(&self.shared, held_back);
        self.live = Some(live);
    }

    fn live(&self) -> Result<&LiveExecution> {
        self.live.as_ref().ok_or_else(|| Error::internal("the execution is not loaded"))
    }
}

/// Runs a decision. A long one must not hold up other tasks: it runs in `block_in_place` where the runtime allows it,
/// and at most [`limits::LONG_DECISIONS_MAX`] run at once.
async fn run_decision<T>(
    shared: &Shared,
    is_long: bool,
    decide: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if !is_long {
        return catch_decision_panic(decide);
    }
    // The semaphore is never closed, so a permit is always granted.
    let _permit = shared.long_decisions.acquire().await.ok();
    let runtime = tokio::runtime::Handle::current();
    if runtime.runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread {
        tokio::task::block_in_place(|| catch_decision_panic(decide))
    } else {
        catch_decision_panic(decide)
    }
}

/// Turns a panic in the domain into an error. The state has not changed.
fn catch_decision_panic<T>(decide: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(decide)).unwrap_or_else(|panic| {
        let panic_text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let panic_text =
            panic_text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(Error::internal(format!("the decision panicked: {panic_text}")))
    })
}
