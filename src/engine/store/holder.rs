//! Finds the process that holds the lock of a data directory, so that an error message can name it.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

/// The lock file's name in its directory. It is never removed.
pub(super) const LOCK_NAME: &str = "executions.lock";

/// The id of the process that holds the lock of a directory, where the system reports it.
pub fn lock_holder_pid(directory: &Path) -> Option<u32> {
    let file = fs::metadata(directory.join(LOCK_NAME)).ok()?;
    let inode = format!(":{}", file.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| parse_lock_holder(line, &inode))
}

/// The process that holds the lock on the file with this inode, if the line is about that file. A line is
/// `NUMBER: FLOCK ADVISORY WRITE PROCESS MAJOR:MINOR:INODE START END` (`proc_locks(5)`).
fn parse_lock_holder(line: &str, inode: &str) -> Option<u32> {
    let mut words = line.split_whitespace().skip(1);
    let is_flock = words.next() == Some("FLOCK");
    let (process, file) = (words.nth(2)?, words.next()?);
    let process = process.parse().ok().filter(|process| *process > 0);
    process.filter(|_| is_flock && file.ends_with(inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_of_a_lock_is_found_by_its_file() {
        let line = "7: FLOCK  ADVISORY  WRITE 4711 fe:00:52 0 EOF";
        assert_eq!(parse_lock_holder(line, ":52"), Some(4711));
        assert_eq!(parse_lock_holder(line, ":2"), None);
        // A process that waits for the lock; another kind of lock; a process in another container; an incomplete line.
        for other in [
            "7: -> FLOCK  ADVISORY  WRITE 4711 fe:00:52 0 EOF",
            "7: POSIX  ADVISORY  WRITE 4711 fe:00:52 0 EOF",
            "7: FLOCK  ADVISORY  WRITE 0 fe:00:52 0 EOF",
            "7: FLOCK  ADVISORY",
        ] {
            assert_eq!(parse_lock_holder(other, ":52"), None, "{other}");
        }
    }
}
