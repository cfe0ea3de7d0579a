//! Builds the rows of a picture: a box for each step, a circle for each end, a box for each hook, a cell for each edge,
//! and the lanes of edges that skip rows.

use std::collections::{HashMap, HashSet};

use super::grid::{Cell, Content, FrameRows, Grid, Lane, Route, WAY};
use crate::{
    boxes::{Face, SMALL_LETTER, SMALL_LINE},
    has_parts,
    lines::{TextBox, int, width, wrapped},
    words,
};
use midex_domain::{
    grammar,
    view::{GraphView, ON_FAILURE_TITLE},
};

/// The room for a label of an edge.
const LABEL: TextBox = TextBox {
    columns: 26,
    lines: 4,
};
/// The most boxes in a row that still have room for long lines.
const CROWD: usize = 4;
impl Grid {
    pub(super) fn of(graph: &GraphView) -> Self {
        let mut grid = Self {
            cells: Vec::new(),
            rows: Vec::new(),
            routes: Vec::new(),
            parts: Vec::new(),
        };
        let ends = grid.add_steps(graph);
        grid.add_hooks(graph);
        let last = grid.cells.iter().map(|cell| cell.row).max().unwrap_or(0);
        grid.rows = vec![Vec::new(); last + 2];
        for (at, cell) in grid.cells.iter().enumerate() {
            grid.rows[cell.row].push(at);
        }
        grid.add_routes(graph, &ends);
        grid
    }

    /// Adds the boxes of all steps, and an end circle after each step that leads to the end. A single circle would be
    /// far from most of these steps.
    fn add_steps(&mut self, graph: &GraphView) -> HashMap<usize, usize> {
        let waves = graph.waves();
        let failing = |at: usize| graph.nodes[at].on_failure;
        let edges = graph.edges.iter().filter(|edge| edge.to == grammar::END);
        let ending: HashSet<&str> = edges.map(|edge| edge.from.as_str()).collect();
        let ends = |at: &usize| ending.contains(graph.nodes[*at].id.as_str());
        let ending: Vec<usize> = (0..waves.len()).filter(ends).collect();
        let main = (0..waves.len()).filter(|at| !failing(*at));
        let below = main.map(|at| waves[at] + 1 + usize::from(ending.contains(&at)));
        let below = below.max().unwrap_or(0);
        // One row is left free before a frame, for edges of the part above that turn back.
        let wave = |at: usize| waves[at] + if failing(at) { below + 1 } else { 0 };
        let mut beside = vec![0; waves.len() * 2 + 2];
        (0..waves.len()).for_each(|at| beside[wave(at)] += 1);
        for (at, node) in graph.nodes.iter().enumerate() {
            let is_crowded = beside[wave(at)] > CROWD;
            self.add(Some(at), Face::of(node, is_crowded), wave(at));
        }
        let first = self.cells.len();
        for at in &ending {
            self.add(None, Face::end(), wave(*at) + 1);
        }
        if has_parts(graph) {
            self.frame(ON_FAILURE_TITLE, "e", below * 2 + 2);
        }
        ending.into_iter().zip(first..).collect()
    }

    fn add_hooks(&mut self, graph: &GraphView) {
        if graph.hooks.is_empty() {
            return;
        }
        let row = self.next_row() + 2;
        for hook in &graph.hooks {
            self.add(None, Face::of_hook(hook), row / 2);
        }
        self.frame("hooks of the workflow", "d", row);
    }

    fn next_row(&self) -> usize {
        self.cells
            .iter()
            .map(|cell| cell.row + 2)
            .max()
            .unwrap_or(0)
    }

    fn frame(&mut self, title: &'static str, class: &'static str, first: usize) {
        let last = self.next_row() - 1;
        self.parts.push(FrameRows {
            title,
            class,
            first,
            last,
        });
    }

    fn add(&mut self, node: Option<usize>, face: Face, wave: usize) {
        let (width, height) = face.size();
        let content = Content::Box(node, Box::new(face));
        self.cells
            .push(Cell::new(content, wave * 2, (width, height)));
    }

    fn add_routes(&mut self, graph: &GraphView, ends: &HashMap<usize, usize>) {
        let ids = graph.nodes.iter().map(|node| node.id.as_str());
        let ids: HashMap<&str, usize> = ids.zip(0..).collect();
        for (edge, of) in graph.edges.iter().enumerate() {
            let from = ids.get(of.from.as_str()).copied();
            let to = match of.to.as_str() {
                grammar::END => from.and_then(|from| ends.get(&from).copied()),
                id => ids.get(id).copied(),
            };
            if let (Some(from), Some(to)) = (from, to) {
                let words = words::edge_words(of).unwrap_or_default();
                self.route(
                    (edge, words::is_error(of)),
                    (from, to),
                    wrapped(&words, LABEL),
                );
            }
        }
        self.part_errors();
    }

    fn part_errors(&mut self) {
        let mut sides = vec![[[false; 2]; 2]; self.cells.len()];
        for route in &self.routes {
            sides[route.from][0][usize::from(route.is_error)] = true;
            sides[route.to][1][usize::from(route.is_error)] = true;
        }
        for (cell, sides) in self.cells.iter_mut().zip(sides) {
            cell.parts_errors = sides[0] == [true; 2];
            cell.joins_errors = sides[1] == [true; 2];
        }
    }

    fn route(
        &mut self,
        (edge, is_error): (usize, bool),
        (from, to): (usize, usize),
        lines: Vec<String>,
    ) {
        let (above, below) = (self.cells[from].row, self.cells[to].row);
        let goes_back = below <= above;
        let is_next = below == above + 2;
        let has_sign = is_next || !lines.is_empty();
        let (first, last) = match (goes_back, has_sign) {
            (true, has_sign) => (below, above + usize::from(has_sign)),
            (false, true) => (above + 2, below - 1),
            (false, false) => (above + 1, below - 1),
        };
        let lane = Lane {
            first,
            last,
            goes_back,
            is_right: goes_back,
            x: 0,
        };
        let sign = has_sign.then(|| self.add_sign((edge, lines), above + 1));
        if let Some(sign) = sign {
            self.link(from, sign);
            if is_next {
                self.link(sign, to);
            }
        }
        if !is_next && !goes_back {
            self.cells[to].far.push(from);
        }
        self.routes.push(Route {
            edge,
            from,
            to,
            is_error,
            sign,
            lane: (!is_next).then_some(lane),
        });
    }

    fn add_sign(&mut self, (edge, lines): (usize, Vec<String>), row: usize) -> usize {
        let tall = int(lines.len()) * SMALL_LINE;
        let (width, height) = match tall {
            0 => (WAY, 0),
            tall => (width(&lines, SMALL_LETTER) + WAY * 2, tall + WAY * 2),
        };
        let cell = Cell::new(Content::Way(edge, lines), row, (width, height));
        self.cells.push(cell);
        self.rows[row].push(self.cells.len() - 1);
        self.cells.len() - 1
    }

    fn link(&mut self, above: usize, below: usize) {
        self.cells[above].below.push(below);
        self.cells[below].above.push(above);
    }
}
