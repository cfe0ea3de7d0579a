//! What an app is made of.

use std::sync::Arc;

use crate::config::Config;
#[cfg(feature = "catalog")]
use midex_catalog::{Catalogs, call::Sources};
use midex_domain::operation::Operations;
use midex_domain::{
    check::Abilities,
    clock::{Clock, IdSource},
};
use midex_engine::{activity::Activities, store};

/// What an app is made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the process is told.
    pub config: Config,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where randomness comes from.
    pub ids: Arc<dyn IdSource>,
    /// The work of this process that steps may ask for, by name.
    pub activities: Activities,
    /// The operations of others that steps may ask for, where its program brings its own instead of the user's catalogs.
    pub operations: Option<Arc<dyn Operations>>,
    /// Whether it does the work of the server: [`engine::Options::is_worker`](midex_engine::Options::is_worker).
    pub is_worker: bool,
    /// How its store works, but for the snapshots: [`Config::snapshot_every`] says those.
    pub store: store::Options,
}

impl Options {
    /// Nothing but midex: what the binary serves.
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

    /// The user's catalogs, where no others take their place. Reads files.
    #[cfg(feature = "catalog")]
    pub(super) fn catalogs(&self) -> Option<Arc<Catalogs>> {
        if self.operations.is_some() {
            return None;
        }
        let secrets = Sources {
            environment: self.config.secret_values(),
            file: self.config.secrets_file.clone(),
            hosts: self.config.secret_hosts.clone(),
        };
        let places = self.config.catalogs.clone()?;
        Some(Arc::new(Catalogs::open(places, secrets)))
    }

    /// What steps may name of it.
    pub(super) fn abilities(&self) -> Abilities {
        let activities = self.activities.names().map(str::to_owned);
        Abilities {
            activities: activities.collect(),
            ..Abilities::default()
        }
    }
}
