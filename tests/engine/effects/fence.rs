//! An outcome counts for the attempt that it is of, and for no other.

use std::{sync::Arc, time::Duration};

use midex_domain::{
    Command, Decision, DecisionContext, DefaultSources, Definition, Execution,
    clock::{SeededIds, Timestamp},
    execution::{AttemptId, Effect, StartArguments},
};
use serde_json::{Value, json};

use super::{activity, defined, fails, named, seconds};
use midex_test::EPOCH;

fn decide(
    execution: &Execution,
    definition: &Definition,
    command: &Command,
    at: Timestamp,
) -> Decision {
    let facts = DecisionContext::new(definition, Duration::from_secs(3600));
    execution.decide(facts, command, at, &SeededIds::new(1)).expect("a decision")
}

fn outcome(attempt_id: &AttemptId, outcome: midex_engine::activity::Outcome) -> Command {
    Command::RecordOutcome {
        attempt_id: attempt_id.clone(),
        outcome: Arc::new(outcome.map(Into::into)),
        notes: Arc::default(),
    }
}

fn is_stay(decision: &Decision) -> bool {
    matches!(decision, Decision::NoChange)
}

fn moved(decision: Decision) -> (Execution, Vec<Effect>) {
    let Decision::Transition(transition) = decision else {
        panic!("nothing happens: {decision:?}");
    };
    (transition.execution, transition.effects)
}

fn begun(effects: &[Effect]) -> (AttemptId, Arc<Value>) {
    match effects {
        [Effect::BeginAttempt(begin)] => (begin.attempt_id.clone(), Arc::new(json!(begin.input))),
        other => panic!("one attempt begins: {other:?}"),
    }
}

#[test]
fn an_outcome_of_an_earlier_attempt_changes_nothing() {
    let more = json!({ "with": { "constant": true }, "retry": {
        "max_attempts": 3, "backoff": "1s", "max_backoff": "1s", "jitter": false } });
    let definition = defined(json!([activity("call", None, more)]), json!({}));
    let start = StartArguments {
        id: named("e"),
        project: None,
        inputs: None,
        defaults: DefaultSources::default(),
        parent: None,
        lookup: None,
        is_paced: false,
        labels: midex_domain::label::Labels::new(),
    };
    let facts = DecisionContext::new(&definition, Duration::from_secs(3600));
    let started = Execution::start(facts, start, EPOCH, &SeededIds::new(1)).expect("a start");
    let (execution, effects) = moved(Decision::Transition(Box::new(started)));
    let (first, input) = begun(&effects);

    let failed = decide(&execution, &definition, &outcome(&first, fails("network")), EPOCH);
    let (execution, _) = moved(failed);
    let again = outcome(&first, fails("network"));
    assert!(is_stay(&decide(&execution, &definition, &again, EPOCH)), "a repeat counts once");

    let later = EPOCH.plus(seconds(1));
    let Decision::MissingValues(needs) = decide(&execution, &definition, &Command::Tick, later)
    else {
        panic!("the next attempt asks for what the first was given");
    };
    let mut values = midex_domain::execution::Values::new();
    values.insert(needs[0].digest, input);
    let facts = DecisionContext {
        values: &values,
        ..DecisionContext::new(&definition, Duration::from_secs(3600))
    };
    let ticked = execution.decide(facts, &Command::Tick, later, &SeededIds::new(2));
    let (execution, effects) = moved(ticked.expect("a decision"));
    let (second, _) = begun(&effects);
    assert_eq!((first.attempt, second.attempt), (1, 2));

    let late = outcome(&first, Ok(json!("late")));
    assert!(is_stay(&decide(&execution, &definition, &late, later)));
    let good = outcome(&second, Ok(json!("good")));
    let (execution, _) = moved(decide(&execution, &definition, &good, later));
    assert!(execution.state().is_final());
}
