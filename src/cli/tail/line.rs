//! Formats an event as one line.

use std::fmt::Write as _;

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use crate::cli::{
    screen::{Screen, Style, cut, one_line},
    value::{field, json_text},
};

/// The most columns of one value of an event's metadata.
const VALUE_COLUMNS_MAX: usize = 160;
/// The columns of a terminal with room for dates and whole ids.
const COLUMNS_WIDE: usize = 110;
/// The columns of the ids that midex makes.
const ID_COLUMNS: usize = 31;
/// The columns of an id on a narrow terminal: its end tells it from other ids of the same day.
const ID_COLUMNS_NARROW: usize = 12;
/// The columns of the longest name of an event's type.
const KIND_COLUMNS: usize = 25;

/// An event in one line; with `everywhere` it names the execution.
pub(super) fn line(event: &Value, everywhere: bool, screen: &Screen) -> String {
    let narrow = screen.is_terminal() && screen.columns() < COLUMNS_WIDE;
    let kind = field(event, "event_type");
    let time = time(&field(event, "created_at"), narrow);
    let mut place = String::new();
    if everywhere {
        let columns = if narrow {
            ID_COLUMNS_NARROW
        } else {
            ID_COLUMNS
        };
        let id = cut_front(&field(event, "execution_id"), columns);
        let _ = write!(place, "{id:<columns$}  ");
    }
    let _ = write!(place, "{:<12}", field(event, "step_name"));
    let taken = time.len() + kind.len().max(KIND_COLUMNS) + place.width() + 6;
    let metadata = metadata(&event["metadata"]);
    // The metadata of a failure may take a second line.
    let metadata = if is_bad(&kind) || !screen.is_terminal() {
        metadata
    } else {
        cut(&metadata, screen.columns().saturating_sub(taken))
    };
    let line = format!(
        "{}  {}  {place}  {metadata}",
        screen.paint(Style::Dim, &time),
        painted(&kind, screen),
    );
    line.trim_end().to_owned()
}

fn painted(kind: &str, screen: &Screen) -> String {
    let padded = format!("{kind:<KIND_COLUMNS$}");
    match kind {
        kind if is_bad(kind) => screen.paint(Style::Bad, &padded),
        kind if kind.ends_with("_completed") => screen.paint(Style::Good, &padded),
        _ => padded,
    }
}

fn is_bad(kind: &str) -> bool {
    kind == "error" || kind == "token_expired" || kind.ends_with("_failed")
}

/// `2025-01-15T10:00:00.000Z`, without the date on a narrow terminal.
fn time(time: &str, narrow: bool) -> String {
    let short = time.split_once('T').filter(|_| narrow);
    short.map_or(time, |(_, short)| short).to_owned()
}

/// A text in at most so many columns, cut at its front.
fn cut_front(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let reversed: String = text.chars().rev().collect();
    cut(&reversed, columns).chars().rev().collect()
}

/// `name=value` for all metadata that no other column shows.
fn metadata(metadata: &Value) -> String {
    let pairs = metadata.as_object().into_iter().flatten();
    let pairs = pairs.filter(|(name, value)| *name != "step_name" && !value.is_null());
    let shown: Vec<_> = pairs.map(|(name, value)| pair(name, value)).collect();
    shown.join(" ")
}

fn pair(name: &str, value: &Value) -> String {
    let text = match value {
        Value::String(text) if !text.is_empty() && !text.contains([' ', '"', '\n']) => {
            one_line(text)
        }
        value => one_line(&json_text(value, false)),
    };
    format!("{}={}", one_line(name), cut(&text, VALUE_COLUMNS_MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::telemetry::EventType;

    #[test]
    fn a_narrow_terminal_shows_what_tells_lines_apart() {
        let full = "2025-01-15T10:00:00.000Z";
        assert_eq!(time(full, false), full);
        assert_eq!(time(full, true), "10:00:00.000Z");
        assert_eq!(cut_front("exec_01jhk2w3x4", 6), "…2w3x4");
        assert_eq!(cut_front("short", 6), "short");
    }

    #[test]
    fn metadata_is_shown_in_short() {
        let value = json!({
            "step_name": "s", "duration_ms": 12, "error": "no room\nleft", "code": null, "name": "a.md"
        });
        assert_eq!(
            metadata(&value),
            r#"duration_ms=12 error="no room\nleft" name=a.md"#
        );
        assert_eq!(metadata(&Value::Null), "");
        assert!(
            EventType::ALL
                .iter()
                .all(|kind| kind.as_str().len() <= KIND_COLUMNS)
        );
    }
}
