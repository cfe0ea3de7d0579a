//! Tests of the graph of a workflow.

use serde_json::Map;

use super::*;
use crate::{
    definition::{BranchArm, JumpTarget, OnError, Step, StepKind},
    id::StepId,
};

fn id(id: &str) -> StepId {
    StepId::parse(id).unwrap()
}

fn set(name: &str) -> Step {
    let entries = Map::default();
    Step::new(id(name), StepKind::Set { entries })
}

#[test]
fn jumps_are_edges_besides_the_dependencies() {
    let arm =
        |condition: Option<&str>, next| BranchArm { condition: condition.map(str::to_owned), next };
    let arms =
        vec![arm(Some("a == \"x\""), JumpTarget::Step(id("work"))), arm(None, JumpTarget::End)];
    let steps = vec![
        Step { on_error: OnError::Step(id("help")), ..set("work") },
        Step { depends_on: vec![id("work")], ..Step::new(id("route"), StepKind::Branch { arms }) },
        Step {
            depends_on: vec![id("route")],
            next: Some(JumpTarget::Step(id("work"))),
            ..set("help")
        },
    ];
    let edges = build::build_edges(&steps);
    let edges = edges.iter().map(|edge| {
        let label = edge.label.as_deref().unwrap_or_default();
        (&*edge.from, &*edge.to, edge.kind, label)
    });
    assert_eq!(
        edges.collect::<Vec<_>>(),
        [
            ("work", "help", EdgeKind::OnError, "on error"),
            ("work", "route", EdgeKind::DependsOn, ""),
            ("route", "work", EdgeKind::Branch, "a == \"x\""),
            ("route", "$end", EdgeKind::Branch, "else"),
            ("help", "work", EdgeKind::Next, ""),
        ]
    );
}

/// Jumps back do not count for waves. Every other edge leads to a later wave.
#[test]
fn steps_stand_in_waves() {
    let edge = |from: &str, to: &str, kind| GraphEdge {
        from: from.to_owned(),
        to: to.to_owned(),
        kind,
        label: None,
    };
    let mut graph = GraphView {
        name: "w".to_owned(),
        nodes: ["a", "b", "c"].map(|id| build::build_node(&set(id))).into(),
        edges: vec![
            edge("a", "b", EdgeKind::DependsOn),
            edge("a", "c", EdgeKind::DependsOn),
            edge("c", "a", EdgeKind::Branch),
        ],
        hooks: Vec::new(),
    };
    assert_eq!(graph.waves(), [0, 1, 1]);
    // A cycle of dependencies, which no checked workflow has, does not prevent termination.
    graph.edges.push(edge("b", "a", EdgeKind::DependsOn));
    assert!(graph.waves().iter().all(|wave| *wave <= 3));
}
