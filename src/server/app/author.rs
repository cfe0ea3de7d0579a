//! For authors: checks definitions, resolves inputs, plans executions, and runs them to their end.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value};

use super::App;
use midex_domain::{
    DefaultSources, Definition, ExecutionId, Inputs, State, check,
    definition::Workflow,
    error::{Error, Result, Violation},
    execution::{Facts, Rehearsal},
    finding::is_broken,
    input::{InputReport, ProviderResolution},
    limits,
    view::{CurrentStep, StatusView},
};
use midex_registry::{self as registry, Manifest, ManifestCheck, Registry};

/// The definition that an authoring call works on.
#[derive(Clone, Debug)]
pub enum DefinitionSubject {
    /// The workflow of this name, as it is in its file.
    Named(String),
    /// A text that the caller passes.
    Lent(Manifest),
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
    pub async fn valid_definition(&self, subject: DefinitionSubject) -> Result<Arc<Definition>> {
        self.with_registry(move |registry| load_valid_definition(registry, subject)).await?
    }
}

fn check_subject(registry: &Registry, subject: DefinitionSubject) -> Result<ManifestCheck> {
    let name = match subject {
        DefinitionSubject::Lent(manifest) => return Ok(registry.check_manifest(&manifest)),
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
    let is_lent = matches!(subject, DefinitionSubject::Lent(_));
    let ManifestCheck { name, definition, findings } = check_subject(registry, subject)?;
    definition.ok_or_else(|| match registry.workflow(&name) {
        Some(entry) if !is_lent && is_broken(&entry.findings) => {
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
    pub known: Map<String, Value>,
    /// The arguments of input providers, resolved as far as possible.
    pub providers: Vec<ProviderResolution>,
    /// Violations for names that the workflow does not declare.
    unknown: Vec<Violation>,
}

impl ResolvedInputs {
    fn resolve(workflow: &Workflow, given: Map<String, Value>, sources: &DefaultSources) -> Self {
        let Some(declared) = &workflow.inputs else {
            // A workflow that declares no inputs accepts any object.
            return Self {
                inputs: Vec::new(),
                known: given,
                providers: Vec::new(),
                unknown: Vec::new(),
            };
        };
        let (inputs, unknown) = declared.report(&given, sources);
        let known = inputs.iter().filter(|report| !report.is_open());
        let known = known.map(|report| (report.name.clone(), report.value.clone()));
        Self { known: known.collect(), providers: Vec::new(), inputs, unknown }
    }

    /// Whether no input is missing or invalid, and every provider that is needed can be called.
    pub fn is_ready(&self) -> bool {
        let has_open = self.inputs.iter().any(InputReport::is_open)
            || self.providers.iter().any(ProviderResolution::needs_person);
        self.unknown.is_empty() && !has_open
    }

    /// All violations, including those for missing inputs; at most [`limits::VIOLATIONS_MAX`].
    pub fn violations(&self) -> Vec<&Violation> {
        let of_inputs = self.inputs.iter().flat_map(|report| &report.violations);
        let all = self.unknown.iter().chain(of_inputs);
        all.take(limits::VIOLATIONS_MAX).collect()
    }
}

/// A planned execution.
#[derive(Clone, Debug)]
pub struct ExecutionPlan {
    /// The definition that it would use.
    pub definition: Arc<Definition>,
    /// The facts that are known before it starts.
    pub rehearsal: Rehearsal,
}

/// An execution that was run to its end, as far as it got within the time limit.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// The current step, if the execution waits for a model.
    pub step: CurrentStep,
    /// Its status.
    pub status: StatusView,
}

impl App {
    /// Resolves the inputs of a workflow. Reads the store only for defaults taken from earlier executions.
    ///
    /// # Errors
    /// The errors of reading earlier executions.
    pub async fn resolve_inputs(
        &self,
        definition: &Definition,
        given: Map<String, Value>,
    ) -> Result<ResolvedInputs> {
        let workflow = &definition.workflow;
        let sources = self.default_sources(workflow, &given).await?;
        let resolved = ResolvedInputs::resolve(workflow, given, &sources);
        let has_provider = |inputs: &&Inputs| inputs.iter().any(|input| input.provider.is_some());
        let Some(inputs) = workflow.inputs.clone().filter(|inputs| has_provider(&inputs)) else {
            return Ok(resolved);
        };
        let known = resolved.known.clone();
        let look = move |registry: &Registry| {
            let commands = registry.abilities().operation_lookup();
            inputs.provider_resolutions(&known, |provider, argument| {
                commands.is_some_and(|commands| {
                    check::is_argument_required(commands, provider, argument)
                })
            })
        };
        let providers = self.with_registry(look).await?;
        Ok(ResolvedInputs { providers, ..resolved })
    }

    async fn default_sources(
        &self,
        workflow: &Workflow,
        given: &Map<String, Value>,
    ) -> Result<DefaultSources> {
        let given = Value::Object(given.clone());
        let of_earlier = |inputs: &Inputs| {
            inputs.need_history(Some(&given)) || !inputs.needed_outputs(Some(&given)).is_empty()
        };
        if workflow.inputs.as_ref().is_some_and(of_earlier) {
            let engine = self.engine().await?;
            let project = self.caller_project();
            return engine.defaults(workflow, Some(&given), Some(&project)).await;
        }
        Ok(DefaultSources { env: self.environment.clone(), ..DefaultSources::default() })
    }

    /// Plans an execution of this definition with these inputs, without starting it.
    ///
    /// # Errors
    /// As [`App::valid_definition`]; `LIMIT_EXCEEDED` if the inputs are too large.
    pub async fn plan_execution(
        &self,
        subject: DefinitionSubject,
        given: Map<String, Value>,
    ) -> Result<ExecutionPlan> {
        let definition = self.valid_definition(subject).await?;
        let resolved = self.resolve_inputs(&definition, given).await?;
        let app = self.clone();
        let planned =
            tokio::task::spawn_blocking(move || app.rehearse_execution(definition, resolved));
        planned
            .await
            .map_err(|error| Error::internal("the planning panicked").with_source(error))?
    }

    fn rehearse_execution(
        &self,
        definition: Arc<Definition>,
        resolved: ResolvedInputs,
    ) -> Result<ExecutionPlan> {
        let loaded = self.definitions.last_loaded_registry();
        let secrets = loaded.abilities().secrets.iter().flatten();
        let secrets: Vec<_> = secrets.cloned().collect();
        let open = resolved.inputs.iter().filter(|report| report.is_open());
        let open: Vec<_> = open.map(|report| report.name.clone()).collect();
        let facts = Facts {
            env: &self.environment,
            secrets: &secrets,
            ..Facts::new(&definition, limits::TOKEN_TTL)
        };
        let rehearsal = Rehearsal::rehearse(facts, resolved.known, open, self.now(), self.ids())?;
        Ok(ExecutionPlan { definition, rehearsal })
    }

    /// Starts an execution. Returns when it has ended, waits for something other than the server, or `longest` has
    /// passed.
    ///
    /// # Errors
    /// As [`App::start`].
    pub async fn run_execution(
        &self,
        definition: Arc<Definition>,
        inputs: Option<Value>,
        longest: Duration,
    ) -> Result<RunOutcome> {
        let started = self.start_definition(definition, None, inputs, None).await?;
        self.wait_for_outcome(&started.execution_id, longest).await
    }

    /// Waits until an execution has ended or waits for something other than the server, at most `longest`. Returns its
    /// state.
    pub(super) async fn wait_for_outcome(&self, id: &str, longest: Duration) -> Result<RunOutcome> {
        let id = ExecutionId::parse(id)?;
        let until = self.now().after(longest);
        loop {
            let status = self.status(&id).await?;
            let step = self.current_step(&id).await?;
            let left = until.since(self.now());
            if left.is_zero() || step.current_step.is_some() || !is_waiting_on_server(&status) {
                return Ok(RunOutcome { step, status });
            }
            self.wait(&id, Some(status.revision), left).await?;
        }
    }
}

/// Whether the server itself can move the execution forward: it waits for an operation, a timer or a retry.
fn is_waiting_on_server(status: &StatusView) -> bool {
    let by_server = ["operation", "timer", "retry"];
    let mut waits = status.waits.iter();
    status.state == State::Running.as_str()
        && waits.any(|wait| by_server.contains(&wait.waits_for.as_str()))
}
