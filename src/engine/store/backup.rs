//! Backups of a store that is in use: a copy as of one instant, to which transitions that are stored meanwhile do not
//! belong. It is written in slices with pauses between them, so that calls are hardly slower.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Instant,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    FileHook, FileOperation, Options,
    copy::{CopySize, Draft, copy_database, real_parent},
    fault::file_unusable_error,
    identity,
    paths::STORE_NAMES_START,
    shared::SharedStore,
};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};

/// A backup that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackupReport {
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// How many executions it has.
    pub executions: u64,
}

/// Copies the store as it is now into a new file at `target`.
pub(super) fn back_up(shared: &Arc<SharedStore>, target: PathBuf) -> Result<BackupReport> {
    check_target(&shared.path, &target)?;
    let reopenings = shared.reopenings.load(Ordering::Relaxed);
    let source_bytes = fs::metadata(&shared.path).map_or(0, |metadata| metadata.len());
    let source = shared.begin_kept_read()?;
    let options = Options { hook: Some(pace_hook(shared, reopenings)), ..shared.options.clone() };
    let to_error = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => existing_target_error(&target),
        _ => file_unusable_error(&target, &error),
    };
    let copied = || -> Result<CopySize> {
        let draft = Draft::new(&target, &shared.path).map_err(to_error)?;
        let size = copy_database(&source, &draft, 0, &options)?;
        draft.place(&target, &shared.options).map_err(to_error)?;
        Ok(size)
    };
    match copied() {
        Ok(CopySize { bytes, executions }) => Ok(BackupReport { path: target, bytes, executions }),
        Err(_) if !shared.is_open_since(reopenings) => {
            let message = "the database was shut while it was backed up";
            Err(Error::new(Code::StoreUnavailable, message))
        }
        Err(error) if error.code() == Code::StoreFull => Err(full_error(&target, source_bytes)),
        Err(error) => Err(error),
    }
}

/// Refuses a target that exists, and one beside the data file with a name of the store's own.
fn check_target(store: &Path, target: &Path) -> Result<()> {
    let to_error = |error: io::Error| file_unusable_error(target, &error);
    let directory = real_parent(target).map_err(to_error)?;
    let Some(name) = target.file_name() else {
        return Err(to_error(io::ErrorKind::IsADirectory.into()));
    };
    let data_file = fs::canonicalize(store).map_err(|error| file_unusable_error(store, &error))?;
    let is_beside =
        [real_parent(store).ok().as_deref(), data_file.parent()].contains(&Some(&directory));
    let is_store_name = is_beside && name.to_string_lossy().starts_with(STORE_NAMES_START);
    let same_file = || {
        let target = identity::read_path_identity(target).ok()?.0;
        Some(target == identity::read_path_identity(store).ok()?.0)
    };
    if is_store_name || same_file() == Some(true) {
        let message = format!("`{}` belongs to the store itself", target.display());
        return Err(Error::new(Code::FileExists, message)
            .with_context("path", target.display().to_string())
            .with_action("Name another FILE for the backup"));
    }
    match fs::symlink_metadata(target) {
        Ok(_) => Err(existing_target_error(target)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(to_error(error)),
    }
}

fn existing_target_error(target: &Path) -> Error {
    let path = target.display().to_string();
    Error::new(Code::FileExists, format!("`{path}` exists already"))
        .with_context("path", path)
        .with_action("Name another FILE for the backup: none is replaced")
}

fn full_error(target: &Path, bytes: u64) -> Error {
    let (path, needed) = (target.display().to_string(), bytes.div_ceil(1 << 20).max(1));
    let message = format!("there is no room for `{path}`, which needs about {needed} MiB");
    Error::new(Code::StoreFull, message)
        .with_context("path", path)
        .with_context("needed_mib", needed)
}

/// The hook of the backup's file. It pauses the backup after each slice of work if the store is written to meanwhile, and
/// ends it once the database is shut.
fn pace_hook(shared: &Arc<SharedStore>, reopenings: u64) -> FileHook {
    let (shared, slice) = (Arc::clone(shared), Mutex::new((now(), 0)));
    FileHook::new(move |operation: FileOperation<'_>| {
        let mut slice = slice.lock().unwrap_or_else(PoisonError::into_inner);
        let (started_at, commits_before) = *slice;
        let worked = now() - started_at;
        if worked >= limits::BACKUP_SLICE {
            if !shared.is_open_since(reopenings) {
                return Err(io::Error::other("the database was shut"));
            }
            let commits = shared.commits.load(Ordering::Relaxed);
            if commits != commits_before {
                pause(worked);
            }
            *slice = (now(), commits);
        }
        shared.options.call_hook_before(operation)
    })
}

#[expect(clippy::disallowed_methods, reason = "the thread of a backup leaves the disk to others")]
fn pause(worked: std::time::Duration) {
    std::thread::sleep((worked * limits::BACKUP_PAUSE_FACTOR).min(limits::BACKUP_PAUSE_MAX));
}

#[expect(clippy::disallowed_methods, reason = "nothing that is stored depends on it")]
fn now() -> Instant {
    Instant::now()
}
