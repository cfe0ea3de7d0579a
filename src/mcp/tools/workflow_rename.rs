//! `workflow.rename`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{schemas::output_of, view};
use midex_domain::{error::Result, limits};
use midex_server::app::App;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    #[schemars(length(min = 1, max = limits::WORKFLOW_NAME_BYTES_MAX))]
    workflow_id: String,
    #[schemars(length(min = 1, max = limits::WORKFLOW_NAME_BYTES_MAX))]
    new_id: String,
    #[schemars(length(max = 64))]
    expected_version: Option<String>,
}

pub(super) fn output() -> Value {
    let text = json!({ "type": "string" });
    let required = json!({
        "workflow_id": text, "renamed_from": text, "path": text, "format": text, "version": text,
        "referred_by": { "type": "array", "items": { "type": "object" } }, "sync": { "type": "object" }
    });
    output_of(required, json!({}))
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<Value> {
    let (id, new_id) = (&arguments.workflow_id, &arguments.new_id);
    let renamed = app.rename(id, new_id, arguments.expected_version).await?;
    let mut renamed = view(&renamed)?;
    renamed["success"] = json!(true);
    Ok(renamed)
}
