//! Tables of the static resources and templates, by URI prefix.

use super::{AUTHORING, JSON, MARKDOWN, ROOT, SCHEMA, SKILL};
use crate::tools::Toolset;

/// Resources with the same URI prefix. They belong to one toolset, or to all.
pub(super) struct Shelf {
    pub(super) root: &'static str,
    pub(super) toolset: Option<Toolset>,
    /// Resources without arguments.
    pub(super) resources: &'static [Spec],
    /// Resource templates, which take arguments.
    pub(super) templates: &'static [Spec],
}

/// A resource, or a resource template.
pub(super) struct Spec {
    pub(super) name: &'static str,
    /// The URI after the prefix, with its variables.
    pub(super) path: &'static str,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    /// `None` if it differs between the resources of a template.
    pub(super) media_type: Option<&'static str>,
    /// The priority from 0 to 1. The values in use are exact in binary.
    pub(super) priority: f32,
}

/// The priority of resources that an agent needs.
const NEEDED: f32 = 1.0;
/// The priority of resources that help an agent.
pub(super) const USEFUL: f32 = 0.5;
/// The priority of background information.
pub(super) const BESIDE: f32 = 0.25;

/// All resources, in listing order.
pub(super) const SHELVES: [Shelf; 3] = [
    Shelf {
        root: ROOT,
        toolset: None,
        resources: RESOURCES,
        templates: TEMPLATES,
    },
    Shelf {
        root: AUTHORING,
        toolset: Some(Toolset::Author),
        resources: AUTHORS,
        templates: AUTHORS_TEMPLATES,
    },
    Shelf {
        root: SKILL,
        toolset: Some(Toolset::Run),
        resources: &[],
        templates: SKILLS,
    },
];

/// The resources without arguments.
const RESOURCES: &[Spec] = &[
    Spec {
        name: "available_workflows",
        path: "available_workflows",
        title: "Available workflows",
        description: "Every workflow that can be started, with its phases; broken ones with their findings",
        media_type: Some(JSON),
        priority: NEEDED,
    },
    Spec {
        name: "executions",
        path: "executions",
        title: "Executions",
        description: "The executions of this project, the one that moved last first",
        media_type: Some(JSON),
        priority: USEFUL,
    },
    Spec {
        name: "telemetry",
        path: "telemetry",
        title: "Telemetry",
        description: "What happened lately, over all executions, oldest first",
        media_type: Some(JSON),
        priority: BESIDE,
    },
    Spec {
        name: "limits",
        path: "limits",
        title: "Limits",
        description: "Every limit of this server with its figure, its unit and what it bounds",
        media_type: Some(JSON),
        priority: BESIDE,
    },
];

/// The resource templates.
const TEMPLATES: &[Spec] = &[
    Spec {
        name: "available_workflows",
        path: "available_workflows{?limit,after,query}",
        title: "Available workflows",
        description: "The workflows that speak of all words of query, at most 200 at once, those that follow the one named after; \
                      _meta.next is the address of the next page",
        media_type: Some(JSON),
        priority: USEFUL,
    },
    Spec {
        name: "workflow_details",
        path: "workflow_details/{workflow_name}",
        title: "Workflow details",
        description: "One workflow: its text, its phases and who acts in them",
        media_type: Some(JSON),
        priority: USEFUL,
    },
    Spec {
        name: "agent",
        path: "agent/{name}",
        title: "Agent",
        description: "One agent: its persona as the files have it now",
        media_type: Some(JSON),
        priority: BESIDE,
    },
    Spec {
        name: "agent",
        path: "agent/{name}{?execution_id}",
        title: "Agent of an execution",
        description: "One agent: its persona as an execution keeps it",
        media_type: Some(JSON),
        priority: BESIDE,
    },
    Spec {
        name: "current_step",
        path: "current_step/{execution_id}",
        title: "Current step",
        description: "What to do now in an execution, as whom, what was decided before, and the token to come \
                      back with. Read this to go on after a restart or a lost context; an expired token is renewed by reading it",
        media_type: Some(JSON),
        priority: NEEDED,
    },
    Spec {
        name: "workflow_status",
        path: "workflow_status/{execution_id}",
        title: "Workflow status",
        description: "Where an execution stands: its state, times, step counts, and what it came to",
        media_type: Some(JSON),
        priority: USEFUL,
    },
    Spec {
        name: "step_history",
        path: "step_history/{execution_id}",
        title: "Step history",
        description: "Every visit of every step of an execution, with its output",
        media_type: Some(JSON),
        priority: USEFUL,
    },
    Spec {
        name: "step_history",
        path: "step_history/{execution_id}/{step_name}",
        title: "History of a step",
        description: "Every visit of one step of an execution, with its output",
        media_type: Some(JSON),
        priority: BESIDE,
    },
    Spec {
        name: "workflow_artifacts",
        path: "workflow_artifacts/{execution_id}",
        title: "Artifacts",
        description: "The artifacts of an execution, without their content",
        media_type: Some(JSON),
        priority: USEFUL,
    },
    Spec {
        name: "step_artifacts",
        path: "workflow_artifacts/{execution_id}/{step_name}",
        title: "Artifacts of a step",
        description: "The artifacts that one step handed over, without their content",
        media_type: Some(JSON),
        priority: BESIDE,
    },
    Spec {
        name: "artifact",
        path: "artifact/{execution_id}/{artifact}{?offset,limit}",
        title: "Artifact",
        description: "The content of an artifact, named by its id or its name; offset and limit are bytes, \
                      next_offset says where to read on; what is no text comes as base64",
        media_type: Some(JSON),
        priority: USEFUL,
    },
    Spec {
        name: "executions",
        path: "executions{?state,workflow,limit,cursor,project}",
        title: "Executions",
        description: "The executions of this project (project=* for all), the one that moved last first; \
                      state=open for those that have not ended",
        media_type: Some(JSON),
        priority: USEFUL,
    },
    Spec {
        name: "telemetry",
        path: "telemetry{?event_type,limit}",
        title: "Telemetry",
        description: "What happened lately, over all executions, oldest first",
        media_type: Some(JSON),
        priority: BESIDE,
    },
    Spec {
        name: "execution_telemetry",
        path: "telemetry/{execution_id}{?event_type,limit}",
        title: "Telemetry of an execution",
        description: "What happened in an execution, oldest first",
        media_type: Some(JSON),
        priority: BESIDE,
    },
];

/// The resources for authors.
const AUTHORS: &[Spec] = &[
    Spec {
        name: "workflow.spec",
        path: "spec",
        title: "How to write a manifest",
        description: "The manual: every kind of step and every key, each with an example that runs",
        media_type: Some(MARKDOWN),
        priority: USEFUL,
    },
    Spec {
        name: "workflow.schema",
        path: "schema",
        title: "Schema of manifests",
        description: "The JSON Schema of a manifest in YAML or JSON",
        media_type: Some(SCHEMA),
        priority: USEFUL,
    },
    Spec {
        name: "workflow.manifests",
        path: "manifests",
        title: "Manifests",
        description: "Every workflow's file: id, title, description, path, format and version",
        media_type: Some(JSON),
        priority: USEFUL,
    },
    Spec {
        name: "command.catalog",
        path: "command-catalog",
        title: "Commands",
        description: "What can be called as a command, with its arguments: the operations of catalogs, and each workflow",
        media_type: Some(JSON),
        priority: BESIDE,
    },
    Spec {
        name: "provider.catalog",
        path: "provider-catalog",
        title: "Providers",
        description: "What can provide the values of inputs: the operations of catalogs whose answers are choices",
        media_type: Some(JSON),
        priority: BESIDE,
    },
    Spec {
        name: "workflow.errors",
        path: "errors",
        title: "Errors",
        description: "Every error code with its category, whether it is retryable, and the next call",
        media_type: Some(MARKDOWN),
        priority: BESIDE,
    },
];

const AUTHORS_TEMPLATES: &[Spec] = &[
    Spec {
        name: "workflow.manifest",
        path: "manifest/{workflow_id}",
        title: "Manifest",
        description: "The text of a workflow's file as it lies there: YAML, JSON or Markdown",
        media_type: None,
        priority: USEFUL,
    },
    Spec {
        name: "workflow.manifests",
        path: "manifests{?limit,after,query}",
        title: "Manifests",
        description: "The files of the workflows that speak of all words of query, in pages as available_workflows has them",
        media_type: Some(JSON),
        priority: BESIDE,
    },
    Spec {
        name: "command.catalog",
        path: "command-catalog{?limit,after,query}",
        title: "Commands",
        description: "The commands that speak of all words of query, in pages as available_workflows has them",
        media_type: Some(JSON),
        priority: BESIDE,
    },
];

/// Workflows and agents as skills (SEP-2640). `skills/list` lists the existing ones.
const SKILLS: &[Spec] = &[
    Spec {
        name: "workflow_skill",
        path: "workflow/{workflow_name}/SKILL.md",
        title: "Workflow as a skill",
        description: "What a workflow is for, its inputs and how to start it",
        media_type: Some(MARKDOWN),
        priority: BESIDE,
    },
    Spec {
        name: "agent_skill",
        path: "agent/{name}/SKILL.md",
        title: "Agent as a skill",
        description: "An agent: its persona",
        media_type: Some(MARKDOWN),
        priority: BESIDE,
    },
];
