//! The resources under `midex://workflow/` (S0): reads that change nothing, save that reading
//! `current_step` renews a token that has expired.

mod address;
mod complete;
mod definitions;
mod figures;
mod listed;
mod meant;
mod watched;

use serde_json::Value;

use self::address::Address;
pub(super) use self::{
    complete::complete,
    listed::{fixed, list, templates},
    watched::{DefinitionTopic, Watched, needs_no_store},
};
use super::{metadata::CacheHint, tools};
use crate::{
    app::App,
    error::{Code, Error, Result},
    limits,
};

const ROOT: &str = "midex://workflow/";
const JSON: &str = "application/json";

/// What is behind an address.
#[derive(Debug)]
pub(super) struct ResourceContent {
    pub(super) content: Value,
    /// How long it stays so.
    pub(super) cache: CacheHint,
    /// The address of what was left out, where it is a list with more entries.
    pub(super) next: Option<String>,
}

/// What is behind an address.
pub(super) async fn read(app: &App, address: &str) -> Result<ResourceContent> {
    let parsed = Address::parse(address);
    let _turn = match &parsed {
        Ok(Address::StepHistory(_) | Address::Telemetry { .. }) => app.large_read().await,
        _ => None,
    };
    let read = match parsed {
        Ok(parsed) => value(app, parsed).await,
        Err(error) => Err(error),
    };
    let Err(error) = read else { return read };
    let error = error.with("uri", shorten(address));
    let error = meant::explained(app, address, error).await;
    Err(error.with("tool", "resources/read"))
}

impl From<Value> for ResourceContent {
    /// All of it, as it is at this moment.
    fn from(value: Value) -> Self {
        Self {
            content: value,
            cache: CacheHint::Moment,
            next: None,
        }
    }
}

async fn value(app: &App, address: Address) -> Result<ResourceContent> {
    let value = match address {
        Address::Limits => {
            let limits = ResourceContent::from(figures::limits());
            return Ok(ResourceContent {
                cache: CacheHint::WithServer,
                ..limits
            });
        }
        Address::AvailableWorkflows(page) => {
            let registry = app.registry().await?;
            let (listed, next) = definitions::available_workflows(&registry, &page)?;
            return Ok(ResourceContent {
                next,
                ..listed.into()
            });
        }
        Address::WorkflowDetails(name) => {
            definitions::workflow_details(&*app.registry().await?, &name)
        }
        Address::Agent(name, None) => definitions::agent(&*app.registry().await?, &name),
        Address::Agent(name, Some(id)) => {
            definitions::agent_of(&*app.kept_definition(&id).await?, &name)
        }
        Address::Executions(list) => show(app.list(list).await),
        Address::CurrentStep(id) => show(app.current_step(&id).await),
        Address::WorkflowStatus(id) => show(app.status(&id).await),
        Address::StepHistory(id) => show(app.history(&id).await),
        Address::WorkflowArtifacts(id, step) => show(app.artifacts(&id, step.as_ref()).await),
        Address::Artifact {
            id,
            artifact,
            offset,
            limit,
        } => {
            let content = app.artifact(&id, &artifact, offset, limit).await?;
            // A later artifact may take over a name, but never an id.
            let cache = if content.artifact.id.to_string() == artifact {
                CacheHint::ForGood
            } else {
                CacheHint::Moment
            };
            let content = ResourceContent::from(show(Ok(content))?);
            return Ok(ResourceContent { cache, ..content });
        }
        Address::Telemetry {
            id,
            event_type,
            limit,
        } => show(app.telemetry(id.as_ref(), event_type, limit).await),
    };
    value.map(ResourceContent::from)
}

fn show<T: serde::Serialize>(view: Result<T>) -> Result<Value> {
    tools::view(&view?)
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
