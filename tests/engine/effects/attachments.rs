//! Bodies that are kept as artifacts: by the transition that takes in the output which names them, and by no other.

use super::*;
use midex_domain::{
    Event,
    execution::{Attachment, EffectOutput},
    operation::{BoxFuture, OperationCall, Operations, Outcome},
};
use midex_test::TokioClock;

/// Takes pictures: each takes 10 s and has a byte more than the one before it. They repeat a secret.
#[derive(Clone, Debug, Default)]
struct Camera {
    taken: Arc<Mutex<u8>>,
}

impl Operations for Camera {
    fn call(&self, call: OperationCall) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            tokio::time::sleep(seconds(10)).await;
            let mut taken = self.taken.lock().expect("a number");
            *taken += 1;
            let key = call.with["key"].as_str().expect("a secret");
            Ok(EffectOutput::Attachment(Attachment {
                name: format!("shots/{key}.png"),
                content_type: "image/png".to_owned(),
                content: [&vec![0xff; (*taken).into()], key.as_bytes()].concat(),
                envelope: call.whole.then(|| json!({ "status_code": 200, "payload": null })),
            }))
        })
    }

    fn has_catalog(&self, _: &str) -> bool {
        true
    }

    fn is_safe(&self, _: &str, _: &str) -> bool {
        true
    }
}

async fn started(store: Arc<FailingStore>, whole: bool, more: Value) -> Engine {
    let clock = TokioClock::starting_at(EPOCH);
    let engine = operating(store, clock, Camera::default()).await;
    let mut step = json!({
        "id": "shot", "kind": { "run": { "catalog": "camera", "operation": "shoot", "whole": whole } },
        "depends_on": [], "with": { "key": "${{ secrets.KEY }}" }
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        step[key] = value.clone();
    }
    begin(&engine, defined(json!([step]), json!({})), json!({})).await;
    engine
}

/// The picture of this number, as it is kept.
fn kept(number: usize) -> Vec<u8> {
    [&vec![0xff; number], &b"${secret:KEY}"[..]].concat()
}

fn named(number: usize) -> Value {
    json!({
        "id": 1, "type": "file", "name": "${secret:KEY}.png", "content_type": "image/png",
        "size_bytes": kept(number).len(), "uri": "midex://workflow/artifact/e/1"
    })
}

#[tokio::test(start_paused = true)]
async fn the_row_that_ends_the_visit_stores_the_artifact_and_its_content_is_there() {
    for (whole, output) in [
        (false, json!({ "artifact": named(1) })),
        (true, json!({ "status_code": 200, "artifact": named(1) })),
    ] {
        let store = Arc::new(FailingStore::default());
        let engine = started(store.clone(), whole, json!({})).await;
        let status = until(&engine, |status| status.state == "completed").await;
        assert_eq!(output_of(&engine, "shot").await, output);
        let rows = store.load_rows(&id(), (0..=status.revision).collect()).await;
        let mut stored = Vec::new();
        for row in rows.expect("rows") {
            let closes = row.events.iter().any(|event| matches!(event, Event::VisitClosed(_)));
            for event in &row.events {
                if let Event::ArtifactStored { artifact, .. } = event {
                    assert!(closes, "{row:?}");
                    stored.push(artifact.digest);
                }
            }
        }
        assert_eq!(stored.len(), 1);
        let content = store.load_content(stored[0]).await.expect("the store");
        assert_eq!(content.as_deref(), Some(&*kept(1)));
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_step_that_is_repeated_the_last_body_alone_is_kept() {
    let enough = kept(3).len();
    let repeat = json!({ "repeat": {
        "until": format!("steps.shot.artifact.size_bytes >= {enough}"), "every": "1s", "max_attempts": 9
    } });
    let engine = started(Arc::default(), false, repeat).await;
    until(&engine, |status| status.state == "completed").await;
    brought(&engine, "shot", json!({ "artifact": named(3) })).await;
    assert_eq!(engine.artifacts(&id(), None).await.expect("them").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_comes_while_a_person_pauses_is_kept_and_handed_on_later() {
    let engine = started(Arc::default(), false, json!({})).await;
    tokio::time::sleep(seconds(5)).await;
    change(&engine, LifecycleAction::Pause).await;
    tokio::time::sleep(seconds(3600)).await;
    assert_eq!(engine.artifacts(&id(), None).await.expect("them").len(), 1);
    change(&engine, LifecycleAction::Resume).await;
    until(&engine, |status| status.state == "completed").await;
    brought(&engine, "shot", json!({ "artifact": named(1) })).await;
    assert_eq!(engine.artifacts(&id(), None).await.expect("them").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_output_of_its_own_schema_is_that_of_the_artifact() {
    let wants = json!({ "result": { "type": "string" } });
    let engine = started(Arc::default(), false, wants).await;
    let status = until(&engine, |status| status.state == "failed").await;
    assert_eq!(failure(&status), "STEP_OUTPUT_INVALID");
    assert_eq!(engine.artifacts(&id(), None).await.expect("them"), []);
}
