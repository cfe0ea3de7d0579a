//! Files of an earlier format: brought up to this one when they are opened, whole or not at all.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use midex::{
    domain::State,
    error::Code,
    store::{Hook, Operation, Options, RedbStore, Store},
};
use redb::{Database, ReadableDatabase, TableDefinition, WriteTransaction};

use super::{
    damage::{edit, refused},
    disk::crash,
    index::index,
    listing::{expected, to_the_end, up_to},
    tale::Tale,
};

const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta.v1");
const OPEN: TableDefinition<'_, &str, ()> = TableDefinition::new("open.v1");
const EXECUTIONS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("executions.v1");

fn sparse() -> Options {
    Options {
        snapshot_every: 16,
        ..Options::default()
    }
}

fn file(directory: &Path) -> PathBuf {
    directory.join("executions.redb")
}

/// The one thing in which a file of format 1 differs, but for the number.
fn without_index(transaction: &WriteTransaction) {
    transaction.delete_table(OPEN).unwrap();
    set_format(transaction, 1);
}

fn set_format(transaction: &WriteTransaction, format: u8) {
    let mut meta = transaction.open_table(META).unwrap();
    meta.insert("format", [format].as_slice()).unwrap();
}

fn format(directory: &Path) -> Vec<u8> {
    let database = Database::open(file(directory)).unwrap();
    let transaction = database.begin_read().unwrap();
    let meta = transaction.open_table(META).unwrap();
    let format = meta.get("format").unwrap().unwrap();
    format.value().to_vec()
}

/// A file of format 1 in which some have ended and most lie ahead of their snapshots, as a crash left it.
async fn earlier() -> (tempfile::TempDir, Vec<Tale>) {
    let directory = tempfile::tempdir().unwrap();
    let store = RedbStore::open(directory.path(), sparse()).unwrap();
    let mut tales: Vec<_> = (0..9)
        .map(|at| Tale::new(&format!("tale {at}"), 30))
        .collect();
    for (at, tale) in tales.iter_mut().enumerate() {
        tale.steps(&store, 1 + at).await;
    }
    tales[2].turn(&store, State::Completed).await.unwrap();
    tales[5].turn(&store, State::Failed).await.unwrap();
    tales[6].turn(&store, State::Paused).await.unwrap();
    tales[8].turn(&store, State::Abandoned).await.unwrap();
    let crashed = crash(directory.path());
    edit(&file(crashed.path()), without_index);
    (crashed, tales)
}

/// The store holds and lists `tales`, and its file has the present format.
async fn is_up_to_date(directory: &Path, tales: &[Tale]) {
    let store = RedbStore::open(directory, sparse()).unwrap();
    for tale in tales {
        tale.check(&store).await;
    }
    for open_only in [false, true] {
        let mut query = up_to(4);
        query.open_only = open_only;
        let executions = tales.iter().filter_map(|tale| tale.execution.as_ref());
        let (listed, _) = to_the_end(&store, query.clone()).await;
        assert_eq!(listed, expected(executions, &query));
        assert_eq!(listed.len(), if open_only { 6 } else { 9 });
    }
    store.close().await.unwrap();
    assert_eq!(format(directory), [3]);
    let open: Vec<_> = index(directory).into_iter().collect();
    let names = ["tale 0", "tale 1", "tale 3", "tale 4", "tale 6", "tale 7"];
    assert_eq!(open, names);
}

#[tokio::test]
async fn a_file_of_format_1_is_given_its_index() {
    let (directory, tales) = earlier().await;
    assert_eq!(format(directory.path()), [1]);
    is_up_to_date(directory.path(), &tales).await;
    is_up_to_date(directory.path(), &tales).await;
}

#[tokio::test]
async fn an_index_in_a_file_of_format_1_is_not_believed() {
    let (directory, tales) = earlier().await;
    edit(&file(directory.path()), |transaction| {
        let mut open = transaction.open_table(OPEN).unwrap();
        open.insert("tale 2", ()).unwrap();
        open.insert("nobody", ()).unwrap();
    });
    is_up_to_date(directory.path(), &tales).await;
}

#[tokio::test]
async fn an_empty_file_of_format_1_is_brought_up_too() {
    let directory = tempfile::tempdir().unwrap();
    drop(RedbStore::open(directory.path(), sparse()).unwrap());
    edit(&file(directory.path()), without_index);
    drop(RedbStore::open(directory.path(), sparse()).unwrap());
    assert_eq!(format(directory.path()), [3]);
    assert!(index(directory.path()).is_empty());
}

/// The file as it is before each thing that is done to it while it is opened: what a crash there would leave.
#[tokio::test]
async fn a_migration_that_a_crash_cuts_short_is_done_again() {
    let (directory, tales) = earlier().await;
    let states = Arc::new(Mutex::new(Vec::new()));
    let hook = {
        let (states, path) = (Arc::clone(&states), file(directory.path()));
        Hook::new(move |operation| {
            if matches!(operation, Operation::Write | Operation::Sync) {
                let bytes = fs::read(&path)?;
                let mut states = states.lock().unwrap();
                if states.last() != Some(&bytes) {
                    states.push(bytes);
                }
            }
            Ok(())
        })
    };
    let options = Options {
        hook: Some(hook),
        ..sparse()
    };
    let store = RedbStore::open(directory.path(), options).unwrap();
    let states = std::mem::take(&mut *states.lock().unwrap());
    drop(store);
    let mut formats = [0, 0];
    for bytes in states {
        let crashed = tempfile::tempdir().unwrap();
        fs::write(file(crashed.path()), bytes).unwrap();
        let is_new = format(crash(crashed.path()).path()) != [1];
        formats[usize::from(is_new)] += 1;
        is_up_to_date(crashed.path(), &tales).await;
    }
    assert!(formats[0] > 2 && formats[1] > 2, "{formats:?}");
}

/// A disk that refuses leaves the file as it was, and a later opening does it all.
#[tokio::test]
async fn a_migration_that_the_disk_refuses_changes_nothing() {
    let (directory, tales) = earlier().await;
    let path = file(directory.path());
    let before = fs::read(&path).unwrap();
    let mut refusals = 0;
    for at in 0.. {
        let (count, fails) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
        let failed = Arc::clone(&fails);
        let hook = Hook::new(move |operation| {
            let is_change = !matches!(operation, Operation::Read);
            if is_change && count.fetch_add(1, Ordering::SeqCst) >= at {
                failed.store(true, Ordering::SeqCst);
                return Err(io::ErrorKind::StorageFull.into());
            }
            Ok(())
        });
        let options = Options {
            hook: Some(hook),
            ..sparse()
        };
        let opened = RedbStore::open(directory.path(), options);
        if opened.is_ok() {
            break;
        }
        assert!(fails.load(Ordering::SeqCst));
        let error = opened.unwrap_err();
        assert_eq!(error.code(), Code::StoreUnavailable, "{at}: {error:?}");
        if format(crash(directory.path()).path()) == [1] {
            refusals += 1;
            assert!(fs::read(&path).unwrap() == before, "{at}: it was changed");
        }
    }
    assert!(refusals > 3, "{refusals}");
    is_up_to_date(directory.path(), &tales).await;
}

#[tokio::test]
async fn an_execution_that_cannot_be_read_stops_the_migration() {
    let (directory, _) = earlier().await;
    let path = file(directory.path());
    edit(&path, |transaction| {
        let mut executions = transaction.open_table(EXECUTIONS).unwrap();
        let mut bytes = executions
            .remove("tale 8")
            .unwrap()
            .unwrap()
            .value()
            .to_vec();
        bytes.truncate(60);
        executions.insert("tale 8", bytes.as_slice()).unwrap();
    });
    let error = refused(&path, Code::StoreCorrupt);
    assert_eq!(error.context("execution_id").unwrap(), "tale 8");
}

#[tokio::test]
async fn a_file_of_this_format_must_have_its_index() {
    let (directory, _) = earlier().await;
    let path = file(directory.path());
    edit(&path, |transaction| set_format(transaction, 2));
    let error = refused(&path, Code::StoreCorrupt);
    assert!(error.message().contains("open.v1"), "{error:?}");
}
