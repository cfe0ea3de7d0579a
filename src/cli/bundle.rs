//! `midex export` and `midex import`: executions in one file, for another machine or for the archive.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{
    EXIT_OK, Output,
    command::{insert_flags, quote_operand},
    execution_id::run_with_execution,
    link::{ServerLink, remove_nulls},
    screen::one_line,
    value::{format_number, list_items, text_field},
    visible::replace_hidden_chars,
};
use midex_domain::{
    clock::{Clock as _, SystemClock},
    error::{Error, Result, describe_io_error, format_count},
    span::HumanDuration,
};
use midex_server::config::Config;

/// Which executions, and where to.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ExportArgs {
    /// The executions: their ids, the beginnings of their ids, @last or @last-failed; each with its children
    #[arg(value_name = "EXECUTION", required_unless_present = "all", conflicts_with = "all")]
    execution_ids: Vec<String>,
    /// Export all executions, of all projects
    #[arg(long)]
    all: bool,
    /// With --all: only those that changed within this time, such as 30d
    #[arg(long, value_name = "DURATION", requires = "all", conflicts_with = "execution_ids")]
    since: Option<HumanDuration>,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace values by "[redacted]": `inputs`, `outputs`, `artifacts`, and keys whose values are replaced everywhere
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    redact: Vec<String>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

/// The bundle.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ImportArgs {
    /// The file that `midex export` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Writes executions to a bundle.
pub(super) async fn export(args: ExportArgs, config: &Config, mut out: Output<'_>) -> Result<u8> {
    let path = absolute_path(&args.output)?;
    let mut link = ServerLink::new(config);
    let reply = call_export(&mut link, &args, &path).await;
    link.close_and_log().await;
    let mut reply = reply?;
    reply["path"] = json!(path);
    let count = reply["executions"].as_u64().unwrap_or_default();
    let count = format_number(count, "execution", "executions");
    let path = replace_hidden_chars(&args.output.to_string_lossy());
    out.print(|| reply, || format!("Exported {count} to {path}\n")).map(|()| EXIT_OK)
}

async fn call_export(link: &mut ServerLink<'_>, args: &ExportArgs, path: &Path) -> Result<Value> {
    let mut ids = BTreeSet::new();
    for argument in &args.execution_ids {
        let fetch = async |link: &mut ServerLink<'_>, id: &str| link.fetch_status(id).await;
        ids.insert(run_with_execution(link, argument, fetch).await?.execution_id);
    }
    let since = args.since.map(|within| SystemClock.now().minus(within.duration()).to_string());
    let arguments = json!({
        "execution_ids": (!args.all).then_some(ids),
        "since": since,
        "redact": args.redact,
        "path": path,
        "force": args.force,
    });
    link.call_once("bundle.export", remove_nulls(arguments)).await
}

/// Imports the executions of a bundle, and shows what forks of them would do outside of midex.
pub(super) async fn import(
    args: ImportArgs,
    config: &Config,
    flags: &str,
    mut out: Output<'_>,
) -> Result<u8> {
    let path = absolute_path(&args.file)?;
    let mut link = ServerLink::new(config);
    let reply = link.call_once("bundle.import", json!({ "path": path })).await;
    link.close_and_log().await;
    let reply = reply?;
    let text = describe_import(&reply, flags);
    out.print(|| reply, || text).map(|()| EXIT_OK)
}

/// The absolute path, because the process that owns the store may have another working directory.
pub(super) fn absolute_path(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| Error::file_unusable(path, describe_io_error(&error)))
}

fn describe_import(reply: &Value, flags: &str) -> String {
    let rows = list_items(&reply["imported"]);
    let is_old = |row: &Value| row["already_imported"] == true;
    let new = rows.iter().filter(|row| !is_old(row)).count();
    let mut text = format!("Imported {}, read-only:\n", format_count(new, "execution"));
    for row in rows {
        let [id, workflow, state] =
            ["execution_id", "workflow", "state"].map(|name| text_field(row, name));
        let already = if is_old(row) { ", already imported" } else { "" };
        let _ = writeln!(text, "  {id} ({workflow}, {state}){already}");
        for effect in list_items(&row["effects"]).iter().filter_map(Value::as_str) {
            let _ = writeln!(text, "    a fork of it {}", one_line(effect));
        }
    }
    // The last one is a root.
    let root = rows.last().and_then(|row| row["execution_id"].as_str()).unwrap_or_default();
    let command = insert_flags(&format!("midex fork {}", quote_operand(root)), flags);
    let _ = writeln!(text, "To go on in a new execution: {}", replace_hidden_chars(&command));
    text
}
