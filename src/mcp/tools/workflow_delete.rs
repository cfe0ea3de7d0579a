//! `workflow.delete`.

use serde_json::{Map, Value, json};

use super::{
    ToolSpec, Work, acts,
    author::{Class, references_schema, version, version_schema, workflow_id_schema},
    flag, text, view,
};
use crate::asking::{Confirmation, Unasked};
use midex_domain::error::Result;
use midex_server::app::App;

const NAME: &str = "workflow.delete";

pub(super) fn spec() -> ToolSpec {
    let properties = json!({
        "workflow_id": workflow_id_schema(),
        "expected_version": version_schema(),
        "confirm": { "type": "boolean", "default": false, "description": "The user wants it" }
    });
    let output = json!({
        "type": "object",
        "properties": {
            "deleted": { "type": "boolean" }, "workflow_id": { "type": "string" }, "path": { "type": "string" },
            "version": { "type": "string" }, "referred_by": references_schema(), "sync": { "type": "object" }
        },
        "required": ["success", "deleted", "workflow_id", "path", "version", "referred_by", "sync"]
    });
    ToolSpec::doing(
        (
            NAME,
            "Delete a workflow",
            "Deletes a workflow's file. Executions keep theirs.",
        ),
        || acts(false, true, false),
        (properties, &["workflow_id"], output),
        Work::Confirmed(
            |app, arguments| Box::pin(question(app, arguments)),
            |app, arguments| Box::pin(run(app, arguments)),
        ),
    )
    .of(Class::Destructive)
}

async fn question(app: &App, arguments: &Map<String, Value>) -> Result<Option<Confirmation>> {
    if flag(arguments, "confirm") {
        return Ok(None);
    }
    let id = text(arguments, "workflow_id").unwrap_or_default();
    let there = app.deletable(id, version(arguments)).await?;
    let mut confirmed = arguments.clone();
    confirmed.insert("expected_version".into(), json!(there.file.version));
    Ok(Some(Confirmation {
        key: format!("{NAME}:{}:{}", there.file.path, there.file.version),
        message: format!(
            "Delete the workflow `{id}`, the file `{}`?{}",
            there.file.path,
            there.told()
        ),
        about: vec![("workflow_id", id.to_owned()), ("path", there.file.path)],
        unasked: Unasked::Refused,
        by: app.by(),
        confirmed,
    }))
}

async fn run(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    let id = text(&arguments, "workflow_id").unwrap_or_default();
    let mut deleted = view(&app.delete(id, version(&arguments)).await?)?;
    deleted["success"] = json!(true);
    deleted["deleted"] = json!(true);
    Ok(deleted)
}
