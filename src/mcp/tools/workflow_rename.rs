//! `workflow.rename`.

use schemars::JsonSchema;
use serde::Deserialize;

use midex_domain::{error::Result, limits};
use midex_registry::RenamedWorkflow;
use midex_server::app::{App, WithReferences};

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    #[schemars(length(min = 1, max = limits::WORKFLOW_NAME_BYTES_MAX))]
    workflow_id: String,
    #[schemars(length(min = 1, max = limits::WORKFLOW_NAME_BYTES_MAX))]
    new_id: String,
    #[schemars(length(max = 64))]
    expected_version: Option<String>,
}

pub(super) async fn run(
    app: &App,
    arguments: Arguments,
) -> Result<WithReferences<RenamedWorkflow>> {
    let (id, new_id) = (&arguments.workflow_id, &arguments.new_id);
    app.rename_workflow(id, new_id, arguments.expected_version).await
}
