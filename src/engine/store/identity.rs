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
pub(super) struct FileIdentity {
    device: u64,
    inode: u64,
}

impl fmt::Display for FileIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.device, self.inode)
    }
}

/// The identity and length of the file at `path`. Links are followed.
pub(super) fn read_path_identity(path: &Path) -> io::Result<(FileIdentity, u64)> {
    #[cfg(target_os = "linux")]
    if let Ok(found) = system::stat_path(path) {
        return Ok(found);
    }
    fs::metadata(path).map(|metadata| identity_from_metadata(&metadata))
}

/// The identity and length of an open file.
pub(super) fn read_file_identity(file: &File) -> io::Result<(FileIdentity, u64)> {
    #[cfg(target_os = "linux")]
    if let Ok(found) = system::stat_file(file) {
        return Ok(found);
    }
    file.metadata().map(|metadata| identity_from_metadata(&metadata))
}

fn identity_from_metadata(metadata: &Metadata) -> (FileIdentity, u64) {
    let identity = FileIdentity { device: metadata.dev(), inode: metadata.ino() };
    (identity, metadata.len())
}

#[cfg(target_os = "linux")]
mod system {
    use std::{fs::File, io, path::Path};

    use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, makedev, statx};

    use super::FileIdentity;

    const STATX_FIELDS: StatxFlags = StatxFlags::INO.union(StatxFlags::SIZE);

    pub(super) fn stat_path(path: &Path) -> io::Result<(FileIdentity, u64)> {
        Ok(identity_from_statx(&statx(CWD, path, AtFlags::empty(), STATX_FIELDS)?))
    }

    pub(super) fn stat_file(file: &File) -> io::Result<(FileIdentity, u64)> {
        Ok(identity_from_statx(&statx(file, c"", AtFlags::EMPTY_PATH, STATX_FIELDS)?))
    }

    fn identity_from_statx(stat: &Statx) -> (FileIdentity, u64) {
        let identity = FileIdentity {
            device: makedev(stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
        };
        (identity, stat.stx_size)
    }
}
