//! What redb's errors and panics mean to midex.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use redb::{DatabaseError, StorageError};

use super::record::damaged;
use crate::error::{Code, Error, Result};

/// An error of redb while a database is in use.
pub(super) fn fault(error: impl Into<redb::Error>) -> Error {
    let error = error.into();
    let code = match &error {
        redb::Error::Corrupted(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TableIsMultimap(_)
        | redb::Error::TableIsNotMultimap(_)
        | redb::Error::TypeDefinitionChanged { .. }
        | redb::Error::TableDoesNotExist(_) => Code::StoreCorrupt,
        redb::Error::Io(error) if is_damage(error) => Code::StoreCorrupt,
        _ => Code::StoreUnavailable,
    };
    let message = if code == Code::StoreCorrupt {
        format!("the database is damaged: {error}")
    } else {
        format!("the database cannot be used just now: {error}")
    };
    Error::new(code, message).because(error)
}

/// An error of redb while it opens the database at `path`.
pub(super) fn fault_at_opening(error: DatabaseError, path: &Path) -> Error {
    match error {
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => busy(path),
        DatabaseError::UpgradeRequired(version) if version > 3 => Error::new(
            Code::StoreTooNew,
            format!(
                "`{}` has the file format {version} of a later version",
                path.display()
            ),
        ),
        DatabaseError::UpgradeRequired(version) => damaged(&format!(
            "its file format {version} was never used by midex"
        )),
        DatabaseError::Storage(StorageError::Io(error)) if is_refusal(&error) => {
            unusable(path, &error)
        }
        error => fault(error),
    }
}

/// A file or directory that the system refuses.
pub(super) fn unusable(path: &Path, error: &io::Error) -> Error {
    let code = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Code::StoreUnavailable,
        _ => Code::FileUnusable,
    };
    let message = format!("`{}` cannot be used: {}", path.display(), error.kind());
    Error::new(code, message).with("path", path.display().to_string())
}

/// No room, or another refusal of the disk that leaves the database as it is.
pub(super) fn unavailable(error: &io::Error) -> Error {
    Error::new(
        Code::StoreUnavailable,
        format!("the disk refuses what is to be stored: {error}"),
    )
}

/// Runs what reads a file that may be damaged: redb panics on some damage.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(damaged("reading it caused a panic")))
}

/// Another process has the data directory that `path` lies in.
pub(super) fn busy(path: &Path) -> Error {
    let data_dir = path.parent().unwrap_or(path).display().to_string();
    let message = format!("another midex uses the data directory `{data_dir}`");
    Error::new(Code::StoreBusy, message).with("data_dir", data_dir)
}

/// Trying again does not help, unlike after a failing read.
fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
    )
}

fn is_damage(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
    )
}
