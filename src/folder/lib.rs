//! A directory handle for midex (internal: no semver promise).
//!
//! A directory that is held open, in which a file appears whole or not at all. What takes the directory's name meanwhile,
//! a link for example, changes nothing: everything is done relative to what was opened, and no link in it is followed.

mod follower;
mod regular;

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
    fs::{AtFlags, Dir, FlockOperation, Mode, OFlags, RenameFlags},
    io::Errno,
    process::Pid,
};

pub use self::{
    follower::Follower,
    regular::{kind_of_other, open_regular, read_regular, read_within},
};
use midex_domain::limits;

/// What to do with an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and nothing is written.
    Keep,
    /// It is replaced.
    Replace,
}

/// The name of the file that a writer locks. Readers of definitions pass over hidden files.
const LOCK: &str = ".midex.lock";
/// The first part of the name of a file that is not whole yet, and the last.
const UNFINISHED: (&str, &str) = (".midex-", ".tmp");

/// Tells whether a file is another one, or has other content, than when its stamp was taken: each write moves the second
/// time, which nobody can set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    file: (u64, u64),
    bytes: u64,
    changed: (i64, i64),
}

/// Longer than a tick of the clock that stamps files.
const TICK_MAX: Duration = Duration::from_millis(100);

impl Stamp {
    /// That of the file with these properties.
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            file: (metadata.dev(), metadata.ino()),
            bytes: metadata.size(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// The same where the file was last changed so long before `now` that a later change must move it: the clock of a file
    /// system has ticks.
    pub fn settled(metadata: &Metadata, now: SystemTime) -> Option<Self> {
        let stamp = Self::of(metadata);
        let now = now.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let (seconds, nanoseconds) = stamp.changed;
        let changed = Duration::new(
            u64::try_from(seconds).ok()?,
            u32::try_from(nanoseconds).ok()?,
        );
        (changed + TICK_MAX < now).then_some(stamp)
    }

    /// Which file it is.
    pub const fn file(&self) -> (u64, u64) {
        self.file
    }
}

/// A directory, held open.
#[derive(Debug)]
pub struct Folder(OwnedFd);

/// The right to write into a directory: of all processes one has it. It ends with this.
#[derive(Debug)]
pub struct WriteLock(File);

impl Drop for WriteLock {
    /// Lets go at once: a process that was just forked holds a copy of the file until it begins its own program.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

impl From<OwnedFd> for Folder {
    fn from(opened: OwnedFd) -> Self {
        Self(opened)
    }
}

/// Resolves the links of a path whose last parts need not exist yet.
///
/// # Errors
/// A link is dangling, or `..` follows a part that does not exist.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
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
            Ok(real_path(parent)?.join(name))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let link = format!("the link {} leads to what is not there", path.display());
            Err(io::Error::new(error.kind(), link))
        }
        real => real,
    }
}

impl Folder {
    /// Opens a directory of a project, which is made if need be. No link leads out of the project: where the path leads is
    /// worked out first, and then each part of that is opened as no link.
    ///
    /// # Errors
    /// `PermissionDenied`, saying where it leads, where that is not in the project.
    pub fn open_in(project: &Path, path: &Path) -> io::Result<Self> {
        let (root, real) = (fs::canonicalize(project)?, real_path(path)?);
        let Ok(below) = real.strip_prefix(&root) else {
            let leads = format!("it leads out of the project, to {}", real.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, leads));
        };
        let mut folder = Self::open(&root)?;
        for name in below {
            match rustix::fs::mkdirat(&folder.0, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            folder = Self(folder.at(name, OFlags::RDONLY | OFlags::DIRECTORY)?);
        }
        Ok(folder)
    }

    /// Opens a directory; links on the way to it are followed.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Removes what killed writers left unfinished in a directory, where that can be opened.
    pub fn tidy(path: &Path) {
        if let Ok(folder) = Self::open(path) {
            folder.remove_unfinished();
        }
    }

    /// Waits until no other process writes here, [`limits::WRITE_LOCK_TRIES_MAX`] looks at most. What a killed writer left
    /// unfinished is removed.
    ///
    /// # Errors
    /// `WouldBlock` where another one has the lock for longer.
    pub fn lock(&self) -> io::Result<WriteLock> {
        for _ in 0..limits::WRITE_LOCK_TRIES_MAX {
            let flags = OFlags::RDONLY | OFlags::CREATE;
            let file: File = self.at(OsStr::new(LOCK), flags)?.into();
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => pause(),
                Err(error) => return Err(error.into()),
                // Whoever removed the file meanwhile may have let another one lock a new file of that name.
                Ok(()) if self.names(OsStr::new(LOCK), &file.metadata()?) => {
                    self.remove_unfinished();
                    return Ok(WriteLock(file));
                }
                Ok(()) => {}
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// The file of this name as far as `max` bytes and one beyond, with what is known of it; `None` where there is none.
    ///
    /// # Errors
    /// Also where it is a link, or anything else than a file.
    pub fn read(&self, name: &OsStr, max: u64) -> io::Result<Option<(Vec<u8>, Metadata)>> {
        let file: File = match self.at(name, OFlags::RDONLY | OFlags::NONBLOCK) {
            Ok(opened) => opened.into(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Some((read_within(file, max)?, metadata)))
    }

    /// Writes a file: all of `bytes` are on disk before they have the name. The file keeps the owner and the rights of the
    /// one that it takes the place `of`.
    pub fn write(
        &self,
        name: &OsStr,
        bytes: &[u8],
        of: Option<&Metadata>,
        existing: Existing,
    ) -> io::Result<()> {
        let (unfinished, mut file) = self.unfinished()?;
        let written = file
            .write_all(bytes)
            .and_then(|()| of.map_or(Ok(()), |before| be_like(&file, before)))
            .and_then(|()| file.sync_all())
            .and_then(|()| match existing {
                Existing::Replace => {
                    Ok(rustix::fs::renameat(&self.0, &*unfinished, &self.0, name)?)
                }
                Existing::Keep => self.rename_to_free(&unfinished, name),
            });
        if written.is_err() {
            let _ = self.remove(&unfinished);
        }
        self.sync();
        written
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// `AlreadyExists` where another file has it.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.rename_to_free(from, to)?;
        self.sync();
        Ok(())
    }

    /// Removes a file.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?;
        self.sync();
        Ok(())
    }

    fn rename_to_free(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let (dir, free) = (&self.0, RenameFlags::NOREPLACE);
        match rustix::fs::renameat_with(dir, from, dir, to, free) {
            // Not every file system can: there an empty file keeps the name until the other one takes its place.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                self.create(to)?;
                Ok(rustix::fs::renameat(dir, from, dir, to)?)
            }
            renamed => Ok(renamed?),
        }
    }

    /// A new file that is not whole yet: beside its place, so that taking that is one step.
    fn unfinished(&self) -> io::Result<(OsString, File)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let (first, last) = UNFINISHED;
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = OsString::from(format!("{first}{}-{number}{last}", process::id()));
            match self.create(&name) {
                // A killed process had the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return Ok((name, created?)),
            }
        }
    }

    fn create(&self, name: &OsStr) -> io::Result<File> {
        let created = self.at(name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
        Ok(created.into())
    }

    fn at(&self, name: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // As a new file of any program: the umask takes from it.
        Ok(rustix::fs::openat(
            &self.0,
            name,
            flags,
            Mode::from_raw_mode(0o666),
        )?)
    }

    /// Whether the file that these are the properties of has this name.
    fn names(&self, name: &OsStr, file: &Metadata) -> bool {
        let named = rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW);
        named.is_ok_and(|named| named.st_ino == file.ino())
    }

    fn remove_unfinished(&self) {
        let entries = Dir::read_from(&self.0).into_iter().flatten().flatten();
        let entries = entries.take(limits::DEFINITION_ENTRIES_MAX);
        let names = entries.map(|entry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
        for name in names.filter(|name| is_forsaken(name)).collect::<Vec<_>>() {
            let _ = self.remove(&name);
        }
    }

    /// Some file systems sync no directories: the file is in its place all the same.
    fn sync(&self) {
        let _ = rustix::fs::fsync(self.0.as_fd());
    }
}

/// Whether it is an unfinished file of a process that is no more.
fn is_forsaken(name: &OsStr) -> bool {
    let (first, last) = UNFINISHED;
    let writer = || {
        let name = name.to_str()?.strip_prefix(first)?.strip_suffix(last)?;
        Pid::from_raw(name.split('-').next()?.parse().ok()?)
    };
    writer().is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(Errno::SRCH))
}

/// Where the file belongs to another user, who ran this as root, it still does.
fn be_like(file: &File, before: &Metadata) -> io::Result<()> {
    let _ = fchown(file, Some(before.uid()), Some(before.gid()));
    file.set_permissions(before.permissions())
}

#[expect(
    clippy::disallowed_methods,
    reason = "another process has the lock; files are written on threads that may block"
)]
fn pause() {
    thread::sleep(limits::WRITE_LOCK_LOOK_EVERY);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_settles_once_a_later_change_must_move_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let metadata = file.path().metadata().unwrap();
        // A new file was changed when it was written.
        let changed = metadata.modified().unwrap();
        let settled = |later| Stamp::settled(&metadata, changed + later);
        assert_eq!(settled(Duration::ZERO), None);
        assert_eq!(settled(TICK_MAX / 2), None);
        assert_eq!(settled(2 * TICK_MAX), Some(Stamp::of(&metadata)));
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(Stamp::settled(&metadata, before), None);
    }
}
