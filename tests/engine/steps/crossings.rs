//! What may not go wrong where ways cross: joins, loops, items and pauses.

use std::time::Duration;

use midex_domain::{
    LifecycleAction,
    error::Code,
    execution::{Report, SignalRequest},
};
use serde_json::json;

use super::Play;
use midex_test::play::{Calls, change_to, failed};

#[tokio::test(start_paused = true)]
async fn a_jump_lets_a_join_go_on_whose_other_half_was_done_before() {
    let lines = "steps:
  - { id: beside, guidance: B., result: {} }
  - { id: a, guidance: A., result: {}, depends_on: [], next: end }
  - { id: joint, guidance: J., result: {}, depends_on: [a, beside] }
  - { id: end, guidance: E., result: {}, depends_on: [joint] }";
    let mut play = Play::begin(lines, json!({})).await;
    let a = play.token("a");
    play.done("beside", json!(1)).await;
    play.report(&a, Report::Output(json!(1))).await;
    assert_eq!(play.open(), ["joint"], "{:?}", play.path().await);
    play.done("joint", json!(1)).await;
    play.done("end", json!(1)).await;
    assert_eq!(play.state(), "completed");
}

#[tokio::test(start_paused = true)]
async fn an_item_that_is_passed_by_leaves_the_others_to_be_done() {
    let lines = "steps:
  - id: each
    foreach: { in: '${{ inputs.list }}', as: n, parallel: 2, do: { if: n > 1, guidance: 'N ${{ n }}', result: {} } }
  - { id: after, guidance: After., result: {} }
final_output: '${{ steps.each }}'";
    let mut play = Play::begin(lines, json!({ "list": [1, 2, 0, 3] })).await;
    let items =
        |play: &Play| -> Vec<_> { play.offers().iter().map(|offer| offer.step.item).collect() };
    assert_eq!(items(&play), [Some(1), Some(3)], "{:?}", play.path().await);
    let [one, three] = [0, 1].map(|at| play.last.new_tokens[at].continuation_token.clone());
    play.report(&one, Report::Output(json!("one"))).await;
    play.report(&three, Report::Output(json!("three"))).await;
    play.done("after", json!(1)).await;
    assert_eq!(play.last.final_output, Some(json!([null, "one", null, "three"])));
}

#[tokio::test(start_paused = true)]
async fn an_item_whose_failure_is_passed_leaves_a_gap() {
    let lines = "steps:
  - id: each
    foreach: { in: '${{ inputs.list }}', parallel: 2, do: { guidance: Do., result: {}, on_error: continue } }
final_output: '${{ steps.each }}'";
    let mut play = Play::begin(lines, json!({ "list": [1, 2] })).await;
    let [zero, one] = [0, 1].map(|at| play.last.new_tokens[at].continuation_token.clone());
    let report = failed("no", None);
    play.report(&zero, report).await;
    assert_eq!(play.state(), "running");
    play.report(&one, Report::Output(json!("one"))).await;
    assert_eq!(play.last.final_output, Some(json!([null, "one"])));
}

const AGAIN: &str = "steps:
  - { id: a, guidance: A., result: {} }
  - { id: again, branch: [{ if: run.visits.a < 3, next: a }] }
";

#[tokio::test(start_paused = true)]
async fn a_call_that_led_back_to_its_own_step_is_answered_again() {
    let mut play = Play::begin(AGAIN, json!({})).await;
    let first = play.token("a");
    let told = play.done("a", json!("one")).await.clone();
    assert_eq!(play.offers()[0].step.visit, 2);
    for _ in 0..2 {
        let again = play.engine.advance(&first, Report::Output(json!("one")));
        let again = again.await.unwrap();
        assert!(again.replayed);
        assert_eq!(again.new_token, told.new_token);
        play.restart().await;
    }
}

#[tokio::test(start_paused = true)]
async fn inputs_that_nobody_gave_have_their_defaults_from_the_first_step_on() {
    for given in [None, Some(json!({ "b": 2 }))] {
        let lines = "inputs: { a: { type: integer, default: { from: literal, value: 1 } }, b: { type: integer, default: { from: literal, value: 2 } } }
steps:
  - { id: keep, set: { sum: '${{ inputs.a + inputs.b }}' } }
  - { id: ask, guidance: 'Sum ${{ memory.sum }}', result: {} }
";
        let play = Play::begin_with(lines, given).await;
        assert_eq!(play.state(), "running", "{:?}", play.last);
        assert!(play.words().contains("Sum 3"), "{}", play.words());
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_that_leads_to_itself_is_stopped_and_nothing_else_is_harmed() {
    for lines in [
        "steps:\n  - { id: a, set: { n: 1 }, max_visits: 10000, next: a, if: 'true' }\n",
        "steps:\n  - { id: a, set: { n: '${{ inputs.no.such }}' }, max_visits: 10000, on_error: a }\n",
        "steps:\n  - { id: a, foreach: { in: [1], as: n, do: { if: n > 1, guidance: N., result: {} } }, max_visits: 10000, next: a, if: 'true' }\n",
        "steps:\n  - { id: a, foreach: { in: [1], as: n, do: { if: n.no, guidance: N., result: {} } }, max_visits: 10000, on_error: a }\n",
    ] {
        let play = Play::begin(lines, json!({ "no": 1 })).await;
        assert_eq!(play.state(), "failed");
        assert_eq!(play.last.failure.clone().unwrap().code, "STEPS_AT_ONCE");
    }
}

#[tokio::test(start_paused = true)]
async fn what_follows_a_time_limit_waits_for_its_model() {
    let lines = "timeout: 10s
steps:
  - { id: a, guidance: A., result: {} }
  - { id: clean, guidance: Clean., result: {}, run_when: finished }";
    let mut play = Play::begin(lines, json!({})).await;
    // Time moves only once nobody has anything to do.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let current = play.engine.current_now("e").await;
    assert_eq!(current.current_step.as_deref(), Some("clean"));
    let token = current.continuation_token.unwrap();
    play.report(&token, Report::Output(json!(1))).await;
    assert_eq!(play.state(), "failed");
    assert_eq!(play.last.failure.clone().unwrap().code, "WORKFLOW_TIMED_OUT");
}

#[tokio::test(start_paused = true)]
async fn what_is_too_much_for_a_step_of_the_server_fails_that_step() {
    let long = "x".repeat(600_000);
    for step in [
        "{ id: big, set: { both: '${{ steps.a ~ steps.a }}' } }",
        "{ id: big, guidance: '${{ steps.a ~ steps.a }}', result: {} }",
    ] {
        let lines = format!("steps:\n  - {{ id: a, guidance: A., result: {{}} }}\n  - {step}\n");
        let mut play = Play::begin(&lines, json!({})).await;
        play.done("a", json!(long)).await;
        assert_eq!(play.state(), "failed", "{step}");
        let failure = play.last.failure.clone().unwrap();
        assert_eq!(failure.step_name.as_deref(), Some("big"), "{failure:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fail_step_after_a_failure_lets_what_follows_it_run() {
    let lines = "steps:
  - { id: a, guidance: A., result: {} }
  - { id: first, guidance: First., result: {}, run_when: finished }
  - { id: worse, fail: { code: WORSE, message: worse }, run_when: finished }
  - { id: clean, guidance: Clean., result: {}, run_when: finished, depends_on: [worse] }";
    let mut play = Play::begin(lines, json!({})).await;
    play.fails("a", "BROKEN").await;
    play.done("first", json!(1)).await;
    assert_eq!(play.open(), ["clean"], "{:?}", play.path().await);
    play.done("clean", json!(1)).await;
    assert_eq!(play.last.failure.clone().unwrap().code, "BROKEN");
}

#[tokio::test(start_paused = true)]
async fn signals_that_came_in_a_pause_end_no_wait_that_the_first_of_them_took_back() {
    let lines = "steps:
  - { id: top, guidance: T., result: {} }
  - { id: left, wait: { signal: go }, depends_on: [top], next: top, max_visits: 2 }
  - { id: right, wait: { signal: go }, depends_on: [top], next: $end }";
    let mut play = Play::begin(lines, json!({})).await;
    play.done("top", json!(1)).await;
    play.engine.commanded(change_to(LifecycleAction::Pause)).await;
    for _ in 0..2 {
        play.engine.commanded(SignalRequest::new("go", json!(1))).await;
    }
    play.engine.commanded(change_to(LifecycleAction::Resume)).await;
    let path = play.path().await;
    assert_eq!(path, ["top completed", "left completed", "right skipped", "top running"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_tool_answered_is_an_output_as_it_is() {
    let mut play = Play::begin("steps:\n  - { id: a, tool: look-up }\n", json!({})).await;
    assert!(play.words().contains("as a JSON value"), "{}", play.words());
    play.done("a", json!(["anything"])).await;
    assert_eq!(play.state(), "completed");
}

#[tokio::test(start_paused = true)]
async fn who_brings_the_last_bad_output_of_a_step_that_is_passed_is_sent_on() {
    let lines = "steps:
  - { id: a, guidance: A., result: { type: string }, optional: true }
  - { id: b, guidance: B., result: {} }";
    let play = Play::begin(lines, json!({})).await;
    let token = play.token("a");
    for at in 1..5 {
        play.refused(&token, json!(at)).await;
    }
    for _ in 0..2 {
        let refused = play.refused(&token, json!(5)).await;
        assert_eq!(refused.code(), Code::StepOutputInvalid);
        let action = refused.suggested_action();
        assert!(action.contains("current_step"), "{action}");
        assert!(!action.contains("workflow.start"), "{action}");
    }
    let current = play.engine.current_now("e").await;
    assert_eq!(current.current_step.as_deref(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn the_reply_names_the_step_that_ended_without_an_output() {
    let lines = "steps:
  - { id: a, guidance: A., result: {}, optional: true }
  - { id: b, guidance: B., result: {}, depends_on: [] }
  - { id: c, guidance: C., result: {}, depends_on: [a, b] }";
    let mut play = Play::begin(lines, json!({})).await;
    let message = play.fails("a", "BROKEN").await.message.clone();
    assert!(message.contains("'a'"), "{message}");
}

/// Two ways beside each other that both leave a step behind.
const BESIDE: &str = "steps:
  - { id: a, guidance: A., result: {}, depends_on: [], next: x }
  - { id: b, guidance: B., result: {}, depends_on: [], next: y }
  - { id: behind, guidance: Behind., result: {}, depends_on: [a, b] }
  - { id: further, guidance: Further., result: {}, depends_on: [behind] }
  - { id: x, guidance: X., result: {}, depends_on: [further] }
  - { id: y, guidance: Y., result: {}, depends_on: [further] }
";

#[tokio::test(start_paused = true)]
async fn what_two_jumps_together_leave_behind_is_passed() {
    for order in [["a", "b"], ["b", "a"]] {
        let mut play = Play::begin(BESIDE, json!({})).await;
        let tokens = order.map(|step| play.token(step));
        for token in tokens {
            play.report(&token, Report::Output(json!(1))).await;
        }
        let path = play.path().await;
        for passed in ["behind skipped", "further skipped"] {
            assert!(path.iter().any(|row| row == passed), "{order:?}: {path:?}");
        }
        while play.state() == "running" {
            play.goes_on(json!(1)).await;
        }
        assert_eq!(play.state(), "completed");
        let path = play.path().await;
        for done in ["x completed", "y completed"] {
            assert!(path.iter().any(|row| row == done), "{order:?}: {path:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_one_way_still_leads_to_is_not_passed() {
    for (b, is_passed) in [
        // It goes on in order, or fails and is passed.
        ("{ id: b, guidance: B., result: {}, depends_on: [] }", false),
        ("{ id: b, guidance: B., result: {}, depends_on: [], on_error: continue }", false),
        // It is an arm that leads elsewhere.
        ("{ id: b, branch: [{ if: run.visits.a == 1, next: y }], depends_on: [] }", true),
        // No arm is taken.
        ("{ id: b, branch: [{ if: run.visits.a == 9, next: y }], depends_on: [] }", false),
    ] {
        let lines =
            BESIDE.replace("{ id: b, guidance: B., result: {}, depends_on: [], next: y }", b);
        let mut play = Play::begin(&lines, json!({})).await;
        let a = play.token("a");
        if b.contains("guidance") {
            let token = play.token("b");
            if b.contains("on_error") {
                play.report(&token, failed("no", None)).await;
            } else {
                play.report(&token, Report::Output(json!(1))).await;
            }
        }
        play.report(&a, Report::Output(json!(1))).await;
        let path = play.path().await;
        let passed = path.iter().any(|row| row == "behind skipped");
        assert_eq!(passed, is_passed, "{b}: {path:?}");
    }
}
