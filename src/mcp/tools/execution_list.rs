//! `execution.list`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use midex_domain::{error::Result, limits, view::ExecutionPage};
use midex_server::app::{App, ListRequest};

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    /// open: not ended
    #[schemars(extend("enum" = ListRequest::states()))]
    state: Option<String>,
    #[schemars(length(min = 1, max = limits::WORKFLOW_NAME_BYTES_MAX))]
    workflow_name: Option<String>,
    /// Directory of another, or *
    #[schemars(length(min = 1, max = limits::PROJECT_CHARS_MAX))]
    project: Option<String>,
    #[serde(default)]
    calls: bool,
    #[serde(default)]
    children: bool,
    #[schemars(
        range(min = 1, max = limits::LIST_LIMIT_MAX),
        extend("default" = limits::LIST_LIMIT_DEFAULT)
    )]
    limit: Option<usize>,
    #[schemars(length(max = 100))]
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct ExecutionList {
    success: bool,
    #[serde(flatten)]
    listing: ExecutionPage,
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<ExecutionList> {
    let request = ListRequest {
        state: arguments.state,
        workflow: arguments.workflow_name,
        project: arguments.project,
        is_call_list: arguments.calls,
        should_include_children: arguments.children,
        // Limit the rows to what fits into one answer, whatever limit was requested. The next page has the others.
        limit: arguments.limit.map(|limit| limit.min(limits::LIST_LIMIT_DEFAULT)),
        cursor: arguments.cursor,
    };
    Ok(ExecutionList { success: true, listing: app.list(request).await? })
}
