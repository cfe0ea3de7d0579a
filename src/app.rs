//! The use cases that every face shares. Opens everything and owns the shutdown.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use serde_json::Value;
use tokio::sync::Mutex;

use crate::{
    clock::{Clock, IdSource, Timestamp},
    config::Config,
    domain::{ExecutionId, execution::Report, view::Advanced},
    engine::{Engine, Options, StartRequest},
    error::{Code, Error, Result},
    limits,
    registry::Registry,
    store::{self, RedbStore, Store},
};

/// A running midex: definitions, and the engine once the store could be opened.
pub struct App {
    config: Config,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    registry: RwLock<Arc<Registry>>,
    engine: Mutex<Slot>,
}

/// The engine, or when it was last tried to open its store.
enum Slot {
    Open(Engine),
    Closed { tried: Option<(Timestamp, Error)> },
    Stopped,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl App {
    /// Loads the definitions. The store is opened by the first call that needs it.
    pub fn new(config: Config, clock: Arc<dyn Clock>, ids: Arc<dyn IdSource>) -> Self {
        let registry = RwLock::new(Arc::new(config.registry()));
        Self {
            config,
            clock,
            ids,
            registry,
            engine: Mutex::new(Slot::Closed { tried: None }),
        }
    }

    /// What it was told.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The definitions as they stand.
    pub fn registry(&self) -> Arc<Registry> {
        self.registry
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Randomness, for correlation ids.
    pub fn ids(&self) -> &dyn IdSource {
        &*self.ids
    }

    /// The engine; opens the store where it is not open yet.
    ///
    /// # Errors
    /// `STORE_BUSY` while another process owns the data directory: asked again at most every
    /// [`limits::STORE_RETRY_EVERY`]; `STORE_CORRUPT`, `STORE_TOO_NEW`, `FILE_UNUSABLE`.
    pub async fn engine(&self) -> Result<Engine> {
        let mut slot = self.engine.lock().await;
        match &*slot {
            Slot::Open(engine) => return Ok(engine.clone()),
            Slot::Stopped => {
                return Err(Error::new(
                    Code::ServerStopping,
                    "the server is shutting down",
                ));
            }
            Slot::Closed {
                tried: Some((at, error)),
            } => {
                // A clock that stepped back must not keep the store shut.
                let waited = self.clock.now();
                if waited >= *at && waited.since(*at) < limits::STORE_RETRY_EVERY {
                    return Err(error.clone());
                }
            }
            Slot::Closed { tried: None } => {}
        }
        match self.open().await {
            Ok(engine) => {
                *slot = Slot::Open(engine.clone());
                Ok(engine)
            }
            Err(error) => {
                *slot = Slot::Closed {
                    tried: Some((self.clock.now(), error.clone())),
                };
                Err(error)
            }
        }
    }

    async fn open(&self) -> Result<Engine> {
        let options = store::Options {
            snapshot_every: self.config.snapshot_every,
            ..store::Options::default()
        };
        let data_dir = self.config.data_dir.clone();
        let opened = tokio::task::spawn_blocking(move || RedbStore::open(&data_dir, options)).await;
        let store: Arc<dyn Store> = Arc::new(
            opened
                .map_err(|error| Error::internal("opening the store panicked").because(error))??,
        );
        let options = Options {
            token_ttl: self.config.token_ttl,
            ..Options::new(store, self.clock.clone(), self.ids.clone())
        };
        Engine::new(options).await
    }

    /// Starts an execution of the workflow with this name (S0, `workflow.start`).
    pub async fn start(
        &self,
        workflow_name: &str,
        execution_id: Option<ExecutionId>,
        inputs: Option<Value>,
    ) -> Result<Advanced> {
        let definition = self.registry().definition(workflow_name)?;
        let project = Some(self.config.project_dir.display().to_string());
        self.engine()
            .await?
            .start(StartRequest {
                definition,
                execution_id,
                project,
                inputs,
            })
            .await
    }

    /// Finishes a step (S0, `workflow.next_step`).
    pub async fn next_step(&self, token: &str, report: Report) -> Result<Advanced> {
        self.engine().await?.advance(token, report).await
    }

    /// Ends everything in order: what was asked is finished, the store is closed.
    pub async fn stop(&self) -> Result<()> {
        let mut slot = self.engine.lock().await;
        match std::mem::replace(&mut *slot, Slot::Stopped) {
            Slot::Open(engine) => engine.stop().await,
            Slot::Closed { .. } | Slot::Stopped => Ok(()),
        }
    }
}
