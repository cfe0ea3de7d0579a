//! Several servers on one database: who owns what, and that the engine follows it.

use std::{sync::Arc, time::Duration};

use midex_domain::{
    clock::{SystemClock, SystemIds},
    error::Code,
    execution::Report,
};
use midex_engine::{Engine, Options, store::Store};
use midex_postgres::PostgresStore;
use midex_test::play::{self, id, token};
use serde_json::json;
use tokio::time::timeout;

use crate::place::Place;

const ALL_SHARDS: usize = 256;
/// The longest that anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until the condition holds.
async fn wait_until(condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, wait).await.expect("it holds in the end");
}

async fn start_engine(store: &Arc<PostgresStore>) -> Engine {
    let store: Arc<dyn Store> = store.clone();
    let options = Options::new(store, Arc::new(SystemClock), Arc::new(SystemIds));
    Engine::new(options).await.unwrap()
}

#[tokio::test]
async fn servers_share_the_shards_evenly_and_take_over_those_of_one_that_stops() {
    let place = Place::new("shared");
    let first = place.open().await;
    let second = place.open_beside().await;
    wait_until(|| first.count_shards() == 128 && second.count_shards() == 128).await;
    let third = place.open_beside().await;
    let counts = || [&first, &second, &third].map(PostgresStore::count_shards);
    wait_until(|| {
        counts().iter().sum::<usize>() == ALL_SHARDS && counts().iter().all(|n| *n >= 84)
    })
    .await;
    second.close().await.unwrap();
    assert_eq!(second.count_shards(), 0);
    wait_until(|| first.count_shards() == 128 && third.count_shards() == 128).await;
    let client = place.connect().await;
    let owners =
        client.query_one("SELECT count(DISTINCT owner), max(epoch) FROM shards", &[]).await;
    let owners = owners.unwrap();
    assert_eq!(owners.get::<_, i64>(0), 2);
    assert!(owners.get::<_, i64>(1) >= 3, "every hand-over begins an epoch");
}

const TWO_STEPS: &str = "steps:
  - { id: first, guidance: Say it, result: {} }
  - { id: second, guidance: Say it again, result: {} }
";

#[tokio::test]
async fn an_engine_forgets_executions_that_it_lost_and_goes_on_with_those_that_it_gets_back() {
    let place = Place::new("forgets");
    let store = Arc::new(place.open().await);
    let engine = start_engine(&store).await;
    let begun = engine.start(play::request(play::defined(TWO_STEPS), "one")).await.unwrap();
    assert_eq!(engine.awake_count(), 1);
    let client = place.connect().await;
    let take = "UPDATE shards SET owner = 'another', epoch = epoch + 1, \
                expires_at = now() + interval '1 hour'";
    client.batch_execute(take).await.unwrap();
    wait_until(|| engine.awake_count() == 0).await;
    let report = || Report::Output(json!({ "said": "yes" }));
    let refused = engine.advance(&token(&begun), report()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ShardLost);
    // What is stored can be read everywhere.
    assert_eq!(engine.status(&id("one")).await.unwrap().state, "running");
    client.batch_execute("UPDATE shards SET expires_at = now() - interval '1 s'").await.unwrap();
    wait_until(|| store.count_shards() == ALL_SHARDS).await;
    let reply = engine.advance(&token(&begun), report()).await.unwrap();
    assert_eq!(reply.step_name.as_deref(), Some("second"));
    engine.stop().await.unwrap();
}

const TIMER: &str = "steps:
  - { id: pause, wait: { for: 1s } }
  - { id: after, guidance: Say it, result: {} }
";

#[tokio::test]
async fn timers_run_where_their_execution_is_owned_now() {
    let place = Place::new("timers");
    let first = start_engine(&Arc::new(place.open().await)).await;
    let second_store = Arc::new(place.open_beside().await);
    let second = start_engine(&second_store).await;
    let mut started = 0;
    for number in 0..8 {
        let name = format!("e{number}");
        match first.start(play::request(play::defined(TIMER), &name)).await {
            Ok(_) => started += 1,
            Err(error) => assert_eq!(error.code(), Code::ShardLost),
        }
    }
    assert!(started > 0, "the first server owns one of them");
    first.stop().await.unwrap();
    wait_until(|| second_store.count_shards() == ALL_SHARDS).await;
    let mut done = 0;
    for number in 0..8 {
        let id = id(&format!("e{number}"));
        let look = async {
            loop {
                match second.status(&id).await {
                    Ok(status) if status.current_step.as_deref() == Some("after") => break true,
                    Ok(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                    Err(error) => {
                        assert_eq!(error.code(), Code::ExecutionNotFound);
                        break false;
                    }
                }
            }
        };
        done += u32::from(timeout(PATIENCE, look).await.expect("the timer runs"));
    }
    assert_eq!(done, started);
    second.stop().await.unwrap();
}
