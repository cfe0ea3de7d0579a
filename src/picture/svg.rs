//! The graph of a workflow as a self-contained SVG picture. Its colors are readable on light and dark backgrounds, and
//! no information depends on color alone.

use std::fmt::Write;

use crate::{
    boxes::{BEHIND, Face, LINE, PADDING, SMALL_LINE, Shape},
    layout::{
        Layout, PartFrame,
        rows::{Content, WAY},
    },
    lines::int,
    words,
};
use midex_domain::{
    view::{GraphEdge, GraphNode, GraphView},
    visible::mark_hidden_chars,
};

const STYLE: &str = "text{font:13px ui-monospace,SFMono-Regular,Menlo,monospace;fill:#57606a;text-anchor:middle}\
.n{fill:#f6f8fa;stroke:#57606a;stroke-width:1.3}.t{fill:#1f2328;font-weight:600}.c{fill:#fff8c5;stroke:#9a6700}\
.c,.f{stroke-width:1.3}.i{fill:#7d4e00}.w,.f{fill:none;stroke:#8c959f}.w{stroke-width:1.3}\
.i,.l{font-size:11px}.d,.w.e,.f{stroke-dasharray:5 3}.e{stroke:#cf222e}text.e{fill:#cf222e;stroke:none}.h{text-anchor:start}\
.completed{fill:#dafbe1;stroke:#1a7f37}.running{fill:#ddf4ff;stroke:#0969da;stroke-width:2.2}\
.failed{fill:#ffebe9;stroke:#cf222e}.skipped{fill:#f6f8fa;stroke:#8c959f;stroke-dasharray:2 3}\
@media(prefers-color-scheme:dark){.l{fill:#9ea7b3}text.e{fill:#ff7b72}}";

/// The states of a step that have a style.
const STATES: &[&str] = &["completed", "running", "failed", "skipped"];

/// The depth of the curve with which a loop turns.
const TURN: i64 = 16;

/// The graph as an SVG picture.
pub fn svg(graph: &GraphView) -> String {
    let layout = Layout::of(graph);
    let (width, height) = (layout.width, layout.height);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\">\n<title>{}</title>\n<style>{STYLE}</style>\n<defs>{}{}</defs>\n",
        escaped(&graph.name),
        arrow("a", "#8c959f"),
        arrow("b", "#cf222e")
    );
    for frame in &layout.frames {
        frame.draw(&mut text);
    }
    for part in &layout.parts {
        let is_error = |edge: usize| words::is_error(&graph.edges[edge]);
        let mut paths: Vec<_> = part.paths().collect();
        // Error edges are drawn first, so that they lie below the others.
        paths.sort_by_key(|(edge, _)| !is_error(*edge));
        for (edge, pieces) in paths {
            line(&mut text, &pieces, is_error(edge));
        }
        for cell in &part.cells {
            match &cell.content {
                Content::Box(node, face) => {
                    let node = node.map(|at| &graph.nodes[at]);
                    face.draw(node, (cell.x, cell.y), &mut text);
                }
                Content::Way(edge, lines) if !lines.is_empty() => {
                    label(&mut text, &graph.edges[*edge], lines, (cell.x, cell.y + WAY));
                }
                Content::Way(..) => {}
            }
        }
    }
    text.push_str("</svg>\n");
    text
}

/// The CSS class of the step's state in an execution; empty if it has none.
fn state(node: Option<&GraphNode>) -> &str {
    let standing = node.and_then(|node| node.standing.as_ref());
    let state = standing.map(|standing| standing.status.as_str());
    state.filter(|state| STATES.contains(state)).unwrap_or_default()
}

fn arrow(id: &str, color: &str) -> String {
    format!(
        "<marker id=\"{id}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
         orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"{color}\"/></marker>"
    )
}

impl PartFrame {
    fn draw(&self, text: &mut String) {
        let (class, (x, y)) = (self.class, self.corner);
        let frame = rectangle(self.corner, self.size, &format!("f {class}"), 6);
        let (x, y) = (x + PADDING, y + LINE + 2);
        let title = escaped(self.title);
        let _ =
            writeln!(text, "{frame}<text class=\"l h {class}\" x=\"{x}\" y=\"{y}\">{title}</text>");
    }
}

/// The line of an edge.
fn line(text: &mut String, pieces: &[Vec<(i64, i64)>], is_error: bool) {
    let (class, marker) = if is_error { ("w e", "b") } else { ("w", "a") };
    let mut path = String::new();
    for piece in pieces {
        let _ = write!(path, "M{} {}", piece[0].0, piece[0].1);
        for pair in piece.windows(2) {
            let ((from_x, from_y), (x, y)) = (pair[0], pair[1]);
            // Between points of the same height the line turns below them.
            let middle = if from_y == y { y + TURN } else { from_y.midpoint(y) };
            let _ = if from_x == x {
                write!(path, "V{y}")
            } else {
                write!(path, "C{from_x} {middle} {x} {middle} {x} {y}")
            };
        }
    }
    let _ = writeln!(text, "<path class=\"{class}\" d=\"{path}\" marker-end=\"url(#{marker})\"/>");
}

/// The label of an edge.
fn label(text: &mut String, edge: &GraphEdge, words: &[String], (x, y): (i64, i64)) {
    let class = if words::is_error(edge) { "l e" } else { "l" };
    let whole = words::edge_words(edge).unwrap_or_default();
    let _ = write!(text, "<g><title>{}</title>", escaped(&whole));
    lines(text, words, class, (x, y, SMALL_LINE));
    text.push_str("</g>\n");
}

impl Face {
    fn draw(&self, node: Option<&GraphNode>, (x, y): (i64, i64), text: &mut String) {
        let (cap_width, cap_height) = self.cap_size();
        text.push_str("<g>");
        if let Some(node) = node {
            let _ = write!(text, "<title>{}</title>", escaped(&words::tooltip(node)));
        }
        if cap_height > 0 {
            *text += &rectangle((x - cap_width / 2, y), (cap_width, cap_height), "c", 3);
            lines(text, &self.cap, "i", (x, y + 3, SMALL_LINE));
        }
        let y = y + cap_height + self.behind();
        *text += &shape(self, (x - self.body.0 / 2, y), state(node));
        let first = y + (self.body.1 - int(self.lines.len()) * LINE) / 2 - 1;
        let (name, rest) = self.lines.split_at(self.name);
        lines(text, name, "t", (x, first, LINE));
        lines(text, rest, "", (x, first + int(name.len()) * LINE, LINE));
        text.push_str("</g>\n");
    }
}

/// The outline of the box, whose shape tells the kind of the step.
fn shape(face: &Face, (x, y): (i64, i64), state: &str) -> String {
    let (width, height) = face.body;
    let class = match (face.shape, state) {
        (Shape::Hook, _) => "n d".to_owned(),
        (Shape::Fail, "") => "n e".to_owned(),
        (_, "") => "n".to_owned(),
        (_, state) => format!("n {state}"),
    };
    let frame = |place, size, radius| rectangle(place, size, &class, radius);
    let plain = |radius| frame((x, y), (width, height), radius);
    let (right, under) = (x + width, y + height);
    let (middle, center) = (y + height / 2, x + width / 2);
    let (slant, end) = (x + PADDING, right - PADDING);
    let path = |d: String| format!("<path class=\"{class}\" d=\"{d}\"/>");
    match face.shape {
        Shape::Gate => {
            path(format!("M{slant} {y}H{end}L{right} {middle}L{end} {under}H{slant}L{x} {middle}z"))
        }
        Shape::Branch => {
            path(format!("M{center} {y}L{right} {middle}L{center} {under}L{x} {middle}z"))
        }
        Shape::Wait => plain(LINE + PADDING / 2),
        Shape::Each => {
            let behind = frame((x + BEHIND, y - BEHIND), (width, height), 6);
            behind + &plain(6)
        }
        Shape::Child => {
            let inner = ((x + 4, y + 4), (width - 8, height - 8));
            plain(2) + &rectangle(inner.0, inner.1, "w", 2)
        }
        Shape::Fail => plain(0),
        Shape::End => plain(LINE),
        Shape::Plain | Shape::Hook => plain(6),
    }
}

fn rectangle((x, y): (i64, i64), (width, height): (i64, i64), class: &str, radius: i64) -> String {
    format!(
        "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{radius}\"/>"
    )
}

/// Centered lines of text below a position.
fn lines(text: &mut String, lines: &[String], class: &str, (x, y, high): (i64, i64, i64)) {
    let class = match class {
        "" => String::new(),
        class => format!(" class=\"{class}\""),
    };
    for (line, at) in lines.iter().zip(1..) {
        // The y coordinate is the baseline, and some letters reach below it.
        let y = y + at * high - high / 4;
        let _ = write!(text, "<text{class} x=\"{x}\" y=\"{y}\">{}</text>", escaped(line));
    }
}

/// Escapes a text for an element. Control characters are not allowed in XML.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (letter, is_hidden) in mark_hidden_chars(text) {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push(letter),
            letter if letter.is_control() => escaped.push('\u{fffd}'),
            // Invisible characters are dropped: they could reverse text or make different names look alike.
            _ if is_hidden => {}
            letter => escaped.push(letter),
        }
    }
    escaped
}
