//! `execution.list`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::workflow_list::fit_in_answer;
use midex_domain::{error::Result, label::Labels, limits, view::ExecutionPage};
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
    labels: Option<Labels>,
    /// 2d, or an instant
    #[schemars(length(max = 100))]
    since: Option<String>,
    #[schemars(length(max = 100))]
    until: Option<String>,
    #[schemars(length(min = 1, max = limits::LIST_TEXT_CHARS_MAX))]
    text: Option<String>,
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

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<ExecutionPage> {
    let mut request = ListRequest {
        state: arguments.state,
        workflow: arguments.workflow_name,
        project: arguments.project,
        labels: arguments.labels.unwrap_or_default(),
        since: arguments.since,
        until: arguments.until,
        text: arguments.text,
        is_call_list: arguments.calls,
        should_include_children: arguments.children,
        // Limit the rows to what fits into one answer, whatever limit was requested. The next page has the others.
        limit: arguments.limit.map(|limit| limit.min(limits::LIST_LIMIT_DEFAULT)),
        cursor: arguments.cursor,
    };
    loop {
        let page = app.list(request.clone()).await?;
        let fitting = fit_in_answer(&page.executions, |row| json!(row)).len();
        if fitting == page.executions.len() {
            return Ok(page);
        }
        // Labels may be long: a shorter page leads to the others too.
        request.limit = Some(fitting);
    }
}
