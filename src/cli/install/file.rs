//! A configuration file of a host: read within its limit, replaced in one step, with a copy of it as it was.

use std::{
    fs::{self, Metadata},
    io,
    path::{Path, PathBuf},
};

use super::Fault;
use midex_domain::{
    error::{Code, Error, Result, plain},
    limits,
};
use midex_folder::{Existing, Folder, read_regular, real_path};

/// What Windows editors put before the text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A file as it was read; it need not exist.
#[derive(Debug)]
pub(super) struct HostFile {
    /// The path by which the host knows it.
    pub(super) path: PathBuf,
    /// Where the bytes lie: behind a symbolic link, what it points to.
    real: PathBuf,
    /// The project that it belongs to, where it is a project's: no link leads out of that.
    project: Option<PathBuf>,
    before: Option<(Vec<u8>, Metadata)>,
    /// What it says, without a byte order mark.
    pub(super) text: String,
}

impl HostFile {
    /// Reads a file of at most [`limits::HOST_FILE_BYTES_MAX`], which belongs to this project where it is one's. One that is
    /// not there says nothing.
    pub(super) fn read(path: &Path, project: Option<&Path>) -> Result<Self> {
        let real = real(path)?;
        if let Some(project) = project {
            check_inside(path, project)?;
        }
        let before = bytes(&real).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => invalid(path, "is no regular file"),
            _ => unusable(path, &error),
        })?;
        let before = match before {
            Some((bytes, _)) if bytes.len() as u64 > limits::HOST_FILE_BYTES_MAX => {
                let most = limits::HOST_FILE_BYTES_MAX >> 20;
                return Err(invalid(path, &format!("is larger than {most} MiB")));
            }
            before => before,
        };
        let text = before.as_ref().map_or(&[][..], |(bytes, _)| bytes);
        let text = str::from_utf8(text).map_err(|error| {
            let at = error.valid_up_to();
            invalid(path, &format!("is not UTF-8 from byte {at} on"))
        })?;
        let text = text
            .strip_prefix(BYTE_ORDER_MARK)
            .unwrap_or(text)
            .to_owned();
        let path = path.to_owned();
        Ok(Self {
            path,
            real,
            project: project.map(Path::to_owned),
            before,
            text,
        })
    }

    /// Whether there is one.
    pub(super) fn exists(&self) -> bool {
        self.before.is_some()
    }

    /// The error of a text that cannot be read, or not be changed, with the place.
    pub(super) fn fault(&self, fault: &Fault) -> Error {
        let before = self.text.get(..fault.at).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        let column = before
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .chars()
            .count()
            + 1;
        let says = format!(
            "cannot be used as it is: at {line}:{column}, {}",
            fault.says
        );
        invalid(&self.path, &says)
            .with("line", line)
            .with("column", column)
    }

    /// Puts `text` in its place. Answers with the path of the copy of what was there before the first change by midex, where
    /// this is the first and the copy `has_use`.
    pub(super) fn replace(&self, text: &str, has_use: bool) -> Result<Option<PathBuf>> {
        let failed = |error: io::Error| unusable(&self.path, &error);
        let directory = self.real.parent().unwrap_or(Path::new("/"));
        let folder = match &self.project {
            Some(project) => Folder::open_in(project, directory),
            None => fs::create_dir_all(directory).and_then(|()| Folder::open(directory)),
        };
        let folder = folder.map_err(failed)?;
        let now = bytes(&self.real).map_err(failed)?;
        if now.map(|(bytes, _)| bytes) != self.before.as_ref().map(|(bytes, _)| bytes.clone()) {
            return Err(invalid(
                &self.path,
                "was changed by another program just now",
            ));
        }
        let copy = self.keep_copy(&folder, has_use).map_err(failed)?;
        self.write(&folder, text).map_err(failed)?;
        Ok(copy)
    }

    /// Keeps the bytes as they were, once: a copy that is there stays.
    fn keep_copy(&self, folder: &Folder, has_use: bool) -> io::Result<Option<PathBuf>> {
        let Some((bytes, metadata)) = &self.before else {
            return Ok(None);
        };
        rustix::fs::access(&self.real, rustix::fs::Access::WRITE_OK)?;
        if !has_use {
            return Ok(None);
        }
        let mut name = self.real.file_name().unwrap_or_default().to_owned();
        name.push(".midex-backup");
        match folder.write(&name, bytes, Some(metadata), Existing::Keep) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            written => written?,
        }
        Ok(Some(self.real.with_file_name(name)))
    }

    fn write(&self, folder: &Folder, text: &str) -> io::Result<()> {
        let (before, metadata) = self
            .before
            .as_ref()
            .map_or((&[][..], None), |(bytes, metadata)| {
                (bytes.as_slice(), Some(metadata))
            });
        let mut bytes = text.as_bytes().to_vec();
        if before.starts_with("\u{feff}".as_bytes()) {
            bytes.splice(..0, BYTE_ORDER_MARK.to_string().into_bytes());
        }
        let name = self.real.file_name().unwrap_or_default();
        folder.write(name, &bytes, metadata, Existing::Replace)
    }
}

/// Refuses a project's file that a link leads out of the project: it is neither read nor written.
fn check_inside(path: &Path, project: &Path) -> Result<()> {
    let (real, root) = (real_path(path), fs::canonicalize(project));
    let (real, root) = match (real, root) {
        (Ok(real), Ok(root)) => (real, root),
        (Err(error), _) | (_, Err(error)) => return Err(unusable(path, &error)),
    };
    if real.starts_with(root) {
        return Ok(());
    }
    let says = format!("leads out of the project, to {}", real.display());
    Err(invalid(path, &says))
}

fn real(path: &Path) -> Result<PathBuf> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    if !is_link {
        return Ok(path.to_owned());
    }
    fs::canonicalize(path).map_err(|_| invalid(path, "is a link to what is not there"))
}

/// The bytes, as far as the limit and one beyond; none of what is no regular file, for a pipe would be waited for.
fn bytes(path: &Path) -> io::Result<Option<(Vec<u8>, Metadata)>> {
    match read_regular(path, limits::HOST_FILE_BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

fn invalid(path: &Path, says: &str) -> Error {
    let path = path.display().to_string();
    Error::new(Code::HostFileInvalid, format!("`{path}` {says}")).with("path", path)
}

fn unusable(path: &Path, error: &io::Error) -> Error {
    let path = path.display().to_string();
    let message = format!("`{path}` cannot be read or written: {}", plain(error));
    Error::new(Code::FileUnusable, message).with("path", path)
}
