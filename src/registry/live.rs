//! The registry of the moment: reloaded when files change.

use std::{
    collections::BTreeSet,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::sync::watch;

use super::{Places, Registry, difference, pending::PendingChanges, watch::Watch};
use crate::{
    domain::{check::Abilities, definition::Definition},
    error::Result,
    limits,
};

/// The registry as it stands, read anew when its files change. Before [`Definitions::watch`] it stays
/// as it was loaded.
pub struct Definitions {
    live: Arc<Live>,
}

impl fmt::Debug for Definitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Definitions")
            .field("places", &self.live.places)
            .finish_non_exhaustive()
    }
}

impl Definitions {
    /// Loads what is in these places, for a server that has nothing but midex. Reads files: not for a worker of an
    /// async runtime.
    pub fn new(places: Places) -> Self {
        Self::new_for(places, &Abilities::default())
    }

    /// The same for a server with these abilities.
    pub fn new_for(places: Places, abilities: &Abilities) -> Self {
        Self::unwatched_every(places, abilities, limits::RELOAD_UNWATCHED_EVERY)
    }

    fn unwatched_every(places: Places, abilities: &Abilities, unwatched_every: Duration) -> Self {
        let registry = Registry::load_for(&places.sources(), abilities);
        Self {
            live: Arc::new(Live {
                loaded: RwLock::new(Arc::new(registry)),
                places,
                pending: Arc::default(),
                watch: Mutex::default(),
                is_watching: AtomicBool::new(false),
                is_blind: AtomicBool::new(false),
                unwatched_every,
                version: watch::Sender::new(0),
            }),
        }
    }

    /// The registry as it was last loaded.
    pub fn loaded(&self) -> Arc<Registry> {
        self.live.loaded()
    }

    /// Whether a change was noticed that is not loaded yet.
    pub fn is_dirty(&self) -> bool {
        self.live.pending.is_pending()
    }

    /// The registry with every change that was noticed. Reads files where
    /// [`Definitions::is_dirty`]: then not for a worker of an async runtime.
    pub fn current(&self) -> Arc<Registry> {
        self.live.catch_up();
        self.live.loaded()
    }

    /// The definition for a start of this workflow. If changes are pending, only its own file is read again where that
    /// suffices; the rest is loaded in the background. Reads files where [`Definitions::is_dirty`]: then not for a worker of an
    /// async runtime.
    ///
    /// # Errors
    /// `WORKFLOW_NOT_FOUND`, `WORKFLOW_INVALID`.
    pub fn definition(&self, name: &str) -> Result<Arc<Definition>> {
        let now = self.is_dirty().then(|| self.loaded().definition_now(name));
        match now.flatten() {
            Some(definition) => Ok(definition),
            None => self.current().definition(name),
        }
    }

    /// Reads everything anew, noticed or not, and answers whether anything differs. Reads files: not
    /// for a worker of an async runtime.
    pub fn reload(&self) -> bool {
        let mut watch = self.live.lock();
        self.live.load(&mut watch)
    }

    /// Checks all that is loaded anew, for a server that brings these activities from now on. What the configuration says
    /// of secrets stays. Reads files: not for a worker of an async runtime.
    pub fn replace_activities(&self, activities: BTreeSet<String>) {
        // Nobody loads meanwhile.
        let _loading = self.live.lock();
        let before = self.loaded();
        let abilities = Abilities {
            activities,
            ..before.abilities().clone()
        };
        let after = Registry::load_after(before.sources(), &abilities, Some(&before), &mut |_| ());
        self.live.replace(&before, after);
    }

    /// A number that grows whenever what is loaded has changed: see [`Registry::same_as`].
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.live.version.subscribe()
    }

    /// Begins to notice changes and to load them in the background; ends when this is dropped. Where
    /// the system gives no watch, or not enough of them, everything is read anew every
    /// [`limits::RELOAD_UNWATCHED_EVERY`] instead.
    pub fn watch(&self) {
        let live = self.live.clone();
        if live.is_watching.swap(true, Ordering::Relaxed) {
            return;
        }
        let pending = live.pending.clone();
        match Watch::new(move || pending.add()) {
            Ok(watch) => *live.lock() = Some(watch),
            Err(trouble) => live.see(Some(&trouble)),
        }
        let follower = thread::Builder::new().name("midex-definitions".to_owned());
        if let Err(error) = follower.spawn(move || live.follow()) {
            tracing::warn!("changes to definitions are not followed in the background: {error}");
            // Then the next caller begins to watch.
            self.live.pending.add();
        }
    }
}

impl Drop for Definitions {
    fn drop(&mut self) {
        self.live.pending.close();
    }
}

struct Live {
    places: Places,
    loaded: RwLock<Arc<Registry>>,
    pending: Arc<PendingChanges>,
    /// Held during a load: there is one at a time.
    watch: Mutex<Option<Watch>>,
    is_watching: AtomicBool,
    /// Not everything is watched that should be.
    is_blind: AtomicBool,
    unwatched_every: Duration,
    version: watch::Sender<u64>,
}

impl Live {
    fn follow(&self) {
        // The first load was made without a watch.
        self.load(&mut self.lock());
        loop {
            let is_blind = self.is_blind.load(Ordering::Relaxed);
            if !self.pending.wait(is_blind.then_some(self.unwatched_every)) {
                return;
            }
            self.catch_up();
        }
    }

    fn catch_up(&self) {
        if !self.pending.is_pending() {
            return;
        }
        let mut watch = self.lock();
        // Somebody else may have loaded it meanwhile.
        if self.pending.is_pending() {
            self.load(&mut watch);
        }
    }

    fn load(&self, watch: &mut Option<Watch>) -> bool {
        // Changes counted from here on stay pending after this load, for it may have missed them.
        let count = self.pending.count();
        let before = self.loaded();
        // A text that brings a parser down must not end the following of all the others.
        let read = catch_unwind(AssertUnwindSafe(|| self.read(&before, watch)));
        if read.is_err() {
            tracing::error!("reading the definitions panicked; those loaded before stay");
        }
        let differs = read.is_ok_and(|after| self.replace(&before, after));
        self.pending.mark_loaded(count);
        differs
    }

    fn replace(&self, before: &Registry, after: Registry) -> bool {
        let differs = !after.same_as(before);
        let is_elsewhere = after.sources() != before.sources();
        if differs || is_elsewhere || after.abilities() != before.abilities() {
            *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(after);
        }
        if differs {
            difference::log(before, &self.loaded());
            self.version.send_modify(|version| *version += 1);
        }
        differs
    }

    fn read(&self, before: &Registry, watch: &mut Option<Watch>) -> Registry {
        let Some(watch) = watch else {
            return before.reload(&self.places.sources());
        };
        let mut round = watch.round();
        for path in self.places.candidates() {
            round.candidate(&path);
        }
        let mut visit = |directory: &_| round.directory(directory);
        let sources = self.places.sources();
        let after = Registry::load_after(&sources, before.abilities(), Some(before), &mut visit);
        let watched = round.finish();
        self.see(watched.trouble.as_deref());
        if watched.again {
            self.pending.add();
        }
        after
    }

    /// Records why not everything can be watched, and logs it when that begins.
    fn see(&self, trouble: Option<&str>) {
        let was_blind = self.is_blind.swap(trouble.is_some(), Ordering::Relaxed);
        if let (Some(trouble), false) = (trouble, was_blind) {
            let every = self.unwatched_every;
            tracing::warn!(
                "changes to definitions cannot all be noticed ({trouble}); all are read anew every {every:?}"
            );
        }
    }

    fn loaded(&self) -> Arc<Registry> {
        self.loaded
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Watch>> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn places(project: &Path) -> Places {
        Places {
            flag_workflows: None,
            flag_agents: None,
            project: project.to_owned(),
            user: None,
        }
    }

    fn write(project: &Path, path: &str, description: &str) {
        let path = project.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let name = path.file_stem().unwrap().display();
        let text = format!(
            "---\nname: {name}\ndescription: {description}\nphases:\n  - phase: a\n    agent: reviewer\n---\n"
        );
        fs::write(path, text).unwrap();
    }

    fn description(registry: &Registry, name: &str) -> Option<String> {
        let definition = registry.definition(name).ok()?;
        Some(definition.workflow.description.clone())
    }

    #[test]
    fn what_was_noticed_is_loaded_before_the_next_answer() {
        let project = tempfile::tempdir().unwrap();
        let definitions = Definitions::new(places(project.path()));
        let changes = definitions.changes();
        write(project.path(), "workflows/w.md", "one");
        assert!(!definitions.is_dirty(), "nobody watches");
        assert_eq!(description(&definitions.current(), "w"), None);

        definitions.live.pending.add();
        assert!(definitions.is_dirty());
        assert_eq!(description(&definitions.loaded(), "w"), None);
        let current = definitions.current();
        assert_eq!(description(&current, "w").as_deref(), Some("one"));
        assert!(!definitions.is_dirty());
        assert_eq!(*changes.borrow(), 1);
        assert_eq!(current.sources().workflows.len(), 1);

        definitions.live.pending.add();
        assert!(Arc::ptr_eq(&current, &definitions.current()), "no change");
        assert_eq!(*changes.borrow(), 1);
        write(project.path(), "workflows/w.md", "two");
        assert!(definitions.reload() && !definitions.reload());
        assert_eq!(*changes.borrow(), 2);
    }

    /// An empty directory shows nothing, but the next look must know of it.
    #[test]
    fn a_new_directory_without_definitions_is_no_change() {
        let project = tempfile::tempdir().unwrap();
        let definitions = Definitions::new(places(project.path()));
        fs::create_dir(project.path().join("agents")).unwrap();
        assert!(!definitions.reload());
        assert_eq!(definitions.loaded().sources().agents.len(), 1);
        assert_eq!(*definitions.changes().borrow(), 0);
    }

    #[test]
    fn a_start_looks_at_its_own_file_and_at_no_other() {
        let project = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            write(project.path(), &format!("workflows/{name}.md"), "one");
        }
        let definitions = Definitions::new(places(project.path()));
        let told = |name: &str| {
            let definition = definitions.definition(name).unwrap();
            definition.workflow.description.clone()
        };
        for name in ["a", "b"] {
            write(project.path(), &format!("workflows/{name}.md"), "two");
        }
        assert_eq!(told("a"), "one", "nobody noticed");
        definitions.live.pending.add();
        assert_eq!(told("a"), "two");
        let loaded = definitions.loaded();
        assert!(definitions.is_dirty(), "the rest is left to the background");
        assert_eq!(description(&loaded, "b").as_deref(), Some("one"));

        fs::write(project.path().join("workflows/a.md"), "broken").unwrap();
        assert_eq!(told("a"), "one", "the last good version that is loaded");
        assert!(definitions.is_dirty());

        write(project.path(), "workflows/new.md", "new");
        assert_eq!(told("new"), "new", "what is not known yet is looked for");
        assert!(!definitions.is_dirty());
        fs::remove_file(project.path().join("workflows/b.md")).unwrap();
        definitions.live.pending.add();
        let gone = definitions.definition("b").unwrap_err();
        assert_eq!(gone.code(), crate::error::Code::WorkflowNotFound);
    }

    #[test]
    fn a_start_takes_the_personas_of_its_agents_as_they_are_now() {
        let project = tempfile::tempdir().unwrap();
        let persona = |text: &str| {
            let path = project.path().join("agents/reviewer.md");
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let front = "---\nname: reviewer\ndescription: d\n---\n";
            fs::write(path, format!("{front}{text}\n")).unwrap();
        };
        persona("One.");
        write(project.path(), "workflows/w.md", "d");
        let definitions = Definitions::new(places(project.path()));
        persona("Two.");
        definitions.live.pending.add();
        let definition = definitions.definition("w").unwrap();
        let personas: Vec<_> = definition.personas.values().collect();
        assert_eq!(personas.len(), 1);
        assert!(personas[0].content.contains("Two."));
    }

    #[test]
    fn a_load_parses_what_changed() {
        let project = tempfile::tempdir().unwrap();
        for number in 0..20 {
            write(project.path(), &format!("workflows/w{number:02}.md"), "one");
        }
        let places = places(project.path());
        let first = Registry::load(&places.sources());
        assert_eq!(first.reload(&places.sources()).parsed(), 0);
        write(project.path(), "workflows/w07.md", "two");
        let second = first.reload(&places.sources());
        assert_eq!(second.parsed(), 1);
        assert_eq!(description(&second, "w07").as_deref(), Some("two"));
        assert_eq!(description(&second, "w08").as_deref(), Some("one"));

        // An agent that steps may name from now on may mend or break any workflow.
        let agent = "---\nname: reviewer\ndescription: d\n---\nMine.\n";
        fs::create_dir_all(project.path().join("agents")).unwrap();
        fs::write(
            project.path().join("agents/own.md"),
            agent.replace("reviewer", "own"),
        )
        .unwrap();
        let third = second.reload(&places.sources());
        assert!(third.parsed() > 20, "{}", third.parsed());
        // One that only says something else touches those that name it.
        fs::write(project.path().join("agents/reviewer.md"), agent).unwrap();
        let fourth = third.reload(&places.sources());
        let users = fourth.workflows().filter_map(|entry| entry.value.as_ref());
        let users = users.filter(|definition| {
            definition
                .personas
                .keys()
                .any(|name| name.as_str() == "reviewer")
        });
        assert_eq!(fourth.parsed(), 1 + users.count());
        assert!(fourth.parsed() < third.parsed());
    }

    #[tokio::test]
    async fn what_cannot_be_watched_is_read_now_and_then() {
        let project = tempfile::tempdir().unwrap();
        for number in 0..limits::WATCHED_DIRECTORIES_MAX {
            let directory = format!("workflows/d{number:04}");
            fs::create_dir_all(project.path().join(directory)).unwrap();
        }
        let every = Duration::from_millis(1);
        let definitions =
            Definitions::unwatched_every(places(project.path()), &Abilities::default(), every);
        let mut changes = definitions.changes();
        definitions.watch();
        let last = format!("workflows/d{:04}/w.md", limits::WATCHED_DIRECTORIES_MAX - 1);
        for text in ["one", "two"] {
            write(project.path(), &last, text);
            while description(&definitions.loaded(), "w").as_deref() != Some(text) {
                let change = tokio::time::timeout(PATIENCE, changes.changed());
                change.await.expect("it is read now and then").unwrap();
            }
        }
        assert!(definitions.live.is_blind.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn following_ends_with_the_definitions() {
        let project = tempfile::tempdir().unwrap();
        let definitions = Definitions::new(places(project.path()));
        definitions.watch();
        definitions.watch();
        let mut changes = definitions.changes();
        drop(definitions);
        let end = tokio::time::timeout(PATIENCE, changes.changed()).await;
        assert!(end.expect("the thread ends").is_err(), "and lets go of all");
    }
}
