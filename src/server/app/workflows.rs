//! A cache of definitions. Each set of directories is loaded once and shared by all callers and executions that use it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::trust::check_trust;
use crate::config::{TrustedProjects, build_definition_places, compute_account_id};
use midex_domain::{
    Definition, DefinitionDirectories, WorkflowLookup,
    error::{Code, Error, Result},
    limits,
    operation::BoxFuture,
};
use midex_engine::Workflows;
use midex_registry::{DefinitionPlaces, LiveDefinitions};

/// The loaded definitions, by their directories.
#[derive(Debug)]
pub(super) struct DefinitionCache {
    /// The definitions of the process itself, for executions whose directories belong to another machine or user.
    process_definitions: Arc<LiveDefinitions>,
    process_lookup: WorkflowLookup,
    trust: TrustedProjects,
    /// Least recently used first.
    entries: Mutex<Vec<(DefinitionDirectories, Arc<LiveDefinitions>)>>,
}

impl DefinitionCache {
    /// Creates a cache that holds the definitions of the process itself under `directories`.
    pub(super) fn new(
        directories: DefinitionDirectories,
        process_definitions: Arc<LiveDefinitions>,
        trust: TrustedProjects,
    ) -> Self {
        let entries = Mutex::new(vec![(directories.clone(), process_definitions.clone())]);
        let process_lookup = WorkflowLookup {
            directories,
            account: compute_account_id(),
            ..WorkflowLookup::default()
        };
        Self { process_definitions, process_lookup, trust, entries }
    }

    fn lock_entries(&self) -> MutexGuard<'_, Vec<(DefinitionDirectories, Arc<LiveDefinitions>)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All definitions that are loaded now.
    #[cfg(feature = "catalog")]
    pub(super) fn all_definitions(&self) -> Vec<Arc<LiveDefinitions>> {
        let loaded = self.lock_entries();
        loaded.iter().map(|(_, all)| all.clone()).collect()
    }

    /// The definitions of these directories, loaded if necessary. Above [`limits::DEFINITIONS_KEPT_MAX`] entries, the
    /// least recently used one without a caller is dropped.
    pub(super) fn load_definitions_in(
        &self,
        directories: &DefinitionDirectories,
    ) -> Arc<LiveDefinitions> {
        let mut loaded = self.lock_entries();
        let position = loaded.iter().position(|(of, _)| of == directories);
        let (of, definitions) = position.map_or_else(
            || {
                let process = &self.process_definitions;
                let places = DefinitionPlaces {
                    program: process.places().program.clone(),
                    cluster: process.places().cluster.clone(),
                    ..build_definition_places(directories)
                };
                let definitions = LiveDefinitions::with_abilities(places, process.abilities());
                (directories.clone(), Arc::new(definitions))
            },
            |at| loaded.remove(at),
        );
        loaded.push((of, definitions.clone()));
        if loaded.len() > limits::DEFINITIONS_KEPT_MAX
            && let Some(unused_index) = loaded.iter().position(|(_, it)| Arc::strong_count(it) == 1)
        {
            loaded.remove(unused_index);
        }
        definitions
    }

    /// The look-up that is stored with an execution, for a caller with these directories.
    pub(super) fn build_lookup(&self, directories: DefinitionDirectories) -> WorkflowLookup {
        WorkflowLookup { directories, ..self.process_lookup.clone() }
    }

    /// The definitions that a look-up refers to. If its directories belong to another machine or user, those of the
    /// process itself.
    fn load_looked_up_definitions(&self, lookup: &WorkflowLookup) -> Arc<LiveDefinitions> {
        if lookup.account == self.process_lookup.account {
            return self.load_definitions_in(&lookup.directories);
        }
        self.process_definitions.clone()
    }
}

impl Workflows for DefinitionCache {
    fn find<'a>(
        &'a self,
        lookup: Option<&'a WorkflowLookup>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Arc<Definition>>> {
        let lookup = lookup.unwrap_or(&self.process_lookup).clone();
        let definitions = self.load_looked_up_definitions(&lookup);
        let trust = self.trust.clone();
        Box::pin(async move {
            let definition = find_workflow(&definitions, &lookup, name).await;
            let definition =
                definition.map_err(|error| add_searched_directories(error, &lookup.directories))?;
            definitions.check_requirements(&definition)?;
            if lookup.is_of_project || definition.is_from_project() {
                let (checked_definition, project) =
                    (definition.clone(), lookup.directories.project_dir);
                let check = move |all: &LiveDefinitions| {
                    check_trust(
                        &checked_definition,
                        all.abilities().operation_lookup(),
                        (&trust, &project),
                    )
                };
                definitions.run_blocking(check).await??;
            }
            Ok(definition)
        })
    }

    fn check_file<'a>(
        &'a self,
        lookup: &'a WorkflowLookup,
        name: &'a str,
    ) -> BoxFuture<'a, Result<()>> {
        let definitions = self.load_looked_up_definitions(lookup);
        Box::pin(async move { definitions.check_current_file(name).await })
    }
}

/// Finds a workflow in the directories of a look-up. If one of these directories no longer exists, a workflow that was
/// known at the start of the execution is not found: a workflow of that name elsewhere may be a different one.
async fn find_workflow(
    definitions: &Arc<LiveDefinitions>,
    lookup: &WorkflowLookup,
    name: &str,
) -> Result<Arc<Definition>> {
    let directories = lookup.directories.clone();
    let is_gone = move || directories.workflow_directories().any(|directory| !directory.is_dir());
    let is_stored = lookup.kept.contains_key(name);
    if is_stored && tokio::task::spawn_blocking(is_gone).await.unwrap_or(false) {
        let message = format!("Workflow '{name}' not found");
        return Err(Error::new(Code::WorkflowNotFound, message));
    }
    definitions.find_definition(name).await
}

/// Adds the searched directories to a "workflow not found" error. Returns other errors unchanged.
fn add_searched_directories(error: Error, directories: &DefinitionDirectories) -> Error {
    if error.code() != Code::WorkflowNotFound {
        return error;
    }
    let named: Vec<_> = directories.workflow_directories().collect();
    let message = format!("{}; looked for in {named:?}", error.message());
    error.with_message(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_directories(name: impl Into<String>) -> DefinitionDirectories {
        DefinitionDirectories {
            project_dir: name.into().into(),
            ..DefinitionDirectories::default()
        }
    }

    #[test]
    fn cache_shares_and_drops_definitions() {
        let own = Arc::new(LiveDefinitions::new(build_definition_places(&test_directories("own"))));
        let cache =
            DefinitionCache::new(test_directories("own"), own.clone(), TrustedProjects::Everything);
        let caller = cache.load_definitions_in(&test_directories("caller"));
        for number in 0..=limits::DEFINITIONS_KEPT_MAX {
            cache.load_definitions_in(&test_directories(number.to_string()));
        }
        assert_eq!(cache.all_definitions().len(), limits::DEFINITIONS_KEPT_MAX);
        let mut lookup = cache.build_lookup(test_directories("caller"));
        assert!(Arc::ptr_eq(&cache.load_looked_up_definitions(&lookup), &caller));
        "another 0".clone_into(&mut lookup.account);
        assert!(Arc::ptr_eq(&cache.load_looked_up_definitions(&lookup), &own));
    }
}
