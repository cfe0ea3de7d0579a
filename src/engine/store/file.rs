//! Opens the data file. It is created whole or not at all, refused if it is damaged or has another format, and never
//! replaced.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    backend::{DataFile, FileOperation},
    batch::WriterState,
    database::{initialize_database, open_data_file},
    fault::file_unusable_error,
    lock::DirectoryLock,
    options::Options,
    paths::{
        FILE_NAME, check_regular, create_new_file, draft_path, make_directory,
        move_draft_into_place, open_read_write, remove_if_exists, sync_directory,
    },
    redo, rewrite,
    shared::OpenDatabase,
};
use midex_domain::{error::Result, limits};

/// Locks `directory`, and creates it if it is missing. The lock is held as long as the returned value lives.
pub(super) fn lock_directory(directory: &Path) -> Result<Arc<DirectoryLock>> {
    make_directory(directory).map_err(|error| match error.kind() {
        // The path is a file, or a link to nothing.
        io::ErrorKind::AlreadyExists => {
            file_unusable_error(directory, &io::ErrorKind::NotADirectory.into())
        }
        _ => file_unusable_error(directory, &error),
    })?;
    DirectoryLock::take_lock(directory).map(Arc::new)
}

/// The data file in `directory`. It is created if it is missing.
pub(super) fn prepare_data_file(
    directory: &Path,
    lock: &Arc<DirectoryLock>,
    options: &Options,
) -> Result<PathBuf> {
    let path = directory.join(FILE_NAME);
    match fs::symlink_metadata(&path) {
        Ok(_) => check_regular(&path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            redo::refuse_orphan_log(&path, options)?;
            if lock.had_data_file() {
                tracing::warn!(path = %path.display(), "the database that was in this directory is gone; an empty one is begun");
            }
            create_data_file(&path, lock, options)?;
        }
        Err(error) => return Err(file_unusable_error(&path, &error)),
    }
    // The process that created the file may have crashed before its name was durable.
    let hook_result = options.call_hook_before(FileOperation::SyncDirectory);
    hook_result
        .and_then(|()| sync_directory(directory))
        .map_err(|error| file_unusable_error(directory, &error))?;
    Ok(path)
}

/// Opens the data file at `path`, and brings its snapshots up to date. If a sync of it failed earlier, its content is
/// rewritten first.
///
/// # Errors
/// `STORE_BUSY`, `STORE_TOO_NEW`, `STORE_FORMAT`, `STORE_CORRUPT` and `FILE_UNUSABLE` leave the file byte for byte as
/// it was, except that fresh snapshots stay if the damage is found while they are written.
pub(super) fn open(
    path: &Path,
    lock: &Arc<DirectoryLock>,
    options: &Options,
) -> Result<(OpenDatabase, WriterState)> {
    lock.check_names(path)?;
    let (opened, state) = if lock.is_unsynced() {
        rewrite::rewrite_and_open(path, lock, options)?
    } else {
        let data_file = DataFile::new(open_read_write(path)?, options.hook.clone(), lock);
        let checked_below =
            if options.check_all { u64::MAX } else { limits::CHECKED_FILE_BYTES_MAX };
        open_data_file(path, data_file, options, checked_below)?
    };
    lock.record_data_file(
        opened.data_file.identity().map_err(|error| file_unusable_error(path, &error))?,
    );
    if state.unfolded_log_bytes.is_none() {
        redo::remove_leftover(path, options);
    }
    Ok((opened, state))
}

/// Creates an empty database under another name and then gives it its name, so that a crash leaves no incomplete one.
fn create_data_file(path: &Path, lock: &Arc<DirectoryLock>, options: &Options) -> Result<()> {
    let draft = draft_path(path);
    let to_error = |error: io::Error| file_unusable_error(path, &error);
    remove_if_exists(&draft).map_err(to_error)?;
    options.call_hook_before(FileOperation::Create).map_err(to_error)?;
    let file = create_new_file(&draft).map_err(to_error)?;
    let created = initialize_database(file, &draft, lock, options)
        .map_err(|error| error.with_context("path", path.display().to_string()));
    let result = created.and_then(|()| {
        let hook_result = options.call_hook_before(FileOperation::Rename);
        hook_result.and_then(|()| move_draft_into_place(&draft, path)).map_err(to_error)
    });
    let cleanup = remove_if_exists(&draft).map_err(to_error);
    result.and(cleanup)
}
