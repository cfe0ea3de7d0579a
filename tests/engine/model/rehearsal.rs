//! What a plan says before an execution begins, against what an execution enters: of random manifests, whose steps bring
//! random outputs in a random order.

use midex_domain::{
    clock::SeededIds,
    execution::{DecisionContext, DryRun, DryRunStep, Report, SignalRequest},
    limits,
    view::ReadyStep,
};
use midex_engine::store::MemoryStore;
use midex_test::{
    self, EPOCH, TokioClock,
    long::Dice,
    play::{Calls, id},
};
use proptest::prelude::*;
use serde_json::{Map, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{
    cases,
    flow::manifest::{Flow, Has, SIGNALS, flows},
    paused_runtime,
};

/// How many moves an execution is given to come to its end.
const MOVES: usize = 400;

const HAS: Has = Has { timers: true, activities: false, children: false };

fn rehearsed(flow: &Flow) -> Vec<DryRunStep> {
    let facts = DecisionContext::new(&flow.definition, limits::TOKEN_TTL);
    let ids = SeededIds::new(1);
    let rehearsal = DryRun::simulate(facts, Map::new(), [], EPOCH, &ids);
    rehearsal.expect("a rehearsal").steps
}

/// What an execution did that came to a good end, none of its steps failed.
struct Done {
    /// The steps that it entered.
    entered: BTreeSet<String>,
    /// What each step of a model was offered as when it was entered first.
    offers: BTreeMap<String, ReadyStep>,
}

async fn done(flow: &Flow, seed: u64) -> Option<Done> {
    let mut dice = Dice(seed);
    let engine =
        midex_test::engine(Arc::new(MemoryStore::new()), TokioClock::starting_at(EPOCH), 1).await;
    engine.begin(flow.definition.clone(), "e").await;
    let mut offers = BTreeMap::new();
    for _ in 0..MOVES {
        let current = engine.current_now("e").await;
        if current.workflow_state != "running" {
            break;
        }
        let open = current.ready_steps;
        for offer in open.iter().filter(|offer| offer.step.visit == 1) {
            offers.insert(offer.step_name.clone(), offer.clone());
        }
        if open.is_empty() {
            for name in SIGNALS {
                let signal = SignalRequest::new(name, json!(dice.roll(3)));
                let _ = engine.apply_command(&id("e"), signal).await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        }
        let at = usize::try_from(dice.roll(open.len() as u64)).unwrap();
        let brings = match dice.roll(3) {
            0 => json!([0, 1]),
            _ => json!(dice.roll(3)),
        };
        engine.report(&open[at].continuation_token, Report::Output(brings)).await;
    }
    let status = engine.status_now("e").await;
    let history = engine.history_now("e").await;
    let is_good = status.state == "completed" && history.iter().all(|row| row.status != "failed");
    let entered =
        history.into_iter().filter(|row| row.status != "skipped" && row.status != "pending");
    is_good.then(|| Done { entered: entered.map(|row| row.step_name).collect(), offers })
}

proptest! {
    #![proptest_config(cases(120, 3000))]

    #[test]
    fn a_plan_is_never_wrong(flow in flows(|_, units| units * 1000, HAS), seed in any::<u64>()) {
        paused_runtime().block_on(async {
            let plan = rehearsed(&flow);
            let Some(Done { entered, offers }) = done(&flow, seed).await else { return };
            for (step, known) in flow.definition.workflow.steps.iter().zip(plan) {
                let is_entered = entered.contains(step.id.as_str());
                assert!(known.will_run.is_none_or(|will_run| will_run == is_entered), "{}: {known:?}, and entered: {entered:?}", step.id);
                // What is shown whole is what the engine enters the step with.
                let offer = offers.get(step.id.as_str());
                if let Some(offer) = offer.filter(|_| known.will_run == Some(true) && known.unresolved.is_empty()) {
                    assert_eq!(offer.step.input.as_ref(), known.rendered.get("with"), "{}", step.id);
                    let words = known.rendered["guidance"].as_str().unwrap_or_default();
                    assert!(offer.instructions.contains(words), "{}: {words}", step.id);
                }
            }
        });
    }
}
