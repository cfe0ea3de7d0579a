//! The definition that an execution follows: a workflow with the personas of its agents. Definitions are valid by
//! construction: only [`super::check`] makes one from a file, and the store returns definitions that were checked
//! before.

mod compiled;
mod expose;
mod graph;
mod pattern;
mod policy;
mod requirement;
mod step;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use self::compiled::{
    ALL_VALUES_KEY, CompiledOutput, CompiledStep, CompiledWorkflow, collect_expression_texts,
};
pub(super) use self::expose::list_tool_names;
pub(super) use self::graph::reachable_from;
pub use self::{
    expose::{ExposedAction, ExposedTools, Orchestrator, UtilityTools},
    graph::StepGraph,
    pattern::OutputPattern,
    policy::{InterruptPolicy, RepeatPolicy, RetryPolicy, parse_share},
    requirement::CatalogRequirement,
    step::{
        ANY_WORKFLOW, BranchArm, BranchOffer, InputChannel, JoinRule, JumpTarget, LoserPolicy,
        OnError, PaginateOptions, RunWhen, Step, StepKind, WaitTrigger,
    },
};
use super::{
    body::BodyKind,
    complexity::Complexity,
    document::Digest,
    id::{AgentName, StepId, WorkflowName},
    input::Inputs,
    label::Labels,
    schema::{Schema, ValueSize},
    span::HumanDuration,
    state::State,
};
use crate::{
    error::{Error, Result},
    limits,
};

/// A workflow: its steps with their dependencies, inputs, limits and hooks.
///
/// Invariant: step ids are distinct, every dependency names a step, and dependencies form no cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workflow {
    /// The name under which the workflow is started.
    pub name: WorkflowName,
    /// A title for people, where the file gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The purpose of the workflow, in a sentence.
    pub description: String,
    /// The author's version, free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Words to find it by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The author's rating of its complexity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complexity: Option<Complexity>,
    /// Further metadata for people, such as the author. Scalars only; nothing evaluates them.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// The labels of its executions.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// The Markdown body, or the manifest's text.
    #[serde(default)]
    pub content: String,
    /// The declared inputs. `None` means that a start may pass any object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Inputs>,
    /// The steps, in authoring order.
    pub steps: Vec<Step>,
    /// The initial memory; may hold expressions over inputs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub memory: Map<String, Value>,
    /// The final output of a completed execution; may hold expressions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_output: Option<Value>,
    /// Time limit of an execution. Time spent in a pause does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<HumanDuration>,
    /// Default of [`Step::max_visits`] for steps that declare none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_visits: Option<u32>,
    /// The most visits of all steps together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// The catalogs that it requires.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<CatalogRequirement>,
    /// The tools for its sessions, if it exposes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exposed_tools: Option<ExposedTools>,
    /// Its orchestrator tool, if it exposes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orchestrator: Option<Orchestrator>,
    /// The hooks of the workflow, which run before an execution ends. Each is a step of a kind that the server does
    /// without a model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bodies: BTreeMap<BodyKind, Step>,
    /// The final states that trigger the compensation of completed steps.
    #[serde(
        default = "default_compensate_when",
        skip_serializing_if = "is_default_compensate_when"
    )]
    pub compensate_when: Vec<State>,
}

impl Workflow {
    /// Every step that may act: the steps (of a `foreach` its body), all hooks and all compensations.
    pub fn acting_steps(&self) -> impl Iterator<Item = &Step> {
        let steps = self.steps.iter().map(Step::acting_step);
        steps.chain(self.hook_and_compensation_steps())
    }

    /// All hooks and compensations: of the steps, of the bodies of `foreach` steps and of the workflow.
    pub fn hook_and_compensation_steps(&self) -> impl Iterator<Item = &Step> {
        let steps = self.steps.iter();
        let steps_and_bodies =
            steps.flat_map(|step| [Some(step), step.foreach_body()].into_iter().flatten());
        steps_and_bodies.flat_map(|step| step.bodies.values()).chain(self.bodies.values())
    }

    /// The steps that call an operation, each with the names of its catalog and operation.
    pub fn operation_calls(&self) -> impl Iterator<Item = (&Step, &str, &str)> {
        self.acting_steps().filter_map(|step| match &step.kind {
            StepKind::Run { catalog, operation, .. } => {
                Some((step, catalog.as_str(), operation.as_str()))
            }
            _ => None,
        })
    }
}

/// The default of [`Workflow::compensate_when`]: compensation runs only after a failure.
pub(crate) fn default_compensate_when() -> Vec<State> {
    vec![State::Failed]
}

fn is_default_compensate_when(states: &[State]) -> bool {
    states == [State::Failed]
}

/// The text of a persona, which a model takes on for a step, with its metadata.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Persona {
    /// The agent name by which steps refer to the persona.
    pub name: AgentName,
    /// The purpose of the agent, in a sentence.
    #[serde(default)]
    pub description: String,
    /// Words to find it by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The author's version, free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The Markdown body, which is the persona itself.
    pub content: String,
    /// The path of the file, if the persona is written for a host (such as a subagent of Claude Code).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Keys that midex does not use, kept (as Claude subagents have them: `tools`, `model`…).
    #[serde(default)]
    pub extra: Map<String, Value>,
}

/// The workflow and the personas that an execution keeps from start to end, even if the files change meanwhile.
///
/// Invariant: it holds the persona of every agent that a step names.
#[derive(Debug, Serialize, Deserialize)]
pub struct Definition {
    /// The workflow.
    pub workflow: Workflow,
    /// The personas of its agents.
    pub personas: BTreeMap<AgentName, Persona>,
    /// Data derived from the two fields above, computed on first use.
    #[serde(skip)]
    compiled: OnceLock<CompiledParts>,
    /// The output schemas of the steps by position, compiled on first use.
    #[serde(skip)]
    schemas: OnceLock<Vec<Option<Schema>>>,
    /// Set if any part of the definition (the file, a persona or a base workflow) comes from a project. Not stored.
    #[serde(skip)]
    project_mark: OnceLock<()>,
}

#[derive(Debug)]
struct CompiledParts {
    digest: Digest,
    bytes: Arc<[u8]>,
    graph: StepGraph,
    steps: Vec<CompiledStep>,
    workflow: CompiledWorkflow,
    activities: BTreeSet<String>,
    /// The positions of its `branch` steps.
    branch_positions: Vec<usize>,
    has_children: bool,
    /// For each step the positions of the steps that may follow it directly, computed on first use.
    successors: OnceLock<Vec<Vec<usize>>>,
}

/// Compares the workflow and the personas. The derived data is a function of both and is not compared.
impl PartialEq for Definition {
    fn eq(&self, other: &Self) -> bool {
        self.workflow == other.workflow && self.personas == other.personas
    }
}

impl Definition {
    /// A definition from a checked workflow and its personas.
    pub fn new(workflow: Workflow, personas: BTreeMap<AgentName, Persona>) -> Self {
        Self {
            workflow,
            personas,
            compiled: OnceLock::new(),
            schemas: OnceLock::new(),
            project_mark: OnceLock::new(),
        }
    }

    /// Marks the definition as one that comes, at least in part, from a project: its file, a persona or a base
    /// workflow.
    pub fn mark_from_project(&self) {
        self.project_mark.get_or_init(|| ());
    }

    /// Whether any part of the definition comes from a project.
    pub fn is_from_project(&self) -> bool {
        self.project_mark.get().is_some()
    }

    fn compiled_parts(&self) -> &CompiledParts {
        self.compiled.get_or_init(|| {
            // Serialising plain structs with string keys into memory cannot fail.
            let bytes: Arc<[u8]> = serde_json::to_vec(self).unwrap_or_default().into();
            let steps = self.workflow.steps.iter();
            CompiledParts {
                digest: Digest::compute(&bytes),
                bytes,
                graph: StepGraph::from_steps(&self.workflow.steps),
                steps: steps.map(|step| CompiledStep::compile(step, &[])).collect(),
                workflow: CompiledWorkflow::compile(&self.workflow),
                activities: collect_activities(self),
                branch_positions: find_branch_positions(&self.workflow),
                has_children: self.workflow.acting_steps().any(starts_child_workflow),
                successors: OnceLock::new(),
            }
        })
    }

    /// The digest under which the definition is stored.
    pub fn digest(&self) -> Digest {
        self.compiled_parts().digest
    }

    /// The dependency graph of the steps.
    pub fn graph(&self) -> &StepGraph {
        &self.compiled_parts().graph
    }

    /// The schema that the output of the step at `position` must satisfy: the declared one, else the default.
    pub fn output_schema(&self, position: usize) -> &Schema {
        let schema = self.schemas().get(position).and_then(Option::as_ref);
        schema.unwrap_or_else(|| default_output_schema())
    }

    /// Whether a text is an output of the step, so that it is not read as JSON. False if there is no such step.
    pub fn accepts_text(&self, step: &StepId, text: &str) -> bool {
        let Some(position) = self.workflow.steps.iter().position(|known| known.id == *step) else {
            return false;
        };
        match &self.workflow.steps[position].acting_step().kind {
            // A plain string may be the user's own words.
            StepKind::Input { reextract, .. } => *reextract,
            StepKind::Extract { .. } => false,
            // The result of a utility tool is an object.
            StepKind::Tool { name } if self.workflow.find_exposed_action(name).is_some() => false,
            _ => self.output_schema(position).find_violations(&text.into()).is_empty(),
        }
    }

    fn schemas(&self) -> &[Option<Schema>] {
        let schema = |step: &Step| {
            let acting = step.acting_step();
            match (&acting.result, &acting.kind) {
                (Some(result), _) => Schema::compile(result).ok(),
                // The empty schema: the answer of a client's tool is accepted as it is.
                (None, StepKind::Tool { .. }) => Schema::compile(&json!({})).ok(),
                (None, _) => None,
            }
        };
        self.schemas.get_or_init(|| self.workflow.steps.iter().map(schema).collect())
    }

    /// Whether validating `value` against the schemas of the workflow may take long. The caller then validates outside
    /// of the async worker threads, so that other executions do not wait.
    pub fn is_slow_to_validate(&self, value: &Value) -> bool {
        let measure = ValueSize::from_value(value);
        let inputs = self.workflow.inputs.iter().flat_map(Inputs::all_compiled_constraints);
        let mut schemas = self.schemas().iter().chain(inputs).flatten();
        schemas.any(|schema| schema.is_slow_to_validate(measure))
            || default_output_schema().is_slow_to_validate(measure)
    }

    /// The compiled expressions of the step at `position`.
    ///
    /// # Panics
    /// If there is no step at `position`.
    pub fn compiled_step(&self, position: usize) -> &CompiledStep {
        &self.compiled_parts().steps[position]
    }

    /// A body of a step with its compiled expressions. `is_item` selects the bodies of a `foreach` item, and `step:
    /// None` the hooks of the workflow. `None` if the definition declares no such body.
    pub(crate) fn find_body(
        &self,
        step: Option<&StepId>,
        body: BodyKind,
        is_item: bool,
    ) -> Option<(&Step, &CompiledStep)> {
        let Some(id) = step else {
            let step = self.workflow.bodies.get(&body)?;
            return Some((step, self.compiled_workflow().bodies.get(&body)?));
        };
        let position = self.graph().step_position(id)?;
        let (mut step, mut compiled) =
            (&self.workflow.steps[position], self.compiled_step(position));
        if is_item {
            (step, compiled) = (step.acting_step(), compiled.body.as_deref()?);
        }
        if body == BodyKind::Work {
            return Some((step, compiled));
        }
        Some((step.bodies.get(&body)?, compiled.bodies.get(&body)?))
    }

    /// The positions of its `branch` steps, in authoring order.
    pub(crate) fn branch_positions(&self) -> &[usize] {
        &self.compiled_parts().branch_positions
    }

    /// Whether any step, hook or compensation starts a child execution.
    pub fn has_children(&self) -> bool {
        self.compiled_parts().has_children
    }

    /// Whether control can reach the step at `to` from the step at `from`, through dependencies, jumps or error
    /// handlers.
    pub(crate) fn is_reachable(&self, from: usize, to: usize) -> bool {
        let successors = self.compiled_parts().successors.get_or_init(|| direct_successors(self));
        reachable_from(successors, from).contains(&to)
    }

    /// The names of the activities that the definition uses.
    pub fn activities(&self) -> &BTreeSet<String> {
        &self.compiled_parts().activities
    }

    /// The names of the workflows that the definition starts as children.
    pub fn child_workflow_names(&self) -> BTreeSet<&str> {
        let names = self.workflow.acting_steps().flat_map(|step| match &step.kind {
            StepKind::Workflow { name, .. } => {
                step.kind.child_choices().unwrap_or(std::slice::from_ref(name))
            }
            _ => &[],
        });
        names.map(String::as_str).filter(|name| *name != ANY_WORKFLOW).collect()
    }

    /// The compiled expressions of the workflow itself.
    pub fn compiled_workflow(&self) -> &CompiledWorkflow {
        &self.compiled_parts().workflow
    }

    /// The stored form of the definition, whose digest is [`Definition::digest`].
    pub fn encode(&self) -> Arc<[u8]> {
        self.compiled_parts().bytes.clone()
    }

    /// Reads a definition from the bytes that [`Definition::encode`] returned.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes).map_err(|error| {
            Error::internal("a stored definition cannot be read").with_source(error)
        })
    }

    /// The step with this id.
    pub fn step(&self, id: &StepId) -> Option<&Step> {
        self.graph().step_position(id).map(|position| &self.workflow.steps[position])
    }

    /// The step and everything that follows it.
    pub fn steps_after(&self, id: &StepId) -> BTreeSet<StepId> {
        let position = self.graph().step_position(id);
        let after = position.map(|position| self.graph().descendants(position));
        after.into_iter().flatten().map(|at| self.workflow.steps[at].id.clone()).collect()
    }

    /// The persona text of the step's agent; empty if no agent acts.
    pub fn persona(&self, step: &Step) -> &str {
        step.agent_name()
            .and_then(|agent| self.personas.get(agent))
            .map_or("", |persona| &persona.content)
    }
}

/// For each step the positions of the steps that may follow it directly: its dependents, jump targets and error
/// handler.
fn direct_successors(definition: &Definition) -> Vec<Vec<usize>> {
    let graph = definition.graph();
    let steps = definition.workflow.steps.iter().enumerate();
    let next = |(at, step): (usize, &Step)| {
        let handler = match &step.on_error {
            OnError::Step(handler) => Some(handler),
            OnError::Fail | OnError::Continue => None,
        };
        let jumps = step.jump_targets().chain(handler);
        let jumps = jumps.filter_map(|id| graph.step_position(id));
        graph.dependents(at).iter().copied().chain(jumps).collect()
    };
    steps.map(next).collect()
}

fn starts_child_workflow(step: &Step) -> bool {
    matches!(step.kind, StepKind::Workflow { .. })
}

fn collect_activities(definition: &Definition) -> BTreeSet<String> {
    let names = definition.workflow.acting_steps().filter_map(|step| match &step.kind {
        StepKind::Activity { name, .. } => Some(name.clone()),
        _ => None,
    });
    names.collect()
}

fn find_branch_positions(workflow: &Workflow) -> Vec<usize> {
    let steps = workflow.steps.iter().enumerate();
    let branches = steps.filter(|(_, step)| matches!(step.kind, StepKind::Branch { .. }));
    branches.map(|(at, _)| at).collect()
}

/// The default output schema, for steps that declare none (`workflow.next_step`).
pub fn output_schema_json() -> Value {
    json!({
        "type": "object",
        "properties": {
            "summary": { "type": "string", "description": "What was accomplished, in brief" },
            "artifacts": {
                "type": "array", "items": super::artifact::build_artifact_schema(), "maxItems": limits::OUTPUT_ARTIFACTS_MAX,
                "description": "What was produced: ids or paths as texts, or objects with their content"
            },
            "findings": {
                "type": "array", "items": { "type": "string" },
                "description": "Ids or short texts of findings"
            },
            "next_step_recommendation": { "type": "string", "description": "A word to the next step" }
        },
        "required": ["summary"]
    })
}

fn default_output_schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        Schema::compile(&output_schema_json())
            .expect("the schema above is a valid one: a test compiles it")
    })
}
