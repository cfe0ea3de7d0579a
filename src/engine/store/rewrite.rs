//! The data file written anew after a failed sync: copy, sync, rename, sync of the directory.
//!
//! A sync that fails leaves pages behind that the system takes for written and the disk never got. Reading shows what
//! was written, further syncs succeed, and a power cut brings the old pages back beside new ones. Only another file
//! whose sync succeeded is to be believed. Nothing is acknowledged from the old one any more: whether its content
//! must be written anew first is kept in the [`Lock`], for this process and for the next.
//!
//! Why a copy of what reading shows holds everything that was acknowledged:
//! - A page is in doubt only if it was written after the last sync that succeeded. Each acknowledged commit ended with
//!   one, and redb syncs each opening too. So only the pages of the transaction that failed are in doubt; those of
//!   acknowledged ones are the same in memory and on the disk, and redb does not write to them before the next commit
//!   is durable.
//! - Of the pages in doubt the copy has what was written, or what was there before, page by page: file systems differ,
//!   and memory may be needed for something else meanwhile. That is what a crash in the middle of the commit leaves
//!   too. Opening the copy checks every page of it against its checksum, as after a crash: redb falls back to the last
//!   commit whose pages are whole, which is the failed one or the one before.
//! - So the pages held in memory are neither trusted nor thrown away, and it does not matter which of them are left.
//!
//! The copy goes through this process, byte by byte: `copy_file_range` may share blocks between two files, and what is
//! in doubt with them. It is opened before it is renamed, so that the file of that name is always a whole one, the
//! old or the new: a process that ends between two steps leaves the old one, the word in the lock, and a draft that
//! the next owner removes. One that ends after the rename leaves the new one, and at worst the word in the lock,
//! which costs another copy.
//!
//! What remains: a process that is killed inside the very sync that fails leaves no word.

use std::{
    fs::{self, File},
    io,
    path::Path,
    sync::Arc,
};

use super::{
    backend::{Disk, Operation},
    batch::Ledger,
    database,
    fault::{unavailable, unusable},
    lock::Lock,
    options::Options,
    paths,
    shared::Opened,
};
use midex_domain::error::{Code, Error, NextCall, Result, again};

/// Bytes copied at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Opens what is written anew out of the data file at `path`, in its place.
///
/// # Errors
/// `STORE_CORRUPT` and `STORE_TOO_NEW` where the content is not sound; `STORE_UNAVAILABLE` where it could not be
/// written. The file of that name is then a whole one, and must be written anew as before.
pub(super) fn open(path: &Path, lock: &Arc<Lock>, options: &Options) -> Result<(Opened, Ledger)> {
    // Through a link the file itself is replaced, where it lies.
    let place = fs::canonicalize(path).map_err(|error| unusable(path, &error))?;
    paths::sweep(&place);
    let draft = paths::draft(&place);
    let opened = write_anew(&place, &draft, lock, options);
    opened.map_err(|error| {
        if let Err(error) = paths::remove(&draft) {
            tracing::warn!(%error, "what was written anew in vain cannot be removed");
        }
        refused(path, error)
    })
}

fn write_anew(
    path: &Path,
    draft: &Path,
    lock: &Arc<Lock>,
    options: &Options,
) -> Result<(Opened, Ledger)> {
    let source = Disk::new(paths::at(path)?, options.hook.clone(), lock);
    let copy = begin(path, draft, options).map_err(|error| unusable(draft, &error))?;
    let copy = Disk::new(copy, options.hook.clone(), lock);
    copy.trust();
    copy_all(&source, &copy).map_err(|error| unavailable(path, &error))?;
    let (opened, ledger) = database::open_checked(path, copy, options)?;
    put_in_place(&opened.disk, draft, path, lock, options)
        .map_err(|error| unusable(path, &error))?;
    lock.written_anew();
    tracing::warn!(path = %path.display(), "the content of the database was written anew after a failed sync");
    Ok((opened, ledger))
}

/// An empty file with the permissions of the one that it is to replace.
fn begin(path: &Path, draft: &Path, options: &Options) -> io::Result<File> {
    options.before(Operation::Create)?;
    let copy = paths::create_new(draft)?;
    copy.set_permissions(fs::metadata(path)?.permissions())?;
    Ok(copy)
}

fn copy_all(source: &Disk, copy: &Disk) -> io::Result<()> {
    let bytes = source.bytes()?;
    copy.reserve(bytes)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    while offset < bytes {
        let wanted =
            usize::try_from(bytes - offset).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        source.read_at(offset, &mut chunk[..wanted])?;
        copy.write_at(offset, &chunk[..wanted])?;
        offset += wanted as u64;
    }
    Ok(())
}

fn put_in_place(
    copy: &Disk,
    draft: &Path,
    path: &Path,
    lock: &Lock,
    options: &Options,
) -> io::Result<()> {
    copy.sync()?;
    options.before(Operation::Rename)?;
    fs::rename(draft, path)?;
    lock.name(copy.identity()?);
    options.before(Operation::SyncDirectory)?;
    paths::sync_directory(path.parent().unwrap_or(path))
}

/// The next call of whoever meets a disk that forgets.
const AGAIN: NextCall = again(
    "in a second; if it stays so, your user is to mend or replace the disk of {path}, on which room for a second copy of the file is needed: midex goes on by itself, and nothing that was acknowledged is lost",
);

/// Why the content was not written anew, and what then. Damage is told as such.
fn refused(path: &Path, error: Error) -> Error {
    if !matches!(error.code(), Code::StoreUnavailable | Code::FileUnusable) {
        return error;
    }
    let message = format!(
        "the system could not write `{}` to its disk, and nothing is stored until its content has been written anew, which failed: {}",
        path.display(),
        error.message()
    );
    Error::new(Code::StoreUnavailable, message)
        .with("path", path.display().to_string())
        .with_next(AGAIN)
        .because(error)
}
