//! What every store promises. Each test runs against each store.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use midex_domain::{Digest, State, clock::Timestamp, error::Code, limits, telemetry::EventType};
use midex_engine::store::{
    Commit, ListQuery, MemoryStore, Options, Position, RedbStore, Store, TelemetryEntry,
    TelemetryQuery,
};

use super::tale::{Tale, id, refusal};

pub(super) fn memory(_: &Path) -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

pub(super) fn disk(directory: &Path) -> Arc<dyn Store> {
    Arc::new(RedbStore::open(directory, Options::default()).unwrap())
}

pub(super) fn sparse_disk(directory: &Path) -> Arc<dyn Store> {
    let options = Options { snapshot_every: 16, ..Options::default() };
    Arc::new(RedbStore::open(directory, options).unwrap())
}

macro_rules! contract {
    ($($name:ident)*) => {
        contract!(@ memory: $($name)*);
        contract!(@ disk: $($name)*);
        contract!(@ sparse_disk: $($name)*);
    };
    (@ $store:ident: $($name:ident)*) => {
        mod $store {
            $(#[tokio::test]
            async fn $name() {
                let directory = tempfile::tempdir().unwrap();
                super::$name(super::$store(directory.path())).await;
            })*
        }
    };
}

pub(super) use contract;

contract! {
    what_is_committed_is_found
    what_is_not_there_is_none
    a_commit_must_follow_the_stored_revision
    an_execution_is_created_once
    one_of_two_racing_commits_wins
    a_torn_commit_is_refused
    content_is_stored_by_digest
    telemetry_has_one_order
    a_refusal_is_told_by_the_next_read
    telemetry_is_filtered_and_bounded
    refusals_are_bounded
    what_is_due_is_found_earliest_first
    a_checkpoint_changes_nothing_that_is_seen
    a_closed_store_refuses
}

async fn what_is_committed_is_found(store: Arc<dyn Store>) {
    let mut one = Tale::new("one", 3);
    let mut two = Tale::new("two", 40);
    for _ in 0..4 {
        one.step(&*store).await.unwrap();
        two.step(&*store).await.unwrap();
        one.check(&*store).await;
        two.check(&*store).await;
    }
    two.steps(&*store, 37).await;
    two.check(&*store).await;
    assert!(two.execution.as_ref().unwrap().state().is_final());
    assert!(two.places.is_sorted(), "{:?}", two.places);
    for row in &one.rows {
        let found = store.load_rows(&one.id, [row.revision].into()).await.unwrap();
        assert_eq!(found, std::slice::from_ref(row));
    }
    let found = store.load_rows(&two.id, [0, 3, 4, 30, 41, 42, 99].into()).await;
    let revisions: Vec<_> = found.unwrap().iter().map(|row| row.revision).collect();
    assert_eq!(revisions, [41, 30, 4, 3]);
}

async fn what_is_not_there_is_none(store: Arc<dyn Store>) {
    assert!(store.load(&id("nobody")).await.unwrap().is_none());
    assert!(store.load_history(&id("nobody")).await.unwrap().is_empty());
    let rows = store.load_rows(&id("nobody"), [0, 1, u64::MAX].into()).await;
    assert!(rows.unwrap().is_empty());
    assert!(store.load_content(Digest::compute(b"none")).await.unwrap().is_none());
    let query =
        TelemetryQuery { execution_id: Some(id("nobody")), limit: 10, ..TelemetryQuery::default() };
    assert_eq!(store.load_telemetry(query).await.unwrap(), []);
}

async fn a_commit_must_follow_the_stored_revision(store: Arc<dyn Store>) {
    let mut tale = Tale::new("one", 5);
    tale.steps(&*store, 2).await;
    let stale = tale.transition("stale");
    let stale = tale.commit_of(stale);
    tale.step(&*store).await.unwrap();
    let error = store.commit(stale.clone()).await.unwrap_err();
    assert_eq!(error.code(), Code::RevisionConflict);
    tale.check(&*store).await;

    let mut ahead = stale;
    Arc::make_mut(&mut ahead.row).revision = 9;
    assert!(store.commit(ahead).await.is_err());
    tale.check(&*store).await;
    tale.steps(&*store, 3).await;
    tale.check(&*store).await;
}

async fn an_execution_is_created_once(store: Arc<dyn Store>) {
    let mut tale = Tale::new("one", 2);
    tale.step(&*store).await.unwrap();
    let error = Tale::new("one", 3).step(&*store).await.unwrap_err();
    assert_eq!(error.code(), Code::RevisionConflict);
    tale.check(&*store).await;
}

async fn one_of_two_racing_commits_wins(store: Arc<dyn Store>) {
    let mut tale = Tale::new("one", 2);
    tale.step(&*store).await.unwrap();
    let commits: Vec<_> = (0..8)
        .map(|number| {
            let transition = tale.transition(&format!("writer {number}"));
            tale.commit_of(transition)
        })
        .collect();
    let racers: Vec<_> = commits
        .iter()
        .map(|commit| {
            let (store, commit) = (Arc::clone(&store), commit.clone());
            tokio::spawn(async move { store.commit(commit).await })
        })
        .collect();
    let mut winners = Vec::new();
    for (racer, commit) in racers.into_iter().zip(commits) {
        match racer.await.unwrap() {
            Ok(committed) => winners.push((committed, commit)),
            Err(error) => assert_eq!(error.code(), Code::RevisionConflict),
        }
    }
    let [(committed, commit)] = &winners[..] else {
        panic!("{} winners", winners.len());
    };
    tale.rows.push((*commit.row).clone());
    tale.places.push(committed.row);
    tale.execution = Some((*commit.execution).clone());
    tale.check(&*store).await;
}

async fn a_torn_commit_is_refused(store: Arc<dyn Store>) {
    let mut tale = Tale::new("one", 4);
    tale.steps(&*store, 2).await;
    let good = tale.transition("good");
    let good = tale.commit_of(good);
    let mut other = good.clone();
    Arc::make_mut(&mut other.row).execution_id = id("two");
    assert_eq!(store.commit(other).await.unwrap_err().code(), Code::Internal);
    tale.check(&*store).await;
    store.commit(good).await.unwrap();
}

async fn content_is_stored_by_digest(store: Arc<dyn Store>) {
    let mut tale = Tale::new("one", 2);
    tale.step(&*store).await.unwrap();
    let long = "x".repeat(limits::INLINE_BYTES_MAX + 1);
    let transition = tale.transition(&long);
    let (digest, content) = transition.contents[0].clone();
    tale.say(&*store, &long).await.unwrap();
    assert_eq!(store.load_content(digest).await.unwrap(), Some(Arc::clone(&content)));

    let mut other = Tale::new("two", 2);
    other.step(&*store).await.unwrap();
    other.say(&*store, &long).await.unwrap();
    assert_eq!(store.load_content(digest).await.unwrap(), Some(content));
}

async fn telemetry_has_one_order(store: Arc<dyn Store>) {
    let mut tale = Tale::new("one", 3);
    let mut expected = Vec::new();
    for number in 0..3 {
        store.note_refusal(refusal(number, Some(&tale.id)));
        tale.step(&*store).await.unwrap();
        expected.push(None);
        expected.push(Some(tale.rows[number].clone()));
    }
    let query = TelemetryQuery { limit: 100, ..TelemetryQuery::default() };
    let told = store.load_telemetry(query).await.unwrap();
    let rows: Vec<_> = told
        .iter()
        .map(|told| match &told.1 {
            TelemetryEntry::Transition(row) => Some(row.clone()),
            TelemetryEntry::Refusal(_) => None,
        })
        .collect();
    assert_eq!(rows, expected);
    assert!(told.is_sorted_by(|one, two| one.0 < two.0), "{told:?}");
}

/// What was refused before a read is in it, whether it is on the disk by then or not.
async fn a_refusal_is_told_by_the_next_read(store: Arc<dyn Store>) {
    let mut tale = Tale::new("one", 3);
    tale.step(&*store).await.unwrap();
    for number in 0..20 {
        store.note_refusal(refusal(number, Some(&tale.id)));
        for execution_id in [None, Some(tale.id.clone())] {
            let query = TelemetryQuery { execution_id, limit: 100, ..TelemetryQuery::default() };
            let told = store.load_telemetry(query).await.unwrap();
            let last = told.last();
            assert!(
                matches!(last, Some((_, TelemetryEntry::Refusal(refusal))) if refusal.message == format!("refused {number}")),
                "{number}: {last:?}"
            );
        }
    }
}

async fn telemetry_is_filtered_and_bounded(store: Arc<dyn Store>) {
    let (mut one, mut two) = (Tale::new("one", 6), Tale::new("two", 6));
    for number in 0..7 {
        store.note_refusal(refusal(number, Some(&one.id)));
        one.step(&*store).await.unwrap();
        two.step(&*store).await.unwrap();
    }
    let ask = async |execution: Option<&Tale>, event_type, limit| {
        let query = TelemetryQuery {
            execution_id: execution.map(|tale| tale.id.clone()),
            event_type,
            limit,
        };
        store.load_telemetry(query).await.unwrap()
    };
    let all = ask(None, None, 1000).await;
    assert_eq!(all.len(), 21);
    assert_eq!(ask(None, None, 5).await, all[16..]);
    assert_eq!(ask(None, None, 0).await, []);
    assert_eq!(ask(Some(&one), None, 1000).await.len(), 14);
    assert_eq!(ask(Some(&two), None, 1000).await.len(), 7);
    let expired = ask(Some(&one), Some(EventType::TokenExpired), 3).await;
    assert!(
        matches!(&expired[..], [(_, TelemetryEntry::Refusal(_)), _, (_, TelemetryEntry::Refusal(refusal))]
        if refusal.message == "refused 6"),
        "{expired:?}"
    );
    let created = ask(None, Some(EventType::WorkflowCreated), 10).await;
    let revisions: BTreeMap<_, _> = created
        .iter()
        .map(|told| match &told.1 {
            TelemetryEntry::Transition(row) => (row.execution_id.clone(), row.revision),
            TelemetryEntry::Refusal(_) => panic!("{told:?}"),
        })
        .collect();
    assert_eq!(revisions, BTreeMap::from([(id("one"), 1), (id("two"), 1)]));
}

async fn refusals_are_bounded(store: Arc<dyn Store>) {
    let mut tale = Tale::new("one", 40);
    let kept = usize::try_from(limits::REFUSALS_KEPT_MAX).unwrap();
    // In portions that fit into what may wait, so that none is dropped.
    for number in 0..kept + 300 {
        store.note_refusal(refusal(number, None));
        if number % 100 == 99 {
            tale.step(&*store).await.unwrap();
        }
    }
    let query = TelemetryQuery {
        event_type: Some(EventType::TokenExpired),
        limit: kept * 2,
        ..TelemetryQuery::default()
    };
    let told = store.load_telemetry(query).await.unwrap();
    assert_eq!(told.len(), kept);
    assert!(
        matches!(&told[0].1, TelemetryEntry::Refusal(refusal) if refusal.message == "refused 300")
    );
    assert!(
        matches!(told.last(), Some((_, TelemetryEntry::Refusal(refusal))) if refusal.message == "refused 1299")
    );
}

async fn what_is_due_is_found_earliest_first(store: Arc<dyn Store>) {
    let at = Timestamp::from_milliseconds;
    let due = async |before, limit| {
        let found = store.due_executions(before, limit).await.unwrap();
        let found = found.into_iter().map(|(id, due)| (id.to_string(), due.milliseconds()));
        found.collect::<Vec<_>>()
    };
    let said = |name: &str, due| (name.to_owned(), due);
    let mut tales: Vec<_> =
        ["late", "early", "never", "ends"].map(|name| Tale::new(name, 3)).into();
    let moves = async |tale: &mut Tale, due: Option<i64>| {
        let transition = tale.transition("on");
        let commit = Commit { due: due.map(at), ..tale.commit_of(transition) };
        tale.keep(&*store, commit).await.unwrap();
    };
    for (tale, due) in tales.iter_mut().zip([Some(30), Some(10), None, Some(20)]) {
        moves(tale, due).await;
    }
    let all = [said("early", 10), said("ends", 20), said("late", 30)];
    assert_eq!(due(Timestamp::MAX, 9).await, all);
    assert_eq!(due(at(30), 9).await, all[..2]);
    assert_eq!(due(Timestamp::MAX, 1).await, all[..1]);
    moves(&mut tales[1], None).await;
    moves(&mut tales[2], Some(5)).await;
    tales[3].turn(&*store, State::Failed).await.unwrap();
    assert_eq!(due(Timestamp::MAX, 9).await, [said("never", 5), said("late", 30)]);
}

async fn a_checkpoint_changes_nothing_that_is_seen(store: Arc<dyn Store>) {
    let mut tale = Tale::new("one", 9);
    tale.steps(&*store, 4).await;
    let stale = Arc::new(tale.execution.clone().unwrap());
    tale.step(&*store).await.unwrap();
    let now = Arc::new(tale.execution.clone().unwrap());
    tale.position = store.checkpoint(now, tale.position).await.unwrap();
    tale.check(&*store).await;
    assert_eq!(store.load(&tale.id).await.unwrap().unwrap().position, tale.position);
    let error = store.checkpoint(stale, Position::default()).await.unwrap_err();
    assert_eq!(error.code(), Code::RevisionConflict);
    tale.steps(&*store, 2).await;
    tale.check(&*store).await;
}

async fn a_closed_store_refuses(store: Arc<dyn Store>) {
    let mut tale = Tale::new("one", 3);
    tale.step(&*store).await.unwrap();
    store.close().await.unwrap();
    store.close().await.unwrap();
    store.note_refusal(refusal(0, None));
    let query = TelemetryQuery { limit: 1, ..TelemetryQuery::default() };
    for error in [
        tale.step(&*store).await.unwrap_err(),
        store.load(&tale.id).await.unwrap_err(),
        store.load_rows(&tale.id, [1].into()).await.unwrap_err(),
        store.due_executions(Timestamp::MAX, 1).await.unwrap_err(),
        store.load_history(&tale.id).await.unwrap_err(),
        store.load_content(Digest::compute(b"")).await.unwrap_err(),
        store.load_telemetry(query).await.unwrap_err(),
        store.list(ListQuery::default()).await.unwrap_err(),
    ] {
        assert_eq!(error.code(), Code::StoreUnavailable, "{error:?}");
    }
}
