//! What activities and middleware of an embedding program cost, on a store in memory with 1,000 executions in flight.
//! Measured in turns in one run, and judged by the differences of the medians.
//!
//! * activity: one step that this process does, beside one step that a caller reports. Both are one transition.
//! * middleware: the same activity inside of ten layers that do nothing.
//!
//! `cargo bench --bench library` prints the figures and fails where one misses its bar.
#![allow(missing_docs, reason = "a bench has no interface")]
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]
#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]
#![allow(clippy::print_stderr, reason = "a bench says which bars were missed")]

#[path = "../support/manifest.rs"]
mod manifest;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "this bench needs the median alone")]
mod support;

use std::{process::ExitCode, sync::Arc, time::Instant};

use midex_domain::{
    Definition, ExecutionId,
    clock::{SystemClock, SystemIds},
    execution::Report,
};
use midex_engine::{
    Engine, Options, StartRequest,
    activity::{Activities, BoxFuture, Context, Middleware, NextRun, Outcome, function},
    store::MemoryStore,
};
use serde_json::json;
use tokio::runtime::Runtime;

use self::{
    manifest::{ACTIVITY, manifest},
    support::median,
};

/// As the binary allocates.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const TURNS: usize = 9;
const IN_FLIGHT: usize = 1000;
/// Steps of each execution.
const STEPS: usize = 20;
const LAYERS: usize = 10;
/// Microseconds that an activity may take beyond a step that a caller reports.
const ACTIVITY_MOST: f64 = 40.0;
/// Microseconds that a layer of middleware may take.
const LAYER_MOST: f64 = 1.0;

#[derive(Debug)]
struct Nothing;

impl Middleware for Nothing {
    fn run<'a>(&'a self, context: Context, next: NextRun<'a>) -> BoxFuture<'a, Outcome> {
        next.run(context)
    }
}

/// A workflow of steps with these keys, one after another.
fn chain(work: &str) -> Arc<Definition> {
    let steps: Vec<_> = (0..STEPS).map(|at| format!("  - {{ id: s{at}, {work} }}\n")).collect();
    manifest(&format!("steps:\n{}", steps.concat()))
}

async fn engine(layers: usize) -> Engine {
    let store = Arc::new(MemoryStore::new());
    let echo = |context: Context| async move { Ok(context.input) };
    let activities = Activities::default().with_activity(function(ACTIVITY, echo).as_idempotent());
    let layer = || Arc::new(Nothing) as Arc<dyn Middleware>;
    let options = Options {
        activities: activities.expect("one of its name"),
        middleware: (0..layers).map(|_| layer()).collect(),
        ..Options::new(store, Arc::new(SystemClock), Arc::new(SystemIds))
    };
    Engine::new(options).await.expect("an engine")
}

/// Takes an execution to its end: reports each step that is open for a caller, and waits for those of the server.
async fn play(engine: Engine, definition: Arc<Definition>) {
    let request =
        StartRequest { definition, execution_id: None, project: None, inputs: None, lookup: None };
    let mut last = engine.start(request).await.expect("a start");
    let id = ExecutionId::parse(&last.execution_id).expect("an id");
    while let Some(token) = &last.new_token {
        let report = Report::Output(json!({ "n": 1 }));
        last = engine.advance(token, report).await.expect("an advance");
    }
    let turn = engine.turn(&id, std::time::Duration::from_secs(25)).await.expect("a turn");
    assert_eq!(turn.status.state, "completed");
}

/// The microseconds of one step, with so many executions in flight.
#[expect(clippy::cast_precision_loss, reason = "twenty thousand steps")]
async fn time_step(layers: usize, definition: &Arc<Definition>) -> f64 {
    let engine = engine(layers).await;
    let start = Instant::now();
    let lanes: Vec<_> =
        (0..IN_FLIGHT).map(|_| tokio::spawn(play(engine.clone(), definition.clone()))).collect();
    for lane in lanes {
        lane.await.expect("an execution");
    }
    let took = start.elapsed().as_secs_f64() * 1e6 / (IN_FLIGHT * STEPS) as f64;
    engine.stop().await.expect("a stop");
    took
}

/// Prints a figure, and returns whether it is at most as large as it may be.
fn hold(name: &str, figure: f64, most: f64) -> bool {
    println!("{name:>44} {figure:>8.2} us {most:>6} at most");
    if figure > most {
        eprintln!("error: missed: {name}, {figure:.2} us where {most} are allowed");
    }
    figure <= most
}

fn main() -> ExitCode {
    let runtime = Runtime::new().expect("a runtime");
    let reported = chain("guidance: Work., result: {}");
    let done = chain(&format!("activity: {ACTIVITY}, with: {{ n: 1 }}"));
    let mut times = <[Vec<f64>; 3]>::default();
    for _ in 0..TURNS {
        times[0].push(runtime.block_on(time_step(0, &reported)));
        times[1].push(runtime.block_on(time_step(0, &done)));
        times[2].push(runtime.block_on(time_step(LAYERS, &done)));
    }
    let [reported, activity, layered] = times.map(median);
    println!("{:>44} {reported:>8.2} us", "step that a caller reports");
    println!("{:>44} {activity:>8.2} us", "step that is an activity");
    #[expect(clippy::cast_precision_loss, reason = "ten layers")]
    let layer = (layered - activity) / LAYERS as f64;
    let held = [
        hold("activity beyond a reported step", activity - reported, ACTIVITY_MOST),
        hold("middleware that does nothing", layer, LAYER_MOST),
    ];
    if held.into_iter().all(|held| held) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
