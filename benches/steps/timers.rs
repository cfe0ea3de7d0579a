//! Timers: how late they are, beside timers of tokio alone in the same process at the same time.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use midex_domain::{
    ExecutionId,
    clock::{Clock, SystemClock, Timestamp},
};
use midex_engine::{Options, Topic};
use serde_json::json;
use tokio::runtime::Runtime;

use super::{
    manifest::manifest,
    rig::{Load, Rig},
};

const WAIT: &str = "inputs: { at: { type: string } }
steps:
  - { id: rest, wait: { until: '${{ inputs.at }}' } }
";

/// How late each of `count` timers was told of, the first of them due `after` from now and all within `over`; and the
/// same of a tenth as many timers of tokio.
async fn late(
    rig: &Rig,
    count: u32,
    after: Duration,
    over: Duration,
) -> (Vec<Duration>, Vec<Duration>) {
    let definition = manifest(WAIT);
    let (begun, clock) = (Instant::now(), SystemClock);
    let first = clock.now().plus(after);
    let at = move |number: u32| over * number / count;
    let listener = rig.changes.new_listener();
    let mut due: HashMap<Arc<str>, Duration> = HashMap::new();
    let mut lanes = tokio::task::JoinSet::new();
    for lane in 0..64_u32.min(count) {
        let (engine, definition) = (rig.engine.clone(), definition.clone());
        lanes.spawn(async move {
            let mut started = Vec::new();
            for number in (lane..count).step_by(64) {
                let instant: Timestamp = first.plus(at(number));
                let load = Load::new(definition.clone(), json!({ "at": instant.to_string() }));
                started.push((load.start(&engine).await.execution_id, at(number)));
            }
            started
        });
    }
    while let Some(started) = lanes.join_next().await {
        for (id, at) in started.expect("no panic") {
            let topic = Topic::Execution(ExecutionId::parse(&id).expect("an id"));
            let name: Arc<str> = id.into();
            listener.subscribe(&name, Some(topic));
            due.insert(name, at);
        }
    }
    assert!(begun.elapsed() < after, "the first was due before all were begun");
    let beside: Vec<_> = (0..count.div_ceil(10))
        .map(|number| tokio::spawn(sleeper(begun + after + over * number / count.div_ceil(10))))
        .collect();
    let mut lateness = Vec::new();
    while lateness.len() < count as usize {
        let heard = tokio::time::timeout(
            after + over + Duration::from_secs(60),
            listener.wait_for_change(),
        );
        heard.await.expect("a timer that fires");
        while let Some(name) = listener.take_marked_name() {
            lateness.push(begun.elapsed().saturating_sub(after + due[&name]));
        }
    }
    let mut control = Vec::new();
    for sleeper in beside {
        control.push(sleeper.await.expect("no panic"));
    }
    (lateness, control)
}

/// How late so many timers are together, one due each millisecond.
pub(crate) async fn sum(rig: &Rig, count: u64) -> Duration {
    let count = u32::try_from(count).expect("a count");
    let beginning = Duration::from_millis(200) + Duration::from_millis(1) * count;
    let (late, _) = late(rig, count, beginning, Duration::from_millis(1) * count).await;
    late.iter().sum()
}

async fn sleeper(until: Instant) -> Duration {
    tokio::time::sleep_until(until.into()).await;
    until.elapsed()
}

/// Ten thousand over ten seconds, whose executions are awake; and such as have gone to sleep before.
pub(crate) fn ratios(runtime: &Runtime) {
    const COUNT: u32 = 10_000;
    println!(
        "\n{COUNT} timers due over 10 s; milliseconds from when one is due until it is durable and told of\n"
    );
    println!("{:>22} {:>8} {:>8} {:>8}", "", "p50", "p99", "max");
    let awake: fn(Options) -> Options = |options| options;
    let asleep: fn(Options) -> Options =
        |options| Options { idle_max: Duration::from_secs(1), ..options };
    for (name, change, after) in [("awake", awake, 10), ("asleep", asleep, 20)] {
        let rig = runtime.block_on(Rig::with(change));
        let (after, over) = (Duration::from_secs(after), Duration::from_secs(10));
        let (late, control) = runtime.block_on(late(&rig, COUNT, after, over));
        show(name, late);
        show("tokio's own, beside it", control);
        runtime.block_on(rig.stop());
    }
}

fn show(name: &str, mut late: Vec<Duration>) {
    late.sort();
    let at = |share: usize| late[(late.len() - 1) * share / 100].as_secs_f64() * 1e3;
    println!("{name:>22} {:>8.1} {:>8.1} {:>8.1}", at(50), at(99), at(100));
}
