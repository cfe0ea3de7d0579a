//! Resource lists: static resources, templates, and the existing definitions.

use std::collections::BTreeSet;

use rmcp::model::{Annotations, Resource, ResourceTemplate, Role};

use super::{
    JSON, ROOT,
    table::{BESIDE, SHELVES, Shelf, Spec, USEFUL},
};
use crate::tools::{Toolset, Toolsets};
use midex_domain::uri;
use midex_registry::{AgentEntry, Registry, WorkflowEntry};

/// The groups of resources that these toolsets offer.
fn shelves(sets: Toolsets) -> impl Iterator<Item = &'static Shelf> {
    let is_offered = move |shelf: &&Shelf| shelf.toolset.is_none_or(|set| sets.contains(set));
    SHELVES.iter().filter(is_offered)
}

/// The toolset of the resource at this address, if it belongs to a single one.
pub(super) fn toolset(address: &str) -> Option<Toolset> {
    let mut shelves = SHELVES.iter();
    let shelf = shelves.find(|shelf| address.starts_with(shelf.root));
    shelf.and_then(|shelf| shelf.toolset)
}

/// The first path segments of all resources below this URI prefix.
pub(super) fn kinds(root: &str) -> BTreeSet<&'static str> {
    let shelves = SHELVES.iter().filter(|shelf| shelf.root == root);
    let specs = shelves.flat_map(|shelf| shelf.resources.iter().chain(shelf.templates));
    specs
        .filter_map(|spec| spec.path.split(['/', '{']).next())
        .collect()
}

/// The static resources.
pub(crate) fn fixed(sets: Toolsets) -> Vec<Resource> {
    let resource = |root: &str, spec: &Spec| {
        let mut resource = Resource::new(format!("{root}{}", spec.path), spec.name)
            .with_title(spec.title)
            .with_description(spec.description)
            .with_annotations(annotations(spec.priority));
        resource.mime_type = spec.media_type.map(str::to_owned);
        resource
    };
    shelves(sets)
        .flat_map(|shelf| {
            shelf
                .resources
                .iter()
                .map(|spec| resource(shelf.root, spec))
        })
        .collect()
}

/// All resources without arguments: the static ones, then each workflow and each agent.
pub(crate) fn list(registry: &Registry, sets: Toolsets) -> Vec<Resource> {
    let mut resources = fixed(sets);
    resources.extend(registry.workflows().map(workflow));
    resources.extend(registry.agents().map(agent));
    resources
}

fn workflow(entry: &WorkflowEntry) -> Resource {
    let workflow = entry.value.as_ref().map(|known| &known.workflow);
    let title = workflow.and_then(|workflow| workflow.title.clone());
    let title = title.unwrap_or_else(|| format!("Workflow {}", entry.name));
    let description = workflow.map(|workflow| workflow.description.as_str());
    definition("workflow_details", &entry.name, title, description)
        .with_annotations(annotations(USEFUL))
}

fn agent(entry: &AgentEntry) -> Resource {
    let persona = entry.value.as_ref();
    let description = persona.map(|persona| persona.description.as_str());
    let title = format!("Agent {}", entry.name);
    definition("agent", &entry.name, title, description).with_annotations(annotations(BESIDE))
}

fn definition(kind: &str, name: &str, title: String, description: Option<&str>) -> Resource {
    let description =
        description.unwrap_or("Its file cannot be used; this says what is wrong with it");
    Resource::new(
        format!("{ROOT}{kind}/{}", uri::encode(name)),
        format!("{kind}/{name}"),
    )
    .with_title(title)
    .with_description(description)
    .with_mime_type(JSON)
}

/// The resource templates, as they are listed.
pub(crate) fn templates(sets: Toolsets) -> Vec<ResourceTemplate> {
    let template = |root: &str, spec: &Spec| {
        let mut template = ResourceTemplate::new(format!("{root}{}", spec.path), spec.name)
            .with_title(spec.title)
            .with_description(spec.description)
            .with_annotations(annotations(spec.priority));
        template.mime_type = spec.media_type.map(str::to_owned);
        template
    };
    shelves(sets)
        .flat_map(|shelf| {
            shelf
                .templates
                .iter()
                .map(|spec| template(shelf.root, spec))
        })
        .collect()
}

/// Whether the address is a template of these toolsets.
pub(super) fn is_template(address: &str, sets: Toolsets) -> bool {
    shelves(sets).any(|shelf| {
        let path = address.strip_prefix(shelf.root);
        path.is_some_and(|path| shelf.templates.iter().any(|template| template.path == path))
    })
}

fn annotations(priority: f32) -> Annotations {
    let everybody = vec![Role::User, Role::Assistant];
    Annotations::default()
        .with_audience(everybody)
        .with_priority(priority)
}
