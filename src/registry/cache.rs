//! A cache of load results by file text: a reload parses and checks only the files that changed.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{files::File, load::Loaded};

/// The results of one load, by path. Duplicate names in a directory are not refused yet, and the text itself is not kept.
#[derive(Debug)]
pub(super) struct Cache<T>(HashMap<PathBuf, Loaded<Arc<T>>>);

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Cache<T> {
    /// The result for the file at this path, where it looks as it did when it was read. It is not opened.
    pub(super) fn unchanged(&self, path: &Path) -> Option<&Loaded<Arc<T>>> {
        let loaded = self.at(path)?;
        loaded.file.looks_unchanged().then_some(loaded)
    }

    /// The result for the file at this path as it was read.
    pub(super) fn at(&self, path: &Path) -> Option<&Loaded<Arc<T>>> {
        self.0.get(path)
    }

    /// The results for all files.
    pub(super) fn all(&self) -> impl Iterator<Item = &Loaded<Arc<T>>> {
        self.0.values()
    }

    /// Whether its files can be told from later ones by the same stamps as in `other`.
    pub(super) fn has_stamps_of(&self, other: &Self) -> bool {
        let stamp = |cache: &Self, path| Some(cache.0.get(path)?.file.stamp);
        let mut paths = self.0.keys();
        paths.all(|path| stamp(self, path) == stamp(other, path))
    }

    /// Whether the file has the text that was read.
    pub(super) fn is_of(&self, file: &File) -> bool {
        self.of(file).is_some()
    }

    /// The result for a file that has the text which was read.
    ///
    /// A file that cannot be read whole is never taken from here, nor taken for one that could not.
    pub(super) fn of(&self, file: &File) -> Option<&Loaded<Arc<T>>> {
        let loaded = self.0.get(&file.path)?;
        let is_whole = file.trouble.is_none() && loaded.file.trouble.is_none();
        (is_whole && loaded.file.version == file.version).then_some(loaded)
    }
}

/// A load in progress.
#[derive(Debug)]
pub(super) struct CachedLoader<'a, T> {
    before: &'a Cache<T>,
    now: Cache<T>,
    /// How many files were parsed.
    parsed: usize,
}

impl<'a, T> CachedLoader<'a, T> {
    /// Begins a load that takes unchanged texts from `before`.
    pub(super) fn new(before: &'a Cache<T>) -> Self {
        Self {
            before,
            now: Cache::default(),
            parsed: 0,
        }
    }

    /// The result for a file: cached, or from `load` if the text is new or the result no longer `valid` beside the others.
    pub(super) fn read(
        &mut self,
        file: &File,
        valid: impl FnOnce(&Loaded<Arc<T>>) -> bool,
        load: impl FnOnce(File) -> Loaded<Arc<T>>,
    ) -> Loaded<Arc<T>> {
        let known = self.before.of(file).filter(|known| valid(known));
        let loaded = if let Some(known) = known {
            let mut known = known.clone();
            known.file.stamp = file.stamp;
            known
        } else {
            self.parsed += 1;
            let mut loaded = load(file.clone());
            loaded.file.text = String::new();
            loaded
        };
        let path = loaded.file.path.clone();
        self.now.0.insert(path, loaded.clone());
        loaded
    }

    /// All results, and how many files were parsed.
    pub(super) fn finish(self) -> (Cache<T>, usize) {
        (self.now, self.parsed)
    }
}
