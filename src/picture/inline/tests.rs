//! Tests of the graph inside an HTML page.

use midex_domain::view::{EdgeKind, GraphEdge, GraphView, NodeProgress};

use crate::{INLINE_STYLE, inline_svg, svg, tests::graph};

/// The parts of a page that its policy forbids, and ids, which would clash with those of other pictures.
pub(crate) const FORBIDDEN: &[&str] =
    &["<style", " style=", "xmlns", "<script", " onload", " id=", "url(#"];

/// A graph of an execution: a visit again, and items of which some failed.
pub(crate) fn execution() -> GraphView {
    let mut graph = graph(&[("plan", "architect"), ("build", "implementer")]);
    graph.nodes[1].kind = "foreach".to_owned();
    graph.nodes[0].standing =
        Some(NodeProgress { status: "completed".to_owned(), visits: 3, ..Default::default() });
    graph.nodes[1].standing = Some(NodeProgress {
        status: "running".to_owned(),
        visits: 1,
        items_done: Some(7),
        items_failed: 2,
        items: Some(10),
    });
    graph
}

#[test]
fn a_node_is_a_link_with_its_state() {
    let mut graph = execution();
    graph.nodes[0].id = "\"><script>x</script>\u{202e}".to_owned();
    graph.edges[0].from = graph.nodes[0].id.clone();
    let link = |id: &str| (id != "build").then(|| format!("/steps?a=\"'&b={id}"));
    let picture = inline_svg(&graph, &|node| link(&node.id));
    for part in FORBIDDEN {
        assert!(!picture.contains(part), "{part}: {picture}");
    }
    for part in [
        "<svg class=\"graph\" ",
        "role=\"group\" aria-label=\"say &quot;hi&quot; &amp; go\"",
        "<a href=\"/steps?a=&quot;'&amp;b=&quot;&gt;&lt;script&gt;x&lt;/script&gt;\">",
        "<title>&quot;&gt;&lt;script&gt;x&lt;/script&gt;, completed, 3 visits\n",
        "<g role=\"img\" aria-label=\"build, running, 7 of 10 items, 2 failed\">",
        "×3</text>",
        ">● build</text>",
        ">7/10 items, 2 failed</text>",
        "<path class=\"a\" ",
    ] {
        assert!(picture.contains(part), "{part}: {picture}");
    }
    for (open, close) in [("<a ", "</a>"), ("<g", "</g>"), ("<text", "</text>"), ("<svg", "</svg>")]
    {
        assert_eq!(picture.matches(open).count(), picture.matches(close).count(), "{open}");
    }
}

/// Five of ten items succeeded and two failed, so the bar has a half and a fifth of its width.
#[test]
fn the_items_of_a_foreach_are_a_bar() {
    for picture in [svg(&execution()), inline_svg(&execution(), &|_| None)] {
        let width = |class: &str| {
            let part = picture.split(&format!("<rect class=\"{class}\" ")).last().unwrap();
            let (_, width) = part.split_once(" width=\"").unwrap();
            width.split_once('"').unwrap().0.parse::<i64>().unwrap()
        };
        let (whole, succeeded, failed) = (width("n"), width("n completed"), width("n failed"));
        assert_eq!(succeeded, whole / 2, "{picture}");
        assert_eq!(succeeded + failed, whole * 7 / 10, "{picture}");
    }
}

/// The arrow head has its point at the end of the edge, whether that leads down, up, or back to its own step.
#[test]
fn edges_end_with_arrows() {
    let mut graph = graph(&[("a", "x"), ("b", "y")]);
    let edge = |from: &str, to: &str| GraphEdge {
        from: from.to_owned(),
        to: to.to_owned(),
        kind: EdgeKind::Next,
        label: None,
    };
    graph.edges = vec![edge("a", "b"), edge("b", "a"), edge("b", "b")];
    let picture = inline_svg(&graph, &|_| None);
    let mut bases = Vec::new();
    for line in picture.lines().filter(|line| line.starts_with("<path class=\"w\"")) {
        let (edge, arrow) = line.split_once("/><path class=\"a\" d=\"M").unwrap();
        let point = arrow.split(['L', 'z']).nth(1).unwrap();
        let numbers = |text: &str| -> Vec<i64> {
            text.split(' ').map(|number| number.parse().unwrap()).collect()
        };
        let (base, point) = (numbers(arrow.split('L').next().unwrap())[1], numbers(point));
        let end_y = edge.trim_end_matches('"').rsplit(['V', ' ']).next().unwrap();
        assert_eq!(end_y.parse(), Ok(point[1]), "{line}");
        bases.push((point[1] - base).signum());
    }
    assert_eq!(bases, [1, -1, -1], "{picture}");
}

#[test]
fn the_style_is_dark_where_the_reader_wants_it() {
    let (light, rest) = INLINE_STYLE.split_once("@media (prefers-color-scheme: dark){").unwrap();
    let (dark, rules) = rest.split_once("}}").unwrap();
    let names = |text: &str| -> Vec<String> {
        let parts = text.split([';', '{']).map(str::trim);
        let values = parts.filter_map(|part| part.split_once(':'));
        values.map(|(name, _)| name.to_owned()).filter(|name| name.starts_with("--")).collect()
    };
    assert_eq!(names(light), names(dark));
    for rule in rules.split('}').map(str::trim).filter(|rule| !rule.is_empty()) {
        let (selectors, body) = rule.split_once('{').unwrap();
        for selector in selectors.split(',') {
            let is_below = [".graph ", ".timeline "].iter().any(|root| selector.starts_with(root));
            assert!(is_below, "{selector}");
        }
        assert!(!body.contains('#'), "a color outside of the properties: {rule}");
        for used in body.split("var(").skip(1) {
            let name = used.split(')').next().unwrap();
            assert!(names(light).iter().any(|it| it == name), "{name}");
        }
    }
    assert!(rules.contains(".graph a:focus-visible,.timeline a:focus-visible{outline:3px solid"));
}

/// As many steps as a workflow may have, with ten edges each: between neighbours, and from any step to any later one. Tests
/// are built with optimization.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test measures how long a picture takes")]
fn a_graph_of_500_steps_is_drawn_at_once() {
    let ids: Vec<String> = (0..500).map(|at| format!("step-{at}")).collect();
    let steps: Vec<_> = ids.iter().map(|id| (id.as_str(), "agent")).collect();
    let mut graph = graph(&steps);
    let number = |id: &str| id[5..].parse::<usize>().unwrap();
    let pairs = graph.edges.iter().map(|edge| (number(&edge.from), number(&edge.to)));
    let pairs: Vec<_> = pairs.collect();
    let is_layered =
        |(from, to): (usize, usize)| from / 25 + 1 == to / 25 && (from * 7 + to * 3) % 25 < 11;
    let is_far: fn((usize, usize)) -> bool =
        |(from, to)| (from * 7_919 + to * 104_729) % 1_009 < 41;
    let is_near: fn((usize, usize)) -> bool =
        |(from, to)| to - from <= 30 && (from * 7 + to * 3) % 35 < 12;
    let graphs = [is_layered, is_far, is_near];
    let all_edges = std::mem::take(&mut graph.edges);
    for (name, is_edge) in ["layers", "far", "near"].into_iter().zip(graphs) {
        let edges = all_edges.iter().zip(&pairs).filter(|(_, pair)| is_edge(**pair));
        graph.edges = edges.map(|(edge, _)| edge.clone()).collect();
        assert!(graph.edges.len() > 4_500, "{name}: {}", graph.edges.len());
        let start = std::time::Instant::now();
        let picture = inline_svg(&graph, &|node| Some(format!("#{}", node.id)));
        let elapsed = start.elapsed();
        assert_eq!(picture.matches("<a ").count(), 500);
        assert_eq!(picture.matches("class=\"w\"").count(), graph.edges.len());
        assert!(elapsed.as_millis() < 3_000, "{name}: {elapsed:?}");
    }
}
