//! Maps the errors and panics of redb to errors of midex.

use std::{
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use redb::{DatabaseError, StorageError};

use super::{holder::lock_holder_pid, record::damaged_database_error};
use midex_domain::error::{Code, Error, Result, describe_io_error};

/// The free space that an error asks for where the system does not say how much is missing.
const DEFAULT_NEEDED_BYTES: u64 = 16 << 20;

/// An error of redb while a database is in use.
pub(super) fn redb_error(error: impl Into<redb::Error>) -> Error {
    let error = error.into();
    let code = match &error {
        redb::Error::Corrupted(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TableIsMultimap(_)
        | redb::Error::TableIsNotMultimap(_)
        | redb::Error::TypeDefinitionChanged { .. }
        | redb::Error::TableDoesNotExist(_) => Code::StoreCorrupt,
        redb::Error::Io(error) if is_damage(error) => Code::StoreCorrupt,
        redb::Error::Io(error) if is_full(error) => return disk_full_error(error),
        _ => Code::StoreUnavailable,
    };
    let reason = match &error {
        redb::Error::Io(error) => describe_io_error(error),
        error => error.to_string(),
    };
    let message = if code == Code::StoreCorrupt {
        format!("the database is damaged: {reason}")
    } else {
        format!("the database cannot be used just now: {reason}")
    };
    Error::new(code, message).with_source(error)
}

/// An error of redb while it opens the database at `path`.
pub(super) fn redb_opening_error(error: DatabaseError, path: &Path) -> Error {
    match error {
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => {
            store_busy_error(path.parent().unwrap_or(path))
        }
        DatabaseError::UpgradeRequired(version) if version > 3 => Error::new(
            Code::StoreTooNew,
            format!("`{}` has the file format {version} of a later version", path.display()),
        ),
        DatabaseError::UpgradeRequired(version) => {
            damaged_database_error(&format!("its file format {version} was never used by midex"))
        }
        DatabaseError::Storage(StorageError::Io(error)) if is_useless_to_retry(&error) => {
            file_unusable_error(path, &error)
        }
        error => redb_error(error),
    }
}

/// The error of a file or directory that the system refuses to use.
pub(super) fn file_unusable_error(path: &Path, error: &io::Error) -> Error {
    let path = path.display().to_string();
    if is_full(error) {
        return disk_full_error(error).with_context("path", path);
    }
    let message = format!("`{path}` cannot be used: {}", describe_io_error(error));
    Error::new(Code::FileUnusable, message).with_context("path", path)
}

/// The error of a write for which there is no room, or which the disk refuses otherwise. The database at `path` is
/// unchanged.
pub(super) fn store_unavailable_error(path: &Path, error: &io::Error) -> Error {
    let path = path.display().to_string();
    if is_full(error) {
        return disk_full_error(error).with_context("path", path);
    }
    let message = format!("the disk refuses what is to be stored: {}", describe_io_error(error));
    Error::new(Code::StoreUnavailable, message).with_context("path", path)
}

/// The number of bytes missing on a full file system.
#[derive(Debug)]
pub(super) struct MissingDiskSpace(pub(super) u64);

impl fmt::Display for MissingDiskSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes are lacking", self.0)
    }
}

impl std::error::Error for MissingDiskSpace {}

/// The error of a full file system, with the space that is needed at least.
fn disk_full_error(error: &io::Error) -> Error {
    let missing_space = error.get_ref().and_then(|error| error.downcast_ref());
    let bytes = missing_space.map_or(DEFAULT_NEEDED_BYTES, |MissingDiskSpace(bytes)| *bytes);
    let needed = bytes.div_ceil(1 << 20).max(1);
    let message =
        format!("the file system of the database is full: at least {needed} MiB more are needed");
    Error::new(Code::StoreFull, message).with_context("needed_mib", needed)
}

/// The error for the callers of a batch that failed while it was written. It is unknown what of the batch is on disk,
/// except where the file was lost.
pub(super) fn batch_failed_error(path: &Path, error: Error) -> Error {
    if error.code() == Code::StoreLost {
        return error;
    }
    let batch_error = Error::new(Code::StoreUnavailable, error.message())
        .with_context("path", path.display().to_string());
    let batch_error = match error.context("needed_mib") {
        Some(needed) => batch_error
            .with_context("needed_mib", needed.clone())
            .with_next_from_code(Code::StoreFull),
        None => batch_error,
    };
    batch_error.with_source(error)
}

/// The error of an open file that another process removed, replaced or cut.
pub(super) fn store_lost_error(path: &Path, change: &str) -> Error {
    let path = path.display().to_string();
    let message = format!(
        "`{path}` {change} while midex (process {}) had it open, and nothing more is stored",
        std::process::id()
    );
    Error::new(Code::StoreLost, message).with_context("path", path)
}

/// Runs work that reads a file which may be damaged, and turns a panic into an error: redb panics on some damage.
pub(super) fn catch_redb_panic<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(damaged_database_error("reading it caused a panic")))
}

/// The error of a data directory that another process uses.
pub fn store_busy_error(directory: &Path) -> Error {
    let data_dir = directory.display().to_string();
    let process = lock_holder_pid(directory).map(|pid| format!(" (process {pid})"));
    let process = process.unwrap_or_default();
    let message = format!("another midex{process} uses the data directory `{data_dir}`");
    Error::new(Code::StoreBusy, message).with_context("data_dir", data_dir)
}

/// Whether a retry is useless, unlike after a failed read.
fn is_useless_to_retry(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Whether free space would help.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}
