//! Caches load results by file text, so that a reload parses and checks only changed files.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{files::DefinitionFile, load::LoadResult};

/// The load results of one load, by path. Duplicate names are not refused yet at this point, and texts are not kept.
#[derive(Debug)]
pub(super) struct LoadCache<T>(HashMap<PathBuf, LoadResult<Arc<T>>>);

impl<T> Default for LoadCache<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> LoadCache<T> {
    /// The result for this path, if the file's metadata is unchanged since it was read. Does not open the file.
    pub(super) fn unchanged_result(&self, path: &Path) -> Option<&LoadResult<Arc<T>>> {
        let loaded = self.result_for_path(path)?;
        loaded.file.looks_unchanged().then_some(loaded)
    }

    /// The result for this path from the last load, whether the file has changed or not.
    pub(super) fn result_for_path(&self, path: &Path) -> Option<&LoadResult<Arc<T>>> {
        self.0.get(path)
    }

    /// Whether each file here has the same stamp as in `other`, so that later changes are detected equally well.
    pub(super) fn has_same_stamps(&self, other: &Self) -> bool {
        let stamp = |cache: &Self, path| Some(cache.0.get(path)?.file.stamp);
        let mut paths = self.0.keys();
        paths.all(|path| stamp(self, path) == stamp(other, path))
    }

    /// Whether the file still has the text that was read.
    pub(super) fn has_same_text(&self, file: &DefinitionFile) -> bool {
        self.result_for_file(file).is_some()
    }

    /// The result for a file, if it still has the text that was read.
    ///
    /// Files that cannot be read completely are never served from the cache.
    pub(super) fn result_for_file(&self, file: &DefinitionFile) -> Option<&LoadResult<Arc<T>>> {
        let loaded = self.0.get(&file.path)?;
        let is_readable = file.read_finding.is_none() && loaded.file.read_finding.is_none();
        (is_readable && loaded.file.version == file.version).then_some(loaded)
    }
}

/// A load in progress that reuses the results of the previous one.
#[derive(Debug)]
pub(super) struct CachedLoader<'a, T> {
    previous: &'a LoadCache<T>,
    current: LoadCache<T>,
    /// How many files were parsed so far.
    parsed_files: usize,
}

impl<'a, T> CachedLoader<'a, T> {
    /// Starts a load that reuses results for unchanged texts from `previous`.
    pub(super) fn new(previous: &'a LoadCache<T>) -> Self {
        Self { previous, current: LoadCache::default(), parsed_files: 0 }
    }

    /// The result for a file. Calls `load` if its text is new, or if the cached result is no longer `valid`, because
    /// something that it refers to has changed.
    pub(super) fn load_or_reuse(
        &mut self,
        file: &DefinitionFile,
        valid: impl FnOnce(&LoadResult<Arc<T>>) -> bool,
        load: impl FnOnce(DefinitionFile) -> LoadResult<Arc<T>>,
    ) -> LoadResult<Arc<T>> {
        let cached = self.previous.result_for_file(file).filter(|known| valid(known));
        let loaded = if let Some(known) = cached {
            let mut known = known.clone();
            known.file.stamp = file.stamp;
            known
        } else {
            self.parsed_files += 1;
            let mut loaded = load(file.clone());
            loaded.file.text = String::new();
            loaded
        };
        let path = loaded.file.path.clone();
        self.current.0.insert(path, loaded.clone());
        loaded
    }

    /// All results, and how many files were parsed.
    pub(super) fn into_cache(self) -> (LoadCache<T>, usize) {
        (self.current, self.parsed_files)
    }
}
