//! The redo log: the changes of batches since the data file was last made durable, in one file beside it.
//!
//! A commit of redb writes some ten scattered pages and syncs them, twice if the next opening after a crash is to be
//! quick. So a batch is appended to the log instead, in one write and with one sync of preallocated space, and then
//! committed in memory only (`Durability::None`), where readers see it. Once the log is full, the next batch is
//! committed to the data file, together with all batches before it: a fold. The log then starts from its beginning
//! again, under another id, over its old records. The data file is a complete redb file at each moment, as of the last
//! fold, and can be read without the log.
//!
//! The data file names the log that follows it by an id that is random and new at each fold. An opening applies the log
//! with that id to the data file, and then removes the log. An orderly close does so too, and so does a writer that has
//! been idle for [`Options::redo_idle`]. A log that does not follow the present content of the data file is refused
//! (`pending.rs`).
//!
//! - A record is complete or is ignored: it has a checksum. It starts at a page boundary, so that no page with
//!   acknowledged data is written again. It is durable before the next one is written, so only the last record can be
//!   torn.
//! - A batch is appended before redb commits it, so nothing is visible before it is durable. The next opening may find
//!   a batch in the log whose commit failed after that: its callers were told that its outcome is unknown.
//! - An opening may apply changes that the data file already has, because a database that is closed after a failure
//!   writes everything. Applying all of them again changes nothing.
//! - If a sync of the log fails, only its last record is in doubt, and the batch of that record is refused. Everything
//!   else is put into the data file before anything more is acknowledged, and the log is removed.
//! - A log that was removed, replaced or cut is detected before its record is acknowledged. The batch then goes to the
//!   data file.

mod file;
mod pending;
mod record;
mod state;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use self::{file::LogFile, state::LogId};
pub(super) use self::{
    pending::{read_pending_log, refuse_incomplete_file, refuse_orphan_log, refuse_present_log},
    state::{FORMAT_WITH_LOG, FollowingLog, LOG_KEY, record_following_log},
};
use super::{changes::ChangeBuffer, options::Options, paths};
use midex_domain::limits;

/// The log of an open store, as its writer uses it.
#[derive(Debug)]
pub(super) struct RedoLog {
    path: PathBuf,
    options: Options,
    /// How many commits to the data file remain until a log is started.
    commits_until_log: u64,
    /// The log that follows the data file.
    active_log: Option<(LogFile, LogId)>,
    /// The disk space that the log of an earlier process needs in the data file, if it could not be applied yet.
    unfolded_bytes: Option<u64>,
}

impl RedoLog {
    /// No log yet for the data file at `path`. With `unfolded_bytes`, there is the log of an earlier process, which needs
    /// this many bytes.
    pub(super) fn new(path: &Path, options: &Options, unfolded_bytes: Option<u64>) -> Self {
        Self {
            path: paths::redo_log_path(path),
            options: options.clone(),
            commits_until_log: options.redo_after,
            active_log: None,
            unfolded_bytes,
        }
    }

    /// A buffer for the changes of a batch, limited to the space that is left in the log.
    pub(super) fn new_change_buffer(&self) -> ChangeBuffer {
        let room = self.active_log.as_ref().map_or(0, |(file, _)| file.bytes_left());
        ChangeBuffer::new_after_prefix(
            record::new_record_buffer(),
            usize::try_from(room).unwrap_or(usize::MAX),
        )
    }

    /// Makes `changes` durable. Returns false if they must be committed to the data file instead.
    ///
    /// # Errors
    /// Those of the system. It is then unknown what the log holds of `changes`.
    pub(super) fn append(&mut self, changes: ChangeBuffer) -> io::Result<bool> {
        let (Some((file, id)), Some(body)) = (&mut self.active_log, changes.into_bytes()) else {
            return Ok(false);
        };
        file.append(body, *id)?;
        Ok(file.is_in_place())
    }

    /// The log that will follow the next commit to the data file: the present file under another id, a new file if
    /// enough commits have passed, or none.
    pub(super) fn prepare_next_log(&mut self) -> Option<FollowingLog> {
        if self.unfolded_bytes.is_some() {
            return None;
        }
        if self.active_log.is_none() && (self.commits_until_log > 0 || self.options.redo_bytes == 0)
        {
            self.commits_until_log = self.commits_until_log.saturating_sub(1);
            return None;
        }
        match self.create_or_grow_log() {
            Ok(log) => Some(log),
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "no redo log for now: each batch is committed to the database itself");
                self.commits_until_log = limits::REDO_AFTER_COMMITS;
                None
            }
        }
    }

    /// Creates the log file, or grows the present one.
    fn create_or_grow_log(&mut self) -> io::Result<FollowingLog> {
        let (max_bytes, id) = (self.options.redo_bytes, LogId::random());
        if let Some((file, _)) = &mut self.active_log {
            file.grow(max_bytes)?;
            let bytes = file.bytes();
            return Ok(FollowingLog { id, bytes });
        }
        let bytes = limits::REDO_BYTES_MIN.min(max_bytes);
        let file = LogFile::create_log(&self.path, self.options.hook.clone(), bytes)?;
        self.active_log = Some((file, id));
        Ok(FollowingLog { id, bytes })
    }

    /// Called once the data file is durable and names `next` as the log that follows it.
    pub(super) fn finish_fold(&mut self, next: Option<FollowingLog>) {
        if let (Some(next), Some((file, id))) = (next, &mut self.active_log) {
            file.rewind();
            *id = next.id;
        } else if let Some((file, _)) = self.active_log.take() {
            file.remove();
            self.commits_until_log = self.options.redo_after;
        } else if self.unfolded_bytes.take().is_some() {
            file::remove_log_file(&self.path, self.options.hook.as_ref());
        }
    }

    /// The disk space that the data file needs for the log of an earlier process.
    pub(super) fn unfolded_bytes(&self) -> u64 {
        self.unfolded_bytes.unwrap_or_default()
    }

    /// Whether the data file is incomplete without the log.
    pub(super) fn is_open(&self) -> bool {
        self.active_log.is_some() || self.unfolded_bytes.is_some()
    }
}

/// Removes the log beside the data file at `path`: its content is in the data file, or it never had any.
pub(super) fn remove_leftover(path: &Path, options: &Options) {
    let log = paths::redo_log_path(path);
    if fs::symlink_metadata(&log).is_ok() {
        file::remove_log_file(&log, options.hook.as_ref());
    }
}
