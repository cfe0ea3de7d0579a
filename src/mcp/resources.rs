//! The resources of S0 under `midex://workflow/`: reads that change nothing, save that reading
//! `current_step` renews a token that has expired.

use std::collections::HashMap;

use rmcp::model::{Resource, ResourceTemplate};
use serde_json::{Value, json};

use crate::{
    app::App,
    domain::{Definition, ExecutionId, telemetry::EventType},
    error::{Code, Error, Result},
    limits,
    registry::WorkflowEntry,
    uri,
};

const ROOT: &str = "midex://workflow/";
const JSON: &str = "application/json";

/// The resources that need no argument.
pub(super) fn list() -> Vec<Resource> {
    let resource = |path: &str, title: &str, description: &str| {
        Resource::new(format!("{ROOT}{path}"), path)
            .with_title(title)
            .with_description(description)
            .with_mime_type(JSON)
    };
    vec![
        resource(
            "available_workflows",
            "Available workflows",
            "Every workflow that can be started, with its phases",
        ),
        resource(
            "telemetry",
            "Telemetry",
            "What happened lately, over all executions, oldest first",
        ),
    ]
}

/// The resources that take arguments.
pub(super) fn templates() -> Vec<ResourceTemplate> {
    let template = |name: &str, path: &str, title: &str, description: &str| {
        ResourceTemplate::new(format!("{ROOT}{path}"), name)
            .with_title(title)
            .with_description(description)
            .with_mime_type(JSON)
    };
    vec![
        template(
            "workflow_details",
            "workflow_details/{workflow_name}",
            "Workflow details",
            "One workflow: its text, its phases and who acts in them",
        ),
        template(
            "current_step",
            "current_step/{execution_id}",
            "Current step",
            "What to do now in an execution, as whom, and the token to come back with. Read this to go on after a \
             restart or a lost context; an expired token is renewed by reading it",
        ),
        template(
            "workflow_status",
            "workflow_status/{execution_id}",
            "Workflow status",
            "Where an execution stands: its state, times and step counts",
        ),
        template(
            "step_history",
            "step_history/{execution_id}",
            "Step history",
            "Every visit of every step of an execution, with its output",
        ),
        template(
            "telemetry",
            "telemetry{?event_type,limit}",
            "Telemetry",
            "What happened lately, over all executions, oldest first",
        ),
        template(
            "execution_telemetry",
            "telemetry/{execution_id}{?event_type,limit}",
            "Telemetry of an execution",
            "What happened in an execution, oldest first",
        ),
    ]
}

/// The JSON text behind an address.
pub(super) async fn read(app: &App, address: &str) -> Result<String> {
    let rest = address.strip_prefix(ROOT).ok_or_else(|| unknown(address))?;
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let query = parse_query(query).ok_or_else(|| unknown(address))?;
    let (kind, argument) = match path.split_once('/') {
        Some((kind, argument)) => (
            kind,
            Some(uri::decode(argument).ok_or_else(|| unknown(address))?),
        ),
        None => (path, None),
    };
    if kind != "telemetry" && !query.is_empty() {
        return Err(unknown(address));
    }
    let value = match (kind, argument.as_deref()) {
        ("available_workflows", None) => Ok(available_workflows(app)),
        ("workflow_details", Some(name)) => workflow_details(app, name),
        ("current_step", Some(id)) => show(
            app.engine()
                .await?
                .current_step(&execution(id, address)?)
                .await,
        ),
        ("workflow_status", Some(id)) => {
            show(app.engine().await?.status(&execution(id, address)?).await)
        }
        ("step_history", Some(id)) => {
            show(app.engine().await?.history(&execution(id, address)?).await)
        }
        ("telemetry", id) => telemetry(app, id, &query, address).await,
        _ => Err(unknown(address)),
    };
    let value = value.map_err(|error| error.with("uri", address))?;
    serde_json::to_string_pretty(&value)
        .map_err(|error| Error::internal("a resource cannot be shown").because(error))
}

fn show<T: serde::Serialize>(view: Result<T>) -> Result<Value> {
    serde_json::to_value(view?)
        .map_err(|error| Error::internal("a view cannot be shown").because(error))
}

fn unknown(address: &str) -> Error {
    let shown: String = address.chars().take(200).collect();
    Error::new(
        Code::ResourceNotFound,
        format!("no resource has the address {shown}"),
    )
    .with("uri", shown)
}

/// An id that cannot be one names no execution.
fn execution(id: &str, address: &str) -> Result<ExecutionId> {
    ExecutionId::parse(id).map_err(|_| unknown(address))
}

/// The pairs of a query; `None` where one is malformed or given twice.
fn parse_query(query: &str) -> Option<HashMap<String, String>> {
    let mut pairs = HashMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=')?;
        if pairs
            .insert(uri::decode(name)?, uri::decode(value)?)
            .is_some()
        {
            return None;
        }
    }
    Some(pairs)
}

fn available_workflows(app: &App) -> Value {
    app.registry().workflows().map(summary).collect()
}

fn workflow_details(app: &App, name: &str) -> Result<Value> {
    let registry = app.registry();
    let entry = registry.workflow(name);
    let entry = entry.ok_or_else(|| {
        Error::new(
            Code::WorkflowNotFound,
            format!("Workflow '{name}' not found"),
        )
    })?;
    let mut details = summary(entry);
    if let Some(definition) = &entry.definition {
        details["content"] = json!(definition.workflow.content);
        details["version"] = json!(definition.workflow.version);
    }
    Ok(details)
}

/// A workflow as S0 lists it; one whose file has findings with these, beside its last good version
/// where there is one.
fn summary(entry: &WorkflowEntry) -> Value {
    let mut summary = entry.definition.as_ref().map_or_else(
        || json!({ "name": entry.name }),
        |definition| described(definition),
    );
    if !entry.findings.is_empty() {
        summary["valid"] = json!(false);
        summary["findings"] = json!(entry.findings);
    }
    summary
}

fn described(definition: &Definition) -> Value {
    let workflow = &definition.workflow;
    let phases: Vec<_> = workflow
        .steps
        .iter()
        .map(|step| {
            json!({
                "phase": step.id, "agent": step.agent(), "description": step.description, "dependsOn": step.depends_on
            })
        })
        .collect();
    json!({
        "name": workflow.name,
        "description": workflow.description,
        "tags": workflow.tags,
        "complexity": workflow.complexity,
        "phases": phases,
    })
}

async fn telemetry(
    app: &App,
    id: Option<&str>,
    query: &HashMap<String, String>,
    address: &str,
) -> Result<Value> {
    let known = |name: &&String| matches!(name.as_str(), "event_type" | "limit");
    if let Some(name) = query.keys().find(|name| !known(name)) {
        return Err(bad_query(name, "event_type or limit"));
    }
    let event_type = match query.get("event_type") {
        Some(text) => {
            Some(EventType::parse(text).ok_or_else(|| bad_query(text, "an event type of S0"))?)
        }
        None => None,
    };
    let limit = match query.get("limit") {
        Some(text) => limit(text)?,
        None => limits::TELEMETRY_LIMIT_DEFAULT,
    };
    let id = id.map(|id| execution(id, address)).transpose()?;
    show(
        app.engine()
            .await?
            .telemetry(id.as_ref(), event_type, limit)
            .await,
    )
}

fn limit(text: &str) -> Result<usize> {
    let limit = text
        .parse()
        .ok()
        .filter(|limit| (1..=limits::TELEMETRY_LIMIT_MAX).contains(limit));
    limit.ok_or_else(|| {
        bad_query(
            text,
            &format!("a number from 1 to {}", limits::TELEMETRY_LIMIT_MAX),
        )
    })
}

fn bad_query(found: &str, expected: &str) -> Error {
    let found: String = found.chars().take(60).collect();
    Error::new(
        Code::ArgumentsInvalid,
        format!("`{found}` is not {expected}"),
    )
    .with("tool", "resources/read")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::registry::{Directory, Registry, Source, Sources};

    #[test]
    fn a_stale_workflow_is_shown_as_it_was_with_what_is_wrong_now() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("w.md");
        let text =
            "---\nname: w\ndescription: d\nphases:\n  - phase: a\n    agent: reviewer\n---\n";
        fs::write(&file, text).unwrap();
        let sources = Sources {
            workflows: vec![Directory {
                source: Source::Project,
                path: directory.path().to_owned(),
            }],
            ..Sources::default()
        };
        let good = Registry::load(&sources);
        let mut expected = summary(good.workflow("w").unwrap());
        assert_eq!(expected["valid"], Value::Null);
        assert_eq!(expected["phases"][0]["phase"], "a");

        fs::write(&file, "# nothing\n").unwrap();
        let stale = good.reload(&sources);
        let stale = stale.workflow("w").unwrap();
        expected["valid"] = json!(false);
        expected["findings"] = json!(stale.findings);
        assert_eq!(stale.findings.len(), 1);
        assert_eq!(summary(stale), expected);

        let broken = Registry::load(&sources);
        let broken = broken.workflow("w").unwrap();
        assert_eq!(
            summary(broken),
            json!({ "name": "w", "valid": false, "findings": broken.findings })
        );
    }
}
