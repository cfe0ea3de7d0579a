//! `workflow.execute`, `workflow.author_and_run` and `workflow.repair_and_rerun`: tools that start one of midex's own
//! workflows as a task.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{StartedRun, parse_execution_id, wait_duration};
use midex_domain::{
    State,
    error::{Code, Error, Result},
    limits,
    view::Reader,
};
use midex_server::app::{App, DefinitionSubject, Flow, ListRequest};

#[derive(Deserialize, JsonSchema)]
pub(super) struct ExecuteArguments {
    #[schemars(length(min = 1, max = limits::WORKFLOW_NAME_BYTES_MAX))]
    workflow_id: String,
    #[serde(default)]
    inputs: Map<String, Value>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct AuthorArguments {
    #[schemars(length(min = 1, max = limits::GOAL_CHARS_MAX))]
    goal: String,
    #[schemars(length(min = 1, max = limits::GOAL_CHARS_MAX))]
    constraints: Option<String>,
    #[serde(default)]
    inputs: Map<String, Value>,
    #[schemars(range(max = limits::REPAIRS_MAX), extend("default" = limits::REPAIRS_DEFAULT))]
    max_repairs: Option<u32>,
    /// Whether the client samples its model. The server sets it.
    #[serde(default)]
    #[schemars(skip)]
    is_sampled: bool,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct RepairArguments {
    /// The failed run
    #[schemars(length(min = 1, max = limits::EXECUTION_ID_BYTES_MAX))]
    execution_id: Option<String>,
    #[schemars(length(min = 1, max = limits::WORKFLOW_NAME_BYTES_MAX))]
    workflow_id: Option<String>,
    /// The corrected text, if you have it
    manifest: Option<String>,
    inputs: Option<Map<String, Value>>,
    #[schemars(range(max = limits::REPAIRS_MAX), extend("default" = limits::REPAIRS_DEFAULT))]
    max_repairs: Option<u32>,
}

async fn start(app: &App, flow: Flow, inputs: Value) -> Result<StartedRun> {
    let inputs = match inputs {
        Value::Object(inputs) => inputs.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        _ => Map::new(),
    };
    let execution_id = app.start_flow(flow, inputs).await?;
    Ok(StartedRun { execution_id, warnings: Vec::new(), timeout: wait_duration(None) })
}

pub(super) async fn execute(app: &App, arguments: ExecuteArguments) -> Result<StartedRun> {
    let ExecuteArguments { workflow_id, inputs } = arguments;
    // Refuse what cannot start now, so that no execution is left behind that only says so.
    let subject = DefinitionSubject::Named(workflow_id.clone());
    let definition = app.find_valid_definition(subject).await?;
    let resolved = app.resolve_provider_arguments(&definition, inputs.clone()).await?;
    let violations: Vec<_> = resolved.violations().into_iter().cloned().collect();
    if !violations.is_empty() {
        let message = format!("the inputs of `{workflow_id}` are not complete");
        let error = Error::new(Code::InputsInvalid, message);
        return Err(error.with_context("workflow", workflow_id).with_violations(violations));
    }
    start(app, Flow::Execute, json!({ "workflow_id": workflow_id, "inputs": inputs })).await
}

pub(super) async fn author_and_run(app: &App, arguments: AuthorArguments) -> Result<StartedRun> {
    let AuthorArguments { goal, constraints, inputs, max_repairs, is_sampled } = arguments;
    let max_repairs = max_repairs.unwrap_or(limits::REPAIRS_DEFAULT);
    let flow_inputs = json!({
        "goal": goal,
        "constraints": constraints,
        "inputs": inputs,
        "max_repairs": max_repairs,
        "draft_in_parts": is_sampled,
    });
    start(app, Flow::AuthorAndRun, flow_inputs).await
}

pub(super) async fn repair_and_rerun(app: &App, arguments: RepairArguments) -> Result<StartedRun> {
    let run = match (arguments.execution_id, arguments.workflow_id) {
        (Some(id), None) => FailedRun::of_execution(app, &id).await?,
        (None, Some(name)) => FailedRun::of_workflow(app, name).await?,
        (given, _) => {
            let (path, problem) = match given {
                Some(_) => ("/workflow_id", "both are given"),
                None => ("", "neither is given"),
            };
            let message = format!(
                "workflow.repair_and_rerun takes exactly one of `execution_id` and `workflow_id`: {problem}"
            );
            return Err(Error::argument_rule(path, "oneOf", &message));
        }
    };
    // Refuse a file that cannot be written before anybody corrects it.
    let file = app.preview_delete(&run.workflow_id, None).await?.file;
    let name = run.workflow_id.clone();
    let text = app.with_registry(move |registry| {
        let entry = registry.workflow(&name).ok_or_else(|| registry.unknown_id_error(&name))?;
        let manifest = registry.read_manifest(entry);
        manifest.ok_or_else(|| registry.unknown_id_error(&name))
    });
    let manifest = text.await??;
    let flow_inputs = json!({
        "workflow_id": run.workflow_id,
        "manifest": manifest.text,
        "version": file.version,
        "corrected": arguments.manifest,
        "failure": run.failure,
        "inputs": arguments.inputs.unwrap_or(run.inputs),
        "max_repairs": arguments.max_repairs.unwrap_or(limits::REPAIRS_DEFAULT),
    });
    start(app, Flow::RepairAndRerun, flow_inputs).await
}

/// The run that a repair starts from.
struct FailedRun {
    workflow_id: String,
    failure: Option<Value>,
    inputs: Map<String, Value>,
}

impl FailedRun {
    async fn of_execution(app: &App, id: &str) -> Result<Self> {
        let id = parse_execution_id(id)?;
        let status = app.status(&id).await?;
        if status.state != State::Failed.as_str() {
            let message = format!("execution '{id}' is {} and has not failed", status.state);
            return Err(Error::new(Code::StateTransitionRefused, message)
                .with_context("execution_id", id.as_str())
                .with_context("workflow_state", status.state));
        }
        let inputs = app.current_step_for(&id, Reader::Person).await?.inputs;
        Ok(Self {
            workflow_id: status.workflow_name,
            failure: status.error.map(|failure| json!(failure)),
            inputs: inputs.and_then(|inputs| inputs.as_object().cloned()).unwrap_or_default(),
        })
    }

    /// The latest failed run of a workflow, or a run that never was.
    async fn of_workflow(app: &App, name: String) -> Result<Self> {
        let request = ListRequest {
            state: Some(State::Failed.as_str().into()),
            workflow: Some(name.clone()),
            limit: Some(1),
            ..ListRequest::default()
        };
        match app.list(request).await?.executions.first() {
            Some(execution) => Self::of_execution(app, &execution.execution_id).await,
            None => Ok(Self { workflow_id: name, failure: None, inputs: Map::new() }),
        }
    }
}
