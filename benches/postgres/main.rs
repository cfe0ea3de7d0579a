//! The store of several servers beside a transaction for each transition, and beside DBOS, on the same PostgreSQL, in turns.
//!
//! `tests/postgres/run --bench` starts a PostgreSQL and measures. `MIDEX_LONG=1` measures for longer. Both print the figures and
//! fail where one misses its bar.
#![allow(missing_docs, reason = "a bench has no interface")]
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]
#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]
#![allow(clippy::print_stderr, reason = "a bench says which bars were missed")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a bench may fail")]

#[path = "../support/figures.rs"]
mod figures;
mod peer;
mod proxy;
mod reference;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "this bench needs figures from turns alone")]
mod support;

use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use midex_domain::{
    clock::{SystemClock, SystemIds},
    limits,
};
use midex_engine::store::contract::script::{Script, build_definition};
use midex_postgres::{LeaseOptions, PostgresOptions, PostgresStore};
use tokio::{runtime::Runtime, task::JoinSet};
use tokio_postgres::NoTls;

use self::{
    figures::{Figures, Table, run_tables},
    peer::Dbos,
    reference::Reference,
    support::{median, rate},
};

/// Executions that are in flight.
const IN_FLIGHT: usize = 256;
/// Steps of each execution.
const STEPS: usize = 20;
/// Turns, each with the store and with the reference.
const TURNS: usize = 5;
/// The least factor by which the store is faster, on loopback and with a delay.
const SPEEDUP_MIN: f64 = 5.0;
const SPEEDUP_DELAYED_MIN: f64 = 20.0;
/// The time that the proxy adds to a round trip.
const ROUND_TRIP_ADDED: Duration = Duration::from_millis(2);

fn main() -> ExitCode {
    let tables: [(&str, Table); 3] =
        [("near", near_table), ("far", far_table), ("dbos", dbos_table)];
    run_tables(&tables)
}

/// The address of the database.
fn database() -> String {
    std::env::var("MIDEX_POSTGRES").expect("`tests/postgres/run --bench` names the database")
}

fn near_table(runtime: &Runtime, figures: &mut Figures) {
    println!("\ntransitions a second of {IN_FLIGHT} executions in flight\n");
    runtime.block_on(compare(&database(), "near", SPEEDUP_MIN, figures));
}

fn far_table(runtime: &Runtime, figures: &mut Figures) {
    println!("\nthe same with {ROUND_TRIP_ADDED:?} more for each round trip\n");
    runtime.block_on(async {
        let url = proxy::start(&database(), ROUND_TRIP_ADDED / 2).await;
        compare(&url, "far", SPEEDUP_DELAYED_MIN, figures).await;
    });
}

fn dbos_table(runtime: &Runtime, figures: &mut Figures) {
    println!("\nthe same beside DBOS, a start and its steps\n");
    runtime.block_on(async {
        let (url, turn) = (database(), turn_duration());
        let schema = format!("bench_dbos_{}", std::process::id());
        create_schema(&schema).await;
        let store = Target::Store(Arc::new(open_store(&url, &schema).await));
        let mut dbos = Dbos::start(&url);
        // Its tables are made, and its pool is filled.
        dbos.measure_rate(IN_FLIGHT, turn);
        let (mut with_store, mut with_dbos) = (Vec::new(), Vec::new());
        for number in 0..TURNS {
            with_store.push(measure_rate(&store, &format!("s{number}"), turn).await);
            with_dbos.push(dbos.measure_rate(IN_FLIGHT, turn));
        }
        hold_faster("DBOS", [with_store, with_dbos], SPEEDUP_MIN, figures);
    });
}

/// The time of one turn.
fn turn_duration() -> Duration {
    Duration::from_secs(if std::env::var_os("MIDEX_LONG").is_some() { 10 } else { 2 })
}

/// Measures the store and the reference in turns.
async fn compare(url: &str, name: &str, least: f64, figures: &mut Figures) {
    let (schema, turn) = (format!("bench_{name}_{}", std::process::id()), turn_duration());
    create_schema(&schema).await;
    let store = Target::Store(Arc::new(open_store(url, &schema).await));
    let reference = Target::Reference(Arc::new(Reference::open(url, &schema).await));
    let (mut with_store, mut with_reference) = (Vec::new(), Vec::new());
    for number in 0..TURNS {
        with_store.push(measure_rate(&store, &format!("s{number}"), turn).await);
        with_reference.push(measure_rate(&reference, &format!("r{number}"), turn).await);
    }
    hold_faster("a transaction each", [with_store, with_reference], least, figures);
}

/// Prints the medians of the rates of the store and of something else, and holds the store to be so much faster.
fn hold_faster(other: &str, rates: [Vec<f64>; 2], least: f64, figures: &mut Figures) {
    let [store, reference] = rates.map(median);
    Figures::print(other, reference, "a second");
    Figures::print("the store", store, "a second");
    let name = format!("{other}, times {least}, by the store");
    figures.hold(&name, reference * least / store, "", 1.0);
    Figures::print("faster", store / reference, "times");
}

async fn create_schema(schema: &str) {
    let (client, connection) =
        tokio_postgres::connect(&database(), NoTls).await.expect("a database");
    tokio::spawn(connection);
    client.batch_execute(&format!("CREATE SCHEMA {schema}")).await.expect("a schema");
}

async fn open_store(url: &str, schema: &str) -> PostgresStore {
    let options = PostgresOptions {
        url: url.to_owned(),
        schema: Some(schema.to_owned()),
        address: "https://127.0.0.1:1".to_owned(),
        leases: LeaseOptions::default(),
        definitions: None,
        snapshot_every: limits::DATABASE_SNAPSHOT_EVERY,
        clock: Arc::new(SystemClock),
        ids: Arc::new(SystemIds),
    };
    PostgresStore::open(options).await.expect("a store")
}

/// What stores the transitions.
#[derive(Clone)]
enum Target {
    Store(Arc<PostgresStore>),
    Reference(Arc<Reference>),
}

impl Target {
    async fn commit_step(&self, script: &mut Script) {
        match self {
            Self::Store(store) => drop(script.commit_step(&**store).await.expect("a commit")),
            Self::Reference(reference) => reference.commit_step(script).await,
        }
    }
}

/// Plays executions for so long, as many at once as are in flight. Returns the transitions of a second.
async fn measure_rate(target: &Target, name: &str, duration: Duration) -> f64 {
    let (count, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut lanes = JoinSet::new();
    for lane in 0..IN_FLIGHT {
        let (target, count, stop) = (target.clone(), count.clone(), stop.clone());
        let name = format!("{name}-{lane}");
        lanes.spawn(async move {
            let definition = build_definition(STEPS);
            for number in 0.. {
                let name = format!("{name}-{number}");
                let mut script = Script::with_definition(&name, definition.clone());
                // The start, and then every step.
                for _ in 0..=STEPS {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    target.commit_step(&mut script).await;
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    tokio::time::sleep(duration).await;
    let transitions = count.load(Ordering::Relaxed);
    stop.store(true, Ordering::Relaxed);
    lanes.join_all().await;
    rate(transitions, duration)
}
