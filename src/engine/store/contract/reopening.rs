//! Promises of a store that outlives its process.

use std::{path::Path, sync::Arc};

use serde_json::json;

use super::{
    deletion::{build_deletion, sweep_store},
    pages::{query_all, query_open, read_all},
    purge, run_in_directory,
    script::{Script, build_refusal, execution_id},
};
use crate::store::{Commit, DueExecution, PlacedEntry, Store, TelemetryQuery};
use midex_domain::{Digest, Execution, Row, clock::Timestamp, limits};

/// Checks that a store that `open_store` opens again in the same directory gives the answers that it gave before, with
/// a larger owner: also one that was dropped without being closed.
///
/// # Panics
/// Where it does not.
#[expect(clippy::needless_pass_by_value, reason = "callers pass a function")]
pub fn check_reopening(open_store: impl AsyncFn(&Path) -> Arc<dyn Store>) {
    run_in_directory(async |directory| {
        let mut store = open_store(directory).await;
        let mut scripts = store_scripts(&*store).await;
        let mut owner = store.owner(&scripts[0].id).unwrap();
        for is_closed in [true, false, true] {
            let before = read_answers(&*store).await;
            if is_closed {
                store.close().await.unwrap();
            }
            drop(store);
            store = open_store(directory).await;
            // A store may forget that a sweep was done.
            sweep_store(&*store, 0).await;
            assert_eq!(read_answers(&*store).await, before);
            let later_owner = store.owner(&scripts[0].id).unwrap();
            assert!(later_owner > owner, "a later opening has a larger owner");
            owner = later_owner;
            for script in &mut scripts {
                script.check_store(&*store).await;
                script.commit_step(&*store).await.unwrap();
                script.check_store(&*store).await;
            }
        }
    });
}

/// Stores two open executions, one of them with content, a due time and a refusal, an ended one with a purge, and one that is
/// deleted last.
async fn store_scripts(store: &dyn Store) -> [Script; 2] {
    let mut scripts = [Script::new("one", 9), Script::new("two", 9)];
    scripts[0].commit_step(store).await.unwrap();
    store.note_refusal(build_refusal(1, Some(&scripts[0].id)));
    let transition = scripts[0].build_transition(&long_output());
    let due = Some(Timestamp::from_milliseconds(30));
    let commit = Commit { due, ..scripts[0].build_commit(transition) };
    scripts[0].store_commit(store, commit).await.unwrap();
    scripts[1].commit_step(store).await.unwrap();
    let mut ended = purge::store_ended_script(store, "ended").await;
    let digest = purge::build_payload(purge::PURGED_CONTENT).digest;
    let holders = store.find_holders([digest].into()).await.unwrap();
    purge::purge_content(&mut ended, store, holders.searched_before).await;
    let deleted = purge::store_ended_script(store, "deleted").await;
    store.delete(build_deletion(&deleted, 5)).await.unwrap();
    sweep_store(store, 0).await;
    scripts
}

/// An output that is stored as content.
fn long_output() -> String {
    "x".repeat(limits::INLINE_BYTES_MAX + 1)
}

/// What a store answers to every query.
#[derive(Debug, PartialEq)]
struct StoreAnswers {
    telemetry: Vec<PlacedEntry>,
    due: Vec<DueExecution>,
    ended_history: Vec<Row>,
    deleted_at: Option<Timestamp>,
    listed: Vec<Execution>,
}

async fn read_answers(store: &dyn Store) -> StoreAnswers {
    let query = TelemetryQuery { limit: 100, ..TelemetryQuery::default() };
    let telemetry = store.load_telemetry(query).await.unwrap();
    let due = store.due_executions(Timestamp::MAX, 9).await.unwrap();
    let ended_history = store.load_history(&execution_id("ended")).await.unwrap();
    let deleted_at = store.load_tombstone(&execution_id("deleted")).await.unwrap();
    assert_eq!(deleted_at, Some(Timestamp::from_milliseconds(5_000)));
    let listed = read_all(store, query_all(9)).await;
    assert_eq!((listed.len(), read_all(store, query_open(9)).await.len()), (3, 2));
    let output = json!({ "summary": long_output() }).to_string();
    let digests = [output.as_bytes(), purge::PURGED_CONTENT.as_bytes()].map(Digest::compute);
    let mut found = Vec::new();
    for digest in digests {
        found.push(store.load_content(digest).await.unwrap().is_some());
    }
    assert_eq!(found, [true, false], "content is kept, and purged content is not");
    StoreAnswers { telemetry, due, ended_history, deleted_at, listed }
}
