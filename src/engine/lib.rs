#![doc = include_str!("README.md")]

pub mod activity;
mod actor;
mod attempt;
mod backup;
mod bundle;
mod children;
mod contents;
mod deadlines;
mod definitions;
mod descendants;
mod diff;
mod directory;
mod dispatch;
mod environments;
mod events;
mod examine;
mod execution;
mod fork;
mod fork_request;
mod history;
mod message;
mod notifier;
mod ownership;
mod peers;
mod prune;
mod purge;
mod reads;
mod removal;
mod report;
mod runner;
mod secrets;
mod start;
mod stats;
pub mod store;
mod supervisor;
mod turn;
mod value_lookup;
mod wake_failures;

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ractor::{Actor, ActorRef, rpc::CallResult};
use tokio::sync::{RwLock, Semaphore};
use tokio_util::sync::CancellationToken;

use self::{
    attempt::Executors,
    contents::Contents,
    deadlines::Deadlines,
    definitions::DefinitionInterner,
    descendants::Descendants,
    directory::ActorDirectory,
    message::{ActorAnswer, ActorMessage, MessageOrigin, ReplyPort},
    runner::Runner,
    supervisor::{Supervisor, SupervisorMessage},
    wake_failures::WakeFailures,
};
pub use self::{
    bundle::{ExportReport, ExportRequest, ImportedExecution, Redaction},
    children::{NoWorkflows, Workflows},
    environments::{EnvironmentVariables, Environments},
    events::ExecutionEvents,
    examine::{Examination, StuckExecution},
    fork_request::ForkRequest,
    notifier::{Listener, Notifier, Topic, TopicName},
    peers::{PeerAnswer, PeerCall, Peers},
    prune::{PrunePlan, PruneReport, PruneRule},
    purge::{PurgeReport, PurgeRequest},
    removal::{Cleanup, Retention},
    secrets::Secrets,
    start::StartRequest,
    stats::{LongExecution, StoreStats, WorkflowStats},
    turn::{LastTransition, TurnState},
};
use crate::{
    activity::{Activities, Middleware},
    store::{RefusedCall, Store, TelemetryEntry, TelemetryQuery},
};
use midex_domain::{
    Command, DecisionContext, Definition, Execution, ExecutionId, LifecycleAction, LifecycleChange,
    Token,
    clock::{Clock, IdSource},
    error::{Code, Error, Result},
    event::{OwnerEpoch, Parent},
    execution::{StartArguments, Submission, Values},
    label::check_labels,
    limits,
    operation::{NoOperations, Operations},
    view::{self, AdvanceReply, StatusView, ViewContext},
};

/// The configuration of an [`Engine`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Where executions are stored.
    pub store: Arc<dyn Store>,
    /// The source of the present time.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness for ids and tokens.
    pub ids: Arc<dyn IdSource>,
    /// How long a token lives.
    pub token_ttl: Duration,
    /// Flags that a person must add to a command line so that it reaches this engine, with a leading space. Empty if
    /// none are needed.
    pub command_flags: Arc<str>,
    /// How long an actor stays in memory without calls.
    pub idle_max: Duration,
    /// The environment variables that defaults of inputs and expressions may see.
    pub environments: Environments,
    /// The notifier of this engine. Listeners may subscribe to it before the engine exists.
    pub notifier: Notifier,
    /// Cancelled to refuse new calls and to end every wait. It may be cancelled before the engine exists.
    pub stopping: CancellationToken,
    /// The activities of this process, which steps may name.
    pub activities: Activities,
    /// What runs around every activity, the outermost first.
    pub middleware: Vec<Arc<dyn Middleware>>,
    /// The operations of external APIs, which steps may name.
    pub operations: Arc<dyn Operations>,
    /// Whether this process stays to run the server's work. If not, attempts are put off and no timers run: a process
    /// that ends after one call would cut them off.
    pub is_worker: bool,
    /// The secrets that server-side steps may be given. They are never shown.
    pub secrets: Secrets,
    /// Finds the definitions that child executions follow.
    pub workflows: Arc<dyn Workflows>,
    /// How many executions may be open below one root.
    pub descendants_open_max: usize,
    /// How long executions are kept after their end. `None`: for ever.
    pub retention: Option<Retention>,
    /// The other servers on the same store; `None` if there are none.
    pub peers: Option<Arc<dyn Peers>>,
}

impl Options {
    /// The default lifetimes and limits, with this store, clock and source of randomness.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, ids: Arc<dyn IdSource>) -> Self {
        Self {
            store,
            clock,
            ids,
            token_ttl: limits::TOKEN_TTL,
            command_flags: "".into(),
            idle_max: limits::IDLE_MAX,
            environments: Environments::default(),
            notifier: Notifier::default(),
            stopping: CancellationToken::new(),
            activities: Activities::default(),
            middleware: Vec::new(),
            operations: Arc::new(NoOperations),
            is_worker: true,
            secrets: Secrets::default(),
            workflows: Arc::new(NoWorkflows),
            descendants_open_max: limits::DESCENDANTS_OPEN_MAX,
            retention: None,
            peers: None,
        }
    }
}

/// The live executions of one store. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
    call_permits: Arc<Semaphore>,
}

/// The state that the engine's actors share.
pub(crate) struct Shared {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    token_ttl: Duration,
    command_flags: Arc<str>,
    idle_max: Duration,
    environments: Environments,
    definitions: DefinitionInterner,
    contents: Contents,
    directory: ActorDirectory,
    wake_failures: WakeFailures,
    notifier: Notifier,
    stopping: CancellationToken,
    is_stopped: AtomicBool,
    runner: Runner,
    peers: Option<Arc<dyn Peers>>,
    workflows: Arc<dyn Workflows>,
    deadlines: Deadlines,
    descendants: Arc<Descendants>,
    long_decisions: Semaphore,
    /// Held for writing by a purge or a deletion, of which one runs at a time, and for reading while a fork is prepared.
    removals: RwLock<()>,
    removal_signals: removal::RemovalSignals,
    /// Set once the supervisor has been spawned, because the supervisor itself holds this struct.
    supervisor: OnceLock<ActorRef<SupervisorMessage>>,
}

impl Shared {
    /// The execution with the definition that it follows.
    async fn add_definition(&self, execution: Arc<Execution>) -> Result<DurableExecution> {
        let definition = self.definitions.get(execution.definition()).await?;
        Ok(DurableExecution { execution, definition })
    }

    /// The execution as last made durable, without waiting for its beginning; `None` where the store does not hold it.
    async fn find_durable_execution(&self, id: &ExecutionId) -> Result<Option<Arc<Execution>>> {
        if let Some(durable) = self.directory.last_durable_state(id, &*self.store) {
            return Ok(Some(durable.execution));
        }
        let stored = self.store.load(id).await?;
        Ok(stored.map(|stored| Arc::new(stored.execution)))
    }

    /// The context of the decisions of the execution with this id, which follows `definition`.
    fn build_context<'a>(
        &'a self,
        (id, owner): (&ExecutionId, OwnerEpoch),
        definition: &'a Definition,
        values: &'a Values,
        env: &'a EnvironmentVariables,
    ) -> DecisionContext<'a> {
        DecisionContext {
            values,
            owner,
            env,
            secrets: self.runner.executors.secrets.names(),
            work: &self.runner.executors,
            postpones_work: self.store.is_leaving(id),
            ..DecisionContext::new(definition, self.token_ttl)
        }
    }
}

/// An execution as last made durable, with the definition it keeps.
#[derive(Clone, Debug)]
pub struct DurableExecution {
    /// The execution.
    pub execution: Arc<Execution>,
    /// The definition.
    pub definition: Arc<Definition>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Engine({} awake)", self.shared.directory.len())
    }
}

impl Engine {
    /// Starts an engine. It must be ended with [`Engine::stop`].
    pub async fn new(options: Options) -> Result<Self> {
        resume_clock_after_setback(&*options.store, &*options.clock).await;
        let shared = Arc::new(Shared {
            definitions: DefinitionInterner::new(options.store.clone()),
            contents: Contents::new(options.store.clone()),
            store: options.store,
            clock: options.clock,
            ids: options.ids,
            token_ttl: options.token_ttl,
            command_flags: options.command_flags,
            idle_max: options.idle_max,
            environments: options.environments,
            directory: ActorDirectory::default(),
            wake_failures: WakeFailures::default(),
            notifier: options.notifier,
            stopping: options.stopping,
            is_stopped: AtomicBool::new(false),
            runner: Runner::new(Executors {
                activities: options.activities,
                middleware: options.middleware,
                operations: options.operations,
                secrets: options.secrets,
                is_worker: options.is_worker,
            }),
            peers: options.peers,
            workflows: options.workflows,
            deadlines: Deadlines::default(),
            descendants: Arc::new(Descendants::new(options.descendants_open_max)),
            long_decisions: Semaphore::new(limits::LONG_DECISIONS_MAX),
            removals: RwLock::default(),
            removal_signals: removal::RemovalSignals::default(),
            supervisor: OnceLock::new(),
        });
        // Unnamed: names are global to the process, and a process may hold several engines.
        let (supervisor, _) =
            Actor::spawn(None, Supervisor, shared.clone()).await.map_err(|error| {
                Error::internal(format!("the supervisor could not be started: {error}"))
            })?;
        // This is the only place that sets it, so `set` cannot fail.
        let _ = shared.supervisor.set(supervisor);
        tokio::spawn(ownership::follow_other_servers(shared.clone()));
        if options.is_worker {
            tokio::spawn(deadlines::serve_deadlines(shared.clone()));
            tokio::spawn(deadlines::schedule_stored_deadlines(shared.clone()));
            tokio::spawn(ownership::follow_ownership(shared.clone()));
        }
        let engine = Self::from_shared(shared);
        if options.is_worker {
            removal::spawn_services(&engine, options.retention);
        }
        Ok(engine)
    }

    fn from_shared(shared: Arc<Shared>) -> Self {
        let admission = Arc::new(Semaphore::new(limits::CALLS_IN_FLIGHT_MAX));
        Self { shared, call_permits: admission }
    }

    /// Starts an execution and answers with its first step.
    ///
    /// # Errors
    /// `INPUTS_INVALID`, `EXECUTION_ID_TAKEN`, `LIMIT_EXCEEDED`, `STORE_UNAVAILABLE`, `SERVER_STOPPING`.
    pub async fn start(&self, request: StartRequest) -> Result<AdvanceReply> {
        self.shared.removal_signals.wait_for_retention().await;
        self.start_as_child(request, None).await
    }

    /// Starts an execution, as a child if `parent` is given.
    async fn start_as_child(
        &self,
        request: StartRequest,
        parent: Option<Parent>,
    ) -> Result<AdvanceReply> {
        let StartRequest { definition, execution_id, project, inputs, lookup, is_paced, labels } =
            request;
        let mut all_labels = definition.workflow.labels.clone();
        all_labels.extend(labels.clone());
        check_labels(&all_labels)?;
        let id = execution_id.clone().unwrap_or_else(|| self.shared.generate_id());
        let has_requested_id = execution_id.is_some();
        let defaults = self
            .load_default_sources(&definition.workflow, inputs.as_ref(), project.as_deref())
            .await?;
        let (lookup, named_workflows) = self.resolve_named_definitions(&definition, lookup).await;
        let start = StartArguments {
            id: id.clone(),
            project,
            inputs,
            defaults,
            parent: parent.map(Box::new),
            lookup,
            is_paced,
            labels,
        };
        let message = |reply| ActorMessage::Start {
            start: Box::new(start.clone()),
            definition: definition.clone(),
            named_workflows: named_workflows.clone(),
            reply,
        };
        let answer = match self.send_message(&id, message).await {
            // The start may have been stored. A second call under the same id gets the answer of the first. The caller
            // may not know the id, and could only start another execution.
            Err(error) if error.code() == Code::StoreUnavailable => {
                self.send_message(&id, message).await
            }
            answer => answer,
        };
        // The id is named in the error if the caller gave it, or if the execution may exist. Otherwise it refers to
        // nothing.
        let add_execution_id = |error: Error| {
            let is_id_known = has_requested_id || error.code() == Code::StoreUnavailable;
            if is_id_known { error.with_context("execution_id", id.as_str()) } else { error }
        };
        self.build_advanced_reply(answer.map_err(add_execution_id)?).await
    }

    /// Finishes a step and answers with what follows.
    ///
    /// # Errors
    /// Every refusal of a token has its own code; `STEP_OUTPUT_INVALID`, `EXECUTION_PAUSED`,
    /// `LIMIT_EXCEEDED`, `STORE_UNAVAILABLE`, `SERVER_STOPPING`. A refused call changes nothing, save
    /// that refused outputs are counted.
    pub async fn advance(
        &self,
        token: &str,
        submission: impl Into<Submission>,
    ) -> Result<AdvanceReply> {
        let answer = self.send_submission(token, submission.into()).await?;
        self.build_advanced_reply(answer).await
    }

    async fn send_submission(&self, token: &str, submission: Submission) -> Result<ActorAnswer> {
        let parsed = Token::parse(token);
        let result = match &parsed {
            Ok(token) => self.send_parsed_submission(token, submission).await,
            Err(error) => Err(error.clone()),
        };
        result.inspect_err(|error| self.record_refusal(parsed.as_ref().ok(), error))
    }

    async fn send_parsed_submission(
        &self,
        token: &Token,
        submission: Submission,
    ) -> Result<ActorAnswer> {
        let id = &token.execution_id;
        let command = Command::Advance { token: token.clone(), submission: Arc::new(submission) };
        match self.send_command(id, command).await {
            // Refusals have an order: a token from the future is refused as such, even if its execution does not exist.
            Err(error) if error.code().is_missing_execution() => {
                let future = token.check_not_from_future(self.shared.clock.now());
                future?;
                Err(error)
            }
            answer => answer,
        }
    }

    /// Applies a command to an execution, and returns its status afterwards. A signal that no step waits for is kept
    /// until one does. A person's answer to a gate is noted while the execution is paused on request, and takes effect
    /// at the resume.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND`, `EXECUTION_FINISHED`, `LIMIT_EXCEEDED`, and those of the command:
    /// `STATE_TRANSITION_REFUSED` where the seven states do not allow a change, `EXECUTION_PAUSED` where a resume does
    /// not lift the pause, `GATE_NOT_OPEN`, `GATE_CHANGED` where the gate changed after it was shown to the person,
    /// `OUTCOME_KNOWN` where no outcome is missing, `STEP_OUTPUT_INVALID`.
    pub async fn apply_command(
        &self,
        id: &ExecutionId,
        command: impl Into<Command>,
    ) -> Result<StatusView> {
        let command = command.into();
        if let Command::ChangeState(LifecycleChange { action: LifecycleAction::Resume, .. }) =
            &command
            && self.shared.wake_failures.reset_if_faulted(id)
            && let Some(status) = self.retry_wake(id).await?
        {
            return Ok(status);
        }
        let durable = self.send_command(id, command).await?.durable;
        self.build_status(&durable).await
    }

    async fn send_command(&self, id: &ExecutionId, command: Command) -> Result<ActorAnswer> {
        let message = |reply| ActorMessage::Command { command: command.clone(), reply };
        self.send_message(id, message).await
    }

    /// Tries again to wake an execution that could not be woken. Returns its status if it is not paused for another
    /// reason, else `None`: the resume must then still be sent.
    async fn retry_wake(&self, id: &ExecutionId) -> Result<Option<StatusView>> {
        let durable = self.send_command(id, Command::RenewTokens).await?.durable;
        if durable.execution.pauses().is_empty() {
            return self.build_status(&durable).await.map(Some);
        }
        Ok(None)
    }

    /// Makes executions that wait for a catalog look for it again. Must be called after the set of catalogs has
    /// changed.
    ///
    /// # Errors
    /// Those of the store. Nothing is lost then, because the next start of an engine looks as well.
    pub async fn look_for_catalogs(&self) -> Result<()> {
        deadlines::schedule_catalog_waiters(&self.shared).await
    }

    /// How many actors are awake.
    pub fn awake_count(&self) -> usize {
        self.shared.directory.len()
    }

    /// Refuses new calls and ends every wait, so that waiting callers still get an answer. [`Engine::stop`] does the
    /// rest.
    pub fn begin_stop(&self) {
        self.shared.stopping.cancel();
    }

    /// Refuses new calls, waits a limited time for the server's own work, lets every actor answer its queued messages,
    /// and closes the store. A second stop does nothing more.
    pub async fn stop(&self) -> Result<()> {
        self.begin_stop();
        if !self.shared.is_stopped.swap(true, Ordering::AcqRel) {
            self.shared.runner.stop().await;
            self.stop_actors().await;
        }
        self.shared.store.close().await
    }

    async fn stop_actors(&self) {
        let Some(supervisor) = self.shared.supervisor.get() else {
            return;
        };
        let drained = supervisor.call(SupervisorMessage::Drain, Some(limits::DRAIN_MAX)).await;
        if !matches!(drained, Ok(CallResult::Success(()))) {
            tracing::warn!(
                "some executions were still busy at the end; nothing acknowledged is lost"
            );
        }
        supervisor.stop(None);
    }

    async fn send_message(
        &self,
        id: &ExecutionId,
        message: impl Fn(ReplyPort) -> ActorMessage,
    ) -> Result<ActorAnswer> {
        let _permit = self.call_permits.acquire().await.map_err(|_| server_stopping_error())?;
        self.shared.dispatch(id, MessageOrigin::External, message).await
    }

    async fn build_advanced_reply(&self, answer: ActorAnswer) -> Result<AdvanceReply> {
        let ActorAnswer { durable: seen, row: Some(row), new_values: made, is_replayed: replayed } =
            answer
        else {
            return Err(missing_row_error());
        };
        let advanced =
            |subject: &ViewContext<'_>| view::build_advance_reply(subject, &row, replayed);
        self.build_view_with_values(made.into(), &seen, Some(&row), advanced).await
    }

    /// Records a refused call in telemetry, unless its error is retryable. An output that its schema refuses is counted
    /// by its execution instead.
    fn record_refusal(&self, token: Option<&Token>, error: &Error) {
        if error.code().retryable() || error.code() == Code::StepOutputInvalid {
            return;
        }
        let is_execution_known =
            !error.code().is_missing_execution() && error.context("workflow_state").is_some();
        self.shared.store.note_refusal(RefusedCall {
            at: self.shared.clock.now(),
            execution_id: token
                .filter(|_| is_execution_known)
                .map(|token| token.execution_id.clone()),
            step: token.filter(|_| is_execution_known).map(|token| token.step_name.clone()),
            code: error.code().as_str().into(),
            message: refusal_text(error).into(),
        });
    }
}

/// If the machine's clock was set back, by at most [`limits::CLOCK_JUMP_MAX`], time continues from the latest entry of
/// the store, so that deadlines are not delayed by the difference.
async fn resume_clock_after_setback(store: &dyn Store, clock: &dyn Clock) {
    let query = TelemetryQuery { limit: 1, ..TelemetryQuery::default() };
    let latest_entry = store.load_telemetry(query).await.unwrap_or_default().pop();
    let stored_time = match latest_entry {
        Some((_, TelemetryEntry::Transition(row))) => row.at,
        Some((_, TelemetryEntry::Refusal(refusal))) => refusal.at,
        None => return,
    };
    let lag = stored_time.since(clock.now());
    if !lag.is_zero() && lag <= limits::CLOCK_JUMP_MAX {
        tracing::warn!(?lag, "the clock was set back: time goes on from what is stored");
    }
    clock.advance_to(stored_time);
}

/// The text of a refusal for telemetry. The reason of a pause is left out, because only the execution's status shows
/// it.
fn refusal_text(error: &Error) -> &str {
    match error.code() {
        Code::ExecutionPaused => "the execution is paused",
        _ => error.message(),
    }
}

/// The refusal of a call whose execution does not exist.
pub(crate) fn execution_not_found(id: &ExecutionId) -> Error {
    Error::new(Code::ExecutionNotFound, format!("Execution '{id}' not found"))
        .with_context("asked", id.as_str())
}

fn missing_row_error() -> Error {
    Error::internal("a transition was answered without its row")
}

/// `SERVER_STOPPING`: the error of a call once the server shuts down.
pub fn server_stopping_error() -> Error {
    Error::new(Code::ServerStopping, "the server is shutting down")
}
