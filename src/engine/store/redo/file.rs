//! The file of a log: preallocated space, filled from its beginning.

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
    backend::{FileHook, FileOperation},
    identity::{self, FileIdentity},
    paths,
};

/// The size of the writes that preallocate space.
const CHUNK_BYTES: usize = 1 << 20;

/// The factor by which a full log grows.
const GROWTH_FACTOR: u64 = 4;

/// A log file that is open for writing.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    identity: FileIdentity,
    hook: Option<FileHook>,
    /// Where the next record goes.
    next_place: RecordPlace,
    /// The end of the records of earlier ids.
    old_records_end: u64,
    /// The length of the preallocated space, in bytes.
    bytes: u64,
}

impl LogFile {
    /// Creates a log at `path`, with a durable name and this many bytes of preallocated space. It begins with an empty
    /// record with the id [`LogId::NONE`], so a log that holds only zeros is known to have lost data.
    pub(super) fn create_log(path: &Path, hook: Option<FileHook>, bytes: u64) -> io::Result<Self> {
        call_hook_if_any(hook.as_ref(), FileOperation::CreateLog)?;
        let file = paths::create_new_file(path)?;
        let identity = identity::read_file_identity(&file)?.0;
        let mut log = Self {
            path: path.to_path_buf(),
            file,
            identity,
            hook,
            next_place: RecordPlace::default(),
            old_records_end: 0,
            bytes: 0,
        };
        let result = log
            .write_zeros_to(bytes)
            .and_then(|()| log.append(record::new_record_buffer(), LogId::NONE))
            .and_then(|()| sync_directory_entry(&log.path, log.hook.as_ref()));
        // A file whose creation failed holds nothing. If it cannot be removed here, the next opening removes it.
        result.inspect_err(|_| log.remove()).map(|()| log)
    }

    /// Writes zeros up to the length `bytes`, so that a later write over them changes no length and needs no blocks.
    fn write_zeros_to(&mut self, bytes: u64) -> io::Result<()> {
        let zeros = vec![0; CHUNK_BYTES];
        let mut offset = self.bytes;
        while offset < bytes {
            let left = usize::try_from(bytes - offset).unwrap_or(CHUNK_BYTES);
            let zeros = &zeros[..left.min(CHUNK_BYTES)];
            self.write(offset, zeros)?;
            offset += zeros.len() as u64;
        }
        self.call_hook(FileOperation::SyncLog)?;
        self.file.sync_all()?;
        self.bytes = bytes;
        Ok(())
    }

    /// Makes the file four times as long, up to `max_bytes` bytes. On a full disk its length does not change.
    pub(super) fn grow(&mut self, max_bytes: u64) -> io::Result<()> {
        if !self.is_in_place() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let bytes = (self.bytes * GROWTH_FACTOR).min(max_bytes);
        if bytes <= self.bytes {
            return Ok(());
        }
        match self.write_zeros_to(bytes) {
            // Give back the blocks of the zeros that were written before the disk was full.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                self.file.set_len(self.bytes)
            }
            made => made,
        }
    }

    /// The length of the preallocated space, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many bytes of it are left.
    pub(super) fn bytes_left(&self) -> u64 {
        self.bytes.saturating_sub(self.next_place.offset)
    }

    /// Appends a record with this body, and makes it durable. If older records lie behind it, a page of zeros is
    /// written after it: a reader that finds neither zeros nor a record there knows that a record was torn or damaged.
    ///
    /// The body must fit into [`Self::bytes_left`]. After an error the last record is in doubt: append nothing more, and
    /// remove the log.
    pub(super) fn append(&mut self, body: Vec<u8>, id: LogId) -> io::Result<()> {
        let mut record = record::seal_record(body, id, self.next_place);
        let end = self.next_place.place_after(record.len());
        if end.offset < self.old_records_end {
            record.resize(record.len() + PAGE_BYTES, 0);
        }
        self.write(self.next_place.offset, &record)?;
        self.call_hook(FileOperation::SyncLog)?;
        self.file.sync_data()?;
        self.next_place = end;
        Ok(())
    }

    /// Makes the next record the first one again, over the old records. The caller uses another id from here on: a reader
    /// tells old records from new ones by it.
    pub(super) fn rewind(&mut self) {
        self.old_records_end = self.old_records_end.max(self.next_place.offset);
        self.next_place = RecordPlace::default();
    }

    /// Whether the file is still in place: not removed, replaced or cut.
    pub(super) fn is_in_place(&self) -> bool {
        self.length_at_path().is_some_and(|bytes| bytes >= self.bytes)
    }

    /// The length of the file, if its path still refers to it.
    fn length_at_path(&self) -> Option<u64> {
        let (current, bytes) = identity::read_path_identity(&self.path).ok()?;
        (current == self.identity).then_some(bytes)
    }

    /// Removes the file, if its path still refers to it.
    pub(super) fn remove(&self) {
        if self.length_at_path().is_some() {
            remove_log_file(&self.path, self.hook.as_ref());
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.call_hook(FileOperation::WriteLog { offset, data })?;
        self.file.write_all_at(data, offset)
    }

    fn call_hook(&self, operation: FileOperation<'_>) -> io::Result<()> {
        call_hook_if_any(self.hook.as_ref(), operation)
    }
}

/// Removes the log at `path`, which is no longer needed, and makes the removal durable. If that fails, the next opening
/// tries again.
pub(super) fn remove_log_file(path: &Path, hook: Option<&FileHook>) {
    let result = call_hook_if_any(hook, FileOperation::RemoveLog)
        .and_then(|()| paths::remove_if_exists(path))
        .and_then(|()| sync_directory_entry(path, hook));
    if let Err(error) = result {
        tracing::warn!(path = %path.display(), %error, "a redo log that is not needed any more cannot be removed");
    }
}

fn sync_directory_entry(path: &Path, hook: Option<&FileHook>) -> io::Result<()> {
    call_hook_if_any(hook, FileOperation::SyncDirectory)?;
    paths::sync_directory(path.parent().unwrap_or(path))
}

fn call_hook_if_any(hook: Option<&FileHook>, operation: FileOperation<'_>) -> io::Result<()> {
    hook.map_or(Ok(()), |hook| hook.call_before(operation))
}
