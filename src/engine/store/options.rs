//! The options of a store in redb.

use std::{io, time::Duration};

use super::backend::{FileHook, FileOperation};
use midex_domain::{
    error::{Error, Result},
    limits,
};

/// The options of a [`RedbStore`](super::RedbStore).
#[derive(Clone, Debug)]
pub struct Options {
    /// After how many transitions a snapshot is due: 1 to [`limits::SNAPSHOT_EVERY_MAX`]. A large one is written later,
    /// once the rows outweigh it.
    pub snapshot_every: u32,
    /// The maximum number of transitions in one commit. 1 is for comparison.
    pub batch_max: usize,
    /// The size of redb's page cache.
    pub cache_bytes: usize,
    /// The maximum number of journal rows that are looked at for one page of executions, at least 1. Fewer than
    /// [`limits::LIST_SCANNED_MAX`] are for tests.
    pub list_scanned_max: usize,
    /// Whether an opening reads through the whole file even if it is larger than [`limits::CHECKED_FILE_BYTES_MAX`] and
    /// its process closed it cleanly.
    pub check_all: bool,
    /// The maximum size of the redo log; 0 for no log.
    pub redo_bytes: u64,
    /// How many commits go to the data file before a redo log is started. Fewer than [`limits::REDO_AFTER_COMMITS`] are
    /// for tests.
    pub redo_after: u64,
    /// How long the writer is idle before the redo log is folded into the data file.
    pub redo_idle: Duration,
    /// Called before each operation on the files.
    pub hook: Option<FileHook>,
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
    /// Calls the hook before `operation`.
    pub(super) fn call_hook_before(&self, operation: FileOperation<'_>) -> io::Result<()> {
        (self.hook.as_ref()).map_or(Ok(()), |hook| hook.call_before(operation))
    }

    pub(super) fn check_options(self) -> Result<Self> {
        let has_valid_snapshot_every =
            (1..=limits::SNAPSHOT_EVERY_MAX).contains(&self.snapshot_every);
        let has_valid_batch_max = (1..=limits::BATCH_TRANSITIONS_MAX).contains(&self.batch_max);
        let has_valid_list_max = (1..=limits::LIST_SCANNED_MAX).contains(&self.list_scanned_max);
        if has_valid_snapshot_every && has_valid_batch_max && has_valid_list_max {
            return Ok(self);
        }
        Err(Error::internal(format!(
            "`snapshot_every` {}, `batch_max` {} or `list_scanned_max` {} is out of range",
            self.snapshot_every, self.batch_max, self.list_scanned_max
        )))
    }
}
