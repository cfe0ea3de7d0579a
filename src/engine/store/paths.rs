//! The names of the data file and of what lies beside it: made durable, created new, moved into place, swept.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::UNIX_EPOCH,
};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::fault::unusable;
use midex_domain::error::{Code, Error, Result};

/// The data file's name in its directory.
pub const FILE_NAME: &str = "executions.redb";

/// The log's name beside the data file.
const REDO_NAME: &str = "executions.redo";

/// What a database is called, behind that name, until it is whole.
const DRAFT: &str = ".new-";

/// What a copy of a damaged one is called until it is whole.
const COPY: &str = ".copy-";

/// What follows the name of a damaged file in that of its copy.
pub const DAMAGED: &str = ".damaged-";

/// Creates `directory` and what is missing above it, and makes their names durable.
pub(super) fn make_directory(directory: &Path) -> io::Result<()> {
    let missing: Vec<_> = directory
        .ancestors()
        .take_while(|above| !above.as_os_str().is_empty() && !above.exists())
        .collect();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    for made in missing {
        sync_directory(made.parent().unwrap_or(made))?;
    }
    Ok(())
}

/// Makes the names in `directory` durable, where the system lets us.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    let here = Path::new(".");
    let named = !directory.as_os_str().is_empty();
    let synced = File::open(if named { directory } else { here }).and_then(|file| file.sync_all());
    match synced {
        // A directory that may be written but not read, and file systems that sync no directories.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied
                    | io::ErrorKind::InvalidInput
                    | io::ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        synced => synced,
    }
}

/// Refuses a pipe, for which opening would wait, and a device.
pub(super) fn check_regular(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            let path = path.display().to_string();
            let message = format!("`{path}` is not a regular file");
            Err(Error::new(Code::FileUnusable, message)
                .with("path", path)
                .with_action("Move {path} away, or choose another --data-dir"))
        }
        // Whatever else is wrong with it is met when it is opened.
        _ => Ok(()),
    }
}

/// The file at `path`, to be read and written.
pub(super) fn at(path: &Path) -> Result<File> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    file.map_err(|error| unusable(path, &error))
}

/// A new file at `path`.
pub(super) fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// Gives the draft its name, unless another process was first: a file in that place is never replaced.
pub(super) fn place(draft: &Path, path: &Path) -> io::Result<()> {
    let placed = fs::hard_link(draft, path).or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Err(error),
        // Some file systems have no links.
        _ => Ok(renameat_with(
            CWD,
            draft,
            CWD,
            path,
            RenameFlags::NOREPLACE,
        )?),
    });
    match placed {
        Err(_) if path.exists() => Ok(()),
        placed => placed,
    }
}

/// Removes what crashed creations left behind. Only the owner of the store does so; who makes one just now
/// finds that the store is there.
pub(super) fn sweep(path: &Path) {
    let left = |name: &str| {
        [DRAFT, COPY]
            .iter()
            .any(|kind| name.starts_with(&format!("{FILE_NAME}{kind}")))
    };
    let entries = path
        .parent()
        .and_then(|directory| fs::read_dir(directory).ok());
    for entry in entries.into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(left)
            && let Err(error) = remove(&entry.path())
        {
            tracing::warn!(%error, "a leftover of a crash cannot be removed");
        }
    }
}

/// The log of the data file at `path`: beside the file itself, also where `path` is a link to it.
pub(super) fn redo_beside(path: &Path) -> PathBuf {
    let file = fs::canonicalize(path);
    file.as_deref().unwrap_or(path).with_file_name(REDO_NAME)
}

/// The name of a file that is to take the place of the one at `path`.
pub(super) fn draft(path: &Path) -> PathBuf {
    beside(path, DRAFT, &unique())
}

fn beside(path: &Path, kind: &str, name: &str) -> PathBuf {
    path.with_file_name(format!("{FILE_NAME}{kind}{name}"))
}

/// A name that no other process and no other thread uses at this time.
fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}", std::process::id())
}

/// Removes what is at `path`, if anything is.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Keeps a copy of a damaged file beside it, and says in `error` where.
pub(super) fn set_aside(path: &Path, error: Error) -> Error {
    match copy_aside(path) {
        Ok(copy) => {
            tracing::error!(path = %path.display(), copy = %copy.display(), %error, "a file of the store is kept aside");
            error.with("copy", copy.display().to_string())
        }
        Err(fault) => {
            tracing::error!(path = %path.display(), %fault, %error, "a file of the store is damaged, and cannot be copied");
            error
        }
    }
}

/// Copies the file at `path` beside it: once, however often its damage is met.
fn copy_aside(path: &Path) -> io::Result<PathBuf> {
    let modified = fs::metadata(path)?.modified()?;
    let modified = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let copy = path.with_file_name(format!("{name}{DAMAGED}{}", modified.as_nanos()));
    if !copy.exists() {
        let draft = beside(path, COPY, &unique());
        let copied = fs::copy(path, &draft).and_then(|_| fs::rename(&draft, &copy));
        if copied.is_err() {
            remove(&draft)?;
        }
        copied?;
    }
    Ok(copy)
}
