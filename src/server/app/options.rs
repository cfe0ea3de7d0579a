//! The options of an app.

use std::{fmt, sync::Arc};

use crate::config::Config;
#[cfg(feature = "catalog")]
use midex_catalog::{Catalogs, call::SecretSources};
use midex_domain::{
    check::ServerCapabilities,
    clock::{Clock, IdSource},
    error::Result,
    operation::{BoxFuture, Operations},
};
use midex_engine::{
    Peers, Retention,
    activity::{Activities, Middleware},
    store,
};
use midex_registry::WorkflowBuilder;

/// Where an app keeps its executions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Environment {
    /// In [`Options::store`], or in the data directory.
    #[default]
    Production,
    /// In [`Options::store`], or in memory: no files are written, and everything is gone with the app.
    Test,
}

/// Opens the store of an app when the app needs it.
pub trait StoreOpener: fmt::Debug + Send + Sync {
    /// Opens the store.
    ///
    /// # Errors
    /// Those of the store.
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn store::Store>>>;
}

/// The options of an app.
#[derive(Clone, Debug)]
pub struct Options {
    /// The configuration of the process.
    pub config: Config,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of random ids.
    pub ids: Arc<dyn IdSource>,
    /// The activities that steps may run in this process, by name.
    pub activities: Activities,
    /// Workflows that the program defines in code. They are the nearest source of definitions: for every caller and every
    /// project they hide the files of their names.
    pub definitions: Vec<WorkflowBuilder>,
    /// What runs around every activity, the outermost first.
    pub middleware: Vec<Arc<dyn Middleware>>,
    /// The operations that steps may call. Set by an embedding program, instead of the user's catalogs.
    pub operations: Option<Arc<dyn Operations>>,
    /// Whether the process does background work: [`engine::Options::is_worker`](midex_engine::Options::is_worker).
    pub is_worker: bool,
    /// How long executions are kept after their end. `None`: for ever.
    pub retention: Option<Retention>,
    /// Whether executions live in files.
    pub environment: Environment,
    /// Where executions live. `None`: a [`RedbStore`](store::RedbStore) in the data directory, which is opened with
    /// `store_options`. A store of the program's own belongs to this process alone: nothing is read from the data directory,
    /// and no other process can be relayed to.
    pub store: Option<Arc<dyn store::Store>>,
    /// Opens the store where [`Options::store`] is `None`, instead of one in the data directory.
    pub store_opener: Option<Arc<dyn StoreOpener>>,
    /// The other servers on the same store; `None` if there are none.
    pub peers: Option<Arc<dyn Peers>>,
    /// The options of the store in the data directory, except for the snapshot interval: that is
    /// [`Config::snapshot_every`].
    pub store_options: store::Options,
}

impl Options {
    /// The options of the `midex` binary: no activities, and the user's catalogs.
    pub fn new(config: Config, clock: Arc<dyn Clock>, ids: Arc<dyn IdSource>) -> Self {
        Self {
            config,
            clock,
            ids,
            activities: Activities::default(),
            definitions: Vec::new(),
            middleware: Vec::new(),
            operations: None,
            is_worker: true,
            retention: None,
            environment: Environment::Production,
            store: None,
            store_opener: None,
            peers: None,
            store_options: store::Options::default(),
        }
    }

    /// The options with a store in memory, for [`Environment::Test`].
    pub(super) fn with_environment_store(mut self) -> Self {
        if self.environment == Environment::Test && self.store.is_none() {
            self.store = Some(Arc::new(store::MemoryStore::new()));
        }
        self
    }

    /// The user's catalogs, unless `operations` replaces them. Reads files.
    #[cfg(feature = "catalog")]
    pub(super) fn catalogs(&self) -> Option<Arc<Catalogs>> {
        if self.operations.is_some() {
            return None;
        }
        let secrets = SecretSources {
            environment: self.config.secret_values(),
            file: self.config.secrets_file.clone(),
            allowed_hosts: self.config.secret_hosts.clone(),
        };
        let paths = self.config.catalogs.clone()?;
        Some(Arc::new(Catalogs::open(paths, secrets)))
    }

    /// The activities that definitions are checked against. Operations and secrets are added elsewhere.
    pub(super) fn abilities(&self) -> ServerCapabilities {
        let activities = self.activities.names().map(str::to_owned);
        ServerCapabilities {
            activities: activities.collect(),
            activity_inputs: self.activities.input_schemas(),
            ..ServerCapabilities::default()
        }
    }
}
