//! What a caller is told while its call is being worked on.

use midex_domain::limits;
use serde_json::{Value, json};

use super::{Client, House, listened_to, nobody_listens};
use midex_test::{Fields, says};

const PROGRESS: &str = "notifications/progress";

/// Waits for `x`, which does not move.
async fn wait(client: &mut Client, seconds: f64, meta: Value) -> u64 {
    let arguments = json!({ "execution_id": "x", "timeout_s": seconds });
    let params = json!({ "name": "execution.wait", "arguments": arguments, "_meta": meta });
    client.post("tools/call", params).await
}

#[tokio::test]
async fn who_asks_for_it_is_told_every_second_and_nobody_else() {
    let house = House::new();
    house.start("x").await;
    for mut client in [house.greeted().await, house.stateless()] {
        let silent = wait(&mut client, 2.5, json!({})).await;
        let told = wait(&mut client, 2.5, json!({ "progressToken": "mine" })).await;
        let answer = client.answer(told).await;
        assert_eq!(answer["result"]["structuredContent"]["changed"], false);
        client.answer(silent).await;
        // What would come after the answer would come before this one.
        client.call("execution.list", json!({})).await;
        let notices: Vec<_> = client.told.drain(..).collect();
        assert!(!notices.is_empty());
        let mut last = 0.0;
        for notice in &notices {
            assert_eq!(notice["method"], PROGRESS, "{notice}");
            let params = &notice["params"];
            assert_eq!(params["progressToken"], "mine");
            says(&params["message"], "execution.wait");
            let progress = params["progress"].as_f64().expect("a number");
            // A busy machine may be late, never early.
            assert!(progress >= last + limits::PROGRESS_EVERY.as_secs_f64() * 0.9, "{params}");
            assert!(params["total"].as_f64().expect("a number") >= 2.5, "{params}");
            last = progress;
        }
    }
}

#[tokio::test]
async fn a_call_that_is_over_at_once_tells_of_no_progress() {
    let house = House::new();
    let mut client = house.greeted().await;
    let params =
        json!({ "name": "execution.list", "arguments": {}, "_meta": { "progressToken": 7 } });
    client.request("tools/call", params).await;
    client.call("execution.list", json!({})).await;
    assert!(client.told.is_empty(), "{:?}", client.told);
}

/// A client that takes nothing holds up the work on its call no more than any other.
#[tokio::test]
async fn who_takes_no_progress_is_answered_all_the_same() {
    let house = House::new();
    house.start("x").await;
    let mut client = house.greeted_through(64).await;
    let id = wait(&mut client, 25.0, json!({ "progressToken": "mine" })).await;
    // Long enough for a notification to be on its way, which the pipe does not hold.
    tokio::time::sleep(limits::PROGRESS_EVERY * 2).await;
    house.change("x", midex_domain::LifecycleAction::Pause).await;
    nobody_listens(&house.app).await;
    let answer = client.answer(id).await;
    assert_eq!(answer["result"]["structuredContent"]["changed"], true);
    assert!(!client.told.is_empty());
}

#[tokio::test]
async fn a_cancelled_wait_ends_at_once() {
    let house = House::new();
    house.start("x").await;
    for mut client in [house.greeted().await, house.stateless()] {
        let id = wait(&mut client, 25.0, json!({ "progressToken": "mine" })).await;
        listened_to(&house.app, 1).await;
        client.cancel(id).await;
        // Long before the wait would have ended by itself.
        let ended = tokio::time::timeout(limits::WAIT_MAX / 2, nobody_listens(&house.app));
        ended.await.expect("nobody waits any more");
        client.call("execution.list", json!({})).await;
        assert!(client.answers.is_empty(), "{:?}", client.answers);
    }
}

/// At the end of the process nobody has cancelled anything.
#[tokio::test]
async fn a_wait_at_the_end_of_the_process_is_answered() {
    let house = House::new();
    house.start("x").await;
    let mut client = house.greeted().await;
    let id = wait(&mut client, 25.0, json!({})).await;
    listened_to(&house.app, 1).await;
    house.app.begin_stop();
    let answer = client.answer(id).await;
    answer.has_fields(json!({ "/result/structuredContent/error_code": "SERVER_STOPPING" }));
}
