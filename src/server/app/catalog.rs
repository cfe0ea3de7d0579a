//! Catalogs of operations: where their documents may be imported from, what a change affects, and which steps it
//! breaks.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Serialize;

use super::{App, open::EngineSlot};
use midex_catalog::{
    Catalog, CatalogSet, Catalogs, OperationChanges, OperationMatch, Requester, Settings,
    call::{AddressPolicy, normalize_allowed_host},
};
use midex_domain::{
    Definition,
    check::OperationsSnapshot,
    check::enable_catalog_call,
    error::{Code, Error, Result, describe_io_error},
    limits,
    view::StatusView,
};
use midex_folder::read_regular;
use midex_registry::find_user_dir;

/// The kind of location that a document is imported from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceType {
    /// In a file.
    Path,
    /// At a URL.
    Url,
}

impl SourceType {
    /// Guesses the kind of a source from its text: one with a scheme is a URL.
    pub fn guess_from_text(source: &str) -> Self {
        let is_url = source.split_once("://").is_some_and(|(scheme, _)| {
            scheme.len() > 1 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
        });
        if is_url { Self::Url } else { Self::Path }
    }
}

/// A step that a change to a catalog breaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BrokenStep {
    /// The workflow.
    pub workflow_id: String,
    /// The step.
    pub step_id: String,
    /// The reason.
    pub why: String,
}

impl App {
    /// The same app for the user's own commands, which may change catalogs in ways that tools may not.
    #[must_use]
    pub fn for_user(self) -> Self {
        Self { requester: Requester::User, ..self }
    }

    /// The same app, acting for the given kind of caller.
    #[must_use]
    pub fn for_requester(&self, requester: Requester) -> Self {
        Self { requester, ..self.clone() }
    }

    /// Points each wait for a disabled catalog to `catalog.set_enabled`: the catalog exists, so importing one is not
    /// needed.
    pub(super) fn add_disabled_catalog_hints(&self, mut status: StatusView) -> StatusView {
        let Ok(catalogs) = self.catalogs() else {
            return status;
        };
        let set = catalogs.last_loaded_catalogs();
        for wait in &mut status.waits {
            let name = wait.catalog.as_deref();
            if let Some(id) = name.and_then(|name| set.find_disabled_catalog(name)) {
                wait.next_call = Some(enable_catalog_call(id));
            }
        }
        status
    }

    /// The user's catalogs.
    ///
    /// # Errors
    /// `CATALOG_NOT_FOUND` if the embedding program supplies its own operations, or there is no home directory.
    pub fn catalogs(&self) -> Result<&Arc<Catalogs>> {
        self.shared.catalogs.as_ref().ok_or_else(|| {
            let message = "this midex has no catalogs: its program brings its own operations, or there is no home directory";
            Error::new(Code::CatalogNotFound, message)
        })
    }

    /// Whether calls act for the user or for a tool.
    pub fn requester(&self) -> Requester {
        self.requester
    }

    /// The current catalogs, including changes on disk.
    ///
    /// # Errors
    /// As [`App::catalogs`].
    pub async fn catalog_set(&self) -> Result<Arc<CatalogSet>> {
        self.with_catalogs(|catalogs| Ok(catalogs.current_catalogs())).await
    }

    /// Runs `work` on the catalogs, off the async worker threads.
    ///
    /// # Errors
    /// As [`App::catalogs`], and the errors of `work`.
    pub async fn with_catalogs<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Catalogs) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let catalogs = self.catalogs()?.clone();
        let result = tokio::task::spawn_blocking(move || work(&catalogs)).await;
        result.map_err(|error| {
            Error::internal("the work with catalogs panicked").with_source(error)
        })?
    }

    /// The secrets that are available to headers of catalogs, as headers refer to them. Empty if there are no catalogs.
    pub async fn catalog_secrets(&self) -> BTreeSet<String> {
        let names =
            self.with_catalogs(|catalogs| Ok(catalogs.caller().sources().available_references()));
        names.await.unwrap_or_default()
    }

    /// Runs `work`, which changes catalogs. Definitions and executions reflect the change before this returns.
    ///
    /// # Errors
    /// As [`App::with_catalogs`]. Nothing is changed in that case.
    pub async fn change_catalogs<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Catalogs) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let result = self.with_catalogs(work).await?;
        self.apply_catalog_changes().await;
        Ok(result)
    }

    /// Changes the settings of a catalog.
    ///
    /// # Errors
    /// As [`App::change_catalogs`].
    pub async fn change_catalog(
        &self,
        name: &str,
        change: impl FnOnce(&mut Settings, &Catalog) -> Result<()> + Send + 'static,
    ) -> Result<Arc<Catalog>> {
        let name = name.to_owned();
        self.change_catalogs(move |catalogs| catalogs.change_settings(&name, change)).await
    }

    /// Watches the catalog files until the process stops. Must be called within an async runtime.
    pub fn follow_catalogs(&self) {
        let Some(catalogs) = &self.shared.catalogs else {
            return;
        };
        catalogs.start_watching();
        let (app, mut changes) = (self.clone(), catalogs.change_receiver());
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = app.stop_token().cancelled() => return,
                    told = changes.changed() => if told.is_err() { return },
                }
                app.apply_catalog_changes().await;
            }
        });
    }

    /// Re-checks the definitions against the current catalogs, and wakes executions that wait for a catalog.
    async fn apply_catalog_changes(&self) {
        self.check_against_catalogs().await;
        let slot = self.shared.engine.lock().await;
        if let EngineSlot::Open(engine) = &*slot
            && let Err(error) = engine.look_for_catalogs().await
        {
            tracing::warn!(
                code = error.code().as_str(),
                "what waits for a catalog could not be looked for"
            );
        }
    }

    /// Re-checks the definitions against the current catalogs.
    pub(super) async fn check_against_catalogs(&self) {
        let Ok(catalogs) = self.catalogs().cloned() else {
            return;
        };
        let all = self.shared.definitions.all_definitions();
        let check = move || {
            let set = catalogs.current_catalogs();
            for definitions in all {
                let operations = OperationsSnapshot::capture(set.clone());
                definitions.change_abilities(|abilities| abilities.operations = Some(operations));
            }
        };
        if let Err(error) = tokio::task::spawn_blocking(check).await {
            tracing::error!("checking the definitions against the catalogs panicked: {error}");
        }
    }

    /// Reads a document. Returns its absolute path or URL, and its bytes.
    ///
    /// # Errors
    /// `SOURCE_REFUSED` if a tool may not read the path; `FILE_UNUSABLE`, `ADDRESS_REFUSED`, `FETCH_FAILED`,
    /// `LIMIT_EXCEEDED`.
    pub async fn read_document(
        &self,
        source: &str,
        source_type: Option<SourceType>,
    ) -> Result<(String, Arc<[u8]>)> {
        match source_type.unwrap_or(SourceType::guess_from_text(source)) {
            SourceType::Url => {
                let import_reach = AddressPolicy::for_imports(&self.config().import_from);
                let bytes = self.catalogs()?.caller().fetch_document(source, &import_reach).await?;
                Ok((source.to_owned(), bytes.into()))
            }
            SourceType::Path => {
                let (path, roots) = (self.project_dir.join(source), self.import_roots());
                let requester = self.requester;
                // If a file system hangs, it blocks only the threads of this semaphore, not the whole pool.
                let read_permits = self.shared.catalog_reads.document_permits.clone();
                let read_future = async move {
                    let permit = read_permits.acquire_owned().await;
                    let read_document =
                        move || (read_permitted_document(&path, requester, &roots), permit).0;
                    tokio::task::spawn_blocking(read_document).await
                };
                let read_result =
                    tokio::time::timeout(2 * limits::FILE_READ_WITHIN, read_future).await;
                let message = format!("{source} could not be read in time");
                let to_timeout_error =
                    |_| Error::new(Code::FileUnusable, message).with_context("path", source);
                let panicked =
                    |error| Error::internal("reading a document panicked").with_source(error);
                read_result.map_err(to_timeout_error)?.map_err(panicked)?
            }
        }
    }

    /// The directories that tools may import documents from.
    fn import_roots(&self) -> Vec<PathBuf> {
        let import_sources = self.config().import_from.iter();
        let paths = import_sources.filter(|from| normalize_allowed_host(from).is_none());
        let paths = paths.map(|from| self.project_dir.join(from));
        let own = [self.project_dir.to_path_buf()].into_iter().chain(find_user_dir());
        own.chain(paths).collect()
    }

    /// The steps that a change to a catalog breaks in the loaded definitions. `before` holds the catalogs before the
    /// change.
    ///
    /// # Errors
    /// If the definitions cannot be read.
    pub async fn find_broken_steps(
        &self,
        before: &Arc<CatalogSet>,
        catalog_id: &str,
        changes: &OperationChanges,
    ) -> Result<Vec<BrokenStep>> {
        let (set, id) = (before.clone(), catalog_id.to_owned());
        let removed = changes.removed.clone();
        self.with_registry(move |registry| {
            let entries = registry.workflows().filter_map(|entry| entry.value.clone());
            entries
                .flat_map(|definition| find_broken_steps_in(&definition, &set, &id, &removed))
                .collect()
        })
        .await
    }
}

fn find_broken_steps_in(
    definition: &Definition,
    set: &CatalogSet,
    id: &str,
    removed: &[String],
) -> Vec<BrokenStep> {
    let broken = definition.workflow.operation_calls().filter_map(|(step, catalog, operation)| {
        let OperationMatch::Operation(operation_match) = set.resolve_operation(catalog, operation)
        else {
            return None;
        };
        let name = operation_match.entry()?.name.to_string();
        (operation_match.catalog.id == id && removed.contains(&name)).then(|| BrokenStep {
            workflow_id: definition.workflow.name.to_string(),
            step_id: step.id.to_string(),
            why: format!("the new document has no `{name}`"),
        })
    });
    broken.collect()
}

/// Reads a document, if the caller may read this path.
fn read_permitted_document(
    path: &Path,
    requester: Requester,
    roots: &[PathBuf],
) -> Result<(String, Arc<[u8]>)> {
    let unusable = |error: std::io::Error| {
        let path_text = path.display();
        let message = match error.kind() {
            std::io::ErrorKind::NotFound => format!("there is no file {path_text}"),
            _ => format!("{path_text} cannot be read: {}", describe_io_error(&error)),
        };
        Error::new(Code::FileUnusable, message).with_context("path", path.display().to_string())
    };
    let real = path.canonicalize().map_err(unusable)?;
    let is_below = |root: &PathBuf| root.canonicalize().is_ok_and(|root| real.starts_with(root));
    if requester == Requester::Tool && !roots.iter().any(is_below) {
        let message =
            format!("{} lies neither in the project nor in the user's directory", path.display());
        return Err(Error::new(Code::SourceRefused, message)
            .with_context("path", path.display().to_string()));
    }
    let max = limits::DOCUMENT_BYTES_MAX as u64;
    let (bytes, metadata) = read_regular(&real, max).map_err(unusable)?;
    let length = metadata.len().max(bytes.len() as u64);
    if length > max {
        let path = path.display();
        return Err(Error::limit_exceeded(format!(
            "{path} has {length} bytes, a document may have {max}"
        )));
    }
    Ok((real.display().to_string(), bytes.into()))
}
