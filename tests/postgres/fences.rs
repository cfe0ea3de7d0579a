//! Servers that lose their shards, and those that take them.

use std::{collections::BTreeSet, pin::pin, time::Duration};

use futures_util::{StreamExt as _, future::join_all, stream::FuturesUnordered};
use midex_domain::{clock::Timestamp, error::Code};
use midex_engine::store::{
    Deletion, Store as _, TelemetryEntry, TelemetryQuery,
    contract::script::{Script, build_refusal},
};

use crate::place::{COUNT_BLOCKED, Place, TAKE_ALL};

#[tokio::test]
async fn a_server_that_lost_a_shard_writes_nothing_to_it() {
    let place = Place::new("fenced");
    let (store, other) = (place.open().await, place.connect().await);
    let mut script = Script::new("one", 9);
    script.commit_steps(&store, 2).await;
    other.batch_execute(TAKE_ALL).await.unwrap();
    let transition = script.build_transition("too late");
    let late = script.build_commit(transition);
    let refused = store.commit(late.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ShardLost);
    assert!(refused.message().contains("another server owns execution 'one' now"), "{refused}");
    script.check_store(&store).await;
    let refused = Script::new("two", 9).commit_step(&store).await.unwrap_err();
    assert_eq!(refused.code(), Code::ShardLost);
    let count = other.query_one("SELECT count(*) FROM journal", &[]).await.unwrap();
    assert_eq!(count.get::<_, i64>(0), 2);
    // At the next renewal it learns of it, and asks the database no more.
    while store.count_shards() > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(store.commit(late).await.unwrap_err().code(), Code::ShardLost);
}

#[tokio::test]
async fn a_batch_stores_what_is_of_shards_that_are_still_owned() {
    let place = Place::new("partly");
    let (store, other) = (place.open().await, place.connect().await);
    let mut scripts: Vec<_> = (0..40).map(|at| Script::new(&format!("e{at}"), 9)).collect();
    for script in &mut scripts {
        script.commit_step(&store).await.unwrap();
    }
    other.batch_execute(&format!("{TAKE_ALL} WHERE shard < 128")).await.unwrap();
    let mut commits = Vec::new();
    for script in &mut scripts {
        let transition = script.build_transition("next");
        commits.push(store.commit(script.build_commit(transition)));
    }
    let outcomes = join_all(commits).await;
    let refused: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    assert!(refused.iter().all(|error| error.code() == Code::ShardLost), "{refused:?}");
    let stored = other.query_one("SELECT count(*) FROM journal WHERE revision = 2", &[]).await;
    let stored = stored.unwrap().get::<_, i64>(0);
    assert_eq!(stored, i64::try_from(scripts.len() - refused.len()).unwrap());
    assert!(stored > 0 && !refused.is_empty(), "{stored} were stored");
}

#[tokio::test]
async fn another_server_goes_on_where_one_ended() {
    let place = Place::new("handed");
    let mut script = Script::new("one", 9);
    let first = place.open().await;
    script.commit_steps(&first, 3).await;
    let owner = first.owner(&script.id).unwrap();
    first.close().await.unwrap();
    let second = place.open().await;
    assert_eq!(second.count_shards(), 256);
    assert!(second.owner(&script.id).unwrap() > owner);
    assert_eq!(first.owner(&script.id).unwrap_err().code(), Code::ShardLost);
    script.check_store(&second).await;
    script.commit_step(&second).await.unwrap();
    assert_eq!(
        first
            .commit(script.build_state_commit(midex_domain::State::Failed))
            .await
            .unwrap_err()
            .code(),
        Code::StoreUnavailable
    );
}

#[tokio::test]
async fn the_shards_of_a_server_that_is_gone_are_free_once_their_leases_end() {
    let place = Place::new("gone");
    let other = place.open().await;
    let client = place.connect().await;
    drop(other);
    // As if it had been killed: its leases hold for a second more.
    let hold = "UPDATE shards SET owner = 'gone', epoch = epoch + 1, expires_at = now() + interval '1 second'";
    client.batch_execute(hold).await.unwrap();
    let store = place.open().await;
    assert_eq!(store.count_shards(), 256);
    Script::new("one", 9).commit_step(&store).await.unwrap();
}

#[tokio::test]
async fn a_refused_write_keeps_the_refusals_that_were_noted_before_it() {
    let place = Place::new("noted");
    let store = place.open().await;
    let mut script = Script::new("one", 9);
    script.commit_steps(&store, 2).await;
    store.note_refusal(build_refusal(1, Some(&script.id)));
    let deletion = Deletion {
        id: script.id.clone(),
        revision: 1,
        at: Timestamp::from_milliseconds(0),
        fork_of: None,
        contents: BTreeSet::new(),
    };
    assert_eq!(store.delete(deletion).await.unwrap_err().code(), Code::RevisionConflict);
    let query = TelemetryQuery { limit: 1, ..TelemetryQuery::default() };
    let entries = store.load_telemetry(query).await.unwrap();
    let [(_, TelemetryEntry::Refusal(refusal))] = &entries[..] else {
        panic!("{entries:?}");
    };
    assert_eq!(refusal.message, "refused 1");
}

/// Commits at once, many times as many as there are lanes.
const STARTS: usize = 64;

#[tokio::test]
async fn a_batch_is_stored_beside_one_that_waits_unless_both_have_the_same_execution() {
    let place = Place::new("beside");
    let (store, mut other) = (place.open().await, place.connect().await);
    let mut slow = Script::new("slow", 9);
    slow.commit_step(&store).await.unwrap();
    let transition = slow.build_transition("once");
    let commit = slow.build_commit(transition);
    let starts = |names: &str| -> Vec<_> {
        let build = |at| {
            let mut script = Script::new(&format!("{names}{at}"), 9);
            let transition = script.build_transition("begun");
            script.build_commit(transition)
        };
        (0..STARTS).map(build).map(|start| store.commit(start)).collect()
    };

    let lock = other.transaction().await.unwrap();
    lock.batch_execute("SELECT 1 FROM executions WHERE id = 'slow' FOR UPDATE").await.unwrap();
    let mut first = pin!(store.commit(commit.clone()));
    let mut beside: FuturesUnordered<_> = starts("beside").into_iter().collect();
    let blocked = async {
        while lock.query_one(COUNT_BLOCKED, &[]).await.unwrap().get::<_, i64>(0) == 0 {}
        // Those of the same lane wait: one in so many as there are lanes.
        for _ in 0..STARTS / 4 {
            beside.next().await.unwrap().unwrap();
        }
    };
    tokio::select! {
        stored = first.as_mut() => panic!("it did not wait: {stored:?}"),
        () = blocked => {}
    }
    assert!(!beside.is_empty());

    let mut after = starts("after");
    after.insert(0, store.commit(commit));
    let release = async {
        // Time enough for a batch that does not wait.
        for _ in 0..20 {
            lock.query_one(COUNT_BLOCKED, &[]).await.unwrap();
        }
        lock.rollback().await.unwrap();
    };
    let (first, mut after, ()) = tokio::join!(first, join_all(after), release);
    first.unwrap();
    let again = after.remove(0);
    assert_eq!(again.unwrap_err().code(), Code::RevisionConflict);
    for stored in after.into_iter().chain(beside.collect::<Vec<_>>().await) {
        stored.unwrap();
    }
}
