//! What an app is made of.

use std::sync::Arc;

use crate::{
    activity::Activities,
    catalog::{NoOperations, Operations},
    clock::{Clock, IdSource},
    config::Config,
    domain::check::Abilities,
    store,
};

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
    /// The operations of others that steps may ask for.
    pub operations: Arc<dyn Operations>,
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
            operations: Arc::new(NoOperations),
            store: store::Options::default(),
        }
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
