//! `midex show --watch`: follows an execution. On a terminal the page is drawn once, and then only the changed lines.

use std::{fmt::Write as _, io::Write as _, time::Duration};

use serde_json::{Value, json};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{Interval, MissedTickBehavior},
};

use super::{DisplayOptions, execution_page};
use crate::{
    link::{ServerLink, is_final_state},
    screen::{Screen, terminal_rows},
    tail::{store_write_time, wait_for_reader_gone},
    unwritable_output_error,
    value::json_text,
};
use midex_domain::{
    error::{Error, Result},
    limits,
    view::ExecutionView,
};
use midex_server::config::Config;

/// Moves the cursor to the top left and clears the screen.
const CLEAR_SCREEN: &str = "\u{1b}[H\u{1b}[J";

/// Follows an execution to its end.
pub(super) async fn watch_execution(
    link: &mut ServerLink<'_>,
    id: &str,
    config: &Config,
    flags: &str,
    is_json: bool,
) -> Result<()> {
    let mut drawn = DrawnScreen { is_json, flags: flags.to_owned(), ..DrawnScreen::default() };
    let mut pace = redraw_interval();
    let mut window = TerminalEvents::new()?;
    let mut looks = StorePolling::default();
    loop {
        let (reply, shown) = link.fetch_execution(id).await?;
        drawn.is_served = link.is_served();
        // Changes that follow faster than the interval are not drawn one by one.
        pace.tick().await;
        drawn.draw_or_print(&reply, &shown)?;
        if is_final_state(&shown.status.state) {
            return Ok(());
        }
        let revision = shown.status.revision;
        if drawn.is_served {
            looks = StorePolling::default();
        }
        let pause = looks.next_pause(revision);
        tokio::select! {
            moved = wait_for_new_revision(link, id, revision, pause, config) => moved?,
            ended = drawn.redraw_forever(&reply, &shown, &mut window, &mut pace) => return ended,
            () = wait_for_reader_gone() => return Ok(()),
        }
    }
}

/// The minimum interval between two drawings.
fn redraw_interval() -> Interval {
    let mut pace = tokio::time::interval(limits::WATCH_EVERY_MIN);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pace
}

/// The source of events of the terminal.
struct TerminalEvents {
    sized: Signal,
    taken_up: Signal,
}

/// An event of the terminal, or a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchEvent {
    /// The terminal was resized, and has moved the drawn lines in an unknown way.
    Sized,
    /// The process was stopped and continued: the shell wrote below the drawn lines.
    TakenUp,
    /// A second passed.
    Second,
}

impl TerminalEvents {
    fn new() -> Result<Self> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Error::internal("signals cannot be received").with_source(error))
        };
        Ok(Self {
            sized: listen(SignalKind::window_change())?,
            taken_up: listen(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
        })
    }

    async fn next_event(&mut self) -> WatchEvent {
        tokio::select! {
            Some(()) = self.sized.recv() => WatchEvent::Sized,
            Some(()) = self.taken_up.recv() => WatchEvent::TakenUp,
            () = tokio::time::sleep(limits::RUN_PROGRESS_EVERY) => WatchEvent::Second,
        }
    }
}

/// The polling schedule for a store that no server owns.
#[derive(Default)]
struct StorePolling {
    revision: Option<u64>,
    pause: Duration,
}

impl StorePolling {
    /// The pause before the next look at the store, after a look that found this revision. It doubles while looks find
    /// nothing new: opening the store writes to it, so two watching processes would otherwise keep waking each other.
    fn next_pause(&mut self, revision: u64) -> Duration {
        self.pause = if self.revision == Some(revision) {
            (self.pause * 2).min(limits::WATCH_PAUSE_MAX)
        } else {
            limits::TAIL_EVERY
        };
        self.revision = Some(revision);
        self.pause
    }
}

/// Waits until the execution has a new revision. Without a server to wait at, releases the store for other processes,
/// and returns when one of them has written to it, but not before `pause` has passed.
async fn wait_for_new_revision(
    link: &mut ServerLink<'_>,
    id: &str,
    revision: u64,
    pause: Duration,
    config: &Config,
) -> Result<()> {
    if link.is_served() {
        let arguments = json!({
            "execution_id": id, "since_revision": revision, "timeout_s": limits::TAIL_WAIT_S
        });
        match link.call_once("execution.wait", arguments).await {
            Ok(_) => return Ok(()),
            Err(error) if !error.code().retryable() => return Err(error),
            Err(_) => {}
        }
        // The server went away, and its last changes are unknown: look again after the pause.
        link.drop_session().await;
        tokio::time::sleep(pause).await;
        return Ok(());
    }
    link.release_store().await?;
    let before = store_write_time(&config.data_dir);
    tokio::time::sleep(pause).await;
    while store_write_time(&config.data_dir) == before {
        tokio::time::sleep(limits::TAIL_EVERY).await;
    }
    Ok(())
}

/// The content of the screen.
#[derive(Default)]
struct DrawnScreen {
    is_json: bool,
    /// The flags that a follow-up command needs to reach the same executions.
    flags: String,
    /// Whether a server is running, which performs waits and other steps that need no model.
    is_served: bool,
    lines: Vec<String>,
    /// The revision that was printed last.
    revision: Option<u64>,
    /// Whether the position of the drawn lines is unknown.
    is_lost: bool,
}

impl DrawnScreen {
    /// Redraws the page every second, because it shows durations, and after each event of the terminal. Never returns
    /// `Ok`.
    async fn redraw_forever(
        &mut self,
        reply: &Value,
        shown: &ExecutionView,
        window: &mut TerminalEvents,
        pace: &mut Interval,
    ) -> Result<()> {
        loop {
            let event = window.next_event().await;
            self.invalidate_after(event);
            pace.tick().await;
            if !self.is_printed_in_full(&Screen::stdout()) {
                self.draw_or_print(reply, shown)?;
            }
        }
    }

    /// Invalidates the drawn lines after an event that moved them.
    fn invalidate_after(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Sized => self.is_lost = true,
            WatchEvent::TakenUp => self.lines.clear(),
            WatchEvent::Second => {}
        }
    }

    fn display_options<'a>(&'a self, screen: &'a Screen) -> DisplayOptions<'a> {
        DisplayOptions { screen, flags: &self.flags, has_visits: false, is_served: self.is_served }
    }

    /// Whether each page is printed in full below the previous one, instead of being redrawn.
    fn is_printed_in_full(&self, screen: &Screen) -> bool {
        self.is_json || !screen.is_terminal() || screen.is_plain()
    }

    fn draw_or_print(&mut self, reply: &Value, shown: &ExecutionView) -> Result<()> {
        // Query the size anew: the terminal may have been resized.
        let screen = Screen::stdout();
        if self.is_printed_in_full(&screen) {
            return self.print_page(reply, shown, &screen);
        }
        let rows = terminal_rows().saturating_sub(1).max(1);
        let text = execution_page(shown, &self.display_options(&screen));
        write_to_stdout(&self.draw_page(&text, rows))
    }

    /// The escape sequences and text that turn the screen into this page, in at most `rows` rows.
    fn draw_page(&mut self, page: &str, rows: usize) -> String {
        let lines = fit_page_to_rows(page, rows);
        let change = if std::mem::take(&mut self.is_lost) {
            format!("{CLEAR_SCREEN}{}", line_changes(&[], &lines))
        } else {
            line_changes(&self.lines, &lines)
        };
        self.lines = lines;
        change
    }

    /// Prints the full page if the execution has a new revision, for output that cannot be redrawn, such as a pipe.
    fn print_page(&mut self, reply: &Value, shown: &ExecutionView, screen: &Screen) -> Result<()> {
        let revision = Some(shown.status.revision);
        if self.revision == revision {
            return Ok(());
        }
        self.revision = revision;
        let text = if self.is_json {
            json_text(reply, false) + "\n"
        } else {
            execution_page(shown, &self.display_options(screen)) + "\n"
        };
        write_to_stdout(&text)
    }
}

fn write_to_stdout(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(unwritable_output_error),
    }
}

/// The lines of a page, at most `rows`. If there are more, the last line counts them.
fn fit_page_to_rows(page: &str, rows: usize) -> Vec<String> {
    let mut lines: Vec<_> = page.lines().map(str::to_owned).collect();
    if lines.len() > rows {
        let more = lines.len() - rows + 1;
        lines.truncate(rows - 1);
        lines.push(format!("… {more} more lines"));
    }
    lines
}

/// The output that turns the lines `before` into `now`, with the cursor below them. Only lines that differ are written.
fn line_changes(before: &[String], now: &[String]) -> String {
    if before == now {
        return String::new();
    }
    // Turn wrapping off: a line that is too long is truncated, rather than taking two rows.
    let mut text = String::from("\u{1b}[?7l");
    if !before.is_empty() {
        let _ = write!(text, "\u{1b}[{}A", before.len());
    }
    for at in 0..before.len().max(now.len()) {
        match (before.get(at), now.get(at)) {
            (Some(old), Some(new)) if old == new => text.push_str("\u{1b}[1B"),
            (_, Some(new)) => {
                let _ = write!(text, "\r{new}\u{1b}[K\n");
            }
            (_, None) => text.push_str("\r\u{1b}[K\u{1b}[1B"),
        }
    }
    let left = before.len().saturating_sub(now.len());
    if left > 0 {
        let _ = write!(text, "\u{1b}[{left}A");
    }
    text.push_str("\r\u{1b}[?7h");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a terminal after this output.
    fn terminal_lines(text: &str) -> Vec<String> {
        let (mut lines, mut row, mut rest) = (vec![String::new(); 9], 0_usize, text);
        while let Some(letter) = rest.chars().next() {
            rest = &rest[letter.len_utf8()..];
            match letter {
                '\u{1b}' => {
                    let end = rest.find(char::is_alphabetic).expect("a sequence");
                    let count = rest[1..end].parse().unwrap_or(1);
                    match &rest[end..=end] {
                        "A" => row -= count,
                        "B" => row += count,
                        _ => {}
                    }
                    rest = &rest[end + 1..];
                }
                '\r' => lines[row].clear(),
                '\n' => row += 1,
                letter => lines[row].push(letter),
            }
        }
        lines.retain(|line| !line.is_empty());
        lines
    }

    fn split_lines(text: &str) -> Vec<String> {
        text.split(' ').filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn idle_polling_slows_down() {
        let mut looks = StorePolling::default();
        let pauses = [1, 1, 1, 1, 1, 1, 2].map(|revision| looks.next_pause(revision).as_secs());
        assert_eq!(pauses, [1, 2, 4, 8, 16, 16, 1]);
    }

    #[test]
    fn only_changed_lines_are_redrawn() {
        let (one, two) = (split_lines("a b c"), split_lines("a X c"));
        let change = line_changes(&one, &two);
        assert!(change.contains('X') && !change.contains('a') && !change.contains('c'));
        assert_eq!(line_changes(&two, &two), "");
    }

    #[test]
    fn the_screen_shows_the_last_page() {
        for pages in [["a b c", "a X c"], ["a", "a b c"], ["a b c", "a"], ["", "a"], ["a b", "c d"]]
        {
            let [before, now] = pages.map(split_lines);
            // An unchanged line is skipped with a cursor movement, so draw the old page first.
            let first = line_changes(&[], &before);
            let drawn =
                terminal_lines(&(first + &line_changes(&before, &now).replace("\u{1b}[1B", "\n")));
            let kept = now.iter().filter(|line| drawn.contains(line)).count();
            assert_eq!(kept, now.len(), "{pages:?}: {drawn:?}");
            assert!(drawn.len() <= now.len().max(1), "{pages:?}: {drawn:?}");
        }
    }

    #[test]
    fn resized_terminal_is_redrawn() {
        let mut drawn = DrawnScreen::default();
        drawn.draw_page("a\nb\nc\nd", 9);
        drawn.invalidate_after(WatchEvent::Sized);
        let lower = drawn.draw_page("a\nb\nc\nd", 3);
        assert!(lower.starts_with(CLEAR_SCREEN), "{lower:?}");
        assert_eq!(terminal_lines(&lower[CLEAR_SCREEN.len()..]), ["a", "b", "… 2 more lines"]);
        drawn.invalidate_after(WatchEvent::Sized);
        let higher = drawn.draw_page("a\nb\nc\nd", 9);
        assert_eq!(terminal_lines(&higher[CLEAR_SCREEN.len()..]), ["a", "b", "c", "d"]);
        drawn.invalidate_after(WatchEvent::TakenUp);
        let below = drawn.draw_page("a\nb\nc\nd", 9);
        assert_eq!(terminal_lines(&below), ["a", "b", "c", "d"]);
        drawn.invalidate_after(WatchEvent::Second);
        assert_eq!(drawn.draw_page("a\nb\nc\nd", 9), "");
    }

    #[test]
    fn long_page_counts_hidden_lines() {
        assert_eq!(fit_page_to_rows("a\nb\nc\nd", 3), ["a", "b", "… 2 more lines"]);
        assert_eq!(fit_page_to_rows("a\nb", 3), ["a", "b"]);
    }
}
