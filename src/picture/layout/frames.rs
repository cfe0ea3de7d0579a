//! The frames around separate parts of a graph.

use super::{
    Frame,
    channels::Channels,
    grid::{FrameRows, Grid},
};
use crate::{boxes::SMALL_LETTER, lines};

/// The gap between a frame and its content.
const PADDING: i64 = 14;
/// The room for the title.
const HEAD: i64 = 34;

pub(super) fn frames(grid: &Grid, channels: &Channels) -> Vec<Frame> {
    let parts = grid.parts.iter();
    parts.map(|part| frame(part, grid, channels)).collect()
}

fn frame(part: &FrameRows, grid: &Grid, channels: &Channels) -> Frame {
    let (left, right) = span(part, grid);
    let title = lines::int(lines::columns(part.title)) * SMALL_LETTER;
    let width = (right - left).max(title) + PADDING * 2;
    // A title may be wider than the content of its frame, so the frame is centered on the content.
    let x = left.midpoint(right) - width / 2;
    let first = channels.first_track(part.first) - HEAD;
    Frame {
        title: part.title,
        class: part.class,
        x,
        y: first,
        width,
        height: channels.top(part.last + 1) + PADDING - first,
    }
}

fn span(part: &FrameRows, grid: &Grid) -> (i64, i64) {
    let rows = part.first..=part.last;
    let cells = grid.cells.iter().filter(|cell| rows.contains(&cell.row));
    let lanes = grid.routes.iter().filter_map(|route| route.lane.as_ref());
    let lanes = lanes.filter(|lane| rows.contains(&lane.first));
    let spans = cells.map(super::grid::Cell::span);
    let spans = spans.chain(lanes.map(|lane| (lane.x, lane.x)));
    let whole = spans.reduce(|whole, span| (whole.0.min(span.0), whole.1.max(span.1)));
    whole.unwrap_or((0, 0))
}
