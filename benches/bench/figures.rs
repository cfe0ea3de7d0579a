//! The results: figures of turns, their medians, and how they are printed.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table};
use serde_json::{Map, Value, json};

/// The name and the unit of a measured number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Measure {
    name: &'static str,
    unit: &'static str,
}

impl Measure {
    /// Answered calls per second.
    pub(super) const RATE: Self = Self::new("rate", "1/s");
    /// Median latency of the calls.
    pub(super) const P50: Self = Self::new("p50", "us");
    /// 99th percentile of the latency.
    pub(super) const P99: Self = Self::new("p99", "us");
    /// Processor time per call: of this process with its clients, or of the server processes if there are any.
    pub(super) const CPU: Self = Self::new("cpu", "us");
    /// Writes to the file per call; most write one page.
    pub(super) const WRITES: Self = Self::new("writes", "");
    /// Syncs per call.
    pub(super) const SYNCS: Self = Self::new("syncs", "");
    /// Resident memory of an idle server, including the mapped binary.
    pub(super) const RSS: Self = Self::new("rss", "KiB");
    /// Memory of an idle server without the pages that it shares with other processes.
    pub(super) const PRIVATE: Self = Self::new("private", "KiB");
    /// Private memory per awake execution.
    pub(super) const LIVE: Self = Self::new("live", "KiB");
    /// Private memory per execution after it has gone to sleep.
    pub(super) const ASLEEP: Self = Self::new("asleep", "KiB");

    const fn new(name: &'static str, unit: &'static str) -> Self {
        Self { name, unit }
    }

    fn title(self) -> String {
        format!("{} {}", self.name, self.unit).trim_end().to_owned()
    }
}

/// The figures of one turn.
#[derive(Debug, Default)]
pub(super) struct Turn(Vec<(Measure, f64)>);

impl Turn {
    /// Adds a figure.
    pub(super) fn add(&mut self, measure: Measure, value: f64) {
        self.0.push((measure, value));
    }

    /// The figure of this measure, if the turn has it.
    pub(super) fn get(&self, measure: Measure) -> Option<f64> {
        let found = self.0.iter().find(|(of, _)| *of == measure);
        found.map(|(_, value)| *value)
    }
}

/// The turns of one contender.
#[derive(Debug)]
pub(super) struct Figure {
    pub(super) group: &'static str,
    pub(super) name: &'static str,
    pub(super) in_flight: usize,
    pub(super) turns: Vec<Turn>,
}

impl Figure {
    /// The name of the probe: the sync that every durable call has to wait for. The spread of its figures also shows
    /// how steady the machine is.
    pub(super) const PROBE: &'static str = "fdatasync";

    /// The measures that its turns have, in order.
    fn measures(&self) -> impl Iterator<Item = Measure> {
        let of_first = self.turns.first().into_iter().flat_map(|turn| &turn.0);
        of_first.map(|(measure, _)| *measure)
    }

    fn values(&self, measure: Measure) -> Vec<f64> {
        let values = self.turns.iter().filter_map(|turn| turn.get(measure));
        values.collect()
    }

    fn median(&self, measure: Measure) -> Option<f64> {
        let mut values = self.values(measure);
        values.sort_by(f64::total_cmp);
        let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
        Some(f64::midpoint(values[low], values[high]))
    }

    /// Whether this is the probe, and it was more than twice as fast in one turn as in another.
    pub(super) fn is_uneven(&self) -> bool {
        let rates = self.values(Measure::RATE);
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let most = rates.iter().copied().fold(0.0, f64::max);
        self.name == Self::PROBE && most > 2.0 * least
    }

    fn json(&self) -> Value {
        let of = |measure: Measure| {
            let value = json!({ "unit": measure.unit, "median": self.median(measure), "turns": self.values(measure) });
            (measure.name.to_owned(), value)
        };
        let measures: Map<_, _> = self.measures().map(of).collect();
        json!({ "group": self.group, "name": self.name, "in_flight": self.in_flight, "measures": measures })
    }
}

/// All figures as JSON.
pub(super) fn as_json(figures: &[Figure]) -> Value {
    figures.iter().map(Figure::json).collect()
}

/// One table per group, with `mark` after its title.
pub(super) fn as_text(
    figures: &[Figure],
    mark: &str,
    title: impl Fn(&str) -> String,
    table: impl Fn(&[&str]) -> Table,
) -> String {
    let mut text = String::new();
    for group in figures.chunk_by(|one, other| one.group == other.group) {
        let title = title(group[0].group);
        let _ = writeln!(text, "\n{title}{mark}\n{}", rows(&table, group));
    }
    text
}

fn rows(table: impl Fn(&[&str]) -> Table, figures: &[Figure]) -> String {
    let mut measures: Vec<Measure> = Vec::new();
    for measure in figures.iter().flat_map(Figure::measures) {
        if !measures.contains(&measure) {
            measures.push(measure);
        }
    }
    let mut header = vec!["in flight".to_owned(), String::new()];
    header.extend(measures.iter().map(|measure| measure.title()));
    let ratios: &[_] = if figures.iter().any(|figure| figure.name == Figure::PROBE) {
        &[(Measure::RATE, "rate/sync"), (Measure::P50, "p50/sync")]
    } else {
        &[]
    };
    header.extend(ratios.iter().map(|(_, title)| (*title).to_owned()));
    let header: Vec<_> = header.iter().map(String::as_str).collect();
    let mut table = table(&header);
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for figure in figures {
        let mut row = vec![figure.in_flight.to_string(), figure.name.to_owned()];
        row.extend(measures.iter().map(|measure| shown(figure.median(*measure))));
        let of_sync = |(measure, _): &_| shown(ratio(figures, figure, *measure));
        row.extend(ratios.iter().map(of_sync));
        table.add_row(row);
    }
    table.trim_fmt()
}

/// The ratio of a figure to that of the probe with as many calls in flight.
fn ratio(figures: &[Figure], figure: &Figure, measure: Measure) -> Option<f64> {
    let of_probe =
        |other: &&Figure| other.name == Figure::PROBE && other.in_flight == figure.in_flight;
    let probe = figures.iter().find(of_probe)?.median(measure)?;
    (figure.name != Figure::PROBE).then_some(figure.median(measure)? / probe)
}

/// Formats a number with about three significant digits: the machine allows no more precision.
fn shown(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value.abs() >= 100.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}
