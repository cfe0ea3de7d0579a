//! What callers are told of executions, through the engine, under paused time.

use std::time::Duration;

use midex_domain::{
    LifecycleAction, LifecycleChange, StepId, clock::Clock, error::Code, execution::Report, limits,
    view::Reader,
};
use midex_engine::{Engine, StartRequest, store::ListQuery};
use midex_test::{
    EPOCH, TokioClock, definition,
    play::{Calls, defined, id, memory_engine, request},
    sequence,
};
use serde_json::json;

async fn start(engine: &Engine, name: &str, project: &str) -> String {
    let request = StartRequest { project: Some(project.into()), ..request(sequence(), name) };
    engine.start(request).await.unwrap().new_token.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_change_that_is_waited_for() {
    let engine = memory_engine().await;
    let token = start(&engine, "e", "p").await;
    let waiting = engine.clone();
    let wait = tokio::spawn(async move { waiting.wait(&id("e"), Some(1), limits::WAIT_MAX).await });
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(!wait.is_finished());
    let clock = TokioClock::starting_at(EPOCH);
    engine.finish(&token, "s").await;
    let status = wait.await.unwrap().unwrap();
    assert_eq!((status.revision, status.current_step.as_deref()), (2, Some("implement")));
    assert_eq!(clock.now(), EPOCH, "no time passes between a change and its telling");
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_over_after_its_time_and_never_longer_than_the_limit() {
    let engine = memory_engine().await;
    start(&engine, "e", "p").await;
    for (asked, passes) in [(3, 3), (3600, limits::WAIT_MAX.as_secs())] {
        let clock = TokioClock::starting_at(EPOCH);
        let status = engine.wait(&id("e"), None, Duration::from_secs(asked)).await.unwrap();
        assert_eq!(status.revision, 1);
        assert_eq!(clock.now().since(EPOCH).as_secs(), passes);
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_what_has_happened_or_cannot_happen_any_more_ends_at_once() {
    let engine = memory_engine().await;
    start(&engine, "e", "p").await;
    let clock = TokioClock::starting_at(EPOCH);
    engine.wait(&id("e"), Some(0), limits::WAIT_MAX).await.unwrap();
    engine.changed("e", LifecycleAction::Abandon).await;
    let status = engine.wait(&id("e"), Some(99), limits::WAIT_MAX).await.unwrap();
    assert_eq!(status.state, "abandoned");
    let error =
        engine.wait(&id("nobody"), None, limits::WAIT_MAX).await.expect_err("no such execution");
    assert_eq!(error.code(), Code::ExecutionNotFound);
    assert_eq!(clock.now(), EPOCH);
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_told_of_a_change_by_an_actor_that_slept_meanwhile() {
    let engine = memory_engine().await;
    let token = start(&engine, "e", "p").await;
    tokio::time::sleep(limits::IDLE_MAX + 2 * limits::IDLE_SWEEP_EVERY).await;
    assert_eq!(engine.awake_count(), 0);
    let waiting = engine.clone();
    let wait = tokio::spawn(async move { waiting.wait(&id("e"), Some(1), limits::WAIT_MAX).await });
    tokio::task::yield_now().await;
    engine.finish(&token, "s").await;
    assert_eq!(wait.await.unwrap().unwrap().revision, 2);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_every_wait() {
    let engine = memory_engine().await;
    start(&engine, "e", "p").await;
    let waiting = engine.clone();
    let wait = tokio::spawn(async move { waiting.wait(&id("e"), None, limits::WAIT_MAX).await });
    tokio::task::yield_now().await;
    engine.stop().await.unwrap();
    assert_eq!(wait.await.unwrap().expect_err("the server stops").code(), Code::ServerStopping);
}

#[tokio::test(start_paused = true)]
async fn what_was_decided_before_is_told_in_at_most_eight_kibibytes_and_whole_where_it_fits() {
    let engine = memory_engine().await;
    let names: Vec<_> = (0..12).map(|at| format!("s{at}")).collect();
    let mut steps: Vec<(&str, &[&str])> =
        names.iter().map(|name| (name.as_str(), &[][..])).collect();
    let all: Vec<_> = names.iter().map(String::as_str).collect();
    steps.push(("last", &all));
    let definition = definition("wide", &steps);
    let first = engine.begin(definition, "e").await;
    assert!(first.previous.is_empty());
    let mut reply = None;
    for (at, offer) in first.new_tokens.iter().enumerate() {
        // Half of them say little, half of them a great deal, past the size that lies in a journal row.
        let words = if at % 2 == 0 { 10 } else { 9000 };
        let output = json!({ "summary": format!("{at} {}", "x".repeat(words)) });
        reply = Some(engine.report(&offer.continuation_token, Report::Output(output)).await);
    }
    let previous = reply.unwrap().previous;
    let bytes = serde_json::to_string(&previous).unwrap().len();
    assert!(
        bytes <= limits::PREVIOUS_BYTES_MAX && bytes > limits::PREVIOUS_BYTES_MAX / 2,
        "{bytes}"
    );
    assert_eq!(previous.len(), 12);
    for (at, before) in previous.iter().enumerate() {
        assert_eq!(before.step_name, format!("s{at}"));
        assert_eq!(before.truncated, at % 2 == 1, "{before:?}");
        assert!(before.output["summary"].as_str().unwrap().starts_with(&format!("{at} x")));
    }
    let current = engine.current_now("e").await;
    assert_eq!(current.previous, previous, "the current step is told the same");
}

#[tokio::test(start_paused = true)]
async fn the_final_output_is_what_the_last_step_handed_over() {
    let engine = memory_engine().await;
    let definition = definition("fork", &[("a", &[]), ("b", &["a"]), ("c", &["a"])]);
    let first = engine.begin(definition, "e").await;
    let two = engine.finish(&first.new_token.unwrap(), "a").await;
    let mut last = None;
    for offer in &two.new_tokens {
        assert_eq!(engine.status_now("e").await.final_output, None);
        last = Some(engine.finish(&offer.continuation_token, &offer.step_name).await);
    }
    let expected = json!({ "b": { "summary": "b" }, "c": { "summary": "c" } });
    assert_eq!(last.unwrap().final_output.as_ref(), Some(&expected));
    assert_eq!(engine.status_now("e").await.final_output, Some(expected));
}

#[tokio::test(start_paused = true)]
async fn artifacts_are_found_by_id_and_name_and_step() {
    let engine = memory_engine().await;
    let token = start(&engine, "e", "p").await;
    let artifact = |content: &str| json!({ "type": "data", "name": "log", "content": content });
    let reply = engine
        .report(
            &token,
            Report::Output(
                json!({ "summary": "s", "artifacts": [artifact("one"), artifact("two")] }),
            ),
        )
        .await;
    engine
        .report(
            &reply.new_token.unwrap(),
            Report::Output(json!({ "summary": "s", "artifacts": [artifact("three")] })),
        )
        .await;
    let all = engine.artifacts(&id("e"), None).await.unwrap();
    let told: Vec<_> =
        all.iter().map(|one| (one.id, one.step_name.as_str(), one.size_bytes)).collect();
    assert_eq!(told, [(1, "design", 3), (2, "design", 3), (3, "implement", 5)]);
    let step = StepId::parse("implement").unwrap();
    assert_eq!(engine.artifacts(&id("e"), Some(&step)).await.unwrap(), all[2..]);
    for (which, content) in [("1", "one"), ("2", "two"), ("log", "three")] {
        let read = engine.artifact(&id("e"), which, 0, 100).await.unwrap();
        assert_eq!((read.content.as_deref(), read.next_offset), (Some(content), None));
    }
    let elsewhere = StepId::parse("nowhere").unwrap();
    let missing = [
        engine.artifact(&id("e"), "4", 0, 1).await.map(|_| ()),
        engine.artifacts(&id("e"), Some(&elsewhere)).await.map(|_| ()),
    ];
    for missing in missing {
        assert_eq!(missing.expect_err("it is not there").code(), Code::ResourceNotFound);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_lost_the_thread_is_told_of_the_open_executions_of_the_project_with_live_tokens() {
    let engine = memory_engine().await;
    let old = start(&engine, "mine", "p").await;
    engine.finish(&old, "a design of three parts").await;
    start(&engine, "theirs", "q").await;
    start(&engine, "done", "p").await;
    engine.changed("done", LifecycleAction::Diverge).await;
    start(&engine, "later", "p").await;
    engine.changed("later", LifecycleAction::Pause).await;
    tokio::time::sleep(limits::TOKEN_TTL).await;
    let told = engine.open_executions(Some("p".into())).await.unwrap();
    let names: Vec<_> = told
        .open_executions
        .iter()
        .map(|one| (one.execution_id.as_str(), one.state.as_str()))
        .collect();
    assert_eq!(names, [("later", "paused"), ("mine", "running")]);
    let mine = &told.open_executions[1];
    assert_eq!((mine.done.as_str(), mine.decided[0].step_name.as_str()), ("1/3", "design"));
    assert_eq!(mine.decided[0].output["summary"], "a design of three parts");
    let token = mine.current_steps[0].continuation_token.clone();
    assert_eq!(engine.finish(&token, "s").await.step_name.as_deref(), Some("review"));
}

#[tokio::test(start_paused = true)]
async fn what_was_going_on_fits_into_what_a_model_can_read() {
    let engine = memory_engine().await;
    for at in 0..40 {
        let token = start(&engine, &format!("execution number {at} {}", "é".repeat(60)), "p").await;
        engine.finish(&token, &"words \"and\" more words ".repeat(200)).await;
    }
    let told = engine.open_executions(Some("p".into())).await.unwrap();
    let bytes = serde_json::to_string(&told).unwrap().len();
    assert!(bytes <= limits::RESUME_BYTES_MAX, "{bytes}");
    assert!(told.open_executions.len() >= 3, "{told:?}");
    assert_eq!(told.open_executions.len() + told.more, 40);
    assert!(told.open_executions[0].execution_id.starts_with("execution number 39 "));
    let listing = engine
        .list(ListQuery { open_only: true, limit: 100, ..ListQuery::default() })
        .await
        .unwrap();
    assert_eq!(listing.executions.len(), 40);
}

#[tokio::test(start_paused = true)]
async fn a_reason_past_its_limit_is_refused_and_changes_nothing() {
    let engine = memory_engine().await;
    start(&engine, "e", "p").await;
    let pause = |chars: usize| LifecycleChange {
        action: LifecycleAction::Pause,
        reason: Some("é".repeat(chars)),
    };
    let error = engine.not_commanded(pause(limits::REASON_CHARS_MAX + 1)).await;
    assert_eq!(error.code(), Code::LimitExceeded);
    assert_eq!(engine.status_now("e").await.revision, 1);
    let status = engine.commanded(pause(limits::REASON_CHARS_MAX)).await;
    assert_eq!(status.reason.map(|reason| reason.chars().count()), Some(limits::REASON_CHARS_MAX));
}

/// Whoever looks changes nothing: only a model, or whoever does the step at a terminal, needs a token that is good.
#[tokio::test(start_paused = true)]
async fn a_person_who_looks_renews_no_token() {
    let engine = memory_engine().await;
    let definition = defined("steps:\n  - { id: a, guidance: A. }\n");
    let begun = engine.begin(definition, "e").await;
    let id = id("e");
    tokio::time::sleep(Duration::from_secs(25 * 3600)).await;
    let read = async |reader| engine.current_step_for(&id, reader).await.unwrap();
    let looked = read(Reader::Person).await;
    assert_eq!(looked.current_step.as_deref(), Some("a"));
    assert_eq!(engine.status(&id).await.unwrap().revision, begun.revision);
    let worked = read(Reader::Worker).await;
    assert_eq!(engine.status(&id).await.unwrap().revision, begun.revision + 1);
    assert_ne!(worked.continuation_token, begun.new_token);
    assert_eq!(read(Reader::Model).await.continuation_token, worked.continuation_token);
}
