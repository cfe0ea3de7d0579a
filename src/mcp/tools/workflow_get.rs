//! `workflow.get`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use midex_domain::{error::Result, finding::Finding, limits};
use midex_registry::Manifest;
use midex_server::app::App;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    #[schemars(length(min = 1, max = limits::WORKFLOW_NAME_BYTES_MAX))]
    workflow_id: String,
}

/// A workflow's file.
#[derive(Serialize, JsonSchema)]
pub(super) struct WorkflowFile {
    workflow_id: String,
    path: Option<PathBuf>,
    format: &'static str,
    content: Option<String>,
    #[schemars(with = "Option<Map<String, Value>>")]
    parsed: Option<Value>,
    version: String,
    source: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Value>")]
    findings: Vec<Finding>,
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<WorkflowFile> {
    let name = arguments.workflow_id;
    app.with_registry(move |registry| {
        let entry = registry.workflow(&name);
        let entry = entry.ok_or_else(|| registry.unknown_id_error(&name))?;
        let manifest = registry.read_manifest(entry);
        let version = manifest.as_ref().map_or(entry.version, Manifest::version);
        Ok(WorkflowFile {
            workflow_id: entry.name.clone(),
            path: entry.path.clone(),
            format: entry.format().as_str(),
            parsed: manifest.as_ref().and_then(Manifest::parse_document),
            content: manifest.map(|manifest| manifest.text),
            version: version.to_string(),
            source: entry.source.as_str(),
            findings: entry.findings.clone(),
        })
    })
    .await?
}
