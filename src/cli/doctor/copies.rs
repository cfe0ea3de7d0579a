//! The copies of damaged files of the store.

use std::fs;

use super::Finding;
use midex_server::{app, config::Config};

/// A warning that names the copies, if there are any. The damaged log itself is gone once the store was opened.
pub(super) fn copies(config: &Config) -> Option<Finding> {
    let entries = fs::read_dir(&config.data_dir).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut copies: Vec<_> = names
        .filter(|name| name.contains(app::STORE_DAMAGED))
        .collect();
    copies.sort();
    let first = copies.first()?;
    let path = config.data_dir.join(first);
    let more = match copies.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more beside it"),
    };
    let says = format!(
        "a copy of a file that could not be read whole lies at {}{more}",
        path.display()
    );
    let mend = if first.starts_with(app::STORE_FILE) {
        "remove it once nothing of it is missed"
    } else {
        "look whether the last step is missed that was stored before the machine stopped; remove the copy then"
    };
    Some(Finding::warn("copies", says, mend))
}
