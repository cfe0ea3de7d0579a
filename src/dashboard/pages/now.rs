//! What needs someone now: approvals, unknown outcomes, pauses, failures and executions that stand still.

use maud::{Markup, html};
use serde_json::json;

use super::{
    forms::execution_actions,
    waits::{reason_sentence, wait_list},
};
use crate::{
    html::{execution_link, state, time, workflow_link},
    page::{Fragment, PageContent},
    source::EXECUTIONS_URI,
    viewer::Viewer,
};
use midex_domain::{
    error::Result,
    limits,
    uri::execution_uri,
    view::{ExecutionPage, ExecutionRow, StatusView},
};

/// A part of the page: executions in the same trouble.
struct Section {
    id: &'static str,
    title: &'static str,
    /// What there is to say if there are none.
    empty: &'static str,
    statuses: Vec<StatusView>,
    /// The address of the list with all of them, if there are more.
    more: Option<&'static str>,
}

pub(super) async fn render(viewer: &Viewer) -> Result<PageContent> {
    let stalled_for = format!("{}s", limits::DASHBOARD_STALLED_AFTER.as_secs());
    let paused = fetch_section(
        viewer,
        Section {
            id: "paused",
            title: "Waiting for a person",
            empty: "No execution waits for a person.",
            statuses: Vec::new(),
            more: Some("/executions?state=paused"),
        },
        json!({ "state": "paused" }),
    )
    .await?;
    let mut failed = fetch_section(
        viewer,
        Section {
            id: "failed",
            title: "Failed",
            empty: "Nothing failed in the last seven days that was not retried.",
            statuses: Vec::new(),
            more: Some("/executions?state=failed"),
        },
        json!({ "state": "failed", "since": "7d" }),
    )
    .await?;
    failed.statuses.retain(|status| status.forks.is_empty() && !status.imported);
    let mut waiting = fetch_section(
        viewer,
        Section {
            id: "stalled",
            title: "Standing still",
            empty: "Nothing has stood still for an hour.",
            statuses: Vec::new(),
            more: Some("/executions?state=running&until=1h"),
        },
        json!({ "state": "running", "until": stalled_for }),
    )
    .await?;
    // A timer that is not due yet is no trouble.
    waiting.statuses.retain(|status| !status.waits.iter().any(|wait| wait.waits_for == "timer"));
    let recent: ExecutionPage = viewer
        .source
        .query("execution.list", json!({ "limit": limits::DASHBOARD_NOW_ROWS_MAX, "project": "*" }))
        .await?;
    let mut fragments = vec![Fragment::new("title", &html! { h1 { "Now" } })];
    for section in [paused, failed, waiting] {
        fragments.push(Fragment::new(section.id, &section.render(viewer)));
    }
    fragments.push(Fragment::new("recent", &recent_list(&recent.executions)));
    Ok(PageContent { title: "Now".into(), fragments, topics: vec![EXECUTIONS_URI.into()] })
}

/// Fetches the executions of a section, in all projects. One that ends or is deleted meanwhile is left out.
async fn fetch_section(
    viewer: &Viewer,
    mut section: Section,
    mut filter: serde_json::Value,
) -> Result<Section> {
    (filter["limit"], filter["project"]) = (json!(limits::DASHBOARD_NOW_ROWS_MAX), json!("*"));
    let page: ExecutionPage = viewer.source.query("execution.list", filter).await?;
    section.more = section.more.filter(|_| page.next_cursor.is_some());
    for row in page.executions {
        match viewer.source.read(&execution_uri("workflow_status", &row.execution_id)).await {
            Ok(status) => section.statuses.push(status),
            Err(error) if error.code().is_missing_execution() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(section)
}

impl Section {
    fn render(&self, viewer: &Viewer) -> Markup {
        let count = self.statuses.len();
        html! {
            h2 { (self.title) @if count > 0 { " " span.count { (count) @if self.more.is_some() { "+" } } } }
            @if count == 0 { p.note { (self.empty) } }
            @for status in &self.statuses {
                article.card {
                    h3 { (execution_link(&status.execution_id)) " " (state(&status.state)) }
                    p.note { (workflow_link(&status.workflow_name)) ", " (time(&status.updated_at)) }
                    p.reason { (reason_sentence(status, viewer.now())) }
                    (wait_list(viewer, status, "/"))
                    (execution_actions(viewer, status, (&[], None), "/"))
                }
            }
            @if let Some(address) = self.more { p { a href=(address) { "All of them" } } }
        }
    }
}

fn recent_list(rows: &[ExecutionRow]) -> Markup {
    html! {
        h2 { "Last moved" }
        @if rows.is_empty() { p.note { "There is no execution yet. Start one on the page of a " a href="/workflows" { "workflow" } "." } }
        ul.plain {
            @for row in rows {
                li {
                    (state(&row.state)) " " (execution_link(&row.execution_id)) " "
                    span.note { (workflow_link(&row.workflow_name)) ", " (time(&row.updated_at)) }
                }
            }
        }
    }
}
