//! An execution beside the interpreter of its workflow: what is done to one is done to both, and both must stand alike.

use std::collections::BTreeMap;

use midex_domain::{
    Execution, JsonText, LifecycleAction, Row, StepId, WaitCondition,
    body::BodyKind,
    error::{Code, Result},
    event::VisitId,
    execution::{AttemptId, OperationFailure, SignalRequest, StepState},
    view::{self, AdvanceReply, ReadyStep, StatusView},
};
use serde_json::{Value, json};

use super::{
    Action, Brings,
    interpreter::{Entry, Interpreter, Key, Outcome, Part, Place, Waits},
    manifest::{COUNTERS, Flow, IDS, SIGNALS, id},
};
use crate::model::driven::{Again, Subject};
use midex_test::{EPOCH, list_of, play::change_to};

/// How far the engine's timers may be behind: they are looked at by the millisecond.
const LATE_MAX: u64 = 10;

/// What stands beside the work of a step.
const BODIES: [BodyKind; 4] =
    [BodyKind::OnSuccess, BodyKind::OnFailure, BodyKind::OnComplete, BodyKind::Compensation];

/// The stored value of a signal that came before its wait.
fn kept_value(outcome: &Outcome) -> Value {
    match outcome {
        Ok(payload) => payload.clone(),
        Err(code) => json!({ "code": code, "message": "gone" }),
    }
}

/// An open visit of a model's: its place and its number.
type Turn = Key;

/// A token that was seen.
struct Seen {
    text: String,
    place: Turn,
    is: Is,
}

enum Is {
    Live,
    /// Used with this, and answered so.
    Spent(Brings, Box<AdvanceReply>),
    Voided,
}

/// An execution beside the interpreter of its workflow.
pub(super) struct Pair<'a, S> {
    pub(super) model: Interpreter<'a>,
    pub(super) subject: S,
    seen: Vec<Seen>,
    /// The execution as it was found last.
    found: Option<Execution>,
}

impl<'a, S: Subject> Pair<'a, S> {
    /// An execution that has begun just now.
    pub(super) fn of(flow: &'a Flow, subject: S) -> Self {
        Self::new(Interpreter::start(flow, subject.now()), subject)
    }

    fn new(model: Interpreter<'a>, subject: S) -> Self {
        Self { model, subject, seen: Vec::new(), found: None }
    }

    pub(super) async fn act(&mut self, action: &Action) {
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
            Action::Signal { name, payload } => self.signal(*name, *payload).await,
            Action::Pass { time, late } => self.pass(*time, *late).await,
            Action::Work { which, good } => self.work(*which, *good).await,
            Action::Change(lifecycle) => self.change(*lifecycle).await,
            Action::Restart => self.subject.restart().await,
        }
    }

    async fn report(&mut self, at: usize, brings: &Brings) {
        let answer = self.subject.advance(&self.seen[at].text, brings.report()).await;
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
            assert_eq!(AdvanceReply { replayed, ..answer }, **first, "the recorded answer");
            self.check_unchanged().await;
            return;
        }
        let before = self.open_turns();
        self.model.report(self.seen[at].place.0, brings.outcome());
        self.seen[at].is = Is::Spent(brings.clone(), Box::new(answer.clone()));
        self.check_answer(&answer, &before);
    }

    /// The open turns, in authoring order.
    fn open_turns(&self) -> Vec<Turn> {
        let open = self.model.open.iter();
        let turns = open.filter(|(_, open)| open.waits == Waits::Model);
        turns.map(|(place, open)| (*place, open.visit)).collect()
    }

    async fn signal(&mut self, name: usize, payload: Option<i64>) {
        let (signal, outcome) = if let Some(payload) = payload {
            (SignalRequest::new(SIGNALS[name], json!(payload)), Ok(json!(payload)))
        } else {
            let code = Some("GONE".to_owned());
            (SignalRequest::failure(SIGNALS[name], code, "gone"), Err("GONE"))
        };
        let answer = self.subject.signal(signal).await;
        if self.model.has_ended() {
            return self.check_refused(answer, Code::ExecutionFinished).await;
        }
        answer.expect("a signal is taken in");
        self.model.signal(name, outcome);
    }

    async fn change(&mut self, lifecycle: LifecycleAction) {
        let change = change_to(lifecycle);
        let answer = self.subject.change(change).await;
        if !self.model.change(lifecycle) {
            return self.check_refused(answer, Code::StateTransitionRefused).await;
        }
        answer.expect("the state allows it");
    }

    /// One of what the server works on comes to something.
    async fn work(&mut self, which: usize, good: bool) {
        let open = self.model.open.iter();
        let works = open.filter(|(_, open)| open.waits == Waits::Act);
        let works: Vec<_> = works.map(|(place, open)| (*place, open.visit)).collect();
        let Some(at) = which.checked_rem(works.len()) else {
            return;
        };
        let outcome = if good { Ok(json!(1)) } else { Err("BROKEN") };
        self.came(works[at], outcome).await;
    }

    /// What the server waited for in a visit came to something.
    pub(super) async fn came(&mut self, key: Key, outcome: Outcome) {
        let told = match &outcome {
            Ok(output) => Ok(output.clone().into()),
            Err(code) => Err(OperationFailure {
                code: Some((*code).to_owned()),
                ..OperationFailure::new("broken", "it broke")
            }),
        };
        let attempt_id = attempt_id(&self.model, key);
        self.subject.work(attempt_id, told).await;
        self.model.work(key.0, outcome);
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

    /// Both stand at the same place.
    pub(super) async fn check(&mut self) {
        let (execution, rows) = self.subject.kept().await;
        self.check_open(&execution);
        check_execution(&self.model, &execution);
        if self.found.as_ref().is_none_or(|found| found.revision() != execution.revision()) {
            check_rows(&self.model, &execution, &rows);
        }
        let status = self.subject.state().await;
        let code = self.model.failure.or(self.model.failing);
        assert_eq!(status.state.as_str(), self.model.state);
        assert_eq!(status.error.as_ref().map(|error| error.code.as_str()), code);
        check_end(&self.model, &status);
        self.found = Some(execution);
        self.check_turns().await;
    }

    /// The open visits, and what each waits for.
    fn check_open(&mut self, execution: &Execution) {
        let found: Vec<_> = execution.open_visits().collect();
        let places: Vec<Place> = found
            .iter()
            .map(|(at, _, visit)| {
                let item = visit.item.map(|item| item as usize);
                let part = match (visit.body.name_unless_work(), item) {
                    (Some(body), item) => Part::Beside(body, item),
                    (None, Some(item)) => Part::Item(item),
                    (None, None) => Part::Work,
                };
                (*at, part)
            })
            .collect();
        assert_eq!(places, self.model.open.keys().copied().collect::<Vec<_>>(), "what is open");
        let late_max = if self.subject.keeps_time() { LATE_MAX } else { 0 };
        let attempts: BTreeMap<_, _> = (self.model.open.iter())
            .map(|(place, open)| (*place, attempt_id(&self.model, (*place, open.visit))))
            .collect();
        for ((_, _, visit), (place, open)) in found.iter().zip(&mut self.model.open) {
            assert_eq!(visit.number, open.visit, "the visit");
            match (visit.awaiting.as_ref().expect("open"), &mut open.waits) {
                (WaitCondition::Model(_), Waits::Model)
                | (WaitCondition::Items { .. }, Waits::Items)
                | (WaitCondition::Operation { .. }, Waits::Act)
                | (WaitCondition::Deferred(_), Waits::Deferred(_)) => {}
                (WaitCondition::Signal { name }, Waits::Signal(signal)) => {
                    assert_eq!(name, SIGNALS[*signal]);
                }
                (WaitCondition::Timer { due }, Waits::Timer(expected)) => {
                    let due = u64::try_from(due.since(EPOCH).as_millis()).expect("a time");
                    assert!(
                        (*expected..=*expected + late_max).contains(&due),
                        "{due}, not {expected}"
                    );
                    *expected = due;
                }
                (WaitCondition::Child { execution_id }, Waits::Child(_)) => {
                    assert_eq!(*execution_id, attempts[place].child_execution_id(execution.id()));
                }
                (found, expected) => panic!("waits for {found:?}, not {expected:?}"),
            }
        }
    }

    /// A model is shown exactly the open turns, in authoring order, each under one token.
    async fn check_turns(&mut self) {
        let turns = self.subject.turns().await;
        let shown: Vec<_> = turns.iter().map(turn).collect();
        assert_eq!(shown, self.open_turns(), "the open turns");
        let live = self.seen.iter_mut();
        for seen in live.filter(|seen| matches!(seen.is, Is::Live)) {
            let is_shown = |turn: &ReadyStep| turn.continuation_token == seen.text;
            if !turns.iter().any(is_shown) {
                assert!(!shown.contains(&seen.place), "another token: {:?}", seen.place);
                seen.is = Is::Voided;
            }
        }
        self.see(&turns);
    }

    /// Whoever is shown turns has their tokens.
    fn see(&mut self, turns: &[ReadyStep]) {
        for shown in turns {
            let text = &shown.continuation_token;
            if !self.seen.iter().any(|seen| seen.text == *text) {
                let (text, place) = (text.clone(), turn(shown));
                let is = Is::Live;
                self.seen.push(Seen { text, place, is });
            }
        }
    }

    /// The answer offers what the call made ready, in authoring order, and says where the execution stands.
    pub(super) fn check_answer(&mut self, answer: &AdvanceReply, before: &[Turn]) {
        assert_eq!(answer.workflow_state, self.model.state);
        assert_eq!(
            answer.failure.as_ref().map(|failure| failure.code.as_str()),
            self.model.failure
        );
        let offered: Vec<_> = answer.new_tokens.iter().map(turn).collect();
        let mut new = self.open_turns();
        new.retain(|turn| !before.contains(turn));
        assert_eq!(offered, new, "what the answer offers");
        self.see(&answer.new_tokens);
    }
}

impl<S: Again> Pair<'_, S> {
    /// A fork of it, or a retry; none where that is refused. Nothing happens to the execution itself.
    pub(super) async fn fork(&mut self, from: Option<usize>, is_retry: bool) -> Option<Self> {
        let expected = self.model.fork(from);
        let fork = match self.subject.fork(from.map(id), is_retry).await {
            Ok((subject, answer)) => {
                let mut fork = Self::new(expected.expect("a refusal"), subject);
                fork.check_answer(&answer, &[]);
                Some(fork)
            }
            Err(error) => {
                assert_eq!(Some(error.code()), expected.map(drop).err(), "{error:?}");
                None
            }
        };
        self.check_unchanged().await;
        fork
    }

    /// Whether nothing has happened to it since it was made, and something may.
    pub(super) fn is_untouched(&self) -> bool {
        let is_new = self.found.as_ref().is_some_and(|found| found.revision() == 1);
        is_new && !self.model.has_ended()
    }

    /// Checks that a retry is refused, or returns the first answer if nothing has happened since (`is_same`).
    pub(super) async fn check_not_retried(&mut self, is_same: bool) {
        match self.subject.fork(None, true).await {
            Ok((_, answer)) => assert!(is_same && answer.replayed, "{answer:?}"),
            Err(error) => {
                assert!(!is_same, "{error:?}");
                assert_eq!(error.code(), Code::StateTransitionRefused, "{error:?}");
            }
        }
        self.check_unchanged().await;
    }

    pub(super) async fn rewind(&mut self, to: usize) {
        let answer = self.subject.rewind(id(to)).await;
        match self.model.rewind(to) {
            Ok(()) => answer.expect("the state allows it"),
            Err(code) => return self.check_refused(answer, code).await,
        }
        // Tokens of visits that the rewind undid are superseded.
        for seen in &mut self.seen {
            let ((step, _), visit) = seen.place;
            if visit <= self.model.steps[step].forgiven {
                seen.is = Is::Voided;
            }
        }
    }
}

fn turn(turn: &ReadyStep) -> Turn {
    let position = IDS.iter().position(|id| *id == turn.step_name);
    let item = turn.step.item;
    let part = item.map_or(Part::Work, |item| Part::Item(item as usize));
    ((position.expect("a step"), part), turn.step.visit)
}

/// The only attempt of a visit.
pub(super) fn attempt_id(model: &Interpreter<'_>, ((step, part), visit): Key) -> AttemptId {
    let is_own = step == model.steps.len();
    let (body, item) = match part {
        Part::Work => (BodyKind::Work, None),
        Part::Item(item) => (BodyKind::Work, Some(item)),
        Part::Beside(body, item) => {
            (BODIES.into_iter().find(|one| one.as_str() == body).expect("a body"), item)
        }
    };
    let visit_id = VisitId {
        step: (!is_own).then(|| StepId::parse(id(step)).expect("an id")),
        body,
        visit,
        item: item.map(|item| u32::try_from(item).expect("a small number")),
    };
    AttemptId { visit_id, attempt: 1 }
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
    let expected: Vec<_> = expected.map(|left| (id(left.step), left.visit, left.item)).collect();
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

/// How often a step was entered, by the execution or by one that it continues.
fn visits(step: &StepState) -> u32 {
    step.latest_visit().map_or(0, |visit| visit.number)
}

fn check_execution(model: &Interpreter<'_>, execution: &Execution) {
    let steps: Vec<_> = execution
        .steps()
        .iter()
        .map(|step| (step.id.as_str(), step.status.as_str(), visits(step)))
        .collect();
    let expected: Vec<_> = model
        .steps
        .iter()
        .enumerate()
        .map(|(at, step)| (id(at), step.status, step.visits))
        .collect();
    assert_eq!(steps, expected, "steps with their status and visits");
    let digest = |value: &Value| JsonText::from_value(value).digest();
    let memory = list_of(&COUNTERS, |name| execution.memory().get(*name).copied());
    let expected = list_of(&model.memory, |count| Some(digest(&json!(count))));
    assert_eq!(memory, expected, "memory is {:?}", model.memory);
    let signals = execution.signals().iter();
    let signals: Vec<_> = signals.map(|signal| (signal.name.as_str(), signal.payload)).collect();
    let kept = model.kept.iter();
    let kept: Vec<_> =
        kept.map(|(name, outcome)| (SIGNALS[*name], digest(&kept_value(outcome)))).collect();
    assert_eq!(signals, kept, "signals that nothing waits for");
    // One that was paused at its end comes to it once it is resumed.
    let is_open = model.state == "running";
    let has_more = execution.open_visits().next().is_some() || !execution.orders().is_empty();
    assert!(!is_open || has_more, "an execution goes on while something is open");
    let orders: Vec<_> =
        execution.orders().iter().map(|order| (order.child.clone(), order.what)).collect();
    let expected = model.orders.iter();
    let expected: Vec<_> = expected
        .map(|order| (attempt_id(model, order.key).child_execution_id(execution.id()), order.what))
        .collect();
    assert_eq!(orders, expected, "what its children are to be told");
}

fn check_rows(model: &Interpreter<'_>, execution: &Execution, rows: &[Row]) {
    let again = Execution::replay(rows);
    assert_eq!(again.as_ref(), Some(execution), "the journal rebuilds the execution");
    let history = view::build_history(rows.iter(), |_| None);
    let history: Vec<_> = history
        .iter()
        .map(|row| Entry {
            step: IDS.into_iter().find(|id| *id == row.step_name).unwrap_or("$workflow"),
            visit: row.visit,
            item: row.item.map(|item| item as usize),
            status: &row.status,
            body: row.body.as_deref(),
            late: row.late,
        })
        .collect();
    if let Some(at) = (0..history.len().max(model.history.len()))
        .find(|at| history.get(*at) != model.history.get(*at))
    {
        let from = at.saturating_sub(8);
        let of = |history: &[Entry<'_>]| {
            format!("{:#?}", history.iter().skip(from).take(12).collect::<Vec<_>>())
        };
        panic!("the history from row {from} on is {}, not {}", of(&history), of(&model.history));
    }
}
