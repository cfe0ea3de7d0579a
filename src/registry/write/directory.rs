//! The directory that workflows are written into, and the files in it.

use std::{
    ffi::OsString,
    fs::{self, Metadata},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::io::Errno;

use super::{
    super::{
        DefinitionDirectory, Format, LiveDefinitions, Manifest, Registry, Source, WorkflowEntry,
        author::unusable_path_error, files::RootDirectory,
    },
    refusal,
};
use midex_domain::{
    document::Digest,
    error::{Code, Error, Result},
    limits,
};
use midex_folder::{Folder, WriteLock};

/// A directory of workflows, with the registry as it was when the directory was opened.
pub(super) struct LockedDirectory {
    pub(super) registry: Arc<Registry>,
    /// The path by which the registry refers to the directory.
    pub(super) directory: PathBuf,
    root: RootDirectory,
    _lock: Option<WriteLock>,
}

/// The file of a workflow, with its content.
pub(super) struct LockedFile {
    pub(super) path: PathBuf,
    pub(super) folder: Folder,
    pub(super) name: OsString,
    pub(super) metadata: Metadata,
    bytes: Vec<u8>,
}

impl LockedDirectory {
    /// Opens the directory for reading, without a lock.
    pub(super) fn open_unlocked(
        definitions: &LiveDefinitions,
        target: &DefinitionDirectory,
    ) -> Result<Self> {
        let registry = definitions.current_registry();
        // The project may be inside the user's directory. Both paths then name one directory, and the registry's first
        // one is used.
        let real = fs::canonicalize(&target.path)
            .map_err(|error| unusable_path_error(&target.path, error))?;
        let is_target =
            |one: &&DefinitionDirectory| fs::canonicalize(&one.path).is_ok_and(|it| it == real);
        let mut directories = registry.sources().workflows.iter();
        let directory = directories.find(is_target).unwrap_or(target);
        let root = RootDirectory::open(directory).map_err(|finding| {
            unusable_path_error(&directory.path, io::Error::other(finding.message))
        })?;
        Ok(Self { root, directory: directory.path.clone(), registry, _lock: None })
    }

    /// Opens the directory with the exclusive write lock.
    pub(super) fn open_locked(
        definitions: &LiveDefinitions,
        target: &DefinitionDirectory,
    ) -> Result<Self> {
        let folder = open_target_folder(target)?;
        let lock = folder.lock().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => busy_error(&target.path),
            _ => unusable_path_error(&target.path, error),
        })?;
        Ok(Self { _lock: Some(lock), ..Self::open_unlocked(definitions, target)? })
    }

    /// The directory, for writing.
    pub(super) fn folder(&self) -> Result<Folder> {
        self.open_folder(&self.directory)
    }

    fn open_folder(&self, directory: &Path) -> Result<Folder> {
        let opened =
            fs::canonicalize(directory).and_then(|real| self.root.open_without_links(&real));
        let opened = opened.map_err(|error| unusable_path_error(directory, error))?;
        Ok(Folder::from(std::os::fd::OwnedFd::from(opened)))
    }

    /// The workflows in the directory.
    fn entries(&self) -> impl Iterator<Item = (&WorkflowEntry, &Path)> {
        let all = self.registry.all_workflows();
        let with_paths = all.filter_map(|entry| Some((entry, entry.path.as_deref()?)));
        with_paths.filter(|(_, path)| path.starts_with(&self.directory))
    }

    /// The file in the directory that has this id; if several have it, the one in effect.
    pub(super) fn find_file(&self, id: &str) -> Result<Option<LockedFile>> {
        let Some((_, path)) = self.entries().find(|(entry, _)| entry.name == id) else {
            return Ok(None);
        };
        let folder = self.open_folder(path.parent().unwrap_or(&self.directory))?;
        let name = path.file_name().unwrap_or_default().to_owned();
        let contents = folder.read(&name, limits::DEFINITION_BYTES_MAX);
        let contents = contents.map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::LOOP) => refusal::not_a_file_error(id, path, "is a symbolic link"),
            _ => unusable_path_error(path, error),
        })?;
        let Some((bytes, metadata)) = contents else {
            return Ok(None);
        };
        if bytes.len() as u64 > limits::DEFINITION_BYTES_MAX {
            return Err(refusal::not_a_file_error(id, path, "is larger than a definition may be"));
        }
        Ok(Some(LockedFile { path: path.to_owned(), folder, name, metadata, bytes }))
    }

    /// The workflow that is in effect for this id, if it is in another directory.
    pub(super) fn find_in_other_directory(&self, id: &str) -> Option<&WorkflowEntry> {
        let is_in_directory = |entry: &&WorkflowEntry| {
            let path = entry.path.as_deref();
            path.is_some_and(|path| path.starts_with(&self.directory))
        };
        self.registry.workflow(id).filter(|entry| !is_in_directory(entry))
    }

    /// Refuses an id that differs only in case from that of another file, since some file systems do not distinguish
    /// them.
    pub(super) fn refuse_case_variant(&self, id: &str, except_id: Option<&str>) -> Result<()> {
        let is_case_variant = |name: &str| name != id && name.eq_ignore_ascii_case(id);
        let mut other_entries = self.entries().filter(|(entry, _)| Some(&*entry.name) != except_id);
        let case_variant = other_entries.find(|(entry, path)| {
            is_case_variant(&entry.name)
                || path.file_stem().is_some_and(|it| is_case_variant(&super::file_name_text(it)))
        });
        case_variant.map_or(Ok(()), |(entry, path)| Err(refusal::look_alike_error(id, entry, path)))
    }
}

impl LockedFile {
    /// The version of the file: the digest of its bytes.
    pub(super) fn version(&self) -> String {
        Digest::compute(&self.bytes).to_string()
    }

    /// The text of the file.
    pub(super) fn manifest(&self) -> Result<Manifest> {
        let text = String::from_utf8(self.bytes.clone());
        let text = text.map_err(|error| {
            let error = io::Error::new(io::ErrorKind::InvalidData, error);
            unusable_path_error(&self.path, error)
        })?;
        let format = Some(Format::from_path(&self.path));
        Ok(Manifest::from_text(text, format))
    }
}

/// The error for a new file that could not be written.
pub(super) fn write_error(path: &Path, id: &str, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::AlreadyExists => refusal::path_taken_error(id, path),
        _ => unusable_path_error(path, error),
    }
}

/// Opens the directory, and creates it if necessary. For a project's directory, does not follow links out of the
/// project.
pub(super) fn open_target_folder(target: &DefinitionDirectory) -> Result<Folder> {
    let project = target.path.parent();
    let folder = match project.filter(|_| target.source == Source::Project) {
        Some(project) => Folder::open_in(project, &target.path),
        None => fs::create_dir_all(&target.path).and_then(|()| Folder::open(&target.path)),
    };
    folder.map_err(|error| unusable_path_error(&target.path, error))
}

fn busy_error(directory: &Path) -> Error {
    let path_text = directory.display();
    let message =
        format!("another process writes workflows into `{path_text}` and has not ended yet");
    Error::new(Code::ServerBusy, message)
}
