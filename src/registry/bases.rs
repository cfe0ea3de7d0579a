//! Resolves the workflows that others extend. A name resolves to the file that a start by this name would use.

use std::{borrow::Cow, cell::OnceCell, collections::HashMap};

use super::{
    DefinitionDirectory, Registry, Source, cache::LoadCache, extend::Bases, files::DefinitionFile,
    read,
};
use midex_domain::definition::Definition;

impl Bases for Registry {
    fn file(&self, name: &str) -> Option<DefinitionFile> {
        self.read_workflow_file(self.workflow(name)?)
    }

    fn has(&self, name: &str) -> bool {
        self.workflow(name).is_some()
    }

    fn names(&self) -> Vec<String> {
        self.workflows().map(|entry| entry.name.clone()).collect()
    }
}

/// The files that are loaded or checked together, grouped by directory, nearest directory first.
pub(super) struct DefinitionLevels<'a> {
    files: Cow<'a, [(DefinitionDirectory, Vec<DefinitionFile>)]>,
    /// Results for files that have not changed since the previous load.
    cache: Option<&'a LoadCache<Definition>>,
    /// The level and index of each file, by name. Built on first use, since most workflows extend nothing.
    names: OnceCell<HashMap<String, (usize, usize)>>,
}

impl<'a> DefinitionLevels<'a> {
    pub(super) fn new(
        files: Cow<'a, [(DefinitionDirectory, Vec<DefinitionFile>)]>,
        cache: Option<&'a LoadCache<Definition>>,
    ) -> Self {
        Self { files, cache, names: OnceCell::new() }
    }

    fn stated_name(&self, file: &DefinitionFile) -> Option<String> {
        match self.cache.and_then(|cache| cache.result_for_file(file)) {
            Some(known) => known.named_at.map(|_| known.name.clone()),
            None => read::stated_name(file),
        }
    }

    /// The first file of each name. Within one directory, a file that states the name takes precedence over one that
    /// only has it as file name.
    fn files_by_name(&self) -> &HashMap<String, (usize, usize)> {
        self.names.get_or_init(|| {
            let mut by_name = HashMap::new();
            for (level, (_, files)) in self.files.iter().enumerate() {
                let mut called = Vec::new();
                for (at, file) in files.iter().enumerate() {
                    match self.stated_name(file) {
                        Some(name) => drop(by_name.entry(name).or_insert((level, at))),
                        None => called.push((file.file_stem(), (level, at))),
                    }
                }
                for (name, at) in called {
                    by_name.entry(name).or_insert(at);
                }
            }
            by_name
        })
    }
}

impl Bases for DefinitionLevels<'_> {
    fn file(&self, name: &str) -> Option<DefinitionFile> {
        let (level, at) = self.files_by_name().get(name)?;
        Some(self.files[*level].1[*at].clone())
    }

    fn has(&self, name: &str) -> bool {
        self.files_by_name().contains_key(name)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.files_by_name().keys().cloned().collect();
        names.sort_unstable();
        names
    }
}

/// Files that take precedence over those of a registry.
pub(super) struct NearerFiles<'a, F> {
    registry: &'a Registry,
    read: F,
    /// The files, read on first use.
    files: OnceCell<DefinitionLevels<'a>>,
}

impl<'a, F: Fn() -> Vec<DefinitionFile>> NearerFiles<'a, F> {
    pub(super) fn new(registry: &'a Registry, read: F) -> Self {
        Self { registry, read, files: OnceCell::new() }
    }

    fn nearer_levels(&self) -> &DefinitionLevels<'a> {
        let levels = || vec![(DefinitionDirectory::new(Source::Flag), (self.read)())];
        self.files.get_or_init(|| DefinitionLevels::new(Cow::Owned(levels()), None))
    }
}

impl<F: Fn() -> Vec<DefinitionFile>> Bases for NearerFiles<'_, F> {
    fn file(&self, name: &str) -> Option<DefinitionFile> {
        let nearer = self.nearer_levels().file(name);
        nearer.or_else(|| self.registry.file(name))
    }

    fn has(&self, name: &str) -> bool {
        self.nearer_levels().has(name) || self.registry.has(name)
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.nearer_levels().names();
        names.extend(self.registry.names());
        names
    }
}
