//! The identity and length of a file, read without its times. From version 6.13 on (multigrain timestamps), Linux
//! records an exact time at the next write after a file's times were read. Each sync of that file then writes its inode
//! too, which makes a sync of one page half again as expensive.

use std::{
    fmt,
    fs::{self, File, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

/// Identifies a file independently of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.device, self.inode)
    }
}

/// The identity and length of the file at `path`. Links are followed.
pub(super) fn identity_of_path(path: &Path) -> io::Result<(Identity, u64)> {
    system::at(path).or_else(|_| fs::metadata(path).map(|there| identity_from_metadata(&there)))
}

/// The identity and length of an open file.
pub(super) fn identity_of_file(file: &File) -> io::Result<(Identity, u64)> {
    system::of(file).or_else(|_| file.metadata().map(|there| identity_from_metadata(&there)))
}

fn identity_from_metadata(metadata: &Metadata) -> (Identity, u64) {
    let identity = Identity { device: metadata.dev(), inode: metadata.ino() };
    (identity, metadata.len())
}

#[cfg(target_os = "linux")]
mod system {
    use std::{fs::File, io, path::Path};

    use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, makedev, statx};

    use super::Identity;

    const STATX_FIELDS: StatxFlags = StatxFlags::INO.union(StatxFlags::SIZE);

    pub(super) fn at(path: &Path) -> io::Result<(Identity, u64)> {
        Ok(identity_from_statx(&statx(CWD, path, AtFlags::empty(), STATX_FIELDS)?))
    }

    pub(super) fn of(file: &File) -> io::Result<(Identity, u64)> {
        Ok(identity_from_statx(&statx(file, c"", AtFlags::EMPTY_PATH, STATX_FIELDS)?))
    }

    fn identity_from_statx(there: &Statx) -> (Identity, u64) {
        let identity = Identity {
            device: makedev(there.stx_dev_major, there.stx_dev_minor),
            inode: there.stx_ino,
        };
        (identity, there.stx_size)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::{fs::File, io, path::Path};

    use super::Identity;

    pub(super) fn at(_path: &Path) -> io::Result<(Identity, u64)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn of(_file: &File) -> io::Result<(Identity, u64)> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
