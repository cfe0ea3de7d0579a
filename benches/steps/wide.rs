//! A `foreach` over 10 to 10,000 items: what an item costs should not depend on how many there are.

use std::time::{Duration, Instant};

use midex_domain::execution::Report;
use midex_engine::Engine;
use serde_json::json;
use tokio::runtime::Runtime;

use super::{
    manifest::manifest,
    rig::{Client, Load, Rig},
    support::median,
};

pub(crate) const WIDTHS: [u64; 3] = [10, 100, 1000];
/// Those of the tables, which go up to the longest list that there may be.
const RATIO_WIDTHS: [u64; 4] = [10, 100, 1000, 10_000];
pub(crate) const PARALLEL: [u64; 2] = [4, 64];

/// Who does the items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// A model, whose turns end with their tokens.
    Model,
    /// The server, in its own process.
    Activity,
}

impl Body {
    pub(crate) const ALL: [Self; 2] = [Self::Model, Self::Activity];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Activity => "activity",
        }
    }

    const fn step(self) -> &'static str {
        match self {
            Self::Model => {
                r#"guidance: "Read ${{ file.name }} for ${{ inputs.goal }}.", result: {}"#
            }
            Self::Activity => {
                r#"activity: echo, with: { file: "${{ file.name }}", goal: "${{ inputs.goal }}" }"#
            }
        }
    }

    /// A list of so many items, so many of which are open at once.
    pub(crate) fn load(self, width: u64, parallel: u64) -> Load {
        let lines = format!(
            "inputs: {{ files: {{ type: array }}, goal: {{ type: string }} }}
steps:
  - id: each
    foreach: {{ in: '${{{{ inputs.files }}}}', as: file, parallel: {parallel}, do: {{ {} }} }}
",
            self.step()
        );
        let files: Vec<_> = (0..width)
            .map(|at| json!({ "name": format!("src/file-{at}.rs"), "lines": at }))
            .collect();
        Load::new(manifest(&lines), json!({ "files": files, "goal": "clarity" }))
    }
}

/// Takes `count` executions of the load through all their items, one execution after another. What their starts take
/// does not count.
pub(crate) async fn run(rig: &Rig, body: Body, load: &Load, count: u64) -> Duration {
    let mut took = Duration::ZERO;
    for _ in 0..count {
        match body {
            Body::Model => {
                let started = load.start(&rig.engine).await;
                let start = Instant::now();
                let offers = started.new_tokens.iter();
                let lanes: Vec<_> = offers
                    .map(|offer| lane(rig.engine.clone(), offer.continuation_token.clone()))
                    .map(tokio::spawn)
                    .collect();
                for lane in lanes {
                    lane.await.expect("no panic");
                }
                took += start.elapsed();
            }
            Body::Activity => {
                let client = Client::start(&rig.engine, load).await;
                let start = Instant::now();
                client.finish().await;
                took += start.elapsed();
            }
        }
    }
    took
}

/// Does one item after another, until there is none left for it.
async fn lane(engine: Engine, token: String) {
    let mut token = Some(token);
    while let Some(held) = token {
        let report = Report::Output(json!({ "read": true }));
        let advanced = engine.advance(&held, report).await.expect("an advance");
        let mut offers = advanced.new_tokens.into_iter();
        token = offers.next().map(|offer| offer.continuation_token);
    }
}

/// All widths in turns, 1,000 items each or one list; the medians.
pub(crate) fn ratios(runtime: &Runtime) {
    const TURNS: usize = 5;
    println!(
        "\na foreach, one execution at a time; medians of {TURNS} turns of 1,000 items or one list; x = per item, of 10 items = 1\n"
    );
    println!(
        "{:>9} {:>9} {:>6} {:>10} {:>9} {:>6}",
        "", "parallel", "items", "items/s", "µs/item", "x"
    );
    for body in Body::ALL {
        for parallel in PARALLEL {
            let rig = runtime.block_on(Rig::new());
            let loads = RATIO_WIDTHS.map(|width| body.load(width, parallel));
            let mut costs = [const { Vec::new() }; RATIO_WIDTHS.len()];
            for _ in 0..TURNS {
                for ((costs, load), width) in costs.iter_mut().zip(&loads).zip(RATIO_WIDTHS) {
                    let count = (1000 / width).max(1);
                    let took = runtime.block_on(run(&rig, body, load, count));
                    let items = u32::try_from(count * width).expect("a small number");
                    costs.push((took / items).as_secs_f64() * 1e6);
                }
            }
            let costs = costs.map(median);
            for (width, cost) in RATIO_WIDTHS.iter().zip(costs) {
                println!(
                    "{:>9} {parallel:>9} {width:>6} {:>10.0} {cost:>9.0} {:>6.2}",
                    body.name(),
                    1e6 / cost,
                    cost / costs[0]
                );
            }
            runtime.block_on(rig.stop());
        }
    }
}
