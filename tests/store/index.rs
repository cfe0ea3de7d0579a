//! The index of open executions on the disk, and how far a list looks.

use std::{collections::BTreeSet, path::Path};

use midex_domain::{Sequence, State, error::Code, limits};
use midex_engine::store::{Options, RedbStore, Store};
use redb::{Database, ReadableDatabase, TableDefinition};

use super::{
    disk::crash,
    listing::narrow,
    pages::{
        list_ids, list_stored, query_all, query_open, read_all, read_page, read_pages,
        select_expected, start_scripts,
    },
    script::{Script, execution_id},
};

/// What the index on the disk holds.
pub(super) fn index(directory: &Path) -> BTreeSet<String> {
    let database = Database::open(directory.join("executions.redb")).unwrap();
    let transaction = database.begin_read().unwrap();
    let open = TableDefinition::<&str, Option<i64>>::new("open.v1");
    let open = transaction.open_table(open).unwrap();
    let ids = open.range::<&str>(..).unwrap();
    ids.map(|entry| entry.unwrap().0.value().to_owned()).collect()
}

pub(super) fn open_ids(tales: &[Script]) -> BTreeSet<String> {
    list_stored(tales)
        .map(|(_, one)| one)
        .filter(|one| !one.state().is_final())
        .map(|one| one.id().to_string())
        .collect()
}

#[tokio::test]
async fn the_index_is_right_after_a_crash() {
    for snapshot_every in [1, 16] {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { snapshot_every, ..Options::default() };
        let store = RedbStore::open(directory.path(), options.clone()).unwrap();
        let mut tales = start_scripts(&store, 6).await;
        for round in 0..5 {
            // Each ends with rows behind it that no snapshot covers.
            for tale in &mut tales[round..] {
                tale.commit_steps(&store, 2 + round).await;
            }
            tales[round].commit_state(&store, State::Failed).await.unwrap();
            let crashed = crash(directory.path());
            let copy = crash(directory.path());
            // The redo log holds some of it until the file is opened.
            drop(RedbStore::open(copy.path(), options.clone()).unwrap());
            assert_eq!(index(copy.path()), open_ids(&tales));
            let survivor = RedbStore::open(crashed.path(), options.clone()).unwrap();
            for query in [query_all(4), query_open(4)] {
                let listed = read_all(&survivor, query.clone()).await;
                assert_eq!(listed, select_expected(list_stored(&tales), &query));
            }
            // What is written after the crash is indexed as well.
            let mut later = Script::new("later", 3);
            later.commit_step(&survivor).await.unwrap();
            drop(survivor);
            let mut expected = open_ids(&tales);
            expected.insert("later".into());
            assert_eq!(index(crashed.path()), expected);
        }
        store.close().await.unwrap();
        assert_eq!(index(directory.path()), open_ids(&tales));
    }
}

#[tokio::test]
async fn an_answer_looks_at_so_many_rows_and_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let store = narrow(directory.path(), 10);
    let mut tales = start_scripts(&store, 2).await;
    let mut noise = Script::new("noise", 90);
    noise.commit_steps(&store, 50).await;
    // 52 rows: the page ends where the tenth was looked at, and the next goes on behind it.
    let first = read_page(&store, &query_all(5)).await;
    assert_eq!(list_ids(&first.executions), ["noise"]);
    assert_eq!(first.next_key, Some(Sequence(43)));
    let mut query = query_all(5);
    query.before = first.next_key;
    let second = read_page(&store, &query).await;
    assert_eq!(second.executions.len(), 0);
    assert_eq!(second.next_key, Some(Sequence(33)));
    let (listed, pages) = read_pages(&store, query_all(5)).await;
    assert_eq!(list_ids(&listed), ["noise", "tale 1", "tale 0"]);
    assert_eq!(pages, 6);
    // So few open ones are found by their index, in one answer.
    let (listed, pages) = read_pages(&store, query_open(5)).await;
    assert_eq!((listed.len(), pages), (3, 1));
    // As many as may be looked at are, and one more are looked for in the journal.
    for at in 0..7 {
        tales.push(Script::new(&format!("more {at}"), 3));
        tales[at + 2].commit_step(&store).await.unwrap();
    }
    let (listed, pages) = read_pages(&store, query_open(50)).await;
    assert_eq!((listed.len(), pages), (10, 1));
    Script::new("too many", 3).commit_step(&store).await.unwrap();
    let (listed, pages) = read_pages(&store, query_open(50)).await;
    assert_eq!((listed.len(), pages), (11, 7));
    let anew = read_all(&store, query_all(50)).await;
    assert_eq!(anew, listed);
}

#[test]
fn how_many_rows_are_looked_at_is_bounded() {
    let directory = tempfile::tempdir().unwrap();
    for list_scanned_max in [0, limits::LIST_SCANNED_MAX + 1] {
        let options = Options { list_scanned_max, ..Options::default() };
        let error = RedbStore::open(directory.path(), options).unwrap_err();
        assert_eq!(error.code(), Code::Internal);
    }
    assert_eq!(Options::default().list_scanned_max, limits::LIST_SCANNED_MAX);
}

#[tokio::test]
async fn an_index_that_names_nobody_is_damage() {
    let directory = tempfile::tempdir().unwrap();
    narrow(directory.path(), 10).close().await.unwrap();
    let database = Database::open(directory.path().join("executions.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    let open = TableDefinition::<&str, Option<i64>>::new("open.v1");
    transaction.open_table(open).unwrap().insert("nobody", None).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let store = narrow(directory.path(), 10);
    let error = store.list(query_open(1)).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreCorrupt);
    assert_eq!(
        error.context("execution_id").unwrap().as_str(),
        Some(execution_id("nobody").as_str())
    );
    assert!(error.context("path").is_some());
    assert_eq!(read_all(&store, query_all(1)).await, []);
}
