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
    DurableExecution, Shared, execution_not_found,
    message::{ActorMessage, Answer},
    runner::Runner,
    value_lookup::ValueLookup,
};
use crate::store::{Commit, Position};
use midex_domain::{
    Command, Decision, Definition, Execution, ExecutionId, Row, State, Transition,
    error::{Code, Error, Result},
    execution::{AttemptId, BeginAttempt, Effect, Start, Values},
    expression::RenderedValue,
    limits,
};

/// The actor of one execution.
pub(super) struct ExecutionActor;

pub(super) struct Arguments {
    pub(super) id: ExecutionId,
    pub(super) shared: Arc<Shared>,
    pub(super) seen: watch::Sender<Option<DurableExecution>>,
}

pub(super) struct ActorState {
    id: ExecutionId,
    shared: Arc<Shared>,
    seen: watch::Sender<Option<DurableExecution>>,
    live: Option<LiveExecution>,
    /// Whether lost attempts were recovered since the execution was loaded, was last paused, or received
    /// [`Command::Recover`].
    is_recovered: bool,
    /// A cache of small values, which later decisions may need again.
    values: Values,
}

/// The execution as last made durable.
#[derive(Clone)]
struct LiveExecution {
    seen: DurableExecution,
    position: Position,
    /// The last row. A repeat of the last call is answered from it without a read.
    last: Option<Arc<Row>>,
}

/// Whether the actor may continue after an answer.
enum AfterAnswer {
    GoOn,
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
        let Arguments { id, shared, seen } = arguments;
        Ok(ActorState { id, shared, seen, live: None, is_recovered: false, values: Values::new() })
    }

    async fn handle(
        &self,
        myself: ActorRef<ActorMessage>,
        message: ActorMessage,
        state: &mut ActorState,
    ) -> Result<(), ActorProcessingErr> {
        let is_tick = message.is_tick();
        if let ActorMessage::Command { command: Command::Recover { .. }, .. } = &message {
            state.is_recovered = false;
        }
        // Each live actor keeps the memory of this future, so the large futures inside it are boxed.
        let (reply, (answer, after)) = match message {
            ActorMessage::Start { start, definition, named, reply } => {
                (reply, Box::pin(state.start(start, definition, &named)).await)
            }
            ActorMessage::Command { command, reply } => {
                (reply, Box::pin(state.run_command(&command)).await)
            }
        };
        let has_moved = matches!(&answer, Ok(Answer { row: Some(_), .. }));
        // Fails if the caller has gone away. The transition stands, and a repeat of the call gets the same answer.
        let _ = reply.send(answer);
        let after = match after {
            AfterAnswer::GoOn => state.recover().await,
            AfterAnswer::Stop => AfterAnswer::Stop,
        };
        if matches!(after, AfterAnswer::GoOn) {
            state.plan_next_deadline(is_tick && !has_moved);
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
                state.shared.store.checkpoint(live.seen.execution.clone(), live.position).await
        {
            tracing::debug!(execution = %state.id, %error, "no snapshot at the end; the journal has it all");
        }
        Ok(())
    }
}

impl ActorState {
    async fn start(
        &mut self,
        start: Start,
        definition: Arc<Definition>,
        named: &[Arc<Definition>],
    ) -> (Result<Answer>, AfterAnswer) {
        match self.load().await {
            Err(error) => (Err(error), AfterAnswer::Stop),
            Ok(true) => (self.repeat_start(&definition, &start).await, AfterAnswer::GoOn),
            Ok(false) => {
                let definition = self.shared.definitions.share(definition);
                let is_long = start.inputs.as_ref();
                let is_long = is_long.is_some_and(|inputs| definition.is_long(inputs));
                let env = self.shared.environments.environment_of_project(start.project.as_deref());
                let start = || {
                    let facts = self.shared.facts(&definition, &self.values, &env);
                    Execution::start(facts, start, self.shared.clock.now(), &*self.shared.ids)
                };
                let transition = run_decision(&self.shared, is_long, start).await;
                match transition {
                    Err(error) => (Err(error), AfterAnswer::Stop),
                    Ok(mut transition) => {
                        self.shared.definitions.share_pending(&mut transition.next);
                        let kept = named.iter().chain([&definition]);
                        let kept = kept.map(|kept| (kept.digest(), kept.encode()));
                        transition.contents.extend(kept);
                        self.persist(transition, definition, Position::default()).await
                    }
                }
            }
        }
    }

    /// Takes up lost attempts again: the process that ran them has ended, or the execution was paused meanwhile. Runs
    /// after the reply to the caller has been sent.
    async fn recover(&mut self) -> AfterAnswer {
        let Some(live) = &self.live else {
            return AfterAnswer::GoOn;
        };
        let execution = &live.seen.execution;
        let is_worker = self.shared.runner.executors.is_worker;
        if !is_worker || self.missing_capability().is_some() {
            return AfterAnswer::GoOn;
        }
        if execution.state() != State::Running {
            self.is_recovered = false;
            return AfterAnswer::GoOn;
        }
        // Attempts that begin from here on are started in this process, so one recovery is enough.
        if mem::replace(&mut self.is_recovered, true) {
            return AfterAnswer::GoOn;
        }
        let (owner, alive) = (self.shared.owner, self.shared.runner.attempts_in_flight(&self.id));
        if let Err(error) = self.restart_child_waits(execution, &live.seen.definition, &alive).await
        {
            tracing::warn!(execution = %self.id, code = error.code().as_str(), "its children cannot be waited for now");
        }
        if execution.lost_operations(owner, &alive).next().is_none() {
            return AfterAnswer::GoOn;
        }
        let alive = Arc::new(alive);
        let (answer, after) = Box::pin(self.run_command(&Command::Recover { alive })).await;
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
        alive: &BTreeSet<AttemptId>,
    ) -> Result<()> {
        for (attempt_id, kind, input) in execution.child_attempts_without_task(definition, alive) {
            let input = match input {
                Some(digest) => self.shared.contents.value(digest).await?,
                None => None,
            };
            let gone = || Error::internal("a value that the execution names is gone");
            let input = input.ok_or_else(gone)?;
            let begin = BeginAttempt {
                attempt_id,
                kind,
                input: RenderedValue::from_stored_json(&input)?,
                cursor: None,
                timeout: None,
            };
            Runner::carry_out_effect(&self.shared, &self.id, Effect::Begin(Box::new(begin)));
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
        let definition = &live.seen.definition;
        let due = live.seen.execution.deadline(definition);
        let due = due.filter(|_| self.missing_capability().is_none());
        if is_stuck && due.is_some_and(|due| due <= now) {
            deadlines.retry_later(&self.id, now);
        } else {
            deadlines.set(&self.id, due);
        }
    }

    async fn repeat_start(&self, definition: &Definition, start: &Start) -> Result<Answer> {
        let live = self.live()?;
        let revision = live.seen.execution.revision_of_repeated_start(definition, start)?;
        self.replay(revision).await
    }

    async fn run_command(&mut self, command: &Command) -> (Result<Answer>, AfterAnswer) {
        match self.load().await {
            Err(error) => return (Err(error), AfterAnswer::Stop),
            Ok(false) => return (Err(execution_not_found(&self.id)), AfterAnswer::Stop),
            Ok(true) => {}
        }
        // Timers are not applied while this process lacks an activity that the workflow names.
        let is_tick = matches!(command, Command::Tick);
        let missing = is_tick.then(|| self.missing_capability()).flatten();
        let decided = match missing {
            Some(activity) => {
                tracing::warn!(execution = %self.id, activity, "an open execution waits for a process that has its activity");
                self.live().map(|live| (Decision::Stay, live.clone()))
            }
            None => self.decide(command).await,
        };
        match decided {
            Err(error) => (Err(error), AfterAnswer::GoOn),
            Ok((Decision::Replay(revision), _)) => (self.replay(revision).await, AfterAnswer::GoOn),
            Ok((Decision::Stay, live)) => (
                Ok(Answer { seen: live.seen, row: None, made: Values::new(), replayed: false }),
                AfterAnswer::GoOn,
            ),
            Ok((Decision::Move(transition), live)) => {
                self.persist(*transition, live.seen.definition, live.position).await
            }
            Ok((Decision::Need(_), _)) => {
                let error = Error::internal("a decision still asks for values");
                (Err(self.with_execution_context(error)), AfterAnswer::GoOn)
            }
        }
    }

    /// Decides, after looking up the values that the decision needs.
    async fn decide(&mut self, command: &Command) -> Result<(Decision, LiveExecution)> {
        let live = self.live()?.clone();
        let found = mem::take(&mut self.values).into();
        let mut lookup = ValueLookup::new(&self.shared, &self.id, live.last.as_deref(), found);
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
        let definition = &live.seen.definition;
        let is_long = command.schema_checked_value();
        let is_long = is_long.is_some_and(|value| definition.is_long(value));
        let env = self.shared.environments.environment_of_project(live.seen.execution.project());
        loop {
            let decide = || {
                let facts = self.shared.facts(definition, &lookup.found.values, &env);
                let now = self.shared.clock.now();
                live.seen.execution.decide(facts, command, now, &*self.shared.ids)
            };
            let decision = run_decision(&self.shared, is_long, decide).await?;
            let Decision::Need(needs) = decision else {
                return Ok(decision);
            };
            lookup.look_up(needs.into_iter().map(Into::into).collect()).await?;
            if !lookup.found.gone.is_empty() {
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
    ) -> (Result<Answer>, AfterAnswer) {
        let Transition { next, row, contents, refusal, effects, made } = transition;
        let (next, row) = (Arc::new(next), Arc::new(row));
        let commit = Commit {
            next: next.clone(),
            row: row.clone(),
            contents,
            due: next.wake_at(&definition),
            position,
        };
        let committed = match self.shared.store.commit(commit).await {
            Ok(committed) => committed,
            Err(error) => {
                // After a conflict nothing of the transition was stored. After any other error it is treated as
                // possibly stored.
                if error.code() != Code::RevisionConflict {
                    self.shared.runner.keep_indeterminate(&self.id, effects);
                    let now = self.shared.clock.now();
                    self.shared.deadlines.retry_later(&self.id, now);
                }
                return (Err(self.with_execution_context(error)), AfterAnswer::Stop);
            }
        };
        let seen = DurableExecution { execution: next, definition };
        if self.values.len() >= limits::VALUES_KEPT_MAX {
            self.values = Values::new();
        }
        let kept = made.iter().map(|(digest, value)| (*digest, value.clone()));
        self.values.extend(kept);
        self.publish_state(LiveExecution {
            seen: seen.clone(),
            position: committed.position,
            last: Some(row.clone()),
        });
        for effect in effects {
            Runner::carry_out_effect(&self.shared, &self.id, effect);
        }
        let answer = match refusal {
            Some(refusal) => {
                Err(refusal.with_context("workflow_state", seen.execution.state().as_str()))
            }
            None => Ok(Answer { seen, row: Some(row), made, replayed: false }),
        };
        (answer, AfterAnswer::GoOn)
    }

    /// Repeats the answer of an earlier revision, with the execution as it was at that revision.
    async fn replay(&self, revision: u64) -> Result<Answer> {
        let mut seen = self.live()?.seen.clone();
        let row = match &self.live()?.last {
            Some(last) if last.revision == revision => Some(last.clone()),
            _ if seen.execution.revision() == revision => {
                let rows = self.shared.store.rows(&self.id, [revision].into());
                rows.await?.pop().map(Arc::new)
            }
            _ => {
                let mut rows = self.shared.store.history(&self.id).await?;
                rows.retain(|row| row.revision <= revision);
                let then = Execution::replay(&rows);
                seen.execution = then.map_or(seen.execution, Arc::new);
                rows.pop().map(Arc::new)
            }
        };
        let row =
            row.ok_or_else(|| Error::internal("a journal row that the execution names is gone"))?;
        Ok(Answer { seen, row: Some(row), made: Values::new(), replayed: true })
    }

    /// The name of an activity that the workflow needs and this process lacks. Until a process that has it takes over,
    /// no attempt is started for the execution and no timer is applied to it.
    fn missing_capability(&self) -> Option<&str> {
        let definition = &self.live.as_ref()?.seen.definition;
        self.shared.runner.executors.missing_capability(definition)
    }

    /// Loads the execution from the store unless it is loaded already. Returns false if it does not exist.
    async fn load(&mut self) -> Result<bool> {
        if self.live.is_some() {
            return Ok(true);
        }
        let Some(mut stored) = self.shared.store.load(&self.id).await? else {
            return Ok(false);
        };
        let definitions = &self.shared.definitions;
        let definition = definitions.get(stored.execution.definition()).await?;
        definitions.share_pending(&mut stored.execution);
        let seen = DurableExecution { execution: Arc::new(stored.execution), definition };
        let has_orders = !seen.execution.orders().is_empty();
        let awaited = seen.execution.open_attempts().collect();
        self.is_recovered = false;
        Runner::reconcile(&self.shared, &self.id, &awaited);
        self.publish_state(LiveExecution { seen, position: stored.position, last: None });
        if has_orders {
            self.shared.runner.start_order_delivery(&self.shared, &self.id);
        }
        Ok(true)
    }

    /// Adds to the error which execution it concerns, and the state of that execution before the command.
    fn with_execution_context(&self, error: Error) -> Error {
        match &self.live {
            Some(live) => live.seen.execution.with_execution_context(error),
            None => error.with_context("execution_id", self.id.as_str()),
        }
    }

    fn publish_state(&mut self, live: LiveExecution) {
        self.seen.send_replace(Some(live.seen.clone()));
        self.shared.notifier.notify(&self.id);
        let held_back = self.shared.descendants.record_execution(&live.seen.execution);
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
    let _turn = shared.long_decisions.acquire().await.ok();
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
        let what = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let what = what.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(Error::internal(format!("the decision panicked: {what}")))
    })
}
