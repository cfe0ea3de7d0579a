//! `workflow.rename`.

use serde_json::{Map, Value, json};

use super::{
    ToolSpec, acts,
    author::{Class, references_schema, version, version_schema, workflow_id_schema},
    text, view,
};
use midex_domain::error::Result;
use midex_server::app::App;

pub(super) fn spec() -> ToolSpec {
    let properties = json!({
        "workflow_id": workflow_id_schema(),
        "new_id": workflow_id_schema(),
        "expected_version": version_schema()
    });
    let output = json!({
        "type": "object",
        "properties": {
            "workflow_id": { "type": "string" }, "renamed_from": { "type": "string" }, "path": { "type": "string" },
            "format": { "type": "string" }, "version": { "type": "string" }, "referred_by": references_schema(),
            "sync": { "type": "object" }
        },
        "required": ["success", "workflow_id", "renamed_from", "path", "format", "version", "referred_by", "sync"]
    });
    ToolSpec::new(
        (
            "workflow.rename",
            "Rename a workflow",
            "Gives a workflow another id, in its text and its file's name, and names what still refers to the old one.",
        ),
        || acts(false, false, false),
        (properties, &["workflow_id", "new_id"], output),
        |app, arguments| Box::pin(run(app, arguments)),
    )
    .of(Class::Standard)
}

async fn run(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    let [id, new_id] =
        ["workflow_id", "new_id"].map(|name| text(&arguments, name).unwrap_or_default());
    let renamed = app.rename(id, new_id, version(&arguments)).await?;
    let mut renamed = view(&renamed)?;
    renamed["success"] = json!(true);
    Ok(renamed)
}
