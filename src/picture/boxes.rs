//! The boxes of a picture: content, shape and size.

use crate::{
    lines::{TextBox, measure_width, to_i64, wrap_text},
    words,
};
use midex_domain::view::{GraphBody, GraphNode, NodeProgress};

/// Letter widths of normal and small text, in units of the picture.
pub(super) const LETTER_WIDTH: i64 = 8;
pub(super) const SMALL_LETTER_WIDTH: i64 = 7;
/// Line heights of normal and small text.
pub(super) const LINE_HEIGHT: i64 = 18;
pub(super) const SMALL_LINE_HEIGHT: i64 = 14;
pub(super) const PADDING: i64 = 12;
/// The offset of the second frame behind the box of a `foreach`.
pub(super) const SECOND_FRAME_OFFSET: i64 = 5;
/// The room at the bottom of a `foreach` for the bar of its items.
const PROGRESS_ROOM: i64 = 12;
const WIDTH_MIN: i64 = 96;
/// The extra height of each half of a diamond over its text.
const DIAMOND_PEAK: i64 = 22;

const NAME_ROOM: TextBox = TextBox { columns: 28, lines: 4 };
/// The room for a name in a row with many boxes, which would otherwise be wider than a page.
const NAME_ROOM_CROWDED: TextBox = TextBox { columns: 16, lines: 6 };
const CONDITION_ROOM: TextBox = TextBox { columns: 34, lines: 4 };

const CONDITION_ROOM_CROWDED: TextBox = TextBox { columns: 18, lines: 6 };

/// The shape of a box, which tells its kind: gates, waits, branches, children and failures differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Plain,
    Gate,
    Branch,
    Wait,
    Each,
    Child,
    Fail,
    End,
    Hook,
}

/// A place at a side of a box, by the edges that begin or end there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Port {
    Middle,
    Error,
    /// Edges that lead upward.
    Back,
}

/// A box without its position.
#[derive(Debug)]
pub(super) struct NodeBox {
    pub(super) shape: Shape,
    /// The lines above the box: the conditions under which the step runs.
    pub(super) condition_lines: Vec<String>,
    pub(super) lines: Vec<String>,
    /// The number of lines that belong to the name.
    pub(super) name_line_count: usize,
    /// The size of the box without its cap.
    pub(super) body_size: (i64, i64),
    pub(super) progress: Option<ItemProgress>,
}

/// How far the items of a `foreach` are.
#[derive(Clone, Copy, Debug)]
pub(super) struct ItemProgress {
    /// The items that are done, with those that failed.
    pub(super) done: i64,
    pub(super) failed: i64,
    /// At least one, so that shares can be computed.
    pub(super) total: i64,
}

impl ItemProgress {
    fn from_standing(standing: &NodeProgress) -> Option<Self> {
        let total = to_i64(standing.items?).max(1);
        let done = to_i64(standing.items_done?).min(total);
        Some(Self { done, failed: to_i64(standing.items_failed).min(done), total })
    }
}

impl NodeBox {
    pub(super) fn from_node(node: &GraphNode, is_crowded: bool) -> Self {
        let shape = match node.kind.as_str() {
            "gate" => Shape::Gate,
            "branch" => Shape::Branch,
            "wait" => Shape::Wait,
            "foreach" => Shape::Each,
            "workflow" => Shape::Child,
            "fail" => Shape::Fail,
            _ => Shape::Plain,
        };
        let (room, cap_room) = if is_crowded {
            (NAME_ROOM_CROWDED, CONDITION_ROOM_CROWDED)
        } else {
            (NAME_ROOM, CONDITION_ROOM)
        };
        let name = wrap_text(&words::box_title(node), room);
        let rest = words::detail_lines(node);
        let rest = rest.iter().flat_map(|line| wrap_text(line, room));
        let cap = words::condition_lines(node);
        let cap = cap.iter().flat_map(|line| wrap_text(line, cap_room));
        let mut node_box = Self::new(shape, cap.collect(), name, rest.collect());
        let standing = node.standing.as_ref().filter(|_| shape == Shape::Each);
        node_box.progress = standing.and_then(ItemProgress::from_standing);
        node_box.body_size.1 += node_box.progress_room();
        node_box
    }

    /// The height of the bar of its items with its margins, which no text uses.
    pub(super) fn progress_room(&self) -> i64 {
        self.progress.map_or(0, |_| PROGRESS_ROOM)
    }

    pub(super) fn from_hook(hook: &GraphBody) -> Self {
        let [body, does] = words::hook_label(hook);
        Self::new(Shape::Hook, Vec::new(), wrap_text(&body, NAME_ROOM), wrap_text(&does, NAME_ROOM))
    }

    pub(super) fn new_end() -> Self {
        let mut end = Self::new(Shape::End, Vec::new(), vec!["end".to_owned()], Vec::new());
        end.body_size = (LINE_HEIGHT * 2, LINE_HEIGHT * 2);
        end
    }

    fn new(shape: Shape, cap: Vec<String>, name: Vec<String>, rest: Vec<String>) -> Self {
        let mut node_box = Self {
            shape,
            condition_lines: cap,
            name_line_count: name.len(),
            lines: name.into_iter().chain(rest).collect(),
            body_size: (0, 0),
            progress: None,
        };
        node_box.body_size = node_box.compute_body_size();
        node_box
    }

    fn compute_body_size(&self) -> (i64, i64) {
        let text_width = measure_width(&self.lines, LETTER_WIDTH);
        let text_height = to_i64(self.lines.len()) * LINE_HEIGHT;
        let (box_width, box_height) = match self.shape {
            Shape::Gate => (text_width + PADDING * 4, text_height + PADDING),
            // The corners of the text lie on the sides of the diamond.
            Shape::Branch => (
                text_width * (text_height / 2 + DIAMOND_PEAK) / DIAMOND_PEAK + PADDING,
                text_height + DIAMOND_PEAK * 2,
            ),
            _ => (text_width + PADDING * 2, text_height + PADDING),
        };
        // On a plain box the condition is a strip as wide as the box.
        let cap_width = match self.shape {
            Shape::Plain | Shape::Child | Shape::Fail => self.cap_text_width(),
            _ => 0,
        };
        (box_width.max(WIDTH_MIN).max(cap_width), box_height)
    }

    fn cap_text_width(&self) -> i64 {
        match self.condition_lines.len() {
            0 => 0,
            _ => measure_width(&self.condition_lines, SMALL_LETTER_WIDTH) + PADDING,
        }
    }

    /// The size of the cap above the box.
    pub(super) fn cap_size(&self) -> (i64, i64) {
        match self.shape {
            _ if self.condition_lines.is_empty() => (0, 0),
            Shape::Plain | Shape::Child | Shape::Fail => (self.body_size.0, self.cap_height()),
            _ => (self.cap_text_width(), self.cap_height()),
        }
    }

    fn cap_height(&self) -> i64 {
        to_i64(self.condition_lines.len()) * SMALL_LINE_HEIGHT + PADDING / 2
    }

    /// The gap between the cap and the box.
    pub(super) fn double_border_inset(&self) -> i64 {
        match self.shape {
            Shape::Each => SECOND_FRAME_OFFSET,
            _ => 0,
        }
    }

    /// The size of the box with its cap.
    pub(super) fn size(&self) -> (i64, i64) {
        let (cap, high) = self.cap_size();
        let wide = (self.body_size.0 + self.double_border_inset() * 2).max(cap);
        (wide, high + self.double_border_inset() + self.body_size.1)
    }

    /// The distance of a port from the middle of its side, and the distance from that side to the outline there.
    pub(super) fn port_offset(&self, is_top: bool, port: Port) -> (i64, i64) {
        let (wide, is_slanted) = match self.cap_size().0 {
            cap if is_top && cap > 0 => (cap, false),
            _ => (self.body_size.0, self.shape == Shape::Branch),
        };
        let offset = match port {
            Port::Middle => 0,
            _ if self.shape == Shape::End => 0,
            Port::Error => wide / 5,
            Port::Back => wide / 3,
        };
        let inward = i64::from(is_slanted) * offset * self.body_size.1 / wide;
        (offset, inward)
    }
}
