//! The free space on the file system of the data directory.

use std::path::Path;

use super::CheckResult;
use midex_domain::limits;

/// The finding on free space; `None` if the file system does not report it.
pub(super) fn free_space_finding(directory: &Path) -> Option<CheckResult> {
    let mut ancestors = directory.ancestors();
    let stats = ancestors.find_map(|path| rustix::fs::statvfs(path).ok())?;
    Some(finding_for_free_bytes(stats.f_bavail.saturating_mul(stats.f_frsize)))
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
}
