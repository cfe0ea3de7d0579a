//! The workflows that are part of midex and lead to other workflows: they write, save, repair and run them. They are
//! started by tools alone, and their activities work in no other definition.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock, Weak},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{App, DefinitionSubject, SharedState};
use crate::config::{AuthorTarget, RegistryDir};
use midex_domain::{
    Definition, ExecutionId,
    check::ServerCapabilities,
    error::{Code, Error, Result},
    execution::OperationFailure,
    finding::{Finding, has_errors},
    input::{InputReport, InputStatus},
    label::Labels,
    limits,
    operation::BoxFuture,
};
use midex_engine::activity::{Activities, Activity, Context, Outcome};
use midex_registry::{Manifest, Registry, SaveRequest, Sources};

/// A workflow that is part of midex and leads to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flow {
    /// Runs a workflow.
    Execute,
    /// Writes a workflow, and runs it.
    AuthorAndRun,
    /// Corrects a workflow whose run failed, and runs it again.
    RepairAndRerun,
}

impl Flow {
    const ALL: [Self; 3] = [Self::Execute, Self::AuthorAndRun, Self::RepairAndRerun];

    const fn manifest(self) -> &'static str {
        match self {
            Self::Execute => include_str!("../flows/execute.yaml"),
            Self::AuthorAndRun => include_str!("../flows/author_and_run.yaml"),
            Self::RepairAndRerun => include_str!("../flows/repair_and_rerun.yaml"),
        }
    }

    /// Its definition.
    fn definition(self) -> Result<Arc<Definition>> {
        static DEFINITIONS: OnceLock<BTreeMap<Flow, Arc<Definition>>> = OnceLock::new();
        let definitions = DEFINITIONS.get_or_init(|| {
            let activities = FlowActivityKind::ALL.into_iter().map(|kind| kind.name().to_owned());
            let abilities = ServerCapabilities {
                activities: activities.collect(),
                ..ServerCapabilities::default()
            };
            let registry = Registry::load_with_abilities(&Sources::default(), &abilities);
            let check = |flow: Self| {
                let manifest = Manifest::from_text(flow.manifest().to_owned(), None);
                Some((flow, registry.check_manifest(&manifest).definition?))
            };
            Self::ALL.into_iter().filter_map(check).collect()
        });
        let definition = definitions.get(&self).cloned();
        definition.ok_or_else(|| Error::internal("a workflow that is part of midex is not valid"))
    }
}

impl App {
    /// The app of the process itself.
    fn for_process(shared: Arc<SharedState>) -> Self {
        let config = shared.options.config.clone();
        Self::from_shared(shared, &config, config.environment())
    }

    /// Starts one of the workflows that are part of midex, and returns the id of its execution.
    ///
    /// # Errors
    /// As [`App::start`].
    pub async fn start_flow(
        &self,
        flow: Flow,
        mut inputs: Map<String, Value>,
    ) -> Result<ExecutionId> {
        if flow != Flow::Execute {
            inputs.insert("author_to".into(), json!(self.author_target()));
        }
        let definition = tokio::task::spawn_blocking(move || flow.definition()).await;
        let definition = definition
            .map_err(|error| Error::internal("a check panicked").with_source(error))??;
        self.start_run(definition, Some(Value::Object(inputs)), Labels::new()).await
    }

    /// Which workflow directory this caller's authoring tools write into.
    fn author_target(&self) -> AuthorTarget {
        let project = self.project_dir.join("workflows");
        let authoring = self.authoring.as_ref();
        match authoring.filter(|authoring| authoring.directory.path == project) {
            Some(_) => AuthorTarget::Project,
            None => AuthorTarget::User,
        }
    }

    /// The app as the caller that started this execution sees it, for an activity of a flow.
    ///
    /// # Errors
    /// `STATE_TRANSITION_REFUSED` if the execution follows another definition: only the workflows of midex may use
    /// these activities.
    async fn for_flow(&self, id: &ExecutionId, author_to: AuthorTarget) -> Result<Self> {
        let engine = self.engine().await?;
        let execution = engine.read_execution(id).await?.execution;
        let definitions = Flow::ALL.into_iter().filter_map(|flow| flow.definition().ok());
        let mut digests = definitions.map(|definition| definition.digest());
        let lookup = engine.load_workflow_lookup(&execution).await?;
        let lookup = lookup.filter(|_| digests.any(|digest| digest == execution.definition()));
        let Some(lookup) = lookup else {
            let message = "this activity belongs to the workflows of midex itself";
            return Err(Error::new(Code::StateTransitionRefused, message));
        };
        let directories = lookup.directories;
        let mut config = self.config().clone();
        config.author_to = author_to;
        config.registry_dir = directories
            .registry_dir
            .map(|path| RegistryDir { path, variable: "the registry".to_owned() });
        config.workflows_dir = directories.workflows_dir;
        config.agents_dir = directories.agents_dir;
        config.project_directories = directories.named_by_project;
        config.project_dir = directories.project_dir;
        let environment = self.shared.environments.environment_of_project(execution.project());
        Ok(self.for_caller(&config, (*environment).clone()))
    }
}

/// Adds the activities of the flows to those of the embedding program.
///
/// # Errors
/// `INTERNAL` if the program has an activity of the same name.
pub(super) fn add_flow_activities(activities: Activities, app: &App) -> Result<Activities> {
    FlowActivityKind::ALL.into_iter().try_fold(activities, |activities, kind| {
        activities.with_activity(FlowActivity { kind, shared: Arc::downgrade(&app.shared) })
    })
}

#[derive(Clone, Copy, Debug)]
enum FlowActivityKind {
    /// Checks a manifest.
    Validate,
    /// Saves a manifest, or takes a save back.
    Save,
    /// Resolves the inputs of a saved workflow.
    ResolveInputs,
}

impl FlowActivityKind {
    const ALL: [Self; 3] = [Self::Validate, Self::Save, Self::ResolveInputs];

    const fn name(self) -> &'static str {
        match self {
            Self::Validate => "midex.validate",
            Self::Save => "midex.save",
            Self::ResolveInputs => "midex.resolve_inputs",
        }
    }
}

/// An activity of the flows. It holds no strong reference to the app, which owns the engine that owns the activity.
struct FlowActivity {
    kind: FlowActivityKind,
    shared: Weak<SharedState>,
}

/// The values that the steps of the flows pass to their activities.
#[derive(Deserialize)]
struct FlowInput {
    #[serde(default)]
    author_to: AuthorTarget,
    /// The text of a manifest, or the manifest as an object.
    manifest: Option<Value>,
    /// The version of the file that the manifest replaces.
    version: Option<String>,
    workflow_id: Option<String>,
    inputs: Option<Map<String, Value>>,
    /// The output of the save to take back.
    undo: Option<SavedFile>,
    /// The text of the file before that save.
    replaced: Option<String>,
}

/// A file that a flow has saved.
#[derive(Serialize, Deserialize)]
struct SavedFile {
    workflow_id: String,
    path: String,
    version: String,
}

impl Activity for FlowActivity {
    fn name(&self) -> &str {
        self.kind.name()
    }

    fn is_idempotent(&self) -> bool {
        true
    }

    fn run(&self, context: Context) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let result = self.run_for(context).await;
            result.map_err(|error| {
                let failure = OperationFailure {
                    code: Some(error.code().as_str().to_owned()),
                    ..OperationFailure::new("authoring", error.message())
                };
                if error.code().retryable() { failure.as_retryable() } else { failure }
            })
        })
    }
}

impl FlowActivity {
    async fn run_for(&self, context: Context) -> Result<Value> {
        let input: FlowInput = serde_json::from_value(context.input).map_err(|error| {
            Error::internal("the input of a flow is not valid").with_source(error)
        })?;
        let shared = self.shared.upgrade().ok_or_else(midex_engine::server_stopping_error)?;
        let app = App::for_process(shared);
        let app = app.for_flow(&context.execution_id, input.author_to).await?;
        match self.kind {
            FlowActivityKind::Validate => validate_manifest(&app, input).await,
            FlowActivityKind::Save => match input.undo {
                Some(saved) => take_back_save(&app, saved, input.replaced).await,
                None => save_manifest(&app, input).await,
            },
            FlowActivityKind::ResolveInputs => resolve_flow_inputs(&app, input).await,
        }
    }
}

impl FlowInput {
    fn save_request(&self) -> SaveRequest {
        let text = match &self.manifest {
            Some(Value::String(text)) => text.clone(),
            Some(manifest) => format!("{manifest:#}"),
            None => String::new(),
        };
        SaveRequest {
            manifest: Manifest::from_text(text, None),
            should_overwrite: false,
            expected_version: self.version.clone(),
        }
    }
}

/// Checks the manifest, and that it can be saved under its name.
async fn validate_manifest(app: &App, input: FlowInput) -> Result<Value> {
    let save = input.save_request();
    let check = app.check_definition(DefinitionSubject::Inline(save.manifest.clone())).await?;
    let is_valid = !has_errors(&check.findings);
    let (warnings, violations): (Vec<_>, Vec<_>) =
        { check.findings.into_iter() }.partition(Finding::is_warning);
    let mut violations: Vec<_> =
        violations.iter().take(limits::VIOLATIONS_MAX).map(|finding| json!(finding)).collect();
    let name_problem = match &input.workflow_id {
        Some(id) => {
            (*id != check.name).then(|| format!("the id of this workflow is `{id}`: keep it"))
        }
        None if is_valid => {
            let name = check.name.clone();
            let is_program_workflow =
                app.with_registry(move |registry| registry.is_program_workflow(&name)).await?;
            let is_taken = is_program_workflow || app.find_file_to_overwrite(&save).await.is_some();
            is_taken
                .then(|| format!("there is a workflow `{}` already: choose another id", check.name))
        }
        None => None,
    };
    let violation = |message| json!({ "path": "workflow", "rule": "name", "message": message });
    violations.extend(name_problem.map(violation));
    Ok(json!({
        "valid": violations.is_empty(),
        "workflow_id": check.name,
        "violations": violations,
        "warnings": warnings.iter().take(limits::VIOLATIONS_MAX).collect::<Vec<_>>(),
    }))
}

/// Saves the manifest. A save that was cut off after it was done succeeds.
async fn save_manifest(app: &App, input: FlowInput) -> Result<Value> {
    let save = input.save_request();
    let existing = app.find_file_to_overwrite(&save).await;
    let version = save.manifest.version().to_string();
    let saved = if let Some(file) = existing.filter(|file| file.version == version) {
        SavedFile { workflow_id: file.workflow_id, path: file.path, version }
    } else {
        let saved = serde_json::to_value(app.save_workflow(save).await?);
        saved.and_then(serde_json::from_value).map_err(|error| {
            Error::internal("the result of a save cannot be read").with_source(error)
        })?
    };
    Ok(json!(saved))
}

/// Restores the file as it was before a save, unless somebody has changed it since.
async fn take_back_save(app: &App, saved: SavedFile, replaced: Option<String>) -> Result<Value> {
    let version = Some(saved.version);
    let result = match replaced {
        None => app.delete_workflow(&saved.workflow_id, version).await.map(drop),
        Some(text) => {
            let manifest = Manifest::from_text(text, None);
            let save = SaveRequest { manifest, should_overwrite: false, expected_version: version };
            app.save_workflow(save).await.map(drop)
        }
    };
    match result {
        Ok(()) => Ok(json!({ "taken_back": true })),
        Err(error) if matches!(error.code(), Code::VersionConflict | Code::WorkflowNotFound) => {
            Ok(json!({ "taken_back": false, "why": error.message() }))
        }
        Err(error) => Err(error),
    }
}

/// Resolves the inputs of the saved workflow.
async fn resolve_flow_inputs(app: &App, input: FlowInput) -> Result<Value> {
    let id = input.workflow_id.unwrap_or_default();
    let definition = app.find_valid_definition(DefinitionSubject::Named(id)).await?;
    let resolved = app.resolve_inputs(&definition, input.inputs.unwrap_or_default()).await?;
    let is_missing = |report: &&InputReport| report.status == InputStatus::Missing;
    let missing = resolved.inputs.iter().filter(is_missing).map(|report| &report.name);
    Ok(json!({
        "ready": resolved.is_ready(),
        "missing": missing.collect::<Vec<_>>(),
        "violations": resolved.violations(),
        "inputs": resolved.known_values,
    }))
}
