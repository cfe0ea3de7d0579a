//! The polylines of edges: between boxes and labels, horizontal on the tracks of channels and vertical elsewhere.

use super::{
    EdgePiece,
    channels::{Channels, Hop},
    grid::{Content, Grid, Route},
};

/// The polylines of all edges.
pub(super) fn ways(grid: &Grid, channels: &Channels) -> Vec<EdgePiece> {
    let routes = grid.routes.iter().enumerate();
    routes
        .flat_map(|(at, route)| pieces(at, route, grid, channels))
        .collect()
}

/// The polyline of an edge, or the two before and after its label.
fn pieces(at: usize, route: &Route, grid: &Grid, channels: &Channels) -> Vec<EdgePiece> {
    let piece = |points, arrives| EdgePiece {
        edge: route.edge,
        points,
        arrives,
    };
    let (start, end) = (start(route, grid, channels), end(route, grid, channels));
    let [before, after] = route.hops(at, grid);
    let label = route
        .sign
        .map(|sign| &grid.cells[sign])
        .filter(|cell| matches!(&cell.content, Content::Way(_, lines) if !lines.is_empty()));
    let Some(label) = label else {
        let hops = [before, after].concat();
        return vec![piece(line(start, &hops, end, channels), true)];
    };
    let (above, below) = (
        channels.top(label.row),
        channels.top(label.row) + label.height,
    );
    vec![
        piece(line(start, &before, (label.x, above), channels), false),
        piece(line((label.x, below), &after, end, channels), true),
    ]
}

fn line(start: (i64, i64), hops: &[Hop], end: (i64, i64), channels: &Channels) -> Vec<(i64, i64)> {
    let aside = hops.iter().filter(|hop| hop.from.x != hop.to.x);
    let corners = aside.flat_map(|hop| {
        let y = channels.height(hop);
        [(hop.from.x, y), (hop.to.x, y)]
    });
    std::iter::once(start).chain(corners).chain([end]).collect()
}

/// The point where an edge leaves its source box.
fn start(route: &Route, grid: &Grid, channels: &Channels) -> (i64, i64) {
    let cell = &grid.cells[route.from];
    let (x, up) = cell.exit(route.is_error);
    let slack = (grid.height(cell.row) - cell.height) / 2;
    (x, channels.top(cell.row) + slack + cell.height - up)
}

/// The point where an edge enters its target box.
fn end(route: &Route, grid: &Grid, channels: &Channels) -> (i64, i64) {
    let cell = &grid.cells[route.to];
    let (x, down) = cell.entry(route.is_error);
    let slack = (grid.height(cell.row) - cell.height) / 2;
    (x, channels.top(cell.row) + slack + down)
}
