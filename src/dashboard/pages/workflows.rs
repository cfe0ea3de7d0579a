//! The workflows that can be started, and those with findings.

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{PageQuery, agents::WORKFLOWS_URI};
use crate::{
    html::{line, workflow_link},
    page::{Fragment, PageContent},
    viewer::Viewer,
};
use midex_domain::{error::Result, limits, uri};
use midex_mcp::client::remove_nulls;

#[derive(Deserialize)]
struct WorkflowPage {
    workflows: Vec<Value>,
    total: usize,
    next_cursor: Option<String>,
}

pub(super) async fn render(viewer: &Viewer, query: &PageQuery) -> Result<PageContent> {
    let arguments = json!({
        "query": query.get("text"), "cursor": query.get("cursor"), "limit": limits::DASHBOARD_ROWS_MAX
    });
    let page: WorkflowPage = viewer.source.query("workflow.list", remove_nulls(arguments)).await?;
    let fragments = vec![
        Fragment::new(
            "filters",
            &html! {
                h1 { "Workflows" }
                form.filters method="get" action="/workflows" role="search" {
                    label { "Words" input name="text" value=[query.get("text")]; }
                    button { "Search" }
                }
            },
        ),
        Fragment::new("list", &list(&page, query)),
    ];
    let topics = vec![WORKFLOWS_URI.to_owned()];
    Ok(PageContent { title: "Workflows".into(), fragments, topics })
}

fn list(page: &WorkflowPage, query: &PageQuery) -> Markup {
    let text =
        |workflow: &Value, name: &str| workflow[name].as_str().unwrap_or_default().to_owned();
    html! {
        @if page.workflows.is_empty() { p.note { "No workflow matches." } }
        @for workflow in &page.workflows {
            @let name = text(workflow, "workflow_id");
            @let findings = workflow["findings"].as_array().map_or(0, Vec::len);
            article.card {
                h2 { (workflow_link(&name)) " " span.note { (line(&text(workflow, "source"))) } }
                p { (line(&text(workflow, "description"))) }
                @if findings > 0 { p.problem { a href=(crate::html::workflow_path(&name)) { (findings) @if findings == 1 { " finding" } @else { " findings" } } } }
                @if workflow["shadowed_by"].is_object() { p.note { "Another file of this name comes first: " (line(&workflow["shadowed_by"]["path"].to_string())) } }
            }
        }
        p.row {
            span.note { (page.total) " in all" }
            @if let Some(cursor) = &page.next_cursor {
                a href={ "/workflows?text=" (uri::encode_segment(query.get("text").unwrap_or_default())) "&cursor=" (uri::encode_segment(cursor)) } { "Next page" }
            }
        }
    }
}
