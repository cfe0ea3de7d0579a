//! Resources: executions and definitions under `midex://workflow/`, author resources under `midex://authoring/`, and
//! skills. Reads change nothing, except that reading `current_step` replaces an expired token.

mod address;
mod authors;
mod complete;
mod definitions;
mod dependencies;
mod figures;
mod lists;
mod parts;
mod skills;
mod suggestions;
mod table;

use serde::Serialize;
use serde_json::Value;

use self::address::ResourceAddress;
pub(super) use self::{
    complete::{complete_variable, filter_by_prefix},
    dependencies::{DefinitionTopic, WatchedAddress, needs_no_store},
    lists::{list_resource_templates, list_resources, list_static_resources},
    skills::{get_skill, list_skills},
};
use super::{
    metadata::{CacheHint, find_suggested_tool},
    tools::{self, Toolsets, describe_manifest, list_value_providers},
};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};
use midex_registry::{self as registry, SchemaDraft, SchemaKind};
use midex_server::app::App;

/// The manual of the manifest format.
pub(super) const MANUAL: &str = include_str!("manifest.md");
const ERRORS: &str = include_str!("errors.md");

const WORKFLOW_URI_PREFIX: &str = "midex://workflow/";
const AUTHORING_URI_PREFIX: &str = "midex://authoring/";
const SKILL_URI_PREFIX: &str = "skill://";

const JSON_MEDIA_TYPE: &str = "application/json";
const SCHEMA_MEDIA_TYPE: &str = "application/schema+json";
const MARKDOWN_MEDIA_TYPE: &str = "text/markdown";

/// The content of a resource.
#[derive(Debug)]
pub(super) struct ResourceContent {
    pub(super) content: ContentBody,
    pub(super) media_type: &'static str,
    /// How long the content may be cached.
    pub(super) cache: CacheHint,
    /// The URI of the next part or page, if there is more.
    pub(super) next_uri: Option<String>,
    /// The URI of the first part, if the content is long but returned whole.
    pub(super) first_part_uri: Option<String>,
}

/// A text as it is, or a value that is shown as JSON.
#[derive(Debug)]
pub(super) enum ContentBody {
    Text(String),
    Value(Value),
}

impl ContentBody {
    /// The content as text.
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Value(value) => value.to_string(),
        }
    }

    /// The tool that the content suggests.
    pub(super) fn suggested_tool(&self) -> Option<&str> {
        match self {
            Self::Text(_) => None,
            Self::Value(value) => find_suggested_tool(value),
        }
    }

    /// The content as a JSON value. A text becomes a string.
    pub(super) fn into_value(self) -> Value {
        match self {
            Self::Text(text) => text.into(),
            Self::Value(value) => value,
        }
    }
}

/// Whether the address has a scheme of midex's resources.
pub(super) fn has_known_scheme(address: &str) -> bool {
    address.starts_with("midex:") || address.starts_with(SKILL_URI_PREFIX)
}

/// Refuses the address of a resource whose toolset is not among these.
///
/// # Errors
/// `RESOURCE_NOT_FOUND`.
pub(super) fn check_resource_offered(address: &str, sets: Toolsets) -> Result<()> {
    let Some(set) = lists::find_resource_toolset(address).filter(|set| !sets.contains(*set)) else {
        return Ok(());
    };
    let (short_address, set) = (shorten_address(address), set.as_str());
    let message = format!(
        "{short_address} is of the toolset `{set}`, and this server offers --toolsets {sets}"
    );
    Err(Error::new(Code::ResourceNotFound, message)
        .with_context("uri", short_address)
        .with_context("tool", "resources/read")
        .with_action("Read a resource that resources/list shows, or have the server started with this toolset too"))
}

/// Reads a resource, as much as fits into one answer. `is_parsed` tells that a program parses the content, so that JSON
/// must stay whole.
pub(super) async fn read_resource(
    app: &App,
    address: &str,
    is_parsed: bool,
) -> Result<ResourceContent> {
    let address_result = ResourceAddress::parse(address);
    let _permit = match &address_result {
        Ok(ResourceAddress::StepHistory(..) | ResourceAddress::Telemetry(..)) => {
            app.acquire_large_read().await
        }
        _ => None,
    };
    let read_result = match address_result {
        Ok(parsed) => read_content(app, parsed).await,
        Err(error) => Err(error),
    };
    let error = match read_result {
        Ok(content) => return Ok(content.into_part(address, is_parsed)),
        Err(error) => error,
    };
    let error = error.with_context("uri", shorten_address(address));
    let error = suggestions::add_nearest_resource(app, address, error).await;
    Err(error.with_context("tool", "resources/read"))
}

impl From<Value> for ResourceContent {
    /// Content that is complete and may change at any time.
    fn from(value: Value) -> Self {
        Self {
            content: ContentBody::Value(value),
            media_type: JSON_MEDIA_TYPE,
            cache: CacheHint::UntilChange,
            next_uri: None,
            first_part_uri: None,
        }
    }
}

impl ResourceContent {
    /// Like `from`, for a text.
    fn from_text(text: String, media_type: &'static str) -> Self {
        Self { content: ContentBody::Text(text), media_type, ..Value::Null.into() }
    }
}

async fn read_content(app: &App, address: ResourceAddress) -> Result<ResourceContent> {
    Ok(match address {
        ResourceAddress::Limits => cache_with_server(figures::describe_all_limits()),
        ResourceAddress::Spec => {
            cache_with_server(ResourceContent::from_text(MANUAL.to_owned(), MARKDOWN_MEDIA_TYPE))
        }
        ResourceAddress::Errors => {
            cache_with_server(ResourceContent::from_text(ERRORS.to_owned(), MARKDOWN_MEDIA_TYPE))
        }
        ResourceAddress::Schema => cache_with_server(ResourceContent {
            media_type: SCHEMA_MEDIA_TYPE,
            ..registry::build_schema(SchemaKind::Manifest, SchemaDraft::default()).into()
        }),
        ResourceAddress::AvailableWorkflows(page) => {
            let list = format!("{WORKFLOW_URI_PREFIX}available_workflows");
            definitions::build_workflow_page(
                &*app.registry().await?,
                &page,
                &list,
                definitions::summarize_workflow,
            )?
        }
        ResourceAddress::Manifests(page) => {
            let list = format!("{AUTHORING_URI_PREFIX}manifests");
            definitions::build_workflow_page(
                &*app.registry().await?,
                &page,
                &list,
                describe_manifest,
            )?
        }
        ResourceAddress::CommandCatalog(page) => authors::read_commands_page(app, &page).await?,
        ResourceAddress::ProviderCatalog => Value::from(list_value_providers(app).await?).into(),
        ResourceAddress::Manifest(id) => {
            app.with_registry(move |registry| authors::read_manifest(registry, &id)).await??
        }
        ResourceAddress::Skill(skill) => {
            let text = skills::read_skill_text(&*app.registry().await?, &skill);
            ResourceContent::from_text(
                text.ok_or_else(|| unknown_resource_error(&skill.uri()))?,
                MARKDOWN_MEDIA_TYPE,
            )
        }
        ResourceAddress::WorkflowDetails(name) => {
            definitions::describe_workflow(&*app.registry().await?, &name)?.into()
        }
        ResourceAddress::Agent(name, None) => {
            definitions::describe_agent(&*app.registry().await?, &name)?.into()
        }
        ResourceAddress::Agent(name, Some(id)) => {
            definitions::describe_stored_agent(&*app.stored_definition(&id).await?, &name)?.into()
        }
        ResourceAddress::Executions(list) => serialize_view(&app.list(list).await?)?,
        ResourceAddress::CurrentStep(id, reader) => {
            serialize_view(&app.current_step_for(&id, reader).await?)?
        }
        ResourceAddress::PastStep(id, point) => serialize_view(&app.past_step(&id, point).await?)?,
        ResourceAddress::PastStatus(id, point) => {
            serialize_view(&app.past_status(&id, point).await?)?
        }
        ResourceAddress::WorkflowStatus(id) => serialize_view(&app.status(&id).await?)?,
        ResourceAddress::FinalOutput(id) => serialize_view(&app.final_output(&id).await?)?,
        ResourceAddress::Graph(id) => serialize_view(&app.graph(&id).await?)?,
        ResourceAddress::StepHistory(id, None) => serialize_view(&app.history(&id).await?)?,
        ResourceAddress::StepHistory(id, Some(step)) => {
            // This call refuses a step that the execution does not have.
            app.artifacts(&id, Some(&step)).await?;
            let mut history = app.history(&id).await?;
            history.retain(|row| row.step_name == step.as_str());
            serialize_view(&history)?
        }
        ResourceAddress::WorkflowArtifacts(id, step) => {
            serialize_view(&app.artifacts(&id, step.as_ref()).await?)?
        }
        ResourceAddress::Artifact(id, artifact, offset, limit) => {
            let content = app.artifact(&id, &artifact, offset, limit).await?;
            // A later artifact may get the same name, but never the same id.
            let mut content_view = serialize_view(&content)?;
            if content.artifact.id.to_string() == artifact {
                content_view.cache = CacheHint::Forever;
            }
            content_view
        }
        ResourceAddress::Telemetry(id, event_type, limit) => {
            serialize_view(&app.telemetry(id.as_ref(), event_type, limit).await?)?
        }
    })
}

fn serialize_view(view: &impl Serialize) -> Result<ResourceContent> {
    tools::serialize_view(view).map(ResourceContent::from)
}

/// Content that does not change while this server runs.
fn cache_with_server(content: impl Into<ResourceContent>) -> ResourceContent {
    ResourceContent { cache: CacheHint::ServerLifetime, ..content.into() }
}

fn unknown_resource_error(address: &str) -> Error {
    let short_address = shorten_address(address);
    Error::new(Code::ResourceNotFound, format!("no resource has the address {short_address}"))
}

fn shorten_address(address: &str) -> String {
    address.chars().take(limits::ADDRESS_SHOWN_CHARS).collect()
}
