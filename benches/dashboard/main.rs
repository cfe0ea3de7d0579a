//! What the dashboard costs: its pages among many executions, and the rate of calls while pages are open. Everything runs in
//! this process, over the real transports.
//!
//! * first: the time of the server, and the size, of the first page and of the list of executions.
//! * open: transitions of clients that call without a pause, with open pages and without, in turns.
//!
//! `cargo bench --bench dashboard` measures a share, and `MIDEX_LONG=1 cargo bench --bench dashboard` the full counts. Both print
//! the figures and fail where one misses its bar; with a name after `--`, those alone.
#![allow(missing_docs, reason = "a bench has no interface")]
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]
#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]
#![allow(clippy::print_stderr, reason = "a bench says which bars were missed")]

#[path = "../support/executions.rs"]
mod executions;
#[path = "../support/figures.rs"]
mod figures;
#[path = "../support/manifest.rs"]
mod manifest;
mod place;

use std::{
    fmt::Write as _,
    fs,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use midex_domain::view::AdvanceReply;
use midex_engine::store::Store as _;
use midex_mcp::{
    client::{Client, parse_reply},
    session::Session,
};
use serde_json::json;
use tokio::{runtime::Runtime, task::JoinSet};

use self::{
    executions::{ends_at_once, fill, quantile, share, start},
    figures::{Figures, Table, run_tables},
    place::{Dashboard, Place},
};

/// As the binary allocates.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Requests of each page.
const REQUESTS: usize = 100;
/// Milliseconds that a page may take.
const PAGE_MOST: f64 = 50.0;
/// Kilobytes that a page may have.
const SIZE_MOST: f64 = 100.0;
/// Sessions of clients, and the executions that each advances at once.
const SESSIONS: usize = 4;
const AT_ONCE: usize = 16;
/// Steps of the workflow that the clients do.
const STEPS: usize = 20;
/// The pages that are open. Each changes with every transition.
const OPEN_PAGES: [&str; 10] = [
    "/",
    "/",
    "/",
    "/",
    "/executions",
    "/executions",
    "/executions",
    "/executions?state=running",
    "/workflows/load",
    "/workflows/load",
];
/// Turns with open pages, each between two without.
const TURNS: usize = 15;
/// How much slower the calls may be, in percent.
const COST_MOST: f64 = 10.0;

fn main() -> ExitCode {
    let tables: [(&str, Table); 2] = [("first", first_table), ("open", open_table)];
    // The HTTP client needs a TLS provider, even though the bench uses plain HTTP.
    let _ = rustls::crypto::ring::default_provider().install_default();
    run_tables(&tables)
}

/// Pages among many executions.
fn first_table(runtime: &Runtime, figures: &mut Figures) {
    let count = share(20_000, 1_000_000);
    println!("\np95 of {REQUESTS} requests of a page among {count} executions\n");
    let place = Place::new();
    runtime.block_on(async {
        let (engine, store) = place.open_engine().await;
        fill(&engine, 0..count, 64, start(ends_at_once(), 100)).await;
        while store.update_index(1).await.expect("an index") {}
        engine.stop().await.expect("a stop");
        drop((engine, store));
        let dashboard = Dashboard::open(&place).await;
        for page in ["/", "/executions", "/executions?state=completed", "/workflows/bench"] {
            let (mut times, mut size) = (Vec::new(), 0);
            for _ in 0..REQUESTS {
                let begin = Instant::now();
                size = dashboard.page(page).await.len();
                times.push(begin.elapsed().as_secs_f64() * 1e3);
            }
            Figures::print(&format!("{page}, the first"), times[0], "ms");
            figures.hold(page, quantile(&times, 95), "ms", PAGE_MOST);
            figures.hold(&format!("{page}, its size"), kilobytes(size), "kB", SIZE_MOST);
        }
        dashboard.stop().await;
    });
}

#[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52")]
fn kilobytes(bytes: usize) -> f64 {
    bytes as f64 / 1e3
}

/// Calls with open pages and without.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn open_table(runtime: &Runtime, figures: &mut Figures) {
    let turn = Duration::from_secs(share(1, 6));
    let (pages, lanes) = (OPEN_PAGES.len(), SESSIONS * AT_ONCE);
    println!("\ntransitions a second of {lanes} executions at once, beside {pages} open pages\n");
    let place = Place::new();
    write_workflow(&place);
    runtime.block_on(async {
        let dashboard = Dashboard::open(&place).await;
        count_calls(&place, turn).await;
        let (mut alone, mut beside) = (vec![count_calls(&place, turn).await as f64], Vec::new());
        let mut updates = 0;
        for _ in 0..TURNS {
            let mut open = JoinSet::new();
            for page in OPEN_PAGES {
                open.spawn(dashboard.follow(page));
            }
            // Each page begins with an update.
            dashboard.wait_for_updates(pages).await;
            beside.push(count_calls(&place, turn).await as f64);
            updates += dashboard.take_updates();
            open.abort_all();
            while open.join_next().await.is_some() {}
            alone.push(count_calls(&place, turn).await as f64);
        }
        // The rate of a shared machine drifts, so each turn is compared with those before and after it.
        let neighbours = alone.windows(2).map(|pair| f64::midpoint(pair[0], pair[1]));
        let costs = neighbours.zip(&beside).map(|(alone, beside)| (1.0 - beside / alone) * 100.0);
        let costs: Vec<_> = costs.collect();
        let seconds = turn.as_secs_f64();
        Figures::print("alone", quantile(&alone, 50) / seconds, "a second");
        Figures::print("beside the pages", quantile(&beside, 50) / seconds, "a second");
        let updates_rate = updates as f64 / (seconds * TURNS as f64);
        Figures::print("updates of the pages", updates_rate, "a second");
        assert!(updates > 0, "no page followed the changes");
        figures.hold("the cost", quantile(&costs, 50), "%", COST_MOST);
        dashboard.stop().await;
    });
}

/// A chain of steps.
fn write_workflow(place: &Place) {
    let mut text = "workflow: load\ndescription: Measured\nsteps:\n".to_owned();
    for step in 0..STEPS {
        let _ = writeln!(text, "  - {{ id: s{step}, guidance: Do it., result: {{}} }}");
    }
    fs::create_dir_all(place.project().join("workflows")).expect("a directory");
    fs::write(place.project().join("workflows/load.yaml"), text).expect("a file");
}

/// Advances executions without a pause for so long. Returns the number of calls.
async fn count_calls(place: &Place, duration: Duration) -> u64 {
    let (count, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(Arc::new(Session::open(&place.process()).await.expect("a session")));
    }
    let mut lanes = JoinSet::new();
    for session in sessions.iter().cycle().take(SESSIONS * AT_ONCE) {
        let (session, count, stop) = (session.clone(), count.clone(), stop.clone());
        lanes.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                play(&session.client, &count, &stop).await;
            }
        });
    }
    tokio::time::sleep(duration).await;
    let calls = count.load(Ordering::Relaxed);
    stop.store(true, Ordering::Relaxed);
    lanes.join_all().await;
    for session in sessions {
        Arc::into_inner(session).expect("the last one").close().await.expect("an end");
    }
    calls
}

/// Takes an execution to its end, or abandons it when the time is over.
async fn play(client: &Client, count: &AtomicU64, stop: &AtomicBool) {
    let start = client.call_tool("workflow.start", json!({ "workflow_name": "load" })).await;
    let mut step: AdvanceReply = parse_reply(start.expect("a start")).expect("a reply");
    count.fetch_add(1, Ordering::Relaxed);
    while step.workflow_state == "running" && !stop.load(Ordering::Relaxed) {
        let arguments = json!({ "token": step.new_token, "output": { "summary": "done" } });
        let reply = client.call_tool("workflow.next_step", arguments).await.expect("a step");
        step = parse_reply(reply).expect("a reply");
        count.fetch_add(1, Ordering::Relaxed);
    }
}
