//! A store that fails, and what callers are told then.

use std::sync::{Arc, atomic::Ordering};

use midex_domain::{
    LifecycleAction, PauseReason, error::Code, execution::Report, limits, telemetry::EventType,
    view::AdvanceReply,
};
use midex_engine::{
    Engine, StartRequest,
    store::{MemoryStore, Store, contract::FailingStore},
};
use midex_test::{
    EPOCH, TokioClock, assert_has, engine,
    play::{Calls, change_to, defined, good, id, memory_engine, request, token},
    sequence,
};
use serde_json::json;

use super::start;

async fn failing_engine() -> (Arc<FailingStore>, Engine) {
    let store = Arc::new(FailingStore::default());
    let engine = engine(store.clone(), TokioClock::starting_at(EPOCH), 1).await;
    (store, engine)
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_commit_the_next_call_starts_from_the_store() {
    let (store, engine) = failing_engine().await;
    let first = token(&start(&engine, "e").await);
    store.commits_to_refuse.store(1, Ordering::SeqCst);
    let error = engine.refuse(&first, good("x")).await;
    assert_eq!(error.code(), Code::StoreUnavailable);
    assert!(error.code().retryable());
    assert_eq!(engine.status_now("e").await.revision, 1, "memory is not ahead of the disk");
    let answer = engine.finish(&first, "x").await;
    assert!(!answer.replayed);
}

/// What waits in the mailbox of an actor whose commit failed is decided on what the store has, not on what the actor had:
/// of a refusal no revision is compared.
#[tokio::test(start_paused = true)]
async fn what_waits_behind_a_lost_acknowledgement_is_answered_from_the_store() {
    let (store, engine) = failing_engine().await;
    let first = token(&start(&engine, "e").await);
    engine.changed("e", LifecycleAction::Pause).await;
    store.commits_to_lose.store(1, Ordering::SeqCst);
    let (name, resume) = (id("e"), change_to(LifecycleAction::Resume));
    let (resumed, advanced) =
        tokio::join!(engine.apply_command(&name, resume), engine.advance(&first, good("x")));
    let lost = resumed.expect_err("it was lost").code();
    assert_eq!(lost, Code::StoreUnavailable);
    assert_eq!(advanced.expect("it runs again").revision, 4);
}

#[tokio::test(start_paused = true)]
async fn while_the_disk_refuses_every_caller_hears_that_it_may_try_again() {
    let (store, engine) = failing_engine().await;
    let first = token(&start(&engine, "e").await);
    store.commits_to_refuse.store(usize::MAX, Ordering::SeqCst);
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let (engine, first) = (engine.clone(), first.clone());
            tokio::spawn(async move { engine.advance(&first, good("x")).await })
        })
        .collect();
    for call in calls {
        let error = call.await.expect("no panic").expect_err("the disk refuses");
        assert_eq!(error.code(), Code::StoreUnavailable, "{error:?}");
        assert_eq!(error.context("workflow_state"), Some(&json!("running")), "{error:?}");
    }
    store.commits_to_refuse.store(0, Ordering::SeqCst);
    assert!(!engine.finish(&first, "x").await.replayed);
}

#[tokio::test(start_paused = true)]
async fn a_start_whose_acknowledgement_was_lost_makes_one_execution() {
    let (store, engine) = failing_engine().await;
    store.commits_to_lose.store(1, Ordering::SeqCst);
    let request = StartRequest { execution_id: None, ..request(sequence(), "e") };
    let answer = engine.start(request).await.expect("tried again under the same id");
    assert!(answer.replayed);
    let told =
        engine.telemetry(None, Some(EventType::WorkflowCreated), 10).await.expect("telemetry");
    assert_eq!(told.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_output_is_told_once() {
    let engine = memory_engine().await;
    let first = token(&start(&engine, "e").await);
    for _ in 0..3 {
        engine.refuse(&first, Report::Output(json!({}))).await;
    }
    let told =
        engine.telemetry(Some(&id("e")), Some(EventType::Error), 10).await.expect("telemetry");
    assert_eq!(told.len(), 1, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_history_past_its_limit_names_outputs_by_digest_and_size() {
    let engine = memory_engine().await;
    let mut step = start(&engine, "e").await;
    for letter in ["a", "b", "c"] {
        let large = letter.repeat(limits::OUTPUT_BYTES_MAX - 100);
        step = engine.finish(&token(&step), &large).await;
    }
    let history = engine.history_now("e").await;
    let shown: Vec<_> =
        history.iter().map(|row| (row.output.is_some(), row.output_digest.is_some())).collect();
    assert_eq!(shown, [(true, false), (true, false), (false, true)]);
    assert!(history[2].output_bytes.is_some_and(|bytes| bytes > 4_000_000));
}

#[tokio::test(start_paused = true)]
async fn an_output_that_several_steps_have_counts_each_time_that_a_history_shows_it() {
    let engine = memory_engine().await;
    let mut step = start(&engine, "e").await;
    for _ in 0..3 {
        let large = "a".repeat(limits::OUTPUT_BYTES_MAX - 100);
        step = engine.finish(&token(&step), &large).await;
    }
    let history = engine.history_now("e").await;
    let shown: Vec<_> = history.iter().map(|row| row.output.is_some()).collect();
    assert_eq!(shown, [true, true, false]);
}

#[tokio::test(start_paused = true)]
async fn a_transition_whose_acknowledgement_was_lost_is_answered_not_repeated() {
    let (store, engine) = failing_engine().await;
    let first = token(&start(&engine, "e").await);
    store.commits_to_lose.store(1, Ordering::SeqCst);
    engine.refuse(&first, good("x")).await;
    let answer = engine.finish(&first, "x").await;
    assert!(answer.replayed);
    assert_eq!(answer.revision, 2);
    assert_eq!(answer.step_name.as_deref(), Some("implement"));
}

#[tokio::test(start_paused = true)]
async fn two_engines_on_one_store_never_both_move_an_execution() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let clock = TokioClock::starting_at(EPOCH);
    let (one, two) = (engine(store.clone(), clock, 1).await, engine(store, clock, 2).await);
    let first = token(&start(&one, "e").await);
    let second = two.finish(&first, "x").await;
    // The first engine's actor still stands at revision 1; the store knows better.
    let repeat = one.finish(&first, "x").await;
    assert!(repeat.replayed);
    let third = one.finish(&token(&second), "y").await;
    let stale = two.refuse(&token(&second), good("z")).await;
    assert_eq!(stale.code(), Code::TokenAlreadyUsed);
    assert_eq!(third.revision, 3);
}

/// An actor whose process lost its execution and owns it again knows nothing of what happened between: a refusal or a read from
/// its memory would be of the past.
#[tokio::test(start_paused = true)]
async fn an_execution_that_was_lost_and_is_owned_again_is_loaded_again() {
    let memory = Arc::new(MemoryStore::new());
    let clock = TokioClock::starting_at(EPOCH);
    let store = Arc::new(FailingStore::new(memory.clone()));
    let (one, two) = (engine(store.clone(), clock, 1).await, engine(memory, clock, 2).await);
    let first = token(&start(&one, "e").await);
    let second = two.finish(&first, "x").await;
    store.later_openings.store(2, Ordering::SeqCst);
    assert_eq!(one.status_now("e").await.revision, 2);
    assert_eq!(one.finish(&token(&second), "y").await.revision, 3);
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_cannot_be_woken_says_so_and_harms_no_other() {
    let (store, engine) = failing_engine().await;
    let first = token(&start(&engine, "e").await);
    tokio::time::sleep(limits::IDLE_MAX + 2 * limits::IDLE_SWEEP_EVERY).await;
    assert_eq!(engine.awake_count(), 0);
    store.panics_on_load.store(true, Ordering::SeqCst);
    let error = engine.refuse(&first, good("x")).await;
    assert_eq!(error.code(), Code::EngineFault, "{error:?}");
    store.panics_on_load.store(false, Ordering::SeqCst);
    start(&engine, "f").await;
    // It counts as paused, until somebody says that it may be tried again.
    let status = engine.status_now("e").await;
    assert_eq!(
        (status.state.as_str(), &status.pause_reasons[..]),
        ("paused", &[PauseReason::EngineFault][..])
    );
    let still = engine.refuse(&first, good("x")).await;
    assert_eq!(still.code(), Code::EngineFault);
    let status = engine.changed("e", LifecycleAction::Resume).await;
    assert_eq!(
        (status.state.as_str(), status.revision, &status.pause_reasons[..]),
        ("running", 1, &[][..])
    );
    engine.finish(&first, "x").await;
}

/// What a transition made is at hand: its reply asks the store for nothing.
#[tokio::test(start_paused = true)]
async fn a_reply_is_made_without_the_store() {
    let (store, engine) = failing_engine().await;
    let definition = defined(
        "steps:
  - { id: look, guidance: 'Look at ${{ run.execution_id }}.', result: {} }
  - { id: tell, guidance: 'Tell of ${{ steps.look.what }}.', with: { much: '${{ steps.look.much }}' }, result: {} }
",
    );
    let started = engine.begin(definition, "e").await;
    assert_has(started.instructions.as_deref().unwrap(), &["Look at e."]);
    store.hides_contents.store(true, Ordering::SeqCst);
    // Of so many digits that reading it as it comes misses it by a little.
    let output = json!({ "what": "all", "much": 0.300_000_000_000_000_04 });
    let report = Report::Output(output.clone());
    let told = engine.report(&token(&started), report.clone()).await;
    assert_has(told.instructions.as_deref().unwrap(), &["Tell of all."]);
    assert_eq!(told.previous[0].output, output);
    assert_eq!(store.hidden_content_count.load(Ordering::SeqCst), 0);

    store.hides_contents.store(false, Ordering::SeqCst);
    let again = engine.report(&token(&started), report).await;
    assert!(again.replayed);
    assert_eq!(again, AdvanceReply { replayed: true, ..told }, "what is looked up says the same");
}
