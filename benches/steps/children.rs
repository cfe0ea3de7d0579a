//! A child for each item of a `foreach`, beside as many starts of the same workflow: what a child costs should not depend
//! on how many there are.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use midex_domain::{Definition, WorkflowLookup, error::Result, operation::BoxFuture};
use midex_engine::{Options, Workflows};
use serde_json::json;
use tokio::runtime::Runtime;

use super::{
    manifest::manifest,
    rig::{Client, Load, Rig},
    support::median,
};

const WIDTHS: [u64; 4] = [10, 100, 1000, 10_000];
const TURNS: usize = 5;

/// The one workflow that there is: it ends as it begins.
#[derive(Debug)]
struct Only(Arc<Definition>);

impl Workflows for Only {
    fn find<'a>(
        &'a self,
        _: Option<&'a WorkflowLookup>,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Arc<Definition>>> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }
}

fn child() -> Arc<Definition> {
    manifest(
        "inputs: { at: { type: integer } }\nsteps:\n  - { id: keep, set: { at: '${{ inputs.at }}' } }\n",
    )
}

fn parent(width: u64) -> Load {
    let items: Vec<_> = (0..width).collect();
    let lines = format!(
        "steps:\n  - id: all\n    foreach: {{ in: {}, parallel: 64, do: {{ workflow: child, with: {{ at: '${{{{ item }}}}' }} }} }}\n",
        json!(items)
    );
    Load::new(manifest(&lines), json!({}))
}

/// Takes `count` parents through all their children.
async fn children(rig: &Rig, load: &Load, count: u64) -> Duration {
    let mut took = Duration::ZERO;
    for _ in 0..count {
        let start = Instant::now();
        Client::start(&rig.engine, load).await.finish().await;
        took += start.elapsed();
    }
    took
}

/// Starts so many, one after another.
async fn starts(rig: &Rig, load: &Load, count: u64) -> Duration {
    let start = Instant::now();
    for _ in 0..count {
        load.start(&rig.engine).await;
    }
    start.elapsed()
}

/// All widths in turns beside 1,000 starts; the medians.
pub(crate) fn ratios(runtime: &Runtime) {
    println!(
        "\na child for each item, 64 at once; medians of {TURNS} turns of 1,000 children or one list; x = beside 1,000 starts one after another\n"
    );
    println!("{:>9} {:>10} {:>6}", "children", "µs/child", "x");
    let with = |options| Options { workflows: Arc::new(Only(child())), ..options };
    let rig = runtime.block_on(Rig::with(with));
    let alone = Load::new(child(), json!({ "at": 1 }));
    let loads = WIDTHS.map(parent);
    let (mut base, mut costs) = (Vec::new(), [const { Vec::new() }; WIDTHS.len()]);
    let each = |took: Duration, count: u64| {
        (took / u32::try_from(count).expect("a small number")).as_secs_f64() * 1e6
    };
    for _ in 0..TURNS {
        base.push(each(runtime.block_on(starts(&rig, &alone, 1000)), 1000));
        for ((costs, load), width) in costs.iter_mut().zip(&loads).zip(WIDTHS) {
            let count = (1000 / width).max(1);
            let took = runtime.block_on(children(&rig, load, count));
            costs.push(each(took, count * width));
        }
    }
    let base = median(base);
    println!("{:>9} {base:>10.0} {:>6.2}", "a start", 1.0);
    for (width, cost) in WIDTHS.iter().zip(costs.map(median)) {
        println!("{width:>9} {cost:>10.0} {:>6.2}", cost / base);
    }
    runtime.block_on(rig.stop());
}
