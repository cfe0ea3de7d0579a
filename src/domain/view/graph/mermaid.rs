//! The graph of a workflow as a Mermaid flowchart.
//!
//! Nodes are called `s1`, `s2`… after their position: step ids may be words that Mermaid keeps for itself (`end`), or hold
//! what it reads as an arrow. What stands beside a step is called `s1b1`, `s1b2`…, and the hooks of the workflow `h1`, `h2`….

use std::{collections::HashMap, fmt::Write};

use super::{EdgeKind, GraphBeside, GraphEdge, GraphNode, GraphView};
use crate::domain::grammar;

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
            text.push_str("    steps -.->|\"fails\"| fails\n");
        }
        if !self.hooks.is_empty() || self.nodes.iter().any(|node| !node.beside.is_empty()) {
            text.push_str("    classDef beside stroke-dasharray: 4 3\n");
        }
        text
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
                let is_error = edge.kind == EdgeKind::OnError;
                let arrow = if is_error { "-.->" } else { "-->" };
                let label = edge.mermaid_label();
                let _ = writeln!(text, "    {from} {arrow}{label} {to}");
            }
        }
    }
}

impl GraphEdge {
    fn mermaid_label(&self) -> String {
        let label = self.label.as_deref().map(escaped);
        label.map_or_else(String::new, |label| format!("|\"{label}\"|"))
    }
}

impl GraphBeside {
    fn mermaid(&self, name: &str) -> String {
        let label = self.label().map(|line| escaped(&line)).join("<br/>");
        format!("    {name}[\"{label}\"]:::beside\n")
    }
}

/// A part with a frame and a title around it.
fn part(text: &mut String, name: &str, title: &str, lines: &str) {
    let _ = writeln!(text, "    subgraph {name} [\"{}\"]", escaped(title));
    for line in lines.lines() {
        let _ = writeln!(text, "    {line}");
    }
    text.push_str("    end\n");
}

/// The steps, each with what stands beside it.
fn steps<'a>(nodes: impl Iterator<Item = (usize, &'a GraphNode)>) -> String {
    let mut text = String::new();
    for (at, node) in nodes {
        let label: Vec<_> = node.label().map(escaped).collect();
        let label = label.join("<br/>");
        let _ = match node.workflow {
            Some(_) => writeln!(text, "    s{at}[[\"{label}\"]]"),
            None => writeln!(text, "    s{at}[\"{label}\"]"),
        };
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
