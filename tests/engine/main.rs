//! The engine from outside, under paused time: not one real second is slept.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]
#![allow(clippy::needless_pass_by_value, reason = "`json!` makes values that nobody else wants")]

mod effects;
mod failing_store;
mod mixes;
mod model;
mod removal;
mod steps;

use std::{sync::Arc, time::Duration};

use midex_domain::{
    LifecycleAction, PauseReason, error::Code, execution::Report, limits, view::AdvanceReply,
};
use midex_engine::{
    Engine, StartRequest,
    store::{MemoryStore, Store},
};
use midex_test::{
    EPOCH, TokioClock, definition, engine, list_of,
    play::{Calls, failed, good, id, memory_engine, request, token},
    sequence,
};
use serde_json::json;

const HOUR: Duration = Duration::from_secs(3600);

async fn start(engine: &Engine, name: &str) -> AdvanceReply {
    engine.begin(sequence(), name).await
}

#[tokio::test(start_paused = true)]
async fn a_workflow_is_led_from_start_to_end() {
    let engine = memory_engine().await;
    let mut last = start(&engine, "e").await;
    assert_eq!(last.message, "Workflow 'sequence' started. Step 'design' ready.");
    for (progress, name) in [("1/3", "design"), ("2/3", "implement"), ("3/3", "review")] {
        assert_eq!(last.progress.as_deref(), Some(progress));
        assert_eq!(last.step_name.as_deref(), Some(name));
        assert_eq!(last.agent_content.as_deref(), Some("# Worker\n\nYou work."));
        last = engine.finish(&token(&last), name).await;
    }
    assert_eq!(last.workflow_state.as_str(), "completed");
    assert_eq!(last.message.as_str(), "Workflow completed successfully");
    let history = engine.history_now("e").await;
    let summaries: Vec<_> = history
        .iter()
        .map(|row| row.output.clone().expect("an output")["summary"].clone())
        .collect();
    assert_eq!(summaries, [json!("design"), json!("implement"), json!("review")]);
}

#[tokio::test(start_paused = true)]
async fn a_token_expires_after_24_hours_and_is_renewed_by_reading() {
    let engine = memory_engine().await;
    let first = token(&start(&engine, "e").await);
    tokio::time::sleep((24 * HOUR).checked_sub(Duration::from_millis(1)).unwrap()).await;
    // The last millisecond of its life: a bad output shows that the token itself is still good.
    let error = engine.refuse(&first, Report::Output(json!({}))).await;
    assert_eq!(error.code(), Code::StepOutputInvalid);
    tokio::time::sleep(HOUR).await;
    let error = engine.refuse(&first, good("late")).await;
    assert_eq!(error.code(), Code::TokenExpired);
    assert_eq!(error.message(), "Token expired (issued 24 hours ago)");
    let before = engine.status_now("e").await.revision;
    let current = engine.current_now("e").await;
    assert_eq!(current.revision, before + 1, "the renewal is a transition");
    let renewed = current.continuation_token.expect("a token");
    let error = engine.refuse(&first, good("late")).await;
    assert_eq!(error.code(), Code::TokenSuperseded);
    engine.finish(&renewed, "in time").await;
    let told = engine.telemetry(Some(&id("e")), None, 100).await.expect("telemetry");
    let types: Vec<_> = told.iter().map(|event| event.event_type.as_str()).collect();
    assert!(types.contains(&"token_expired") && types.contains(&"error"), "{types:?}");
}

#[tokio::test(start_paused = true)]
async fn idle_actors_sleep_and_are_woken_by_calls_alone() {
    let engine = memory_engine().await;
    let first = token(&start(&engine, "e").await);
    assert_eq!(engine.awake_count(), 1);
    tokio::time::sleep(limits::IDLE_MAX + 2 * limits::IDLE_SWEEP_EVERY).await;
    assert_eq!(engine.awake_count(), 0, "nobody asked for it");
    assert_eq!(engine.status_now("e").await.state, "running");
    assert_eq!(engine.current_now("e").await.continuation_token, Some(first.clone()));
    assert_eq!(engine.history_now("e").await.len(), 1);
    assert_eq!(engine.awake_count(), 0, "reads of a sleeping execution do not wake it");
    let second = engine.finish(&first, "done").await;
    assert_eq!(engine.awake_count(), 1);
    tokio::time::sleep(30 * HOUR).await;
    assert_eq!(engine.awake_count(), 0);
    let renewed = engine.current_now("e").await.continuation_token;
    assert_ne!(renewed, second.new_token, "only a renewal wakes it");
    assert_eq!(engine.awake_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_token_used_a_thousand_times_at_once_advances_once() {
    let engine = memory_engine().await;
    let first = token(&start(&engine, "e").await);
    let calls: Vec<_> = (0..1000)
        .map(|_| {
            let (engine, first) = (engine.clone(), first.clone());
            tokio::spawn(async move { engine.advance(&first, good("same")).await })
        })
        .collect();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.expect("no panic").expect("an answer"));
    }
    assert_eq!(answers.iter().filter(|answer| !answer.replayed).count(), 1);
    for answer in &mut answers {
        answer.replayed = false;
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "one answer, a thousand times");
    assert_eq!(engine.status_now("e").await.revision, 2);
}

#[tokio::test(start_paused = true)]
async fn the_same_start_at_once_makes_one_execution() {
    let engine = memory_engine().await;
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move { start(&engine, "e").await })
        })
        .collect();
    let mut tokens = Vec::new();
    for call in calls {
        tokens.push(token(&call.await.expect("no panic")));
    }
    tokens.dedup();
    assert_eq!(tokens.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn independent_steps_are_offered_together_and_joined() {
    let engine = memory_engine().await;
    let definition =
        definition("fan", &[("a", &[]), ("b", &[]), ("c", &[]), ("join", &["a", "b", "c"])]);
    let first = engine.begin(definition, "e").await;
    let names = list_of(&first.new_tokens, |offer| offer.step_name.as_str());
    assert_eq!(names, ["a", "b", "c"]);
    let current = engine.current_now("e").await;
    assert_eq!(current.ready_steps.len(), 3);
    // All of them are the same agent's: the first one's persona is that of all.
    assert!(current.agent_content.is_some());
    let mut others = current.ready_steps.iter();
    assert!(others.all(|step| step.agent_uri.is_none()));
    // In any order: the last first.
    let answer = engine.finish(&first.new_tokens[2].continuation_token, "c").await;
    assert_eq!(answer.workflow_state.as_str(), "running");
    assert_eq!(answer.new_token, None);
    let open = list_of(&answer.open_steps, |offer| offer.step_name.as_str());
    assert_eq!(open, ["a", "b"]);
    assert_eq!(answer.open_steps[0].continuation_token, first.new_tokens[0].continuation_token);
    engine.finish(&first.new_tokens[0].continuation_token, "a").await;
    let joined = engine.finish(&first.new_tokens[1].continuation_token, "b").await;
    assert_eq!(joined.step_name.as_deref(), Some("join"));
    let end = engine.finish(&token(&joined), "join").await;
    assert_eq!(end.workflow_state, "completed");
}

#[tokio::test(start_paused = true)]
async fn a_reported_error_fails_the_execution_and_voids_its_siblings() {
    let engine = memory_engine().await;
    let definition = definition("fan", &[("a", &[]), ("b", &[]), ("join", &["a", "b"])]);
    let first = engine.begin(definition, "e").await;
    let report = || failed("no disk", Some("NO_DISK"));
    let failed = engine.report(&token(&first), report()).await;
    assert!(failed.success);
    assert_eq!(failed.workflow_state.as_str(), "failed");
    assert_eq!(failed.failure.as_ref().map(|failure| failure.code.as_str()), Some("NO_DISK"));
    assert!(engine.report(&token(&first), report()).await.replayed);
    let error = engine.refuse(&first.new_tokens[1].continuation_token, good("b")).await;
    assert_eq!(error.code(), Code::TokenSuperseded);
    assert_eq!(error.context("workflow_state"), Some(&json!("failed")));
    let status = engine.status_now("e").await;
    assert_eq!(status.steps.failed, 1);
    assert_eq!(status.steps.skipped, 1);
    assert_eq!(status.steps.pending, 1);
}

#[tokio::test(start_paused = true)]
async fn the_fifth_distinct_bad_output_holds_the_step_until_a_resume() {
    let engine = memory_engine().await;
    let first = token(&start(&engine, "e").await);
    let bad = |n: u32| Report::Output(json!({ "summary": n, "artifacts": "x" }));
    for n in 1..=4 {
        for _ in 0..2 {
            let error = engine.refuse(&first, bad(n)).await;
            assert_eq!(error.code(), Code::StepOutputInvalid);
            assert_eq!(error.violations().len(), 2);
            assert_eq!(error.context("workflow_state"), Some(&json!("running")));
        }
    }
    assert_eq!(engine.status_now("e").await.revision, 5, "an identical one counts once");
    let error = engine.refuse(&first, bad(5)).await;
    assert_eq!(error.code(), Code::StepOutputInvalid, "{error:?}");
    assert_eq!(error.context("workflow_state"), Some(&json!("paused")));
    for output in [bad(5), good("late")] {
        let error = engine.advance(&first, output).await;
        assert_eq!(error.expect_err("held").code(), Code::ExecutionPaused);
    }
    let status = engine.status_now("e").await;
    assert_eq!(status.state.as_str(), "paused");
    assert_eq!(status.pause_reasons, vec![PauseReason::OutputInvalid]);
    engine.changed("e", LifecycleAction::Resume).await;
    engine.finish(&first, "in the end").await;
}

#[tokio::test(start_paused = true)]
async fn values_past_their_limits_are_refused_and_change_nothing() {
    let engine = memory_engine().await;
    let first = token(&start(&engine, "e").await);
    let sized = |bytes: usize| {
        Report::Output(json!({ "summary": "x".repeat(bytes - r#"{"summary":""}"#.len()) }))
    };
    let error = engine.refuse(&first, sized(limits::OUTPUT_BYTES_MAX + 1)).await;
    assert_eq!(error.code(), Code::LimitExceeded);
    let deep = (0..limits::JSON_DEPTH_MAX).fold(json!(1), |inner, _| json!([inner]));
    let error = engine.refuse(&first, Report::Output(deep)).await;
    assert_eq!(error.code(), Code::LimitExceeded);
    assert_eq!(engine.status_now("e").await.revision, 1);
    engine.report(&first, sized(limits::OUTPUT_BYTES_MAX)).await;
    let history = engine.history_now("e").await;
    let summary = history[0].output.as_ref().expect("an output")["summary"].as_str().map(str::len);
    assert_eq!(summary, Some(limits::OUTPUT_BYTES_MAX - r#"{"summary":""}"#.len()));
    let inputs = Some(json!({ "x": "y".repeat(limits::INPUTS_BYTES_MAX) }));
    let request = StartRequest { inputs, ..request(sequence(), "f") };
    assert_eq!(engine.start(request).await.expect_err("too large").code(), Code::LimitExceeded);
    assert_eq!(
        engine.status(&id("f")).await.expect_err("never made").code(),
        Code::ExecutionNotFound
    );
}

#[tokio::test(start_paused = true)]
async fn a_stopped_engine_has_answered_everything_it_took() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = engine(store, TokioClock::starting_at(EPOCH), 1).await;
    let mut tokens = Vec::new();
    for n in 0..50 {
        tokens.push(token(&start(&engine, &format!("e{n}")).await));
    }
    let calls: Vec<_> = tokens
        .into_iter()
        .map(|token| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.advance(&token, good("x")).await })
        })
        .collect();
    tokio::task::yield_now().await;
    engine.stop().await.expect("a stop");
    for call in calls {
        let answer = call.await.expect("no panic").expect("what was taken is answered");
        assert_eq!(answer.step_name.as_deref(), Some("implement"));
    }
    assert_eq!(engine.awake_count(), 0);
    let error = engine.refuse("x", good("x")).await;
    assert_eq!(error.code(), Code::TokenMalformed);
    assert_eq!(
        engine.start(request(sequence(), "late")).await.expect_err("stopped").code(),
        Code::ServerStopping
    );
}
