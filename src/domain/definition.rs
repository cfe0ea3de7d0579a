//! What an execution follows: a workflow and the personas of its agents. Valid by construction: only
//! [`super::check`] makes one from a file, and the store gives back what was checked before.

mod compiled;
mod graph;
mod pattern;
mod requirement;
mod step;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use self::compiled::{CompiledStep, CompiledWorkflow, Parts, input_texts};
pub(super) use self::graph::reach;
pub use self::{
    graph::Graph,
    pattern::{Pattern, PatternFault},
    requirement::Requirement,
    step::{
        Arm, Branch, Join, Losers, Next, OnError, Paginate, Repeat, Retry, RunWhen, Step, StepKind,
        Via, Wait,
    },
};
use super::{
    body::Body,
    complexity::Complexity,
    document::Digest,
    id::{AgentName, StepId, WorkflowName},
    input::Inputs,
    schema::{Measure, Schema},
    span::Span,
    state::State,
};
use crate::{
    error::{Error, Result},
    limits,
};

/// A workflow: its steps and what their order is.
///
/// Invariant: step ids are distinct, every dependency names a step, and dependencies form no cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workflow {
    /// The name it is started by.
    pub name: WorkflowName,
    /// A title for people, where the file gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is for, in a sentence.
    pub description: String,
    /// The author's version, free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Words to find it by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// How much care it asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complexity: Option<Complexity>,
    /// What else people want to know of it, such as its author: scalars, on which nothing acts.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// The Markdown body, or the manifest's text.
    #[serde(default)]
    pub content: String,
    /// What it is to be told at its start; where it does not say, any object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Inputs>,
    /// The steps, in authoring order.
    pub steps: Vec<Step>,
    /// What memory holds at the start; may hold expressions over inputs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub memory: Map<String, Value>,
    /// What a completed execution comes to; may hold expressions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_output: Option<Value>,
    /// How long an execution may run, pauses not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// How often a step may be entered where it says nothing itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_visits: Option<u32>,
    /// How many visits all steps may have together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// The catalogs that it requires.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<Requirement>,
    /// Its hooks: steps of kinds that the server does itself, before the execution ends.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bodies: BTreeMap<Body, Step>,
    /// The ends at which the effects of steps are taken back.
    #[serde(
        default = "on_failure_alone",
        skip_serializing_if = "is_on_failure_alone"
    )]
    pub compensate_when: Vec<State>,
}

/// When effects are taken back where the workflow does not say.
pub(crate) fn on_failure_alone() -> Vec<State> {
    vec![State::Failed]
}

fn is_on_failure_alone(states: &[State]) -> bool {
    states == [State::Failed]
}

/// A persona: who the model is while it does a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Persona {
    /// Its name, as steps refer to it.
    pub name: AgentName,
    /// What it is for, in a sentence.
    #[serde(default)]
    pub description: String,
    /// Words to find it by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The author's version, free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The Markdown body: the persona itself.
    pub content: String,
    /// The file, where it is written for a host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Keys that midex does not use, kept (as Claude subagents have them: `tools`, `model`…).
    #[serde(default)]
    pub extra: Map<String, Value>,
}

/// What an execution keeps from its start to its end, whatever happens to the files.
///
/// Invariant: it holds the persona of every agent that a step names.
#[derive(Debug, Serialize, Deserialize)]
pub struct Definition {
    /// The workflow.
    pub workflow: Workflow,
    /// The personas of its agents.
    pub personas: BTreeMap<AgentName, Persona>,
    /// What follows from the above, worked out when first asked for.
    #[serde(skip)]
    compiled: OnceLock<Compiled>,
    /// What the outputs of its steps are held to, compiled when the first one comes.
    #[serde(skip)]
    schemas: OnceLock<Vec<Option<Schema>>>,
    /// Set where a project has a part in it. The store does not keep that.
    #[serde(skip)]
    of_project: OnceLock<()>,
}

#[derive(Debug)]
struct Compiled {
    digest: Digest,
    bytes: Arc<[u8]>,
    graph: Graph,
    steps: Vec<CompiledStep>,
    workflow: CompiledWorkflow,
    activities: BTreeSet<String>,
    /// The positions of its `branch` steps.
    branching: Vec<usize>,
    has_children: bool,
    /// Where control may come to from each step directly, worked out when first asked for.
    ways: OnceLock<Vec<Vec<usize>>>,
}

/// Equal are two that say the same; what follows from that is not worked out for it.
impl PartialEq for Definition {
    fn eq(&self, other: &Self) -> bool {
        self.workflow == other.workflow && self.personas == other.personas
    }
}

impl Definition {
    /// A definition of what was checked.
    pub fn new(workflow: Workflow, personas: BTreeMap<AgentName, Persona>) -> Self {
        Self {
            workflow,
            personas,
            compiled: OnceLock::new(),
            schemas: OnceLock::new(),
            of_project: OnceLock::new(),
        }
    }

    /// Notes that a project has a part in it: its file, a persona, or a workflow that it extends.
    pub fn mark_of_project(&self) {
        self.of_project.get_or_init(|| ());
    }

    /// Whether a project has a part in it.
    pub fn is_of_project(&self) -> bool {
        self.of_project.get().is_some()
    }

    fn compiled(&self) -> &Compiled {
        self.compiled.get_or_init(|| {
            // Serialising plain structs with string keys into memory has no way to fail.
            let bytes: Arc<[u8]> = serde_json::to_vec(self).unwrap_or_default().into();
            let steps = self.workflow.steps.iter();
            Compiled {
                digest: Digest::of(&bytes),
                bytes,
                graph: Graph::of(&self.workflow.steps),
                steps: steps.map(|step| CompiledStep::of(step, &[])).collect(),
                workflow: CompiledWorkflow::of(&self.workflow),
                activities: activities(self),
                branching: branching(&self.workflow),
                has_children: self.acting().any(is_child),
                ways: OnceLock::new(),
            }
        })
    }

    /// The digest it is stored under.
    pub fn digest(&self) -> Digest {
        self.compiled().digest
    }

    /// The order of its steps.
    pub fn graph(&self) -> &Graph {
        &self.compiled().graph
    }

    /// The schema that the output of the step at `position` must satisfy: its own, else the default.
    pub fn output_schema(&self, position: usize) -> &Schema {
        let own = self.schemas().get(position).and_then(Option::as_ref);
        own.unwrap_or_else(|| output_schema_default())
    }

    fn schemas(&self) -> &[Option<Schema>] {
        let schema = |step: &Step| {
            let acting = step.acting();
            match (&acting.result, &acting.kind) {
                (Some(result), _) => Schema::compile(result).ok(),
                // What a tool of the client's answers is what it is.
                (None, StepKind::Tool { .. }) => Schema::compile(&json!({})).ok(),
                (None, _) => None,
            }
        };
        self.schemas
            .get_or_init(|| self.workflow.steps.iter().map(schema).collect())
    }

    /// Whether it may take long to hold this value to what the workflow asks for: others should not have to wait for it.
    pub fn is_long(&self, value: &Value) -> bool {
        let measure = Measure::of(value);
        let inputs = self.workflow.inputs.iter().flat_map(Inputs::all_compiled);
        let mut all = self.schemas().iter().chain(inputs).flatten();
        all.any(|schema| schema.is_long(measure)) || output_schema_default().is_long(measure)
    }

    /// What the step at `position` evaluates.
    ///
    /// # Panics
    /// Where there is no such step.
    pub fn compiled_step(&self, position: usize) -> &CompiledStep {
        &self.compiled().steps[position]
    }

    /// A body of a step, or of what it does with an item, and what that evaluates; without a step that of the workflow.
    /// `None` where the definition has no such thing.
    pub(crate) fn body(
        &self,
        step: Option<&StepId>,
        body: Body,
        is_item: bool,
    ) -> Option<(&Step, &CompiledStep)> {
        let Some(id) = step else {
            let step = self.workflow.bodies.get(&body)?;
            return Some((step, self.compiled_workflow().bodies.get(&body)?));
        };
        let position = self.graph().position(id)?;
        let (mut step, mut compiled) =
            (&self.workflow.steps[position], self.compiled_step(position));
        if is_item {
            (step, compiled) = (step.acting(), compiled.body.as_deref()?);
        }
        if body == Body::Work {
            return Some((step, compiled));
        }
        Some((step.bodies.get(&body)?, compiled.bodies.get(&body)?))
    }

    /// What may be done: its steps, of a `foreach` what it does with an item, and their hooks and compensations.
    pub fn acting(&self) -> impl Iterator<Item = &Step> {
        let steps = self.workflow.steps.iter().map(Step::acting);
        steps.chain(self.beside())
    }

    /// The hooks of its steps and its own, and what takes back effects.
    pub fn beside(&self) -> impl Iterator<Item = &Step> {
        let steps = self.workflow.steps.iter();
        let own = steps.flat_map(|step| [Some(step), step.each()].into_iter().flatten());
        own.flat_map(|step| step.bodies.values())
            .chain(self.workflow.bodies.values())
    }

    /// The positions of its `branch` steps, in authoring order.
    pub(crate) fn branching(&self) -> &[usize] {
        &self.compiled().branching
    }

    /// Whether any of its steps begins a child.
    pub fn has_children(&self) -> bool {
        self.compiled().has_children
    }

    /// Whether control may come from the step at `from` to the one at `to`, in order, by a jump or through a handler.
    pub(crate) fn leads_to(&self, from: usize, to: usize) -> bool {
        let ways = self.compiled().ways.get_or_init(|| ways(self));
        reach(ways, from).contains(&to)
    }

    /// The activities that its steps name.
    pub fn activities(&self) -> &BTreeSet<String> {
        &self.compiled().activities
    }

    /// The workflows that its steps name.
    pub fn children(&self) -> BTreeSet<&str> {
        let names = self.acting().filter_map(|step| match &step.kind {
            StepKind::Workflow { name } => Some(name.as_str()),
            _ => None,
        });
        names.collect()
    }

    /// The steps that call operations, each with the names of its catalog and its operation.
    pub fn calls(&self) -> impl Iterator<Item = (&Step, &str, &str)> {
        self.acting().filter_map(|step| match &step.kind {
            StepKind::Run {
                catalog, operation, ..
            } => Some((step, catalog.as_str(), operation.as_str())),
            _ => None,
        })
    }

    /// What the workflow evaluates as a whole.
    pub fn compiled_workflow(&self) -> &CompiledWorkflow {
        &self.compiled().workflow
    }

    /// The bytes it is stored as, once, under [`Definition::digest`].
    pub fn encode(&self) -> Arc<[u8]> {
        self.compiled().bytes.clone()
    }

    /// The definition that [`Definition::encode`] stored.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes)
            .map_err(|error| Error::internal("a stored definition cannot be read").because(error))
    }

    /// The step with this id.
    pub fn step(&self, id: &StepId) -> Option<&Step> {
        self.workflow.steps.iter().find(|step| step.id == *id)
    }

    /// The persona's text for a step; empty where no agent acts.
    pub fn persona(&self, step: &Step) -> &str {
        step.agent()
            .and_then(|agent| self.personas.get(agent))
            .map_or("", |persona| &persona.content)
    }
}

/// The positions of the steps that may follow each step directly.
fn ways(definition: &Definition) -> Vec<Vec<usize>> {
    let graph = definition.graph();
    let steps = definition.workflow.steps.iter().enumerate();
    let next = |(at, step): (usize, &Step)| {
        let handler = match &step.on_error {
            OnError::Step(handler) => Some(handler),
            OnError::Fail | OnError::Continue => None,
        };
        let jumps = step.jumps().chain(handler);
        let jumps = jumps.filter_map(|id| graph.position(id));
        graph.dependents(at).iter().copied().chain(jumps).collect()
    };
    steps.map(next).collect()
}

fn is_child(step: &Step) -> bool {
    matches!(step.kind, StepKind::Workflow { .. })
}

fn activities(definition: &Definition) -> BTreeSet<String> {
    let names = definition.acting().filter_map(|step| match &step.kind {
        StepKind::Activity { name, .. } => Some(name.clone()),
        _ => None,
    });
    names.collect()
}

fn branching(workflow: &Workflow) -> Vec<usize> {
    let steps = workflow.steps.iter().enumerate();
    let branches = steps.filter(|(_, step)| matches!(step.kind, StepKind::Branch { .. }));
    branches.map(|(at, _)| at).collect()
}

/// The schema of an output where the step declares none (`workflow.next_step`).
pub fn output_schema_json() -> Value {
    json!({
        "type": "object",
        "properties": {
            "summary": { "type": "string", "description": "What was accomplished, in brief" },
            "artifacts": {
                "type": "array", "items": super::artifact::schema_json(), "maxItems": limits::OUTPUT_ARTIFACTS_MAX,
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

fn output_schema_default() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        Schema::compile(&output_schema_json())
            .expect("the schema above is a valid one: a test compiles it")
    })
}
