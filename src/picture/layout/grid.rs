//! The rows of a picture and their cells, before they have positions.

use crate::boxes::Face;

/// The width of an edge without a label, and the padding of a label.
pub(super) const WAY: i64 = 4;

/// Rows of cells. Rows with an even number contain boxes, rows with an odd number contain edges with their labels.
#[derive(Debug)]
pub(super) struct Grid {
    pub(super) cells: Vec<Cell>,
    /// The cells of each row, from left to right; some rows are empty.
    pub(super) rows: Vec<Vec<usize>>,
    pub(super) routes: Vec<Route>,
    /// The framed parts of the graph.
    pub(super) parts: Vec<FrameRows>,
}

/// A box or an edge with a position in a row.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) content: Content,
    pub(super) row: usize,
    pub(super) width: i64,
    pub(super) height: i64,
    /// The x coordinate of its middle.
    pub(super) x: i64,
    /// The cells that edges join it with, in the row above and in the row below.
    pub(super) above: Vec<usize>,
    pub(super) below: Vec<usize>,
    /// The neighbour above or below with which it should be aligned, if one edge matters most.
    pub(super) trunk_above: Option<usize>,
    pub(super) trunk_below: Option<usize>,
    /// The source boxes of edges that skip rows.
    pub(super) far: Vec<usize>,
    /// Whether both error edges and other edges leave it, and whether both enter it. They are then drawn side by side.
    pub(super) parts_errors: bool,
    pub(super) joins_errors: bool,
}

/// The content of a cell.
#[derive(Debug)]
pub(super) enum Content {
    Box(Option<usize>, Box<Face>),
    /// The index of an edge that passes this row, with the lines of its label.
    Way(usize, Vec<String>),
}

/// The route of an edge.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) edge: usize,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) is_error: bool,
    /// The cell of the edge in a row of labels.
    pub(super) sign: Option<usize>,
    pub(super) lane: Option<Lane>,
}

/// A lane at the side of the rows.
#[derive(Debug)]
pub(super) struct Lane {
    /// The first and the last row that it passes.
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) goes_back: bool,
    pub(super) is_right: bool,
    pub(super) x: i64,
}

/// The rows inside a frame.
#[derive(Debug)]
pub(super) struct FrameRows {
    pub(super) title: &'static str,
    pub(super) class: &'static str,
    pub(super) first: usize,
    pub(super) last: usize,
}

impl Grid {
    /// The x coordinate where a route leaves its source box.
    pub(super) fn exit(&self, route: &Route) -> i64 {
        self.cells[route.from].exit(route.is_error).0
    }

    /// The x coordinate where a route enters its target box.
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

    /// The x coordinate where an edge leaves the cell, and its height above the bottom.
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

    /// The x coordinate where an edge enters the cell, and its depth below the top.
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

    /// Its left and right bounds.
    pub(super) fn span(&self) -> (i64, i64) {
        (self.x - self.width / 2, self.x + self.width / 2)
    }
}
