//! The faults W1 to W12 that the study of another library of workflows found, each shown absent; W4, of what a process writes,
//! stands with the processes.

use midex_domain::{State, error::Code, execution::Report};
use midex_engine::store::ListQuery;
use midex_test::{
    TokioClock, list_of,
    play::{change_to, failed, good, memory_engine, token},
};

use super::*;

const TWO: &str = "steps:
  - { id: first, guidance: Do it, result: {} }
  - { id: second, guidance: Do it, result: {} }
";

async fn current(engine: &Engine, name: &str) -> Option<String> {
    engine.status_now(name).await.current_step
}

/// Its sessions shared one idea of which of them goes on.
#[tokio::test(start_paused = true)]
async fn w1_of_two_executions_each_goes_on_by_its_own_token() {
    let engine = memory_engine().await;
    let definition = play::defined(TWO);
    let one = engine.begin(definition.clone(), "one").await;
    let two = engine.begin(definition, "two").await;
    engine.finish(&token(&one), "of one").await;
    assert_eq!(current(&engine, "one").await.as_deref(), Some("second"));
    assert_eq!(current(&engine, "two").await.as_deref(), Some("first"));
    engine.finish(&token(&two), "of two").await;
    assert_eq!(current(&engine, "two").await.as_deref(), Some("second"));
}

/// It ran a step twice where two clients went on at once.
#[tokio::test(start_paused = true)]
async fn w2_of_two_that_go_on_at_once_one_does() {
    let engine = memory_engine().await;
    let begun = engine.begin(play::defined(TWO), "e").await;
    let token = token(&begun);
    let (one, two) =
        tokio::join!(engine.advance(&token, good("one")), engine.advance(&token, good("two")));
    let refused = [one, two].into_iter().filter_map(Result::err);
    let codes: Vec<_> = refused.map(|error| error.code()).collect();
    assert_eq!(codes, [Code::TokenAlreadyUsed]);
    let rows = history(&engine).await;
    let rows = list_of(&rows, |row| (&*row.step_name, row.visit));
    assert_eq!(rows, [("first", 1), ("second", 1)]);
}

/// It had keys for both and did neither.
#[tokio::test(start_paused = true)]
async fn w3_a_retry_is_made_and_a_workflow_has_its_time() {
    let log = Log::new();
    let lines = "timeout: 1m
steps:
  - { id: flaky, activity: flaky, retry: { max_attempts: 3, backoff: 1s, jitter: false } }
  - { id: after, guidance: Take your time, result: {} }
";
    let engine = told_of(&log, ["flaky"], lines, |_, context| match context.attempt {
        3 => Ok(json!(1)),
        _ => fails("network"),
    })
    .await;
    until_step(&engine, "after").await;
    assert_eq!(log.lines(), ["flaky 1", "flaky 2", "flaky 3"]);
    let status = until_state(&engine, "failed").await;
    assert_eq!(failure(&status), "WORKFLOW_TIMED_OUT");
    assert_eq!(log.passed().as_secs(), 60);
}

/// It paused, went on with and cancelled what was done; and what was cancelled in its last step was completed.
#[tokio::test(start_paused = true)]
async fn w5_an_end_is_an_end() {
    let log = Log::new();
    let lines = "steps:\n  - { id: only, activity: only }\n";
    let engine = told(&log, ["only"], lines).await;
    let ended = until_state(&engine, "completed").await;
    for lifecycle in [
        LifecycleAction::Pause,
        LifecycleAction::Resume,
        LifecycleAction::Abandon,
        LifecycleAction::Fail,
        LifecycleAction::Diverge,
    ] {
        let change = change_to(lifecycle);
        let refused = engine.not_commanded(change).await;
        assert_eq!(refused.code(), Code::StateTransitionRefused);
    }
    assert_eq!(engine.status_now("e").await, ended);
    let engine = told(&Log::new(), ["only"], lines).await;
    assert_eq!(change(&engine, LifecycleAction::Abandon).await.state, "abandoned");
    tokio::time::sleep(seconds(60)).await;
    assert_eq!(engine.status_now("e").await.state, "abandoned");
}

/// Such an error went past everything: the session ran on, and nobody was told of its end.
#[tokio::test(start_paused = true)]
async fn w6_an_error_in_an_expression_is_the_failure_of_what_has_it() {
    for faulty in [
        "  - { id: next, if: 'steps.first < 3', guidance: Do it, result: {} }\n",
        "  - { id: next, branch: [ { if: 'steps.first < 3', next: $end } ] }\n",
        "hooks: { on_success: { set: { n: '${{ memory.text < 3 }}' }, required: true }, on_complete: { activity: mark } }\n",
    ] {
        let log = Log::new();
        let head = "memory: { n: 0, text: a }\n";
        let hook = "hooks: { on_complete: { activity: mark } }\n";
        let hook = if faulty.starts_with("hooks") { "" } else { hook };
        let first = "steps:\n  - { id: first, guidance: Do it, result: {} }\n";
        let engine = told(&log, ["mark"], &format!("{head}{hook}{first}{faulty}")).await;
        let token = engine.current_now("e").await.continuation_token.unwrap();
        engine.report(&token, Report::Output(json!("text"))).await;
        let status = until_state(&engine, "failed").await;
        assert_eq!(failure(&status), "EXPRESSION_FAILED", "{faulty}");
        assert_eq!(log.lines(), ["mark 1"], "{faulty}");
    }
}

/// Its answer was that the step was completed successfully.
#[tokio::test(start_paused = true)]
async fn w7_an_optional_step_that_failed_has_failed() {
    let engine = memory_engine().await;
    let lines = TWO.replace("{ id: first,", "{ id: first, optional: true,");
    let begun = engine.begin(play::defined(&lines), "e").await;
    let failed = failed("it could not be done", Some("NO_WAY"));
    let answer = engine.report(&token(&begun), failed).await;
    assert_eq!(answer.workflow_state, "running");
    let rows = history(&engine).await;
    let error = rows[0].error.as_ref().unwrap();
    assert_eq!((&*rows[0].status, error.code.as_str()), ("failed", "NO_WAY"));
    let steps = engine.status_now("e").await.steps;
    assert_eq!((steps.failed, steps.completed, steps.running), (1, 0, 1));
}

/// It counted what is paused nowhere.
#[tokio::test(start_paused = true)]
async fn w8_what_is_paused_is_listed_as_that() {
    let engine = memory_engine().await;
    for name in ["one", "two"] {
        engine.begin(play::defined(TWO), name).await;
    }
    engine.changed("two", LifecycleAction::Pause).await;
    for (state, id) in [(State::Running, "one"), (State::Paused, "two")] {
        let query = ListQuery { state: Some(state), limit: 50, ..ListQuery::default() };
        let listed = engine.list(query).await.unwrap().executions;
        let ids: Vec<_> = listed.iter().map(|row| row.execution_id.as_str()).collect();
        assert_eq!(ids, [id]);
    }
}

/// It threw away the oldest session where there were too many, though it was running.
#[tokio::test(start_paused = true)]
async fn w9_no_execution_makes_room_for_another() {
    let engine = memory_engine().await;
    let definition = play::defined(TWO);
    let oldest = engine.begin(definition.clone(), "oldest").await;
    for at in 0..2000 {
        engine.begin(definition.clone(), &format!("e{at}")).await;
    }
    tokio::time::sleep(midex_domain::limits::IDLE_MAX * 2).await;
    engine.finish(&token(&oldest), "still there").await;
    assert_eq!(current(&engine, "oldest").await.as_deref(), Some("second"));
}

/// It wrote what a step changed in four writes, and kept nothing over its process.
#[tokio::test(start_paused = true)]
async fn w10_a_step_and_all_that_it_changes_is_one_write_and_stays() {
    let store = Arc::new(FailingStore::default());
    let clock = TokioClock::starting_at(EPOCH);
    let engine = engine_on(store.clone(), clock, Activities::default()).await;
    let lines = "memory: { n: 0 }
steps:
  - { id: first, guidance: Do it, result: {} }
  - { id: count, set: { n: '${{ memory.n + 1 }}' } }
  - { id: last, guidance: Do it, result: {} }
";
    let begun = engine.begin(play::defined(lines), "e").await;
    let before = engine.status_now("e").await;
    *store.refused_execution.lock().unwrap() = Some(id());
    let lost = engine.advance(&token(&begun), good("done")).await;
    assert!(lost.is_err());
    *store.refused_execution.lock().unwrap() = None;
    assert_eq!(engine.status_now("e").await, before);
    engine.finish(&token(&begun), "done").await;
    let again = engine_on(store, clock, Activities::default()).await;
    let status = again.status_now("e").await;
    assert_eq!(status.revision, before.revision + 1);
    assert_eq!((status.steps.completed, status.steps.running), (2, 1));
    assert_eq!(output_of(&again, "count").await, json!({ "n": 1 }));
}

/// Its last answer repeated all of memory, and what the session was started with.
#[tokio::test(start_paused = true)]
async fn w11_a_result_is_what_the_workflow_says_that_it_is() {
    let engine = memory_engine().await;
    let lines = "inputs: { text: { type: string } }
memory: { note: what memory holds }
steps:
  - { id: only, guidance: Do it, result: {} }
final_output: { came: '${{ steps.only }}' }
";
    let inputs = json!({ "text": "what it was given" });
    let begun = begin(&engine, play::defined(lines), inputs).await;
    let answer = engine.report(&token(&begun), Report::Output(json!(7))).await;
    assert_eq!(answer.final_output, Some(json!({ "came": 7 })));
    let text = serde_json::to_string(&answer).unwrap();
    assert!(!text.contains("what it was given") && !text.contains("what memory holds"));
}

/// A step that was passed by led on in whatever session had begun last.
#[tokio::test(start_paused = true)]
async fn w12_of_two_executions_each_passes_its_own_steps_by() {
    let engine = memory_engine().await;
    let lines = "inputs: { skips: { type: boolean } }
steps:
  - { id: first, guidance: Do it, result: {} }
  - { id: maybe, if: 'not inputs.skips', guidance: Do it, result: {} }
  - { id: last, guidance: Do it, result: {} }
";
    let definition = play::defined(lines);
    let mut tokens = Vec::new();
    for (name, skips) in [("passes", true), ("enters", false)] {
        let inputs = json!({ "skips": skips });
        let begun = begin_as(&engine, name, definition.clone(), inputs).await;
        tokens.push(token(&begun));
    }
    let (passes, enters) = tokio::join!(
        engine.finish(&tokens[0], "of the first"),
        engine.finish(&tokens[1], "of the second")
    );
    assert_eq!(passes.step_name.as_deref(), Some("last"));
    assert_eq!(enters.step_name.as_deref(), Some("maybe"));
    assert_eq!(current(&engine, "passes").await.as_deref(), Some("last"));
    assert_eq!(current(&engine, "enters").await.as_deref(), Some("maybe"));
}
