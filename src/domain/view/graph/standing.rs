//! The state of each step in an execution, for its graph.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GraphView;
use crate::{
    execution::{StepState, Visit},
    view::{Subject, listing::is_zero},
};

/// Where a step stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Standing {
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

impl Standing {
    /// A symbol for the state, which is readable without color.
    pub fn sign(&self) -> &'static str {
        match self.status.as_str() {
            "completed" => "✓",
            "failed" => "✗",
            "running" => "●",
            "skipped" => "–",
            _ => "○",
        }
    }
}

impl GraphView {
    /// The graph of an execution's definition, with the state of each step.
    pub fn of_execution(subject: &Subject<'_>) -> Self {
        let mut graph = Self::of(&subject.definition.workflow);
        for (node, step) in graph.nodes.iter_mut().zip(subject.execution.steps()) {
            node.standing = Some(standing(step));
        }
        graph
    }
}

fn standing(step: &StepState) -> Standing {
    let opened = step.items.len();
    let total = step.visits.last().and_then(|visit| visit.items_total());
    let items = total.or(Some(opened).filter(|opened| *opened > 0));
    Standing {
        status: step.status.as_str().to_owned(),
        visits: step.visits.len(),
        items_done: items.map(|_| opened - step.items.open_count()),
        items_failed: step.items.iter().filter(|item| has_failed(item)).count(),
        items,
    }
}

fn has_failed(item: &Visit) -> bool {
    let closed = item.closed.as_ref();
    closed.is_some_and(|closed| closed.failure.is_some())
}
