//! Assigns lanes at the sides of the rows to edges that skip rows or go back, as near to the boxes as the passed rows
//! allow.

use super::grid::{Grid, Route};

/// The gap between a lane and the boxes, and between two lanes.
const GAP: i64 = 18;
/// How much nearer a lane may be if its edge then runs straight.
const SLACK: i64 = 8;
/// How much shorter an edge on the other side must be for its lane to be there. Forward edges run on the left side by
/// default, backward edges on the right.
const DETOUR: i64 = 80;

/// Assigns each lane its side and position. The shortest are assigned first and so lie innermost.
pub(super) fn assign(grid: &mut Grid) {
    let mut edges: Vec<(i64, i64)> = (0..grid.rows.len()).map(|row| edges(grid, row)).collect();
    let lanes = (0..grid.routes.len()).filter_map(|at| {
        let lane = grid.routes[at].lane.as_ref()?;
        Some((lane.last - lane.first, at))
    });
    let mut lanes: Vec<(usize, usize)> = lanes.collect();
    lanes.sort_unstable();
    for (_, at) in lanes {
        let (is_right, x) = chosen(grid, &grid.routes[at], &edges);
        let Some(lane) = &mut grid.routes[at].lane else {
            continue;
        };
        (lane.is_right, lane.x) = (is_right, x);
        // One extra row at either end, so that no lane begins where another one ends.
        let rows = lane.first.saturating_sub(1)..(lane.last + 2).min(edges.len());
        for (left, right) in &mut edges[rows] {
            (*left, *right) = ((*left).min(x), (*right).max(x));
        }
    }
}

/// The left and right bounds of the cells of a row.
fn edges(grid: &Grid, row: usize) -> (i64, i64) {
    let spans = grid.rows[row].iter().map(|at| grid.cells[*at].span());
    spans.fold((i64::MAX, i64::MIN), |(left, right), (from, to)| {
        (left.min(from), right.max(to))
    })
}

/// The side of a lane (true for right), and its x coordinate.
fn chosen(grid: &Grid, route: &Route, edges: &[(i64, i64)]) -> (bool, i64) {
    let Some(lane) = &route.lane else {
        return (false, 0);
    };
    let start = route
        .sign
        .map_or_else(|| grid.exit(route), |sign| grid.cells[sign].x);
    let end = grid.entry(route);
    // A lane that passes only rows without cells runs next to its ends.
    let passed = || edges[lane.first..=lane.last].iter();
    let left = passed().map(|edge| edge.0).min().unwrap_or(i64::MAX);
    let right = passed().map(|edge| edge.1).max().unwrap_or(i64::MIN);
    let (left, right) = (
        left.min(end.max(start)) - GAP,
        right.max(end.min(start)) + GAP,
    );
    // An edge that begins or ends farther out runs straight there.
    let ends = || [start, end].into_iter();
    let left = ends().filter(|x| *x <= left + SLACK).max().unwrap_or(left);
    let right = ends()
        .filter(|x| *x >= right - SLACK)
        .min()
        .unwrap_or(right);
    let length = |x: i64| (x - start).abs() + (x - end).abs();
    let (left, right) = ((false, left), (true, right));
    let (usual, other) = if lane.goes_back {
        (right, left)
    } else {
        (left, right)
    };
    if length(other.1) + DETOUR < length(usual.1) {
        other
    } else {
        usual
    }
}
