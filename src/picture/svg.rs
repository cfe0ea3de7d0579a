//! The graph of a workflow as a self-contained SVG picture. Its colors are readable on light and dark backgrounds, and
//! no information depends on color alone.

use std::fmt::Write;

use crate::{
    boxes::{BEHIND, Face, LINE, PADDING, SMALL_LINE, Shape},
    layout::{EdgePiece, Frame, Layout, Placed, Sign},
    lines::int,
    words,
};
use midex_domain::{view::GraphView, visible::marked};

const STYLE: &str = "text{font:13px ui-monospace,SFMono-Regular,Menlo,monospace;fill:#57606a;text-anchor:middle}\
.n{fill:#f6f8fa;stroke:#57606a;stroke-width:1.3}.t{fill:#1f2328;font-weight:600}.c{fill:#fff8c5;stroke:#9a6700}\
.c,.f{stroke-width:1.3}.i{fill:#7d4e00}.w,.f{fill:none;stroke:#8c959f}.w{stroke-width:1.3}\
.i,.l{font-size:11px}.d,.w.e,.f{stroke-dasharray:5 3}.e{stroke:#cf222e}text.e{fill:#cf222e;stroke:none}.h{text-anchor:start}\
.completed{fill:#dafbe1;stroke:#1a7f37}.running{fill:#ddf4ff;stroke:#0969da;stroke-width:2.2}\
.failed{fill:#ffebe9;stroke:#cf222e}.skipped{fill:#f6f8fa;stroke:#8c959f;stroke-dasharray:2 3}\
@media(prefers-color-scheme:dark){.l{fill:#9ea7b3}text.e{fill:#ff7b72}}";

/// The states of a step that have a style.
const STATES: &[&str] = &["completed", "running", "failed", "skipped"];

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
    // Error edges are drawn first, so that they lie below the others.
    let (errors, others): (Vec<_>, Vec<_>) = layout
        .ways
        .iter()
        .partition(|way| words::is_error(&graph.edges[way.edge]));
    for way in errors.into_iter().chain(others) {
        way.draw(graph, &mut text);
    }
    for placed in &layout.boxes {
        placed.draw(graph, &mut text);
    }
    for sign in &layout.signs {
        sign.draw(graph, &mut text);
    }
    text.push_str("</svg>\n");
    text
}

/// The CSS class of the step's state in an execution; empty if it has none.
fn state<'a>(graph: &'a GraphView, placed: &Placed) -> &'a str {
    let node = placed.node.map(|at| &graph.nodes[at]);
    let standing = node.and_then(|node| node.standing.as_ref());
    let state = standing.map(|standing| standing.status.as_str());
    state
        .filter(|state| STATES.contains(state))
        .unwrap_or_default()
}

fn arrow(id: &str, color: &str) -> String {
    format!(
        "<marker id=\"{id}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
         orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"{color}\"/></marker>"
    )
}

impl Frame {
    fn draw(&self, text: &mut String) {
        let (class, x, y) = (self.class, self.x, self.y);
        let place = ((x, y), (self.width, self.height));
        let frame = rectangle(place.0, place.1, &format!("f {class}"), 6);
        let (x, y) = (x + PADDING, y + LINE + 2);
        let title = escaped(self.title);
        let _ = writeln!(
            text,
            "{frame}<text class=\"l h {class}\" x=\"{x}\" y=\"{y}\">{title}</text>"
        );
    }
}

impl EdgePiece {
    fn draw(&self, graph: &GraphView, text: &mut String) {
        let (class, marker) = if words::is_error(&graph.edges[self.edge]) {
            ("w e", "b")
        } else {
            ("w", "a")
        };
        let mut path = String::new();
        let mut before = None;
        for (x, y) in &self.points {
            let _ = match before {
                None => write!(path, "M{x} {y}"),
                Some((_, same)) if same == y => write!(path, "H{x}"),
                Some(_) => write!(path, "V{y}"),
            };
            before = Some((x, y));
        }
        let marker = if self.arrives {
            format!(" marker-end=\"url(#{marker})\"")
        } else {
            String::new()
        };
        let _ = writeln!(text, "<path class=\"{class}\" d=\"{path}\"{marker}/>");
    }
}

impl Sign {
    fn draw(&self, graph: &GraphView, text: &mut String) {
        let edge = &graph.edges[self.edge];
        let class = if words::is_error(edge) { "l e" } else { "l" };
        let whole = words::edge_words(edge).unwrap_or_default();
        let _ = write!(text, "<g><title>{}</title>", escaped(&whole));
        lines(text, &self.lines, class, (self.x, self.y, SMALL_LINE));
        text.push_str("</g>\n");
    }
}

impl Placed {
    fn draw(&self, graph: &GraphView, text: &mut String) {
        let node = self.node.map(|at| &graph.nodes[at]);
        let state = state(graph, self);
        let (cap_width, cap_height) = self.face.cap_size();
        text.push_str("<g>");
        if let Some(node) = node {
            let _ = write!(text, "<title>{}</title>", escaped(&words::tooltip(node)));
        }
        if cap_height > 0 {
            let corner = (self.x - cap_width / 2, self.y);
            *text += &rectangle(corner, (cap_width, cap_height), "c", 3);
            lines(text, &self.face.cap, "i", (self.x, self.y + 3, SMALL_LINE));
        }
        let y = self.y + cap_height + self.face.behind();
        let x = self.x - self.face.body.0 / 2;
        *text += &shape(&self.face, (x, y), state);
        let first = y + (self.face.body.1 - int(self.face.lines.len()) * LINE) / 2 - 1;
        let (name, rest) = self.face.lines.split_at(self.face.name);
        lines(text, name, "t", (self.x, first, LINE));
        let rest_at = first + int(name.len()) * LINE;
        lines(text, rest, "", (self.x, rest_at, LINE));
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
        Shape::Gate => path(format!(
            "M{slant} {y}H{end}L{right} {middle}L{end} {under}H{slant}L{x} {middle}z"
        )),
        Shape::Branch => path(format!(
            "M{center} {y}L{right} {middle}L{center} {under}L{x} {middle}z"
        )),
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
        let _ = write!(
            text,
            "<text{class} x=\"{x}\" y=\"{y}\">{}</text>",
            escaped(line)
        );
    }
}

/// Escapes a text for an element. Control characters are not allowed in XML.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (letter, is_hidden) in marked(text) {
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
