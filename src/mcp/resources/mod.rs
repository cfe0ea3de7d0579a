//! The resources under `midex://workflow/` (S0): reads that change nothing, save that reading
//! `current_step` renews a token that has expired.

mod address;
mod complete;
mod definitions;
mod watched;

use rmcp::model::{Resource, ResourceTemplate};
use serde_json::Value;

use self::address::Address;
pub(super) use self::{
    complete::complete,
    watched::{Shown, Watched},
};
use crate::{
    app::App,
    error::{Code, Error, Result},
    limits,
};

const ROOT: &str = "midex://workflow/";
const JSON: &str = "application/json";

/// A resource, or a family of them: name, path with its variables, title, description.
type Spec = (&'static str, &'static str, &'static str, &'static str);

/// The resources that need no argument.
const RESOURCES: &[Spec] = &[
    (
        "available_workflows",
        "available_workflows",
        "Available workflows",
        "Every workflow that can be started, with its phases; broken ones with their findings",
    ),
    (
        "executions",
        "executions",
        "Executions",
        "The executions of this project, the one that moved last first",
    ),
    (
        "telemetry",
        "telemetry",
        "Telemetry",
        "What happened lately, over all executions, oldest first",
    ),
];

/// The resources that take arguments.
const TEMPLATES: &[Spec] = &[
    (
        "workflow_details",
        "workflow_details/{workflow_name}",
        "Workflow details",
        "One workflow: its text, its phases and who acts in them",
    ),
    (
        "agent",
        "agent/{name}",
        "Agent",
        "One agent: its persona as the files have it now",
    ),
    (
        "current_step",
        "current_step/{execution_id}",
        "Current step",
        "What to do now in an execution, as whom, what was decided before, and the token to come back with. Read this \
         to go on after a restart or a lost context; an expired token is renewed by reading it",
    ),
    (
        "workflow_status",
        "workflow_status/{execution_id}",
        "Workflow status",
        "Where an execution stands: its state, times, step counts, and what it came to",
    ),
    (
        "step_history",
        "step_history/{execution_id}",
        "Step history",
        "Every visit of every step of an execution, with its output",
    ),
    (
        "workflow_artifacts",
        "workflow_artifacts/{execution_id}",
        "Artifacts",
        "The artifacts of an execution, without their content",
    ),
    (
        "step_artifacts",
        "workflow_artifacts/{execution_id}/{step_name}",
        "Artifacts of a step",
        "The artifacts that one step handed over, without their content",
    ),
    (
        "artifact",
        "artifact/{execution_id}/{artifact}{?offset,limit}",
        "Artifact",
        "The content of an artifact, named by its id or its name; offset and limit are bytes, next_offset says where \
         to read on",
    ),
    (
        "executions",
        "executions{?state,workflow,limit,cursor,project}",
        "Executions",
        "The executions of this project (project=* for all), the one that moved last first; state=open for those that \
         have not ended",
    ),
    (
        "telemetry",
        "telemetry{?event_type,limit}",
        "Telemetry",
        "What happened lately, over all executions, oldest first",
    ),
    (
        "execution_telemetry",
        "telemetry/{execution_id}{?event_type,limit}",
        "Telemetry of an execution",
        "What happened in an execution, oldest first",
    ),
];

/// The resources that need no argument, as they are listed.
pub(super) fn list() -> Vec<Resource> {
    let resource = |(name, path, title, description): &Spec| {
        Resource::new(format!("{ROOT}{path}"), *name)
            .with_title(*title)
            .with_description(*description)
            .with_mime_type(JSON)
    };
    RESOURCES.iter().map(resource).collect()
}

/// The resources that take arguments, as they are listed.
pub(super) fn templates() -> Vec<ResourceTemplate> {
    let template = |(name, path, title, description): &Spec| {
        ResourceTemplate::new(format!("{ROOT}{path}"), *name)
            .with_title(*title)
            .with_description(*description)
            .with_mime_type(JSON)
    };
    TEMPLATES.iter().map(template).collect()
}

/// The JSON text behind an address.
pub(super) async fn read(app: &App, address: &str) -> Result<String> {
    let value = match Address::parse(address) {
        Ok(parsed) => value(app, parsed).await,
        Err(error) => Err(error),
    };
    let value = value.map_err(|error| {
        error
            .with("uri", shorten(address))
            .with("tool", "resources/read")
    })?;
    serde_json::to_string(&value)
        .map_err(|error| Error::internal("a resource cannot be shown").because(error))
}

async fn value(app: &App, address: Address) -> Result<Value> {
    match address {
        Address::AvailableWorkflows => {
            Ok(definitions::available_workflows(&*app.registry().await?))
        }
        Address::WorkflowDetails(name) => {
            definitions::workflow_details(&*app.registry().await?, &name)
        }
        Address::Agent(name) => definitions::agent(&*app.registry().await?, &name),
        Address::Executions(list) => show(app.list(list).await),
        Address::CurrentStep(id) => show(app.engine().await?.current_step(&id).await),
        Address::WorkflowStatus(id) => show(app.engine().await?.status(&id).await),
        Address::StepHistory(id) => show(app.engine().await?.history(&id).await),
        Address::WorkflowArtifacts(id, step) => {
            show(app.engine().await?.artifacts(&id, step.as_ref()).await)
        }
        Address::Artifact {
            id,
            artifact,
            offset,
            limit,
        } => show(
            app.engine()
                .await?
                .artifact(&id, &artifact, offset, limit)
                .await,
        ),
        Address::Telemetry {
            id,
            event_type,
            limit,
        } => show(
            app.engine()
                .await?
                .telemetry(id.as_ref(), event_type, limit)
                .await,
        ),
    }
}

fn show<T: serde::Serialize>(view: Result<T>) -> Result<Value> {
    serde_json::to_value(view?)
        .map_err(|error| Error::internal("a view cannot be shown").because(error))
}

fn unknown(address: &str) -> Error {
    let shown = shorten(address);
    Error::new(
        Code::ResourceNotFound,
        format!("no resource has the address {shown}"),
    )
}

fn shorten(address: &str) -> String {
    address.chars().take(limits::ADDRESS_SHOWN_CHARS).collect()
}
