//! An execution: its state, the transition that a command would cause ([`Execution::decide`]), and the state that a
//! journal row leads to ([`Execution::apply_row`]).
//!
//! Everything here is a pure function of its arguments: no clock, no randomness, no waiting, no IO.

mod advance;
mod answers;
mod apply;
mod children;
mod choice;
mod command;
mod control;
mod decide;
mod decision;
mod effect;
mod ending;
mod enter;
mod flow;
mod fork;
mod hooks;
mod imported;
mod invariants;
mod items;
mod join;
mod judge;
mod lifecycle;
mod list;
mod offers;
mod pages;
mod past;
mod people;
mod purge;
mod rehearsal;
mod rewind;
mod scope;
mod signal;
mod time;
mod transition;
mod turn;
mod visit;
mod work;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

pub use self::answers::{Question, UTTERANCE_FIELD};
pub use self::{
    command::{
        Command, GateAnswer, LifecycleAction, LifecycleChange, Report, Resolution, RewindRequest,
        SignalContent, SignalRequest, StartArguments, Submission, Verdict,
    },
    decision::{Decision, DecisionContext, Transition, ValueReference, Values},
    fork::{ForkArguments, ForkDecision, ForkPlan, ForkPurpose, ForkSource, PlannedStep, StepFate},
    list::ItemVisits,
    offers::Offer,
    pages::FetchedPages,
    past::{PastSearch, PastValues},
    purge::{InputPurge, PurgeDecision},
    rehearsal::{DryRun, DryRunStep},
    turn::NextActor,
    visit::{RecordedCall, StepState, SupersededToken, Visit, VisitEnd},
    work::{
        Attachment, AttemptId, AttemptNotes, AttemptRequest, Effect, EffectOutput,
        OperationFailure, OutputPage, WorkPolicy,
    },
};
pub use super::state::StepStatus;
use super::{
    document::Digest,
    event::{
        BodyKind, ChildOrder, ConsumedCall, Event, Failure, ForkOrigin, ItemCounts, OrderKind,
        Outcome, OutputFailure, OwnerEpoch, Parent, PauseReason, Payload, ReportedOutcome,
        RewindTarget, Row, SkipReason, VisitId, WaitCondition,
    },
    id::{ExecutionId, StepId, WorkflowName},
    label::Labels,
    state::State,
};
use crate::clock::Timestamp;

/// The state of an execution after its last transition.
///
/// Invariant: it equals the result of applying its journal rows, in order, with [`Execution::apply_row`].
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
    /// Copy-on-write: a step that did not change is shared with the state before the last transition.
    pub(super) steps: Vec<Arc<StepState>>,
    /// The reasons why it is paused: a sorted set, empty unless the state is `Paused`.
    pub(super) pauses: Vec<PauseReason>,
    /// The reason that the caller gave for the last change of state.
    pub(super) reason: Option<String>,
    /// The number of artifacts and artifact references so far, which is also the id of the latest one.
    pub(super) artifacts: u32,
    /// The values in memory by name, each stored by digest.
    pub(super) memory: BTreeMap<String, Digest>,
    /// Kept signals, which no step has waited for yet, oldest first.
    pub(super) signals: Vec<Signal>,
    /// While it is failing: the failure that it will end with. Steps that run after a failure come first.
    pub(super) failing: Option<Failure>,
    /// The value of `final_output`, as its workflow declares it.
    pub(super) final_output: Option<Digest>,
    /// The parts of `final_output` that could not be computed.
    pub(super) final_output_faults: Vec<OutputFailure>,
    /// How often its steps were entered; items of a `foreach`, hooks and compensations are not counted.
    pub(super) visits: u32,
    /// When the current pause began.
    pub(super) paused_at: Option<Timestamp>,
    /// The total length of earlier pauses, in milliseconds.
    pub(super) paused_ms: u64,
    /// The inputs at the start. `input` and `extract` steps change only `inputs`.
    pub(super) given: Option<Digest>,
    /// While it is ending without a failure: the state that it will end in.
    pub(super) ending: Option<State>,
    /// Completed visits that a compensation can undo, in order of completion.
    pub(super) compensations: Vec<Compensation>,
    /// The visits whose effects were not undone.
    pub(super) not_compensated: Vec<UncompensatedVisit>,
    /// The pseudo-step `$workflow`, which has the visits of the workflow's hooks; `None` until the first of them is
    /// entered.
    pub(super) whole: Option<Arc<StepState>>,
    /// Its parent, if it is a child.
    pub(super) parent: Option<Arc<Parent>>,
    /// Orders that its children have not received yet, oldest first.
    pub(super) orders: Vec<ChildOrder>,
    /// The options that its steps offer the client, oldest first: at most [`crate::limits::OFFERS_MAX`].
    pub(super) offers: Vec<Offer>,
    /// The digest of its [`super::WorkflowLookup`], the directories in which it finds the workflows that it names.
    pub(super) lookup: Option<Digest>,
    /// The pages of lists that open visits fetched so far. Snapshots of version 1 end before this field.
    pub(super) pages: BTreeMap<VisitId, Arc<FetchedPages>>,
    /// The execution that it was forked from. Snapshots of version 2 end before this field.
    pub(super) origin: Option<Arc<ForkOrigin>>,
    /// A rewind that waits for compensations.
    pub(super) rewinding: Option<Arc<RewindTarget>>,
    /// The visits of each step before the last rewind that reset it. They do not count against `max_visits`.
    pub(super) uncounted_visits: BTreeMap<StepId, u32>,
    /// The names of the inputs whose values were removed after the end. Snapshots of version 4 end before this field.
    pub(super) purged_inputs: BTreeSet<String>,
    /// Whether it pauses between two steps of the server. Snapshots of version 6 end after this field.
    pub(super) is_paced: bool,
    /// Titles, polls and counts of items by visit. Of each step, only those of its latest visit and its items are kept.
    pub(super) notes: BTreeMap<VisitId, Arc<VisitNotes>>,
    /// For each of `signals`, whether its payload is an error. It may be shorter: the rest are no errors.
    pub(super) signal_errors: Vec<bool>,
    /// Its labels. Snapshots of version 7 end before this field.
    pub(super) labels: Labels,
    /// When it was imported.
    pub(super) imported_at: Option<Timestamp>,
    /// Where the search for a step begins.
    #[serde(skip)]
    pub(super) hint: SearchHint,
}

/// The position of the step that changed last. The next event is mostly about this step or one behind it, so a search
/// that begins here is short however many steps there are. Not part of the state: all hints are equal.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SearchHint(usize);

impl PartialEq for SearchHint {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A kept signal, which no step has waited for yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// Its name.
    pub name: String,
    /// Its payload, stored by digest.
    pub payload: Digest,
}

/// The title of a visit, its last poll, and the counts of its items.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VisitNotes {
    /// Its title, as it was worked out when the visit was entered.
    pub title: Option<String>,
    /// The output of the last poll of a step with `repeat`, stored by digest.
    pub last_output: Option<Digest>,
    /// How the items ended, if it is a `foreach` that has ended.
    pub items: Option<ItemCounts>,
}

/// A completed visit that a compensation can undo.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compensation {
    /// The visit of the work.
    pub visit_id: VisitId,
    /// Where its output is stored, if it has one.
    pub output: Option<ValueReference>,
    /// The list of the `foreach`, if the visit is one of its items.
    pub list: Option<Digest>,
}

/// A visit whose effect was not undone: its compensation failed or was given up, or the work was cut off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UncompensatedVisit {
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

    /// The digest of its definition, which stays the same for its whole life.
    pub fn definition(&self) -> Digest {
        self.definition
    }

    /// The project it was started for.
    pub fn project(&self) -> Option<&str> {
        self.project.as_deref()
    }

    /// The digest of its [`super::WorkflowLookup`].
    pub fn lookup(&self) -> Option<Digest> {
        self.lookup
    }

    /// The digest of its current inputs.
    pub fn inputs(&self) -> Option<Digest> {
        self.inputs
    }

    /// The names of the inputs whose values were removed after its end; of a call of a command, those of its arguments.
    pub fn purged_inputs(&self) -> &BTreeSet<String> {
        &self.purged_inputs
    }

    /// Marks the inputs of a past state whose values were removed later.
    pub fn mark_purged_inputs(&mut self, latest: &Self) {
        self.purged_inputs.clone_from(&latest.purged_inputs);
    }

    /// Its state.
    pub fn state(&self) -> State {
        self.state
    }

    /// The number of its last transition, from 1.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Its labels.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// When it started.
    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// When it last moved.
    pub fn updated_at(&self) -> Timestamp {
        self.updated_at
    }

    /// The reason that the caller gave for the last change of state.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// When it ended.
    pub fn completed_at(&self) -> Option<Timestamp> {
        self.completed_at
    }

    /// The reasons why it is paused: empty unless it is paused.
    pub fn pauses(&self) -> &[PauseReason] {
        &self.pauses
    }

    /// The names of its pause reasons, separated by commas.
    pub(super) fn pause_names(&self) -> String {
        let names: Vec<_> = self.pauses.iter().map(|reason| reason.as_str()).collect();
        names.join(", ")
    }

    /// The reason as a suffix for a message: `: reason`, or nothing.
    pub(super) fn reason_suffix(&self) -> String {
        let reason = self.reason.as_deref();
        reason.map_or_else(String::new, |reason| format!(": {reason}"))
    }

    /// The title of a visit, if its step declares one.
    pub fn title(&self, visit_id: &VisitId) -> Option<&str> {
        self.notes.get(visit_id)?.title.as_deref()
    }

    /// Its steps, in authoring order.
    pub fn steps(&self) -> &[Arc<StepState>] {
        &self.steps
    }

    /// Replaces each of its steps that equals the one at the same place in `pending` by that shared one, so that
    /// executions of one definition share the memory of steps that were never entered.
    pub fn share_pending_steps(&mut self, pending: &[Arc<StepState>]) {
        for (step, shared) in self.steps.iter_mut().zip(pending) {
            if step == shared {
                step.clone_from(shared);
            }
        }
    }

    /// The digest of the call that created it.
    pub fn call(&self) -> Digest {
        self.call
    }

    /// The execution that it was forked from, if it is a fork.
    pub fn origin(&self) -> Option<&ForkOrigin> {
        self.origin.as_deref()
    }

    /// The step that a rewind waits to enter until the compensations have ended.
    pub fn rewinding_to(&self) -> Option<&StepId> {
        self.rewinding.as_ref().map(|rewind| &rewind.step)
    }

    /// The state that it will end in, if its end began. Steps that run after a failure, compensations, hooks of the
    /// workflow and orders to children come first.
    pub fn ending_state(&self) -> Option<State> {
        let failing = self.failing.as_ref().map(|_| State::Failed);
        failing.or(self.ending)
    }

    /// Whether it is ending in another state than `Completed`. That state is then decided: later requests do not
    /// replace it.
    fn is_ending_unsuccessfully(&self) -> bool {
        self.ending_state().is_some_and(|to| to != State::Completed)
    }

    /// The visits whose effects were not undone, in the order in which that was found.
    pub fn uncompensated_visits(&self) -> &[UncompensatedVisit] {
        &self.not_compensated
    }

    /// The step with this id and its position.
    pub fn find_step(&self, id: &StepId) -> Option<(usize, &StepState)> {
        let at = self.step_position(id)?;
        Some((at, &*self.steps[at]))
    }

    fn step_position(&self, id: &StepId) -> Option<usize> {
        let has_id = |step: &Arc<StepState>| step.id == *id;
        let (before, after) = self.steps.split_at_checked(self.hint.0)?;
        let after_hint = after.iter().position(has_id).map(|at| before.len() + at);
        after_hint.or_else(|| before.iter().position(has_id))
    }

    /// The open visits, in authoring order, each before the visits of its items. Visits of the workflow's hooks come
    /// last, with the number of steps as their position.
    pub fn open_visits(&self) -> impl Iterator<Item = (usize, &StepState, &Visit)> {
        let steps = self.steps.iter().chain(&self.whole).enumerate();
        steps
            .filter(|(_, step)| step.status == StepStatus::Running || !step.hook_visits.is_empty())
            .flat_map(|(at, step)| {
                let latest_visit = step.latest_visit().filter(|visit| visit.awaiting.is_some());
                let open = latest_visit.into_iter().chain(step.items.open_items());
                open.chain(step.open_hook_visit()).map(move |visit| (at, &**step, visit))
            })
    }

    /// The open visits for whose [`WaitCondition`] the closure `select` returns a value, each with that value.
    fn visits_awaiting<T>(
        &self,
        select: impl Fn(&WaitCondition) -> Option<T>,
    ) -> Vec<(VisitId, T)> {
        let visits = self.open_visits().filter_map(|(_, step, visit)| {
            let value = select(visit.awaiting.as_ref()?)?;
            Some((visit.visit_id(&step.id), value))
        });
        visits.collect()
    }

    /// The visit with this id, with its step and the step's position.
    pub fn find_visit(&self, visit_id: &VisitId) -> Option<(usize, &StepState, &Visit)> {
        let (at, step) = match &visit_id.step {
            Some(id) => self.find_step(id)?,
            None => (self.steps.len(), self.whole.as_deref()?),
        };
        Some((at, step, step.find_visit(visit_id)?))
    }

    /// The values in memory by name, each stored by digest.
    pub fn memory(&self) -> &BTreeMap<String, Digest> {
        &self.memory
    }

    /// Whether it pauses between two steps of the server.
    pub fn is_paced(&self) -> bool {
        self.is_paced
    }

    /// Kept signals, which no step has waited for yet, oldest first.
    pub fn signals(&self) -> &[Signal] {
        &self.signals
    }
}
