//! The parts of a picture that stands inside an HTML page. The page may forbid inline style and script, so the colors are
//! in a style sheet that the page serves.

#[cfg(test)]
pub(crate) mod tests;

use crate::{
    svg::{draw_graph, escape_xml},
    words,
};
use midex_domain::view::{GraphNode, GraphView};

/// The style sheet of the pictures of [`inline_svg`] and [`timeline`](crate::timeline). Every selector is below `.graph` or
/// `.timeline`, and the colors are custom properties with a light and a dark value.
pub const INLINE_STYLE: &str = include_str!("inline.css");

/// The address to which a node leads, if it leads anywhere.
pub(crate) type NodeLink<'a> = &'a dyn Fn(&GraphNode) -> Option<String>;

/// The graph as an SVG element for an HTML page that serves [`INLINE_STYLE`]: `<svg class="graph">` without ids and inline
/// style. A node is a link to the address that `link` gives for it, and its accessible name has its id, state, visits and
/// items. The address is escaped, but not checked.
pub fn inline_svg(graph: &GraphView, link: &dyn Fn(&GraphNode) -> Option<String>) -> String {
    draw_graph(graph, Some(link))
}

/// The start of a picture. Its role is not `img`, because a screen reader would then skip its links.
pub(crate) fn format_head(class: &str, label: &str, (width, height): (i64, i64)) -> String {
    let label = escape_xml(label);
    format!(
        "<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"group\" \
         aria-label=\"{label}\">\n"
    )
}

/// The tags around the box of a node.
pub(crate) fn format_node_tags(node: &GraphNode, link: NodeLink<'_>) -> (String, &'static str) {
    if let Some(address) = link(node) {
        // Its name is its title and its texts: a label in their place would have to repeat all that is seen.
        return (format!("<a href=\"{}\">", escape_xml(&address)), "</a>");
    }
    let label = escape_xml(&words::spoken_label(node));
    (format!("<g role=\"img\" aria-label=\"{label}\">"), "</g>")
}

/// The arrow head of an edge, which ends vertically.
pub(crate) fn format_arrow(pieces: &[Vec<(i64, i64)>], is_error: bool) -> String {
    let Some([.., (_, from_y), (x, y)]) = pieces.last().map(Vec::as_slice) else {
        return String::new();
    };
    let base = if from_y < y { y - 9 } else { y + 9 };
    let class = if is_error { "a e" } else { "a" };
    let (left, right) = (x - 5, x + 5);
    format!("<path class=\"{class}\" d=\"M{left} {base}L{x} {y}L{right} {base}z\"/>")
}
