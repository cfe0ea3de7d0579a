//! The data file is written anew after a failed sync: in a real directory, step by step.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use midex_domain::error::Code;
use midex_engine::store::{FileHook, FileOperation, Options, RedbStore, Store};

use super::{
    failure::{Saboteur, back, open},
    script::Script,
};

fn syncs(operation: FileOperation<'_>) -> bool {
    operation == FileOperation::Sync
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

/// What the lock says of the data file.
fn said(directory: &Path) -> String {
    let text = fs::read_to_string(directory.join("executions.lock")).unwrap();
    text.trim_end().to_owned()
}

fn names(path: &Path) -> String {
    let file = fs::metadata(path).unwrap();
    format!("{}:{}", file.dev(), file.ino())
}

fn listed(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Whether the transition that was refused was stored is not known: the store says.
async fn learn(tale: &mut Script, store: &RedbStore) {
    let stored = store.load(&tale.id).await.unwrap().unwrap();
    let known = tale.rows.len();
    let history = store.load_history(&tale.id).await.unwrap();
    assert_eq!(history[..known], tale.rows);
    assert!(history.len() <= known + 1);
    tale.rows = history;
    tale.execution = Some(stored.execution);
    tale.position = stored.position;
}

/// A store of three steps on which the next sync fails.
async fn failing(directory: &Path) -> (RedbStore, Saboteur, Script) {
    let saboteur = Saboteur::default();
    let store = open(directory, saboteur.hook(syncs, io::ErrorKind::Other), 1);
    let mut tale = Script::new("one", 90);
    tale.commit_steps(&store, 3).await;
    (store, saboteur, tale)
}

#[tokio::test]
async fn another_file_takes_the_place_of_one_that_failed_to_sync() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("executions.redb");
    let (store, saboteur, mut tale) = failing(directory.path()).await;
    assert_eq!(said(directory.path()), names(&path));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let before = inode(&path);
    saboteur.arm(0, 1);
    let error = tale.commit_step(&store).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable);
    learn(&mut tale, &store).await;
    tale.commit_step(&store).await.unwrap();
    tale.check_store(&store).await;
    assert_ne!(inode(&path), before);
    assert_eq!(said(directory.path()), names(&path), "the lock names the new one");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(listed(directory.path()), ["executions.lock", "executions.redb"]);
    // Nobody else may have the new one either.
    let other = RedbStore::open(directory.path(), Options::default()).unwrap_err();
    assert_eq!(other.code(), Code::StoreBusy);
    store.close().await.unwrap();
    let store = RedbStore::open(directory.path(), Options::default()).unwrap();
    tale.check_store(&store).await;
}

#[tokio::test]
async fn a_write_that_fails_needs_no_other_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("executions.redb");
    let saboteur = Saboteur::default();
    let writes = |operation: FileOperation<'_>| matches!(operation, FileOperation::Write { .. });
    let hook = saboteur.hook(writes, io::ErrorKind::Other);
    let store = open(directory.path(), hook, 1);
    let mut tale = Script::new("one", 9);
    tale.commit_steps(&store, 3).await;
    let before = inode(&path);
    saboteur.arm(0, 1);
    tale.commit_step(&store).await.unwrap_err();
    back(&store, &tale).await;
    learn(&mut tale, &store).await;
    tale.commit_step(&store).await.unwrap();
    assert_eq!(inode(&path), before);
}

/// A process that could not write the content anew leaves it to the next one.
#[tokio::test]
async fn a_failed_sync_is_known_to_the_next_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("executions.redb");
    let (store, saboteur, mut tale) = failing(directory.path()).await;
    let before = inode(&path);
    saboteur.arm(0, i64::MAX);
    tale.commit_step(&store).await.unwrap_err();
    let error = tale.commit_step(&store).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable);
    for part in ["written anew", path.to_str().unwrap()] {
        assert!(error.message().contains(part), "{error:?}");
    }
    let action = error.suggested_action();
    assert!(action.contains("disk of"), "{action}");
    assert_eq!(store.load(&tale.id).await.unwrap_err().code(), Code::StoreUnavailable);
    drop(store);
    assert_eq!(inode(&path), before, "the old one is still there");
    assert_eq!(said(directory.path()), format!("{} unsynced", names(&path)));
    let store = RedbStore::open(directory.path(), Options::default()).unwrap();
    assert_ne!(inode(&path), before);
    assert_eq!(said(directory.path()), names(&path));
    learn(&mut tale, &store).await;
    tale.commit_step(&store).await.unwrap();
    drop(store);
    let after = inode(&path);
    let store = RedbStore::open(directory.path(), Options::default()).unwrap();
    assert_eq!(inode(&path), after, "once is enough");
    tale.check_store(&store).await;
}

/// What stands in the directory before each thing that is done after a sync has failed: what a process that is killed
/// there leaves to the next one.
#[tokio::test]
async fn a_process_may_end_at_each_step() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().to_owned();
    let (armed, states) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let hook = {
        let (armed, states, here) = (Arc::clone(&armed), Arc::clone(&states), here.clone());
        let failed = AtomicBool::new(false);
        FileHook::new(move |operation| {
            if !armed.load(Ordering::SeqCst) {
                return Ok(());
            }
            if syncs(operation) && !failed.swap(true, Ordering::SeqCst) {
                return Err(io::ErrorKind::Other.into());
            }
            if failed.load(Ordering::SeqCst) && operation != FileOperation::Read {
                states.lock().unwrap().push(taken(&here));
            }
            Ok(())
        })
    };
    let store = open(&here, hook, 16);
    let mut tale = Script::new("one", 90);
    tale.commit_steps(&store, 20).await;
    armed.store(true, Ordering::SeqCst);
    tale.commit_step(&store).await.unwrap_err();
    back(&store, &tale).await;
    drop(store);
    let states = std::mem::take(&mut *states.lock().unwrap());
    assert!(states.len() > 8, "{}", states.len());
    let renamed = names(&here.join("executions.redb"));
    let mut files = [0, 0];
    for state in states {
        files[usize::from(state.inode == renamed)] += 1;
        let mut tale = tale.duplicate();
        let store = RedbStore::open(state.directory.path(), Options::default()).unwrap();
        learn(&mut tale, &store).await;
        tale.commit_step(&store).await.unwrap();
        tale.check_store(&store).await;
        store.close().await.unwrap();
        let left = listed(state.directory.path());
        assert_eq!(left, ["executions.lock", "executions.redb"]);
    }
    assert!(files[0] > 4 && files[1] > 0, "{files:?}");
}

struct State {
    directory: tempfile::TempDir,
    /// Which data file it was.
    inode: String,
}

fn taken(from: &Path) -> State {
    let directory = tempfile::tempdir().unwrap();
    for name in listed(from) {
        fs::copy(from.join(&name), directory.path().join(&name)).unwrap();
    }
    let inode = names(&from.join("executions.redb"));
    State { directory, inode }
}

/// Each step fails once, and is done again from the beginning.
#[tokio::test]
async fn each_step_may_fail() {
    for at in 0.. {
        let directory = tempfile::tempdir().unwrap();
        let (failed, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let armed = Arc::new(AtomicBool::new(false));
        let hook = {
            let (failed, count, armed) =
                (Arc::clone(&failed), Arc::clone(&count), Arc::clone(&armed));
            FileHook::new(move |operation| {
                if !armed.load(Ordering::SeqCst) {
                    return Ok(());
                }
                if syncs(operation) && !failed.swap(true, Ordering::SeqCst) {
                    return Err(io::ErrorKind::Other.into());
                }
                let counts = failed.load(Ordering::SeqCst)
                    && !matches!(operation, FileOperation::Reserve(_));
                if counts && count.fetch_add(1, Ordering::SeqCst) == at {
                    return Err(io::ErrorKind::Other.into());
                }
                Ok(())
            })
        };
        let store = open(directory.path(), hook, 1);
        let mut tale = Script::new("one", 90);
        tale.commit_steps(&store, 3).await;
        armed.store(true, Ordering::SeqCst);
        tale.commit_step(&store).await.unwrap_err();
        back(&store, &tale).await;
        if count.load(Ordering::SeqCst) <= at {
            assert!(at > 8, "{at}");
            return;
        }
        learn(&mut tale, &store).await;
        tale.commit_step(&store).await.unwrap();
        tale.check_store(&store).await;
        drop(store);
        assert_eq!(listed(directory.path()), ["executions.lock", "executions.redb"]);
    }
}

#[tokio::test]
async fn through_a_link_the_file_itself_is_written_anew() {
    let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    drop(RedbStore::open(elsewhere.path(), Options::default()).unwrap());
    let file: PathBuf = elsewhere.path().join("executions.redb");
    let link = directory.path().join("executions.redb");
    symlink(&file, &link).unwrap();
    let before = inode(&file);
    let (store, saboteur, mut tale) = failing(directory.path()).await;
    saboteur.arm(0, 1);
    tale.commit_step(&store).await.unwrap_err();
    learn(&mut tale, &store).await;
    assert_ne!(inode(&file), before);
    assert!(link.is_symlink());
    assert_eq!(inode(&link), inode(&file));
}

/// Damage in what a failed sync left is told as damage, and the file stays as it is.
#[tokio::test]
async fn content_that_is_damaged_is_not_put_in_place() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("executions.redb");
    let (store, saboteur, mut tale) = failing(directory.path()).await;
    saboteur.arm(0, i64::MAX);
    tale.commit_step(&store).await.unwrap_err();
    drop(store);
    let mut bytes = fs::read(&path).unwrap();
    bytes[4096..].fill(0xaa);
    fs::write(&path, &bytes).unwrap();
    let before = inode(&path);
    let error = RedbStore::open(directory.path(), Options::default()).unwrap_err();
    assert_eq!(error.code(), Code::StoreCorrupt, "{error:?}");
    assert_eq!(error.context("path").unwrap().as_str(), path.to_str());
    assert_eq!(inode(&path), before);
    assert!(fs::read(&path).unwrap() == bytes, "not a byte has changed");
    let copy = error.context("copy").unwrap().as_str().unwrap().to_owned();
    let copy = Path::new(&copy).file_name().unwrap().to_str().unwrap();
    let left = listed(directory.path());
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(left.iter().any(|name| name == copy), "{left:?}");
}
