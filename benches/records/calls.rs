//! Clients that call all the time, or at a fixed rate: a start, and then a report of each of the steps of a workflow.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use midex_engine::Engine;
use serde_json::json;
use tokio::task::JoinSet;

use super::{
    rig::{Client, Load},
    support::{STEPS, definition},
};

/// Lets `count` clients call until the work is done; its result, and the milliseconds of each call. With a pace, a client waits
/// so long between two calls.
pub(crate) async fn call_beside<T>(
    engine: &Engine,
    (count, pace): (usize, Option<Duration>),
    work: impl Future<Output = T>,
) -> (T, Vec<f64>) {
    let (stop, mut lanes) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
    let load = Load::new(definition("You do one step after another."), json!({}));
    for _ in 0..count {
        lanes.spawn(call(engine.clone(), load.clone(), pace, stop.clone()));
    }
    let done = work.await;
    stop.store(true, Ordering::Relaxed);
    (done, lanes.join_all().await.concat())
}

async fn call(
    engine: Engine,
    load: Load,
    pace: Option<Duration>,
    stop: Arc<AtomicBool>,
) -> Vec<f64> {
    let mut times = Vec::new();
    loop {
        let mut client = None;
        for _ in 0..=STEPS {
            if stop.load(Ordering::Relaxed) {
                return times;
            }
            if let Some(pace) = pace {
                tokio::time::sleep(pace).await;
            }
            let begin = Instant::now();
            match &mut client {
                None => client = Some(Client::start(&engine, &load).await),
                Some(client) => client.advance(1).await,
            }
            times.push(begin.elapsed().as_secs_f64() * 1e3);
        }
    }
}
