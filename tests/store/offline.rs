//! The data file is replaced while no process has it open: by a smaller one, or by a backup.

use std::{
    fs,
    io::ErrorKind,
    os::unix::fs::{FileExt, PermissionsExt, symlink},
    path::Path,
    sync::{Arc, Mutex},
};

use midex_domain::{
    State,
    clock::Timestamp,
    error::{Code, Error, Result},
};
use midex_engine::store::{
    FileHook, FileOperation, Options, OwnedDirectory, RedbStore, Restoration, Store, StoredRecord,
    contract::deletion::{build_deletion, sweep_store},
};
use midex_test::long::{Dice, rounds, seed};

use super::{
    backup::{filled, listed, opened},
    damage::edit,
    disk::crash,
    failure::Saboteur,
    script::Script,
};

const STORE: [&str; 2] = ["executions.lock", "executions.redb"];
const NOW: Timestamp = Timestamp::from_milliseconds(1_800_000_000_123);
const KEPT: &str = "executions.redb.replaced-2027-01-15T080000.123Z";

fn restore(directory: &Path, backup: &Path, replace: bool) -> Result<Restoration> {
    let owned = OwnedDirectory::take_ownership(directory)?;
    owned.restore(backup, replace, NOW, &Options::default())
}

/// A store of which most was deleted; what is left.
async fn thinned(directory: &Path) -> Vec<Script> {
    let store = RedbStore::open(directory, Options::default()).unwrap();
    let mut scripts = filled(&store, 60).await;
    for script in &mut scripts[5..] {
        script.commit_state(&store, State::Abandoned).await.unwrap();
        store.delete(build_deletion(script, 1)).await.unwrap();
    }
    sweep_store(&store, 0).await;
    store.close().await.unwrap();
    scripts.truncate(5);
    scripts
}

async fn check(directory: &Path, scripts: &[Script]) {
    let store = RedbStore::open(directory, Options::default()).unwrap();
    for script in scripts {
        script.check_store(&store).await;
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_compaction_gives_back_what_deletions_freed() {
    let home = tempfile::tempdir().unwrap();
    let (data, place) = (home.path().join("data"), home.path().join("place.redb"));
    let mut scripts = thinned(&data).await;
    // The data file may be a link.
    let path = data.join("executions.redb");
    fs::rename(&path, &place).unwrap();
    symlink(&place, &path).unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o640)).unwrap();
    let before = fs::metadata(&place).unwrap().len();
    // What is in the log of a killed process is in the new file, and the log is gone.
    let options = Options { redo_after: 0, ..Options::default() };
    let store = RedbStore::open(&data, options).unwrap();
    scripts[0].commit_step(&store).await.unwrap();
    scripts[1].commit_step(&store).await.unwrap();
    let left = crash(&data);
    fs::copy(home.path().join("executions.redo"), left.path().join("executions.redo")).unwrap();
    store.close().await.unwrap();
    for (directory, file) in [(&*data, place), (left.path(), left.path().join("executions.redb"))] {
        let owned = OwnedDirectory::take_ownership(directory).unwrap();
        let compaction = owned.compact(&Options::default()).unwrap();
        assert!(compaction.bytes_after * 2 < before, "{compaction:?} of {before}");
        assert_eq!(fs::metadata(&file).unwrap().len(), compaction.bytes_after);
        assert_eq!(listed(directory), STORE);
        check(directory, &scripts).await;
        let owned = OwnedDirectory::take_ownership(directory).unwrap();
        let again = owned.compact(&Options::default()).unwrap();
        assert!(again.bytes_after <= compaction.bytes_after, "{again:?} after {compaction:?}");
    }
    assert_eq!(
        fs::metadata(home.path().join("place.redb")).unwrap().permissions().mode() & 0o777,
        0o640
    );
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    assert_eq!(listed(home.path()), ["data", "place.redb"]);
    // While a process has the store, nobody else replaces its file.
    let store = RedbStore::open(&data, Options::default()).unwrap();
    assert_eq!(OwnedDirectory::take_ownership(&data).unwrap_err().code(), Code::StoreBusy);
    drop(store);
}

/// A backup of a store of three executions, and these.
async fn backed_up(home: &Path) -> (std::path::PathBuf, Vec<Script>) {
    let store = RedbStore::open(&home.join("old"), Options::default()).unwrap();
    let scripts = filled(&store, 3).await;
    let target = home.join("backup.redb");
    store.back_up(target.clone()).await.unwrap();
    store.close().await.unwrap();
    (target, scripts)
}

#[tokio::test]
async fn a_backup_is_put_back() {
    let home = tempfile::tempdir().unwrap();
    let (backup, scripts) = backed_up(home.path()).await;
    let bytes = fs::read(&backup).unwrap();
    let new = home.path().join("new");
    let restored = restore(&new, &backup, false).unwrap();
    assert_eq!((restored.executions, restored.replaced), (3, None));
    assert_eq!(listed(&new), STORE);
    check(&new, &scripts).await;
    // A present store is replaced only on request, and kept with what is in its log.
    let present = fs::read(new.join("executions.redb")).unwrap();
    let error = restore(&new, &backup, false).unwrap_err();
    assert_eq!(error.code(), Code::FileExists);
    assert!(error.suggested_action().contains("--replace"), "{error:?}");
    assert!(fs::read(new.join("executions.redb")).unwrap() == present);
    let store = RedbStore::open(&new, Options { redo_after: 0, ..Options::default() }).unwrap();
    let mut later = Script::new("later", 9);
    later.commit_steps(&store, 5).await;
    assert_eq!(restore(&new, &backup, true).unwrap_err().code(), Code::StoreBusy);
    let left = crash(&new);
    store.close().await.unwrap();
    assert!(left.path().join("executions.redo").exists());
    let restored = restore(left.path(), &backup, true).unwrap();
    assert_eq!(restored.replaced, Some(left.path().join(KEPT)));
    assert_eq!(listed(left.path()), [STORE[0], STORE[1], KEPT]);
    check(left.path(), &scripts).await;
    let (_directory, kept) = opened(&left.path().join(KEPT)).await;
    later.check_store(&kept).await;
    scripts[0].check_store(&kept).await;
    assert!(fs::read(&backup).unwrap() == bytes, "the backup is as it was");
}

/// A damaged store is kept as it is, with its log.
#[tokio::test]
async fn a_backup_takes_the_place_of_a_damaged_store() {
    let home = tempfile::tempdir().unwrap();
    let (backup, scripts) = backed_up(home.path()).await;
    let log = "executions.redo.replaced-2027-01-15T080000.123Z";
    for (has_file, has_log) in [(true, false), (true, true), (false, true)] {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path();
        if has_file {
            fs::write(here.join("executions.redb"), "x".repeat(9_000)).unwrap();
        }
        if has_log {
            fs::write(here.join("executions.redo"), "x".repeat(9_000)).unwrap();
        }
        assert_eq!(restore(here, &backup, false).unwrap_err().code(), Code::FileExists);
        restore(here, &backup, true).unwrap();
        let damaged = |name: &String| !name.contains(".damaged-");
        let names: Vec<_> = listed(here).into_iter().filter(damaged).collect();
        let mut expected = vec![STORE[0], STORE[1]];
        expected.extend(has_file.then_some(KEPT));
        expected.extend(has_log.then_some(log));
        assert_eq!(names, expected);
        for kept in &expected[2..] {
            assert_eq!(fs::read(here.join(kept)).unwrap(), "x".repeat(9_000).as_bytes());
        }
        check(here, &scripts).await;
    }
}

/// Whether the restore is refused with this code, and leaves the store as it is.
fn refuses(directory: &Path, backup: &Path) -> Error {
    let path = directory.join("executions.redb");
    let before = (fs::read(&path).unwrap(), fs::read(backup).ok());
    let error = restore(directory, backup, true).unwrap_err();
    assert!((fs::read(&path).unwrap(), fs::read(backup).ok()) == before, "{error:?}");
    assert_eq!(listed(directory), STORE, "{error:?}");
    error
}

#[tokio::test]
async fn what_is_no_whole_backup_is_refused_before_anything_changes() {
    let home = tempfile::tempdir().unwrap();
    let (backup, scripts) = backed_up(home.path()).await;
    let data = home.path().join("data");
    restore(&data, &backup, false).unwrap();
    let bytes = fs::read(&backup).unwrap();
    let other = home.path().join("other.redb");
    let write = |bytes: &[u8]| fs::write(&other, bytes).unwrap();
    // Bytes of pages that are in use are found wherever they change; a change elsewhere does no harm.
    let mut dice = Dice(seed(40));
    let mut found = 0;
    for _ in 0..rounds(40, 1_000) {
        write(&bytes);
        let at = dice.roll(bytes.len() as u64);
        let byte = bytes[usize::try_from(at).unwrap()] ^ (1 << dice.roll(8));
        fs::OpenOptions::new().write(true).open(&other).unwrap().write_all_at(&[byte], at).unwrap();
        let directory = tempfile::tempdir().unwrap();
        match restore(directory.path(), &other, false) {
            Ok(_) => check(directory.path(), &scripts).await,
            Err(error) => {
                found += 1;
                assert_eq!(error.context("path").unwrap().as_str(), other.to_str(), "{error:?}");
                assert_eq!(listed(directory.path()), ["executions.lock"]);
            }
        }
    }
    assert!(found > 0);
    for length in [0, 1, 4096, bytes.len() / 2, bytes.len() - 4096] {
        write(&bytes[..length]);
        let error = refuses(&data, &other);
        assert_eq!(error.code(), Code::StoreCorrupt, "{length}: {error:?}");
        assert!(error.suggested_action().contains("another backup"), "{error:?}");
    }
    write(&b"x".repeat(9_000));
    assert_eq!(refuses(&data, &other).code(), Code::StoreCorrupt);
    write(&bytes);
    let meta = redb::TableDefinition::<&str, &[u8]>::new("meta.v1");
    edit(&other, |transaction| {
        let mut meta = transaction.open_table(meta).unwrap();
        meta.insert("file_format", b"midex-2".as_slice()).unwrap();
    });
    assert_eq!(refuses(&data, &other).code(), Code::StoreTooNew);
    // A data file that lacks what is in its log, one that is open, the store's own file, and what is no file.
    let options = Options { redo_after: 0, ..Options::default() };
    let store = RedbStore::open(&home.path().join("old"), options).unwrap();
    Script::new("logged", 9).commit_steps(&store, 3).await;
    let left = crash(&home.path().join("old"));
    let error = refuses(&data, &left.path().join("executions.redb"));
    assert_eq!(error.code(), Code::FileUnusable, "{error:?}");
    let error = refuses(&data, &home.path().join("old/executions.redb"));
    assert_eq!(error.code(), Code::StoreBusy, "{error:?}");
    drop(store);
    fs::hard_link(data.join("executions.redb"), home.path().join("hard")).unwrap();
    assert_eq!(refuses(&data, &home.path().join("hard")).code(), Code::FileExists);
    assert_eq!(refuses(&data, home.path()).code(), Code::FileUnusable);
    assert_eq!(refuses(&data, &home.path().join("missing")).code(), Code::FileUnusable);
    check(&data, &scripts).await;
}

/// A table of which no copy is made would be missing in the copy.
#[tokio::test]
async fn a_store_with_an_unknown_table_is_not_copied() {
    let directory = tempfile::tempdir().unwrap();
    let scripts = thinned(directory.path()).await;
    edit(&directory.path().join("executions.redb"), |transaction| {
        let table = redb::TableDefinition::<&str, u64>::new("later.v1");
        transaction.open_table(table).unwrap().insert("x", 1).unwrap();
    });
    let owned = OwnedDirectory::take_ownership(directory.path()).unwrap();
    let error = owned.compact(&Options::default()).unwrap_err();
    assert_eq!(error.code(), Code::StoreTooNew, "{error:?}");
    assert!(error.message().contains("later.v1"), "{error:?}");
    let owned = OwnedDirectory::take_ownership(directory.path()).unwrap();
    let error = owned.open_records(&Options::default()).unwrap_err();
    assert_eq!(error.code(), Code::StoreTooNew, "{error:?}");
    let store = RedbStore::open(directory.path(), Options::default()).unwrap();
    let target = directory.path().join("backup.redb");
    assert_eq!(store.back_up(target).await.unwrap_err().code(), Code::StoreTooNew);
    store.close().await.unwrap();
    assert_eq!(listed(directory.path()), STORE);
    check(directory.path(), &scripts).await;
}

/// The lines of the keys of all records of a table, in order.
fn read_keys<'a>(records: &'a [StoredRecord], table: &str) -> Vec<Vec<&'a str>> {
    let records = records.iter().filter(|record| record.table == table);
    records.map(|record| record.key.lines().collect()).collect()
}

/// Records that only the log has are read too, and rows after the snapshots, also without room for new snapshots.
#[tokio::test]
async fn the_records_of_a_killed_store_are_read_in_order() {
    for (redo_after, has_room) in [(0, true), (u64::MAX, false)] {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { snapshot_every: 16, redo_after, ..Options::default() };
        let store = RedbStore::open(directory.path(), options).unwrap();
        let scripts = filled(&store, 9).await;
        let left = crash(directory.path());
        store.close().await.unwrap();
        let hook = FileHook::new(move |operation| match operation {
            FileOperation::Reserve(_) if !has_room => Err(ErrorKind::StorageFull.into()),
            _ => Ok(()),
        });
        let owned = OwnedDirectory::take_ownership(left.path()).unwrap();
        let source =
            owned.open_records(&Options { hook: Some(hook), ..Options::default() }).unwrap();
        let records: Vec<_> = source.read().unwrap().collect::<Result<_>>().unwrap();
        let mut tables: Vec<_> = records.iter().map(|record| record.table).collect();
        tables.dedup();
        assert_eq!(tables, ["contents", "journal", "executions", "snapshots"]);
        let (mut rows, mut executions) = (Vec::new(), Vec::new());
        for script in &scripts {
            let keys = script.row_keys.iter().zip(&script.rows);
            rows.extend(keys.map(|(key, row)| (key.0, script.id.as_str(), row.revision)));
            let last = script.row_keys.last().unwrap().0.to_string();
            executions.push([script.id.to_string(), last, script.rows.len().to_string()]);
            let (_, loaded) = source.load(script.id.as_str()).unwrap();
            assert_eq!(Some(&loaded.execution), script.execution.as_ref());
        }
        rows.sort_unstable();
        executions.sort_unstable();
        let expected = rows.iter().map(|(key, id, revision)| format!("{key} {id} {revision}"));
        let read = read_keys(&records, "journal").into_iter().map(|lines| lines.join(" "));
        assert!(expected.eq(read));
        assert_eq!(read_keys(&records, "executions"), executions);
        assert!(source.last_owner().0 > rows.last().unwrap().0);
        assert_eq!(source.retire(NOW).unwrap(), left.path().join(KEPT).canonicalize().unwrap());
    }
}

/// What is replaced, and how.
type Replace = fn(&Path, &Path, &Options) -> Result<()>;

const REPLACEMENTS: [Replace; 2] = [
    |directory, _, options| OwnedDirectory::take_ownership(directory)?.compact(options).map(drop),
    |directory, backup, options| {
        let owned = OwnedDirectory::take_ownership(directory)?;
        owned.restore(backup, true, NOW, options).map(drop)
    },
];

/// What a process that is killed before each operation leaves: the old store or the new one, and nothing else.
#[tokio::test]
async fn a_process_may_end_at_each_step_of_a_replacement() {
    for (number, replace) in REPLACEMENTS.into_iter().enumerate() {
        let home = tempfile::tempdir().unwrap();
        let (backup, restored) = backed_up(home.path()).await;
        let data = home.path().join("data");
        let old = thinned(&data).await;
        let states = Arc::new(Mutex::new(Vec::new()));
        let hook = {
            let (states, data) = (states.clone(), data.clone());
            FileHook::new(move |operation| {
                if operation != FileOperation::Read {
                    let state = tempfile::tempdir().unwrap();
                    for name in listed(&data) {
                        fs::copy(data.join(&name), state.path().join(&name)).unwrap();
                    }
                    states.lock().unwrap().push(state);
                }
                Ok(())
            })
        };
        replace(&data, &backup, &Options { hook: Some(hook), ..Options::default() }).unwrap();
        let states = std::mem::take(&mut *states.lock().unwrap());
        assert!(states.len() > 5, "{}", states.len());
        for state in states {
            let store = RedbStore::open(state.path(), Options::default()).unwrap();
            let is_new = store.load(&old[4].id).await.unwrap().is_none();
            let expected = if is_new { &restored } else { &old };
            assert!(!is_new || number == 1);
            for script in expected {
                script.check_store(&store).await;
            }
            store.close().await.unwrap();
            let left: Vec<_> = listed(state.path());
            assert!(left == STORE || left == [STORE[0], STORE[1], KEPT], "{left:?}");
        }
    }
}

/// Each operation fails once: the old store is there, or the new one.
#[tokio::test]
async fn a_replacement_that_fails_leaves_a_whole_store() {
    for replace in REPLACEMENTS {
        let home = tempfile::tempdir().unwrap();
        let (backup, restored) = backed_up(home.path()).await;
        let data = home.path().join("data");
        let old = thinned(&data).await;
        let mut failures = 0;
        for at in 0.. {
            let copy = crash(&data);
            let data = copy.path();
            let saboteur = Saboteur::default();
            let writes = |operation: FileOperation<'_>| operation != FileOperation::Read;
            let hook = saboteur.hook(writes, ErrorKind::StorageFull);
            saboteur.arm(at, 1);
            let done = replace(data, &backup, &Options { hook: Some(hook), ..Options::default() });
            let is_over = saboteur.failed() == 0;
            let store = RedbStore::open(data, Options::default()).unwrap();
            let is_new = store.load(&old[4].id).await.unwrap().is_none();
            for script in if is_new { &restored } else { &old } {
                script.check_store(&store).await;
            }
            store.close().await.unwrap();
            failures += u64::from(done.is_err());
            let left = listed(data);
            assert!(left == STORE || left == [STORE[0], STORE[1], KEPT], "{at}: {left:?}");
            if is_over {
                done.unwrap();
                break;
            }
        }
        assert!(failures > 4, "{failures}");
    }
}
