//! The graph of a workflow: its steps and dependencies as data. The crate `midex-picture` draws it.

mod build;
mod progress;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::progress::{NodeProgress, status_symbol};

/// The steps of a workflow and the order between them.
///
/// Invariant: node ids are distinct, and every edge joins two of them, or one with the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphView {
    /// The workflow's name.
    pub name: String,
    /// The steps, in authoring order.
    pub nodes: Vec<GraphNode>,
    /// The dependencies, and where control goes besides, in the order of the steps that say so. One may lead to
    /// [`END`](crate::grammar::END_TARGET), which is no step.
    pub edges: Vec<GraphEdge>,
    /// The hooks of the workflow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<GraphBody>,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphNode {
    /// Its id.
    pub id: String,
    /// Who acts; null where no agent does.
    pub agent: Option<String>,
    /// What it does; empty where the file does not say.
    pub description: String,
    /// Its kind: `agent`, `gate`, `wait`, `branch`, `foreach`…
    #[serde(default)]
    pub kind: String,
    /// Where it stands in an execution, where the graph is that of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<NodeProgress>,
    /// The workflow that it runs as a child, where it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// How many of the steps before it are waited for, where not all are: `any of 3`, `2 of 3`; and `the others are
    /// cancelled` where they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join: Option<String>,
    /// How many items of a `foreach` must succeed and may fail, where it says so: `enough 2, tolerate 20%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thresholds: Option<String>,
    /// The steps that it cancels when it completes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cancels: Vec<String>,
    /// What must hold for it to run; it is skipped where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Which ends of the steps before it let it run, where it is not that they succeeded: `finished` (whichever) or `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_when: Option<String>,
    /// What must hold for it not to be done again, where it repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Whether its failure is recorded and passed over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// Its hooks, and what takes its effect back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<GraphBody>,
    /// Whether it runs once the execution is failing: a step of `on_failure`. No edge leads to it from the others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_failure: bool,
}

/// A hook, or what takes an effect back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphBody {
    /// The key that declares it: `on_success`, `on_failure`, `on_complete` or `compensate`.
    pub body: String,
    /// Its kind, and what of: `set`, `activity NAME`, `run CATALOG OPERATION`, `workflow NAME`.
    pub does: String,
    /// Whether its failure is that of what it belongs to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// Whether it is for each item of a `foreach`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub each: bool,
}

/// A way from one step to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphEdge {
    /// The step that is done first.
    pub from: String,
    /// The step that comes after it, or `$end`.
    pub to: String,
    /// Why it does.
    pub kind: EdgeKind,
    /// When it does, where that depends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// Why one step comes after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EdgeKind {
    /// It waits for it.
    DependsOn,
    /// It is what the other says comes next.
    Next,
    /// It is an arm of a branch.
    Branch,
    /// The other's failure leads to it.
    OnError,
}

/// The title of the part of a picture that has the steps of `on_failure`.
pub const ON_FAILURE_TITLE: &str = "✗ on_failure: once the execution is failing";

impl GraphView {
    /// The wave of each step: one more than the highest wave of its dependencies and of the earlier steps that jump to
    /// it. Jumps back are ignored.
    pub fn waves(&self) -> Vec<usize> {
        let position = |id: &str| self.nodes.iter().position(|node| node.id == id);
        let edges: Vec<_> = self
            .edges
            .iter()
            .filter_map(|edge| Some((position(&edge.from)?, position(&edge.to)?, edge.kind)))
            .filter(|(from, to, kind)| from < to || *kind == EdgeKind::DependsOn)
            .collect();
        let mut waves = vec![0; self.nodes.len()];
        // As many passes as there are steps suffice for the longest path.
        for _ in 0..self.nodes.len() {
            let mut has_changed = false;
            for (from, to, _) in &edges {
                let min_wave = (waves[*from] + 1).min(self.nodes.len());
                if waves[*to] < min_wave {
                    waves[*to] = min_wave;
                    has_changed = true;
                }
            }
            if !has_changed {
                break;
            }
        }
        waves
    }
}
