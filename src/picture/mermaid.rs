//! Mermaid flowcharts.
//!
//! Nodes are named by position (`s1`, `s2`…), because step ids may be reserved words of Mermaid (`end`) or contain text
//! that it parses as an arrow. Hooks and compensations of a step are named `s1b1`, `s1b2`…, and hooks of the workflow
//! `h1`, `h2`….

use std::fmt::Write;

use crate::{language::Language, words};
use midex_domain::view::{GraphEdge, GraphNode, GraphView};

pub(crate) struct Mermaid;

impl Language for Mermaid {
    const LINE_BREAK: &'static str = "<br/>";
    const END_NAME: &'static str = "e";
    const END_STATEMENT: &'static str = "    e((\"end\"))\n";
    const PART_END: &'static str = "    end\n";

    fn format_start(_: &GraphView) -> String {
        "flowchart TD\n".to_owned()
    }

    fn step_name(position: usize, _: &GraphNode) -> String {
        format!("s{position}")
    }

    fn hook_name(step: Option<&str>, position: usize) -> String {
        step.map_or_else(|| format!("h{position}"), |step| format!("{step}b{position}"))
    }

    /// Quotes end a label, and much else in it is read as HTML, as Markdown or as a style, depending on the version: so
    /// everything but letters, digits and spaces is written as a character code, except for what joins two letters
    /// inside a word. Mermaid has no way to write three things: `\n` (a line end), `fa:fa-name` (an icon) and `$$x$$`
    /// (a formula).
    fn escape(text: &str) -> String {
        let letters: Vec<char> = text.chars().collect();
        let is_letter = |at: Option<usize>| {
            at.and_then(|at| letters.get(at)).is_some_and(|letter| letter.is_alphanumeric())
        };
        let mut safe = String::with_capacity(text.len());
        for (at, &letter) in letters.iter().enumerate() {
            let is_joiner = matches!(letter, '-' | '_' | '.')
                && is_letter(at.checked_sub(1))
                && is_letter(Some(at + 1));
            if letter.is_alphanumeric() || letter == ' ' || is_joiner {
                safe.push(letter);
            } else {
                let _ = write!(safe, "#{};", u32::from(letter));
            }
        }
        safe
    }

    fn wrap(text: &str) -> String {
        Self::escape(text)
    }

    /// The shape tells the kind of the step.
    fn format_step(name: &str, label: &str, node: &GraphNode) -> String {
        let (open, close) = match node.kind.as_str() {
            "gate" => ("{{", "}}"),
            "branch" => ("{", "}"),
            "wait" => ("([", "])"),
            "workflow" => ("[[", "]]"),
            _ => ("[", "]"),
        };
        format!("    {name}{open}\"{label}\"{close}{}\n", class_suffix(node))
    }

    fn format_hook(name: &str, label: &str) -> String {
        format!("    {name}[\"{label}\"]:::beside\n")
    }

    fn format_hook_link(step: &str, hook: &str) -> String {
        format!("    {step} -.- {hook}\n")
    }

    fn format_part_start(name: &str, title: &str) -> String {
        format!("    subgraph {name} [\"{}\"]\n", Self::escape(title))
    }

    fn format_edge(from: &str, to: &str, edge: &GraphEdge) -> String {
        let arrow = if words::is_error(edge) { "-.->" } else { "-->" };
        let label = words::edge_label(edge).map(|words| format!("|\"{}\"|", Self::escape(&words)));
        let label = label.unwrap_or_default();
        format!("    {from} {arrow}{label} {to}\n")
    }

    fn format_failure_edge(_: &GraphView) -> String {
        "    steps -.->|\"#10007; fails\"| fails\n".to_owned()
    }

    /// The styles of conditional steps, `fail` steps and hooks, each only if it is used.
    fn format_finish(graph: &GraphView) -> String {
        let has_class = |name: &str| graph.nodes.iter().any(|node| class_suffix(node) == name);
        let has_hooks =
            !graph.hooks.is_empty() || graph.nodes.iter().any(|it| !it.beside.is_empty());
        let styles = [
            (
                has_class(":::maybe"),
                "    classDef maybe fill:#fff8c5,stroke:#9a6700,color:#1f2328\n",
            ),
            (has_class(":::failed"), "    classDef failed stroke:#cf222e\n"),
            (has_hooks, "    classDef beside stroke-dasharray: 4 3\n"),
        ];
        let styles = styles.into_iter().filter(|(is_used, _)| *is_used);
        styles.map(|(_, style)| style).collect()
    }
}

fn class_suffix(node: &GraphNode) -> &str {
    match (node.kind.as_str(), words::is_conditional(node)) {
        ("fail", _) => ":::failed",
        (_, true) => ":::maybe",
        _ => "",
    }
}
