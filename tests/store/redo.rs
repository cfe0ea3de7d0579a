//! The redo log: what it saves, what a crash leaves of it, and what is refused.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use midex_domain::{
    error::{Code, Error},
    limits,
};
use midex_engine::store::{FileHook, FileOperation, Options, RedbStore, Store};
use redb::{Database, ReadableDatabase, TableDefinition};
use sha2::{Digest as _, Sha256};

use super::{
    disk::crash,
    failure::{Saboteur, back},
    script::{Script, build_refusal},
};
use midex_test::long;

const PAGE: usize = 4096;

/// A log from the second commit on.
fn at_once() -> Options {
    Options { redo_after: 0, ..Options::default() }
}

/// The same, full after a few commits.
fn small() -> Options {
    Options { redo_bytes: 6 * PAGE as u64, ..at_once() }
}

fn hooked(options: Options, hook: FileHook) -> Options {
    Options { hook: Some(hook), ..options }
}

fn data(directory: &Path) -> PathBuf {
    directory.join("executions.redb")
}

fn redo(directory: &Path) -> PathBuf {
    directory.join("executions.redo")
}

/// A store with a log that holds all but the first of `steps` transitions; it stays open.
async fn logged(steps: usize) -> (tempfile::TempDir, RedbStore, Script) {
    let directory = tempfile::tempdir().unwrap();
    let store = RedbStore::open(directory.path(), at_once()).unwrap();
    let mut tale = Script::new("one", 90);
    tale.commit_steps(&store, steps).await;
    (directory, store, tale)
}

/// What a crash leaves of such a store.
async fn crashed(steps: usize) -> (tempfile::TempDir, Script) {
    let (directory, _store, tale) = logged(steps).await;
    (crash(directory.path()), tale)
}

/// The execution as the store has it: nothing acknowledged is missing, and at most one transition more is there.
async fn learn(tale: &mut Script, store: &RedbStore) {
    let history = store.load_history(&tale.id).await.unwrap();
    let known = tale.rows.len();
    assert!((known..=known + 1).contains(&history.len()), "{known}");
    assert_eq!(history[..known], tale.rows);
    let stored = store.load(&tale.id).await.unwrap();
    tale.adopt_stored(history, stored);
}

/// The store opens, has everything, goes on, and leaves a data file that needs no log.
async fn is_whole(directory: &Path, tale: &mut Script) {
    let store = RedbStore::open(directory, Options::default()).unwrap();
    assert!(!redo(directory).exists());
    learn(tale, &store).await;
    tale.commit_step(&store).await.unwrap();
    tale.check_store(&store).await;
    store.close().await.unwrap();
    let mut database = Database::open(data(directory)).unwrap();
    assert!(database.check_integrity().unwrap());
}

/// Opening is refused, twice, and changes neither file.
fn refused(directory: &Path, code: Code, what: &str) -> Error {
    let files = || [data(directory), redo(directory)].map(|path| fs::read(path).ok());
    let before = files();
    RedbStore::open(directory, Options::default()).unwrap_err();
    let error = RedbStore::open(directory, Options::default()).unwrap_err();
    assert_eq!(error.code(), code, "{error:?}");
    for part in [what, redo(directory).to_str().unwrap()] {
        assert!(error.message().contains(part), "{part}: {error:?}");
    }
    let path = error.context("path").unwrap().as_str().unwrap();
    assert_eq!(Path::new(path), data(directory));
    assert!(before == files(), "a file was changed");
    error
}

/// The user may go on without the log, and has what the data file holds.
async fn may_be_dropped(directory: &Path, rows: usize) {
    fs::write(redo(directory), "dropped\n").unwrap();
    let store = RedbStore::open(directory, Options::default()).unwrap();
    let history = store.load_history(&super::script::execution_id("one")).await.unwrap();
    assert_eq!(history.len(), rows);
    store.close().await.unwrap();
    assert!(!redo(directory).exists());
}

/// What copies of a damaged log hold.
fn aside(directory: &Path) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_copy = |path: &PathBuf| path.to_str().unwrap().contains("executions.redo.damaged-");
    paths.filter(is_copy).map(|copy| fs::read(copy).unwrap()).collect()
}

fn format(directory: &Path) -> String {
    let database = Database::open(data(directory)).unwrap();
    let transaction = database.begin_read().unwrap();
    let meta = TableDefinition::<&str, &[u8]>::new("meta.v1");
    let meta = transaction.open_table(meta).unwrap();
    let format = meta.get("file_format").unwrap().unwrap();
    String::from_utf8(format.value().to_vec()).unwrap()
}

#[derive(Clone, Default)]
struct Counted(Arc<Mutex<[u64; 4]>>);

impl Counted {
    fn hook(&self) -> FileHook {
        let counts = Arc::clone(&self.0);
        FileHook::new(move |operation| {
            let of = match operation {
                FileOperation::Write { .. } => 0,
                FileOperation::Sync => 1,
                FileOperation::WriteLog { .. } => 2,
                FileOperation::SyncLog => 3,
                _ => return Ok(()),
            };
            counts.lock().unwrap()[of] += 1;
            Ok(())
        })
    }
}

#[tokio::test]
async fn a_commit_is_one_write_and_one_sync() {
    let directory = tempfile::tempdir().unwrap();
    let counted = Counted::default();
    let store = RedbStore::open(directory.path(), hooked(at_once(), counted.hook())).unwrap();
    let mut tale = Script::new("one", 90);
    tale.commit_step(&store).await.unwrap();
    *counted.0.lock().unwrap() = [0; 4];
    tale.commit_steps(&store, 40).await;
    assert_eq!(*counted.0.lock().unwrap(), [0, 0, 40, 40]);
    tale.check_store(&store).await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_process_that_stores_little_needs_no_log() {
    let directory = tempfile::tempdir().unwrap();
    let store = RedbStore::open(directory.path(), Options::default()).unwrap();
    let mut tale = Script::new("one", 90);
    let few = usize::try_from(limits::REDO_AFTER_COMMITS).unwrap();
    tale.commit_steps(&store, few).await;
    assert!(!redo(directory.path()).exists());
    tale.commit_step(&store).await.unwrap();
    assert_eq!(fs::metadata(redo(directory.path())).unwrap().len(), limits::REDO_BYTES_MIN);
    let mode = fs::metadata(redo(directory.path())).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
    store.close().await.unwrap();
    assert!(!redo(directory.path()).exists());
    assert_eq!(format(directory.path()), "midex-1");
}

#[tokio::test]
async fn a_log_grows_up_to_its_limit_and_begins_anew() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { redo_bytes: 3 << 20, ..at_once() };
    let store = RedbStore::open(directory.path(), options).unwrap();
    let mut tale = Script::new("one", 90);
    let mut lengths = Vec::new();
    for at in 0..30 {
        let text = format!("{at}{}", "x".repeat(300_000));
        tale.commit_output(&store, &text).await.unwrap();
        lengths.push(fs::metadata(redo(directory.path())).unwrap().len() >> 20);
    }
    lengths.dedup();
    assert_eq!(lengths, [1, 3]);
    // One that does not fit at all goes to the data file.
    tale.commit_output(&store, &"x".repeat(4_000_000)).await.unwrap();
    tale.check_store(&store).await;
    let copy = crash(directory.path());
    is_whole(copy.path(), &mut tale.duplicate()).await;
}

#[tokio::test]
async fn a_crash_loses_nothing_of_the_log() {
    for (snapshot_every, options) in [(1, at_once()), (16, at_once()), (1, small()), (16, small())]
    {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { snapshot_every, ..options };
        let store = RedbStore::open(directory.path(), options.clone()).unwrap();
        let mut tale = Script::new("one", 60);
        for at in 0..30 {
            tale.commit_output(&store, &"x".repeat(at * 333)).await.unwrap();
            store.note_refusal(build_refusal(at, None));
            if at % 3 == 0 {
                let crashed = crash(directory.path());
                // Again in the midst of what the next process does.
                let survivor = RedbStore::open(crashed.path(), options.clone()).unwrap();
                let mut again = tale.duplicate();
                learn(&mut again, &survivor).await;
                again.commit_steps(&survivor, 2).await;
                let crashed = crash(crashed.path());
                is_whole(crashed.path(), &mut again).await;
            }
        }
        drop(store);
        is_whole(directory.path(), &mut tale).await;
    }
}

/// A database that is closed after a failure writes everything, so the log holds what is there already.
#[tokio::test]
async fn what_is_there_already_may_be_put_again() {
    let directory = tempfile::tempdir().unwrap();
    let saboteur = Saboteur::default();
    let hook = saboteur.hook(|operation| operation == FileOperation::Read, io::ErrorKind::Other);
    let options = Options { cache_bytes: 0, ..hooked(at_once(), hook) };
    let store = RedbStore::open(directory.path(), options).unwrap();
    let mut tale = Script::new("one", 90);
    tale.commit_steps(&store, 20).await;
    saboteur.arm(0, 1);
    store.load(&tale.id).await.unwrap_err();
    back(&store, &tale).await;
    tale.check_store(&store).await;
    tale.commit_steps(&store, 5).await;
    let copy = crash(directory.path());
    is_whole(copy.path(), &mut tale).await;
}

#[tokio::test]
async fn what_was_torn_at_the_end_is_dropped_and_what_is_damaged_before_it_is_refused() {
    let (directory, tale) = crashed(8).await;
    let whole = fs::read(redo(directory.path())).unwrap();
    let last = 6;
    for (at, byte) in (0..=last).flat_map(|at| [0, 13, 20, 35, 43, 60, 100].map(|byte| (at, byte)))
    {
        let mut torn = whole.clone();
        torn[at * PAGE + byte] ^= 1;
        fs::write(redo(directory.path()), &torn).unwrap();
        if at < last {
            // What a log begins with says which one it is.
            let what = if at == 0 { "" } else { "is damaged: a record" };
            refused(directory.path(), Code::StoreCorrupt, what);
            continue;
        }
        let copy = crash(directory.path());
        let store = RedbStore::open(copy.path(), Options::default()).unwrap();
        let history = store.load_history(&tale.id).await.unwrap();
        assert_eq!(history, tale.rows[..7]);
        assert_eq!(aside(copy.path()), [torn], "{byte}");
    }
    // The first one, in the pieces in which a disk writes a page; what lay there before was the record of an empty log.
    let (directory_of_one, tale) = crashed(2).await;
    let one = fs::read(redo(directory_of_one.path())).unwrap();
    let before = empty_log();
    for torn in [0..512, 512..PAGE, 512..1024, 0..20, 0..70] {
        let mut bytes = one.clone();
        bytes[torn.clone()].copy_from_slice(&before[torn.clone()]);
        if torn.end < 512 {
            // Torn within its header, the other way round.
            bytes[..PAGE].copy_from_slice(&before);
            bytes[torn.clone()].copy_from_slice(&one[torn.clone()]);
        }
        fs::write(redo(directory_of_one.path()), &bytes).unwrap();
        let copy = crash(directory_of_one.path());
        let store = RedbStore::open(copy.path(), Options::default()).unwrap();
        let history = store.load_history(&tale.id).await.unwrap();
        assert_eq!(history, tale.rows[..1], "{torn:?}");
    }
    let mut zeroed = whole;
    zeroed[2 * PAGE..3 * PAGE].fill(0);
    fs::write(redo(directory.path()), &zeroed).unwrap();
    refused(directory.path(), Code::StoreCorrupt, "is damaged: a record");
    may_be_dropped(directory.path(), 1).await;
}

#[tokio::test]
async fn a_log_that_was_cut_is_refused() {
    let (directory, _) = crashed(8).await;
    let whole = fs::read(redo(directory.path())).unwrap();
    for bytes in [0, 1, PAGE, 3 * PAGE + 7, whole.len() - 1] {
        fs::write(redo(directory.path()), &whole[..bytes]).unwrap();
        refused(directory.path(), Code::StoreCorrupt, "was cut from");
    }
}

#[tokio::test]
async fn a_log_of_another_file_is_refused() {
    let (one, mut tale) = crashed(8).await;
    let (other, _) = crashed(8).await;
    let own = fs::read(redo(one.path())).unwrap();
    fs::copy(redo(other.path()), redo(one.path())).unwrap();
    let error = refused(one.path(), Code::StoreCorrupt, "belongs to another");
    let action = error.suggested_action();
    for path in [data(one.path()), redo(one.path())] {
        assert!(action.contains(path.to_str().unwrap()), "{action}");
    }
    fs::write(redo(one.path()), "# notes\n".repeat(1 << 18)).unwrap();
    refused(one.path(), Code::StoreCorrupt, "does not begin as a log does");
    fs::write(redo(one.path()), own).unwrap();
    is_whole(one.path(), &mut tale).await;
    // A file that was closed needs none, and takes none.
    fs::copy(redo(other.path()), redo(one.path())).unwrap();
    refused(one.path(), Code::StoreCorrupt, "belongs to another");
    may_be_dropped(one.path(), tale.rows.len()).await;
}

#[tokio::test]
async fn a_file_restored_alone_is_not_mixed_with_the_log_of_another_moment() {
    // A backup of an orderly close, and one of a crash.
    let (directory, store, mut tale) = logged(8).await;
    let early = crash(directory.path());
    store.close().await.unwrap();
    let closed = crash(directory.path());
    let store = RedbStore::open(directory.path(), small()).unwrap();
    tale.commit_steps(&store, 20).await;
    let late = crash(directory.path());
    for backup in [early, closed] {
        fs::copy(redo(late.path()), redo(backup.path())).unwrap();
        refused(backup.path(), Code::StoreCorrupt, "at another moment");
    }
    is_whole(late.path(), &mut tale).await;
}

#[tokio::test]
async fn a_file_without_its_log_is_refused() {
    let (directory, _) = crashed(8).await;
    fs::remove_file(redo(directory.path())).unwrap();
    assert_eq!(format(crash(directory.path()).path()), "midex-1 with a log");
    let error = refused(directory.path(), Code::StoreCorrupt, "is missing");
    let action = error.suggested_action();
    assert!(action.contains("`dropped`"), "{action}");
    may_be_dropped(directory.path(), 1).await;
}

#[tokio::test]
async fn a_log_without_its_file_is_refused() {
    let (directory, mut tale) = crashed(8).await;
    let aside = directory.path().join("aside");
    fs::rename(data(directory.path()), &aside).unwrap();
    let error = refused(directory.path(), Code::StoreCorrupt, "is missing");
    assert!(!data(directory.path()).exists(), "none is begun");
    assert!(error.suggested_action().contains("move"), "{error:?}");
    fs::rename(&aside, data(directory.path())).unwrap();
    // A directory in its place is named, not waited for.
    let log = directory.path().join("log");
    fs::rename(redo(directory.path()), &log).unwrap();
    fs::create_dir(redo(directory.path())).unwrap();
    let error = RedbStore::open(directory.path(), Options::default()).unwrap_err();
    assert_eq!(error.code(), Code::FileUnusable, "{error:?}");
    fs::remove_dir(redo(directory.path())).unwrap();
    fs::rename(log, redo(directory.path())).unwrap();
    is_whole(directory.path(), &mut tale).await;
}

/// The page that a log begins with before it has records.
fn empty_log() -> Vec<u8> {
    let mut page = vec![0; PAGE];
    page[..9].copy_from_slice(b"midexlog\x01");
    let sum = Sha256::digest(&page[..48]);
    page[48..80].copy_from_slice(&sum);
    page
}

#[tokio::test]
async fn an_empty_log_without_its_file_is_removed() {
    for bytes in [PAGE, 1000, 50, 5, 0] {
        let directory = tempfile::tempdir().unwrap();
        let mut log = vec![0; 2 * PAGE];
        log[..bytes].copy_from_slice(&empty_log()[..bytes]);
        fs::write(redo(directory.path()), log).unwrap();
        drop(RedbStore::open(directory.path(), Options::default()).unwrap());
        assert!(!redo(directory.path()).exists(), "{bytes}");
    }
}

/// The first record of a log, with another version, or with another body.
fn change_first(directory: &Path, version: u8, body: &[u8]) {
    let mut log = fs::read(redo(directory)).unwrap();
    log[PAGE..].fill(0);
    log[8] = version;
    log[12..16].copy_from_slice(&u32::try_from(body.len()).unwrap().to_le_bytes());
    log[80..80 + body.len()].copy_from_slice(body);
    let sum = Sha256::digest([&log[..48], body].concat());
    log[48..80].copy_from_slice(&sum);
    fs::write(redo(directory), log).unwrap();
}

#[tokio::test]
async fn a_log_of_a_later_version_is_refused() {
    let (directory, _) = crashed(8).await;
    change_first(directory.path(), 2, &[]);
    refused(directory.path(), Code::StoreTooNew, "a later version");
    // A kind of change that is not known yet, and one that cannot be read.
    for (body, code) in [
        ([99, 0, 0, 0, 0, 0, 0, 0, 0].as_slice(), Code::StoreTooNew),
        (&[1, 0, 0, 0, 0, 0, 0, 0, 0], Code::StoreCorrupt),
        (&[1, 0xff, 0, 0, 0, 0, 0, 0, 0], Code::StoreCorrupt),
        (&[1, 2], Code::StoreCorrupt),
    ] {
        change_first(directory.path(), 1, body);
        let before = fs::read(data(directory.path())).unwrap();
        let error = RedbStore::open(directory.path(), Options::default()).unwrap_err();
        assert_eq!(error.code(), code, "{error:?}");
        assert!(fs::read(data(directory.path())).unwrap() == before);
    }
    // A file that was closed is not opened beside it either.
    change_first(directory.path(), 2, &[]);
    let closed = tempfile::tempdir().unwrap();
    drop(RedbStore::open(closed.path(), Options::default()).unwrap());
    fs::copy(redo(directory.path()), redo(closed.path())).unwrap();
    refused(closed.path(), Code::StoreTooNew, "a later version");
}

/// A crash between a commit to the data file and the first record behind it.
#[tokio::test]
async fn a_log_whose_content_the_file_has_is_not_put_again() {
    let (directory, store, mut tale) = logged(8).await;
    let before = crash(directory.path());
    store.close().await.unwrap();
    fs::copy(redo(before.path()), redo(directory.path())).unwrap();
    is_whole(directory.path(), &mut tale).await;
}

/// What stands in the directory before each operation: what a process that is killed there leaves.
#[tokio::test]
async fn a_process_may_end_at_each_operation() {
    let directory = tempfile::tempdir().unwrap();
    let acknowledged = Arc::new(Mutex::new(0));
    let states = Arc::new(Mutex::new(Vec::new()));
    let hook = {
        let (here, acknowledged) = (directory.path().to_owned(), Arc::clone(&acknowledged));
        let (states, seed) = (Arc::clone(&states), long::seed(3));
        let dice = Mutex::new(long::Dice(seed));
        FileHook::new(move |operation| {
            let picked = dice.lock().unwrap().roll(long::rounds(6, 1)) == 0;
            if picked && operation != FileOperation::Read && data(&here).exists() {
                let state = (*acknowledged.lock().unwrap(), crash(&here));
                states.lock().unwrap().push(state);
            }
            Ok(())
        })
    };
    let store = RedbStore::open(directory.path(), hooked(small(), hook)).unwrap();
    let mut tale = Script::new("one", 90);
    for _ in 0..30 {
        tale.commit_step(&store).await.unwrap();
        *acknowledged.lock().unwrap() += 1;
    }
    store.close().await.unwrap();
    let states = std::mem::take(&mut *states.lock().unwrap());
    assert!(states.len() > 20, "{}", states.len());
    for (acknowledged, state) in states {
        let store = RedbStore::open(state.path(), Options::default()).unwrap();
        let history = store.load_history(&tale.id).await.unwrap();
        let stored = history.len();
        assert!((acknowledged..=acknowledged + 1).contains(&stored));
        assert_eq!(history, tale.rows[..stored]);
    }
}

fn fails(wanted: fn(FileOperation<'_>) -> bool, kind: io::ErrorKind) -> (Saboteur, FileHook) {
    let saboteur = Saboteur::default();
    let hook = saboteur.hook(wanted, kind);
    (saboteur, hook)
}

fn writes_log(operation: FileOperation<'_>) -> bool {
    matches!(operation, FileOperation::WriteLog { .. })
}

/// Whichever operation fails, once: what was acknowledged stays, and the store comes back.
#[tokio::test]
async fn each_operation_may_fail() {
    let all = |operation: FileOperation<'_>| {
        !matches!(operation, FileOperation::Read | FileOperation::Reserve(_))
    };
    for at in long::share((0..60).collect(), 5) {
        for kind in [io::ErrorKind::Other, io::ErrorKind::StorageFull] {
            let directory = tempfile::tempdir().unwrap();
            let (saboteur, hook) = fails(all, kind);
            let store = RedbStore::open(directory.path(), hooked(small(), hook)).unwrap();
            let mut tale = Script::new("one", 90);
            saboteur.arm(at, 1);
            for _ in 0..14 {
                if tale.commit_step(&store).await.is_err() {
                    while store.load(&tale.id).await.is_err() {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    learn(&mut tale, &store).await;
                }
            }
            tale.check_store(&store).await;
            let copy = crash(directory.path());
            is_whole(copy.path(), &mut tale.duplicate()).await;
            drop(store);
            is_whole(directory.path(), &mut tale).await;
        }
    }
}

#[tokio::test]
async fn a_failed_sync_of_the_log_leaves_the_data_file_in_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let (saboteur, hook) =
        fails(|operation| operation == FileOperation::SyncLog, io::ErrorKind::Other);
    let store = RedbStore::open(directory.path(), hooked(at_once(), hook)).unwrap();
    let mut tale = Script::new("one", 90);
    tale.commit_steps(&store, 8).await;
    let inode = fs::metadata(data(directory.path())).unwrap().ino();
    saboteur.arm(0, 1);
    let error = tale.commit_step(&store).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable, "{error:?}");
    assert!(!redo(directory.path()).exists(), "it was put into the data file");
    learn(&mut tale, &store).await;
    tale.commit_steps(&store, 8).await;
    tale.check_store(&store).await;
    assert_eq!(fs::metadata(data(directory.path())).unwrap().ino(), inode);
    is_whole(crash(directory.path()).path(), &mut tale).await;
}

/// A log that is put into the data file soon after its last record.
fn hasty() -> Options {
    Options { redo_idle: Duration::from_millis(20), ..at_once() }
}

async fn settled(directory: &Path) {
    let settled = async {
        while redo(directory).exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let settled = tokio::time::timeout(Duration::from_secs(20), settled);
    settled.await.unwrap();
}

#[tokio::test]
async fn once_nothing_is_to_do_the_data_file_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { redo_after: 2, ..hasty() };
    let store = RedbStore::open(directory.path(), options).unwrap();
    let mut tale = Script::new("one", 90);
    tale.commit_steps(&store, 12).await;
    settled(directory.path()).await;
    let copy = crash(directory.path());
    assert_eq!(format(copy.path()), "midex-1");
    is_whole(copy.path(), &mut tale.duplicate()).await;
    // Whoever comes back now and then is spared the making of a log each time.
    tale.commit_steps(&store, 2).await;
    assert!(!redo(directory.path()).exists());
    tale.commit_steps(&store, 12).await;
    tale.check_store(&store).await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_log_that_cannot_be_put_into_the_data_file_is_not_lost() {
    for kind in [io::ErrorKind::Other, io::ErrorKind::StorageFull] {
        let directory = tempfile::tempdir().unwrap();
        let (saboteur, hook) = fails(
            |operation| matches!(operation, FileOperation::Write { .. } | FileOperation::Sync),
            kind,
        );
        let store = RedbStore::open(directory.path(), hooked(hasty(), hook)).unwrap();
        let mut tale = Script::new("one", 90);
        tale.commit_step(&store).await.unwrap();
        saboteur.arm(0, 1);
        tale.commit_steps(&store, 3).await;
        settled(directory.path()).await;
        assert_eq!(saboteur.failed(), 1);
        back(&store, &tale).await;
        tale.check_store(&store).await;
        tale.commit_steps(&store, 3).await;
        is_whole(crash(directory.path()).path(), &mut tale).await;
    }
}

#[tokio::test]
async fn where_no_log_can_be_begun_the_data_file_takes_everything() {
    for kind in [io::ErrorKind::StorageFull, io::ErrorKind::PermissionDenied] {
        let directory = tempfile::tempdir().unwrap();
        let (saboteur, hook) = fails(writes_log, kind);
        let store = RedbStore::open(directory.path(), hooked(at_once(), hook)).unwrap();
        let mut tale = Script::new("one", 90);
        saboteur.arm(0, i64::MAX);
        tale.commit_steps(&store, 8).await;
        assert!(!redo(directory.path()).exists());
        saboteur.disarm();
        let more = usize::try_from(limits::REDO_AFTER_COMMITS).unwrap();
        tale.commit_steps(&store, more).await;
        assert!(redo(directory.path()).exists(), "it is tried again");
        is_whole(crash(directory.path()).path(), &mut tale).await;
    }
}

#[tokio::test]
async fn a_full_disk_at_an_append_refuses_the_batch() {
    let directory = tempfile::tempdir().unwrap();
    let (saboteur, hook) = fails(writes_log, io::ErrorKind::StorageFull);
    let store = RedbStore::open(directory.path(), hooked(at_once(), hook)).unwrap();
    let mut tale = Script::new("one", 90);
    tale.commit_steps(&store, 8).await;
    saboteur.arm(0, 1);
    let error = tale.commit_step(&store).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable, "{error:?}");
    let action = error.suggested_action();
    assert!(action.contains("free at least"), "{action}");
    back(&store, &tale).await;
    tale.check_store(&store).await;
    tale.commit_steps(&store, 8).await;
    is_whole(crash(directory.path()).path(), &mut tale).await;
}

/// A disk on which the data file cannot get what the log holds: it is read, nothing more is stored, and nothing is lost.
#[tokio::test]
async fn a_store_on_a_full_disk_is_read_until_there_is_room() {
    let (directory, mut tale) = crashed(8).await;
    let full = Arc::new(AtomicBool::new(true));
    let hook = {
        let full = Arc::clone(&full);
        FileHook::new(move |operation| match operation {
            FileOperation::Reserve(_) if full.load(Ordering::SeqCst) => {
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        })
    };
    let store = RedbStore::open(directory.path(), hooked(hasty(), hook.clone())).unwrap();
    for _ in 0..2 {
        tale.check_store(&store).await;
        let error = tale.commit_step(&store).await.unwrap_err();
        assert_eq!(error.code(), Code::StoreFull, "{error:?}");
    }
    assert!(redo(directory.path()).exists());
    is_whole(crash(directory.path()).path(), &mut tale.duplicate()).await;
    store.close().await.unwrap();
    let store = RedbStore::open(directory.path(), hooked(hasty(), hook)).unwrap();
    tale.check_store(&store).await;
    full.store(false, Ordering::SeqCst);
    settled(directory.path()).await;
    tale.commit_steps(&store, 8).await;
    tale.check_store(&store).await;
    is_whole(crash(directory.path()).path(), &mut tale.duplicate()).await;
    store.close().await.unwrap();
    is_whole(directory.path(), &mut tale).await;
}

/// The store asks for the room of its writes, not for as much again as the file has.
#[tokio::test]
async fn a_disk_with_little_room_takes_what_fits() {
    let directory = tempfile::tempdir().unwrap();
    let store = RedbStore::open(directory.path(), at_once()).unwrap();
    let mut tale = Script::new("one", 90);
    for at in 0..3 {
        let text = format!("{at}{}", "x".repeat(4_000_000));
        tale.commit_output(&store, &text).await.unwrap();
    }
    store.close().await.unwrap();
    let bytes = fs::metadata(data(directory.path())).unwrap().len();
    assert!(bytes > 8 << 20, "{bytes}");
    let hook = FileHook::new(|operation| match operation {
        FileOperation::Reserve(bytes) if bytes > 8 << 20 => Err(io::ErrorKind::StorageFull.into()),
        _ => Ok(()),
    });
    let store = RedbStore::open(directory.path(), hooked(at_once(), hook)).unwrap();
    tale.commit_steps(&store, 20).await;
    assert!(!redo(directory.path()).exists(), "a log takes room of its own");
    let error = tale.commit_output(&store, &"y".repeat(4_000_000)).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreFull, "{error:?}");
    tale.commit_steps(&store, 2).await;
    tale.check_store(&store).await;
    store.close().await.unwrap();
    is_whole(directory.path(), &mut tale).await;
}

/// A process that is killed after a full log began anew, and the next one before it has removed the log: nothing is lost, and
/// nothing refused. Nor where the log comes back that was removed.
#[tokio::test]
async fn a_log_of_before_is_removed_whatever_comes_between() {
    let (directory, mut tale) = (tempfile::tempdir().unwrap(), Script::new("one", 90));
    let begun = Arc::new(Mutex::new(Vec::new()));
    let at_each = |wanted: fn(FileOperation<'_>) -> bool, here: &Path| {
        let (here, begun) = (here.to_owned(), Arc::clone(&begun));
        FileHook::new(move |operation| {
            if wanted(operation) {
                begun.lock().unwrap().push(crash(&here));
            }
            Ok(())
        })
    };
    let first = |operation: FileOperation<'_>| {
        matches!(operation, FileOperation::WriteLog { offset: 0, .. })
    };
    let hook = at_each(first, directory.path());
    let store = RedbStore::open(directory.path(), hooked(small(), hook)).unwrap();
    tale.commit_steps(&store, 40).await;
    store.close().await.unwrap();
    // The first two make room and begin the file.
    let killed: Vec<_> = begun.lock().unwrap().drain(..).skip(2).collect();
    assert!(killed.len() >= 3, "{}", killed.len());
    for killed in killed {
        let removes = |operation: FileOperation<'_>| operation == FileOperation::RemoveLog;
        let hook = at_each(removes, killed.path());
        let store = RedbStore::open(killed.path(), hooked(small(), hook)).unwrap();
        let known = store.load_history(&tale.id).await.unwrap();
        store.close().await.unwrap();
        let killed = begun.lock().unwrap().remove(0);
        begun.lock().unwrap().clear();
        let log = fs::read(redo(killed.path())).unwrap();
        for _ in 0..3 {
            let store = RedbStore::open(killed.path(), small()).unwrap();
            assert_eq!(store.load_history(&tale.id).await.unwrap(), known);
            store.close().await.unwrap();
            assert!(!redo(killed.path()).exists());
            fs::write(redo(killed.path()), &log).unwrap();
        }
    }
}

/// A disk that writes a record to the place of another one.
#[tokio::test]
async fn a_record_at_the_place_of_another_one_is_found() {
    let (directory, tale) = crashed(8).await;
    let whole = fs::read(redo(directory.path())).unwrap();
    let record = |at: usize| &whole[at * PAGE..(at + 1) * PAGE];
    let last = 6;
    for to in [1, 4, last - 1, last + 3] {
        let mut log = whole.clone();
        log[last * PAGE..(last + 1) * PAGE].fill(0);
        log[to * PAGE..(to + 1) * PAGE].copy_from_slice(record(last));
        fs::write(redo(directory.path()), &log).unwrap();
        refused(directory.path(), Code::StoreCorrupt, "is damaged: a record");
    }
    assert!(!aside(directory.path()).is_empty());
    fs::write(redo(directory.path()), &whole).unwrap();
    is_whole(directory.path(), &mut tale.duplicate()).await;
}

#[tokio::test]
async fn midex_doctor_names_the_copy_of_a_log_with_a_damaged_end() {
    let (directory, _) = crashed(4).await;
    let mut log = fs::read(redo(directory.path())).unwrap();
    let last = 2;
    log[last * PAGE + 100] ^= 1;
    fs::write(redo(directory.path()), &log).unwrap();
    let home = tempfile::tempdir().unwrap();
    let ran = Command::new(midex_test::binary())
        .arg("--data-dir")
        .arg(directory.path())
        .args(["doctor", "--json"])
        .current_dir(home.path())
        .env("HOME", home.path())
        .env("XDG_CONFIG_HOME", home.path())
        .output()
        .unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    let copies = said.lines().find(|line| line.contains("\"copies\""));
    let copies = copies.unwrap_or_else(|| panic!("no copies in {said}"));
    assert!(copies.contains("executions.redo.damaged-"), "{copies}");
    assert!(copies.contains("\"warn\""), "{copies}");
    assert_eq!(aside(directory.path()), [log]);
}

#[tokio::test]
async fn a_log_of_zeros_is_refused_and_kept() {
    let (directory, mut tale) = crashed(8).await;
    let whole = fs::read(redo(directory.path())).unwrap();
    fs::write(redo(directory.path()), vec![0; whole.len()]).unwrap();
    let error = refused(directory.path(), Code::StoreCorrupt, "lacks its first record");
    let copy = error.context("copy").unwrap().as_str().unwrap();
    assert!(copy.contains("executions.redo.damaged-"), "{copy}");
    assert!(fs::read(copy).unwrap().iter().all(|byte| *byte == 0));
    fs::write(redo(directory.path()), whole).unwrap();
    is_whole(directory.path(), &mut tale).await;
}

#[tokio::test]
async fn a_log_that_was_removed_costs_nothing() {
    let (directory, store, mut tale) = logged(8).await;
    fs::remove_file(redo(directory.path())).unwrap();
    tale.commit_step(&store).await.unwrap();
    is_whole(crash(directory.path()).path(), &mut tale.duplicate()).await;
    tale.commit_steps(&store, 20).await;
    // One that was cut is no better.
    assert!(redo(directory.path()).exists(), "another was begun");
    fs::write(redo(directory.path()), "cut").unwrap();
    tale.commit_step(&store).await.unwrap();
    is_whole(crash(directory.path()).path(), &mut tale.duplicate()).await;
    // Another file in its place is left alone, and no log is begun meanwhile.
    fs::write(redo(directory.path()), "notes").unwrap();
    tale.commit_steps(&store, 20).await;
    tale.check_store(&store).await;
    store.close().await.unwrap();
    assert_eq!(fs::read(redo(directory.path())).unwrap(), b"notes");
    refused(directory.path(), Code::StoreCorrupt, "does not begin");
    may_be_dropped(directory.path(), tale.rows.len()).await;
}
