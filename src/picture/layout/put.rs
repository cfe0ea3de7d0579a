//! The positions of boxes and labels.

use super::{
    Placed, Sign,
    channels::Channels,
    grid::{Content, Grid, WAY},
};
use crate::{boxes::SMALL_LETTER, lines::width};

/// The labels with their positions.
pub(super) fn signs(grid: &Grid, channels: &Channels) -> Vec<Sign> {
    let signs = grid.cells.iter().filter_map(|cell| match &cell.content {
        Content::Way(edge, lines) if !lines.is_empty() => Some(Sign {
            edge: *edge,
            lines: lines.clone(),
            x: cell.x,
            y: channels.top(cell.row) + WAY,
        }),
        _ => None,
    });
    signs.collect()
}

/// The boxes with their positions, each vertically centered in its row.
pub(super) fn boxes(grid: Grid, channels: &Channels) -> Vec<Placed> {
    let heights: Vec<i64> = (0..grid.rows.len()).map(|row| grid.height(row)).collect();
    let cells = grid.cells.into_iter();
    let boxes = cells.filter_map(|cell| match cell.content {
        Content::Box(node, face) => Some(Placed {
            node,
            x: cell.x,
            y: channels.top(cell.row) + (heights[cell.row] - cell.height) / 2,
            face: *face,
        }),
        Content::Way(..) => None,
    });
    boxes.collect()
}

impl Sign {
    /// Its left and right bounds.
    pub(super) fn span(&self) -> (i64, i64) {
        let half = width(&self.lines, SMALL_LETTER) / 2;
        (self.x - half, self.x + half)
    }
}
