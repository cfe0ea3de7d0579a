//! Catalogs of operations: where their documents may come from, what follows a change, and what refers to them.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Serialize;

use super::{App, open::Slot};
use midex_catalog::{
    By, Catalog, Catalogs, Changes, Meant, Set, Settings,
    call::{Reach, allowable},
};
use midex_domain::{
    Definition,
    check::Operations,
    check::enable_call,
    error::{Code, Error, Result, plain},
    limits,
    view::StatusView,
};
use midex_folder::read_regular;
use midex_registry::user_dir;

/// Where a document lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceType {
    /// In a file.
    Path,
    /// At a URL.
    Url,
}

impl SourceType {
    /// What a source looks like.
    pub fn of(source: &str) -> Self {
        let is_url = source.split_once("://").is_some_and(|(scheme, _)| {
            scheme.len() > 1 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
        });
        if is_url { Self::Url } else { Self::Path }
    }
}

/// A step that a change of a catalog breaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Break {
    /// The workflow.
    pub workflow_id: String,
    /// The step.
    pub step_id: String,
    /// Why.
    pub why: String,
}

/// What steps may name of these catalogs.
pub(super) fn operations(catalogs: &Catalogs) -> Operations {
    Operations::now(catalogs.loaded())
}

impl App {
    /// The same for a person's own commands: what only the user may change of catalogs, they may.
    #[must_use]
    pub fn of_user(self) -> Self {
        Self {
            by: By::User,
            ..self
        }
    }

    /// The same for a call that this one asks for.
    #[must_use]
    pub fn asked_by(&self, by: By) -> Self {
        Self { by, ..self.clone() }
    }

    /// What waits for a catalog that is there and disabled goes on once that is enabled: nothing is to be imported.
    pub(super) fn tell_disabled(&self, mut status: StatusView) -> StatusView {
        let Ok(catalogs) = self.catalogs() else {
            return status;
        };
        let set = catalogs.loaded();
        for wait in &mut status.waits {
            let name = wait.catalog.as_deref();
            if let Some(id) = name.and_then(|name| set.disabled_of(name)) {
                wait.next_call = Some(enable_call(id));
            }
        }
        status
    }

    /// The user's catalogs.
    ///
    /// # Errors
    /// `CATALOG_NOT_FOUND` where the program brings operations of its own, or the user has no directory.
    pub fn catalogs(&self) -> Result<&Arc<Catalogs>> {
        self.host.catalogs.as_ref().ok_or_else(|| {
            let message = "this midex has no catalogs: its program brings its own operations, or there is no home directory";
            Error::new(Code::CatalogNotFound, message)
        })
    }

    /// Who asks.
    pub fn by(&self) -> By {
        self.by
    }

    /// The catalogs as they stand, those on disk included.
    ///
    /// # Errors
    /// As [`App::catalogs`].
    pub async fn catalog_set(&self) -> Result<Arc<Set>> {
        self.with_catalogs(|catalogs| Ok(catalogs.current())).await
    }

    /// Works with the catalogs, off the workers.
    ///
    /// # Errors
    /// As [`App::catalogs`], and those of the work.
    pub async fn with_catalogs<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Catalogs) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let catalogs = self.catalogs()?.clone();
        let worked = tokio::task::spawn_blocking(move || work(&catalogs)).await;
        worked.map_err(|error| Error::internal("the work with catalogs panicked").because(error))?
    }

    /// The secrets that headers of catalogs may refer to and that are there, as headers write them; none where there are no
    /// catalogs.
    pub async fn catalog_secrets(&self) -> BTreeSet<String> {
        let names = self.with_catalogs(|catalogs| Ok(catalogs.caller().sources().names()));
        names.await.unwrap_or_default()
    }

    /// Changes catalogs. What follows from that, in definitions and executions, is in force before the answer.
    ///
    /// # Errors
    /// As [`App::with_catalogs`]. Nothing is changed then.
    pub async fn change_catalogs<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Catalogs) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let worked = self.with_catalogs(work).await?;
        self.catalogs_changed().await;
        Ok(worked)
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
        self.change_catalogs(move |catalogs| catalogs.change(&name, change))
            .await
    }

    /// Follows the files of catalogs until the process stops. To be called on a runtime.
    pub fn follow_catalogs(&self) {
        let Some(catalogs) = &self.host.catalogs else {
            return;
        };
        catalogs.watch();
        let (app, mut changes) = (self.clone(), catalogs.changes());
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = app.stopping().cancelled() => return,
                    told = changes.changed() => if told.is_err() { return },
                }
                app.catalogs_changed().await;
            }
        });
    }

    /// Definitions are checked against the catalogs that there are now, and what waits for one looks for it.
    async fn catalogs_changed(&self) {
        let Ok(catalogs) = self.catalogs() else {
            return;
        };
        let set = catalogs.loaded();
        let all = self.host.definitions.all();
        let check = move || {
            for definitions in all {
                let operations = Operations::now(set.clone());
                definitions.change_abilities(|abilities| abilities.operations = Some(operations));
            }
        };
        if let Err(error) = tokio::task::spawn_blocking(check).await {
            tracing::error!("checking the definitions against the catalogs panicked: {error}");
        }
        let slot = self.host.engine.lock().await;
        if let Slot::Open(engine) = &*slot
            && let Err(error) = engine.look_for_catalogs().await
        {
            tracing::warn!(
                code = error.code().as_str(),
                "what waits for a catalog could not be looked for"
            );
        }
    }

    /// The text of a document, and what it is called: the absolute path, or the URL.
    ///
    /// # Errors
    /// `SOURCE_REFUSED` where a tool may not read there; `FILE_UNUSABLE`, `ADDRESS_REFUSED`, `FETCH_FAILED`,
    /// `LIMIT_EXCEEDED`.
    pub async fn document_of(
        &self,
        source: &str,
        source_type: Option<SourceType>,
    ) -> Result<(String, Arc<[u8]>)> {
        match source_type.unwrap_or(SourceType::of(source)) {
            SourceType::Url => {
                let reach = Reach::of_imports(&self.config().import_from);
                let bytes = self.catalogs()?.caller().fetch(source, &reach).await?;
                Ok((source.to_owned(), bytes.into()))
            }
            SourceType::Path => {
                let (path, roots) = (self.project_dir.join(source), self.import_roots());
                let by = self.by;
                // A file system that answers nothing keeps these threads, and no others, from their work.
                let turns = self.host.document_reads.clone();
                let reading = async move {
                    let turn = turns.acquire_owned().await;
                    let read = move || (read(&path, by, &roots), turn).0;
                    tokio::task::spawn_blocking(read).await
                };
                let read = tokio::time::timeout(2 * limits::FILE_READ_WITHIN, reading).await;
                let late = format!("{source} could not be read in time");
                let late = |_| Error::new(Code::FileUnusable, late).with("path", source);
                let panicked =
                    |error| Error::internal("reading a document panicked").because(error);
                read.map_err(late)?.map_err(panicked)?
            }
        }
    }

    /// The directories that tools may import from.
    fn import_roots(&self) -> Vec<PathBuf> {
        let sources = self.config().import_from.iter();
        let named = sources.filter(|from| allowable(from).is_none());
        let named = named.map(|from| self.project_dir.join(from));
        let own = [self.project_dir.to_path_buf()]
            .into_iter()
            .chain(user_dir());
        own.chain(named).collect()
    }

    /// What a change of a catalog breaks in the definitions that are loaded.
    /// `before` are the catalogs without it.
    ///
    /// # Errors
    /// The definitions could not be read.
    pub async fn broken_by(
        &self,
        before: &Arc<Set>,
        catalog_id: &str,
        changes: &Changes,
    ) -> Result<Vec<Break>> {
        let (set, id) = (before.clone(), catalog_id.to_owned());
        let removed = changes.removed.clone();
        self.look_into_registry(move |registry| {
            let entries = registry.workflows().filter_map(|entry| entry.value.clone());
            entries
                .flat_map(|definition| breaks(&definition, &set, &id, &removed))
                .collect()
        })
        .await
    }
}

fn breaks(definition: &Definition, set: &Set, id: &str, removed: &[String]) -> Vec<Break> {
    let broken = definition.calls().filter_map(|(step, catalog, operation)| {
        let Meant::Operation(named) = set.meaning(catalog, operation) else {
            return None;
        };
        let name = named.entry()?.name.to_string();
        (named.catalog.id == id && removed.contains(&name)).then(|| Break {
            workflow_id: definition.workflow.name.to_string(),
            step_id: step.id.to_string(),
            why: format!("the new document has no `{name}`"),
        })
    });
    broken.collect()
}

/// Reads a document where the caller may.
fn read(path: &Path, by: By, roots: &[PathBuf]) -> Result<(String, Arc<[u8]>)> {
    let unusable = |error: std::io::Error| {
        let shown = path.display();
        let message = match error.kind() {
            std::io::ErrorKind::NotFound => format!("there is no file {shown}"),
            _ => format!("{shown} cannot be read: {}", plain(&error)),
        };
        Error::new(Code::FileUnusable, message).with("path", path.display().to_string())
    };
    let real = path.canonicalize().map_err(unusable)?;
    let is_below = |root: &PathBuf| root.canonicalize().is_ok_and(|root| real.starts_with(root));
    if by == By::Tool && !roots.iter().any(is_below) {
        let message = format!(
            "{} lies neither in the project nor in the user's directory",
            path.display()
        );
        return Err(
            Error::new(Code::SourceRefused, message).with("path", path.display().to_string())
        );
    }
    let max = limits::DOCUMENT_BYTES_MAX as u64;
    let (bytes, metadata) = read_regular(&real, max).map_err(unusable)?;
    let length = metadata.len().max(bytes.len() as u64);
    if length > max {
        let path = path.display();
        return Err(Error::limit(format!(
            "{path} has {length} bytes, a document may have {max}"
        )));
    }
    Ok((real.display().to_string(), bytes.into()))
}
