//! How events change the state. Events are applied without checks: all checks are made when a transition is decided.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    BodyKind, Compensation, Event, Execution, Failure, Outcome, PauseReason, Payload, Row,
    SearchHint, Signal, State, StepState, StepStatus, UncompensatedVisit, ValueReference, VisitEnd,
    VisitNotes, WaitCondition, visit::Visit,
};
use crate::{
    clock::Timestamp,
    document::Digest,
    event::{ChildOrder, Forked, InheritedStep, RewindTarget, Rewound, VisitId, VisitOpened},
    id::StepId,
};

impl Execution {
    /// Rebuilds the state from `rows`, oldest first; `None` if there are no rows or the first one does not create an
    /// execution.
    pub fn replay<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Option<Self> {
        let mut execution = None;
        for row in rows {
            execution = Some(Self::apply_row(execution, row)?);
        }
        execution
    }

    /// The state after `row`.
    pub fn apply_row(previous: Option<Self>, row: &Row) -> Option<Self> {
        let mut execution = previous.or_else(|| Self::create(row))?;
        execution.revision = row.revision;
        execution.updated_at = row.at;
        for event in &row.events {
            execution.apply_event(row, event);
        }
        Some(execution)
    }

    fn create(row: &Row) -> Option<Self> {
        let Some(Event::Created(created)) = row.events.first() else {
            return None;
        };
        let pending = |id: &StepId| Arc::new(StepState::pending(id.clone()));
        Some(Self {
            id: row.execution_id.clone(),
            workflow: created.workflow.clone(),
            definition: created.definition,
            project: created.project.as_deref().map(Into::into),
            inputs: created.inputs.as_ref().map(|payload| payload.digest),
            call: created.call,
            state: State::Idle,
            revision: 0,
            started_at: row.at,
            updated_at: row.at,
            completed_at: None,
            failure: None,
            steps: created.steps.iter().map(pending).collect(),
            pauses: Vec::new(),
            reason: None,
            artifacts: 0,
            memory: BTreeMap::new(),
            signals: Vec::new(),
            failing: None,
            final_output: None,
            final_output_faults: Vec::new(),
            visits: 0,
            paused_at: None,
            paused_ms: 0,
            given: created.inputs.as_ref().map(|payload| payload.digest),
            parent: created.parent.clone().map(Arc::new),
            lookup: created.lookup,
            orders: Vec::new(),
            ending: None,
            compensations: Vec::new(),
            not_compensated: Vec::new(),
            whole: None,
            offers: Vec::new(),
            pages: BTreeMap::new(),
            origin: None,
            rewinding: None,
            uncounted_visits: BTreeMap::new(),
            purged_inputs: BTreeSet::new(),
            is_paced: false,
            notes: BTreeMap::new(),
            signal_errors: Vec::new(),
            labels: BTreeMap::new(),
            imported_at: None,
            hint: SearchHint::default(),
        })
    }

    pub(super) fn apply_event(&mut self, row: &Row, event: &Event) {
        match event {
            Event::StateChanged { to, failure, .. } => {
                self.become_state(row.at, *to, failure.as_ref());
            }
            Event::Created(_)
            | Event::GateAnswered(_)
            | Event::CameLate { .. }
            | Event::MetadataReported { .. } => {}
            Event::PauseAdded { reason } => self.add_pause(*reason),
            Event::PauseLifted { reason } => self.pauses.retain(|pause| pause != reason),
            Event::ReasonGiven { text } => self.reason = Some(text.clone()),
            Event::ArtifactStored { artifact, .. } => self.artifacts = artifact.id,
            Event::ArtifactNamed { reference, .. } => self.artifacts = reference.id,
            Event::MemoryWritten { name, value } => {
                self.memory.insert(name.clone(), value.digest);
            }
            Event::InputsChanged { inputs } => self.inputs = Some(inputs.digest),
            Event::TaskChanged { visit_id, input } => {
                self.pages.remove(visit_id);
                self.update_visit(visit_id, |visit| visit.input = Some(input.digest));
            }
            Event::PageKept { visit_id, items, cursor } => {
                self.record_page(visit_id, *items, cursor);
            }
            Event::SignalKept { name, payload } => self.keep_signal(name, payload, false),
            Event::SignalErrorKept { name, error } => self.keep_signal(name, error, true),
            Event::SignalTaken { name } => self.remove_signal(name),
            Event::VisitTitled { visit_id, title } => {
                self.update_notes(visit_id, |notes| notes.title = Some(title.clone()));
            }
            Event::ItemsCounted { visit_id, counts } => {
                self.update_notes(visit_id, |notes| notes.items = Some(*counts));
            }
            Event::PollKept { visit_id, output } => {
                self.update_notes(visit_id, |notes| notes.last_output = Some(output.digest));
            }
            Event::FailureBegan { failure } => self.failing = Some(failure.clone()),
            Event::FinalOutput { value, faults } => {
                self.final_output = Some(value.digest);
                self.final_output_faults.clone_from(faults);
            }
            Event::StepSkipped { step, .. } => {
                self.update_step(step, |state| state.status = StepStatus::Skipped);
            }
            Event::StepsReset { steps } => self.reset_steps(steps),
            Event::Forked(forked) => self.take_over(forked),
            Event::StepInherited(step) => self.inherit_step(row, step),
            Event::Rewound(rewound) => self.rewind(rewound),
            Event::RewindCompensated => self.rewinding = None,
            Event::PaceSet => self.is_paced = true,
            Event::Labeled { labels } => self.labels.clone_from(labels),
            Event::Imported { project } => {
                self.imported_at = Some(row.at);
                self.project = Some(project.as_str().into());
            }
            Event::InputsForgotten { keys } => self.purged_inputs.extend(keys.iter().cloned()),
            Event::VisitOpened(opened) => self.open_visit(row, opened),
            Event::StepDone { visit_id, outcome } => {
                self.record_instant_visit(row, visit_id, outcome);
            }
            Event::ChildOrdered(order) => self.orders.push(order.clone()),
            Event::ChildTold(order) => self.remove_order(order),
            Event::StepFailed { visit_id, failure } => self.fail_step(visit_id, failure),
            Event::CompensationKept { visit_id, list } => self.record_compensation(visit_id, *list),
            Event::EndingBegan { to } => self.ending = Some(*to),
            Event::CompensationsGivenUp { why } => self.give_up_compensations(why),
            Event::VisitClosed(closed) => {
                if closed.outcome == Outcome::Voided {
                    self.record_interrupted_work(&closed.visit_id);
                }
                self.pages.remove(&closed.visit_id);
                self.end_step(&closed.visit_id, &closed.outcome);
                self.update_visit(&closed.visit_id, |visit| {
                    visit.close(row, &closed.outcome, closed.consumed);
                });
            }
            Event::OutputRefused { visit_id, output } => {
                self.update_visit(visit_id, |visit| visit.refused.push(*output));
            }
            Event::TokenRenewed { visit_id, grant } => self.update_visit(visit_id, |visit| {
                visit.retire_token(row.revision);
                visit.awaiting = Some(WaitCondition::Model(*grant));
            }),
            Event::OptionsOffered { visit_id, options } => {
                self.add_offer(row.revision, visit_id, options.digest);
            }
            Event::OptionsWithdrawn { steps } => {
                self.offers.retain(|offer| !steps.contains(offer.visit_id.step()));
            }
            Event::OptionChosen(chosen) => {
                let taken = chosen.offered_by.as_ref();
                self.offers.retain(|offer| Some(&offer.visit_id) != taken);
            }
            Event::AttemptEnded(ended) => self.update_visit(&ended.visit_id, |visit| {
                visit.end_attempt(row.revision, ended);
            }),
            Event::WaitingChanged { visit_id, attempt, awaiting } => {
                self.update_visit(visit_id, |visit| visit.change_wait(*attempt, awaiting));
            }
        }
    }

    /// Removes an order that a child received. The list may hold an equal one that came later.
    fn remove_order(&mut self, order: &ChildOrder) {
        if let Some(at) = self.orders.iter().position(|left| left == order) {
            self.orders.remove(at);
        }
    }

    fn add_pause(&mut self, reason: PauseReason) {
        if let Err(at) = self.pauses.binary_search(&reason) {
            self.pauses.insert(at, reason);
        }
    }

    fn give_up_compensations(&mut self, why: &str) {
        let compensations = std::mem::take(&mut self.compensations).into_iter().rev();
        let given_up = |left: Compensation| UncompensatedVisit {
            visit_id: left.visit_id,
            why: why.to_owned(),
        };
        self.not_compensated.extend(compensations.map(given_up));
    }

    fn keep_signal(&mut self, name: &str, payload: &Payload, is_error: bool) {
        if is_error {
            self.signal_errors.resize(self.signals.len(), false);
            self.signal_errors.push(true);
        }
        self.signals.push(Signal { name: name.to_owned(), payload: payload.digest });
    }

    fn remove_signal(&mut self, name: &str) {
        if let Some(at) = self.signals.iter().position(|signal| signal.name == *name) {
            self.signals.remove(at);
            if at < self.signal_errors.len() {
                self.signal_errors.remove(at);
            }
        }
    }

    fn update_notes(&mut self, visit_id: &VisitId, change: impl FnOnce(&mut VisitNotes)) {
        change(Arc::make_mut(self.notes.entry(visit_id.clone()).or_default()));
    }

    /// Forgets the notes on the work of a step before its next visit.
    fn forget_notes(&mut self, visit_id: &VisitId) {
        let first = VisitId { visit: 0, item: None, ..visit_id.clone() };
        let is_earlier = |id: &VisitId| {
            (&id.step, id.body) == (&visit_id.step, visit_id.body) && id.visit < visit_id.visit
        };
        let earlier = self.notes.range(first..).map(|(id, _)| id).take_while(|id| is_earlier(id));
        for id in earlier.cloned().collect::<Vec<_>>() {
            self.notes.remove(&id);
        }
    }

    fn open_visit(&mut self, row: &Row, opened: &VisitOpened) {
        let visit = Visit::open(row, &opened.visit_id, Some(opened.awaiting.clone()));
        let input = opened.input.as_ref().map(|input| input.digest);
        self.push_visit(&opened.visit_id, Visit { input, ..visit });
    }

    /// Enters a step that ends at once.
    fn record_instant_visit(&mut self, row: &Row, visit_id: &VisitId, outcome: &Outcome) {
        let mut visit = Visit::open(row, visit_id, None);
        visit.close(row, outcome, None);
        self.push_visit(visit_id, visit);
        self.end_step(visit_id, outcome);
    }

    fn take_over(&mut self, forked: &Forked) {
        let compensations = forked.compensations.iter().map(|inherited| Compensation {
            visit_id: inherited.visit_id.clone(),
            output: inherited.output.map(ValueReference::by_digest),
            list: inherited.list,
        });
        self.compensations = compensations.collect();
        self.origin = Some(Arc::new(forked.origin.clone()));
    }

    fn reset_steps(&mut self, steps: &[StepId]) {
        self.forget_inherited_gates(steps);
        // The jump back resets the target step of the rewind, so the jump replaces the rewind.
        self.rewinding.take_if(|rewind| steps.contains(&rewind.step));
        for step in steps {
            self.update_step(step, StepState::reset);
        }
    }

    /// An approval whose step is reset is followed by steps that are reset too, so it is asked for in the usual order.
    fn forget_inherited_gates(&mut self, reset: &[StepId]) {
        if let Some(origin) = &mut self.origin
            && origin.gates.iter().any(|gate| reset.contains(gate))
        {
            Arc::make_mut(origin).gates.retain(|gate| !reset.contains(gate));
        }
    }

    fn inherit_step(&mut self, row: &Row, inherited: &InheritedStep) {
        let mut visit = Visit::open(row, &inherited.visit_id, None);
        visit.close(row, &inherited.outcome, None);
        if let Some(closed) = &mut visit.closed {
            closed.at = inherited.closed_at;
        }
        (visit.attempt, visit.opened_at) = (inherited.attempt, inherited.opened_at);
        self.push_visit(&inherited.visit_id, visit);
        self.end_step(&inherited.visit_id, &inherited.outcome);
    }

    fn rewind(&mut self, rewound: &Rewound) {
        self.memory = rewound.memory.iter().cloned().collect();
        self.inputs = rewound.inputs;
        let rewind =
            RewindTarget { step: rewound.to_step.clone(), visits: rewound.compensates.clone() };
        self.rewinding = (!rewind.visits.is_empty()).then(|| Arc::new(rewind));
        self.reason.clone_from(&rewound.reason);
        self.forget_inherited_gates(&rewound.steps);
        for id in &rewound.steps {
            self.update_step(id, StepState::reset);
            let visit = self.find_step(id).and_then(|(_, step)| step.latest_visit());
            if let Some(number) = visit.map(|visit| visit.number) {
                self.uncounted_visits.insert(id.clone(), number);
            }
        }
    }

    /// Gives a step the status of its work that ended, and updates the list of compensations when one ended. The end of
    /// an item or a hook does not change the status.
    fn end_step(&mut self, visit_id: &VisitId, outcome: &Outcome) {
        match visit_id.body {
            BodyKind::Work if visit_id.item.is_none() => {
                self.update_step(visit_id.step(), |state| state.status = outcome.status());
            }
            BodyKind::Compensation => self.end_compensation(visit_id, outcome),
            _ => {}
        }
    }

    /// Marks a completed step as failed, because a required hook failed.
    fn fail_step(&mut self, visit_id: &VisitId, failure: &Failure) {
        self.update_step(visit_id.step(), |state| state.status = StepStatus::Failed);
        self.update_visit(visit_id, |visit| {
            if let Some(closed) = &mut visit.closed {
                closed.failure = Some(failure.clone());
            }
        });
    }

    fn record_compensation(&mut self, visit_id: &VisitId, list: Option<Digest>) {
        let closed = self.find_visit(visit_id).and_then(|(_, _, visit)| visit.closed.as_ref());
        self.compensations.push(Compensation {
            output: closed.and_then(VisitEnd::output_reference),
            visit_id: visit_id.clone(),
            list,
        });
    }

    /// Lists a visit as not compensated if it is voided while the server works on it or its outcome is unknown: its
    /// effect may have happened.
    fn record_interrupted_work(&mut self, visit_id: &VisitId) {
        let visit = self.find_visit(visit_id).map(|(.., visit)| visit);
        let awaiting = visit.and_then(|visit| visit.awaiting.as_ref());
        let is_in_work =
            matches!(awaiting, Some(WaitCondition::Operation { .. } | WaitCondition::Unknown));
        if is_in_work && visit_id.body == BodyKind::Work {
            self.not_compensated.push(UncompensatedVisit {
                visit_id: visit_id.clone(),
                why: "it was cut off, and nobody knows what came of it".to_owned(),
            });
        }
    }

    fn end_compensation(&mut self, visit_id: &VisitId, outcome: &Outcome) {
        // A voided compensation stays in the list, so that it can be begun again.
        if *outcome == Outcome::Voided {
            return;
        }
        let work = visit_id.work_visit();
        let mut compensations = self.compensations.iter();
        if let Some(at) = compensations.rposition(|left| left.visit_id == work) {
            self.compensations.remove(at);
        }
        if let Outcome::Failed(failure) = outcome {
            self.not_compensated
                .push(UncompensatedVisit { visit_id: work, why: failure.message.clone() });
        }
    }

    fn become_state(&mut self, at: Timestamp, to: State, failure: Option<&Failure>) {
        if let Some(since) = self.paused_at.take_if(|_| to != State::Paused) {
            let paused = u64::try_from(at.since(since).as_millis()).unwrap_or(u64::MAX);
            self.paused_ms = self.paused_ms.saturating_add(paused);
        }
        if to == State::Paused {
            self.paused_at.get_or_insert(at);
        }
        self.state = to;
        self.failure = failure.cloned();
        self.completed_at = to.is_final().then_some(at);
        // The reason that was given when the end began is also the reason for the final state.
        if !(to.is_final() && self.ending_state().is_some()) {
            self.reason = None;
        }
        if to.is_final() && to != State::Completed {
            // A completed execution keeps its offers: a client may still make the calls that its last steps suggest.
            self.offers.clear();
        }
        if to.is_final() {
            self.pauses.clear();
            (self.failing, self.ending, self.rewinding) = (None, None, None);
            self.compensations.clear();
        }
    }

    fn push_visit(&mut self, visit_id: &VisitId, mut visit: Visit) {
        visit.paused_ms = self.paused_ms;
        if visit_id.body != BodyKind::Work {
            return self
                .update_step_of_visit(visit_id, |state| state.hook_visits.push(Arc::new(visit)));
        }
        if visit_id.item.is_none() {
            self.visits += 1;
            self.forget_notes(visit_id);
        }
        self.update_step(visit_id.step(), |state| {
            if visit_id.item.is_some() {
                state.items.push(visit);
            } else {
                state.status = StepStatus::Running;
                state.clear_items();
                state.visits.push(Arc::new(visit));
            }
        });
    }

    fn update_visit(&mut self, visit_id: &VisitId, change: impl FnOnce(&mut Visit)) {
        self.update_step_of_visit(visit_id, |state| state.update_visit(visit_id, change));
    }

    /// Changes the step of a visit, or the pseudo-step `$workflow` for a hook of the workflow.
    fn update_step_of_visit(&mut self, visit_id: &VisitId, change: impl FnOnce(&mut StepState)) {
        if let Some(id) = &visit_id.step {
            return self.update_step(id, change);
        }
        let pending = || Arc::new(StepState::pending(StepId::workflow_pseudo_step().clone()));
        change(Arc::make_mut(self.whole.get_or_insert_with(pending)));
    }

    fn update_step(&mut self, id: &StepId, change: impl FnOnce(&mut StepState)) {
        if let Some(at) = self.step_position(id) {
            self.hint = SearchHint(at);
            change(Arc::make_mut(&mut self.steps[at]));
        }
    }
}
