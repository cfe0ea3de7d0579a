//! The channels between the rows: on which track each way runs sideways, and how high every channel is.
//!
//! Ways out of one step share a track in the channel below it, and ways into one step that in the channel above it. Between
//! the two every way has a place of its own, so nobody takes one for another.

use std::collections::{BTreeMap, BTreeSet};

use super::grid::{Grid, Route};

/// The room between two tracks.
const TRACK: i64 = 12;
/// Above the first track and below the last one, in a channel below boxes and in one above them, where arrows end.
const BELOW: (i64, i64) = (12, 8);
const ABOVE: (i64, i64) = (8, 18);
/// The room of the title of a frame, and what lies between two parts.
const TITLE: i64 = 68;
/// Ways nearer than this lie on each other.
pub(super) const NEAR: i64 = 5;
/// How many crossings one way that lies on another counts for.
const COLLISION: usize = 100;
/// How often the order of tracks is gone through.
const PASSES: usize = 8;

/// What runs on one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Track {
    /// What leaves this cell; in case of an error or not.
    From(usize, bool),
    /// What enters this cell; in case of an error or not.
    To(usize, bool),
    /// The way of this route to its lane.
    Lane(usize),
}

/// Where ways lie on each other: in which channel, and how far to the right.
pub(super) type Collisions = BTreeSet<(usize, i64)>;

/// A way through a channel: along which track, and from where to where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop {
    pub(super) channel: usize,
    pub(super) track: Track,
    pub(super) from: Pin,
    pub(super) to: Pin,
}

/// Where a way enters a channel or leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pin {
    pub(super) x: i64,
    pub(super) is_above: bool,
}

/// All that runs on one track.
#[derive(Debug, Default)]
struct Net {
    /// Where ways enter or leave above it, and below it; each in order and once.
    above: Vec<i64>,
    below: Vec<i64>,
    place: i64,
}

/// All channels; each lies above the row of its number.
#[derive(Debug)]
pub(super) struct Channels {
    nets: BTreeMap<(usize, Track), Net>,
    /// How far below the top of the picture the first track of each channel is.
    tracks: Vec<i64>,
    /// And the row below each channel; past the last one the end of the picture.
    tops: Vec<i64>,
}

impl Route {
    /// The hops of a route: those before its sign, and those after it.
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

    /// Gives each way that runs sideways in a channel a track: first the order that crosses least, then the first track
    /// below those before it in that order that it would touch.
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

    /// Where ways lie on each other, for each of two would have to run above the other.
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

    /// Lays channels and rows one below another.
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

    /// The room above the first track of a channel, and below its last one.
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

    /// How many tracks lie below the first one.
    fn count(&self, channel: usize) -> i64 {
        let nets = self.within(channel).filter(|net| net.is_wide());
        nets.map(|net| net.place).max().unwrap_or(0)
    }

    /// The upper side of a row; that of the row past the last one is the lower side of the picture.
    pub(super) fn top(&self, row: usize) -> i64 {
        self.tops.get(row).copied().unwrap_or(0)
    }

    /// Where the first track of a channel runs.
    pub(super) fn first_track(&self, channel: usize) -> i64 {
        self.tracks[channel]
    }

    /// The height of the track that a hop runs on.
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

    /// Where ways down to this track, which runs below the other one, lie on such as go down from that.
    fn met_by(&self, other: &Self) -> impl Iterator<Item = i64> {
        let is_met = |x: &&i64| count(&other.below, (**x - NEAR + 1, **x + NEAR - 1)) > 0;
        self.above.iter().filter(is_met).copied()
    }

    /// What it costs to run above another one: ways that cross, and much more for such as lie on each other.
    fn cost_above(&self, other: &Self) -> usize {
        let crossed = count(&self.below, other.span()) + count(&other.above, self.span());
        crossed + other.met_by(self).count() * COLLISION
    }
}

/// How many of the places, which are in order, lie from the first to the last.
fn count(places: &[i64], (first, last): (i64, i64)) -> usize {
    let before = places.partition_point(|place| *place < first);
    places.partition_point(|place| *place <= last) - before
}
