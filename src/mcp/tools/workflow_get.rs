//! `workflow.get`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::schemas::output_of;
use midex_domain::{error::Result, limits};
use midex_registry::{Manifest, Registry, WorkflowEntry};
use midex_server::app::App;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    #[schemars(length(min = 1, max = limits::WORKFLOW_NAME_BYTES_MAX))]
    workflow_id: String,
}

pub(super) fn output() -> Value {
    let (text, maybe) = (
        json!({ "type": "string" }),
        json!({ "type": ["string", "null"] }),
    );
    let required = json!({
        "workflow_id": text, "path": maybe, "format": text, "content": maybe, "version": text, "source": text
    });
    let optional = json!({
        "parsed": { "type": ["object", "null"] }, "findings": { "type": "array", "items": { "type": "object" } }
    });
    output_of(required, optional)
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<Value> {
    let name = arguments.workflow_id;
    app.look_into_registry(move |registry| {
        let entry = registry.workflow(&name);
        entry
            .map(|entry| shown(registry, entry))
            .ok_or_else(|| registry.no_such_id(&name))
    })
    .await?
}

fn shown(registry: &Registry, entry: &WorkflowEntry) -> Value {
    let manifest = registry.manifest(entry);
    let mut shown = json!({
        "success": true,
        "workflow_id": entry.name,
        "path": entry.path,
        "format": entry.format().as_str(),
        "content": manifest.as_ref().map(|manifest| &manifest.text),
        "parsed": manifest.as_ref().and_then(Manifest::parsed),
        "version": manifest.as_ref().map_or(entry.version, Manifest::version).to_string(),
        "source": entry.source,
    });
    if !entry.findings.is_empty() {
        shown["findings"] = json!(entry.findings);
    }
    shown
}
