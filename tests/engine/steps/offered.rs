//! What steps offer their client to do next: patterns, suggestions, and what is chosen of them.

use midex_domain::{
    LifecycleAction,
    definition::OutputPattern,
    error::{Code, Error},
    execution::{Report, Submission},
    limits,
    offer::{OptionSource, StepOption},
    view::AdvanceReply,
};
use serde_json::{Value, json};

use super::Play;
use midex_test::{assert_has, play::Calls};

/// A step that offers a call where its output says that something is not valid, and one after it.
const CHECKED: &str = "steps:
  - id: check
    guidance: Check it.
    result: {}
    branches:
      valid:true: { toolName: publish }
      valid:false:
        toolName: error_handler_start
        parameters: { errors: \"${{ steps.check.output.errors }}\", of: check }
        continueWorkflow: false
  - { id: after, guidance: Go on., result: {} }
  - { id: end, guidance: End., result: {} }
";

pub(super) fn ids(options: &[StepOption]) -> Vec<&str> {
    options.iter().map(|option| option.id.as_str()).collect()
}

pub(super) fn chosen(output: Option<Value>, choice: &str) -> Submission {
    Submission { report: output.map(Report::Output), choice: Some(choice.to_owned()) }
}

async fn submit(play: &mut Play, step: &str, submission: Submission) -> AdvanceReply {
    let token = play.token(step);
    play.last = play.engine.advance(&token, submission).await.expect("done");
    play.last.clone()
}

pub(super) async fn refuse(play: &Play, step: &str, submission: Submission) -> Error {
    let token = play.token(step);
    let refused = play.engine.advance(&token, submission).await;
    refused.expect_err("a refusal")
}

fn matches(pattern: &str, output: &Value) -> bool {
    OutputPattern::parse(pattern).expect("a pattern").matches(output)
}

#[test]
fn patterns_compare_typed_values() {
    let is =
        |pattern: &str, output: Value| assert!(matches(pattern, &output), "{pattern} {output}");
    let not =
        |pattern: &str, output: Value| assert!(!matches(pattern, &output), "{pattern} {output}");
    is("valid:true", json!({ "valid": true }));
    not("valid:true", json!({ "valid": "true" }));
    not("valid:TRUE", json!({ "valid": true }));
    is("valid:TRUE", json!({ "valid": "TRUE" }));
    is("n:1", json!({ "n": 1 }));
    is("n:1", json!({ "n": 1.0 }));
    not("n:1", json!({ "n": "1" }));
    is("n:\"1\"", json!({ "n": "1" }));
    is("x:null", json!({ "x": null }));
    not("x:null", json!({}));
    not("x:null", json!({ "x": "null" }));
    not("missing:undefined", json!({}));
    is("url:http://x", json!({ "url": "http://x" }));
    not("url:http://x", json!({ "url": "http" }));
    not("url:http", json!({ "url": "http://x" }));
    is("list.0:z", json!({ "list": ["z"] }));
    not("list.1:z", json!({ "list": ["z"] }));
    is("status.code:approved", json!({ "status": { "code": "approved" } }));
    not("status.code:approved", json!({ "status": "approved" }));
    not("status.code:Approved", json!({ "status": { "code": "approved" } }));
    is("tags:[]", json!({ "tags": [] }));
    is("text:\"\"", json!({ "text": "" }));
    for output in [json!(null), json!("valid:true"), json!([true]), json!(true)] {
        not("valid:true", output);
    }
}

#[tokio::test(start_paused = true)]
async fn what_matches_is_offered_before_going_on_and_after_a_restart_too() {
    let mut play = Play::begin(CHECKED, json!({})).await;
    assert_eq!(play.last.next_step_options, []);
    let output = json!({ "valid": false, "errors": ["Invalid email"] });
    let offered = play.done("check", output).await.next_step_options.clone();
    assert_eq!(ids(&offered), ["check.1", "continue"]);
    let (first, going_on) = (&offered[0], &offered[1]);
    assert_eq!((first.priority, first.from), (100, OptionSource::Step));
    assert_eq!(first.tool_name, "error_handler_start");
    assert_eq!(first.pattern.as_deref(), Some("valid:false"));
    let parameters = json!({ "errors": ["Invalid email"], "of": "check" });
    assert_eq!(Value::Object(first.parameters.clone()), parameters);
    assert!(!first.continue_workflow && going_on.continue_workflow);
    assert_eq!(going_on.priority, 50);
    assert_eq!(going_on.from, OptionSource::Continue);
    assert_eq!(going_on.tool_name, "workflow.next_step");
    assert_eq!(going_on.parameters["token"], json!(play.token("after")));
    assert_eq!(play.engine.current_now("e").await.next_step_options, offered);
    play.restart().await;
    assert_eq!(play.engine.current_now("e").await.next_step_options, offered);
    // The step after it is done, so it is gone past.
    play.done("after", json!(1)).await;
    assert_eq!(play.last.next_step_options, []);
    assert_eq!(play.engine.current_now("e").await.next_step_options, []);
}

#[tokio::test(start_paused = true)]
async fn without_a_match_a_reply_says_nothing_of_options() {
    let mut play = Play::begin(CHECKED, json!({})).await;
    play.done("check", json!({ "valid": "false" })).await;
    let reply = serde_json::to_value(&play.last).unwrap();
    assert!(reply.get("nextStepOptions").is_none(), "{reply}");
    let current = serde_json::to_value(play.engine.current_now("e").await).unwrap();
    assert!(current.get("nextStepOptions").is_none(), "{current}");
}

#[tokio::test(start_paused = true)]
async fn a_choice_is_one_of_what_was_offered_and_is_recorded() {
    let mut play = Play::begin(CHECKED, json!({})).await;
    play.done("check", json!({ "valid": true })).await;
    let refused = refuse(&play, "after", chosen(Some(json!(1)), "check.9")).await;
    assert_eq!(refused.code(), Code::ChoiceUnknown);
    assert_has(refused.message(), &["check.9", "check.1", "publish", "continue"]);
    assert_eq!(
        refused.context("choices"),
        Some(&json!([
            { "id": "check.1", "toolName": "publish" },
            { "id": "continue", "toolName": "workflow.next_step" }
        ]))
    );
    assert_has(&refused.suggested_action(), &["the same call", "choices"]);
    // The token stays valid, and a tool that only one option has names it.
    let token = play.token("after");
    let done = submit(&mut play, "after", chosen(Some(json!(1)), "publish")).await;
    assert_eq!(done.workflow_state.as_str(), "running");
    assert_eq!(play.open(), ["end"]);
    assert_eq!(done.next_step_options, []);
    let history = play.history().await;
    let decision = history[0].branch_decision.as_ref().expect("a decision");
    assert_eq!(decision.choice.as_str(), "check.1");
    assert_eq!(decision.branch_pattern.as_deref(), Some("valid:true"));
    assert_eq!(decision.tool_name.as_str(), "publish");
    assert_eq!(decision.chosen_at.as_str(), "after");
    assert_eq!(decision.offered.len(), 1);
    let options = history[0].branch_options.as_ref().expect("options");
    assert_eq!(ids(options), ["check.1"]);
    // The same call gets the same answer; another choice is another call.
    let again = play.engine.advance(&token, chosen(Some(json!(1)), "publish")).await;
    let again = again.expect("the same answer");
    assert!(again.replayed);
    assert_eq!(AdvanceReply { replayed: false, ..again }, done);
    for other in [chosen(Some(json!(1)), "continue"), Report::Output(json!(1)).into()] {
        let other = play.engine.advance(&token, other).await.expect_err("another call");
        assert_eq!(other.code(), Code::TokenAlreadyUsed);
    }
}

#[tokio::test(start_paused = true)]
async fn going_on_may_be_chosen_by_its_id_and_by_its_tool() {
    for choice in ["continue", "workflow.next_step", "workflow_next_step"] {
        let mut play = Play::begin(CHECKED, json!({})).await;
        play.done("check", json!({ "valid": true })).await;
        submit(&mut play, "after", chosen(Some(json!(1)), choice)).await;
        let history = play.history().await;
        let decision = history[0].branch_decision.as_ref().expect("a decision");
        assert_eq!(decision.choice.as_str(), "continue");
        assert_eq!(decision.branch_pattern, None);
    }
    // Where nothing is offered nothing else may be chosen.
    let play = Play::begin(CHECKED, json!({})).await;
    let refused = refuse(&play, "check", chosen(Some(json!(1)), "publish")).await;
    assert_eq!(refused.code(), Code::ChoiceUnknown);
}

#[tokio::test(start_paused = true)]
async fn a_choice_that_leaves_the_workflow_ends_it_as_diverged() {
    for output in [None, Some(json!("what was done of it"))] {
        let mut play = Play::begin(CHECKED, json!({})).await;
        play.done("check", json!({ "valid": false, "errors": [] })).await;
        let token = play.token("after");
        let leaving = chosen(output, "error_handler_start");
        let left = submit(&mut play, "after", leaving.clone()).await;
        assert_eq!(left.workflow_state, "diverged");
        assert_has(&left.message, &["error_handler_start"]);
        assert_eq!(left.next_step_options, []);
        let status = play.status().await;
        assert_eq!(status.reason.as_deref(), Some("error_handler_start"));
        play.restart().await;
        let again = play.engine.advance(&token, leaving).await.expect("the same answer");
        assert_eq!(AdvanceReply { replayed: false, ..again }, left);
        let other = play.refused(&token, json!(2)).await;
        assert_eq!(other.code(), Code::TokenAlreadyUsed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_choice_alone_is_enough_only_where_it_leaves() {
    let mut play = Play::begin(CHECKED, json!({})).await;
    play.done("check", json!({ "valid": true })).await;
    let refused = refuse(&play, "after", chosen(None, "check.1")).await;
    assert_eq!(refused.code(), Code::ArgumentsInvalid);
    assert_has(refused.message(), &["output", "error"]);
    play.done("after", json!(1)).await;
    assert_eq!(play.open(), ["end"]);
}

#[tokio::test(start_paused = true)]
async fn other_open_steps_are_void_where_the_workflow_is_left() {
    let lines = CHECKED.replace(
        "  - { id: end, guidance: End., result: {} }",
        "  - { id: beside, guidance: B., result: {}, depends_on: [] }",
    );
    let mut play = Play::begin(&lines, json!({})).await;
    let beside = play.token("beside");
    play.done("check", json!({ "valid": false, "errors": [] })).await;
    submit(&mut play, "after", chosen(None, "check.1")).await;
    let refused = play.refused(&beside, json!(1)).await;
    assert_eq!(refused.code(), Code::TokenSuperseded);
    assert_has(&play.path().await.join(","), &["beside skipped", "after skipped"]);
}

#[tokio::test(start_paused = true)]
async fn a_parallel_step_does_not_take_away_what_another_was_offered() {
    let lines = CHECKED.replace(
        "  - { id: end, guidance: End., result: {} }",
        "  - { id: beside, guidance: B., result: {}, depends_on: [] }
  - { id: beside2, guidance: B., result: {} }
  - { id: beside3, guidance: B., result: {} }",
    );
    let mut play = Play::begin(&lines, json!({})).await;
    let (check, beside) = (play.token("check"), play.token("beside"));
    play.report(&check, Report::Output(json!({ "valid": true }))).await;
    let after = play.token("after");
    play.report(&beside, Report::Output(json!(1))).await;
    play.done("beside2", json!(1)).await;
    assert_eq!(ids(&play.last.next_step_options), ["check.1", "continue"]);
    let submission = chosen(Some(json!(1)), "check.1");
    play.engine.advance(&after, submission).await.expect("a choice");
}

#[tokio::test(start_paused = true)]
async fn a_refused_output_or_a_retry_loses_no_offer() {
    let lines = CHECKED.replace(
        "{ id: after, guidance: Go on., result: {} }",
        "{ id: after, guidance: Go on., result: { type: integer }, retry: { max_attempts: 3 } }",
    );
    let mut play = Play::begin(&lines, json!({})).await;
    play.done("check", json!({ "valid": true })).await;
    let refused = refuse(&play, "after", chosen(Some(json!("no")), "check.1")).await;
    assert_eq!(refused.code(), Code::StepOutputInvalid);
    assert!(play.history().await[0].branch_decision.is_none());
    play.fails("after", "LATER").await;
    assert_eq!(ids(&play.last.next_step_options), ["check.1", "continue"]);
    submit(&mut play, "after", chosen(Some(json!(1)), "check.1")).await;
    assert!(play.history().await[0].branch_decision.is_some());
}

#[tokio::test(start_paused = true)]
async fn the_last_step_offers_too() {
    let lines = "steps:
  - id: only
    guidance: Do it.
    result: {}
    branches: { done:true: { toolName: announce } }
";
    let mut play = Play::begin(lines, json!({})).await;
    play.done("only", json!({ "done": true })).await;
    assert_eq!(play.state(), "completed");
    assert_eq!(ids(&play.last.next_step_options), ["only.1"]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_offered_is_told_and_costs_no_output() {
    let lines = "steps:
  - id: a
    guidance: A.
    result: {}
    branches:
      go:true: { toolName: x, parameters: { of: \"${{ steps.a.output.absent }}\" } }
      size:big: { toolName: y, parameters: { of: \"${{ steps.a.output.text }}\" } }
  - { id: b, guidance: B., result: {} }
";
    let mut play = Play::begin(lines, json!({})).await;
    let text = "x".repeat(limits::STEP_OPTIONS_BYTES_MAX);
    play.done("a", json!({ "go": true, "size": "big", "text": text })).await;
    assert_eq!(play.open(), ["b"]);
    assert!(play.last.next_step_options.is_empty());
    let told = play.last.options_left_out.join("\n");
    assert_has(&told, &["branch `go:true` of 'a'", "absent", "branch `size:big`", "65536 bytes"]);
}

#[tokio::test(start_paused = true)]
async fn going_on_by_the_arm_of_a_branch_says_so() {
    let lines = "steps:
  - { id: a, guidance: A., result: {} }
  - id: route
    branch: [{ if: steps.a.output.ok, next: good }, { next: bad }]
  - { id: good, guidance: G., result: {}, next: $end }
  - { id: bad, guidance: B., result: {} }
";
    for (ok, step, condition) in [(true, "good", Some("steps.a.output.ok")), (false, "bad", None)] {
        let mut play = Play::begin(lines, json!({})).await;
        play.done("a", json!({ "ok": ok })).await;
        assert_eq!(play.open(), [step]);
        let options = play.last.next_step_options.clone();
        assert_eq!(ids(&options), ["continue"]);
        assert_eq!(options[0].from, OptionSource::Arm);
        assert_eq!(options[0].priority, 50);
        assert_eq!(options[0].condition.as_deref(), condition);
        assert_eq!(options[0].parameters["token"], json!(play.token(step)));
        play.restart().await;
        assert_eq!(play.engine.current_now("e").await.next_step_options, options);
        submit(&mut play, step, chosen(Some(json!(1)), "continue")).await;
        assert_eq!(play.state(), "completed");
    }
}

#[tokio::test(start_paused = true)]
async fn each_round_of_a_loop_offers_anew() {
    let lines = "steps:
  - { id: make, guidance: M., result: {} }
  - id: review
    guidance: R.
    result: {}
    branches: { ok:false: { toolName: lint, parameters: { round: \"${{ run.visit }}\" } } }
  - id: route
    branch: [{ if: not steps.review.output.ok, next: make }, { next: end }]
  - { id: end, guidance: E., result: {} }
";
    let mut play = Play::begin(lines, json!({})).await;
    for round in 1..=3 {
        play.done("make", json!(1)).await;
        assert_eq!(play.last.next_step_options, []);
        play.done("review", json!({ "ok": false })).await;
        let options = &play.last.next_step_options;
        assert_eq!(ids(options), ["review.1", "continue"]);
        assert_eq!(options[0].parameters["round"], json!(round));
        assert_eq!(options[1].from, OptionSource::Arm);
    }
    play.done("make", json!(1)).await;
    play.done("review", json!({ "ok": true })).await;
    assert_eq!(ids(&play.last.next_step_options), ["continue"]);
}

#[tokio::test(start_paused = true)]
async fn an_input_step_offers_by_what_the_user_said() {
    let lines = "inputs: { env: { type: string, optional: true } }
steps:
  - id: ask
    input: { properties: [env], via: guidance }
    branches: { env:prod: { toolName: page_somebody } }
  - { id: b, guidance: B., result: {} }
";
    for given in [json!({}), json!({ "env": "prod" })] {
        let asks = given == json!({});
        let mut play = Play::begin(lines, given).await;
        if asks {
            play.done("ask", json!({ "env": "prod" })).await;
        }
        assert_eq!(ids(&play.last.next_step_options), ["ask.1", "continue"]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_ends_otherwise_offers_nothing() {
    for lifecycle in [LifecycleAction::Abandon, LifecycleAction::Diverge, LifecycleAction::Fail] {
        let mut play = Play::begin(CHECKED, json!({})).await;
        play.done("check", json!({ "valid": true })).await;
        play.change(lifecycle).await;
        assert_eq!(play.engine.current_now("e").await.next_step_options, []);
    }
}

#[tokio::test(start_paused = true)]
async fn only_so_many_steps_offer_at_once() {
    let offering = |at| {
        format!(
            "  - {{ id: s{at}, guidance: S., result: {{}}, depends_on: [], branches: {{ ok:true: {{ toolName: t{at} }} }} }}\n"
        )
    };
    let mut lines: String = (0..=limits::OFFERS_MAX).map(offering).collect();
    lines.insert_str(0, "steps:\n");
    lines.push_str("  - { id: end, guidance: E., result: {}, depends_on: [s0, s1, s2, s3, s4, s5, s6, s7, s8] }\n");
    let mut play = Play::begin(&lines, json!({})).await;
    let tokens: Vec<_> = (0..=limits::OFFERS_MAX).map(|at| play.token(&format!("s{at}"))).collect();
    for token in tokens {
        play.report(&token, Report::Output(json!({ "ok": true }))).await;
    }
    let options = &play.last.next_step_options;
    assert_eq!(options.len(), limits::OFFERS_MAX + 1);
    assert_eq!(ids(options)[0], "s1.1");
}
