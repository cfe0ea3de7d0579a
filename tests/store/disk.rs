//! What only the store on disk has to stand: opening again, crashes, snapshots few and far between, groups.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use midex_domain::{Digest, Execution, error::Code, limits};
use midex_engine::store::{Commit, Options, RedbStore, Store, TelemetryQuery};
use redb::{Database, TableDefinition};

use super::script::{Script, build_definition, build_refusal};

fn every(snapshot_every: u32) -> Options {
    Options { snapshot_every, ..Options::default() }
}

fn open(directory: &Path) -> RedbStore {
    RedbStore::open(directory, Options::default()).unwrap()
}

/// What a crash would leave of an open store: its file as it is on the disk, and its redo log.
pub(super) fn crash(directory: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["executions.redb", "executions.redo"] {
        if directory.join(name).exists() {
            fs::copy(directory.join(name), copy.path().join(name)).unwrap();
        }
    }
    copy
}

#[tokio::test]
async fn what_was_closed_is_found_again() {
    for snapshot_every in [1, 3, 16] {
        let directory = tempfile::tempdir().unwrap();
        let store = RedbStore::open(directory.path(), every(snapshot_every)).unwrap();
        let mut tale = Script::new("one", 60);
        tale.commit_steps(&store, 20).await;
        store.close().await.unwrap();
        let store = RedbStore::open(directory.path(), every(snapshot_every)).unwrap();
        tale.check_store(&store).await;
        tale.commit_steps(&store, 20).await;
        drop(store);
        let store = open(directory.path());
        tale.check_store(&store).await;
        tale.commit_steps(&store, 21).await;
        tale.check_store(&store).await;
        assert!(tale.execution.unwrap().state().is_final());
    }
}

#[tokio::test]
async fn a_crash_loses_nothing_that_was_answered() {
    for snapshot_every in [1, 3, 16] {
        let directory = tempfile::tempdir().unwrap();
        let store = RedbStore::open(directory.path(), every(snapshot_every)).unwrap();
        let mut tales: Vec<_> = (0..5).map(|at| Script::new(&format!("tale {at}"), 40)).collect();
        for round in 1..=20 {
            for (at, tale) in tales.iter_mut().enumerate() {
                tale.commit_steps(&store, usize::from(round % (at + 1) == 0)).await;
            }
            store.note_refusal(build_refusal(round, None));
            if round % 5 == 0 {
                let crashed = crash(directory.path());
                let survivor = open(crashed.path());
                for tale in tales.iter().filter(|tale| tale.execution.is_some()) {
                    tale.check_store(&survivor).await;
                }
                // Opening wrote fresh snapshots: the next opening finds the same.
                drop(survivor);
                let survivor = open(crashed.path());
                for tale in tales.iter().filter(|tale| tale.execution.is_some()) {
                    tale.check_store(&survivor).await;
                    let stored = survivor.load(&tale.id).await.unwrap().unwrap();
                    let next =
                        survivor.checkpoint(Arc::new(stored.execution), stored.position).await;
                    assert_eq!(next.unwrap(), stored.position, "its snapshot was current");
                }
            }
        }
    }
}

#[tokio::test]
async fn telemetry_ids_go_on_after_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let mut tale = Script::new("one", 9);
    tale.commit_steps(&store, 3).await;
    store.note_refusal(build_refusal(1, None));
    store.close().await.unwrap();
    let store = open(directory.path());
    tale.commit_steps(&store, 2).await;
    let query = TelemetryQuery { limit: 100, ..TelemetryQuery::default() };
    let told = store.load_telemetry(query).await.unwrap();
    assert_eq!(told.len(), 6);
    assert!(told.is_sorted_by(|one, two| one.0 < two.0), "{told:?}");
}

#[tokio::test]
async fn snapshots_are_as_many_as_asked_for() {
    for (snapshot_every, expected) in [(1, 13), (3, 5), (16, 2)] {
        let directory = tempfile::tempdir().unwrap();
        let store = RedbStore::open(directory.path(), every(snapshot_every)).unwrap();
        let mut tale = Script::new("one", 12);
        tale.commit_steps(&store, 13).await;
        assert_eq!(store.counts().snapshots, expected, "every {snapshot_every}");
        assert_eq!(store.counts().transitions, 13);
        let stored = store.load(&tale.id).await.unwrap().unwrap();
        assert_eq!(stored.position, tale.position, "every {snapshot_every}");
    }
}

#[tokio::test]
async fn a_long_execution_writes_few_snapshots() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let mut tale = Script::new("long", limits::STEPS_MAX);
    tale.commit_steps(&store, limits::STEPS_MAX + 1).await;
    let counts = store.counts();
    assert_eq!(counts.transitions, 501);
    assert!((2..60).contains(&counts.snapshots), "{counts:?}");
    tale.check_store(&store).await;
    let bytes = fs::metadata(directory.path().join("executions.redb")).unwrap().len();
    assert!(bytes < 16 << 20, "{bytes}");
}

#[tokio::test]
async fn a_loaded_position_is_the_one_last_answered() {
    let directory = tempfile::tempdir().unwrap();
    let store = RedbStore::open(directory.path(), every(7)).unwrap();
    let mut tale = Script::new("one", 100);
    for _ in 0..100 {
        tale.commit_step(&store).await.unwrap();
        let stored = store.load(&tale.id).await.unwrap().unwrap();
        assert_eq!(stored.position, tale.position);
    }
}

#[tokio::test]
async fn a_checkpoint_leaves_nothing_to_replay() {
    let directory = tempfile::tempdir().unwrap();
    let store = RedbStore::open(directory.path(), every(1024)).unwrap();
    let mut tale = Script::new("one", 50);
    tale.commit_steps(&store, 30).await;
    assert_eq!(store.counts().snapshots, 1);
    let execution = Arc::new(tale.execution.clone().unwrap());
    tale.position = store.checkpoint(Arc::clone(&execution), tale.position).await.unwrap();
    assert_eq!(store.counts().snapshots, 2);
    let before = store.counts();
    store.checkpoint(execution, tale.position).await.unwrap();
    assert_eq!(store.counts(), before, "it was current");
    tale.check_store(&store).await;
    tale.commit_step(&store).await.unwrap();
    tale.check_store(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_share_a_commit() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(open(directory.path()));
    let definition = build_definition(4);
    let callers: Vec<_> = (0..256)
        .map(|at| {
            let (store, definition) = (Arc::clone(&store), Arc::clone(&definition));
            tokio::spawn(async move {
                let mut tale = Script::with_definition(&format!("tale {at}"), definition);
                tale.commit_steps(&*store, 5).await;
                tale
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap().check_store(&*store).await;
    }
    let counts = store.counts();
    assert_eq!(counts.transitions, 5 * 256);
    assert!(counts.commits * 4 < counts.transitions, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_of_one_is_a_commit_each() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { batch_max: 1, ..Options::default() };
    let store = Arc::new(RedbStore::open(directory.path(), options).unwrap());
    let callers: Vec<_> = (0..16)
        .map(|at| {
            let store = Arc::clone(&store);
            tokio::spawn(
                async move { Script::new(&format!("tale {at}"), 2).commit_step(&*store).await },
            )
        })
        .collect();
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    assert_eq!(store.counts().commits, 16);
}

#[tokio::test]
async fn two_commits_of_one_execution_in_one_batch_are_both_right() {
    for snapshot_every in [1, 16] {
        let directory = tempfile::tempdir().unwrap();
        let store = RedbStore::open(directory.path(), every(snapshot_every)).unwrap();
        let mut tale = Script::new("one", 5);
        tale.commit_steps(&store, 2).await;
        let before = store.counts().commits;
        let first = tale.build_transition("first");
        let mut ahead = Script::new("one", 5);
        ahead.execution = Some(first.execution.clone());
        let second = ahead.build_transition("second");
        let (first, second) = (tale.build_commit(first), tale.build_commit(second));
        let expected: Execution = (*second.execution).clone();
        let (one, two, again) =
            tokio::join!(store.commit(first.clone()), store.commit(second), store.commit(first));
        assert!(one.unwrap().row < two.unwrap().row);
        assert_eq!(again.unwrap_err().code(), Code::RevisionConflict);
        assert!(store.counts().commits - before <= 3);
        assert_eq!(store.load(&tale.id).await.unwrap().unwrap().execution, expected);
    }
}

#[tokio::test]
async fn a_second_opener_is_told_that_the_store_is_busy() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let error = RedbStore::open(directory.path(), Options::default()).unwrap_err();
    assert_eq!(error.code(), Code::StoreBusy);
    assert!(error.code().retryable());
    let data_dir = error.context("data_dir").unwrap().as_str().unwrap();
    assert_eq!(Path::new(data_dir), directory.path());
    // The refused opening has not taken the owner's lock with it.
    assert_eq!(
        RedbStore::open(directory.path(), Options::default()).unwrap_err().code(),
        Code::StoreBusy
    );
    Script::new("one", 2).commit_step(&store).await.unwrap();
    store.close().await.unwrap();
    open(directory.path());
}

#[test]
fn many_first_openers_make_one_store() {
    let directory = tempfile::tempdir().unwrap();
    let openers: Vec<_> = (0..4)
        .map(|_| {
            let path = directory.path().join("data");
            std::thread::spawn(move || RedbStore::open(&path, Options::default()))
        })
        .collect();
    let opened: Vec<_> = openers.into_iter().map(|opener| opener.join().unwrap()).collect();
    assert!(opened.iter().any(Result::is_ok), "{opened:?}");
    for error in opened.into_iter().filter_map(Result::err) {
        assert_eq!(error.code(), Code::StoreBusy, "{error:?}");
    }
}

#[test]
fn only_the_owner_may_read_what_is_stored() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b");
    drop(RedbStore::open(&path, Options::default()).unwrap());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&path.join("executions.redb")), 0o600);
    assert_eq!(mode(&path.join("executions.lock")), 0o600);
    let file = fs::metadata(path.join("executions.redb")).unwrap();
    assert!(file.blocks() * 512 <= file.len() + (64 << 10), "{file:?}");
    let mut names: Vec<_> =
        fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["executions.lock", "executions.redb"]);
}

#[test]
fn a_place_that_cannot_be_used_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "not a directory").unwrap();
    let nowhere = directory.path().join("nowhere");
    symlink("/proc/1/missing/place", &nowhere).unwrap();
    let taken = directory.path().join("taken");
    fs::create_dir_all(taken.join("executions.redb")).unwrap();
    // Nobody may make a file there, not even root.
    let read_only = Path::new("/proc");
    for path in [file.as_path(), &file.join("below"), &nowhere, &taken, read_only] {
        let error = RedbStore::open(path, Options::default()).unwrap_err();
        assert_eq!(error.code(), Code::FileUnusable, "{error:?}");
        let named = error.context("path").unwrap().as_str().unwrap();
        assert!(named.starts_with(path.to_str().unwrap()), "{error:?}");
    }
}

#[tokio::test]
async fn refusals_reach_the_disk_without_a_commit() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    for number in 0..3 {
        store.note_refusal(build_refusal(number, None));
    }
    store.close().await.unwrap();
    let store = open(directory.path());
    let query = TelemetryQuery { limit: 10, ..TelemetryQuery::default() };
    assert_eq!(store.load_telemetry(query).await.unwrap().len(), 3);
}

/// Overwrites the first byte of a journal row: whoever reads the row finds the file damaged.
fn spoil_row(directory: &Path, key: u64) {
    let database = Database::open(directory.join("executions.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    let journal = TableDefinition::<u64, &[u8]>::new("journal.v1");
    let mut journal = transaction.open_table(journal).unwrap();
    let mut bytes = journal.remove(key).unwrap().unwrap().value().to_vec();
    bytes[0] = 0;
    journal.insert(key, bytes.as_slice()).unwrap();
    drop(journal);
    transaction.commit().unwrap();
}

#[tokio::test]
async fn what_was_folded_once_is_not_scanned_again() {
    let directory = tempfile::tempdir().unwrap();
    let store = RedbStore::open(directory.path(), every(16)).unwrap();
    let mut tale = Script::new("one", 40);
    tale.commit_steps(&store, 10).await;
    store.close().await.unwrap();
    // The last row still names the low-water mark of its time; this opening covers all of them.
    open(directory.path()).close().await.unwrap();
    spoil_row(directory.path(), 5);
    let store = RedbStore::open(directory.path(), every(16)).unwrap();
    assert_eq!(
        store.load(&tale.id).await.unwrap().unwrap().execution,
        tale.execution.clone().unwrap()
    );
    // Rows that come after it are found.
    let stored = store.load(&tale.id).await.unwrap().unwrap();
    tale.position = stored.position;
    tale.commit_steps(&store, 5).await;
    let survivor = open(crash(directory.path()).path());
    let stored = survivor.load(&tale.id).await.unwrap().unwrap();
    assert_eq!(Some(stored.execution), tale.execution);
}

/// A small one is: `damage.rs` tells what is found there.
#[tokio::test]
async fn a_large_file_that_was_closed_is_not_read_through() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let mut tale = Script::new("one", 40);
    tale.commit_step(&store).await.unwrap();
    for number in 0..3 {
        let text = format!("{number}{}", "x".repeat(3 << 20));
        tale.commit_output(&store, &text).await.unwrap();
    }
    store.close().await.unwrap();
    let path = directory.path().join("executions.redb");
    let mut bytes = fs::read(&path).unwrap();
    assert!(bytes.len() as u64 >= limits::CHECKED_FILE_BYTES_MAX);
    let content = bytes.windows(64).position(|bytes| bytes == [b'x'; 64]);
    bytes[content.unwrap()] = b'y';
    fs::write(&path, bytes).unwrap();
    tale.check_store(&open(directory.path())).await;
}

/// The start of an execution that brings `content` with it.
fn start_with(name: &str, content: &Arc<[u8]>) -> Commit {
    let mut tale = Script::new(name, 2);
    let transition = tale.build_transition("start");
    let mut commit = tale.build_commit(transition);
    let content = (Digest::compute(content), Arc::clone(content));
    commit.contents.push(content);
    commit
}

#[tokio::test]
async fn room_is_kept_for_content_once() {
    let content: Arc<[u8]> = vec![7; 2 << 20].into();
    let directory = tempfile::tempdir().unwrap();
    let blocks = || {
        let file = fs::metadata(directory.path().join("executions.redb"));
        file.unwrap().blocks() * 512
    };
    // Whoever brings the same content in one batch brings it once.
    let store = Arc::new(open(directory.path()));
    let starts: Vec<_> = (0..24)
        .map(|at| {
            let commit = start_with(&format!("tale {at}"), &content);
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.commit(commit).await })
        })
        .collect();
    for started in starts {
        started.await.unwrap().unwrap();
    }
    assert!(blocks() < 48 << 20, "{}", blocks());
    // And what is stored needs none.
    store.commit(start_with("before", &content)).await.unwrap();
    Script::new("between", 1).commit_step(&*store).await.unwrap();
    let before = blocks();
    store.close().await.unwrap();
    let store = open(directory.path());
    store.commit(start_with("after", &content)).await.unwrap();
    assert!(blocks() <= before, "{before} {}", blocks());
}

#[tokio::test]
async fn telemetry_is_found_beyond_one_portion() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let mut tale = Script::new("one", 450);
    tale.commit_steps(&store, 300).await;
    store.note_refusal(build_refusal(1, None));
    tale.commit_steps(&store, 300 - 149).await;
    let query =
        |event_type, limit| TelemetryQuery { event_type, limit, ..TelemetryQuery::default() };
    let all = store.load_telemetry(query(None, 10_000)).await.unwrap();
    assert_eq!(all.len(), 452);
    assert!(all.is_sorted_by(|one, two| one.0 < two.0));
    let created = Some(midex_domain::telemetry::EventType::WorkflowCreated);
    assert_eq!(store.load_telemetry(query(created, 9)).await.unwrap(), all[..1]);
}

/// Set for the child of the test below: where its store is.
const CHILD: &str = "MIDEX_TEST_STORE";

/// Killed without warning in the midst of its commits, a process loses nothing that it had answered.
#[tokio::test]
async fn a_killed_process_loses_nothing_that_it_answered() {
    for round in 1..=4 {
        let directory = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "disk::the_child_that_is_killed", "--ignored", "--nocapture"])
            .env(CHILD, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut answered = HashMap::new();
        for line in lines.map(Result::unwrap) {
            if let Some(("answered", said)) = line.split_once(' ') {
                let (name, revision) = said.rsplit_once('/').unwrap();
                answered.insert(name.to_owned(), revision.parse::<u64>().unwrap());
            }
            if answered.values().sum::<u64>() > 40 * round {
                break;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let store = open(directory.path());
        assert_eq!(answered.len(), 3);
        for (name, revision) in answered {
            let id = super::script::execution_id(&name);
            let stored = store.load(&id).await.unwrap().unwrap();
            assert!(stored.execution.revision() >= revision, "{name}");
            let history = store.load_history(&id).await.unwrap();
            let replayed = Execution::replay(&history);
            assert_eq!(replayed, Some(stored.execution));
        }
    }
}

#[tokio::test]
#[ignore = "the child of the test above"]
async fn the_child_that_is_killed() {
    let Ok(directory) = std::env::var(CHILD) else {
        return;
    };
    let store = RedbStore::open(Path::new(&directory), every(5)).unwrap();
    let mut tales: Vec<_> = (0..3).map(|at| Script::new(&format!("tale {at}"), 450)).collect();
    for _ in 0..450 {
        for tale in &mut tales {
            tale.commit_step(&store).await.unwrap();
            let mut out = std::io::stdout().lock();
            writeln!(out, "answered {}/{}", tale.id, tale.rows.len()).unwrap();
        }
    }
}
