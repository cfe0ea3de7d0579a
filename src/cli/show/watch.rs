//! `midex show --watch`: follows an execution. On a terminal the page is drawn once, and then what changed of it.

use std::{fmt::Write as _, io::Write as _};

use serde_json::{Value, json};

use super::{How, page, read};
use crate::{
    cli::{
        link::{Link, is_final},
        screen::{Screen, rows},
        tail::{reader_gone, written},
        unwritable,
        value::json_text,
    },
    config::Config,
    error::Result,
    limits,
};

/// Follows an execution to its end.
pub(super) async fn watch(
    link: &mut Link<'_>,
    id: &str,
    config: &Config,
    flags: &str,
    is_json: bool,
) -> Result<()> {
    let screen = Screen::stdout();
    let mut drawn = Drawn::default();
    loop {
        let shown = read(link, id).await?;
        let how = How {
            screen: &screen,
            flags,
            has_visits: false,
            is_served: link.is_served(),
        };
        drawn.show(&shown, &how, is_json)?;
        if is_final(&shown["status"]["state"]) {
            return Ok(());
        }
        let revision = shown["status"]["revision"].clone();
        tokio::select! {
            moved = moved(link, id, &revision, config) => moved?,
            ended = drawn.tick(&shown, &how, is_json) => return ended,
            () = reader_gone() => return Ok(()),
        }
    }
}

/// Waits until the execution moves. Where no server can be asked to wait, the store is let go meanwhile, so that others find
/// it free, and is opened again once another process has written to it.
async fn moved(link: &mut Link<'_>, id: &str, revision: &Value, config: &Config) -> Result<()> {
    if link.is_served() {
        let arguments = json!({
            "execution_id": id, "since_revision": revision, "timeout_s": limits::TAIL_WAIT_S
        });
        let answer = link.call("execution.wait", arguments).await;
        return match answer {
            Err(error) if !error.code().retryable() => Err(error),
            _ => Ok(()),
        };
    }
    link.release().await?;
    let before = written(&config.data_dir);
    while written(&config.data_dir) == before {
        tokio::time::sleep(limits::TAIL_EVERY).await;
    }
    Ok(())
}

/// What stands on the screen.
#[derive(Default)]
struct Drawn {
    lines: Vec<String>,
    revision: Value,
}

impl Drawn {
    /// Draws the page anew every second, for times pass.
    async fn tick(&mut self, shown: &Value, how: &How<'_>, is_json: bool) -> Result<()> {
        loop {
            tokio::time::sleep(limits::RUN_PROGRESS_EVERY).await;
            if how.screen.is_terminal() && !is_json {
                self.show(shown, how, is_json)?;
            }
        }
    }

    fn show(&mut self, shown: &Value, how: &How<'_>, is_json: bool) -> Result<()> {
        if is_json || !how.screen.is_terminal() || how.screen.is_plain() {
            return self.print(shown, how, is_json);
        }
        let rows = rows().saturating_sub(1).max(1);
        let lines = fitted(&page(shown, how), rows);
        let change = change(&self.lines, &lines);
        self.lines = lines;
        print(&change)
    }

    /// Prints the page whole wherever the execution has moved, for what keeps everything that it is given.
    fn print(&mut self, shown: &Value, how: &How<'_>, is_json: bool) -> Result<()> {
        let revision = &shown["status"]["revision"];
        if self.revision == *revision {
            return Ok(());
        }
        self.revision = revision.clone();
        let text = if is_json {
            json_text(shown, false) + "\n"
        } else {
            page(shown, how) + "\n"
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
    fn a_page_that_is_too_long_says_what_is_missing() {
        assert_eq!(fitted("a\nb\nc\nd", 3), ["a", "b", "… 2 more lines"]);
        assert_eq!(fitted("a\nb", 3), ["a", "b"]);
    }
}
