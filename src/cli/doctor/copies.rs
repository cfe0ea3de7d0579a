//! Copies of damaged store files.

use std::fs;

use super::CheckResult;
use midex_server::{app, config::Config};

/// A warning that names the copies, if any. After the store was opened, the damaged redo log itself no longer exists.
pub(super) fn store_copies_finding(config: &Config) -> Option<CheckResult> {
    let entries = fs::read_dir(&config.data_dir).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut copies: Vec<_> = names.filter(|name| name.contains(app::STORE_DAMAGED)).collect();
    copies.sort();
    let first = copies.first()?;
    let path = config.data_dir.join(first);
    let more_note = match copies.len() - 1 {
        0 => String::new(),
        count => format!(", and {count} more beside it"),
    };
    let message = format!(
        "a copy of a file that could not be read whole lies at {}{more_note}",
        path.display()
    );
    let mend = if first.starts_with(app::STORE_FILE) {
        "remove it once nothing of it is missed"
    } else {
        "look whether the last step is missed that was stored before the machine stopped; remove the copy then"
    };
    Some(CheckResult::warn("copies", message, mend))
}
