//! Conditions, branches, jumps and loops.

use serde_json::json;

use super::{Play, Report};
use midex_test::{assert_has, play::Calls};

#[tokio::test(start_paused = true)]
async fn false_zero_and_nothing_do_not_hold() {
    for nothing in [json!(false), json!(0), json!(""), json!(null), json!([]), json!({})] {
        let lines = "steps:
  - { id: a, if: inputs.flag, guidance: Never., result: {} }
  - { id: b, guidance: Always., result: {} }";
        let mut play = Play::begin(lines, json!({ "flag": nothing })).await;
        assert_eq!(play.open(), ["b"], "{nothing}");
        play.done("b", json!(1)).await;
        assert_eq!(play.path().await, ["a skipped", "b completed"]);
    }
}

const ROUTE: &str = "steps:
  - { id: ask, guidance: Which way?, result: {} }
  - id: route
    branch:
      - { if: \"steps.ask.way == 'left'\", next: left }
      - { if: \"steps.ask.way == 'right'\", next: right }
      - { next: give_up }
  - { id: left, guidance: Left., result: {}, next: after }
  - { id: right, guidance: Right., result: {}, next: after }
  - { id: after, guidance: After., result: {}, next: $end }
  - { id: give_up, fail: { code: NO_WAY, message: 'no way ${{ steps.ask.way }}' } }
";

#[tokio::test(start_paused = true)]
async fn a_branch_takes_the_first_arm_that_holds_and_passes_the_others() {
    for (way, other) in [("left", "right"), ("right", "left")] {
        let mut play = Play::begin(ROUTE, json!({})).await;
        play.done("ask", json!({ "way": way })).await;
        assert_eq!(play.open(), [way]);
        play.done(way, json!(1)).await;
        assert_eq!(play.open(), ["after"]);
        play.done("after", json!(1)).await;
        assert_eq!(play.state(), "completed");
        let path = play.path().await;
        assert!(path.contains(&format!("{other} skipped")), "{path:?}");
        assert!(path.contains(&"give_up skipped".to_owned()), "{path:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fail_step_ends_the_execution_with_its_own_code() {
    let mut play = Play::begin(ROUTE, json!({})).await;
    play.done("ask", json!({ "way": "up" })).await;
    assert_eq!(play.state(), "failed");
    let failure = play.last.failure.clone().unwrap();
    assert_eq!(failure.code.as_str(), "NO_WAY");
    assert_eq!(failure.message.as_str(), "no way up");
}

const REVIEW: &str = "memory: { changes: none }
steps:
  - { id: draft, guidance: 'Draft. Changes: ${{ memory.changes }}', result: {}, max_visits: 3 }
  - { id: review, guidance: Review., result: {} }
  - { id: note, set: { changes: '${{ steps.review.changes }}' }, if: not steps.review.approved }
  - id: route
    branch:
      - { if: steps.review.approved, next: publish }
      - { next: draft }
  - { id: publish, guidance: Publish., result: {} }
final_output: { rounds: '${{ run.visits.review }}' }
";

#[tokio::test(start_paused = true)]
async fn a_loop_goes_round_until_it_is_left_and_feeds_back_through_memory() {
    let mut play = Play::begin(REVIEW, json!({})).await;
    assert!(play.words().contains("Changes: none"), "{}", play.words());
    play.done("draft", json!("one")).await;
    play.done("review", json!({ "approved": false, "changes": "use tabs" })).await;
    assert_eq!(play.open(), ["draft"]);
    let offer = play.offers()[0].clone();
    assert_eq!((offer.step.visit, offer.step.attempt), (2, 1));
    assert_has(play.words(), &["Changes: use tabs"]);
    play.restart().await;
    play.done("draft", json!("two")).await;
    play.done("review", json!({ "approved": true })).await;
    play.done("publish", json!(1)).await;
    assert_eq!(play.last.final_output, Some(json!({ "rounds": 2 })));
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_is_not_left_ends_at_its_bound() {
    let mut play = Play::begin(REVIEW, json!({})).await;
    for _ in 0..3 {
        play.done("draft", json!(1)).await;
        play.done("review", json!({ "approved": false, "changes": "more" })).await;
    }
    assert_eq!(play.state(), "failed");
    let failure = play.last.failure.clone().unwrap();
    assert_eq!(failure.code.as_str(), "MAX_VISITS");
    assert_eq!(failure.step_name.as_deref(), Some("draft"));
}

#[tokio::test(start_paused = true)]
async fn a_jump_back_voids_what_is_open_behind_it_and_leaves_what_is_beside() {
    let lines = "steps:
  - { id: a, guidance: A., result: {} }
  - { id: left, guidance: L., result: {}, depends_on: [a] }
  - { id: right, guidance: R., result: {}, depends_on: [a] }
  - { id: again, branch: [{ if: steps.left == 'again', next: a }], depends_on: [left] }
  - { id: beside, guidance: B., result: {}, depends_on: [] }
  - { id: end, guidance: E., result: {}, depends_on: [again, right, beside] }";
    let mut play = Play::begin(lines, json!({})).await;
    assert_eq!(play.open(), ["a", "beside"]);
    let beside = play.token("beside");
    play.done("a", json!(1)).await;
    assert_eq!(play.open(), ["left", "right"]);
    let right = play.token("right");
    play.done("left", json!("again")).await;
    assert_eq!(play.open(), ["a"]);
    let refused = play.engine.refuse(&right, Report::Output(json!(1))).await;
    assert_eq!(refused.code(), midex_domain::error::Code::TokenSuperseded);
    let first = play.token("a");
    play.report(&beside, Report::Output(json!(1))).await;
    play.report(&first, Report::Output(json!(1))).await;
    assert_eq!(play.open(), ["left", "right"]);
    let right = play.token("right");
    play.done("left", json!("on")).await;
    play.report(&right, Report::Output(json!(1))).await;
    assert_eq!(play.open(), ["end"]);
    play.done("end", json!(1)).await;
    assert_eq!(play.state(), "completed");
}

#[tokio::test(start_paused = true)]
async fn a_jump_forward_passes_only_what_nothing_else_leads_to() {
    let lines = "steps:
  - { id: a, guidance: A., result: {}, next: end }
  - { id: only, guidance: O., result: {}, depends_on: [a] }
  - { id: beside, guidance: B., result: {}, depends_on: [] }
  - { id: joint, guidance: J., result: {}, depends_on: [only, beside] }
  - { id: end, guidance: E., result: {}, depends_on: [a] }";
    let mut play = Play::begin(lines, json!({})).await;
    let beside = play.token("beside");
    play.done("a", json!(1)).await;
    assert_eq!(play.open(), ["end"]);
    let end = play.token("end");
    play.report(&beside, Report::Output(json!(1))).await;
    assert_eq!(play.open(), ["joint"], "{:?}", play.path().await);
    play.done("joint", json!(1)).await;
    play.report(&end, Report::Output(json!(1))).await;
    assert_eq!(play.state(), "completed");
    assert!(play.path().await.contains(&"only skipped".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn steps_of_the_server_that_chase_each_other_are_stopped() {
    let lines = "steps:
  - { id: a, set: { n: 1 }, max_visits: 10000 }
  - { id: b, set: { n: 2 }, max_visits: 10000, next: a, if: 'true' }";
    let play = Play::begin(lines, json!({})).await;
    assert_eq!(play.state(), "failed");
    assert_eq!(play.last.failure.clone().unwrap().code, "STEPS_AT_ONCE");
}
