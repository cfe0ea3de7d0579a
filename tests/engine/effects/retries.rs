//! Attempts after failures, and doing a step until something holds.

use super::*;

fn retry(max_attempts: u32, jitter: bool, on: &[&str]) -> Value {
    json!({ "retry": {
        "max_attempts": max_attempts, "backoff": "2s", "max_backoff": "5s", "jitter": jitter, "on": on
    } })
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_a_named_class_is_tried_again_after_longer_and_longer_pauses() {
    let log = Log::new();
    let flaky = log.activity("flaky", seconds(1), |context| match context.attempt {
        1..=4 => fails("network"),
        _ => Ok(json!("at last")),
    });
    let steps = json!([activity("flaky", None, retry(5, false, &["network"]))]);
    let engine = started(&log, [flaky], steps).await;
    until_state(&engine, "completed").await;
    assert_eq!(output_of(&engine, "flaky").await, json!("at last"));
    // An attempt takes 1 s; the pauses are 2 s, 4 s, and from there on the cap of 5 s.
    assert_eq!(log.at(), [0.0, 3.0, 8.0, 14.0, 20.0]);
}

#[tokio::test(start_paused = true)]
async fn the_last_attempt_may_fail_too() {
    let log = Log::new();
    let flaky = log.activity("flaky", seconds(0), |_| fails("network"));
    let steps = json!([activity("flaky", None, retry(3, false, &[]))]);
    let engine = started(&log, [flaky], steps).await;
    let status = until_state(&engine, "failed").await;
    assert_eq!(failure(&status), "NETWORK");
    assert_eq!(log.lines(), ["flaky 1", "flaky 2", "flaky 3"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_repeated_until_something_holds_has_its_retries_anew_after_each_success() {
    let log = Log::new();
    let polled = log.activity("polled", seconds(0), |context| match context.attempt {
        4 | 5 | 7 => fails("network"),
        attempt => Ok(json!({ "done": attempt > 7 })),
    });
    let mut more = retry(3, false, &[]);
    more["repeat"] = json!({ "until": "steps.polled.done", "every": "1s", "max_attempts": 6 });
    let steps = json!([activity("polled", None, more)]);
    let engine = started(&log, [polled], steps).await;
    until_state(&engine, "completed").await;
    assert_eq!(output_of(&engine, "polled").await, json!({ "done": true }));
    // A second between repeats; 2 s and 4 s after two failures in a row, and 2 s again after the next one.
    assert_eq!(log.at(), [0.0, 1.0, 2.0, 3.0, 5.0, 9.0, 10.0, 12.0]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_another_class_is_not_tried_again() {
    let log = Log::new();
    let flaky = log.activity("flaky", seconds(0), |_| fails("refused"));
    let steps = json!([activity("flaky", None, retry(5, false, &["network"]))]);
    let engine = started(&log, [flaky], steps).await;
    until_state(&engine, "failed").await;
    assert_eq!(log.lines(), ["flaky 1"]);
}

#[tokio::test(start_paused = true)]
async fn jitter_spreads_a_pause_between_half_of_it_and_the_whole() {
    let log = Log::new();
    let flaky = log.activity("flaky", seconds(0), |_| fails("network"));
    let steps = json!([activity("flaky", None, retry(20, true, &[]))]);
    let engine = started(&log, [flaky], steps).await;
    until_state(&engine, "failed").await;
    let at = log.at();
    let pauses: Vec<_> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses.len(), 19);
    assert!((1.0..=2.0).contains(&pauses[0]), "{pauses:?}");
    assert!((2.0..=4.0).contains(&pauses[1]), "{pauses:?}");
    let late = &pauses[2..];
    assert!(late.iter().all(|pause| (2.5..=5.0).contains(pause)), "{pauses:?}");
    let spread =
        late.iter().copied().fold(0.0, f64::max) - late.iter().copied().fold(9.0, f64::min);
    assert!(spread > 0.5, "they differ: {pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn a_step_is_repeated_until_its_own_output_says_that_it_is_done() {
    let log = Log::new();
    let poll =
        log.activity("poll", seconds(1), |context| Ok(json!({ "ready": context.attempt == 3 })));
    let until =
        json!({ "repeat": { "until": "steps.poll.ready", "every": "10s", "max_attempts": 5 } });
    let steps = json!([activity("poll", None, until)]);
    let engine = started(&log, [poll], steps).await;
    until_state(&engine, "completed").await;
    assert_eq!(output_of(&engine, "poll").await, json!({ "ready": true }));
    assert_eq!(log.at(), [0.0, 11.0, 22.0]);
}

#[tokio::test(start_paused = true)]
async fn a_repetition_has_an_end() {
    let log = Log::new();
    let poll = log.activity("poll", seconds(0), |_| Ok(json!({ "ready": false })));
    let until =
        json!({ "repeat": { "until": "steps.poll.ready", "every": "1s", "max_attempts": 4 } });
    let steps = json!([activity("poll", None, until)]);
    let engine = started(&log, [poll], steps).await;
    let status = until_state(&engine, "failed").await;
    assert_eq!(failure(&status), "REPEAT_EXHAUSTED");
    assert_eq!(log.at(), [0.0, 1.0, 2.0, 3.0]);
}

/// What this step does with this attempt, the first of which brings what its `result` does not allow.
async fn brings_a_bad_output_first(more: Value) -> (Vec<String>, String) {
    let log = Log::new();
    let odd = log.activity("odd", seconds(1), |context| match context.attempt {
        1 => Ok(json!({ "stars": "many" })),
        _ => Ok(json!({ "stars": 3 })),
    });
    let mut step =
        json!({ "result": { "type": "object", "properties": { "stars": { "type": "integer" } } } });
    for (key, value) in more.as_object().expect("an object") {
        step[key] = value.clone();
    }
    let engine = started(&log, [odd], json!([activity("odd", None, step)])).await;
    let status = until(&engine, |status| status.state != "running").await;
    (log.lines(), status.state)
}

#[tokio::test(start_paused = true)]
async fn an_output_that_breaks_its_schema_has_another_attempt() {
    for more in [retry(3, false, &[]), retry(3, false, &["STEP_OUTPUT_INVALID"])] {
        let (lines, state) = brings_a_bad_output_first(more.clone()).await;
        assert_eq!((lines.len(), state.as_str()), (2, "completed"), "{more}");
    }
    for more in [json!({}), retry(3, false, &["network"]), retry(1, false, &[])] {
        let (lines, state) = brings_a_bad_output_first(more.clone()).await;
        assert_eq!((lines.len(), state.as_str()), (1, "failed"), "{more}");
    }
}
