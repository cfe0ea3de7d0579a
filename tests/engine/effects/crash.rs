//! A process that ends, and a disk that fails, in the midst of what the server does.

use std::sync::{Arc, atomic::Ordering};

use midex_domain::{PauseReason, error::Code, limits};
use midex_engine::store::{self, MemoryStore, RedbStore};
use midex_test::TokioClock;
use tokio::runtime::{Builder, Runtime};

use super::*;

/// The life of one process: dropped, everything in it is gone at once, and the store is as it was left.
pub(super) fn process() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true);
    builder.build().expect("a runtime")
}

/// Runs a workflow of `first` and then `second` until `first` is in work, ends the process there, and answers what the
/// next one makes of it.
fn crashed_in_first(is_idempotent: bool, more: Value) -> (Vec<String>, String, Vec<PauseReason>) {
    let store = Arc::new(FailingStore::default());
    let steps =
        json!([activity("first", None, more), activity("second", Some("first"), json!({}))]);
    let process_one = process();
    let log = process_one.block_on(async {
        let log = Log::new();
        let engine = engine_on(store.clone(), log.clock, two(&log, is_idempotent)).await;
        begin(&engine, defined(steps, json!({})), json!({})).await;
        tokio::time::sleep(seconds(3)).await;
        log
    });
    assert_eq!(log.lines(), ["first 1"]);
    drop(process_one);
    let mut lines = log.lines();
    lines.retain(|line| !line.ends_with("broken off"));
    process().block_on(async {
        let log = Log::new();
        let clock = TokioClock::starting_at(EPOCH.plus(seconds(3600)));
        let engine = engine_on(store, clock, two(&log, is_idempotent)).await;
        let status = until(&engine, |status| status.state != "running").await;
        tokio::time::sleep(seconds(100)).await;
        lines.extend(log.lines());
        (lines, status.state, status.pause_reasons)
    })
}

pub(super) fn two(log: &Log, is_idempotent: bool) -> Activities {
    let first = log.activity("first", seconds(10), |_| Ok(json!(1)));
    let first = if is_idempotent { first.as_idempotent() } else { first };
    let second = log.activity("second", seconds(10), |_| Ok(json!(2)));
    only([first, second])
}

#[test]
fn what_may_be_done_twice_is_begun_again_after_a_crash() {
    let (lines, state, _) = crashed_in_first(true, json!({}));
    assert_eq!(lines.join(", "), "first 1, first 2, second 1");
    assert_eq!(state.as_str(), "completed");
}

#[test]
fn of_anything_else_a_person_must_find_out_and_it_is_never_done_twice() {
    let (lines, state, reasons) = crashed_in_first(false, json!({}));
    assert_eq!(lines.join(", "), "first 1");
    assert_eq!(state.as_str(), "paused");
    assert_eq!(reasons, [PauseReason::OutcomeUnknown]);
}

#[tokio::test(start_paused = true)]
async fn what_another_engine_works_on_is_not_declared_lost() {
    let (store, log) = (Arc::new(MemoryStore::new()), Log::new());
    let [first, second] = [0, 1].map(|later| {
        let opening = FailingStore::new(store.clone());
        opening.later_openings.store(later, Ordering::SeqCst);
        Arc::new(opening)
    });
    let older = engine_on(first, log.clock, two(&log, false)).await;
    let newer = engine_on(second, log.clock, two(&log, false)).await;
    let steps = json!([activity("first", None, json!({}))]);
    begin(&newer, defined(steps, json!({})), json!({})).await;
    tokio::time::sleep(seconds(3)).await;
    let moved = signalled(&older, "other", json!(1)).await;
    assert_eq!(moved.state, "running");
    assert_eq!(until_state(&newer, "completed").await.revision, 3);
    assert_eq!(log.lines(), ["first 1"]);
}

/// An actor that is sent away while its commit is on its way has still to begin what that says.
#[tokio::test(start_paused = true)]
async fn nobody_takes_up_what_a_leaving_actor_is_about_to_begin() {
    let (store, log) = (Arc::new(FailingStore::default()), Log::new());
    let engine = engine_on(store.clone(), log.clock, two(&log, false)).await;
    store.commits_to_delay.store(1, Ordering::SeqCst);
    let steps = json!([activity("first", None, json!({}))]);
    let begun = tokio::spawn({
        let engine = engine.clone();
        async move { begin(&engine, defined(steps, json!({})), json!({})).await }
    });
    tokio::time::sleep(limits::IDLE_MAX + 2 * limits::IDLE_SWEEP_EVERY).await;
    assert_eq!(engine.awake_count(), 0, "it was sent away");
    let kept = signalled(&engine, "other", json!(1)).await;
    assert_eq!(kept.state, "running");
    begun.await.expect("a start");
    until_state(&engine, "completed").await;
    assert_eq!(log.lines(), ["first 1"]);
}

#[test]
fn the_step_has_the_last_word_on_whether_it_may_be_done_twice() {
    let kind = |idempotent| json!({ "kind": { "activity": { "name": "first", "idempotent": idempotent } } });
    let (lines, ..) = crashed_in_first(false, kind(true));
    assert_eq!(lines, ["first 1", "first 2", "second 1"]);
    let (lines, state, _) = crashed_in_first(true, kind(false));
    assert_eq!(lines.join(", "), "first 1");
    assert_eq!(state.as_str(), "paused");
}

#[test]
fn what_was_in_work_while_a_pause_held_is_taken_up_when_it_goes_on() {
    let store = Arc::new(FailingStore::default());
    let steps = json!([activity("first", None, json!({}))]);
    let process_one = process();
    process_one.block_on(async {
        let log = Log::new();
        let engine = engine_on(store.clone(), log.clock, two(&log, true)).await;
        begin(&engine, defined(steps, json!({})), json!({})).await;
        change(&engine, LifecycleAction::Pause).await;
    });
    drop(process_one);
    process().block_on(async {
        let log = Log::new();
        let engine = engine_on(store, log.clock, two(&log, true)).await;
        // Somebody wakes it.
        let kept = signalled(&engine, "other", json!(1)).await;
        assert_eq!(kept.state, "paused");
        tokio::time::sleep(seconds(100)).await;
        assert!(log.lines().is_empty(), "nothing begins while it is paused");
        change(&engine, LifecycleAction::Resume).await;
        until_state(&engine, "completed").await;
        assert_eq!(log.lines(), ["first 2"]);
    });
}

#[test]
fn a_start_does_not_wait_for_the_list_and_the_list_is_asked_for_again() {
    let store = Arc::new(FailingStore::default());
    let steps = json!([activity("first", None, json!({}))]);
    let process_one = process();
    process_one.block_on(async {
        let log = Log::new();
        let engine = engine_on(store.clone(), log.clock, two(&log, true)).await;
        begin(&engine, defined(steps, json!({})), json!({})).await;
    });
    drop(process_one);
    store.due_searches_to_fail.store(3, Ordering::SeqCst);
    process().block_on(async {
        let log = Log::new();
        let engine = engine_on(store, log.clock, two(&log, true)).await;
        until_state(&engine, "completed").await;
        // The pauses between its attempts are 1 s, 2 s and 4 s.
        assert_eq!(log.at(), [7.0]);
    });
}

/// Until whatever can begin has begun: time stands still before that.
async fn begun() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

async fn on_a_flaky_disk() -> (Arc<FailingStore>, Log, Engine) {
    let (store, log) = (Arc::new(FailingStore::default()), Log::new());
    let engine = engine_on(store.clone(), log.clock, two(&log, false)).await;
    let steps =
        json!([activity("first", None, json!({})), activity("second", Some("first"), json!({}))]);
    begin(&engine, defined(steps, json!({})), json!({})).await;
    (store, log, engine)
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_the_disk_refuses_arrives_once_it_takes_it() {
    let (store, log, engine) = on_a_flaky_disk().await;
    store.commits_to_refuse.store(12, Ordering::SeqCst);
    let status = until_state(&engine, "completed").await;
    assert_eq!(store.commits_to_refuse.load(Ordering::SeqCst), 0);
    assert_eq!(log.lines(), ["first 1", "second 1"], "each once");
    assert_eq!(output_of(&engine, "first").await, json!(1));
    assert_eq!(status.revision, 3, "nothing else happened");
}

#[tokio::test(start_paused = true)]
async fn an_outcome_whose_commit_was_not_acknowledged_is_not_taken_twice_and_what_follows_it_begins()
 {
    let (store, log, engine) = on_a_flaky_disk().await;
    store.commits_to_lose.store(1, Ordering::SeqCst);
    let status = until_state(&engine, "completed").await;
    assert_eq!(store.commits_to_lose.load(Ordering::SeqCst), 0);
    // What followed was never begun: that is known, for this is the process that would have.
    assert_eq!(log.lines(), ["first 1", "second 1"], "each once");
    assert_eq!(status.revision, 3);
}

#[tokio::test(start_paused = true)]
async fn what_a_commit_without_acknowledgement_asks_for_is_done_though_nobody_asks_again() {
    let (store, log) = (Arc::new(FailingStore::default()), Log::new());
    let engine = engine_on(store.clone(), log.clock, two(&log, false)).await;
    let signal = json!({ "wait": { "signal": "go" } });
    let steps =
        json!([step("wait", None, signal, json!({})), activity("first", Some("wait"), json!({}))]);
    begin(&engine, defined(steps, json!({})), json!({})).await;
    store.commits_to_lose.store(1, Ordering::SeqCst);
    let signalled = engine.apply_command(&id(), SignalRequest::new("go", json!(1))).await;
    assert_eq!(signalled.expect_err("not known").code(), Code::StoreUnavailable);
    until_state(&engine, "completed").await;
    assert_eq!(log.lines(), ["first 1"]);
    assert_eq!(log.passed(), seconds(11), "it was looked at after a second");
}

#[tokio::test(start_paused = true)]
async fn the_actor_may_sleep_while_its_execution_is_worked_on() {
    let log = Log::new();
    let slow = log.activity("first", seconds(3600), |_| Ok(json!(1)));
    let store = Arc::new(FailingStore::default());
    let activities = only([slow]);
    let engine = engine_on(store, log.clock, activities).await;
    let steps = json!([activity("first", None, json!({}))]);
    begin(&engine, defined(steps, json!({})), json!({})).await;
    tokio::time::sleep(limits::IDLE_MAX + 3 * limits::IDLE_SWEEP_EVERY).await;
    assert_eq!(engine.awake_count(), 0);
    until_state(&engine, "completed").await;
    assert_eq!(log.lines(), ["first 1"]);
    assert_eq!(log.passed(), seconds(3600), "the outcome woke it");
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_work_in_hand_come_to_its_end_and_begins_nothing_new() {
    let log = Log::new();
    let store = Arc::new(FailingStore::default());
    let quick = || {
        let first = log.activity("first", seconds(1), |_| Ok(json!(1)));
        let second = log.activity("second", seconds(1), |_| Ok(json!(2)));
        only([first, second])
    };
    let engine = engine_on(store.clone(), log.clock, quick()).await;
    let steps =
        json!([activity("first", None, json!({})), activity("second", Some("first"), json!({}))]);
    begin(&engine, defined(steps, json!({})), json!({})).await;
    begun().await;
    engine.stop().await.expect("a stop");
    assert_eq!(log.lines(), ["first 1"]);
    // Neither may be done twice. The second never began, and that is known: it is begun now.
    let engine = engine_on(store, log.clock, quick()).await;
    until_state(&engine, "completed").await;
    assert_eq!(log.lines(), ["first 1", "second 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_breaks_off_what_takes_longer_than_its_grace() {
    let log = Log::new();
    let store = Arc::new(FailingStore::default());
    let engine = engine_on(store.clone(), log.clock, two(&log, true)).await;
    let steps = json!([activity("first", None, json!({}))]);
    begin(&engine, defined(steps, json!({})), json!({})).await;
    tokio::time::sleep(seconds(1)).await;
    engine.stop().await.expect("a stop");
    assert_eq!(log.lines(), ["first 1", "first broken off"]);
    let grace = limits::ATTEMPTS_GRACE.as_secs_f64();
    assert_eq!(log.at(), [0.0, 1.0 + grace]);
    let engine = engine_on(store, log.clock, two(&log, true)).await;
    until_state(&engine, "completed").await;
    assert_eq!(log.lines()[2..], ["first 2"]);
}

#[tokio::test(start_paused = true)]
async fn those_that_waited_for_their_turn_at_a_stop_begin_at_the_next_start() {
    let log = Log::new();
    let store = Arc::new(FailingStore::default());
    let activities = || {
        let log = log.clone();
        let one = function("one", move |context| {
            assert_eq!(context.attempt, 1, "one that never began is no attempt");
            log.note(format!("{}", context.item.unwrap_or_default()));
            async {
                tokio::time::sleep(seconds(1)).await;
                Ok(json!(1))
            }
        });
        Activities::default().with_activity(one).expect("one")
    };
    let total = limits::ATTEMPTS_AT_ONCE_MAX + 5;
    let items: Vec<_> = (0..total).collect();
    let steps = each("one", &items, total, json!({}));
    let engine = engine_on(store.clone(), log.clock, activities()).await;
    begin(&engine, defined(steps, json!({})), json!({})).await;
    begun().await;
    engine.stop().await.expect("a stop");
    assert_eq!(log.lines().len(), limits::ATTEMPTS_AT_ONCE_MAX);
    let engine = engine_on(store, log.clock, activities()).await;
    until_state(&engine, "completed").await;
    let mut items: Vec<usize> =
        log.lines().iter().map(|line| line.parse().expect("a number")).collect();
    items.sort_unstable();
    assert_eq!(items, (0..total).collect::<Vec<_>>(), "each once");
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_can_never_be_taken_in_is_a_failure_of_its_step() {
    let log = Log::new();
    let store = Arc::new(FailingStore::default());
    // Too large to lie in a row, or to be kept at hand.
    let large = "x".repeat(limits::INLINE_BYTES_MAX + 1);
    let first = log.activity("first", seconds(1), move |_| Ok(json!({ "text": large })));
    let second = log.activity("second", seconds(10), |_| Ok(json!(2)));
    let activities = only([first, second]);
    let engine = engine_on(store.clone(), log.clock, activities).await;
    let with = json!({ "with": { "text": "${{ steps.first.text }}" } });
    let steps = json!([
        activity("first", None, json!({})),
        activity("second", Some("first"), json!({ "with": {} })),
        activity("first-again", Some("second"), with),
    ]);
    begin(&engine, defined(steps, json!({})), json!({})).await;
    tokio::time::sleep(seconds(5)).await;
    store.hides_contents.store(true, Ordering::SeqCst);
    let status = until_state(&engine, "failed").await;
    assert_eq!(failure(&status), "INTERNAL");
    let error = format!("{:?}", status.error);
    assert!(error.contains("could not be taken in"), "{error}");
}

#[tokio::test]
async fn what_is_waited_for_is_on_the_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let may_end = Arc::new(tokio::sync::Notify::new());
    let activities = || {
        let may_end = may_end.clone();
        let first = function("first", move |_| {
            let may_end = may_end.clone();
            async move {
                may_end.notified().await;
                Ok(json!({ "is": "held" }))
            }
        });
        only([first])
    };
    let open = || {
        let store = RedbStore::open(dir.path(), store::Options::default()).expect("a store");
        let clock = TokioClock::starting_at(EPOCH);
        engine_on(Arc::new(store), clock, activities())
    };
    let engine = open().await;
    let signal = json!({ "wait": { "signal": "go" } });
    let steps = json!([
        activity("first", None, json!({})),
        step("timer", None, json!({ "wait": { "for": "1h" } }), json!({})),
        step("signal", None, signal, json!({})),
    ]);
    begin(&engine, defined(steps, json!({})), json!({})).await;
    let paused = change(&engine, LifecycleAction::Pause).await;
    may_end.notify_one();
    until(&engine, |status| status.revision > paused.revision).await;
    let kept = signalled(&engine, "go", json!(7)).await;
    assert_eq!(kept.state, "paused");
    engine.stop().await.expect("a stop");

    let engine = open().await;
    let status = engine.status_now("e").await;
    assert_eq!((status.state.as_str(), status.steps.running), ("paused", 3));
    change(&engine, LifecycleAction::Resume).await;
    assert_eq!(output_of(&engine, "first").await, json!({ "is": "held" }));
    assert_eq!(output_of(&engine, "signal").await, json!(7));
    change(&engine, LifecycleAction::Abandon).await;
    engine.stop().await.expect("a stop");
}
