//! What a plan says of every file of the corpus as it was meant, with all its inputs, against what executions of it do.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use midex_domain::{
    Definition, Digest, StepId,
    clock::SeededIds,
    event::Channel,
    execution::{DecisionContext, DryRun, DryRunStep, GateAnswer, Report, SignalRequest},
    limits,
    view::{ReadyStep, StatusView},
};
use midex_engine::{Engine, StartRequest, store::MemoryStore};
use midex_registry::{Format, Manifest};
use midex_test::{
    self, EPOCH, TokioClock,
    long::{Dice, rounds, seed},
    play::{Calls, id, request},
    sample::sample,
};
use serde_json::{Map, Value, json};

use super::{Case, SHIPPED, cases};

/// How many moves an execution is given to come to its end.
const MOVES: usize = 400;

/// How many of a hundred steps a plan must be sure of.
const SURE_PERCENT_MIN: usize = 80;

fn definition(case: &Case) -> Arc<Definition> {
    let format = match case.file.as_str() {
        "w.md" => Format::Markdown,
        "w.json" => Format::Json,
        _ => Format::Yaml,
    };
    let examined = SHIPPED.check_manifest(&Manifest::from_text(case.meant.clone(), Some(format)));
    examined.definition.unwrap_or_else(|| panic!("{}: {:?}", case.title, examined.findings))
}

/// A value for each input.
fn inputs(definition: &Definition, dice: &mut Dice) -> Map<String, Value> {
    let declared = definition.workflow.inputs.as_ref();
    let sampled = declared.map(|inputs| sample(&inputs.schema(), dice));
    sampled.and_then(|sampled| sampled.as_object().cloned()).unwrap_or_default()
}

fn planned(definition: &Definition, inputs: Map<String, Value>) -> Vec<DryRunStep> {
    let facts = DecisionContext::new(definition, limits::TOKEN_TTL);
    let ids = SeededIds::new(1);
    let rehearsal = DryRun::simulate(facts, inputs, [], EPOCH, &ids);
    rehearsal.expect("a rehearsal").steps
}

/// What came of an execution.
struct Told {
    /// What became of each step.
    statuses: BTreeMap<String, std::borrow::Cow<'static, str>>,
    /// What each step was offered as when it was entered first.
    offers: BTreeMap<String, ReadyStep>,
}

/// Leads an execution to its end: models bring what is asked of them, people approve, signals come.
async fn executed(definition: Arc<Definition>, inputs: Value, dice: &mut Dice) -> Told {
    let clock = TokioClock::starting_at(EPOCH);
    let engine = midex_test::engine(Arc::new(MemoryStore::new()), clock, 1).await;
    let start = StartRequest {
        inputs: definition.workflow.inputs.is_some().then_some(inputs),
        ..request(definition, "e")
    };
    engine.start(start).await.expect("a start");
    let mut offers = BTreeMap::new();
    for _ in 0..MOVES {
        let current = engine.current_now("e").await;
        if !["running", "paused"].contains(&&*current.workflow_state) {
            break;
        }
        for offer in &current.ready_steps {
            let first = offers.entry(offer.step_name.clone());
            first.or_insert_with(|| offer.clone());
        }
        match current.ready_steps.first() {
            Some(offer) => {
                let schema = offer.output_schema.as_ref();
                let output =
                    schema.map_or(json!({ "summary": "done" }), |schema| sample(schema, dice));
                engine.report(&offer.continuation_token, Report::Output(output)).await;
            }
            None => move_on(&engine).await,
        }
    }
    let history = engine.history_now("e").await;
    let statuses = history.into_iter().map(|row| (row.step_name, row.status));
    Told { statuses: statuses.collect(), offers }
}

/// Does what the execution waits for, where nobody's work is.
async fn move_on(engine: &Engine) {
    let status = engine.status_now("e").await;
    if let Some(answer) = approval(&status) {
        engine.commanded(answer).await;
        return;
    }
    for name in status.waits.iter().filter_map(|wait| wait.signal.clone()) {
        let _ = engine.apply_command(&id("e"), SignalRequest::new(name, json!({}))).await;
    }
    tokio::time::sleep(Duration::from_secs(3600)).await;
}

fn approval(status: &StatusView) -> Option<GateAnswer> {
    let wait = status.waits.iter().find(|wait| wait.gate.is_some())?;
    Some(GateAnswer {
        step: StepId::parse(&wait.step_name).expect("an id"),
        visit: wait.visit,
        question_digest: Digest::parse(&wait.gate.as_ref()?.shown)?,
        is_approved: true,
        person: "ann".into(),
        channel: Channel::Terminal,
        comment: None,
    })
}

/// Holds what a plan is sure of to what came of it. How many steps it is sure of.
fn compared(definition: &Definition, plan: &[DryRunStep], told: &Told, title: &str) -> usize {
    let steps = definition.workflow.steps.iter().zip(plan);
    let mut sure = 0;
    for (step, known) in steps {
        let Some(will_run) = known.will_run else {
            continue;
        };
        sure += 1;
        let status = told.statuses.get(step.id.as_str()).map_or("", |status| status);
        let was_entered = !["", "pending", "skipped"].contains(&status);
        assert_eq!(will_run, was_entered, "{title}: `{}` is {status:?}, {known:?}", step.id);
        if let Some(offer) =
            told.offers.get(step.id.as_str()).filter(|_| known.unresolved.is_empty())
        {
            let with = known.rendered.get("with").cloned();
            assert_eq!(offer.step.input, with, "{title}: `{}`", step.id);
            for line in known.rendered["guidance"].as_str().unwrap_or_default().lines() {
                assert!(
                    offer.instructions.contains(line.trim()),
                    "{title}: {line:?} is not in {}",
                    offer.instructions
                );
            }
        }
    }
    sure
}

#[tokio::test(start_paused = true)]
#[expect(clippy::print_stdout, reason = "the share is what is measured")]
async fn a_plan_with_all_inputs_is_sure_of_most_steps_and_wrong_about_none() {
    let mut dice = Dice(seed(15));
    let (mut sure, mut steps, mut compared_with) = (0, 0, 0);
    let all = cases();
    for case in &all {
        let definition = definition(case);
        for _ in 0..rounds(2, 50) {
            let inputs = inputs(&definition, &mut dice);
            let plan = planned(&definition, inputs.clone());
            let told = executed(definition.clone(), json!(inputs), &mut dice).await;
            steps += plan.len();
            // A plan presumes that what others work on comes to a good end.
            if told.statuses.values().all(|status| *status != "failed") {
                compared_with += 1;
                sure += compared(&definition, &plan, &told, &case.title);
            } else {
                sure += plan.iter().filter(|known| known.will_run.is_some()).count();
            }
        }
    }
    println!(
        "{} files, {compared_with} executions: a plan is sure of {sure} of {steps} steps, and wrong about none",
        all.len()
    );
    assert!(all.len() >= 50 && sure * 100 >= steps * SURE_PERCENT_MIN, "{sure} of {steps}");
}
