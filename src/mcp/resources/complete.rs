//! Completion of the variables of resource templates.

use std::collections::{BTreeSet, HashMap};

use super::{lists::is_template, unknown_resource_error};
use crate::tools::Toolsets;
use midex_domain::{ExecutionId, error::Result, limits, telemetry::EventType, view::ExecutionPage};
use midex_server::app::{App, ListRequest};

/// Completions for the variable `name` of the template `reference` that begin with `prefix`. `known_values` has the known
/// values of other variables.
///
/// # Errors
/// `RESOURCE_NOT_FOUND` if these toolsets have no such template.
pub(crate) async fn complete_variable(
    app: &App,
    sets: Toolsets,
    reference: &str,
    name: &str,
    prefix: &str,
    known_values: &HashMap<String, String>,
) -> Result<Vec<String>> {
    if !is_template(reference, sets) {
        return Err(unknown_resource_error(reference));
    }
    Ok(filter_by_prefix(list_variable_values(app, name, known_values).await?, prefix))
}

/// The values that begin with the typed text, ignoring case.
pub(crate) fn filter_by_prefix(mut values: Vec<String>, prefix: &str) -> Vec<String> {
    let prefix = prefix.to_lowercase();
    values.retain(|value| value.to_lowercase().starts_with(&prefix));
    values
}

/// The values of a variable. The names are those in the paths of `table.rs`; a variable without an arm has no
/// completions. `after` is the last workflow of the previous page.
async fn list_variable_values(
    app: &App,
    name: &str,
    known_values: &HashMap<String, String>,
) -> Result<Vec<String>> {
    Ok(match name {
        "workflow_name" | "workflow_id" | "workflow" | "after" => {
            app.registry().await?.workflows().map(|entry| entry.name.clone()).collect()
        }
        "name" => app.registry().await?.agents().map(|entry| entry.name.clone()).collect(),
        "query" => list_workflow_tags(app).await?,
        "event_type" => EventType::ALL.iter().map(|kind| kind.as_str().to_owned()).collect(),
        "state" => {
            let states = ListRequest::states().into_iter();
            states.map(str::to_owned).collect()
        }
        "execution_id" => list_recent_ids(app).await?,
        "step_name" => list_step_ids(app, known_values).await?,
        "artifact" => list_artifact_ids(app, known_values).await?,
        "project" => list_recent_projects(app).await?,
        "cursor" => list_recent_executions(app).await?.next_cursor.into_iter().collect(),
        // Suggestions for numbers: the first offset, and common limits.
        "offset" => vec!["0".to_owned()],
        "limit" => [10, 100].map(|limit: usize| limit.to_string()).into(),
        _ => Vec::new(),
    })
}

/// The tags of all workflows.
async fn list_workflow_tags(app: &App) -> Result<Vec<String>> {
    let registry = app.registry().await?;
    let workflows = registry.workflows();
    let tags = workflows.filter_map(|entry| Some(&entry.value.as_ref()?.workflow.tags));
    let tags: BTreeSet<_> = tags.flatten().cloned().collect();
    Ok(tags.into_iter().collect())
}

/// The most recently changed executions, of all projects.
async fn list_recent_executions(app: &App) -> Result<ExecutionPage> {
    let request = ListRequest {
        project: Some("*".into()),
        should_include_children: true,
        limit: Some(limits::LIST_LIMIT_MAX),
        ..ListRequest::default()
    };
    app.list(request).await
}

async fn list_recent_ids(app: &App) -> Result<Vec<String>> {
    let executions = list_recent_executions(app).await?.executions.into_iter();
    Ok(executions.map(|execution| execution.execution_id).collect())
}

async fn list_recent_projects(app: &App) -> Result<Vec<String>> {
    let executions = list_recent_executions(app).await?.executions.into_iter();
    let project_paths: BTreeSet<_> = executions.filter_map(|execution| execution.project).collect();
    Ok(project_paths.into_iter().chain(["*".to_owned()]).collect())
}

fn parse_known_execution(known_values: &HashMap<String, String>) -> Option<ExecutionId> {
    known_values.get("execution_id").and_then(|id| ExecutionId::parse(id).ok())
}

async fn list_step_ids(app: &App, known_values: &HashMap<String, String>) -> Result<Vec<String>> {
    let Some(id) = parse_known_execution(known_values) else {
        return Ok(Vec::new());
    };
    let definition = app.stored_definition(&id).await?;
    let steps = definition.workflow.steps.iter();
    Ok(steps.map(|step| step.id.to_string()).collect())
}

async fn list_artifact_ids(
    app: &App,
    known_values: &HashMap<String, String>,
) -> Result<Vec<String>> {
    let Some(id) = parse_known_execution(known_values) else {
        return Ok(Vec::new());
    };
    let mut artifacts = app.artifacts(&id, None).await?;
    artifacts.retain(|artifact| artifact.uri.is_some());
    let ids = artifacts.iter().map(|artifact| artifact.id.to_string());
    let names: BTreeSet<_> = artifacts.iter().map(|artifact| artifact.name.clone()).collect();
    Ok(ids.chain(names).collect())
}
