//! What is listed: the resources that are always there, their templates, and the definitions that are found.

use std::collections::BTreeSet;

use rmcp::model::{Annotations, Resource, ResourceTemplate, Role};

use super::{JSON, ROOT};
use crate::{
    registry::{AgentEntry, Registry, WorkflowEntry},
    uri,
};

/// A resource, or a family of them.
struct Spec {
    name: &'static str,
    /// With its variables.
    path: &'static str,
    title: &'static str,
    description: &'static str,
    /// From 0 to 1, as fractions that have no digits to lose.
    priority: f32,
}

/// What an agent cannot do without.
const NEEDED: f32 = 1.0;
/// What helps it.
const USEFUL: f32 = 0.5;
/// What is there for whoever wants to know.
const BESIDE: f32 = 0.25;

/// The first part of every path.
pub(super) fn kinds() -> BTreeSet<&'static str> {
    let paths = RESOURCES.iter().chain(TEMPLATES).map(|spec| spec.path);
    paths
        .filter_map(|path| path.split(['/', '{']).next())
        .collect()
}

/// The resources that need no argument.
const RESOURCES: &[Spec] = &[
    Spec {
        name: "available_workflows",
        path: "available_workflows",
        title: "Available workflows",
        description: "Every workflow that can be started, with its phases; broken ones with their findings",
        priority: NEEDED,
    },
    Spec {
        name: "executions",
        path: "executions",
        title: "Executions",
        description: "The executions of this project, the one that moved last first",
        priority: USEFUL,
    },
    Spec {
        name: "telemetry",
        path: "telemetry",
        title: "Telemetry",
        description: "What happened lately, over all executions, oldest first",
        priority: BESIDE,
    },
    Spec {
        name: "limits",
        path: "limits",
        title: "Limits",
        description: "Every limit of this server with its figure, its unit and what it bounds",
        priority: BESIDE,
    },
];

/// The resources that take arguments.
const TEMPLATES: &[Spec] = &[
    Spec {
        name: "available_workflows",
        path: "available_workflows{?limit,after,query}",
        title: "Available workflows",
        description: "The workflows that speak of all words of query, at most 200 at once, those that follow the one named after; \
                      _meta.next is the address of the next page",
        priority: USEFUL,
    },
    Spec {
        name: "workflow_details",
        path: "workflow_details/{workflow_name}",
        title: "Workflow details",
        description: "One workflow: its text, its phases and who acts in them",
        priority: USEFUL,
    },
    Spec {
        name: "agent",
        path: "agent/{name}",
        title: "Agent",
        description: "One agent: its persona as the files have it now",
        priority: BESIDE,
    },
    Spec {
        name: "agent",
        path: "agent/{name}{?execution_id}",
        title: "Agent of an execution",
        description: "One agent: its persona as an execution keeps it",
        priority: BESIDE,
    },
    Spec {
        name: "current_step",
        path: "current_step/{execution_id}",
        title: "Current step",
        description: "What to do now in an execution, as whom, what was decided before, and the token to come \
                      back with. Read this to go on after a restart or a lost context; an expired token is renewed by reading it",
        priority: NEEDED,
    },
    Spec {
        name: "workflow_status",
        path: "workflow_status/{execution_id}",
        title: "Workflow status",
        description: "Where an execution stands: its state, times, step counts, and what it came to",
        priority: USEFUL,
    },
    Spec {
        name: "step_history",
        path: "step_history/{execution_id}",
        title: "Step history",
        description: "Every visit of every step of an execution, with its output",
        priority: USEFUL,
    },
    Spec {
        name: "workflow_artifacts",
        path: "workflow_artifacts/{execution_id}",
        title: "Artifacts",
        description: "The artifacts of an execution, without their content",
        priority: USEFUL,
    },
    Spec {
        name: "step_artifacts",
        path: "workflow_artifacts/{execution_id}/{step_name}",
        title: "Artifacts of a step",
        description: "The artifacts that one step handed over, without their content",
        priority: BESIDE,
    },
    Spec {
        name: "artifact",
        path: "artifact/{execution_id}/{artifact}{?offset,limit}",
        title: "Artifact",
        description: "The content of an artifact, named by its id or its name; offset and limit are bytes, \
                      next_offset says where to read on",
        priority: USEFUL,
    },
    Spec {
        name: "executions",
        path: "executions{?state,workflow,limit,cursor,project}",
        title: "Executions",
        description: "The executions of this project (project=* for all), the one that moved last first; \
                      state=open for those that have not ended",
        priority: USEFUL,
    },
    Spec {
        name: "telemetry",
        path: "telemetry{?event_type,limit}",
        title: "Telemetry",
        description: "What happened lately, over all executions, oldest first",
        priority: BESIDE,
    },
    Spec {
        name: "execution_telemetry",
        path: "telemetry/{execution_id}{?event_type,limit}",
        title: "Telemetry of an execution",
        description: "What happened in an execution, oldest first",
        priority: BESIDE,
    },
];

/// The resources that are always there.
pub(in crate::mcp) fn fixed() -> Vec<Resource> {
    let resource = |spec: &Spec| {
        Resource::new(format!("{ROOT}{}", spec.path), spec.name)
            .with_title(spec.title)
            .with_description(spec.description)
            .with_mime_type(JSON)
            .with_annotations(annotations(spec.priority))
    };
    RESOURCES.iter().map(resource).collect()
}

/// All resources that need no argument: those that are always there, then each workflow and each agent.
pub(in crate::mcp) fn list(registry: &Registry) -> Vec<Resource> {
    let mut resources = fixed();
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

/// The resources that take arguments, as they are listed.
pub(in crate::mcp) fn templates() -> Vec<ResourceTemplate> {
    let template = |spec: &Spec| {
        ResourceTemplate::new(format!("{ROOT}{}", spec.path), spec.name)
            .with_title(spec.title)
            .with_description(spec.description)
            .with_mime_type(JSON)
            .with_annotations(annotations(spec.priority))
    };
    TEMPLATES.iter().map(template).collect()
}

/// Whether it is the path of a template.
pub(super) fn is_template(path: &str) -> bool {
    TEMPLATES.iter().any(|template| template.path == path)
}

fn annotations(priority: f32) -> Annotations {
    let everybody = vec![Role::User, Role::Assistant];
    Annotations::default()
        .with_audience(everybody)
        .with_priority(priority)
}
