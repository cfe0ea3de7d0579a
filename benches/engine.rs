//! Durable transitions: what group commit buys. Everything is measured in one run, side by side, so
//! that what counts are the ratios: the machine's own figures mean little.
//!
//! * `fdatasync`: one 4 KiB overwrite and one sync, which no durable transition can beat alone.
//! * `grouped/N`: the engine with N executions in flight.
//! * `single/N`: the same engine with batches of one, a commit per transition.
//!
//! `cargo bench --bench engine -- ratios` prints the ratios alone, measured in turns.
#![allow(
    missing_docs,
    reason = "criterion's macros make undocumented functions"
)]
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]
#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]

mod support;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use midex::{
    clock::{SystemClock, SystemIds},
    domain::{Definition, execution::Report},
    engine::{Engine, Options, StartRequest},
    store::{self, RedbStore},
};
use serde_json::json;
use tokio::runtime::Runtime;

use self::support::{definition, fdatasync, median, rate};

const IN_FLIGHT: [usize; 4] = [1, 16, 256, 4096];

/// An engine on a real file, and the tokens of the executions that are in flight.
struct Rig {
    engine: Engine,
    definition: Arc<Definition>,
    tokens: Vec<Option<String>>,
    _dir: tempfile::TempDir,
}

impl Rig {
    async fn new(in_flight: usize, options: store::Options) -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let store = RedbStore::open(dir.path(), options).expect("a store");
        let options = Options::new(Arc::new(store), Arc::new(SystemClock), Arc::new(SystemIds));
        let engine = Engine::new(options).await.expect("an engine");
        Self {
            engine,
            definition: definition("# Worker"),
            tokens: vec![None; in_flight],
            _dir: dir,
        }
    }

    /// Makes `count` transitions, as many at once as there are tokens.
    async fn run(&mut self, count: u64) -> Duration {
        let lanes = self.tokens.len() as u64;
        let start = Instant::now();
        let mut tasks = Vec::new();
        for (at, token) in self.tokens.iter_mut().enumerate() {
            let share = count / lanes + u64::from((at as u64) < count % lanes);
            tasks.push(tokio::spawn(lane(
                self.engine.clone(),
                self.definition.clone(),
                token.take(),
                share,
            )));
        }
        for (token, task) in self.tokens.iter_mut().zip(tasks) {
            *token = task.await.expect("no panic");
        }
        start.elapsed()
    }
}

/// One client: starts an execution where it has none, and finishes steps.
async fn lane(
    engine: Engine,
    definition: Arc<Definition>,
    mut token: Option<String>,
    share: u64,
) -> Option<String> {
    for _ in 0..share {
        token = if let Some(token) = token {
            let report = Report::Output(json!({ "summary": "done" }));
            engine
                .advance(&token, report)
                .await
                .expect("an advance")
                .new_token
        } else {
            let request = StartRequest {
                definition: definition.clone(),
                execution_id: None,
                project: None,
                inputs: None,
            };
            engine.start(request).await.expect("a start").new_token
        };
    }
    token
}

fn grouped() -> store::Options {
    store::Options::default()
}

fn single() -> store::Options {
    store::Options {
        batch_max: 1,
        ..store::Options::default()
    }
}

fn sparse() -> store::Options {
    store::Options {
        snapshot_every: 16,
        ..store::Options::default()
    }
}

fn transitions(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let mut group = criterion.benchmark_group("transition");
    group
        .throughput(Throughput::Elements(1))
        .sample_size(10)
        .measurement_time(Duration::from_secs(4));
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    group.bench_function("fdatasync", |bencher| {
        bencher.iter_custom(|count| fdatasync(dir.path(), count));
    });
    for in_flight in IN_FLIGHT {
        for (name, options) in [
            ("grouped", grouped as fn() -> _),
            ("single", single),
            ("grouped-snapshot-16", sparse),
        ] {
            let mut rig = runtime.block_on(Rig::new(in_flight, options()));
            group.bench_function(BenchmarkId::new(name, in_flight), |bencher| {
                bencher.iter_custom(|count| runtime.block_on(rig.run(count)));
            });
            runtime.block_on(rig.engine.stop()).expect("a stop");
        }
    }
    group.finish();
}

/// The same in turns of a moment each, so that all see the same machine; the medians' ratios.
fn ratios() {
    const TURNS: usize = 9;
    let runtime = Runtime::new().expect("a runtime");
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    println!("transitions/s, medians of {TURNS} turns; x = grouped / single\n");
    println!(
        "{:>9} {:>10} {:>10} {:>6} {:>12} {:>11}",
        "in flight", "grouped", "single", "x", "snapshot-16", "fdatasync"
    );
    for in_flight in IN_FLIGHT {
        let make = |options| runtime.block_on(Rig::new(in_flight, options));
        let mut rigs = [make(grouped()), make(single()), make(sparse())];
        let mut rates = [const { Vec::new() }; 4];
        for _ in 0..TURNS {
            for (rates, rig) in rates.iter_mut().zip(&mut rigs) {
                let count = 400 + 8 * in_flight as u64;
                rates.push(rate(count, runtime.block_on(rig.run(count))));
            }
            rates[3].push(rate(500, fdatasync(dir.path(), 500)));
        }
        let [grouped, single, sparse, sync] = rates.map(median);
        println!(
            "{in_flight:>9} {grouped:>10.0} {single:>10.0} {:>6.1} {sparse:>12.0} {sync:>11.0}",
            grouped / single
        );
        for rig in rigs {
            runtime.block_on(rig.engine.stop()).expect("a stop");
        }
    }
}

criterion_group!(benches, transitions);

fn main() {
    if std::env::args().any(|argument| argument == "ratios") {
        ratios();
    } else {
        benches();
        Criterion::default().configure_from_args().final_summary();
    }
}
