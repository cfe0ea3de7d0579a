//! `workflow.get`.

use serde_json::{Map, Value, json};

use super::{
    ToolSpec, acts,
    author::{Class, workflow_id_schema},
    text,
    workflow_validate::findings_schema,
};
use midex_domain::error::Result;
use midex_registry::{Manifest, Registry, WorkflowEntry};
use midex_server::app::App;

pub(super) fn spec() -> ToolSpec {
    let text = json!({ "type": ["string", "null"] });
    let output = json!({
        "type": "object",
        "properties": {
            "workflow_id": { "type": "string" }, "path": text, "format": { "type": "string" }, "content": text,
            "parsed": { "type": ["object", "null"] }, "version": { "type": "string" }, "source": { "type": "string" },
            "findings": findings_schema()
        },
        "required": ["success", "workflow_id", "path", "format", "content", "version", "source"]
    });
    ToolSpec::new(
        (
            "workflow.get",
            "Get a workflow's file",
            "Returns the text of a workflow's file, what it says as JSON, and its version.",
        ),
        || acts(true, false, true),
        (
            json!({ "workflow_id": workflow_id_schema() }),
            &["workflow_id"],
            output,
        ),
        |app, arguments| Box::pin(run(app, arguments)),
    )
    .of(Class::Safe)
}

async fn run(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    let name = text(&arguments, "workflow_id")
        .unwrap_or_default()
        .to_owned();
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
