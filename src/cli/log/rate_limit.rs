//! Limits how often lines of one kind are logged, so that a caller with thousands of refused calls cannot fill a disk.

use std::{
    collections::HashMap,
    fmt::Write as _,
    time::{Duration, Instant},
};

use midex_domain::limits;

/// The number of lines of each kind since the current time span began.
#[derive(Debug, Default)]
pub(super) struct LineKindCounts {
    span_start: Option<Instant>,
    counts: HashMap<String, usize>,
}

impl LineKindCounts {
    /// Counts a line; true if it is one of the first [`limits::LOG_LINES_OF_A_KIND_MAX`]. The number of kinds is
    /// bounded, because a kind is a place in the program and an error code.
    pub(super) fn count_line(&mut self, kind: String, now: Instant) -> bool {
        self.span_start.get_or_insert(now);
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        *count <= limits::LOG_LINES_OF_A_KIND_MAX
    }

    /// The time until the current span ends; `None` if none has begun.
    pub(super) fn time_to_span_end(&self, now: Instant) -> Option<Duration> {
        let span_start = self.span_start?;
        Some(limits::LOG_KIND_SPAN.saturating_sub(now.duration_since(span_start)))
    }

    /// Ends the current span, and returns a line for each kind that exceeded the limit.
    pub(super) fn end_span(&mut self) -> String {
        let mut words = String::new();
        self.span_start = None;
        for (kind, count) in self.counts.drain() {
            let excess = count.saturating_sub(limits::LOG_LINES_OF_A_KIND_MAX);
            if excess > 0 {
                let _ = writeln!(words, "{excess} more lines like `{kind}` were left out");
            }
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn kinds_are_counted_per_span() {
        let start = Instant::now();
        let mut kinds = LineKindCounts::default();
        assert_eq!(kinds.time_to_span_end(start), None);
        let count_admitted = |kinds: &mut LineKindCounts, kind: &str, times| {
            let lines = (0..times).filter(|_| kinds.count_line(kind.to_owned(), start));
            lines.count()
        };
        let limit = limits::LOG_LINES_OF_A_KIND_MAX;
        assert_eq!(count_admitted(&mut kinds, "one", limit + 3), limit);
        assert_eq!(count_admitted(&mut kinds, "other", limit), limit);
        let later = start + limits::LOG_KIND_SPAN / 2;
        assert_eq!(kinds.time_to_span_end(later), Some(limits::LOG_KIND_SPAN / 2));
        let later = start + limits::LOG_KIND_SPAN * 2;
        assert_eq!(kinds.time_to_span_end(later), Some(Duration::ZERO));
        assert_eq!(kinds.end_span(), "3 more lines like `one` were left out\n");
        assert_eq!(kinds.time_to_span_end(later), None);
        assert_eq!(count_admitted(&mut kinds, "one", limit + 3), limit);
    }
}
