//! The use cases that MCP and the command line share. Opens the store and shuts everything down in order.

mod author;
mod backup;
mod bundle;
#[cfg(feature = "catalog")]
mod catalog;
#[cfg(feature = "catalog")]
mod command;
mod database_directory;
mod errors;
mod execution;
mod exposed;
mod flows;
mod fork;
mod list;
mod open;
mod options;
mod orchestrator;
#[cfg(feature = "catalog")]
mod providers;
mod purge;
mod question;
mod records;
mod start;
mod trust;
mod turn;
mod workflows;
mod write;

use std::{
    fmt,
    path::Path,
    sync::{Arc, RwLock},
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::{Mutex, Semaphore, SemaphorePermit, watch};
use tokio_util::sync::CancellationToken;

pub use self::{
    author::{DefinitionSubject, ExecutionPlan, ResolvedInputs},
    backup::{compact_store, open_store_records, restore_store},
    database_directory::mark_database_directory,
    exposed::{SessionAdvance, format_pace_token},
    flows::Flow,
    list::{ListRequest, parse_workflow},
    open::{StoreVerification, verify_store},
    options::{Environment, Options, StoreOpener},
    orchestrator::ThreadPrompt,
    question::UserQuestion,
    records::PruneProgress,
    turn::{ExecutionTurn, Turn},
    write::{WithReferences, WorkflowReference},
};
#[cfg(feature = "catalog")]
pub use self::{
    catalog::{BrokenStep, SourceType},
    command::{
        CommandCall, CommandTarget as CommandMeant, WORKFLOW_PREFIX as WORKFLOW_COMMAND,
        compute_workflow_class,
    },
};
use self::{list::ALL_PROJECTS_FILTER, open::EngineSlot, workflows::DefinitionCache};
use crate::config::{self, AuthoringDirectory, Config};
#[cfg(feature = "catalog")]
use midex_catalog::{Catalogs, Requester};
use midex_domain::{
    Command, Definition, ExecutionId, LifecycleAction, LifecycleChange, PauseReason, State, StepId,
    WorkflowLookup,
    check::ServerCapabilities,
    clock::{Clock, IdSource, Timestamp},
    error::Result,
    execution::Submission,
    limits,
    telemetry::EventType,
    view::{
        AdvanceReply, ArtifactContent, ArtifactView, CurrentStep, ExecutionPage, GraphView,
        HistoryRow, Reader, ResumeReply, StatusView, TelemetryEvent, WaitView,
    },
};
pub use midex_engine::{
    Cleanup, Examination, ExportReport, ExportRequest, ForkRequest, ImportedExecution,
    LastTransition, Listener, Notifier, PrunePlan, PruneReport, PruneRule, Redaction, Retention,
    StoreStats, Topic, TopicName,
    store::{
        BackupReport, ClusterStatus, DAMAGED_SUFFIX as STORE_DAMAGED, ExaminationProgress,
        FILE_NAME as STORE_FILE, OwnedDirectory, ServerStatus,
    },
};
use midex_engine::{Engine, EnvironmentVariables, Environments, activity::Activities};
use midex_folder::Folder;
use midex_registry::{LiveDefinitions, Registry};

pub use midex_engine::store::{lock_holder_pid, store_busy_error};

/// A running midex, as one caller sees it: the caller's project and definitions, plus the engine that all callers
/// share. Cheap to clone.
#[derive(Clone)]
pub struct App {
    shared: Arc<SharedState>,
    definitions: Arc<LiveDefinitions>,
    lookup: Arc<WorkflowLookup>,
    project_dir: Arc<Path>,
    authoring: Option<Arc<AuthoringDirectory>>,
    environment: Arc<EnvironmentVariables>,
    #[cfg(feature = "catalog")]
    requester: Requester,
}

/// State that all callers share.
struct SharedState {
    options: Options,
    /// Whether a call opens the store if it is not open yet. False for processes that first have to own the data
    /// directory.
    can_open: bool,
    engine: Mutex<EngineSlot>,
    /// The engine while it is open. Calls take it from here: this lock is held for no time, whereas calls that queue for the slot
    /// would hand it over one after another.
    open_engine: RwLock<Option<Engine>>,
    /// Whether the last attempt to open the store succeeded. `None` before the first attempt.
    open_outcome: watch::Sender<Option<bool>>,
    stop_token: CancellationToken,
    changes: Notifier,
    environments: Environments,
    definitions: Arc<DefinitionCache>,
    large_read_permits: Semaphore,
    #[cfg(feature = "catalog")]
    catalog_reads: providers::CatalogReads,
    /// The user's catalogs. `None` if the embedding program supplies its own operations, or there is no home directory.
    #[cfg(feature = "catalog")]
    catalogs: Option<Arc<Catalogs>>,
}

/// The open executions of a project, as a resuming client sees them.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum OpenWork {
    /// Exactly one execution is open: its current step.
    One(Box<CurrentStep>),
    /// No execution is open, or several are.
    Several(ResumeReply),
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App")
            .field("config", self.config())
            .field("project_dir", &self.project_dir)
            .finish_non_exhaustive()
    }
}

impl App {
    /// Creates an app without reading anything. The first call that needs definitions loads them; the first call that
    /// needs the store opens it.
    pub fn new(config: Config, clock: Arc<dyn Clock>, ids: Arc<dyn IdSource>) -> Self {
        Self::with_options(Options::new(config, clock, ids))
    }

    /// Like [`App::new`], with the activities, operations and other options of an embedding program. Background work
    /// (timers, activities) resumes only once the store is open, so a program that has such work calls [`App::open`] at
    /// start-up.
    pub fn with_options(options: Options) -> Self {
        Self::from_options(options, true)
    }

    /// Like [`App::with_options`], for a process that must own its data directory before the store is opened. Calls wait for
    /// [`App::open_owned`], at most [`limits::OWNED_WITHIN`].
    pub fn new_awaiting_ownership(options: Options) -> Self {
        Self::from_options(options, false)
    }

    fn from_options(options: Options, can_open: bool) -> Self {
        let options = options.with_environment_store();
        let config = &options.config;
        #[cfg(feature = "catalog")]
        let catalogs = options.catalogs();
        let abilities = ServerCapabilities {
            #[cfg(feature = "catalog")]
            operations: catalogs.as_ref().map(|catalogs| {
                midex_domain::check::OperationsSnapshot::capture(catalogs.last_loaded_catalogs())
            }),
            ..options.abilities()
        };
        let definitions = Arc::new(config.definitions(&abilities, &options.definitions));
        let directories = config.directories();
        let trust = config.trust.clone();
        let cache = DefinitionCache::new(directories.clone(), definitions.clone(), trust);
        let lookup = Arc::new(cache.build_lookup(directories));
        let project_dir = config.project_dir.as_path().into();
        let authoring = config.authoring_directory().map(Arc::new);
        if let Some(authoring) = &authoring {
            Folder::remove_temporary_files(&authoring.directory.path);
        }
        let environment = Arc::new(config.environment());
        Self {
            shared: Arc::new(SharedState {
                options,
                can_open,
                engine: Mutex::new(EngineSlot::Closed { last_attempt: None }),
                open_engine: RwLock::new(None),
                open_outcome: watch::Sender::new(None),
                stop_token: CancellationToken::new(),
                changes: Notifier::default(),
                environments: Environments::default(),
                definitions: Arc::new(cache),
                large_read_permits: Semaphore::new(limits::LARGE_READS_MAX),
                #[cfg(feature = "catalog")]
                catalog_reads: providers::CatalogReads::default(),
                #[cfg(feature = "catalog")]
                catalogs,
            }),
            definitions,
            lookup,
            project_dir,
            authoring,
            environment,
            #[cfg(feature = "catalog")]
            requester: Requester::Tool,
        }
        .claim_environment()
    }

    /// The same app for a caller with its own directories, project and environment. Callers with equal directories
    /// share one set of definitions.
    #[must_use]
    pub fn for_caller(&self, caller: &Config, environment: EnvironmentVariables) -> Self {
        Self::from_shared(self.shared.clone(), caller, environment)
    }

    fn from_shared(
        shared: Arc<SharedState>,
        caller: &Config,
        environment: EnvironmentVariables,
    ) -> Self {
        let directories = caller.directories();
        Self {
            definitions: shared.definitions.load_definitions_in(&directories),
            lookup: Arc::new(shared.definitions.build_lookup(directories)),
            shared,
            project_dir: caller.project_dir.as_path().into(),
            authoring: caller.authoring_directory().map(Arc::new),
            environment: Arc::new(environment),
            #[cfg(feature = "catalog")]
            requester: Requester::Tool,
        }
        .claim_environment()
    }

    /// Makes the caller's environment the one that executions of its project read from now on.
    fn claim_environment(self) -> Self {
        let environments = &self.shared.environments;
        environments.set(&self.caller_project(), self.environment.clone());
        self
    }

    /// The configuration of the process.
    pub fn config(&self) -> &Config {
        &self.shared.options.config
    }

    /// The current definitions, including changes on disk.
    pub async fn registry(&self) -> Result<Arc<Registry>> {
        self.with_definitions(LiveDefinitions::current_registry).await
    }

    /// Runs `work` on the current definitions, off the async worker threads.
    pub async fn with_registry<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Registry) -> T + Send + 'static,
    ) -> Result<T> {
        self.with_definitions(move |definitions| work(&definitions.current_registry())).await
    }

    /// The definition that a new execution of this workflow would use.
    async fn definition(&self, name: &str) -> Result<Arc<Definition>> {
        if self.config().published.is_some() {
            // The published definitions are copied when the store opens.
            self.engine().await?;
        }
        self.definitions.find_definition(name).await
    }

    async fn with_definitions<T: Send + 'static>(
        &self,
        work: impl FnOnce(&LiveDefinitions) -> T + Send + 'static,
    ) -> Result<T> {
        self.definitions.run_blocking(work).await
    }

    /// The live definitions, which follow their files.
    pub fn definitions(&self) -> &LiveDefinitions {
        &self.definitions
    }

    /// The source of change notifications for executions. Subscribing does not open the store.
    pub fn change_notifier(&self) -> &Notifier {
        &self.shared.changes
    }

    /// Acquires one of [`limits::LARGE_READS_MAX`] permits for a large read. The permit is held until the guard is
    /// dropped.
    pub async fn acquire_large_read(&self) -> Option<SemaphorePermit<'_>> {
        // `ok`: the semaphore is never closed, so acquiring does not fail.
        self.shared.large_read_permits.acquire().await.ok()
    }

    /// The current time, from the clock that executions use.
    pub fn now(&self) -> Timestamp {
        self.shared.options.clock.now()
    }

    /// The activities that the embedding program registers.
    pub fn activities(&self) -> &Activities {
        &self.shared.options.activities
    }

    /// The source of random ids, used for correlation ids.
    pub fn ids(&self) -> &dyn IdSource {
        &*self.shared.options.ids
    }

    /// Waits until the store is open, which implies that this process owns its data directory.
    pub async fn wait_until_open(&self) {
        // The error is impossible: `self` keeps the sender alive.
        let _ = self.shared.open_outcome.subscribe().wait_for(|opened| *opened == Some(true)).await;
    }

    /// Completes a step (`workflow.next_step`).
    pub async fn next_step(
        &self,
        token: &str,
        submission: impl Into<Submission>,
    ) -> Result<AdvanceReply> {
        self.engine().await?.advance(token, submission).await
    }

    /// Applies a command to an execution and returns its new status.
    ///
    /// # Errors
    /// As [`midex_engine::Engine::apply_command`].
    pub async fn command(
        &self,
        id: &ExecutionId,
        command: impl Into<Command>,
    ) -> Result<StatusView> {
        self.engine().await?.apply_command(id, command).await
    }

    /// The project name under which lists of executions show the commands that this caller's project ran.
    pub fn commands_project(&self) -> String {
        format!("{}#commands", self.caller_project())
    }

    /// A page of executions, most recently changed first.
    ///
    /// # Errors
    /// `ARGUMENTS_INVALID` if a filter or the cursor of the request is invalid.
    pub async fn list(&self, request: ListRequest) -> Result<ExecutionPage> {
        let project = if request.is_call_list {
            Some(self.commands_project())
        } else {
            self.project_filter(request.project.clone())
        };
        let query = request.into_query(project, self.now())?;
        self.engine().await?.list(query).await
    }

    /// The open executions of a project (`None`: the caller's own). Changes nothing, except that expired tokens are
    /// replaced.
    pub async fn open_work(&self, project: Option<String>) -> Result<OpenWork> {
        let engine = self.engine().await?;
        let project = self.project_filter(project);
        if let Some(id) = engine.only_open_execution(project.clone()).await?
            && let Ok(step) = engine.current_step(&id).await
        {
            return Ok(OpenWork::One(Box::new(step)));
        }
        engine.open_executions(project).await.map(OpenWork::Several)
    }

    /// Resumes the execution if it is paused or holds a step, then returns its current step. An execution that a resume
    /// cannot move is returned as it is.
    pub async fn resume_current_step(
        &self,
        id: &ExecutionId,
        reason: Option<String>,
    ) -> Result<CurrentStep> {
        let engine = self.engine().await?;
        let status = engine.status(id).await?;
        engine.refuse_imported(id).await?;
        // A step that is held for a person needs a resume too, although the execution is still running.
        let is_deferred = |wait: &WaitView| wait.waits_for == PauseReason::OutputInvalid.as_str();
        if status.state == State::Paused.as_str() || status.waits.iter().any(is_deferred) {
            let lifecycle = LifecycleAction::Resume;
            match engine.apply_command(id, LifecycleChange { action: lifecycle, reason }).await {
                Ok(_) => {}
                // The pause ends in another way, or has just ended: the step that is read below says so.
                Err(error) if errors::is_state_error(error.code()) => {}
                Err(error) => return Err(error),
            }
        }
        engine.current_step(id).await
    }

    /// The current step of an execution. Expired tokens are replaced.
    pub async fn current_step(&self, id: &ExecutionId) -> Result<CurrentStep> {
        self.current_step_for(id, Reader::Model).await
    }

    /// The steps of an execution in definition order, each with its state.
    pub async fn graph(&self, id: &ExecutionId) -> Result<GraphView> {
        self.engine().await?.graph(id).await
    }

    /// Like [`App::current_step`], worded for this reader.
    pub async fn current_step_for(&self, id: &ExecutionId, reader: Reader) -> Result<CurrentStep> {
        self.engine().await?.current_step_for(id, reader).await
    }

    /// Checks a portion of the stored data: see [`midex_engine::Engine::examine`].
    pub async fn examine_store(&self, progress: ExaminationProgress) -> Result<Examination> {
        self.engine().await?.examine(progress).await
    }

    /// The status of an execution.
    pub async fn status(&self, id: &ExecutionId) -> Result<StatusView> {
        let status = self.engine().await?.status(id).await?;
        Ok(self.complete_status(status).await)
    }

    /// The status of an execution, in the form that start and next-step calls return.
    pub async fn advanced_status(&self, id: &ExecutionId) -> Result<AdvanceReply> {
        self.engine().await?.last_reply(id).await
    }

    /// Waits until an execution has moved past the revision `since`, or `timeout` has passed. Returns its status and
    /// whether it moved. Without `since`, waits for any change after the call.
    pub async fn wait(
        &self,
        id: &ExecutionId,
        since: Option<u64>,
        timeout: Duration,
    ) -> Result<(StatusView, bool)> {
        let engine = self.engine().await?;
        let since = match since {
            Some(since) => since,
            None => engine.read_execution(id).await?.execution.revision(),
        };
        let status = engine.wait(id, Some(since), timeout).await?;
        let changed = status.revision > since;
        Ok((status, changed))
    }

    /// The definition that is stored with an execution.
    pub async fn stored_definition(&self, id: &ExecutionId) -> Result<Arc<Definition>> {
        Ok(self.engine().await?.read_execution(id).await?.definition)
    }

    /// Every visit of every step, with its output.
    pub async fn history(&self, id: &ExecutionId) -> Result<Vec<HistoryRow>> {
        self.engine().await?.history(id).await
    }

    /// The attempt of a step that ended last, with its output. Hooks and skipped steps do not count.
    ///
    /// # Errors
    /// As [`App::history`].
    pub async fn last_ended_attempt(&self, id: &ExecutionId) -> Result<Option<HistoryRow>> {
        self.engine().await?.last_ended_attempt(id).await
    }

    /// The values in the memory of an execution, by name.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND`, `EXECUTION_DELETED`, and those of the store.
    pub async fn memory(&self, id: &ExecutionId) -> Result<Map<String, Value>> {
        self.engine().await?.memory(id).await
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

    /// The latest telemetry events, oldest first.
    pub async fn telemetry(
        &self,
        id: Option<&ExecutionId>,
        event_type: Option<EventType>,
        limit: usize,
    ) -> Result<Vec<TelemetryEvent>> {
        self.engine().await?.telemetry(id, event_type, limit).await
    }

    /// The `--data-dir` flag that a command line needs to reach this data directory; empty for the default one.
    fn command_flags(&self) -> String {
        let flag_value = self.config().data_dir_flag_value();
        flag_value.map_or_else(String::new, |dir| format!(" --data-dir '{dir}'"))
    }

    /// The project to list: the caller's own if `None`; no filter for `*`.
    pub fn project_filter(&self, project: Option<String>) -> Option<String> {
        let project = match project {
            None => self.caller_project(),
            Some(all) if all == ALL_PROJECTS_FILTER => return None,
            // Executions of a directory that does not exist any more can still be listed.
            Some(directory) => config::resolve_project(&directory).unwrap_or(directory),
        };
        Some(project)
    }

    fn caller_project(&self) -> String {
        self.project_dir.display().to_string()
    }

    /// Cancelled when the process begins to shut down.
    pub fn stop_token(&self) -> &CancellationToken {
        &self.shared.stop_token
    }

    /// Refuses new calls and ends every wait, so that waiting callers get an answer before their connections close.
    pub fn begin_stop(&self) {
        // The engine shares this token, whether its store is open yet or not.
        self.shared.stop_token.cancel();
    }

    /// Shuts down in order: finishes the requests in progress, then closes the store.
    pub async fn stop(&self) -> Result<()> {
        let mut slot = self.shared.engine.lock().await;
        self.shared.set_open_engine(None);
        match std::mem::replace(&mut *slot, EngineSlot::Stopped) {
            EngineSlot::Open(engine) => engine.stop().await,
            EngineSlot::Closed { .. } | EngineSlot::Stopped => Ok(()),
        }
    }
}
