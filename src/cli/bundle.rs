//! `midex export` and `midex import`: executions in one file, for another machine or for the archive.

use std::{collections::BTreeSet, fmt::Write as _, path::PathBuf};

use serde_json::{Value, json};

use super::{
    EXIT_OK, Output,
    command::{insert_flags, quote_operand},
    execution_id::run_with_execution,
    link::{ServerLink, remove_nulls},
    value::list_items,
    visible::replace_hidden_chars,
};
use midex_domain::{
    clock::{Clock as _, SystemClock},
    error::{Code, Error, Result, describe_io_error, format_count},
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
    #[arg(long, value_name = "DURATION", requires = "all")]
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
pub(super) async fn export(
    args: ExportArgs,
    config: &Config,
    flags: &str,
    mut out: Output<'_>,
) -> Result<u8> {
    let path = absolute_path(&args.output)?;
    let mut link = ServerLink::new(config);
    let reply = async {
        let mut ids = BTreeSet::new();
        for argument in &args.execution_ids {
            let fetch = async |link: &mut ServerLink<'_>, id: &str| link.fetch_status(id).await;
            let status = run_with_execution(&mut link, argument, fetch).await?;
            ids.insert(status.execution_id);
        }
        let since = args.since.map(|within| SystemClock.now().minus(within.duration()));
        let arguments = json!({
            "execution_ids": (!args.all).then_some(ids),
            "since": since.map(|since| since.to_string()),
            "redact": args.redact,
            "path": path,
            "force": args.force,
        });
        link.call_once("bundle.export", remove_nulls(arguments)).await
    };
    let reply = reply.await;
    link.close_and_log().await;
    let reply = reply?;
    let text = || describe_export(&reply, flags);
    out.print(|| reply.clone(), text).map(|()| EXIT_OK)
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
    let text = || describe_import(&reply, flags);
    out.print(|| reply.clone(), text).map(|()| EXIT_OK)
}

/// The absolute path, because the process that owns the store may have another working directory.
fn absolute_path(path: &PathBuf) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| {
        let name = path.display().to_string();
        let message = format!("`{name}` cannot be used: {}", describe_io_error(&error));
        Error::new(Code::FileUnusable, message).with_context("path", name)
    })
}

fn describe_export(reply: &Value, flags: &str) -> String {
    let count = |name: &str, one: &str| {
        let count = usize::try_from(reply[name].as_u64().unwrap_or_default());
        format_count(count.unwrap_or(usize::MAX), one)
    };
    let path = reply["path"].as_str().unwrap_or_default();
    let mut text = format!(
        "Exported {} with {} to {path} ({})\n",
        count("executions", "execution"),
        count("contents", "content"),
        count("bytes", "byte"),
    );
    let redacted = join_texts(&reply["redacted"]);
    if !redacted.is_empty() {
        let _ = writeln!(text, "Redacted: {redacted}");
    }
    let command = insert_flags(&format!("midex import {}", quote_operand(path)), flags);
    let _ = writeln!(text, "To read it into another data directory: {command}");
    replace_hidden_lines(&text)
}

fn describe_import(reply: &Value, flags: &str) -> String {
    let rows = list_items(&reply["imported"]);
    let mut text = format!("Imported {}, read-only:\n", format_count(rows.len(), "execution"));
    for row in rows {
        let field = |name: &str| row[name].as_str().unwrap_or_default();
        let child = if row["is_child"] == true { ", a child" } else { "" };
        let (id, workflow, state) = (field("execution_id"), field("workflow"), field("state"));
        let _ = writeln!(text, "  {id} ({workflow}, {state}{child})");
        let effects = join_texts(&row["effects"]);
        if !effects.is_empty() {
            let _ = writeln!(text, "    a fork of it {effects}");
        }
    }
    // A root comes after its children.
    let root = rows.iter().rfind(|row| row["is_child"] != true);
    let root = root.and_then(|row| row["execution_id"].as_str()).unwrap_or_default();
    let command = insert_flags(&format!("midex fork {}", quote_operand(root)), flags);
    let _ = writeln!(text, "To go on with one in a new execution: {command}");
    replace_hidden_lines(&text)
}

fn join_texts(list: &Value) -> String {
    let texts = list_items(list).iter().filter_map(Value::as_str);
    texts.collect::<Vec<_>>().join(", ")
}

fn replace_hidden_lines(text: &str) -> String {
    text.lines().map(|line| replace_hidden_chars(line) + "\n").collect()
}
