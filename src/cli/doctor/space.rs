//! The free space on the file system of the data directory.

use std::path::Path;

use super::CheckResult;
use crate::value::format_bytes;
use midex_domain::limits;
use midex_server::{app::STORE_FILE, config::Config};

/// The finding on free space; `None` if the file system does not report it.
pub(super) fn free_space_finding(directory: &Path) -> Option<CheckResult> {
    let mut ancestors = directory.ancestors();
    let stats = ancestors.find_map(|path| rustix::fs::statvfs(path).ok())?;
    Some(finding_for_free_bytes(stats.f_bavail.saturating_mul(stats.f_frsize)))
}

/// The finding on a large store; `None` if it is not large, or if there is none.
pub(super) fn large_store_finding(config: &Config) -> Option<CheckResult> {
    let file = std::fs::metadata(config.data_dir.join(STORE_FILE)).ok()?;
    finding_for_file_bytes(file.len())
}

fn finding_for_file_bytes(bytes: u64) -> Option<CheckResult> {
    let message = format!("the store takes {}", format_bytes(bytes));
    let advice = "see `midex stats --older-than 30d`; `midex prune` removes executions, and `midex compact` gives the room back to the disk";
    (bytes >= limits::FILE_BYTES_WARNED).then(|| CheckResult::warn("size", message, advice))
}

fn finding_for_free_bytes(bytes: u64) -> CheckResult {
    const CHECK_NAME: &str = "space";
    let message = format!("{} MiB free", bytes >> 20);
    if bytes >= limits::FREE_BYTES_LOW {
        return CheckResult::ok(CHECK_NAME, message);
    }
    let message = format!("{message}: where there is none nothing more is stored");
    CheckResult::warn(CHECK_NAME, message, "free room on the file system of the directory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::CheckVerdict;

    #[test]
    fn little_free_space_is_a_warning() {
        let low = limits::FREE_BYTES_LOW;
        assert_eq!(finding_for_free_bytes(low).verdict, CheckVerdict::Ok);
        let finding = finding_for_free_bytes(low - 1);
        assert_eq!(finding.verdict, CheckVerdict::Warn);
        assert!(finding.says.starts_with("255 MiB free"), "{finding:?}");
    }

    #[test]
    fn a_large_store_is_a_warning() {
        let large = limits::FILE_BYTES_WARNED;
        assert!(finding_for_file_bytes(large - 1).is_none());
        let finding = finding_for_file_bytes(large).expect("a finding");
        assert_eq!(finding.says, "the store takes 10.0 GiB");
    }
}
