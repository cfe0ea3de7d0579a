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
use midex_folder::{ExistingFilePolicy, Folder, read_regular, resolve_path};

/// The mark that Windows editors write at the beginning of a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A file as it was read; it may not exist.
#[derive(Debug)]
pub(super) struct HostFile {
    /// The path that the host uses.
    pub(super) path: PathBuf,
    /// The path of the actual file: the target if `path` is a symbolic link.
    resolved_path: PathBuf,
    /// The project, if this is a project's file. A symbolic link must not lead out of it.
    project: Option<PathBuf>,
    original: Option<(Vec<u8>, Metadata)>,
    /// The content without a byte order mark.
    pub(super) text: String,
}

impl HostFile {
    /// Reads a file of at most [`limits::HOST_FILE_BYTES_MAX`]. If `project` is given, the file must be inside it. A
    /// missing file has an empty text.
    pub(super) fn read(path: &Path, project: Option<&Path>) -> Result<Self> {
        let resolved_path = canonical_path(path)?;
        if let Some(project) = project {
            check_inside_project(path, project)?;
        }
        let original = read_bytes(&resolved_path).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => invalid_file_error(path, "is no regular file"),
            _ => unusable_file_error(path, &error),
        })?;
        let original = match original {
            Some((bytes, _)) if bytes.len() as u64 > limits::HOST_FILE_BYTES_MAX => {
                let max_mib = limits::HOST_FILE_BYTES_MAX >> 20;
                return Err(invalid_file_error(path, &format!("is larger than {max_mib} MiB")));
            }
            original => original,
        };
        let text = original.as_ref().map_or(&[][..], |(bytes, _)| bytes);
        let text = str::from_utf8(text).map_err(|error| {
            let offset = error.valid_up_to();
            invalid_file_error(path, &format!("is not UTF-8 from byte {offset} on"))
        })?;
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text).to_owned();
        let path = path.to_owned();
        Ok(Self { path, resolved_path, project: project.map(Path::to_owned), original, text })
    }

    /// Whether the file exists.
    pub(super) fn exists(&self) -> bool {
        self.original.is_some()
    }

    /// The error for this file, with line and column, from that for its text.
    pub(super) fn locate_error(&self, error: &Error) -> Error {
        let offset = error.context("at").and_then(Value::as_u64);
        let offset = usize::try_from(offset.unwrap_or_default()).unwrap_or_default();
        let text_before = self.text.get(..offset).unwrap_or(&self.text);
        let line = text_before.matches('\n').count() + 1;
        let column = text_before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let message = format!("cannot be used as it is: at {line}:{column}, {error}");
        invalid_file_error(&self.path, &message)
            .with_context("line", line)
            .with_context("column", column)
    }

    /// Replaces the file with `text`, unless another program has changed it since it was read. Returns the path of the
    /// backup if this call made one: on the first change by midex, and only if the backup `should_backup`.
    pub(super) fn replace_content(
        &self,
        text: &str,
        should_backup: bool,
    ) -> Result<Option<PathBuf>> {
        let unusable = |error: io::Error| unusable_file_error(&self.path, &error);
        let directory = self.resolved_path.parent().unwrap_or(Path::new("/"));
        let folder = match &self.project {
            Some(project) => Folder::open_in(project, directory),
            None => fs::create_dir_all(directory).and_then(|()| Folder::open(directory)),
        };
        let folder = folder.map_err(unusable)?;
        let current = read_bytes(&self.resolved_path).map_err(unusable)?;
        if current.map(|(bytes, _)| bytes) != self.original.as_ref().map(|(bytes, _)| bytes.clone())
        {
            return Err(invalid_file_error(&self.path, "was changed by another program just now"));
        }
        let copy = self.write_backup(&folder, should_backup).map_err(unusable)?;
        self.write(&folder, text).map_err(unusable)?;
        Ok(copy)
    }

    /// Makes the backup of the original, once: an existing backup is kept.
    fn write_backup(&self, folder: &Folder, should_backup: bool) -> io::Result<Option<PathBuf>> {
        let Some((bytes, metadata)) = &self.original else {
            return Ok(None);
        };
        rustix::fs::access(&self.resolved_path, rustix::fs::Access::WRITE_OK)?;
        if !should_backup {
            return Ok(None);
        }
        let mut name = self.resolved_path.file_name().unwrap_or_default().to_owned();
        name.push(".midex-backup");
        match folder.write(&name, bytes, Some(metadata), ExistingFilePolicy::Keep) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            result => result?,
        }
        Ok(Some(self.resolved_path.with_file_name(name)))
    }

    fn write(&self, folder: &Folder, text: &str) -> io::Result<()> {
        let (original_bytes, metadata) = self
            .original
            .as_ref()
            .map_or((&[][..], None), |(bytes, metadata)| (bytes.as_slice(), Some(metadata)));
        let mut bytes = text.as_bytes().to_vec();
        if original_bytes.starts_with("\u{feff}".as_bytes()) {
            bytes.splice(..0, BYTE_ORDER_MARK.to_string().into_bytes());
        }
        let name = self.resolved_path.file_name().unwrap_or_default();
        folder.write(name, &bytes, metadata, ExistingFilePolicy::Replace)
    }
}

/// Refuses a project's file that a symbolic link leads out of the project: it is neither read nor written.
fn check_inside_project(path: &Path, project: &Path) -> Result<()> {
    let (real, root) = (resolve_path(path), fs::canonicalize(project));
    let (real, root) = match (real, root) {
        (Ok(real), Ok(root)) => (real, root),
        (Err(error), _) | (_, Err(error)) => return Err(unusable_file_error(path, &error)),
    };
    if real.starts_with(root) {
        return Ok(());
    }
    let message = format!("leads out of the project, to {}", real.display());
    Err(invalid_file_error(path, &message))
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
        result => result.map(Some),
    }
}

fn invalid_file_error(path: &Path, problem: &str) -> Error {
    let path = path.display().to_string();
    Error::new(Code::HostFileInvalid, format!("`{path}` {problem}")).with_context("path", path)
}

fn unusable_file_error(path: &Path, error: &io::Error) -> Error {
    let path = path.display().to_string();
    let message = format!("`{path}` cannot be read or written: {}", describe_io_error(error));
    Error::new(Code::FileUnusable, message).with_context("path", path)
}
