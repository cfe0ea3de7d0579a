//! The findings of a definition file, each with its place in the text.

use maud::{Markup, html};
use serde_json::Value;

use crate::html::{block, line, state};

/// A finding, with the line of the file that it is about and a caret below its column.
pub(super) fn finding_block(finding: &Value, file: Option<&str>) -> Markup {
    let text = |field: &str| finding[field].as_str().unwrap_or_default();
    let number = |field: &str| finding[field].as_u64().and_then(|at| usize::try_from(at).ok());
    let place = number("line").zip(number("column"));
    let source = file.zip(place).and_then(|(file, (at, column))| {
        let source = file.lines().nth(at.checked_sub(1)?)?;
        Some(mark_column(source, at, column))
    });
    html! {
        div.problem {
            p { (state(if text("severity") == "warning" { "warning" } else { "failed" })) " " (line(text("message"))) }
            p.note {
                code { (line(text("rule"))) } " " (line(text("path")))
                @if let Some((at, column)) = place { ", line " (at) ", column " (column) }
            }
            @if let Some(source) = &source { (block(source)) }
            @if let Some(text) = finding["suggestion"]["text"].as_str() { p { (line(text)) } }
        }
    }
}

/// A line of a file with a caret below a column, both of them counted from 1. A tab is as wide as four spaces, as in a block.
fn mark_column(source: &str, at: usize, column: usize) -> String {
    let (number, source) = (at.to_string(), source.trim_end());
    let before = source.chars().take(column.saturating_sub(1));
    let indent: usize = before.map(|letter| if letter == '\t' { 4 } else { 1 }).sum();
    format!("{number} | {source}\n{0:1$} | {0:2$}^", "", number.len(), indent)
}
