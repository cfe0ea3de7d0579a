//! `execution.delete`, and for midex's own commands `execution.prune`, `store.stats` and `cluster.status`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parse_execution_id;
use crate::elicitation::{Confirmation, ConfirmationFallback};
use midex_domain::{
    State,
    error::{Result, format_count},
    limits,
};
use midex_server::app::{App, ClusterStatus, PruneProgress, PruneRule, StoreStats, parse_workflow};

#[derive(Deserialize, JsonSchema)]
pub(super) struct DeleteArguments {
    #[schemars(length(min = 1, max = limits::EXECUTION_ID_BYTES_MAX))]
    execution_id: String,
    /// The user wants it
    #[serde(default)]
    confirm: bool,
}

/// The executions that were deleted: the one that was named, and its children.
#[derive(Serialize, JsonSchema)]
pub(super) struct ExecutionDeletion {
    deleted: Vec<String>,
}

pub(super) async fn confirm_delete(
    app: &App,
    arguments: DeleteArguments,
) -> Result<Option<Confirmation>> {
    if arguments.confirm {
        return Ok(None);
    }
    let id = parse_execution_id(&arguments.execution_id)?;
    let family = app.load_deletable_family(&id).await?;
    let execution = &family[0].execution;
    let children = match family.len() - 1 {
        0 => String::new(),
        count => format!(" and {}", format_count(count, "child execution")),
    };
    Ok(Some(Confirmation {
        key: format!("execution.delete:{id}"),
        message: format!(
            "Delete the execution `{id}` of `{}`, which is {}, with its history and artifacts{children} for good?",
            execution.workflow(),
            execution.state()
        ),
        error_context: vec![("execution_id", id.to_string())],
        fallback: ConfirmationFallback::Refuse,
        requester: app.requester(),
        version: None,
    }))
}

pub(super) async fn delete(app: &App, arguments: DeleteArguments) -> Result<ExecutionDeletion> {
    let id = parse_execution_id(&arguments.execution_id)?;
    let deleted = app.delete(&id).await?;
    Ok(ExecutionDeletion { deleted: deleted.iter().map(ToString::to_string).collect() })
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct PruneArguments {
    /// Directory of another, or *
    project: Option<String>,
    #[schemars(with = "Option<String>")]
    state: Option<State>,
    workflow_name: Option<String>,
    /// Only what ended longer ago than so many seconds
    older_than_s: Option<u64>,
    /// How many of each workflow are kept
    keep_last: Option<usize>,
    #[serde(default)]
    dry_run: bool,
}

pub(super) async fn prune(app: &App, arguments: PruneArguments) -> Result<PruneProgress> {
    let rule = PruneRule {
        project: app.project_filter(arguments.project),
        state: arguments.state,
        workflow: arguments.workflow_name.map(|name| parse_workflow(&name)).transpose()?,
        older_than: Some(Duration::from_secs(arguments.older_than_s.unwrap_or_default())),
        keep_last: arguments.keep_last,
        keep_total: None,
    };
    app.prune(rule, arguments.dry_run).await
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct StatsArguments {
    /// What would be freed of what ended longer ago than so many seconds
    older_than_s: Option<u64>,
}

pub(super) async fn stats(app: &App, arguments: StatsArguments) -> Result<StoreStats> {
    app.stats(arguments.older_than_s.map(Duration::from_secs)).await
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct ClusterStatusArguments {}

#[derive(Serialize, JsonSchema)]
pub(super) struct ClusterStatusReply {
    /// The servers that share the store; missing if it belongs to one process
    cluster: Option<ClusterStatus>,
}

pub(super) async fn cluster_status(
    app: &App,
    _: ClusterStatusArguments,
) -> Result<ClusterStatusReply> {
    Ok(ClusterStatusReply { cluster: app.cluster_status().await? })
}
