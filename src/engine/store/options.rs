//! How a store in redb works.

use std::{io, time::Duration};

use super::backend::{Hook, Operation};
use midex_domain::{
    error::{Error, Result},
    limits,
};

/// How a [`RedbStore`](super::RedbStore) works.
#[derive(Clone, Debug)]
pub struct Options {
    /// A snapshot at least at every such transition: 1 to [`limits::SNAPSHOT_EVERY_MAX`].
    pub snapshot_every: u32,
    /// Transitions committed together at most; 1 is for comparison.
    pub batch_max: usize,
    /// Pages kept in memory.
    pub cache_bytes: usize,
    /// Journal rows looked at for one page of executions: from 1 on; fewer than
    /// [`limits::LIST_SCANNED_MAX`] are for tests.
    pub list_scanned_max: usize,
    /// Whether the whole file is read through when it is opened, not only one below
    /// [`limits::CHECKED_FILE_BYTES_MAX`] or one of a process that crashed.
    pub check_all: bool,
    /// How long the redo log may become; 0 for none at all.
    pub redo_bytes: u64,
    /// Commits to the data file before a redo log is begun; fewer than [`limits::REDO_AFTER_COMMITS`] are for tests.
    pub redo_after: u64,
    /// How long after its last record a redo log is put into the data file.
    pub redo_idle: Duration,
    /// Stands between the database and the disk.
    pub hook: Option<Hook>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            snapshot_every: 1,
            batch_max: limits::BATCH_TRANSITIONS_MAX,
            cache_bytes: limits::STORE_CACHE_BYTES,
            list_scanned_max: limits::LIST_SCANNED_MAX,
            check_all: false,
            redo_bytes: limits::REDO_BYTES_MAX,
            redo_after: limits::REDO_AFTER_COMMITS,
            redo_idle: limits::REDO_IDLE,
            hook: None,
        }
    }
}

impl Options {
    /// Asks the hook before `operation`.
    pub(super) fn before(&self, operation: Operation<'_>) -> io::Result<()> {
        (self.hook.as_ref()).map_or(Ok(()), |hook| hook.before(operation))
    }

    pub(super) fn checked(self) -> Result<Self> {
        let snapshots = (1..=limits::SNAPSHOT_EVERY_MAX).contains(&self.snapshot_every);
        let batches = (1..=limits::BATCH_TRANSITIONS_MAX).contains(&self.batch_max);
        let scans = (1..=limits::LIST_SCANNED_MAX).contains(&self.list_scanned_max);
        if snapshots && batches && scans {
            return Ok(self);
        }
        Err(Error::internal(format!(
            "`snapshot_every` {}, `batch_max` {} or `list_scanned_max` {} is out of range",
            self.snapshot_every, self.batch_max, self.list_scanned_max
        )))
    }
}
