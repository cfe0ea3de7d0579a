//! The options of an app.

use std::sync::Arc;

use crate::config::Config;
#[cfg(feature = "catalog")]
use midex_catalog::{Catalogs, call::SecretSources};
use midex_domain::{
    check::ServerCapabilities,
    clock::{Clock, IdSource},
    operation::Operations,
};
use midex_engine::{activity::Activities, store};

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
    /// The operations that steps may call. Set by an embedding program, instead of the user's catalogs.
    pub operations: Option<Arc<dyn Operations>>,
    /// Whether the process does background work: [`engine::Options::is_worker`](midex_engine::Options::is_worker).
    pub is_worker: bool,
    /// The options of the store, except for the snapshot interval: that is [`Config::snapshot_every`].
    pub store: store::Options,
}

impl Options {
    /// The options of the `midex` binary: no activities, and the user's catalogs.
    pub fn new(config: Config, clock: Arc<dyn Clock>, ids: Arc<dyn IdSource>) -> Self {
        Self {
            config,
            clock,
            ids,
            activities: Activities::default(),
            operations: None,
            is_worker: true,
            store: store::Options::default(),
        }
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
        ServerCapabilities { activities: activities.collect(), ..ServerCapabilities::default() }
    }
}
