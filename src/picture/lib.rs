#![doc = include_str!("README.md")]

mod boxes;
mod dot;
mod inline;
mod language;
mod layout;
mod lines;
mod mermaid;
mod svg;
#[cfg(test)]
mod tests;
mod timeline;
mod words;

pub use self::{
    inline::{INLINE_STYLE, inline_svg},
    svg::svg,
    timeline::{timeline, timeline_file, visit_anchor},
    words::{condition_lines, edge_label, is_error, repeat_lines},
};
use midex_domain::view::{GraphNode, GraphView};

/// The graph in the DOT language of Graphviz.
pub fn dot(graph: &GraphView) -> String {
    language::render_graph::<dot::Dot>(graph)
}

/// The graph as a Mermaid flowchart.
pub fn mermaid(graph: &GraphView) -> String {
    language::render_graph::<mermaid::Mermaid>(graph)
}

/// The `on_failure` steps, or all other steps, with their positions from 1.
fn select_nodes(graph: &GraphView, on_failure: bool) -> impl Iterator<Item = (usize, &GraphNode)> {
    let nodes = (1..).zip(&graph.nodes);
    nodes.filter(move |(_, node)| node.on_failure == on_failure)
}

/// Whether the workflow has `on_failure` steps, which are drawn in a frame of their own.
fn has_failure_steps(graph: &GraphView) -> bool {
    select_nodes(graph, true).next().is_some()
}
