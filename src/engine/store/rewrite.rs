//! Rewrites the data file after a failed sync: copy, sync, rename, sync of the directory.
//!
//! After a failed sync, the system may treat pages as written that never reached the disk. Reads show what was written,
//! and further syncs succeed, but a power cut brings back old pages beside new ones. Only another file whose sync
//! succeeded can be trusted. So nothing more is acknowledged from the old file. The [`DirectoryLock`] records that its content
//! must be rewritten first, for this process and for the next.
//!
//! Why a copy of what reads show holds everything that was acknowledged:
//! - A page is in doubt only if it was written after the last sync that succeeded. Each acknowledged commit ended with
//!   such a sync, and redb also syncs at each opening. So only the pages of the failed transaction are in doubt. The
//!   pages of acknowledged commits are the same in memory and on disk, and redb does not overwrite them before the next
//!   commit is durable.
//! - For each page in doubt, the copy has either the new or the old content: file systems differ, and the system may
//!   evict pages from memory meanwhile. A crash in the middle of the commit leaves the same mixture. Opening the copy
//!   checks every page against its checksum, as after a crash. redb then falls back to the last commit whose pages are
//!   intact, which is the failed one or the one before.
//! - So the pages in memory are neither trusted nor dropped, and it does not matter which of them are left.
//!
//! The copy is made by reading and writing bytes: `copy_file_range` may share blocks between the two files, and with
//! them the pages in doubt. The copy is opened before it is renamed, so the name always refers to a complete file, the
//! old or the new one. A process that ends between two steps leaves the old file, the mark in the lock file, and a
//! draft that the next owner removes. A process that ends after the rename leaves the new file, and at worst the mark
//! in the lock file, which costs another copy.
//!
//! Remaining gap: a process that is killed inside the failing sync leaves no mark in the lock file.

use std::{
    fs::{self, File},
    io,
    path::Path,
    sync::Arc,
};

use super::{
    backend::{DataFile, FileOperation},
    batch::WriterState,
    database,
    fault::{file_unusable_error, store_unavailable_error},
    lock::DirectoryLock,
    options::Options,
    paths,
    shared::OpenDatabase,
};
use midex_domain::error::{Code, Error, NextCall, Result, repeat_call};

/// Bytes copied at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Rewrites the data file at `path`, and opens the new file in its place.
///
/// # Errors
/// `STORE_CORRUPT` and `STORE_TOO_NEW` where the content is not sound; `STORE_UNAVAILABLE` where it could not be
/// written. The data file is then complete, old or new, and must still be rewritten.
pub(super) fn rewrite_and_open(
    path: &Path,
    lock: &Arc<DirectoryLock>,
    options: &Options,
) -> Result<(OpenDatabase, WriterState)> {
    // If `path` is a link, its target is replaced.
    let target = fs::canonicalize(path).map_err(|error| file_unusable_error(path, &error))?;
    let draft = paths::draft_path(&target);
    let opened = rewrite_file(&target, &draft, lock, options);
    opened.map_err(|error| {
        if let Err(error) = paths::remove_if_exists(&draft) {
            tracing::warn!(%error, "what was written anew in vain cannot be removed");
        }
        rewrite_failed_error(path, error)
    })
}

fn rewrite_file(
    path: &Path,
    draft: &Path,
    lock: &Arc<DirectoryLock>,
    options: &Options,
) -> Result<(OpenDatabase, WriterState)> {
    let source = DataFile::new(paths::open_read_write(path)?, options.hook.clone(), lock);
    let copy = create_replacement_file(path, draft, options)
        .map_err(|error| file_unusable_error(draft, &error))?;
    let copy = DataFile::new(copy, options.hook.clone(), lock);
    copy.keep_changes();
    copy_content(&source, &copy).map_err(|error| store_unavailable_error(path, &error))?;
    let (opened, state) = database::open_data_file(path, copy, options, u64::MAX)?;
    replace_file(&opened.data_file, draft, path, lock, options)
        .map_err(|error| file_unusable_error(path, &error))?;
    lock.record_rewrite();
    tracing::warn!(path = %path.display(), "the content of the database was written anew after a failed sync");
    Ok((opened, state))
}

/// Creates an empty file with the permissions of the file that it will replace.
fn create_replacement_file(path: &Path, draft: &Path, options: &Options) -> io::Result<File> {
    options.call_hook_before(FileOperation::Create)?;
    let copy = paths::create_new_file(draft)?;
    copy.set_permissions(fs::metadata(path)?.permissions())?;
    Ok(copy)
}

pub(super) fn copy_content(source: &DataFile, copy: &DataFile) -> io::Result<()> {
    let bytes = source.file_length()?;
    copy.reserve(bytes)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    while offset < bytes {
        let chunk_length =
            usize::try_from(bytes - offset).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        source.read_at(offset, &mut chunk[..chunk_length])?;
        copy.write_at(offset, &chunk[..chunk_length])?;
        offset += chunk_length as u64;
    }
    Ok(())
}

fn replace_file(
    copy: &DataFile,
    draft: &Path,
    path: &Path,
    lock: &DirectoryLock,
    options: &Options,
) -> io::Result<()> {
    copy.sync()?;
    options.call_hook_before(FileOperation::Rename)?;
    fs::rename(draft, path)?;
    lock.record_data_file(copy.identity()?);
    options.call_hook_before(FileOperation::SyncDirectory)?;
    paths::sync_directory(path.parent().unwrap_or(path))
}

/// The advice to callers while the disk loses writes.
const RETRY_NEXT_CALL: NextCall = repeat_call(
    "in a second; if it stays so, your user is to mend or replace the disk of {path}, on which room for a second copy of the file is needed: midex goes on by itself, and nothing that was acknowledged is lost",
);

/// The error of a failed rewrite. An error about damage is returned unchanged.
fn rewrite_failed_error(path: &Path, error: Error) -> Error {
    if !matches!(error.code(), Code::StoreUnavailable | Code::FileUnusable) {
        return error;
    }
    let message = format!(
        "the system could not write `{}` to its disk, and nothing is stored until its content has been written anew, which failed: {}",
        path.display(),
        error.message()
    );
    Error::new(Code::StoreUnavailable, message)
        .with_context("path", path.display().to_string())
        .with_next(RETRY_NEXT_CALL)
        .with_source(error)
}
