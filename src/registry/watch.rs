//! Watches the directories of definition files. `notify` is named here alone.
//!
//! Each directory is watched by itself and by its real path, never a whole tree: so exactly those are
//! watched that are read, within the limits that hold for reading, and one directory has one watch by
//! whatever links it is reached. Every round arms all of them again: a directory that was replaced by
//! another of the same name has lost its watch, and arming what is armed costs little.

use std::{
    collections::{BTreeSet, HashMap, hash_map::Entry},
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use notify::{
    Error, ErrorKind, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode},
    recommended_watcher,
};

use super::watch_points;
use crate::limits;

/// The names to watch in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Interest {
    /// All of them: it holds definitions.
    Everything,
    /// These: a directory of definitions may appear there.
    Names(BTreeSet<OsString>),
}

impl Interest {
    fn add(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Names(names), Self::Names(more)) => names.extend(more.iter().cloned()),
            (_, Self::Everything) => *self = Self::Everything,
            (Self::Everything, Self::Names(_)) => {}
        }
    }
}

/// The names to watch, by the real path of their directory.
#[derive(Debug, Default)]
struct Interests(HashMap<PathBuf, Interest>);

impl Interests {
    /// Whether the directory is new.
    fn add(&mut self, directory: &Path, interest: &Interest) -> bool {
        match self.0.entry(directory.to_owned()) {
            Entry::Occupied(mut known) => {
                known.get_mut().add(interest);
                false
            }
            Entry::Vacant(vacant) => {
                vacant.insert(interest.clone());
                true
            }
        }
    }

    fn concerns(&self, event: &notify::Result<Event>) -> bool {
        let Ok(event) = event else {
            // What was not understood may have been anything.
            return true;
        };
        let is_change = match event.kind {
            // Cached the definitions opens and closes every one of them.
            EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
            _ => true,
        };
        is_change && (event.need_rescan() || event.paths.iter().any(|path| self.matter(path)))
    }

    fn matter(&self, path: &Path) -> bool {
        let inside = || match self.0.get(path.parent()?)? {
            Interest::Everything => Some(true),
            Interest::Names(names) => Some(names.contains(path.file_name()?)),
        };
        self.0.contains_key(path) || inside().unwrap_or(false)
    }
}

/// Watches directories and reports changes in them.
pub(super) struct Watch {
    watcher: RecommendedWatcher,
    interests: Arc<Mutex<Interests>>,
}

impl Watch {
    /// Watches nothing yet. `notice` is called from a thread of its own, often, and must be quick.
    ///
    /// # Errors
    /// Why the system gives no watch.
    pub(super) fn new(notice: impl Fn() + Send + 'static) -> Result<Self, String> {
        let interests = Arc::new(Mutex::new(Interests::default()));
        let known = interests.clone();
        let watcher = recommended_watcher(move |event| {
            let concerns = lock(&known).concerns(&event);
            if concerns {
                notice();
            }
        });
        match watcher {
            Ok(watcher) => Ok(Self { watcher, interests }),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Begins a round that states anew all that is to be watched.
    pub(super) fn round(&mut self) -> Round<'_> {
        Round {
            watch: self,
            wanted: Interests::default(),
            trouble: None,
            again: false,
        }
    }
}

/// A statement of everything that is to be watched; the watches of the previous round stay until [`Round::finish`].
pub(super) struct Round<'a> {
    watch: &'a mut Watch,
    wanted: Interests,
    trouble: Option<String>,
    again: bool,
}

/// The result of a round.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Watched {
    /// Why some directories are not watched.
    pub(super) trouble: Option<String>,
    /// A change may have been missed meanwhile: load once more.
    pub(super) again: bool,
}

impl Round<'_> {
    /// States that a directory of definitions may be at `path`, now or later.
    pub(super) fn candidate(&mut self, path: &Path) {
        let mut points = watch_points::of(path);
        // What comes to be there between the look and the watch gives no notice: look once more.
        for _ in 0..3 {
            for (directory, name) in &points {
                let names = BTreeSet::from([name.clone()]);
                self.want(directory, &Interest::Names(names));
            }
            let now = watch_points::of(path);
            if now == points {
                return;
            }
            points = now;
        }
        self.again = true;
    }

    /// States that the directory with this real path holds definitions.
    pub(super) fn directory(&mut self, real: &Path) {
        self.want(real, &Interest::Everything);
    }

    fn want(&mut self, directory: &Path, interest: &Interest) {
        let max = limits::WATCHED_DIRECTORIES_MAX;
        if self.wanted.0.len() >= max && !self.wanted.0.contains_key(directory) {
            let trouble = || format!("there are more than {max} directories");
            self.trouble.get_or_insert_with(trouble);
            return;
        }
        // Not held while arming: that waits for the thread which waits for this lock with its events.
        lock(&self.watch.interests).add(directory, interest);
        if self.wanted.add(directory, interest) {
            self.arm(directory);
        }
    }

    fn arm(&mut self, directory: &Path) {
        let armed = (self.watch.watcher).watch(directory, RecursiveMode::NonRecursive);
        if let Err(error) = armed
            && !is_gone(&error)
        {
            self.trouble.get_or_insert_with(|| error.to_string());
        }
    }

    /// Removes the watches that this round did not state. A directory that was renamed has one watch
    /// under two names, and the name that is given up takes it from the other: the next round, which
    /// is asked for then, gives it back.
    pub(super) fn finish(mut self) -> Watched {
        let mut interests = lock(&self.watch.interests);
        let before = std::mem::replace(&mut *interests, std::mem::take(&mut self.wanted));
        let mut unwanted = before.0;
        unwanted.retain(|path, _| !interests.0.contains_key(path));
        drop(interests);
        for path in unwanted.keys() {
            // It may be gone, and its watch with it.
            let _ = self.watch.watcher.unwatch(path);
        }
        Watched {
            again: self.again || !unwanted.is_empty(),
            trouble: self.trouble,
        }
    }
}

/// Of a directory that is gone its parent gives notice.
fn is_gone(error: &Error) -> bool {
    match &error.kind {
        ErrorKind::PathNotFound => true,
        ErrorKind::Io(error) => error.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

fn lock(interests: &Mutex<Interests>) -> MutexGuard<'_, Interests> {
    interests.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::mpsc, time::Duration};

    use notify::event::{CreateKind, DataChange, Flag, ModifyKind, RemoveKind};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn interests() -> Interests {
        let mut interests = Interests::default();
        let names = |name: &str| Interest::Names(BTreeSet::from([name.into()]));
        assert!(interests.add(Path::new("/p"), &names("workflows")));
        assert!(!interests.add(Path::new("/p"), &names("agents")));
        assert!(interests.add(Path::new("/p/workflows"), &names("x")));
        assert!(!interests.add(Path::new("/p/workflows"), &Interest::Everything));
        assert!(!interests.add(Path::new("/p/workflows"), &names("y")));
        interests
    }

    #[test]
    fn only_what_may_change_definitions_is_of_interest() {
        let interests = interests();
        let concerns = |kind, path: &str| {
            let event = Event::new(kind).add_path(PathBuf::from(path));
            interests.concerns(&Ok(event))
        };
        let created = EventKind::Create(CreateKind::Any);
        let modified = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let removed = EventKind::Remove(RemoveKind::Any);
        for kind in [created, modified, removed] {
            assert!(concerns(kind, "/p/workflows"));
            assert!(concerns(kind, "/p/agents"));
            assert!(concerns(kind, "/p"));
            assert!(concerns(kind, "/p/workflows/w.md"));
            assert!(!concerns(kind, "/p/src"));
            assert!(!concerns(kind, "/p/agents/deep"), "not watched yet");
            assert!(!concerns(kind, "/"));
        }
        let closed = |mode| EventKind::Access(AccessKind::Close(mode));
        assert!(concerns(closed(AccessMode::Write), "/p/workflows/w.md"));
        assert!(!concerns(closed(AccessMode::Read), "/p/workflows/w.md"));
        let opened = EventKind::Access(AccessKind::Open(AccessMode::Any));
        assert!(!concerns(opened, "/p/workflows/w.md"));
        let lost = Event::new(EventKind::Other).set_flag(Flag::Rescan);
        assert!(interests.concerns(&Ok(lost)), "events were lost");
        assert!(interests.concerns(&Err(Error::generic("any"))));
        assert!(!interests.concerns(&Ok(Event::new(EventKind::Other))));
    }

    /// A watch, and what it noticed.
    fn watch() -> (Watch, mpsc::Receiver<()>) {
        let (send, receive) = mpsc::channel();
        let notice = move || {
            let _ = send.send(());
        };
        (Watch::new(notice).unwrap(), receive)
    }

    #[test]
    fn so_many_directories_are_watched_and_no_more() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let directories: Vec<_> = (0..=limits::WATCHED_DIRECTORIES_MAX)
            .map(|number| root.join(number.to_string()))
            .collect();
        for directory in &directories {
            fs::create_dir(directory).unwrap();
        }
        let (mut watch, noticed) = watch();
        let mut follow = |directories: &[PathBuf]| {
            let mut round = watch.round();
            for directory in directories {
                round.directory(directory);
            }
            round.finish()
        };
        let (last, others) = directories.split_last().unwrap();
        assert_eq!(follow(others), Watched::default());
        let full = follow(&directories);
        assert!(full.trouble.unwrap().contains("1000"));
        assert!(!full.again);
        assert!(!lock(&watch.interests).0.contains_key(last));
        fs::write(others.last().unwrap().join("x"), "").unwrap();
        noticed.recv_timeout(PATIENCE).unwrap();
    }

    #[test]
    fn what_is_no_longer_wanted_is_let_go_and_asks_for_another_round() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for name in ["a", "b"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        let (mut watch, noticed) = watch();
        let mut follow = |path: &str| {
            let mut round = watch.round();
            round.directory(&root.join(path));
            round.finish().again
        };
        assert!(!follow("a"));
        // One inode, one watch, two names: the name that goes takes the watch with it.
        fs::rename(root.join("a"), root.join("c")).unwrap();
        noticed.recv_timeout(PATIENCE).unwrap();
        assert!(follow("c"));
        assert!(!follow("c"));
        while noticed.try_recv().is_ok() {}
        fs::write(root.join("c/x"), "").unwrap();
        noticed.recv_timeout(PATIENCE).unwrap();
    }
}
