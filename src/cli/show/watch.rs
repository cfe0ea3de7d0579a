//! `midex show --watch`: follows an execution. On a terminal the page is drawn once, and then what changed of it.

use std::{fmt::Write as _, io::Write as _, time::Duration};

use serde_json::{Value, json};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{Interval, MissedTickBehavior},
};

use super::{How, page, read};
use crate::{
    link::{Link, is_final},
    screen::{Screen, rows},
    tail::{reader_gone, written},
    unwritable,
    value::json_text,
};
use midex_domain::{
    error::{Error, Result},
    limits,
};
use midex_server::config::Config;

/// Wipes the terminal, and begins at its top.
const WIPE: &str = "\u{1b}[H\u{1b}[J";

/// Follows an execution to its end.
pub(super) async fn watch(
    link: &mut Link<'_>,
    id: &str,
    config: &Config,
    flags: &str,
    is_json: bool,
) -> Result<()> {
    let mut drawn = Drawn {
        is_json,
        flags: flags.to_owned(),
        ..Drawn::default()
    };
    let mut pace = pace();
    let mut window = Window::new()?;
    let mut looks = Looks::default();
    loop {
        let shown = read(link, id).await?;
        drawn.is_served = link.is_served();
        // What moves faster than anybody can read is left out.
        pace.tick().await;
        drawn.show(&shown)?;
        if is_final(&shown["status"]["state"]) {
            return Ok(());
        }
        let revision = shown["status"]["revision"].clone();
        if drawn.is_served {
            looks = Looks::default();
        }
        let pause = looks.pause(&revision);
        tokio::select! {
            moved = moved(link, id, &revision, pause, config) => moved?,
            ended = drawn.stand(&shown, &mut window, &mut pace) => return ended,
            () = reader_gone() => return Ok(()),
        }
    }
}

/// Ticks as often as the screen is drawn at most.
fn pace() -> Interval {
    let mut pace = tokio::time::interval(limits::WATCH_EVERY_MIN);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pace
}

/// What happens to the terminal meanwhile.
struct Window {
    sized: Signal,
    taken_up: Signal,
}

/// What happened to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// It has another size: the terminal has moved what stood on it, nobody knows how.
    Sized,
    /// The command was stopped and goes on: the shell wrote below what stood there.
    TakenUp,
    /// Time passed.
    Second,
}

impl Window {
    fn new() -> Result<Self> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Error::internal("signals cannot be received").because(error))
        };
        Ok(Self {
            sized: listen(SignalKind::window_change())?,
            taken_up: listen(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
        })
    }

    async fn next(&mut self) -> Event {
        tokio::select! {
            Some(()) = self.sized.recv() => Event::Sized,
            Some(()) = self.taken_up.recv() => Event::TakenUp,
            () = tokio::time::sleep(limits::RUN_PROGRESS_EVERY) => Event::Second,
        }
    }
}

/// When the store of no server is looked into again.
#[derive(Default)]
struct Looks {
    revision: Value,
    pause: Duration,
}

impl Looks {
    /// The shortest time up to the next look, after one at which the execution had this revision. It doubles where a look found
    /// nothing new: to open the store is to write to it, so that two who look would keep each other awake.
    fn pause(&mut self, revision: &Value) -> Duration {
        self.pause = if self.revision == *revision {
            (self.pause * 2).min(limits::WATCH_PAUSE_MAX)
        } else {
            limits::TAIL_EVERY
        };
        self.revision = revision.clone();
        self.pause
    }
}

/// Waits until the execution moves. Where no server can be asked to wait, the store is let go meanwhile, so that others find
/// it free, and is opened again, not before this pause, once another process has written to it.
async fn moved(
    link: &mut Link<'_>,
    id: &str,
    revision: &Value,
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
        // The server went away, and nobody says what it did last.
        link.leave().await;
        tokio::time::sleep(pause).await;
        return Ok(());
    }
    link.release().await?;
    let before = written(&config.data_dir);
    tokio::time::sleep(pause).await;
    while written(&config.data_dir) == before {
        tokio::time::sleep(limits::TAIL_EVERY).await;
    }
    Ok(())
}

/// What stands on the screen.
#[derive(Default)]
struct Drawn {
    is_json: bool,
    /// The flags that further commands need to reach the same executions.
    flags: String,
    /// Whether a server runs that does what no model is needed for.
    is_served: bool,
    lines: Vec<String>,
    revision: Value,
    /// Whether nobody knows any more where the lines stand.
    is_lost: bool,
}

impl Drawn {
    /// Draws the page anew every second, for times pass, and where the terminal changes.
    async fn stand(
        &mut self,
        shown: &Value,
        window: &mut Window,
        pace: &mut Interval,
    ) -> Result<()> {
        loop {
            let event = window.next().await;
            self.lose(event);
            pace.tick().await;
            if !self.is_printed(&Screen::stdout()) {
                self.show(shown)?;
            }
        }
    }

    /// Forgets what stands on the screen where that is no longer so.
    fn lose(&mut self, event: Event) {
        match event {
            Event::Sized => self.is_lost = true,
            Event::TakenUp => self.lines.clear(),
            Event::Second => {}
        }
    }

    fn how<'a>(&'a self, screen: &'a Screen) -> How<'a> {
        How {
            screen,
            flags: &self.flags,
            has_visits: false,
            is_served: self.is_served,
        }
    }

    /// Whether the page is printed whole, one below the other.
    fn is_printed(&self, screen: &Screen) -> bool {
        self.is_json || !screen.is_terminal() || screen.is_plain()
    }

    fn show(&mut self, shown: &Value) -> Result<()> {
        // The size of the terminal is that of now.
        let screen = Screen::stdout();
        if self.is_printed(&screen) {
            return self.print(shown, &screen);
        }
        let rows = rows().saturating_sub(1).max(1);
        let text = page(shown, &self.how(&screen));
        print(&self.draw(&text, rows))
    }

    /// What draws this page in so many rows.
    fn draw(&mut self, page: &str, rows: usize) -> String {
        let lines = fitted(page, rows);
        let change = if std::mem::take(&mut self.is_lost) {
            format!("{WIPE}{}", change(&[], &lines))
        } else {
            change(&self.lines, &lines)
        };
        self.lines = lines;
        change
    }

    /// Prints the page whole wherever the execution has moved, for what keeps everything that it is given.
    fn print(&mut self, shown: &Value, screen: &Screen) -> Result<()> {
        let revision = &shown["status"]["revision"];
        if self.revision == *revision {
            return Ok(());
        }
        self.revision = revision.clone();
        let text = if self.is_json {
            json_text(shown, false) + "\n"
        } else {
            page(shown, &self.how(screen)) + "\n"
        };
        print(&text)
    }
}

fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(unwritable),
    }
}

/// The lines of a page, at most so many: what is too much is counted in the last one.
fn fitted(page: &str, rows: usize) -> Vec<String> {
    let mut lines: Vec<_> = page.lines().map(str::to_owned).collect();
    if lines.len() > rows {
        let more = lines.len() - rows + 1;
        lines.truncate(rows - 1);
        lines.push(format!("… {more} more lines"));
    }
    lines
}

/// What turns the lines `before`, below which the cursor stands, into `now`: only those that differ are written.
fn change(before: &[String], now: &[String]) -> String {
    if before == now {
        return String::new();
    }
    // A line that is too long is cut by the terminal, and not broken: it would take two rows.
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

    /// The lines of a terminal on which this was written.
    fn shown(text: &str) -> Vec<String> {
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

    fn lines(text: &str) -> Vec<String> {
        text.split(' ')
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn who_looks_and_finds_nothing_new_waits_longer() {
        let mut looks = Looks::default();
        let pauses = [1, 1, 1, 1, 1, 1, 2].map(|revision| looks.pause(&json!(revision)).as_secs());
        assert_eq!(pauses, [1, 2, 4, 8, 16, 16, 1]);
    }

    #[test]
    fn only_what_changed_is_drawn_anew() {
        let (one, two) = (lines("a b c"), lines("a X c"));
        let change = change(&one, &two);
        assert!(change.contains('X') && !change.contains('a') && !change.contains('c'));
        assert_eq!(super::change(&two, &two), "");
    }

    #[test]
    fn the_screen_shows_the_last_page() {
        for pages in [
            ["a b c", "a X c"],
            ["a", "a b c"],
            ["a b c", "a"],
            ["", "a"],
            ["a b", "c d"],
        ] {
            let [before, now] = pages.map(lines);
            // A line that stays is only passed by: it is drawn before.
            let first = change(&[], &before);
            let drawn = shown(&(first + &change(&before, &now).replace("\u{1b}[1B", "\n")));
            let kept = now.iter().filter(|line| drawn.contains(line)).count();
            assert_eq!(kept, now.len(), "{pages:?}: {drawn:?}");
            assert!(drawn.len() <= now.len().max(1), "{pages:?}: {drawn:?}");
        }
    }

    #[test]
    fn a_terminal_of_another_size_is_wiped_and_drawn_whole_and_one_taken_up_below() {
        let mut drawn = Drawn::default();
        drawn.draw("a\nb\nc\nd", 9);
        drawn.lose(Event::Sized);
        let lower = drawn.draw("a\nb\nc\nd", 3);
        assert!(lower.starts_with(WIPE), "{lower:?}");
        assert_eq!(shown(&lower[WIPE.len()..]), ["a", "b", "… 2 more lines"]);
        drawn.lose(Event::Sized);
        let higher = drawn.draw("a\nb\nc\nd", 9);
        assert_eq!(shown(&higher[WIPE.len()..]), ["a", "b", "c", "d"]);
        drawn.lose(Event::TakenUp);
        let below = drawn.draw("a\nb\nc\nd", 9);
        assert_eq!(shown(&below), ["a", "b", "c", "d"]);
        drawn.lose(Event::Second);
        assert_eq!(drawn.draw("a\nb\nc\nd", 9), "");
    }

    #[test]
    fn a_page_that_is_too_long_says_what_is_missing() {
        assert_eq!(fitted("a\nb\nc\nd", 3), ["a", "b", "… 2 more lines"]);
        assert_eq!(fitted("a\nb", 3), ["a", "b"]);
    }
}
