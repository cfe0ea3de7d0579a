//! `bundle.export` and `bundle.import`: carry the commands of the user to the process that owns the store. Only for midex's
//! own commands.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use midex_domain::{ExecutionId, clock::Timestamp, error::Result, limits};
use midex_server::app::{App, ExportReport, ExportRequest, ImportedExecution, Redaction};

#[derive(Deserialize, JsonSchema)]
pub(super) struct ExportArguments {
    /// Without it all executions
    #[schemars(with = "Option<Vec<String>>")]
    execution_ids: Option<Vec<ExecutionId>>,
    /// Only those that moved since this instant
    #[schemars(with = "Option<String>")]
    since: Option<Timestamp>,
    /// `inputs`, `outputs`, `artifacts` and keys
    #[serde(default)]
    redact: Vec<String>,
    #[schemars(length(min = 1, max = limits::PROJECT_CHARS_MAX))]
    path: PathBuf,
    /// Replace the file
    #[serde(default)]
    force: bool,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct ImportArguments {
    #[schemars(length(min = 1, max = limits::PROJECT_CHARS_MAX))]
    path: PathBuf,
}

/// What was imported, each execution after its children.
#[derive(Serialize, JsonSchema)]
pub(super) struct ImportReport {
    imported: Vec<ImportedExecution>,
}

pub(super) async fn export(app: &App, arguments: ExportArguments) -> Result<ExportReport> {
    let ExportArguments { execution_ids, since, redact, path, force } = arguments;
    let redaction = Redaction::new(&redact)?;
    app.export(ExportRequest { ids: execution_ids, since, redaction, path, replaces_file: force })
        .await
}

pub(super) async fn import(app: &App, arguments: ImportArguments) -> Result<ImportReport> {
    Ok(ImportReport { imported: app.import(arguments.path).await? })
}
