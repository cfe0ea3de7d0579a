//! `workflow.purge_history`.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::elicitation::{Confirmation, ConfirmationFallback};
use midex_domain::{
    error::{Result, format_count},
    limits,
};
use midex_server::app::App;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Arguments {
    #[schemars(length(min = 1, max = limits::WORKFLOW_NAME_BYTES_MAX))]
    workflow_id: Option<String>,
    /// All inputs without it
    #[schemars(length(min = 1, max = limits::INPUTS_DECLARED_MAX))]
    input_keys: Option<Vec<String>>,
    /// The user wants it
    #[serde(default)]
    confirm: bool,
}

/// What was removed.
#[derive(Serialize, JsonSchema)]
pub(super) struct Purge {
    removed_entries: usize,
    executions: usize,
    removed_files: usize,
}

pub(super) async fn confirm_purge(app: &App, arguments: Arguments) -> Result<Option<Confirmation>> {
    let Arguments { workflow_id: workflow, input_keys, confirm } = arguments;
    let keys: Option<BTreeSet<_>> = input_keys.map(BTreeSet::from_iter);
    let plan = app.plan_purge(workflow.as_deref(), keys.clone()).await?;
    if confirm || plan.executions == 0 {
        return Ok(None);
    }
    let key = format!("workflow.purge_history:{}", json!([workflow, keys]));
    let values = match &keys {
        Some(keys) => keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", "),
        None => "all inputs".to_owned(),
    };
    let values: String = values.chars().take(limits::QUESTION_SHOWN_CHARS).collect();
    let of_workflow = workflow.map_or_else(String::new, |id| format!(" of `{id}`"));
    let message = format!(
        "Remove the values of {values} from {}{of_workflow} for good?",
        format_count(plan.executions, "ended execution"),
    );
    Ok(Some(Confirmation {
        key,
        message,
        error_context: vec![("executions", plan.executions.to_string())],
        fallback: ConfirmationFallback::Refuse,
        requester: app.requester(),
        version: None,
    }))
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<Purge> {
    let keys = arguments.input_keys.map(BTreeSet::from_iter);
    let purge = app.purge_history(arguments.workflow_id.as_deref(), keys).await?;
    Ok(Purge {
        removed_entries: purge.removed_entries,
        executions: purge.executions,
        removed_files: 0,
    })
}
