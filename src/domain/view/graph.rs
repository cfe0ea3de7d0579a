//! A workflow as a picture: its steps and who waits for whom, as data and as text for the two programs
//! that most people draw with.

use std::{collections::HashMap, fmt::Write};

use schemars::JsonSchema;
use serde::Serialize;

use crate::domain::{
    definition::{Arm, Next, OnError, Step, StepKind, Workflow},
    grammar,
    id::StepId,
};

/// The steps of a workflow and the order between them.
///
/// Invariant: node ids are distinct, and every edge joins two of them, or one with the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GraphView {
    /// The workflow's name.
    pub name: String,
    /// The steps, in authoring order.
    pub nodes: Vec<GraphNode>,
    /// The dependencies, and where control goes besides, in the order of the steps that say so. One may lead to
    /// [`grammar::END`], which is no step.
    pub edges: Vec<GraphEdge>,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GraphNode {
    /// Its id.
    pub id: String,
    /// Who acts; null where no agent does.
    pub agent: Option<String>,
    /// What it does; empty where the file does not say.
    pub description: String,
}

/// A way from one step to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GraphEdge {
    /// The step that is done first.
    pub from: String,
    /// The step that comes after it, or `$end`.
    pub to: String,
    /// Why it does.
    pub kind: EdgeKind,
    /// When it does, where that depends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// Why one step comes after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EdgeKind {
    /// It waits for it.
    DependsOn,
    /// It is what the other says comes next.
    Next,
    /// It is an arm of a branch.
    Branch,
    /// The other's failure leads to it.
    OnError,
}

impl GraphView {
    /// The graph of a workflow.
    pub fn of(workflow: &Workflow) -> Self {
        Self {
            name: workflow.name.as_str().to_owned(),
            nodes: workflow.steps.iter().map(node).collect(),
            edges: edges(&workflow.steps),
        }
    }

    /// The graph as a Mermaid flowchart. Nodes are called `s1`, `s2`… after their position: step ids may
    /// be words that Mermaid keeps for itself (`end`), or hold what it reads as an arrow.
    pub fn mermaid(&self) -> String {
        let mut text = String::from("flowchart TD\n");
        for (at, node) in self.nodes.iter().enumerate() {
            let label = node.label(mermaid_escaped).join("<br/>");
            let _ = writeln!(text, "    s{}[\"{label}\"]", at + 1);
        }
        let position: HashMap<&str, usize> = self
            .nodes
            .iter()
            .enumerate()
            .map(|(at, node)| (node.id.as_str(), at + 1))
            .collect();
        if self.ends() {
            text.push_str("    e((\"end\"))\n");
        }
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
        text
    }

    /// The graph in the DOT language of Graphviz. Everything is quoted, so no id is a keyword.
    pub fn dot(&self) -> String {
        let mut text = format!("digraph \"{}\" {{\n", dot_quoted(&self.name));
        text.push_str("    rankdir=TB;\n    node [shape=box, style=rounded];\n");
        for node in &self.nodes {
            let label = node.label(dot_escaped).join("\\n");
            let _ = writeln!(text, "    \"{}\" [label=\"{label}\"];", node.id);
        }
        if self.ends() {
            let _ = writeln!(
                text,
                "    \"{}\" [label=\"end\", shape=circle];",
                grammar::END
            );
        }
        for edge in &self.edges {
            let _ = writeln!(
                text,
                "    \"{}\" -> \"{}\"{};",
                edge.from,
                edge.to,
                edge.dot_style()
            );
        }
        text.push_str("}\n");
        text
    }

    /// Whether control is led to the end from somewhere.
    fn ends(&self) -> bool {
        self.edges.iter().any(|edge| edge.to == grammar::END)
    }
}

impl GraphEdge {
    fn mermaid_label(&self) -> String {
        let label = self.label.as_deref().map(mermaid_escaped);
        label.map_or_else(String::new, |label| format!("|\"{label}\"|"))
    }

    fn dot_style(&self) -> String {
        let label = self.label.as_deref().map(dot_escaped);
        let label = label.map(|label| format!("label=\"{label}\""));
        let dashed = (self.kind == EdgeKind::OnError).then(|| "style=dashed".to_owned());
        let style: Vec<_> = label.into_iter().chain(dashed).collect();
        if style.is_empty() {
            return String::new();
        }
        format!(" [{}]", style.join(", "))
    }
}

impl GraphNode {
    /// The lines that are shown in the box.
    fn label(&self, escaped: fn(&str) -> String) -> Vec<String> {
        let lines = [Some(self.id.as_str()), self.agent.as_deref()];
        lines.into_iter().flatten().map(escaped).collect()
    }
}

fn node(step: &Step) -> GraphNode {
    GraphNode {
        id: step.id.as_str().to_owned(),
        agent: step.agent().map(|agent| agent.as_str().to_owned()),
        description: step.description.clone(),
    }
}

fn edges(steps: &[Step]) -> Vec<GraphEdge> {
    let mut edges = Vec::new();
    for step in steps {
        let before = |id: &&StepId| steps.iter().all(|step| step.id != **id || !leads(step));
        let waits = step.depends_on.iter().filter(before);
        edges.extend(waits.map(|before| GraphEdge {
            from: before.as_str().to_owned(),
            to: step.id.as_str().to_owned(),
            kind: EdgeKind::DependsOn,
            label: None,
        }));
        edges.extend(jumps(step));
    }
    edges
}

/// Whether the step says itself what comes next, instead of what waits for it.
fn leads(step: &Step) -> bool {
    let always = match &step.kind {
        StepKind::Branch { arms } => arms.iter().any(|arm| arm.condition.is_none()),
        StepKind::Fail { .. } => true,
        _ => step.next.is_some(),
    };
    always && step.condition.is_none()
}

fn jumps(step: &Step) -> Vec<GraphEdge> {
    let edge = |next: &Next, kind, label: Option<&str>| GraphEdge {
        from: step.id.as_str().to_owned(),
        to: match next {
            Next::Step(id) => id.as_str().to_owned(),
            Next::End => grammar::END.to_owned(),
        },
        kind,
        label: label.map(str::to_owned),
    };
    let mut edges: Vec<_> = step
        .next
        .iter()
        .map(|next| edge(next, EdgeKind::Next, None))
        .collect();
    if let StepKind::Branch { arms } = &step.kind {
        let arm = |arm: &Arm| {
            edge(
                &arm.next,
                EdgeKind::Branch,
                Some(arm.condition.as_deref().unwrap_or("else")),
            )
        };
        edges.extend(arms.iter().map(arm));
    }
    if let OnError::Step(id) = &step.on_error {
        edges.push(edge(
            &Next::Step(id.clone()),
            EdgeKind::OnError,
            Some("on error"),
        ));
    }
    edges
}

/// A text inside a quoted Mermaid label. Quotes end a label, and much else in it is read as HTML, as
/// Markdown or as a style, depending on the version: so everything but letters, digits and spaces is
/// written as a character code, except for what joins two letters inside a word. Mermaid has no way to
/// write three things: `\n` (a line end), `fa:fa-name` (an icon) and `$$x$$` (a formula).
fn mermaid_escaped(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let is_letter = |at: Option<usize>| {
        at.and_then(|at| letters.get(at))
            .is_some_and(|letter| letter.is_alphanumeric())
    };
    let mut escaped = String::with_capacity(text.len());
    for (at, &letter) in letters.iter().enumerate() {
        let joins = matches!(letter, '-' | '_' | '.')
            && is_letter(at.checked_sub(1))
            && is_letter(Some(at + 1));
        if letter.is_alphanumeric() || letter == ' ' || joins {
            escaped.push(letter);
        } else {
            let _ = write!(escaped, "#{};", u32::from(letter));
        }
    }
    escaped
}

/// A text inside a quoted DOT string.
fn dot_quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// A text inside a label of DOT, where `&` begins an HTML entity.
fn dot_escaped(text: &str) -> String {
    dot_quoted(text).replace('&', "&amp;")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Map;

    use super::*;

    /// A graph with one step for each (id, agent), each after all those before it.
    fn graph(steps: &[(&str, &str)]) -> GraphView {
        let nodes = steps.iter().map(|(id, agent)| GraphNode {
            id: (*id).to_owned(),
            agent: Some((*agent).to_owned()),
            description: String::new(),
        });
        let edges = (0..steps.len()).flat_map(|to| {
            (0..to).map(move |from| GraphEdge {
                from: steps[from].0.to_owned(),
                to: steps[to].0.to_owned(),
                kind: EdgeKind::DependsOn,
                label: None,
            })
        });
        GraphView {
            name: "say \"hi\" & go".to_owned(),
            nodes: nodes.collect(),
            edges: edges.collect(),
        }
    }

    #[test]
    fn a_graph_is_drawn_with_all_its_names() {
        let graph = graph(&[
            ("design", "architect"),
            ("end", "a \"quoted\" [one]"),
            ("o-x_y", "prüfer & \\n"),
        ]);
        insta::assert_snapshot!(graph.mermaid(), @r#"
        flowchart TD
            s1["design<br/>architect"]
            s2["end<br/>a #34;quoted#34; #91;one#93;"]
            s3["o-x_y<br/>prüfer #38; #92;n"]
            s1 --> s2
            s1 --> s3
            s2 --> s3
        "#);
        insta::assert_snapshot!(graph.dot(), @r#"
        digraph "say \"hi\" & go" {
            rankdir=TB;
            node [shape=box, style=rounded];
            "design" [label="design\narchitect"];
            "end" [label="end\na \"quoted\" [one]"];
            "o-x_y" [label="o-x_y\nprüfer &amp; \\n"];
            "design" -> "end";
            "design" -> "o-x_y";
            "end" -> "o-x_y";
        }
        "#);
    }

    #[test]
    fn ways_besides_the_order_are_drawn_with_what_they_depend_on() {
        let id = |id: &str| StepId::parse(id).unwrap();
        let set = |name: &str| {
            Step::new(
                id(name),
                StepKind::Set {
                    entries: Map::default(),
                },
            )
        };
        let arm = |condition: Option<&str>, next| Arm {
            condition: condition.map(str::to_owned),
            next,
        };
        let arms = vec![
            arm(Some("a == \"x\""), Next::Step(id("work"))),
            arm(None, Next::End),
        ];
        let steps = vec![
            Step {
                on_error: OnError::Step(id("help")),
                ..set("work")
            },
            Step {
                depends_on: vec![id("work")],
                ..Step::new(id("route"), StepKind::Branch { arms })
            },
            Step {
                depends_on: vec![id("route")],
                next: Some(Next::Step(id("work"))),
                ..set("help")
            },
        ];
        let graph = GraphView {
            name: "w".to_owned(),
            nodes: steps.iter().map(node).collect(),
            edges: edges(&steps),
        };
        insta::assert_snapshot!(graph.mermaid(), @r#"
        flowchart TD
            s1["work"]
            s2["route"]
            s3["help"]
            e(("end"))
            s1 -.->|"on error"| s3
            s1 --> s2
            s2 -->|"a #61;#61; #34;x#34;"| s1
            s2 -->|"else"| e
            s3 --> s1
        "#);
        insta::assert_snapshot!(graph.dot(), @r#"
        digraph "w" {
            rankdir=TB;
            node [shape=box, style=rounded];
            "work" [label="work"];
            "route" [label="route"];
            "help" [label="help"];
            "$end" [label="end", shape=circle];
            "work" -> "help" [label="on error", style=dashed];
            "work" -> "route";
            "route" -> "work" [label="a == \"x\""];
            "route" -> "$end" [label="else"];
            "help" -> "work";
        }
        "#);
    }

    /// What Mermaid would make a list, a rule, emphasis, an entity or a style of.
    #[test]
    fn mermaid_sees_no_markup_in_a_name() {
        for (text, escaped) in [
            ("1. first", "1#46; first"),
            ("- x", "#45; x"),
            ("---", "#45;#45;#45;"),
            ("__init__", "#95;#95;init#95;#95;"),
            ("#quot;", "#35;quot#59;"),
            ("style a:#x;", "style a#58;#35;x#59;"),
            ("v1.2-rc_3", "v1.2-rc_3"),
            ("`x`", "#96;x#96;"),
            ("日本 😀", "日本 #128512;"),
        ] {
            assert_eq!(mermaid_escaped(text), escaped);
        }
    }

    /// What Mermaid shows for an escaped text.
    fn mermaid_shown(escaped: &str) -> String {
        let mut parts = escaped.split('#');
        let first = parts.next().unwrap().to_owned();
        parts.fold(first, |shown, part| {
            let (code, rest) = part.split_once(';').unwrap();
            let letter = char::from_u32(code.parse().unwrap()).unwrap();
            format!("{shown}{letter}{rest}")
        })
    }

    /// What Graphviz shows for a quoted string that begins `text`, and what follows it.
    fn dot_shown(text: &str) -> (String, &str) {
        let mut shown = String::new();
        let mut letters = text.strip_prefix('"').unwrap().char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => return (shown.replace("&amp;", "&"), &text[at + 2..]),
                '\\' => match letters.next().unwrap().1 {
                    'n' => shown.push('\n'),
                    escaped @ ('\\' | '"') => shown.push(escaped),
                    other => panic!("\\{other} in {text}"),
                },
                _ => shown.push(letter),
            }
        }
        panic!("no end: {text}");
    }

    proptest! {
        #[test]
        fn every_name_is_shown_as_it_is(agent in "\\PC{1,40}", punctuation in "[!-/:-@\\[-`{-~ a1]{1,20}") {
            for name in [agent, punctuation] {
                let escaped = mermaid_escaped(&name);
                prop_assert_eq!(mermaid_shown(&escaped), name.clone());
                let special = |letter: char| letter.is_ascii() && !letter.is_ascii_alphanumeric();
                prop_assert!(!escaped.contains(|c| special(c) && !" #;-_.".contains(c)), "{}", escaped);
                let quoted = format!("\"{}\"];", dot_escaped(&name));
                prop_assert_eq!(dot_shown(&quoted), (name, "];"));
            }
        }
    }
}
