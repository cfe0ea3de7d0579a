//! The graph of a workflow in the DOT language of Graphviz. All ids are quoted, so none is parsed as a keyword.

use std::fmt::Write;

use super::{
    GraphBeside, GraphEdge, GraphNode, GraphView,
    lines::{TextBox, wrapped},
};
use crate::grammar;

/// The room for a text in a label.
const ROOM: TextBox = TextBox {
    columns: 40,
    lines: 20,
};

impl GraphView {
    /// The graph in the DOT language of Graphviz.
    pub fn dot(&self) -> String {
        let mut text = format!("digraph \"{}\" {{\n", quoted(&self.name));
        text.push_str("    rankdir=TB;\n    node [shape=box, style=rounded];\n");
        if self.has_parts() {
            text.push_str("    compound=true;\n");
            part(&mut text, "steps", &self.name, &steps(self.part(false)));
            part(&mut text, "fails", "on_failure", &steps(self.part(true)));
        } else {
            text += &steps(self.part(false));
        }
        if !self.hooks.is_empty() {
            let hooks: String = (1..)
                .zip(&self.hooks)
                .map(|(at, hook)| hook.dot(&format!("$hook.{at}")))
                .collect();
            part(&mut text, "hooks", "hooks of the workflow", &hooks);
        }
        if self.ends() {
            let end = grammar::END;
            let _ = writeln!(text, "    \"{end}\" [label=\"end\", shape=circle];");
        }
        for edge in &self.edges {
            let (from, to) = (&edge.from, &edge.to);
            let _ = writeln!(text, "    \"{from}\" -> \"{to}\"{};", edge.dot_style());
        }
        text += &self.dot_failing();
        text.push_str("}\n");
        text
    }

    /// The edge from the regular steps to the `on_failure` steps. Graphviz has no edges between clusters, so this one
    /// joins two steps and is clipped at their clusters.
    fn dot_failing(&self) -> String {
        let (Some((_, last)), Some((_, first))) = (self.part(false).last(), self.part(true).next())
        else {
            return String::new();
        };
        format!(
            "    \"{}\" -> \"{}\" [label=\"✗ fails\", style=dashed, color=firebrick, ltail=cluster_steps, lhead=cluster_fails];\n",
            last.id, first.id
        )
    }
}

impl GraphNode {
    /// The shape tells the kind of the step; conditional steps and `fail` steps also have a color.
    fn dot_style(&self) -> String {
        let shape = match self.kind.as_str() {
            "gate" => ", shape=hexagon, style=solid",
            "branch" => ", shape=diamond, style=solid",
            "wait" => ", shape=ellipse, style=solid",
            "foreach" => ", shape=box3d, style=solid",
            "workflow" => ", peripheries=2",
            "fail" => ", shape=octagon, style=solid, color=firebrick",
            _ => "",
        };
        let color = match (self.kind.as_str(), self.is_conditional()) {
            ("fail", _) | (_, false) => "",
            _ => ", color=goldenrod4",
        };
        format!("{shape}{color}")
    }
}

impl GraphEdge {
    fn dot_style(&self) -> String {
        let label = self.words().map(|words| lines(&words));
        let label = label.map(|label| format!("label=\"{label}\""));
        let dashed = self
            .is_error()
            .then(|| "style=dashed, color=firebrick".to_owned());
        let style: Vec<_> = label.into_iter().chain(dashed).collect();
        if style.is_empty() {
            return String::new();
        }
        format!(" [{}]", style.join(", "))
    }
}

impl GraphBeside {
    fn dot(&self, name: &str) -> String {
        let label = self.label().map(|line| escaped(&line)).join("\\n");
        format!("    \"{name}\" [label=\"{label}\", style=\"rounded,dashed\"];\n")
    }
}

/// A cluster with a title.
fn part(text: &mut String, name: &str, title: &str, lines: &str) {
    let _ = writeln!(text, "    subgraph cluster_{name} {{");
    let _ = writeln!(text, "        label=\"{}\";", escaped(title));
    for line in lines.lines() {
        let _ = writeln!(text, "    {line}");
    }
    text.push_str("    }\n");
}

/// The steps, each with its hooks and compensation. Their node ids are unique, because step ids contain no dot.
fn steps<'a>(nodes: impl Iterator<Item = (usize, &'a GraphNode)>) -> String {
    let mut text = String::new();
    for (_, node) in nodes {
        let label: Vec<_> = node.label().iter().map(|line| lines(line)).collect();
        let label = label.join("\\n");
        let (id, style) = (&node.id, node.dot_style());
        let _ = writeln!(text, "    \"{id}\" [label=\"{label}\"{style}];");
        for (count, beside) in (1..).zip(&node.beside) {
            let name = format!("{id}.{count}");
            text += &beside.dot(&name);
            let _ = writeln!(
                text,
                "    \"{id}\" -> \"{name}\" [style=dashed, arrowhead=none];"
            );
        }
    }
    text
}

/// A label text with line breaks, because Graphviz does not wrap text.
fn lines(text: &str) -> String {
    let lines = wrapped(text, ROOM);
    let lines: Vec<_> = lines.iter().map(|line| escaped(line)).collect();
    lines.join("\\n")
}

/// A text inside a quoted DOT string.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// A text inside a label of DOT, where `&` begins an HTML entity.
pub(super) fn escaped(text: &str) -> String {
    quoted(text).replace('&', "&amp;")
}
