//! For authors: checks definitions, resolves inputs, plans executions, and runs them to their end.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::App;
use midex_domain::{
    DefaultSources, Definition, ExecutionId, Inputs, check,
    definition::Workflow,
    error::{Error, Result, Violation},
    execution::{DecisionContext, DryRun},
    finding::has_errors,
    input::{InputReport, ProviderResolution},
    label::Labels,
    limits,
};
use midex_registry::{self as registry, Manifest, ManifestCheck, Registry};

/// The definition that an authoring call works on.
#[derive(Clone, Debug)]
pub enum DefinitionSubject {
    /// The workflow of this name, as it is in its file.
    Named(String),
    /// A text that the caller passes.
    Inline(Manifest),
}

impl App {
    /// Checks a definition and returns the findings.
    ///
    /// # Errors
    /// `WORKFLOW_NOT_FOUND`.
    pub async fn check_definition(&self, subject: DefinitionSubject) -> Result<ManifestCheck> {
        self.with_registry(move |registry| check_subject(registry, subject)).await?
    }

    /// The valid definition that an execution would use.
    ///
    /// # Errors
    /// `WORKFLOW_NOT_FOUND`; `WORKFLOW_VALIDATION_FAILED` with every violation.
    pub async fn find_valid_definition(
        &self,
        subject: DefinitionSubject,
    ) -> Result<Arc<Definition>> {
        if let DefinitionSubject::Named(name) = &subject
            && let Some(definition) = self.definitions.find_valid_file(name).await?
        {
            return Ok(definition);
        }
        self.with_registry(move |registry| load_valid_definition(registry, subject)).await?
    }
}

fn check_subject(registry: &Registry, subject: DefinitionSubject) -> Result<ManifestCheck> {
    let name = match subject {
        DefinitionSubject::Inline(manifest) => return Ok(registry.check_manifest(&manifest)),
        DefinitionSubject::Named(name) => name,
    };
    let entry = registry.workflow(&name);
    let entry = entry.ok_or_else(|| registry.unknown_id_error(&name))?;
    Ok(ManifestCheck {
        name,
        // A broken file still runs as its last good version, but its author works on the current text.
        definition: entry.value.clone().filter(|_| !entry.is_broken()),
        findings: entry.findings.clone(),
    })
}

fn load_valid_definition(
    registry: &Registry,
    subject: DefinitionSubject,
) -> Result<Arc<Definition>> {
    let is_inline = matches!(subject, DefinitionSubject::Inline(_));
    let ManifestCheck { name, definition, findings } = check_subject(registry, subject)?;
    definition.ok_or_else(|| match registry.workflow(&name) {
        Some(entry) if !is_inline && has_errors(&entry.findings) => {
            registry::invalid_workflow_error(entry)
        }
        _ => registry::invalid_definition_error(&name, &findings),
    })
}

/// The result of resolving inputs.
#[derive(Clone, Debug)]
pub struct ResolvedInputs {
    /// Each input that the workflow declares, in order.
    pub inputs: Vec<InputReport>,
    /// The values that are resolved, by name.
    pub known_values: Map<String, Value>,
    /// The arguments of input providers, resolved as far as possible, and the choices that they list.
    pub providers: Vec<ProviderResolution>,
    /// Violations for names that the workflow does not declare.
    unknown_violations: Vec<Violation>,
}

impl ResolvedInputs {
    fn resolve(workflow: &Workflow, values: Map<String, Value>, sources: &DefaultSources) -> Self {
        let Some(declared) = &workflow.inputs else {
            // A workflow that declares no inputs accepts any object.
            return Self {
                inputs: Vec::new(),
                known_values: values,
                providers: Vec::new(),
                unknown_violations: Vec::new(),
            };
        };
        let (inputs, unknown) = declared.build_report(&values, sources);
        let known_reports = inputs.iter().filter(|report| !report.is_unresolved());
        let known_values = known_reports.map(|report| (report.name.clone(), report.value.clone()));
        Self {
            known_values: known_values.collect(),
            providers: Vec::new(),
            inputs,
            unknown_violations: unknown,
        }
    }

    /// Whether no input is missing or invalid, and every provider that is needed can be called.
    pub fn is_ready(&self) -> bool {
        let has_unresolved = self.inputs.iter().any(InputReport::is_unresolved)
            || self.providers.iter().any(ProviderResolution::needs_person);
        self.unknown_violations.is_empty() && !has_unresolved
    }

    /// All violations, including those for missing inputs; at most [`limits::VIOLATIONS_MAX`].
    pub fn violations(&self) -> Vec<&Violation> {
        let input_violations = self.inputs.iter().flat_map(|report| &report.violations);
        let all = self.unknown_violations.iter().chain(input_violations);
        all.take(limits::VIOLATIONS_MAX).collect()
    }
}

/// A planned execution.
#[derive(Clone, Debug)]
pub struct ExecutionPlan {
    /// The definition that it would use.
    pub definition: Arc<Definition>,
    /// The facts that are known before it starts.
    pub rehearsal: DryRun,
}

impl App {
    /// Resolves the inputs of a workflow, and lists the choices of those without a value.
    ///
    /// # Errors
    /// As [`App::resolve_provider_arguments`].
    pub async fn resolve_inputs(
        &self,
        definition: &Definition,
        values: Map<String, Value>,
    ) -> Result<ResolvedInputs> {
        let resolved = self.resolve_provider_arguments(definition, values).await?;
        // A program that brings its own operations has no catalogs, and so no providers.
        #[cfg(feature = "catalog")]
        if self.shared.catalogs.is_some() {
            let choices = self.list_choices(definition, &resolved, |_| true).await;
            let providers = resolved.providers.into_iter().chain(choices).collect();
            return Ok(ResolvedInputs { providers, ..resolved });
        }
        Ok(resolved)
    }

    /// Resolves the inputs of a workflow, and the arguments of their providers without calling them. Reads the store
    /// only for defaults taken from earlier executions.
    ///
    /// # Errors
    /// The errors of reading earlier executions.
    pub async fn resolve_provider_arguments(
        &self,
        definition: &Definition,
        values: Map<String, Value>,
    ) -> Result<ResolvedInputs> {
        let workflow = &definition.workflow;
        let sources = self.default_sources(workflow, &values).await?;
        let resolved = ResolvedInputs::resolve(workflow, values, &sources);
        let has_provider = |inputs: &&Inputs| inputs.iter().any(|input| input.provider.is_some());
        let Some(inputs) = workflow.inputs.clone().filter(|inputs| has_provider(&inputs)) else {
            return Ok(resolved);
        };
        let known_values = resolved.known_values.clone();
        let collect_providers = move |registry: &Registry| {
            let commands = registry.abilities().operation_lookup();
            inputs.resolve_provider_arguments(&known_values, |provider, argument| {
                commands.is_some_and(|commands| {
                    check::is_argument_required(commands, provider, argument)
                })
            })
        };
        let providers = self.with_registry(collect_providers).await?;
        Ok(ResolvedInputs { providers, ..resolved })
    }

    async fn default_sources(
        &self,
        workflow: &Workflow,
        values: &Map<String, Value>,
    ) -> Result<DefaultSources> {
        let values = Value::Object(values.clone());
        let has_earlier_default = |inputs: &Inputs| {
            inputs.needs_history(Some(&values))
                || !inputs.required_outputs(Some(&values)).is_empty()
        };
        if workflow.inputs.as_ref().is_some_and(has_earlier_default) {
            let engine = self.engine().await?;
            let project = self.caller_project();
            return engine.load_default_sources(workflow, Some(&values), Some(&project)).await;
        }
        Ok(DefaultSources { env: self.environment.clone(), ..DefaultSources::default() })
    }

    /// Plans an execution of this definition with these inputs, without starting it.
    ///
    /// # Errors
    /// As [`App::find_valid_definition`]; `LIMIT_EXCEEDED` if the inputs are too large.
    pub async fn plan_execution(
        &self,
        subject: DefinitionSubject,
        values: Map<String, Value>,
    ) -> Result<ExecutionPlan> {
        let definition = self.find_valid_definition(subject).await?;
        let resolved = self.resolve_provider_arguments(&definition, values).await?;
        let app = self.clone();
        let plan =
            tokio::task::spawn_blocking(move || app.rehearse_execution(definition, resolved));
        plan.await.map_err(|error| Error::internal("the planning panicked").with_source(error))?
    }

    fn rehearse_execution(
        &self,
        definition: Arc<Definition>,
        resolved: ResolvedInputs,
    ) -> Result<ExecutionPlan> {
        let registry = self.definitions.last_loaded_registry();
        let secrets = registry.abilities().secrets.iter().flatten();
        let secrets: Vec<_> = secrets.cloned().collect();
        let unresolved = resolved.inputs.iter().filter(|report| report.is_unresolved());
        let unresolved_names: Vec<_> = unresolved.map(|report| report.name.clone()).collect();
        let facts = DecisionContext {
            env: &self.environment,
            secrets: &secrets,
            ..DecisionContext::new(&definition, limits::TOKEN_TTL)
        };
        let rehearsal = DryRun::simulate(
            facts,
            resolved.known_values,
            unresolved_names,
            self.now(),
            self.ids(),
        )?;
        Ok(ExecutionPlan { definition, rehearsal })
    }

    /// Starts an execution of a definition that is already loaded, and returns its id. [`App::turn`] waits for it.
    ///
    /// # Errors
    /// As [`App::start`].
    pub async fn start_run(
        &self,
        definition: Arc<Definition>,
        inputs: Option<Value>,
        labels: Labels,
    ) -> Result<ExecutionId> {
        let start = self.start_definition(definition, None, inputs, None, labels).await?;
        ExecutionId::parse(&start.execution_id)
    }
}
