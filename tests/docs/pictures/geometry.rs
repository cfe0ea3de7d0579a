//! No picture of a graph has a line through a box, a label on anything, or a text past its box: those of all workflows that
//! are part of midex, and those of graphs made at random, odder than any workflow.

use midex_domain::view::{EdgeKind, GraphBody, GraphEdge, GraphNode, GraphView, NodeProgress};

use super::drawn::Drawn;
use midex_test::long::{Dice, rounds, seed};

const KINDS: &[&str] =
    &["agent", "gate", "branch", "wait", "foreach", "workflow", "fail", "set", "guidance"];
const WORDS: &[&str] = &[
    "a",
    "if",
    "review",
    "steps.check.ran",
    "rejectattr('passed')",
    "|",
    "length == 0",
    "überprüft",
    "審査",
    "<&>",
    "documentation-specialist",
    "a_name_that_goes_on_and_on_without_any_end_in_sight",
    "✓",
    "not",
    "memory.x",
];

#[track_caller]
pub(super) fn is_clean(name: &str, svg: &str) {
    let faults = Drawn::read(svg).faults();
    assert!(
        faults.is_empty(),
        "{} faults in the picture of {name}:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

#[test]
fn graphs_at_random_are_drawn_clean() {
    let first = seed(500);
    for round in 0..rounds(200, 2_000) {
        let seed = first.wrapping_add(round);
        let graph = graph(&mut Dice(seed));
        is_clean(&format!("MIDEX_SEED={seed}"), &midex_picture::svg(&graph));
    }
}

/// The same graph is drawn the same, and a large one in good time.
#[test]
fn a_large_graph_is_drawn_clean() {
    let mut dice = Dice(7);
    let mut graph = graph(&mut dice);
    graph.nodes = (0..200).map(|at| node(at, &mut dice)).collect();
    graph.edges = (1..200).flat_map(|at| edges(at, 200, &mut dice)).collect();
    graph.nodes.iter_mut().for_each(|node| node.on_failure = false);
    let svg = midex_picture::svg(&graph);
    is_clean("a large graph", &svg);
    assert_eq!(svg, midex_picture::svg(&graph));
}

pub(super) fn graph(dice: &mut Dice) -> GraphView {
    let count = 1 + dice.roll(14);
    let mut nodes: Vec<GraphNode> = (0..count).map(|at| node(at, dice)).collect();
    let mut edges: Vec<GraphEdge> = (0..count).flat_map(|at| edges(at, count, dice)).collect();
    if dice.roll(4) == 0 {
        fail(&mut nodes, &mut edges, dice);
    }
    let hooks = if dice.roll(4) == 0 { 1 + dice.roll(3) } else { 0 };
    GraphView { name: words(dice), nodes, edges, hooks: (0..hooks).map(|_| beside(dice)).collect() }
}

/// Makes the last steps those of `on_failure`, which no way joins with the others.
fn fail(nodes: &mut [GraphNode], edges: &mut Vec<GraphEdge>, dice: &mut Dice) {
    for node in nodes.iter_mut().rev().take(1 + dice_index(dice, 3)) {
        node.on_failure = true;
    }
    let is_failing = |id: &str| nodes.iter().find(|node| node.id == id).map(|node| node.on_failure);
    edges.retain(|edge| {
        let to = is_failing(&edge.to);
        to.is_none() || to == is_failing(&edge.from)
    });
}

fn dice_index(dice: &mut Dice, sides: u64) -> usize {
    usize::try_from(dice.roll(sides)).unwrap()
}

fn pick<'a>(from: &[&'a str], dice: &mut Dice) -> &'a str {
    from[dice_index(dice, from.len() as u64)]
}

fn words(dice: &mut Dice) -> String {
    let count = 1 + dice.roll(7);
    let words: Vec<&str> = (0..count).map(|_| pick(WORDS, dice)).collect();
    words.join(" ")
}

fn maybe(one_in: u64, dice: &mut Dice) -> Option<String> {
    (dice.roll(one_in) == 0).then(|| words(dice))
}

fn name(at: u64) -> String {
    format!("s{at}{}", ["", "-step", "_of_a_rather_long_name"][usize::try_from(at % 3).unwrap()])
}

fn node(at: u64, dice: &mut Dice) -> GraphNode {
    let beside_count = if dice.roll(5) == 0 { 1 + dice.roll(2) } else { 0 };
    GraphNode {
        id: name(at),
        agent: maybe(3, dice),
        description: words(dice),
        kind: pick(KINDS, dice).to_owned(),
        standing: (dice.roll(4) == 0).then(|| standing(dice)),
        workflow: None,
        join: maybe(6, dice),
        thresholds: maybe(8, dice),
        cancels: maybe(8, dice).into_iter().collect(),
        condition: maybe(3, dice),
        run_when: (dice.roll(8) == 0).then(|| pick(&["failed", "finished"], dice).to_owned()),
        until: maybe(6, dice),
        optional: dice.roll(5) == 0,
        beside: (0..beside_count).map(|_| beside(dice)).collect(),
        on_failure: false,
    }
}

fn standing(dice: &mut Dice) -> NodeProgress {
    let states = ["pending", "running", "completed", "failed", "skipped"];
    NodeProgress {
        status: pick(&states, dice).to_owned(),
        visits: dice_index(dice, 3),
        items_done: Some(2),
        items_failed: 0,
        items: Some(6),
    }
}

fn beside(dice: &mut Dice) -> GraphBody {
    GraphBody {
        body: pick(&["on_success", "compensate"], dice).to_owned(),
        does: words(dice),
        required: dice.roll(2) == 0,
        each: dice.roll(2) == 0,
    }
}

/// What leads to a step from those before it, and from it to any: forward, back, to itself and to the end.
fn edges(at: u64, count: u64, dice: &mut Dice) -> Vec<GraphEdge> {
    let waits = if at == 0 { 0 } else { dice.roll(4) };
    let before: Vec<u64> = (0..waits).map(|_| at - 1 - dice.roll(at.min(4))).collect();
    let before = before.into_iter().map(|before| (before, name(at), EdgeKind::DependsOn, None));
    let mut edges: Vec<_> = before.collect();
    let jumps = if dice.roll(3) == 0 { 1 + dice.roll(4) } else { 0 };
    for _ in 0..jumps {
        let to = match dice.roll(5) {
            0 => "$end".to_owned(),
            _ => name(dice.roll(count)),
        };
        let kinds = [EdgeKind::Branch, EdgeKind::Next, EdgeKind::OnError];
        let kind = kinds[dice_index(dice, 3)];
        let label = match kind {
            EdgeKind::Branch => Some(words(dice)),
            EdgeKind::OnError => Some("on error".to_owned()),
            _ => None,
        };
        edges.push((at, to, kind, label));
    }
    let edge = |(from, to, kind, label)| GraphEdge { from: name(from), to, kind, label };
    edges.into_iter().map(edge).collect()
}
