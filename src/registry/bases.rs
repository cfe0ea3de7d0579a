//! Resolves the workflows that others extend. A name resolves to the file that a start by this name would use.

use std::{borrow::Cow, cell::OnceCell, collections::HashMap};

use super::{
    DefinitionDirectory, Registry, Source, cache::LoadCache, extend::Bases, files::DefinitionFile,
    read,
};
use midex_domain::definition::Definition;

impl Bases for Registry {
    fn find_file(&self, name: &str) -> Option<DefinitionFile> {
        self.read_workflow_file(self.workflow(name)?)
    }

    fn has_workflow(&self, name: &str) -> bool {
        self.workflow(name).is_some()
    }

    fn workflow_names(&self) -> Vec<String> {
        self.workflows().map(|entry| entry.name.clone()).collect()
    }
}

/// The files that are loaded or checked together, grouped by directory, nearest directory first.
pub(super) struct DefinitionLevels<'a> {
    levels: Cow<'a, [(DefinitionDirectory, Vec<DefinitionFile>)]>,
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
        Self { levels: files, cache, names: OnceCell::new() }
    }

    fn cached_stated_name(&self, file: &DefinitionFile) -> Option<String> {
        match self.cache.and_then(|cache| cache.result_for_file(file)) {
            Some(known) => known.name_place.map(|_| known.name.clone()),
            None => read::read_stated_name(file),
        }
    }

    /// The first file of each name. Within one directory, a file that states the name takes precedence over one that
    /// only has it as file name.
    fn files_by_name(&self) -> &HashMap<String, (usize, usize)> {
        self.names.get_or_init(|| {
            let mut by_name = HashMap::new();
            for (level, (_, files)) in self.levels.iter().enumerate() {
                let mut named_files = Vec::new();
                for (index, file) in files.iter().enumerate() {
                    match self.cached_stated_name(file) {
                        Some(name) => drop(by_name.entry(name).or_insert((level, index))),
                        None => named_files.push((file.file_stem(), (level, index))),
                    }
                }
                for (name, index) in named_files {
                    by_name.entry(name).or_insert(index);
                }
            }
            by_name
        })
    }
}

impl Bases for DefinitionLevels<'_> {
    fn find_file(&self, name: &str) -> Option<DefinitionFile> {
        let (level, index) = self.files_by_name().get(name)?;
        Some(self.levels[*level].1[*index].clone())
    }

    fn has_workflow(&self, name: &str) -> bool {
        self.files_by_name().contains_key(name)
    }

    fn workflow_names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.files_by_name().keys().cloned().collect();
        names.sort_unstable();
        names
    }
}

/// Files that take precedence over those of a registry.
pub(super) struct NearerFiles<'a, F> {
    registry: &'a Registry,
    read_files: F,
    /// The files, read on first use.
    files: OnceCell<DefinitionLevels<'a>>,
}

impl<'a, F: Fn() -> Vec<DefinitionFile>> NearerFiles<'a, F> {
    pub(super) fn new(registry: &'a Registry, read_files: F) -> Self {
        Self { registry, read_files, files: OnceCell::new() }
    }

    fn nearer_levels(&self) -> &DefinitionLevels<'a> {
        let read_levels = || vec![(DefinitionDirectory::new(Source::Flag), (self.read_files)())];
        self.files.get_or_init(|| DefinitionLevels::new(Cow::Owned(read_levels()), None))
    }
}

impl<F: Fn() -> Vec<DefinitionFile>> Bases for NearerFiles<'_, F> {
    fn find_file(&self, name: &str) -> Option<DefinitionFile> {
        let nearer = self.nearer_levels().find_file(name);
        nearer.or_else(|| self.registry.find_file(name))
    }

    fn has_workflow(&self, name: &str) -> bool {
        self.nearer_levels().has_workflow(name) || self.registry.has_workflow(name)
    }

    fn workflow_names(&self) -> Vec<String> {
        let mut names = self.nearer_levels().workflow_names();
        names.extend(self.registry.workflow_names());
        names
    }
}
