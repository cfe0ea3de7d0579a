//! The end of an execution: open visits are voided, steps that run after a failure run, compensations undo effects,
//! hooks of the workflow run, children receive their orders, and then the final state is entered.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;

use super::{
    BodyKind, Compensation, Event, Failure, SkipReason, State, StepStatus, ValueReference, VisitId,
    WaitCondition,
    decision::{DecideResult, Interrupt},
    scope::VisitScope,
    transition::TransitionBuilder,
};
use crate::{
    definition::{RunWhen, Step},
    document::Digest,
    expression::ForeachItem,
    failure::FailureCode,
    limits,
};

impl TransitionBuilder<'_> {
    /// Fails a step whose `count` new visits would exceed [`limits::COMPENSATIONS_MAX`], counting the visits that are
    /// open.
    pub(super) fn check_compensations(&self, step: &Step, count: usize) -> DecideResult<()> {
        let max_compensations = limits::COMPENSATIONS_MAX;
        let has_compensation = step.bodies.contains_key(&BodyKind::Compensation);
        if !has_compensation
            || self.execution.compensations.len() + self.count_upcoming_compensations() + count
                <= max_compensations
        {
            return Ok(());
        }
        let message = format!(
            "an execution remembers {max_compensations} visits that `compensate` would take back; step '{}' would be one more",
            step.id
        );
        let code = FailureCode::LimitExceeded;
        Err(Interrupt::step_failure(step, code, message))
    }

    /// How many more compensations will be kept if all open visits complete.
    fn count_upcoming_compensations(&self) -> usize {
        let has_compensation = |step: &Step| step.bodies.contains_key(&BodyKind::Compensation);
        let open = self.execution.open_visits();
        let work_visits =
            open.filter(|(.., visit)| visit.body == BodyKind::Work && visit.item.is_none());
        let counts = work_visits.map(|(position, state, visit)| {
            let step = self.step(position);
            let items = match visit.awaiting {
                Some(WaitCondition::Items { total, .. })
                    if has_compensation(step.acting_step()) =>
                {
                    let ended = state.items.len() - state.items.open_count();
                    total as usize - ended
                }
                _ => 0,
            };
            items + usize::from(has_compensation(step))
        });
        counts.sum()
    }

    /// Keeps the compensation of a step that completed, whatever happens to its hooks later.
    pub(super) fn record_step_compensation(&mut self, visit_id: &VisitId) {
        let is_step = visit_id.body == BodyKind::Work && visit_id.item.is_none();
        let position =
            is_step.then(|| self.context.definition.graph().step_position(visit_id.step()));
        let Some(position) = position.flatten().filter(|_| !self.is_dry_run) else {
            return;
        };
        if self.execution.steps[position].status == StepStatus::Completed {
            self.record_compensation(self.step(position), visit_id, None);
        }
    }

    /// Keeps the compensation of a completed visit, if `step` has one.
    pub(super) fn record_compensation(
        &mut self,
        step: &Step,
        visit_id: &VisitId,
        list: Option<Digest>,
    ) {
        if step.bodies.contains_key(&BodyKind::Compensation) {
            let visit_id = visit_id.clone();
            self.push_event(Event::CompensationKept { visit_id, list });
        }
    }

    /// Whether compensations, hooks of the workflow or orders are left before the execution can become `to`.
    pub(super) fn has_work_before_end(&self, to: State) -> bool {
        self.find_due_compensation(to).is_some()
            || self.find_due_workflow_hook(to).is_some()
            || !self.execution.orders.is_empty()
    }

    /// Called when nothing is open. Starts the next compensation or hook of the workflow, or else enters the final
    /// state. Returns true if more may follow in this transition.
    pub(super) fn run_end_phase(&mut self) -> DecideResult<bool> {
        let to = self.execution.ending_state().unwrap_or(State::Completed);
        if self.execution.ending_state().is_none() {
            self.compute_final_output()?;
        }
        // The transition is full: the deadline of the execution is now, so the next tick continues.
        let is_full = self.row.events.len() > limits::EVENTS_PER_ROW_MAX / 2
            || self.instant_step_count >= limits::ITEMS_AT_ONCE_MAX;
        if is_full && self.has_work_before_end(to) {
            return Ok(false);
        }
        if let Some(compensation) = self.find_due_compensation(to).cloned() {
            self.begin_compensation(&compensation)?;
            return Ok(true);
        }
        if let Some(hook) = self.find_due_workflow_hook(to) {
            let position = self.execution.steps.len();
            self.enter_hook_or_compensation(position, &hook, VisitScope::default())?;
            return Ok(true);
        }
        // The final state waits until the children have received their orders.
        if self.execution.orders.is_empty() {
            self.become_final(to)?;
        }
        Ok(false)
    }

    /// Every step is done: computes the final output, which the hooks of the workflow can read.
    fn compute_final_output(&mut self) -> DecideResult<()> {
        if let Some((value, faults)) = self.evaluate_final_output()? {
            self.push_event(Event::FinalOutput { value, faults });
        }
        let to = State::Completed;
        if self.has_work_before_end(to) {
            self.push_event(Event::EndingBegan { to });
        }
        Ok(())
    }

    fn become_final(&mut self, to: State) -> DecideResult<()> {
        let failure = match to {
            State::Failed => self.execution.failing.clone(),
            _ => None,
        };
        if to == State::Completed {
            self.skip_on_failure_steps();
        }
        Ok(self.become_state(to, failure)?)
    }

    /// Skips the steps of `on_failure`, because the execution did not fail.
    fn skip_on_failure_steps(&mut self) {
        let steps = self.context.definition.workflow.steps.iter();
        for (position, step) in steps.enumerate() {
            let is_pending = self.execution.steps[position].status == StepStatus::Pending;
            if step.run_when == RunWhen::Failing && is_pending {
                let (step, why) = (step.id.clone(), SkipReason::RunWhen);
                self.push_event(Event::StepSkipped { step, why });
            }
        }
    }

    /// The next compensation to run before the execution becomes `to`: the newest one, if the workflow compensates for
    /// that end.
    fn find_due_compensation(&self, to: State) -> Option<&Compensation> {
        let when = &self.context.definition.workflow.compensate_when;
        let compensation = self.execution.compensations.last();
        compensation.filter(|_| when.contains(&to))
    }

    pub(super) fn begin_compensation(&mut self, compensation: &Compensation) -> DecideResult<()> {
        let output = self.load_compensated_output(compensation)?;
        let scope = VisitScope {
            own_output: output.as_deref(),
            item: self.load_compensated_item(compensation)?,
            ..VisitScope::default()
        };
        let position = self.context.definition.graph().step_position(compensation.visit_id.step());
        let visit_id = compensation.visit_id.with_body(BodyKind::Compensation);
        self.enter_hook_or_compensation(position.unwrap_or_default(), &visit_id, scope)
    }

    /// The output of the visit that is compensated next. A decision starts over after each lookup, so this one also
    /// requests the outputs of as many further compensations as this transition has handled already.
    fn load_compensated_output(
        &self,
        compensation: &Compensation,
    ) -> DecideResult<Option<Arc<Value>>> {
        let Some(need) = compensation.output else {
            return Ok(None);
        };
        self.find_value(need).map(Some).map_err(|_| {
            let newest_first = self.execution.compensations.iter().rev();
            let upcoming =
                newest_first.take(self.instant_step_count + 1).filter_map(|left| left.output);
            // A rewind compensates some visits only, so the newest ones may not be among them.
            let needs: BTreeSet<_> = upcoming.chain([need]).collect();
            let missing = needs.into_iter().filter(|need| self.find_value(*need).is_err());
            Interrupt::MissingValues(missing.collect())
        })
    }

    fn load_compensated_item(
        &self,
        compensation: &Compensation,
    ) -> DecideResult<Option<ForeachItem>> {
        let Some((list, item)) = compensation.list.zip(compensation.visit_id.item) else {
            return Ok(None);
        };
        let list = self.require_value(ValueReference::by_digest(list))?;
        let index = item as usize;
        let value = list.get(index).cloned().unwrap_or_default();
        Ok(Some(ForeachItem { value, index }))
    }

    /// Abandons or diverges the execution. Open visits are voided at once; compensations and hooks come before the
    /// final state. If another end than `Completed` had begun already, the execution ends at once without them.
    pub(super) fn abandon_or_diverge(&mut self, to: State) -> DecideResult<()> {
        self.execution
            .state
            .check_transition(to)
            .map_err(|error| self.execution.with_execution_context(error))?;
        if self.execution.is_ending_unsuccessfully() {
            return self.end_execution_now(to, None);
        }
        self.void_all_visits();
        if !self.has_work_before_end(to) {
            return Ok(self.become_state(to, None)?);
        }
        self.lift_all_pauses()?;
        self.queue.clear();
        self.targets.clear();
        self.push_event(Event::EndingBegan { to });
        self.run_to_quiescence()
    }

    /// Ends the execution at once and gives up the compensations that are left. If another end than `Completed` had
    /// begun, the execution keeps that state.
    pub(super) fn end_execution_now(
        &mut self,
        to: State,
        failure: Option<Failure>,
    ) -> DecideResult<()> {
        self.should_fail_children = to == State::Failed;
        self.void_all_visits();
        let ending_state = self.execution.ending_state().filter(|to| *to != State::Completed);
        if ending_state.is_some() {
            self.lift_all_pauses()?;
        }
        let to = ending_state.unwrap_or(to);
        if self.find_due_compensation(to).is_some() {
            let why = "the end of the execution was not waited for".to_owned();
            self.push_event(Event::CompensationsGivenUp { why });
        }
        let failing = self.execution.failing.clone();
        let failure = failing.or(failure).filter(|_| to == State::Failed);
        Ok(self.become_state(to, failure)?)
    }

    pub(super) fn lift_all_pauses(&mut self) -> DecideResult<()> {
        for reason in self.execution.pauses.clone() {
            self.lift_pause_reason(reason)?;
        }
        Ok(())
    }
}
