//! `bundle.export` and `bundle.import`: carry the commands of the user to the process that owns the store. Only for midex's
//! own commands.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parse_id_argument;
use midex_domain::{
    clock::Timestamp,
    error::{Error, Result},
    limits,
};
use midex_server::app::{App, ExportReport, ExportRequest, ImportedExecution, Redaction};

#[derive(Deserialize, JsonSchema)]
pub(super) struct ExportArguments {
    /// Without it all executions
    execution_ids: Option<Vec<String>>,
    /// Only those that moved since this instant
    since: Option<String>,
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
    let parse_ids = |ids: Vec<String>| {
        ids.iter().map(|id| parse_id_argument("/execution_ids", id)).collect::<Result<_>>()
    };
    let parse_since = |text: String| {
        text.parse::<Timestamp>().map_err(|error| {
            Error::argument_rule("/since", "format", "`since` is no instant").with_source(error)
        })
    };
    let request = ExportRequest {
        ids: execution_ids.map(parse_ids).transpose()?,
        since: since.map(parse_since).transpose()?,
        redaction: Redaction::new(&redact)?,
        path,
        replaces_file: force,
    };
    app.export(request).await
}

pub(super) async fn import(app: &App, arguments: ImportArguments) -> Result<ImportReport> {
    Ok(ImportReport { imported: app.import(arguments.path).await? })
}
