//! What time brings.

use std::sync::atomic::Ordering;

use midex_domain::{
    clock::{SteadyClock, Timestamp},
    limits,
};
use midex_test::TokioClock;

use super::*;

fn wait(span: &str) -> Value {
    json!([step("wait", None, json!({ "wait": { "for": span } }), json!({}))])
}

#[tokio::test(start_paused = true)]
async fn a_timer_fires_at_its_instant_and_its_actor_may_sleep_until_then() {
    let log = Log::new();
    let engine = started(&log, [], wait("25h")).await;
    tokio::time::sleep(seconds(24 * 3600)).await;
    assert_eq!(engine.awake_count(), 0);
    let status = until_state(&engine, "completed").await;
    assert_eq!(status.duration_ms, Some(25 * 3600 * 1000));
    brought(&engine, "wait", json!({ "due": EPOCH.plus(seconds(25 * 3600)).to_string() })).await;
}

#[tokio::test(start_paused = true)]
async fn a_timer_survives_a_restart_and_fires_at_once_where_it_is_overdue() {
    let (log, store) = (Log::new(), Arc::new(FailingStore::default()));
    let one = engine_on(store.clone(), log.clock, Activities::default()).await;
    begin(&one, defined(wait("10s"), json!({})), json!({})).await;
    begin_as(&one, "late", defined(wait("1h"), json!({})), json!({})).await;
    one.stop().await.expect("a stop");
    tokio::time::sleep(seconds(60)).await;
    let two = engine_on(store, log.clock, Activities::default()).await;
    let status = until_state(&two, "completed").await;
    assert_eq!(status.duration_ms, Some(60_000), "overdue");
    tokio::time::sleep(seconds(3600)).await;
    let status = two.status(&named("late")).await.expect("a status");
    assert_eq!(status.duration_ms, Some(3_600_000), "in time");
}

#[tokio::test(start_paused = true)]
async fn an_instant_that_has_passed_is_not_waited_for() {
    let log = Log::new();
    let engine = engine(&log, Activities::default()).await;
    let past = json!([step(
        "wait",
        None,
        json!({ "wait": { "until": "2020-01-01T00:00:00Z" } }),
        json!({})
    )]);
    let advanced = begin(&engine, defined(past, json!({})), json!({})).await;
    assert_eq!(advanced.workflow_state, "completed");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_timers_fire_each_at_its_instant_and_in_order() {
    let log = Log::new();
    let engine = engine(&log, Activities::default()).await;
    // Not in the order in which they are due: 7 is prime to 1000.
    for number in 0..1000 {
        let due = 10_000 + number * 7 % 1000 * 10;
        begin_as(
            &engine,
            &format!("e{number}"),
            defined(wait(&format!("{due}ms")), json!({})),
            json!({}),
        )
        .await;
    }
    tokio::time::sleep(seconds(30)).await;
    let mut ended = Vec::new();
    for number in 0..1000_u64 {
        let status = engine.status_now(&format!("e{number}")).await;
        let due = 10_000 + number * 7 % 1000 * 10;
        assert_eq!(status.state.as_str(), "completed");
        assert_eq!(status.duration_ms, Some(due));
        ended.push((status.completed_at, due));
    }
    ended.sort();
    assert!(ended.is_sorted_by_key(|(_, due)| *due));
}

#[tokio::test(start_paused = true)]
async fn more_than_may_move_at_once_all_move() {
    let log = Log::new();
    let engine = engine(&log, Activities::default()).await;
    let total = limits::TICKS_AT_ONCE_MAX + 1;
    let definition = defined(wait("10s"), json!({}));
    for number in 0..total {
        begin_as(&engine, &format!("e{number}"), definition.clone(), json!({})).await;
    }
    tokio::time::sleep(seconds(11)).await;
    for number in 0..total {
        let status = engine.status_now(&format!("e{number}")).await;
        assert_eq!(status.duration_ms, Some(10_000));
    }
}

#[tokio::test(start_paused = true)]
async fn a_tick_that_the_disk_refuses_is_tried_again() {
    let (log, store) = (Log::new(), Arc::new(FailingStore::default()));
    let engine = engine_on(store.clone(), log.clock, Activities::default()).await;
    begin(&engine, defined(wait("10s"), json!({})), json!({})).await;
    store.commits_to_refuse.store(3, Ordering::SeqCst);
    let status = until_state(&engine, "completed").await;
    assert_eq!(store.commits_to_refuse.load(Ordering::SeqCst), 0);
    // The pauses between attempts are 1 s, 2 s and 4 s.
    assert_eq!(status.duration_ms, Some(17_000));
}

#[tokio::test(start_paused = true)]
async fn a_sleeping_execution_that_cannot_be_read_when_it_is_due_is_tried_again() {
    let (log, store) = (Log::new(), Arc::new(FailingStore::default()));
    let engine = engine_on(store.clone(), log.clock, Activities::default()).await;
    begin(&engine, defined(wait("1h"), json!({})), json!({})).await;
    tokio::time::sleep(seconds(3500)).await;
    assert_eq!(engine.awake_count(), 0);
    store.loads_to_fail.store(2, Ordering::SeqCst);
    tokio::time::sleep(seconds(110)).await;
    let status = engine.status_now("e").await;
    assert_eq!(status.duration_ms, Some(3_603_000), "after 1 s and 2 s");
}

#[tokio::test(start_paused = true)]
async fn what_is_due_and_cannot_be_done_is_not_tried_without_a_pause() {
    let (log, store) = (Log::new(), Arc::new(FailingStore::default()));
    let flaky = log.activity("flaky", seconds(0), |context| match context.attempt {
        1 => fails("network"),
        _ => Ok(json!(1)),
    });
    let activities = only([flaky]);
    let engine = engine_on(store.clone(), log.clock, activities.clone()).await;
    // Its input is too large for a row, and another engine has it in the store alone.
    let with = json!({ "text": "x".repeat(limits::INLINE_BYTES_MAX + 1) });
    let retry =
        json!({ "max_attempts": 2, "backoff": "10s", "max_backoff": "10s", "jitter": false });
    let steps = json!([activity("flaky", None, json!({ "with": with, "retry": retry }))]);
    begin(&engine, defined(steps, json!({})), json!({})).await;
    until(&engine, |status| status.waits[0].waits_for == "retry").await;
    engine.begin_stop();
    let engine = engine_on(store.clone(), log.clock, activities).await;
    change(&engine, LifecycleAction::Pause).await;
    change(&engine, LifecycleAction::Resume).await;
    store.hides_contents.store(true, Ordering::SeqCst);
    tokio::time::sleep(seconds(10 + 6)).await;
    let missed = store.hidden_content_count.load(Ordering::SeqCst);
    assert_eq!(missed, 3, "at once, after 1 s, and after 2 s");
    store.hides_contents.store(false, Ordering::SeqCst);
    until_state(&engine, "completed").await;
    assert_eq!(log.at(), [0.0, 17.0]);
}

/// A clock that somebody sets.
#[derive(Debug)]
struct SetClock(TokioClock, Arc<Mutex<Duration>>);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        self.0.now().plus(*self.1.lock().expect("a clock"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_forward_is_noticed() {
    let slept = Arc::new(Mutex::default());
    let clock = Arc::new(SetClock(TokioClock::starting_at(EPOCH), slept.clone()));
    let options = Options::new(Arc::<FailingStore>::default(), clock, Arc::new(SeededIds::new(1)));
    let engine = Engine::new(options).await.expect("an engine");
    begin(&engine, defined(wait("10h"), json!({})), json!({})).await;
    tokio::time::sleep(seconds(1)).await;
    // The machine slept for eleven hours.
    *slept.lock().expect("a clock") = seconds(11 * 3600);
    tokio::time::sleep(limits::CLOCK_LOOK_EVERY + seconds(1)).await;
    assert_eq!(engine.status_now("e").await.state, "completed");
}

/// A clock like a server's, on a machine whose clock lies an hour ahead until somebody sets it right.
fn steady(wall: &Arc<Mutex<Duration>>) -> Arc<SteadyClock> {
    let since = TokioClock::starting_at(EPOCH);
    let passed = move || since.now().since(EPOCH);
    let wall = SetClock(since, wall.clone());
    Arc::new(SteadyClock::from_clocks(wall, passed))
}

fn on_steady(
    store: &Arc<FailingStore>,
    clock: Arc<SteadyClock>,
    activities: Activities,
) -> Options {
    Options { activities, ..Options::new(store.clone(), clock, Arc::new(SeededIds::new(1))) }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_delays_neither_timers_nor_retries_nor_deadlines() {
    let (log, wall) = (Log::new(), Arc::new(Mutex::new(seconds(3600))));
    let flaky = log.activity("flaky", seconds(0), |context| match context.attempt {
        1 => fails("network"),
        _ => Ok(json!(1)),
    });
    let slow = log.activity("slow", seconds(3600), |_| Ok(json!(1)));
    let activities =
        Activities::default().with_activity(flaky).and_then(|all| all.with_activity(slow));
    let store = Arc::new(FailingStore::default());
    let engine = Engine::new(on_steady(&store, steady(&wall), activities.expect("both")))
        .await
        .expect("an engine");
    let retry =
        json!({ "max_attempts": 2, "backoff": "30s", "max_backoff": "30s", "jitter": false });
    let steps = json!([
        step("wait", None, json!({ "wait": { "for": "30s" } }), json!({})),
        activity("flaky", None, json!({ "retry": retry })),
        activity("slow", None, json!({ "timeout": "30s", "on_error": "continue" })),
    ]);
    begin(&engine, defined(steps, json!({})), json!({})).await;
    tokio::time::sleep(seconds(10)).await;
    *wall.lock().expect("a clock") = seconds(0);
    let status = until_state(&engine, "completed").await;
    assert_eq!(status.duration_ms, Some(30_000));
    assert!(log.passed() <= seconds(31), "{:?}", log.passed());
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_back_between_two_lives_delays_nothing_either() {
    let (log, wall) = (Log::new(), Arc::new(Mutex::new(seconds(3600))));
    let store = Arc::new(FailingStore::default());
    let options = on_steady(&store, steady(&wall), Activities::default());
    let one = Engine::new(options).await.expect("an engine");
    begin(&one, defined(wait("30s"), json!({})), json!({})).await;
    one.stop().await.expect("a stop");
    *wall.lock().expect("a clock") = seconds(0);
    // A clock of the next process, which has told nothing yet.
    let options = on_steady(&store, steady(&wall), Activities::default());
    let two = Engine::new(options).await.expect("an engine");
    let status = until_state(&two, "completed").await;
    assert_eq!(status.duration_ms, Some(30_000));
    assert!(log.passed() <= seconds(31), "{:?}", log.passed());
}

/// Finishes the open step, and says when that was.
async fn finish_open_step(engine: &Engine) -> String {
    let current = engine.current_step(&id()).await.expect("a step");
    advance(engine, &current.continuation_token.expect("a token")).await;
    engine.status_now("e").await.updated_at
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_wrong_for_a_moment_moves_no_later_time() {
    let (right, wrong) = (seconds(0), seconds(250 * 365 * 86_400));
    let wall = Arc::new(Mutex::new(right));
    let set = |to| *wall.lock().expect("a clock") = to;
    let store = Arc::new(FailingStore::default());
    let options = || on_steady(&store, steady(&wall), Activities::default());
    let passed = TokioClock::starting_at(EPOCH);
    let engine = Engine::new(options()).await.expect("an engine");
    let after = |at: usize| at.checked_sub(1).map(|at| format!("s{at}"));
    let steps = (0..6).map(|at| {
        let agent = json!({ "agent": { "agent": "worker" } });
        step(&format!("s{at}"), after(at).as_deref(), agent, json!({}))
    });
    let definition = defined(steps.collect(), json!({}));
    begin(&engine, definition.clone(), json!({})).await;
    set(wrong);
    finish_open_step(&engine).await;
    set(right);
    tokio::time::sleep(seconds(10)).await;
    // Its token was issued under the wrong clock.
    assert_eq!(finish_open_step(&engine).await, passed.now().to_string());
    begin_as(&engine, "later", definition, json!({})).await;
    let later = engine.status_now("later").await;
    assert_eq!(later.started_at, passed.now().to_string());
    // The last record of this process has the time of a wrong clock.
    set(wrong);
    finish_open_step(&engine).await;
    engine.stop().await.expect("a stop");
    // The clock of the next process counts from here.
    set(passed.now().since(EPOCH));
    let engine = Engine::new(options()).await.expect("an engine");
    assert_eq!(finish_open_step(&engine).await, passed.now().to_string());
    let rows = history(&engine).await;
    let names: Vec<_> = rows.iter().map(|row| row.step_name.clone()).collect();
    assert!(names.is_sorted() || names.iter().rev().is_sorted(), "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn a_workflow_that_takes_too_long_fails_and_pauses_do_not_count() {
    let log = Log::new();
    let slow = log.activity("slow", seconds(3600), |_| Ok(json!(1)));
    let engine = engine(&log, only([slow])).await;
    let definition =
        defined(json!([activity("slow", None, json!({}))]), json!({ "timeout": "10s" }));
    begin(&engine, definition, json!({})).await;
    tokio::time::sleep(seconds(4)).await;
    change(&engine, LifecycleAction::Pause).await;
    tokio::time::sleep(seconds(100)).await;
    change(&engine, LifecycleAction::Resume).await;
    let status = until_state(&engine, "failed").await;
    assert_eq!(failure(&status), "WORKFLOW_TIMED_OUT");
    assert_eq!(log.lines(), ["slow 1", "slow broken off"]);
    assert_eq!(log.at(), [0.0, 110.0]);
}

#[tokio::test(start_paused = true)]
async fn a_step_of_a_model_that_stays_open_too_long_fails() {
    let log = Log::new();
    let engine = engine(&log, Activities::default()).await;
    let agent = json!({ "agent": { "agent": "worker" } });
    let steps = json!([
        step("slow", None, agent.clone(), json!({ "timeout": "1h", "on_error": "continue" })),
        step("next", Some("slow"), agent, json!({})),
    ]);
    let first = begin(&engine, defined(steps, json!({})), json!({})).await;
    tokio::time::sleep(seconds(3599)).await;
    assert_eq!(engine.status_now("e").await.revision, first.revision);
    tokio::time::sleep(seconds(2)).await;
    let rows = history(&engine).await;
    assert!(format!("{:?}", rows[0].error).contains("STEP_TIMED_OUT"), "{rows:?}");
    let current = engine.current_step(&id()).await.expect("a step");
    let last = advance(&engine, &current.continuation_token.expect("a token")).await;
    assert_eq!(last.workflow_state, "completed");
}

#[tokio::test(start_paused = true)]
async fn after_a_failure_what_runs_then_runs_before_the_execution_has_failed() {
    let log = Log::new();
    let bad = log.activity("bad", seconds(1), |_| fails("refused"));
    let tidy = log.activity("tidy", seconds(5), |_| Ok(json!(1)));
    let never = log.activity("never", seconds(0), |_| Ok(json!(1)));
    let activities = only([bad, tidy, never]);
    let engine = engine(&log, activities).await;
    let steps = json!([
        activity("bad", None, json!({})),
        activity("never", Some("bad"), json!({})),
        activity("tidy", Some("bad"), json!({ "run_when": "failed" })),
    ]);
    begin(&engine, defined(steps, json!({})), json!({})).await;
    let status = until_state(&engine, "failed").await;
    assert_eq!(failure(&status), "REFUSED");
    assert_eq!(status.duration_ms, Some(6000));
    assert_eq!(log.lines(), ["bad 1", "tidy 1"]);
}
