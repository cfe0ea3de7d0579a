//! A cache of definitions. Each set of directories is loaded once and shared by all callers and executions that use it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::trust::check_trust;
use crate::config::{Trust, account, places};
use midex_domain::{
    Definition, Directories, WorkflowLookup,
    error::{Code, Error, Result},
    limits,
    operation::BoxFuture,
};
use midex_engine::Workflows;
use midex_registry::Definitions;

/// The loaded definitions, by their directories.
#[derive(Debug)]
pub(super) struct DefinitionCache {
    /// The definitions of the process itself, for executions whose directories belong to another machine or user.
    own: Arc<Definitions>,
    own_lookup: WorkflowLookup,
    trust: Trust,
    /// Least recently used first.
    loaded: Mutex<Vec<(Directories, Arc<Definitions>)>>,
}

impl DefinitionCache {
    /// Creates a cache that holds the definitions of the process itself under `directories`.
    pub(super) fn new(directories: Directories, own: Arc<Definitions>, trust: Trust) -> Self {
        let loaded = Mutex::new(vec![(directories.clone(), own.clone())]);
        let own_lookup = WorkflowLookup {
            directories,
            account: account(),
            ..WorkflowLookup::default()
        };
        Self {
            own,
            own_lookup,
            trust,
            loaded,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Directories, Arc<Definitions>)>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All definitions that are loaded now.
    #[cfg(feature = "catalog")]
    pub(super) fn all_definitions(&self) -> Vec<Arc<Definitions>> {
        let loaded = self.lock();
        loaded.iter().map(|(_, all)| all.clone()).collect()
    }

    /// The definitions of these directories, loaded if necessary. Above [`limits::DEFINITIONS_KEPT_MAX`] entries, the
    /// least recently used one without a caller is dropped.
    pub(super) fn definitions_in(&self, directories: &Directories) -> Arc<Definitions> {
        let mut loaded = self.lock();
        let known = loaded.iter().position(|(of, _)| of == directories);
        let (of, definitions) = known.map_or_else(
            || {
                let definitions = Definitions::new_for(places(directories), self.own.abilities());
                (directories.clone(), Arc::new(definitions))
            },
            |at| loaded.remove(at),
        );
        loaded.push((of, definitions.clone()));
        if loaded.len() > limits::DEFINITIONS_KEPT_MAX
            && let Some(at) = loaded.iter().position(|(_, it)| Arc::strong_count(it) == 1)
        {
            loaded.remove(at);
        }
        definitions
    }

    /// The look-up that is stored with an execution, for a caller with these directories.
    pub(super) fn lookup(&self, directories: Directories) -> WorkflowLookup {
        WorkflowLookup {
            directories,
            ..self.own_lookup.clone()
        }
    }

    /// The definitions that a look-up refers to. If its directories belong to another machine or user, those of the
    /// process itself.
    fn of_lookup(&self, lookup: &WorkflowLookup) -> Arc<Definitions> {
        if lookup.account == self.own_lookup.account {
            return self.definitions_in(&lookup.directories);
        }
        self.own.clone()
    }
}

impl Workflows for DefinitionCache {
    fn find<'a>(
        &'a self,
        lookup: Option<&'a WorkflowLookup>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Arc<Definition>>> {
        let lookup = lookup.unwrap_or(&self.own_lookup).clone();
        let definitions = self.of_lookup(&lookup);
        let trust = self.trust.clone();
        Box::pin(async move {
            let definition = find(&definitions, &lookup, name).await;
            let definition =
                definition.map_err(|error| add_searched_directories(error, &lookup.directories))?;
            definitions.meets_requirements(&definition)?;
            if lookup.is_of_project || definition.is_of_project() {
                let (judged, project) = (definition.clone(), lookup.directories.project_dir);
                let check = move |all: &Definitions| {
                    check_trust(&judged, all.abilities().commands(), (&trust, &project))
                };
                definitions.run_blocking(check).await??;
            }
            Ok(definition)
        })
    }
}

/// Finds a workflow in the directories of a look-up. If one of these directories no longer exists, a workflow that was
/// known at the start of the execution is not found: a workflow of that name elsewhere may be a different one.
async fn find(
    definitions: &Arc<Definitions>,
    lookup: &WorkflowLookup,
    name: &str,
) -> Result<Arc<Definition>> {
    let directories = lookup.directories.clone();
    let is_gone = move || directories.workflows().any(|directory| !directory.is_dir());
    let is_kept = lookup.kept.contains_key(name);
    if is_kept && tokio::task::spawn_blocking(is_gone).await.unwrap_or(false) {
        let message = format!("Workflow '{name}' not found");
        return Err(Error::new(Code::WorkflowNotFound, message));
    }
    definitions.find(name).await
}

/// Adds the searched directories to a "workflow not found" error. Returns other errors unchanged.
fn add_searched_directories(error: Error, directories: &Directories) -> Error {
    if error.code() != Code::WorkflowNotFound {
        return error;
    }
    let named: Vec<_> = directories.workflows().collect();
    let message = format!("{}; looked for in {named:?}", error.message());
    error.with_message(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directories(name: impl Into<String>) -> Directories {
        Directories {
            project_dir: name.into().into(),
            ..Directories::default()
        }
    }

    #[test]
    fn cache_shares_and_drops_definitions() {
        let own = Arc::new(Definitions::new(places(&directories("own"))));
        let cache = DefinitionCache::new(directories("own"), own.clone(), Trust::Everything);
        let caller = cache.definitions_in(&directories("caller"));
        for number in 0..=limits::DEFINITIONS_KEPT_MAX {
            cache.definitions_in(&directories(number.to_string()));
        }
        assert_eq!(cache.all_definitions().len(), limits::DEFINITIONS_KEPT_MAX);
        let mut lookup = cache.lookup(directories("caller"));
        assert!(Arc::ptr_eq(&cache.of_lookup(&lookup), &caller));
        "another 0".clone_into(&mut lookup.account);
        assert!(Arc::ptr_eq(&cache.of_lookup(&lookup), &own));
    }
}
