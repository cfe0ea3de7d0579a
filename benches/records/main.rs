//! What removals, copies and lists of many executions cost, and how much they slow other calls: the real engine on a real
//! file. Each is judged beside a reference in the same run.
//!
//! * prune: calls beside a prune, in turns with the same calls alone.
//! * flat: the size of the file while executions are started and a retention removes them.
//! * export: an export of contents, beside zstd alone on the same bytes, and the memory that it needs.
//! * page: filtered pages among many executions, beside the same pages among few.
//! * backup: calls at a fixed rate beside a backup, and alone.
//!
//! `cargo bench --bench records` measures a share, and `MIDEX_LONG=1 cargo bench --bench records` the full counts, for half an
//! hour. Both print the figures and fail where one misses its bar; with a name after `--`, those alone.
#![allow(missing_docs, reason = "a bench has no interface")]
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]
#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]
#![allow(clippy::print_stderr, reason = "a bench says which bars were missed")]

mod calls;
mod copies;
#[path = "../support/figures.rs"]
mod figures;
#[path = "../support/manifest.rs"]
mod manifest;
mod pages;
mod removals;
#[path = "../steps/rig.rs"]
#[allow(dead_code, reason = "this bench needs a part of what the rig can do")]
mod rig;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "this bench needs the long workflow alone")]
mod support;

use std::{
    fmt::Write as _,
    ops::Range,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use midex_domain::Definition;
use midex_engine::{Engine, StartRequest};
use serde_json::json;
use tokio::task::JoinSet;

use self::{
    figures::{Figures, Table, run_tables},
    manifest::manifest,
};

/// As the binary allocates.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let tables: [(&str, Table); 5] = [
        ("prune", removals::prune_table),
        ("flat", removals::flat_table),
        ("export", copies::export_table),
        ("page", pages::table),
        ("backup", copies::backup_table),
    ];
    run_tables(&tables)
}

impl Figures {
    /// Prints the times of calls alone and beside some work, and their ratio with the most that it may be.
    fn compare(&mut self, work: &str, most: f64, alone: &[f64], beside: &[f64]) {
        for percent in [50, 99] {
            let [alone, beside] = [alone, beside].map(|times| quantile(times, percent));
            Self::print(&format!("p{percent} alone"), alone, "ms");
            Self::print(&format!("p{percent} beside {work}"), beside, "ms");
            self.hold(&format!("p{percent}, ratio"), beside / alone, "times", most);
        }
    }
}

/// `long` with `MIDEX_LONG`, and otherwise the share.
fn share(share: u64, long: u64) -> u64 {
    if std::env::var_os("MIDEX_LONG").is_some() { long } else { share }
}

/// A workflow that ends as it begins.
fn ends_at_once() -> Arc<Definition> {
    manifest(
        "inputs: { text: { type: string } }\nsteps:\n  - { id: keep, set: { at: '${{ inputs.text != \"\" }}' } }\n",
    )
}

/// A text with this number, which is not the text of another number, and compresses as a plain text does.
fn text(number: u64, bytes: usize) -> String {
    let mut text = format!("number {number:08}");
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while text.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // 4,096 words of eleven letters each.
        let _ = write!(text, " {:010x}", (state % 4096).wrapping_mul(0x51_7cc1_b727));
    }
    text
}

/// The start with a number, of a workflow that ends at once.
fn start(
    definition: Arc<Definition>,
    bytes: usize,
) -> impl Fn(u64) -> StartRequest + Clone + Send + 'static {
    move |number| StartRequest {
        inputs: Some(json!({ "text": text(number, bytes) })),
        ..StartRequest::new(definition.clone())
    }
}

/// Starts the executions with these numbers, so many at once.
async fn fill(
    engine: &Engine,
    numbers: Range<u64>,
    at_once: usize,
    request: impl Fn(u64) -> StartRequest + Clone + Send + 'static,
) -> Duration {
    let (next, begin) = (Arc::new(AtomicU64::new(numbers.start)), Instant::now());
    let mut lanes = JoinSet::new();
    for _ in 0..at_once {
        let (engine, next, request) = (engine.clone(), next.clone(), request.clone());
        lanes.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= numbers.end {
                    return;
                }
                let started = engine.start(request(number)).await.expect("a start");
                assert_eq!(started.workflow_state, "completed", "{:?}", started.failure);
            }
        });
    }
    lanes.join_all().await;
    begin.elapsed()
}

/// The value below which so many of a hundred values lie.
fn quantile(values: &[f64], percent: usize) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) * percent / 100]
}
