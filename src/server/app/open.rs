//! Opens the store: on the first call, or when this process has become the owner of its data directory.

use std::{
    path::Path,
    sync::{Arc, PoisonError},
};

use super::{
    App, SharedState, backup,
    database_directory::{check_no_database, check_no_own_store, mark_database_directory},
    flows::add_flow_activities,
};
use crate::{
    app::{Options, OwnedDirectory},
    config::Config,
};
use midex_domain::{
    clock::Timestamp,
    error::{Error, Result},
    limits,
    operation::NoOperations,
};
use midex_engine::{
    self as engine, Engine, PeerAnswer, PeerCall, Retention,
    store::{self, RedbStore, Store},
};

/// The engine, or the last failed attempt to open its store.
pub(super) enum EngineSlot {
    Open(Engine),
    Closed { last_attempt: Option<(Timestamp, Error)> },
    Stopped,
}

impl SharedState {
    /// The engine, if it is open.
    fn open_engine(&self) -> Option<Engine> {
        self.open_engine.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_open_engine(&self, engine: Option<Engine>) {
        *self.open_engine.write().unwrap_or_else(PoisonError::into_inner) = engine;
    }
}

impl App {
    /// Opens the store if it is not open yet.
    ///
    /// # Errors
    /// `STORE_BUSY` while another process owns the data directory. The open is retried at most every
    /// [`limits::STORE_RETRY_EVERY`]. `STORE_CORRUPT`, `STORE_TOO_NEW`, `STORE_FORMAT`, `FILE_UNUSABLE`.
    pub async fn open(&self) -> Result<()> {
        self.engine().await.map(drop)
    }

    /// Like [`App::open`], in a directory that this process owns already. Ignores the retry interval.
    ///
    /// # Errors
    /// As [`App::open`].
    pub async fn open_owned(&self, owned: OwnedDirectory) -> Result<()> {
        let mut slot = self.shared.engine.lock().await;
        if let EngineSlot::Closed { .. } = &*slot {
            self.fill_engine_slot(&mut slot, Some(owned)).await?;
        }
        Ok(())
    }

    /// The engine, for programs that supply their own definitions. Opens the store as [`App::open`] does.
    pub async fn engine(&self) -> Result<Engine> {
        if let Some(engine) = self.shared.open_engine() {
            return Ok(engine);
        }
        if !self.shared.can_open {
            self.wait_for_open_attempt().await;
        }
        // An open holds the lock until it ends, so a call that waits for the lock gets its outcome.
        let mut slot = self.shared.engine.lock().await;
        match &*slot {
            EngineSlot::Open(engine) => Ok(engine.clone()),
            EngineSlot::Closed { last_attempt: Some((at, error)) }
                if !self.shared.can_open || self.is_recent_attempt(*at) =>
            {
                Err(error.clone())
            }
            EngineSlot::Closed { .. } if self.shared.can_open => {
                self.fill_engine_slot(&mut slot, None).await
            }
            EngineSlot::Closed { .. } if !self.stop_token().is_cancelled() => {
                Err(super::store_busy_error(&self.config().data_dir))
            }
            EngineSlot::Closed { .. } | EngineSlot::Stopped => Err(engine::server_stopping_error()),
        }
    }

    /// Answers a call that another server on the same store has passed on.
    ///
    /// # Errors
    /// As [`Engine::answer_peer`], and those of opening the store.
    pub async fn answer_peer(&self, call: PeerCall) -> Result<PeerAnswer> {
        self.engine().await?.answer_peer(call).await
    }

    /// Whether the last attempt is too recent to retry. A clock that stepped back counts as not recent, so that it
    /// cannot block retries.
    fn is_recent_attempt(&self, attempted_at: Timestamp) -> bool {
        let now = self.now();
        now >= attempted_at && now.since(attempted_at) < limits::STORE_RETRY_EVERY
    }

    /// Waits until this process has tried to own its directory and open the store, or is stopping; at most
    /// [`limits::OWNED_WITHIN`].
    async fn wait_for_open_attempt(&self) {
        let mut outcome = self.shared.open_outcome.subscribe();
        let attempted = async {
            tokio::select! {
                _ = outcome.wait_for(Option::is_some) => {}
                () = self.stop_token().cancelled() => {}
            }
        };
        // The caller reads the outcome from the slot.
        let _ = tokio::time::timeout(limits::OWNED_WITHIN, attempted).await;
    }

    /// Records why this process does not own its directory. Calls get this error until it does.
    pub async fn record_ownership_error(&self, error: Error) {
        let mut slot = self.shared.engine.lock().await;
        if let EngineSlot::Closed { last_attempt: tried } = &mut *slot {
            *tried = Some((self.now(), error));
            self.shared.open_outcome.send_replace(Some(false));
        }
    }

    async fn fill_engine_slot(
        &self,
        slot: &mut EngineSlot,
        owned: Option<OwnedDirectory>,
    ) -> Result<Engine> {
        match self.start_engine(owned).await {
            Ok(engine) => {
                *slot = EngineSlot::Open(engine.clone());
                self.shared.set_open_engine(Some(engine.clone()));
                self.shared.open_outcome.send_replace(Some(true));
                self.start_backups(&engine);
                Ok(engine)
            }
            Err(error) => {
                *slot = EngineSlot::Closed { last_attempt: Some((self.now(), error.clone())) };
                self.shared.open_outcome.send_replace(Some(false));
                Err(error)
            }
        }
    }

    /// Starts the backups of the schedule, if there is one. A process that ends after one call makes none.
    fn start_backups(&self, engine: &Engine) {
        let options = &self.shared.options;
        let schedule = options.config.backups.clone().filter(|_| options.is_worker);
        if schedule.is_some() && options.store_opener.is_some() {
            tracing::warn!(
                "no backups are made: the database is backed up by its own means, such as `pg_dump`"
            );
        } else if let Some(schedule) = schedule {
            let (engine, clock) = (engine.clone(), options.clock.clone());
            let stop_token = self.stop_token().clone();
            tokio::spawn(backup::serve_schedule(engine, clock, schedule, stop_token));
        }
    }

    async fn start_engine(&self, owned: Option<OwnedDirectory>) -> Result<Engine> {
        let Options {
            config,
            clock,
            ids,
            activities,
            definitions: _,
            environment: _,
            middleware,
            operations,
            is_worker,
            retention,
            store,
            store_opener,
            peers,
            store_options,
        } = self.shared.options.clone();
        #[cfg(feature = "catalog")]
        let operations = operations.or_else(|| {
            Some(self.shared.catalogs.clone()? as Arc<dyn midex_domain::operation::Operations>)
        });
        let operations = operations.unwrap_or_else(|| Arc::new(NoOperations));
        let activities = add_flow_activities(activities, self)?;
        let store = match (store, store_opener) {
            (Some(store), _) => store,
            (None, Some(opener)) => {
                // Before the database answers: a command must not open a store in the directory meanwhile.
                check_no_own_store(&config.data_dir)?;
                mark_database_directory(&config.data_dir)?;
                let store = opener.open().await?;
                // It may have copied published catalogs.
                #[cfg(feature = "catalog")]
                self.check_against_catalogs().await;
                store
            }
            (None, None) => open_redb_store(&config, store_options, owned).await?,
        };
        let rules = config.retention.clone();
        let retention = retention
            .or_else(|| (!rules.is_empty()).then(|| Retention { rules, ..Retention::default() }));
        let options = engine::Options {
            activities,
            middleware,
            operations,
            is_worker,
            retention,
            peers,
            token_ttl: config.token_ttl,
            command_flags: self.command_flags().into(),
            environments: self.shared.environments.clone(),
            secrets: config.secrets(),
            workflows: self.shared.definitions.clone(),
            notifier: self.shared.changes.clone(),
            stopping: self.shared.stop_token.clone(),
            ..engine::Options::new(store, clock, ids)
        };
        Engine::new(options).await
    }
}

/// Opens the store in the data directory.
async fn open_redb_store(
    config: &Config,
    options: store::Options,
    owned: Option<OwnedDirectory>,
) -> Result<Arc<dyn Store>> {
    check_no_database(&config.data_dir)?;
    let options = store::Options { snapshot_every: config.snapshot_every, ..options };
    let data_dir = config.data_dir.clone();
    let open_store = move || match owned {
        Some(owned) => RedbStore::open_owned(owned, options),
        None => RedbStore::open(&data_dir, options),
    };
    warn_of_large_file(&config.data_dir);
    let opened = tokio::task::spawn_blocking(open_store).await;
    let to_error = |error| Error::internal("opening the store panicked").with_source(error);
    Ok(Arc::new(opened.map_err(to_error)??))
}

/// Warns of a large data file, long before any limit.
fn warn_of_large_file(data_dir: &Path) {
    let file = std::fs::metadata(data_dir.join(store::FILE_NAME));
    if let Ok(file) = file
        && file.len() >= limits::FILE_BYTES_WARNED
    {
        tracing::warn!(
            bytes = file.len(),
            "the store is large: `midex stats` shows what takes the room, and `midex prune` removes executions"
        );
    }
}

/// The result of verifying a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreVerification {
    /// No store was ever created.
    NoStore,
    /// A store was created, but its file is missing.
    Missing,
    /// The file was read completely and is sound. Holds its size in bytes.
    Intact(u64),
}

/// Reads and verifies the whole store of a configuration, if it has one. Owns the data directory meanwhile. Blocks.
///
/// # Errors
/// As [`App::open`].
pub fn verify_store(config: &Config) -> Result<StoreVerification> {
    check_no_database(&config.data_dir)?;
    let Ok(file) = std::fs::metadata(config.data_dir.join(store::FILE_NAME)) else {
        // Taking ownership creates the directory, so do it only if the directory exists.
        let is_missing = config.data_dir.is_dir()
            && OwnedDirectory::take_ownership(&config.data_dir)?.has_lost_its_store();
        return Ok(if is_missing {
            StoreVerification::Missing
        } else {
            StoreVerification::NoStore
        });
    };
    let options = store::Options { check_all: true, ..store::Options::default() };
    let owned = OwnedDirectory::take_ownership(&config.data_dir)?;
    drop(RedbStore::open_owned(owned, options)?);
    Ok(StoreVerification::Intact(file.len()))
}
