//! `midex cluster status`, and the finding of `midex doctor` on a cluster.

use std::time::Duration;

use serde_json::json;

use crate::{
    EXIT_OK, Output,
    link::ServerLink,
    screen::{Screen, table_row},
    validate::format_count,
    value::format_duration,
};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};
use midex_mcp::client::parse_reply;
use midex_server::{
    app::{ClusterStatus, ServerStatus},
    config::Config,
};

/// What concerns the cluster.
#[derive(Clone, Copy, Debug, clap::Subcommand)]
pub(crate) enum ClusterCommand {
    /// Show the servers that share the database, their executions' shards, and the database's clock and latency
    Status,
}

/// Prints the servers of the cluster that the server on the data directory belongs to.
///
/// # Errors
/// `USAGE_INVALID` if there is no such server; those of the call.
pub(crate) async fn run_cluster(
    command: ClusterCommand,
    config: &Config,
    mut out: Output<'_>,
) -> Result<u8> {
    let ClusterCommand::Status = command;
    let mut link = ServerLink::new(config);
    let status = read_status(&mut link).await;
    link.close_and_log().await;
    let Some(status) = status? else {
        let message = format!(
            "no server of a cluster runs on the data directory {}",
            config.data_dir.display()
        );
        return Err(Error::new(Code::UsageInvalid, message)
            .with_action("Name the data directory of one that runs here with --data-dir"));
    };
    out.print(|| json!(status), || status_text(&status)).map(|()| EXIT_OK)
}

/// The cluster of the server on the data directory; `None` if it belongs to none.
pub(crate) async fn read_status(link: &mut ServerLink<'_>) -> Result<Option<ClusterStatus>> {
    let reply = link.call("cluster.status", json!({})).await?;
    parse_reply(reply["cluster"].clone())
}

fn status_text(status: &ClusterStatus) -> String {
    let mut table = Screen::stdout().make_table(&["server", "shards", "lease"]);
    for server in &status.servers {
        let this = if server.is_this { " (this one)" } else { "" };
        table.add_row(table_row([
            format!("{}{this}", server.address),
            server.shards.to_string(),
            describe_lease(server),
        ]));
    }
    let problem = describe_problem(status)
        .map_or_else(String::new, |(says, mend)| format!("\n\n{says}: {mend}"));
    let definitions = match (status.definitions, status.used_definitions) {
        (0, _) => String::new(),
        (newest, used) => format!(
            "\nversion {newest} of the definitions is published; this server uses version {used}"
        ),
    };
    format!("{}{definitions}\n\n{table}{problem}\n", describe_cluster(status))
}

fn describe_lease(server: &ServerStatus) -> String {
    let time = format_duration(server.lease_left_ms.unsigned_abs());
    if server.lease_left_ms < 0 { format!("ended {time} ago") } else { format!("ends in {time}") }
}

/// The cluster in a line.
pub(crate) fn describe_cluster(status: &ClusterStatus) -> String {
    let living = status.servers.iter().filter(|server| server.lease_left_ms >= 0).count();
    let latency = Duration::from_micros(status.latency_us);
    let ahead = format_duration(status.clock_ahead_ms.unsigned_abs());
    let direction = if status.clock_ahead_ms < 0 { "behind" } else { "ahead of" };
    format!(
        "{} and {}; the database answers in {latency:.1?}; this server's clock is {ahead} {direction} the database's",
        format_count(living, "server"),
        format_count(usize::try_from(status.shards).unwrap_or_default(), "shard"),
    )
}

/// The worst problem of the cluster, and how to mend it.
pub(crate) fn describe_problem(status: &ClusterStatus) -> Option<(String, &'static str)> {
    let clock_difference = Duration::from_millis(status.clock_ahead_ms.unsigned_abs());
    let latency = Duration::from_micros(status.latency_us);
    if clock_difference > limits::CLOCK_DIFFERENCE_MAX {
        Some((
            "the clocks of this server and of the database differ too much".to_owned(),
            "set the clocks of all servers by NTP; lists and waits rely on them",
        ))
    } else if status.free_shards > 0 {
        let says = format!(
            "no server owns {} of {} shards, and their executions wait",
            status.free_shards, status.shards
        );
        Some((
            says,
            "run `midex cluster status` again in a few seconds; if it stays so, look at the servers' logs",
        ))
    } else if latency > limits::DATABASE_LATENCY_WARNED {
        Some((
            format!("the database takes {latency:.0?} to answer"),
            "run the servers near the database: each call that changes an execution needs a round trip",
        ))
    } else {
        None
    }
}
