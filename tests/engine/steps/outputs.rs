//! Outputs that break their schema: what they cost, and where a step goes on that had too many of them.

use std::time::Duration;

use midex_domain::{LifecycleAction, PauseReason, error::Code, execution::Report, limits};
use serde_json::json;

use super::{Play, id};
use midex_test::{
    assert_has,
    play::{Calls, change_to, gate_answer},
};

const TEXT: &str = "result: { type: object, properties: { n: { type: integer } }, required: [n], additionalProperties: false }";

/// As many malformed outputs as there may be: the last refusal.
async fn exhaust(play: &Play, token: &str) -> midex_domain::error::Error {
    for at in 1..limits::OUTPUT_ATTEMPTS_MAX {
        let refused = play.refused(token, json!({ "wrong": at })).await;
        let count = format!("malformed output {at} of {}", limits::OUTPUT_ATTEMPTS_MAX);
        assert!(refused.message().contains(&count), "{refused}");
    }
    play.refused(token, json!({ "wrong": limits::OUTPUT_ATTEMPTS_MAX })).await
}

fn beside(first: &str) -> String {
    format!(
        "steps:
  - {{ id: a, guidance: A., {TEXT}{first} }}
  - {{ id: b, guidance: B., result: {{}}, depends_on: [] }}
  - {{ id: c, guidance: C., result: {{}}, depends_on: [b] }}
  - {{ id: end, guidance: E., result: {{}}, depends_on: [a, c] }}
"
    )
}

#[tokio::test(start_paused = true)]
async fn a_step_with_too_many_of_them_is_held_and_its_siblings_go_on() {
    let mut play = Play::begin(&beside(""), json!({})).await;
    let token = play.token("a");
    let last = exhaust(&play, &token).await;
    assert_eq!(last.code(), Code::StepOutputInvalid);
    assert_eq!(last.context("workflow_state"), Some(&json!("running")));
    assert_has(&last.suggested_action(), &["execution.resume"]);
    let held = play.refused(&token, json!({ "n": 1 })).await;
    assert_eq!(held.code(), Code::ExecutionPaused);
    assert!(held.message().contains("output_invalid"), "{held}");
    assert_has(&held.suggested_action(), &["execution.resume"]);
    let wait = play.status().await.waits[0].clone();
    assert_eq!(wait.step_name.as_str(), "a");
    assert_eq!(wait.waits_for.as_str(), "output_invalid");
    assert!(wait.next_call.unwrap().contains("execution.resume"));
    play.restart().await;
    play.done("b", json!(1)).await;
    assert_eq!((play.open(), play.state()), (vec!["c"], "running"));
    let call = play.token("c");
    play.done("c", json!(1)).await;
    assert_eq!(play.state(), "paused");
    assert_has(&play.last.message, &["execution.resume"]);
    assert_eq!(play.status().await.pause_reasons, [PauseReason::OutputInvalid]);
    let held = play.refused(&token, json!({ "n": 1 })).await;
    assert_eq!(held.code(), Code::ExecutionPaused);
    let told = play.last.clone();
    assert_eq!(play.change(LifecycleAction::Resume).await.state, "running");
    // What was answered then is answered again.
    let again = play.engine.report(&call, Report::Output(json!(1))).await;
    assert_eq!(again.message, told.message);
    assert_eq!(again.workflow_state, told.workflow_state);
    exhaust(&play, &token).await;
    play.change(LifecycleAction::Resume).await;
    play.report(&token, Report::Output(json!({ "n": 1 }))).await;
    assert_eq!(play.open(), ["end"]);
}

#[tokio::test(start_paused = true)]
async fn a_resume_lets_it_go_on_while_its_siblings_are_open() {
    let mut play = Play::begin(&beside(""), json!({})).await;
    let token = play.token("a");
    exhaust(&play, &token).await;
    let status = play.change(LifecycleAction::Resume).await;
    assert_eq!((status.state.as_str(), status.waits.len()), ("running", 0));
    play.report(&token, Report::Output(json!({ "n": 1 }))).await;
    assert_eq!(play.state(), "running");
    let change = change_to(LifecycleAction::Resume);
    let refused = play.engine.not_commanded(change).await;
    assert_eq!(refused.code(), Code::StateTransitionRefused);
}

#[tokio::test(start_paused = true)]
async fn what_its_author_provided_for_its_failure_happens_instead() {
    for (first, then) in [(", optional: true", "end"), (", on_error: continue", "end")] {
        let mut play = Play::begin(&beside(first), json!({})).await;
        let token = play.token("a");
        play.done("b", json!(1)).await;
        play.done("c", json!(1)).await;
        let last = exhaust(&play, &token).await;
        assert!(last.message().contains("the step failed"), "{last}");
        let current = play.engine.current_now("e").await;
        assert_eq!(current.current_step.as_deref(), Some(then), "{first}");
        let again = play.refused(&token, json!({ "wrong": limits::OUTPUT_ATTEMPTS_MAX })).await;
        assert_eq!(again.message(), last.message());
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_and_malformed_outputs_have_counts_of_their_own() {
    let lines =
        format!("steps:\n  - {{ id: a, guidance: A., {TEXT}, retry: {{ max_attempts: 2 }} }}\n");
    let mut play = Play::begin(&lines, json!({})).await;
    let first = play.token("a");
    for wrong in 1..=2 {
        play.refused(&first, json!({ "wrong": wrong })).await;
    }
    play.fails("a", "LATER").await;
    assert_eq!(play.offers()[0].step.attempt, 2);
    let second = play.token("a");
    // What was refused before costs nothing.
    let known = play.refused(&second, json!({ "wrong": 2 })).await;
    assert_has(known.message(), &["malformed output 2 of 5"]);
    let new = play.refused(&second, json!({ "wrong": 3 })).await;
    assert!(new.message().contains("malformed output 3 of 5"), "{new}");
    play.fails("a", "AGAIN").await;
    assert_eq!(play.last.failure.clone().unwrap().code, "AGAIN");
}

#[tokio::test(start_paused = true)]
async fn a_text_that_holds_what_is_asked_for_is_taken_as_that() {
    let lines = format!(
        "steps:\n  - {{ id: a, guidance: A., {TEXT} }}\n  - {{ id: b, guidance: B., result: {{}} }}\n"
    );
    let mut play = Play::begin(&lines, json!({})).await;
    let token = play.token("a");
    // One that does not fit is judged as what it holds, and is one call with that.
    for output in [json!(r#"{"wrong": 1}"#), json!({ "wrong": 1 })] {
        let refused = play.refused(&token, output).await;
        assert_has(refused.message(), &["malformed output 1 of 5"]);
        assert!(refused.violations().iter().all(|violation| violation.rule != "type"));
    }
    play.report(&token, Report::Output(json!(" {\"n\": 3}\n"))).await;
    assert_eq!(play.history().await[0].output, Some(json!({ "n": 3 })));
    for output in [json!({ "n": 3 }), json!("{\"n\":3}")] {
        let again = play.engine.advance(&token, Report::Output(output)).await;
        assert!(again.unwrap().replayed);
    }
    let other = play.refused(&token, json!("{\"n\":4}")).await;
    assert_eq!(other.code(), Code::TokenAlreadyUsed);
    // A text is what `b` may bring.
    play.done("b", json!("{\"n\": 3}")).await;
    assert_eq!(play.history().await[1].output, Some(json!("{\"n\": 3}")));
}

#[tokio::test(start_paused = true)]
async fn an_item_is_held_by_itself() {
    let lines = format!(
        "steps:\n  - id: each\n    foreach: {{ in: [1, 2, 3], parallel: 2, do: {{ guidance: G., {TEXT} }} }}\n"
    );
    let mut play = Play::begin(&lines, json!({})).await;
    let [zero, one] = [0, 1].map(|at| play.last.new_tokens[at].continuation_token.clone());
    exhaust(&play, &zero).await;
    play.report(&one, Report::Output(json!({ "n": 1 }))).await;
    let two = play.token("each");
    play.report(&two, Report::Output(json!({ "n": 2 }))).await;
    assert_eq!(play.state(), "paused");
    assert_eq!(play.status().await.waits[0].item, Some(0));
    play.change(LifecycleAction::Resume).await;
    play.report(&zero, Report::Output(json!({ "n": 0 }))).await;
    assert_eq!(play.state(), "completed");
}

#[tokio::test(start_paused = true)]
async fn a_gate_beside_it_is_answered_and_what_follows_goes_on() {
    let lines = format!(
        "steps:
  - {{ id: a, guidance: A., {TEXT} }}
  - {{ id: ship, gate: 'Ship?', depends_on: [] }}
  - {{ id: tell, guidance: T., result: {{}}, depends_on: [ship] }}
"
    );
    let mut play = Play::begin(&lines, json!({})).await;
    let token = play.token("a");
    exhaust(&play, &token).await;
    let status = play.status().await;
    let both = [PauseReason::Gate, PauseReason::OutputInvalid];
    assert_eq!(status.pause_reasons, both);
    let answered = play.engine.apply_command(&id(), gate_answer(&status, true, None)).await;
    assert_eq!(answered.unwrap().state, "running");
    let current = play.engine.current_now("e").await;
    assert_eq!(current.current_step.as_deref(), Some("tell"));
    let tell = current.continuation_token.unwrap();
    play.report(&tell, Report::Output(json!(1))).await;
    let status = play.status().await;
    assert_eq!(status.pause_reasons, [PauseReason::OutputInvalid]);
    play.change(LifecycleAction::Resume).await;
    play.report(&token, Report::Output(json!({ "n": 1 }))).await;
    assert_eq!(play.state(), "completed");
}

#[tokio::test(start_paused = true)]
async fn time_limits_stand_still_while_all_is_held() {
    let lines =
        format!("timeout: 1h\nsteps:\n  - {{ id: a, guidance: A., {TEXT}, timeout: 30m }}\n");
    let mut play = Play::begin(&lines, json!({})).await;
    let token = play.token("a");
    exhaust(&play, &token).await;
    tokio::time::sleep(Duration::from_secs(5 * 3600)).await;
    assert_eq!(play.status().await.state, "paused");
    play.change(LifecycleAction::Resume).await;
    tokio::time::sleep(Duration::from_secs(25 * 60)).await;
    play.report(&token, Report::Output(json!({ "n": 1 }))).await;
    assert_eq!(play.state(), "completed");
}

#[tokio::test(start_paused = true)]
async fn a_step_of_an_execution_that_fails_anyway_fails() {
    let lines = format!(
        "steps:
  - {{ id: a, guidance: A., result: {{}} }}
  - {{ id: clean, guidance: C., {TEXT}, run_when: finished }}
"
    );
    let mut play = Play::begin(&lines, json!({})).await;
    play.fails("a", "BROKEN").await;
    let token = play.token("clean");
    exhaust(&play, &token).await;
    let status = play.status().await;
    assert_eq!(status.state.as_str(), "failed");
    assert_eq!(status.error.unwrap().code.as_str(), "BROKEN");
}
