//! Joins: a step with a quorum waits for some of its dependencies. The others are its losers, whose end changes
//! nothing.

use std::collections::BTreeSet;

use super::{
    Event, Outcome, SkipReason, StepStatus, decision::DecideResult, flow::Readiness,
    transition::TransitionBuilder,
};
use crate::{
    FailureCode,
    definition::{JoinRule, JumpTarget, LoserPolicy, RunWhen},
    event::Failure,
};

impl TransitionBuilder<'_> {
    /// Whether a step that waits for `wanted` of its dependencies may be entered.
    pub(super) fn join_readiness(&self, position: usize, wanted: u32) -> Readiness {
        let run_when = self.step(position).run_when;
        let graph = self.facts.definition.graph();
        let status = |at: usize| self.next.steps[at].status;
        let failed = |at: &usize| status(*at) == StepStatus::Failed;
        let counts = |at: usize| match run_when {
            RunWhen::Succeeded | RunWhen::Failing => status(at) == StepStatus::Completed,
            RunWhen::Finished => true,
            // A failure further upstream counts too.
            RunWhen::Failed => graph.ancestors(at).iter().any(failed),
        };
        let before = graph.dependencies(position);
        let ended = before.iter().filter(|at| !self.is_open(**at));
        let (ended, counted) = ended
            .fold((0, 0), |(ended, counted), at| (ended + 1, counted + u32::from(counts(*at))));
        let is_failing = self.next.failing.is_some();
        let is_for_failure = run_when == RunWhen::Failing && !is_failing;
        if is_for_failure || counted < wanted && ended < before.len() {
            return Readiness::Waits;
        }
        match run_when {
            RunWhen::Succeeded if is_failing => Readiness::Skips(SkipReason::Failing),
            RunWhen::Failed if counted < wanted => Readiness::Skips(SkipReason::RunWhen),
            _ if counted < wanted => Readiness::Misses,
            _ => Readiness::Ready,
        }
    }

    /// Fails a step whose join cannot be satisfied any more.
    pub(super) fn fail_missed_join(&mut self, position: usize) -> DecideResult<()> {
        let step = self.step(position);
        let visit_id = self.next.steps[position].next_visit();
        let wanted = match step.join {
            JoinRule::Quorum(wanted) => wanted as usize,
            JoinRule::All => step.depends_on.len(),
        };
        let message = format!(
            "step '{}' waits for {wanted} of {} steps to be completed, and fewer were",
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
        let mut losers = self.losers(position);
        losers.retain(|at| self.is_open(*at));
        self.void_visits_of_steps(|at| losers.contains(&at));
        for at in losers {
            if self.next.steps[at].status == StepStatus::Pending {
                self.skip(at, SkipReason::Bypassed);
            }
        }
    }

    /// All steps that are losers of some join.
    pub(super) fn all_losers(&self) -> BTreeSet<usize> {
        let steps = self.facts.definition.workflow.steps.iter().enumerate();
        let joins = steps.filter(|(_, step)| step.join != JoinRule::All);
        joins.flat_map(|(at, _)| self.losers(at)).collect()
    }

    /// The losers of a join: the steps before it that lead nowhere but to this join, or to other joins that were
    /// entered already.
    fn losers(&self, position: usize) -> BTreeSet<usize> {
        let graph = self.facts.definition.graph();
        let mut losers = graph.ancestors(position);
        losers.remove(&position);
        loop {
            let leads_elsewhere = |at: &&usize| {
                let dependents = graph.dependents(**at).iter();
                // Steps of `on_failure` may refer to any other step; such a reference does not count as a path.
                let is_provision = |at: usize| self.step(at).run_when == RunWhen::Failing;
                let mut dependents =
                    dependents.filter(|next| is_provision(**at) || !is_provision(**next));
                dependents.any(|next| {
                    *next != position && !losers.contains(next) && !self.has_entered_join(*next)
                })
            };
            let Some(other) = losers.iter().find(leads_elsewhere).copied() else {
                return losers;
            };
            losers.remove(&other);
        }
    }

    /// Whether the step has a quorum and is not pending any more.
    fn has_entered_join(&self, position: usize) -> bool {
        self.step(position).join != JoinRule::All
            && self.next.steps[position].status != StepStatus::Pending
    }

    /// Handles the end of a loser whose join was entered already. It is recorded, and the steps between the loser and
    /// the join still run. A jump is followed only to a pending step that is late too; the steps that it bypasses are
    /// skipped.
    pub(super) fn handle_late_loser(&mut self, position: usize, next: Option<&JumpTarget>) {
        let state = &self.next.steps[position];
        if let Some(visit_id) = state.latest_visit().map(|visit| visit.visit_id(&state.id)) {
            self.push_event(Event::CameLate { visit_id });
        }
        let Some(next) = next else {
            return self.queue_dependents(position);
        };
        // A jump back would make the join run again.
        let is_ahead = |at: &usize| self.next.steps[*at].status == StepStatus::Pending;
        let target = self.jump_target(next);
        let target = target.filter(|at| is_ahead(at) && self.is_late(*at));
        self.bypass(position, target);
        self.queue.extend(target);
    }

    /// Whether the step is a loser of a join that was entered already, so that its end changes nothing.
    pub(super) fn is_late(&self, position: usize) -> bool {
        let graph = self.facts.definition.graph();
        graph.has_joins()
            && graph
                .downstream(position)
                .into_iter()
                .any(|at| self.has_entered_join(at) && self.losers(at).contains(&position))
    }
}
