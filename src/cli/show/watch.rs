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
    tail::{read_store_write_time, wait_for_reader_gone},
    unwritable_output_error,
    value::json_text,
};
use midex_domain::{
    clock::{Clock, SystemClock},
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
    let mut screen = WatchScreen { is_json, flags: flags.to_owned(), ..WatchScreen::default() };
    let mut interval = redraw_interval();
    let mut terminal_events = TerminalEvents::new()?;
    let mut polling = StorePolling::default();
    loop {
        let (reply, execution) = link.fetch_execution(id, None).await?;
        screen.is_served = link.is_served();
        // Changes that follow faster than the interval are not drawn one by one.
        interval.tick().await;
        screen.draw_or_print(&reply, &execution)?;
        if is_final_state(&execution.status.state) || execution.status.imported {
            return Ok(());
        }
        let revision = execution.status.revision;
        if screen.is_served {
            polling = StorePolling::default();
        }
        let pause = polling.next_pause(revision);
        tokio::select! {
            moved = wait_for_new_revision(link, id, revision, pause, config) => moved?,
            ended = screen.redraw_forever(&reply, &execution, &mut terminal_events, &mut interval) => return ended,
            () = wait_for_reader_gone() => return Ok(()),
        }
    }
}

/// The minimum interval between two drawings.
fn redraw_interval() -> Interval {
    let mut interval = tokio::time::interval(limits::WATCH_EVERY_MIN);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// The source of events of the terminal.
struct TerminalEvents {
    resize_signal: Signal,
    continue_signal: Signal,
}

/// An event of the terminal, or a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchEvent {
    /// The terminal was resized, and has moved the drawn lines in an unknown way.
    Resized,
    /// The process was stopped and continued: the shell wrote below the drawn lines.
    Continued,
    /// A second passed.
    Tick,
}

impl TerminalEvents {
    fn new() -> Result<Self> {
        let subscribe = |kind| {
            signal(kind)
                .map_err(|error| Error::internal("signals cannot be received").with_source(error))
        };
        Ok(Self {
            resize_signal: subscribe(SignalKind::window_change())?,
            continue_signal: subscribe(SignalKind::from_raw(
                rustix::process::Signal::CONT.as_raw(),
            ))?,
        })
    }

    async fn next_event(&mut self) -> WatchEvent {
        tokio::select! {
            Some(()) = self.resize_signal.recv() => WatchEvent::Resized,
            Some(()) = self.continue_signal.recv() => WatchEvent::Continued,
            () = tokio::time::sleep(limits::RUN_PROGRESS_EVERY) => WatchEvent::Tick,
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
    let last_write = read_store_write_time(&config.data_dir);
    tokio::time::sleep(pause).await;
    while read_store_write_time(&config.data_dir) == last_write {
        tokio::time::sleep(limits::TAIL_EVERY).await;
    }
    Ok(())
}

/// The content of the screen.
#[derive(Default)]
struct WatchScreen {
    is_json: bool,
    /// The flags that a follow-up command needs to reach the same executions.
    flags: String,
    /// Whether a server is running, which performs waits and other steps that need no model.
    is_served: bool,
    lines: Vec<String>,
    /// The revision that was printed last.
    revision: Option<u64>,
    /// Whether the position of the drawn lines is unknown.
    is_position_lost: bool,
}

impl WatchScreen {
    /// Redraws the page every second, because it shows durations, and after each event of the terminal. Never returns
    /// `Ok`.
    async fn redraw_forever(
        &mut self,
        reply: &Value,
        execution: &ExecutionView,
        terminal_events: &mut TerminalEvents,
        interval: &mut Interval,
    ) -> Result<()> {
        loop {
            let event = terminal_events.next_event().await;
            self.invalidate_after(event);
            interval.tick().await;
            if !self.is_printed_in_full(&Screen::stdout()) {
                self.draw_or_print(reply, execution)?;
            }
        }
    }

    /// Invalidates the drawn lines after an event that moved them.
    fn invalidate_after(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Resized => self.is_position_lost = true,
            WatchEvent::Continued => self.lines.clear(),
            WatchEvent::Tick => {}
        }
    }

    fn display_options<'a>(&'a self, screen: &'a Screen) -> DisplayOptions<'a> {
        DisplayOptions {
            screen,
            flags: &self.flags,
            has_visits: false,
            is_served: self.is_served,
            now: SystemClock.now(),
            latest_revision: None,
        }
    }

    /// Whether each page is printed in full below the previous one, instead of being redrawn.
    fn is_printed_in_full(&self, screen: &Screen) -> bool {
        self.is_json || !screen.is_terminal() || screen.is_plain()
    }

    fn draw_or_print(&mut self, reply: &Value, execution: &ExecutionView) -> Result<()> {
        // Query the size anew: the terminal may have been resized.
        let screen = Screen::stdout();
        if self.is_printed_in_full(&screen) {
            return self.print_page(reply, execution, &screen);
        }
        let rows = terminal_rows().saturating_sub(1).max(1);
        let text = execution_page(execution, &self.display_options(&screen));
        write_to_stdout(&self.draw_page(&text, rows))
    }

    /// The escape sequences and text that turn the screen into this page, in at most `rows` rows.
    fn draw_page(&mut self, page: &str, rows: usize) -> String {
        let lines = fit_page_to_rows(page, rows);
        let output = if std::mem::take(&mut self.is_position_lost) {
            format!("{CLEAR_SCREEN}{}", line_changes(&[], &lines))
        } else {
            line_changes(&self.lines, &lines)
        };
        self.lines = lines;
        output
    }

    /// Prints the full page if the execution has a new revision, for output that cannot be redrawn, such as a pipe.
    fn print_page(
        &mut self,
        reply: &Value,
        execution: &ExecutionView,
        screen: &Screen,
    ) -> Result<()> {
        let revision = Some(execution.status.revision);
        if self.revision == revision {
            return Ok(());
        }
        self.revision = revision;
        let text = if self.is_json {
            json_text(reply, false) + "\n"
        } else {
            execution_page(execution, &self.display_options(screen)) + "\n"
        };
        write_to_stdout(&text)
    }
}

fn write_to_stdout(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    let result = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(unwritable_output_error),
    }
}

/// The lines of a page, at most `rows`. If there are more, the last line counts them.
fn fit_page_to_rows(page: &str, rows: usize) -> Vec<String> {
    let mut lines: Vec<_> = page.lines().map(str::to_owned).collect();
    if lines.len() > rows {
        let hidden_count = lines.len() - rows + 1;
        lines.truncate(rows - 1);
        lines.push(format!("… {hidden_count} more lines"));
    }
    lines
}

/// The output that turns the lines `old_lines` into `new_lines`, with the cursor below them. Only lines that differ are written.
fn line_changes(old_lines: &[String], new_lines: &[String]) -> String {
    if old_lines == new_lines {
        return String::new();
    }
    // Turn wrapping off: a line that is too long is truncated, rather than taking two rows.
    let mut text = String::from("\u{1b}[?7l");
    if !old_lines.is_empty() {
        let _ = write!(text, "\u{1b}[{}A", old_lines.len());
    }
    for index in 0..old_lines.len().max(new_lines.len()) {
        match (old_lines.get(index), new_lines.get(index)) {
            (Some(old_line), Some(new_line)) if old_line == new_line => text.push_str("\u{1b}[1B"),
            (_, Some(new_line)) => {
                let _ = write!(text, "\r{new_line}\u{1b}[K\n");
            }
            (_, None) => text.push_str("\r\u{1b}[K\u{1b}[1B"),
        }
    }
    let removed = old_lines.len().saturating_sub(new_lines.len());
    if removed > 0 {
        let _ = write!(text, "\u{1b}[{removed}A");
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
        let mut polling = StorePolling::default();
        let pauses = [1, 1, 1, 1, 1, 1, 2].map(|revision| polling.next_pause(revision).as_secs());
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
            let [old_page, new_page] = pages.map(split_lines);
            // An unchanged line is skipped with a cursor movement, so draw the old page first.
            let first = line_changes(&[], &old_page);
            let terminal = terminal_lines(
                &(first + &line_changes(&old_page, &new_page).replace("\u{1b}[1B", "\n")),
            );
            let matched = new_page.iter().filter(|line| terminal.contains(line)).count();
            assert_eq!(matched, new_page.len(), "{pages:?}: {terminal:?}");
            assert!(terminal.len() <= new_page.len().max(1), "{pages:?}: {terminal:?}");
        }
    }

    #[test]
    fn resized_terminal_is_redrawn() {
        let mut screen = WatchScreen::default();
        screen.draw_page("a\nb\nc\nd", 9);
        screen.invalidate_after(WatchEvent::Resized);
        let lower = screen.draw_page("a\nb\nc\nd", 3);
        assert!(lower.starts_with(CLEAR_SCREEN), "{lower:?}");
        assert_eq!(terminal_lines(&lower[CLEAR_SCREEN.len()..]), ["a", "b", "… 2 more lines"]);
        screen.invalidate_after(WatchEvent::Resized);
        let higher = screen.draw_page("a\nb\nc\nd", 9);
        assert_eq!(terminal_lines(&higher[CLEAR_SCREEN.len()..]), ["a", "b", "c", "d"]);
        screen.invalidate_after(WatchEvent::Continued);
        let below = screen.draw_page("a\nb\nc\nd", 9);
        assert_eq!(terminal_lines(&below), ["a", "b", "c", "d"]);
        screen.invalidate_after(WatchEvent::Tick);
        assert_eq!(screen.draw_page("a\nb\nc\nd", 9), "");
    }

    #[test]
    fn long_page_counts_hidden_lines() {
        assert_eq!(fit_page_to_rows("a\nb\nc\nd", 3), ["a", "b", "… 2 more lines"]);
        assert_eq!(fit_page_to_rows("a\nb", 3), ["a", "b"]);
    }
}
