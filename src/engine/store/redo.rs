//! The log: what batches have written since the data file was made durable, in one file beside it.
//!
//! A commit of redb writes some ten scattered pages and syncs them, twice where the next opening after a crash is to be quick.
//! So a batch is appended to the log, in one piece and with one sync of room that was made before, and then committed in
//! memory alone (`Durability::None`), where readers see it. Once the log is full the next batch is committed to the data
//! file itself, and all before it with it; the log then begins anew under another id, over its own past. The data file
//! remains what redb makes of it, whole at each moment and as of the last such fold: the log is never needed to read it.
//!
//! The data file says which log follows it, by an id that is random and new at each fold. An opening puts what a log of that
//! id holds into the data file, and then removes the log; so do an orderly close, and a writer that has had nothing to do for
//! [`Options::redo_idle`]. What follows no data file of that moment is refused (`pending.rs`).
//!
//! - A record is there whole or not at all: it has a checksum. It begins at a page, so that no page is written again that
//!   holds something acknowledged; and it is durable before the next one is written, so that only the last can be torn.
//! - A batch is appended before redb commits it: nobody sees what is not durable. One that is refused in between may be
//!   found in the log by the next opening: its callers were told that nothing is known of it.
//! - What an opening puts may be there already, for a database that is closed after a failure writes everything: putting
//!   all of it again changes nothing.
//! - A sync of the log that fails leaves only its last record in doubt, of a batch that is refused. Everything else is put
//!   into the data file before anything more is acknowledged, and the log is removed.
//! - A log that somebody removed, replaced or cut is found out before its record is acknowledged: the batch goes to the data file.

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
    pending::{read, refuse_orphan},
    state::{FORMAT_WITH_LOG, Follows, say},
};
use super::{changes::Changes, options::Options, paths};
use midex_domain::limits;

/// The log of an open store, as its writer has it.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    options: Options,
    /// Commits to the data file that are left until one is begun.
    left: u64,
    /// The one that follows the data file.
    open: Option<(LogFile, LogId)>,
    /// The room that the log of an earlier process needs in the data file, where it could not be put there yet.
    unfolded: Option<u64>,
}

impl Log {
    /// None yet, for the data file at `path`, or that of an earlier process, which needs room for so many bytes.
    pub(super) fn new(path: &Path, options: &Options, unfolded: Option<u64>) -> Self {
        Self {
            path: paths::redo_beside(path),
            options: options.clone(),
            left: options.redo_after,
            open: None,
            unfolded,
        }
    }

    /// Where a batch puts what it changes, as far as that fits.
    pub(super) fn changes(&self) -> Changes {
        let room = self.open.as_ref().map_or(0, |(file, _)| file.left());
        Changes::behind(record::begin(), usize::try_from(room).unwrap_or(usize::MAX))
    }

    /// Makes `changes` durable. Answers false where they are to be committed to the data file.
    ///
    /// # Errors
    /// Of the system. What the log has of them is not known then.
    pub(super) fn append(&mut self, changes: Changes) -> io::Result<bool> {
        let (Some((file, id)), Some(body)) = (&mut self.open, changes.into_bytes()) else {
            return Ok(false);
        };
        file.append(body, *id)?;
        Ok(file.is_there())
    }

    /// The log that is to follow the next commit to the data file: the same file under another id, a new one where it is time
    /// for that, or none.
    pub(super) fn next(&mut self) -> Option<Follows> {
        if self.unfolded.is_some() {
            return None;
        }
        if self.open.is_none() && (self.left > 0 || self.options.redo_bytes == 0) {
            self.left = self.left.saturating_sub(1);
            return None;
        }
        match self.made() {
            Ok(follows) => Some(follows),
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "no redo log for now: each batch is committed to the database itself");
                self.left = limits::REDO_AFTER_COMMITS;
                None
            }
        }
    }

    /// Makes the file, or its room.
    fn made(&mut self) -> io::Result<Follows> {
        let (most, id) = (self.options.redo_bytes, LogId::random());
        if let Some((file, _)) = &mut self.open {
            file.grow(most)?;
            let bytes = file.bytes();
            return Ok(Follows { id, bytes });
        }
        let bytes = limits::REDO_BYTES_MIN.min(most);
        let file = LogFile::begin(&self.path, self.options.hook.clone(), bytes)?;
        self.open = Some((file, id));
        Ok(Follows { id, bytes })
    }

    /// The data file was made durable, and says that it is followed by `next`.
    pub(super) fn folded(&mut self, next: Option<Follows>) {
        if let (Some(next), Some((file, id))) = (next, &mut self.open) {
            file.rewind();
            *id = next.id;
        } else if let Some((file, _)) = self.open.take() {
            file.remove();
            self.left = self.options.redo_after;
        } else if self.unfolded.take().is_some() {
            file::remove(&self.path, self.options.hook.as_ref());
        }
    }

    /// The room that the data file needs for what the log of an earlier process holds.
    pub(super) fn unfolded(&self) -> u64 {
        self.unfolded.unwrap_or_default()
    }

    /// Whether the data file is not whole without it.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some() || self.unfolded.is_some()
    }
}

/// Removes what an opening has put into the data file at `path`, or what never held anything.
pub(super) fn remove_leftover(path: &Path, options: &Options) {
    let log = paths::redo_beside(path);
    if fs::symlink_metadata(&log).is_ok() {
        file::remove(&log, options.hook.as_ref());
    }
}
