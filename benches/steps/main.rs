//! What steps cost: of many kinds, in great numbers, in long executions, and how late timers are. The real engine on a
//! real file; everything is measured in one run, side by side, so that what counts are the ratios.
//!
//! * mixed: a workflow of twenty steps of many kinds, beside twenty plain steps of an agent.
//! * wide: a `foreach` over 10, 100 and 1,000 items, done by a model and by an activity of the process.
//! * long: the 10th, the 100th and the 1,000th step of an execution.
//! * children: 10 to 10,000 children of one `foreach`, beside starts of the same workflow (in the tables alone).
//! * timers: 10,000 due within 10 seconds.
//!
//! `cargo bench --bench steps -- ratios` prints the tables alone, measured in turns; with a name after it, that one.
#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]
#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]

mod children;
mod long;
#[path = "../support/manifest.rs"]
mod manifest;
mod mixed;
mod rig;
#[path = "../support/mod.rs"]
mod support;
mod timers;
mod wide;

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use tokio::runtime::Runtime;

use self::{rig::Rig, support::fdatasync, wide::Body};

/// A whole workflow at a time.
fn mixed_steps(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let mut group = criterion.benchmark_group("workflow");
    group.sample_size(10).measurement_time(Duration::from_secs(3));
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    group.bench_function("fdatasync", |bencher| {
        bencher.iter_custom(|count| fdatasync(dir.path(), count));
    });
    for in_flight in mixed::IN_FLIGHT {
        let rig = runtime.block_on(Rig::new());
        for (name, load) in mixed::loads() {
            group.bench_function(BenchmarkId::new(name, in_flight), |bencher| {
                bencher.iter_custom(|count| runtime.block_on(rig.play(&load, count, in_flight)));
            });
        }
        runtime.block_on(rig.stop());
    }
    group.finish();
}

/// A whole list at a time; throughput is items.
fn wide_steps(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let mut group = criterion.benchmark_group("foreach");
    group.sample_size(10).measurement_time(Duration::from_secs(3));
    for body in Body::ALL {
        for width in wide::WIDTHS {
            let rig = runtime.block_on(Rig::new());
            let load = body.load(width, wide::PARALLEL[0]);
            group.throughput(Throughput::Elements(width));
            group.bench_function(BenchmarkId::new(body.name(), width), |bencher| {
                bencher.iter_custom(|count| runtime.block_on(wide::run(&rig, body, &load, count)));
            });
            runtime.block_on(rig.stop());
        }
    }
    group.finish();
}

/// One step at a time, at different places of an execution.
fn long_executions(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let mut group = criterion.benchmark_group("step");
    group.sample_size(10).measurement_time(Duration::from_secs(3));
    let [_, road] = long::roads();
    for place in road.places {
        let rig = runtime.block_on(Rig::new());
        group.bench_function(BenchmarkId::new(road.name, place), |bencher| {
            bencher.iter_custom(|count| runtime.block_on(long::at(&rig, &road, place, count)));
        });
        runtime.block_on(rig.stop());
    }
    group.finish();
}

/// How late a timer is: the mean.
fn late_timers(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let mut group = criterion.benchmark_group("timer");
    group.sample_size(10).measurement_time(Duration::from_secs(3));
    let rig = runtime.block_on(Rig::new());
    group.bench_function("late", |bencher| {
        bencher.iter_custom(|count| runtime.block_on(timers::sum(&rig, count)));
    });
    runtime.block_on(rig.stop());
    group.finish();
}

/// Measures, and prints.
type Table = fn(&Runtime);

/// The same in turns of a moment each, so that all see the same machine; the medians' ratios.
fn ratios(wanted: &[String]) {
    let runtime = Runtime::new().expect("a runtime");
    let tables: [(&str, Table); 5] = [
        ("mixed", mixed::ratios),
        ("wide", wide::ratios),
        ("long", long::ratios),
        ("timers", timers::ratios),
        ("children", children::ratios),
    ];
    let is_named = |name: &str| wanted.iter().any(|wanted| wanted == name);
    let all = !tables.iter().any(|(name, _)| is_named(name));
    for (_, table) in tables.iter().filter(|(name, _)| all || is_named(name)) {
        table(&runtime);
    }
}

criterion_group!(benches, mixed_steps, wide_steps, long_executions, late_timers);

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    if arguments.iter().any(|argument| argument == "ratios") {
        ratios(&arguments);
    } else {
        benches();
        Criterion::default().configure_from_args().final_summary();
    }
}
