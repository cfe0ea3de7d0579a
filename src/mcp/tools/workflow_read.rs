//! `workflow.read`: reads any resource, for hosts whose models can only call tools.

use serde_json::{Map, Value, json};

use super::{ToolSpec, acts, text};
use crate::resources;
use midex_domain::error::Result;
use midex_server::app::App;

pub(super) const NAME: &str = "workflow.read";

pub(super) fn spec() -> ToolSpec {
    let properties = json!({
        "uri": {
            "type": "string", "minLength": 1
        }
    });
    let output = json!({
        "type": "object",
        "properties": { "uri": { "type": "string" }, "content": {}, "next": { "type": "string" } },
        "required": ["success", "uri", "content"]
    });
    ToolSpec::new(
        (
            NAME,
            "Read a resource",
            "Reads any midex://workflow/…: workflow_details/{workflow_name}, current_step, workflow_status, step_history or \
             workflow_artifacts/{execution_id}, artifact/{execution_id}/{artifact}. next: the rest.",
        ),
        || acts(true, false, true),
        (properties, &["uri"], output),
        |app, arguments| Box::pin(read(app, arguments)),
    )
}

async fn read(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    let uri = text(&arguments, "uri").unwrap_or_default().trim();
    let shown = resources::read(app, uri, false).await;
    let shown = shown.map_err(|error| error.with("tool", NAME))?;
    let mut answer = json!({ "success": true, "uri": uri, "content": shown.content.into_value() });
    if let Some(next) = shown.next {
        answer["next"] = next.into();
    }
    Ok(answer)
}
