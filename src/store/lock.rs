//! The lock file of a data directory: held by the process that owns the store. It says to the next owner which data
//! file it stood for, and whether a sync of that file failed.

use std::{
    fmt,
    fs::{File, Metadata, OpenOptions, TryLockError},
    io,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::Path,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use super::fault::{busy, unusable};
use crate::error::Result;

/// The name of the file. It is never removed.
const NAME: &str = "executions.lock";
/// What it says is written at once and in place, with blanks behind it.
const SAID_BYTES: usize = 63;
/// Said where a sync of the data file failed.
const UNSYNCED: &str = "unsynced";

/// The lock of a data directory, held while this lives.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    /// Whether a sync of the data file failed since its content was last written anew, by whichever process.
    unsynced: AtomicBool,
    /// The data file that it stands for, once that is open.
    named: Mutex<Option<Identity>>,
}

/// Which file is meant, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// The file of which these are the properties.
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.device, self.inode)
    }
}

impl Lock {
    /// Takes `directory`, which exists. redb's own lock is not enough: it is free while a database that failed is
    /// opened again.
    pub(super) fn take(directory: &Path) -> Result<Self> {
        let path = directory.join(NAME);
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
            Err(TryLockError::WouldBlock) => return Err(busy(&path)),
            // Some file systems have no such locks: there redb's own has to do.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(unusable(&path, &error)),
        }
        let said = said(&file).map_err(|error| unusable(&path, &error))?;
        Ok(Self {
            unsynced: AtomicBool::new(said.split_whitespace().any(|word| word == UNSYNCED)),
            named: Mutex::default(),
            file,
        })
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

/// What the last owner said; nothing in a new file.
fn said(file: &File) -> io::Result<String> {
    let mut bytes = [0; SAID_BYTES];
    let length = file.read_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
}
