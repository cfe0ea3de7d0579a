//! Paced executions: a pause between two steps of the server.

use super::*;
use midex_domain::{PauseReason, execution::Report};

const THREE: &str = "steps:
  - { id: one, activity: work }
  - { id: two, activity: work }
  - { id: ask, guidance: Go on?, result: {} }
  - { id: last, activity: work }
";

async fn engine_of(log: &Log) -> Engine {
    let work = log.activity("work", seconds(1), |context| Ok(json!(context.step.as_str())));
    let store = Arc::new(FailingStore::default());
    Engine::new(Options { activities: only([work]), ..options(store, log.clock) }).await.unwrap()
}

async fn started(engine: &Engine, is_paced: bool) {
    let definition = play::defined_with(THREE, &["work"]);
    let request = StartRequest { is_paced, ..play::request(definition, "e") };
    engine.start(request).await.expect("a start");
    tokio::time::sleep(seconds(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_paced_execution_pauses_between_two_steps_of_the_server() {
    let log = Log::new();
    let engine = engine_of(&log).await;
    started(&engine, true).await;
    let status = engine.status_now("e").await;
    assert_eq!((&*status.state, &*status.pause_reasons), ("paused", &[PauseReason::Pace][..]));
    assert_eq!(log.lines().len(), 1, "{:?}", log.lines());
    tokio::time::sleep(seconds(3_600)).await;
    assert_eq!(log.lines().len(), 1, "time does not lift it");
    engine.changed("e", LifecycleAction::Resume).await;
    tokio::time::sleep(seconds(5)).await;
    assert_eq!(log.lines().len(), 2, "{:?}", log.lines());
    // A model's step needs no pause before it, so it begins at once.
    let current = engine.current_now("e").await;
    assert_eq!(
        (&*current.workflow_state, current.current_step.as_deref()),
        ("running", Some("ask"))
    );
    engine.report(&current.continuation_token.unwrap(), Report::Output(json!("yes"))).await;
    tokio::time::sleep(seconds(5)).await;
    assert_eq!(engine.status_now("e").await.state, "completed");
    let attempts: Vec<_> = engine.history_now("e").await.iter().map(|row| row.attempt).collect();
    assert_eq!(attempts, [1, 1, 1, 1], "a step that waits for its turn was not tried");
}

#[tokio::test(start_paused = true)]
async fn an_execution_without_a_pace_does_not_pause() {
    let log = Log::new();
    let engine = engine_of(&log).await;
    started(&engine, false).await;
    assert_eq!(engine.status_now("e").await.state, "running");
    assert_eq!(log.lines().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_pace_outlives_its_process() {
    let log = Log::new();
    let store = Arc::new(FailingStore::default());
    let engine = async || {
        let work = log.activity("work", seconds(1), |context| Ok(json!(context.step.as_str())));
        let options = Options { activities: only([work]), ..options(store.clone(), log.clock) };
        Engine::new(options).await.unwrap()
    };
    let first = engine().await;
    started(&first, true).await;
    first.stop().await.unwrap();
    let second = engine().await;
    tokio::time::sleep(seconds(60)).await;
    assert_eq!(log.lines().len(), 1);
    second.changed("e", LifecycleAction::Resume).await;
    tokio::time::sleep(seconds(5)).await;
    assert_eq!(log.lines().len(), 2);
}
