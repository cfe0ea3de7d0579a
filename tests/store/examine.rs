//! Reading a store through in slices: all of it, once, also while it moves; and what does not hold together is found.

use std::path::Path;

use midex_domain::{
    Execution, State,
    error::{Code, Result},
    limits,
};
use midex_engine::store::{ExaminationProgress, Options, OwnedDirectory, RedbStore, Store};
use redb::{Database, Key, ReadableTable, Table, TableDefinition};

use super::{index::open_ids, pages::start_scripts, script::Script};

/// Examines all of a store: how many entries there are, and the open executions.
async fn examined(store: &dyn Store) -> Result<(u64, Vec<Execution>)> {
    let (mut entries, mut open, mut next) = (0, Vec::new(), Some(ExaminationProgress::default()));
    while let Some(from) = next {
        let slice = store.examine(from).await?;
        let most = limits::EXAMINED_BYTES_MAX / limits::EXAMINED_ENTRY_BYTES_MIN;
        assert!(slice.entries <= most as u64);
        entries += slice.entries;
        open.extend(slice.open);
        next = slice.next_progress;
    }
    Ok((entries, open))
}

fn open(directory: &Path, snapshot_every: u32) -> RedbStore {
    let options = Options { snapshot_every, ..Options::default() };
    RedbStore::open(directory, options).unwrap()
}

async fn tales(store: &RedbStore, count: usize) -> Vec<Script> {
    let mut tales = start_scripts(store, count).await;
    for (at, tale) in tales.iter_mut().enumerate() {
        tale.commit_steps(store, 1 + at % 7).await;
        if at < 4 {
            // Too long for its row.
            tale.commit_output(store, &format!("{at}").repeat(20_000)).await.unwrap();
        }
    }
    for tale in tales.iter_mut().step_by(3) {
        tale.commit_state(store, State::Failed).await.unwrap();
    }
    tales
}

fn ids(open: &[Execution]) -> Vec<String> {
    open.iter().map(|one| one.id().to_string()).collect()
}

#[tokio::test]
async fn everything_is_examined_once() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), 16);
    assert_eq!(examined(&store).await.unwrap(), (0, Vec::new()));
    let tales = tales(&store, 70).await;
    let (entries, found) = examined(&store).await.unwrap();
    let wanted = open_ids(&tales);
    assert_eq!(ids(&found), wanted.iter().cloned().collect::<Vec<_>>());
    for (one, tale) in found.iter().map(|one| (one, tales.iter().find(|tale| tale.id == *one.id())))
    {
        assert_eq!(Some(one), tale.unwrap().execution.as_ref());
    }
    let rows: usize = tales.iter().map(|tale| tale.rows.len()).sum();
    let known = rows + tales.len() + wanted.len();
    assert!(entries > known as u64, "{entries} with content, {known} without");
    store.close().await.unwrap();
}

#[tokio::test]
async fn what_moves_meanwhile_holds_together() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), 16);
    let mut tales = tales(&store, 60).await;
    let mut next = Some(ExaminationProgress::default());
    let mut ends = (5..).step_by(3);
    while let Some(from) = next {
        next = store.examine(from).await.unwrap().next_progress;
        for at in [1, 2, 4] {
            tales[at].commit_step(&store).await.unwrap();
        }
        let ends = &mut tales[ends.next().unwrap()];
        ends.commit_state(&store, State::Failed).await.unwrap();
    }
    store.close().await.unwrap();
}

/// Changes a table of a closed store.
fn change<K: Key + 'static, V: redb::Value + 'static>(
    directory: &Path,
    table: &str,
    change: impl FnOnce(&mut Table<'_, K, V>),
) {
    let database = Database::open(directory.join("executions.redb")).unwrap();
    let writing = database.begin_write().unwrap();
    change(&mut writing.open_table(TableDefinition::new(table)).unwrap());
    writing.commit().unwrap();
}

#[tokio::test]
async fn what_does_not_hold_together_is_found() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 5] = [
        ("has a hole", |directory| {
            change::<u64, &[u8]>(directory, "journal.v1", |rows| {
                drop(rows.remove(3).unwrap().unwrap());
            });
        }),
        ("leads astray", |directory| {
            change::<u64, &[u8]>(directory, "journal.v1", |rows| {
                let other = rows.get(1).unwrap().unwrap().value().to_owned();
                rows.insert(3, &*other).unwrap();
            });
        }),
        ("does not have the digest", |directory| {
            change::<&[u8; 32], &[u8]>(directory, "content.v1", |contents| {
                let key = *contents.first().unwrap().unwrap().0.value();
                contents.insert(&key, &b"other"[..]).unwrap();
            });
        }),
        ("does not say what an execution does", |directory| {
            change::<&str, Option<i64>>(directory, "open.v1", |open| {
                drop(open.pop_first().unwrap());
            });
        }),
        ("names one that is not there", |directory| {
            change::<&str, Option<i64>>(directory, "open.v1", |open| {
                open.insert("nobody", None).unwrap();
            });
        }),
    ];
    for (says, damage) in damages {
        let directory = tempfile::tempdir().unwrap();
        let store = open(directory.path(), 1);
        tales(&store, 4).await;
        store.close().await.unwrap();
        damage(directory.path());
        let store = open(directory.path(), 1);
        let error = examined(&store).await.expect_err(says);
        assert_eq!(error.code(), Code::StoreCorrupt, "{error}");
        assert!(error.message().contains(says), "{error}");
        store.close().await.unwrap();
    }
}

/// To how many executions the index does not lead.
async fn count_misindexed(store: &dyn Store) -> u64 {
    let (mut count, mut next) = (0, Some(ExaminationProgress::default()));
    while let Some(from) = next {
        let slice = store.examine(from).await.unwrap();
        count += slice.misindexed;
        next = slice.next_progress;
    }
    count
}

#[tokio::test]
async fn a_compaction_mends_the_index() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), 1);
    let mut tales = tales(&store, 6).await;
    while store.update_index(1).await.unwrap() {}
    assert_eq!(count_misindexed(&store).await, 0);
    store.close().await.unwrap();
    change::<u64, &[u8]>(directory.path(), "summaries.v1", |summaries| {
        drop(summaries.pop_first().unwrap());
        let (key, other) =
            summaries.pop_last().unwrap().map(|(key, _)| (key.value(), [7; 9])).unwrap();
        summaries.insert(key, &other[..]).unwrap();
    });
    let store = open(directory.path(), 1);
    assert_eq!(count_misindexed(&store).await, 2);
    // One that has moved since is found by its rows.
    tales[1].commit_step(&store).await.unwrap();
    assert_eq!(count_misindexed(&store).await, 1);
    store.close().await.unwrap();
    let owned = OwnedDirectory::take_ownership(directory.path()).unwrap();
    owned.compact(&Options::default()).unwrap();
    let store = open(directory.path(), 1);
    assert_eq!(count_misindexed(&store).await, 0, "there is no index yet");
    while store.update_index(1).await.unwrap() {}
    assert_eq!(count_misindexed(&store).await, 0);
    store.close().await.unwrap();
}
