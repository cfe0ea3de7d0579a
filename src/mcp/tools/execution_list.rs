//! `execution.list`.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{ToolSpec, acts, project_schema, shape_of, text, view, whole};
use crate::{
    app::{App, ListRequest},
    domain::{State, view::Listing},
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
    let states: Vec<_> = State::ALL
        .iter()
        .map(|state| state.as_str())
        .chain(["open"])
        .collect();
    let mut project = project_schema();
    project["description"] = json!(
        "The project whose executions are listed: a path, or * for all; this server's own where it is left out"
    );
    let input = json!({
        "type": "object",
        "properties": {
            "state": { "enum": states, "description": "Only those in this state; open: those that have not ended" },
            "workflow_name": {
                "type": "string", "minLength": 1, "maxLength": limits::WORKFLOW_NAME_BYTES_MAX,
                "description": "Only those of this workflow"
            },
            "project": project,
            "limit": {
                "type": "integer", "minimum": 1, "maximum": limits::LIST_LIMIT_MAX,
                "description": format!("How many at most; {} where it is left out", limits::LIST_LIMIT_DEFAULT)
            },
            "cursor": { "type": "string", "maxLength": 100, "description": "next_cursor of the page before" }
        },
        "additionalProperties": false
    });
    ToolSpec::new(
        (
            "execution.list",
            "List executions",
            "Lists executions, the one that moved last first, with their state and current step.",
        ),
        || acts(true, false, true),
        (input, shape_of::<Listed>()),
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
        limit: limit.and_then(|limit| usize::try_from(limit).ok()),
        cursor: owned("cursor"),
    };
    view(&Listed {
        success: true,
        listing: app.list(request).await?,
    })
}
