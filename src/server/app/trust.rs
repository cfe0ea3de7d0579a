//! Checks trust before a start: a workflow of an untrusted project may have no effects outside midex.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use serde_json::Value;

use super::App;
use crate::config::TrustedProjects;
use midex_domain::{
    Definition, OperationClass, StepKind,
    check::{OperationLookup, OperationLookupResult, OperationSignature},
    definition::Step,
    error::{Code, Error, Result, quote_for_shell},
    limits,
};
use midex_registry::LiveDefinitions;

impl App {
    /// A warning if a project's definition hides one of the same name that belongs to the user or is part of midex.
    pub fn hidden_definition_warning(&self, definition: &Definition) -> Option<String> {
        if !definition.is_from_project() {
            return None;
        }
        let name = &definition.workflow.name;
        // A definition exists, so the registry is loaded and no file is read.
        let registry = self.definitions.last_loaded_registry();
        let source = registry.find_hidden_source(name.as_str())?.as_str();
        Some(format!("`{name}` is the project's: it hides the {source} one"))
    }

    /// Refuses a definition that comes in part from an untrusted project.
    pub(super) async fn check_trust(&self, definition: &Arc<Definition>) -> Result<()> {
        if !definition.is_from_project() || self.config().trust == TrustedProjects::Everything {
            return Ok(());
        }
        let (definition, app) = (definition.clone(), self.clone());
        let check = move |definitions: &LiveDefinitions| {
            let trust_context = (&app.config().trust, &*app.project_dir);
            check_trust(&definition, definitions.abilities().operation_lookup(), trust_context)
        };
        self.with_definitions(check).await?
    }

    /// What a definition does beyond guiding a model and calling safe operations, in words.
    pub(super) async fn describe_effects(
        &self,
        definition: Arc<Definition>,
    ) -> Result<Vec<String>> {
        let describe = move |definitions: &LiveDefinitions| {
            describe_effects(&definition, definitions.abilities().operation_lookup())
        };
        self.with_definitions(describe).await
    }

    /// Adds the caller's project to the trust list. Only for commands of the user: no tool that an agent can call
    /// reaches this.
    pub async fn trust_project(&self) -> Result<()> {
        let app = self.clone();
        let add_project = move |_: &LiveDefinitions| {
            app.config().trust.set_trusted(&app.project_dir, true).map(drop)
        };
        self.with_definitions(add_project).await?
    }
}

/// Refuses to start a workflow that comes in part from an untrusted project, if it has effects beyond guiding a model
/// and reading. Reads files, so do not call it on an async worker thread.
///
/// # Errors
/// `PROJECT_NOT_TRUSTED` with the effects of the workflow.
pub(super) fn check_trust(
    definition: &Definition,
    commands: Option<&dyn OperationLookup>,
    (trust, project): (&TrustedProjects, &Path),
) -> Result<()> {
    let effects = describe_effects(definition, commands);
    if effects.is_empty() || trust.is_trusted(project) {
        return Ok(());
    }
    let (name, project_path) = (&definition.workflow.name, project.display().to_string());
    let shown_count = effects.len().min(limits::EFFECTS_SHOWN_MAX);
    let mut shown_effects = effects[..shown_count].join(", ");
    if effects.len() > shown_count {
        let omitted_count = effects.len() - shown_count;
        shown_effects = format!("{shown_effects} and {omitted_count} more");
    }
    let description = format!("its workflow `{name}` {shown_effects}");
    let message = format!("the project `{project_path}` is not trusted, and {description}");
    Err(Error::new(Code::ProjectNotTrusted, message)
        .with_context("workflow", name.as_str())
        .with_context(
            "question",
            format!("Trust the project {project_path}? I{}", &description[1..]),
        )
        .with_context("project_word", quote_for_shell(&project_path))
        .with_context("project", project_path))
}

/// The effects of a workflow, in words: all that it does beyond guiding a model and calling safe operations. An
/// operation whose catalog is missing counts as an effect, since its class is unknown.
fn describe_effects(
    definition: &Definition,
    commands: Option<&dyn OperationLookup>,
) -> Vec<String> {
    let effect = |step: &Step| match &step.kind {
        StepKind::Activity { name, .. } => Some(format!("runs the activity `{name}`")),
        StepKind::Run { catalog, operation, .. } => {
            match commands.map(|commands| commands.find_operation(catalog, operation)) {
                Some(OperationLookupResult::Operation(callable))
                    if callable.class == OperationClass::Safe =>
                {
                    let has_header_value = passes_header(step, &callable);
                    has_header_value.then(|| format!("sends headers with `{catalog} {operation}`"))
                }
                _ => Some(format!("calls `{catalog} {operation}`")),
            }
        }
        _ => None,
    };
    let mut effects: BTreeSet<_> = definition.workflow.acting_steps().filter_map(effect).collect();
    let mut workflow = serde_json::to_value(&definition.workflow).unwrap_or_default();
    // The raw text repeats the steps, and may mention secrets in comments.
    if let Some(fields) = workflow.as_object_mut() {
        fields.remove("content");
    }
    if refers_to_secrets(&workflow) {
        effects.insert("uses secrets".to_owned());
    }
    effects.into_iter().collect()
}

/// Whether a step passes a header or a cookie to an operation.
fn passes_header(step: &Step, callable: &OperationSignature) -> bool {
    let mut headers = callable.arguments.iter().filter(|one| one.is_header);
    let with = step.with.as_ref();
    headers.any(|header| with.is_some_and(|with| with.contains_key(&header.name)))
}

/// Whether an expression somewhere in a value may name a secret.
fn refers_to_secrets(value: &Value) -> bool {
    match value {
        // Search everything after the opening, since an expression may contain `}}` inside a string literal.
        Value::String(text) => {
            text.split_once("${{").is_some_and(|(_, rest)| rest.contains("secrets"))
        }
        Value::Array(items) => items.iter().any(refers_to_secrets),
        Value::Object(fields) => fields.values().any(refers_to_secrets),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_is_found_wherever_an_expression_may_name_it() {
        for value in [
            json!({ "body": { "content": "${{ secrets.KEY }}" } }),
            json!(["${{ '}}' ~ secrets.KEY }}"]),
            json!("${{ inputs.x }} and ${{ secrets.KEY }}"),
        ] {
            assert!(refers_to_secrets(&value), "{value}");
        }
        let plain = json!({ "description": "secrets are kept", "with": "${{ inputs.x }}" });
        assert!(!refers_to_secrets(&plain));
    }
}
