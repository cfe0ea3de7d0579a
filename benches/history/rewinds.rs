//! Rewinds, beside steps of the same execution.

use midex_domain::{
    execution::{PastValues, Report, RewindRequest},
    view::AdvanceReply,
};
use midex_engine::Engine;
use serde_json::json;
use tokio::runtime::Runtime;

use super::{
    Figures, MODEL_WORK, advance, chain_of, id_of, median,
    rig::{Load, Rig},
    step, timed,
};

const TURNS: usize = 31;
/// Where the execution stands before each rewind.
const PLACE: usize = 480;
/// So many times as long as a step a rewind may take.
const STEPS_MOST: f64 = 2.0;

/// The kinds of rewinds: the name, how many steps it goes back, and which steps write to memory.
const KINDS: [(&str, usize, MemoryUse); 5] = [
    ("rewind by 10 steps", 10, MemoryUse::Absent),
    ("rewind by 100 steps", 100, MemoryUse::Absent),
    ("by 10 steps, memory not written", 10, MemoryUse::Constant),
    ("by 10 steps, one of them writes memory", 10, MemoryUse::WrittenByEveryTenth),
    ("by 100 steps, ten of them write memory", 100, MemoryUse::WrittenByEveryTenth),
];

/// What the workflow does with memory.
#[derive(Clone, Copy, PartialEq)]
enum MemoryUse {
    Absent,
    Constant,
    WrittenByEveryTenth,
}

fn load(memory: MemoryUse) -> Load {
    let head = if memory == MemoryUse::Absent { "" } else { "memory: { count: 0 }\n" };
    chain_of(head, |at| match memory {
        MemoryUse::WrittenByEveryTenth if at % 10 == 5 => {
            "set: { count: '${{ memory.count + 1 }}' }".to_owned()
        }
        _ => MODEL_WORK.to_owned(),
    })
}

/// Steps and rewinds in turns; the medians.
pub(crate) fn table(runtime: &Runtime, figures: &mut Figures) {
    println!("\nrewinds from step {PLACE} of 500; medians of {TURNS} turns\n");
    for (name, back, memory) in KINDS {
        let rig = runtime.block_on(Rig::new());
        let [step, rewind] = runtime.block_on(costs(&rig.engine, &load(memory), back)).map(median);
        Figures::print("next_step", step, "µs");
        figures.hold(name, rewind / step, "steps", STEPS_MOST);
        runtime.block_on(rig.stop());
    }
}

/// What steps cost, and what rewinds cost.
async fn costs(engine: &Engine, load: &Load, back: usize) -> [Vec<f64>; 2] {
    let report = || Report::Output(json!({ "summary": "done", "score": 7 }));
    let [mut steps, mut rewinds] = [Vec::new(), Vec::new()];
    let mut last = load.start(engine).await;
    let id = id_of(&last);
    let place = step(PLACE);
    let is_there = |last: &AdvanceReply| last.step_name.as_deref() == Some(place.as_str());
    while !is_there(&last) {
        last = advance(engine, last, report()).await;
    }
    for _ in 0..TURNS {
        let to_step = step(PLACE - back);
        let request = RewindRequest {
            to_step,
            reason: None,
            compensates: false,
            past: PastValues::default(),
        };
        let (took, view) = timed(engine.rewind(&id, request)).await;
        assert_eq!(view.expect("a rewind").done_again.len(), back + 1);
        rewinds.push(took);
        last = engine.last_reply(&id).await.expect("where it stands");
        while !is_there(&last) {
            let (took, next) = timed(advance(engine, last, report())).await;
            steps.push(took);
            last = next;
        }
    }
    [steps, rewinds]
}
