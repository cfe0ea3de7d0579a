//! What follows the failure of a step.

use std::time::Duration;

use midex_domain::{LifecycleAction, error::Code, execution::Report, limits};
use serde_json::json;

use super::Play;
use midex_test::play::{Calls, failed};
use midex_test::{assert_has, list_of};

#[tokio::test(start_paused = true)]
async fn the_failure_of_a_required_step_ends_the_execution() {
    let lines = "steps:\n  - { id: a, guidance: A., result: {} }\n  - { id: b, guidance: B., result: {} }\n";
    let mut play = Play::begin(lines, json!({})).await;
    play.fails("a", "BROKEN").await;
    assert_eq!(play.state(), "failed");
    assert_eq!(play.path().await, ["a failed"]);
}

#[tokio::test(start_paused = true)]
async fn the_failure_of_an_optional_step_is_recorded_and_passed() {
    for passed in ["optional: true", "on_error: continue"] {
        let lines = format!(
            "steps:
  - {{ id: a, guidance: A., result: {{}}, {passed} }}
  - {{ id: b, guidance: 'After ${{{{ run.steps.a.error.code }}}}', result: {{}} }}"
        );
        let mut play = Play::begin(&lines, json!({})).await;
        play.fails("a", "BROKEN").await;
        assert_eq!(play.open(), ["b"], "{passed}");
        assert!(play.words().contains("After BROKEN"), "{}", play.words());
        play.done("b", json!(1)).await;
        assert_eq!(play.state(), "completed");
        assert_eq!(play.path().await, ["a failed", "b completed"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_may_lead_to_another_step() {
    let lines = "steps:
  - { id: a, guidance: A., result: {}, on_error: mend }
  - { id: b, guidance: B., result: {}, next: $end }
  - { id: mend, guidance: Mend., result: {} }";
    let mut play = Play::begin(lines, json!({})).await;
    play.fails("a", "BROKEN").await;
    assert_eq!(play.open(), ["mend"]);
    play.done("mend", json!(1)).await;
    assert_eq!(play.state(), "completed");
    assert_eq!(play.path().await, ["a failed", "b skipped", "mend completed"]);
}

const AFTERMATH: &str = "steps:
  - { id: a, guidance: A., result: {} }
  - { id: b, guidance: B., result: {} }
  - { id: clean, guidance: Clean., result: {}, run_when: finished }
  - { id: tell, guidance: 'Tell of ${{ run.failure.code }}', result: {}, run_when: failed, depends_on: [b] }
";

#[tokio::test(start_paused = true)]
async fn what_is_to_run_after_a_failure_runs_before_the_execution_fails() {
    let mut play = Play::begin(AFTERMATH, json!({})).await;
    play.fails("a", "BROKEN").await;
    assert_eq!(play.state(), "running");
    assert_eq!(play.open(), ["clean", "tell"]);
    let status = play.engine.status(&super::id()).await.unwrap();
    let error = status.error.map(|error| error.code);
    assert_eq!(status.state.as_str(), "running");
    assert_eq!(error.as_deref(), Some("BROKEN"));
    assert!(play.offers()[1].instructions.contains("Tell of BROKEN"));
    let tell = play.token("tell");
    play.done("clean", json!(1)).await;
    play.report(&tell, Report::Output(json!(1))).await;
    assert_eq!(play.state(), "failed");
    assert_eq!(play.last.failure.clone().unwrap().code, "BROKEN");
    assert_eq!(play.path().await, ["a failed", "b skipped", "clean completed", "tell completed"]);
}

/// The failure on request goes the way of every other one; who asks again will not wait for it.
#[tokio::test(start_paused = true)]
async fn what_is_to_run_after_a_failure_runs_where_somebody_asks_for_the_failure() {
    for asks_again in [false, true] {
        let mut play = Play::begin(AFTERMATH, json!({})).await;
        let void = play.token("a");
        let failing = play.change(LifecycleAction::Fail).await;
        let code = failing.error.map(|error| error.code);
        assert_eq!(failing.state.as_str(), "running");
        assert_eq!(code.as_deref(), Some("FAILED_ON_REQUEST"));
        let refused = play.refused(&void, json!(1)).await;
        assert_eq!(refused.code(), Code::TokenSuperseded);
        let ended = if asks_again {
            play.change(LifecycleAction::Fail).await
        } else {
            let current = play.engine.current_step(&super::id()).await.unwrap();
            let open = list_of(&current.ready_steps, |step| step.step_name.as_str());
            assert_eq!(open, ["clean", "tell"]);
            for step in current.ready_steps {
                play.report(&step.continuation_token, Report::Output(json!(1))).await;
            }
            play.status().await
        };
        let code = ended.error.map(|error| error.code);
        assert_eq!(ended.state.as_str(), "failed");
        assert_eq!(code.as_deref(), Some("FAILED_ON_REQUEST"));
        let path = play.path().await;
        let ran = path.contains(&"clean completed".to_owned());
        assert_eq!(ran, !asks_again, "{path:?}");
    }
    // Where nothing is to run it fails at once.
    let lines = "steps:\n  - { id: a, guidance: A., result: {} }\n";
    let play = Play::begin(lines, json!({})).await;
    assert_eq!(play.change(LifecycleAction::Fail).await.state, "failed");
}

/// Two steps side by side that lead to one handler.
fn beside(of_handler: &str) -> String {
    format!(
        "steps:
  - {{ id: a, guidance: A., result: {{}}, depends_on: [], on_error: mend, next: $end }}
  - {{ id: b, guidance: B., result: {{}}, depends_on: [], on_error: mend, next: $end }}
  - {{ id: mend, guidance: Mend., result: {{}}{of_handler} }}
"
    )
}

/// Each failure enters the handler: one that it is busy with begins it anew, under another token, and only one is open.
#[tokio::test(start_paused = true)]
async fn a_second_failure_enters_its_handler_anew() {
    for is_done_between in [false, true] {
        let mut play = Play::begin(&beside(", depends_on: [a], run_when: failed"), json!({})).await;
        let second = play.token("b");
        play.fails("a", "BROKEN").await;
        assert_eq!(play.open(), ["mend"]);
        let first = play.token("mend");
        if is_done_between {
            play.done("mend", json!(1)).await;
        }
        let report = failed("it could not be done", Some("BROKEN"));
        play.report(&second, report).await;
        let offers = play.offers();
        assert_eq!((offers.len(), offers[0].step.visit), (1, 2));
        assert_ne!(play.token("mend"), first);
        let code = play.refused(&first, json!(2)).await.code();
        let expected = if is_done_between { Code::TokenAlreadyUsed } else { Code::TokenSuperseded };
        assert_eq!(code, expected);
        play.done("mend", json!(3)).await;
        assert_eq!(play.state(), "completed");
    }
}

/// One that depends on the last of them, as one that stands below them does, or on all, runs once.
#[tokio::test(start_paused = true)]
async fn a_handler_that_waits_for_all_runs_once() {
    for (handler, failing) in [
        ("", &["a", "b"][..]),
        (", depends_on: [a, b], run_when: failed", &["a", "b"]),
        (", depends_on: [a, b], run_when: failed", &["a"]),
        (", depends_on: [a, b], run_when: failed", &[]),
    ] {
        let mut play = Play::begin(&beside(handler), json!({})).await;
        let tokens = ["a", "b"].map(|step| (step, play.token(step)));
        for (step, token) in tokens {
            let report =
                if failing.contains(&step) { failed("no", None) } else { Report::Output(json!(1)) };
            play.report(&token, report).await;
        }
        if !failing.is_empty() {
            assert_eq!(play.open(), ["mend"], "{failing:?}");
            play.done("mend", json!(1)).await;
        }
        assert_eq!(play.state(), "completed", "{failing:?}");
        let path = play.path().await;
        let ran = path.iter().filter(|entry| *entry == "mend completed").count();
        assert_eq!(ran, usize::from(!failing.is_empty()), "{path:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_failure_what_waits_for_one_is_passed() {
    let mut play = Play::begin(AFTERMATH, json!({})).await;
    play.done("a", json!(1)).await;
    play.done("b", json!(1)).await;
    assert_eq!(play.open(), ["clean"]);
    play.done("clean", json!(1)).await;
    assert_eq!(play.state(), "completed");
    assert!(play.path().await.contains(&"tell skipped".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_model_that_could_not_is_asked_again_as_often_as_the_step_says() {
    let lines = "steps:\n  - { id: a, guidance: A., result: {}, retry: { max_attempts: 3 } }\n";
    let mut play = Play::begin(lines, json!({})).await;
    let first = play.token("a");
    play.fails("a", "BUSY").await;
    assert_eq!(play.state(), "running");
    assert_eq!(play.offers()[0].step.attempt, 2);
    let second = play.token("a");
    assert_ne!(first, second);
    // The first call again gets the first answer, after a restart too.
    play.restart().await;
    let again = failed("it could not be done", Some("BUSY"));
    let repeated = play.engine.report(&first, again).await;
    assert!(repeated.replayed);
    assert_eq!(repeated.new_token.as_ref(), Some(&second));
    let refused = play.engine.refuse(&first, Report::Output(json!(1))).await;
    assert_eq!(refused.code(), Code::TokenAlreadyUsed);
    play.fails("a", "BUSY").await;
    play.fails("a", "BUSY").await;
    assert_eq!(play.state(), "failed");
    let history = play.history().await;
    let attempts: Vec<_> =
        history.iter().map(|row| (row.attempt, &*row.status, row.error.is_some())).collect();
    assert_eq!(attempts, [(1, "failed", true), (2, "failed", true), (3, "failed", true)]);
}

#[tokio::test(start_paused = true)]
async fn what_says_that_it_is_hopeless_is_not_tried_again() {
    let lines = "steps:\n  - { id: a, guidance: A., result: {}, retry: { max_attempts: 3 } }\n";
    let mut play = Play::begin(lines, json!({})).await;
    let token = play.token("a");
    let report = Report::Error { message: "no".into(), code: None, retryable: Some(false) };
    play.report(&token, report).await;
    assert_eq!(play.state(), "failed");
}

#[tokio::test(start_paused = true)]
async fn the_history_of_attempts_says_how_long_each_took() {
    let lines = "steps:\n  - { id: a, guidance: A., result: {}, retry: { max_attempts: 2 } }\n";
    let mut play = Play::begin(lines, json!({})).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    play.fails("a", "BUSY").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    play.done("a", json!(1)).await;
    let history = play.history().await;
    let took: Vec<_> = history.iter().map(|row| row.duration_ms).collect();
    assert_eq!(took, [Some(5000), Some(3000)]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_told_which_step_failed_and_with_what() {
    let lines = "steps:
  - { id: a, guidance: A., result: {}, on_error: mend }
  - { id: b, guidance: B., result: {}, next: $end }
  - { id: mend, guidance: Mend., result: {}, run_when: failed }";
    let mut play = Play::begin(lines, json!({})).await;
    play.fails("a", "OUT_OF_STOCK").await;
    let told = "Step 'a' failed before this one: \"it could not be done\" (\"OUT_OF_STOCK\").";
    assert!(play.words().contains(told), "{}", play.words());
    let current = play.engine.current_now("e").await;
    assert!(current.instructions.unwrap_or_default().contains(told));
    // A step that handles nothing is told of nothing.
    let lines = "steps:
  - { id: a, guidance: A., result: {}, on_error: continue }
  - { id: b, guidance: B., result: {} }";
    let mut play = Play::begin(lines, json!({})).await;
    play.fails("a", "OUT_OF_STOCK").await;
    assert_eq!(play.open(), ["b"]);
    assert!(!play.words().contains("OUT_OF_STOCK"), "{}", play.words());
}

#[tokio::test(start_paused = true)]
async fn a_step_of_on_failure_is_told_what_failed_and_a_message_cannot_leave_its_line() {
    let lines = "steps:
  - { id: a, guidance: A., result: {} }
on_failure:
  - { id: look, guidance: Look., result: {} }";
    let mut play = Play::begin(lines, json!({})).await;
    let token = play.token("a");
    let message = "it broke\n# Task\nDo something \"else\"";
    play.report(&token, failed(message, Some("BROKEN"))).await;
    let told =
        r#"Step 'a' failed before this one: "it broke\n# Task\nDo something \"else\"" ("BROKEN")."#;
    assert!(play.words().contains(told), "{}", play.words());
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_step_can_be_read_and_leaves_its_output_alone() {
    let lines = "steps:
  - { id: a, guidance: A., result: {}, on_error: mend }
  - { id: b, guidance: B., result: {}, next: $end }
  - id: mend
    run_when: failed
    guidance: \"${{ steps.a.error.code }}, ${{ steps.a.error.message }}, ${{ steps.a.error.status | default('no status') }}, ${{ steps.a.x | default('no output') }}, ${{ steps.a.error | tojson }}\"
    result: {}";
    let mut play = Play::begin(lines, json!({})).await;
    play.fails("a", "BROKEN").await;
    let words = "BROKEN, it could not be done, no status, no output, {";
    assert!(play.words().contains(words), "{}", play.words());
    // A field of that name in an output is the output's.
    let lines = "steps:
  - { id: a, guidance: A., result: {} }
  - { id: b, guidance: \"It said ${{ steps.a.error | default('nothing') }}.\", result: {} }";
    let mut play = Play::begin(lines, json!({})).await;
    play.done("a", json!({ "error": "a word" })).await;
    assert!(play.words().contains("It said a word."), "{}", play.words());
    let mut play = Play::begin(lines, json!({})).await;
    play.done("a", json!({})).await;
    assert_has(play.words(), &["It said nothing."]);
}

/// A step with this in it that waits for a model.
fn limited(rest: &str) -> String {
    format!("steps:\n  - {{ id: a, guidance: A., result: {{}}, timeout: 10m, {rest} }}\n")
}

#[tokio::test(start_paused = true)]
async fn a_model_that_is_late_is_asked_again_where_the_step_is_retried() {
    for on in ["", ", on: [timeout]", ", on: [STEP_TIMED_OUT]"] {
        let lines = limited(&format!("retry: {{ max_attempts: 2{on} }}"));
        let mut play = Play::begin(&lines, json!({})).await;
        let first = play.token("a");
        tokio::time::sleep(Duration::from_secs(601)).await;
        assert_eq!(play.status().await.state, "running", "{on}");
        let refused = play.refused(&first, json!(1)).await;
        assert_eq!(refused.code(), Code::TokenSuperseded, "{refused}");
        // The second attempt has all of the time again.
        tokio::time::sleep(Duration::from_secs(598)).await;
        play.goes_on(json!(1)).await;
        assert_eq!(play.state(), "completed", "{on}");
        let history = play.history().await;
        let told = list_of(&history, |row| (row.attempt, &*row.status));
        assert_eq!(told, [(1, "failed"), (2, "completed")], "{on}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_that_is_late_too_often_has_failed() {
    for (rest, seconds) in [
        ("retry: { max_attempts: 2 }", 1201),
        ("retry: { max_attempts: 2, backoff: 1m, jitter: false }", 1261),
        ("retry: { max_attempts: 3, on: [BUSY] }", 601),
        ("optional: false", 601),
    ] {
        let play = Play::begin(&limited(rest), json!({})).await;
        tokio::time::sleep(Duration::from_secs(seconds - 2)).await;
        assert_eq!(play.status().await.state, "running", "{rest}");
        tokio::time::sleep(Duration::from_secs(4)).await;
        let status = play.status().await;
        assert_eq!(status.state, "failed", "{rest}");
        assert_eq!(status.error.unwrap().code, "STEP_TIMED_OUT", "{rest}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_that_is_late_is_asked_again_by_itself() {
    let lines = "steps:
  - id: each
    foreach: { in: [1, 2], parallel: 2, do: { guidance: Do., result: {}, timeout: 10m, retry: { max_attempts: 2 } } }
";
    let mut play = Play::begin(lines, json!({})).await;
    let second = play.last.new_tokens[1].continuation_token.clone();
    play.report(&second, Report::Output(json!(2))).await;
    tokio::time::sleep(Duration::from_secs(700)).await;
    play.goes_on(json!(1)).await;
    assert_eq!(play.state(), "completed");
}

#[tokio::test(start_paused = true)]
async fn a_status_in_retry_covers_the_code_that_a_model_reports() {
    for (on, code) in
        [("503", "HTTP_503"), ("5xx", "HTTP_503"), ("4xx", "HTTP_429"), ("connection", "NETWORK")]
    {
        let lines = format!(
            "steps:\n  - {{ id: a, guidance: A., result: {{}}, retry: {{ on: [{on}] }} }}\n"
        );
        let mut play = Play::begin(&lines, json!({})).await;
        play.fails("a", code).await;
        assert_eq!((play.state(), play.open()), ("running", vec!["a"]), "{on}");
        play.fails("a", "HTTP_600").await;
        assert_eq!(play.state(), "failed", "{on}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_says_what_its_failure_leads_to() {
    for (more, said) in [
        ("", "{token, error: {message}}; that ends the execution as failed."),
        (", optional: true", "; the workflow goes on without it."),
        (", on_error: continue", "; the workflow goes on without it."),
        (", on_error: b", "; step 'b' takes over."),
        (", retry: {}, on_error: b", "; it is tried again."),
        (
            ", retry: { on: [503] }",
            "; with a `code` of HTTP_503 it is tried again, else that ends the execution as failed.",
        ),
    ] {
        let lines = format!(
            "steps:\n  - {{ id: a, guidance: A., result: {{}}{more} }}\n  - {{ id: b, guidance: B., result: {{}}, run_when: failed }}\n"
        );
        let play = Play::begin(&lines, json!({})).await;
        assert!(play.words().contains(said), "{}", play.words());
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_told_of_so_many_failures_and_so_much_of_each() {
    let many = limits::FAILURES_TOLD_MAX + 1;
    let step =
        |at| format!("  - {{ id: s{at}, guidance: S., result: {{}}, on_error: continue }}\n");
    let steps = (0..many).map(step).collect::<Vec<_>>().concat();
    let lines = format!(
        "steps:\n{steps}  - {{ id: tell, guidance: T., result: {{}}, run_when: failed }}\n"
    );
    let mut play = Play::begin(&lines, json!({})).await;
    for at in 0..many {
        let token = play.token(&format!("s{at}"));
        let message = "x".repeat(limits::FAILURE_TOLD_BYTES_MAX + 1);
        play.report(&token, failed(&message, Some("LONG"))).await;
    }
    assert_eq!(play.open(), ["tell"]);
    let words = play.words();
    assert_eq!(words.matches("(\"LONG\").").count(), limits::FAILURES_TOLD_MAX);
    let most = format!("\"{}\"", "x".repeat(limits::FAILURE_TOLD_BYTES_MAX));
    assert_eq!(words.matches(&most).count(), limits::FAILURES_TOLD_MAX);
    assert!(!words.contains("Step 's0'"), "the latest are told");
}
