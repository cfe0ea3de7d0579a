//! The projects that the user trusts: the list `trust` in the user's `midex.toml`. The file is read at every check, so
//! a running server sees a change at once.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use toml_edit::{Array, DocumentMut, value};

use midex_domain::{
    error::{Error, Result, describe_io_error},
    limits,
};
use midex_folder::{ExistingFilePolicy, Folder};
use midex_registry::{find_user_dir, read_file};

/// The key of the list.
pub const TRUST_KEY: &str = "trust";

/// Which projects the user trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustedProjects {
    /// All projects. For embedding programs that supply their own projects.
    Everything,
    /// The projects that this file lists; none if the file does not exist.
    Listed(Option<PathBuf>),
}

impl TrustedProjects {
    /// The trust list of the user who runs this process.
    pub fn for_user() -> Self {
        Self::Listed(find_user_dir().map(|directory| directory.join("midex.toml")))
    }

    /// Whether the project at this directory is trusted. Compares the directory after resolving links; trust does not
    /// extend to its parents or subdirectories. Reads files, so do not call it on an async worker thread.
    pub fn is_trusted(&self, project: &Path) -> bool {
        let listed = || self.list_projects().unwrap_or_default();
        let is_listed = || fs::canonicalize(project).is_ok_and(|real| listed().contains(&real));
        *self == Self::Everything || is_listed()
    }

    /// The directories in the trust list.
    ///
    /// # Errors
    /// `FILE_UNUSABLE` if the file cannot be read, or `trust` is not a valid list.
    pub fn list_projects(&self) -> Result<Vec<PathBuf>> {
        match self {
            Self::Listed(Some(path)) if path.exists() => Ok(read_trust_file(path)?.1),
            _ => Ok(Vec::new()),
        }
    }

    /// Adds a directory to the trust list or removes it. Returns whether the list changed. A directory to remove need
    /// not exist any more.
    ///
    /// # Errors
    /// `FILE_UNUSABLE` if a directory to add does not exist, or the file cannot be changed.
    pub fn set_trusted(&self, project: &Path, is_trusted: bool) -> Result<bool> {
        let to_error = |error: io::Error| Error::file_unusable(project, describe_io_error(&error));
        let real = match fs::canonicalize(project) {
            Err(_) if !is_trusted => std::path::absolute(project).map_err(to_error)?,
            real => real.map_err(to_error)?,
        };
        let Self::Listed(Some(path)) = self else {
            return Err(Error::file_unusable(project, "there is no file of the user's for it"));
        };
        // If the path is a symbolic link, change the file that it points to.
        let file = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        let directory = file.parent().unwrap_or(Path::new("/"));
        let to_error = |error: io::Error| Error::file_unusable(path, describe_io_error(&error));
        fs::create_dir_all(directory).map_err(to_error)?;
        let folder = Folder::open(directory).map_err(to_error)?;
        let _lock = folder.lock().map_err(to_error)?;
        let (mut document, mut listed) = read_trust_file(path)?;
        if listed.contains(&real) == is_trusted {
            return Ok(false);
        }
        listed.retain(|one| *one != real);
        listed.extend(is_trusted.then_some(real));
        let names: Option<Array> = listed.iter().map(|one| one.to_str()).collect();
        let names = names.ok_or_else(|| Error::file_unusable(project, "its name is no Unicode"))?;
        document[TRUST_KEY] = value(names);
        let (name, text) = (file.file_name().unwrap_or_default(), document.to_string());
        let before = fs::metadata(&file).ok();
        let result =
            folder.write(name, text.as_bytes(), before.as_ref(), ExistingFilePolicy::Replace);
        result.map(|()| true).map_err(to_error)
    }
}

/// Parses the file. Returns the document and the directories in its trust list.
fn read_trust_file(path: &Path) -> Result<(DocumentMut, Vec<PathBuf>)> {
    let is_new = !path.exists();
    let contents = (!is_new).then(|| read_file(path, limits::CONFIG_BYTES_MAX));
    let text = match &contents {
        Some(read) => match &read.read_finding {
            Some(trouble) => return Err(Error::file_unusable(path, &trouble.message)),
            None => &*read.text,
        },
        None => "",
    };
    let parse_result = text.parse::<DocumentMut>();
    let document = parse_result.map_err(|error| Error::file_unusable(path, error.message()))?;
    let Some(item) = document.get(TRUST_KEY) else {
        return Ok((document, Vec::new()));
    };
    let items = item.as_array().into_iter().flatten();
    let listed: Option<_> = items.map(|item| item.as_str().map(PathBuf::from)).collect();
    let listed = listed.filter(|_| item.is_array());
    let listed =
        listed.ok_or_else(|| Error::file_unusable(path, "its `trust` is no list of texts"))?;
    Ok((document, listed))
}
