//! Somebody's word on what came of work that was cut off.

use midex_domain::{
    PauseReason, StepId,
    error::{Code, Error},
    execution::{PastValues, Resolution, RewindRequest, Verdict},
};

use super::{
    crash::{process, two},
    *,
};
use midex_test::{assert_has, list_of, play::change_to};

fn resolution(verdict: Verdict, item: Option<u32>) -> Resolution {
    Resolution { step: StepId::parse("first").expect("an id"), item, attempt: None, verdict }
}

async fn resolved(engine: &Engine, verdict: Verdict) -> Result<StatusView, Error> {
    engine.apply_command(&id(), resolution(verdict, None)).await
}

/// A workflow that was cut off in `first`, which may not be done twice, before `second`, and then what `then` does.
fn cut_off<F: Future<Output = ()>>(steps: Value, then: impl FnOnce(Engine, Log) -> F) {
    let store = Arc::new(FailingStore::default());
    let process_one = process();
    process_one.block_on(async {
        let log = Log::new();
        let engine = engine_on(store.clone(), log.clock, two(&log, false)).await;
        begin(&engine, defined(steps, json!({})), json!({})).await;
        tokio::time::sleep(seconds(3)).await;
        assert!(log.lines().iter().all(|line| line == "first 1"));
    });
    drop(process_one);
    process().block_on(async {
        let log = Log::new();
        let engine = engine_on(store, log.clock, two(&log, false)).await;
        let status = until_state(&engine, "paused").await;
        assert_eq!(status.pause_reasons, [PauseReason::OutcomeUnknown]);
        assert!(status.waits.iter().all(|wait| wait.waits_for == "unknown"));
        then(engine, log).await;
    });
}

fn first_and_second(more: Value) -> Value {
    json!([activity("first", None, more), activity("second", Some("first"), json!({}))])
}

#[test]
fn what_did_not_take_effect_is_done_again() {
    cut_off(first_and_second(json!({})), async |engine, log| {
        let error = change_refused(&engine, LifecycleAction::Resume).await;
        assert_eq!(error.code(), Code::ExecutionPaused);
        let status = resolved(&engine, Verdict::Retry).await.expect("resolved");
        assert_eq!(status.state.as_str(), "running");
        assert_eq!(status.pause_reasons.len(), 0);
        until_state(&engine, "completed").await;
        assert_eq!(log.lines(), ["first 2", "second 1"]);
        let again = resolved(&engine, Verdict::Retry).await.expect_err("ended");
        assert_eq!(again.code(), Code::ExecutionFinished);
    });
}

#[test]
fn what_took_effect_has_the_output_that_somebody_found() {
    let result = json!({ "result": { "type": "object", "required": ["id"] } });
    cut_off(first_and_second(result), async |engine, log| {
        let wrong = Verdict::Output(Arc::new(json!({})));
        let error = resolved(&engine, wrong).await.expect_err("no id");
        assert_eq!(error.code(), Code::StepOutputInvalid);
        assert_eq!(error.violations().len(), 1);
        let right = Verdict::Output(Arc::new(json!({ "id": 7 })));
        resolved(&engine, right).await.expect("resolved");
        until_state(&engine, "completed").await;
        assert_eq!(log.lines(), ["second 1"]);
        assert_eq!(output_of(&engine, "first").await, json!({ "id": 7 }));
    });
}

#[test]
fn what_failed_is_the_failure_of_its_step() {
    cut_off(first_and_second(json!({})), async |engine, log| {
        let verdict = Verdict::Failed("the disk was full".into());
        let status = resolved(&engine, verdict).await.expect("resolved");
        assert_eq!(status.state, "failed");
        let error = status.error.expect("a failure");
        assert_eq!(error.code.as_str(), "STEP_FAILED");
        assert_eq!(error.message.as_str(), "the disk was full");
        assert!(log.lines().is_empty());
    });
}

#[test]
fn several_items_are_resolved_one_by_one_and_the_last_lets_it_go_on() {
    let each = json!({ "foreach": { "items": [1, 2], "alias": "item", "parallel": 2, "body": {
        "id": "first", "kind": { "activity": { "name": "first" } }
    } } });
    let steps = json!([step("first", None, each, json!({}))]);
    cut_off(steps, async |engine, log| {
        let error = resolved(&engine, Verdict::Retry).await.expect_err("which?");
        assert_eq!(error.code(), Code::OutcomeKnown);
        assert!(error.message().contains("item"), "{}", error.message());
        let one = resolution(Verdict::Output(Arc::new(json!("one"))), Some(0));
        let status = engine.commanded(one).await;
        assert_eq!(status.state, "paused");
        let waits = list_of(&status.waits, |wait| wait.waits_for.as_str());
        assert_eq!(waits, ["held", "unknown"]);
        let two = resolution(Verdict::Retry, Some(1));
        engine.commanded(two).await;
        until_state(&engine, "completed").await;
        assert_eq!(log.lines(), ["first 2"]);
        assert_eq!(output_of(&engine, "first").await, json!(["one", 1]));
    });
}

#[test]
fn while_a_person_keeps_it_paused_it_begins_again_with_the_resume() {
    cut_off(first_and_second(json!({})), async |engine, log| {
        change(&engine, LifecycleAction::Pause).await;
        let status = resolved(&engine, Verdict::Retry).await.expect("resolved");
        assert_eq!(status.pause_reasons, [PauseReason::Person]);
        tokio::time::sleep(seconds(100)).await;
        assert!(log.lines().is_empty(), "nothing begins while it is paused");
        change(&engine, LifecycleAction::Resume).await;
        until_state(&engine, "completed").await;
        assert_eq!(log.lines(), ["first 2", "second 1"]);
    });
}

#[test]
fn of_what_is_known_nobody_needs_to_be_told() {
    cut_off(first_and_second(json!({})), async |engine, _| {
        let second = Resolution {
            step: StepId::parse("second").expect("an id"),
            ..resolution(Verdict::Retry, None)
        };
        let error = engine.not_commanded(second).await;
        assert_eq!(error.code(), Code::OutcomeKnown);
    });
}

async fn change_refused(engine: &Engine, lifecycle: LifecycleAction) -> Error {
    let change = change_to(lifecycle);
    engine.not_commanded(change).await
}

#[test]
fn a_word_on_one_attempt_is_none_on_a_later_one() {
    cut_off(first_and_second(json!({})), async |engine, _| {
        let status = engine.status_now("e").await;
        assert_eq!((status.waits[0].visit, status.waits[0].attempt), (1, 1));
        let late = Resolution { attempt: Some((1, 2)), ..resolution(Verdict::Retry, None) };
        let error = engine.not_commanded(late).await;
        assert_eq!(error.code(), Code::OutcomeKnown);
        let meant = Resolution { attempt: Some((1, 1)), ..resolution(Verdict::Retry, None) };
        engine.commanded(meant).await;
    });
}

#[test]
fn a_rewind_does_not_hide_what_nobody_knows() {
    cut_off(first_and_second(json!({})), async |engine, _| {
        let to_step = StepId::parse("first").expect("an id");
        let rewind = RewindRequest {
            to_step,
            reason: None,
            compensates: false,
            past: PastValues::default(),
        };
        let error = engine.rewind(&id(), rewind).await.expect_err("unknown");
        assert_eq!(error.code(), Code::StateTransitionRefused);
        assert_has(error.message(), &["the outcome of step 'first' is unknown"]);
        assert_eq!(engine.status_now("e").await.pause_reasons, [PauseReason::OutcomeUnknown]);
    });
}
