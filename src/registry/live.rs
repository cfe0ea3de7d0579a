//! The live registry: loaded on first use, and reloaded when its files change.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use tokio::sync::{Semaphore, watch};

use super::{DefinitionPlaces, Registry, difference, names, stamps::DefinitionStamps};
use midex_domain::{
    check::ServerCapabilities,
    definition::Definition,
    error::{Error, Result},
    id::AgentName,
    limits,
};
use midex_folder::ChangePoller;

/// The live registry. It is loaded on first use, and reloaded if its files have changed when a caller asks for the
/// current one. After [`LiveDefinitions::start_watching`], changes are also loaded in the background.
pub struct LiveDefinitions {
    live: Arc<LiveRegistry>,
    poller: ChangePoller,
}

impl fmt::Debug for LiveDefinitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Definitions").field("places", &self.live.places).finish_non_exhaustive()
    }
}

impl LiveDefinitions {
    /// The definitions in these places, checked against default abilities. Reads nothing yet.
    pub fn new(places: DefinitionPlaces) -> Self {
        Self::with_abilities(places, ServerCapabilities::default())
    }

    /// Like [`LiveDefinitions::new`], for a server with these abilities.
    pub fn with_abilities(places: DefinitionPlaces, abilities: ServerCapabilities) -> Self {
        Self {
            live: Arc::new(LiveRegistry {
                places,
                abilities: Mutex::new(abilities),
                last_loaded: RwLock::default(),
                loaded_stamps: Mutex::default(),
                look_permits: Arc::new(Semaphore::new(limits::DEFINITIONS_LOOKS_MAX)),
                outside_project: Mutex::default(),
                change_counter: watch::Sender::new(0),
            }),
            poller: ChangePoller::default(),
        }
    }

    /// The registry as it was last loaded. The first call reads files, so do not make it on an async worker thread.
    pub fn last_loaded_registry(&self) -> Arc<Registry> {
        self.live.loaded_registry()
    }

    /// The abilities that definitions are checked against.
    pub fn abilities(&self) -> ServerCapabilities {
        self.live.lock_abilities().clone()
    }

    /// The places that the definitions come from.
    pub fn places(&self) -> &DefinitionPlaces {
        &self.live.places
    }

    /// The registry, including all changes up to now. Looks at files, so do not call it on an async worker thread.
    pub fn current_registry(&self) -> Arc<Registry> {
        self.live.current_registry()
    }

    /// The definition for a start of this workflow. Reads only the workflow's own file again, if that is enough. Looks
    /// at files, so do not call it on an async worker thread.
    ///
    /// # Errors
    /// `WORKFLOW_NOT_FOUND`, `WORKFLOW_VALIDATION_FAILED`.
    pub fn definition(&self, name: &str) -> Result<Arc<Definition>> {
        let unchanged = self.live.find_unchanged_definition(name);
        unchanged.map_or_else(|| self.current_registry().definition(name), Ok)
    }

    /// Runs `work` off the async worker threads. Callers beyond [`limits::DEFINITIONS_LOOKS_MAX`] wait without
    /// occupying a thread, so that one project with slow files does not use up all threads.
    ///
    /// # Errors
    /// If `work` panicked.
    pub async fn run_blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T> {
        let (permit, all) = (self.live.look_permits.clone().acquire_owned().await, self.clone());
        run_off_async_workers(move || {
            let _permit = permit;
            work(&all)
        })
        .await
    }

    /// Like [`LiveDefinitions::definition`], off the async worker threads. A workflow that does not depend on the project's
    /// files waits for them at most [`limits::DEFINITIONS_AWAITED`].
    ///
    /// # Errors
    /// As [`LiveDefinitions::definition`], or if the load panicked.
    pub async fn find_definition(self: &Arc<Self>, name: &str) -> Result<Arc<Definition>> {
        let (live, workflow_name) = (self.live.clone(), name.to_owned());
        // This is quick, so it does not acquire a permit.
        if let Some(definition) =
            run_off_async_workers(move || live.find_unchanged_definition(&workflow_name)).await?
        {
            return Ok(definition);
        }
        let workflow_name = name.to_owned();
        let mut load =
            pin!(self.run_blocking(move |all| all.current_registry().definition(&workflow_name)));
        if let Ok(loaded) = tokio::time::timeout(limits::DEFINITIONS_AWAITED, &mut load).await {
            return loaded?;
        }
        // The project's files are slow: try to resolve the workflow without them.
        let (live, workflow_name) = (self.live.clone(), name.to_owned());
        match run_off_async_workers(move || live.load_definition_outside_project(&workflow_name))
            .await?
        {
            Some(definition) => Ok(definition),
            None => load.await?,
        }
    }

    /// The definition in the present file of a workflow, if the file is valid and it is enough to look at it and its agents.
    /// A caller that gets `None` looks at all files.
    ///
    /// # Errors
    /// If the load panicked.
    pub async fn find_valid_file(&self, name: &str) -> Result<Option<Arc<Definition>>> {
        let (live, name) = (self.live.clone(), name.to_owned());
        // This is quick, so it does not acquire a permit.
        run_off_async_workers(move || live.registry_if_loaded()?.reparse_definition(&name, false))
            .await
    }

    /// Checks that the present file of a workflow has no errors, whether or not its last good version is kept.
    ///
    /// # Errors
    /// `WORKFLOW_VALIDATION_FAILED`.
    pub async fn check_current_file(self: &Arc<Self>, name: &str) -> Result<()> {
        let name = name.to_owned();
        self.run_blocking(move |all| all.current_registry().check_file(&name)).await?
    }

    /// Checks that every catalog that a definition requires exists.
    ///
    /// # Errors
    /// `CATALOG_MISSING` with the call that imports it.
    pub fn check_requirements(&self, definition: &Definition) -> Result<()> {
        super::check_requirements(&self.live.lock_abilities(), definition)
    }

    /// Loads a change that midex itself just wrote, and returns the new registry.
    pub(super) fn load_written_change(&self) -> Arc<Registry> {
        let mut loaded_stamps = self.live.lock_stamps();
        *loaded_stamps = Some(LoadedStamps::from_places(&self.live.places));
        self.live.reload_registry();
        self.live.last_registry()
    }

    /// Reads everything again, whether files changed or not. Returns whether any entry differs. Reads files, so do not
    /// call it on an async worker thread.
    pub fn reload(&self) -> bool {
        let _loading = self.live.lock_stamps();
        self.live.reload_registry()
    }

    /// Changes the abilities of the server and checks all loaded definitions against them. Reads files, so do not call
    /// it on an async worker thread.
    pub fn change_abilities(&self, change: impl FnOnce(&mut ServerCapabilities)) {
        let _loading = self.live.lock_stamps();
        let abilities = {
            let mut abilities = self.live.lock_abilities();
            change(&mut abilities);
            abilities.clone()
        };
        if let Some(previous) = self.live.registry_if_loaded() {
            let reloaded =
                Registry::load_with_previous(previous.sources(), &abilities, Some(&previous));
            self.live.replace_registry(&previous, reloaded);
        }
    }

    /// A counter that increases whenever entries (see [`Registry::has_same_entries`]) or abilities have changed.
    pub fn change_counter(&self) -> watch::Receiver<u64> {
        self.live.change_counter.subscribe()
    }

    /// Starts to poll for changes and load them in the background, until this value is dropped.
    pub fn start_watching(&self) {
        let live = self.live.clone();
        self.poller.start_polling("midex-definitions", move || live.poll_files());
    }
}

async fn run_off_async_workers<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let result = tokio::task::spawn_blocking(work).await;
    result.map_err(|error| Error::internal("loading the definitions panicked").with_source(error))
}

struct LiveRegistry {
    places: DefinitionPlaces,
    abilities: Mutex<ServerCapabilities>,
    /// `None` until first use, so that a server can answer its first calls before it reads files.
    last_loaded: RwLock<Option<Arc<Registry>>>,
    /// The file stamps of the last load, `None` before the first one. The lock is held during a load, so loads run one
    /// at a time.
    loaded_stamps: Mutex<Option<LoadedStamps>>,
    change_counter: watch::Sender<u64>,
    /// Limits the threads that look at files on behalf of callers.
    look_permits: Arc<Semaphore>,
    /// The definitions of all sources but the project's. Loaded once a caller had to be answered without waiting for
    /// the project.
    outside_project: Mutex<Option<Registry>>,
}

/// The state of the files when the last load began.
struct LoadedStamps {
    stamps: DefinitionStamps,
    /// How many more polls reload files that look unchanged. A file may change twice within one tick of the clock that
    /// its stamp uses.
    unsettled_polls: u8,
}

impl LoadedStamps {
    fn from_places(places: &DefinitionPlaces) -> Self {
        Self {
            stamps: DefinitionStamps::from_directories(places.candidate_directories()),
            unsettled_polls: UNSETTLED_POLLS,
        }
    }
}

/// Two polls are farther apart than two ticks of that clock.
const UNSETTLED_POLLS: u8 = 2;

impl LiveRegistry {
    fn current_registry(&self) -> Arc<Registry> {
        let mut loaded_stamps = self.lock_stamps();
        self.reload_if_changed(&mut loaded_stamps);
        self.last_registry()
    }

    /// The definition of this workflow from the last load, if its own file and its agents have not changed since.
    fn find_unchanged_definition(&self, name: &str) -> Option<Arc<Definition>> {
        self.registry_if_loaded()?.reparse_definition(name, true)
    }

    /// The definition of a workflow that no project file contributes to: none may define its name, or the name of one
    /// of its agents or bases.
    fn load_definition_outside_project(&self, name: &str) -> Option<Arc<Definition>> {
        let all = self.places.sources();
        let sources = all.clone().without_project();
        let mut previous = self.outside_project.lock().unwrap_or_else(PoisonError::into_inner);
        let abilities = self.lock_abilities().clone();
        let registry = Registry::load_with_previous(&sources, &abilities, previous.as_ref());
        let definition = registry.definition(name);
        let mut names = registry.referenced_names(name);
        names.push(name.to_owned());
        names.retain(|name| !registry.is_program_workflow(name));
        *previous = Some(registry);
        drop(previous);
        let definition = definition.ok()?;
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let agents = definition.personas.keys().map(AgentName::as_str);
        let is_in_project = names::may_define_in_project(&all.workflows, &names)
            || names::may_define_in_project(&all.agents, &agents.collect::<Vec<_>>());
        (!is_in_project).then_some(definition)
    }

    /// The registry that was loaded last. The caller holds `seen`.
    fn last_registry(&self) -> Arc<Registry> {
        self.registry_if_loaded().unwrap_or_else(|| self.load_first_registry())
    }

    fn loaded_registry(&self) -> Arc<Registry> {
        self.registry_if_loaded().unwrap_or_else(|| self.current_registry())
    }

    fn registry_if_loaded(&self) -> Option<Arc<Registry>> {
        let loaded = self.last_loaded.read().unwrap_or_else(PoisonError::into_inner);
        loaded.clone()
    }

    /// One poll: loads changed files, and files that may have changed within a clock tick.
    fn poll_files(&self) {
        let mut loaded_stamps = self.lock_stamps();
        if self.reload_if_changed(&mut loaded_stamps) {
            return;
        }
        if let Some(seen) = &mut *loaded_stamps
            && seen.unsettled_polls > 0
        {
            seen.unsettled_polls -= 1;
            self.reload_registry();
        }
    }

    /// Reloads everything if the file stamps differ. Returns whether they did.
    fn reload_if_changed(&self, loaded_stamps: &mut Option<LoadedStamps>) -> bool {
        // Take the stamps before the load, so that any later change is seen by the next poll.
        let current_stamps = LoadedStamps::from_places(&self.places);
        let has_changed =
            loaded_stamps.as_ref().is_none_or(|seen| seen.stamps != current_stamps.stamps);
        if has_changed {
            *loaded_stamps = Some(current_stamps);
            self.reload_registry();
        }
        has_changed
    }

    /// Reloads everything. Returns whether any entry differs from before.
    fn reload_registry(&self) -> bool {
        let Some(previous) = self.registry_if_loaded() else {
            self.load_first_registry();
            return false;
        };
        // A text that makes a parser panic must not end the background polling.
        let reloaded = catch_unwind(AssertUnwindSafe(|| previous.reload(&self.places.sources())));
        if reloaded.is_err() {
            tracing::error!("reading the definitions panicked; those loaded before stay");
        }
        reloaded.is_ok_and(|after| self.replace_registry(&previous, after))
    }

    fn load_first_registry(&self) -> Arc<Registry> {
        let abilities = self.lock_abilities().clone();
        self.store_registry(Registry::load_with_abilities(&self.places.sources(), &abilities))
    }

    fn store_registry(&self, registry: Registry) -> Arc<Registry> {
        let registry = Arc::new(registry);
        *self.last_loaded.write().unwrap_or_else(PoisonError::into_inner) = Some(registry.clone());
        registry
    }

    fn replace_registry(&self, before: &Registry, after: Registry) -> bool {
        let has_changed = !after.has_same_entries(before);
        let has_moved_files = after.sources() != before.sources() || !after.has_same_files(before);
        let has_new_abilities = after.abilities() != before.abilities();
        let has_new_stamps = !after.has_same_stamps(before);
        if has_changed {
            difference::log_differences(before, &after);
        }
        if has_changed || has_moved_files || has_new_abilities || has_new_stamps {
            self.store_registry(after);
        }
        if has_changed || has_new_abilities {
            self.change_counter.send_modify(|version| *version += 1);
        }
        has_changed
    }

    fn lock_abilities(&self) -> MutexGuard<'_, ServerCapabilities> {
        self.abilities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_stamps(&self) -> MutexGuard<'_, Option<LoadedStamps>> {
        self.loaded_stamps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, time::Duration};

    use super::*;

    const WAIT_MAX: Duration = Duration::from_secs(60);

    fn project_places(project: &Path) -> DefinitionPlaces {
        DefinitionPlaces {
            program: Arc::default(),
            flag_workflows: None,
            flag_agents: None,
            home: None,
            registry: None,
            project_directories: midex_domain::ProjectDirectories::default(),
            project: project.to_owned(),
            cluster: None,
            user: None,
        }
    }

    fn write_workflow(project: &Path, path: &str, description: &str) {
        let path = project.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let name = path.file_stem().unwrap().display();
        let text = format!(
            "---\nname: {name}\ndescription: {description}\nphases:\n  - phase: a\n    agent: reviewer\n---\n"
        );
        fs::write(path, text).unwrap();
    }

    fn workflow_description(registry: &Registry, name: &str) -> Option<String> {
        let definition = registry.definition(name).ok()?;
        Some(definition.workflow.description.clone())
    }

    #[test]
    fn changes_are_loaded_before_the_next_answer() {
        let project = tempfile::tempdir().unwrap();
        let definitions = LiveDefinitions::new(project_places(project.path()));
        let changes = definitions.change_counter();
        assert_eq!(workflow_description(&definitions.last_loaded_registry(), "w"), None);
        write_workflow(project.path(), "workflows/w.md", "one");
        assert_eq!(workflow_description(&definitions.last_loaded_registry(), "w"), None);
        let current = definitions.current_registry();
        assert_eq!(workflow_description(&current, "w").as_deref(), Some("one"));
        assert_eq!(*changes.borrow(), 1);
        assert_eq!(current.sources().workflows.len(), 1);

        assert!(Arc::ptr_eq(&current, &definitions.current_registry()), "no change");
        assert_eq!(*changes.borrow(), 1);
        write_workflow(project.path(), "workflows/w.md", "two");
        assert!(definitions.reload() && !definitions.reload());
        assert_eq!(*changes.borrow(), 2);
    }

    #[test]
    fn files_are_read_on_first_use() {
        let project = tempfile::tempdir().unwrap();
        let definitions = LiveDefinitions::new(project_places(project.path()));
        definitions.change_abilities(|abilities| abilities.activities = ["send".to_owned()].into());
        assert!(definitions.live.registry_if_loaded().is_none());
        write_workflow(project.path(), "workflows/w.md", "one");
        let loaded = definitions.last_loaded_registry();
        assert_eq!(workflow_description(&loaded, "w").as_deref(), Some("one"));
        assert!(loaded.abilities().activities.contains("send"));
        assert!(Arc::ptr_eq(&loaded, &definitions.current_registry()), "read once");
        assert_eq!(*definitions.change_counter().borrow(), 0);

        let followed = LiveDefinitions::new(project_places(project.path()));
        followed.live.poll_files();
        assert!(followed.live.registry_if_loaded().is_some());
    }

    /// An empty directory changes no entry, but must be registered for later polls.
    #[test]
    fn a_new_directory_without_definitions_is_no_change() {
        let project = tempfile::tempdir().unwrap();
        let definitions = LiveDefinitions::new(project_places(project.path()));
        definitions.last_loaded_registry();
        fs::create_dir(project.path().join("agents")).unwrap();
        assert!(!definitions.reload());
        assert_eq!(definitions.last_loaded_registry().sources().agents.len(), 1);
        assert_eq!(*definitions.change_counter().borrow(), 0);
    }

    #[test]
    fn start_reads_only_its_own_file() {
        let project = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            write_workflow(project.path(), &format!("workflows/{name}.md"), "one");
        }
        let definitions = LiveDefinitions::new(project_places(project.path()));
        definitions.last_loaded_registry();
        let told = |name: &str| {
            let definition = definitions.definition(name).unwrap();
            definition.workflow.description.clone()
        };
        for name in ["a", "b"] {
            write_workflow(project.path(), &format!("workflows/{name}.md"), "two");
        }
        assert_eq!(told("a"), "two");
        let loaded = definitions.last_loaded_registry();
        assert_eq!(workflow_description(&loaded, "a").as_deref(), Some("one"));
        assert_eq!(workflow_description(&loaded, "b").as_deref(), Some("one"));

        fs::write(project.path().join("workflows/a.md"), "broken").unwrap();
        assert_eq!(told("a"), "one", "the last good version that is loaded");
        assert!(Arc::ptr_eq(&loaded, &definitions.last_loaded_registry()));

        write_workflow(project.path(), "workflows/new.md", "new");
        assert_eq!(told("new"), "new", "what is not known yet is looked for");
        fs::remove_file(project.path().join("workflows/b.md")).unwrap();
        let gone = definitions.definition("b").unwrap_err();
        assert_eq!(gone.code(), midex_domain::error::Code::WorkflowNotFound);
    }

    #[test]
    fn start_does_not_open_unchanged_files() {
        let project = tempfile::tempdir().unwrap();
        let path = project.path().join("workflows/w.md");
        write_workflow(project.path(), "workflows/w.md", "one");
        let definitions = LiveDefinitions::new(project_places(project.path()));
        let is_unchanged = || {
            let loaded = definitions.last_loaded_registry();
            loaded.workflows.cache.unchanged_result(&path).is_some()
        };
        let told = || {
            let definition = definitions.definition("w").unwrap();
            definition.workflow.description.clone()
        };
        let began = fs::metadata(&path).unwrap().modified().unwrap();
        while !is_unchanged() {
            assert!(began.elapsed().unwrap() < WAIT_MAX);
            definitions.reload();
        }
        assert_eq!(told(), "one");
        write_workflow(project.path(), "workflows/w.md", "two");
        assert!(!is_unchanged());
        assert_eq!(told(), "two", "of as many bytes");
    }

    #[test]
    fn start_uses_current_personas() {
        let project = tempfile::tempdir().unwrap();
        let persona = |text: &str| {
            let path = project.path().join("agents/reviewer.md");
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let front = "---\nname: reviewer\ndescription: d\n---\n";
            fs::write(path, format!("{front}{text}\n")).unwrap();
        };
        persona("One.");
        write_workflow(project.path(), "workflows/w.md", "d");
        let definitions = LiveDefinitions::new(project_places(project.path()));
        definitions.last_loaded_registry();
        persona("Two.");
        let definition = definitions.definition("w").unwrap();
        let personas: Vec<_> = definition.personas.values().collect();
        assert_eq!(personas.len(), 1);
        assert!(personas[0].content.contains("Two."));
    }

    #[test]
    fn reload_parses_only_changed_files() {
        let project = tempfile::tempdir().unwrap();
        for number in 0..20 {
            write_workflow(project.path(), &format!("workflows/w{number:02}.md"), "one");
        }
        let places = project_places(project.path());
        let first = Registry::load(&places.sources());
        assert_eq!(first.reload(&places.sources()).parsed_file_count(), 0);
        write_workflow(project.path(), "workflows/w07.md", "two");
        let second = first.reload(&places.sources());
        assert_eq!(second.parsed_file_count(), 1);
        assert_eq!(workflow_description(&second, "w07").as_deref(), Some("two"));
        assert_eq!(workflow_description(&second, "w08").as_deref(), Some("one"));

        // An agent that steps can refer to from now on may fix or break any workflow.
        let agent = "---\nname: reviewer\ndescription: d\n---\nMine.\n";
        fs::create_dir_all(project.path().join("agents")).unwrap();
        fs::write(project.path().join("agents/own.md"), agent.replace("reviewer", "own")).unwrap();
        let third = second.reload(&places.sources());
        assert!(third.parsed_file_count() > 20, "{}", third.parsed_file_count());
        // A change of an agent's text affects only the workflows that refer to it.
        fs::write(project.path().join("agents/reviewer.md"), agent).unwrap();
        let fourth = third.reload(&places.sources());
        let users = fourth.workflows().filter_map(|entry| entry.value.as_ref());
        let users = users.filter(|definition| {
            definition.personas.keys().any(|name| name.as_str() == "reviewer")
        });
        assert_eq!(fourth.parsed_file_count(), 1 + users.count());
        assert!(fourth.parsed_file_count() < third.parsed_file_count());
    }

    #[tokio::test]
    async fn watching_ends_when_definitions_drop() {
        let project = tempfile::tempdir().unwrap();
        let definitions = LiveDefinitions::new(project_places(project.path()));
        definitions.start_watching();
        definitions.start_watching();
        let mut changes = definitions.change_counter();
        drop(definitions);
        let end = tokio::time::timeout(WAIT_MAX, changes.changed()).await;
        assert!(end.expect("the thread ends").is_err(), "and lets go of all");
    }
}
