//! Formats an event as one line.

use std::fmt::Write as _;

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::words::event_text;
use crate::{
    screen::{Screen, TextStyle, truncate_text},
    value::text_field,
    when,
};

/// The width of a terminal with room for dates and full ids.
const WIDE_COLUMNS_MIN: usize = 110;
/// The width of a terminal with room for a column of step names.
const STEP_COLUMN_COLUMNS_MIN: usize = 60;
/// The width of generated ids.
const ID_COLUMNS: usize = 31;
/// The width of an id on a narrow terminal. The end of the id is shown, because it differs between ids of the same day.
const ID_COLUMNS_NARROW: usize = 12;
/// The width of the column of step names; longer names exceed it.
const STEP_COLUMNS: usize = 12;

/// Formats an event in one line; with `names_execution` it names the execution. `None` if another event says the same.
pub(super) fn event_line(event: &Value, names_execution: bool, screen: &Screen) -> Option<String> {
    let (words, style) = event_text(event)?;
    let time = event_time(event, screen);
    let place = event_place(event, names_execution, screen);
    let columns = screen.columns().saturating_sub(time.width() + place.width() + 2);
    // The reason of a failure is not truncated, and may take a second line.
    let words = if style == Some(TextStyle::Bad) || !screen.is_terminal() {
        words
    } else {
        truncate_text(&words, columns)
    };
    let words = style.map_or(words.clone(), |style| screen.paint(style, &words));
    let line = format!("{}  {place}{words}", screen.paint(TextStyle::Dim, &time));
    Some(line.trim_end().to_owned())
}

fn is_narrow_screen(screen: &Screen) -> bool {
    screen.is_terminal() && screen.columns() < WIDE_COLUMNS_MIN
}

/// The local time of an event; without the date on a narrow terminal.
fn event_time(event: &Value, screen: &Screen) -> String {
    let time = when::format_local_time(&text_field(event, "created_at"));
    let mut parts = time.split(' ');
    match (parts.next(), parts.next()) {
        (Some(_), Some(clock)) if is_narrow_screen(screen) => clock.to_owned(),
        (Some(date), Some(clock)) => format!("{date} {clock}"),
        _ => time,
    }
}

/// The execution and the step of an event.
fn event_place(event: &Value, names_execution: bool, screen: &Screen) -> String {
    let (mut place, step) = (String::new(), text_field(event, "step_name"));
    if names_execution {
        let columns = if is_narrow_screen(screen) { ID_COLUMNS_NARROW } else { ID_COLUMNS };
        let id = truncate_front(&text_field(event, "execution_id"), columns);
        place = format!("{id:<columns$}  ");
    }
    if screen.columns() >= STEP_COLUMN_COLUMNS_MIN {
        let _ = write!(place, "{step:<STEP_COLUMNS$}  ");
    } else if !step.is_empty() {
        let _ = write!(place, "{step}  ");
    }
    place
}

/// Truncates a text to this width at its front.
fn truncate_front(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let reversed: String = text.chars().rev().collect();
    truncate_text(&reversed, columns).chars().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_id_tells_it_from_others() {
        assert_eq!(truncate_front("exec_01jhk2w3x4", 6), "…2w3x4");
        assert_eq!(truncate_front("short", 6), "short");
    }
}
