//! Rewinds, beside steps of the same execution.

use midex_domain::execution::{Report, RewindRequest};
use midex_engine::Engine;
use serde_json::json;
use tokio::runtime::Runtime;

use super::{Figures, advance, chain, id_of, median, rig::Rig, step, timed};

const TURNS: usize = 31;
/// Where the execution stands before each rewind.
const PLACE: usize = 480;
/// So many times as long as a step a rewind may take.
const STEPS_MOST: f64 = 2.0;

/// The kinds of rewinds: the name, the lines before the steps of the workflow, and how many steps it goes back.
const KINDS: [(&str, &str, usize); 3] = [
    ("rewind by 10 steps", "", 10),
    ("rewind by 100 steps", "", 100),
    ("rewind by 10 steps, with memory", "memory: { count: 0 }\n", 10),
];

/// Steps and rewinds in turns; the medians.
pub(crate) fn table(runtime: &Runtime, figures: &mut Figures) {
    println!("\nrewinds from step {PLACE} of 500; medians of {TURNS} turns\n");
    for (name, head, back) in KINDS {
        let rig = runtime.block_on(Rig::new());
        let [step, rewind] = runtime.block_on(costs(&rig.engine, head, back)).map(median);
        Figures::print("next_step", step, "µs");
        figures.hold(name, rewind / step, "steps", STEPS_MOST);
        runtime.block_on(rig.stop());
    }
}

/// What steps cost, and what rewinds cost.
async fn costs(engine: &Engine, head: &str, back: usize) -> [Vec<f64>; 2] {
    let report = || Report::Output(json!({ "summary": "done", "score": 7 }));
    let [mut steps, mut rewinds] = [Vec::new(), Vec::new()];
    let mut last = chain(head).start(engine).await;
    let id = id_of(&last);
    for _ in 0..PLACE {
        last = advance(engine, last, report()).await;
    }
    for _ in 0..TURNS {
        let to_step = step(PLACE - back);
        let request = RewindRequest { to_step, reason: None, compensates: false, past: None };
        let (took, view) = timed(engine.rewind(&id, request)).await;
        assert_eq!(view.expect("a rewind").done_again.len(), back + 1);
        rewinds.push(took);
        last = engine.last_reply(&id).await.expect("where it stands");
        for _ in 0..back {
            let (took, next) = timed(advance(engine, last, report())).await;
            steps.push(took);
            last = next;
        }
    }
    [steps, rewinds]
}
