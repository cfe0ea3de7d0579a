//! The file below redb. It reserves disk space ahead of writes, undoes the writes of a failed opening, and lets a test
//! or a benchmark intercept every operation on the file.

use std::{
    fmt,
    fs::{File, FileTimes},
    io,
    ops::Bound,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::SystemTime,
};

use redb::{BackendError, StorageBackend, backends::FileBackend};
use rustix::io::Errno;

use super::{
    fault::{MissingDiskSpace, store_lost_error, store_unavailable_error},
    identity::{self, FileIdentity},
    lock::DirectoryLock,
};
use midex_domain::{error::Result, limits};

/// Disk space is reserved in multiples of this size.
const RESERVE_UNIT_BYTES: u64 = 1 << 20;

/// An operation on the data file or on its redo log, as a [`FileHook`] sees it before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileOperation<'a> {
    /// Create a draft of the data file. Writes go to the draft until it is renamed to the data file.
    Create,
    /// Have the file system allocate blocks for this many bytes.
    Reserve(u64),
    /// Read from the file.
    Read,
    /// Set the length of the file to this many bytes.
    Resize(u64),
    /// Write to the file.
    Write {
        /// The offset in the file.
        offset: u64,
        /// The bytes to be written.
        data: &'a [u8],
    },
    /// Sync the file.
    Sync,
    /// Rename the draft to the data file.
    Rename,
    /// Sync the directory.
    SyncDirectory,
    /// Create the redo log, an empty file beside the data file.
    CreateLog,
    /// Write to the redo log.
    WriteLog {
        /// The offset in the log.
        offset: u64,
        /// The bytes to be written.
        data: &'a [u8],
    },
    /// Sync the redo log.
    SyncLog,
    /// Remove the redo log.
    RemoveLog,
}

/// A function that is called before each operation on the data file and on its redo log. If it returns an error, the
/// operation is not done and fails with that error. Used by tests of failures, and by benchmarks that slow a disk down.
#[derive(Clone)]
pub struct FileHook(Arc<dyn Fn(FileOperation<'_>) -> io::Result<()> + Send + Sync>);

impl FileHook {
    /// A hook that calls `act`.
    pub fn new(act: impl Fn(FileOperation<'_>) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(act))
    }

    /// Calls the hook before `operation`.
    pub(super) fn call_before(&self, operation: FileOperation<'_>) -> io::Result<()> {
        (self.0)(operation)
    }
}

impl fmt::Debug for FileHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

/// The data file, as midex accesses it beside redb.
#[derive(Debug)]
pub(super) struct DataFile {
    file: File,
    hook: Option<FileHook>,
    /// Records each sync that fails. A copy has none: if a sync of it fails, it is removed.
    lock: Option<Arc<DirectoryLock>>,
    /// The length of the file as this process has set it. Known once the opening is trusted.
    length: AtomicU64,
    /// Set once the data file or the lock file is found replaced or removed, or the data file is found cut. Nothing is
    /// written to the data file from then on.
    is_abandoned: AtomicBool,
    /// Disk blocks are allocated for every byte below this offset.
    allocated_end: AtomicU64,
    /// Cleared if the file system cannot allocate blocks ahead. A full disk is then detected only at a write.
    can_reserve: AtomicBool,
    undo_log: Mutex<Option<OpeningUndoLog>>,
}

/// The changes of an opening that may still fail.
#[derive(Debug, Default)]
struct OpeningUndoLog {
    /// The length and modification time of the file before its first change. They are not read earlier: before redb
    /// holds the lock, another process may be writing.
    original_metadata: Option<(u64, SystemTime)>,
    /// The offset and the old bytes of each write, in order.
    overwritten: Vec<(u64, Vec<u8>)>,
}

impl DataFile {
    /// Takes `file`. Until [`DataFile::keep_changes`] is called, closing it undoes every change.
    pub(super) fn new(file: File, hook: Option<FileHook>, lock: &Arc<DirectoryLock>) -> Arc<Self> {
        Self::with_lock(file, hook, Some(Arc::clone(lock)))
    }

    /// Like [`DataFile::new`], for a file that is not the data file of the store.
    pub(super) fn new_copy(file: File, hook: Option<FileHook>) -> Arc<Self> {
        Self::with_lock(file, hook, None)
    }

    fn with_lock(
        file: File,
        hook: Option<FileHook>,
        lock: Option<Arc<DirectoryLock>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            file,
            hook,
            lock,
            length: AtomicU64::new(0),
            is_abandoned: AtomicBool::new(false),
            allocated_end: AtomicU64::new(0),
            can_reserve: AtomicBool::new(true),
            undo_log: Mutex::new(Some(OpeningUndoLog::default())),
        })
    }

    /// Declares the opening successful: from here on, changes are kept.
    pub(super) fn keep_changes(&self) {
        *self.lock_undo_log() = None;
        self.length.store(self.file_length().unwrap_or_default(), Ordering::Release);
    }

    /// Fails if the name `data` or the name of the lock file refers to another file now, or if the data file was cut.
    /// The failure is final: nothing is written to the file from then on, not even when it is closed.
    pub(super) fn check_names_and_length(&self, data: &Path) -> Result<()> {
        let names = self.lock.as_ref().map_or(Ok(()), |lock| lock.check_names(data));
        let result = names.and_then(|()| self.check_length(data));
        result.inspect_err(|_| self.is_abandoned.store(true, Ordering::Release))
    }

    fn check_length(&self, data: &Path) -> Result<()> {
        let length = self.file_length().map_err(|error| store_unavailable_error(data, &error))?;
        let recorded_length = self.length.load(Ordering::Acquire);
        if length < recorded_length {
            return Err(store_lost_error(
                data,
                &format!("was cut from {recorded_length} to {length} bytes"),
            ));
        }
        Ok(())
    }

    fn check_not_abandoned(&self) -> io::Result<()> {
        if self.is_abandoned.load(Ordering::Acquire) {
            return Err(io::Error::other("the file was given up"));
        }
        Ok(())
    }

    /// The length of the file.
    pub(super) fn file_length(&self) -> io::Result<u64> {
        identity::read_file_identity(&self.file).map(|(_, bytes)| bytes)
    }

    /// Makes the content of the file durable, including its length and times.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.sync_and_record_failure(|| self.file.sync_all())
    }

    /// Runs a sync, and records in the lock file if it fails: after a failed sync, the system may treat pages as
    /// written that never reached the disk.
    fn sync_and_record_failure(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.check_not_abandoned()?;
        let result = self.call_hook(FileOperation::Sync).and_then(|()| sync());
        if let (Err(_), Some(lock)) = (&result, &self.lock) {
            lock.record_sync_failure();
        }
        result
    }

    /// Reads from the file, bypassing redb.
    pub(super) fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.call_hook(FileOperation::Read)?;
        self.file.read_exact_at(out, offset)
    }

    /// Writes to the file, bypassing redb.
    pub(super) fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.call_hook(FileOperation::Write { offset, data })?;
        self.file.write_all_at(data, offset)?;
        self.length.fetch_max(offset + data.len() as u64, Ordering::AcqRel);
        Ok(())
    }

    /// The identity of the file.
    pub(super) fn identity(&self) -> io::Result<FileIdentity> {
        identity::read_file_identity(&self.file).map(|(identity, _)| identity)
    }

    /// Allocates disk blocks for the whole file, for `bytes` behind its end, and for the growth that redb will add. So
    /// a full disk is detected here, where it does no harm, and not inside redb, which would then have to be reopened.
    /// Returns false if there is room for `bytes` only.
    pub(super) fn reserve(&self, bytes: u64) -> io::Result<bool> {
        let length = self.file_length()?;
        let end = length.saturating_add(bytes);
        let growth = length.min(limits::ROOM_AHEAD_BYTES_MAX) + RESERVE_UNIT_BYTES;
        match self.reserve_to(end.saturating_add(growth)) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
            reserved => return reserved.map(|()| true),
        }
        if self.allocated_end.load(Ordering::Acquire) >= length {
            return self.allocate_up_to(end).map(|()| false);
        }
        // redb may write into holes of the file. Blocks allocated behind its end prove that there is room, and are
        // given back.
        let result = self.allocate_range(length, bytes);
        self.release_reserved_space()?;
        result.map(|()| false)
    }

    /// Gives back the blocks that were allocated behind the end of the file.
    pub(super) fn release_reserved_space(&self) -> io::Result<()> {
        self.file.set_len(self.file_length()?)
    }

    fn reserve_to(&self, end: u64) -> io::Result<()> {
        self.allocate_up_to(end.checked_next_multiple_of(RESERVE_UNIT_BYTES).unwrap_or(end))
    }

    fn allocate_up_to(&self, end: u64) -> io::Result<()> {
        let allocated_end = self.allocated_end.load(Ordering::Acquire);
        if end > allocated_end && self.can_reserve.load(Ordering::Acquire) {
            self.allocate_range(allocated_end, end - allocated_end)?;
            self.allocated_end.store(end, Ordering::Release);
        }
        Ok(())
    }

    /// Allocates blocks for `bytes` from `offset` on. Allocates none if the file system reports that fewer are free.
    fn allocate_range(&self, offset: u64, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.call_hook(FileOperation::Reserve(bytes))?;
        let allocated_bytes = self.file.metadata()?.blocks() * 512;
        let needed = offset.saturating_add(bytes).saturating_sub(allocated_bytes).min(bytes);
        let free = free_bytes(&self.file).unwrap_or(u64::MAX);
        let result = if free < needed {
            Err(Errno::NOSPC)
        } else {
            rustix::io::retry_on_intr(|| allocate_blocks(&self.file, offset, bytes))
        };
        match result {
            Err(error @ (Errno::NOSPC | Errno::DQUOT)) => {
                // The free blocks of the file system say nothing about a quota.
                let free = if error == Errno::NOSPC { free } else { 0 };
                let missing_space =
                    MissingDiskSpace(needed.saturating_sub(free).max(RESERVE_UNIT_BYTES));
                return Err(io::Error::new(io::ErrorKind::StorageFull, missing_space));
            }
            Ok(()) => {}
            Err(_) => self.can_reserve.store(false, Ordering::Release),
        }
        Ok(())
    }

    fn call_hook(&self, operation: FileOperation<'_>) -> io::Result<()> {
        self.hook.as_ref().map_or(Ok(()), |hook| hook.call_before(operation))
    }

    fn lock_undo_log(&self) -> MutexGuard<'_, Option<OpeningUndoLog>> {
        self.undo_log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Saves the bytes that a write of `bytes` at `offset` will replace, as long as the opening may still be undone.
    fn save_old_bytes(&self, offset: u64, bytes: u64) -> io::Result<()> {
        if let Some(undo_log) = &mut *self.lock_undo_log() {
            let metadata = self.file.metadata()?;
            let before = (metadata.len(), metadata.modified()?);
            let (before, _) = *undo_log.original_metadata.get_or_insert(before);
            let end = offset.saturating_add(bytes).min(before).min(metadata.len());
            let old_length =
                usize::try_from(end.saturating_sub(offset)).map_err(io::Error::other)?;
            let mut old_bytes = vec![0; old_length];
            self.file.read_exact_at(&mut old_bytes, offset)?;
            undo_log.overwritten.push((offset, old_bytes));
        }
        Ok(())
    }

    fn set_len(&self, bytes: u64, inner: &FileBackend) -> io::Result<()> {
        self.check_not_abandoned()?;
        // A shorter length discards the bytes behind it, so they are saved as if they were overwritten.
        let length = self.file_length()?;
        self.save_old_bytes(bytes, length.saturating_sub(bytes))?;
        self.call_hook(FileOperation::Resize(bytes))?;
        if bytes > length {
            match self.reserve_to(bytes) {
                // The writer has already reserved room for its batch. The rest of the new length stays a hole.
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
                reserved => reserved?,
            }
        } else {
            self.allocated_end.fetch_min(bytes, Ordering::AcqRel);
        }
        inner.set_len(bytes)?;
        self.length.store(bytes, Ordering::Release);
        Ok(())
    }

    /// Undoes the changes of an opening that was not trusted.
    fn undo_changes(&self) -> io::Result<()> {
        let Some(undo_log) = self.lock_undo_log().take() else {
            return Ok(());
        };
        let Some((bytes, modified)) = undo_log.original_metadata else {
            return Ok(());
        };
        for (offset, old_bytes) in undo_log.overwritten.iter().rev() {
            self.file.write_all_at(old_bytes, *offset)?;
        }
        self.file.set_len(bytes)?;
        self.file.set_times(FileTimes::new().set_modified(modified))?;
        self.sync()
    }
}

/// The free bytes of the file system for this user; `None` where it does not report them.
fn free_bytes(file: &File) -> Option<u64> {
    let system = rustix::fs::fstatvfs(file).ok()?;
    (system.f_blocks > 0).then(|| system.f_bavail * system.f_frsize)
}

#[cfg(target_os = "linux")]
fn allocate_blocks(file: &File, offset: u64, bytes: u64) -> rustix::io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    fallocate(file, FallocateFlags::KEEP_SIZE, offset, bytes)
}

/// On other systems a full disk is detected by redb, and the database is then reopened.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "as on Linux, where it may fail")]
fn allocate_blocks(_file: &File, _offset: u64, _bytes: u64) -> rustix::io::Result<()> {
    Ok(())
}

/// The storage backend that redb uses.
#[derive(Debug)]
pub(super) struct Backend {
    inner: FileBackend,
    data_file: Arc<DataFile>,
}

impl Backend {
    /// The backend of `data_file`. It shares the file, and locks it while the database is open.
    pub(super) fn new(data_file: &Arc<DataFile>) -> io::Result<Self> {
        let inner = FileBackend::new(data_file.file.try_clone()?).map_err(io::Error::other)?;
        Ok(Self { inner, data_file: Arc::clone(data_file) })
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        // If redb panicked it did not close the backend. The lock is still held here.
        if let Err(error) = self.data_file.undo_changes() {
            tracing::error!(%error, "a damaged database could not be put back as it was");
        }
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.data_file.call_hook(FileOperation::Read)?;
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.data_file.set_len(len, &self.inner)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.data_file.sync_and_record_failure(|| self.inner.sync_data())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.data_file.check_not_abandoned()?;
        self.data_file.call_hook(FileOperation::Write { offset, data })?;
        self.data_file.save_old_bytes(offset, data.len() as u64)?;
        self.inner.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        let undo_result = self.data_file.undo_changes();
        self.inner.close().and(undo_result)
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.inner.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.query_lock_range(start, end)
    }
}
