//! The end of an execution: open visits are voided, steps that run after a failure run, compensations undo effects,
//! hooks of the workflow run, children receive their orders, and then the final state is entered.

use std::sync::Arc;

use serde_json::Value;

use super::{
    BodyKind, Compensation, Event, Failure, Need, SkipReason, State, StepStatus, VisitId,
    WaitCondition,
    decision::{DecideResult, Interrupt},
    scope::EvalContext,
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
        let most = limits::COMPENSATIONS_MAX;
        let is_kept = step.bodies.contains_key(&BodyKind::Compensation);
        if !is_kept || self.next.compensations.len() + self.compensations_to_come() + count <= most
        {
            return Ok(());
        }
        let message = format!(
            "an execution remembers {most} visits that `compensate` would take back; step '{}' would be one more",
            step.id
        );
        let code = FailureCode::LimitExceeded;
        Err(Interrupt::step_failure(step, code, message))
    }

    /// How many more compensations will be kept if all open visits complete.
    fn compensations_to_come(&self) -> usize {
        let is_kept = |step: &Step| step.bodies.contains_key(&BodyKind::Compensation);
        let open = self.next.open_visits();
        let works = open.filter(|(.., visit)| visit.body == BodyKind::Work && visit.item.is_none());
        let counts = works.map(|(position, state, visit)| {
            let step = self.step(position);
            let items = match visit.awaiting {
                Some(WaitCondition::Items { total, .. }) if is_kept(step.acting()) => {
                    let ended = state.items.len() - state.items.open_count();
                    total as usize - ended
                }
                _ => 0,
            };
            items + usize::from(is_kept(step))
        });
        counts.sum()
    }

    /// Keeps the compensation of a step that completed, whatever happens to its hooks later.
    pub(super) fn keep_step_compensation(&mut self, visit_id: &VisitId) {
        let is_step = visit_id.body == BodyKind::Work && visit_id.item.is_none();
        let position =
            is_step.then(|| self.facts.definition.graph().step_position(visit_id.step()));
        let Some(position) = position.flatten().filter(|_| !self.rehearses) else {
            return;
        };
        if self.next.steps[position].status == StepStatus::Completed {
            self.keep_compensation(self.step(position), visit_id, None);
        }
    }

    /// Keeps the compensation of a completed visit, if `step` has one.
    pub(super) fn keep_compensation(
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
        self.compensation_due(to).is_some()
            || self.workflow_hook_due(to).is_some()
            || !self.next.orders.is_empty()
    }

    /// Called when nothing is open. Starts the next compensation or hook of the workflow, or else enters the final
    /// state. Returns true if more may follow in this transition.
    pub(super) fn run_end_phase(&mut self) -> DecideResult<bool> {
        let to = self.next.ending_state().unwrap_or(State::Completed);
        if self.next.ending_state().is_none() {
            self.compute_final_output()?;
        }
        // The transition is full: the deadline of the execution is now, so the next tick continues.
        let is_full = self.row.events.len() > limits::EVENTS_PER_ROW_MAX / 2
            || self.done_at_once >= limits::ITEMS_AT_ONCE_MAX;
        if is_full && self.has_work_before_end(to) {
            return Ok(false);
        }
        if let Some(left) = self.compensation_due(to).cloned() {
            self.compensate(&left)?;
            return Ok(true);
        }
        if let Some(hook) = self.workflow_hook_due(to) {
            let outside = self.next.steps.len();
            self.enter_hook_or_compensation(outside, &hook, EvalContext::default())?;
            return Ok(true);
        }
        // The final state waits until the children have received their orders.
        if self.next.orders.is_empty() {
            self.become_final(to)?;
        }
        Ok(false)
    }

    /// Every step is done: computes the final output, which the hooks of the workflow can read.
    fn compute_final_output(&mut self) -> DecideResult<()> {
        if let Some((value, faults)) = self.final_output()? {
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
            State::Failed => self.next.failing.clone(),
            _ => None,
        };
        if to == State::Completed {
            self.skip_on_failure_steps();
        }
        Ok(self.become_state(to, failure)?)
    }

    /// Skips the steps of `on_failure`, because the execution did not fail.
    fn skip_on_failure_steps(&mut self) {
        let steps = self.facts.definition.workflow.steps.iter();
        for (position, step) in steps.enumerate() {
            let is_pending = self.next.steps[position].status == StepStatus::Pending;
            if step.run_when == RunWhen::Failing && is_pending {
                let (step, why) = (step.id.clone(), SkipReason::RunWhen);
                self.push_event(Event::StepSkipped { step, why });
            }
        }
    }

    /// The next compensation to run before the execution becomes `to`: the newest one, if the workflow compensates for
    /// that end.
    fn compensation_due(&self, to: State) -> Option<&Compensation> {
        let when = &self.facts.definition.workflow.compensate_when;
        let left = self.next.compensations.last();
        left.filter(|_| when.contains(&to))
    }

    fn compensate(&mut self, left: &Compensation) -> DecideResult<()> {
        let output = self.compensated_output(left)?;
        let here = EvalContext {
            own: output.as_deref(),
            item: self.compensated_item(left)?,
            ..EvalContext::default()
        };
        let position = self.facts.definition.graph().step_position(left.visit_id.step());
        let visit_id = left.visit_id.with_body(BodyKind::Compensation);
        self.enter_hook_or_compensation(position.unwrap_or_default(), &visit_id, here)
    }

    /// The output of the visit that is compensated next. A decision starts over after each lookup, so this one also
    /// requests the outputs of as many further compensations as this transition has handled already.
    fn compensated_output(&self, left: &Compensation) -> DecideResult<Option<Arc<Value>>> {
        let Some(need) = left.output else {
            return Ok(None);
        };
        self.find_value(need).map(Some).map_err(|_| {
            let next = self.next.compensations.iter().rev();
            let needs = next.take(self.done_at_once + 1).filter_map(|left| left.output);
            Interrupt::Needs(needs.filter(|need| self.find_value(*need).is_err()).collect())
        })
    }

    fn compensated_item(&self, left: &Compensation) -> DecideResult<Option<ForeachItem>> {
        let Some((list, item)) = left.list.zip(left.visit_id.item) else {
            return Ok(None);
        };
        let list = self.require_value(Need::by_digest(list))?;
        let index = item as usize;
        let value = list.get(index).cloned().unwrap_or_default();
        Ok(Some(ForeachItem { value, index }))
    }

    /// Abandons or diverges the execution. Open visits are voided at once; compensations and hooks come before the
    /// final state. If another end than `Completed` had begun already, the execution ends at once without them.
    pub(super) fn abandon_or_diverge(&mut self, to: State) -> DecideResult<()> {
        self.next
            .state
            .check_transition(to)
            .map_err(|error| self.next.with_execution_context(error))?;
        if self.next.is_ending_badly() {
            return self.end_now(to, None);
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
    pub(super) fn end_now(&mut self, to: State, failure: Option<Failure>) -> DecideResult<()> {
        self.fails = to == State::Failed;
        self.void_all_visits();
        let had_begun = self.next.ending_state().filter(|to| *to != State::Completed);
        if had_begun.is_some() {
            self.lift_all_pauses()?;
        }
        let to = had_begun.unwrap_or(to);
        if self.compensation_due(to).is_some() {
            let why = "the end of the execution was not waited for".to_owned();
            self.push_event(Event::CompensationsGivenUp { why });
        }
        let failing = self.next.failing.clone();
        let failure = failing.or(failure).filter(|_| to == State::Failed);
        Ok(self.become_state(to, failure)?)
    }

    pub(super) fn lift_all_pauses(&mut self) -> DecideResult<()> {
        for reason in self.next.pauses.clone() {
            self.lift_pause_reason(reason)?;
        }
        Ok(())
    }
}
