//! The use cases that every face shares. Opens everything and owns the shutdown.

mod author;
#[cfg(feature = "catalog")]
mod catalog;
#[cfg(feature = "catalog")]
mod command;
mod list;
mod open;
mod options;
mod trust;
mod workflows;
mod write;

use std::{collections::BTreeSet, fmt, path::Path, sync::Arc, time::Duration};

use serde_json::Value;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit, watch};
use tokio_util::sync::CancellationToken;

pub use self::{
    author::{Plan, Ran, Resolved, Subject},
    list::ListRequest,
    open::{Verified, verify},
    options::Options,
    write::{Reference, Referred},
};
#[cfg(feature = "catalog")]
pub use self::{
    catalog::{Break, SourceType},
    command::{Command as CommandMeant, CommandCall, WORKFLOW as WORKFLOW_COMMAND},
};
use self::{
    list::{ALL_PROJECTS, OPEN},
    open::Slot,
    workflows::DefinitionCache,
};
use crate::config::{Authoring, Config};
#[cfg(feature = "catalog")]
use midex_catalog::{By, Catalogs};
use midex_domain::{
    Change, Command, Definition, ExecutionId, Lifecycle, Lookup, PauseReason, State, StepId,
    check::Abilities,
    clock::{Clock, IdSource, Timestamp},
    error::{Code, Error, NextCall, Result, address, read},
    execution::Submission,
    limits,
    nearest::nearest,
    telemetry::EventType,
    view::{
        Advanced, ArtifactContent, ArtifactView, CurrentStep, GraphView, HistoryRow, Listing,
        Reader, Resumed, StatusView, TelemetryEvent, WaitView,
    },
};
use midex_engine::{Environment, Environments, StartRequest};
pub use midex_engine::{
    Examination, Listener, Name, Notifier, Topic,
    store::{DAMAGED as STORE_DAMAGED, FILE_NAME as STORE_FILE, OwnedDirectory, Reached},
};
use midex_folder::Folder;
use midex_registry::{Definitions, Registry};

pub use midex_engine::store::{busy, holder};

/// A running midex as one of its callers has it: the caller's project and definitions, and the one engine that
/// all callers share. Cheap to clone.
#[derive(Clone)]
pub struct App {
    host: Arc<Host>,
    definitions: Arc<Definitions>,
    lookup: Arc<Lookup>,
    project_dir: Arc<Path>,
    authoring: Option<Arc<Authoring>>,
    environment: Arc<Environment>,
    #[cfg(feature = "catalog")]
    by: By,
}

/// What all callers share.
struct Host {
    options: Options,
    /// Whether a call may open the store.
    opens_itself: bool,
    engine: Mutex<Slot>,
    /// Whether the last try to open the store succeeded; nothing before the first one.
    opened: watch::Sender<Option<bool>>,
    stopping: CancellationToken,
    changes: Notifier,
    environments: Environments,
    definitions: Arc<DefinitionCache>,
    large_reads: Semaphore,
    /// Turns to read the documents of catalogs from files.
    #[cfg(feature = "catalog")]
    document_reads: Arc<Semaphore>,
    /// The user's catalogs, where the program brings no operations of its own.
    #[cfg(feature = "catalog")]
    catalogs: Option<Arc<Catalogs>>,
}

/// What was going on in a project.
#[derive(Clone, Debug)]
pub enum OpenWork {
    /// What to do in the only execution that is open.
    One(Box<CurrentStep>),
    /// Several, or none.
    Several(Resumed),
}

/// The execution that may have been meant by an id that there is not.
const NEAREST: NextCall = read(
    address!("current_step/{nearest}"),
    "if that is the one meant; execution.list shows all",
);

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App")
            .field("config", self.config())
            .field("project_dir", &self.project_dir)
            .finish_non_exhaustive()
    }
}

impl App {
    /// Reads nothing yet: the first call that needs the definitions loads them, and the first that needs the store opens it.
    pub fn new(config: Config, clock: Arc<dyn Clock>, ids: Arc<dyn IdSource>) -> Self {
        Self::with(Options::new(config, clock, ids))
    }

    /// The same for a program that brings something of its own. What the server does itself goes on as soon as the store
    /// is open: a program that has such work opens it at its start ([`App::open`]).
    pub fn with(options: Options) -> Self {
        Self::made(options, true)
    }

    /// The same for a process that must own its directory before the store is opened: calls wait for
    /// [`App::open_owned`], for [`limits::OWNED_WITHIN`] at most.
    pub fn waiting(options: Options) -> Self {
        Self::made(options, false)
    }

    fn made(options: Options, opens_itself: bool) -> Self {
        let config = &options.config;
        #[cfg(feature = "catalog")]
        let catalogs = options.catalogs();
        let abilities = Abilities {
            #[cfg(feature = "catalog")]
            operations: catalogs.as_deref().map(catalog::operations),
            ..options.abilities()
        };
        let definitions = Arc::new(config.definitions(&abilities));
        let directories = config.directories();
        let trust = config.trust.clone();
        let cache = DefinitionCache::new(directories.clone(), definitions.clone(), trust);
        let lookup = Arc::new(cache.lookup(directories));
        let project_dir = config.project_dir.as_path().into();
        let authoring = config.authoring().map(Arc::new);
        if let Some(authoring) = &authoring {
            Folder::tidy(&authoring.directory.path);
        }
        let environment = Arc::new(config.environment());
        Self {
            host: Arc::new(Host {
                options,
                opens_itself,
                engine: Mutex::new(Slot::Closed { tried: None }),
                opened: watch::Sender::new(None),
                stopping: CancellationToken::new(),
                changes: Notifier::default(),
                environments: Environments::default(),
                definitions: Arc::new(cache),
                large_reads: Semaphore::new(limits::LARGE_READS_MAX),
                #[cfg(feature = "catalog")]
                document_reads: Arc::new(Semaphore::new(limits::DOCUMENTS_READ_MAX)),
                #[cfg(feature = "catalog")]
                catalogs,
            }),
            definitions,
            lookup,
            project_dir,
            authoring,
            environment,
            #[cfg(feature = "catalog")]
            by: By::Tool,
        }
        .claimed()
    }

    /// The same midex for a caller with other definitions, another project and an environment of its own. Callers with the
    /// same directories share their definitions.
    #[must_use]
    pub fn for_caller(&self, caller: &Config, environment: Environment) -> Self {
        let directories = caller.directories();
        Self {
            host: self.host.clone(),
            definitions: self.host.definitions.of(&directories),
            lookup: Arc::new(self.host.definitions.lookup(directories)),
            project_dir: caller.project_dir.as_path().into(),
            authoring: caller.authoring().map(Arc::new),
            environment: Arc::new(environment),
            #[cfg(feature = "catalog")]
            by: By::Tool,
        }
        .claimed()
    }

    /// What the caller allowed is what executions of its project see from now on.
    fn claimed(self) -> Self {
        let environments = &self.host.environments;
        environments.set(&self.project(), self.environment.clone());
        self
    }

    /// What it was told.
    pub fn config(&self) -> &Config {
        &self.host.options.config
    }

    /// The definitions as they stand, those on disk included.
    pub async fn registry(&self) -> Result<Arc<Registry>> {
        self.look_into_files(Definitions::current).await
    }

    /// The same for what is worked out of them, off the workers.
    pub async fn look_into_registry<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Registry) -> T + Send + 'static,
    ) -> Result<T> {
        self.look_into_files(move |definitions| look(&definitions.current()))
            .await
    }

    /// What an execution of this workflow would follow now.
    async fn definition(&self, name: &str) -> Result<Arc<Definition>> {
        self.definitions.find(name).await
    }

    async fn look_into_files<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Definitions) -> T + Send + 'static,
    ) -> Result<T> {
        self.definitions.look(look).await
    }

    /// The definitions, live.
    pub fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// Whoever listens to executions. Listening opens no store.
    pub fn changes(&self) -> &Notifier {
        &self.host.changes
    }

    /// Waits for a turn to read much: [`limits::LARGE_READS_MAX`]. It lasts until the guard is dropped.
    pub async fn large_read(&self) -> Option<SemaphorePermit<'_>> {
        // Nobody closes it.
        self.host.large_reads.acquire().await.ok()
    }

    /// The time, as its executions have it.
    pub fn now(&self) -> Timestamp {
        self.host.options.clock.now()
    }

    /// The activities that its program brings.
    pub fn activities(&self) -> BTreeSet<String> {
        let names = self.host.options.activities.names();
        names.map(str::to_owned).collect()
    }

    /// Randomness, for correlation ids.
    pub fn ids(&self) -> &dyn IdSource {
        &*self.host.options.ids
    }

    /// Answers once the store is open, and so this process owns its directory.
    pub async fn opened(&self) {
        // The sender lives in `self`.
        let _ = self
            .host
            .opened
            .subscribe()
            .wait_for(|opened| *opened == Some(true))
            .await;
    }

    /// Starts an execution (`workflow.start`), for the caller's project where `project` is `None`.
    pub async fn start(
        &self,
        workflow_name: &str,
        execution_id: Option<ExecutionId>,
        inputs: Option<Value>,
        project: Option<String>,
    ) -> Result<Advanced> {
        let definition = self.definition(workflow_name).await?;
        let started = self.start_of(definition.clone(), execution_id, inputs, project);
        let mut advanced = started.await?;
        advanced.warnings.extend(self.hiding(&definition).await);
        Ok(advanced)
    }

    /// The same for a definition in hand.
    async fn start_of(
        &self,
        definition: Arc<Definition>,
        execution_id: Option<ExecutionId>,
        inputs: Option<Value>,
        project: Option<String>,
    ) -> Result<Advanced> {
        self.definitions.meets_requirements(&definition)?;
        self.check_trust(&definition).await?;
        #[cfg(feature = "catalog")]
        if self.host.catalogs.is_some() && definition.calls().next().is_some() {
            // What its user has just changed of a catalog counts.
            self.catalog_set().await?;
        }
        let own = self.project();
        let project = project.unwrap_or_else(|| own.clone());
        let environments = &self.host.environments;
        if project == own {
            // Of several windows of one project the one that starts it counts.
            environments.set(&project, self.environment.clone());
        } else if !environments.claim(&project, &self.environment) {
            return Err(of_another_client(&project));
        }
        let request = StartRequest {
            definition,
            execution_id,
            project: Some(project),
            inputs,
            lookup: Some((*self.lookup).clone()),
        };
        self.engine().await?.start(request).await
    }

    /// Finishes a step (`workflow.next_step`).
    pub async fn next_step(
        &self,
        token: &str,
        submission: impl Into<Submission>,
    ) -> Result<Advanced> {
        self.engine().await?.advance(token, submission).await
    }

    /// Moves an execution, and answers with where it stands then.
    ///
    /// # Errors
    /// As [`midex_engine::Engine::command`].
    pub async fn command(
        &self,
        id: &ExecutionId,
        command: impl Into<Command>,
    ) -> Result<StatusView> {
        self.engine().await?.command(id, command).await
    }

    /// The project that stands for the commands of this caller's project, in lists of executions.
    pub fn commands_project(&self) -> String {
        format!("{}#commands", self.project())
    }

    /// A page of executions, the one that moved last first.
    ///
    /// # Errors
    /// `ARGUMENTS_INVALID` where a word of the request means nothing.
    pub async fn list(&self, request: ListRequest) -> Result<Listing> {
        let project = if request.calls {
            Some(self.commands_project())
        } else {
            self.filter(request.project.clone())
        };
        let query = request.query(project)?;
        self.engine().await?.list(query).await
    }

    /// What was going on in a project (`None`: the caller's own). Changes nothing, save that expired tokens are replaced.
    pub async fn resumed(&self, project: Option<String>) -> Result<OpenWork> {
        let engine = self.engine().await?;
        let project = self.filter(project);
        if let Some(only) = engine.only_open(project.clone()).await?
            && let Ok(step) = engine.current_step(&only).await
        {
            return Ok(OpenWork::One(Box::new(step)));
        }
        engine.resumed(project).await.map(OpenWork::Several)
    }

    /// Lifts what a resume lifts of a pause, and answers with what to do now, whatever the state is.
    pub async fn go_on(&self, id: &ExecutionId, reason: Option<String>) -> Result<CurrentStep> {
        let engine = self.engine().await?;
        let status = engine.status(id).await?;
        // A step that is held waits for a resume while the others go on.
        let is_held = |wait: &WaitView| wait.waits_for == PauseReason::OutputInvalid.as_str();
        if status.state == State::Paused.as_str() || status.waits.iter().any(is_held) {
            let lifecycle = Lifecycle::Resume;
            match engine.command(id, Change { lifecycle, reason }).await {
                Ok(_) => {}
                // Something else lifts it, or it has just been lifted: what is read says so.
                Err(error) if is_of_state(error.code()) => {}
                Err(error) => return Err(error),
            }
        }
        engine.current_step(id).await
    }

    /// What to do now. Expired tokens are replaced.
    pub async fn current_step(&self, id: &ExecutionId) -> Result<CurrentStep> {
        self.current_step_for(id, Reader::Model).await
    }

    /// The steps of an execution, in their order, with where each stands.
    pub async fn graph(&self, id: &ExecutionId) -> Result<GraphView> {
        self.engine().await?.graph(id).await
    }

    /// The same in words for this reader.
    pub async fn current_step_for(&self, id: &ExecutionId, reader: Reader) -> Result<CurrentStep> {
        self.engine().await?.current_step_for(id, reader).await
    }

    /// Examines a portion of what is stored: see [`midex_engine::Engine::examine`].
    pub async fn examine(&self, from: Reached) -> Result<Examination> {
        self.engine().await?.examine(from).await
    }

    /// Where an execution stands.
    pub async fn status(&self, id: &ExecutionId) -> Result<StatusView> {
        let status = self.engine().await?.status(id).await?;
        #[cfg(feature = "catalog")]
        let status = self.tell_disabled(status);
        Ok(status)
    }

    /// Where an execution stands, as the answer of a call that leads through it.
    pub async fn standing(&self, id: &ExecutionId) -> Result<Advanced> {
        self.engine().await?.standing(id).await
    }

    /// Where an execution stands once it has moved past the revision `since`, or after `timeout`; and whether it has
    /// moved. Without `since` any move counts.
    pub async fn wait(
        &self,
        id: &ExecutionId,
        since: Option<u64>,
        timeout: Duration,
    ) -> Result<(StatusView, bool)> {
        let engine = self.engine().await?;
        let since = match since {
            Some(since) => since,
            None => engine.see(id).await?.execution.revision(),
        };
        let status = engine.wait(id, Some(since), timeout).await?;
        let changed = status.revision > since;
        Ok((status, changed))
    }

    /// The definition that an execution keeps.
    pub async fn kept_definition(&self, id: &ExecutionId) -> Result<Arc<Definition>> {
        Ok(self.engine().await?.see(id).await?.definition)
    }

    /// Every visit of every step, with outputs.
    pub async fn history(&self, id: &ExecutionId) -> Result<Vec<HistoryRow>> {
        self.engine().await?.history(id).await
    }

    /// The artifacts of an execution, or of one of its steps, without their content.
    pub async fn artifacts(
        &self,
        id: &ExecutionId,
        step: Option<&StepId>,
    ) -> Result<Vec<ArtifactView>> {
        self.engine().await?.artifacts(id, step).await
    }

    /// A part of an artifact's content.
    pub async fn artifact(
        &self,
        id: &ExecutionId,
        which: &str,
        offset: u64,
        limit: usize,
    ) -> Result<ArtifactContent> {
        let engine = self.engine().await?;
        engine.artifact(id, which, offset, limit).await
    }

    /// The latest telemetry, oldest first.
    pub async fn telemetry(
        &self,
        id: Option<&ExecutionId>,
        event_type: Option<EventType>,
        limit: usize,
    ) -> Result<Vec<TelemetryEvent>> {
        self.engine().await?.telemetry(id, event_type, limit).await
    }

    /// The same error, with what can be said of it from here: the execution that may have been meant, and what a command
    /// of a person needs to reach this data directory.
    pub async fn explained(&self, error: Error) -> Error {
        match error.code() {
            Code::ExecutionNotFound => self.with_nearest(error).await,
            code if is_of_state(code) || code == Code::UserAlone => {
                match self.config().data_dir_named() {
                    Some(data_dir) => error.with("data_dir", data_dir),
                    None => error,
                }
            }
            _ => error,
        }
    }

    /// Names the open execution of the caller's project whose id is nearest to the one that was asked for.
    async fn with_nearest(&self, error: Error) -> Error {
        let request = ListRequest {
            state: Some(OPEN.into()),
            children: true,
            limit: Some(limits::LIST_LIMIT_MAX),
            ..ListRequest::default()
        };
        let open = self.list(request).await.map(|open| open.executions);
        let open = open.unwrap_or_default();
        let ids = open.iter().map(|execution| execution.execution_id.as_str());
        let asked = error.context("asked").and_then(Value::as_str);
        match asked.and_then(|asked| nearest(asked, ids)) {
            Some(near) => {
                let message = format!("{}; did you mean '{near}'?", error.message());
                let error = error.with("nearest", near).with_next(NEAREST);
                error.with_message(message)
            }
            None => error,
        }
    }

    /// What a person adds to a command that is to reach this data directory.
    fn command_flags(&self) -> String {
        let named = self.config().data_dir_named();
        named.map_or_else(String::new, |dir| format!(" --data-dir '{dir}'"))
    }

    fn filter(&self, project: Option<String>) -> Option<String> {
        let project = project.unwrap_or_else(|| self.project());
        Some(project).filter(|project| project != ALL_PROJECTS)
    }

    fn project(&self) -> String {
        self.project_dir.display().to_string()
    }

    /// Cancelled as soon as the process begins to end.
    pub fn stopping(&self) -> &CancellationToken {
        &self.host.stopping
    }

    /// Refuses new calls and ends every wait, so that whoever waits is answered before its connection ends.
    pub fn begin_stop(&self) {
        // The engine's own, whether its store is open yet or not.
        self.host.stopping.cancel();
    }

    /// Ends everything in order: what was asked is finished, the store is closed.
    pub async fn stop(&self) -> Result<()> {
        let mut slot = self.host.engine.lock().await;
        match std::mem::replace(&mut *slot, Slot::Stopped) {
            Slot::Open(engine) => engine.stop().await,
            Slot::Closed { .. } | Slot::Stopped => Ok(()),
        }
    }
}

/// What a client allowed for its own project is not another one's to see.
fn of_another_client(project: &str) -> Error {
    let message = format!(
        "another client of this midex has the project `{project}`, with an environment of its own"
    );
    Error::new(Code::ArgumentsInvalid, message).with_action(
        "Call {tool} again: leave `project` out, and the execution is started for your own",
    )
}

/// Whether the execution's state stood in the way.
fn is_of_state(code: Code) -> bool {
    matches!(code, Code::ExecutionPaused | Code::StateTransitionRefused)
}
