//! A workflow as a picture: its steps and who waits for whom, as data and as text for the two programs
//! that most people draw with.

mod dot;
mod mermaid;
mod standing;
mod svg;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::standing::Standing;
use crate::domain::{
    body::Body,
    definition::{Arm, Join, Losers, Next, OnError, RunWhen, Step, StepKind, Workflow},
    grammar,
    id::StepId,
};

/// The steps of a workflow and the order between them.
///
/// Invariant: node ids are distinct, and every edge joins two of them, or one with the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphView {
    /// The workflow's name.
    pub name: String,
    /// The steps, in authoring order.
    pub nodes: Vec<GraphNode>,
    /// The dependencies, and where control goes besides, in the order of the steps that say so. One may lead to
    /// [`grammar::END`], which is no step.
    pub edges: Vec<GraphEdge>,
    /// The hooks of the workflow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<GraphBeside>,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphNode {
    /// Its id.
    pub id: String,
    /// Who acts; null where no agent does.
    pub agent: Option<String>,
    /// What it does; empty where the file does not say.
    pub description: String,
    /// Its kind: `agent`, `gate`, `wait`, `branch`, `foreach`…
    #[serde(default)]
    pub kind: String,
    /// Where it stands in an execution, where the graph is that of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
    /// The workflow that it runs as a child, where it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// How many of the steps before it are waited for, where not all are: `any of 3`, `2 of 3`; and `the others are
    /// cancelled` where they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join: Option<String>,
    /// Its hooks, and what takes its effect back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<GraphBeside>,
    /// Whether it runs once the execution is failing: a step of `on_failure`. No edge leads to it from the others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_failure: bool,
}

/// A hook, or what takes an effect back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphBeside {
    /// The key that declares it: `on_success`, `on_failure`, `on_complete` or `compensate`.
    pub body: String,
    /// Its kind, and what of: `set`, `activity NAME`, `run CATALOG OPERATION`, `workflow NAME`.
    pub does: String,
    /// Whether its failure is that of what it belongs to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// Whether it is for each item of a `foreach`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub each: bool,
}

/// A way from one step to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
            hooks: beside(&workflow.bodies, false).collect(),
        }
    }

    /// In which wave each step comes: after all that it waits for, and after what leads to it from above. Control that goes
    /// back makes no wave of its own.
    pub fn waves(&self) -> Vec<usize> {
        let position = |id: &str| self.nodes.iter().position(|node| node.id == id);
        let ways: Vec<_> = self
            .edges
            .iter()
            .filter_map(|edge| Some((position(&edge.from)?, position(&edge.to)?, edge.kind)))
            .filter(|(from, to, kind)| from < to || *kind == EdgeKind::DependsOn)
            .collect();
        let mut waves = vec![0; self.nodes.len()];
        // As often as there are steps: then every way, however long, has been gone.
        for _ in 0..self.nodes.len() {
            let mut has_moved = false;
            for (from, to, _) in &ways {
                let next = (waves[*from] + 1).min(self.nodes.len());
                if waves[*to] < next {
                    waves[*to] = next;
                    has_moved = true;
                }
            }
            if !has_moved {
                break;
            }
        }
        waves
    }

    /// Whether control is led to the end from somewhere.
    fn ends(&self) -> bool {
        self.edges.iter().any(|edge| edge.to == grammar::END)
    }

    /// The steps with their positions from 1: those of `on_failure`, or all others.
    fn part(&self, on_failure: bool) -> impl Iterator<Item = (usize, &GraphNode)> {
        let nodes = (1..).zip(&self.nodes);
        nodes.filter(move |(_, node)| node.on_failure == on_failure)
    }

    /// Whether steps stand in a part of their own.
    fn has_parts(&self) -> bool {
        self.part(true).next().is_some()
    }
}

impl GraphNode {
    /// The lines that are shown in the box.
    fn label(&self) -> impl Iterator<Item = &str> {
        let own = [&self.agent, &self.workflow, &self.join];
        let own = own.into_iter().filter_map(|line| line.as_deref());
        std::iter::once(self.id.as_str()).chain(own)
    }
}

impl GraphBeside {
    /// The lines that are shown in the box.
    fn label(&self) -> [String; 2] {
        let each = if self.each { " of each item" } else { "" };
        let required = if self.required { ", required" } else { "" };
        [format!("{}{each}{required}", self.body), self.does.clone()]
    }
}

fn node(step: &Step) -> GraphNode {
    let of_step = beside(&step.bodies, false);
    let each = step.each().into_iter();
    let of_each = each.flat_map(|each| beside(&each.bodies, true));
    GraphNode {
        id: step.id.as_str().to_owned(),
        agent: step.agent().map(|agent| agent.as_str().to_owned()),
        description: step.description.clone(),
        kind: step.kind.as_str().to_owned(),
        standing: None,
        workflow: match &step.acting().kind {
            StepKind::Workflow { name } => Some(name.clone()),
            _ => None,
        },
        join: join(step),
        beside: of_step.chain(of_each).collect(),
        on_failure: is_failing(step),
    }
}

/// How many of the steps before are waited for, where not all are.
fn join(step: &Step) -> Option<String> {
    let Join::Quorum(wanted) = step.join else {
        return None;
    };
    let wanted = match wanted {
        1 => "any".to_owned(),
        wanted => wanted.to_string(),
    };
    let others = match step.losers {
        Losers::Finish => "",
        Losers::Cancel => ", the others are cancelled",
    };
    Some(format!("{wanted} of {}{others}", step.depends_on.len()))
}

fn beside(bodies: &BTreeMap<Body, Step>, each: bool) -> impl Iterator<Item = GraphBeside> {
    bodies.iter().map(move |(body, step)| GraphBeside {
        body: body.as_str().to_owned(),
        does: does(&step.kind),
        required: step.required,
        each,
    })
}

/// The kind of a step that the server does, and what it is of.
fn does(kind: &StepKind) -> String {
    let word = kind.as_str();
    match kind {
        StepKind::Run {
            catalog, operation, ..
        } => format!("{word} {catalog} {operation}"),
        StepKind::Activity { name, .. } | StepKind::Workflow { name } => format!("{word} {name}"),
        _ => word.to_owned(),
    }
}

fn edges(steps: &[Step]) -> Vec<GraphEdge> {
    let mut edges = Vec::new();
    for step in steps {
        // A step of `on_failure` comes after the failure, wherever that was, and not after the steps that it reads.
        let crosses = |before: &Step| before.run_when != step.run_when && is_failing(step);
        let leads = |before: &Step| leads(before) || crosses(before);
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

/// Whether it is a step of `on_failure`.
fn is_failing(step: &Step) -> bool {
    step.run_when == RunWhen::Failing
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Map;

    use super::{dot::escaped as dot_escaped, mermaid::escaped as mermaid_escaped, *};

    /// A graph with one step for each (id, agent), each after all those before it.
    fn graph(steps: &[(&str, &str)]) -> GraphView {
        let nodes = steps.iter().map(|(id, agent)| GraphNode {
            id: (*id).to_owned(),
            agent: Some((*agent).to_owned()),
            description: String::new(),
            kind: "agent".to_owned(),
            standing: None,
            workflow: None,
            join: None,
            beside: Vec::new(),
            on_failure: false,
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
            hooks: Vec::new(),
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
            hooks: Vec::new(),
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

    /// Ways back make no wave, and each of the others leads to a later one.
    #[test]
    fn steps_stand_in_waves() {
        let mut graph = graph(&[("a", "x"), ("b", "x"), ("c", "x")]);
        graph.edges.retain(|edge| edge.from == "a");
        graph.edges.push(GraphEdge {
            from: "c".to_owned(),
            to: "a".to_owned(),
            kind: EdgeKind::Branch,
            label: None,
        });
        assert_eq!(graph.waves(), [0, 1, 1]);
        // A cycle of dependencies, which no checked workflow has, ends too.
        graph.edges[0].kind = EdgeKind::DependsOn;
        graph.edges.push(GraphEdge {
            from: "b".to_owned(),
            to: "a".to_owned(),
            kind: EdgeKind::DependsOn,
            label: None,
        });
        assert!(graph.waves().iter().all(|wave| *wave <= 3));
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
