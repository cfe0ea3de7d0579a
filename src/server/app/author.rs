//! Definitions for those who write them: the files as they lie, what a text comes to, and what an execution of it would be.

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
use midex_registry as registry;
use midex_registry::{Examined, Manifest, Registry};

/// A definition that a caller works on.
#[derive(Clone, Debug)]
pub enum Subject {
    /// The workflow of this name, as its file has it.
    Named(String),
    /// A text of the caller's.
    Lent(Manifest),
}

impl App {
    /// What the check makes of a definition.
    ///
    /// # Errors
    /// `WORKFLOW_NOT_FOUND`.
    pub async fn examined(&self, subject: Subject) -> Result<Examined> {
        self.look_into_registry(move |registry| examined(registry, subject))
            .await?
    }

    /// The definition that an execution would follow.
    ///
    /// # Errors
    /// `WORKFLOW_NOT_FOUND`; `WORKFLOW_VALIDATION_FAILED` with every violation.
    pub async fn sound(&self, subject: Subject) -> Result<Arc<Definition>> {
        self.look_into_registry(move |registry| sound(registry, subject))
            .await?
    }
}

fn examined(registry: &Registry, subject: Subject) -> Result<Examined> {
    let name = match subject {
        Subject::Lent(manifest) => return Ok(registry.examine(&manifest)),
        Subject::Named(name) => name,
    };
    let entry = registry.workflow(&name);
    let entry = entry.ok_or_else(|| registry.no_such_id(&name))?;
    Ok(Examined {
        name,
        // The last good version of a broken file is what runs, but not what its author works on.
        definition: entry.value.clone().filter(|_| !entry.is_broken()),
        findings: entry.findings.clone(),
    })
}

fn sound(registry: &Registry, subject: Subject) -> Result<Arc<Definition>> {
    let is_lent = matches!(subject, Subject::Lent(_));
    let Examined {
        name,
        definition,
        findings,
    } = examined(registry, subject)?;
    definition.ok_or_else(|| match registry.workflow(&name) {
        Some(entry) if !is_lent && is_broken(&entry.findings) => registry::invalid(entry),
        _ => registry::refused(&name, &findings),
    })
}

/// What inputs come to.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// Each input that the workflow declares, in order.
    pub inputs: Vec<InputReport>,
    /// The values that are known, by name.
    pub known: Map<String, Value>,
    /// What becomes of the arguments of providers.
    pub providers: Vec<ProviderResolution>,
    /// That names are given that are no inputs.
    unknown: Vec<Violation>,
}

impl Resolved {
    fn of(workflow: &Workflow, given: Map<String, Value>, sources: &DefaultSources) -> Self {
        let Some(declared) = &workflow.inputs else {
            // Any object does.
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
        Self {
            known: known.collect(),
            providers: Vec::new(),
            inputs,
            unknown,
        }
    }

    /// Whether nothing is missing or wrong, and every provider can be asked that has to be.
    pub fn is_ready(&self) -> bool {
        let has_open = self.inputs.iter().any(InputReport::is_open)
            || self.providers.iter().any(ProviderResolution::is_open);
        self.unknown.is_empty() && !has_open
    }

    /// Everything that is wrong, missing inputs included.
    pub fn violations(&self) -> Vec<&Violation> {
        let of_inputs = self.inputs.iter().flat_map(|report| &report.violations);
        let all = self.unknown.iter().chain(of_inputs);
        all.take(limits::VIOLATIONS_MAX).collect()
    }
}

/// What an execution would be.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What it would follow.
    pub definition: Arc<Definition>,
    /// What is known of it before it begins.
    pub rehearsal: Rehearsal,
}

/// Where an execution stands that was started to be waited for.
#[derive(Clone, Debug)]
pub struct Ran {
    /// What to do now, where a model is waited for.
    pub step: CurrentStep,
    /// Where it stands.
    pub status: StatusView,
}

impl App {
    /// What these inputs come to for a workflow. Only defaults out of earlier executions need the store.
    ///
    /// # Errors
    /// Those of reading what ran before.
    pub async fn resolved(
        &self,
        definition: &Definition,
        given: Map<String, Value>,
    ) -> Result<Resolved> {
        let workflow = &definition.workflow;
        let sources = self.default_sources(workflow, &given).await?;
        let resolved = Resolved::of(workflow, given, &sources);
        let has_provider = |inputs: &&Inputs| inputs.iter().any(|input| input.provider.is_some());
        let Some(inputs) = workflow
            .inputs
            .clone()
            .filter(|inputs| has_provider(&inputs))
        else {
            return Ok(resolved);
        };
        let known = resolved.known.clone();
        let look = move |registry: &Registry| {
            let commands = registry.abilities().commands();
            inputs.provider_resolutions(&known, |provider, argument| {
                commands.is_some_and(|commands| check::needs(commands, provider, argument))
            })
        };
        let providers = self.look_into_registry(look).await?;
        Ok(Resolved {
            providers,
            ..resolved
        })
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
            let project = self.project();
            return engine
                .defaults(workflow, Some(&given), Some(&project))
                .await;
        }
        Ok(DefaultSources {
            env: self.environment.clone(),
            ..DefaultSources::default()
        })
    }

    /// What an execution of this definition with these inputs would be. Begins none.
    ///
    /// # Errors
    /// As [`App::sound`]; `LIMIT_EXCEEDED` where the inputs are too large.
    pub async fn plan(&self, subject: Subject, given: Map<String, Value>) -> Result<Plan> {
        let definition = self.sound(subject).await?;
        let resolved = self.resolved(&definition, given).await?;
        let app = self.clone();
        let planned = tokio::task::spawn_blocking(move || app.rehearsed(definition, resolved));
        planned
            .await
            .map_err(|error| Error::internal("the planning panicked").because(error))?
    }

    fn rehearsed(&self, definition: Arc<Definition>, resolved: Resolved) -> Result<Plan> {
        let loaded = self.definitions.loaded();
        let secrets = loaded.abilities().secrets.iter().flatten();
        let secrets: Vec<_> = secrets.cloned().collect();
        let open = resolved.inputs.iter().filter(|report| report.is_open());
        let open: Vec<_> = open.map(|report| report.name.clone()).collect();
        let facts = Facts {
            env: &self.environment,
            secrets: &secrets,
            ..Facts::new(&definition, limits::TOKEN_TTL)
        };
        let rehearsal = Rehearsal::of(facts, resolved.known, open, self.now(), self.ids())?;
        Ok(Plan {
            definition,
            rehearsal,
        })
    }

    /// Starts an execution, and answers as soon as it has ended, waits for somebody else than the server, or `longest` is
    /// over.
    ///
    /// # Errors
    /// As [`App::start`].
    pub async fn run(
        &self,
        definition: Arc<Definition>,
        inputs: Option<Value>,
        longest: Duration,
    ) -> Result<Ran> {
        let started = self.start_of(definition, None, inputs, None).await?;
        self.driven(&started.execution_id, longest).await
    }

    /// Where an execution stands once it has ended or waits for somebody else than the server, or after `longest`.
    pub(super) async fn driven(&self, id: &str, longest: Duration) -> Result<Ran> {
        let id = ExecutionId::parse(id)?;
        let until = self.now().after(longest);
        loop {
            let status = self.status(&id).await?;
            let step = self.current_step(&id).await?;
            let left = until.since(self.now());
            if left.is_zero() || step.current_step.is_some() || !is_of_server(&status) {
                return Ok(Ran { step, status });
            }
            self.wait(&id, Some(status.revision), left).await?;
        }
    }
}

/// Whether the server itself leads the execution on.
fn is_of_server(status: &StatusView) -> bool {
    let by_server = ["operation", "timer", "retry"];
    let mut waits = status.waits.iter();
    status.state == State::Running.as_str()
        && waits.any(|wait| by_server.contains(&wait.waits_for.as_str()))
}
