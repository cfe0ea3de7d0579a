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
use midex_server::app::{App, ExportRequest, ExportSelection, Redaction};

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

/// What was written.
#[derive(Serialize, JsonSchema)]
pub(super) struct Export {
    path: PathBuf,
    executions: usize,
    contents: usize,
    bytes: u64,
    redacted: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct ImportArguments {
    #[schemars(length(min = 1, max = limits::PROJECT_CHARS_MAX))]
    path: PathBuf,
}

/// What was imported.
#[derive(Serialize, JsonSchema)]
pub(super) struct ImportReply {
    imported: Vec<ImportedRow>,
}

/// An execution that was imported.
#[derive(Serialize, JsonSchema)]
struct ImportedRow {
    execution_id: String,
    workflow: String,
    state: String,
    is_child: bool,
    /// What a fork of it would do outside of midex.
    effects: Vec<String>,
}

pub(super) async fn export(app: &App, arguments: ExportArguments) -> Result<Export> {
    let ExportArguments { execution_ids, since, redact, path, force } = arguments;
    let selection = if let Some(ids) = execution_ids {
        let ids = ids.iter().map(|id| parse_id_argument("/execution_ids", id));
        ExportSelection::Ids(ids.collect::<Result<_>>()?)
    } else {
        let since = since.map(|text| {
            text.parse::<Timestamp>().map_err(|error| {
                Error::argument_rule("/since", "format", "`since` is no instant").with_source(error)
            })
        });
        ExportSelection::All { since: since.transpose()? }
    };
    let redaction = Redaction::parse(&redact)?;
    let redacted = redaction.names();
    let request = ExportRequest { selection, redaction, path: path.clone(), replaces_file: force };
    let report = app.export(request).await?;
    Ok(Export {
        path,
        executions: report.executions,
        contents: report.contents,
        bytes: report.bytes,
        redacted,
    })
}

pub(super) async fn import(app: &App, arguments: ImportArguments) -> Result<ImportReply> {
    let imported = app.import(arguments.path).await?.into_iter().map(|one| ImportedRow {
        execution_id: one.execution_id.to_string(),
        workflow: one.workflow.to_string(),
        state: one.state.to_string(),
        is_child: one.is_child,
        effects: one.effects,
    });
    Ok(ImportReply { imported: imported.collect() })
}
