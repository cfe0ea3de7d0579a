//! A directory handle for midex (internal: no semver promise).
//!
//! An open directory handle, through which files are written atomically: a reader sees the old file or the new one,
//! never a part of it. Every operation is relative to the open descriptor, so replacing the path by another directory
//! or a symlink has no effect. No symlink below the directory is followed.

mod follower;
mod regular_file;

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, Metadata},
    io::{self, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            ffi::OsStrExt,
            fs::{MetadataExt, fchown},
        },
    },
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, SystemTime},
};

use rustix::{
    fs::{AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, RenameFlags},
    io::Errno,
    process::Pid,
};

pub use self::{
    follower::ChangePoller,
    regular_file::{
        describe_special_file, is_accessible_to_others, open_regular, read_regular, read_up_to,
    },
};
use midex_domain::limits;

/// What to do if a file of the name exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingFilePolicy {
    /// Keep it: the write fails with `AlreadyExists`.
    Keep,
    /// Replace it atomically.
    Replace,
}

/// The lock file of a directory. It is hidden, so that readers of definitions skip it.
const LOCK_FILE: &str = ".midex.lock";
/// Prefix and suffix of the name of a temporary file, which is renamed once it is complete.
const TEMPORARY_NAME_PARTS: (&str, &str) = (".midex-", ".tmp");

/// Identity and version of a file: device and inode, size, and change time (ctime). If two stamps differ, the file
/// was replaced or changed: every write moves the ctime, which no program can set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    device_and_inode: (u64, u64),
    bytes: u64,
    changed_at: (i64, i64),
}

/// Longer than the granularity of the timestamps of a file system.
const TIMESTAMP_TICK_MAX: Duration = Duration::from_millis(100);

impl FileStamp {
    /// The stamp of the file with this metadata.
    pub fn from_metadata(metadata: &Metadata) -> Self {
        Self {
            device_and_inode: (metadata.dev(), metadata.ino()),
            bytes: metadata.size(),
            changed_at: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// The stamp, if the file last changed more than `TIMESTAMP_TICK_MAX` before `now`. A more recent stamp must not be cached:
    /// timestamps have a granularity, so a later write within the same tick would leave the stamp unchanged.
    pub fn from_settled_metadata(metadata: &Metadata, now: SystemTime) -> Option<Self> {
        let stamp = Self::from_metadata(metadata);
        let now = now.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let (seconds, nanoseconds) = stamp.changed_at;
        let changed = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanoseconds).ok()?);
        (changed + TIMESTAMP_TICK_MAX < now).then_some(stamp)
    }

    /// Device and inode.
    pub const fn device_and_inode(&self) -> (u64, u64) {
        self.device_and_inode
    }
}

/// An open directory.
#[derive(Debug)]
pub struct Folder(OwnedFd);

/// The exclusive write lock of a directory, across processes. Dropping it releases the lock.
#[derive(Debug)]
pub struct WriteLock(File);

impl Drop for WriteLock {
    /// Unlocks explicitly. Closing the file is not enough: a child process that was forked but has not called `exec`
    /// yet holds a copy of the descriptor, and with it the lock.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

impl From<OwnedFd> for Folder {
    fn from(opened: OwnedFd) -> Self {
        Self(opened)
    }
}

/// Resolves the symlinks of a path whose last components need not exist yet.
///
/// # Errors
/// A symlink is dangling, or `..` follows a component that does not exist.
pub fn resolve_path(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error)
            if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err() =>
        {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
                return Err(error);
            };
            if parent.as_os_str().is_empty() {
                return Ok(fs::canonicalize(".")?.join(name));
            }
            Ok(resolve_path(parent)?.join(name))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let message = format!("the link {} leads to what is not there", path.display());
            Err(io::Error::new(error.kind(), message))
        }
        real => real,
    }
}

impl Folder {
    /// Opens a directory inside of a project, and creates it and its parents if needed. The result cannot be outside
    /// of the project: symlinks in the path are resolved first, and each component of the resolved path is then
    /// opened without following symlinks.
    ///
    /// # Errors
    /// `PermissionDenied` if the path resolves to a directory outside of the project; the message names that
    /// directory.
    pub fn open_in(project: &Path, path: &Path) -> io::Result<Self> {
        let (root, real) = (fs::canonicalize(project)?, resolve_path(path)?);
        let Ok(relative_path) = real.strip_prefix(&root) else {
            let message = format!("it leads out of the project, to {}", real.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        };
        let mut folder = Self::open(&root)?;
        for name in relative_path {
            match rustix::fs::mkdirat(&folder.0, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            folder = Self(folder.open_entry(name, OFlags::RDONLY | OFlags::DIRECTORY)?);
        }
        Ok(folder)
    }

    /// Opens a directory. Symlinks in the path are followed.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Removes the temporary files that killed writers left in a directory. Does nothing if it cannot be opened.
    pub fn remove_temporary_files(path: &Path) {
        if let Ok(folder) = Self::open(path) {
            folder.remove_abandoned_files();
        }
    }

    /// Acquires the write lock of the directory. While another process holds it, tries again, at most
    /// [`limits::WRITE_LOCK_TRIES_MAX`] times. Then removes the temporary files that killed writers left.
    ///
    /// # Errors
    /// `WouldBlock` if another process still holds the lock after that.
    pub fn lock(&self) -> io::Result<WriteLock> {
        for _ in 0..limits::WRITE_LOCK_TRIES_MAX {
            let flags = OFlags::RDONLY | OFlags::CREATE;
            let file: File = self.open_entry(OsStr::new(LOCK_FILE), flags)?.into();
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => sleep_before_retry(),
                Err(error) => return Err(error.into()),
                // Another process may have removed the lock file before this `flock`, and a third one may have locked
                // a new file of that name. So the lock is valid only if the locked file still has the name.
                Ok(()) if self.is_same_file(OsStr::new(LOCK_FILE), &file.metadata()?) => {
                    self.remove_abandoned_files();
                    return Ok(WriteLock(file));
                }
                Ok(()) => {}
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Reads a file and its metadata: at most `max + 1` bytes, so that the caller can detect a larger file. `None` if
    /// there is no file of this name.
    ///
    /// # Errors
    /// Also fails if the entry is a symlink or not a regular file.
    pub fn read(&self, name: &OsStr, max: u64) -> io::Result<Option<(Vec<u8>, Metadata)>> {
        let file: File = match self.open_entry(name, OFlags::RDONLY | OFlags::NONBLOCK) {
            Ok(opened) => opened.into(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Some((read_up_to(file, max)?, metadata)))
    }

    /// Writes a file atomically: `bytes` are synced to a temporary file, which is then renamed. The new file gets the
    /// owner and the permissions of the file `replaced` that it replaces.
    pub fn write(
        &self,
        name: &OsStr,
        bytes: &[u8],
        replaced: Option<&Metadata>,
        existing: ExistingFilePolicy,
    ) -> io::Result<()> {
        let (temporary_name, mut file) = self.create_temporary_file()?;
        let result = file
            .write_all(bytes)
            .and_then(|()| replaced.map_or(Ok(()), |before| copy_ownership(&file, before)))
            .and_then(|()| file.sync_all())
            .and_then(|()| match existing {
                ExistingFilePolicy::Replace => {
                    Ok(rustix::fs::renameat(&self.0, &*temporary_name, &self.0, name)?)
                }
                ExistingFilePolicy::Keep => self.rename_without_replacing(&temporary_name, name),
            });
        if result.is_err() {
            let _ = self.remove(&temporary_name);
        }
        self.sync();
        result
    }

    /// Renames a file.
    ///
    /// # Errors
    /// `AlreadyExists` if another file has the new name.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.rename_without_replacing(from, to)?;
        self.sync();
        Ok(())
    }

    /// Removes a file.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?;
        self.sync();
        Ok(())
    }

    fn rename_without_replacing(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let (dir, no_replace) = (&self.0, RenameFlags::NOREPLACE);
        match rustix::fs::renameat_with(dir, from, dir, to, no_replace) {
            // Fallback for file systems without `RENAME_NOREPLACE`: reserve the name with an empty file (`O_EXCL`),
            // then rename over it.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                self.create_file(to)?;
                Ok(rustix::fs::renameat(dir, from, dir, to)?)
            }
            renamed => Ok(renamed?),
        }
    }

    /// Creates a temporary file in this directory, so that one rename gives it its final name.
    fn create_temporary_file(&self) -> io::Result<(OsString, File)> {
        static NEXT_FILE_NUMBER: AtomicU64 = AtomicU64::new(0);
        loop {
            let (first, last) = TEMPORARY_NAME_PARTS;
            let number = NEXT_FILE_NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = OsString::from(format!("{first}{}-{number}{last}", process::id()));
            match self.create_file(&name) {
                // The file is a leftover of a killed process that had the same process id: try the next number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return Ok((name, created?)),
            }
        }
    }

    fn create_file(&self, name: &OsStr) -> io::Result<File> {
        let created = self.open_entry(name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
        Ok(created.into())
    }

    fn open_entry(&self, name: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // The default mode of new files. The umask clears bits of it.
        Ok(rustix::fs::openat(&self.0, name, flags, Mode::from_raw_mode(0o666))?)
    }

    /// Whether the entry `name` still is the file with this metadata, by its inode.
    fn is_same_file(&self, name: &OsStr, file: &Metadata) -> bool {
        let entry_stat = rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW);
        entry_stat.is_ok_and(|named| named.st_ino == file.ino())
    }

    fn remove_abandoned_files(&self) {
        let entries = Dir::read_from(&self.0).into_iter().flatten().flatten();
        let entries = entries.take(limits::DEFINITION_ENTRIES_MAX);
        let names = entries.map(|entry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
        for name in names.filter(|name| is_abandoned_file(name)).collect::<Vec<_>>() {
            let _ = self.remove(&name);
        }
    }

    /// Syncs the directory, so that a rename survives a crash. Errors are ignored: some file systems cannot sync
    /// directories, and the rename is complete anyway.
    fn sync(&self) {
        let _ = rustix::fs::fsync(self.0.as_fd());
    }
}

/// Gives the complete directory `new` the name `path`, in one step. A directory that has this name is exchanged with it, and
/// keeps the name `new`.
pub fn put_in_place(new: &Path, path: &Path) -> io::Result<()> {
    let flags = if path.exists() { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
    rustix::fs::renameat_with(CWD, new, CWD, path, flags)?;
    if let Some(parent) = path.parent().and_then(|parent| Folder::open(parent).ok()) {
        parent.sync();
    }
    Ok(())
}

/// Whether it is the temporary file of a process that no longer exists.
fn is_abandoned_file(name: &OsStr) -> bool {
    let (first, last) = TEMPORARY_NAME_PARTS;
    let writer = || {
        let name = name.to_str()?.strip_prefix(first)?.strip_suffix(last)?;
        Pid::from_raw(name.split('-').next()?.parse().ok()?)
    };
    writer().is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(Errno::SRCH))
}

/// Copies owner, group and permissions of the replaced file, so that a file that root rewrites still belongs to its
/// user. A failing `chown` is ignored.
fn copy_ownership(file: &File, replaced: &Metadata) -> io::Result<()> {
    let _ = fchown(file, Some(replaced.uid()), Some(replaced.gid()));
    file.set_permissions(replaced.permissions())
}

#[expect(
    clippy::disallowed_methods,
    reason = "another process has the lock; files are written on threads that may block"
)]
fn sleep_before_retry() {
    thread::sleep(limits::WRITE_LOCK_LOOK_EVERY);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamp_settles_after_one_clock_tick() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let metadata = file.path().metadata().unwrap();
        // The ctime of a new file is its mtime.
        let changed = metadata.modified().unwrap();
        let settled = |later| FileStamp::from_settled_metadata(&metadata, changed + later);
        assert_eq!(settled(Duration::ZERO), None);
        assert_eq!(settled(TIMESTAMP_TICK_MAX / 2), None);
        assert_eq!(settled(2 * TIMESTAMP_TICK_MAX), Some(FileStamp::from_metadata(&metadata)));
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(FileStamp::from_settled_metadata(&metadata, before), None);
    }
}
