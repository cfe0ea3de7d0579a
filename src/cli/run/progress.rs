//! The progress line of a waiting run: what it waits for, and how long. It is redrawn on a terminal, and erased at the
//! end.

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use unicode_width::UnicodeWidthStr;

use crate::{
    question,
    screen::{Screen, truncate_text},
    value::format_duration,
    waits::wait_name,
};
use midex_domain::{
    clock::{Clock, SystemClock, Timestamp},
    limits,
    view::WaitView,
};

/// A progress line.
pub(super) struct ProgressLine {
    /// Each wait in words, with the time at which it is due.
    waits: Vec<(String, Option<Timestamp>)>,
    started_at: Timestamp,
    is_shown: bool,
    has_drawn: bool,
    screen: Screen,
}

impl ProgressLine {
    /// The progress line for the waits of an execution.
    pub(super) fn from_waits(waits: &[WaitView], is_json: bool) -> Self {
        let waits = waits.iter().map(|wait| (wait_name(wait), wait_deadline(wait)));
        Self {
            waits: waits.collect(),
            started_at: SystemClock.now(),
            is_shown: !is_json && io::stderr().is_terminal() && io::stdout().is_terminal(),
            has_drawn: false,
            screen: Screen::stdout(),
        }
    }

    /// Waits for the next redraw, and redraws the line.
    pub(super) async fn redraw_when_due(&mut self) {
        tokio::time::sleep(limits::RUN_PROGRESS_EVERY).await;
        if self.is_shown {
            let now = SystemClock.now();
            let line = progress_text(&self.waits, now.since(self.started_at), now);
            let line = truncate_text(&line, self.screen.columns().saturating_sub(1));
            let _ = question::write_prompt(&format!("\r{line}{}", self.erase_sequence()));
            self.has_drawn = true;
        }
    }

    /// The escape sequence that erases the rest of a longer line.
    fn erase_sequence(&self) -> &'static str {
        if self.screen.is_plain() { "" } else { "\u{1b}[K" }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.has_drawn {
            let blank = if self.screen.is_plain() {
                " ".repeat(self.screen.columns().saturating_sub(1))
            } else {
                String::new()
            };
            let _ = question::write_prompt(&format!("\r{blank}{}\r", self.erase_sequence()));
        }
    }
}

/// `build, test · pause: 42 s left · 1.0 s`.
fn progress_text(
    waits: &[(String, Option<Timestamp>)],
    elapsed: Duration,
    now: Timestamp,
) -> String {
    let parts = waits.iter().map(|(name, due)| match due {
        Some(due) => {
            let seconds_left = due.since(now).as_secs();
            format!("{name}: {} left", format_duration(seconds_left * 1000))
        }
        None => name.clone(),
    });
    let elapsed_text = format_duration(elapsed.as_secs() * 1000);
    let mut text = parts.collect::<Vec<_>>().join(" · ");
    if text.width() > 0 {
        text.push_str(" · ");
    }
    text + &elapsed_text
}

fn wait_deadline(wait: &WaitView) -> Option<Timestamp> {
    wait.due.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn progress_line_counts_down() {
        let now: Timestamp = "2026-01-01T10:00:00Z".parse().expect("a time");
        let waits = json!([
            { "step_name": "nap", "visit": 1, "attempt": 1, "waits_for": "timer", "due": "2026-01-01T10:01:05Z" },
            { "step_name": "build", "visit": 1, "attempt": 1, "waits_for": "operation", "item": 1 }
        ]);
        let waits: [WaitView; 2] = serde_json::from_value(waits).expect("waits");
        let waits = waits.map(|wait| (wait_name(&wait), wait_deadline(&wait)));
        assert_eq!(
            progress_text(&waits, Duration::from_millis(1_900), now),
            "nap: 1 m 05 s left · build #2 · 1.0 s"
        );
        assert_eq!(progress_text(&[], Duration::from_secs(2), now), "2.0 s");
    }
}
