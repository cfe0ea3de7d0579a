//! Promises about imports.

use std::sync::Arc;

use super::{
    deletion::{build_deletion, sweep_store},
    pages::{list_ids, query_all, query_open, read_all},
    purge::{PURGED_CONTENT, build_payload, store_ended_script},
    script::Script,
};
use crate::store::{Import, MemoryStore, Store};
use midex_domain::{
    Event, Execution, Row,
    clock::Timestamp,
    error::{Code, Result},
};

/// The rows of an open execution that names [`PURGED_CONTENT`], and of its import.
async fn build_rows(name: &str) -> Vec<Row> {
    let mut script = Script::new(name, 3);
    script.commit_steps(&MemoryStore::new(), 2).await;
    let mut execution = script.execution.unwrap();
    let naming = Row {
        execution_id: script.id,
        revision: 3,
        at: Timestamp::from_milliseconds(0),
        events: vec![Event::SignalKept {
            name: "news".into(),
            payload: build_payload(PURGED_CONTENT),
        }],
    };
    execution = Execution::apply_row(Some(execution), &naming).unwrap();
    let now = Timestamp::from_milliseconds(1_800_000_000_000);
    let mut rows = script.rows;
    rows.extend([naming, execution.import_row(now, "/home/b")]);
    rows
}

async fn import_content(store: &dyn Store) {
    let digest = build_payload(PURGED_CONTENT).digest;
    let contents = vec![(digest, PURGED_CONTENT.as_bytes().into())];
    store.import(Import { contents, executions: Vec::new() }).await.unwrap();
}

async fn import_rows(store: &dyn Store, executions: Vec<Vec<Row>>) -> Result<()> {
    store.import(Import { contents: Vec::new(), executions }).await
}

async fn has_content(store: &dyn Store) -> bool {
    let digest = build_payload(PURGED_CONTENT).digest;
    store.load_content(digest).await.unwrap().is_some()
}

pub(super) async fn imported_executions_are_found_and_never_open(store: Arc<dyn Store>) {
    let mut other = Script::new("other", 9);
    other.commit_steps(&*store, 2).await;
    let families = [build_rows("one").await, build_rows("two").await];
    import_content(&*store).await;
    import_rows(&*store, families.to_vec()).await.unwrap();
    for rows in &families {
        let id = &rows[0].execution_id;
        let loaded = store.load(id).await.unwrap().unwrap().execution;
        assert_eq!(Some(&loaded), Execution::replay(rows).as_ref());
        assert!(loaded.is_imported());
        assert_eq!(store.load_history(id).await.unwrap(), *rows);
    }
    other.commit_step(&*store).await.unwrap();
    assert_eq!(list_ids(&read_all(&*store, query_all(9)).await), ["other", "two", "one"]);
    assert_eq!(list_ids(&read_all(&*store, query_open(9)).await), ["other"]);
    let later = Timestamp::from_milliseconds(i64::MAX);
    assert_eq!(store.due_executions(later, 9).await.unwrap(), []);
    other.check_store(&*store).await;
    sweep_store(&*store, 0).await;
    assert!(has_content(&*store).await, "imported rows name it");
}

pub(super) async fn an_import_stores_all_executions_or_none(store: Arc<dyn Store>) {
    let mut taken = Script::new("taken", 9);
    taken.commit_steps(&*store, 2).await;
    let deleted = store_ended_script(&*store, "deleted").await;
    store.delete(build_deletion(&deleted, 5)).await.unwrap();
    for name in ["taken", "deleted"] {
        let rows = vec![build_rows("free").await, build_rows(name).await];
        let refused = import_rows(&*store, rows).await.unwrap_err();
        assert_eq!(refused.code(), Code::ExecutionIdTaken, "{name}");
        assert!(store.load(&build_rows("free").await[0].execution_id).await.unwrap().is_none());
    }
    taken.check_store(&*store).await;
    assert_eq!(list_ids(&read_all(&*store, query_all(9)).await), ["taken"]);
}

pub(super) async fn an_import_without_its_rows_leaves_no_content(store: Arc<dyn Store>) {
    import_content(&*store).await;
    assert!(has_content(&*store).await);
    sweep_store(&*store, 0).await;
    assert!(!has_content(&*store).await, "no row names it");
}

pub(super) async fn rows_that_are_not_of_one_execution_are_not_imported(store: Arc<dyn Store>) {
    let rows = build_rows("one").await;
    let open = rows[..3].to_vec();
    let mut gap = rows.clone();
    gap.remove(1);
    let mut foreign = rows.clone();
    foreign[1].execution_id = build_rows("two").await[0].execution_id.clone();
    for wrong in [open, gap, foreign, Vec::new()] {
        let refused = import_rows(&*store, vec![wrong]).await.unwrap_err();
        assert_eq!(refused.code(), Code::Internal);
    }
    assert!(read_all(&*store, query_all(9)).await.is_empty());
}
