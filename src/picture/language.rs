//! The statements that describe a graph to a program that draws it, in the order in which Mermaid and Graphviz both
//! read them.

use std::collections::HashMap;

use crate::{has_parts, part, words};
use midex_domain::{
    grammar,
    view::{GraphBeside, GraphEdge, GraphNode, GraphView},
};

/// How a language writes each statement. The names of steps, hooks and the end are those that the language gives them.
pub(crate) trait Language {
    /// What separates the lines of a label.
    const BREAK: &'static str;
    const END_NAME: &'static str;
    /// The statement of the end.
    const END: &'static str;
    /// The line that ends a part.
    const PART_END: &'static str;

    fn begin(graph: &GraphView) -> String;
    fn step_name(position: usize, node: &GraphNode) -> String;
    /// The name of a hook: of a step, or of the workflow.
    fn hook_name(step: Option<&str>, position: usize) -> String;
    /// A text inside a label.
    fn escaped(text: &str) -> String;
    /// A text inside a label, with line breaks if the language needs them.
    fn wrapped(text: &str) -> String;
    fn step(name: &str, label: &str, node: &GraphNode) -> String;
    fn hook(name: &str, label: &str) -> String;
    /// The line from a step to its hook.
    fn tie(step: &str, hook: &str) -> String;
    /// The line that begins a part with a title.
    fn part(name: &str, title: &str) -> String;
    fn edge(from: &str, to: &str, edge: &GraphEdge) -> String;
    /// The edge from the regular steps to the `on_failure` steps.
    fn failing(graph: &GraphView) -> String;
    fn finish(graph: &GraphView) -> String;
}

/// The graph in a language.
pub(crate) fn text<L: Language>(graph: &GraphView) -> String {
    let mut text = L::begin(graph);
    if has_parts(graph) {
        add_part::<L>(&mut text, "steps", &graph.name, &steps::<L>(graph, false));
        add_part::<L>(&mut text, "fails", "on_failure", &steps::<L>(graph, true));
    } else {
        text += &steps::<L>(graph, false);
    }
    if !graph.hooks.is_empty() {
        let hooks = (1..).zip(&graph.hooks);
        let hooks: String = hooks.map(|(at, it)| hook::<L>(&L::hook_name(None, at), it)).collect();
        add_part::<L>(&mut text, "hooks", "hooks of the workflow", &hooks);
    }
    if graph.edges.iter().any(|edge| edge.to == grammar::END_TARGET) {
        text += L::END;
    }
    let nodes = (1..).zip(&graph.nodes);
    let mut names: HashMap<&str, String> =
        nodes.map(|(at, node)| (node.id.as_str(), L::step_name(at, node))).collect();
    names.insert(grammar::END_TARGET, L::END_NAME.to_owned());
    for edge in &graph.edges {
        if let (Some(from), Some(to)) = (names.get(&*edge.from), names.get(&*edge.to)) {
            text += &L::edge(from, to, edge);
        }
    }
    if has_parts(graph) {
        text += &L::failing(graph);
    }
    text + &L::finish(graph)
}

/// The steps, each with its hooks and compensation.
fn steps<L: Language>(graph: &GraphView, on_failure: bool) -> String {
    let mut text = String::new();
    for (at, node) in part(graph, on_failure) {
        let name = L::step_name(at, node);
        let label: Vec<_> = words::label(node).iter().map(|it| L::wrapped(it)).collect();
        text += &L::step(&name, &label.join(L::BREAK), node);
        for (at, beside) in (1..).zip(&node.beside) {
            let hook_name = L::hook_name(Some(&name), at);
            text += &hook::<L>(&hook_name, beside);
            text += &L::tie(&name, &hook_name);
        }
    }
    text
}

fn hook<L: Language>(name: &str, beside: &GraphBeside) -> String {
    let label = words::hook_label(beside).map(|line| L::escaped(&line));
    L::hook(name, &label.join(L::BREAK))
}

fn add_part<L: Language>(text: &mut String, name: &str, title: &str, statements: &str) {
    *text += &L::part(name, title);
    for line in statements.lines() {
        text.extend(["    ", line, "\n"]);
    }
    *text += L::PART_END;
}
