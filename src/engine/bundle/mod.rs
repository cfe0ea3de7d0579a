//! Bundles: executions with all that they need, in one file that is read without midex. `docs/bundle.md` describes it.

mod archive;
mod export;
mod import;
mod manifest;
mod redact;

use std::{
    io,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::Serialize;
use tokio::runtime::Handle;

pub use self::redact::Redaction;
use self::{export::Exporter, import::Importer};
use super::Engine;
use midex_domain::{
    ExecutionId,
    clock::Timestamp,
    error::{Code, Error, Result, describe_io_error},
};

/// The parameters of an export.
#[derive(Clone, Debug)]
pub struct ExportRequest {
    /// The executions, which must be roots; each comes with the executions below it. `None`: all roots.
    pub ids: Option<Vec<ExecutionId>>,
    /// Of all roots, only those that moved at this instant or later.
    pub since: Option<Timestamp>,
    /// What to leave out.
    pub redaction: Redaction,
    /// The file to write.
    pub path: PathBuf,
    /// Whether a file that exists is replaced.
    pub replaces_file: bool,
}

/// What an export wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExportReport {
    /// How many executions.
    pub executions: usize,
    /// How many contents.
    pub contents: usize,
    /// The size of the file.
    pub bytes: u64,
}

/// An execution of a bundle that was imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ImportedExecution {
    /// Its id.
    pub execution_id: String,
    /// Its workflow.
    pub workflow: String,
    /// Its state in the bundle, which it keeps.
    pub state: String,
    /// Its parent, if it is a child.
    pub parent: Option<String>,
    /// Whether an earlier import stored it, so that nothing was left to store.
    pub already_imported: bool,
    /// What a fork of it would do outside of midex, in words. Empty until somebody looks it up.
    pub effects: Vec<String>,
}

impl Engine {
    /// Writes executions to a bundle. None of them is deleted or purged meanwhile.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND`; `STATE_TRANSITION_REFUSED` for a child; `FILE_EXISTS`, `FILE_UNUSABLE`, `LIMIT_EXCEEDED`, and
    /// those of the store. There is then no new file.
    pub async fn export(&self, request: ExportRequest) -> Result<ExportReport> {
        let _turn = self.shared.removal_signals.bundles.read().await;
        let (engine, runtime) = (self.clone(), Handle::current());
        let executions = self.find_exported(&request).await?;
        let exporter = Exporter { engine, runtime, request, executions };
        run_blocking(move || exporter.run()).await
    }

    /// Stores the executions of a bundle in a project; they are read-only from then on. The whole bundle is checked before
    /// anything is stored. Those that an import of the same bundle stored before stay as they are, so that an import that was
    /// cut off can be repeated. Returns all in the order of the bundle: each after its children.
    ///
    /// # Errors
    /// `FILE_UNUSABLE` with the place where the bundle is not as it must be; `STORE_TOO_NEW` for a later format;
    /// `EXECUTION_ID_TAKEN` if there is, or was, another execution with one of the ids; those of the store. Unless the store
    /// fails, nothing is then stored. If it fails, each family is stored whole or not at all.
    pub async fn import(&self, path: PathBuf, project: String) -> Result<Vec<ImportedExecution>> {
        // No purge or sweep removes a content before the rows that name it are stored.
        let _turn = self.shared.removal_signals.bundles.read().await;
        let _sweeps = self.shared.removal_signals.sweeps.lock().await;
        let importer = Importer { engine: self.clone(), runtime: Handle::current(), path, project };
        let imported = run_blocking(move || importer.run()).await;
        self.shared.removal_signals.request_sweep();
        imported
    }

    /// Refuses an execution that was imported: it can only be forked.
    ///
    /// # Errors
    /// `STATE_TRANSITION_REFUSED`; `EXECUTION_NOT_FOUND`.
    pub async fn refuse_imported(&self, id: &ExecutionId) -> Result<()> {
        let execution = self.read_execution(id).await?.execution;
        if execution.is_imported() { Err(execution.imported_error()) } else { Ok(()) }
    }
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let result = tokio::task::spawn_blocking(work).await;
    result.map_err(|error| Error::internal("a bundle was not finished").with_source(error))?
}

/// The error of a file that could not be read or written.
fn file_error(path: &Path, done: &str, error: &io::Error) -> Error {
    let path = path.display().to_string();
    let message = format!("`{path}` cannot be {done}: {}", describe_io_error(error));
    let refusal = Error::new(Code::FileUnusable, message).with_context("path", path);
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            refusal.with_action("Free room on the file system of {path}, or choose another FILE")
        }
        _ => refusal,
    }
}
