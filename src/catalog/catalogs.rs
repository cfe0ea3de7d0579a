//! The catalogs of this process: loaded from their files, reloaded when those change, and called.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use tokio::sync::watch;

use super::{
    call::{CallOptions, Caller, ItemsPage, PreparedOperation, SecretSources},
    files::{CatalogPaths, CatalogStamps},
    set::{Catalog, CatalogOperation, CatalogSet, OperationMatch},
};
use midex_domain::{
    FailureCode,
    execution::{EffectOutput, OperationFailure, OutputPage},
    operation::{BoxFuture, OperationCall, Operations, Outcome},
};
use midex_folder::ChangePoller;

/// The catalogs of this process, and the client that calls their operations.
pub struct Catalogs {
    live: Arc<LiveCatalogs>,
    poller: ChangePoller,
}

struct LiveCatalogs {
    paths: CatalogPaths,
    caller: Caller,
    set: RwLock<Arc<CatalogSet>>,
    /// Held during a reload, so that only one thread reads the files.
    reload_lock: Mutex<()>,
    version_sender: watch::Sender<u64>,
}

impl fmt::Debug for Catalogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Catalogs({})", self.live.paths.catalogs.display())
    }
}

impl Catalogs {
    /// Opens the catalogs in `paths`. Their headers and credentials may refer to `secrets`. Reads files: not to be
    /// called on a worker thread of an async runtime.
    pub fn open(paths: CatalogPaths, secrets: SecretSources) -> Self {
        Self::with_caller(paths, Caller::new(secrets))
    }

    /// [`Catalogs::open`] with an existing [`Caller`].
    pub fn with_caller(paths: CatalogPaths, caller: Caller) -> Self {
        let catalogs = Self {
            live: Arc::new(LiveCatalogs {
                paths,
                caller,
                set: RwLock::default(),
                reload_lock: Mutex::default(),
                version_sender: watch::Sender::new(0),
            }),
            poller: ChangePoller::default(),
        };
        catalogs.current_catalogs();
        catalogs
    }

    /// The directories of the catalogs.
    pub fn paths(&self) -> &CatalogPaths {
        &self.live.paths
    }

    /// The client that calls operations and fetches documents.
    pub fn caller(&self) -> &Caller {
        &self.live.caller
    }

    /// The catalogs as of the last reload.
    pub fn last_loaded_catalogs(&self) -> Arc<CatalogSet> {
        self.live.loaded_catalogs()
    }

    /// The current catalogs: reloads those whose files have changed. Reads files: not to be called on a worker thread
    /// of an async runtime.
    pub fn current_catalogs(&self) -> Arc<CatalogSet> {
        self.live.reload_changed_catalogs();
        self.live.loaded_catalogs()
    }

    /// Receives a version number, which increases with each reload that finds changes.
    pub fn change_receiver(&self) -> watch::Receiver<u64> {
        self.live.version_sender.subscribe()
    }

    /// Starts a thread that reloads changed catalogs. It ends when `self` is dropped.
    pub fn start_watching(&self) {
        let live = self.live.clone();
        self.poller.start_polling("midex-catalogs", move || live.reload_changed_catalogs());
    }

    /// The operation, prepared for calls. The first use reads it from disk, on a thread that may block.
    async fn prepare_operation(
        &self,
        operation: &CatalogOperation,
    ) -> Result<Arc<PreparedOperation>, OperationFailure> {
        if let Some(prepared) = operation.catalog.find_cached_operation(operation.index) {
            return Ok(prepared);
        }
        let (catalog, index) = (operation.catalog.clone(), operation.index);
        let prepared = tokio::task::spawn_blocking(move || catalog.prepare_operation(index)).await;
        let prepared = prepared.map_err(|error| damaged_catalog_failure(&error.to_string()))?;
        prepared.map_err(|error| damaged_catalog_failure(&error))
    }

    fn resolve_operation(
        &self,
        catalog: &str,
        operation: &str,
    ) -> Result<CatalogOperation, OperationFailure> {
        let (code, message) =
            match self.last_loaded_catalogs().resolve_operation(catalog, operation) {
                OperationMatch::Operation(named) => return Ok(named),
                OperationMatch::NoCatalog(_) => {
                    (FailureCode::CatalogMissing, format!("there is no catalog '{catalog}' here"))
                }
                OperationMatch::Disabled => (
                    FailureCode::CatalogMissing,
                    format!("the catalog '{catalog}' is disabled or cannot be used"),
                ),
                OperationMatch::NoOperation(_) => (
                    FailureCode::OperationNotFound,
                    format!("the catalog '{catalog}' has no operation '{operation}'"),
                ),
                OperationMatch::Several(ids) => (
                    FailureCode::OperationNotFound,
                    format!(
                        "several catalogs of '{catalog}' have an operation '{operation}': {}",
                        ids.join(", ")
                    ),
                ),
            };
        Err(OperationFailure::new("not_found", message).with_code(code))
    }
}

fn damaged_catalog_failure(error: &str) -> OperationFailure {
    OperationFailure::new("internal", format!("the catalog cannot be used: {error}"))
}

impl Operations for Catalogs {
    fn call(&self, call: OperationCall) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let operation = self.resolve_operation(&call.catalog, &call.operation)?;
            let prepared = self.prepare_operation(&operation).await?;
            let target =
                operation.catalog.call_target().map_err(|error| damaged_catalog_failure(&error))?;
            let options = CallOptions {
                timeout: call.timeout,
                idempotency_key: Some(call.idempotency_key),
                is_idempotent: call.is_idempotent,
                secrets: call.secrets,
            };
            let (caller, body) = (&self.live.caller, call.body.as_ref());
            let Some(paginate) = call.paginate else {
                let answer = caller.call_operation(&prepared, &target, &call.with, body, &options);
                return Ok(answer.await?.into_step_output(call.whole));
            };
            let (arguments, page_position) = ((&call.with, body), (paginate, call.cursor.as_ref()));
            let page = caller.request_page(&prepared, &target, arguments, &options, page_position);
            let ItemsPage { answer, items, next, incomplete_reason } = page.await?;
            // The output is only the list, and has no place for a note that items may be missing. So the call fails.
            if let Some(reason) = incomplete_reason.filter(|_| !call.whole) {
                let failure = OperationFailure::new("incomplete", reason);
                return Err(failure.with_code(FailureCode::ListIncomplete));
            }
            Ok(match items {
                None => answer.into_step_output(call.whole),
                Some(items) => EffectOutput::Page(OutputPage {
                    items,
                    next_cursor: next,
                    envelope: call.whole.then(|| answer.into_value()),
                }),
            })
        })
    }

    fn is_safe(&self, catalog: &str, operation: &str) -> bool {
        let Ok(resolved) = self.resolve_operation(catalog, operation) else {
            return false;
        };
        let prepared = resolved.catalog.prepare_operation(resolved.index);
        let target = resolved.catalog.call_target();
        matches!((prepared, target), (Ok(prepared), Ok(target)) if target.is_repeatable(prepared.operation()))
    }

    fn has_catalog(&self, catalog: &str) -> bool {
        self.last_loaded_catalogs().has_usable_catalog(catalog)
    }
}

impl LiveCatalogs {
    fn loaded_catalogs(&self) -> Arc<CatalogSet> {
        self.set.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reloads the catalogs whose files have changed.
    fn reload_changed_catalogs(&self) {
        let _loading = self.reload_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = self.paths.read_stamps();
        let old_set = self.loaded_catalogs();
        if stamps == old_set.stamps {
            return;
        }
        let catalogs = stamps.keys().map(|id| self.load_catalog(id, &stamps, &old_set));
        let new_set =
            CatalogSet { catalogs: catalogs.collect(), version: old_set.version + 1, stamps };
        let version = new_set.version;
        *self.set.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new_set);
        self.version_sender.send_replace(version);
    }

    fn load_catalog(&self, id: &str, stamps: &CatalogStamps, old_set: &CatalogSet) -> Arc<Catalog> {
        let (old_stamps, old_catalog) = (old_set.stamps.get(id), old_set.find_catalog(id));
        if let (Some(catalog), true) = (old_catalog, old_stamps == stamps.get(id)) {
            return catalog.clone();
        }
        let [_, document] = stamps[id];
        let has_same_document = old_stamps.is_some_and(|[_, before]| *before == document);
        let reusable_document =
            old_catalog.filter(|_| has_same_document).map(|catalog| catalog.document.clone());
        let load_document = || {
            let Some(document) = document else {
                return Err(format!("{} is not there", self.paths.document_path(id).display()));
            };
            reusable_document
                .unwrap_or_else(|| self.paths.load_document(id, document).map(Arc::new))
        };
        let catalog = match self.paths.read_settings(id) {
            Ok(files) => Catalog::new(id, files.settings, load_document()),
            Err(error) => Catalog::new(id, super::Settings::default(), Err(error)),
        };
        if let Err(error) = &catalog.document {
            tracing::warn!(catalog = id, "a catalog cannot be used: {error}");
        }
        Arc::new(catalog)
    }
}
