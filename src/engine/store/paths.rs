//! The names of the data file and of the files beside it: creates files, makes names durable, renames, and removes
//! leftovers.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::UNIX_EPOCH,
};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{fault::file_unusable_error, identity::read_path_identity};
use midex_domain::{
    clock::Timestamp,
    error::{Code, Error, Result},
};

/// The data file's name in its directory.
pub const FILE_NAME: &str = "executions.redb";

/// The log's name beside the data file.
const REDO_NAME: &str = "executions.redo";

/// The names of all files of a store begin so.
pub(super) const STORE_NAMES_START: &str = "executions.";

/// Follows the data file's name in the name of a database that is not complete yet.
const DRAFT_SUFFIX: &str = ".new-";

/// Follows the data file's name in the name of a copy of a damaged file, until the copy is complete.
const COPY_SUFFIX: &str = ".copy-";

/// Follows the name of a damaged file in the name of its copy.
pub const DAMAGED_SUFFIX: &str = ".damaged-";

/// Follows the name of a file that was replaced in the name under which it is kept.
const REPLACED_SUFFIX: &str = ".replaced-";

/// Creates `directory` and what is missing above it, and makes their names durable.
pub(super) fn make_directory(directory: &Path) -> io::Result<()> {
    let missing: Vec<_> = directory
        .ancestors()
        .take_while(|above| !above.as_os_str().is_empty() && !above.exists())
        .collect();
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    for created in missing {
        sync_directory(created.parent().unwrap_or(created))?;
    }
    Ok(())
}

/// Makes the names in `directory` durable, where the system supports it.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    let here = Path::new(".");
    let has_name = !directory.as_os_str().is_empty();
    let synced =
        File::open(if has_name { directory } else { here }).and_then(|file| file.sync_all());
    match synced {
        // Some directories may be written but not read, and some file systems cannot sync directories.
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

/// Refuses a path that exists and is no regular file, such as a device or a pipe (opening a pipe would block).
pub(super) fn check_regular(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => {
            let path = path.display().to_string();
            let message = format!("`{path}` is not a regular file");
            Err(Error::new(Code::FileUnusable, message)
                .with_context("path", path)
                .with_action("Move {path} away, or choose another --data-dir"))
        }
        // Any other fault of the file is reported when it is opened.
        _ => Ok(()),
    }
}

/// Opens the file at `path` for reading and writing.
pub(super) fn open_read_write(path: &Path) -> Result<File> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    file.map_err(|error| file_unusable_error(path, &error))
}

/// Creates a new file at `path`. Fails if it exists.
pub(crate) fn create_new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Gives the draft the name `path`, unless another process was first. A file at `path` is never replaced.
pub(super) fn move_draft_into_place(draft: &Path, path: &Path) -> io::Result<()> {
    match add_name(draft, path) {
        Err(_) if path.exists() => Ok(()),
        placed => placed,
    }
}

/// Gives a file the name `path` too. Fails if there is a file at `path`. Where the file system has no hard links, the file
/// loses its old name.
pub(super) fn add_name(file: &Path, path: &Path) -> io::Result<()> {
    fs::hard_link(file, path).or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Err(error),
        _ => move_to_new_name(file, path),
    })
}

/// Removes the leftovers of crashed creations and copies. Only the owner of the store does so. A process that is creating
/// the store at this moment finds that it exists already.
pub(super) fn remove_crash_leftovers(path: &Path) {
    let target = fs::canonicalize(path).ok();
    let target_directory = target.as_deref().and_then(Path::parent);
    let directories = path.parent().into_iter().chain(target_directory);
    for entry in directories.flat_map(fs::read_dir).flatten().flatten() {
        let leftover = entry.path();
        // A restore that was cut off has only begun to keep the file that is still in place.
        let is_second_name = || {
            has_suffix(&leftover, REPLACED_SUFFIX)
                && read_path_identity(&leftover).ok().is_some_and(|(kept, _)| {
                    read_path_identity(path).is_ok_and(|(current, _)| current == kept)
                })
        };
        if !is_draft(&leftover) && !is_second_name() {
            continue;
        }
        // A link leads to a draft in another directory.
        let draft = fs::read_link(&leftover).ok().filter(|draft| is_draft(draft));
        let removed = draft.map_or(Ok(()), |draft| remove_if_exists(&draft));
        if let Err(error) = removed.and_then(|()| remove_if_exists(&leftover)) {
            tracing::warn!(%error, "a leftover of a crash cannot be removed");
        }
    }
}

fn is_draft(path: &Path) -> bool {
    [DRAFT_SUFFIX, COPY_SUFFIX].iter().any(|suffix| has_suffix(path, suffix))
}

/// Whether this suffix follows the name of the data file.
fn has_suffix(path: &Path, suffix: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()?.strip_prefix(FILE_NAME));
    name.is_some_and(|rest| rest.starts_with(suffix))
}

/// The path of the log of the data file at `path`. If `path` is a link, the log is beside the link's target.
pub(super) fn redo_log_path(path: &Path) -> PathBuf {
    let file = fs::canonicalize(path);
    file.as_deref().unwrap_or(path).with_file_name(REDO_NAME)
}

/// The path of a draft that is to become the file at `path`, or to replace it.
pub(crate) fn draft_path(path: &Path) -> PathBuf {
    sibling_path(path, DRAFT_SUFFIX, &unique_suffix())
}

fn sibling_path(path: &Path, suffix: &str, name: &str) -> PathBuf {
    path.with_file_name(format!("{FILE_NAME}{suffix}{name}"))
}

/// A name that no other process and no other thread uses at this time.
fn unique_suffix() -> String {
    static NEXT_UNIQUE_NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NEXT_UNIQUE_NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}", std::process::id())
}

/// Removes the file at `path`, if there is one.
pub(super) fn remove_if_exists(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Keeps a copy of a damaged file beside it, and adds the path of the copy to `error`.
pub(super) fn keep_damaged_copy(path: &Path, error: Error) -> Error {
    match copy_aside(path) {
        Ok(copy) => {
            tracing::error!(path = %path.display(), copy = %copy.display(), %error, "a file of the store is kept aside");
            error.with_context("copy", copy.display().to_string())
        }
        Err(fault) => {
            tracing::error!(path = %path.display(), %fault, %error, "a file of the store is damaged, and cannot be copied");
            error
        }
    }
}

/// Copies the file at `path` beside it. The name of the copy holds the file's modification time, so it is made once,
/// however often the damage is found.
fn copy_aside(path: &Path) -> io::Result<PathBuf> {
    let modified = fs::metadata(path)?.modified()?;
    let modified = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let copy = path.with_file_name(format!("{name}{DAMAGED_SUFFIX}{}", modified.as_nanos()));
    if !copy.exists() {
        copy_to(path, &copy)?;
    }
    Ok(copy)
}

fn copy_to(path: &Path, copy: &Path) -> io::Result<()> {
    let draft = sibling_path(path, COPY_SUFFIX, &unique_suffix());
    let result = fs::copy(path, &draft).and_then(|_| fs::rename(&draft, copy));
    if result.is_err() {
        remove_if_exists(&draft)?;
    }
    result
}

/// The name under which the file at `path` is kept if it is replaced now.
pub(super) fn replaced_path(path: &Path, now: Timestamp) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{name}{REPLACED_SUFFIX}{}", now.to_file_name()))
}

/// Keeps the file at `path` under the name `kept` too, which must be free.
pub(super) fn keep_aside(path: &Path, kept: &Path) -> io::Result<()> {
    fs::hard_link(path, kept).or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Err(error),
        // Some file systems have no hard links.
        _ => copy_to(path, kept),
    })?;
    sync_directory(kept.parent().unwrap_or(kept))
}

/// Renames a file. Fails if there is a file of the new name.
pub(crate) fn move_to_new_name(path: &Path, new: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, path, CWD, new, RenameFlags::NOREPLACE)?)
}
