//! What activities and middleware of an embedding program cost, on a store in memory with 1,000 executions in flight, and what
//! a deletion costs the calls beside it, on a store on disk. Measured in turns in one run.
//!
//! * activity: one step that this process does, beside one step that a caller reports. Both are one transition.
//! * middleware: the same activity inside of ten layers that do nothing.
//! * deletion: the 99th percentile of calls with 64 in flight, while 10,000 ended executions are deleted, beside the same
//!   without a deletion.
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

use std::{path::Path, process::ExitCode, sync::Arc, time::Instant};

use midex_domain::{
    Definition, ExecutionId,
    clock::{SystemClock, SystemIds},
    execution::Report,
};
use midex_engine::{
    Cleanup, Engine, Options, StartRequest,
    activity::{Activities, BoxFuture, Context, Middleware, NextRun, Outcome, function},
    store::{self, MemoryStore, RedbStore},
};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

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
/// Calls in flight while executions are deleted.
const CALLERS: usize = 64;
const DELETED: usize = 10_000;
const DELETION_TURNS: usize = 3;
/// How many times longer the 99th percentile of calls may be during the deletion.
const DELETION_MOST: f64 = 2.0;

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
    let request = StartRequest::new(definition);
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

/// An engine on a store in this directory, with so many executions that have ended.
async fn engine_with_ended(directory: &Path, count: usize) -> Engine {
    let store = RedbStore::open(directory, store::Options::default()).expect("a store");
    let options = Options::new(Arc::new(store), Arc::new(SystemClock), Arc::new(SystemIds));
    let engine = Engine::new(options).await.expect("an engine");
    let definition = manifest("steps:\n  - { id: s, guidance: Work., result: {} }\n");
    let lanes = (0..CALLERS).map(|_| {
        let (engine, definition) = (engine.clone(), definition.clone());
        tokio::spawn(async move {
            for _ in 0..count / CALLERS {
                play(engine.clone(), definition.clone()).await;
            }
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await.expect("the executions of a lane");
    }
    engine
}

/// The 99th percentile of calls in microseconds, with `CALLERS` of them in flight during `work`.
async fn time_calls(engine: &Engine, work: impl Future<Output = ()>) -> f64 {
    let stop = CancellationToken::new();
    let definition = chain("guidance: Work., result: {}");
    let lanes: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (engine, definition, stop) = (engine.clone(), definition.clone(), stop.clone());
            tokio::spawn(async move {
                let mut times = Vec::new();
                while !stop.is_cancelled() {
                    let request = StartRequest::new(definition.clone());
                    let mut last = engine.start(request).await.expect("a start");
                    while let Some(token) = last.new_token.take().filter(|_| !stop.is_cancelled()) {
                        let start = Instant::now();
                        let report = Report::Output(json!({ "n": 1 }));
                        last = engine.advance(&token, report).await.expect("an advance");
                        times.push(start.elapsed().as_secs_f64() * 1e6);
                    }
                }
                times
            })
        })
        .collect();
    work.await;
    stop.cancel();
    let mut times = Vec::new();
    for lane in lanes {
        times.extend(lane.await.expect("the calls of a lane"));
    }
    times.sort_by(f64::total_cmp);
    times[times.len() * 99 / 100]
}

/// How many times longer the 99th percentile of calls is during a deletion.
async fn measure_deletion() -> f64 {
    let mut ratios = Vec::new();
    for _ in 0..DELETION_TURNS {
        let directory = tempfile::tempdir().expect("a directory");
        let engine = engine_with_ended(directory.path(), DELETED).await;
        let start = Instant::now();
        let deleting = time_calls(&engine, async {
            let everything = Cleanup { keep: Some(0), ..Cleanup::default() };
            let deleted = engine.clean_up(everything).await.expect("a clean-up");
            assert!(deleted >= DELETED / CALLERS * CALLERS, "{deleted}");
        })
        .await;
        let took = start.elapsed();
        let alone = time_calls(&engine, tokio::time::sleep(took)).await;
        println!(
            "{:>44} {deleting:>8.0} us, {alone:.0} us without, {took:.1?}",
            "99th percentile during a deletion"
        );
        ratios.push(deleting / alone);
        engine.stop().await.expect("a stop");
    }
    median(ratios)
}

/// Prints a figure, and returns whether it is at most as large as it may be.
fn hold(name: &str, unit: &str, figure: f64, most: f64) -> bool {
    println!("{name:>44} {figure:>8.2} {unit} {most:>6} at most");
    if figure > most {
        eprintln!("error: missed: {name}, {figure:.2} {unit} where {most} are allowed");
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
        hold("activity beyond a reported step", "us", activity - reported, ACTIVITY_MOST),
        hold("middleware that does nothing", "us", layer, LAYER_MOST),
        hold("calls during a deletion", "x ", runtime.block_on(measure_deletion()), DELETION_MOST),
    ];
    if held.into_iter().all(|held| held) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
