//! Texts, times, states and values in HTML. Hidden characters are replaced, so that no text looks like another one, and long
//! texts are cut.

use std::time::Duration;

use maud::{Markup, html};
use serde_json::Value;

use midex_domain::{
    clock::Timestamp, limits, truncate::truncate_to_chars, uri, visible::replace_hidden_chars,
};

/// A short text in one line.
pub(crate) fn line(text: &str) -> Markup {
    cut_line(text, limits::DASHBOARD_LINE_CHARS_MAX)
}

/// A text of several lines in one line, such as the message of an error.
pub(crate) fn joined_lines(text: &str) -> Markup {
    line(&text.lines().map(str::trim).collect::<Vec<_>>().join(" "))
}

fn cut_line(text: &str, chars_max: usize) -> Markup {
    html! { bdi { (replace_hidden_chars(&truncate_to_chars(text, chars_max))) } }
}

/// A text of several lines, as its author wrote it.
pub(crate) fn block(text: &str) -> Markup {
    block_of(text, limits::DASHBOARD_TEXT_CHARS_MAX)
}

/// A text of several lines, cut to so many characters.
pub(crate) fn block_of(text: &str, chars_max: usize) -> Markup {
    let text = truncate_to_chars(text, chars_max);
    let lines = text.lines().map(|line| replace_hidden_chars(&line.replace('\t', "    ")));
    html! { pre tabindex="0" { (lines.collect::<Vec<_>>().join("\n")) } }
}

/// A JSON value: a text as such, and everything else as indented JSON.
pub(crate) fn value(value: &Value) -> Markup {
    value_of(value, limits::DASHBOARD_TEXT_CHARS_MAX)
}

/// A JSON value, cut to so many characters.
pub(crate) fn value_of(value: &Value, chars_max: usize) -> Markup {
    match value {
        Value::String(text) => block_of(text, chars_max),
        value => block_of(&format!("{value:#}"), chars_max),
    }
}

/// A time, which the script of the page words as the time since.
pub(crate) fn time(text: &str) -> Markup {
    html! { time datetime=(text) { (text.replace('T', " ").trim_end_matches('Z')) } }
}

/// `1.2 s`, `3 m 05 s`, `4 h 10 m`, `2 d 3 h`.
pub(crate) fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0 => format!("{milliseconds} ms"),
        1..60 => format!("{seconds}.{} s", milliseconds % 1000 / 100),
        60..3600 => format!("{} m {:02} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {:02} m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// How long until this time: `in 5 m 00 s`; empty if it is past, or no time.
pub(crate) fn time_left(time: &str, now: Timestamp) -> String {
    let due = time.parse::<Timestamp>().ok();
    let left = due.map_or(Duration::ZERO, |due| due.since(now));
    match u64::try_from(left.as_millis()).unwrap_or(u64::MAX) {
        0 => String::new(),
        left => format!(" (in {})", duration(left - left % 1000)),
    }
}

/// A state or a status, by sign and color.
pub(crate) fn state(name: &str) -> Markup {
    let sign = match name {
        "completed" | "success" => "✓",
        "failed" | "error" => "✗",
        "running" => "●",
        "paused" => "‖",
        "skipped" => "–",
        "abandoned" | "diverged" => "⊘",
        "warning" => "!",
        _ => "○",
    };
    html! { span class={ "state " (replace_hidden_chars(name)) } { span aria-hidden="true" { (sign) } " " (replace_hidden_chars(name)) } }
}

/// The path of the page of an execution.
pub(crate) fn execution_path(id: &str) -> String {
    format!("/executions/{}", uri::encode_segment(id))
}

/// The path of the page of a workflow.
pub(crate) fn workflow_path(name: &str) -> String {
    format!("/workflows/{}", uri::encode_segment(name))
}

/// A link to an execution.
pub(crate) fn execution_link(id: &str) -> Markup {
    html! { a href=(execution_path(id)) { (line(id)) } }
}

/// A link to a workflow.
pub(crate) fn workflow_link(name: &str) -> Markup {
    html! { a href=(workflow_path(name)) { (line(name)) } }
}

/// `1,234,567 bytes` as a person reads it: `1.2 MB`.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} bytes"),
        1_000..1_000_000 => format!("{}.{} kB", count / 1_000, count % 1_000 / 100),
        1_000_000..1_000_000_000 => {
            format!("{}.{} MB", count / 1_000_000, count % 1_000_000 / 100_000)
        }
        _ => format!("{}.{} GB", count / 1_000_000_000, count % 1_000_000_000 / 100_000_000),
    }
}

/// A list of names and values; those without a value are left out.
pub(crate) fn facts(facts: Vec<(&str, Option<Markup>)>) -> Markup {
    html! {
        dl.facts {
            @for (name, value) in facts {
                @if let Some(value) = value { div { dt { (name) } dd { (value) } } }
            }
        }
    }
}
