//! Assigns x coordinates: few edges cross, edges run straight where possible, and no two cells of a row overlap.

use rust_sugiyama::{
    configure::{Config, RankingType},
    from_edges,
};

use super::rows::{Cell, CellContent, LayoutRows};

/// The gap between two boxes, and between two cells of which one is an edge.
const GAPS: (i64, i64) = (28, 16);
/// The passes that align the rows with those above and then with those below.
const SWEEPS: usize = 4;
/// The most cells for which every pair of neighbours is tried in both orders.
const TRANSPOSE_CELLS_MAX: usize = 2_000;

/// The weight of a box that keeps its place.
const FIXED_WEIGHT: i64 = 1_000_000;

/// A preferred x coordinate and its weight.
type PreferredX = (i64, i64);

/// For each cell the cells with which it should be aligned, and how much that matters.
type Links = Vec<Vec<(usize, i64)>>;

/// Assigns every cell its x coordinate.
pub(super) fn assign_x(rows: &mut LayoutRows) {
    let order = order_cells(rows);
    let cells = &mut rows.cells;
    let mut above: Links = vec![Vec::new(); cells.len()];
    let mut below = above.clone();
    for leg in rows.routes.iter().flat_map(|route| &route.legs) {
        for link in leg.cells.windows(2) {
            above[link[1]].push((link[0], leg.weight));
            below[link[0]].push((link[1], leg.weight));
        }
    }
    for _ in 0..SWEEPS {
        align_rows(cells, order.iter(), &above, None);
        align_rows(cells, order.iter().rev(), &below, None);
    }
    align_rows(cells, order.iter(), &above, None);
    align_rows(cells, order.iter(), &above, Some(&below));
    align_rows(cells, order.iter().rev(), &below, Some(&above));
}

/// The cells of each row from left to right, so that few edges cross.
fn order_cells(rows: &LayoutRows) -> Vec<Vec<usize>> {
    let config = Config {
        // All links join neighbouring rows, so the ranks of the library are the rows.
        ranking_type: RankingType::Up,
        transpose: rows.cells.len() < TRANSPOSE_CELLS_MAX,
        ..Config::default()
    };
    // Vertex 0 is above the first row and joins everything.
    let vertices: Vec<u32> = (1..).take(rows.cells.len()).collect();
    let cells = rows.cells.iter().zip(&vertices);
    let first = cells.filter(|(cell, _)| cell.row == 0);
    let first = first.map(|(_, vertex)| (0, *vertex));
    let legs = rows.routes.iter().flat_map(|route| &route.legs);
    let links = legs.flat_map(|leg| leg.cells.windows(2));
    // In a coarse layout some pass rows. The others still reach every cell: a box has an edge from the row above it.
    let row = |at: usize| rows.cells[at].row;
    let links = links.filter(|link| row(link[1]) == row(link[0]) + 1);
    let links = links.map(|link| (vertices[link[0]], vertices[link[1]]));
    let mut edges: Vec<(u32, u32)> = first.chain(links).collect();
    // The library visits the edges of a vertex from the last one to the first.
    edges.reverse();
    let mut order = vec![Vec::new(); rows.heights.len()];
    let layouts = from_edges(&edges, &config).into_iter();
    let mut places: Vec<_> = layouts.flat_map(|layout| layout.0).collect();
    places.sort_by(|(a, (left, _)), (b, (right, _))| left.total_cmp(right).then(a.cmp(b)));
    for cell in places.iter().filter_map(|(vertex, _)| vertex.checked_sub(1)) {
        order[rows.cells[cell].row].push(cell);
    }
    order
}

/// Places the cells of each row as near to their neighbours as possible without overlap. Cells that would overlap are
/// merged into a group that moves as one. With neighbours on the other side, only edges move, and become straighter.
fn align_rows<'a>(
    cells: &mut [Cell],
    order: impl Iterator<Item = &'a Vec<usize>>,
    near: &Links,
    far: Option<&Links>,
) {
    for row in order {
        let mut groups: Vec<(Vec<PreferredX>, usize)> = Vec::new();
        let mut offsets = Vec::new();
        let mut last: Option<(usize, i64)> = None;
        for at in row {
            let offset =
                last.map_or(0, |(last, offset)| offset + min_distance(&cells[last], &cells[*at]));
            last = Some((*at, offset));
            offsets.push(offset);
            let is_box = |at: usize| matches!(cells[at].content, CellContent::Box(..));
            let own = match near[*at].len() {
                _ if far.is_some() && is_box(*at) => Some((*at, FIXED_WEIGHT)),
                0 => Some((*at, 1)),
                _ => None,
            };
            // A straight edge bends near its ends.
            let straightness_factor = |at: usize| if far.is_some() && !is_box(at) { 6 } else { 1 };
            let beyond = far.iter().flat_map(|far| &far[*at]);
            let beyond = beyond.map(|(at, weight)| (*at, weight * straightness_factor(*at)));
            let wishes = near[*at].iter();
            let wishes = wishes.map(|(at, weight)| (*at, weight * 4 * straightness_factor(*at)));
            let wishes = wishes.chain(beyond).chain(own);
            let wishes = wishes.map(|(at, weight)| (cells[at].x - offset, weight));
            let mut group = (wishes.collect::<Vec<PreferredX>>(), 1);
            while let Some(before) = groups
                .pop_if(|before| weighted_median(&mut before.0) > weighted_median(&mut group.0))
            {
                group.0.extend(before.0);
                group.1 += before.1;
            }
            groups.push(group);
        }
        let places = groups
            .iter_mut()
            .flat_map(|group| std::iter::repeat_n(weighted_median(&mut group.0), group.1));
        for ((at, offset), x) in row.iter().zip(offsets).zip(places) {
            cells[*at].x = x + offset;
        }
    }
}

/// The least distance of the middles of two cells.
fn min_distance(left: &Cell, right: &Cell) -> i64 {
    let is_box = |cell: &Cell| matches!(cell.content, CellContent::Box(..));
    let gap = if is_box(left) && is_box(right) { GAPS.0 } else { GAPS.1 };
    // Each half is rounded up.
    left.width.midpoint(right.width) + gap + 1
}

/// The weighted median.
fn weighted_median(wishes: &mut [PreferredX]) -> i64 {
    wishes.sort_unstable();
    let total: i64 = wishes.iter().map(|wish| wish.1).sum();
    let value_at = |half: i64| {
        let mut sum = 0;
        let mut reaching = wishes.iter().skip_while(|wish| {
            sum += wish.1 * 2;
            sum < half
        });
        reaching.next().map_or(0, |wish| wish.0)
    };
    value_at(total).midpoint(value_at(total + 1))
}
