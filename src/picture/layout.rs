//! Computes the positions of everything in a picture.
//!
//! Rows of boxes alternate with rows of labels: every edge to the next row has a cell of its own there, with its label
//! if it has one. Above each row is a channel in which edges run horizontally, each on its track. An edge that skips
//! rows or goes back passes them in a vertical lane at the side. So no edge crosses a box or a label: the cells of a
//! row never overlap, and edges run only where no cell is.

mod build;
mod channels;
mod frames;
mod grid;
mod lanes;
mod nudge;
mod order;
mod place;
mod put;
mod ways;

use self::{channels::Channels, grid::Grid};
use crate::boxes::Face;
use midex_domain::view::GraphView;

/// The margin around the picture.
const MARGIN: i64 = 20;
/// The most passes that separate overlapping edges. Passes over rows and over lanes alternate, and each moves an edge
/// by less than the gap between two.
const NUDGES: usize = 4;

/// A picture with all positions.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) boxes: Vec<Placed>,
    pub(super) ways: Vec<EdgePiece>,
    pub(super) signs: Vec<Sign>,
    pub(super) frames: Vec<Frame>,
    pub(super) width: i64,
    pub(super) height: i64,
}

/// A box with its position.
#[derive(Debug)]
pub(super) struct Placed {
    /// The position of its step; `None` for an end or a hook.
    pub(super) node: Option<usize>,
    pub(super) face: Face,
    /// The middle of its top side.
    pub(super) x: i64,
    pub(super) y: i64,
}

/// A polyline of an edge: the whole edge, or the part before or after its label.
#[derive(Debug)]
pub(super) struct EdgePiece {
    /// The index of the edge.
    pub(super) edge: usize,
    /// Its corners.
    pub(super) points: Vec<(i64, i64)>,
    /// Whether this part ends at the target, and so has the arrow head.
    pub(super) arrives: bool,
}

/// A label with its position.
#[derive(Debug)]
pub(super) struct Sign {
    pub(super) edge: usize,
    pub(super) lines: Vec<String>,
    /// The middle of its top side.
    pub(super) x: i64,
    pub(super) y: i64,
}

/// A titled frame around a part of the steps.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) title: &'static str,
    pub(super) class: &'static str,
    pub(super) x: i64,
    pub(super) y: i64,
    pub(super) width: i64,
    pub(super) height: i64,
}

impl Layout {
    pub(super) fn of(graph: &GraphView) -> Self {
        let mut grid = Grid::of(graph);
        order::order(&mut grid);
        place::place(&mut grid);
        lanes::assign(&mut grid);
        let channels = Self::channels(&mut grid);
        let mut layout = Self {
            ways: ways::ways(&grid, &channels),
            frames: frames::frames(&grid, &channels),
            signs: put::signs(&grid, &channels),
            width: 0,
            height: channels.top(grid.rows.len()),
            boxes: put::boxes(grid, &channels),
        };
        layout.trim();
        layout
    }

    /// The channels, after overlapping edges were moved apart.
    fn channels(grid: &mut Grid) -> Channels {
        let mut channels = Channels::of(grid);
        for round in 0..NUDGES {
            let collisions = channels.collisions();
            if collisions.is_empty() {
                break;
            }
            if round % 2 == 0 {
                nudge::signs(grid, &collisions);
            } else {
                nudge::lanes(grid, &collisions);
            }
            channels = Channels::of(grid);
        }
        channels
    }

    /// Shifts everything so that the margin is around the picture.
    fn trim(&mut self) {
        let boxes = self.boxes.iter().map(|it| (it.x, it.face.size().0 / 2));
        let boxes = boxes.map(|(x, half)| (x - half, x + half));
        let points = self.ways.iter().flat_map(|way| &way.points);
        let points = points.map(|(x, _)| (*x, *x));
        let signs = self.signs.iter().map(Sign::span);
        let frames = self.frames.iter().map(|it| (it.x, it.x + it.width));
        let spans = boxes.chain(points).chain(signs).chain(frames);
        let whole = spans.reduce(|whole, span| (whole.0.min(span.0), whole.1.max(span.1)));
        let (left, right) = whole.unwrap_or((0, 0));
        let by = MARGIN - left;
        self.width = right - left + MARGIN * 2;
        let below = self.frames.iter().map(|frame| frame.y + frame.height);
        self.height = below.fold(self.height, i64::max) + MARGIN * 2;
        self.shift(by);
    }

    fn shift(&mut self, by: i64) {
        for placed in &mut self.boxes {
            (placed.x, placed.y) = (placed.x + by, placed.y + MARGIN);
        }
        for sign in &mut self.signs {
            (sign.x, sign.y) = (sign.x + by, sign.y + MARGIN);
        }
        for frame in &mut self.frames {
            (frame.x, frame.y) = (frame.x + by, frame.y + MARGIN);
        }
        for (x, y) in self.ways.iter_mut().flat_map(|way| &mut way.points) {
            (*x, *y) = (*x + by, *y + MARGIN);
        }
    }
}
