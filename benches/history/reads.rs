//! A state of the past, beside the rows that it is rebuilt from; and the difference of two executions.

use midex_domain::{ExecutionId, execution::Report, view::PastPoint};
use midex_engine::{Engine, store::Store as _};
use serde_json::json;
use tokio::runtime::Runtime;

use super::{
    Figures, STEPS, advance, chain, id_of,
    manifest::manifest,
    median,
    rig::{Client, Load, Rig},
    text, timed,
};

const TURNS: usize = 11;
const REVISION: u64 = 10_000;
/// So many times as long as reading and decoding the rows it may take to rebuild a state from them.
const READS_MOST: f64 = 5.0;
/// An output that lies in the row of its step.
const OUTPUT_BYTES: usize = 1000;
/// So many milliseconds the comparison of two executions may take.
const DIFF_MS_MOST: f64 = 50.0;

/// One step again and again: its start is revision 1.
const LOOP: &str = "limits: { max_visits: 10000 }
steps:
  - { id: work, guidance: 'Round ${{ run.visits.work }}.', result: {} }
  - { id: again, branch: [{ if: run.visits.work < 10000, next: work }] }
";

/// Rows, states and statuses in turns; the medians.
pub(crate) fn past_table(runtime: &Runtime, figures: &mut Figures) {
    println!("\nan execution at revision {REVISION}; medians of {TURNS} turns\n");
    let rig = runtime.block_on(Rig::new());
    let [rows, state, status] = runtime.block_on(past_costs(&rig)).map(median);
    Figures::print("reading and decoding its rows", rows, "µs");
    figures.hold("its state at that revision", state / rows, "reads", READS_MOST);
    figures.hold("its status at that revision", status / rows, "reads", READS_MOST);
    runtime.block_on(rig.stop());
}

async fn past_costs(rig: &Rig) -> [Vec<f64>; 3] {
    let load = Load::new(manifest(LOOP), json!({}));
    let mut client = Client::start(&rig.engine, &load).await;
    for _ in 1..REVISION {
        client.advance(1).await;
    }
    let (id, point) = (client.id(), PastPoint::Revision(REVISION));
    let mut costs = [const { Vec::new() }; 3];
    for _ in 0..TURNS {
        let (took, rows) = timed(rig.store.load_history(&id)).await;
        assert_eq!(rows.expect("rows").last().map(|row| row.revision), Some(REVISION));
        costs[0].push(took);
        let (took, past) = timed(rig.engine.read_past_execution(&id, point)).await;
        assert_eq!(past.expect("a state").0.execution.revision(), REVISION);
        costs[1].push(took);
        let (took, status) = timed(rig.engine.past_status(&id, point)).await;
        assert_eq!(status.expect("a status").revision, REVISION);
        costs[2].push(took);
    }
    costs
}

/// The comparison of executions that differ in one output of ten, and in all; the medians.
pub(crate) fn diff_table(runtime: &Runtime, figures: &mut Figures) {
    println!("\nthe difference of two executions of {STEPS} steps; medians of {TURNS} turns\n");
    let rig = runtime.block_on(Rig::new());
    for (name, every) in [("every tenth output differs", 10), ("every output differs", 1)] {
        let cost = median(runtime.block_on(diff_costs(&rig.engine, every)));
        figures.hold(name, cost / 1e3, "ms", DIFF_MS_MOST);
    }
    runtime.block_on(rig.stop());
}

/// What the first page of a difference costs.
async fn diff_costs(engine: &Engine, every: usize) -> Vec<f64> {
    let before = completed(engine, |at| at).await;
    let other = |at: usize| if at.is_multiple_of(every) { STEPS + at } else { at };
    let after = completed(engine, other).await;
    let mut costs = Vec::new();
    for _ in 0..TURNS {
        let (took, diff) = timed(engine.diff(&before, &after, 0)).await;
        assert!(!diff.expect("a difference").steps.is_empty());
        costs.push(took);
    }
    costs
}

/// An execution whose steps have the outputs with these numbers.
async fn completed(engine: &Engine, number: impl Fn(usize) -> usize) -> ExecutionId {
    let mut last = chain().start(engine).await;
    for at in 0..STEPS {
        last = advance(engine, last, Report::Output(text(number(at), OUTPUT_BYTES))).await;
    }
    assert_eq!(last.workflow_state, "completed");
    id_of(&last)
}
