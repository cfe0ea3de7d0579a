//! The graph of a workflow.

use std::collections::BTreeMap;

use super::{EdgeKind, GraphBeside, GraphEdge, GraphNode, GraphView};
use crate::{
    body::BodyKind,
    definition::{
        BranchArm, JoinRule, JumpTarget, LoserPolicy, OnError, RunWhen, Step, StepKind, Workflow,
    },
    grammar,
    id::StepId,
};

impl GraphView {
    /// The graph of a workflow.
    pub fn of(workflow: &Workflow) -> Self {
        Self {
            name: workflow.name.as_str().to_owned(),
            nodes: workflow.steps.iter().map(node).collect(),
            edges: edges(&workflow.steps),
            hooks: beside(&workflow.bodies, false).collect(),
        }
    }
}

pub(super) fn node(step: &Step) -> GraphNode {
    let of_step = beside(&step.bodies, false);
    let each = step.foreach_body().into_iter();
    let of_each = each.flat_map(|each| beside(&each.bodies, true));
    GraphNode {
        id: step.id.as_str().to_owned(),
        agent: step.agent_name().map(|agent| agent.as_str().to_owned()),
        description: step.description.clone(),
        kind: step.kind.as_str().to_owned(),
        standing: None,
        workflow: match &step.acting().kind {
            StepKind::Workflow { name } => Some(name.clone()),
            _ => None,
        },
        join: join(step),
        condition: step.condition.clone(),
        run_when: match step.run_when {
            RunWhen::Finished => Some("finished".to_owned()),
            RunWhen::Failed => Some("failed".to_owned()),
            RunWhen::Succeeded | RunWhen::Failing => None,
        },
        until: step.repeat.as_ref().map(|repeat| repeat.until.clone()),
        optional: step.optional || step.on_error == OnError::Continue,
        beside: of_step.chain(of_each).collect(),
        on_failure: is_failing(step),
    }
}

/// The number of awaited predecessors as text; `None` if all are awaited.
fn join(step: &Step) -> Option<String> {
    let JoinRule::Quorum(wanted) = step.join else {
        return None;
    };
    let wanted = match wanted {
        1 => "any".to_owned(),
        wanted => wanted.to_string(),
    };
    let others = match step.losers {
        LoserPolicy::Finish => "",
        LoserPolicy::Cancel => ", the others are cancelled",
    };
    Some(format!("{wanted} of {}{others}", step.depends_on.len()))
}

fn beside(bodies: &BTreeMap<BodyKind, Step>, each: bool) -> impl Iterator<Item = GraphBeside> {
    bodies.iter().map(move |(body, step)| GraphBeside {
        body: body.as_str().to_owned(),
        does: does(&step.kind),
        required: step.required,
        each,
    })
}

/// The kind of a hook or compensation, with the name of what it calls.
fn does(kind: &StepKind) -> String {
    let word = kind.as_str();
    match kind {
        StepKind::Run { catalog, operation, .. } => format!("{word} {catalog} {operation}"),
        StepKind::Activity { name, .. } | StepKind::Workflow { name } => format!("{word} {name}"),
        _ => word.to_owned(),
    }
}

pub(super) fn edges(steps: &[Step]) -> Vec<GraphEdge> {
    let mut edges = Vec::new();
    for step in steps {
        // An `on_failure` step follows the failure, wherever that was, and not the regular steps whose outputs it
        // reads.
        let crosses = |before: &Step| before.run_when != step.run_when && is_failing(step);
        let leads = |before: &Step| leads(before) || crosses(before);
        let before = |id: &&StepId| steps.iter().all(|step| step.id != **id || !leads(step));
        let waits = step.depends_on.iter().filter(before);
        // A predecessor with a condition that otherwise jumps is awaited only if it is skipped: the edge is labelled
        // `else`.
        let leads_on = |id: &StepId| steps.iter().any(|step| step.id == *id && leads_always(step));
        edges.extend(waits.map(|before| GraphEdge {
            from: before.as_str().to_owned(),
            to: step.id.as_str().to_owned(),
            kind: EdgeKind::DependsOn,
            label: leads_on(before).then(|| "else".to_owned()),
        }));
        edges.extend(jumps(step));
    }
    edges
}

/// Whether it is a step of `on_failure`.
fn is_failing(step: &Step) -> bool {
    step.run_when == RunWhen::Failing
}

/// Whether the step always jumps instead of releasing its dependents.
fn leads(step: &Step) -> bool {
    leads_always(step) && step.condition.is_none()
}

/// Whether the step always jumps if it runs, that is, if its condition holds.
fn leads_always(step: &Step) -> bool {
    match &step.kind {
        StepKind::Branch { arms } => arms.iter().any(|arm| arm.condition.is_none()),
        StepKind::Fail { .. } => true,
        _ => step.next.is_some(),
    }
}

fn jumps(step: &Step) -> Vec<GraphEdge> {
    let edge = |next: &JumpTarget, kind, label: Option<&str>| GraphEdge {
        from: step.id.as_str().to_owned(),
        to: match next {
            JumpTarget::Step(id) => id.as_str().to_owned(),
            JumpTarget::End => grammar::END_TARGET.to_owned(),
        },
        kind,
        label: label.map(str::to_owned),
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
