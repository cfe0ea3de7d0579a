//! The prompts that help to write a manifest.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{PromptArguments, PromptText};
use crate::resources::MANUAL;
use midex_domain::{
    error::Result,
    finding::{Finding, filter_errors},
    grammar, limits,
};
use midex_registry::{Manifest, ManifestCheck, Registry};
use midex_server::app::App;

const AUTHORING_RULES: &str = "Rules:\n\
    1. `workflow` is the id: letters, digits, `_`, `.` and `-`. `description` says in a sentence what the workflow achieves.\n\
    2. Steps run in the order in which they stand; `depends_on` says otherwise, `depends_on: []` lets a step begin at once.\n\
    3. Whatever differs from run to run is an input, with a type and a description. Nothing is written down twice.\n\
    4. `${{ inputs.x }}` and `${{ steps.ID.output.field }}` hand values on; a step refers to steps before it alone.\n\
    5. Where a later step needs a field, the earlier one declares it in `result`, a JSON Schema with `required`.\n\
    6. Before a step that changes something outside stands a `gate`, so that a person agrees to it.\n\
    7. A loop has an exit that is reached: a condition that changes, and `max_visits`.\n\
    8. Conditions are written `and`, `or`, `not`, `==`, `in`.\n\
    9. What may fail without harm is `optional: true`; what must be put right has `on_error`.\n\
    10. `final_output` says what whoever started the workflow gets.\n";

const AUTHORING_SEQUENCE: &str = "Then check and keep it, in this order: workflow.validate until there are no violations; \
    workflow.preview_inputs and workflow.step_plan, to see that it asks for what it should and runs in the order that is meant; \
    workflow.save once your user agrees.\n\
    Answer with one YAML manifest and nothing beside it.";

/// The prompt for writing a new workflow.
pub(super) async fn build_author_prompt(
    app: &App,
    mut page: PromptText,
    arguments: &PromptArguments,
) -> Result<String> {
    page.add_instructions("Write a workflow of midex: a manifest in YAML that leads an agent, step by step, to this goal.");
    page.add_quoted_data("The goal:", "text", arguments.get("goal").unwrap_or_default());
    for (name, heading) in [
        ("target_system", "The system that it works on:"),
        ("constraints", "What it must keep to:"),
    ] {
        if let Some(text) = arguments.get(name) {
            page.add_quoted_data(heading, "text", text);
        }
    }
    page.add_instructions(
        "A step has an `id` and exactly one of these keys, each shown in a whole workflow:",
    );
    for (kind, example) in list_kind_examples() {
        page.add_quoted_data(&format!("`{kind}`"), "yaml", example);
    }
    page.add_instructions("The manual with every key is the resource midex://authoring/spec, the JSON Schema midex://authoring/schema.");
    page.add_instructions(AUTHORING_RULES);
    page.add_instructions(&describe_capabilities(app, &*app.registry().await?));
    page.add_instructions(AUTHORING_SEQUENCE);
    Ok(page.finish())
}

/// Each available kind of step, with its example from the manual.
fn list_kind_examples() -> impl Iterator<Item = (&'static str, &'static str)> {
    grammar::step_kinds().filter_map(|kind| {
        let heading = format!("\n### {}\n", kind.name);
        let section = MANUAL.split_once(&*heading)?.1;
        let section = section.split("\n## ").next()?.split("\n### ").next()?;
        let example = section.split_once("```yaml\n")?.1.split("```").next()?;
        Some((kind.name, example))
    })
}

/// The agents, activities and catalogs that a step may use here.
fn describe_capabilities(app: &App, registry: &Registry) -> String {
    let agents = registry.agents().filter(|entry| entry.value.is_some());
    let agents: Vec<_> = agents.map(|entry| &*entry.name).collect();
    let mut text = format!("Agents that a step may name here: {}.", agents.join(", "));
    let schemas = app.activities().input_schemas();
    let describe = |name: &str| match schemas.get(name).map(Value::to_string) {
        Some(schema) if schema.len() <= limits::ACTIVITY_SCHEMA_SHOWN_BYTES_MAX => {
            format!("{name} (`with` follows {schema})")
        }
        _ => name.to_owned(),
    };
    let activities: Vec<_> = app.activities().names().map(describe).collect();
    let activities = if activities.is_empty() { "none".to_owned() } else { activities.join(", ") };
    let catalogs = app.catalogs().map(|catalogs| catalogs.last_loaded_catalogs());
    let catalogs: Vec<_> = catalogs
        .iter()
        .flat_map(|set| set.catalogs())
        .filter(|one| one.settings.enabled)
        .map(|one| {
            format!(
                "{} ({} operations)",
                one.vendor(),
                one.document.as_ref().map_or(0, |book| book.entries().len())
            )
        })
        .collect();
    let catalogs = if catalogs.is_empty() {
        "none".to_owned()
    } else {
        format!("{}; command.list with a query finds their operations", catalogs.join(", "))
    };
    let _ = write!(
        text,
        " Activities: {activities}. Catalogs of operations for `run` steps: {catalogs}."
    );
    text
}

/// The prompt for changing a workflow.
pub(super) async fn build_extend_prompt(
    app: &App,
    mut page: PromptText,
    arguments: &PromptArguments,
) -> Result<String> {
    let (manifest, check) = check_prompt_manifest(app, arguments).await?;
    page.add_instructions(
        "Change this workflow of midex, and nothing that the change does not ask for.",
    );
    page.add_quoted_data(
        "The change:",
        "text",
        arguments.get("change_request").unwrap_or_default(),
    );
    page.add_quoted_data("The manifest:", manifest.format.as_str(), &manifest.text);
    write_findings(&mut page, &manifest, &check.findings, "What its check tells now:");
    page.add_instructions(
        "Keep the order of keys and steps, the comments and the ids: executions and other people know them. A new step stands \
         where it runs. Answer with the whole manifest in its own format and nothing beside it. \
         Then workflow.validate it, and workflow.save it with the version that workflow.get shows as expected_version.",
    );
    Ok(page.finish())
}

/// The prompt for fixing an invalid workflow.
pub(super) async fn build_fix_prompt(
    app: &App,
    mut page: PromptText,
    arguments: &PromptArguments,
) -> Result<String> {
    let (manifest, check) = check_prompt_manifest(app, arguments).await?;
    page.add_instructions("Correct every violation of this workflow of midex, so that it means what its author meant.");
    page.add_quoted_data("The manifest:", manifest.format.as_str(), &manifest.text);
    if let Some(violations) = arguments.get("violations") {
        page.add_quoted_data("Violations as they were told:", "json", violations);
    }
    write_findings(
        &mut page,
        &manifest,
        &check.findings,
        "What its check tells, each with its line and the edits that mend it:",
    );
    if filter_errors(&check.findings).next().is_none() {
        page.add_instructions(
            "The check finds no violation: look whether the one that was told still holds.",
        );
    }
    page.add_instructions(
        "Where edits are given, make them as they stand. Change nothing else, and keep the order and the comments. \
         Answer with the whole manifest in its own format and nothing beside it; then workflow.validate it again.",
    );
    Ok(page.finish())
}

/// The definition that a prompt is about, given as text or id, with the result of its check.
async fn check_prompt_manifest(
    app: &App,
    arguments: &PromptArguments,
) -> Result<(Manifest, ManifestCheck)> {
    let text = arguments.get("manifest").unwrap_or_default().to_owned();
    app.with_registry(move |registry| {
        let stored_manifest =
            registry.workflow(&text).and_then(|entry| registry.read_manifest(entry));
        let manifest = stored_manifest.unwrap_or_else(|| Manifest::from_text(text, None));
        let check = registry.check_manifest(&manifest);
        (manifest, check)
    })
    .await
}

/// Adds the findings, each with the line that it refers to.
fn write_findings(page: &mut PromptText, manifest: &Manifest, findings: &[Finding], heading: &str) {
    if findings.is_empty() {
        return;
    }
    let finding_lines = findings.iter().map(|finding| {
        let mut finding_json = json!(finding);
        let line = manifest.text.lines().nth(finding.line.saturating_sub(1));
        finding_json["excerpt"] = json!(line);
        finding_json.to_string()
    });
    let finding_lines: Vec<_> = finding_lines.take(limits::VIOLATIONS_MAX).collect();
    page.add_quoted_data(heading, "json", &finding_lines.join("\n"));
}
