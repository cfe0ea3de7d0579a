//! Texts, times, states and values in HTML. Hidden characters are replaced, so that no text looks like another one, and long
//! texts are cut.

use std::time::Duration;

use maud::{Markup, html};
use serde_json::Value;

use midex_domain::{
    clock::Timestamp, format::format_duration, label::Labels, limits, truncate::truncate_to_chars,
    uri, view::status_symbol, visible::replace_hidden_chars,
};

/// A short text in one line.
pub(crate) fn line(text: &str) -> Markup {
    let text = truncate_to_chars(text, limits::DASHBOARD_LINE_CHARS_MAX);
    html! { bdi { (replace_hidden_chars(&text)) } }
}

/// A text of several lines in one line, such as the message of an error.
pub(crate) fn joined_lines(text: &str) -> Markup {
    line(&text.lines().map(str::trim).collect::<Vec<_>>().join(" "))
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

/// A duration in milliseconds: `1.2 s`, `4 h 10 m`, `2 d 3 h`.
pub(crate) fn duration(milliseconds: u64) -> String {
    match milliseconds / 3_600_000 {
        0..24 => format_duration(milliseconds),
        hours => format!("{} d {} h", hours / 24, hours % 24),
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
        "paused" => "‖",
        "abandoned" | "diverged" => "⊘",
        "warning" => "!",
        status => status_symbol(status),
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

/// The path of the page of a step of an execution.
pub(crate) fn step_path(id: &str, step: &str) -> String {
    format!("{}/visits/{}", execution_path(id), uri::encode_segment(step))
}

/// The labels of an execution.
pub(crate) fn labels(labels: &Labels) -> Markup {
    html! { @for (name, value) in labels { span.label { (line(&format!("{name}={value}"))) } " " } }
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
