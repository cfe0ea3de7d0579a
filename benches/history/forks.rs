//! Forks and retries of an execution of 500 steps, beside starts of the same workflow.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use midex_domain::{
    ExecutionId,
    clock::{IdSource as _, SystemIds},
    execution::Report,
};
use midex_engine::{
    Engine, ForkRequest,
    store::{self, FileHook, FileOperation},
};
use tokio::runtime::Runtime;

use super::{
    Figures, STEPS, advance, chain, id_of, median,
    rig::{Load, Rig},
    step, text, timed,
};

const TURNS: usize = 21;
/// The output of a step: 500 of them have 100 MB.
const LARGE_BYTES: usize = 200_000;
/// An output that lies in the row of its step.
const SMALL_BYTES: usize = 1000;
/// So many times as long as a start a fork may take.
const STARTS_MOST: f64 = 3.0;
/// So many bytes a fork may write, beside outputs that lie in rows of the source.
const WRITTEN_MOST: f64 = 65_536.0;

/// Counts the bytes that a store makes durable with its transitions: those of the redo log. The data file gets them later,
/// together with those of many other transitions.
#[derive(Clone, Debug, Default)]
struct Written(Arc<AtomicU64>);

impl Written {
    fn hook(&self) -> FileHook {
        let count = self.0.clone();
        FileHook::new(move |operation| {
            if let FileOperation::WriteLog { data, .. } = operation {
                count.fetch_add(data.len() as u64, Ordering::Relaxed);
            }
            Ok(())
        })
    }
}

/// Microseconds and written bytes, turn by turn.
#[derive(Debug, Default)]
struct Costs {
    took: Vec<f64>,
    wrote: Vec<f64>,
}

impl Costs {
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    async fn add<T>(&mut self, Written(count): &Written, work: impl Future<Output = T>) -> T {
        count.store(0, Ordering::Relaxed);
        let (took, done) = timed(work).await;
        self.took.push(took);
        self.wrote.push(count.load(Ordering::Relaxed) as f64);
        done
    }
}

/// Starts, forks and retries in turns; the medians.
pub(crate) fn table(runtime: &Runtime, figures: &mut Figures) {
    let written = Written::default();
    let options = store::Options { hook: Some(written.hook()), ..store::Options::default() };
    let rig = runtime.block_on(Rig::with_store(options, |options| options));
    let costs = runtime.block_on(costs(&rig.engine, &written));
    let [start, fork, again, small] = costs.map(|costs| (median(costs.took), median(costs.wrote)));
    println!("\nforks of an execution of {STEPS} steps; medians of {TURNS} turns\n");
    Figures::print("start", start.0, "µs");
    figures.hold("fork from step 250, 100 MB", fork.0 / start.0, "starts", STARTS_MOST);
    figures.hold("retry of step 500, 100 MB", again.0 / start.0, "starts", STARTS_MOST);
    Figures::print("first retry, outputs in rows", small.0 / start.0, "starts");
    Figures::print("written by a start", start.1, "bytes");
    figures.hold("written by that fork", fork.1, "bytes", WRITTEN_MOST);
    figures.hold("written by that retry", again.1, "bytes", WRITTEN_MOST);
    #[expect(clippy::cast_precision_loss, reason = "half a million bytes")]
    let in_rows = (text(0, SMALL_BYTES).to_string().len() * (STEPS - 1)) as f64;
    figures.hold("by the first, beside its outputs", small.1 - in_rows, "bytes", WRITTEN_MOST);
    runtime.block_on(rig.stop());
}

async fn costs(engine: &Engine, written: &Written) -> [Costs; 4] {
    let load = chain();
    let large = failed(engine, &load, (0, LARGE_BYTES)).await;
    let middle = Some(step(STEPS / 2 - 1));
    let fork = ForkRequest { from_step: middle, ..ForkRequest::new(large.clone()) };
    let mut costs = <[Costs; 4]>::default();
    for turn in 0..TURNS {
        let small = failed(engine, &load, (turn * STEPS, SMALL_BYTES)).await;
        costs[0].add(written, load.start(engine)).await;
        costs[1].add(written, engine.fork(fork.clone())).await.expect("a fork");
        costs[2].add(written, engine.fork(retry(&large))).await.expect("a retry");
        costs[3].add(written, engine.fork(retry(&small))).await.expect("a retry");
    }
    costs
}

/// An execution whose last step failed, after outputs with these numbers and so many bytes.
async fn failed(engine: &Engine, load: &Load, (first, bytes): (usize, usize)) -> ExecutionId {
    let mut last = load.start(engine).await;
    for at in first + 1..first + STEPS {
        last = advance(engine, last, Report::Output(text(at, bytes))).await;
    }
    let message = "the disk is full".to_owned();
    let error = Report::Error { message, code: Some("DISK_FULL".into()), retryable: Some(false) };
    last = advance(engine, last, error).await;
    assert_eq!(last.workflow_state, "failed");
    id_of(&last)
}

/// A retry with a new id. Without one, the second call would return the first retry, which is still open.
fn retry(source: &ExecutionId) -> ForkRequest {
    let id = ExecutionId::parse(&format!("retry-{}", SystemIds.random())).expect("an id");
    ForkRequest { is_retry: true, new_execution_id: Some(id), ..ForkRequest::new(source.clone()) }
}
