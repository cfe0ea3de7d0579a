//! Hooks of steps and of the workflow: bodies that the server executes after a step or the workflow ended and before
//! anything follows.

use serde_json::Value;

use super::{
    BodyKind, Event, Outcome, StepStatus, VisitId, decision::DecideResult, scope::VisitScope,
    transition::TransitionBuilder,
};
use crate::{event::Failure, state::State};

impl BodyKind {
    /// The hooks for an end, in order. Only the workflow can end as abandoned or diverged, which runs `on_complete`
    /// alone.
    pub(super) const fn hooks_for_state(end: State) -> &'static [Self] {
        match end {
            State::Completed => &[Self::OnSuccess, Self::OnComplete],
            State::Failed => &[Self::OnFailure, Self::OnComplete],
            _ => &[Self::OnComplete],
        }
    }
}

impl TransitionBuilder<'_> {
    /// Called when a step ends: starts its first hook, or schedules what follows if it has none.
    pub(super) fn handle_step_end(
        &mut self,
        position: usize,
        visit_id: &VisitId,
        outcome: &Outcome,
    ) -> DecideResult<()> {
        let failure = match outcome {
            Outcome::Completed(_) => None,
            Outcome::Failed(failure) => Some(failure),
            Outcome::Voided => return Ok(()),
        };
        if self.step(position).bodies.is_empty() || self.is_dry_run {
            return self.schedule_after_step(position, failure);
        }
        self.enter_next_hook(position, visit_id, None)
    }

    /// Called when a hook ends. The failure of a required hook fails the step, or the workflow; any other failure is
    /// only recorded.
    pub(super) fn handle_hook_end(
        &mut self,
        position: usize,
        visit_id: &VisitId,
        outcome: &Outcome,
    ) -> DecideResult<()> {
        let failure = match outcome {
            Outcome::Voided => return Ok(()),
            Outcome::Completed(_) => None,
            Outcome::Failed(failure) => self.is_hook_required(visit_id).then_some(failure),
        };
        let Some(step) = &visit_id.step else {
            return failure.map_or(Ok(()), |failure| self.fail_execution(failure.clone()));
        };
        let is_completed = self
            .execution
            .find_step(step)
            .is_some_and(|(_, step)| step.status == StepStatus::Completed);
        if let Some(failure) = failure.filter(|_| is_completed) {
            self.push_event(Event::StepFailed {
                visit_id: visit_id.work_visit(),
                failure: failure.clone(),
            });
        }
        self.enter_next_hook(position, &visit_id.work_visit(), Some(visit_id.body))
    }

    fn is_hook_required(&self, visit_id: &VisitId) -> bool {
        let body = self.find_step_and_expressions(visit_id);
        body.is_some_and(|(hook, _)| hook.required)
    }

    /// Starts the next hook of a step, or else schedules what follows the step.
    fn enter_next_hook(
        &mut self,
        position: usize,
        work: &VisitId,
        previous: Option<BodyKind>,
    ) -> DecideResult<()> {
        let bodies = &self.step(position).bodies;
        let end = match self.execution.steps[position].status {
            StepStatus::Failed => State::Failed,
            _ => State::Completed,
        };
        let remaining_hooks = match previous {
            None => BodyKind::hooks_for_state(end),
            Some(BodyKind::OnComplete) => &[],
            // After `on_success` or `on_failure` only `on_complete` is left, even if the hook changed the status of the
            // step.
            Some(_) => &[BodyKind::OnComplete],
        };
        if let Some(hook) = remaining_hooks.iter().find(|hook| bodies.contains_key(hook)) {
            return self.enter_hook_or_compensation(
                position,
                &work.with_body(*hook),
                VisitScope::default(),
            );
        }
        let failure = self.find_visit_failure(work);
        self.schedule_after_step(position, failure.as_ref())
    }

    /// The failure of a visit, if it failed.
    pub(super) fn find_visit_failure(&self, visit_id: &VisitId) -> Option<Failure> {
        let (_, _, visit) = self.execution.find_visit(visit_id)?;
        visit.closed.as_ref()?.failure.clone()
    }

    /// Enters a hook or a compensation. An error in entering it is its own failure.
    pub(super) fn enter_hook_or_compensation(
        &mut self,
        position: usize,
        visit_id: &VisitId,
        scope: VisitScope<'_>,
    ) -> DecideResult<()> {
        let scope = VisitScope { visit_id: Some(visit_id), ..scope };
        let result = self.try_enter_hook_or_compensation(position, visit_id, &scope);
        self.fail_if_entry_failed(position, visit_id, result)
    }

    fn try_enter_hook_or_compensation(
        &mut self,
        position: usize,
        visit_id: &VisitId,
        scope: &VisitScope<'_>,
    ) -> DecideResult<()> {
        match self.find_step_and_expressions(visit_id) {
            Some((step, compiled)) if self.is_condition_met(step, compiled, scope)? => {
                self.execute_step_kind(position, step, compiled, visit_id, scope)
            }
            _ => self.complete_at_once(position, visit_id, Value::Null),
        }
    }

    /// The next hook of the workflow to run before the execution becomes `to`.
    pub(super) fn find_due_workflow_hook(&self, to: State) -> Option<VisitId> {
        let bodies = &self.context.definition.workflow.bodies;
        let visits = self.execution.whole.iter().flat_map(|whole| &whole.hook_visits);
        let has_run = |hook: &BodyKind| visits.clone().any(|visit| visit.body == *hook);
        let mut remaining_hooks =
            BodyKind::hooks_for_state(to).iter().filter(|hook| !has_run(hook));
        let body = *remaining_hooks.find(|hook| bodies.contains_key(hook))?;
        Some(VisitId { step: None, body, visit: 1, item: None })
    }
}
