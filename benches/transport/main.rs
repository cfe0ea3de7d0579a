//! `workflow.next_step`, each step durable, beside an echo that answers as much and does nothing: what a
//! transport costs, and what the engine costs. Everything is measured in one run, side by side, so that what
//! counts are the ratios. The servers are the product's own (`mcp::serve`, `mcp::http::serve`), in this process;
//! so is the client, which is raw bytes: both together share the machine's cores.
//!
//! * stdio: lines over two operating-system pipes (`tokio::net::unix::pipe`), as between two processes. One
//!   client, all calls in flight on one connection.
//! * owner: the same through the relay that the owner of a directory has for its own client; relay: that of another process
//!   of the directory, through the control socket (here in the same process). The echo has neither: its figures are stdio's.
//! * HTTP, stateless: the 2026-07-28 era over kept connections of the loopback, one call in flight on each.
//! * HTTP, session: the initialize era, a session on each connection, answers as streams of events.
//! * engine: `App::next_step` called directly. `fdatasync`: one 4 KiB overwrite and one sync.
//!
//! `cargo bench --bench transport -- ratios` prints the table alone, measured in turns.
#![allow(
    missing_docs,
    reason = "criterion's macros make undocumented functions"
)]
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]
#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]

mod client;
mod server;
#[path = "../support/mod.rs"]
mod support;

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use tokio::runtime::Runtime;

use self::{
    client::{Tool, Way},
    server::Rig,
    support::{STEPS, fdatasync, median, rate},
};

const IN_FLIGHT: [usize; 2] = [1, 64];
/// A caller that has the persona already and says so, and one that is sent a persona such as the shipped ones.
const PERSONA_BYTES: [usize; 2] = [64, 8 << 10];

fn calls(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let mut group = criterion.benchmark_group("call");
    group
        .throughput(Throughput::Elements(1))
        .sample_size(10)
        .measurement_time(Duration::from_secs(3));
    for in_flight in IN_FLIGHT {
        let mut rig = runtime.block_on(Rig::new(in_flight, PERSONA_BYTES[0]));
        for (way, tool) in columns() {
            let name = format!("{}/{}", tool.name(), way.name());
            group.bench_function(BenchmarkId::new(name, in_flight), |bencher| {
                bencher.iter_custom(|count| runtime.block_on(rig.run(way, tool, count)));
            });
        }
        group.bench_function(BenchmarkId::new("engine", in_flight), |bencher| {
            bencher.iter_custom(|count| runtime.block_on(rig.engine(count)));
        });
        runtime.block_on(rig.stop());
    }
    group.finish();
}

fn columns() -> impl Iterator<Item = (Way, Tool)> {
    Way::ALL
        .into_iter()
        .flat_map(|way| [(way, Tool::Echo), (way, Tool::NextStep)])
}

/// The same in turns of a moment each, so that all see the same machine; the medians and their ratios.
fn ratios() {
    let runtime = Runtime::new().expect("a runtime");
    for persona_bytes in PERSONA_BYTES {
        for in_flight in IN_FLIGHT {
            table(&runtime, in_flight, persona_bytes);
        }
    }
}

fn table(runtime: &Runtime, in_flight: usize, persona_bytes: usize) {
    const TURNS: usize = 7;
    let mut rig = runtime.block_on(Rig::new(in_flight, persona_bytes));
    let count = (STEPS * in_flight.max(5)) as u64;
    let mut rates = vec![Vec::new(); 2 * Way::ALL.len()];
    let (mut engine, mut sync) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        for ((way, tool), rates) in columns().zip(&mut rates) {
            rates.push(rate(count, runtime.block_on(rig.run(way, tool, count))));
        }
        engine.push(rate(count, runtime.block_on(rig.engine(count))));
        sync.push(rate(200, fdatasync(rig.dir(), 200)));
    }
    println!(
        "\n{in_flight} in flight, a reply of {} bytes, sent as text and as structure; calls/s, medians of {TURNS} turns\n",
        rig.reply_bytes()
    );
    let rates: Vec<_> = rates.into_iter().map(median).collect();
    show(&rates, median(engine));
    println!("{:>16} {:>9.0}", "fdatasync", median(sync));
    runtime.block_on(rig.stop());
}

/// The rates in the order of [`columns`], then the engine's own.
fn show(rates: &[f64], engine: f64) {
    println!(
        "{:>16} {:>9} {:>9} {:>14} {:>12} {:>17} {:>14}",
        "",
        "echo",
        "next_step",
        "next_step/echo",
        "echo/stdio's",
        "next_step/stdio's",
        "engine's share"
    );
    for (way, pair) in Way::ALL.iter().zip(rates.chunks(2)) {
        let (echo, next_step) = (pair[0], pair[1]);
        println!(
            "{:>16} {echo:>9.0} {next_step:>9.0} {:>14.2} {:>12.2} {:>17.2} {:>14.2}",
            way.name(),
            next_step / echo,
            echo / rates[0],
            next_step / rates[1],
            next_step / engine
        );
    }
    println!("{:>16} {:>9} {engine:>9.0}", "engine", "");
}

criterion_group!(benches, calls);

fn main() {
    if std::env::args().any(|argument| argument == "ratios") {
        ratios();
    } else {
        benches();
        Criterion::default().configure_from_args().final_summary();
    }
}
