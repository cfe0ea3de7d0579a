//! The data file or the lock file is removed, replaced or cut while the store is open: nothing is acknowledged any
//! more, and the answer says so.

use std::{
    fs, io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use midex_domain::error::{Code, Error};
use midex_engine::store::{FileHook, FileOperation, Options, RedbStore, Store};

use super::{failure::Saboteur, script::Script};

struct Scene {
    directory: tempfile::TempDir,
    store: RedbStore,
    tale: Script,
}

impl Scene {
    async fn new() -> Self {
        Self::with(Options::default()).await
    }

    async fn with(options: Options) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = RedbStore::open(directory.path(), options).unwrap();
        let mut tale = Script::new("one", 90);
        tale.commit_steps(&store, 3).await;
        Self { directory, store, tale }
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("executions.redb")
    }

    fn lock(&self) -> PathBuf {
        self.directory.path().join("executions.lock")
    }

    /// The next transition is refused for what happened to the file at `path`, and so is all that follows.
    async fn is_lost(&mut self, path: &Path, what: &str) {
        let error = self.tale.commit_step(&self.store).await.unwrap_err();
        is_lost(&error, path, what);
        let commits = self.store.counts().commits;
        is_lost(&self.tale.commit_step(&self.store).await.unwrap_err(), path, what);
        is_lost(&self.store.load(&self.tale.id).await.unwrap_err(), path, what);
        assert_eq!(self.store.counts().commits, commits);
    }
}

fn is_lost(error: &Error, path: &Path, what: &str) {
    assert_eq!(error.code(), Code::StoreLost, "{error:?}");
    let path = path.to_str().unwrap();
    for part in [path, what] {
        assert!(error.message().contains(part), "{part}: {error:?}");
    }
    let action = error.suggested_action();
    let puts_back = !path.ends_with("executions.lock");
    assert_eq!(action.contains("put"), puts_back, "{action}");
    assert!(action.contains(path), "{action}");
}

#[tokio::test]
async fn a_file_that_was_removed_takes_nothing_more() {
    let mut scene = Scene::new().await;
    fs::remove_file(scene.data()).unwrap();
    scene.is_lost(&scene.data(), "was removed or moved").await;
    // Whoever comes next begins anew: there is nothing to go on with.
    scene.store.close().await.unwrap();
    let store = RedbStore::open(scene.directory.path(), Options::default()).unwrap();
    assert!(store.load(&scene.tale.id).await.unwrap().is_none());
}

#[tokio::test]
async fn a_file_that_was_moved_away_can_be_moved_back() {
    let mut scene = Scene::new().await;
    let aside = scene.directory.path().join("aside");
    fs::rename(scene.data(), &aside).unwrap();
    let before = fs::read(&aside).unwrap();
    scene.is_lost(&scene.data(), "was removed or moved").await;
    scene.store.close().await.unwrap();
    assert!(fs::read(&aside).unwrap() == before, "nothing is written to it");
    fs::rename(&aside, scene.data()).unwrap();
    let store = RedbStore::open(scene.directory.path(), Options::default()).unwrap();
    scene.tale.check_store(&store).await;
}

#[tokio::test]
async fn a_file_that_was_replaced_is_another() {
    let mut scene = Scene::new().await;
    let copy = scene.directory.path().join("copy");
    fs::copy(scene.data(), &copy).unwrap();
    fs::rename(&copy, scene.data()).unwrap();
    let before = fs::read(scene.data()).unwrap();
    scene.is_lost(&scene.data(), "was replaced").await;
    scene.store.close().await.unwrap();
    assert!(fs::read(scene.data()).unwrap() == before);
    let store = RedbStore::open(scene.directory.path(), Options::default()).unwrap();
    scene.tale.check_store(&store).await;
}

#[tokio::test]
async fn a_file_that_was_cut_is_left_as_it_is() {
    for cut in [0, 8 << 10, u64::MAX] {
        let mut scene = Scene::new().await;
        let bytes = fs::metadata(scene.data()).unwrap().len();
        let file = fs::OpenOptions::new().write(true).open(scene.data());
        file.unwrap().set_len(cut.min(bytes - 1)).unwrap();
        let before = fs::read(scene.data()).unwrap();
        scene.is_lost(&scene.data(), "was cut from").await;
        drop(scene.store);
        assert!(fs::read(scene.directory.path().join("executions.redb")).unwrap() == before);
    }
}

#[tokio::test]
async fn a_file_with_something_behind_its_end_is_the_same() {
    let mut scene = Scene::new().await;
    let bytes = fs::metadata(scene.data()).unwrap().len();
    let file = fs::OpenOptions::new().write(true).open(scene.data()).unwrap();
    file.write_all_at(b"x", bytes + 4095).unwrap();
    scene.tale.commit_step(&scene.store).await.unwrap();
    scene.tale.check_store(&scene.store).await;
}

/// Without the lock file another server may own another store by now.
#[tokio::test]
async fn a_server_whose_lock_was_removed_owns_nothing() {
    let mut scene = Scene::new().await;
    fs::remove_file(scene.lock()).unwrap();
    scene.is_lost(&scene.lock(), "was removed or moved").await;
    let mut scene = Scene::new().await;
    fs::remove_file(scene.lock()).unwrap();
    fs::remove_file(scene.data()).unwrap();
    let second = RedbStore::open(scene.directory.path(), Options::default()).unwrap();
    let mut other = Script::new("other", 9);
    other.commit_steps(&second, 2).await;
    scene.is_lost(&scene.data(), "was replaced").await;
    scene.store.close().await.unwrap();
    other.commit_steps(&second, 2).await;
    other.check_store(&second).await;
}

/// What a commit wrote into a file that lost its name meanwhile is stored nowhere.
#[tokio::test]
async fn a_file_that_is_removed_during_a_commit_acknowledges_nothing() {
    let removed = Arc::new(Mutex::new(None::<PathBuf>));
    let hook = {
        let removed = Arc::clone(&removed);
        FileHook::new(move |operation| {
            if operation == FileOperation::Sync
                && let Some(path) = removed.lock().unwrap().take()
            {
                fs::remove_file(path)?;
            }
            Ok(())
        })
    };
    let options = Options { hook: Some(hook), ..Options::default() };
    let mut scene = Scene::with(options).await;
    *removed.lock().unwrap() = Some(scene.data());
    scene.is_lost(&scene.data(), "was removed or moved").await;
}

/// A database that has to be opened again is the one that was open, or none.
#[tokio::test]
async fn another_file_is_not_opened_after_a_failure() {
    let saboteur = Saboteur::default();
    let all = |operation: FileOperation<'_>| !matches!(operation, FileOperation::Reserve(_));
    let options =
        Options { hook: Some(saboteur.hook(all, io::ErrorKind::Other)), ..Options::default() };
    let mut scene = Scene::with(options).await;
    let copy = scene.directory.path().join("copy");
    fs::copy(scene.data(), &copy).unwrap();
    saboteur.arm(0, i64::MAX);
    let error = scene.tale.commit_step(&scene.store).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable, "{error:?}");
    fs::rename(&copy, scene.data()).unwrap();
    saboteur.disarm();
    while scene.tale.commit_step(&scene.store).await.unwrap_err().code() != Code::StoreLost {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    scene.is_lost(&scene.data(), "was replaced").await;
}
