//! `workflow.delete`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::elicitation::{Confirmation, ConfirmationFallback};
use midex_domain::{error::Result, limits};
use midex_registry::DeletedWorkflow;
use midex_server::app::{App, WithReferences};

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    #[schemars(length(min = 1, max = limits::WORKFLOW_NAME_BYTES_MAX))]
    workflow_id: String,
    #[schemars(length(max = 64))]
    expected_version: Option<String>,
    /// The user wants it
    #[serde(default)]
    confirm: bool,
}

/// A file that was deleted.
#[derive(Serialize, JsonSchema)]
pub(super) struct WorkflowDeletion {
    #[serde(flatten)]
    file: WithReferences<DeletedWorkflow>,
    deleted: bool,
}

pub(super) async fn confirm_delete(
    app: &App,
    arguments: Arguments,
) -> Result<Option<Confirmation>> {
    if arguments.confirm {
        return Ok(None);
    }
    let id = arguments.workflow_id;
    let existing_file = app.preview_delete(&id, arguments.expected_version).await?;
    Ok(Some(Confirmation {
        key: format!("workflow.delete:{}:{}", existing_file.file.path, existing_file.file.version),
        message: format!(
            "Delete the workflow `{id}`, the file `{}`?{}",
            existing_file.file.path,
            existing_file.describe_references()
        ),
        error_context: vec![("workflow_id", id), ("path", existing_file.file.path)],
        fallback: ConfirmationFallback::Refuse,
        requester: app.requester(),
        version: Some(existing_file.file.version),
    }))
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<WorkflowDeletion> {
    let delete = app.delete_workflow(&arguments.workflow_id, arguments.expected_version);
    let (file, deleted) = (delete.await?, true);
    Ok(WorkflowDeletion { file, deleted })
}
