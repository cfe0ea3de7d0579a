//! Promises about deletions and sweeps.

use std::sync::Arc;

use super::{
    pages::{list_ids, query_all, read_all},
    purge::{PURGED_CONTENT, build_payload, store_ended_script},
    script::Script,
};
use crate::store::{ContentSweep, Deletion, Store, TelemetryQuery, find_row_contents};
use midex_domain::{State, clock::Timestamp, error::Code};

/// The deletion of the execution of a script, at this second.
pub fn build_deletion(script: &Script, second: i64) -> Deletion {
    Deletion {
        id: script.id.clone(),
        revision: script.rows.len() as u64,
        at: Timestamp::from_milliseconds(second * 1000),
        fork_of: None,
        contents: find_row_contents(&script.rows).unwrap(),
    }
}

/// Does a whole sweep, which removes the tombstones of deletions before this second.
pub async fn sweep_store(store: &dyn Store, before_second: i64) {
    let mut sweep = ContentSweep::new(Timestamp::from_milliseconds(before_second * 1000));
    while !sweep.is_done() {
        sweep = store.sweep(sweep).await.unwrap();
    }
}

async fn has_content(store: &dyn Store) -> bool {
    let digest = build_payload(PURGED_CONTENT).digest;
    store.load_content(digest).await.unwrap().is_some()
}

pub(super) async fn a_deleted_execution_leaves_a_tombstone_alone(store: Arc<dyn Store>) {
    let script = store_ended_script(&*store, "one").await;
    let mut other = Script::new("other", 9);
    other.commit_steps(&*store, 3).await;
    assert_eq!(store.load_tombstone(&script.id).await.unwrap(), None);
    let deletion = build_deletion(&script, 5);
    store.delete(deletion.clone()).await.unwrap();
    let deleted_at = Some(Timestamp::from_milliseconds(5_000));
    assert_eq!(store.load_tombstone(&script.id).await.unwrap(), deleted_at);
    assert!(store.load(&script.id).await.unwrap().is_none());
    assert!(store.load_history(&script.id).await.unwrap().is_empty());
    assert_eq!(list_ids(&read_all(&*store, query_all(9)).await), ["other"]);
    let query = TelemetryQuery {
        execution_id: Some(script.id.clone()),
        limit: 9,
        ..TelemetryQuery::default()
    };
    assert_eq!(store.load_telemetry(query).await.unwrap(), []);
    let again = store.delete(deletion).await.unwrap_err();
    assert_eq!(again.code(), Code::RevisionConflict, "there is nothing to delete");
    other.commit_step(&*store).await.unwrap();
    other.check_store(&*store).await;
    sweep_store(&*store, 5).await;
    assert_eq!(store.load_tombstone(&script.id).await.unwrap(), deleted_at);
    sweep_store(&*store, 6).await;
    assert_eq!(store.load_tombstone(&script.id).await.unwrap(), None);
}

pub(super) async fn an_execution_that_moved_is_not_deleted(store: Arc<dyn Store>) {
    let mut script = Script::new("one", 9);
    script.commit_steps(&*store, 2).await;
    let deletion = build_deletion(&script, 5);
    script.commit_state(&*store, State::Abandoned).await.unwrap();
    let refused = store.delete(deletion).await.unwrap_err();
    assert_eq!(refused.code(), Code::RevisionConflict);
    script.check_store(&*store).await;
    assert_eq!(store.load_tombstone(&script.id).await.unwrap(), None);
}

pub(super) async fn a_sweep_frees_what_no_row_names(store: Arc<dyn Store>) {
    let first = store_ended_script(&*store, "first").await;
    let second = store_ended_script(&*store, "second").await;
    store.delete(build_deletion(&first, 1)).await.unwrap();
    sweep_store(&*store, 0).await;
    assert!(has_content(&*store).await, "another execution names it");
    store.delete(build_deletion(&second, 2)).await.unwrap();
    // A row that is stored during the sweep names it again.
    let mut sweep = store.sweep(ContentSweep::new(Timestamp::from_milliseconds(0))).await.unwrap();
    if !sweep.is_done() {
        let third = store_ended_script(&*store, "third").await;
        while !sweep.is_done() {
            sweep = store.sweep(sweep).await.unwrap();
        }
        assert!(has_content(&*store).await, "it is named since the sweep began");
        store.delete(build_deletion(&third, 3)).await.unwrap();
    }
    sweep_store(&*store, 0).await;
    assert!(!has_content(&*store).await, "nothing names it");
}
