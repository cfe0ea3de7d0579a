//! Completion of the variables of resource templates.

use std::collections::{BTreeSet, HashMap};

use super::{listed::is_template, unknown_resource_error};
use crate::tools::Toolsets;
use midex_domain::{ExecutionId, error::Result, limits, telemetry::EventType, view::Listing};
use midex_server::app::{App, ListRequest};

/// Completions for the variable `name` of the template `reference` that begin with `begun`. `given` has the known
/// values of other variables.
///
/// # Errors
/// `RESOURCE_NOT_FOUND` if these toolsets have no such template.
pub(crate) async fn complete_variable(
    app: &App,
    sets: Toolsets,
    reference: &str,
    name: &str,
    begun: &str,
    given: &HashMap<String, String>,
) -> Result<Vec<String>> {
    if !is_template(reference, sets) {
        return Err(unknown_resource_error(reference));
    }
    Ok(filter_by_prefix(variable_values(app, name, given).await?, begun))
}

/// The values that begin with the typed text, ignoring case.
pub(crate) fn filter_by_prefix(mut values: Vec<String>, begun: &str) -> Vec<String> {
    let begun = begun.to_lowercase();
    values.retain(|value| value.to_lowercase().starts_with(&begun));
    values
}

/// The values of a variable. The names are those in the paths of `table.rs`; a variable without an arm has no
/// completions. `after` is the last workflow of the previous page.
async fn variable_values(
    app: &App,
    name: &str,
    given: &HashMap<String, String>,
) -> Result<Vec<String>> {
    Ok(match name {
        "workflow_name" | "workflow_id" | "workflow" | "after" => {
            app.registry().await?.workflows().map(|entry| entry.name.clone()).collect()
        }
        "name" => app.registry().await?.agents().map(|entry| entry.name.clone()).collect(),
        "query" => workflow_tags(app).await?,
        "event_type" => EventType::ALL.iter().map(|kind| kind.as_str().to_owned()).collect(),
        "state" => {
            let states = ListRequest::states().into_iter();
            states.map(str::to_owned).collect()
        }
        "execution_id" => recent_execution_ids(app).await?,
        "step_name" => execution_step_ids(app, given).await?,
        "artifact" => execution_artifact_ids(app, given).await?,
        "project" => recent_project_paths(app).await?,
        "cursor" => recent_executions(app).await?.next_cursor.into_iter().collect(),
        // Suggestions for numbers: the first offset, and common limits.
        "offset" => vec!["0".to_owned()],
        "limit" => [10, 100].map(|limit: usize| limit.to_string()).into(),
        _ => Vec::new(),
    })
}

/// The tags of all workflows.
async fn workflow_tags(app: &App) -> Result<Vec<String>> {
    let registry = app.registry().await?;
    let workflows = registry.workflows();
    let tags = workflows.filter_map(|entry| Some(&entry.value.as_ref()?.workflow.tags));
    let tags: BTreeSet<_> = tags.flatten().cloned().collect();
    Ok(tags.into_iter().collect())
}

/// The most recently changed executions, of all projects.
async fn recent_executions(app: &App) -> Result<Listing> {
    let request = ListRequest {
        project: Some("*".into()),
        children: true,
        limit: Some(limits::LIST_LIMIT_MAX),
        ..ListRequest::default()
    };
    app.list(request).await
}

async fn recent_execution_ids(app: &App) -> Result<Vec<String>> {
    let executions = recent_executions(app).await?.executions.into_iter();
    Ok(executions.map(|execution| execution.execution_id).collect())
}

async fn recent_project_paths(app: &App) -> Result<Vec<String>> {
    let executions = recent_executions(app).await?.executions.into_iter();
    let known: BTreeSet<_> = executions.filter_map(|execution| execution.project).collect();
    Ok(known.into_iter().chain(["*".to_owned()]).collect())
}

fn given_execution_id(given: &HashMap<String, String>) -> Option<ExecutionId> {
    given.get("execution_id").and_then(|id| ExecutionId::parse(id).ok())
}

async fn execution_step_ids(app: &App, given: &HashMap<String, String>) -> Result<Vec<String>> {
    let Some(id) = given_execution_id(given) else {
        return Ok(Vec::new());
    };
    let definition = app.stored_definition(&id).await?;
    let steps = definition.workflow.steps.iter();
    Ok(steps.map(|step| step.id.to_string()).collect())
}

async fn execution_artifact_ids(app: &App, given: &HashMap<String, String>) -> Result<Vec<String>> {
    let Some(id) = given_execution_id(given) else {
        return Ok(Vec::new());
    };
    let mut artifacts = app.artifacts(&id, None).await?;
    artifacts.retain(|artifact| artifact.uri.is_some());
    let ids = artifacts.iter().map(|artifact| artifact.id.to_string());
    let names: BTreeSet<_> = artifacts.iter().map(|artifact| artifact.name.clone()).collect();
    Ok(ids.chain(names).collect())
}
