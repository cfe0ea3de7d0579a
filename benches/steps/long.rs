//! Long executions: what a step costs should not depend on how many came before it.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::runtime::Runtime;

use super::{
    manifest::manifest,
    rig::{Client, Load, Rig},
    support::median,
};

/// Steps that are measured at each place.
const MEASURED: usize = 10;

/// A workflow, and the places in it that are looked at.
pub(crate) struct Road {
    pub(crate) name: &'static str,
    pub(crate) load: Load,
    pub(crate) places: [usize; 3],
}

/// One step after another, as many as a workflow may have; and one step again and again.
pub(crate) fn roads() -> [Road; 2] {
    let steps: Vec<_> = (0..500)
        .map(|at| format!("  - {{ id: s{at}, guidance: Work., result: {{}} }}\n"))
        .collect();
    let chain = format!("steps:\n{}", steps.concat());
    let again = "limits: { max_visits: 2000 }
steps:
  - { id: work, guidance: 'Round ${{ run.visits.work }}.', result: {} }
  - { id: again, branch: [{ if: run.visits.work < 2000, next: work }] }
";
    let road = |name, lines: &str, places| Road {
        name,
        load: Load::new(manifest(lines), json!({})),
        places,
    };
    [road("chain of 500", &chain, [10, 100, 480]), road("loop", again, [10, 100, 1000])]
}

/// An execution of the road that stands so many steps after its start.
async fn stage(rig: &Rig, road: &Road, place: usize) -> Client {
    let mut client = Client::start(&rig.engine, &road.load).await;
    client.advance(place).await;
    client
}

/// So many steps at that place, on as many executions as that takes.
pub(crate) async fn at(rig: &Rig, road: &Road, place: usize, count: u64) -> Duration {
    let mut took = Duration::ZERO;
    let mut left = usize::try_from(count).expect("a count");
    while left > 0 {
        let share = left.min(MEASURED);
        let mut client = stage(rig, road, place - MEASURED / 2).await;
        took += steps(&mut client, share).await;
        left -= share;
    }
    took
}

async fn steps(client: &mut Client, count: usize) -> Duration {
    let start = Instant::now();
    client.advance(count).await;
    start.elapsed()
}

/// The places in turns, step by step; the medians.
pub(crate) fn ratios(runtime: &Runtime) {
    const TURNS: usize = 9;
    println!(
        "\nsteps of one execution, one after another; medians of {} steps; x = the first place = 1\n",
        TURNS * MEASURED
    );
    println!("{:>14} {:>8} {:>9} {:>6}", "", "at step", "µs/step", "x");
    for road in roads() {
        let rig = runtime.block_on(Rig::new());
        let costs = runtime.block_on(costs(&rig, &road, TURNS)).map(median);
        for (place, cost) in road.places.iter().zip(costs) {
            println!("{:>14} {place:>8} {cost:>9.0} {:>6.2}", road.name, cost / costs[0]);
        }
        runtime.block_on(rig.stop());
    }
}

async fn costs(rig: &Rig, road: &Road, turns: usize) -> [Vec<f64>; 3] {
    let mut costs = [const { Vec::new() }; 3];
    for _ in 0..turns {
        let mut clients = Vec::new();
        for place in road.places {
            clients.push(stage(rig, road, place - MEASURED / 2).await);
        }
        for _ in 0..MEASURED {
            for (costs, client) in costs.iter_mut().zip(&mut clients) {
                costs.push(steps(client, 1).await.as_secs_f64() * 1e6);
            }
        }
    }
    costs
}
