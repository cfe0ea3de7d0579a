//! The graph of a workflow as a self-contained SVG picture. Its colors are readable on light and dark backgrounds, and
//! no information depends on color alone.

use std::fmt::Write;

use crate::{
    boxes::{LINE_HEIGHT, NodeBox, PADDING, SECOND_FRAME_OFFSET, SMALL_LINE_HEIGHT, Shape},
    inline::{self, NodeLink},
    layout::{
        Layout, PartFrame,
        rows::{CellContent, EDGE_WIDTH},
    },
    lines::to_i64,
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
const STYLED_STATES: &[&str] = &["completed", "running", "failed", "skipped"];

/// The depth of the curve with which a loop turns.
const LOOP_CURVE_DEPTH: i64 = 16;
/// The height of the bar of the items of a `foreach`.
const PROGRESS_HEIGHT: i64 = 6;

/// The graph as a self-contained SVG file. A node of an execution has the symbol of its state, and a `foreach` a
/// bar of its items.
pub fn svg(graph: &GraphView) -> String {
    draw_graph(graph, None)
}

fn format_file_head(name: &str, (width, height): (i64, i64)) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\">\n<title>{}</title>\n<style>{STYLE}</style>\n<defs>{}{}</defs>\n",
        escape_xml(name),
        format_arrow_marker("a", "#8c959f"),
        format_arrow_marker("b", "#cf222e")
    )
}

/// Draws the graph: with `links` as a part of a page, otherwise as a file.
pub(crate) fn draw_graph(graph: &GraphView, links: Option<NodeLink<'_>>) -> String {
    let layout = Layout::from_graph(graph);
    let size = (layout.width, layout.height);
    let mut text = match links {
        None => format_file_head(&graph.name, size),
        Some(_) => inline::format_head("graph", &graph.name, size),
    };
    for frame in &layout.frames {
        frame.draw(&mut text);
    }
    for part in &layout.parts {
        let is_error = |edge: usize| words::is_error(&graph.edges[edge]);
        let mut paths: Vec<_> = part.edge_paths().collect();
        // Error edges are drawn first, so that they lie below the others.
        paths.sort_by_key(|(edge, _)| !is_error(*edge));
        for (edge, pieces) in paths {
            draw_edge(&mut text, &pieces, is_error(edge), links.is_some());
        }
        for cell in &part.cells {
            match &cell.content {
                CellContent::Box(node, face) => {
                    let node = node.map(|at| &graph.nodes[at]);
                    face.draw(node, links, (cell.x, cell.y), &mut text);
                }
                CellContent::Edge(edge, lines) if !lines.is_empty() => {
                    draw_edge_label(
                        &mut text,
                        &graph.edges[*edge],
                        lines,
                        (cell.x, cell.y + EDGE_WIDTH),
                    );
                }
                CellContent::Edge(..) => {}
            }
        }
    }
    text.push_str("</svg>\n");
    text
}

/// The CSS class of the step's state in an execution; empty if it has none.
fn state_class(node: Option<&GraphNode>) -> &str {
    let standing = node.and_then(|node| node.standing.as_ref());
    let state = standing.map(|standing| standing.status.as_str());
    state.filter(|state| STYLED_STATES.contains(state)).unwrap_or_default()
}

fn format_arrow_marker(id: &str, color: &str) -> String {
    format!(
        "<marker id=\"{id}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
         orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"{color}\"/></marker>"
    )
}

impl PartFrame {
    fn draw(&self, text: &mut String) {
        let (class, (x, y)) = (self.class, self.corner);
        let frame = format_rectangle(self.corner, self.size, &format!("f {class}"), 6);
        let (x, y) = (x + PADDING, y + LINE_HEIGHT + 2);
        let title = escape_xml(self.title);
        let _ =
            writeln!(text, "{frame}<text class=\"l h {class}\" x=\"{x}\" y=\"{y}\">{title}</text>");
    }
}

/// The line of an edge. In a page it has no marker at its end, because several pictures would share the ids of their
/// markers.
fn draw_edge(text: &mut String, pieces: &[Vec<(i64, i64)>], is_error: bool, is_inline: bool) {
    let (class, marker) = if is_error { ("w e", "b") } else { ("w", "a") };
    let mut path = String::new();
    for piece in pieces {
        let _ = write!(path, "M{} {}", piece[0].0, piece[0].1);
        for pair in piece.windows(2) {
            let ((from_x, from_y), (x, y)) = (pair[0], pair[1]);
            // Between points of the same height the line turns below them.
            let middle = if from_y == y { y + LOOP_CURVE_DEPTH } else { from_y.midpoint(y) };
            let _ = if from_x == x {
                write!(path, "V{y}")
            } else {
                write!(path, "C{from_x} {middle} {x} {middle} {x} {y}")
            };
        }
    }
    let end = if is_inline {
        format!("/>{}", inline::format_arrow(pieces, is_error))
    } else {
        format!(" marker-end=\"url(#{marker})\"/>")
    };
    let _ = writeln!(text, "<path class=\"{class}\" d=\"{path}\"{end}");
}

/// The label of an edge.
fn draw_edge_label(text: &mut String, edge: &GraphEdge, words: &[String], (x, y): (i64, i64)) {
    let class = if words::is_error(edge) { "l e" } else { "l" };
    let whole = words::edge_label(edge).unwrap_or_default();
    let _ = write!(text, "<g><title>{}</title>", escape_xml(&whole));
    draw_text_lines(text, words, class, (x, y, SMALL_LINE_HEIGHT));
    text.push_str("</g>\n");
}

impl NodeBox {
    fn draw(
        &self,
        node: Option<&GraphNode>,
        links: Option<NodeLink<'_>>,
        (x, y): (i64, i64),
        text: &mut String,
    ) {
        let (cap_width, cap_height) = self.cap_size();
        let (start, end) = match node.zip(links) {
            Some((node, link)) => inline::format_node_tags(node, link),
            None => ("<g>".to_owned(), "</g>"),
        };
        *text += &start;
        if let Some(node) = node {
            let is_in_page = links.is_some();
            let tooltip = if is_in_page {
                words::spoken_tooltip_text(node)
            } else {
                words::tooltip_text(node)
            };
            let _ = write!(text, "<title>{}</title>", escape_xml(&tooltip));
        }
        if cap_height > 0 {
            *text += &format_rectangle((x - cap_width / 2, y), (cap_width, cap_height), "c", 3);
            draw_text_lines(text, &self.condition_lines, "i", (x, y + 3, SMALL_LINE_HEIGHT));
        }
        let y = y + cap_height + self.double_border_inset();
        *text += &format_outline(self, (x - self.body_size.0 / 2, y), state_class(node));
        let text_room = self.body_size.1 - self.progress_room();
        let first = y + (text_room - to_i64(self.lines.len()) * LINE_HEIGHT) / 2 - 1;
        let (name, rest) = self.lines.split_at(self.name_line_count);
        draw_text_lines(text, name, "t", (x, first, LINE_HEIGHT));
        draw_text_lines(text, rest, "", (x, first + to_i64(name.len()) * LINE_HEIGHT, LINE_HEIGHT));
        *text += &self.format_progress((x - self.body_size.0 / 2 + PADDING, y + text_room));
        text.extend([end, "\n"]);
    }

    /// The bar of the items of a `foreach`: those that succeeded, then those that failed.
    fn format_progress(&self, (x, y): (i64, i64)) -> String {
        let Some(progress) = self.progress else {
            return String::new();
        };
        let whole = self.body_size.0 - PADDING * 2;
        let width = |items: i64| whole * items / progress.total;
        let succeeded = width(progress.done - progress.failed);
        let failed = width(progress.done) - succeeded;
        let parts =
            [(x, whole, "n"), (x, succeeded, "n completed"), (x + succeeded, failed, "n failed")];
        let parts = parts.into_iter().filter(|(_, width, _)| *width > 0);
        let part = |(x, width, class)| format_rectangle((x, y), (width, PROGRESS_HEIGHT), class, 2);
        parts.map(part).collect()
    }
}

/// The outline of the box, whose shape tells the kind of the step.
fn format_outline(face: &NodeBox, (x, y): (i64, i64), state: &str) -> String {
    let (width, height) = face.body_size;
    let class = match (face.shape, state) {
        (Shape::Hook, _) => "n d".to_owned(),
        (Shape::Fail, "") => "n e".to_owned(),
        (_, "") => "n".to_owned(),
        (_, state) => format!("n {state}"),
    };
    let frame = |place, size, radius| format_rectangle(place, size, &class, radius);
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
        Shape::Wait => plain(LINE_HEIGHT + PADDING / 2),
        Shape::Each => {
            let behind =
                frame((x + SECOND_FRAME_OFFSET, y - SECOND_FRAME_OFFSET), (width, height), 6);
            behind + &plain(6)
        }
        Shape::Child => {
            let inner = ((x + 4, y + 4), (width - 8, height - 8));
            plain(2) + &format_rectangle(inner.0, inner.1, "w", 2)
        }
        Shape::Fail => plain(0),
        Shape::End => plain(LINE_HEIGHT),
        Shape::Plain | Shape::Hook => plain(6),
    }
}

pub(crate) fn format_rectangle(
    (x, y): (i64, i64),
    (width, height): (i64, i64),
    class: &str,
    radius: i64,
) -> String {
    format!(
        "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{radius}\"/>"
    )
}

/// Centered lines of text below a position.
fn draw_text_lines(
    text: &mut String,
    lines: &[String],
    class: &str,
    (x, y, line_height): (i64, i64, i64),
) {
    let class = match class {
        "" => String::new(),
        class => format!(" class=\"{class}\""),
    };
    for (line, at) in lines.iter().zip(1..) {
        // The y coordinate is the baseline, and some letters reach below it.
        let y = y + at * line_height - line_height / 4;
        let _ = write!(text, "<text{class} x=\"{x}\" y=\"{y}\">{}</text>", escape_xml(line));
    }
}

/// Escapes a text for an element. Control characters are not allowed in XML.
pub(crate) fn escape_xml(text: &str) -> String {
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
