//! Tests of the graph in the languages of other programs.

use midex_domain::view::{EdgeKind, GraphEdge, GraphNode, GraphView};
use proptest::prelude::*;

use crate::{dot::Dot, language::Language, mermaid::Mermaid};

/// A graph with one step for each (id, agent), each after all those before it.
pub(crate) fn graph(steps: &[(&str, &str)]) -> GraphView {
    let nodes = steps.iter().map(|(id, agent)| GraphNode {
        id: (*id).to_owned(),
        agent: Some((*agent).to_owned()),
        description: String::new(),
        kind: "agent".to_owned(),
        standing: None,
        workflow: None,
        join: None,
        thresholds: None,
        cancels: Vec::new(),
        condition: None,
        run_when: None,
        until: None,
        optional: false,
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
    let graph =
        graph(&[("design", "architect"), ("end", "a \"quoted\" [one]"), ("o-x_y", "prüfer & \\n")]);
    insta::assert_snapshot!(crate::mermaid(&graph), @r#"
    flowchart TD
        s1["design<br/>architect"]
        s2["end<br/>a #34;quoted#34; #91;one#93;"]
        s3["o-x_y<br/>prüfer #38; #92;n"]
        s1 --> s2
        s1 --> s3
        s2 --> s3
    "#);
    insta::assert_snapshot!(crate::dot(&graph), @r#"
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
    let mut graph = graph(&[("work", ""), ("route", ""), ("help", "")]);
    graph.nodes.iter_mut().for_each(|node| node.agent = None);
    graph.nodes[1].kind = "branch".to_owned();
    graph.name = "w".to_owned();
    let ways = [
        ("work", "help", EdgeKind::OnError, "on error"),
        ("work", "route", EdgeKind::DependsOn, ""),
        ("route", "work", EdgeKind::Branch, "a == \"x\""),
        ("route", "$end", EdgeKind::Branch, "else"),
        ("help", "work", EdgeKind::Next, ""),
    ];
    let edge = |(from, to, kind, label): (&str, &str, _, &str)| GraphEdge {
        from: from.to_owned(),
        to: to.to_owned(),
        kind,
        label: (!label.is_empty()).then(|| label.to_owned()),
    };
    graph.edges = ways.into_iter().map(edge).collect();
    insta::assert_snapshot!(crate::mermaid(&graph), @r##"
    flowchart TD
        s1["work"]
        s2{"route"}
        s3["help"]
        e(("end"))
        s1 -.->|"#10007; on error"| s3
        s1 --> s2
        s2 -->|"if a #61;#61; #34;x#34;"| s1
        s2 -->|"else"| e
        s3 --> s1
    "##);
    insta::assert_snapshot!(crate::dot(&graph), @r#"
    digraph "w" {
        rankdir=TB;
        node [shape=box, style=rounded];
        "work" [label="work"];
        "route" [label="route", shape=diamond, style=solid];
        "help" [label="help"];
        "$end" [label="end", shape=circle];
        "work" -> "help" [label="✗ on error", style=dashed, color=firebrick];
        "work" -> "route";
        "route" -> "work" [label="if a == \"x\""];
        "route" -> "$end" [label="else"];
        "help" -> "work";
    }
    "#);
}

/// Conditions, repetition and failures are shown as text in every format, and also in shapes and styles.
#[test]
fn conditions_and_failures_are_drawn() {
    let mut graph = graph(&[("a", "x"), ("b", "y"), ("c", "z")]);
    graph.nodes[0].condition = Some("inputs.sure".to_owned());
    graph.nodes[0].until = Some("ready".to_owned());
    graph.nodes[1].run_when = Some("failed".to_owned());
    graph.nodes[1].kind = "gate".to_owned();
    graph.nodes[2].kind = "fail".to_owned();
    graph.nodes[2].agent = None;
    insta::assert_snapshot!(crate::mermaid(&graph), @r#"
    flowchart TD
        s1["a<br/>x<br/>again until ready<br/>if inputs.sure"]:::maybe
        s2{{"b<br/>y<br/>only after a failure"}}:::maybe
        s3["c<br/>#10007; fail"]:::failed
        s1 --> s2
        s1 --> s3
        s2 --> s3
        classDef maybe fill:#fff8c5,stroke:#9a6700,color:#1f2328
        classDef failed stroke:#cf222e
    "#);
    insta::assert_snapshot!(crate::dot(&graph), @r#"
    digraph "say \"hi\" & go" {
        rankdir=TB;
        node [shape=box, style=rounded];
        "a" [label="a\nx\nagain until ready\nif inputs.sure", color=goldenrod4];
        "b" [label="b\ny\nonly after a failure", shape=hexagon, style=solid, color=goldenrod4];
        "c" [label="c\n✗ fail", shape=octagon, style=solid, color=firebrick];
        "a" -> "b";
        "a" -> "c";
        "b" -> "c";
    }
    "#);
    let svg = crate::svg(&graph);
    for words in ["if inputs.sure", "again until ready", "only after a failure", "✗ fail"] {
        assert!(svg.contains(words), "{words}: {svg}");
    }
}

/// Texts that Mermaid would parse as a list, a rule, emphasis, an entity or a style.
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
        assert_eq!(Mermaid::escape(text), escaped);
    }
}

/// The text that Mermaid displays for an escaped text.
fn mermaid_shown(escaped: &str) -> String {
    let mut parts = escaped.split('#');
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |shown, part| {
        let (code, rest) = part.split_once(';').unwrap();
        let letter = char::from_u32(code.parse().unwrap()).unwrap();
        format!("{shown}{letter}{rest}")
    })
}

/// The text that Graphviz displays for the quoted string at the start of `text`, and the rest after the string.
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
            let escaped = Mermaid::escape(&name);
            prop_assert_eq!(mermaid_shown(&escaped), name.clone());
            let special = |letter: char| letter.is_ascii() && !letter.is_ascii_alphanumeric();
            prop_assert!(!escaped.contains(|c| special(c) && !" #;-_.".contains(c)), "{}", escaped);
            let quoted = format!("\"{}\"];", Dot::escape(&name));
            prop_assert_eq!(dot_shown(&quoted), (name, "];"));
        }
    }
}
