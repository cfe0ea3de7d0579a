//! The channels between the rows: the track of each horizontal segment, and the height of every channel.
//!
//! All edges that leave a step share a track in the channel below it, and all edges that enter a step share one in the
//! channel above it. In the rows between, every edge has its own position, so that edges stay distinguishable.

use std::collections::{BTreeMap, BTreeSet};

use super::grid::{Grid, Route};

/// The gap between two tracks.
const TRACK: i64 = 12;
/// The room above the first track and below the last one, in a channel below boxes and in a channel above boxes, where
/// arrows end.
const BELOW: (i64, i64) = (12, 8);
const ABOVE: (i64, i64) = (8, 18);
/// The room for the title of a frame, which also separates two parts.
const TITLE: i64 = 68;
/// Edges nearer than this overlap.
pub(super) const NEAR: i64 = 5;
/// The cost of an overlap, in crossings.
const COLLISION: usize = 100;
/// The most passes of reordering the tracks of a channel.
const PASSES: usize = 8;

/// The edges that share a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Track {
    /// All edges that leave this cell; the flag selects error edges.
    From(usize, bool),
    /// All edges that enter this cell; the flag selects error edges.
    To(usize, bool),
    /// The segment of this route between its label and its lane.
    Lane(usize),
}

/// Positions where edges overlap: the channel and the x coordinate.
pub(super) type Collisions = BTreeSet<(usize, i64)>;

/// A horizontal segment of an edge in a channel, on a track.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop {
    pub(super) channel: usize,
    pub(super) track: Track,
    pub(super) from: Pin,
    pub(super) to: Pin,
}

/// The position at which an edge enters or leaves a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pin {
    pub(super) x: i64,
    pub(super) is_above: bool,
}

/// All segments on one track.
#[derive(Debug, Default)]
struct Net {
    /// The x coordinates at which edges enter or leave above and below the track, sorted and distinct.
    above: Vec<i64>,
    below: Vec<i64>,
    place: i64,
}

/// All channels. Each is above the row with the same index.
#[derive(Debug)]
pub(super) struct Channels {
    nets: BTreeMap<(usize, Track), Net>,
    /// The y coordinate of the first track of each channel.
    tracks: Vec<i64>,
    /// The y coordinate of the row below each channel; the last entry is the lower end of the picture.
    tops: Vec<i64>,
}

impl Route {
    /// The segments of a route before its label cell, and those after it.
    pub(super) fn hops(&self, at: usize, grid: &Grid) -> [Vec<Hop>; 2] {
        let (above, below) = (grid.cells[self.from].row, grid.cells[self.to].row);
        let sign = self.sign.map(|sign| grid.cells[sign].x);
        let pin = |x, is_above| Pin { x, is_above };
        let hop = |channel, track, from, to| Hop {
            channel,
            track,
            from,
            to,
        };
        let out = Track::From(self.from, self.is_error);
        let into = Track::To(self.to, self.is_error);
        let (start, end) = (pin(grid.exit(self), true), pin(grid.entry(self), false));
        let first = |to| hop(above + 1, out, start, to);
        let last = |from| hop(below, into, from, end);
        match (sign, &self.lane) {
            (Some(x), None) => [vec![first(pin(x, false))], vec![last(pin(x, true))]],
            (Some(x), Some(lane)) => {
                let aside = pin(lane.x, lane.goes_back);
                let aside = hop(above + 2, Track::Lane(at), pin(x, true), aside);
                let last = last(pin(lane.x, !lane.goes_back));
                [vec![first(pin(x, false))], vec![aside, last]]
            }
            (None, Some(lane)) => {
                let first = first(pin(lane.x, lane.goes_back));
                [vec![first, last(pin(lane.x, !lane.goes_back))], Vec::new()]
            }
            (None, None) => [Vec::new(), Vec::new()],
        }
    }
}

impl Channels {
    pub(super) fn of(grid: &Grid) -> Self {
        let mut nets: BTreeMap<(usize, Track), Net> = BTreeMap::new();
        for (at, route) in grid.routes.iter().enumerate() {
            for hop in route.hops(at, grid).into_iter().flatten() {
                let net = nets.entry((hop.channel, hop.track)).or_default();
                for pin in [hop.from, hop.to] {
                    net.side(pin.is_above).push(pin.x);
                }
            }
        }
        for side in nets
            .values_mut()
            .flat_map(|net| [&mut net.above, &mut net.below])
        {
            side.sort_unstable();
            side.dedup();
        }
        let mut channels = Self {
            nets,
            tracks: Vec::new(),
            tops: Vec::new(),
        };
        for channel in 0..=grid.rows.len() {
            channels.assign(channel);
        }
        channels.stack(grid);
        channels
    }

    /// Assigns a track to each horizontal segment of a channel: first orders them so that few edges cross, then puts
    /// each on the first track below those of its predecessors in that order which it would touch.
    fn assign(&mut self, channel: usize) {
        let first = Track::From(0, false);
        let nets = self.nets.range_mut((channel, first)..(channel + 1, first));
        let mut nets: Vec<&mut Net> = nets
            .map(|(_, net)| net)
            .filter(|net| net.is_wide())
            .collect();
        nets.sort_by_key(|net| net.span());
        for _ in 0..PASSES {
            let mut has_moved = false;
            for at in 1..nets.len() {
                if nets[at].cost_above(nets[at - 1]) < nets[at - 1].cost_above(nets[at]) {
                    nets.swap(at - 1, at);
                    has_moved = true;
                }
            }
            if !has_moved {
                break;
            }
        }
        for at in 0..nets.len() {
            let before = nets[..at].iter().filter(|net| net.touches(nets[at]));
            nets[at].place = before.map(|net| net.place + 1).max().unwrap_or(0);
        }
    }

    /// The positions at which edges overlap. Overlaps remain where each of two segments would have to be above the
    /// other.
    pub(super) fn collisions(&self) -> Collisions {
        let channels = 0..self.tops.len();
        channels
            .flat_map(|channel| self.collisions_in(channel))
            .collect()
    }

    fn collisions_in(&self, channel: usize) -> Vec<(usize, i64)> {
        let nets: Vec<&Net> = self.within(channel).filter(|net| net.is_wide()).collect();
        let pairs = nets
            .iter()
            .flat_map(|net| nets.iter().map(move |other| (net, other)));
        let below = pairs.filter(|(net, other)| net.place > other.place);
        let met = below.flat_map(|(net, other)| net.met_by(other));
        met.map(|x| (channel, x)).collect()
    }

    /// Stacks channels and rows from top to bottom.
    fn stack(&mut self, grid: &Grid) {
        let mut y = 0;
        for channel in 0..=grid.rows.len() {
            let (lead, tail) = self.room(grid, channel);
            self.tracks.push(y + lead);
            y += lead + self.count(channel) * TRACK + tail;
            self.tops.push(y);
            y += grid.rows.get(channel).map_or(0, |_| grid.height(channel));
        }
    }

    /// The room above the first track of a channel, and below its last track.
    fn room(&self, grid: &Grid, channel: usize) -> (i64, i64) {
        let is_used = self.within(channel).next().is_some();
        let (lead, tail) = match (is_used, channel % 2) {
            (false, _) => (0, 0),
            (true, 0) => ABOVE,
            (true, _) => BELOW,
        };
        let title = grid.parts.iter().any(|part| part.first == channel);
        (lead + if title { TITLE } else { 0 }, tail)
    }

    fn within(&self, channel: usize) -> impl Iterator<Item = &Net> {
        let first = Track::From(0, false);
        let nets = self.nets.range((channel, first)..(channel + 1, first));
        nets.map(|(_, net)| net)
    }

    /// The number of tracks below the first one.
    fn count(&self, channel: usize) -> i64 {
        let nets = self.within(channel).filter(|net| net.is_wide());
        nets.map(|net| net.place).max().unwrap_or(0)
    }

    /// The y coordinate of the top of a row; for the index after the last row, of the lower end of the picture.
    pub(super) fn top(&self, row: usize) -> i64 {
        self.tops.get(row).copied().unwrap_or(0)
    }

    /// The y coordinate of the first track of a channel.
    pub(super) fn first_track(&self, channel: usize) -> i64 {
        self.tracks[channel]
    }

    /// The y coordinate of the track of a segment.
    pub(super) fn height(&self, hop: &Hop) -> i64 {
        let net = self.nets.get(&(hop.channel, hop.track));
        self.tracks[hop.channel] + net.map_or(0, |net| net.place) * TRACK
    }
}

impl Net {
    fn side(&mut self, is_above: bool) -> &mut Vec<i64> {
        if is_above {
            &mut self.above
        } else {
            &mut self.below
        }
    }

    fn span(&self) -> (i64, i64) {
        let first = self.above.first().into_iter().chain(self.below.first());
        let last = self.above.last().into_iter().chain(self.below.last());
        (
            first.copied().min().unwrap_or(0),
            last.copied().max().unwrap_or(0),
        )
    }

    fn is_wide(&self) -> bool {
        let (left, right) = self.span();
        left < right
    }

    fn touches(&self, other: &Self) -> bool {
        let ((left, right), (from, to)) = (self.span(), other.span());
        left <= to + NEAR && from <= right + NEAR
    }

    /// The x coordinates at which edges down to this track overlap edges that leave `other`, the track above,
    /// downwards.
    fn met_by(&self, other: &Self) -> impl Iterator<Item = i64> {
        let is_met = |x: &&i64| count(&other.below, (**x - NEAR + 1, **x + NEAR - 1)) > 0;
        self.above.iter().filter(is_met).copied()
    }

    /// The cost of placing this track above `other`: the crossings, plus a high cost for each overlap.
    fn cost_above(&self, other: &Self) -> usize {
        let crossed = count(&self.below, other.span()) + count(&other.above, self.span());
        crossed + other.met_by(self).count() * COLLISION
    }
}

/// The number of values in a sorted slice from `first` to `last`.
fn count(places: &[i64], (first, last): (i64, i64)) -> usize {
    let before = places.partition_point(|place| *place < first);
    places.partition_point(|place| *place <= last) - before
}
