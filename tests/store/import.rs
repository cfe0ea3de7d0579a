//! Imports on disk: they are there after a reopening, and a store that holds them is sound.

use std::sync::Arc;

use midex_domain::{Execution, ExecutionId, Row, clock::Timestamp};
use midex_engine::store::{ExaminationProgress, Import, MemoryStore, Options, RedbStore, Store};

use super::script::Script;

async fn rows_of(name: &str) -> Vec<Row> {
    let mut script = Script::new(name, 9);
    script.commit_steps(&MemoryStore::new(), 5).await;
    let mut rows = script.rows;
    let execution = Execution::replay(&rows).unwrap();
    rows.push(execution.import_row(Timestamp::from_milliseconds(1_800_000_000_000), "/home/b"));
    rows
}

async fn examine(store: &dyn Store) {
    let mut progress = ExaminationProgress::default();
    while let Some(next) = store.examine(progress).await.unwrap().next_progress {
        progress = next;
    }
}

/// Between transitions that are in the log and not yet in the data file.
#[tokio::test]
async fn imports_survive_a_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let mut other = Script::new("other", 99);
    for round in 0..3 {
        let store = RedbStore::open(directory.path(), Options::default()).unwrap();
        other.commit_steps(&store, 25).await;
        let names = [format!("a{round}"), format!("b{round}")];
        let executions = vec![rows_of(&names[0]).await, rows_of(&names[1]).await];
        let contents = vec![];
        store.import(Import { contents, executions: executions.clone() }).await.unwrap();
        other.commit_steps(&store, 3).await;
        // Dropped without a close, as a process that ends would leave it but for its lock.
        drop(store);
        let store = RedbStore::open(directory.path(), Options::default()).unwrap();
        for rows in &executions {
            let id: &ExecutionId = &rows[0].execution_id;
            let loaded = store.load(id).await.unwrap().unwrap().execution;
            assert_eq!(Some(&loaded), Execution::replay(rows).as_ref());
            assert_eq!(store.load_history(id).await.unwrap(), *rows);
        }
        other.check_store(&store).await;
        examine(&store).await;
        store.close().await.unwrap();
    }
}

/// Two imports of the same execution at once: one wins, and nothing of the other is there.
#[tokio::test]
async fn of_two_imports_with_one_id_one_wins() {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(RedbStore::open(directory.path(), Options::default()).unwrap());
    let (one, two, both) = (rows_of("one").await, rows_of("two").await, rows_of("both").await);
    let import = |executions: Vec<Vec<Row>>| {
        let store = store.clone();
        async move { store.import(Import { contents: vec![], executions }).await.is_ok() }
    };
    let (first, second) =
        tokio::join!(import(vec![one.clone(), both.clone()]), import(vec![two.clone(), both]));
    assert!(first != second);
    let is_there = async |rows: &[Row]| store.load(&rows[0].execution_id).await.unwrap().is_some();
    assert_eq!((is_there(&one).await, is_there(&two).await), (first, second));
    examine(&*store).await;
    store.close().await.unwrap();
}
