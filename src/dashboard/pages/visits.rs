//! What the steps of an execution did: every visit and attempt, with its output or its error.

use std::collections::HashMap;

use maud::{Markup, html};

use super::PageQuery;
use crate::{
    html::{block, duration, execution_link, facts, line, state, step_path, time, value, value_of},
    page::PageContent,
    viewer::Viewer,
};
use midex_domain::{
    error::Result,
    format::format_bytes,
    limits,
    uri::{encode_segment, execution_uri},
    view::{FailureView, HistoryRow},
};

/// The latest visits, the last one first.
pub(super) fn visit_list(id: &str, history: &[HistoryRow]) -> Markup {
    let shown = history.len().min(limits::DASHBOARD_VISITS_MAX);
    let chars_max = limits::DASHBOARD_VISIT_VALUES_CHARS_MAX / shown.max(1);
    let chars_max = chars_max.min(limits::DASHBOARD_TEXT_CHARS_MAX);
    html! {
        h2 { "Steps" }
        @if shown < history.len() {
            p.note { "The latest " (shown) " of " (history.len()) " visits. The page of a step has its visits." }
        }
        @if history.is_empty() { p.note { "No step was entered yet." } }
        @for row in history.iter().rev().take(shown) { (visit(id, row, chars_max)) }
    }
}

fn visit(id: &str, row: &HistoryRow, chars_max: usize) -> Markup {
    let anchor = midex_picture::visit_anchor(row);
    let has_details = row.output.is_some() || row.error.is_some() || row.output_digest.is_some();
    html! {
        details.visit id=(anchor) data-key=(anchor) open[row.error.is_some()] {
            summary {
                (state(&row.status)) " " strong { (line(row.title.as_deref().unwrap_or(&row.step_name))) }
                @if row.title.is_some() { " " span.note { (line(&row.step_name)) } }
                @if let Some(item) = row.item { " item " (item + 1) }
                @if let Some(body) = &row.body { " " span.label { (line(body)) } }
                @if row.visit > 1 { " " span.label { "visit " (row.visit) } }
                @if row.attempt > 1 { " " span.label { "attempt " (row.attempt) } }
                @if row.inherited { " " span.label { "kept from the fork" } }
                " " span.note {
                    @if let Some(agent) = &row.agent_name { (line(agent)) ", " }
                    (time(&row.started_at)) @if let Some(took) = row.duration_ms { ", " (duration(took)) }
                }
            }
            @if let Some(error) = &row.error { (failure(error)) }
            @if let Some(answer) = &row.answered {
                p {
                    @if answer.approved { "Approved" } @else { "Rejected" } " by " strong { (line(&answer.by)) } " (" (line(&answer.via)) "), shown "
                    code { (line(answer.shown.get(..12).unwrap_or(&answer.shown))) "…" }
                }
            }
            @if let Some(output) = &row.output { (value_of(output, chars_max)) }
            @if let Some(bytes) = row.output_bytes { p.note { "The output has " (format_bytes(bytes)) "." } }
            @if let Some(metadata) = &row.metadata { details { summary { "More" } (value_of(metadata, chars_max)) } }
            @if has_details || row.visit > 1 {
                p { a href=(step_path(id, &row.step_name)) { "All of step " (line(&row.step_name)) } }
            }
        }
    }
}

/// The addresses of visits on the pages of their steps, for the rows of `history` from this index on.
pub(super) fn visit_links(
    id: &str,
    history: &[HistoryRow],
    from: usize,
) -> impl Fn(&HistoryRow) -> String {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut links = HashMap::new();
    for (index, row) in history.iter().enumerate() {
        let count = counts.entry(&row.step_name).or_default();
        let page = *count / limits::DASHBOARD_ROWS_MAX * limits::DASHBOARD_ROWS_MAX;
        *count += 1;
        if index < from {
            continue;
        }
        let query = if page == 0 { String::new() } else { format!("?after={page}") };
        let anchor = midex_picture::visit_anchor(row);
        let link = format!("{}{query}#{anchor}", step_path(id, &row.step_name));
        links.insert(anchor, link);
    }
    move |row| links.get(&midex_picture::visit_anchor(row)).cloned().unwrap_or_default()
}

/// Why something failed.
pub(super) fn failure(error: &FailureView) -> Markup {
    html! {
        div.problem {
            p { strong { (line(&error.code)) } @if let Some(status) = error.status { " (HTTP " (status) ")" } }
            (block(&error.message))
            @if let Some(payload) = &error.response_payload { (value(payload)) }
        }
    }
}

/// The page of one step: its visits with whole outputs, and how each attempt differs from the one before.
pub(super) async fn render_step(
    viewer: &Viewer,
    id: &str,
    step: &str,
    query: &PageQuery,
) -> Result<PageContent> {
    let uri = format!("{}/{}", execution_uri("step_history", id), encode_segment(step));
    let rows: Vec<HistoryRow> = viewer.source.read(&uri).await?;
    let skipped = query.get("after").and_then(|after| after.parse().ok()).unwrap_or(0_usize);
    let content = html! {
        h1 { "Step " (line(step)) }
        p { "Of " (execution_link(id)) }
        @for (index, row) in rows.iter().enumerate().skip(skipped).take(limits::DASHBOARD_ROWS_MAX) {
            article.card id=(midex_picture::visit_anchor(row)) {
                h2 { "Visit " (row.visit) ", attempt " (row.attempt) @if let Some(item) = row.item { ", item " (item + 1) } " " (state(&row.status)) }
                (facts(vec![
                    ("Began", Some(time(&row.started_at))),
                    ("Ended", row.completed_at.as_deref().map(time)),
                    ("Took", row.duration_ms.map(|took| html! { (duration(took)) })),
                    ("Agent", row.agent_name.as_deref().map(line)),
                ]))
                @if let Some(error) = &row.error { (failure(error)) }
                @if let Some(output) = &row.output {
                    @let before = rows[..index].iter().rev().find(|before| before.item == row.item && before.body == row.body);
                    @if let Some(before) = before.and_then(|before| before.output.as_ref()) { (difference(before, output)) }
                    (value(output))
                }
            }
        }
        @if rows.len() > skipped + limits::DASHBOARD_ROWS_MAX {
            p { a href={ "?after=" (skipped + limits::DASHBOARD_ROWS_MAX) } { "Next visits" } }
        }
    };
    Ok(PageContent::with_fragment(
        format!("{step} of {id}"),
        "visits",
        &content,
        vec![execution_uri("workflow_status", id)],
    ))
}

/// The fields in which an output differs from that of the visit before.
fn difference(before: &serde_json::Value, output: &serde_json::Value) -> Markup {
    let (Some(before), Some(output)) = (before.as_object(), output.as_object()) else {
        return html! {};
    };
    let changed: Vec<_> = output
        .iter()
        .filter(|(name, value)| before.get(*name) != Some(value))
        .map(|(name, _)| name.as_str())
        .chain(before.keys().filter(|name| !output.contains_key(*name)).map(String::as_str))
        .collect();
    html! {
        p.note {
            @if changed.is_empty() { "The same output as before." }
            @else { "Differs from the visit before in " (line(&changed.join(", "))) "." }
        }
    }
}
