//! Promises about a change of the past: rows are replaced in one transaction with a later row, and content that no row
//! names any more is removed.

use std::{collections::BTreeSet, sync::Arc};

use super::script::Script;
use crate::store::{Commit, PastChange, Store};
use midex_domain::{Digest, Event, Execution, Payload, Row, Sequence, State, clock::Timestamp};

/// The content that is purged: too long to be in a row beside its digest.
pub const PURGED_CONTENT: &str =
    "\"a secret of eighty bytes, which is longer than what fits beside a digest in a row\"";

/// The payload of a text that is stored as content.
pub fn build_payload(text: &str) -> Payload {
    let digest = Digest::compute(text.as_bytes());
    Payload { digest, bytes: text.len() as u64, inline: None }
}

/// The commit of a signal with this content.
fn build_naming_commit(script: &Script, text: &str) -> Commit {
    let before = script.execution.clone().unwrap();
    let row = Row {
        execution_id: script.id.clone(),
        revision: before.revision() + 1,
        at: Timestamp::from_milliseconds(0),
        events: vec![Event::SignalKept { name: "news".into(), payload: build_payload(text) }],
    };
    Commit {
        execution: Arc::new(Execution::apply_row(Some(before), &row).unwrap()),
        row: Arc::new(row),
        contents: vec![(build_payload(text).digest, text.as_bytes().into())],
        due: None,
        position: script.position,
        past: None,
    }
}

/// Stores an execution that has ended and whose second row names the content.
pub async fn store_ended_script(store: &dyn Store, name: &str) -> Script {
    let mut script = Script::new(name, 1);
    script.commit_step(store).await.unwrap();
    let commit = build_naming_commit(&script, PURGED_CONTENT);
    script.store_commit(store, commit).await.unwrap();
    script.commit_state(store, State::Abandoned).await.unwrap();
    script
}

/// Replaces the second row of the execution by one that names another content.
pub async fn purge_content(script: &mut Script, store: &dyn Store, searched_before: Sequence) {
    let mut rows = script.rows.clone();
    rows[1].events =
        vec![Event::SignalKept { name: "news".into(), payload: build_payload("null") }];
    let row = Row {
        execution_id: script.id.clone(),
        revision: rows.len() as u64 + 1,
        at: Timestamp::from_milliseconds(0),
        events: vec![Event::InputsForgotten { keys: vec!["key".into()] }],
    };
    let before = Execution::replay(&rows);
    let commit = Commit {
        execution: Arc::new(Execution::apply_row(before, &row).unwrap()),
        row: Arc::new(row),
        contents: vec![(build_payload("null").digest, b"null".as_slice().into())],
        due: None,
        position: script.position,
        past: Some(Box::new(PastChange {
            rows: vec![rows[1].clone()],
            released: [build_payload(PURGED_CONTENT).digest].into(),
            searched_before,
        })),
    };
    script.rows = rows;
    script.store_commit(store, commit).await.unwrap();
}

/// Whether the store holds the content.
pub async fn is_content_stored(store: &dyn Store) -> bool {
    store.load_content(build_payload(PURGED_CONTENT).digest).await.unwrap().is_some()
}

pub(super) async fn purged_content_is_removed_with_its_rows(store: Arc<dyn Store>) {
    let mut script = store_ended_script(&*store, "one").await;
    Script::new("two", 1).commit_step(&*store).await.unwrap();
    let (secret, absent) = (build_payload(PURGED_CONTENT).digest, Digest::compute(b"absent"));
    let holders = store.find_holders([secret, absent].into()).await.unwrap();
    let expected = [(secret, BTreeSet::from([script.id.clone()]))];
    assert_eq!(holders.by_content, expected.into());
    assert!(script.row_keys.iter().all(|key| *key < holders.searched_before));
    assert!(is_content_stored(&*store).await);
    purge_content(&mut script, &*store, holders.searched_before).await;
    script.check_store(&*store).await;
    assert!(!is_content_stored(&*store).await);
    assert_eq!(store.find_holders([secret].into()).await.unwrap().by_content, [].into());
    // The same content may come again.
    store_ended_script(&*store, "three").await;
    assert!(is_content_stored(&*store).await);
}

/// A row that was stored after the search names the content.
pub(super) async fn content_that_another_row_names_is_kept(store: Arc<dyn Store>) {
    let mut script = store_ended_script(&*store, "one").await;
    let holders = store.find_holders([build_payload(PURGED_CONTENT).digest].into()).await.unwrap();
    store_ended_script(&*store, "two").await;
    purge_content(&mut script, &*store, holders.searched_before).await;
    script.check_store(&*store).await;
    assert!(is_content_stored(&*store).await);
}
