//! Definitions as resources: S0's `available_workflows` and `workflow_details`, and agents.

use serde_json::{Value, json};

use crate::{
    error::{Code, Error, Result},
    registry::{Registry, WorkflowEntry},
};

/// Every workflow, also those with findings.
pub(super) fn available_workflows(registry: &Registry) -> Value {
    registry.workflows().map(summary).collect()
}

/// One workflow with its text.
pub(super) fn workflow_details(registry: &Registry, name: &str) -> Result<Value> {
    let entry = registry.workflow(name);
    let entry = entry.ok_or_else(|| not_found(Code::WorkflowNotFound, "Workflow", name))?;
    let mut details = summary(entry);
    if let Some(definition) = &entry.definition {
        details["content"] = json!(definition.workflow.content);
        details["version"] = json!(definition.workflow.version);
    }
    details["source"] = json!(entry.source);
    Ok(details)
}

/// One agent with its persona.
pub(super) fn agent(registry: &Registry, name: &str) -> Result<Value> {
    let entry = registry.agent(name);
    let entry = entry.ok_or_else(|| not_found(Code::ResourceNotFound, "Agent", name))?;
    let Some(persona) = &entry.persona else {
        return Ok(json!({ "name": entry.name, "valid": false, "findings": entry.findings }));
    };
    let mut shown = json!({
        "name": persona.name,
        "description": persona.description,
        "tags": persona.tags,
        "version": persona.version,
        "content": persona.content,
        "source": entry.source,
    });
    if !entry.findings.is_empty() {
        shown["valid"] = json!(false);
        shown["findings"] = json!(entry.findings);
    }
    Ok(shown)
}

fn not_found(code: Code, what: &str, name: &str) -> Error {
    let shown: String = name.chars().take(200).collect();
    Error::new(code, format!("{what} '{shown}' not found"))
}

/// A workflow as S0 lists it; one with findings says so, and shows its last good version where there is one.
fn summary(entry: &WorkflowEntry) -> Value {
    let Some(definition) = &entry.definition else {
        return json!({ "name": entry.name, "valid": false, "findings": entry.findings });
    };
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
    let mut summary = json!({
        "name": workflow.name,
        "description": workflow.description,
        "tags": workflow.tags,
        "complexity": workflow.complexity,
        "phases": phases,
    });
    if !entry.findings.is_empty() {
        summary["valid"] = json!(false);
        summary["findings"] = json!(entry.findings);
    }
    summary
}
