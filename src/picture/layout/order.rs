//! Orders the cells of each row from left to right so that few edges cross.

use super::grid::Grid;

/// The number of passes over the rows, alternately downwards and upwards.
const SWEEPS: usize = 8;
/// The distance between adjacent positions, large enough that integer means are precise.
const STEP: i64 = 1_000;

/// Sorts each row by the mean position of its cells' neighbours, alternately downwards and upwards, and keeps the order
/// with the fewest crossings (the barycenter heuristic).
pub(super) fn order(grid: &mut Grid) {
    let mut places = vec![0; grid.cells.len()];
    let count = grid.rows.len();
    for row in &grid.rows {
        number(row, &mut places);
    }
    let mut best = (usize::MAX, grid.rows.clone());
    for sweep in 0..SWEEPS {
        let down = sweep % 2 == 0;
        for at in 0..count {
            let row = if down { at } else { count - 1 - at };
            sort(grid, row, down, &places);
            number(&grid.rows[row], &mut places);
        }
        let rows = grid.rows.iter();
        let crossings = rows.map(|row| crossings(grid, row, &places)).sum();
        if crossings < best.0 {
            best = (crossings, grid.rows.clone());
        }
    }
    grid.rows = best.1;
}

/// Records the position of each cell of a row.
fn number(row: &[usize], places: &mut [i64]) {
    for (at, place) in row.iter().zip(0..) {
        places[*at] = place * STEP;
    }
}

fn sort(grid: &mut Grid, row: usize, down: bool, places: &[i64]) {
    let mut cells = std::mem::take(&mut grid.rows[row]);
    cells.sort_by_cached_key(|at| {
        let above = mean(&grid.cells[*at].above, places).unwrap_or(places[*at]);
        let below = mean(&grid.cells[*at].below, places).unwrap_or(places[*at]);
        if down { (above, below) } else { (below, above) }
    });
    grid.rows[row] = cells;
}

fn mean(cells: &[usize], places: &[i64]) -> Option<i64> {
    let sum: i64 = cells.iter().map(|at| places[*at]).sum();
    sum.checked_div(i64::try_from(cells.len()).ok()?)
}

/// The number of crossing edges between this row and the row above.
fn crossings(grid: &Grid, row: &[usize], places: &[i64]) -> usize {
    let above = |at: &usize| grid.cells[*at].above.iter();
    let ways = row
        .iter()
        .flat_map(|at| above(at).map(|above| (places[*above], places[*at])));
    let mut ways: Vec<(i64, i64)> = ways.collect();
    ways.sort_unstable();
    let mut seen: Vec<i64> = Vec::new();
    let mut crossings = 0;
    for (_, below) in ways {
        let at = seen.partition_point(|place| *place <= below);
        crossings += seen.len() - at;
        seen.insert(at, below);
    }
    crossings
}
