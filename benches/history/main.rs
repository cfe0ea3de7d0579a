//! Measures forks, retries, rewinds, past states and comparisons with the real engine on a real file. Each is timed in
//! turns with a reference in the same run, and judged by the ratio of the medians.
//!
//! * forks: a fork and a retry of an execution of 500 steps, beside a start of the same workflow; the bytes that they write.
//! * rewinds: a rewind, beside a step of the same execution.
//! * past: the state at revision 10,000, beside reading and decoding the same rows.
//! * diff: the comparison of two executions of 500 steps.
//!
//! `cargo bench --bench history` prints the figures and fails where one misses its bar; `-- forks` prints those alone.
#![allow(missing_docs, reason = "a bench has no interface")]
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]
#![allow(clippy::print_stdout, reason = "a bench prints what it measured")]
#![allow(clippy::print_stderr, reason = "a bench says which bars were missed")]

#[path = "../support/figures.rs"]
mod figures;
mod forks;
#[path = "../support/manifest.rs"]
mod manifest;
mod reads;
mod rewinds;
#[path = "../steps/rig.rs"]
#[allow(dead_code, reason = "this bench needs a part of what the rig can do")]
mod rig;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "this bench needs the median alone")]
mod support;

use std::{process::ExitCode, time::Instant};

use midex_domain::{ExecutionId, StepId, execution::Report, view::AdvanceReply};
use midex_engine::Engine;
use serde_json::{Value, json};

use self::{
    figures::{Figures, Table, run_tables},
    manifest::manifest,
    rig::Load,
    support::median,
};

/// Steps of the measured workflow: as many as one may have.
const STEPS: usize = 500;

/// The keys of a step for a model.
const MODEL_WORK: &str = "guidance: Work., result: {}";

fn main() -> ExitCode {
    let tables: [(&str, Table); 4] = [
        ("forks", forks::table),
        ("rewinds", rewinds::table),
        ("past", reads::past_table),
        ("diff", reads::diff_table),
    ];
    run_tables(&tables)
}

/// A workflow of 500 steps, one after another, all for a model.
fn chain() -> Load {
    chain_of("", |_| MODEL_WORK.to_owned())
}

/// A workflow of 500 steps, one after another, with these lines before them. `work` gives the keys of each step.
fn chain_of(head: &str, work: impl Fn(usize) -> String) -> Load {
    let steps: Vec<_> =
        (0..STEPS).map(|at| format!("  - {{ id: s{at}, {} }}\n", work(at))).collect();
    let steps = steps.concat();
    Load::new(manifest(&format!("{head}steps:\n{steps}")), json!({}))
}

fn step(at: usize) -> StepId {
    StepId::parse(&format!("s{at}")).expect("a step")
}

/// The output with this number, which has about so many bytes.
fn text(number: usize, bytes: usize) -> Value {
    let rest = "x".repeat(bytes);
    json!({ "text": format!("{number:06}{rest}") })
}

fn id_of(reply: &AdvanceReply) -> ExecutionId {
    ExecutionId::parse(&reply.execution_id).expect("an id")
}

/// Reports the open step, after which the next one is open.
async fn advance(engine: &Engine, last: AdvanceReply, report: Report) -> AdvanceReply {
    let token = last.new_token.expect("an open step");
    engine.advance(&token, report).await.expect("an advance")
}

/// The duration of the work in microseconds, and its result.
async fn timed<T>(work: impl Future<Output = T>) -> (f64, T) {
    let start = Instant::now();
    let done = work.await;
    (start.elapsed().as_secs_f64() * 1e6, done)
}
