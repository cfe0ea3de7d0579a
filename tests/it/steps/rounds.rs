//! Loops, pauses and failures across several rounds.

use std::time::Duration;

use midex::domain::{Change, Lifecycle, execution::Report};
use serde_json::json;

use super::{Play, id};

#[tokio::test(start_paused = true)]
async fn a_call_that_led_back_to_its_own_fan_out_is_answered_again() {
    let mut play = Play::begin(
        "steps:
  - id: each
    foreach: { in: '${{ inputs.list }}', do: { guidance: Do., result: {} } }
  - { id: again, branch: [{ if: run.visits.each < 2, next: each }] }
",
        json!({ "list": [1] }),
    )
    .await;
    let first = play.token("each");
    let told = play.done("each", json!("one")).await.clone();
    assert_eq!(play.offers()[0].visit, 2);
    let again = play.engine.advance(&first, Report::Output(json!("one")));
    let again = again.await.unwrap();
    assert!(again.replayed);
    assert_eq!(again.new_token, told.new_token);
}

#[tokio::test(start_paused = true)]
async fn a_pause_does_not_count_against_the_time_of_a_step() {
    let mut play = Play::begin(
        "steps:\n  - { id: a, guidance: A., result: {}, timeout: 1h }\n",
        json!({}),
    )
    .await;
    let change = |lifecycle| Change {
        lifecycle,
        reason: None,
    };
    play.engine
        .change(&id(), change(Lifecycle::Pause))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(7200)).await;
    play.engine
        .change(&id(), change(Lifecycle::Resume))
        .await
        .unwrap();
    play.done("a", json!(1)).await;
    assert_eq!(play.state(), "completed");
}

#[tokio::test(start_paused = true)]
async fn what_is_to_run_after_a_failure_runs_after_a_time_limit_too() {
    let play = Play::begin(
        "timeout: 10s
steps:
  - { id: a, guidance: A., result: {} }
  - { id: tell, guidance: 'Tell of ${{ run.failure.code }}', result: {}, run_when: failed }
",
        json!({}),
    )
    .await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let current = play.engine.current_step(&id()).await.unwrap();
    assert_eq!(current.current_step.as_deref(), Some("tell"));
}

#[tokio::test(start_paused = true)]
async fn what_a_step_said_in_an_earlier_round_is_not_what_the_execution_came_to() {
    let mut play = Play::begin(
        "steps:
  - { id: a, guidance: A., result: {} }
  - { id: again, branch: [{ if: steps.a == 'again' and run.visits.b > 0, next: a }] }
  - { id: b, guidance: B., result: {}, depends_on: [a], if: steps.a != 'last' }
  - { id: more, guidance: More., result: {}, depends_on: [b], if: steps.a != 'last' }
  - { id: back, branch: [{ if: steps.a == 'first', next: a }], depends_on: [more] }
  - { id: end, guidance: End., result: {}, depends_on: [back, b, again] }
",
        json!({}),
    )
    .await;
    play.done("a", json!("first")).await;
    play.done("b", json!("of the first round")).await;
    play.done("more", json!(1)).await;
    assert_eq!(play.open(), ["a"]);
    play.done("a", json!("last")).await;
    assert_eq!(play.open(), ["end"]);
    let previous: Vec<_> = play
        .last
        .previous
        .iter()
        .map(|step| step.step_name.as_str())
        .collect();
    assert!(!previous.contains(&"b"), "{:?}", play.last.previous);
}
