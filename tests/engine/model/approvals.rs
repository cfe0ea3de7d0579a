//! Property: approvals are never inherited. After random forks, retries and rewinds, a step that follows a gate is entered
//! only if the gate was approved in the same execution, after the fork and after the last rewind past the gate.

use std::{collections::BTreeSet, sync::Arc};

use midex_domain::{
    Event, Execution, Row, StepId,
    execution::{PastValues, Report, RewindRequest},
};
use midex_engine::{
    Engine, ForkRequest,
    store::{MemoryStore, Store},
};
use midex_test::{
    EPOCH, TokioClock, engine,
    long::Dice,
    play::{Calls, failed, gate_answer, id},
};
use proptest::prelude::*;
use serde_json::json;

use super::{cases, flow::manifest::defined, paused_runtime};

/// How many executions a case may have, and how often something is done.
const EXECUTIONS_MAX: u64 = 8;
const DEEDS: usize = 60;

/// A random workflow: the gates among its steps, and all steps that come before each.
struct Shape {
    gates: BTreeSet<usize>,
    before: Vec<BTreeSet<usize>>,
}

fn name(step: usize) -> String {
    format!("s{step}")
}

impl Shape {
    fn random(dice: &mut Dice) -> (Self, String) {
        let mut shape = Self { gates: BTreeSet::new(), before: Vec::new() };
        let count = 3 + usize::try_from(dice.roll(5)).expect("a small number");
        let steps = (0..count).map(|at| {
            let after: Vec<_> = (0..at).filter(|_| dice.roll(2) == 0).collect();
            let all = after.iter().flat_map(|step| &shape.before[*step]);
            let all = all.chain(&after).copied().collect();
            shape.before.push(all);
            let after: Vec<_> = after.into_iter().map(name).collect();
            if dice.roll(3) == 0 {
                shape.gates.insert(at);
                json!({ "id": name(at), "gate": "Go on?", "depends_on": after })
            } else {
                json!({ "id": name(at), "guidance": "Do it.", "result": {}, "depends_on": after })
            }
        });
        let steps: Vec<_> = steps.collect();
        (shape, json!({ "workflow": "w", "description": "d", "steps": steps }).to_string())
    }

    /// The rows of one execution, from the first on.
    fn check(&self, rows: &[Row]) {
        let mut approved = BTreeSet::new();
        for event in rows.iter().flat_map(|row| &row.events) {
            let entered = match event {
                Event::GateAnswered(answer) if answer.approved => {
                    approved.insert(answer.visit_id.step());
                    continue;
                }
                Event::Rewound(rewound) => {
                    approved.retain(|gate| !rewound.steps.contains(gate));
                    continue;
                }
                Event::VisitOpened(opened) => opened.visit_id.step(),
                Event::StepDone { visit_id, .. } => visit_id.step(),
                _ => continue,
            };
            let step = entered.as_str()[1..].parse::<usize>().expect("a number");
            for gate in self.before[step].intersection(&self.gates) {
                let gate = StepId::parse(&name(*gate)).expect("an id");
                assert!(
                    approved.contains(&gate),
                    "{entered} was entered without {gate}: {rows:#?}"
                );
            }
        }
    }
}

/// Does something to an execution; the id of a new one, where one is made.
async fn act(engine: &Engine, name_of: &str, steps: u64, dice: &mut Dice) -> Option<String> {
    let step = StepId::parse(&name(usize::try_from(dice.roll(steps)).ok()?)).expect("an id");
    let from_step = (dice.roll(3) > 0).then(|| step.clone());
    match dice.roll(9) {
        0 | 1 => {
            let request = ForkRequest {
                is_retry: dice.roll(2) == 0,
                from_step,
                ..ForkRequest::new(id(name_of))
            };
            let (_, answer) = engine.fork(request).await.ok()?;
            return Some(answer.execution_id);
        }
        2 => {
            let request = RewindRequest {
                to_step: step,
                reason: None,
                compensates: false,
                past: PastValues::default(),
            };
            let _ = engine.rewind(&id(name_of), request).await;
        }
        3..6 => {
            let status = engine.status_now(name_of).await;
            if status.waits.iter().any(|wait| wait.gate.is_some()) {
                let answer = gate_answer(&status, dice.roll(6) > 0, None);
                engine.apply_command(&id(name_of), answer).await.expect("an answer");
            }
        }
        _ => {
            let open = engine.current_now(name_of).await.ready_steps;
            let report = match dice.roll(8) {
                0 => failed("it could not be done", None),
                number => Report::Output(json!(number)),
            };
            let last = open.last().map(|open| &open.continuation_token);
            if let Some(token) = last.filter(|token| !token.is_empty()) {
                let _ = engine.advance(token, report).await;
            }
        }
    }
    None
}

proptest! {
    #![proptest_config(cases(40, 3000))]

    #[test]
    fn no_step_after_a_gate_is_entered_without_an_approval_of_its_own_execution(seed in any::<u64>()) {
        paused_runtime().block_on(async {
            let mut dice = Dice(seed);
            let (shape, manifest) = Shape::random(&mut dice);
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
            let clock = TokioClock::starting_at(EPOCH);
            let mut running = engine(store.clone(), clock, 1).await;
            running.begin(Arc::new(defined(&manifest).expect("no fault")), "e").await;
            let mut all = vec!["e".to_owned()];
            for deed in 0..DEEDS {
                if dice.roll(20) == 0 {
                    running = engine(store.clone(), clock, deed as u64 + 2).await;
                }
                let who = usize::try_from(dice.roll(all.len() as u64)).expect("a small number");
                let made = act(&running, &all[who], shape.before.len() as u64, &mut dice).await;
                all.extend(made.filter(|id| !all.contains(id)));
                all.truncate(usize::try_from(EXECUTIONS_MAX).expect("a small number"));
            }
            for name in &all {
                let rows = store.load_history(&id(name)).await.expect("the store answers");
                let stored = store.load(&id(name)).await.expect("the store answers");
                let execution = stored.expect("the execution exists").execution;
                assert_eq!(Execution::replay(&rows), Some(execution), "the rows rebuild it");
                shape.check(&rows);
            }
        });
    }
}
