//! The server: its process and clients, its store, and how near its limits are.

use maud::{Markup, html};
use serde_json::{Value, json};

use crate::{
    html::{duration, execution_link, facts, line, time, workflow_link},
    page::{Fragment, PageContent},
    viewer::Viewer,
};
use midex_domain::{clock::Timestamp, error::Result, format::format_bytes, limits};
use midex_mcp::control::{ClientInfo, ClientRole, Greeting};

pub(super) async fn render(viewer: &Viewer) -> Result<PageContent> {
    let stats: Value = viewer.source.query("store.stats", json!({})).await?;
    let number = |name: &str| stats[name].as_u64().unwrap_or_default();
    let file_bytes = number("file_bytes");
    let share = file_bytes.saturating_mul(100) / limits::FILE_BYTES_WARNED;
    let cluster: Value = viewer.source.query("cluster.status", json!({})).await?;
    let cluster = Some(&cluster["cluster"]).filter(|cluster| !cluster.is_null());
    // The tables of a database are measured by its own means.
    let has_file = cluster.is_none();
    let greeting = viewer.source.greet().await?;
    let relays = greeting.iter().flat_map(|owner| &owner.clients);
    let relays = relays.filter(|client| client.role == ClientRole::Relay).count();
    let store = html! {
        h1 { "Server" }
        @if let Some(owner) = &greeting { (owner_facts(owner)) }
        h2 { "Store" }
        (facts(vec![
            ("Executions", Some(html! { (number("executions")) })),
            ("Stored in", (!has_file).then(|| html! { "PostgreSQL" })),
            ("Data file", has_file.then(|| html! { (format_bytes(file_bytes)) ", " (share) " % of the size from which midex warns" })),
            ("Journal file", has_file.then(|| html! { (format_bytes(number("log_bytes"))) })),
            ("Grows in a day by", has_file.then(|| html! { (format_bytes(number("growth_bytes_a_day"))) })),
            ("Relays", Some(html! { (relays) " of at most " (limits::RELAYS_MAX) })),
        ]))
        @if file_bytes >= limits::FILE_BYTES_WARNED { p.problem { "The data file is large: " code { "midex prune" } " and " code { "midex compact" } " make it smaller." } }
        @for long in stats["long_executions"].as_array().into_iter().flatten() {
            p.problem { (execution_link(long["execution_id"].as_str().unwrap_or_default())) " has " (long["revision"].as_u64().unwrap_or_default()) " transitions, and is slow to read." }
        }
    };
    let clients = html! { @if let Some(owner) = &greeting { (client_list(&owner.clients)) } };
    let servers = html! { @if let Some(cluster) = cluster { (server_list(cluster)) } };
    let fragments = vec![
        Fragment::new("store", &store),
        Fragment::new("servers", &servers),
        Fragment::new("clients", &clients),
        Fragment::new("workflows", &workflow_table(&stats)),
        Fragment::new("tables", &html! { @if has_file { (size_table(&stats)) } }),
    ];
    // The figures of a large store take time to count, so the page is not followed.
    Ok(PageContent { title: "Server".into(), fragments, topics: Vec::new() })
}

/// The executions and durations of each workflow.
fn workflow_table(stats: &Value) -> Markup {
    html! {
        h2 { "By workflow" }
        div.scroll tabindex="0" role="region" aria-label="Executions by workflow" {
            table {
                thead { tr { th { "Workflow" } th { "Executions" } th { "Half took at most" } th { "95 % at most" } } }
                tbody {
                    @for workflow in stats["workflows"].as_array().into_iter().flatten() {
                        tr {
                            td { (workflow_link(workflow["workflow_name"].as_str().unwrap_or_default())) }
                            td {
                                @for (at, (state, count)) in workflow["states"].as_object().into_iter().flatten().enumerate() {
                                    @if at > 0 { ", " } (count) " " (line(state))
                                }
                            }
                            td { @if let Some(took) = workflow["p50_ms"].as_u64() { (duration(took)) } }
                            td { @if let Some(took) = workflow["p95_ms"].as_u64() { (duration(took)) } }
                        }
                    }
                }
            }
        }
    }
}

/// The sizes of the tables of the store.
fn size_table(stats: &Value) -> Markup {
    html! {
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
    }
}

/// The process that owns the store.
fn owner_facts(owner: &Greeting) -> Markup {
    let since = Timestamp::from_milliseconds(owner.since_ms).to_string();
    facts(vec![
        ("Process", Some(html! { (owner.pid) })),
        ("Version", Some(line(&owner.midex))),
        ("Since", Some(time(&since))),
        ("HTTP", owner.http.as_deref().map(line)),
        ("Tokens are valid for", Some(html! { (duration(owner.token_ttl_ms)) })),
    ])
}

/// The servers that share the store.
fn server_list(cluster: &Value) -> Markup {
    let number = |name: &str| cluster[name].as_i64().unwrap_or_default();
    let ahead = number("clock_ahead_ms");
    html! {
        h2 { "Cluster" }
        (facts(vec![
            ("The database answers in", Some(html! { (number("latency_us")) " µs" })),
            ("This server's clock is", Some(html! { (duration(ahead.unsigned_abs())) @if ahead < 0 { " behind the database's" } @else { " ahead of the database's" } })),
            ("Shards without a server", Some(html! { (number("free_shards")) " of " (number("shards")) })),
        ]))
        div.scroll tabindex="0" role="region" aria-label="Servers of the cluster" {
            table {
                thead { tr { th { "Server" } th { "Shards" } th { "Lease" } } }
                tbody {
                    @for server in cluster["servers"].as_array().into_iter().flatten() {
                        @let left = server["lease_left_ms"].as_i64().unwrap_or_default();
                        tr {
                            td { (line(server["address"].as_str().unwrap_or_default())) @if server["is_this"] == true { " (this one)" } }
                            td { (server["shards"]) }
                            td { @if left < 0 { "ended " (duration(left.unsigned_abs())) " ago" } @else { "ends in " (duration(left.unsigned_abs())) } }
                        }
                    }
                }
            }
        }
    }
}

/// The processes that are connected to the server.
fn client_list(clients: &[ClientInfo]) -> Markup {
    html! {
        h2 { "Clients" }
        @if clients.is_empty() { p.note { "No other process is connected." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Clients" {
                table {
                    thead { tr { th { "Process" } th { "Kind" } th { "Version" } th { "Project" } } }
                    tbody {
                        @for client in clients {
                            tr {
                                td { (client.pid) }
                                td { @match client.role { ClientRole::Relay => "agent", ClientRole::Command => "command" } }
                                td { (line(&client.midex)) }
                                td { (line(&client.project_dir)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
