//! The list of executions, with filters in the address.

use std::fmt::Write as _;

use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::{PageQuery, forms};
use crate::{
    html::{execution_link, labels, line, state, time, workflow_link},
    page::{Fragment, PageContent},
    source::EXECUTIONS_URI,
    viewer::Viewer,
};
use midex_domain::{
    State,
    error::{Error, Result},
    limits, uri,
    view::{ExecutionPage, ExecutionRow},
};
use midex_mcp::client::remove_nulls;

/// The filters, by the names that they have in the address.
const FILTERS: &[&str] = &["state", "workflow", "label", "since", "until", "text", "project"];

pub(super) async fn render(viewer: &Viewer, query: &PageQuery) -> Result<PageContent> {
    let page: ExecutionPage = viewer.source.query("execution.list", arguments(query)?).await?;
    let fragments = vec![
        Fragment::new("filters", &filter_form(query)),
        Fragment::new("list", &list(viewer, query, &page)),
    ];
    Ok(PageContent { title: "Executions".into(), fragments, topics: vec![EXECUTIONS_URI.into()] })
}

/// The arguments of the list, as the address has the filters.
fn arguments(query: &PageQuery) -> Result<Value> {
    let mut labels = Map::new();
    for label in query.get("label").unwrap_or_default().split_whitespace() {
        let Some((name, value)) = label.split_once('=') else {
            let message = format!(
                "`{}` is no label; a label is NAME=VALUE",
                label.chars().take(60).collect::<String>()
            );
            return Err(Error::argument_rule("/label", "format", &message));
        };
        labels.insert(name.to_owned(), json!(value));
    }
    Ok(remove_nulls(json!({
        "state": query.get("state"),
        "workflow_name": query.get("workflow"),
        "labels": if labels.is_empty() { Value::Null } else { Value::Object(labels) },
        "since": query.get("since"),
        "until": query.get("until"),
        "text": query.get("text"),
        "project": query.get("project").unwrap_or("*"),
        "children": query.get("children").map(|_| true),
        "cursor": query.get("cursor"),
        "limit": limits::DASHBOARD_ROWS_MAX,
    })))
}

/// The address of the list with the same filters, from this cursor on.
fn address(query: &PageQuery, cursor: Option<&str>) -> String {
    let mut address = "/executions?".to_owned();
    let filters =
        FILTERS.iter().chain(&["children"]).filter_map(|name| Some((*name, query.get(name)?)));
    for (name, value) in filters.chain(cursor.map(|cursor| ("cursor", cursor))) {
        let _ = write!(address, "{name}={}&", uri::encode_segment(value));
    }
    address.pop();
    address
}

fn filter_form(query: &PageQuery) -> Markup {
    let field = |name: &'static str, label: &str, placeholder: &str| {
        html! {
            label { (label) input name=(name) value=[query.get(name)] placeholder=(placeholder); }
        }
    };
    html! {
        h1 { "Executions" }
        form.filters method="get" action="/executions" role="search" {
            label {
                "State"
                select name="state" {
                    option value="" { "any" }
                    option value="open" selected[query.get("state") == Some("open")] { "open" }
                    @for state in State::ALL {
                        option value=(state.as_str()) selected[query.get("state") == Some(state.as_str())] { (state.as_str()) }
                    }
                }
            }
            (field("workflow", "Workflow", "name"))
            (field("label", "Labels", "pr=123"))
            (field("since", "Moved since", "2d"))
            (field("until", "Moved before", "1h"))
            (field("text", "Text", "in id, inputs, reason"))
            (field("project", "Project", "any"))
            label.check { input type="checkbox" name="children" value="1" checked[query.get("children").is_some()]; "Children too" }
            button { "Filter" }
        }
    }
}

fn list(viewer: &Viewer, query: &PageQuery, page: &ExecutionPage) -> Markup {
    let rows = &page.executions;
    let table = html! {
        table {
            thead { tr {
                @if !viewer.is_read_only { th { span.hidden-label { "Selected" } } }
                th { "State" } th { "Execution" } th { "Workflow" } th { "At step" } th { "Started" } th { "Moved" }
            } }
            tbody { @for row in rows { (table_row(viewer, row)) } }
        }
    };
    let bulk = html! {
        div.scroll tabindex="0" role="region" aria-label="Executions" { (table) }
        @if !viewer.is_read_only {
            div.row {
                button formaction="/act/pause" { "Pause the selected" }
                button formaction="/act/resume" { "Resume the selected" }
                button.danger formaction="/act/abandon" data-confirm="Abandon the selected executions for good?" { "Abandon the selected" }
            }
        }
    };
    html! {
        @if rows.is_empty() {
            p.note { "No execution matches." }
        } @else if viewer.is_read_only {
            (bulk)
        } @else {
            (forms::form(viewer, "pause", &address(query, query.get("cursor")), &bulk))
        }
        p.row {
            @if query.get("cursor").is_some() { a href=(address(query, None)) { "First page" } }
            @if let Some(cursor) = &page.next_cursor { a href=(address(query, Some(cursor))) { "Next page" } }
        }
    }
}

fn table_row(viewer: &Viewer, row: &ExecutionRow) -> Markup {
    html! {
        tr {
            @if !viewer.is_read_only {
                td { input type="checkbox" name="execution_id" value=(row.execution_id) aria-label={ "Select " (row.execution_id) }; }
            }
            td { (state(&row.state)) @if row.imported { " " span.note { "imported" } } }
            td {
                (execution_link(&row.execution_id))
                " " (labels(&row.labels))
                @if let Some(parent) = &row.parent { " " span.note { "child of " (execution_link(parent)) } }
            }
            td { (workflow_link(&row.workflow_name)) }
            td { @if let Some(step) = &row.current_step { (line(step)) } }
            td { (time(&row.started_at)) }
            td { (time(&row.updated_at)) }
        }
    }
}
