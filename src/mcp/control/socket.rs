//! The control socket in the data directory. Both ends must belong to the same user.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use tokio::net::{UnixListener, UnixStream};

use midex_domain::error::{Code, Error, Result};

/// The name of the socket in the data directory.
pub const SOCKET_FILE_NAME: &str = "control.sock";
/// The longest socket path that every system supports.
const SOCKET_PATH_BYTES_MAX: usize = 100;

/// The path of the control socket of a data directory. A path that is too long for a socket address goes through
/// `/proc/self/fd` of the opened directory, which must stay open meanwhile.
pub(super) struct SocketPath {
    path: PathBuf,
    _directory: Option<fs::File>,
}

/// The identity of a socket file: its device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SocketFileIdentity(u64, u64);

impl SocketFileIdentity {
    fn from_path(path: &Path) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(path)?;
        Ok(Self(metadata.dev(), metadata.ino()))
    }
}

impl SocketPath {
    pub(super) fn from_data_dir(data_dir: &Path) -> io::Result<Self> {
        let path = data_dir.join(SOCKET_FILE_NAME);
        if path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
            return Ok(Self { path, _directory: None });
        }
        let directory = fs::File::open(data_dir)?;
        let number = std::os::fd::AsRawFd::as_raw_fd(&directory);
        let path = PathBuf::from(format!("/proc/self/fd/{number}/{SOCKET_FILE_NAME}"));
        Ok(Self { path, _directory: Some(directory) })
    }

    /// Binds the socket. Removing an existing one is safe, since the store's lock proves that no other process owns it.
    /// Other users cannot use it even before the permissions are set, since the user of each client is checked.
    pub(super) fn bind_socket(&self) -> io::Result<(UnixListener, SocketFileIdentity)> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&self.path)?;
        fs::set_permissions(&self.path, fs::Permissions::from_mode(0o600))?;
        Ok((listener, SocketFileIdentity::from_path(&self.path)?))
    }

    /// Whether the path still leads to the socket that was bound.
    pub(super) fn is_bound(&self, bound: SocketFileIdentity) -> bool {
        SocketFileIdentity::from_path(&self.path).is_ok_and(|there| there == bound)
    }

    /// Removes the socket that was bound. If the directory was replaced, the path leads to another socket, which is
    /// left alone.
    pub(super) fn remove(&self, bound: SocketFileIdentity) {
        if self.is_bound(bound) {
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Connects to the process that listens on the socket. `None` if none does.
    pub(super) async fn connect(&self) -> Option<UnixStream> {
        UnixStream::connect(&self.path).await.ok()
    }
}

/// Checks that the other end belongs to the same user. Executions and preambles are private to their user.
pub(super) fn check_peer_user(stream: &UnixStream) -> Result<()> {
    let peer_credentials = stream.peer_cred().map_err(|error| {
        preamble_refused_error("it is not known who is at the other end of the control socket")
            .with_source(error)
    })?;
    if peer_credentials.uid() == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(preamble_refused_error("another user is at the other end of the control socket"))
}

/// The refusal of a preamble, or of its sender.
pub(super) fn preamble_refused_error(reason: &str) -> Error {
    Error::new(Code::UsageInvalid, reason)
}
