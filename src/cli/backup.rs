//! `midex backup`: copies the store into a file, also while a server uses it. `midex restore` puts such a file in the place
//! of the store, and `midex compact` makes the store's own file smaller; both need the store for themselves.

use std::path::{Path, PathBuf};

use midex_domain::{
    clock::{Clock as _, SteadyClock},
    error::Result,
};
use midex_server::{
    app::{BackupReport, compact_store, restore_store},
    config::Config,
};
use serde_json::json;

use super::{
    EXIT_OK, Output,
    bundle::absolute_path,
    link::{ServerLink, parse_reply},
    value::{format_bytes, format_number},
    visible::replace_hidden_chars,
};

/// Where the backup goes.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct BackupArgs {
    /// The file to make; an existing file is never replaced
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Which backup is put back.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RestoreArgs {
    /// A file that `midex backup` made
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace the present store, which is kept under another name
    #[arg(long)]
    replace: bool,
}

pub(super) async fn back_up(args: BackupArgs, config: &Config, mut out: Output<'_>) -> Result<u8> {
    let file = absolute_path(&args.file)?;
    let mut link = ServerLink::new(config);
    let answer = link.call_once("store.back_up", json!({ "file": file })).await;
    link.close_and_log().await;
    let reply = answer?;
    let BackupReport { path, bytes, executions } = parse_reply(reply.clone())?;
    let size = format_bytes(bytes);
    let text = format!(
        "{} has {} in {size}\n",
        shown(&path),
        format_number(executions, "execution", "executions")
    );
    out.print(|| reply, || text).map(|()| EXIT_OK)
}

pub(super) fn restore(args: &RestoreArgs, config: &Config, mut out: Output<'_>) -> Result<u8> {
    let now = SteadyClock::default().now();
    let restored = restore_store(config, &args.file, args.replace, now)?;
    let text = || {
        let path = shown(&restored.path);
        let executions = format_number(restored.executions, "execution", "executions");
        let kept = restored.replaced.as_deref().map(shown);
        let kept = kept.map(|kept| format!("the store that was there is kept as {kept}\n"));
        format!("{path} has {executions} again\n") + &kept.unwrap_or_default()
    };
    out.print(|| json!(restored), text).map(|()| EXIT_OK)
}

pub(super) fn compact(config: &Config, mut out: Output<'_>) -> Result<u8> {
    let compaction = compact_store(config)?;
    let (before, after) = (compaction.bytes_before, compaction.bytes_after);
    let text = || {
        let path = shown(&compaction.path);
        if after >= before {
            return format!("{path} has {}, and cannot be made smaller\n", format_bytes(after));
        }
        format!("{path} has {} instead of {}\n", format_bytes(after), format_bytes(before))
    };
    out.print(|| json!(compaction), text).map(|()| EXIT_OK)
}

pub(super) fn shown(path: &Path) -> String {
    replace_hidden_chars(&path.display().to_string())
}
