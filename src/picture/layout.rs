//! Computes the positions of everything in a picture.
//!
//! Rows of boxes alternate with rows of labels. Every edge has a cell in each row that it passes, and cells of a row
//! never overlap: an edge is vertical inside a row, and a curve between two rows, where no cell is. Separate parts of a
//! graph stand below each other.

mod coordinates;
pub(super) mod paths;
pub(super) mod rows;

use self::rows::LayoutRows;
use crate::{boxes::SMALL_LETTER_WIDTH, has_failure_steps, lines};
use midex_domain::view::{GraphView, ON_FAILURE_TITLE};

/// The margin around the picture.
const MARGIN: i64 = 20;
/// The gap between a frame and its content, the room for its title, and the gap above it.
const PADDING: i64 = 14;
const FRAME_TITLE_HEIGHT: i64 = 34;
const FRAME_GAP: i64 = 34;

/// A picture with all positions.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) parts: Vec<LayoutRows>,
    pub(super) frames: Vec<PartFrame>,
    pub(super) width: i64,
    pub(super) height: i64,
}

/// A titled frame around a part of the steps.
#[derive(Debug)]
pub(super) struct PartFrame {
    pub(super) title: &'static str,
    pub(super) class: &'static str,
    pub(super) corner: (i64, i64),
    pub(super) size: (i64, i64),
}

impl Layout {
    pub(super) fn from_graph(graph: &GraphView) -> Self {
        let mut layout = Self { height: MARGIN, ..Self::default() };
        let corner = (MARGIN, MARGIN);
        (layout.width, layout.height) =
            layout.add_part(LayoutRows::from_steps(graph, false), corner);
        if has_failure_steps(graph) {
            layout.add_framed(LayoutRows::from_steps(graph, true), ON_FAILURE_TITLE, "e");
        }
        if !graph.hooks.is_empty() {
            layout.add_framed(LayoutRows::from_hooks(graph), "hooks of the workflow", "d");
        }
        layout.width += MARGIN;
        layout.height += MARGIN;
        layout
    }

    /// Adds a part of the graph with its left upper corner, and returns the opposite one.
    fn add_part(&mut self, mut rows: LayoutRows, corner: (i64, i64)) -> (i64, i64) {
        coordinates::assign_x(&mut rows);
        let end = rows.assign_y(corner);
        self.parts.push(rows);
        end
    }

    /// Adds a part of the graph in a frame below all others.
    fn add_framed(&mut self, rows: LayoutRows, title: &'static str, class: &'static str) {
        let (x, y) = (MARGIN, self.height + FRAME_GAP);
        let (right, below) = self.add_part(rows, (x + PADDING, y + FRAME_TITLE_HEIGHT));
        let text = lines::to_i64(lines::count_columns(title)) * SMALL_LETTER_WIDTH;
        let width = (right - x).max(text + PADDING) + PADDING;
        self.frames.push(PartFrame {
            title,
            class,
            corner: (x, y),
            size: (width, below + PADDING - y),
        });
        self.width = self.width.max(x + width);
        self.height = below + PADDING;
    }
}
