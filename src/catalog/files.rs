//! The directory of catalogs: `ID/catalog.toml` and `ID/document.yaml`. A catalog appears, and is replaced,
//! atomically.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs, io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use super::{
    document::{self, DocumentReader, Inspection},
    settings::Settings,
};
use midex_domain::{
    Digest,
    error::{Code, Error, Result, describe_io_error},
    limits,
};
use midex_folder::{
    ExistingFilePolicy, FileStamp, Folder, WriteLock, open_regular, put_in_place, read_regular,
};

/// The settings of a catalog.
const SETTINGS_FILE: &str = "catalog.toml";
/// The document that a catalog was imported from.
const DOCUMENT_FILE: &str = "document.yaml";

/// The directories that hold catalogs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogPaths {
    /// The catalogs, each in its own subdirectory. The directory need not exist.
    pub catalogs: PathBuf,
    /// The published catalogs, which hide those of the same ids and are never changed.
    pub published: Option<PathBuf>,
    /// The cache of compiled documents, which can be compiled again.
    pub cache: PathBuf,
}

/// The stamps of the settings and of the document of every catalog, by id.
pub(super) type CatalogStamps = BTreeMap<String, [Option<FileStamp>; 2]>;

/// The settings of a catalog, as text and parsed.
pub(super) struct SettingsFile {
    pub(super) text: String,
    pub(super) settings: Settings,
}

impl CatalogPaths {
    /// The path of a catalog's settings.
    pub fn settings_path(&self, id: &str) -> PathBuf {
        self.directory(id).join(SETTINGS_FILE)
    }

    /// The directory of a catalog.
    fn directory(&self, id: &str) -> PathBuf {
        let published = self.published.as_ref().map(|published| published.join(id));
        let published = published.filter(|directory| directory.join(SETTINGS_FILE).exists());
        published.unwrap_or_else(|| self.catalogs.join(id))
    }

    fn refuse_published(&self, id: &str) -> Result<()> {
        let path = self.directory(id);
        if path == self.catalogs.join(id) {
            return Ok(());
        }
        let message =
            format!("the catalog `{id}` is published to all servers, and is not changed here");
        Err(Error::new(Code::FileUnusable, message)
            .with_context("path", path.display().to_string())
            .with_action("Change it where it was published from, and run `midex publish` there"))
    }

    /// The path of a catalog's document.
    pub fn document_path(&self, id: &str) -> PathBuf {
        self.directory(id).join(DOCUMENT_FILE)
    }

    /// The stamps of the files of all catalogs. Opens no file.
    pub(super) fn read_stamps(&self) -> CatalogStamps {
        let directories = [Some(&self.catalogs), self.published.as_ref()];
        let directories = directories.into_iter().flatten();
        let entries = directories.filter_map(|path| fs::read_dir(path).ok()).flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let ids = ids.filter(|id| is_catalog_id(id) && self.settings_path(id).exists());
        let stamp =
            |path: PathBuf| fs::metadata(path).ok().map(|data| FileStamp::from_metadata(&data));
        let stamps = ids.map(|id| {
            let file_stamps = [stamp(self.settings_path(&id)), stamp(self.document_path(&id))];
            (id, file_stamps)
        });
        stamps.take(limits::CATALOGS_MAX).collect()
    }

    /// Reads the settings of a catalog.
    pub(super) fn read_settings(&self, id: &str) -> Result<SettingsFile, String> {
        let path = self.settings_path(id);
        let text = read_file_text(&path, limits::CATALOG_SETTINGS_BYTES_MAX)?;
        let settings =
            Settings::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(SettingsFile { text, settings })
    }

    /// The compiled document of a catalog: from the cache if that belongs to this version of the file, or else
    /// compiled now.
    pub(super) fn load_document(
        &self,
        id: &str,
        stamp: FileStamp,
    ) -> Result<DocumentReader, String> {
        let path = self.document_path(id);
        let key = Digest::compute(format!("{}\n{stamp:?}", path.display()).as_bytes());
        let cache_path = self.cache.join(format!("{key}.book"));
        if let Ok(book) = open_document(&cache_path) {
            return Ok(book);
        }
        let bytes = read_file_bytes(&path, limits::DOCUMENT_BYTES_MAX)?;
        let compiled = document::compile_document(&bytes)
            .map_err(|refused| first_violation_message(&refused))?;
        let bytes = compiled.encode();
        match self.cache_document(&cache_path, &bytes) {
            Ok(()) => open_document(&cache_path),
            // The cache only saves time, so an error does not matter.
            Err(error) => {
                tracing::warn!(path = %self.cache.display(), "the compiled form of a catalog cannot be kept: {error}");
                DocumentReader::from_bytes(bytes)
            }
        }
        .map_err(|error| error.to_string())
    }

    fn cache_document(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.cache)?;
        let name = path.file_name().unwrap_or_default();
        Folder::open(&self.cache)?.write(name, bytes, None, ExistingFilePolicy::Replace)
    }

    /// Acquires the write lock, and waits while another process holds it. Creates the directory if needed, and
    /// removes what killed writers left.
    pub(super) fn acquire_write_lock(&self) -> Result<WriteLock> {
        let path = &self.catalogs;
        fs::create_dir_all(path).map_err(|error| unusable_file_error(path, error))?;
        let folder = Folder::open(path).map_err(|error| unusable_file_error(path, error))?;
        let lock = folder.lock().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                let message = format!("another process writes into {}", path.display());
                Error::new(Code::ServerBusy, message)
            }
            _ => unusable_file_error(path, error),
        })?;
        self.remove_abandoned_directories();
        Ok(lock)
    }

    /// Replaces the settings of a catalog.
    pub(super) fn write_settings(&self, id: &str, text: &str) -> Result<()> {
        self.refuse_published(id)?;
        let path = self.catalogs.join(id);
        let result = Folder::open(&path).and_then(|folder| {
            folder.write(
                OsStr::new(SETTINGS_FILE),
                text.as_bytes(),
                None,
                ExistingFilePolicy::Replace,
            )
        });
        result.map_err(|error| unusable_file_error(&path, error))
    }

    /// Writes a catalog with its document, and replaces an existing catalog with this id.
    pub(super) fn write_catalog(&self, id: &str, settings: &str, document: &[u8]) -> Result<()> {
        self.refuse_published(id)?;
        let (temporary_path, path) = (self.temporary_path(id), self.catalogs.join(id));
        let result = fs::create_dir_all(&temporary_path).and_then(|()| {
            let folder = Folder::open(&temporary_path)?;
            folder.write(OsStr::new(DOCUMENT_FILE), document, None, ExistingFilePolicy::Replace)?;
            let settings = settings.as_bytes();
            folder.write(OsStr::new(SETTINGS_FILE), settings, None, ExistingFilePolicy::Replace)?;
            put_in_place(&temporary_path, &path)
        });
        let _ = fs::remove_dir_all(&temporary_path);
        result.map_err(|error| unusable_file_error(&path, error))
    }

    /// Removes a catalog. If the document is kept, so is the directory.
    pub(super) fn remove_catalog(&self, id: &str, should_remove_document: bool) -> Result<()> {
        self.refuse_published(id)?;
        let path = self.catalogs.join(id);
        let result = if should_remove_document {
            // The rename makes the removal atomic.
            let trash_path = self.temporary_path(id);
            let removed = fs::rename(&path, &trash_path);
            let _ = fs::remove_dir_all(&trash_path);
            removed
        } else {
            Folder::open(&path).and_then(|folder| folder.remove(OsStr::new(SETTINGS_FILE)))
        };
        result.map_err(|error| unusable_file_error(&path, error))
    }

    fn temporary_path(&self, id: &str) -> PathBuf {
        self.catalogs.join(format!("{UNFINISHED_PREFIX}{id}"))
    }

    /// Removes the directories that killed writers left. Requires the write lock.
    fn remove_abandoned_directories(&self) {
        let entries = fs::read_dir(&self.catalogs).into_iter().flatten().flatten();
        for entry in entries {
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED_PREFIX) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// The prefix of the name of an incomplete directory.
const UNFINISHED_PREFIX: &str = ".midex-new-";

fn open_document(path: &Path) -> io::Result<DocumentReader> {
    let (file, metadata) = open_regular(path)?;
    let length = metadata.len();
    DocumentReader::open(length, Box::new(move |at, into| file.read_exact_at(into, at)))
}

/// Whether this is a valid id of a catalog, and so a name of its directory.
pub(super) fn is_catalog_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !id.is_empty()
        && id.len() <= limits::CATALOG_ID_BYTES_MAX
        && id.bytes().all(is_plain)
        && !id.starts_with(['.', '-'])
}

/// Derives the id of a catalog from its title.
pub(super) fn derive_catalog_id(title: &str) -> String {
    let mut slug = String::new();
    for c in title.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.truncate(limits::CATALOG_ID_BYTES_MAX);
    slug.trim_end_matches('-').to_owned()
}

pub(super) fn first_violation_message(inspection: &Inspection) -> String {
    let first = inspection.violations.first();
    first.map_or_else(String::new, |first| first.message.clone())
}

pub(super) fn read_file_bytes(path: &Path, max: usize) -> Result<Vec<u8>, String> {
    let contents = read_regular(path, max as u64);
    let (bytes, _) =
        contents.map_err(|error| format!("{}: {}", path.display(), describe_io_error(&error)))?;
    if bytes.len() > max {
        return Err(format!("{} is larger than {max} bytes", path.display()));
    }
    Ok(bytes)
}

fn read_file_text(path: &Path, max: usize) -> Result<String, String> {
    let bytes = read_file_bytes(path, max)?;
    String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8", path.display()))
}

fn unusable_file_error(path: &Path, error: io::Error) -> Error {
    Error::file_unusable(path, describe_io_error(&error)).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_become_ids() {
        for (title, id) in [
            ("Render API", "render-api"),
            ("  GitHub v3 (REST) ", "github-v3-rest"),
            ("Ünï", "n"),
            ("---", ""),
        ] {
            assert_eq!(derive_catalog_id(title), id, "{title}");
        }
        assert!(
            is_catalog_id("render-api")
                && !is_catalog_id("..")
                && !is_catalog_id("a/b")
                && !is_catalog_id("")
        );
    }
}
