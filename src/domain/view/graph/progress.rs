//! The state of each step in an execution, for its graph.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GraphView;
use crate::{
    execution::{StepState, Visit},
    view::{ViewContext, listing::is_zero},
};

/// Where a step stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeProgress {
    /// `pending`, `running`, `completed`, `failed` or `skipped`.
    pub status: String,
    /// How often it was entered.
    pub visits: usize,
    /// How many items of its latest visit are done, where it is a fan-out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items_done: Option<usize>,
    /// How many of these failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub items_failed: usize,
    /// How many there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<usize>,
}

impl NodeProgress {
    /// A symbol for the state, which is readable without color.
    pub fn status_symbol(&self) -> &'static str {
        status_symbol(&self.status)
    }
}

/// A symbol for the status of a step or of a visit, which is readable without color.
pub fn status_symbol(status: &str) -> &'static str {
    match status {
        "completed" => "✓",
        "failed" => "✗",
        "running" => "●",
        "skipped" => "–",
        _ => "○",
    }
}

impl GraphView {
    /// The graph of an execution's definition, with the state of each step.
    pub fn from_execution(context: &ViewContext<'_>) -> Self {
        let mut graph = Self::from_workflow(&context.definition.workflow);
        for (node, step) in graph.nodes.iter_mut().zip(context.execution.steps()) {
            node.standing = Some(build_standing(step));
        }
        graph
    }
}

fn build_standing(step: &StepState) -> NodeProgress {
    let opened_count = step.items.len();
    let total = step.visits.last().and_then(|visit| visit.items_total());
    let items = total.or(Some(opened_count).filter(|opened| *opened > 0));
    NodeProgress {
        status: step.status.as_str().to_owned(),
        visits: step.visits.len(),
        items_done: items.map(|_| opened_count - step.items.open_count()),
        items_failed: step.items.iter().filter(|item| has_failed(item)).count(),
        items,
    }
}

fn has_failed(item: &Visit) -> bool {
    let closed = item.closed.as_ref();
    closed.is_some_and(|closed| closed.failure.is_some())
}
