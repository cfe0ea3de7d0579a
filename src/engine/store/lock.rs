//! The lock file of a data directory: held by the process that owns the store. It says to the next owner which data
//! file it stood for, and whether a sync of that file failed.
//!
//! A lock holds on to a file, not to its name: whoever removes the lock file and the data file can start a second
//! server, with a store of its own. So each commit compares what both names stand for with what is open.

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
    fault::{busy, lost, unavailable, unusable},
    holder::LOCK_NAME,
    identity::{self, Identity},
    paths::check_regular,
};
use midex_domain::error::Result;

/// What it says is written at once and in place, with blanks behind it.
const SAID_BYTES: usize = 63;
/// Said where a sync of the data file failed.
const UNSYNCED: &str = "unsynced";

/// What helps where the lock was lost: nothing is wrong with the data file then.
const START_AGAIN: &str = "Ask your user to end every midex that uses the directory of {path} and to start one again: it goes on with what is stored there";

/// The lock of a data directory, held while this lives.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    file: File,
    identity: Identity,
    /// Whether there was a data file when this directory was owned last.
    stood_for_one: bool,
    /// Whether a sync of the data file failed since its content was last written anew, by whichever process.
    unsynced: AtomicBool,
    /// The data file that it stands for, once that is open.
    named: Mutex<Option<Identity>>,
}

impl Drop for Lock {
    /// Lets go at once: a process that was just forked holds a copy of the file until it begins its own program.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

impl Lock {
    /// Takes `directory`, which exists. redb's own lock is not enough: it is free while a database that failed is
    /// opened again.
    pub(super) fn take(directory: &Path) -> Result<Self> {
        let path = directory.join(LOCK_NAME);
        check_regular(&path)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|error| unusable(&path, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(busy(directory)),
            // Some file systems have no such locks: there redb's own has to do.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(unusable(&path, &error)),
        }
        let known = said(&file).and_then(|said| Ok((said, identity::of(&file)?.0)));
        let (said, identity) = known.map_err(|error| unusable(&path, &error))?;
        Ok(Self {
            path,
            identity,
            stood_for_one: said.contains(':'),
            unsynced: AtomicBool::new(said.split_whitespace().any(|word| word == UNSYNCED)),
            named: Mutex::default(),
            file,
        })
    }

    /// Whether there was a data file when this directory was owned last.
    pub(super) fn stood_for_one(&self) -> bool {
        self.stood_for_one
    }

    /// Refuses to go on where the name of the lock or of the data file stands for another file than when it was opened.
    pub(super) fn check_names(&self, data: &Path) -> Result<()> {
        if let Some(named) = *self.named()
            && let Some(what) = changed(data, named)?
        {
            return Err(lost(data, what));
        }
        match changed(&self.path, self.identity)? {
            Some(what) => Err(lost(&self.path, what).with_action(START_AGAIN)),
            None => Ok(()),
        }
    }

    /// Whether what the system holds of the data file in memory may never have reached the disk.
    pub(super) fn is_unsynced(&self) -> bool {
        self.unsynced.load(Ordering::Acquire)
    }

    /// A sync of the data file has failed. The next owner is told at once: should this process end, nothing else would
    /// know. The word need not reach the disk, for a power cut clears the system's memory and the doubt with it.
    pub(super) fn sync_failed(&self) {
        self.unsynced.store(true, Ordering::Release);
        self.say(*self.named());
    }

    /// The content was written anew, and has reached the disk under its name.
    pub(super) fn written_anew(&self) {
        self.unsynced.store(false, Ordering::Release);
    }

    /// Says which data file this lock stands for.
    pub(super) fn name(&self, data: Identity) {
        let mut named = self.named();
        *named = Some(data);
        self.say(*named);
    }

    fn say(&self, data: Option<Identity>) {
        let mut words = data.map_or_else(String::new, |data| data.to_string());
        if self.is_unsynced() {
            words = format!("{words} {UNSYNCED}");
        }
        let line = format!("{words:<SAID_BYTES$}\n");
        if let Err(error) = self.file.write_all_at(line.as_bytes(), 0) {
            tracing::warn!(%error, "the lock file cannot be written");
        }
    }

    fn named(&self) -> MutexGuard<'_, Option<Identity>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of the file that was opened at `path`. A file that is open keeps its identity, even where it has no name
/// any more.
fn changed(path: &Path, opened: Identity) -> Result<Option<&'static str>> {
    match identity::at(path) {
        Ok((there, _)) if there == opened => Ok(None),
        Ok(_) => Ok(Some("was replaced by another file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Some("was removed or moved")),
        Err(error) => Err(unavailable(path, &error)),
    }
}

/// What the last owner said; nothing in a new file.
fn said(file: &File) -> io::Result<String> {
    let mut bytes = [0; SAID_BYTES];
    let length = file.read_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
}
