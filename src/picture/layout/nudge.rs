//! Moves edges apart that would overlap.

use super::{
    channels::{Collisions, NEAR},
    grid::{Content, Grid, Lane},
};

/// The distance by which an overlapping edge is moved.
const NUDGE: i64 = 6;

/// Moves the cells of edges that overlap others in an adjacent channel.
pub(super) fn signs(grid: &mut Grid, collisions: &Collisions) {
    let cells = grid.cells.iter_mut();
    let ways = cells.filter(|cell| matches!(cell.content, Content::Way(..)));
    for cell in ways.filter(|cell| is_hit(collisions, cell.row, cell.x)) {
        cell.x += NUDGE;
    }
}

/// Moves the lanes outward that overlap others where they begin or end.
pub(super) fn lanes(grid: &mut Grid, collisions: &Collisions) {
    let routes = grid.routes.iter_mut();
    let lanes = routes.filter_map(|route| route.lane.as_mut());
    let hit = |lane: &Lane, row| is_hit(collisions, row, lane.x);
    for lane in lanes.filter(|lane| hit(lane, lane.first) || hit(lane, lane.last)) {
        lane.x += if lane.is_right { NUDGE } else { -NUDGE };
    }
}

/// Whether an edge at `x` in this row overlaps another one in the channel above or below.
fn is_hit(collisions: &Collisions, row: usize, x: i64) -> bool {
    let near = |channel| (channel, x - NEAR + 1)..(channel, x + NEAR);
    [row, row + 1]
        .into_iter()
        .any(|channel| collisions.range(near(channel)).next().is_some())
}
