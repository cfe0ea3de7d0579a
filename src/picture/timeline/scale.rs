//! The time axis of a timeline: where an instant is drawn, which idle spans are folded, and the labels.

use std::fmt::Write;

use crate::{
    boxes::SMALL_LETTER_WIDTH,
    lines::{count_columns, to_i64},
};

/// The width of the whole time, with the idle spans.
pub(super) const PLOT_WIDTH: i64 = 880;
/// An idle span that is longer than this share of the busy time is folded.
const IDLE_SHARE: i64 = 10;
/// The width of a folded span, and that of all of them.
const FOLD_WIDTH_MAX: i64 = 68;
const FOLDS_WIDTH_MAX: i64 = 340;
/// The least distance of two labels, and the gap between them.
const LABEL_DISTANCE: i64 = 90;
const LABEL_GAP: i64 = 10;
/// The baselines of the labels of instants and of folded spans.
const LABEL_BASELINES: (i64, i64) = (14, 29);

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const UNITS: [(&str, i64); 5] =
    [("d", DAY), ("h", HOUR), ("min", MINUTE), ("s", SECOND), ("ms", 1)];
/// The factors by which distances of labels differ from their unit.
const STEP_FACTORS: [(i64, &[i64]); 5] = [
    (1, &[1, 2, 5, 10, 20, 50, 100, 200, 500]),
    (SECOND, &[1, 2, 5, 10, 15, 30]),
    (MINUTE, &[1, 2, 5, 10, 15, 30]),
    (HOUR, &[1, 2, 3, 6, 12]),
    (DAY, &[1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000]),
];

/// A span in milliseconds since 1970.
pub(super) type TimeSpan = (i64, i64);

/// Maps instants to x coordinates. Between two segments is a folded span.
#[derive(Debug)]
pub(super) struct TimeScale {
    segments: Vec<TimeSegment>,
    /// The sum of the segments, at least 1.
    shown_ms: i64,
    folds_width: i64,
    pub(super) left: i64,
}

#[derive(Debug)]
struct TimeSegment {
    from: i64,
    to: i64,
    /// The sum of the segments before it.
    shown_before_ms: i64,
}

impl TimeScale {
    /// The scale of these spans, in which something ran.
    pub(super) fn from_spans(mut spans: Vec<TimeSpan>, left: i64) -> Self {
        spans.sort_unstable();
        let busy = join_spans(&spans, 0);
        let busy_ms: i64 = busy.iter().map(|(from, to)| to - from).sum();
        let mut shown_ms = 0;
        let mut segments = Vec::new();
        for (from, to) in join_spans(&busy, busy_ms / IDLE_SHARE) {
            segments.push(TimeSegment { from, to, shown_before_ms: shown_ms });
            shown_ms += to - from;
        }
        let folds = to_i64(segments.len().saturating_sub(1));
        let folds_width = (folds * FOLD_WIDTH_MAX).min(FOLDS_WIDTH_MAX);
        Self { segments, shown_ms: shown_ms.max(1), folds_width, left }
    }

    fn start(&self) -> i64 {
        self.segments.first().map_or(0, |segment| segment.from)
    }

    /// The x coordinate of an instant. One in a folded span is drawn where the span begins.
    pub(super) fn x(&self, at: i64) -> i64 {
        let index = self.segments.partition_point(|segment| segment.from <= at).saturating_sub(1);
        let shown = self
            .segments
            .get(index)
            .map_or(0, |segment| segment.shown_before_ms + at.min(segment.to) - segment.from);
        self.left + self.folds_before(index) + shown * self.shown_width() / self.shown_ms
    }

    fn shown_width(&self) -> i64 {
        PLOT_WIDTH - self.folds_width
    }

    /// The width of the folded spans before a segment.
    fn folds_before(&self, segment: usize) -> i64 {
        let folds = to_i64(self.segments.len().saturating_sub(1)).max(1);
        to_i64(segment) * self.folds_width / folds
    }

    /// The time from the start to an instant, as a label: `+3 min`.
    pub(super) fn format_offset(&self, at: i64) -> String {
        format!("+{}", format_duration(at - self.start()))
    }

    /// Draws the labels, a line below each as far as `bottom`, and the folded spans.
    pub(super) fn draw(&self, (top, bottom): (i64, i64), text: &mut String) {
        let step = self.label_step();
        let mut free_x = self.left;
        let mut last_label = String::new();
        for segment in &self.segments {
            let first = (segment.from - self.start()) / step + 1;
            let next = (first..).map(|count| self.start() + count * step);
            let instants = std::iter::once(segment.from).chain(next);
            for at in instants.take_while(|at| *at <= segment.to) {
                let (x, label) = (self.x(at), self.format_offset(at));
                let end = x + to_i64(count_columns(&label)) * SMALL_LETTER_WIDTH;
                if x < free_x || end > self.left + PLOT_WIDTH || label == last_label {
                    continue;
                }
                let y = LABEL_BASELINES.0;
                let _ = writeln!(
                    text,
                    "<path class=\"tick\" d=\"M{x} {top}V{bottom}\"/><text x=\"{x}\" y=\"{y}\">{label}</text>"
                );
                (free_x, last_label) = (end + LABEL_GAP, label);
            }
        }
        for (index, pair) in self.segments.windows(2).enumerate() {
            self.draw_fold(index, pair[1].from - pair[0].to, (top, bottom), text);
        }
    }

    fn draw_fold(&self, index: usize, idle_ms: i64, (top, bottom): (i64, i64), text: &mut String) {
        let (from, to) = (self.x(self.segments[index].to), self.x(self.segments[index + 1].from));
        let (middle, width) = (from.midpoint(to), to - from);
        let exact = format_duration(idle_ms);
        // A thick line with short dashes is a hatched area without the id that a pattern needs.
        let _ = write!(
            text,
            "<g><title>nothing ran for {exact}</title><path class=\"idle\" stroke-width=\"{width}\" d=\"M{middle} {top}V{bottom}\"/>"
        );
        let labels = [format!("⋯ {exact}"), format!("⋯ {}", round_duration(idle_ms))];
        let is_short = |label: &String| to_i64(count_columns(label)) * SMALL_LETTER_WIDTH <= width;
        if let Some(label) = labels.into_iter().find(is_short) {
            let y = LABEL_BASELINES.1;
            let _ = write!(text, "<text class=\"m\" x=\"{middle}\" y=\"{y}\">{label}</text>");
        }
        text.push_str("</g>\n");
    }

    /// The time between two labels.
    fn label_step(&self) -> i64 {
        let least = self.shown_ms * LABEL_DISTANCE / self.shown_width();
        let steps =
            STEP_FACTORS.iter().flat_map(|(unit, factors)| factors.iter().map(move |it| unit * it));
        steps.into_iter().find(|step| *step >= least).unwrap_or(least)
    }
}

/// Joins sorted spans that overlap, or between which is at most this gap.
fn join_spans(spans: &[TimeSpan], gap_max: i64) -> Vec<TimeSpan> {
    let mut joined: Vec<TimeSpan> = Vec::new();
    for (from, to) in spans {
        match joined.last_mut() {
            Some(last) if from - last.1 <= gap_max => last.1 = last.1.max(*to),
            _ => joined.push((*from, *to)),
        }
    }
    joined
}

/// A duration in its two largest units: `3 min 20 s`.
pub(super) fn format_duration(milliseconds: i64) -> String {
    let Some(at) = UNITS.iter().position(|(_, size)| milliseconds >= *size) else {
        return "0 s".to_owned();
    };
    let (unit, size) = UNITS[at];
    let whole = format!("{} {unit}", milliseconds / size);
    let rest = UNITS.get(at + 1).map(|(unit, small)| (milliseconds % size / small, unit));
    match rest.filter(|(count, _)| *count > 0) {
        Some((count, unit)) => format!("{whole} {count} {unit}"),
        None => whole,
    }
}

/// A duration in its largest unit, rounded.
fn round_duration(milliseconds: i64) -> String {
    let unit = UNITS.iter().find(|(_, size)| milliseconds >= *size);
    let (unit, size) = unit.copied().unwrap_or(("s", SECOND));
    format!("{} {unit}", (milliseconds + size / 2) / size)
}
