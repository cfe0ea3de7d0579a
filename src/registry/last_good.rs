//! The last good versions of definition files, kept across reloads.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{entry::DefinitionEntry, load::LoadResult};

/// The last good version of a file, with the name that it had.
#[derive(Debug)]
pub(super) struct GoodVersion<T> {
    name: String,
    value: Arc<T>,
}

/// Last good versions, by file path.
pub(super) type GoodVersions<T> = HashMap<PathBuf, GoodVersion<T>>;

/// The last good versions that a load can fall back on.
#[derive(Debug)]
pub(super) struct LastGoodVersions<'a, T> {
    /// Versions of files that the previous load had, and that this load has not read yet.
    loaded_versions: HashMap<&'a Path, (&'a str, &'a Arc<T>)>,
    /// Versions of files that were missing in the previous load. Some editors delete a file before they write it again,
    /// so a load in between must not discard its last good version.
    missing_versions: Option<&'a GoodVersions<T>>,
}

impl<T> Default for LastGoodVersions<'_, T> {
    fn default() -> Self {
        Self { loaded_versions: HashMap::new(), missing_versions: None }
    }
}

impl<'a, T> LastGoodVersions<'a, T> {
    /// Collects the versions of these entries, and those that were missing in the previous load.
    pub(super) fn new(
        entries: &'a [DefinitionEntry<T>],
        missing_versions: &'a GoodVersions<T>,
    ) -> Self {
        let version = |entry: &'a DefinitionEntry<T>| {
            let value = entry.value.as_ref()?;
            Some((&*entry.cache_path, (entry.name.as_str(), value)))
        };
        Self {
            loaded_versions: entries.iter().filter_map(version).collect(),
            missing_versions: Some(missing_versions),
        }
    }

    /// Gives the broken files of `level` their last good version, under the name that it had, so that a call by that
    /// name still finds it.
    pub(super) fn restore_broken_files(&mut self, level: &mut [LoadResult<Arc<T>>]) {
        for loaded in level {
            let version = self.take_version(&loaded.file.path);
            if let (None, Some((name, value))) = (&loaded.value, version) {
                if loaded.name != name {
                    name.clone_into(&mut loaded.name);
                    loaded.name_place = None;
                }
                loaded.value = Some(value.clone());
            }
        }
    }

    fn take_version(&mut self, path: &Path) -> Option<(&'a str, &'a Arc<T>)> {
        self.loaded_versions.remove(path).or_else(|| {
            let version = self.missing_versions?.get(path)?;
            Some((version.name.as_str(), &version.value))
        })
    }

    /// The versions of files that the previous load had, and that are missing in this one.
    pub(super) fn into_missing_versions(self) -> GoodVersions<T> {
        self.loaded_versions
            .into_iter()
            .map(|(path, (name, value))| {
                let (name, value) = (name.to_owned(), value.clone());
                (path.to_owned(), GoodVersion { name, value })
            })
            .collect()
    }
}
