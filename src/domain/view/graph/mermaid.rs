//! The graph of a workflow as a Mermaid flowchart.
//!
//! Nodes are named by position (`s1`, `s2`…), because step ids may be reserved words of Mermaid (`end`) or contain text
//! that it parses as an arrow. Hooks and compensations of a step are named `s1b1`, `s1b2`…, and hooks of the workflow
//! `h1`, `h2`….

use std::{collections::HashMap, fmt::Write};

use super::{GraphBeside, GraphEdge, GraphNode, GraphView};
use crate::grammar;

impl GraphView {
    /// The graph as a Mermaid flowchart.
    pub fn mermaid(&self) -> String {
        let mut text = String::from("flowchart TD\n");
        if self.has_parts() {
            part(&mut text, "steps", &self.name, &steps(self.part(false)));
            part(&mut text, "fails", "on_failure", &steps(self.part(true)));
        } else {
            text += &steps(self.part(false));
        }
        if !self.hooks.is_empty() {
            let hooks: String = (1..)
                .zip(&self.hooks)
                .map(|(at, hook)| hook.mermaid(&format!("h{at}")))
                .collect();
            part(&mut text, "hooks", "hooks of the workflow", &hooks);
        }
        if self.ends() {
            text.push_str("    e((\"end\"))\n");
        }
        self.mermaid_edges(&mut text);
        if self.has_parts() {
            text.push_str("    steps -.->|\"#10007; fails\"| fails\n");
        }
        self.mermaid_classes(&mut text);
        text
    }

    /// The styles of conditional steps, `fail` steps and hooks, each only if it is used.
    fn mermaid_classes(&self, text: &mut String) {
        let has = |class: &str| self.nodes.iter().any(|node| node.mermaid_class() == class);
        if has(":::maybe") {
            text.push_str("    classDef maybe fill:#fff8c5,stroke:#9a6700,color:#1f2328\n");
        }
        if has(":::failed") {
            text.push_str("    classDef failed stroke:#cf222e\n");
        }
        if !self.hooks.is_empty() || self.nodes.iter().any(|node| !node.beside.is_empty()) {
            text.push_str("    classDef beside stroke-dasharray: 4 3\n");
        }
    }

    fn mermaid_edges(&self, text: &mut String) {
        let nodes = (1..).zip(&self.nodes);
        let position: HashMap<&str, usize> =
            nodes.map(|(at, node)| (node.id.as_str(), at)).collect();
        let name = |id: &str| match id {
            grammar::END => Some("e".to_owned()),
            id => position.get(id).map(|at| format!("s{at}")),
        };
        for edge in &self.edges {
            if let (Some(from), Some(to)) = (name(&edge.from), name(&edge.to)) {
                let arrow = if edge.is_error() { "-.->" } else { "-->" };
                let label = edge.mermaid_label();
                let _ = writeln!(text, "    {from} {arrow}{label} {to}");
            }
        }
    }
}

impl GraphNode {
    /// The shape that tells the kind of the step.
    fn mermaid_shape(&self) -> (&str, &str) {
        match self.kind.as_str() {
            "gate" => ("{{", "}}"),
            "branch" => ("{", "}"),
            "wait" => ("([", "])"),
            "workflow" => ("[[", "]]"),
            _ => ("[", "]"),
        }
    }

    fn mermaid_class(&self) -> &str {
        match (self.kind.as_str(), self.is_conditional()) {
            ("fail", _) => ":::failed",
            (_, true) => ":::maybe",
            _ => "",
        }
    }
}

impl GraphEdge {
    fn mermaid_label(&self) -> String {
        let label = self.words().map(|words| escaped(&words));
        label.map_or_else(String::new, |label| format!("|\"{label}\"|"))
    }
}

impl GraphBeside {
    fn mermaid(&self, name: &str) -> String {
        let label = self.label().map(|line| escaped(&line)).join("<br/>");
        format!("    {name}[\"{label}\"]:::beside\n")
    }
}

/// A subgraph with a title.
fn part(text: &mut String, name: &str, title: &str, lines: &str) {
    let _ = writeln!(text, "    subgraph {name} [\"{}\"]", escaped(title));
    for line in lines.lines() {
        let _ = writeln!(text, "    {line}");
    }
    text.push_str("    end\n");
}

/// The steps, each with its hooks and compensation.
fn steps<'a>(nodes: impl Iterator<Item = (usize, &'a GraphNode)>) -> String {
    let mut text = String::new();
    for (at, node) in nodes {
        let label: Vec<_> = node.label().iter().map(|line| escaped(line)).collect();
        let label = label.join("<br/>");
        let (open, close) = node.mermaid_shape();
        let class = node.mermaid_class();
        let _ = writeln!(text, "    s{at}{open}\"{label}\"{close}{class}");
        for (count, beside) in (1..).zip(&node.beside) {
            let name = format!("s{at}b{count}");
            text += &beside.mermaid(&name);
            let _ = writeln!(text, "    s{at} -.- {name}");
        }
    }
    text
}

/// A text inside a quoted Mermaid label. Quotes end a label, and much else in it is read as HTML, as
/// Markdown or as a style, depending on the version: so everything but letters, digits and spaces is
/// written as a character code, except for what joins two letters inside a word. Mermaid has no way to
/// write three things: `\n` (a line end), `fa:fa-name` (an icon) and `$$x$$` (a formula).
pub(super) fn escaped(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let is_letter = |at: Option<usize>| {
        at.and_then(|at| letters.get(at))
            .is_some_and(|letter| letter.is_alphanumeric())
    };
    let mut safe = String::with_capacity(text.len());
    for (at, &letter) in letters.iter().enumerate() {
        let joins = matches!(letter, '-' | '_' | '.')
            && is_letter(at.checked_sub(1))
            && is_letter(Some(at + 1));
        if letter.is_alphanumeric() || letter == ' ' || joins {
            safe.push(letter);
        } else {
            let _ = write!(safe, "#{};", u32::from(letter));
        }
    }
    safe
}
