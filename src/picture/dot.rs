//! The DOT language of Graphviz. All ids are quoted, so none is parsed as a keyword. Step ids contain no dot, so the
//! names of hooks differ from them.

use crate::{
    language::Language,
    lines::{TextBox, wrap_text},
    select_nodes, words,
};
use midex_domain::view::{GraphEdge, GraphNode, GraphView};

/// The room for a text in a label: Graphviz does not wrap text.
const LABEL_ROOM: TextBox = TextBox { columns: 40, lines: 20 };

pub(crate) struct Dot;

impl Language for Dot {
    const LINE_BREAK: &'static str = "\\n";
    const END_NAME: &'static str = midex_domain::grammar::END_TARGET;
    const END_STATEMENT: &'static str = "    \"$end\" [label=\"end\", shape=circle];\n";
    const PART_END: &'static str = "    }\n";

    fn format_start(graph: &GraphView) -> String {
        let name = escape_quotes(&graph.name);
        let compound = if crate::has_failure_steps(graph) { "    compound=true;\n" } else { "" };
        format!(
            "digraph \"{name}\" {{\n    rankdir=TB;\n    node [shape=box, style=rounded];\n{compound}"
        )
    }

    fn step_name(_: usize, node: &GraphNode) -> String {
        node.id.clone()
    }

    fn hook_name(step: Option<&str>, position: usize) -> String {
        format!("{}.{position}", step.unwrap_or("$hook"))
    }

    fn escape(text: &str) -> String {
        // In a label `&` begins an HTML entity.
        escape_quotes(text).replace('&', "&amp;")
    }

    fn wrap(text: &str) -> String {
        let lines = wrap_text(text, LABEL_ROOM);
        let lines: Vec<_> = lines.iter().map(|line| Self::escape(line)).collect();
        lines.join(Self::LINE_BREAK)
    }

    /// The shape tells the kind of the step; conditional steps and `fail` steps also have a color.
    fn format_step(name: &str, label: &str, node: &GraphNode) -> String {
        let shape = match node.kind.as_str() {
            "gate" => ", shape=hexagon, style=solid",
            "branch" => ", shape=diamond, style=solid",
            "wait" => ", shape=ellipse, style=solid",
            "foreach" => ", shape=box3d, style=solid",
            "workflow" => ", peripheries=2",
            "fail" => ", shape=octagon, style=solid, color=firebrick",
            _ => "",
        };
        let color = match (node.kind.as_str(), words::is_conditional(node)) {
            ("fail", _) | (_, false) => "",
            _ => ", color=goldenrod4",
        };
        format!("    \"{name}\" [label=\"{label}\"{shape}{color}];\n")
    }

    fn format_hook(name: &str, label: &str) -> String {
        format!("    \"{name}\" [label=\"{label}\", style=\"rounded,dashed\"];\n")
    }

    fn format_hook_link(step: &str, hook: &str) -> String {
        format!("    \"{step}\" -> \"{hook}\" [style=dashed, arrowhead=none];\n")
    }

    fn format_part_start(name: &str, title: &str) -> String {
        let title = Self::escape(title);
        format!("    subgraph cluster_{name} {{\n        label=\"{title}\";\n")
    }

    fn format_edge(from: &str, to: &str, edge: &GraphEdge) -> String {
        let label = words::edge_label(edge).map(|words| Self::wrap(&words));
        let label = label.map(|label| format!("label=\"{label}\""));
        let dashed = words::is_error(edge).then(|| "style=dashed, color=firebrick".to_owned());
        let style: Vec<_> = label.into_iter().chain(dashed).collect();
        let style = match style.as_slice() {
            [] => String::new(),
            style => format!(" [{}]", style.join(", ")),
        };
        format!("    \"{from}\" -> \"{to}\"{style};\n")
    }

    /// Graphviz has no edges between clusters, so this one joins two steps and is clipped at their clusters.
    fn format_failure_edge(graph: &GraphView) -> String {
        let (Some((_, last)), Some((_, first))) =
            (select_nodes(graph, false).last(), select_nodes(graph, true).next())
        else {
            return String::new();
        };
        format!(
            "    \"{}\" -> \"{}\" [label=\"✗ fails\", style=dashed, color=firebrick, ltail=cluster_steps, lhead=cluster_fails];\n",
            last.id, first.id
        )
    }

    fn format_finish(_: &GraphView) -> String {
        "}\n".to_owned()
    }
}

/// A text inside a quoted string.
fn escape_quotes(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
