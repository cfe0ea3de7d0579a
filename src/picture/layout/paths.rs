//! The lines of edges through their cells.

use std::collections::BTreeSet;

use super::rows::{CellContent, LayoutRows, Leg, Route};
use crate::boxes::Port;

type Point = (i64, i64);

/// The ports in use: the box, whether at its top side, and the port.
type Ports = BTreeSet<(usize, bool, Port)>;

impl LayoutRows {
    /// The lines of all edges.
    pub(crate) fn edge_paths(&self) -> impl Iterator<Item = (usize, Vec<Vec<Point>>)> {
        let legs = self.routes.iter().flat_map(|route| &route.legs);
        let ends = legs.flat_map(|leg| {
            let (upper, lower) = (leg.cells[0], leg.cells[leg.cells.len() - 1]);
            [(upper, false, leg.port), (lower, true, leg.port)]
        });
        let ports: Ports = ends.collect();
        let routes = self.routes.iter();
        routes.map(move |route| (route.edge, self.edge_path(route, &ports)))
    }

    /// The points of an edge from its source to its target, in pieces before and after its label. The line is vertical
    /// at each point.
    fn edge_path(&self, route: &Route, ports: &Ports) -> Vec<Vec<Point>> {
        let mut pieces: Vec<Vec<Point>> = Vec::new();
        for leg in &route.legs {
            let mut downward_pieces = self.leg_points(leg, ports);
            if leg.port == Port::Back {
                downward_pieces.reverse();
                for piece in &mut downward_pieces {
                    piece.reverse();
                }
            }
            // A loop turns between its legs.
            let before = pieces.pop().unwrap_or_default();
            downward_pieces[0].splice(0..0, before);
            pieces.extend(downward_pieces);
        }
        pieces
    }

    /// The points of a leg from its upper end to its lower end.
    fn leg_points(&self, leg: &Leg, ports: &Ports) -> Vec<Vec<Point>> {
        let mut pieces = Vec::new();
        let mut piece = Vec::new();
        let cells = leg.cells.iter().map(|at| (*at, &self.cells[*at]));
        // Nothing is in a row without height, so edges need not bend there.
        let shown = cells.filter_map(|(at, cell)| Some((at, cell, self.row_bounds(cell.row)?)));
        let visible_cells: Vec<_> = shown.collect();
        for (index, (at, cell, (top, bottom))) in visible_cells.iter().enumerate() {
            match &cell.content {
                CellContent::Box(_, face) => {
                    let is_top = index > 0;
                    let next_x = visible_cells[if is_top { index - 1 } else { 1 }].1.x;
                    let used = (*at, is_top, Port::Middle)..=(*at, is_top, Port::Back);
                    let is_shared = ports.range(used).count() > 1;
                    let port = if is_shared { leg.port } else { Port::Middle };
                    let (offset, inward) = face.port_offset(is_top, port);
                    let x = if next_x < cell.x { cell.x - offset } else { cell.x + offset };
                    piece.extend(if is_top {
                        [(x, *top), (x, cell.y + inward)]
                    } else {
                        [(x, cell.y + cell.height - inward), (x, *bottom)]
                    });
                }
                CellContent::Edge(_, lines) => {
                    piece.push((cell.x, *top));
                    if !lines.is_empty() {
                        pieces.push(std::mem::take(&mut piece));
                        piece.push((cell.x, top + cell.height));
                    }
                    piece.push((cell.x, *bottom));
                }
            }
        }
        pieces.push(piece);
        pieces
    }
}
