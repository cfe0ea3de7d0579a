//! The rows of a picture and what stands in them, before it has its place.

use super::super::boxes::Face;

/// How wide a way without a label is, and the room around a label.
pub(super) const WAY: i64 = 4;

/// Rows with what stands in them. Those with an even number hold boxes, those with an odd one signs.
#[derive(Debug)]
pub(super) struct Grid {
    pub(super) cells: Vec<Cell>,
    /// The cells of each row, from left to right; some rows are empty.
    pub(super) rows: Vec<Vec<usize>>,
    pub(super) routes: Vec<Route>,
    /// The parts of the graph that are framed: their rows.
    pub(super) parts: Vec<Part>,
}

/// Something that has a place in a row.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) content: Content,
    pub(super) row: usize,
    pub(super) width: i64,
    pub(super) height: i64,
    /// Its middle.
    pub(super) x: i64,
    /// What a way joins it with in the row above, and in that below.
    pub(super) above: Vec<usize>,
    pub(super) below: Vec<usize>,
    /// Which of those it stands straight below and above, where one matters most.
    pub(super) trunk_above: Option<usize>,
    pub(super) trunk_below: Option<usize>,
    /// Boxes of rows farther above that lead to it.
    pub(super) far: Vec<usize>,
    /// Whether ways in case of an error and others leave it; whether both enter it. They do so beside each other then.
    pub(super) parts_errors: bool,
    pub(super) joins_errors: bool,
}

/// What stands in a cell.
#[derive(Debug)]
pub(super) enum Content {
    Box(Option<usize>, Box<Face>),
    /// A way on its way, with its label.
    Way(usize, Vec<String>),
}

/// How an edge runs.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) edge: usize,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) is_error: bool,
    /// Its place in the row of signs.
    pub(super) sign: Option<usize>,
    pub(super) lane: Option<Lane>,
}

/// A lane beside the rows.
#[derive(Debug)]
pub(super) struct Lane {
    /// The rows that it passes.
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) goes_back: bool,
    pub(super) is_right: bool,
    pub(super) x: i64,
}

/// Rows that a frame is around.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) title: &'static str,
    pub(super) class: &'static str,
    pub(super) first: usize,
    pub(super) last: usize,
}

impl Grid {
    /// Where a route leaves its box.
    pub(super) fn exit(&self, route: &Route) -> i64 {
        self.cells[route.from].exit(route.is_error).0
    }

    /// Where it enters the box that it leads to.
    pub(super) fn entry(&self, route: &Route) -> i64 {
        self.cells[route.to].entry(route.is_error).0
    }

    /// The height of a row.
    pub(super) fn height(&self, row: usize) -> i64 {
        let cells = self.rows[row].iter();
        cells.map(|at| self.cells[*at].height).max().unwrap_or(0)
    }
}

impl Cell {
    pub(super) fn new(content: Content, row: usize, (width, height): (i64, i64)) -> Self {
        Self {
            content,
            row,
            width,
            height,
            x: 0,
            above: Vec::new(),
            below: Vec::new(),
            trunk_above: None,
            trunk_below: None,
            far: Vec::new(),
            parts_errors: false,
            joins_errors: false,
        }
    }

    /// Where a way leaves it, and how far above its foot.
    pub(super) fn exit(&self, is_error: bool) -> (i64, i64) {
        let Content::Box(_, face) = &self.content else {
            return (self.x, 0);
        };
        let (aside, up) = face.exit();
        if is_error && self.parts_errors {
            (self.x + aside, up)
        } else {
            (self.x, 0)
        }
    }

    /// Where a way enters it, and how far below its top.
    pub(super) fn entry(&self, is_error: bool) -> (i64, i64) {
        let Content::Box(_, face) = &self.content else {
            return (self.x, 0);
        };
        let (aside, down) = face.entry();
        if is_error && self.joins_errors {
            (self.x + aside, down)
        } else {
            (self.x, 0)
        }
    }

    /// Its left and its right end.
    pub(super) fn span(&self) -> (i64, i64) {
        (self.x - self.width / 2, self.x + self.width / 2)
    }
}
