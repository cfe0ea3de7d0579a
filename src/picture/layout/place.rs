//! Assigns x coordinates: edges run straight where possible, and no two cells of a row overlap.

use super::{
    channels::NEAR,
    grid::{Cell, Content, Grid, Route},
};

/// The gap between two boxes, and between two cells of which one is an edge.
const GAP: i64 = 28;
const SIGN_GAP: i64 = 16;
/// The number of passes that align the rows with those above and then with those below.
const SWEEPS: usize = 4;
/// The weight of a cell on a straight edge.
const TRUNK: i64 = 10_000;

/// The preferred x coordinate of a cell, and its weight.
type Wish = (i64, i64);

/// Assigns every cell its x coordinate.
pub(super) fn place(grid: &mut Grid) {
    find_trunks(grid);
    let count = grid.rows.len();
    for row in 0..count {
        let wishes = vec![(0, 1); grid.rows[row].len()];
        settle(grid, row, &wishes);
    }
    for _ in 0..SWEEPS {
        down(grid);
        for row in (0..count).rev() {
            let below = |cell: &Cell| (cell.below.clone(), cell.trunk_below);
            let wishes = wishes(grid, row, below);
            settle(grid, row, &wishes);
        }
    }
    down(grid);
    straighten(grid);
}

fn down(grid: &mut Grid) {
    for row in 0..grid.rows.len() {
        let above = |cell: &Cell| {
            if cell.above.is_empty() {
                (cell.far.clone(), None)
            } else {
                (cell.above.clone(), cell.trunk_above)
            }
        };
        let wishes = wishes(grid, row, above);
        settle(grid, row, &wishes);
    }
}

/// Each cell prefers the position of the cell that it continues, else the mean of its neighbours.
fn wishes(
    grid: &Grid,
    row: usize,
    neighbours: impl Fn(&Cell) -> (Vec<usize>, Option<usize>),
) -> Vec<Wish> {
    let cells = grid.rows[row].iter().map(|at| &grid.cells[*at]);
    let wish = |cell: &Cell| {
        let (neighbours, trunk) = neighbours(cell);
        if let Some(trunk) = trunk {
            return (grid.cells[trunk].x, TRUNK);
        }
        let places = || neighbours.iter().map(|at| grid.cells[*at].x);
        let count = i64::try_from(neighbours.len()).unwrap_or(i64::MAX);
        let mean = places().sum::<i64>().checked_div(count).unwrap_or(cell.x);
        // If a neighbour is almost at the mean, its position is preferred, so that the edge is straight.
        let near = places().find(|x| (x - mean).abs() <= NEAR);
        (near.unwrap_or(mean), 1)
    };
    cells.map(wish).collect()
}

/// Places the cells of a row as near to their preferred positions as possible without overlap. Cells that would overlap
/// are merged into a group that moves as one.
fn settle(grid: &mut Grid, row: usize, wishes: &[Wish]) {
    let offsets = offsets(grid, row);
    let mut groups: Vec<(i64, i64, usize)> = Vec::new();
    // The mean is rounded to the nearest integer, so that a cell with a small offset stays in place.
    let mean = |group: &(i64, i64, usize)| (group.0 * 2 + group.1).div_euclid(group.1 * 2);
    for ((wish, weight), offset) in wishes.iter().zip(&offsets) {
        let mut group = ((wish - offset) * weight, *weight, 1);
        while let Some(before) = groups.pop_if(|before| mean(before) > mean(&group)) {
            group = (group.0 + before.0, group.1 + before.1, group.2 + before.2);
        }
        groups.push(group);
    }
    let places = groups
        .iter()
        .flat_map(|group| std::iter::repeat_n(mean(group), group.2));
    let cells = grid.rows[row].iter();
    for ((at, place), offset) in cells.zip(places).zip(offsets) {
        grid.cells[*at].x = place + offset;
    }
}

/// The least distance of each cell of a row from the first one.
fn offsets(grid: &Grid, row: usize) -> Vec<i64> {
    let cells: Vec<&Cell> = grid.rows[row].iter().map(|at| &grid.cells[*at]).collect();
    let mut offsets = vec![0; cells.len()];
    for at in 1..cells.len() {
        let (left, right) = (cells[at - 1], cells[at]);
        let is_box = |cell: &Cell| matches!(cell.content, Content::Box(..));
        let gap = if is_box(left) && is_box(right) {
            GAP
        } else {
            SIGN_GAP
        };
        // Each half is rounded up.
        offsets[at] = offsets[at - 1] + left.width.midpoint(right.width) + gap + 1;
    }
    offsets
}

/// Marks one straight edge per box: the edge to the successor with the longest path below it.
fn find_trunks(grid: &mut Grid) {
    let depths = depths(grid);
    let mut next: Vec<Vec<&Route>> = vec![Vec::new(); grid.cells.len()];
    for route in grid
        .routes
        .iter()
        .filter(|it| !it.is_error && it.lane.is_none())
    {
        next[route.from].push(route);
    }
    let mut chosen: Vec<(usize, usize, usize)> = Vec::new();
    for routes in next {
        let deepest = routes.iter().map(|route| depths[route.to]).max();
        let mut deepest = routes
            .iter()
            .filter(|route| Some(depths[route.to]) == deepest);
        if let (Some(route), None) = (deepest.next(), deepest.next())
            && let Some(sign) = route.sign
        {
            chosen.push((route.from, sign, route.to));
        }
    }
    for (from, sign, to) in &chosen {
        if chosen.iter().filter(|other| other.2 == *to).count() == 1 {
            grid.cells[*from].trunk_below = Some(*sign);
            grid.cells[*sign].trunk_above = Some(*from);
            grid.cells[*sign].trunk_below = Some(*to);
            grid.cells[*to].trunk_above = Some(*sign);
        }
    }
}

/// The length of the longest path below each box, in boxes.
fn depths(grid: &Grid) -> Vec<usize> {
    let mut depths = vec![0; grid.cells.len()];
    let forward = |route: &&Route| grid.cells[route.to].row > grid.cells[route.from].row;
    let mut routes: Vec<&Route> = grid.routes.iter().filter(forward).collect();
    routes.sort_by_key(|route| std::cmp::Reverse(grid.cells[route.from].row));
    for route in routes {
        depths[route.from] = depths[route.from].max(depths[route.to] + 1);
    }
    depths
}

/// Aligns the cell of each edge between adjacent rows with its source box or its target box.
fn straighten(grid: &mut Grid) {
    let mut ideal: Vec<i64> = grid.cells.iter().map(|cell| cell.x).collect();
    for route in grid.routes.iter().filter(|route| route.lane.is_none()) {
        let Some(sign) = route.sign else { continue };
        let (from, to) = (grid.exit(route), grid.entry(route));
        let joins = grid.cells[route.to].above.len() > 1;
        let parts = grid.cells[route.from].below.len() > 1;
        ideal[sign] = match (parts, joins) {
            (false, true) => from,
            (true, true) => from.midpoint(to),
            _ => to,
        };
    }
    for row in (1..grid.rows.len()).step_by(2) {
        let wishes = grid.rows[row].iter().map(|at| (ideal[*at], 1));
        let wishes: Vec<Wish> = wishes.collect();
        settle(grid, row, &wishes);
    }
}
