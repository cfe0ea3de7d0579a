//! `execution.list`.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{ToolSpec, acts, project_schema, schema_of, text, view, whole};
use crate::{
    app::{App, ListRequest},
    domain::view::Listing,
    error::Result,
    limits,
};

#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Listed {
    /// True.
    success: bool,
    #[serde(flatten)]
    listing: Listing,
}

pub(super) fn spec() -> ToolSpec {
    let mut project = project_schema();
    project["description"] = json!("The directory of another project, or * for all");
    let properties = json!({
        "state": { "enum": ListRequest::states(), "description": "open: not ended" },
        "workflow_name": {
            "type": "string", "minLength": 1, "maxLength": limits::WORKFLOW_NAME_BYTES_MAX
        },
        "project": project,
        "calls": { "type": "boolean", "default": false, "description": "Calls of commands instead" },
        "children": { "type": "boolean", "default": false, "description": "Children of executions too" },
        "limit": {
            "type": "integer", "minimum": 1, "maximum": limits::LIST_LIMIT_MAX,
            "default": limits::LIST_LIMIT_DEFAULT
        },
        "cursor": { "type": "string", "maxLength": 100, "description": "next_cursor of the last page" }
    });
    ToolSpec::new(
        (
            "execution.list",
            "List executions",
            "Lists executions with state and current step, the one that moved last first.",
        ),
        || acts(true, false, true),
        (properties, &[], schema_of::<Listed>()),
        |app, arguments| Box::pin(run(app, arguments)),
    )
}

async fn run(app: &App, arguments: Map<String, Value>) -> Result<Value> {
    let owned = |name: &str| text(&arguments, name).map(str::to_owned);
    let limit = whole(&arguments, "limit");
    let request = ListRequest {
        state: owned("state"),
        workflow: owned("workflow_name"),
        project: owned("project"),
        calls: arguments.get("calls") == Some(&json!(true)),
        children: arguments.get("children") == Some(&json!(true)),
        limit: limit.and_then(|limit| usize::try_from(limit).ok()),
        cursor: owned("cursor"),
    };
    view(&Listed {
        success: true,
        listing: app.list(request).await?,
    })
}
