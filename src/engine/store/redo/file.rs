//! The file of a log: room that was made before, filled from its beginning.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use super::{
    record::{self, PAGE_BYTES, RecordPlace},
    state::LogId,
};
use crate::store::{
    backend::{Hook, Operation},
    identity::{self, Identity},
    paths,
};

/// Room is made in pieces of this size.
const CHUNK_BYTES: usize = 1 << 20;

/// How many times longer it becomes when it was full.
const GROWTH: u64 = 4;

/// A log that is written.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    identity: Identity,
    hook: Option<Hook>,
    /// Where the next record goes.
    end: RecordPlace,
    /// How far records of earlier ids reach.
    past: u64,
    /// How many bytes there are that need no room any more.
    bytes: u64,
}

impl LogFile {
    /// A new one at `path`, under a name that is durable, with room for so many bytes. An empty record of no log lies at its
    /// beginning, so a log of zeros is known to have lost something.
    pub(super) fn begin(path: &Path, hook: Option<Hook>, bytes: u64) -> io::Result<Self> {
        before(hook.as_ref(), Operation::CreateLog)?;
        let file = paths::create_new(path)?;
        let identity = identity::of(&file)?.0;
        let mut log = Self {
            path: path.to_path_buf(),
            file,
            identity,
            hook,
            end: RecordPlace::default(),
            past: 0,
            bytes: 0,
        };
        let made = log
            .make_room(bytes)
            .and_then(|()| log.append(record::begin(), LogId::NONE))
            .and_then(|()| sync_name(&log.path, log.hook.as_ref()));
        // What is left of it holds nothing, and the next opening removes it.
        made.inspect_err(|_| log.remove()).map(|()| log)
    }

    /// Writes zeros up to the length of `bytes`: what is written over them later changes no length and needs no blocks.
    fn make_room(&mut self, bytes: u64) -> io::Result<()> {
        let zeros = vec![0; CHUNK_BYTES];
        let mut at = self.bytes;
        while at < bytes {
            let left = usize::try_from(bytes - at).unwrap_or(CHUNK_BYTES);
            let zeros = &zeros[..left.min(CHUNK_BYTES)];
            self.write(at, zeros)?;
            at += zeros.len() as u64;
        }
        self.before(Operation::SyncLog)?;
        self.file.sync_all()?;
        self.bytes = bytes;
        Ok(())
    }

    /// Makes it four times as long, up to `most`. On a full disk it stays as it is.
    pub(super) fn grow(&mut self, most: u64) -> io::Result<()> {
        if !self.is_there() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let bytes = (self.bytes * GROWTH).min(most);
        if bytes <= self.bytes {
            return Ok(());
        }
        match self.make_room(bytes) {
            // The zeros that were written before the disk was full give their blocks back.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                self.file.set_len(self.bytes)
            }
            made => made,
        }
    }

    /// How many bytes there are.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many of them are left.
    pub(super) fn left(&self) -> u64 {
        self.bytes.saturating_sub(self.end.offset)
    }

    /// Adds a record with this body, and makes it durable. Where older records lay behind it, a page of zeros is
    /// written too: a reader that finds no record but other bytes there knows that a record was torn or damaged.
    pub(super) fn append(&mut self, body: Vec<u8>, id: LogId) -> io::Result<()> {
        let mut record = record::seal(body, id, self.end);
        let end = self.end.after(record.len());
        if end.offset < self.past {
            record.resize(record.len() + PAGE_BYTES, 0);
        }
        self.write(self.end.offset, &record)?;
        self.before(Operation::SyncLog)?;
        self.file.sync_data()?;
        self.end = end;
        Ok(())
    }

    /// Goes on from the beginning.
    pub(super) fn rewind(&mut self) {
        self.past = self.past.max(self.end.offset);
        self.end = RecordPlace::default();
    }

    /// Whether nobody removed, replaced or cut it.
    pub(super) fn is_there(&self) -> bool {
        self.named().is_some_and(|bytes| bytes >= self.bytes)
    }

    /// Its length, where its name is still its own.
    fn named(&self) -> Option<u64> {
        let (there, bytes) = identity::at(&self.path).ok()?;
        (there == self.identity).then_some(bytes)
    }

    /// Removes it, if it is still there.
    pub(super) fn remove(&self) {
        if self.named().is_some() {
            remove(&self.path, self.hook.as_ref());
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.before(Operation::WriteLog { offset, data })?;
        self.file.write_all_at(data, offset)
    }

    fn before(&self, operation: Operation<'_>) -> io::Result<()> {
        before(self.hook.as_ref(), operation)
    }
}

/// Removes the log at `path`, which is not needed any more, and makes that durable. Where that fails the next opening tries
/// again.
pub(super) fn remove(path: &Path, hook: Option<&Hook>) {
    let removed = before(hook, Operation::RemoveLog)
        .and_then(|()| paths::remove(path))
        .and_then(|()| sync_name(path, hook));
    if let Err(error) = removed {
        tracing::warn!(path = %path.display(), %error, "a redo log that is not needed any more cannot be removed");
    }
}

fn sync_name(path: &Path, hook: Option<&Hook>) -> io::Result<()> {
    before(hook, Operation::SyncDirectory)?;
    paths::sync_directory(path.parent().unwrap_or(path))
}

fn before(hook: Option<&Hook>, operation: Operation<'_>) -> io::Result<()> {
    hook.map_or(Ok(()), |hook| hook.before(operation))
}
