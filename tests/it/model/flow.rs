//! The model test of control flow: random manifests and what may happen to an execution of them, against an interpreter that was
//! written from the contract. Besides, what must hold whatever the interpreter says: the journal rebuilds the execution, a spent
//! token gets the same answer, and nothing that goes on waits for nobody.
//!
//! A failing case prints the manifest and what was done.

mod interpreter;
pub(super) mod manifest;

use std::sync::Arc;

use midex::{
    clock::TokioClock,
    domain::{
        Awaiting, Change, Document, Execution, Lifecycle, Row,
        execution::{OperationFailure, Report},
        view::{self, Advanced, ReadyStep, StatusView},
    },
    error::{Code, Result},
    store::{MemoryStore, Store},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use self::{
    interpreter::{Entry, Interpreter, Part, Place, Waits},
    manifest::{COUNTERS, Flow, IDS, SIGNALS, flows, id},
};
use super::{
    cases,
    driven::{ID, Pure, Subject, Whole},
    paused_runtime,
};
use crate::support::{self, EPOCH};

/// What happens. Indices are taken modulo what there is.
#[derive(Clone, Debug)]
enum Action {
    /// A model reports: with an open turn's token, counted from the first.
    Report {
        turn: usize,
        brings: Brings,
    },
    /// Somebody uses any token that was ever seen, counted from the latest.
    Again {
        token: usize,
        same: bool,
    },
    Signal {
        name: usize,
        payload: i64,
    },
    /// Time passes; where it is late, nobody looks before its end.
    Pass {
        time: u64,
        late: bool,
    },
    /// What the server works on comes to something.
    Work {
        which: usize,
        good: bool,
    },
    Change(Lifecycle),
    /// Everything in memory is lost.
    Restart,
}

#[derive(Clone, Debug, PartialEq)]
enum Brings {
    Number(i64),
    List(Vec<i64>),
    Error,
}

impl Brings {
    fn report(&self) -> Report {
        match self {
            Self::Number(number) => Report::Output(json!(number)),
            Self::List(list) => Report::Output(json!(list)),
            Self::Error => Report::Error {
                message: "it could not be done".into(),
                code: Some("BROKEN".into()),
                retryable: None,
            },
        }
    }

    fn outcome(&self) -> interpreter::Outcome {
        match self.report() {
            Report::Output(output) | Report::Answer(output) => Ok(output),
            Report::Error { .. } => Err("BROKEN"),
        }
    }
}

fn actions(time: impl Strategy<Value = u64> + 'static) -> impl Strategy<Value = Vec<Action>> {
    let brings = prop_oneof![
        6 => (0..3i64).prop_map(Brings::Number),
        2 => prop::collection::vec(0..4i64, 0..4).prop_map(Brings::List),
        2 => Just(Brings::Error),
    ];
    let action = prop_oneof![
        20 => (0..4usize, brings).prop_map(|(turn, brings)| Action::Report { turn, brings }),
        4 => (0..20usize, any::<bool>()).prop_map(|(token, same)| Action::Again { token, same }),
        3 => (0..SIGNALS.len(), 0..3i64).prop_map(|(name, payload)| Action::Signal { name, payload }),
        4 => (time, any::<bool>()).prop_map(|(time, late)| Action::Pass { time, late }),
        5 => (0..4usize, prop::bool::weighted(0.7)).prop_map(|(which, good)| Action::Work { which, good }),
        4 => prop_oneof![
            2 => Just(Lifecycle::Pause),
            6 => Just(Lifecycle::Resume),
            1 => Just(Lifecycle::Abandon),
            1 => Just(Lifecycle::Diverge),
            1 => Just(Lifecycle::Fail),
        ].prop_map(Action::Change),
        1 => Just(Action::Restart),
    ];
    prop::collection::vec(action, 1..40)
}

/// A token that was seen.
struct Seen {
    text: String,
    place: Place,
    is: Is,
}

enum Is {
    Live,
    /// Used with this, and answered so.
    Spent(Brings, Box<Advanced>),
    Voided,
}

/// An execution beside the interpreter of its workflow.
struct Pair<'a, S> {
    model: Interpreter<'a>,
    subject: S,
    seen: Vec<Seen>,
    /// The execution as it was found last.
    found: Option<Execution>,
}

/// How far the engine's timers may be behind: they are looked at by the millisecond.
const LATE_MAX: u64 = 10;

async fn run<S: Subject>(flow: &Flow, actions: &[Action], mut subject: S) {
    let answer = subject.start(ID, true).await.expect("a start");
    let model = Interpreter::start(flow);
    let mut pair = Pair {
        model,
        subject,
        seen: Vec::new(),
        found: None,
    };
    let new = pair.check().await;
    pair.check_answer(&answer, &new);
    for action in actions {
        pair.model.now = pair.subject.now();
        pair.act(action).await;
    }
}

impl<S: Subject> Pair<'_, S> {
    async fn act(&mut self, action: &Action) {
        match action {
            Action::Report { turn, brings } => {
                let live: Vec<_> = (0..self.seen.len())
                    .filter(|at| matches!(self.seen[*at].is, Is::Live))
                    .collect();
                if let Some(at) = live.get(turn % live.len().max(1)) {
                    self.report(*at, brings).await;
                }
            }
            Action::Again { token, same } if !self.seen.is_empty() => {
                let at = self.seen.len() - 1 - token % self.seen.len();
                let brings = match &self.seen[at].is {
                    Is::Spent(brings, _) if *same => brings.clone(),
                    _ => Brings::Number(7),
                };
                self.report(at, &brings).await;
            }
            Action::Again { .. } => {}
            Action::Signal { name, payload } => self.signal(*name, json!(payload)).await,
            Action::Pass { time, late } => self.pass(*time, *late).await,
            Action::Work { which, good } => self.work(*which, *good).await,
            Action::Change(lifecycle) => self.change(*lifecycle).await,
            Action::Restart => {
                self.subject.restart().await;
                self.check().await;
            }
        }
    }

    async fn report(&mut self, at: usize, brings: &Brings) {
        let answer = self
            .subject
            .advance(&self.seen[at].text, brings.report())
            .await;
        let refusal = match &self.seen[at].is {
            Is::Voided => Some(Code::TokenSuperseded),
            Is::Spent(first, _) if first != brings => Some(Code::TokenAlreadyUsed),
            Is::Live if self.model.state == "paused" => Some(Code::ExecutionPaused),
            Is::Spent(..) | Is::Live => None,
        };
        if let Some(code) = refusal {
            return self.check_refused(answer, code).await;
        }
        let answer = answer.expect("a token that is valid");
        if let Is::Spent(_, first) = &self.seen[at].is {
            assert!(answer.replayed);
            let replayed = first.replayed;
            assert_eq!(
                Advanced { replayed, ..answer },
                **first,
                "the recorded answer"
            );
            self.check_unchanged().await;
            return;
        }
        self.model.report(self.seen[at].place, brings.outcome());
        self.seen[at].is = Is::Spent(brings.clone(), Box::new(answer.clone()));
        let new = self.check().await;
        self.check_answer(&answer, &new);
    }

    async fn signal(&mut self, name: usize, payload: Value) {
        let answer = self.subject.signal(SIGNALS[name], payload.clone()).await;
        if self.model.has_ended() {
            return self.check_refused(answer, Code::ExecutionFinished).await;
        }
        answer.expect("a signal is taken in");
        self.model.signal(name, payload);
        self.check().await;
    }

    async fn change(&mut self, lifecycle: Lifecycle) {
        let change = Change {
            lifecycle,
            reason: None,
        };
        let answer = self.subject.change(change).await;
        if !self.model.change(lifecycle) {
            return self
                .check_refused(answer, Code::StateTransitionRefused)
                .await;
        }
        answer.expect("the state allows it");
        self.check().await;
    }

    /// One of what the server works on comes to something.
    async fn work(&mut self, which: usize, good: bool) {
        let open = self.model.open.iter();
        let works = open.filter(|(_, open)| open.waits == Waits::Act);
        let places: Vec<_> = works.map(|(place, _)| *place).collect();
        let Some(at) = which.checked_rem(places.len()) else {
            return;
        };
        let failure = OperationFailure::new("broken", "it broke");
        let outcome = if good {
            Ok(json!(1).into())
        } else {
            Err(failure)
        };
        self.subject.work(at, outcome).await;
        let outcome = if good { Ok(json!(1)) } else { Err("BROKEN") };
        self.model.work(places[at], outcome);
        self.check().await;
    }

    async fn pass(&mut self, time: u64, late: bool) {
        let end = self.model.now + time;
        if self.subject.keeps_time() || !late {
            while let Some(due) = self.model.due().filter(|due| *due <= end) {
                self.subject.pass_until(due).await;
                self.model.tick(due);
            }
        }
        self.subject.pass_until(end).await;
        self.model.tick(end);
        self.check().await;
    }

    async fn check_refused<T: std::fmt::Debug>(&mut self, answer: Result<T>, code: Code) {
        let error = answer.expect_err("a refusal");
        assert_eq!(error.code(), code, "{error:?}");
        self.check_unchanged().await;
    }

    async fn check_unchanged(&mut self) {
        let (execution, _) = self.subject.kept().await;
        assert_eq!(Some(&execution), self.found.as_ref(), "nothing happened");
    }

    /// Both stand at the same place. Gives the turns that are new.
    async fn check(&mut self) -> Vec<ReadyStep> {
        let (execution, rows) = self.subject.kept().await;
        self.check_open(&execution);
        check_execution(&self.model, &execution);
        if self
            .found
            .as_ref()
            .is_none_or(|found| found.revision() != execution.revision())
        {
            check_rows(&self.model, &execution, &rows);
        }
        let status = self.subject.state().await;
        let code = self.model.failure.or(self.model.failing);
        assert_eq!(
            (
                status.state.as_str(),
                status.error.as_ref().map(|error| error.code.as_str())
            ),
            (self.model.state, code)
        );
        check_end(&self.model, &status);
        self.found = Some(execution);
        self.check_turns().await
    }

    /// The open visits, and what each waits for.
    fn check_open(&mut self, execution: &Execution) {
        let found: Vec<_> = execution.open().collect();
        let places: Vec<Place> = found
            .iter()
            .map(|(at, _, visit)| {
                let item = visit.item.map(|item| item as usize);
                let part = match (visit.body.beside(), item) {
                    (Some(body), item) => Part::Beside(body, item),
                    (None, Some(item)) => Part::Item(item),
                    (None, None) => Part::Work,
                };
                (*at, part)
            })
            .collect();
        assert_eq!(
            places,
            self.model.open.keys().copied().collect::<Vec<_>>(),
            "what is open"
        );
        let late_max = if self.subject.keeps_time() {
            LATE_MAX
        } else {
            0
        };
        for ((_, _, visit), open) in found.iter().zip(self.model.open.values_mut()) {
            assert_eq!(visit.number, open.visit, "the visit");
            match (visit.awaiting.as_ref().expect("open"), &mut open.waits) {
                (Awaiting::Model(_), Waits::Model)
                | (Awaiting::Items { .. }, Waits::Items)
                | (Awaiting::Operation { .. }, Waits::Act)
                | (Awaiting::Deferred(_), Waits::Deferred(_)) => {}
                (Awaiting::Signal { name }, Waits::Signal(signal)) => {
                    assert_eq!(name, SIGNALS[*signal]);
                }
                (Awaiting::Timer { due }, Waits::Timer(expected)) => {
                    let due = u64::try_from(due.since(EPOCH).as_millis()).expect("a time");
                    assert!(
                        (*expected..=*expected + late_max).contains(&due),
                        "{due}, not {expected}"
                    );
                    *expected = due;
                }
                (found, expected) => panic!("waits for {found:?}, not {expected:?}"),
            }
        }
    }

    /// A model is shown exactly the open turns, in authoring order.
    async fn check_turns(&mut self) -> Vec<ReadyStep> {
        let turns = self.subject.turns().await;
        let shown: Vec<Place> = turns.iter().map(place).collect();
        let open = self
            .model
            .open
            .iter()
            .filter(|(_, open)| open.waits == Waits::Model);
        let (expected, visits): (Vec<_>, Vec<_>) =
            open.map(|(place, open)| (*place, open.visit)).unzip();
        assert_eq!(shown, expected, "the open turns");
        assert_eq!(
            turns.iter().map(|turn| turn.step.visit).collect::<Vec<_>>(),
            visits
        );
        let mut new = Vec::new();
        let is_shown = |seen: &Seen| {
            turns
                .iter()
                .any(|turn| turn.continuation_token == seen.text)
        };
        for seen in self
            .seen
            .iter_mut()
            .filter(|seen| matches!(seen.is, Is::Live))
        {
            if !is_shown(seen) {
                seen.is = Is::Voided;
            }
        }
        for turn in turns {
            if !self
                .seen
                .iter()
                .any(|seen| seen.text == turn.continuation_token)
            {
                let (text, place) = (turn.continuation_token.clone(), place(&turn));
                self.seen.push(Seen {
                    text,
                    place,
                    is: Is::Live,
                });
                new.push(turn);
            }
        }
        new
    }

    /// The answer offers what the call made ready, in authoring order, and says where the execution stands.
    fn check_answer(&self, answer: &Advanced, new: &[ReadyStep]) {
        assert_eq!(answer.workflow_state, self.model.state);
        assert_eq!(
            answer.failure.as_ref().map(|failure| failure.code.as_str()),
            self.model.failure
        );
        let offered: Vec<_> = answer
            .new_tokens
            .iter()
            .map(|offer| &offer.continuation_token)
            .collect();
        let new: Vec<_> = new.iter().map(|turn| &turn.continuation_token).collect();
        assert_eq!(offered, new, "what the answer offers");
    }
}

fn place(turn: &ReadyStep) -> Place {
    let position = IDS.iter().position(|id| *id == turn.step_name);
    let item = turn.step.item;
    let part = item.map_or(Part::Work, |item| Part::Item(item as usize));
    (position.expect("a step"), part)
}

/// What is said of the end.
fn check_end(model: &Interpreter<'_>, status: &StatusView) {
    assert_eq!(status.ending.as_deref(), model.ending());
    let left = status.not_compensated.iter();
    let left: Vec<_> = left
        .map(|left| {
            let item = left.item.map(|item| item as usize);
            (left.step.as_str(), left.visit, item)
        })
        .collect();
    let expected = model.not_compensated.iter();
    let expected: Vec<_> = expected
        .map(|left| (id(left.step), left.visit, left.item))
        .collect();
    assert_eq!(left, expected, "what was not taken back");
    let failed = status.hook_failures.iter();
    let mut failed: Vec<_> = failed
        .map(|failed| {
            let (step, hook) = (failed.step.as_deref(), failed.hook.as_str());
            (step, failed.visit, hook, failed.error.code.as_str())
        })
        .collect();
    let expected = model.hook_failures.iter();
    let mut expected: Vec<_> = expected
        .map(|(step, visit, hook, code)| {
            let step = (*step < model.steps.len()).then(|| id(*step));
            (step, *visit, *hook, *code)
        })
        .collect();
    failed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(failed, expected, "hooks that failed");
}

fn check_execution(model: &Interpreter<'_>, execution: &Execution) {
    let steps: Vec<_> = execution
        .steps()
        .iter()
        .map(|step| (step.id.as_str(), step.status.as_str(), step.visits.len()))
        .collect();
    let expected: Vec<_> = model
        .steps
        .iter()
        .enumerate()
        .map(|(at, step)| (id(at), step.status, step.visits as usize))
        .collect();
    assert_eq!(steps, expected, "steps with their status and visits");
    let digest = |value: &Value| Document::of(value).digest();
    let memory: Vec<_> = COUNTERS
        .iter()
        .map(|name| execution.memory().get(*name).copied())
        .collect();
    let expected: Vec<_> = model
        .memory
        .iter()
        .map(|count| Some(digest(&json!(count))))
        .collect();
    assert_eq!(memory, expected, "memory is {:?}", model.memory);
    let signals = execution.signals().iter();
    let signals: Vec<_> = signals
        .map(|signal| (signal.name.as_str(), signal.payload))
        .collect();
    let kept = model.kept.iter();
    let kept: Vec<_> = kept
        .map(|(name, payload)| (SIGNALS[*name], digest(payload)))
        .collect();
    assert_eq!(signals, kept, "signals that nothing waits for");
    let is_open = !execution.state().is_final();
    assert_eq!(
        execution.open().next().is_some(),
        is_open,
        "an execution goes on while something is open"
    );
}

fn check_rows(model: &Interpreter<'_>, execution: &Execution, rows: &[Row]) {
    let again = Execution::replay(rows);
    assert_eq!(
        again.as_ref(),
        Some(execution),
        "the journal rebuilds the execution"
    );
    let history = view::history(rows.iter(), |_| None);
    let history: Vec<_> = history
        .iter()
        .map(|row| Entry {
            step: IDS
                .into_iter()
                .find(|id| *id == row.step_name)
                .unwrap_or("$workflow"),
            visit: row.visit,
            item: row.item.map(|item| item as usize),
            status: row.status,
            body: row.body,
            late: row.late,
        })
        .collect();
    if let Some(at) = (0..history.len().max(model.history.len()))
        .find(|at| history.get(*at) != model.history.get(*at))
    {
        let from = at.saturating_sub(8);
        let of = |history: &[Entry]| {
            format!(
                "{:#?}",
                history.iter().skip(from).take(12).collect::<Vec<_>>()
            )
        };
        panic!(
            "the history from row {from} on is {}, not {}",
            of(&history),
            of(&model.history)
        );
    }
}

/// Timers that often become due together.
fn coarse(_: usize, units: u64) -> u64 {
    units * 1000
}

/// Timers that never do, whatever follows what: each may be entered three times at most. Those of `on_failure` begin anew,
/// half a unit beside the others: tokens do not live as long as the tenth power.
fn distinct(position: usize, _: u64) -> u64 {
    let power = u32::try_from(position % 8).expect("a small number");
    100 * 4_u64.pow(power) + if position < 8 { 0 } else { 50 }
}

proptest! {
    #![proptest_config(cases(80, 2000))]

    #[test]
    fn the_domain_follows_a_manifest_as_the_interpreter_does(flow in flows(coarse, true), actions in actions((0..4u64).prop_map(|units| units * 1000))) {
        paused_runtime().block_on(async {
            let subject = Pure::new(flow.definition.clone(), TokioClock::starting_at(EPOCH));
            run(&flow, &actions, subject).await;
        });
    }
}

proptest! {
    #![proptest_config(cases(30, 500))]

    #[test]
    // Each time is odd in its own way, so that nothing is due at the very instant at which somebody looks.
    fn the_engine_follows_a_manifest_as_the_interpreter_does(flow in flows(distinct, false), actions in actions((0..8u32).prop_map(|power| 100 * 4_u64.pow(power) + 17))) {
        paused_runtime().block_on(async {
            let clock = TokioClock::starting_at(EPOCH);
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
            let engine = support::engine(store.clone(), clock, 1).await;
            let subject = Whole { definition: flow.definition.clone(), clock, store, engine, seed: 1 };
            run(&flow, &actions, subject).await;
        });
    }
}
