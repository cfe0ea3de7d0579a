//! Pause, resume and abandon in the midst of what the server does; signals.

use midex_domain::{error::Code, limits};

use super::*;

/// Lets whatever is ready happen: time moves only once nobody has anything to do.
async fn a_moment() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

fn two(log: &Log) -> Activities {
    let first = log.activity("first", seconds(10), |_| Ok(json!("one")));
    let second = log.activity("second", seconds(10), |_| Ok(json!("two")));
    only([first, second])
}

fn two_steps() -> Value {
    json!([activity("first", None, json!({})), activity("second", Some("first"), json!({}))])
}

#[tokio::test(start_paused = true)]
async fn abandoning_breaks_a_call_off_at_once() {
    let log = Log::new();
    let engine = engine(&log, two(&log)).await;
    begin(&engine, defined(two_steps(), json!({})), json!({})).await;
    tokio::time::sleep(seconds(3)).await;
    change(&engine, LifecycleAction::Abandon).await;
    a_moment().await;
    assert_eq!(log.lines(), ["first 1", "first broken off"]);
    assert_eq!(log.at(), [0.0, 3.0], "it did not live a millisecond longer");
}

#[tokio::test(start_paused = true)]
async fn abandoning_between_attempts_makes_the_failed_one_the_last() {
    let log = Log::new();
    let flaky = log.activity("flaky", seconds(0), |_| fails("network"));
    let retry = json!({ "retry": { "max_attempts": 9, "backoff": "10s", "max_backoff": "10s", "jitter": false } });
    let steps = json!([activity("flaky", None, retry)]);
    let engine = started(&log, [flaky], steps).await;
    tokio::time::sleep(seconds(15)).await;
    change(&engine, LifecycleAction::Abandon).await;
    tokio::time::sleep(seconds(3600)).await;
    assert_eq!(log.at(), [0.0, 10.0]);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_of_a_paused_execution_is_kept_and_nothing_begins_until_it_goes_on() {
    let log = Log::new();
    let engine = engine(&log, two(&log)).await;
    begin(&engine, defined(two_steps(), json!({})), json!({})).await;
    tokio::time::sleep(seconds(3)).await;
    let paused = change(&engine, LifecycleAction::Pause).await;
    let held = until(&engine, |status| status.revision > paused.revision).await;
    assert_eq!((held.state.as_str(), log.passed()), ("paused", seconds(10)));
    tokio::time::sleep(seconds(3600)).await;
    assert_eq!(log.lines(), ["first 1"]);
    change(&engine, LifecycleAction::Resume).await;
    until_state(&engine, "completed").await;
    assert_eq!(output_of(&engine, "first").await, json!("one"));
    assert_eq!(log.lines(), ["first 1", "second 1"]);
    assert_eq!(log.at(), [0.0, 3610.0]);
}

#[tokio::test(start_paused = true)]
async fn a_pause_between_attempts_puts_the_next_one_off() {
    let log = Log::new();
    let flaky = log.activity("flaky", seconds(0), |context| match context.attempt {
        1 => fails("network"),
        _ => Ok(json!(1)),
    });
    let retry = json!({ "retry": { "max_attempts": 9, "backoff": "10s", "max_backoff": "10s", "jitter": false } });
    let steps = json!([activity("flaky", None, retry)]);
    let engine = started(&log, [flaky], steps).await;
    tokio::time::sleep(seconds(5)).await;
    change(&engine, LifecycleAction::Pause).await;
    tokio::time::sleep(seconds(100)).await;
    assert_eq!(log.lines(), ["flaky 1"]);
    change(&engine, LifecycleAction::Resume).await;
    until_state(&engine, "completed").await;
    assert_eq!(log.at(), [0.0, 105.0], "it was overdue");
}

#[tokio::test(start_paused = true)]
async fn work_of_an_earlier_visit_counts_no_more() {
    // The model goes back while the activity beside it is at work: what that comes to is of a visit that is void.
    let log = Log::new();
    let slow = log.activity("slow", seconds(10), |context| Ok(json!(context.visit)));
    let engine = engine(&log, only([slow])).await;
    let steps = json!([
        step("top", None, json!({ "set": { "entries": { "a": 1 } } }), json!({})),
        activity("slow", Some("top"), json!({})),
        step("judge", Some("top"), json!({ "agent": { "agent": "worker" } }), json!({})),
        step(
            "again",
            Some("judge"),
            json!({ "branch": { "arms": [
            { "if": "run.visits.judge < 2", "next": { "step": "top" } }, { "next": "end" }
        ] } }),
            json!({})
        ),
    ]);
    let first = begin(&engine, defined(steps, json!({})), json!({})).await;
    tokio::time::sleep(seconds(4)).await;
    let second = advance(&engine, &first.new_token.expect("a token")).await;
    a_moment().await;
    let mut lines = log.lines();
    lines.sort();
    assert_eq!(lines, ["slow 1", "slow 1", "slow broken off"]);
    advance(&engine, &second.new_token.expect("a token")).await;
    until_state(&engine, "completed").await;
    assert_eq!(output_of(&engine, "slow").await, json!(2));
    assert_eq!(log.passed(), seconds(14));
}

#[tokio::test(start_paused = true)]
async fn a_signal_is_taken_by_its_wait_be_it_before_or_after() {
    let log = Log::new();
    let wait = |name: &str| json!({ "wait": { "signal": name } });
    let steps = json!([
        step("early", None, wait("paid"), json!({})),
        step("late", Some("early"), wait("sent"), json!({})),
    ]);
    let engine = started(&log, [], steps).await;
    let kept = signalled(&engine, "sent", json!({ "by": "post" })).await;
    assert_eq!(kept.state, "running");
    let status = signalled(&engine, "paid", json!(100)).await;
    assert_eq!(status.state, "completed");
    assert_eq!(output_of(&engine, "early").await, json!(100));
    assert_eq!(output_of(&engine, "late").await, json!({ "by": "post" }));
    let error = engine.not_commanded(SignalRequest::new("more", json!(1))).await;
    assert_eq!(error.code(), Code::ExecutionFinished);
    let error = engine
        .apply_command(&named("nobody"), SignalRequest::new("x", json!(1)))
        .await
        .expect_err("nobody");
    assert_eq!(error.code(), Code::ExecutionNotFound);
}

#[tokio::test(start_paused = true)]
async fn signals_that_nothing_waits_for_are_kept_up_to_a_limit() {
    let log = Log::new();
    let steps = json!([step("wait", None, json!({ "wait": { "signal": "never" } }), json!({}))]);
    let engine = started(&log, [], steps).await;
    for number in 0..limits::SIGNALS_KEPT_MAX {
        signalled(&engine, "other", json!(number)).await;
    }
    let error = engine.not_commanded(SignalRequest::new("other", json!(0))).await;
    assert_eq!(error.code(), Code::LimitExceeded);
    let error = engine
        .not_commanded(SignalRequest::new("x".repeat(limits::SIGNAL_NAME_BYTES_MAX + 1), json!(0)))
        .await;
    assert_eq!(error.code(), Code::LimitExceeded);
}
