//! midex itself, in this process: finished steps, starts, executions woken from the store, and reads of `current_step`.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::json;

use super::{
    BenchDirectory,
    figures::Turn,
    load::{Contender, Disk, Lane, Limited, Stopwatch, drive},
};
use midex_domain::{
    ExecutionId,
    clock::{SteadyClock, SystemIds},
    error::{Error, Result},
    execution::Report,
    view::AdvanceReply,
};
use midex_engine::store::{self, BoxFuture};
use midex_server::{
    app::{App, Options},
    config::Config,
};

/// The workflow that is measured.
pub(super) const WORKFLOW: &str = "bench";

/// The calls that the clients of a contender make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    /// Finish steps; each client runs one execution after another.
    Steps,
    /// Start executions.
    Start,
    /// Finish a step of an execution that is asleep, so that it has to be loaded from the store.
    Wake,
    /// Read `current_step` of an execution.
    CurrentStep,
}

/// The configuration of a contender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) kind: CallKind,
    pub(super) snapshot_every: u32,
    pub(super) in_flight: usize,
}

impl Setting {
    /// Finish steps, with a snapshot at each transition.
    pub(super) const fn steps(in_flight: usize) -> Self {
        Self { kind: CallKind::Steps, snapshot_every: 1, in_flight }
    }
}

/// An app with its own store and its clients.
pub(super) struct Midex {
    setting: Setting,
    config: Config,
    disk: Arc<Disk>,
    /// The list of the [`BenchDirectory`], which stops every app in it if the run is interrupted.
    opened: Arc<Mutex<Vec<App>>>,
    app: Option<App>,
    lanes: Vec<Client>,
}

impl Midex {
    /// An app on a new store. For [`CallKind::Wake`], `asleep` executions are started and the app is closed.
    pub(super) async fn new(
        place: &BenchDirectory,
        setting: Setting,
        asleep: usize,
    ) -> Result<Self> {
        let mut midex = Self::closed(place, setting)?;
        let each = match setting.kind {
            CallKind::Steps | CallKind::Start => 0,
            CallKind::Wake => asleep.div_ceil(setting.in_flight),
            CallKind::CurrentStep => 1,
        };
        midex.lanes = midex.started(each).await?;
        if setting.kind == CallKind::Wake {
            midex.close().await?;
        }
        Ok(midex)
    }

    /// An app on the existing store in `data_dir`.
    pub(super) async fn over(
        data_dir: PathBuf,
        place: &BenchDirectory,
        setting: Setting,
    ) -> Result<Self> {
        let mut midex = Self::closed(place, setting)?;
        midex.config.data_dir = data_dir;
        midex.lanes = midex.started(0).await?;
        Ok(midex)
    }

    fn closed(place: &BenchDirectory, setting: Setting) -> Result<Self> {
        let config = Config { snapshot_every: setting.snapshot_every, ..place.config()? };
        Ok(Self {
            setting,
            config,
            disk: Disk::new(place.delay),
            opened: Arc::clone(&place.apps),
            app: None,
            lanes: Vec::new(),
        })
    }

    /// Opens the app, and returns clients that have each started `each` executions.
    async fn started(&mut self, each: usize) -> Result<Vec<Client>> {
        let app = self.open().await?;
        let starter =
            || Limited { lane: Starter(Client::new(&app, self.setting.kind)), left: each };
        let mut starters: Vec<_> = (0..self.setting.in_flight).map(|_| starter()).collect();
        drive(&mut starters, &Arc::new(Stopwatch::start(Duration::MAX))).await?;
        Ok(starters.into_iter().map(|starter| starter.lane.0).collect())
    }

    /// Returns the app; opens it first if it is closed.
    async fn open(&mut self) -> Result<App> {
        if let Some(app) = &self.app {
            return Ok(app.clone());
        }
        let options = Options::new(
            self.config.clone(),
            Arc::new(SteadyClock::default()),
            Arc::new(SystemIds),
        );
        let store = store::Options { hook: Some(self.disk.hook()), ..store::Options::default() };
        let config = self.config.clone();
        let make = move || App::with_options(Options { config, store_options: store, ..options });
        let app = super::blocking(make).await?;
        let opened = self.opened.lock();
        opened.unwrap_or_else(PoisonError::into_inner).push(app.clone());
        // Open in a task of its own: if this future is dropped, opening continues, and stopping the app waits for it.
        let opening = app.clone();
        let opened = tokio::spawn(async move { opening.open().await }).await;
        opened.map_err(|_| Error::internal("the opening of a store panicked"))??;
        self.app = Some(app.clone());
        Ok(app)
    }

    async fn close(&mut self) -> Result<()> {
        match self.app.take() {
            Some(app) => app.stop().await,
            None => Ok(()),
        }
    }

    /// Runs one execution from start to end. Returns the data directory and the id of the execution.
    pub(super) async fn played(mut self) -> Result<(PathBuf, ExecutionId)> {
        let app = self.open().await?;
        let mut client = Client::new(&app, CallKind::Steps);
        let started = client.start().await?;
        client.tokens.extend(started.new_token);
        while !client.tokens.is_empty() {
            client.call().await?;
        }
        self.close().await?;
        Ok((self.config.data_dir, ExecutionId::parse(&started.execution_id)?))
    }

    async fn measured(&mut self, length: Duration) -> Result<Turn> {
        let app = self.open().await?;
        for lane in &mut self.lanes {
            lane.begin_turn(&app);
        }
        let turn = self.disk.turn(&mut self.lanes, length).await?;
        if self.setting.kind == CallKind::Wake || self.setting.kind == CallKind::Start {
            self.close().await?;
        }
        Ok(turn)
    }
}

impl Contender for Midex {
    fn turn(&mut self, length: Duration) -> BoxFuture<'_, Result<Turn>> {
        Box::pin(self.measured(length))
    }

    fn end(mut self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move { self.close().await })
    }
}

/// A client of the app, with the tokens of its executions.
struct Client {
    app: App,
    kind: CallKind,
    tokens: Vec<String>,
    /// The next tokens of executions that were woken in this turn. They are used in the next turn.
    woken: Vec<String>,
    id: Option<ExecutionId>,
}

impl Client {
    fn new(app: &App, kind: CallKind) -> Self {
        Self { app: app.clone(), kind, tokens: Vec::new(), woken: Vec::new(), id: None }
    }

    /// Begins a turn on a reopened app, in which the executions that were woken in the previous turn are asleep again.
    fn begin_turn(&mut self, app: &App) {
        self.app = app.clone();
        self.tokens.append(&mut self.woken);
    }

    async fn start(&self) -> Result<AdvanceReply> {
        self.app.start(WORKFLOW, None, None, None).await
    }

    async fn finish_step(&self, token: &str) -> Result<AdvanceReply> {
        let report = Report::Output(json!({ "summary": "done" }));
        self.app.next_step(token, report).await
    }
}

impl Lane for Client {
    async fn call(&mut self) -> Result<bool> {
        match (self.kind, &self.id) {
            (CallKind::Steps, _) => {
                let advanced = match self.tokens.pop() {
                    Some(token) => self.finish_step(&token).await?,
                    None => self.start().await?,
                };
                self.tokens.extend(advanced.new_token);
            }
            (CallKind::Wake, _) => {
                let Some(token) = self.tokens.pop() else {
                    return Ok(false);
                };
                self.woken.extend(self.finish_step(&token).await?.new_token);
            }
            (CallKind::CurrentStep, Some(id)) => drop(self.app.current_step(id).await?),
            (CallKind::Start | CallKind::CurrentStep, _) => drop(self.start().await?),
        }
        Ok(true)
    }
}

/// A client that starts executions before the measurement.
struct Starter(Client);

impl Lane for Starter {
    async fn call(&mut self) -> Result<bool> {
        let started = self.0.start().await?;
        self.0.tokens.extend(started.new_token);
        self.0.id = Some(ExecutionId::parse(&started.execution_id)?);
        Ok(true)
    }
}
