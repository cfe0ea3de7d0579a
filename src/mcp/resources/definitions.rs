//! Definitions as resources: `available_workflows` and `workflow_details`, and agents.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{ResourceContent, address::WorkflowPageFilter};
use midex_domain::{
    Definition,
    definition::Persona,
    error::{Code, Error, NextCall, Result, address, read_resource},
    finding::{Finding, has_errors},
    limits, view,
};
use midex_registry::{Registry, WorkflowEntry};

/// Every workflow, including those with findings.
pub(super) fn list_all_workflows(registry: &Registry) -> Value {
    registry.workflows().map(summarize_workflow).collect()
}

/// A page of the workflows, nearest source first, each formatted by `format_entry`, for the list at this address.
pub(super) fn build_workflow_page(
    registry: &Registry,
    page: &WorkflowPageFilter,
    address: &str,
    format_entry: fn(&WorkflowEntry) -> Value,
) -> Result<ResourceContent> {
    let mut entries: Vec<_> = registry.workflows().collect();
    entries.sort_by_key(|entry| entry.source);
    let start = match &page.after {
        None => 0,
        Some(after) => {
            let position = entries.iter().position(|entry| entry.name == *after);
            position.ok_or_else(|| unknown_workflow_error(registry, after))? + 1
        }
    };
    let words = page.query.as_deref().unwrap_or_default().to_lowercase();
    let words: Vec<_> = words.split_whitespace().collect();
    let mut matches =
        entries[start..].iter().filter(|entry| entry.contains_words(words.iter().copied()));
    let entries: Vec<&WorkflowEntry> = matches.by_ref().copied().take(page.limit).collect();
    let last = entries.last().filter(|_| matches.next().is_some());
    Ok(ResourceContent {
        next_uri: last.map(|last| page.next_page_uri(address, &last.name)),
        ..entries.into_iter().map(format_entry).collect::<Value>().into()
    })
}

/// One workflow with its text.
pub(super) fn describe_workflow(registry: &Registry, name: &str) -> Result<Value> {
    let entry = registry.workflow(name);
    let entry = entry.ok_or_else(|| unknown_workflow_error(registry, name))?;
    let mut details = summarize_workflow(entry);
    add_findings(&mut details, &entry.findings);
    if let Some(definition) = &entry.value {
        details["content"] = json!(definition.workflow.content);
        details["version"] = json!(definition.workflow.version);
        // A workflow that declares no inputs accepts any object, so the field is left out.
        if let Some(inputs) = &definition.workflow.inputs {
            details["inputs"] = json!(view::input_views(inputs));
            let steps = definition.workflow.steps.iter();
            let later_inputs = steps.filter_map(|step| step.acting_step().kind.requested_inputs());
            let later_inputs: BTreeSet<_> = later_inputs.flatten().collect();
            if !later_inputs.is_empty() {
                details["asked_later"] = json!(later_inputs);
            }
        }
    }
    if let Some(metadata) = entry.metadata() {
        details["metadata"] = json!(metadata);
    }
    details["source"] = json!(entry.source);
    Ok(details)
}

/// One agent with its persona.
pub(super) fn describe_agent(registry: &Registry, name: &str) -> Result<Value> {
    let entry = registry.agent(name);
    let entry = entry.ok_or_else(|| agent_not_found_error(name))?;
    let persona = entry.value.as_ref();
    let mut agent_json =
        persona.map_or_else(|| json!({ "name": entry.name }), |known| describe_persona(known));
    agent_json["source"] = json!(entry.source);
    add_findings(&mut agent_json, &entry.findings);
    Ok(agent_json)
}

/// An agent, as it is stored with the definition of an execution.
pub(super) fn describe_stored_agent(definition: &Definition, name: &str) -> Result<Value> {
    let mut personas = definition.personas.values();
    let persona = personas.find(|persona| persona.name.as_str() == name);
    let persona = persona.ok_or_else(|| agent_not_found_error(name))?;
    Ok(describe_persona(persona))
}

fn describe_persona(persona: &Persona) -> Value {
    let mut persona_json = json!({
        "name": persona.name,
        "description": persona.description,
        "tags": persona.tags,
        "version": persona.version,
        "content": persona.content,
    });
    if let Some(file) = &persona.file {
        persona_json["file"] = json!(file);
    }
    persona_json
}

/// Suggests the details of the workflow with the nearest name.
const NEAREST_WORKFLOW_CALL: NextCall =
    read_resource(address!("workflow_details/{nearest}"), "if that is the one meant");

fn unknown_workflow_error(registry: &Registry, name: &str) -> Error {
    let error = registry.workflow_not_found_error(name);
    match error.context("nearest") {
        Some(_) => error.with_next(NEAREST_WORKFLOW_CALL),
        None => error,
    }
}

fn agent_not_found_error(name: &str) -> Error {
    let short_name: String = name.chars().take(limits::ADDRESS_SHOWN_CHARS).collect();
    Error::new(Code::ResourceNotFound, format!("Agent '{short_name}' not found"))
}

/// A workflow in `available_workflows`. If its file is broken, the entry has the findings and, if there is one, the
/// last good version. Warnings are left out: they are for the author, who reads the details.
pub(super) fn summarize_workflow(entry: &WorkflowEntry) -> Value {
    let mut summary = entry.value.as_ref().map_or_else(
        || json!({ "name": entry.name }),
        |definition| describe_definition(definition),
    );
    if entry.is_broken() {
        add_findings(&mut summary, &entry.findings);
    }
    summary
}

fn add_findings(definition_json: &mut Value, findings: &[Finding]) {
    if has_errors(findings) {
        definition_json["valid"] = json!(false);
    }
    if !findings.is_empty() {
        definition_json["findings"] = json!(findings);
    }
}

fn describe_definition(definition: &Definition) -> Value {
    let workflow = &definition.workflow;
    let phases: Vec<_> = workflow
        .steps
        .iter()
        .map(|step| {
            json!({
                "phase": step.id, "agent": step.agent_name(), "description": step.description, "dependsOn": step.depends_on
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use midex_registry::{DefinitionDirectory, Registry, Source, Sources};

    #[test]
    fn stale_workflow_has_findings() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("w.md");
        let text =
            "---\nname: w\ndescription: d\nphases:\n  - phase: a\n    agent: reviewer\n---\n";
        fs::write(&file, text).unwrap();
        let sources = Sources {
            workflows: vec![DefinitionDirectory {
                source: Source::Project,
                path: directory.path().to_owned(),
            }],
            ..Sources::default()
        };
        let good = Registry::load(&sources);
        let mut expected = summarize_workflow(good.workflow("w").unwrap());
        assert_eq!(expected["valid"], Value::Null);
        assert_eq!(expected["phases"][0]["phase"], "a");

        fs::write(&file, "# nothing\n").unwrap();
        let stale = good.reload(&sources);
        let stale = stale.workflow("w").unwrap();
        expected["valid"] = json!(false);
        expected["findings"] = json!(stale.findings);
        assert_eq!(stale.findings.len(), 1);
        assert_eq!(summarize_workflow(stale), expected);

        let broken = Registry::load(&sources);
        let broken = broken.workflow("w").unwrap();
        assert_eq!(
            summarize_workflow(broken),
            json!({ "name": "w", "valid": false, "findings": broken.findings })
        );
    }
}
