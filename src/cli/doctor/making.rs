//! Whether a data directory that is not there can be made: a server would fail only when it is started.

use std::{fs, io, path::Path};

use rustix::fs::Access;

use midex_domain::error::plain;

/// Why the directory cannot be made, as the rest of a sentence that begins with its path; `None` where it can. `error` is what
/// the system says of the directory.
pub(super) fn obstacle(directory: &Path, error: &io::Error) -> Option<String> {
    let absolute = std::path::absolute(directory).ok();
    let whole = absolute.as_deref().unwrap_or(directory);
    // The nearest thing above it that is there: in it the rest is made.
    let nearest = whole
        .ancestors()
        .skip(1)
        .find(|above| fs::symlink_metadata(above).is_ok());
    let Some(above) = nearest else {
        return Some(format!("cannot be made: {}", plain(error)));
    };
    let why = match fs::metadata(above) {
        Err(error) if above.is_symlink() && error.kind() == io::ErrorKind::NotFound => {
            "is a link to nothing".to_owned()
        }
        Err(error) => format!("cannot be looked at: {}", plain(&error)),
        Ok(found) if !found.is_dir() => "is not a directory".to_owned(),
        Ok(_) => format!("cannot be written to: {}", plain(&refused(above)?)),
    };
    Some(format!("cannot be made: {} {why}", above.display()))
}

/// Why nothing can be made in this directory. What the system says beforehand is not all: some file systems allow it in words
/// alone, so an empty directory is made and removed.
fn refused(above: &Path) -> Option<io::Error> {
    let access = rustix::fs::access(above, Access::WRITE_OK | Access::EXEC_OK);
    if let Err(error) = access {
        return Some(error.into());
    }
    let made = tempfile::Builder::new().prefix(".midex-").tempdir_in(above);
    made.and_then(tempfile::TempDir::close).err()
}
