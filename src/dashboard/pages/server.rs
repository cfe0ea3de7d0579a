//! The store of the server: its executions by workflow, and its size.

use maud::html;
use serde_json::{Value, json};

use crate::{
    html::{duration, execution_link, facts, line, workflow_link},
    page::{Fragment, PageContent},
    viewer::Viewer,
};
use midex_domain::{error::Result, format::format_bytes, limits};

pub(super) async fn render(viewer: &Viewer) -> Result<PageContent> {
    let stats: Value = viewer.source.query("store.stats", json!({})).await?;
    let number = |name: &str| stats[name].as_u64().unwrap_or_default();
    let file_bytes = number("file_bytes");
    let share = file_bytes.saturating_mul(100) / limits::FILE_BYTES_WARNED;
    let store = html! {
        h1 { "Server" }
        (facts(vec![
            ("Executions", Some(html! { (number("executions")) })),
            ("Data file", Some(html! { (format_bytes(file_bytes)) ", " (share) " % of the size from which midex warns" })),
            ("Journal file", Some(html! { (format_bytes(number("log_bytes"))) })),
            ("Grows in a day by", Some(html! { (format_bytes(number("growth_bytes_a_day"))) })),
        ]))
        @if file_bytes >= limits::FILE_BYTES_WARNED { p.problem { "The data file is large: " code { "midex prune" } " and " code { "midex compact" } " make it smaller." } }
        @for long in stats["long_executions"].as_array().into_iter().flatten() {
            p.problem { (execution_link(long["execution_id"].as_str().unwrap_or_default())) " has " (long["revision"].as_u64().unwrap_or_default()) " transitions, and is slow to read." }
        }
    };
    let workflows = html! {
        h2 { "By workflow" }
        div.scroll tabindex="0" role="region" aria-label="Executions by workflow" {
            table {
                thead { tr { th { "Workflow" } th { "Executions" } th { "Half took at most" } th { "95 % at most" } } }
                tbody {
                    @for workflow in stats["workflows"].as_array().into_iter().flatten() {
                        tr {
                            td { (workflow_link(workflow["workflow_name"].as_str().unwrap_or_default())) }
                            td {
                                @for (state, count) in workflow["states"].as_object().into_iter().flatten() { (count) " " (line(state)) " " }
                            }
                            td { @if let Some(took) = workflow["p50_ms"].as_u64() { (duration(took)) } }
                            td { @if let Some(took) = workflow["p95_ms"].as_u64() { (duration(took)) } }
                        }
                    }
                }
            }
        }
    };
    let tables = html! {
        details data-key="tables" {
            summary { h2 { "Tables" } }
            table {
                thead { tr { th { "Table" } th { "Entries" } th { "Size" } } }
                tbody {
                    @for table in stats["tables"].as_array().into_iter().flatten() {
                        tr { td { (line(table["name"].as_str().unwrap_or_default())) } td { (table["entries"]) } td { (format_bytes(table["bytes"].as_u64().unwrap_or_default())) } }
                    }
                }
            }
        }
    };
    let fragments = vec![
        Fragment::new("store", &store),
        Fragment::new("workflows", &workflows),
        Fragment::new("tables", &tables),
    ];
    // The figures of a large store take time to count, so the page is not followed.
    Ok(PageContent { title: "Server".into(), fragments, topics: Vec::new() })
}
