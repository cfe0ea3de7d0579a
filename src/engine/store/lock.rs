//! The lock file of a data directory, held by the process that owns the store. It tells the next owner which data file
//! it was for, and whether a sync of that file failed.
//!
//! A lock belongs to a file, not to a name. If the lock file and the data file are removed, a second server can start
//! with another store. So each commit compares the files behind both names with the open files.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    fault::{file_unusable_error, store_busy_error, store_lost_error, store_unavailable_error},
    holder::LOCK_NAME,
    identity::{self, FileIdentity},
    paths::check_regular,
};
use midex_domain::error::Result;

/// The length of the text in the lock file. The text is written in place and in one write, padded with blanks.
const LOCK_TEXT_BYTES: usize = 63;
/// The word in the lock file after a sync of the data file failed.
const UNSYNCED_WORD: &str = "unsynced";

/// The advice where the lock file was lost. The data file itself is not damaged then.
const RESTART_ADVICE: &str = "Ask your user to end every midex that uses the directory of {path} and to start one again: it goes on with what is stored there";

/// The lock of a data directory, held while this lives.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    path: PathBuf,
    file: File,
    identity: FileIdentity,
    /// Whether the last owner of this directory had a data file.
    had_data_file: bool,
    /// Whether a sync of the data file failed since its content was last rewritten, in this process or an earlier one.
    unsynced: AtomicBool,
    /// The identity of the data file, once that is open.
    data_identity: Mutex<Option<FileIdentity>>,
}

impl Drop for DirectoryLock {
    /// Unlocks explicitly: a process that was just forked holds a copy of the file descriptor until it calls `exec`.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

impl DirectoryLock {
    /// Takes the lock of `directory`, which must exist. redb's own lock is not enough: it is free while a failed
    /// database is being reopened.
    pub(super) fn take_lock(directory: &Path) -> Result<Self> {
        let path = directory.join(LOCK_NAME);
        check_regular(&path)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|error| file_unusable_error(&path, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(store_busy_error(directory)),
            // Some file systems have no such locks. There, redb's own lock must do.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(file_unusable_error(&path, &error)),
        }
        let loaded = read_lock_text(&file)
            .and_then(|text| Ok((text, identity::read_file_identity(&file)?.0)));
        let (text, identity) = loaded.map_err(|error| file_unusable_error(&path, &error))?;
        Ok(Self {
            path,
            identity,
            had_data_file: text.contains(':'),
            unsynced: AtomicBool::new(text.split_whitespace().any(|word| word == UNSYNCED_WORD)),
            data_identity: Mutex::default(),
            file,
        })
    }

    /// Whether the last owner of this directory had a data file.
    pub(super) fn had_data_file(&self) -> bool {
        self.had_data_file
    }

    /// Fails if the name of the lock file or of the data file refers to another file than the open one.
    pub(super) fn check_names(&self, data: &Path) -> Result<()> {
        if let Some(data_identity) = *self.lock_data_identity()
            && let Some(change) = find_file_change(data, data_identity)?
        {
            return Err(store_lost_error(data, change));
        }
        match find_file_change(&self.path, self.identity)? {
            Some(change) => Err(store_lost_error(&self.path, change).with_action(RESTART_ADVICE)),
            None => Ok(()),
        }
    }

    /// Whether the system's cached pages of the data file may never have reached the disk.
    pub(super) fn is_unsynced(&self) -> bool {
        self.unsynced.load(Ordering::Acquire)
    }

    /// Records a failed sync of the data file. It is written to the lock file at once, because nothing else would tell
    /// the next owner if this process ended. The lock file need not be synced: a power cut clears the system's cache,
    /// and the doubt with it.
    pub(super) fn record_sync_failure(&self) {
        self.unsynced.store(true, Ordering::Release);
        self.write_lock_text(*self.lock_data_identity());
    }

    /// Records that the content was rewritten, and is durable under the name of the data file.
    pub(super) fn record_rewrite(&self) {
        self.unsynced.store(false, Ordering::Release);
    }

    /// Records in the lock file which data file this lock is for.
    pub(super) fn record_data_file(&self, data: FileIdentity) {
        let mut data_identity = self.lock_data_identity();
        *data_identity = Some(data);
        self.write_lock_text(*data_identity);
    }

    fn write_lock_text(&self, data: Option<FileIdentity>) {
        let mut words = data.map_or_else(String::new, |data| data.to_string());
        if self.is_unsynced() {
            words = format!("{words} {UNSYNCED_WORD}");
        }
        let line = format!("{words:<LOCK_TEXT_BYTES$}\n");
        if let Err(error) = self.file.write_all_at(line.as_bytes(), 0) {
            tracing::warn!(%error, "the lock file cannot be written");
        }
    }

    fn lock_data_identity(&self) -> MutexGuard<'_, Option<FileIdentity>> {
        self.data_identity.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What happened to the file that was opened at `path`; `None` if it is still there. An open file keeps its identity,
/// even after it has lost its name.
fn find_file_change(path: &Path, opened: FileIdentity) -> Result<Option<&'static str>> {
    match identity::read_path_identity(path) {
        Ok((current, _)) if current == opened => Ok(None),
        Ok(_) => Ok(Some("was replaced by another file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some("was removed or moved")),
        Err(error) => Err(store_unavailable_error(path, &error)),
    }
}

/// The text that the last owner wrote; empty in a new file.
fn read_lock_text(file: &File) -> io::Result<String> {
    let mut bytes = [0; LOCK_TEXT_BYTES];
    let length = file.read_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
}
