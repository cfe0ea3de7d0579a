//! The file beneath redb: keeps room ahead of it, takes back what a failed opening wrote, and lets a
//! test or a bench stand between the database and the disk.

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
    fault::{NoRoom, lost, unavailable},
    identity::{self, Identity},
    lock::Lock,
};
use midex_domain::{error::Result, limits};

/// Room is asked for in pieces of this size.
const ROOM_BYTES: u64 = 1 << 20;

/// What the database is about to do to its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation<'a> {
    /// Begin another file, with which everything else is done until it takes the place of the one before.
    Create,
    /// Have the file system set blocks aside for so many bytes.
    Reserve(u64),
    /// Read from it.
    Read,
    /// Change the file's length to so many bytes.
    Resize(u64),
    /// Write to it.
    Write {
        /// Where.
        offset: u64,
        /// What.
        data: &'a [u8],
    },
    /// Make what was written durable.
    Sync,
    /// Give the new file its name.
    Rename,
    /// Make the names in the directory durable.
    SyncDirectory,
    /// Begin the log, an empty file beside the data file.
    CreateLog,
    /// Write to the log.
    WriteLog {
        /// Where.
        offset: u64,
        /// What.
        data: &'a [u8],
    },
    /// Make durable what was written to the log.
    SyncLog,
    /// Remove the log.
    RemoveLog,
}

/// Called before each operation on the data file and on its log; an error takes its place. For tests of failure, and
/// for benches that make a disk as slow as a real one.
#[derive(Clone)]
pub struct Hook(Arc<dyn Fn(Operation<'_>) -> io::Result<()> + Send + Sync>);

impl Hook {
    /// A hook that calls `act`.
    pub fn new(act: impl Fn(Operation<'_>) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(act))
    }

    /// Asks it before `operation`.
    pub(super) fn before(&self, operation: Operation<'_>) -> io::Result<()> {
        (self.0)(operation)
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

/// The data file as midex sees it beside redb.
#[derive(Debug)]
pub(super) struct Disk {
    file: File,
    hook: Option<Hook>,
    /// Is told of each sync that fails.
    lock: Arc<Lock>,
    /// How long the file is, as far as this process has made it. Known once the opening is trusted.
    length: AtomicU64,
    /// The file is another's by now: nothing is written to it any more.
    abandoned: AtomicBool,
    /// Blocks are set aside for every byte below this offset.
    room: AtomicU64,
    /// Cleared where the file system cannot set blocks aside: then a full disk is met later.
    can_reserve: AtomicBool,
    trial: Mutex<Option<Trial>>,
}

/// What an opening that may yet fail has changed.
#[derive(Debug, Default)]
struct Trial {
    /// The length and time of the file before its first change. Not known earlier: before redb holds the
    /// lock another process may be at work.
    before: Option<(u64, SystemTime)>,
    /// What each write covered, in order.
    overwritten: Vec<(u64, Vec<u8>)>,
}

impl Disk {
    /// Takes `file`. Until [`Disk::trust`] is called, everything done to it is taken back at its closing.
    pub(super) fn new(file: File, hook: Option<Hook>, lock: &Arc<Lock>) -> Arc<Self> {
        Arc::new(Self {
            file,
            hook,
            lock: Arc::clone(lock),
            length: AtomicU64::new(0),
            abandoned: AtomicBool::new(false),
            room: AtomicU64::new(0),
            can_reserve: AtomicBool::new(true),
            trial: Mutex::new(Some(Trial::default())),
        })
    }

    /// The opening succeeded: from here on what is written stays.
    pub(super) fn trust(&self) {
        *self.trial() = None;
        self.length
            .store(self.bytes().unwrap_or_default(), Ordering::Release);
    }

    /// Refuses to go on if the name `data` or that of the lock stands for another file now, or if somebody cut this one.
    /// That is final: the file is left as it is from then on, for closing it would write to it.
    pub(super) fn check_names_and_length(&self, data: &Path) -> Result<()> {
        let checked = self
            .lock
            .check_names(data)
            .and_then(|()| self.check_length(data));
        checked.inspect_err(|_| self.abandoned.store(true, Ordering::Release))
    }

    fn check_length(&self, data: &Path) -> Result<()> {
        let is = self.bytes().map_err(|error| unavailable(data, &error))?;
        let was = self.length.load(Ordering::Acquire);
        if is < was {
            return Err(lost(data, &format!("was cut from {was} to {is} bytes")));
        }
        Ok(())
    }

    fn check_ours(&self) -> io::Result<()> {
        if self.abandoned.load(Ordering::Acquire) {
            return Err(io::Error::other("the file was given up"));
        }
        Ok(())
    }

    /// The length of the file.
    pub(super) fn bytes(&self) -> io::Result<u64> {
        identity::of(&self.file).map(|(_, bytes)| bytes)
    }

    /// Makes everything durable, the length and times included.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.synced_by(|| self.file.sync_all())
    }

    /// Whatever fails here, the system may take for written what the disk never got.
    fn synced_by(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.check_ours()?;
        let done = self.before(Operation::Sync).and_then(|()| sync());
        if done.is_err() {
            self.lock.sync_failed();
        }
        done
    }

    /// Reads beside redb.
    pub(super) fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.before(Operation::Read)?;
        self.file.read_exact_at(out, offset)
    }

    /// Writes beside redb.
    pub(super) fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.before(Operation::Write { offset, data })?;
        self.file.write_all_at(data, offset)?;
        self.length
            .fetch_max(offset + data.len() as u64, Ordering::AcqRel);
        Ok(())
    }

    /// Which file this is.
    pub(super) fn identity(&self) -> io::Result<Identity> {
        identity::of(&self.file).map(|(identity, _)| identity)
    }

    /// Sets blocks aside for the whole file, and behind its end for `bytes` and for what redb will grow it
    /// by, so that a full disk is met here, where it harms nothing, and not by redb, which would have to be
    /// opened again. Answers false where there is room for `bytes` alone.
    pub(super) fn reserve(&self, bytes: u64) -> io::Result<bool> {
        let length = self.bytes()?;
        let end = length.saturating_add(bytes);
        let growth = length.min(limits::ROOM_AHEAD_BYTES_MAX) + ROOM_BYTES;
        match self.reserve_to(end.saturating_add(growth)) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
            reserved => return reserved.map(|()| true),
        }
        if self.room.load(Ordering::Acquire) >= length {
            return self.set_aside_to(end).map(|()| false);
        }
        // redb may write into holes of the file. Blocks behind its end show that there is room, and are given back.
        let given = self.set_aside(length, bytes);
        self.release()?;
        given.map(|()| false)
    }

    /// Gives back what was set aside behind the end of the file.
    pub(super) fn release(&self) -> io::Result<()> {
        self.file.set_len(self.bytes()?)
    }

    fn reserve_to(&self, end: u64) -> io::Result<()> {
        self.set_aside_to(end.checked_next_multiple_of(ROOM_BYTES).unwrap_or(end))
    }

    fn set_aside_to(&self, end: u64) -> io::Result<()> {
        let room = self.room.load(Ordering::Acquire);
        if end > room && self.can_reserve.load(Ordering::Acquire) {
            self.set_aside(room, end - room)?;
            self.room.store(end, Ordering::Release);
        }
        Ok(())
    }

    /// Sets blocks aside for `bytes` from `offset` on; none where the file system says that it has fewer left.
    fn set_aside(&self, offset: u64, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        self.before(Operation::Reserve(bytes))?;
        let has = self.file.metadata()?.blocks() * 512;
        let needed = offset.saturating_add(bytes).saturating_sub(has).min(bytes);
        let free = free_bytes(&self.file).unwrap_or(u64::MAX);
        let given = if free < needed {
            Err(Errno::NOSPC)
        } else {
            rustix::io::retry_on_intr(|| set_blocks_aside(&self.file, offset, bytes))
        };
        match given {
            Err(error @ (Errno::NOSPC | Errno::DQUOT)) => {
                // The free blocks of the file system say nothing about a quota.
                let free = if error == Errno::NOSPC { free } else { 0 };
                let lacking = NoRoom(needed.saturating_sub(free).max(ROOM_BYTES));
                return Err(io::Error::new(io::ErrorKind::StorageFull, lacking));
            }
            Ok(()) => {}
            Err(_) => self.can_reserve.store(false, Ordering::Release),
        }
        Ok(())
    }

    fn before(&self, operation: Operation<'_>) -> io::Result<()> {
        self.hook
            .as_ref()
            .map_or(Ok(()), |hook| hook.before(operation))
    }

    fn trial(&self) -> MutexGuard<'_, Option<Trial>> {
        self.trial.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what a write of `bytes` at `offset` will cover, while that may have to be taken back.
    fn remember(&self, offset: u64, bytes: u64) -> io::Result<()> {
        if let Some(trial) = &mut *self.trial() {
            let metadata = self.file.metadata()?;
            let before = (metadata.len(), metadata.modified()?);
            let (before, _) = *trial.before.get_or_insert(before);
            let end = offset.saturating_add(bytes).min(before).min(metadata.len());
            let covered = usize::try_from(end.saturating_sub(offset)).map_err(io::Error::other)?;
            let mut covered = vec![0; covered];
            self.file.read_exact_at(&mut covered, offset)?;
            trial.overwritten.push((offset, covered));
        }
        Ok(())
    }

    fn set_len(&self, bytes: u64, inner: &FileBackend) -> io::Result<()> {
        self.check_ours()?;
        // What is cut off is written over with nothing.
        let length = self.bytes()?;
        self.remember(bytes, length.saturating_sub(bytes))?;
        self.before(Operation::Resize(bytes))?;
        if bytes > length {
            match self.reserve_to(bytes) {
                // The writer has made room for its batch already. The rest of the new length stays a hole.
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
                reserved => reserved?,
            }
        } else {
            self.room.fetch_min(bytes, Ordering::AcqRel);
        }
        inner.set_len(bytes)?;
        self.length.store(bytes, Ordering::Release);
        Ok(())
    }

    /// Takes back what an opening did that was not trusted.
    fn take_back(&self) -> io::Result<()> {
        let Some(trial) = self.trial().take() else {
            return Ok(());
        };
        let Some((bytes, modified)) = trial.before else {
            return Ok(());
        };
        for (offset, covered) in trial.overwritten.iter().rev() {
            self.file.write_all_at(covered, *offset)?;
        }
        self.file.set_len(bytes)?;
        self.file
            .set_times(FileTimes::new().set_modified(modified))?;
        self.sync()
    }
}

/// What the file system has left for this user; `None` where it does not say.
fn free_bytes(file: &File) -> Option<u64> {
    let system = rustix::fs::fstatvfs(file).ok()?;
    (system.f_blocks > 0).then(|| system.f_bavail * system.f_frsize)
}

#[cfg(target_os = "linux")]
fn set_blocks_aside(file: &File, offset: u64, bytes: u64) -> rustix::io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    fallocate(file, FallocateFlags::KEEP_SIZE, offset, bytes)
}

/// Elsewhere a full disk is met by redb, whose database is then opened again.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "as on Linux, where it may fail")]
fn set_blocks_aside(_file: &File, _offset: u64, _bytes: u64) -> rustix::io::Result<()> {
    Ok(())
}

/// What redb is given.
#[derive(Debug)]
pub(super) struct Backend {
    inner: FileBackend,
    disk: Arc<Disk>,
}

impl Backend {
    /// The backend of `disk`; it shares the file, and locks it while the database is open.
    pub(super) fn new(disk: &Arc<Disk>) -> io::Result<Self> {
        let inner = FileBackend::new(disk.file.try_clone()?).map_err(io::Error::other)?;
        Ok(Self {
            inner,
            disk: Arc::clone(disk),
        })
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        // Where redb panicked it did not close; the lock is still held here.
        if let Err(error) = self.disk.take_back() {
            tracing::error!(%error, "a damaged database could not be put back as it was");
        }
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.before(Operation::Read)?;
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.set_len(len, &self.inner)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.synced_by(|| self.inner.sync_data())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.check_ours()?;
        self.disk.before(Operation::Write { offset, data })?;
        self.disk.remember(offset, data.len() as u64)?;
        self.inner.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        let taken_back = self.disk.take_back();
        self.inner.close().and(taken_back)
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
