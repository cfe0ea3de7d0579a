//! Where everything of a picture stands.
//!
//! Rows of boxes lie one below another, and below each row of boxes one of signs, where every way to the next row has a
//! place of its own, with its label if it has one. Between two rows lies a channel, in which ways run sideways, each on a
//! track of its own. A way that skips a row or goes back runs past the rows in a lane beside them. So no way crosses a
//! box or a label, whatever the graph: places in a row never overlap, and ways are only where no place is.

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
use super::{GraphView, boxes::Face};

/// The room around the whole.
const MARGIN: i64 = 20;
/// How often ways that lie on each other are moved apart: those in rows and those in lanes in turn, each of them by less than
/// the room between two.
const NUDGES: usize = 4;

/// A picture with all its places.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) boxes: Vec<Placed>,
    pub(super) ways: Vec<Way>,
    pub(super) signs: Vec<Sign>,
    pub(super) frames: Vec<Frame>,
    pub(super) width: i64,
    pub(super) height: i64,
}

/// A box in its place.
#[derive(Debug)]
pub(super) struct Placed {
    /// Which of the steps it is, if it is one.
    pub(super) node: Option<usize>,
    pub(super) face: Face,
    /// The middle of its upper side.
    pub(super) x: i64,
    pub(super) y: i64,
}

/// A piece of a way: the whole of it, or what lies before or behind its label.
#[derive(Debug)]
pub(super) struct Way {
    /// Of which edge.
    pub(super) edge: usize,
    /// Its corners.
    pub(super) points: Vec<(i64, i64)>,
    /// Whether it comes to the step that the edge leads to.
    pub(super) arrives: bool,
}

/// A label in its place.
#[derive(Debug)]
pub(super) struct Sign {
    pub(super) edge: usize,
    pub(super) lines: Vec<String>,
    /// The middle of its upper side.
    pub(super) x: i64,
    pub(super) y: i64,
}

/// A frame around a part of the steps, with its title.
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

    /// The channels, with the places of ways moved a little where they would lie on each other.
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

    /// Moves everything so that a margin lies around it.
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
