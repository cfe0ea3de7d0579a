//! The control socket in the data directory, and who may be at its other end: this user alone.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use tokio::net::{UnixListener, UnixStream};

use midex_domain::error::{Code, Error, Result};

/// The name of the socket in the data directory.
pub const SOCKET: &str = "control.sock";
/// The longest path that a socket's address holds on every system.
const PATH_BYTES_MAX: usize = 100;

/// Where the socket of a data directory is. A path that no address can hold goes through the open directory,
/// which must be kept open meanwhile.
pub(super) struct SocketPath {
    path: PathBuf,
    _directory: Option<fs::File>,
}

/// Which file a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity(u64, u64);

impl Identity {
    fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(path)?;
        Ok(Self(metadata.dev(), metadata.ino()))
    }
}

impl SocketPath {
    pub(super) fn of(data_dir: &Path) -> io::Result<Self> {
        let path = data_dir.join(SOCKET);
        if path.as_os_str().len() <= PATH_BYTES_MAX {
            return Ok(Self {
                path,
                _directory: None,
            });
        }
        let directory = fs::File::open(data_dir)?;
        let number = std::os::fd::AsRawFd::as_raw_fd(&directory);
        let path = PathBuf::from(format!("/proc/self/fd/{number}/{SOCKET}"));
        Ok(Self {
            path,
            _directory: Some(directory),
        })
    }

    /// Listens there. The address is nobody else's: the store's lock says so. No other user can come in even before the
    /// permissions are set, for the identity of each caller is checked.
    pub(super) fn bind(&self) -> io::Result<(UnixListener, Identity)> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&self.path)?;
        fs::set_permissions(&self.path, fs::Permissions::from_mode(0o600))?;
        Ok((listener, Identity::of(&self.path)?))
    }

    /// Whether the socket that was bound lies there.
    pub(super) fn is_bound(&self, bound: Identity) -> bool {
        Identity::of(&self.path).is_ok_and(|there| there == bound)
    }

    /// Takes the socket away that was bound: where the directory was replaced, another one lies there by now.
    pub(super) fn remove(&self, bound: Identity) {
        if self.is_bound(bound) {
            let _ = fs::remove_file(&self.path);
        }
    }

    /// A connection to the process that listens there; `None` where none does.
    pub(super) async fn connect(&self) -> Option<UnixStream> {
        UnixStream::connect(&self.path).await.ok()
    }
}

/// Executions are the business of their user alone, and so is what a client says of itself.
pub(super) fn check_user(stream: &UnixStream) -> Result<()> {
    let other = stream.peer_cred().map_err(|error| {
        refused("it is not known who is at the other end of the control socket").because(error)
    })?;
    if other.uid() == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(refused(
        "another user is at the other end of the control socket",
    ))
}

/// The refusal of a first line, or of whoever sends it.
pub(super) fn refused(why: &str) -> Error {
    Error::new(Code::UsageInvalid, why)
}
