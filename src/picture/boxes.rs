//! The boxes of a picture: content, shape and size.

use crate::{
    lines::{TextBox, int, width, wrapped},
    words,
};
use midex_domain::view::{GraphBeside, GraphNode};

/// Letter widths of normal and small text, in units of the picture.
pub(super) const LETTER: i64 = 8;
pub(super) const SMALL_LETTER: i64 = 7;
/// Line heights of normal and small text.
pub(super) const LINE: i64 = 18;
pub(super) const SMALL_LINE: i64 = 14;
pub(super) const PADDING: i64 = 12;
/// The offset of the second frame behind the box of a `foreach`.
pub(super) const BEHIND: i64 = 5;
const WIDTH_MIN: i64 = 96;
/// The extra height of each half of a diamond over its text.
const PEAK: i64 = 22;

const NAME: TextBox = TextBox { columns: 28, lines: 4 };
/// The room for a name in a row with many boxes, which would otherwise be wider than a page.
const NAME_CROWDED: TextBox = TextBox { columns: 16, lines: 6 };
const CONDITION: TextBox = TextBox { columns: 34, lines: 4 };

const CONDITION_CROWDED: TextBox = TextBox { columns: 18, lines: 6 };

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
pub(super) struct Face {
    pub(super) shape: Shape,
    /// The lines above the box: the conditions under which the step runs.
    pub(super) cap: Vec<String>,
    pub(super) lines: Vec<String>,
    /// The number of lines that belong to the name.
    pub(super) name: usize,
    /// The size of the box without its cap.
    pub(super) body: (i64, i64),
}

impl Face {
    pub(super) fn of(node: &GraphNode, is_crowded: bool) -> Self {
        let shape = match node.kind.as_str() {
            "gate" => Shape::Gate,
            "branch" => Shape::Branch,
            "wait" => Shape::Wait,
            "foreach" => Shape::Each,
            "workflow" => Shape::Child,
            "fail" => Shape::Fail,
            _ => Shape::Plain,
        };
        let (room, cap_room) =
            if is_crowded { (NAME_CROWDED, CONDITION_CROWDED) } else { (NAME, CONDITION) };
        let name = wrapped(&words::title(node), room);
        let rest = words::details(node);
        let rest = rest.iter().flat_map(|line| wrapped(line, room));
        let cap = words::conditions(node);
        let cap = cap.iter().flat_map(|line| wrapped(line, cap_room));
        Self::new(shape, cap.collect(), name, rest.collect())
    }

    pub(super) fn of_hook(hook: &GraphBeside) -> Self {
        let [body, does] = words::hook_label(hook);
        Self::new(Shape::Hook, Vec::new(), wrapped(&body, NAME), wrapped(&does, NAME))
    }

    pub(super) fn end() -> Self {
        let mut end = Self::new(Shape::End, Vec::new(), vec!["end".to_owned()], Vec::new());
        end.body = (LINE * 2, LINE * 2);
        end
    }

    fn new(shape: Shape, cap: Vec<String>, name: Vec<String>, rest: Vec<String>) -> Self {
        let mut face = Self {
            shape,
            cap,
            name: name.len(),
            lines: name.into_iter().chain(rest).collect(),
            body: (0, 0),
        };
        face.body = face.measured();
        face
    }

    fn measured(&self) -> (i64, i64) {
        let text = width(&self.lines, LETTER);
        let tall = int(self.lines.len()) * LINE;
        let (wide, tall) = match self.shape {
            Shape::Gate => (text + PADDING * 4, tall + PADDING),
            // The corners of the text lie on the sides of the diamond.
            Shape::Branch => (text * (tall / 2 + PEAK) / PEAK + PADDING, tall + PEAK * 2),
            _ => (text + PADDING * 2, tall + PADDING),
        };
        // On a plain box the condition is a strip as wide as the box.
        let strip = match self.shape {
            Shape::Plain | Shape::Child | Shape::Fail => self.cap_text(),
            _ => 0,
        };
        (wide.max(WIDTH_MIN).max(strip), tall)
    }

    fn cap_text(&self) -> i64 {
        match self.cap.len() {
            0 => 0,
            _ => width(&self.cap, SMALL_LETTER) + PADDING,
        }
    }

    /// The size of the cap above the box.
    pub(super) fn cap_size(&self) -> (i64, i64) {
        match self.shape {
            _ if self.cap.is_empty() => (0, 0),
            Shape::Plain | Shape::Child | Shape::Fail => (self.body.0, self.cap_height()),
            _ => (self.cap_text(), self.cap_height()),
        }
    }

    fn cap_height(&self) -> i64 {
        int(self.cap.len()) * SMALL_LINE + PADDING / 2
    }

    /// The gap between the cap and the box.
    pub(super) fn behind(&self) -> i64 {
        match self.shape {
            Shape::Each => BEHIND,
            _ => 0,
        }
    }

    /// The size of the box with its cap.
    pub(super) fn size(&self) -> (i64, i64) {
        let (cap, high) = self.cap_size();
        let wide = (self.body.0 + self.behind() * 2).max(cap);
        (wide, high + self.behind() + self.body.1)
    }

    /// The distance of a port from the middle of its side, and the distance from that side to the outline there.
    pub(super) fn port(&self, is_top: bool, port: Port) -> (i64, i64) {
        let (wide, is_slanted) = match self.cap_size().0 {
            cap if is_top && cap > 0 => (cap, false),
            _ => (self.body.0, self.shape == Shape::Branch),
        };
        let aside = match port {
            Port::Middle => 0,
            _ if self.shape == Shape::End => 0,
            Port::Error => wide / 5,
            Port::Back => wide / 3,
        };
        let inward = i64::from(is_slanted) * aside * self.body.1 / wide;
        (aside, inward)
    }
}
