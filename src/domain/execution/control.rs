//! Steps that do not run although nothing failed: a branch took another arm, a step cancelled them, or the execution was
//! stopped. Also the loops that `max_visits` ends.

use std::collections::BTreeSet;

use super::{Event, SkipReason, StepStatus, transition::TransitionBuilder};
use crate::definition::{JumpTarget, OnError, RunWhen, StepKind};

/// Whether a branch leaves a step to be entered.
pub(super) enum ArmChoice {
    /// No branch keeps it out.
    Open,
    /// A branch took another arm, and a step that has not ended may still jump to it.
    Undecided,
    /// A branch took another arm, and nothing else may jump to it.
    NotTaken,
}

impl<'a> TransitionBuilder<'a> {
    /// Whether a branch that the step depends on kept it out by taking another arm. A jump to the step counts more, and
    /// so does a step that may still jump to it.
    pub(super) fn arm_choice(&self, position: usize) -> ArmChoice {
        let graph = self.context.definition.graph();
        let sources = graph.jump_sources(position);
        if sources.is_empty() {
            return ArmChoice::Open;
        }
        let id = &self.execution.steps[position].id;
        let jumps = || sources.iter().map(|at| (*at, self.find_jump_of_closed_step(*at)));
        let is_here = |next: &JumpTarget| matches!(next, JumpTarget::Step(step) if step == id);
        if jumps().any(|(_, next)| next.as_ref().is_some_and(is_here)) {
            return ArmChoice::Open;
        }
        let is_other_arm = |(at, next): (usize, Option<JumpTarget>)| {
            next.is_some()
                && matches!(self.step(at).kind, StepKind::Branch { .. })
                && graph.ancestors(position).contains(&at)
        };
        if !jumps().any(is_other_arm) {
            return ArmChoice::Open;
        }
        // A step that comes after this one cannot decide whether it is entered.
        let may_jump = |at: &usize| self.is_open(*at) && !graph.descendants(position).contains(at);
        if sources.iter().any(may_jump) { ArmChoice::Undecided } else { ArmChoice::NotTaken }
    }

    /// Cancels the steps that the step at `position` names in `cancel`, unless they have ended. Steps that only a
    /// cancelled step leads to are skipped.
    pub(super) fn cancel_named_steps(&mut self, position: usize) {
        let graph = self.context.definition.graph();
        let named = self.step(position).cancel.iter().filter_map(|id| graph.step_position(id));
        let cancelled: Vec<_> = named.filter(|at| self.is_open(*at)).collect();
        self.void_visits_of_steps(|at| cancelled.contains(&at));
        for &at in &cancelled {
            if self.execution.steps[at].status == StepStatus::Pending {
                let step = self.step(at).id.clone();
                self.push_event(Event::StepSkipped { step, why: SkipReason::Cancelled });
            }
        }
        for at in cancelled {
            self.skip_bypassed_steps(at, None);
        }
    }

    /// The steps that a completed step has cancelled.
    pub(super) fn find_cancelled_steps(&self) -> BTreeSet<usize> {
        let graph = self.context.definition.graph();
        let steps = self.context.definition.workflow.steps.iter().zip(&self.execution.steps);
        let cancelling = steps.filter(|(_, state)| state.status == StepStatus::Completed);
        let named = cancelling.flat_map(|(step, _)| &step.cancel);
        let named = named.filter_map(|id| graph.step_position(id));
        named.filter(|at| self.execution.steps[*at].status == StepStatus::Skipped).collect()
    }

    /// Ends the execution at once: open visits are voided, and pending steps are skipped.
    pub(super) fn stop_execution(&mut self) {
        self.void_all_visits();
        self.targets.clear();
        self.queue.clear();
        let is_failing = self.execution.failing.is_some();
        for position in 0..self.execution.steps.len() {
            let state = &self.execution.steps[position];
            let is_due = self.step(position).run_when != RunWhen::Failing || is_failing;
            if state.status == StepStatus::Pending && is_due {
                let step = state.id.clone();
                self.push_event(Event::StepSkipped { step, why: SkipReason::Bypassed });
            }
        }
    }

    /// The reaction to a failure of the step: its `on_error`, except that the failure of a step that was entered too
    /// often is not handed to a step that leads back to it. So `max_visits` bounds a loop through `on_error` too.
    pub(super) fn reaction_to_failure(&self, position: usize) -> &'a OnError {
        let step = self.step(position);
        if let OnError::Step(handler) = &step.on_error {
            let graph = self.context.definition.graph();
            let visit = self.execution.steps[position].latest_visit();
            let max_visits = visit.and_then(|visit| self.exceeded_max_visits(step, visit.number));
            let handler = graph.step_position(handler).filter(|_| max_visits.is_some());
            if handler.is_some_and(|handler| graph.leads_to(handler, position)) {
                return &OnError::Fail;
            }
        }
        &step.on_error
    }

    /// Skips the handler of a step whose failure is not handed to it, so that it does not run after the failure either.
    pub(super) fn skip_spent_handler(&mut self, position: usize) {
        let OnError::Step(handler) = &self.step(position).on_error else {
            return;
        };
        let handler = self.context.definition.graph().step_position(handler);
        let is_pending = |at: &usize| self.execution.steps[*at].status == StepStatus::Pending;
        if let Some(handler) = handler.filter(is_pending) {
            self.skip_step(handler, SkipReason::Bypassed);
        }
    }
}
