//! The graph of a workflow.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{EdgeKind, GraphBody, GraphEdge, GraphNode, GraphView};
use crate::{
    body::BodyKind,
    definition::{
        BranchArm, JoinRule, JumpTarget, LoserPolicy, OnError, RunWhen, Step, StepKind, Workflow,
    },
    document::to_plain_text,
    grammar,
    id::StepId,
};

impl GraphView {
    /// The graph of a workflow.
    pub fn from_workflow(workflow: &Workflow) -> Self {
        Self {
            name: workflow.name.as_str().to_owned(),
            nodes: workflow.steps.iter().map(build_node).collect(),
            edges: build_edges(&workflow.steps),
            hooks: build_bodies(&workflow.bodies, false).collect(),
        }
    }
}

pub(super) fn build_node(step: &Step) -> GraphNode {
    let step_bodies = build_bodies(&step.bodies, false);
    let each = step.foreach_body().into_iter();
    let item_bodies = each.flat_map(|each| build_bodies(&each.bodies, true));
    GraphNode {
        id: step.id.as_str().to_owned(),
        agent: step.agent_name().map(|agent| agent.as_str().to_owned()),
        description: step.description.clone(),
        kind: step.kind.as_str().to_owned(),
        standing: None,
        workflow: match &step.acting_step().kind {
            StepKind::Workflow { name, .. } => Some(name.clone()),
            _ => None,
        },
        join: describe_join(step),
        thresholds: describe_thresholds(step),
        cancels: step.cancel.iter().map(ToString::to_string).collect(),
        condition: step.condition.clone(),
        run_when: match step.run_when {
            RunWhen::Finished => Some("finished".to_owned()),
            RunWhen::Failed => Some("failed".to_owned()),
            RunWhen::Succeeded | RunWhen::Failing => None,
        },
        until: step.repeat.as_ref().map(|repeat| repeat.until.clone()),
        optional: step.optional || step.on_error == OnError::Continue,
        beside: step_bodies.chain(item_bodies).collect(),
        on_failure: is_failing(step),
    }
}

/// `enough` and `tolerate` of a `foreach` as text.
fn describe_thresholds(step: &Step) -> Option<String> {
    let thresholds = step.declared_thresholds()?;
    let text = |(key, value): (&String, &Value)| format!("{key} {}", to_plain_text(value));
    let texts: Vec<_> = thresholds.as_object()?.iter().map(text).collect();
    Some(texts.join(", "))
}

/// The number of awaited predecessors as text; `None` if all are awaited.
fn describe_join(step: &Step) -> Option<String> {
    let quorum_text = match &step.join {
        JoinRule::All => return None,
        JoinRule::Quorum(1) => "any".to_owned(),
        JoinRule::Quorum(wanted) => wanted.to_string(),
        JoinRule::QuorumOf(wanted) => wanted.trim_matches(['$', '{', '}', ' ']).to_owned(),
    };
    let losers_text = match step.losers {
        LoserPolicy::Finish => "",
        LoserPolicy::Cancel => ", the others are cancelled",
    };
    Some(format!("{quorum_text} of {}{losers_text}", step.depends_on.len()))
}

fn build_bodies(bodies: &BTreeMap<BodyKind, Step>, each: bool) -> impl Iterator<Item = GraphBody> {
    bodies.iter().map(move |(body, step)| GraphBody {
        body: body.as_str().to_owned(),
        does: describe_action(&step.kind),
        required: step.required,
        each,
    })
}

/// The kind of a hook or compensation, with the name of what it calls.
fn describe_action(kind: &StepKind) -> String {
    let kind_name = kind.as_str();
    match kind {
        StepKind::Run { catalog, operation, .. } => format!("{kind_name} {catalog} {operation}"),
        StepKind::Activity { name, .. } | StepKind::Workflow { name, .. } => {
            format!("{kind_name} {name}")
        }
        _ => kind_name.to_owned(),
    }
}

pub(super) fn build_edges(steps: &[Step]) -> Vec<GraphEdge> {
    let mut edges = Vec::new();
    for step in steps {
        // An `on_failure` step follows the failure, wherever that was, and not the regular steps whose outputs it
        // reads.
        let enters_failure_steps =
            |predecessor: &Step| predecessor.run_when != step.run_when && is_failing(step);
        let is_not_awaited =
            |predecessor: &Step| always_jumps(predecessor) || enters_failure_steps(predecessor);
        let is_awaited =
            |id: &&StepId| steps.iter().all(|step| step.id != **id || !is_not_awaited(step));
        let awaited = step.depends_on.iter().filter(is_awaited);
        // A predecessor with a condition that otherwise jumps is awaited only if it is skipped: the edge is labelled
        // `else`.
        let needs_else_label =
            |id: &StepId| steps.iter().any(|step| step.id == *id && always_jumps_when_run(step));
        edges.extend(awaited.map(|predecessor| GraphEdge {
            from: predecessor.as_str().to_owned(),
            to: step.id.as_str().to_owned(),
            kind: EdgeKind::DependsOn,
            label: needs_else_label(predecessor).then(|| "else".to_owned()),
        }));
        edges.extend(build_jump_edges(step));
    }
    edges
}

/// Whether it is a step of `on_failure`.
fn is_failing(step: &Step) -> bool {
    step.run_when == RunWhen::Failing
}

/// Whether the step always jumps instead of releasing its dependents.
fn always_jumps(step: &Step) -> bool {
    always_jumps_when_run(step) && step.condition.is_none()
}

/// Whether the step always jumps if it runs, that is, if its condition holds.
fn always_jumps_when_run(step: &Step) -> bool {
    match &step.kind {
        StepKind::Branch { arms } => arms.iter().any(|arm| arm.condition.is_none()),
        StepKind::Fail { .. } => true,
        _ => step.next.is_some(),
    }
}

fn build_jump_edges(step: &Step) -> Vec<GraphEdge> {
    let edge = |next: &JumpTarget, kind, label: Option<&str>| GraphEdge {
        from: step.id.as_str().to_owned(),
        to: match next {
            JumpTarget::Step(id) => id.as_str().to_owned(),
            JumpTarget::End | JumpTarget::Stop => grammar::END_TARGET.to_owned(),
        },
        kind,
        label: match (label, next) {
            (Some(label), JumpTarget::Stop) => Some(format!("{label} (stops all)")),
            (None, JumpTarget::Stop) => Some("stops all".to_owned()),
            (label, _) => label.map(str::to_owned),
        },
    };
    let mut edges: Vec<_> = step.next.iter().map(|next| edge(next, EdgeKind::Next, None)).collect();
    if let StepKind::Branch { arms } = &step.kind {
        let arm = |arm: &BranchArm| {
            edge(&arm.next, EdgeKind::Branch, Some(arm.condition.as_deref().unwrap_or("else")))
        };
        edges.extend(arms.iter().map(arm));
    }
    if let OnError::Step(id) = &step.on_error {
        edges.push(edge(&JumpTarget::Step(id.clone()), EdgeKind::OnError, Some("on error")));
    }
    edges
}
