//! Reads definition files: bounded in number, depth and size, and never from outside the named directory. A file that
//! cannot be read gets a finding; reading as a whole never fails.
//!
//! A path may be replaced between its check and its opening. So the definition directory stays open while it is read,
//! and everything in it is opened relative to it, one path component at a time, without following links.

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    fs, io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

use rustix::fs::{Dir, Mode, OFlags, openat};

use super::source::{DefinitionDirectory, unreadable_finding};
use midex_domain::{
    document::Digest,
    error::{Code, Error, Result},
    finding::{Finding, Place, Rule},
    limits,
};
use midex_folder::{FileStamp, describe_special_file, open_regular, read_up_to};

/// A file that was read, or a file or directory that could not be read.
#[derive(Clone, Debug)]
pub struct DefinitionFile {
    /// The path, for people.
    pub(crate) path: PathBuf,
    /// The text without a byte order mark, as far as it could be read.
    pub text: String,
    /// The digest of its bytes, which callers see as its version.
    pub(crate) version: Digest,
    /// The finding that explains why it could not be read.
    pub read_finding: Option<Finding>,
    /// Its metadata stamp. `None` if the stamp could not distinguish this content from a later one.
    pub(super) stamp: Option<FileStamp>,
}

impl DefinitionFile {
    pub(super) fn from_finding(path: PathBuf, finding: Finding) -> Self {
        Self { read_finding: Some(finding), ..Self::from_text(path, String::new()) }
    }

    /// A text, treated as a file of this path.
    pub(super) fn from_text(path: PathBuf, mut text: String) -> Self {
        let version = Digest::compute(text.as_bytes());
        if text.starts_with(BYTE_ORDER_MARK) {
            text.drain(..BYTE_ORDER_MARK.len_utf8());
        }
        Self { path, text, version, read_finding: None, stamp: None }
    }

    /// Whether the metadata shows that the file still has the bytes that were read. Does not open it. False if that
    /// cannot be determined.
    pub(super) fn looks_unchanged(&self) -> bool {
        let now = || fs::metadata(&self.path).ok().map(|now| FileStamp::from_metadata(&now));
        self.stamp.is_some() && self.stamp == now()
    }

    /// Replaces a text that is too large for a file with a finding.
    pub(super) fn limit_file_size(self) -> Self {
        match too_large_finding(self.text.len() as u64, limits::DEFINITION_BYTES_MAX) {
            Some(finding) => Self::from_finding(self.path, finding),
            None => self,
        }
    }

    /// The exact text of the file, including its byte order mark.
    pub(super) fn text_with_bom(&self) -> String {
        if Digest::compute(self.text.as_bytes()) == self.version {
            self.text.clone()
        } else {
            format!("{BYTE_ORDER_MARK}{}", self.text)
        }
    }

    /// The file name without extension. A definition that states no name is listed under it.
    pub(super) fn file_stem(&self) -> String {
        let stem = self.path.file_stem().unwrap_or(self.path.as_os_str());
        stem.to_string_lossy().into_owned()
    }
}

/// Some editors write it at the start of a file. It has no meaning in YAML or JSON.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The extensions of definition files.
pub(super) const EXTENSIONS: &[&str] = &["md", "yaml", "yml", "json"];

/// The file name for a new definition called `name`. Refuses a name that is not a plain file name, that
/// [`read_directory`] would skip, or that is invalid on other systems.
pub(super) fn build_file_name(name: &str, extension: &str) -> Result<String> {
    let fault = if name.starts_with(['.', '_', '-']) {
        Some("begins with `.`, `_` or `-`")
    } else if name.ends_with(['.', ' ']) {
        Some("ends with `.` or a space")
    } else if name.contains(['/', '\\', ':', '*', '?', '"', '<', '>', '|']) {
        Some("holds one of / \\ : * ? \" < > |")
    } else if name.is_empty() || name.contains(char::is_control) {
        Some("is empty or holds a control character")
    } else {
        None
    };
    let Some(fault) = fault else {
        return Ok(format!("{name}.{extension}"));
    };
    let message = format!("{name:?} cannot be the name of a file: it {fault}");
    Err(Error::new(Code::UsageInvalid, message).with_action("Choose a name like `release-notes`"))
}

/// The extension of a path, in lowercase.
pub(super) fn lowercase_extension(path: &Path) -> String {
    let extension = path.extension().unwrap_or_default();
    extension.to_string_lossy().to_ascii_lowercase()
}

/// Whether a path has the extension of a definition file.
pub fn is_definition_file(path: &Path) -> bool {
    EXTENSIONS.contains(&lowercase_extension(path).as_str())
}

/// Whether a directory entry is skipped, together with everything in it.
pub(super) fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"_") || name.as_bytes().starts_with(b".")
}

/// Reads every definition file in a directory that has one of `extensions`, sorted by path, within the limits of one
/// source.
pub(super) fn read_directory(
    directory: &DefinitionDirectory,
    extensions: &[&str],
) -> Vec<DefinitionFile> {
    let root = match RootDirectory::open(directory) {
        Ok(root) => root,
        Err(finding) => {
            return vec![DefinitionFile::from_finding(directory.path.clone(), *finding)];
        }
    };
    let real_root = root.real.clone();
    let mut walk = DirectoryWalk {
        extensions,
        should_follow_links: !directory.source.is_host_source(),
        // Mark the root as visited, in case a link points back to it.
        visited_paths: HashSet::from([real_root.clone()]),
        root,
        entries: 0,
        bytes: 0,
        files: Vec::new(),
        is_full: false,
    };
    walk.walk_directory(&directory.path, &real_root, 0);
    if walk.is_full {
        let message = format!(
            "the directory holds more than {} definition files, {} bytes of them or {} entries; the rest is not read",
            limits::DEFINITION_FILES_MAX,
            limits::DEFINITION_SOURCE_BYTES_MAX,
            limits::DEFINITION_ENTRIES_MAX
        );
        let finding = Finding::new_for_file(Rule::TooManyFiles, message);
        walk.files.push(DefinitionFile::from_finding(directory.path.clone(), finding));
    }
    walk.files
}

/// A definition directory that is held open.
pub(super) struct RootDirectory {
    real: PathBuf,
    directory: OwnedFd,
}

impl RootDirectory {
    pub(super) fn open(directory: &DefinitionDirectory) -> Result<Self, Box<Finding>> {
        let real = directory.resolve_path()?;
        // `NOFOLLOW`: the directory may have been replaced by a link since its path was resolved.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&real, flags, Mode::empty());
        let directory = opened.map_err(|error| unreadable_finding(&error.into()))?;
        Ok(Self { real, directory })
    }

    /// Opens `real`, a resolved path below this directory. If a component has been replaced by a link since, the open
    /// fails. A named pipe does not block.
    pub(super) fn open_without_links(&self, real: &Path) -> io::Result<fs::File> {
        let to_not_found = |_| io::Error::from(io::ErrorKind::NotFound);
        let relative_path = real.strip_prefix(&self.real).map_err(to_not_found)?;
        let mut opened = self.directory.try_clone()?;
        let names: Vec<_> = relative_path.iter().collect();
        let (last, parents) =
            names.split_last().map_or((OsStr::new("."), &[][..]), |(last, way)| (*last, way));
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        for name in parents {
            opened = openat(&opened, *name, flags | OFlags::DIRECTORY, Mode::empty())?;
        }
        Ok(openat(&opened, last, flags, Mode::empty())?.into())
    }
}

struct DirectoryWalk<'a> {
    extensions: &'a [&'a str],
    /// Whether links that stay within the directory are followed.
    should_follow_links: bool,
    root: RootDirectory,
    /// The real paths visited so far. Links may lead to one file or directory twice.
    visited_paths: HashSet<PathBuf>,
    entries: usize,
    /// The total size of the files that were read.
    bytes: u64,
    files: Vec<DefinitionFile>,
    is_full: bool,
}

impl DirectoryWalk<'_> {
    fn walk_directory(&mut self, path: &Path, real: &Path, depth: usize) {
        let mut names = match self.read_entry_names(real) {
            Ok(names) => names,
            Err(error) => {
                self.files.push(DefinitionFile::from_finding(
                    path.to_owned(),
                    unreadable_finding(&error),
                ));
                return;
            }
        };
        names.sort();
        for name in names {
            if self.is_full {
                return;
            }
            self.visit_entry(path.join(name), depth);
        }
    }

    /// The names of the entries of a directory, without hidden ones.
    fn read_entry_names(&mut self, real: &Path) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::new(self.root.open_without_links(real)?)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            self.entries += 1;
            if self.entries > limits::DEFINITION_ENTRIES_MAX {
                self.is_full = true;
                break;
            }
            if !is_hidden(name) {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn visit_entry(&mut self, path: PathBuf, depth: usize) {
        if !self.should_follow_links && path.is_symlink() {
            return;
        }
        let is_definition = self.extensions.contains(&lowercase_extension(&path).as_str());
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            // The file was removed after it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => return,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let finding =
                    Finding::new_for_file(Rule::Unreadable, "this symbolic link leads nowhere");
                return self.files.push(DefinitionFile::from_finding(path, finding));
            }
            Err(error) => {
                return self
                    .files
                    .push(DefinitionFile::from_finding(path, unreadable_finding(&error)));
            }
        };
        if let Some(finding) = special_file_finding(metadata.file_type(), is_definition) {
            self.files.push(DefinitionFile::from_finding(path.clone(), finding));
        }
        // Other entries are ignored, even unreadable ones, since they are not definition files.
        if !(metadata.is_dir() || is_definition && metadata.is_file()) {
            return;
        }
        match fs::canonicalize(&path) {
            Ok(real) if !real.starts_with(&self.root.real) => {
                let message = format!(
                    "the symbolic link leaves the directory of definitions: it leads to {}",
                    real.display()
                );
                let finding = Finding::new_for_file(Rule::OutsideDirectory, message)
                    .suggest("copy the file here, or name its directory".to_owned());
                self.files.push(DefinitionFile::from_finding(path, finding));
            }
            Ok(real) if !self.visited_paths.insert(real.clone()) => {}
            Ok(real) if metadata.is_dir() && depth < limits::DEFINITION_DIRECTORY_DEPTH_MAX => {
                self.walk_directory(&path, &real, depth + 1);
            }
            Ok(_) if metadata.is_dir() => {
                let message = "the directory is nested too deep; it is not read";
                let finding = Finding::new_for_file(Rule::LimitExceeded, message);
                self.files.push(DefinitionFile::from_finding(path, finding));
            }
            Ok(_) if self.files.len() >= limits::DEFINITION_FILES_MAX => self.is_full = true,
            Ok(real) => {
                let opened = self.root.open_without_links(&real);
                let file = read_opened_file(path, opened, limits::DEFINITION_BYTES_MAX);
                self.bytes += file.text.len() as u64;
                self.is_full = self.bytes > limits::DEFINITION_SOURCE_BYTES_MAX;
                self.files.push(file);
            }
            Err(error) => {
                self.files.push(DefinitionFile::from_finding(path, unreadable_finding(&error)));
            }
        }
    }
}

/// Reads a file again that [`read_directory`] found in one of `directories`, with the same checks. `None` if it no
/// longer exists or is now outside its directory.
pub(super) fn reread_file(
    directories: &[DefinitionDirectory],
    path: &Path,
) -> Option<DefinitionFile> {
    let mut directories = directories.iter();
    let directory = directories.find(|directory| path.starts_with(&directory.path))?;
    let root = RootDirectory::open(directory).ok()?;
    let opened = root.open_without_links(&fs::canonicalize(path).ok()?).ok()?;
    let max = limits::DEFINITION_BYTES_MAX;
    Some(read_opened_file(path.to_owned(), Ok(opened), max))
}

/// Reads one file of at most `max` bytes.
pub fn read_definition_file(path: &Path, max: u64) -> DefinitionFile {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {
            let opened = open_regular(path).map(|(file, _)| file);
            read_opened_file(path.to_owned(), opened, max)
        }
        Ok(metadata) => {
            let finding = special_file_finding(metadata.file_type(), false)
                .unwrap_or_else(not_a_file_finding);
            DefinitionFile::from_finding(path.to_owned(), finding)
        }
        Err(error) => DefinitionFile::from_finding(path.to_owned(), unreadable_finding(&error)),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "held against what the file system says by the machine's own clock"
)]
fn read_opened_file(path: PathBuf, opened: io::Result<fs::File>, max: u64) -> DefinitionFile {
    let now = SystemTime::now();
    let contents = opened.and_then(|file| {
        let metadata = file.metadata()?;
        let is_readable = metadata.is_file() && metadata.len() <= max;
        let bytes = is_readable.then(|| read_up_to(file, max)).transpose()?;
        Ok((metadata, bytes.unwrap_or_default()))
    });
    match contents {
        Err(error) => DefinitionFile::from_finding(path, unreadable_finding(&error)),
        Ok((metadata, _)) if !metadata.is_file() => {
            DefinitionFile::from_finding(path, not_a_file_finding())
        }
        Ok((metadata, bytes)) => {
            match too_large_finding(metadata.len().max(bytes.len() as u64), max) {
                Some(finding) => DefinitionFile::from_finding(path, finding),
                None => DefinitionFile {
                    stamp: FileStamp::from_settled_metadata(&metadata, now),
                    ..decode_file(path, bytes)
                },
            }
        }
    }
}

fn too_large_finding(bytes: u64, max: u64) -> Option<Finding> {
    let message = || format!("the file is larger than {max} bytes");
    (bytes > max).then(|| Finding::new_for_file(Rule::FileTooLarge, message()))
}

/// The finding for an entry that is not a regular file. Such an entry is never opened.
fn special_file_finding(kind: fs::FileType, has_definition_name: bool) -> Option<Finding> {
    let type_description = describe_special_file(kind)?;
    if kind.is_dir() {
        let message = "this is a directory with the name of a definition file";
        let finding = Finding::new_for_file(Rule::Unreadable, message);
        let hint = "give it a name without extension; the definitions in it are read";
        return has_definition_name.then(|| finding.suggest(hint.to_owned()));
    }
    let message = format!("this is {type_description}, not a file");
    let finding = Finding::new_for_file(Rule::Unreadable, message);
    Some(finding.suggest("remove it, or put a file in its place".to_owned()))
}

fn not_a_file_finding() -> Finding {
    Finding::new_for_file(Rule::Unreadable, "this is not a file")
}

fn decode_file(path: PathBuf, bytes: Vec<u8>) -> DefinitionFile {
    let error = match String::from_utf8(bytes) {
        Ok(text) => return DefinitionFile::from_text(path, text),
        Err(error) => error,
    };
    let version = Digest::compute(error.as_bytes());
    let valid_length = error.utf8_error().valid_up_to();
    let text = String::from_utf8_lossy(&error.as_bytes()[..valid_length]).into_owned();
    let place = Place::from_bytes(&text, valid_length, valid_length);
    let finding = Finding::new(Rule::NotUtf8, "", place, "the file is not UTF-8 from here");
    DefinitionFile { version, read_finding: Some(finding), ..DefinitionFile::from_text(path, text) }
}
