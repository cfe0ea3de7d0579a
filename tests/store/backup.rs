//! Backups of a store that is in use: whole, verified, and never in the place of another file.

use std::{
    fs,
    io::ErrorKind,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use midex_domain::error::Code;
use midex_engine::store::{
    ExaminationProgress, FileOperation, MemoryStore, Options, RedbStore, Store,
};

use super::{
    failure::{Saboteur, open},
    pages::start_scripts,
    script::Script,
};

/// The names in a directory, sorted.
pub(super) fn listed(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Opens the file as the store of a directory of its own, and examines all of it.
pub(super) async fn opened(file: &Path) -> (tempfile::TempDir, RedbStore) {
    let directory = tempfile::tempdir().unwrap();
    fs::copy(file, directory.path().join("executions.redb")).unwrap();
    let options = Options { check_all: true, ..Options::default() };
    let store = RedbStore::open(directory.path(), options).unwrap();
    let mut progress = Some(ExaminationProgress::default());
    while let Some(from) = progress {
        progress = store.examine(from).await.unwrap().next_progress;
    }
    (directory, store)
}

/// A store with executions of different lengths, some of whose values have rows of their own.
pub(super) async fn filled(store: &RedbStore, count: usize) -> Vec<Script> {
    let mut scripts = start_scripts(store, count).await;
    for (at, script) in scripts.iter_mut().enumerate() {
        script.commit_steps(store, 1 + at % 5).await;
        script.commit_output(store, &format!("{at}").repeat(9_000)).await.unwrap();
    }
    scripts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_backup_beside_writers_has_all_that_was_acknowledged_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { snapshot_every: 16, redo_after: 0, ..Options::default() };
    let store = Arc::new(RedbStore::open(directory.path(), options).unwrap());
    let before = filled(&store, 40).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..8)
        .map(|number| {
            let (store, is_over) = (store.clone(), is_over.clone());
            tokio::spawn(async move {
                let (mut scripts, mut at) = (Vec::new(), 0);
                while !is_over.load(Ordering::SeqCst) {
                    let mut script = Script::new(&format!("writer-{number}-{at}"), 9);
                    script.commit_steps(&*store, 4).await;
                    scripts.push(script);
                    at += 1;
                }
                scripts
            })
        })
        .collect();
    let mut backups = Vec::new();
    for at in 0..3 {
        let mut marker = Script::new(&format!("marker-{at}"), 9);
        marker.commit_steps(&*store, 3).await;
        let target = directory.path().join(format!("backup-{at}.redb"));
        backups.push((store.back_up(target).await.unwrap(), marker));
    }
    is_over.store(true, Ordering::SeqCst);
    let mut written = Vec::new();
    for writer in writers {
        written.extend(writer.await.unwrap());
    }
    assert!(written.len() > 8, "{}", written.len());
    for (report, marker) in backups {
        assert_eq!(fs::metadata(&report.path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&report.path).unwrap().len(), report.bytes);
        let (_directory, copy) = opened(&report.path).await;
        marker.check_store(&copy).await;
        for script in &before {
            script.check_store(&copy).await;
        }
        let mut count = before.len() as u64 + 1;
        for script in &written {
            // What was written meanwhile is there up to some row of it.
            let rows = copy.load_history(&script.id).await.unwrap();
            assert!(script.rows.starts_with(&rows), "{}", script.id);
            count += u64::from(!rows.is_empty());
        }
        let markers = report.path.to_string_lossy().contains("backup-1").into();
        let markers = if report.path.to_string_lossy().contains("backup-2") { 2 } else { markers };
        assert_eq!(report.executions, count + markers);
        copy.close().await.unwrap();
    }
    store.close().await.unwrap();
    let left = ["backup-0.redb", "backup-1.redb", "backup-2.redb", "executions.lock"];
    assert_eq!(listed(directory.path())[..4], left);
    assert_eq!(listed(directory.path()).len(), 5, "{:?}", listed(directory.path()));
}

#[tokio::test]
async fn a_backup_takes_the_place_of_nothing() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let store = RedbStore::open(&data, Options::default()).unwrap();
    let script = &filled(&store, 3).await[0];
    let at = |name: &str| home.path().join(name);
    fs::write(at("file"), "mine").unwrap();
    fs::create_dir(at("directory")).unwrap();
    symlink(at("nowhere"), at("dangling")).unwrap();
    symlink(&data, at("way")).unwrap();
    symlink(data.join("executions.redb"), at("link")).unwrap();
    fs::hard_link(data.join("executions.redb"), at("hard")).unwrap();
    let before = listed(home.path());
    for (target, code) in [
        (data.join("executions.redb"), Code::FileExists),
        (data.join("executions.redo"), Code::FileExists),
        (at("way/executions.redb"), Code::FileExists),
        (at("data/../data/executions.redb.new"), Code::FileExists),
        (at("link"), Code::FileExists),
        (at("hard"), Code::FileExists),
        (at("file"), Code::FileExists),
        (at("directory"), Code::FileExists),
        (at("dangling"), Code::FileExists),
        (at("missing/file"), Code::FileUnusable),
        (at("file/below"), Code::FileUnusable),
        (at(".."), Code::FileUnusable),
    ] {
        let error = store.back_up(target.clone()).await.unwrap_err();
        assert_eq!(error.code(), code, "{}: {error:?}", target.display());
        let names_target = error.context("path").and_then(|path| path.as_str()) == target.to_str();
        assert!(names_target, "{}: {error:?}", target.display());
        let is_store = ["executions", "link", "hard"].iter().any(|name| target.ends_with(name));
        assert!(!is_store || error.message().contains("the store itself"), "{error:?}");
    }
    assert_eq!(listed(home.path()), before);
    assert_eq!(listed(&data), ["executions.lock", "executions.redb"]);
    assert_eq!(fs::read(at("file")).unwrap(), b"mine");
    script.check_store(&store).await;
    // Two at once: one wins, and what it wrote is whole.
    let target = at("twice");
    let (one, two) = tokio::join!(store.back_up(target.clone()), store.back_up(target.clone()));
    assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
    assert_eq!(one.and(two).unwrap_err().code(), Code::FileExists);
    script.check_store(&opened(&target).await.1).await;
    let error = MemoryStore::new().back_up(at("memory")).await.unwrap_err();
    assert_eq!(error.code(), Code::FileUnusable);
    store.close().await.unwrap();
    let error = store.back_up(at("closed")).await.unwrap_err();
    assert_eq!((error.code(), error.is_retryable()), (Code::StoreUnavailable, true));
}

/// A disk that is full at each operation in turn: nothing is left, the store is unharmed, and the next backup is whole.
#[tokio::test]
async fn a_backup_that_fails_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let (data, target) = (home.path().join("data"), home.path().join("backup.redb"));
    let saboteur = Saboteur::default();
    let writes = |operation: FileOperation<'_>| operation != FileOperation::Read;
    let store = open(&data, saboteur.hook(writes, ErrorKind::StorageFull), 1);
    let mut scripts = filled(&store, 4).await;
    let mut failures = 0;
    for at in 0.. {
        saboteur.arm(at, 1);
        let made = store.back_up(target.clone()).await;
        let is_over = saboteur.failed() == 0;
        saboteur.disarm();
        match made {
            Ok(_) => {
                let (_directory, copy) = opened(&target).await;
                scripts[0].check_store(&copy).await;
                fs::remove_file(&target).unwrap();
            }
            Err(error) => {
                failures += 1;
                let codes = [Code::StoreFull, Code::StoreUnavailable, Code::FileUnusable];
                assert!(codes.contains(&error.code()), "{at}: {error:?}");
            }
        }
        assert_eq!(listed(home.path()), ["data"], "{at}");
        // The writer may fold its log meanwhile.
        let names: Vec<_> =
            listed(&data).into_iter().filter(|name| name != "executions.redo").collect();
        assert_eq!(names, ["executions.lock", "executions.redb"], "{at}");
        if is_over {
            break;
        }
    }
    assert!(failures > 20, "{failures}");
    assert_eq!(store.counts().reopenings, 0, "the store itself never failed");
    scripts[0].commit_step(&store).await.unwrap();
    scripts[0].check_store(&store).await;
}

/// A process that is killed in the middle of a backup leaves a draft in a directory of its user's.
#[tokio::test]
async fn the_next_opening_removes_the_draft_of_a_backup() {
    let home = tempfile::tempdir().unwrap();
    let (data, there) = (home.path().join("data"), home.path().join("there"));
    fs::create_dir(&there).unwrap();
    fs::write(there.join("mine.redb"), "mine").unwrap();
    drop(RedbStore::open(&data, Options::default()).unwrap());
    let draft = there.join("executions.redb.new-1-0");
    fs::write(&draft, "half of it").unwrap();
    symlink(&draft, data.join("executions.redb.new-1-1")).unwrap();
    // A link to anything else is removed, and its target is not.
    symlink(there.join("mine.redb"), data.join("executions.redb.new-1-2")).unwrap();
    drop(RedbStore::open(&data, Options::default()).unwrap());
    assert_eq!(listed(&data), ["executions.lock", "executions.redb"]);
    assert_eq!(listed(&there), ["mine.redb"]);
}
