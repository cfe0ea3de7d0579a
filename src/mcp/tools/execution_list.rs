//! `execution.list`.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{ToolSpec, acts, project_schema, schema_of, text, view, whole};
use midex_domain::{error::Result, limits, view::Listing};
use midex_server::app::{App, ListRequest};

const PAGE_ROWS: u64 = limits::LIST_LIMIT_DEFAULT as u64;

#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Listed {
    /// True.
    success: bool,
    #[serde(flatten)]
    listing: Listing,
}

pub(super) fn spec() -> ToolSpec {
    let mut project = project_schema();
    project["description"] = json!("Directory of another, or *");
    let properties = json!({
        "state": { "enum": ListRequest::states(), "description": "open: not ended" },
        "workflow_name": {
            "type": "string", "minLength": 1, "maxLength": limits::WORKFLOW_NAME_BYTES_MAX
        },
        "project": project,
        "calls": { "type": "boolean", "default": false },
        "children": { "type": "boolean", "default": false },
        "limit": {
            "type": "integer", "minimum": 1, "maximum": limits::LIST_LIMIT_MAX,
            "default": limits::LIST_LIMIT_DEFAULT
        },
        "cursor": { "type": "string", "maxLength": 100 }
    });
    ToolSpec::new(
        (
            "execution.list",
            "List executions",
            "Lists executions, the one that moved last first.",
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
        // Limit the rows to what fits into one answer, whatever limit was requested. The next page has the others.
        limit: limit.and_then(|limit| usize::try_from(limit.min(PAGE_ROWS)).ok()),
        cursor: owned("cursor"),
    };
    view(&Listed {
        success: true,
        listing: app.list(request).await?,
    })
}
