//! Builds the rows of a picture: a box for each step, a circle for each end, a box for each hook, and a cell for each
//! edge in each row that it passes.

use std::collections::{BTreeMap, HashMap};

use crate::{
    boxes::{NodeBox, Port, SMALL_LETTER_WIDTH, SMALL_LINE_HEIGHT},
    lines::{TextBox, measure_width, to_i64, wrap_text},
    select_nodes, words,
};
use midex_domain::{grammar, view::GraphView};

/// The width of an edge without a label, and the padding of a label.
pub(crate) const EDGE_WIDTH: i64 = 4;
/// The room for a label of an edge.
const LABEL_ROOM: TextBox = TextBox { columns: 26, lines: 4 };
/// The most boxes in a row that still have room for long lines.
const CROWDED_ROW_BOXES: usize = 4;
/// The most cells with which every edge has one in each row that it passes. More would take seconds, so each edge then has
/// a single one below its upper end, and runs from there over the boxes between.
const CELLS_MAX: usize = 24_000;
/// The height of the loop of a step that leads to itself.
const LOOP_HEIGHT: i64 = 12;
/// The least gap between two rows of which one has labels, between two rows of boxes, and the largest gap.
const GAPS: (i64, i64, i64) = (12, 28, 64);
/// A gap is higher the farther its edges go sideways, by one for so many.
const SLOPE: i64 = 5;

/// Rows of cells. Rows with an even number contain boxes, rows with an odd number contain labels.
#[derive(Debug, Default)]
pub(crate) struct LayoutRows {
    pub(crate) cells: Vec<Cell>,
    pub(crate) routes: Vec<Route>,
    pub(crate) heights: Vec<i64>,
    /// The y coordinates of the rows.
    tops: Vec<i64>,
    /// Whether each edge has one cell, instead of one in each row that it passes.
    is_coarse: bool,
}

/// A box or an edge with a position in a row.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) content: CellContent,
    pub(crate) row: usize,
    pub(crate) width: i64,
    pub(crate) height: i64,
    /// The middle of its top side.
    pub(crate) x: i64,
    pub(crate) y: i64,
}

/// The content of a cell.
#[derive(Debug)]
pub(crate) enum CellContent {
    Box(Option<usize>, Box<NodeBox>),
    /// An edge that passes, with the lines of its label if it has one there.
    Edge(usize, Vec<String>),
}

/// The route of an edge.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) edge: usize,
    /// One leg, or two of which the second leads back to the same box.
    pub(crate) legs: Vec<Leg>,
}

/// A route downward, or upward if it goes back.
#[derive(Debug)]
pub(crate) struct Leg {
    /// Its cells from the upper end to the lower end, in neighbouring rows.
    pub(crate) cells: Vec<usize>,
    pub(crate) port: Port,
    /// How much a straight line matters: most for an edge to the next row, and the more rows are below, the more.
    pub(crate) weight: i64,
}

impl LayoutRows {
    /// The `on_failure` steps, or all other steps.
    pub(crate) fn from_steps(graph: &GraphView, on_failure: bool) -> Self {
        let waves = graph.waves();
        let steps: Vec<usize> = select_nodes(graph, on_failure).map(|(at, _)| at - 1).collect();
        let ids = steps.iter().map(|at| graph.nodes[*at].id.as_str());
        let ids: HashMap<&str, usize> = ids.zip(0..).collect();
        let mut places: Vec<_> = steps.iter().map(|at| waves[*at]).zip(0..).collect();
        // Each step that leads to the end has its own circle: a single one would be far from most of them.
        let mut end_boxes = BTreeMap::new();
        let mut edges = Vec::new();
        for (edge, graph_edge) in graph.edges.iter().enumerate() {
            let Some(from) = ids.get(graph_edge.from.as_str()).copied() else {
                continue;
            };
            let to = match graph_edge.to.as_str() {
                grammar::END_TARGET => Some(*end_boxes.entry(from).or_insert_with(|| {
                    places.push((usize::MAX, places.len()));
                    places.len() - 1
                })),
                id => ids.get(id).copied(),
            };
            edges.extend(to.map(|to| (edge, from, to)));
        }
        let (ranks, depths) = compute_ranks(&places, &edges);
        let passed = edges.iter().map(|(_, from, to)| ranks[*from].abs_diff(ranks[*to]) * 2);
        let is_coarse = passed.sum::<usize>() > CELLS_MAX;
        let mut rows = Self { is_coarse, ..Self::default() };
        for (at, rank) in ranks.iter().enumerate() {
            let is_crowded = || ranks.iter().filter(|it| *it == rank).count() > CROWDED_ROW_BOXES;
            let face = |step: &usize| NodeBox::from_node(&graph.nodes[*step], is_crowded());
            let step = steps.get(at);
            rows.add_box(step.copied(), step.map_or_else(NodeBox::new_end, face), *rank);
        }
        for (edge, from, to) in edges {
            let graph_edge = &graph.edges[edge];
            let port = match words::is_error(graph_edge) {
                _ if ranks[to] < ranks[from] => Port::Back,
                true => Port::Error,
                false => Port::Middle,
            };
            let weight = match port {
                Port::Middle if ranks[to] == ranks[from] + 1 => depths[to] * 16,
                Port::Error if ranks[to] == ranks[from] + 1 => 8,
                _ => 1,
            };
            let lines = wrap_text(&words::edge_label(graph_edge).unwrap_or_default(), LABEL_ROOM);
            let legs = rows.add_legs((edge, lines), (from, to), (port, weight));
            rows.routes.push(Route { edge, legs });
        }
        rows
    }

    pub(crate) fn from_hooks(graph: &GraphView) -> Self {
        let mut rows = Self::default();
        for hook in &graph.hooks {
            rows.add_box(None, NodeBox::from_hook(hook), 0);
        }
        rows
    }

    fn add_box(&mut self, node: Option<usize>, face: NodeBox, rank: usize) {
        let size = face.size();
        self.add_cell(CellContent::Box(node, Box::new(face)), rank * 2, size);
    }

    fn add_cell(&mut self, content: CellContent, row: usize, (width, height): (i64, i64)) -> usize {
        self.heights.resize(self.heights.len().max(row + 1), 0);
        self.heights[row] = self.heights[row].max(height);
        self.cells.push(Cell { content, row, width, height, x: 0, y: 0 });
        self.cells.len() - 1
    }

    /// Adds the cells of an edge: its label is in the row beside its source.
    fn add_legs(
        &mut self,
        (edge, mut lines): (usize, Vec<String>),
        (from, to): (usize, usize),
        (port, weight): (Port, i64),
    ) -> Vec<Leg> {
        let leg = |cells, port| Leg { cells, port, weight };
        let (above, below) = (self.cells[from].row, self.cells[to].row);
        if from == to {
            let down = self.add_edge_cell(edge, Vec::new(), above + 1);
            let up = self.add_edge_cell(edge, lines, above + 1);
            self.heights[above + 1] = self.heights[above + 1].max(LOOP_HEIGHT);
            return vec![leg(vec![from, down], port), leg(vec![from, up], Port::Back)];
        }
        if self.is_coarse {
            let (upper, lower) = if above < below { (from, to) } else { (to, from) };
            let cell = self.add_edge_cell(edge, lines, above.min(below) + 1);
            return vec![leg(vec![upper, cell, lower], port)];
        }
        let mut cells = vec![from];
        let mut row = above;
        loop {
            row = if above < below { row + 1 } else { row - 1 };
            if row == below {
                break;
            }
            cells.push(self.add_edge_cell(edge, std::mem::take(&mut lines), row));
        }
        cells.push(to);
        if above > below {
            cells.reverse();
        }
        vec![leg(cells, port)]
    }

    fn add_edge_cell(&mut self, edge: usize, lines: Vec<String>, row: usize) -> usize {
        let size = match to_i64(lines.len()) * SMALL_LINE_HEIGHT {
            0 => (EDGE_WIDTH, 0),
            tall => {
                (measure_width(&lines, SMALL_LETTER_WIDTH) + EDGE_WIDTH * 2, tall + EDGE_WIDTH * 2)
            }
        };
        self.add_cell(CellContent::Edge(edge, lines), row, size)
    }

    /// Shifts the cells to the right of the corner and assigns them their y coordinates. Returns the opposite corner.
    pub(crate) fn assign_y(&mut self, (left, top): (i64, i64)) -> (i64, i64) {
        let mut sideways = vec![0; self.heights.len()];
        let legs = self.routes.iter().flat_map(|route| &route.legs);
        for link in legs.flat_map(|leg| leg.cells.windows(2)) {
            let (from, to) = (&self.cells[link[0]], &self.cells[link[1]]);
            sideways[to.row] = sideways[to.row].max((from.x - to.x).abs());
        }
        let mut y = top;
        let mut previous_row = None;
        for (row, height) in self.heights.iter().enumerate() {
            if let Some(before) = previous_row.filter(|_| *height > 0) {
                let least = if before + 1 == row { GAPS.0 } else { GAPS.1 };
                let wide = sideways[before + 1..=row].iter().max();
                y += (wide.unwrap_or(&0) / SLOPE).clamp(least, GAPS.2);
                y += row_margins(before).1 + row_margins(row).0;
            }
            self.tops.push(y);
            y += height;
            previous_row = if *height > 0 { Some(row) } else { previous_row };
        }
        let lefts = self.cells.iter().map(|cell| cell.x - cell.width / 2);
        let shift = left - lefts.min().unwrap_or(0);
        let mut right = left;
        for cell in &mut self.cells {
            cell.x += shift;
            cell.y = self.tops[cell.row];
            if let CellContent::Box(..) = cell.content {
                cell.y += (self.heights[cell.row] - cell.height) / 2;
            }
            right = right.max(cell.x + cell.width / 2);
        }
        (right, y)
    }

    /// The y coordinates between which nothing but boxes and labels is beside an edge that passes this row; `None` if
    /// nothing is.
    pub(crate) fn row_bounds(&self, row: usize) -> Option<(i64, i64)> {
        let (above, below) = row_margins(row);
        let (top, height) = (self.tops[row], self.heights[row]);
        (height > 0).then_some((top - above, top + height + below))
    }
}

/// The lengths of the vertical parts of edges above a row, where arrows end, and below it.
fn row_margins(row: usize) -> (i64, i64) {
    if row.is_multiple_of(2) { (10, 4) } else { (0, 0) }
}

/// The lengths of the longest path to each box, and of the longest path onward from it. For this every way leads from
/// the box with the lower place to the other one.
fn compute_ranks(
    places: &[(usize, usize)],
    edges: &[(usize, usize, usize)],
) -> (Vec<usize>, Vec<i64>) {
    let down = edges.iter().filter(|(_, from, to)| from != to);
    let down = down.map(|(_, from, to)| (places[*from], places[*to]));
    let mut down: Vec<_> = down.map(|(from, to)| (from.min(to), from.max(to))).collect();
    down.sort_unstable();
    let mut ranks = vec![0; places.len()];
    for ((_, upper), (_, lower)) in &down {
        ranks[*lower] = ranks[*lower].max(ranks[*upper] + 1);
    }
    let mut depths = vec![1; places.len()];
    for ((_, upper), (_, lower)) in down.iter().rev() {
        depths[*upper] = depths[*upper].max(depths[*lower] + 1);
    }
    (ranks, depths)
}
