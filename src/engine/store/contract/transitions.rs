//! Promises about transitions, contents, telemetry and due executions.

use std::{collections::BTreeMap, sync::Arc};

use super::script::{Script, build_refusal, execution_id};
use crate::store::{Commit, ListQuery, Position, Store, TelemetryEntry, TelemetryQuery};
use midex_domain::{Digest, State, clock::Timestamp, error::Code, limits, telemetry::EventType};

pub(super) async fn a_committed_transition_is_found(store: Arc<dyn Store>) {
    let mut one = Script::new("one", 3);
    let mut two = Script::new("two", 40);
    for _ in 0..4 {
        one.commit_step(&*store).await.unwrap();
        two.commit_step(&*store).await.unwrap();
        one.check_store(&*store).await;
        two.check_store(&*store).await;
    }
    two.commit_steps(&*store, 37).await;
    two.check_store(&*store).await;
    assert!(two.execution.as_ref().unwrap().state().is_final());
    assert!(two.row_keys.is_sorted(), "{:?}", two.row_keys);
    for row in &one.rows {
        let found = store.load_rows(&one.id, [row.revision].into()).await.unwrap();
        assert_eq!(found, std::slice::from_ref(row));
    }
    let found = store.load_rows(&two.id, [0, 3, 4, 30, 41, 42, 99].into()).await;
    let revisions: Vec<_> = found.unwrap().iter().map(|row| row.revision).collect();
    assert_eq!(revisions, [41, 30, 4, 3]);
}

pub(super) async fn an_absent_execution_is_none(store: Arc<dyn Store>) {
    assert!(store.load(&execution_id("nobody")).await.unwrap().is_none());
    assert!(store.load_history(&execution_id("nobody")).await.unwrap().is_empty());
    let rows = store.load_rows(&execution_id("nobody"), [0, 1, u64::MAX].into()).await;
    assert!(rows.unwrap().is_empty());
    assert!(store.load_content(Digest::compute(b"none")).await.unwrap().is_none());
    let query = TelemetryQuery {
        execution_id: Some(execution_id("nobody")),
        limit: 10,
        ..TelemetryQuery::default()
    };
    assert_eq!(store.load_telemetry(query).await.unwrap(), []);
}

pub(super) async fn a_commit_must_follow_the_stored_revision(store: Arc<dyn Store>) {
    let mut script = Script::new("one", 5);
    script.commit_steps(&*store, 2).await;
    let stale = script.build_transition("stale");
    let stale = script.build_commit(stale);
    script.commit_step(&*store).await.unwrap();
    let error = store.commit(stale.clone()).await.unwrap_err();
    assert_eq!(error.code(), Code::RevisionConflict);
    script.check_store(&*store).await;

    let mut ahead = stale;
    Arc::make_mut(&mut ahead.row).revision = 9;
    assert!(store.commit(ahead).await.is_err());
    script.check_store(&*store).await;
    script.commit_steps(&*store, 3).await;
    script.check_store(&*store).await;
}

/// The row and the execution of this commit belong together, but the row before it was never stored.
pub(super) async fn a_commit_that_skips_a_revision_is_refused(store: Arc<dyn Store>) {
    let mut script = Script::new("one", 5);
    script.commit_steps(&*store, 2).await;
    let mut ahead = script.duplicate();
    ahead.execution = Some(ahead.build_transition("never stored").execution);
    let transition = ahead.build_transition("ahead");
    let error = store.commit(ahead.build_commit(transition)).await.unwrap_err();
    assert_eq!(error.code(), Code::RevisionConflict);
    script.check_store(&*store).await;
}

pub(super) async fn an_execution_is_created_once(store: Arc<dyn Store>) {
    let mut script = Script::new("one", 2);
    script.commit_step(&*store).await.unwrap();
    let error = Script::new("one", 3).commit_step(&*store).await.unwrap_err();
    assert_eq!(error.code(), Code::RevisionConflict);
    script.check_store(&*store).await;
}

pub(super) async fn one_of_two_racing_commits_wins(store: Arc<dyn Store>) {
    let mut script = Script::new("one", 2);
    script.commit_step(&*store).await.unwrap();
    let commits: Vec<_> = (0..8)
        .map(|number| {
            let transition = script.build_transition(&format!("writer {number}"));
            script.build_commit(transition)
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
    script.rows.push((*commit.row).clone());
    script.row_keys.push(committed.row);
    script.execution = Some((*commit.execution).clone());
    script.check_store(&*store).await;
}

pub(super) async fn a_torn_commit_is_refused(store: Arc<dyn Store>) {
    let mut script = Script::new("one", 4);
    script.commit_steps(&*store, 2).await;
    let good = script.build_transition("good");
    let good = script.build_commit(good);
    let mut other = good.clone();
    Arc::make_mut(&mut other.row).execution_id = execution_id("two");
    assert_eq!(store.commit(other).await.unwrap_err().code(), Code::Internal);
    script.check_store(&*store).await;
    store.commit(good).await.unwrap();
}

pub(super) async fn content_is_stored_by_digest(store: Arc<dyn Store>) {
    let mut script = Script::new("one", 2);
    script.commit_step(&*store).await.unwrap();
    let long = "x".repeat(limits::INLINE_BYTES_MAX + 1);
    let transition = script.build_transition(&long);
    let (digest, content) = transition.contents[0].clone();
    script.commit_output(&*store, &long).await.unwrap();
    assert_eq!(store.load_content(digest).await.unwrap(), Some(Arc::clone(&content)));

    let mut other = Script::new("two", 2);
    other.commit_step(&*store).await.unwrap();
    other.commit_output(&*store, &long).await.unwrap();
    assert_eq!(store.load_content(digest).await.unwrap(), Some(content));
}

pub(super) async fn telemetry_has_one_order(store: Arc<dyn Store>) {
    let mut script = Script::new("one", 3);
    let mut expected = Vec::new();
    for number in 0..3 {
        store.note_refusal(build_refusal(number, Some(&script.id)));
        script.commit_step(&*store).await.unwrap();
        expected.push(None);
        expected.push(Some(script.rows[number].clone()));
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

/// A refusal that was noted before a read is in it, also if it is not stored yet.
pub(super) async fn a_noted_refusal_is_in_the_next_read(store: Arc<dyn Store>) {
    let mut script = Script::new("one", 3);
    script.commit_step(&*store).await.unwrap();
    for number in 0..20 {
        store.note_refusal(build_refusal(number, Some(&script.id)));
        for execution_id in [None, Some(script.id.clone())] {
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

pub(super) async fn telemetry_is_filtered_and_bounded(store: Arc<dyn Store>) {
    let (mut one, mut two) = (Script::new("one", 6), Script::new("two", 6));
    for number in 0..7 {
        store.note_refusal(build_refusal(number, Some(&one.id)));
        one.commit_step(&*store).await.unwrap();
        two.commit_step(&*store).await.unwrap();
    }
    let ask = async |execution: Option<&Script>, event_type, limit| {
        let query = TelemetryQuery {
            execution_id: execution.map(|script| script.id.clone()),
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
    assert_eq!(revisions, BTreeMap::from([(execution_id("one"), 1), (execution_id("two"), 1)]));
}

pub(super) async fn refusals_are_bounded(store: Arc<dyn Store>) {
    let mut script = Script::new("one", 40);
    let kept = usize::try_from(limits::REFUSALS_KEPT_MAX).unwrap();
    // In portions that fit into the queue of the store, so that none is dropped.
    for number in 0..kept + 300 {
        store.note_refusal(build_refusal(number, None));
        if number % 100 == 99 {
            script.commit_step(&*store).await.unwrap();
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

pub(super) async fn due_executions_are_found_earliest_first(store: Arc<dyn Store>) {
    let at = Timestamp::from_milliseconds;
    let due = async |before, limit| {
        let found = store.due_executions(before, limit).await.unwrap();
        let found = found.into_iter().map(|(id, due)| (id.to_string(), due.milliseconds()));
        found.collect::<Vec<_>>()
    };
    let said = |name: &str, due| (name.to_owned(), due);
    let mut scripts: Vec<_> =
        ["late", "early", "never", "ends"].map(|name| Script::new(name, 3)).into();
    let moves = async |script: &mut Script, due: Option<i64>| {
        let transition = script.build_transition("on");
        let commit = Commit { due: due.map(at), ..script.build_commit(transition) };
        script.store_commit(&*store, commit).await.unwrap();
    };
    for (script, due) in scripts.iter_mut().zip([Some(30), Some(10), None, Some(20)]) {
        moves(script, due).await;
    }
    let all = [said("early", 10), said("ends", 20), said("late", 30)];
    assert_eq!(due(Timestamp::MAX, 9).await, all);
    assert_eq!(due(at(30), 9).await, all[..2]);
    assert_eq!(due(Timestamp::MAX, 1).await, all[..1]);
    moves(&mut scripts[1], None).await;
    moves(&mut scripts[2], Some(5)).await;
    scripts[3].commit_state(&*store, State::Failed).await.unwrap();
    assert_eq!(due(Timestamp::MAX, 9).await, [said("never", 5), said("late", 30)]);
}

pub(super) async fn a_checkpoint_changes_no_answer(store: Arc<dyn Store>) {
    let mut script = Script::new("one", 9);
    script.commit_steps(&*store, 4).await;
    let stale = Arc::new(script.execution.clone().unwrap());
    script.commit_step(&*store).await.unwrap();
    let now = Arc::new(script.execution.clone().unwrap());
    script.position = store.checkpoint(now, script.position).await.unwrap();
    script.check_store(&*store).await;
    assert_eq!(store.load(&script.id).await.unwrap().unwrap().position, script.position);
    let error = store.checkpoint(stale, Position::default()).await.unwrap_err();
    assert_eq!(error.code(), Code::RevisionConflict);
    script.commit_steps(&*store, 2).await;
    script.check_store(&*store).await;
}

pub(super) async fn a_closed_store_refuses(store: Arc<dyn Store>) {
    let mut script = Script::new("one", 3);
    script.commit_step(&*store).await.unwrap();
    store.close().await.unwrap();
    store.close().await.unwrap();
    store.note_refusal(build_refusal(0, None));
    let query = TelemetryQuery { limit: 1, ..TelemetryQuery::default() };
    for error in [
        script.commit_step(&*store).await.unwrap_err(),
        store.load(&script.id).await.unwrap_err(),
        store.load_rows(&script.id, [1].into()).await.unwrap_err(),
        store.due_executions(Timestamp::MAX, 1).await.unwrap_err(),
        store.load_history(&script.id).await.unwrap_err(),
        store.load_content(Digest::compute(b"")).await.unwrap_err(),
        store.load_telemetry(query).await.unwrap_err(),
        store.list(ListQuery::default()).await.unwrap_err(),
    ] {
        assert_eq!(error.code(), Code::StoreUnavailable, "{error:?}");
    }
}
