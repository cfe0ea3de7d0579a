//! Replaces the data file of a store that no process has open, with a smaller copy of itself or with a backup.
//!
//! The new file is complete, synced and verified before it gets the name of the data file, in one rename. So a process that
//! is killed leaves the old file or the new one, and at worst a draft that the next opening removes. The old file is first
//! made complete without its redo log, and the log is gone before the rename: otherwise the next opening would find it
//! beside another database.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use redb::ReadableDatabase;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    OwnedDirectory,
    backend::DataFile,
    batch::WriterState,
    copy::{CopySize, Draft, copy_database, estimate_copy_bytes},
    fault::{file_unusable_error, redb_error, store_unavailable_error},
    file, identity, index,
    lock::DirectoryLock,
    options::Options,
    paths::{self, FILE_NAME},
    redo, rewrite,
    shared::OpenDatabase,
};
use midex_domain::{
    clock::Timestamp,
    error::{Code, Error, Result},
};

/// A compaction that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Compaction {
    /// The data file.
    pub path: PathBuf,
    /// Its size before.
    pub bytes_before: u64,
    /// Its size now.
    pub bytes_after: u64,
}

/// A backup that was put in the place of the data file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Restoration {
    /// The data file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// How many executions it has.
    pub executions: u64,
    /// Where the file that was replaced is kept.
    pub replaced: Option<PathBuf>,
}

impl OwnedDirectory {
    /// Writes the content of the data file, apart from the index, into a new one in its place. If there is no index and the
    /// new one would not be smaller, nothing changes.
    ///
    /// # Errors
    /// As [`RedbStore::open_owned`](super::RedbStore::open_owned); `STORE_FULL` where there is no room for the copy.
    pub fn compact(self, options: &Options) -> Result<Compaction> {
        let name = self.directory.join(FILE_NAME);
        let path = fs::canonicalize(&name).map_err(|error| file_unusable_error(&name, &error))?;
        paths::check_regular(&path)?;
        let to_error = |error: io::Error| file_unusable_error(&path, &error);
        paths::remove_crash_leftovers(&name);
        let read_length = || fs::metadata(&path).map(|metadata| metadata.len()).map_err(to_error);
        let bytes_before = read_length()?;
        let (opened, _) = open_without_log(&name, &self.lock, options)?;
        let draft = Draft::new(&path, &path).map_err(to_error)?;
        let copy = || -> Result<_> {
            let source = opened.database.begin_read().map_err(redb_error)?;
            let has_index = index::read_indexed_to(&source)? > 0;
            let size = copy_database(&source, &draft, estimate_copy_bytes(&source)?, options)?;
            Ok((size, has_index))
        };
        let (size, has_index) =
            copy().map_err(|error| error.with_context("path", path.display().to_string()))?;
        close(opened, &path)?;
        // The index may be wrong, so it goes even if there is nothing else to gain.
        if has_index || size.bytes < read_length()? {
            put_in_place(draft, &path, &self.lock, options).map_err(to_error)?;
        }
        let bytes_after = read_length()?;
        Ok(Compaction { path, bytes_before, bytes_after })
    }

    /// Puts a copy of the backup `source` in the place of the data file. With `replace`, a present data file is kept beside
    /// it. Everything is verified before anything changes.
    ///
    /// # Errors
    /// `FILE_EXISTS` where there is a store and `replace` is false; `STORE_CORRUPT`, `STORE_TOO_NEW` and `STORE_FORMAT`
    /// where `source` is damaged or has another format; `STORE_BUSY` where a process has it open; `STORE_FULL`,
    /// `FILE_UNUSABLE`.
    pub fn restore(
        self,
        source: &Path,
        replace: bool,
        now: Timestamp,
        options: &Options,
    ) -> Result<Restoration> {
        let name = self.directory.join(FILE_NAME);
        paths::check_regular(&name)?;
        let has_data_file = fs::symlink_metadata(&name).is_ok();
        let has_log = redo::refuse_present_log(&name).is_err();
        let path = if has_data_file { fs::canonicalize(&name) } else { Ok(name.clone()) };
        let path = path.map_err(|error| file_unusable_error(&name, &error))?;
        let to_error = |error: io::Error| file_unusable_error(&path, &error);
        paths::remove_crash_leftovers(&name);
        if (has_data_file || has_log) && !replace {
            return Err(existing_store_error(&path));
        }
        let draft = Draft::new(&path, &path).map_err(to_error)?;
        let size = copy_backup(source, &draft, &path, options)?;
        let replaced = if has_data_file {
            Some(keep_data_file(&name, &path, now, &self.lock, options)?)
        } else {
            has_log.then(|| keep_log(&path, now)).transpose().map_err(to_error)?
        };
        put_in_place(draft, &path, &self.lock, options).map_err(to_error)?;
        Ok(Restoration { path, bytes: size.bytes, executions: size.executions, replaced })
    }
}

/// Opens the data file, which is then complete without its log.
pub(super) fn open_without_log(
    name: &Path,
    lock: &Arc<DirectoryLock>,
    options: &Options,
) -> Result<(OpenDatabase, WriterState)> {
    let (opened, state) = file::open(name, lock, options)?;
    if let Some(bytes) = state.unfolded_log_bytes {
        let needed = bytes.div_ceil(1 << 20).max(1);
        let message = format!("there is no room for what is in the redo log: {needed} MiB");
        return Err(Error::new(Code::StoreFull, message)
            .with_context("path", name.display().to_string())
            .with_context("needed_mib", needed));
    }
    redo::refuse_present_log(name)?;
    Ok((opened, state))
}

pub(super) fn close(opened: OpenDatabase, path: &Path) -> Result<()> {
    let released = opened.data_file.release_reserved_space();
    released.map_err(|error| file_unusable_error(path, &error))?;
    opened.database.close().map_err(redb_error)
}

/// Copies the bytes of a backup into the draft, and verifies the copy.
fn copy_backup(source: &Path, draft: &Draft, path: &Path, options: &Options) -> Result<CopySize> {
    let source_error = |error: io::Error| file_unusable_error(source, &error);
    // Opening a pipe would block.
    let metadata = fs::metadata(source).map_err(source_error)?;
    if !metadata.is_file() {
        let message = format!("`{}` is not a regular file", source.display());
        return Err(Error::new(Code::FileUnusable, message)
            .with_context("path", source.display().to_string()));
    }
    let identity = |path: &Path| identity::read_path_identity(path).ok().map(|(file, _)| file);
    if identity(source).is_some() && identity(source) == identity(path) {
        let message = format!("`{}` is the database itself", source.display());
        return Err(Error::new(Code::FileExists, message)
            .with_context("path", source.display().to_string())
            .with_action("Name the FILE of a backup"));
    }
    let file = File::open(source).map_err(source_error)?;
    if matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
        let message = format!("a process has the database `{}` open", source.display());
        return Err(Error::new(Code::StoreBusy, message).with_action(
            "Run `midex backup` with the --data-dir of that database, and restore the file that it makes",
        ));
    }
    let copied = draft.create(options).and_then(|copy| {
        copy.keep_changes();
        rewrite::copy_content(&DataFile::new_copy(file, options.hook.clone()), &copy)?;
        copy.sync()
    });
    copied.map_err(|error| store_unavailable_error(path, &error))?;
    let verified = draft.verify(source, options, |_| Ok(()));
    verified.map_err(|error| match error.code() {
        Code::StoreCorrupt | Code::StoreFormat => error
            .with_action("Restore another backup: {path} is of no use, and nothing was changed"),
        _ => error,
    })
}

/// Keeps the data file under another name: complete without its log, or as it is if it is damaged. Returns that name.
fn keep_data_file(
    name: &Path,
    path: &Path,
    now: Timestamp,
    lock: &Arc<DirectoryLock>,
    options: &Options,
) -> Result<PathBuf> {
    let to_error = |error: io::Error| file_unusable_error(path, &error);
    match open_without_log(name, lock, options) {
        Ok((opened, _)) => close(opened, path)?,
        Err(error)
            if matches!(
                error.code(),
                Code::StoreCorrupt | Code::StoreTooNew | Code::StoreFormat
            ) =>
        {
            tracing::warn!(%error, "the database that is replaced is kept as it is");
            if redo::refuse_present_log(path).is_err() {
                keep_log(path, now).map_err(to_error)?;
            }
        }
        Err(error) => return Err(error),
    }
    let kept = paths::replaced_path(path, now);
    paths::keep_aside(path, &kept).map_err(to_error)?;
    Ok(kept)
}

/// Moves the log of a database that is damaged or gone away.
fn keep_log(path: &Path, now: Timestamp) -> io::Result<PathBuf> {
    let log = paths::redo_log_path(path);
    let kept = paths::replaced_path(&log, now);
    paths::move_to_new_name(&log, &kept)?;
    Ok(kept)
}

/// Gives the draft the name of the data file, whose permissions it takes over.
fn put_in_place(
    draft: Draft,
    path: &Path,
    lock: &DirectoryLock,
    options: &Options,
) -> io::Result<()> {
    if let Ok(metadata) = fs::metadata(path) {
        fs::set_permissions(&draft.path, metadata.permissions())?;
    }
    let (identity, _) = identity::read_path_identity(&draft.path)?;
    draft.replace(path, options)?;
    lock.record_rewrite();
    lock.record_data_file(identity);
    Ok(())
}

fn existing_store_error(path: &Path) -> Error {
    let path = path.display().to_string();
    Error::new(Code::FileExists, format!("there is a store already: `{path}`"))
        .with_context("path", path)
        .with_action("Add --replace: the present database is kept beside {path}")
}
