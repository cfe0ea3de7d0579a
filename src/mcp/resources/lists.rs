//! Resource lists: static resources, templates, and the existing definitions.

use std::collections::BTreeSet;

use rmcp::model::{Annotations, Resource, ResourceTemplate, Role};

use super::{
    JSON_MEDIA_TYPE, WORKFLOW_URI_PREFIX,
    table::{PRIORITY_BACKGROUND, PRIORITY_USEFUL, ROOTS, ResourceSpec, TABLE},
};
use crate::tools::{Toolset, Toolsets};
use midex_domain::uri;
use midex_registry::{AgentEntry, Registry, WorkflowEntry};

/// The resources that these toolsets offer.
fn offered_resources(sets: Toolsets) -> impl Iterator<Item = &'static ResourceSpec> {
    let is_offered = move |row: &&ResourceSpec| {
        find_resource_toolset(row.root).is_none_or(|set| sets.contains(set))
    };
    TABLE.iter().filter(is_offered)
}

/// The toolset of the resource at this address, if it belongs to a single one.
pub(super) fn find_resource_toolset(address: &str) -> Option<Toolset> {
    let mut roots = ROOTS.iter();
    roots.find(|(root, _)| address.starts_with(root))?.1
}

/// The first path segments of all resources below this URI prefix.
pub(super) fn list_resource_kinds(root: &str) -> BTreeSet<&'static str> {
    let rows = TABLE.iter().filter(|row| row.root == root);
    let kinds = rows.filter_map(|row| row.path.split(['/', '{']).next());
    kinds.collect()
}

/// Whether a static resource has this path below this URI prefix.
pub(super) fn is_fixed(root: &str, path: &str) -> bool {
    TABLE.iter().any(|row| row.root == root && row.path == path)
}

/// The static resources.
pub(crate) fn list_static_resources(sets: Toolsets) -> Vec<Resource> {
    let resource = |row: &ResourceSpec| {
        let mut resource = Resource::new(row.uri(), row.name)
            .with_title(row.title)
            .with_description(row.description)
            .with_annotations(build_annotations(row.priority));
        resource.mime_type = row.media_type.map(str::to_owned);
        resource
    };
    let static_rows = offered_resources(sets).filter(|row| !row.is_template());
    static_rows.map(resource).collect()
}

/// All resources without arguments: the static ones, then each workflow and each agent.
pub(crate) fn list_resources(registry: &Registry, sets: Toolsets) -> Vec<Resource> {
    let mut resources = list_static_resources(sets);
    resources.extend(registry.workflows().map(build_workflow_resource));
    resources.extend(registry.agents().map(build_agent_resource));
    resources
}

fn build_workflow_resource(entry: &WorkflowEntry) -> Resource {
    let workflow = entry.value.as_ref().map(|known| &known.workflow);
    let title = workflow.and_then(|workflow| workflow.title.clone());
    let title = title.unwrap_or_else(|| format!("Workflow {}", entry.name));
    let description = workflow.map(|workflow| workflow.description.as_str());
    build_definition_resource("workflow_details", &entry.name, title, description)
        .with_annotations(build_annotations(PRIORITY_USEFUL))
}

fn build_agent_resource(entry: &AgentEntry) -> Resource {
    let persona = entry.value.as_ref();
    let description = persona.map(|persona| persona.description.as_str());
    let title = format!("Agent {}", entry.name);
    build_definition_resource("agent", &entry.name, title, description)
        .with_annotations(build_annotations(PRIORITY_BACKGROUND))
}

fn build_definition_resource(
    kind: &str,
    name: &str,
    title: String,
    description: Option<&str>,
) -> Resource {
    let description =
        description.unwrap_or("Its file cannot be used; this says what is wrong with it");
    Resource::new(
        format!("{WORKFLOW_URI_PREFIX}{kind}/{}", uri::encode_segment(name)),
        format!("{kind}/{name}"),
    )
    .with_title(title)
    .with_description(description)
    .with_mime_type(JSON_MEDIA_TYPE)
}

/// The resource templates, as they are listed.
pub(crate) fn list_resource_templates(sets: Toolsets) -> Vec<ResourceTemplate> {
    let template = |row: &ResourceSpec| {
        let mut template = ResourceTemplate::new(row.uri(), row.name)
            .with_title(row.title)
            .with_description(row.description)
            .with_annotations(build_annotations(row.priority));
        template.mime_type = row.media_type.map(str::to_owned);
        template
    };
    let templates = offered_resources(sets).filter(|row| row.is_template());
    templates.map(template).collect()
}

/// Whether the address is a template of these toolsets.
pub(super) fn is_template(address: &str, sets: Toolsets) -> bool {
    offered_resources(sets).any(|row| row.is_template() && row.uri() == address)
}

fn build_annotations(priority: f32) -> Annotations {
    let everybody = vec![Role::User, Role::Assistant];
    Annotations::default().with_audience(everybody).with_priority(priority)
}
