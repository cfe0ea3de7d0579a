//! Loops, pauses and failures across several rounds.

use std::time::Duration;

use midex_domain::{LifecycleAction, execution::Report};
use serde_json::json;

use super::Play;
use midex_test::list_of;
use midex_test::play::{Calls, change_to, failed};

#[tokio::test(start_paused = true)]
async fn a_call_that_led_back_to_its_own_fan_out_is_answered_again() {
    let lines = "steps:
  - id: each
    foreach: { in: '${{ inputs.list }}', do: { guidance: Do., result: {} } }
  - { id: again, branch: [{ if: run.visits.each < 2, next: each }] }";
    let mut play = Play::begin(lines, json!({ "list": [1] })).await;
    let first = play.token("each");
    let told = play.done("each", json!("one")).await.clone();
    assert_eq!(play.offers()[0].step.visit, 2);
    let again = play.engine.advance(&first, Report::Output(json!("one")));
    let again = again.await.unwrap();
    assert!(again.replayed);
    assert_eq!(again.new_token, told.new_token);
}

#[tokio::test(start_paused = true)]
async fn a_pause_does_not_count_against_the_time_of_a_step() {
    let lines = "steps:\n  - { id: a, guidance: A., result: {}, timeout: 1h }\n";
    let mut play = Play::begin(lines, json!({})).await;
    play.engine.commanded(change_to(LifecycleAction::Pause)).await;
    tokio::time::sleep(Duration::from_secs(7200)).await;
    play.engine.commanded(change_to(LifecycleAction::Resume)).await;
    play.done("a", json!(1)).await;
    assert_eq!(play.state(), "completed");
}

#[tokio::test(start_paused = true)]
async fn what_is_to_run_after_a_failure_runs_after_a_time_limit_too() {
    let lines = "timeout: 10s
steps:
  - { id: a, guidance: A., result: {} }
  - { id: tell, guidance: 'Tell of ${{ run.failure.code }}', result: {}, run_when: failed }";
    let play = Play::begin(lines, json!({})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let current = play.engine.current_now("e").await;
    assert_eq!(current.current_step.as_deref(), Some("tell"));
}

#[tokio::test(start_paused = true)]
async fn what_a_step_said_in_an_earlier_round_is_not_what_the_execution_came_to() {
    let lines = "steps:
  - { id: a, guidance: A., result: {} }
  - { id: again, branch: [{ if: steps.a == 'again' and run.visits.b > 0, next: a }] }
  - { id: b, guidance: B., result: {}, depends_on: [a], if: steps.a != 'last' }
  - { id: more, guidance: More., result: {}, depends_on: [b], if: steps.a != 'last' }
  - { id: back, branch: [{ if: steps.a == 'first', next: a }], depends_on: [more] }
  - { id: end, guidance: End., result: {}, depends_on: [back, b, again] }";
    let mut play = Play::begin(lines, json!({})).await;
    play.done("a", json!("first")).await;
    play.done("b", json!("of the first round")).await;
    play.done("more", json!(1)).await;
    assert_eq!(play.open(), ["a"]);
    play.done("a", json!("last")).await;
    assert_eq!(play.open(), ["end"]);
    let previous = list_of(&play.last.previous, |step| step.step_name.as_str());
    assert!(!previous.contains(&"b"), "{:?}", play.last.previous);
}

#[tokio::test(start_paused = true)]
async fn the_token_of_an_item_of_an_earlier_round_is_known_as_superseded() {
    let lines = "steps:
  - id: each
    foreach: { in: '${{ inputs.list }}', parallel: 2, do: { guidance: Do., result: {} } }
    on_error: each";
    let mut play = Play::begin(lines, json!({ "list": [1, 2] })).await;
    let mut old = Vec::new();
    for visit in 2..4 {
        let [zero, one] = [0, 1].map(|at| play.last.new_tokens[at].continuation_token.clone());
        let report = failed("no", None);
        play.report(&zero, report).await;
        assert_eq!(play.offers()[0].step.visit, visit);
        old.push(one);
    }
    for token in old {
        let refused = play.engine.advance(&token, Report::Output(json!(1)));
        let refused = refused.await.unwrap_err();
        assert_eq!(refused.code(), midex_domain::error::Code::TokenSuperseded);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_named_open_items_is_the_same_after_another_round() {
    let lines = "steps:
  - id: each
    foreach: { in: '${{ inputs.list }}', parallel: 2, do: { guidance: Do., result: {} } }
  - { id: again, branch: [{ if: run.visits.each < 2, next: each }] }";
    let mut play = Play::begin(lines, json!({ "list": [1, 2] })).await;
    let [zero, one] = [0, 1].map(|at| play.last.new_tokens[at].continuation_token.clone());
    let told = play.report(&zero, Report::Output(json!("zero"))).await;
    let told = told.clone();
    assert_eq!(told.open_steps[0].continuation_token, one);
    play.report(&one, Report::Output(json!("one"))).await;
    assert_eq!(play.offers()[0].step.visit, 2);
    let again = play.engine.advance(&zero, Report::Output(json!("zero")));
    let again = again.await.unwrap();
    assert_eq!(again.open_steps, told.open_steps);
}

#[tokio::test(start_paused = true)]
async fn an_answer_shows_the_same_decisions_after_another_round() {
    let lines = "steps:
  - { id: a, set: { n: 1 }, optional: true, max_visits: 1 }
  - { id: b, guidance: B., result: {}, next: a, if: 'true' }";
    let mut play = Play::begin(lines, json!({})).await;
    let first = play.token("b");
    let told = play.done("b", json!("first")).await.previous.clone();
    play.done("b", json!("second")).await;
    let again = play.engine.advance(&first, Report::Output(json!("first")));
    assert_eq!(again.await.unwrap().previous, told);
}

#[tokio::test(start_paused = true)]
async fn of_two_timers_at_one_instant_the_upper_one_ends_first() {
    let lines = "steps:
  - { id: top, guidance: T., result: {} }
  - { id: upper, wait: { for: 10s }, depends_on: [top], next: top, max_visits: 2 }
  - { id: lower, wait: { for: 10s }, depends_on: [top] }";
    let mut play = Play::begin(lines, json!({})).await;
    play.done("top", json!(1)).await;
    tokio::time::sleep(Duration::from_secs(15)).await;
    let path = play.path().await;
    let expected = ["top completed", "upper completed", "lower skipped", "top running"];
    assert_eq!(path, expected);
}
