#![doc = include_str!("README.md")]

pub mod activity;
mod actor;
mod attempt;
mod children;
mod contents;
mod deadlines;
mod definitions;
mod descendants;
mod directory;
mod dispatch;
mod environments;
mod examine;
mod faults;
mod message;
mod notifier;
mod reads;
mod report;
mod runner;
mod secrets;
pub mod store;
mod supervisor;

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ractor::{Actor, ActorRef, rpc::CallResult};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::{
    attempt::Executors,
    contents::Contents,
    deadlines::Deadlines,
    definitions::Definitions,
    descendants::Descendants,
    directory::Directory,
    faults::Faults,
    message::{Answer, Message, Origin, Reply},
    runner::Runner,
    supervisor::{Supervisor, SupervisorMessage},
};
pub use self::{
    children::{NoWorkflows, Workflows},
    environments::{Environment, Environments},
    examine::{Examination, Stuck},
    notifier::{Listener, Name, Notifier, Topic},
    secrets::Secrets,
};
use crate::{
    activity::Activities,
    store::{Entry, Refusal, Store, TelemetryQuery},
};
use midex_domain::operation::{NoOperations, Operations};
use midex_domain::{
    Change, Command, Definition, Execution, ExecutionId, Facts, Lifecycle, Lookup, Token,
    clock::{Clock, IdSource},
    error::{Code, Error, Result},
    event::{Owner, Parent},
    execution::{Start, Submission, Values},
    limits,
    view::{self, Advanced, Found, StatusView, Subject},
};

/// What an engine is made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where executions live.
    pub store: Arc<dyn Store>,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where randomness comes from.
    pub ids: Arc<dyn IdSource>,
    /// How long a token lives.
    pub token_ttl: Duration,
    /// What a person adds to a command that is to reach this engine, after a blank; empty where nothing is needed.
    pub command_flags: Arc<str>,
    /// How long an actor that nobody asks for stays awake.
    pub idle_max: Duration,
    /// The environment variables that defaults of inputs and expressions may see.
    pub environments: Environments,
    /// Who listens to executions: they may have begun before there was an engine.
    pub notifier: Notifier,
    /// Cancelled to refuse new calls and to end every wait, be it before there was an engine.
    pub stopping: CancellationToken,
    /// The work of this process that steps may ask for.
    pub activities: Activities,
    /// The operations of others that steps may ask for.
    pub operations: Arc<dyn Operations>,
    /// Whether this process stays to do the work of the server. If not, attempts are put off, and time moves nothing: a
    /// process that ends after one call would cut them off.
    pub is_worker: bool,
    /// What steps of the server may be given and nobody may see.
    pub secrets: Secrets,
    /// The definitions that children follow.
    pub workflows: Arc<dyn Workflows>,
    /// How many executions may be open below one root.
    pub descendants_open_max: usize,
}

impl Options {
    /// The usual life of tokens and actors, on this store, clock and randomness.
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
            operations: Arc::new(NoOperations),
            is_worker: true,
            secrets: Secrets::default(),
            workflows: Arc::new(NoWorkflows),
            descendants_open_max: limits::DESCENDANTS_OPEN_MAX,
        }
    }
}

/// What a start asks for.
#[derive(Clone, Debug)]
pub struct StartRequest {
    /// The definition that the execution will keep.
    pub definition: Arc<Definition>,
    /// The id it shall have; a fresh one where `None`.
    pub execution_id: Option<ExecutionId>,
    /// The project it is started for.
    pub project: Option<String>,
    /// Its inputs: an object.
    pub inputs: Option<Value>,
    /// Where it looks up the workflows that its definition names; among the workflows of this process where `None`.
    pub lookup: Option<Lookup>,
}

/// The executions of one store, alive. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
    admission: Arc<Semaphore>,
}

/// What the engine's actors share.
pub(crate) struct Shared {
    store: Arc<dyn Store>,
    owner: Owner,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    token_ttl: Duration,
    command_flags: Arc<str>,
    idle_max: Duration,
    environments: Environments,
    definitions: Definitions,
    contents: Contents,
    directory: Directory,
    faults: Faults,
    notifier: Notifier,
    stopping: CancellationToken,
    stopped: AtomicBool,
    runner: Runner,
    workflows: Arc<dyn Workflows>,
    deadlines: Deadlines,
    descendants: Arc<Descendants>,
    long_decisions: Semaphore,
    /// Set as soon as it is there: it shares this too.
    supervisor: OnceLock<ActorRef<SupervisorMessage>>,
}

impl Shared {
    /// What decisions may look at besides the execution.
    fn facts<'a>(
        &'a self,
        definition: &'a Definition,
        values: &'a Values,
        env: &'a Environment,
    ) -> Facts<'a> {
        Facts {
            values,
            owner: self.owner,
            env,
            secrets: self.runner.executors.secrets.names(),
            safety: &self.runner.executors,
            ..Facts::new(definition, self.token_ttl)
        }
    }
}

/// An execution as last made durable, with the definition it keeps.
#[derive(Clone, Debug)]
pub struct Seen {
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
        go_on(&*options.store, &*options.clock).await;
        let shared = Arc::new(Shared {
            definitions: Definitions::new(options.store.clone()),
            contents: Contents::new(options.store.clone()),
            owner: options.store.owner(),
            store: options.store,
            clock: options.clock,
            ids: options.ids,
            token_ttl: options.token_ttl,
            command_flags: options.command_flags,
            idle_max: options.idle_max,
            environments: options.environments,
            directory: Directory::default(),
            faults: Faults::default(),
            notifier: options.notifier,
            stopping: options.stopping,
            stopped: AtomicBool::new(false),
            runner: Runner::new(Executors {
                activities: options.activities,
                operations: options.operations,
                secrets: options.secrets,
                is_worker: options.is_worker,
            }),
            workflows: options.workflows,
            deadlines: Deadlines::default(),
            descendants: Arc::new(Descendants::new(options.descendants_open_max)),
            long_decisions: Semaphore::new(limits::LONG_DECISIONS_MAX),
            supervisor: OnceLock::new(),
        });
        // Unnamed: names are global to the process, and a process may hold several engines.
        let (supervisor, _) = Actor::spawn(None, Supervisor, shared.clone())
            .await
            .map_err(|error| {
                Error::internal(format!("the supervisor could not be started: {error}"))
            })?;
        // Set here alone, and nobody had it before.
        let _ = shared.supervisor.set(supervisor);
        if options.is_worker {
            tokio::spawn(deadlines::serve(shared.clone()));
            tokio::spawn(deadlines::find(shared.clone()));
        }
        Ok(Self::of(shared))
    }

    fn of(shared: Arc<Shared>) -> Self {
        let admission = Arc::new(Semaphore::new(limits::CALLS_IN_FLIGHT_MAX));
        Self { shared, admission }
    }

    /// Starts an execution and answers with its first step.
    ///
    /// # Errors
    /// `INPUTS_INVALID`, `EXECUTION_ID_TAKEN`, `LIMIT_EXCEEDED`, `STORE_UNAVAILABLE`, `SERVER_STOPPING`.
    pub async fn start(&self, request: StartRequest) -> Result<Advanced> {
        self.start_below(request, None).await
    }

    /// The same for a child of another execution.
    async fn start_below(&self, request: StartRequest, parent: Option<Parent>) -> Result<Advanced> {
        let StartRequest {
            definition,
            execution_id,
            project,
            inputs,
            lookup,
        } = request;
        let now = self.shared.clock.now();
        let id = execution_id
            .clone()
            .unwrap_or_else(|| ExecutionId::generate(now, &*self.shared.ids));
        let given = execution_id.is_some();
        let defaults = self
            .defaults(&definition.workflow, inputs.as_ref(), project.as_deref())
            .await?;
        let (lookup, named) = self.with_named(&definition, lookup).await;
        let start = Start {
            id: id.clone(),
            project,
            inputs,
            defaults,
            parent: parent.map(Box::new),
            lookup,
        };
        let message = |reply| Message::Start {
            start: start.clone(),
            definition: definition.clone(),
            named: named.clone(),
            reply,
        };
        let answer = match self.call(&id, message).await {
            // It may have been stored. Tried again under the same id it is answered as the first time; the
            // origin, who may not know the id, could only start another.
            Err(error) if error.code() == Code::StoreUnavailable => self.call(&id, message).await,
            answer => answer,
        };
        // An id that the origin does not know names nothing, unless something may have come of it.
        let named = |error: Error| {
            let known = given || error.code() == Code::StoreUnavailable;
            if known {
                error.with("execution_id", id.as_str())
            } else {
                error
            }
        };
        self.advanced(answer.map_err(named)?).await
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
    ) -> Result<Advanced> {
        let parsed = Token::parse(token);
        let result = match &parsed {
            Ok(token) => self.advance_with(token, submission.into()).await,
            Err(error) => Err(error.clone()),
        };
        result.inspect_err(|error| self.note(parsed.as_ref().ok(), error))
    }

    async fn advance_with(&self, token: &Token, submission: Submission) -> Result<Advanced> {
        let id = &token.execution_id;
        let command = Command::Advance {
            token: token.clone(),
            submission: Arc::new(submission),
        };
        match self.send(id, command).await {
            // The order of refusals: a token from the future is that first, and of nobody second.
            Err(error) if error.code() == Code::ExecutionNotFound => {
                let future = token.check_not_from_future(self.shared.clock.now());
                future?;
                Err(error)
            }
            answer => self.advanced(answer?).await,
        }
    }

    /// Moves an execution, and answers with where it stands then. A signal that nothing waits for is kept until something
    /// does; a person's answer to a gate is noted while somebody keeps the execution paused, and takes effect with the
    /// resume.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND`, `EXECUTION_FINISHED`, `LIMIT_EXCEEDED`, and those of the command: `STATE_TRANSITION_REFUSED`
    /// where the seven states do not allow a change, `EXECUTION_PAUSED` where something else than a resume lifts the
    /// pause, `GATE_NOT_OPEN`, `GATE_CHANGED` where the person was shown something else than what is asked,
    /// `OUTCOME_KNOWN` where nobody needs to know, `STEP_OUTPUT_INVALID`.
    pub async fn command(
        &self,
        id: &ExecutionId,
        command: impl Into<Command>,
    ) -> Result<StatusView> {
        let command = command.into();
        if let Command::Change(Change {
            lifecycle: Lifecycle::Resume,
            ..
        }) = &command
            && self.shared.faults.forgive(id)
            && let Some(status) = self.wake(id).await?
        {
            return Ok(status);
        }
        let seen = self.send(id, command).await?.seen;
        self.status_of(&seen).await
    }

    async fn send(&self, id: &ExecutionId, command: Command) -> Result<Answer> {
        let message = |reply| Message::Command {
            command: command.clone(),
            reply,
        };
        self.call(id, message).await
    }

    /// Tries once more to wake what could not be woken; its status where that was all that kept it from going on.
    async fn wake(&self, id: &ExecutionId) -> Result<Option<StatusView>> {
        let seen = self.send(id, Command::RenewTokens).await?.seen;
        if seen.execution.pauses().is_empty() {
            return self.status_of(&seen).await.map(Some);
        }
        Ok(None)
    }

    /// Lets what waits for a catalog look for it again. Whoever changes what catalogs there are calls it.
    ///
    /// # Errors
    /// Those of the store; nothing is lost then, for a start looks too.
    pub async fn look_for_catalogs(&self) -> Result<()> {
        deadlines::look_again(&self.shared).await
    }

    /// How many actors are awake.
    pub fn awake(&self) -> usize {
        self.shared.directory.len()
    }

    /// Refuses new calls and ends every wait, so that whoever waits is still answered; the rest is [`Engine::stop`].
    pub fn begin_stop(&self) {
        self.shared.stopping.cancel();
    }

    /// Refuses new calls, lets what the server does itself come to its end for a while and every actor finish what it was
    /// asked, and closes the store. A second stop does nothing more.
    pub async fn stop(&self) -> Result<()> {
        self.begin_stop();
        if !self.shared.stopped.swap(true, Ordering::AcqRel) {
            self.shared.runner.stop().await;
            self.send_away().await;
        }
        self.shared.store.close().await
    }

    async fn send_away(&self) {
        let Some(supervisor) = self.shared.supervisor.get() else {
            return;
        };
        let drained = supervisor
            .call(SupervisorMessage::Drain, Some(limits::DRAIN_MAX))
            .await;
        if !matches!(drained, Ok(CallResult::Success(()))) {
            tracing::warn!(
                "some executions were still busy at the end; nothing acknowledged is lost"
            );
        }
        supervisor.stop(None);
    }

    async fn call(&self, id: &ExecutionId, message: impl Fn(Reply) -> Message) -> Result<Answer> {
        let _permit = self.admission.acquire().await.map_err(|_| stopping())?;
        self.shared.dispatch(id, Origin::Outside, message).await
    }

    async fn advanced(&self, answer: Answer) -> Result<Advanced> {
        let Answer {
            seen,
            row: Some(row),
            made,
            replayed,
        } = answer
        else {
            return Err(no_row());
        };
        let advanced = |subject: &Subject<'_>| view::advanced(subject, &row, replayed);
        self.view_with(Found::with(made), &seen, Some(&row), advanced)
            .await
    }

    /// Counts a refused call in telemetry. An output that its schema refuses is counted by its execution.
    fn note(&self, token: Option<&Token>, error: &Error) {
        if error.code().retryable() || error.code() == Code::StepOutputInvalid {
            return;
        }
        let known =
            error.code() != Code::ExecutionNotFound && error.context("workflow_state").is_some();
        self.shared.store.note(Refusal {
            at: self.shared.clock.now(),
            execution_id: token
                .filter(|_| known)
                .map(|token| token.execution_id.clone()),
            step: token.filter(|_| known).map(|token| token.step_name.clone()),
            code: error.code().as_str().into(),
            message: refusal_words(error).into(),
        });
    }
}

/// Where the machine's clock has been set back since, time goes on from the last thing that the store knows: what is due
/// is not delayed by as much.
async fn go_on(store: &dyn Store, clock: &dyn Clock) {
    let last = TelemetryQuery {
        limit: 1,
        ..TelemetryQuery::default()
    };
    let last = store.telemetry(last).await.unwrap_or_default().pop();
    let told = match last {
        Some((_, Entry::Transition(row))) => row.at,
        Some((_, Entry::Refusal(refusal))) => refusal.at,
        None => return,
    };
    let behind = told.since(clock.now());
    if !behind.is_zero() && behind <= limits::CLOCK_JUMP_MAX {
        tracing::warn!(
            ?behind,
            "the clock was set back: time goes on from what is stored"
        );
    }
    clock.advance_to(told);
}

/// A refusal in telemetry's words: why somebody paused an execution is shown in its status alone.
fn refusal_words(error: &Error) -> &str {
    match error.code() {
        Code::ExecutionPaused => "the execution is paused",
        _ => error.message(),
    }
}

/// The refusal of a call that names no execution.
pub(crate) fn not_found(id: &ExecutionId) -> Error {
    Error::new(
        Code::ExecutionNotFound,
        format!("Execution '{id}' not found"),
    )
    .with("asked", id.as_str())
}

fn no_row() -> Error {
    Error::internal("a transition was answered without its row")
}

/// `SERVER_STOPPING`: what a call gets once the server shuts down.
pub fn stopping() -> Error {
    Error::new(Code::ServerStopping, "the server is shutting down")
}
