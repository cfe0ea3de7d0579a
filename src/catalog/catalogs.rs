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
    follower: ChangePoller,
}

struct LiveCatalogs {
    places: CatalogPaths,
    caller: Caller,
    set: RwLock<Arc<CatalogSet>>,
    /// Held during a reload, so that only one thread reads the files.
    loading: Mutex<()>,
    version: watch::Sender<u64>,
}

impl fmt::Debug for Catalogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Catalogs({})", self.live.places.catalogs.display())
    }
}

impl Catalogs {
    /// Opens the catalogs in `places`. Their headers and credentials may refer to `secrets`. Reads files: not to be
    /// called on a worker thread of an async runtime.
    pub fn open(places: CatalogPaths, secrets: SecretSources) -> Self {
        Self::with_caller(places, Caller::new(secrets))
    }

    /// [`Catalogs::open`] with an existing [`Caller`].
    pub fn with_caller(places: CatalogPaths, caller: Caller) -> Self {
        let catalogs = Self {
            live: Arc::new(LiveCatalogs {
                places,
                caller,
                set: RwLock::default(),
                loading: Mutex::default(),
                version: watch::Sender::new(0),
            }),
            follower: ChangePoller::default(),
        };
        catalogs.current_catalogs();
        catalogs
    }

    /// The directories of the catalogs.
    pub fn places(&self) -> &CatalogPaths {
        &self.live.places
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
        self.live.version.subscribe()
    }

    /// Starts a thread that reloads changed catalogs. It ends when `self` is dropped.
    pub fn start_watching(&self) {
        let live = self.live.clone();
        self.follower.start_polling("midex-catalogs", move || live.reload_changed_catalogs());
    }

    /// The operation, prepared for calls. The first use reads it from disk, on a thread that may block.
    async fn prepare_operation(
        &self,
        named: &CatalogOperation,
    ) -> Result<Arc<PreparedOperation>, OperationFailure> {
        if let Some(prepared) = named.catalog.cached_operation(named.place) {
            return Ok(prepared);
        }
        let (catalog, place) = (named.catalog.clone(), named.place);
        let prepared = tokio::task::spawn_blocking(move || catalog.prepare_operation(place)).await;
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
            let named = self.resolve_operation(&call.catalog, &call.operation)?;
            let prepared = self.prepare_operation(&named).await?;
            let target =
                named.catalog.call_target().map_err(|error| damaged_catalog_failure(&error))?;
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
            let (arguments, position) = ((&call.with, body), (paginate, call.cursor.as_ref()));
            let page = caller.request_page(&prepared, &target, arguments, &options, position);
            let ItemsPage { answer, items, next, incomplete } = page.await?;
            // The output is only the list, and has no place for a note that items may be missing. So the call fails.
            if let Some(why) = incomplete.filter(|_| !call.whole) {
                let failure = OperationFailure::new("incomplete", why);
                return Err(failure.with_code(FailureCode::ListIncomplete));
            }
            Ok(match items {
                None => answer.into_step_output(call.whole),
                Some(items) => EffectOutput::Page(OutputPage {
                    items,
                    next,
                    around: call.whole.then(|| answer.into_value()),
                }),
            })
        })
    }

    fn is_safe(&self, catalog: &str, operation: &str) -> bool {
        let Ok(named) = self.resolve_operation(catalog, operation) else {
            return false;
        };
        let prepared = named.catalog.prepare_operation(named.place);
        let target = named.catalog.call_target();
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
        let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = self.places.read_stamps();
        let before = self.loaded_catalogs();
        if stamps == before.stamps {
            return;
        }
        let catalogs = stamps.keys().map(|id| self.load_catalog(id, &stamps, &before));
        let set = CatalogSet { catalogs: catalogs.collect(), version: before.version + 1, stamps };
        let version = set.version;
        *self.set.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
        self.version.send_replace(version);
    }

    fn load_catalog(&self, id: &str, stamps: &CatalogStamps, before: &CatalogSet) -> Arc<Catalog> {
        let (old_stamps, old_catalog) = (before.stamps.get(id), before.find_catalog(id));
        if let (Some(catalog), true) = (old_catalog, old_stamps == stamps.get(id)) {
            return catalog.clone();
        }
        let [_, document] = stamps[id];
        let has_same_document = old_stamps.is_some_and(|[_, before]| *before == document);
        let kept = old_catalog.filter(|_| has_same_document).map(|catalog| catalog.book.clone());
        let book = || {
            let Some(document) = document else {
                return Err(format!("{} is not there", self.places.document_path(id).display()));
            };
            kept.unwrap_or_else(|| self.places.load_document(id, document).map(Arc::new))
        };
        let catalog = match self.places.read_settings(id) {
            Ok(files) => Catalog::new(id, files.settings, book()),
            Err(error) => Catalog::new(id, super::Settings::default(), Err(error)),
        };
        if let Err(error) = &catalog.book {
            tracing::warn!(catalog = id, "a catalog cannot be used: {error}");
        }
        Arc::new(catalog)
    }
}
