//! Checks whether a missing data directory can be created: a server would fail only when it is started.

use std::{fs, io, path::Path};

use rustix::fs::Access;

use midex_domain::error::describe_io_error;

/// Why the directory cannot be created, worded to follow its path in a sentence; `None` if it can. `error` is the error
/// of accessing the directory.
pub(super) fn explain_not_creatable(directory: &Path, error: &io::Error) -> Option<String> {
    let absolute = std::path::absolute(directory).ok();
    let full_path = absolute.as_deref().unwrap_or(directory);
    // The nearest existing ancestor, in which the missing directories would be created.
    let nearest =
        full_path.ancestors().skip(1).find(|ancestor| fs::symlink_metadata(ancestor).is_ok());
    let Some(ancestor) = nearest else {
        return Some(format!("cannot be made: {}", describe_io_error(error)));
    };
    let reason = match fs::metadata(ancestor) {
        Err(error) if ancestor.is_symlink() && error.kind() == io::ErrorKind::NotFound => {
            "is a link to nothing".to_owned()
        }
        Err(error) => format!("cannot be looked at: {}", describe_io_error(&error)),
        Ok(metadata) if !metadata.is_dir() => "is not a directory".to_owned(),
        Ok(_) => format!(
            "cannot be written to: {}",
            describe_io_error(&probe_directory_creation(ancestor)?)
        ),
    };
    Some(format!("cannot be made: {} {reason}", ancestor.display()))
}

/// Why no directory can be created in this one. Some file systems grant access but fail to write, so a temporary
/// directory is created and removed.
fn probe_directory_creation(directory: &Path) -> Option<io::Error> {
    let access = rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK);
    if let Err(error) = access {
        return Some(error.into());
    }
    let temp_dir = tempfile::Builder::new().prefix(".midex-").tempdir_in(directory);
    temp_dir.and_then(tempfile::TempDir::close).err()
}
