//! An execution: its state, what it would do at a command ([`Execution::decide`]), and how events make
//! its next state ([`Execution::advance`]).
//!
//! Nothing here reads a clock, draws randomness, waits or fails for reasons outside its arguments.

mod advance;
mod answers;
mod apply;
mod children;
mod choice;
mod command;
mod decide;
mod decision;
mod effect;
mod ending;
mod enter;
mod flow;
mod hooks;
mod invariants;
mod items;
mod join;
mod judged;
mod lifecycle;
mod list;
mod offers;
mod pages;
mod people;
mod rehearsal;
mod scope;
mod signal;
mod time;
mod transition;
mod visit;
mod work;

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

pub use self::answers::{Question, UTTERANCE};
pub use self::{
    command::{
        Change, Command, GateAnswer, Lifecycle, Report, Resolution, SignalRequest, Start,
        Submission, Verdict,
    },
    decision::{Decision, Facts, Need, Transition, Values},
    list::Items,
    offers::Offer,
    rehearsal::{Rehearsal, Rehearsed},
    visit::{Closed, RecordedCall, StepState, SupersededToken, Visit},
    work::{Attachment, AttemptId, Begin, Brought, Effect, OperationFailure, Page, Safety},
};
pub use super::state::StepStatus;
use super::{
    document::Digest,
    event::{
        Awaiting, Body, ConsumedCall, Event, Failure, Order, Ordered, Outcome, OutputFault, Owner,
        Parent, PauseReason, Payload, Reported, Row, Skipped, VisitId,
    },
    id::{ExecutionId, StepId, WorkflowName},
    state::State,
};
use crate::clock::Timestamp;

/// An execution as it stands after its last transition.
///
/// Invariant: it is what [`Execution::advance`] makes of its journal rows, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    pub(super) id: ExecutionId,
    pub(super) workflow: WorkflowName,
    pub(super) definition: Digest,
    pub(super) project: Option<Arc<str>>,
    pub(super) inputs: Option<Digest>,
    pub(super) call: Digest,
    pub(super) state: State,
    pub(super) revision: u64,
    pub(super) started_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) completed_at: Option<Timestamp>,
    pub(super) failure: Option<Failure>,
    /// Each step is shared with the predecessor until it changes.
    pub(super) steps: Vec<Arc<StepState>>,
    /// What keeps it from going on: a set, in order.
    pub(super) pauses: Vec<PauseReason>,
    /// Why its state was last changed, in somebody's words.
    pub(super) reason: Option<String>,
    /// How many artifacts it has.
    pub(super) artifacts: u32,
    /// What memory holds, each value stored by digest.
    pub(super) memory: BTreeMap<String, Digest>,
    /// Signals that nothing has waited for yet, oldest first.
    pub(super) signals: Vec<Signal>,
    /// The failure it will end with, once what runs nevertheless is done.
    pub(super) failing: Option<Failure>,
    /// What it came to, as its workflow declares it.
    pub(super) final_output: Option<Digest>,
    /// What of that could not be computed.
    pub(super) final_output_faults: Vec<OutputFault>,
    /// How many visits its steps have had, items not counted.
    pub(super) visits: u32,
    /// Since when it has been paused.
    pub(super) paused_at: Option<Timestamp>,
    /// How long earlier pauses lasted together, in milliseconds.
    pub(super) paused_ms: u64,
    /// The inputs that it was started with.
    pub(super) given: Option<Digest>,
    /// The state to come, where its end began without a failure.
    pub(super) ending: Option<State>,
    /// The visits whose effects can be taken back, in the order in which they were done.
    pub(super) compensations: Vec<Compensation>,
    /// The visits whose effects could not be taken back.
    pub(super) not_compensated: Vec<NotCompensated>,
    /// The hooks of the workflow, once one of them was entered: a step that is in no list.
    pub(super) whole: Option<Arc<StepState>>,
    /// The execution that it is a child of.
    pub(super) parent: Option<Arc<Parent>>,
    /// What its children are still to be told, oldest first.
    pub(super) orders: Vec<Order>,
    /// What its steps offer their client, oldest first: at most [`crate::limits::OFFERS_MAX`].
    pub(super) offers: Vec<Offer>,
    /// Where it looks up workflows, stored by digest.
    pub(super) lookup: Option<Digest>,
}

/// A signal that nothing has waited for yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// Its name.
    pub name: String,
    /// What came with it, stored by digest.
    pub payload: Digest,
}

/// A visit whose effect can be taken back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compensation {
    /// The visit of the work.
    pub visit_id: VisitId,
    /// Where its output lies.
    pub output: Option<Need>,
    /// The list that it is an item of, where it is one.
    pub list: Option<Digest>,
}

/// A visit whose effect was not taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotCompensated {
    /// The visit of the work.
    pub visit_id: VisitId,
    /// Why.
    pub why: String,
}

impl Execution {
    /// Its id.
    pub fn id(&self) -> &ExecutionId {
        &self.id
    }

    /// The name of its workflow.
    pub fn workflow(&self) -> &WorkflowName {
        &self.workflow
    }

    /// The digest of the definition it keeps.
    pub fn definition(&self) -> Digest {
        self.definition
    }

    /// The project it was started for.
    pub fn project(&self) -> Option<&str> {
        self.project.as_deref()
    }

    /// The digest of its [`super::Lookup`].
    pub fn lookup(&self) -> Option<Digest> {
        self.lookup
    }

    /// The digest of its inputs as they stand.
    pub fn inputs(&self) -> Option<Digest> {
        self.inputs
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// The number of its last transition, from 1.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// When it ended.
    pub fn completed_at(&self) -> Option<Timestamp> {
        self.completed_at
    }

    /// What keeps it from going on: empty unless it is paused.
    pub fn pauses(&self) -> &[PauseReason] {
        &self.pauses
    }

    /// The names of what keeps it from going on.
    pub(super) fn pause_names(&self) -> String {
        let names: Vec<_> = self.pauses.iter().map(|reason| reason.as_str()).collect();
        names.join(", ")
    }

    /// The reason, as it follows what it is the reason of.
    pub(super) fn why(&self) -> String {
        let reason = self.reason.as_deref();
        reason.map_or_else(String::new, |reason| format!(": {reason}"))
    }

    /// Its steps, in authoring order.
    pub fn steps(&self) -> &[Arc<StepState>] {
        &self.steps
    }

    /// Takes each of `pending` that says the same in the place of its own step, so that executions share its memory.
    pub fn share_pending(&mut self, pending: &[Arc<StepState>]) {
        for (own, shared) in self.steps.iter_mut().zip(pending) {
            if own == shared {
                own.clone_from(shared);
            }
        }
    }

    /// The state to come, where its end began: what is left to do comes first.
    pub fn ending(&self) -> Option<State> {
        let failing = self.failing.as_ref().map(|_| State::Failed);
        failing.or(self.ending)
    }

    /// Whether its end began, and is not a good one: that one stays.
    fn is_ending_badly(&self) -> bool {
        self.ending().is_some_and(|to| to != State::Completed)
    }

    /// The visits whose effects could not be taken back, in the order in which that was found out.
    pub fn not_compensated(&self) -> &[NotCompensated] {
        &self.not_compensated
    }

    /// The step with this id and its position.
    pub fn step(&self, id: &StepId) -> Option<(usize, &StepState)> {
        self.steps
            .iter()
            .enumerate()
            .find(|(_, step)| step.id == *id)
            .map(|(at, step)| (at, &**step))
    }

    /// The open visits, in authoring order, each before those of its items; those of the workflow's hooks last, at the
    /// position behind all steps.
    pub fn open(&self) -> impl Iterator<Item = (usize, &StepState, &Visit)> {
        let steps = self.steps.iter().chain(&self.whole).enumerate();
        steps
            .filter(|(_, step)| step.status == StepStatus::Running || !step.beside.is_empty())
            .flat_map(|(at, step)| {
                let own = step.visit().filter(|visit| visit.awaiting.is_some());
                let open = own.into_iter().chain(step.items.open());
                open.chain(step.beside())
                    .map(move |visit| (at, &**step, visit))
            })
    }

    /// The open visits whose wait `wanted` picks, each with what it picks.
    fn awaiting<T>(&self, wanted: impl Fn(&Awaiting) -> Option<T>) -> Vec<(VisitId, T)> {
        let picked = self.open().filter_map(|(_, step, visit)| {
            let picked = wanted(visit.awaiting.as_ref()?)?;
            Some((visit.visit_id(&step.id), picked))
        });
        picked.collect()
    }

    /// The visit that is meant, where there is one.
    pub fn visit(&self, visit_id: &VisitId) -> Option<(usize, &StepState, &Visit)> {
        let (at, step) = match &visit_id.step {
            Some(id) => self.step(id)?,
            None => (self.steps.len(), self.whole.as_deref()?),
        };
        Some((at, step, step.visit_of(visit_id)?))
    }

    /// What memory holds, each value stored by digest.
    pub fn memory(&self) -> &BTreeMap<String, Digest> {
        &self.memory
    }

    /// Signals that nothing has waited for yet, oldest first.
    pub fn signals(&self) -> &[Signal] {
        &self.signals
    }
}
