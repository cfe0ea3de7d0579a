//! The statements that describe a graph to a program that draws it, in the order in which Mermaid and Graphviz both
//! read them.

use std::collections::HashMap;

use crate::{has_failure_steps, select_nodes, words};
use midex_domain::{
    grammar,
    view::{GraphBody, GraphEdge, GraphNode, GraphView},
};

/// How a language writes each statement. The names of steps, hooks and the end are those that the language gives them.
pub(crate) trait Language {
    /// What separates the lines of a label.
    const LINE_BREAK: &'static str;
    const END_NAME: &'static str;
    /// The statement of the end.
    const END_STATEMENT: &'static str;
    /// The line that ends a part.
    const PART_END: &'static str;

    fn format_start(graph: &GraphView) -> String;
    fn step_name(position: usize, node: &GraphNode) -> String;
    /// The name of a hook: of a step, or of the workflow.
    fn hook_name(step: Option<&str>, position: usize) -> String;
    /// A text inside a label.
    fn escape(text: &str) -> String;
    /// A text inside a label, with line breaks if the language needs them.
    fn wrap(text: &str) -> String;
    fn format_step(name: &str, label: &str, node: &GraphNode) -> String;
    fn format_hook(name: &str, label: &str) -> String;
    /// The line from a step to its hook.
    fn format_hook_link(step: &str, hook: &str) -> String;
    /// The line that begins a part with a title.
    fn format_part_start(name: &str, title: &str) -> String;
    fn format_edge(from: &str, to: &str, edge: &GraphEdge) -> String;
    /// The edge from the regular steps to the `on_failure` steps.
    fn format_failure_edge(graph: &GraphView) -> String;
    fn format_finish(graph: &GraphView) -> String;
}

/// The graph in a language.
pub(crate) fn render_graph<L: Language>(graph: &GraphView) -> String {
    let mut text = L::format_start(graph);
    if has_failure_steps(graph) {
        add_part::<L>(&mut text, "steps", &graph.name, &render_steps::<L>(graph, false));
        add_part::<L>(&mut text, "fails", "on_failure", &render_steps::<L>(graph, true));
    } else {
        text += &render_steps::<L>(graph, false);
    }
    if !graph.hooks.is_empty() {
        let hooks = (1..).zip(&graph.hooks);
        let hooks: String =
            hooks.map(|(at, it)| render_hook::<L>(&L::hook_name(None, at), it)).collect();
        add_part::<L>(&mut text, "hooks", "hooks of the workflow", &hooks);
    }
    if graph.edges.iter().any(|edge| edge.to == grammar::END_TARGET) {
        text += L::END_STATEMENT;
    }
    let nodes = (1..).zip(&graph.nodes);
    let mut names: HashMap<&str, String> =
        nodes.map(|(at, node)| (node.id.as_str(), L::step_name(at, node))).collect();
    names.insert(grammar::END_TARGET, L::END_NAME.to_owned());
    for edge in &graph.edges {
        if let (Some(from), Some(to)) = (names.get(&*edge.from), names.get(&*edge.to)) {
            text += &L::format_edge(from, to, edge);
        }
    }
    if has_failure_steps(graph) {
        text += &L::format_failure_edge(graph);
    }
    text + &L::format_finish(graph)
}

/// The steps, each with its hooks and compensation.
fn render_steps<L: Language>(graph: &GraphView, on_failure: bool) -> String {
    let mut text = String::new();
    for (at, node) in select_nodes(graph, on_failure) {
        let name = L::step_name(at, node);
        let label: Vec<_> = words::label_lines(node).iter().map(|it| L::wrap(it)).collect();
        text += &L::format_step(&name, &label.join(L::LINE_BREAK), node);
        for (at, beside) in (1..).zip(&node.beside) {
            let hook_name = L::hook_name(Some(&name), at);
            text += &render_hook::<L>(&hook_name, beside);
            text += &L::format_hook_link(&name, &hook_name);
        }
    }
    text
}

fn render_hook<L: Language>(name: &str, beside: &GraphBody) -> String {
    let label = words::hook_label(beside).map(|line| L::escape(&line));
    L::format_hook(name, &label.join(L::LINE_BREAK))
}

fn add_part<L: Language>(text: &mut String, name: &str, title: &str, statements: &str) {
    *text += &L::format_part_start(name, title);
    for line in statements.lines() {
        text.extend(["    ", line, "\n"]);
    }
    *text += L::PART_END;
}
