//! Detects changes of definition files from file metadata, without opening any file.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, DirEntry, Metadata},
    path::{Path, PathBuf},
};

use super::{DefinitionDirectory, files};
use midex_domain::limits;
use midex_folder::FileStamp;

/// The stamps of all files and directories that a load would read, by path. `None` for a path that does not exist.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DefinitionStamps(BTreeMap<PathBuf, Option<FileStamp>>);

impl DefinitionStamps {
    /// Collects the stamps below these directories. Like a load, does not follow links that point out of a directory.
    pub(super) fn from_directories(directories: impl Iterator<Item = DefinitionDirectory>) -> Self {
        let mut stamps = BTreeMap::new();
        // Track visited directories, since a link may point back to an ancestor.
        let mut visited = HashSet::new();
        for directory in directories {
            let root = directory.resolve_path().ok();
            let mut queue = vec![(directory.path, 0)];
            while let Some((path, depth)) = queue.pop() {
                let metadata = read_metadata_in_root(&path, root.as_deref());
                let is_directory = metadata.as_ref().is_some_and(Metadata::is_dir);
                let stamp = metadata.as_ref().map(FileStamp::from_metadata);
                if is_directory
                    && depth <= limits::DEFINITION_DIRECTORY_DEPTH_MAX
                    && stamps.len() + queue.len() < limits::DEFINITION_STAMPS_MAX
                    && visited.insert(stamp.as_ref().map(FileStamp::device_and_inode))
                {
                    queue.extend(list_directory_entries(&path).map(|path| (path, depth + 1)));
                }
                stamps.insert(path, stamp);
            }
        }
        Self(stamps)
    }
}

/// The metadata of the file at this path, following a link only if its target is inside `root`.
fn read_metadata_in_root(path: &Path, root: Option<&Path>) -> Option<Metadata> {
    let link_metadata = fs::symlink_metadata(path).ok()?;
    let is_inside = |real: PathBuf| root.is_some_and(|root| real.starts_with(root));
    if link_metadata.is_symlink() && fs::canonicalize(path).is_ok_and(is_inside) {
        return fs::metadata(path).ok();
    }
    Some(link_metadata)
}

fn list_directory_entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let entries = entries.take(limits::DEFINITION_ENTRIES_MAX);
    entries.filter(may_hold_definitions).map(|entry| entry.path())
}

/// Whether the entry is a definition file, or may be a directory of such files.
fn may_hold_definitions(entry: &DirEntry) -> bool {
    let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
    !files::is_hidden(&entry.file_name()) && (!is_file || files::is_definition_file(&entry.path()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::{super::Source, *};

    #[test]
    fn only_definition_files_get_stamps() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let look = || {
            let all = ["workflows", "agents"]
                .map(|name| DefinitionDirectory { source: Source::Project, path: path(name) });
            DefinitionStamps::from_directories(all.into_iter())
        };
        let nothing = look();
        assert_eq!(nothing.0.len(), 2);
        fs::create_dir_all(path("workflows/deep/_hidden")).unwrap();
        symlink(path("workflows"), path("workflows/deep/back")).unwrap();
        fs::write(path("workflows/deep/w.md"), "one").unwrap();
        fs::write(path("workflows/deep/w.txt"), "one").unwrap();
        let one = look();
        assert!(one != nothing);
        assert_eq!(one.0.len(), 5, "{one:?}");
        assert!(one == look());
        fs::write(path("workflows/deep/w.txt"), "another").unwrap();
        fs::write(path("workflows/deep/_hidden/w.md"), "one").unwrap();
        assert!(one == look());
        fs::write(path("workflows/deep/w.md"), "another").unwrap();
        assert!(one != look());
    }
}
