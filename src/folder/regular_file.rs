//! Reads files that a client, a project or a user names: regular files only, with limits on size and time. Anything
//! else of such a name, for example a pipe, is opened without blocking and then refused.

use std::{
    fs::{self, File, Metadata},
    io::{self, Read},
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::Path,
    time::Instant,
};

use rustix::fs::{Mode, OFlags};

use midex_domain::limits;

/// Opens a regular file for reading. Symlinks are followed.
///
/// # Errors
/// `InvalidInput` if it is not a regular file.
pub fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    // With `NONBLOCK`, opening a pipe returns at once, whether it has a writer or not.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file: File = rustix::fs::open(path, flags, Mode::empty())?.into();
    let metadata = file.metadata()?;
    match describe_special_file(metadata.file_type()) {
        Some(what) => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a file")))
        }
        None => Ok((file, metadata)),
    }
}

/// Whether the group of the file or others have permissions on it.
pub fn is_accessible_to_others(metadata: &Metadata) -> bool {
    metadata.permissions().mode() & 0o077 != 0
}

/// Reads at most `max + 1` bytes of a regular file, so that the caller can detect a larger one.
///
/// # Errors
/// As [`open_regular`] and [`read_up_to`].
pub fn read_regular(path: &Path, max: u64) -> io::Result<(Vec<u8>, Metadata)> {
    let (file, metadata) = open_regular(path)?;
    Ok((read_up_to(file, max)?, metadata))
}

/// Reads at most `max + 1` bytes of an open file. The limit applies to the bytes read, not to the size in the
/// metadata, because a file may grow while it is read.
///
/// # Errors
/// `TimedOut` if reading takes longer than [`limits::FILE_READ_WITHIN`].
#[expect(
    clippy::disallowed_methods,
    reason = "the time that a file system takes is that of the machine's own clock"
)]
pub fn read_up_to(file: File, max: u64) -> io::Result<Vec<u8>> {
    const READ_CHUNK_BYTES: u64 = 1 << 20;
    let (mut bytes, mut file) = (Vec::new(), file.take(max.saturating_add(1)));
    let began = Instant::now();
    while file.by_ref().take(READ_CHUNK_BYTES).read_to_end(&mut bytes)? > 0 {
        if began.elapsed() > limits::FILE_READ_WITHIN {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(bytes)
}

/// Describes the type of a directory entry that is not a regular file; `None` for a regular file.
pub fn describe_special_file(kind: fs::FileType) -> Option<&'static str> {
    Some(match () {
        () if kind.is_file() => return None,
        () if kind.is_dir() => "a directory",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    })
}
