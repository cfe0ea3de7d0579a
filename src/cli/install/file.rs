//! A configuration file of a host: read up to a size limit, and replaced atomically, with a backup of the original.

use std::{
    fs::{self, Metadata},
    io,
    path::{Path, PathBuf},
};

use serde_json::Value;

use midex_domain::{
    error::{Code, Error, Result, describe_io_error},
    limits,
};
use midex_folder::{ExistingFilePolicy, Folder, read_regular, real_path};

/// The mark that Windows editors write at the beginning of a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A file as it was read; it may not exist.
#[derive(Debug)]
pub(super) struct HostFile {
    /// The path that the host uses.
    pub(super) path: PathBuf,
    /// The path of the actual file: the target if `path` is a symbolic link.
    real: PathBuf,
    /// The project, if this is a project's file. A symbolic link must not lead out of it.
    project: Option<PathBuf>,
    before: Option<(Vec<u8>, Metadata)>,
    /// The content without a byte order mark.
    pub(super) text: String,
}

impl HostFile {
    /// Reads a file of at most [`limits::HOST_FILE_BYTES_MAX`]. If `project` is given, the file must be inside it. A
    /// missing file has an empty text.
    pub(super) fn read(path: &Path, project: Option<&Path>) -> Result<Self> {
        let real = canonical_path(path)?;
        if let Some(project) = project {
            check_inside_project(path, project)?;
        }
        let before = read_bytes(&real).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => invalid_file_error(path, "is no regular file"),
            _ => unusable_file_error(path, &error),
        })?;
        let before = match before {
            Some((bytes, _)) if bytes.len() as u64 > limits::HOST_FILE_BYTES_MAX => {
                let most = limits::HOST_FILE_BYTES_MAX >> 20;
                return Err(invalid_file_error(path, &format!("is larger than {most} MiB")));
            }
            before => before,
        };
        let text = before.as_ref().map_or(&[][..], |(bytes, _)| bytes);
        let text = str::from_utf8(text).map_err(|error| {
            let at = error.valid_up_to();
            invalid_file_error(path, &format!("is not UTF-8 from byte {at} on"))
        })?;
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text).to_owned();
        let path = path.to_owned();
        Ok(Self { path, real, project: project.map(Path::to_owned), before, text })
    }

    /// Whether the file exists.
    pub(super) fn exists(&self) -> bool {
        self.before.is_some()
    }

    /// The error for this file, with line and column, from that for its text.
    pub(super) fn place(&self, error: &Error) -> Error {
        let at = error.context("at").and_then(Value::as_u64);
        let at = usize::try_from(at.unwrap_or_default()).unwrap_or_default();
        let before = self.text.get(..at).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let says = format!("cannot be used as it is: at {line}:{column}, {error}");
        invalid_file_error(&self.path, &says)
            .with_context("line", line)
            .with_context("column", column)
    }

    /// Replaces the file with `text`, unless another program has changed it since it was read. Returns the path of the
    /// backup if this call made one: on the first change by midex, and only if the backup `has_use`.
    pub(super) fn replace_content(&self, text: &str, has_use: bool) -> Result<Option<PathBuf>> {
        let failed = |error: io::Error| unusable_file_error(&self.path, &error);
        let directory = self.real.parent().unwrap_or(Path::new("/"));
        let folder = match &self.project {
            Some(project) => Folder::open_in(project, directory),
            None => fs::create_dir_all(directory).and_then(|()| Folder::open(directory)),
        };
        let folder = folder.map_err(failed)?;
        let now = read_bytes(&self.real).map_err(failed)?;
        if now.map(|(bytes, _)| bytes) != self.before.as_ref().map(|(bytes, _)| bytes.clone()) {
            return Err(invalid_file_error(&self.path, "was changed by another program just now"));
        }
        let copy = self.keep_backup(&folder, has_use).map_err(failed)?;
        self.write(&folder, text).map_err(failed)?;
        Ok(copy)
    }

    /// Makes the backup of the original, once: an existing backup is kept.
    fn keep_backup(&self, folder: &Folder, has_use: bool) -> io::Result<Option<PathBuf>> {
        let Some((bytes, metadata)) = &self.before else {
            return Ok(None);
        };
        rustix::fs::access(&self.real, rustix::fs::Access::WRITE_OK)?;
        if !has_use {
            return Ok(None);
        }
        let mut name = self.real.file_name().unwrap_or_default().to_owned();
        name.push(".midex-backup");
        match folder.write(&name, bytes, Some(metadata), ExistingFilePolicy::Keep) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            written => written?,
        }
        Ok(Some(self.real.with_file_name(name)))
    }

    fn write(&self, folder: &Folder, text: &str) -> io::Result<()> {
        let (before, metadata) = self
            .before
            .as_ref()
            .map_or((&[][..], None), |(bytes, metadata)| (bytes.as_slice(), Some(metadata)));
        let mut bytes = text.as_bytes().to_vec();
        if before.starts_with("\u{feff}".as_bytes()) {
            bytes.splice(..0, BYTE_ORDER_MARK.to_string().into_bytes());
        }
        let name = self.real.file_name().unwrap_or_default();
        folder.write(name, &bytes, metadata, ExistingFilePolicy::Replace)
    }
}

/// Refuses a project's file that a symbolic link leads out of the project: it is neither read nor written.
fn check_inside_project(path: &Path, project: &Path) -> Result<()> {
    let (real, root) = (real_path(path), fs::canonicalize(project));
    let (real, root) = match (real, root) {
        (Ok(real), Ok(root)) => (real, root),
        (Err(error), _) | (_, Err(error)) => return Err(unusable_file_error(path, &error)),
    };
    if real.starts_with(root) {
        return Ok(());
    }
    let says = format!("leads out of the project, to {}", real.display());
    Err(invalid_file_error(path, &says))
}

fn canonical_path(path: &Path) -> Result<PathBuf> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    if !is_link {
        return Ok(path.to_owned());
    }
    fs::canonicalize(path).map_err(|_| invalid_file_error(path, "is a link to what is not there"))
}

/// Reads the file up to one byte beyond the limit; `None` if it does not exist. Fails for other than regular files:
/// reading a pipe would block.
fn read_bytes(path: &Path) -> io::Result<Option<(Vec<u8>, Metadata)>> {
    match read_regular(path, limits::HOST_FILE_BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

fn invalid_file_error(path: &Path, says: &str) -> Error {
    let path = path.display().to_string();
    Error::new(Code::HostFileInvalid, format!("`{path}` {says}")).with_context("path", path)
}

fn unusable_file_error(path: &Path, error: &io::Error) -> Error {
    let path = path.display().to_string();
    let message = format!("`{path}` cannot be read or written: {}", describe_io_error(error));
    Error::new(Code::FileUnusable, message).with_context("path", path)
}
