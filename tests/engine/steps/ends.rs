//! How an execution ends, and what may keep it from that: the final output, what runs although it fails, and signals.

use std::time::Duration;

use midex_domain::execution::{Report, SignalRequest};
use serde_json::{Value, json};

use super::Play;
use midex_test::{assert_has, list_of, play::Calls};

#[tokio::test(start_paused = true)]
async fn a_fault_in_a_part_of_the_final_output_leaves_the_others_and_fails_nothing() {
    let lines = "steps:
  - { id: a, guidance: A., result: {} }
  - { id: b, guidance: B., result: {}, if: steps.a.more }
final_output: { good: '${{ steps.a.x }}', bad: '${{ steps.a.y }}', none: '${{ steps.b.z }}' }";
    let mut play = Play::begin(lines, json!({})).await;
    play.done("a", json!({ "x": 1, "more": false })).await;
    assert_eq!(play.state(), "completed");
    let whole = json!({ "good": 1, "bad": null, "none": null });
    assert_eq!(play.last.final_output, Some(whole.clone()));
    let parts = list_of(&play.last.final_output_error, |fault| fault.part.as_deref());
    assert_eq!(parts, [Some("bad"), Some("none")]);
    let none = &play.last.final_output_error[1];
    assert_eq!(none.code, "EXPRESSION_FAILED");
    assert_eq!(none.message, "the step `b` has no output (it was skipped)");
    assert_has(&play.last.message, &["`bad` could not be computed"]);
    let status = play.status().await;
    assert_eq!(status.final_output, Some(whole));
    assert_eq!(status.final_output_error.len(), 2);
    play.restart().await;
    assert_eq!(play.status().await.final_output_error.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_final_output_that_is_no_mapping_is_null_as_a_whole() {
    let lines =
        "steps:\n  - { id: a, guidance: A., result: {} }\nfinal_output: '${{ steps.a.y }}'\n";
    let mut play = Play::begin(lines, json!({})).await;
    play.done("a", json!({ "x": 1 })).await;
    assert_eq!(play.state(), "completed");
    assert_eq!(play.last.final_output, Some(Value::Null));
    assert_eq!(play.last.final_output_error[0].part, None);
}

#[tokio::test(start_paused = true)]
async fn a_reference_that_leads_to_nothing_says_why_and_where_it_stands() {
    for (a, why) in [
        ("if: inputs.no", "was skipped"),
        ("fail: { code: X, message: x }, if: inputs.no", "was skipped"),
    ] {
        let kind = if a.starts_with("fail") { "" } else { "guidance: A., result: {}, " };
        let lines = format!(
            "inputs: {{ no: {{ type: boolean }} }}
steps:
  - {{ id: a, {kind}{a} }}
  - {{ id: b, guidance: B., result: {{}}, with: {{ topics: ['${{{{ steps.a.x }}}}'] }} }}
"
        );
        let play = Play::begin(&lines, json!({ "no": false })).await;
        let failure = play.last.failure.clone().unwrap();
        let told = format!("the step `a` has no output (it {why}) in `with.topics[0]`");
        assert_eq!(failure.message, told);
    }
    let lines = "steps:
  - { id: a, guidance: A., result: {}, optional: true }
  - { id: b, guidance: 'B ${{ steps.a.x }}.', result: {} }";
    let mut play = Play::begin(lines, json!({})).await;
    play.fails("a", "BROKEN").await;
    let failure = play.last.failure.clone().unwrap();
    assert_eq!(failure.message, "the step `a` has no output (it failed) in `guidance`");
}

const CLEAN: &str = "timeout: 1h
steps:
  - { id: a, guidance: A., result: {} }
  - { id: clean, guidance: C., result: {}, run_when: finished }
";

async fn after(play: &Play, minutes: u64) -> (String, Option<String>) {
    tokio::time::sleep(Duration::from_secs(minutes * 60)).await;
    let status = play.status().await;
    (status.state, status.error.map(|error| error.code))
}

#[tokio::test(start_paused = true)]
async fn what_runs_after_the_time_limit_has_five_minutes_or_its_own_limit() {
    let play = Play::begin(CLEAN, json!({})).await;
    let timed_out = Some("WORKFLOW_TIMED_OUT".to_owned());
    assert_eq!(after(&play, 64).await, ("running".into(), timed_out.clone()));
    assert_eq!(after(&play, 2).await, ("failed".into(), timed_out.clone()));
    let lines = CLEAN.replace("run_when: finished", "run_when: finished, timeout: 20m");
    let play = Play::begin(&lines, json!({})).await;
    assert_eq!(after(&play, 79).await.0, "running");
    assert_eq!(after(&play, 2).await, ("failed".into(), timed_out));
}

#[tokio::test(start_paused = true)]
async fn what_runs_after_a_failure_has_what_is_left_of_the_time_limit() {
    let mut play = Play::begin(CLEAN, json!({})).await;
    play.fails("a", "BROKEN").await;
    let broken = Some("BROKEN".to_owned());
    assert_eq!(after(&play, 59).await, ("running".into(), broken.clone()));
    assert_eq!(after(&play, 2).await, ("failed".into(), broken.clone()));
    // Where the workflow says nothing of time nothing is cut off.
    let mut play = Play::begin(&CLEAN.replace("timeout: 1h\n", ""), json!({})).await;
    play.fails("a", "BROKEN").await;
    assert_eq!(after(&play, 3 * 24 * 60).await, ("running".into(), broken));
}

const WAITING: &str = "steps:
  - { id: a, guidance: A., result: {} }
  - { id: hold, wait: { signal: tests-passed } }
  - { id: b, guidance: B., result: {} }
";

#[tokio::test(start_paused = true)]
async fn a_reply_names_the_signal_that_is_waited_for_and_how_to_send_it() {
    let mut play = Play::begin(WAITING, json!({})).await;
    let token = play.token("a");
    play.done("a", json!(1)).await;
    let call = "execution.signal with execution_id 'e' and signal 'tests-passed'";
    let message = play.last.message.clone();
    assert!(message.contains(call) && !message.contains("by itself"), "{message}");
    let wait = play.status().await.waits[0].clone();
    assert_eq!(wait.next_call.as_deref(), Some(call));
    // The same call gets the same answer once the signal has come.
    play.engine.commanded(SignalRequest::new("tests-passed", json!(1))).await;
    let again = play.engine.report(&token, Report::Output(json!(1))).await;
    assert_eq!(again.message, message);
}

#[tokio::test(start_paused = true)]
async fn a_signal_that_no_step_names_is_kept_and_told() {
    let play = Play::begin(WAITING, json!({})).await;
    let send = |name: &str| {
        let (engine, name) = (play.engine.clone(), name.to_owned());
        async move { engine.commanded(SignalRequest::new(name, json!(1))).await.signals_kept }
    };
    let kept = send("test-passed").await;
    assert_eq!(
        kept[0].unknown.as_deref(),
        Some("no step of the workflow waits for it: did you mean `tests-passed`?")
    );
    let kept = send("tests-passed").await;
    assert_eq!((kept.len(), &kept[1].unknown), (2, &None));
}

#[tokio::test(start_paused = true)]
async fn a_model_that_reports_a_failure_is_asked_again_after_the_pause_that_its_step_says() {
    let lines = |retry: &str| {
        format!(
            "steps:\n  - {{ id: a, guidance: A., result: {{}}, retry: {{ max_attempts: 2{retry} }} }}\n"
        )
    };
    let mut play = Play::begin(&lines(", backoff: 10s, jitter: false"), json!({})).await;
    play.fails("a", "BUSY").await;
    assert!(play.offers().is_empty());
    assert_eq!(play.status().await.waits[0].waits_for, "retry");
    tokio::time::sleep(Duration::from_secs(11)).await;
    let current = play.engine.current_now("e").await;
    assert_eq!(current.ready_steps[0].step.attempt, 2);
    let token = current.continuation_token.unwrap();
    play.report(&token, Report::Output(json!(1))).await;
    assert_eq!(play.state(), "completed");
    // One that says nothing of pauses is asked at once.
    let mut play = Play::begin(&lines(""), json!({})).await;
    play.fails("a", "BUSY").await;
    assert_eq!(play.offers()[0].step.attempt, 2);
}
