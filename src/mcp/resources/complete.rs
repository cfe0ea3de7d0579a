//! Completion of the variables of resource templates.

use std::collections::HashMap;

use super::{ROOT, TEMPLATES, unknown};
use crate::{
    app::{App, ListRequest},
    domain::{ExecutionId, State, telemetry::EventType},
    error::Result,
    limits,
};

/// Values for the variable `name` of the template `reference` that begin with `begun`. `given` are the values of
/// other variables, as far as they are known.
///
/// # Errors
/// `RESOURCE_NOT_FOUND` where there is no such template.
pub(in crate::mcp) async fn complete(
    app: &App,
    reference: &str,
    name: &str,
    begun: &str,
    given: &HashMap<String, String>,
) -> Result<Vec<String>> {
    let path = reference
        .strip_prefix(ROOT)
        .ok_or_else(|| unknown(reference))?;
    if !TEMPLATES.iter().any(|(_, template, ..)| *template == path) {
        return Err(unknown(reference));
    }
    let mut values = values(app, name, given).await?;
    let begun = begun.to_lowercase();
    values.retain(|value| value.to_lowercase().starts_with(&begun));
    Ok(values)
}

async fn values(app: &App, name: &str, given: &HashMap<String, String>) -> Result<Vec<String>> {
    Ok(match name {
        "workflow_name" | "workflow" => app
            .registry()
            .await?
            .workflows()
            .map(|entry| entry.name.clone())
            .collect(),
        "name" => app
            .registry()
            .await?
            .agents()
            .map(|entry| entry.name.clone())
            .collect(),
        "event_type" => EventType::ALL
            .iter()
            .map(|kind| kind.as_str().to_owned())
            .collect(),
        "state" => State::ALL
            .iter()
            .map(|state| state.as_str())
            .chain(["open"])
            .map(str::to_owned)
            .collect(),
        "execution_id" => executions(app).await?,
        "step_name" => steps(app, given).await?,
        "artifact" => artifacts(app, given).await?,
        _ => Vec::new(),
    })
}

/// Those that moved last, in whatever project.
async fn executions(app: &App) -> Result<Vec<String>> {
    let request = ListRequest {
        project: Some("*".into()),
        limit: Some(limits::LIST_LIMIT_MAX),
        ..ListRequest::default()
    };
    let listing = app.list(request).await?;
    Ok(listing
        .executions
        .into_iter()
        .map(|execution| execution.execution_id)
        .collect())
}

fn execution(given: &HashMap<String, String>) -> Option<ExecutionId> {
    given
        .get("execution_id")
        .and_then(|id| ExecutionId::parse(id).ok())
}

async fn steps(app: &App, given: &HashMap<String, String>) -> Result<Vec<String>> {
    let Some(id) = execution(given) else {
        return Ok(Vec::new());
    };
    let seen = app.engine().await?.see(&id).await?;
    Ok(seen
        .execution
        .steps()
        .iter()
        .map(|step| step.id.to_string())
        .collect())
}

async fn artifacts(app: &App, given: &HashMap<String, String>) -> Result<Vec<String>> {
    let Some(id) = execution(given) else {
        return Ok(Vec::new());
    };
    let artifacts = app.engine().await?.artifacts(&id, None).await?;
    Ok(artifacts
        .into_iter()
        .map(|artifact| artifact.id.to_string())
        .collect())
}
