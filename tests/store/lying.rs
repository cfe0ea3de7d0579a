//! The suite of the contract finds a store that accepts commits whose revision does not follow.

use std::{
    panic::catch_unwind,
    sync::{Arc, atomic::Ordering},
};

use midex_engine::store::{
    Store,
    contract::{ConflictRule, FailingStore, PROMISES, Promise},
};

/// The promises that a store breaks which accepts these commits, told by their revision and the stored one.
fn find_broken_promises(accepts: ConflictRule) -> Vec<&'static str> {
    let open = || {
        let store = FailingStore::default();
        store.closes.store(true, Ordering::SeqCst);
        *store.accepted_conflicts.lock().unwrap() = Some(accepts);
        Arc::new(store) as Arc<dyn Store>
    };
    let is_broken = |promise: &&Promise| catch_unwind(|| promise.check(async |_| open())).is_err();
    PROMISES.iter().filter(is_broken).map(|promise| promise.name).collect()
}

#[test]
fn a_store_that_accepts_what_is_stored_already_is_found() {
    let expected = [
        "a_commit_must_follow_the_stored_revision",
        "an_execution_is_created_once",
        "one_of_two_racing_commits_wins",
        "a_refused_commit_leaves_an_execution_open",
    ];
    assert_eq!(find_broken_promises(|revision, stored| revision <= stored), expected);
}

#[test]
fn a_store_that_accepts_a_skipped_revision_is_found() {
    let broken = find_broken_promises(|revision, stored| revision > stored + 1);
    assert_eq!(broken, ["a_commit_that_skips_a_revision_is_refused"]);
}
