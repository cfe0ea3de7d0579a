//! Prunes and retentions.

use std::time::{Duration, Instant};

use midex_engine::{Engine, Options, PruneRule, Retention, store::Store as _};
use tokio::runtime::Runtime;

use super::{
    Figures, calls::call_beside, ends_at_once, fill, rig::Rig, share, start, support::rate,
};

/// Clients that call, or start.
const CLIENTS: usize = 64;
/// Turns in which a prune is measured.
const TURNS: usize = 10;
/// So many times as long a call may take beside a prune.
const PRUNE_MOST: f64 = 2.0;
/// Executions that the retention keeps.
const KEPT: u64 = 10_000;
/// How much larger or smaller than at the first measurement the file may be.
const SIZE_MOST: f64 = 0.1;

/// Calls alone and beside a prune, in turns.
pub(crate) fn prune_table(runtime: &Runtime, figures: &mut Figures) {
    let count = share(5_000, 100_000);
    println!("\ncalls of {CLIENTS} clients beside a prune of {count} executions\n");
    let rig = runtime.block_on(Rig::new());
    let [alone, beside] = runtime.block_on(time_prune(&rig.engine, count));
    figures.compare("the prune", PRUNE_MOST, &alone, &beside);
    runtime.block_on(rig.stop());
}

async fn time_prune(engine: &Engine, count: u64) -> [Vec<f64>; 2] {
    fill(engine, 0..count, CLIENTS, start(ends_at_once(), 200)).await;
    let all = [PruneRule { keep_total: Some(0), ..PruneRule::default() }];
    let ids = engine.plan_prune(&all).await.expect("a plan").ids;
    let (mut alone, mut beside, mut pruned) = (Vec::new(), Vec::new(), Duration::ZERO);
    for ids in ids.chunks(ids.len() / TURNS) {
        let begin = Instant::now();
        let prune = engine.prune(ids.to_vec());
        let (report, times) = call_beside(engine, (CLIENTS, None), prune).await;
        assert_eq!(report.expect("a prune").removed, ids.len());
        let took = begin.elapsed();
        pruned += took;
        beside.extend(times);
        let rest = tokio::time::sleep(took);
        alone.extend(call_beside(engine, (CLIENTS, None), rest).await.1);
    }
    Figures::print("pruned beside the calls", rate(count, pruned), "a second");
    Figures::print("calls beside the prune", rate(beside.len() as u64, pruned), "a second");
    Figures::print("calls alone", rate(alone.len() as u64, pruned), "a second");
    [alone, beside]
}

/// The size of the file, portion by portion.
pub(crate) fn flat_table(runtime: &Runtime, figures: &mut Figures) {
    let portion = share(10_000, 100_000);
    println!("\nstarts in portions of {portion}, with a retention that keeps {KEPT}\n");
    let max_sessions = usize::try_from(KEPT).ok();
    let retention = Some(Retention { max_sessions, ..Retention::default() });
    let rig = runtime.block_on(Rig::new());
    let took = runtime.block_on(fill(&rig.engine, 0..portion, CLIENTS, start(ends_at_once(), 200)));
    Figures::print("starts without a retention", rate(portion, took), "a second");
    runtime.block_on(rig.stop());
    let rig = runtime.block_on(Rig::with(|options| Options { retention, ..options }));
    let mut sizes = Vec::new();
    for number in 0..10 {
        let numbers = number * portion..(number + 1) * portion;
        let fill = fill(&rig.engine, numbers, CLIENTS, start(ends_at_once(), 200));
        let (took, begin) = (runtime.block_on(fill), Instant::now());
        let (size, stored) = runtime.block_on(wait_until_removed(&rig));
        let (rate, later) = (rate(portion, took), begin.elapsed().as_secs_f64());
        let started = (number + 1) * portion;
        println!(
            "{started:>9} started, {rate:>6.0}/s; {later:>5.1} s later {size:>7.1} MB, {stored:.1} used"
        );
        sizes.push(size);
    }
    // At first the tombstones grow in number, up to their limit.
    let settled = &sizes[usize::try_from(share(4, 1)).expect("a small number")..];
    let off = settled.iter().map(|size| (size / settled[0] - 1.0).abs()).fold(0.0, f64::max);
    figures.hold("largest difference from the first settled size", off, "", SIZE_MOST);
    runtime.block_on(rig.stop());
}

/// Waits until hardly more executions than the retention keeps are there; the megabytes of the files, and
/// those of keys and values.
#[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52")]
async fn wait_until_removed(rig: &Rig) -> (f64, f64) {
    loop {
        let sizes = rig.store.sizes().await.expect("the sizes");
        let table = sizes.tables.iter().find(|table| table.name == "executions");
        if table.expect("the executions").entries <= KEPT + KEPT / 10 {
            let file = (sizes.file_bytes + sizes.log_bytes) as f64;
            let stored: u64 = sizes.tables.iter().map(|table| table.bytes).sum();
            return (file / 1e6, stored as f64 / 1e6);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
