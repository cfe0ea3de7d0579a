//! Joins: a step with a quorum waits for some of its dependencies. The others are its losers, whose end changes
//! nothing.

use std::collections::BTreeSet;

use super::{
    Event, Outcome, SkipReason, StepStatus, decision::DecideResult, flow::Readiness,
    items::parse_threshold, scope::VisitScope, transition::TransitionBuilder,
};
use crate::{
    FailureCode,
    definition::{JoinRule, JumpTarget, LoserPolicy, RunWhen},
    event::Failure,
};

impl TransitionBuilder<'_> {
    /// Whether a step that waits for `quorum` of its dependencies may be entered.
    pub(super) fn compute_join_readiness(&self, position: usize, quorum: u32) -> Readiness {
        let run_when = self.step(position).run_when;
        let graph = self.context.definition.graph();
        let status = |at: usize| self.execution.steps[at].status;
        let has_failed = |at: &usize| status(*at) == StepStatus::Failed;
        let is_counted = |at: usize| match run_when {
            RunWhen::Succeeded | RunWhen::Failing => status(at) == StepStatus::Completed,
            RunWhen::Finished => true,
            // A failure further upstream counts too.
            RunWhen::Failed => graph.ancestors(at).iter().any(has_failed),
        };
        let dependencies = graph.dependencies(position);
        let ended = dependencies.iter().filter(|at| !self.is_open(**at));
        let (ended, counted) = ended
            .fold((0, 0), |(ended, counted), at| (ended + 1, counted + u32::from(is_counted(*at))));
        let is_failing = self.execution.failing.is_some();
        let is_for_failure = run_when == RunWhen::Failing && !is_failing;
        if is_for_failure || counted < quorum && ended < dependencies.len() {
            return Readiness::Waits;
        }
        match run_when {
            RunWhen::Succeeded if is_failing => Readiness::Skips(SkipReason::Failing),
            RunWhen::Failed if counted < quorum => Readiness::Skips(SkipReason::RunWhen),
            _ if counted < quorum => Readiness::JoinUnsatisfied(quorum),
            _ => Readiness::Ready,
        }
    }

    /// The number of dependencies that `join: quorum(${{ … }})` asks for. It is worked out once a dependency has ended;
    /// `None` before that.
    pub(super) fn evaluate_quorum(&self, position: usize) -> DecideResult<Option<u32>> {
        let mut dependencies = self.context.definition.graph().dependencies(position).iter();
        let compiled = self.context.definition.compiled_step(position);
        let Some(quorum) =
            compiled.quorum.as_ref().filter(|_| dependencies.any(|at| !self.is_open(*at)))
        else {
            return Ok(None);
        };
        let visit_id = self.execution.steps[position].next_visit_id();
        let value = self.render_template(quorum, &VisitScope::for_visit(&visit_id))?;
        let step = self.step(position);
        parse_threshold(step, "join", &value, 1, step.depends_on.len()).map(Some)
    }

    /// Fails a step whose join cannot be satisfied any more.
    pub(super) fn fail_unsatisfied_join(
        &mut self,
        position: usize,
        quorum: u32,
    ) -> DecideResult<()> {
        let step = self.step(position);
        let visit_id = self.execution.steps[position].next_visit_id();
        let message = format!(
            "step '{}' waits for {quorum} of {} steps to be completed, and fewer were",
            step.id,
            step.depends_on.len()
        );
        let failure = Failure::new(FailureCode::JoinMissed, message, Some(&step.id));
        self.record_instant_end(position, &visit_id, &Outcome::Failed(failure))
    }

    /// Voids the open losers of a join and skips the pending ones, if the join cancels its losers.
    pub(super) fn cancel_losers(&mut self, position: usize) {
        let step = self.step(position);
        if step.losers == LoserPolicy::Finish || step.join == JoinRule::All {
            return;
        }
        let mut losers = self.find_losers(position);
        losers.retain(|at| self.is_open(*at));
        self.void_visits_of_steps(|at| losers.contains(&at));
        for at in losers {
            if self.execution.steps[at].status == StepStatus::Pending {
                self.skip_step(at, SkipReason::Bypassed);
            } else {
                // A step of `on_failure` may have waited for it.
                self.queue_dependents(at);
            }
        }
    }

    /// All steps that are losers of some join.
    pub(super) fn find_all_losers(&self) -> BTreeSet<usize> {
        let steps = self.context.definition.workflow.steps.iter().enumerate();
        let joins = steps.filter(|(_, step)| step.join != JoinRule::All);
        joins.flat_map(|(at, _)| self.find_losers(at)).collect()
    }

    /// The losers of a join: the steps before it that lead nowhere but to this join, or to other joins that were
    /// entered already.
    fn find_losers(&self, position: usize) -> BTreeSet<usize> {
        let graph = self.context.definition.graph();
        let mut losers = graph.ancestors(position);
        losers.remove(&position);
        loop {
            let leads_elsewhere = |at: &&usize| {
                let dependents = graph.dependents(**at).iter();
                // Steps of `on_failure` may refer to any other step; such a reference does not count as a path.
                let is_on_failure_step = |at: usize| self.step(at).run_when == RunWhen::Failing;
                let mut dependents = dependents
                    .filter(|next| is_on_failure_step(**at) || !is_on_failure_step(**next));
                dependents.any(|next| {
                    *next != position && !losers.contains(next) && !self.has_entered_join(*next)
                })
            };
            let Some(survivor) = losers.iter().find(leads_elsewhere).copied() else {
                return losers;
            };
            losers.remove(&survivor);
        }
    }

    /// Whether the step has a quorum and is not pending any more.
    fn has_entered_join(&self, position: usize) -> bool {
        self.step(position).join != JoinRule::All
            && self.execution.steps[position].status != StepStatus::Pending
    }

    /// Handles the end of a loser whose join was entered already. It is recorded, and the steps between the loser and
    /// the join still run. A jump is followed only to a pending step that is late too; the steps that it bypasses are
    /// skipped.
    pub(super) fn handle_late_loser(&mut self, position: usize, jump: Option<&JumpTarget>) {
        let step = &self.execution.steps[position];
        if let Some(visit_id) = step.latest_visit().map(|visit| visit.visit_id(&step.id)) {
            self.push_event(Event::CameLate { visit_id });
        }
        let Some(jump) = jump else {
            return self.queue_dependents(position);
        };
        // A jump back would make the join run again.
        let is_pending = |at: &usize| self.execution.steps[*at].status == StepStatus::Pending;
        let target = self.jump_target_position(jump);
        let target = target.filter(|at| is_pending(at) && self.is_late_loser(*at));
        self.skip_bypassed_steps(position, target);
        self.queue.extend(target);
    }

    /// Whether the step is a loser of a join that was entered already, so that its end changes nothing.
    pub(super) fn is_late_loser(&self, position: usize) -> bool {
        let graph = self.context.definition.graph();
        graph.has_joins()
            && graph
                .descendants(position)
                .into_iter()
                .any(|at| self.has_entered_join(at) && self.find_losers(at).contains(&position))
    }
}
