//! Control flow: which steps become ready, which are skipped, jumps, and the end of the execution.

use std::collections::BTreeSet;

use super::{
    BodyKind, ConsumedCall, Event, Failure, Outcome, PauseReason, SkipReason, State, StepState,
    StepStatus, Visit, VisitId, WaitCondition,
    control::ArmChoice,
    decision::{DecideResult, Interrupt},
    enter::build_branch_output,
    transition::TransitionBuilder,
};
use crate::{
    FailureCode,
    definition::{JoinRule, JumpTarget, OnError, RunWhen, Step, StepKind},
    document::JsonText,
    limits,
};

/// Whether a pending step may be entered.
pub(super) enum Readiness {
    /// A dependency has not ended yet.
    Waits,
    Ready,
    Skips(SkipReason),
    /// All dependencies ended, but fewer of them than this number, which its join requires, ended in the required way:
    /// the step fails.
    JoinUnsatisfied(u32),
}

impl<'a> TransitionBuilder<'a> {
    /// Starts the execution: fills memory and enters the steps without dependencies.
    pub(super) fn begin_execution(&mut self) -> DecideResult<()> {
        self.become_running()?;
        self.queue.extend(self.context.definition.graph().roots());
        self.run_to_quiescence()
    }

    /// Fills memory and becomes running. In this order, so that the journal tells the initial values from those that the
    /// first step writes.
    pub(super) fn become_running(&mut self) -> DecideResult<()> {
        let filled = self.initialize_memory();
        self.become_state(State::Running, None)?;
        match filled {
            Err(Interrupt::Failed(failure)) => self.fail_execution(failure),
            filled => filled,
        }
    }

    /// The scheduler loop: enters or skips every step that is ready, until all open steps wait for something outside.
    pub(super) fn run_to_quiescence(&mut self) -> DecideResult<()> {
        while !self.execution.state.is_final() {
            if let Some(target) = self.targets.pop_front() {
                if self.execution.steps[target].status == StepStatus::Pending {
                    self.enter_step(target)?;
                }
            } else if let Some(position) = self.queue.pop_first() {
                self.consider_step(position)?;
            } else if !self.conclude_transition()? {
                break;
            }
        }
        Ok(())
    }

    fn consider_step(&mut self, position: usize) -> DecideResult<()> {
        if self.is_ready(position)? {
            self.cancel_losers(position);
            self.enter_step(position)?;
        }
        Ok(())
    }

    /// Whether the step is to be entered now. If it never will be, it is skipped or fails.
    pub(super) fn is_ready(&mut self, position: usize) -> DecideResult<bool> {
        if self.execution.steps[position].status != StepStatus::Pending {
            return Ok(false);
        }
        match self.compute_readiness(position) {
            Ok(Readiness::Waits) => {}
            Ok(Readiness::Ready) => return Ok(true),
            Ok(Readiness::JoinUnsatisfied(quorum)) => {
                self.fail_unsatisfied_join(position, quorum)?;
            }
            Ok(Readiness::Skips(why)) => {
                self.skip_step(position, why);
                if why == SkipReason::Bypassed {
                    self.skip_bypassed_steps(position, None);
                }
            }
            Err(interrupt) => {
                let visit_id = self.execution.steps[position].next_visit_id();
                self.fail_if_entry_failed(position, &visit_id, Err(interrupt))?;
            }
        }
        Ok(false)
    }

    /// Whether the step is pending or running, or one of its hooks or its compensation is open.
    pub(super) fn is_open(&self, position: usize) -> bool {
        let step = &self.execution.steps[position];
        let is_open = matches!(step.status, StepStatus::Pending | StepStatus::Running);
        is_open || step.open_hook_visit().is_some()
    }

    fn compute_readiness(&self, position: usize) -> DecideResult<Readiness> {
        if self.waits_for_rewind(position) || self.waits_for_approval(position) {
            return Ok(Readiness::Waits);
        }
        match self.arm_choice(position) {
            ArmChoice::Open => {}
            ArmChoice::Undecided => return Ok(Readiness::Waits),
            ArmChoice::NotTaken => return Ok(Readiness::Skips(SkipReason::Bypassed)),
        }
        Ok(match &self.step(position).join {
            JoinRule::All => self.compute_readiness_after_all(position),
            JoinRule::Quorum(quorum) => self.compute_join_readiness(position, *quorum),
            JoinRule::QuorumOf(_) => match self.evaluate_quorum(position)? {
                Some(quorum) => self.compute_join_readiness(position, quorum),
                None => Readiness::Waits,
            },
        })
    }

    /// Whether a step that waits for all its dependencies may be entered.
    fn compute_readiness_after_all(&self, position: usize) -> Readiness {
        let step = self.step(position);
        let graph = self.context.definition.graph();
        let status = |at: &usize| self.execution.steps[*at].status;
        let dependencies = graph.dependencies(position);
        if dependencies.iter().any(|at| self.is_open(*at)) {
            return Readiness::Waits;
        }
        let has_failed = |at: &usize| status(at) == StepStatus::Failed;
        let is_failing = self.execution.failing.is_some();
        match step.run_when {
            RunWhen::Succeeded if is_failing => Readiness::Skips(SkipReason::Failing),
            RunWhen::Succeeded | RunWhen::Finished => Readiness::Ready,
            RunWhen::Failed | RunWhen::Failing if is_failing => Readiness::Ready,
            RunWhen::Failed if graph.ancestors(position).iter().any(has_failed) => Readiness::Ready,
            RunWhen::Failed => Readiness::Skips(SkipReason::RunWhen),
            RunWhen::Failing => Readiness::Waits,
        }
    }

    pub(super) fn step(&self, position: usize) -> &'a Step {
        &self.context.definition.workflow.steps[position]
    }

    pub(super) fn skip_step(&mut self, position: usize, why: SkipReason) {
        let step = self.step(position).id.clone();
        self.push_event(Event::StepSkipped { step, why });
        self.queue_following_steps(position);
    }

    /// Queues what may go on after a step that ended or was skipped.
    fn queue_following_steps(&mut self, position: usize) {
        if self.is_inherited_gate(position) {
            self.queue_steps_after_approval(position);
        } else {
            self.queue_dependents(position);
        }
    }

    /// Queues the steps that depend on the step, and the targets of its jumps, which may have waited for its choice.
    pub(super) fn queue_dependents(&mut self, position: usize) {
        let graph = self.context.definition.graph();
        self.queue.extend(graph.dependents(position).iter().chain(graph.jumps(position)));
    }

    /// Closes an open visit with `outcome` and schedules what follows. Does nothing if the visit is closed already.
    pub(super) fn finish_visit(
        &mut self,
        visit_id: &VisitId,
        outcome: &Outcome,
        consumed: Option<ConsumedCall>,
    ) -> DecideResult<()> {
        // An earlier event of this transition may have closed the visit.
        let visit = self.execution.find_visit(visit_id);
        let Some((position, _, visit)) = visit.filter(|(_, _, visit)| visit.awaiting.is_some())
        else {
            return Ok(());
        };
        let visit = visit.clone();
        self.close_visit(visit_id, &visit, outcome.clone(), consumed);
        // A `foreach` whose items all ended when they were entered has ended in the transition that opened it.
        let is_instant = visit_id.item.is_none() && visit.was_opened_in_revision(self.row.revision);
        if is_instant && !self.count_instant_step(visit_id)? {
            return Ok(());
        }
        self.schedule_after_visit(position, visit_id, outcome)
    }

    /// Schedules what follows the end of a visit, by its body.
    pub(super) fn schedule_after_visit(
        &mut self,
        position: usize,
        visit_id: &VisitId,
        outcome: &Outcome,
    ) -> DecideResult<()> {
        match (visit_id.body, visit_id.item) {
            (BodyKind::Work, None) => self.handle_step_end(position, visit_id, outcome),
            (BodyKind::Work, Some(_)) => self.handle_item_end(position, visit_id, outcome),
            (BodyKind::Compensation, _) => Ok(()),
            _ => self.handle_hook_end(position, visit_id, outcome),
        }
    }

    /// Records a step or an item that ended when it was entered, and schedules what follows.
    pub(super) fn record_instant_end(
        &mut self,
        position: usize,
        visit_id: &VisitId,
        outcome: &Outcome,
    ) -> DecideResult<()> {
        self.push_event(Event::StepDone { visit_id: visit_id.clone(), outcome: outcome.clone() });
        self.record_step_compensation(visit_id);
        if visit_id.body == BodyKind::Work && visit_id.item.is_some() {
            return self.apply_item_end(position, visit_id, outcome);
        }
        if self.count_instant_step(visit_id)? {
            self.schedule_after_visit(position, visit_id, outcome)?;
        }
        Ok(())
    }

    /// Counts a step that ended when it was entered. Returns false, and fails the execution, if one transition has more
    /// of them than [`limits::STEPS_AT_ONCE_MAX`] or its row is half full.
    pub(super) fn count_instant_step(&mut self, visit_id: &VisitId) -> DecideResult<bool> {
        self.instant_step_count += 1;
        let is_full = self.row.events.len() > limits::EVENTS_PER_ROW_MAX / 2;
        if self.instant_step_count <= limits::STEPS_AT_ONCE_MAX && !is_full {
            return Ok(true);
        }
        let max_steps = limits::STEPS_AT_ONCE_MAX;
        let message = format!(
            "more than {max_steps} steps of the server followed each other without a pause"
        );
        let step = visit_id.step.as_ref();
        self.fail_execution(Failure::new(FailureCode::StepsAtOnce, message, step))?;
        // Steps that run after the failure get a count of their own.
        self.instant_step_count = 0;
        if self.execution.failing.is_some() {
            // If it was failing already, the steps after this one go on without it.
            self.queue.extend(0..self.execution.steps.len());
        }
        Ok(false)
    }

    /// Schedules what follows the end of a step; `failure` is set if the step failed.
    pub(super) fn schedule_after_step(
        &mut self,
        position: usize,
        failure: Option<&Failure>,
    ) -> DecideResult<()> {
        let step = self.step(position);
        let Some(failure) = failure else {
            self.cancel_named_steps(position);
            self.pass_control(position, step.next.as_ref());
            return Ok(());
        };
        match self.reaction_to_failure(position) {
            OnError::Step(target) => {
                self.pass_control(position, Some(&JumpTarget::Step(target.clone())));
            }
            OnError::Fail if !step.optional && !self.is_late_loser(position) => {
                self.skip_spent_handler(position);
                self.queue_dependents(position);
                self.fail_execution(failure.clone())?;
            }
            OnError::Fail | OnError::Continue => self.pass_control(position, None),
        }
        Ok(())
    }

    /// Passes control from an ended step to `jump`, or to its dependents if there is no jump.
    pub(super) fn pass_control(&mut self, from: usize, jump: Option<&JumpTarget>) {
        // While the execution is failing only the steps of `on_failure` may jump.
        let is_on_failure_step = self.step(from).run_when == RunWhen::Failing;
        let jump = jump.filter(|_| is_on_failure_step || self.execution.failing.is_none());
        match jump {
            _ if self.is_late_loser(from) => self.handle_late_loser(from, jump),
            Some(JumpTarget::Stop) => self.stop_execution(),
            Some(next) if !self.is_approved_again(from, next) => self.jump_to_step(from, next),
            _ => self.queue_following_steps(from),
        }
    }

    /// Fails the execution because a required step failed. Open visits are voided; steps that run after a failure,
    /// compensations and hooks come before the final state.
    pub(super) fn fail_execution(&mut self, failure: Failure) -> DecideResult<()> {
        if self.execution.is_ending_unsuccessfully() || self.execution.state.is_final() {
            return Ok(());
        }
        // Children of the visits voided here are ordered to fail; children of visits voided later in this transition
        // are abandoned.
        self.should_fail_children = true;
        self.void_all_visits();
        self.should_fail_children = false;
        self.targets.clear();
        let has_remaining_work = self.context.definition.graph().has_steps_after_failure()
            || self.has_work_before_end(State::Failed);
        if !has_remaining_work {
            self.queue.clear();
            return Ok(self.become_state(State::Failed, Some(failure))?);
        }
        self.push_event(Event::FailureBegan { failure });
        self.queue.extend(0..self.execution.steps.len());
        Ok(())
    }

    /// The position of the step that `next` names; `None` for the end.
    pub(super) fn jump_target_position(&self, next: &JumpTarget) -> Option<usize> {
        match next {
            JumpTarget::End | JumpTarget::Stop => None,
            JumpTarget::Step(id) => self.context.definition.graph().step_position(id),
        }
    }

    /// Jumps from an ended step to another step, forward or back, or to the end.
    fn jump_to_step(&mut self, from: usize, next: &JumpTarget) {
        let target = self.jump_target_position(next);
        if let Some(target) =
            target.filter(|target| self.execution.steps[*target].status != StepStatus::Pending)
        {
            return self.jump_back(from, target);
        }
        self.skip_bypassed_steps(from, target);
        self.queue.extend(target);
    }

    /// Skips the pending steps that no path leads to after the step at `from` jumped to `target`.
    pub(super) fn skip_bypassed_steps(&mut self, from: usize, target: Option<usize>) {
        let graph = self.context.definition.graph();
        // A dependent that is still reachable may have been waiting for this step alone.
        self.queue_dependents(from);
        let is_failing = self.execution.failing.is_some();
        let dependents = graph.ordered_dependents(from);
        let reachable = self.find_reachable_steps(from, target, &dependents);
        for position in dependents {
            let is_bypassed = !reachable.contains(&position)
                && self.execution.steps[position].status == StepStatus::Pending
                && (self.step(position).run_when != RunWhen::Failing || is_failing);
            if is_bypassed {
                self.skip_step(position, SkipReason::Bypassed);
            }
        }
    }

    /// The positions that were entered or can still be entered after the step at `from` jumped to `target`. Jumps of
    /// earlier steps count too, so steps that can be reached only through paths that such jumps skipped are not
    /// included. `dependents` are the transitive dependents of the step at `from`.
    fn find_reachable_steps(
        &self,
        from: usize,
        target: Option<usize>,
        dependents: &[usize],
    ) -> BTreeSet<usize> {
        let graph = self.context.definition.graph();
        let is_entered = |at: &usize| {
            let status = self.execution.steps[*at].status;
            !matches!(status, StepStatus::Pending | StepStatus::Skipped)
        };
        let mut unvisited: Vec<_> = (0..self.execution.steps.len()).filter(is_entered).collect();
        if self.is_inherited_gate(from) {
            // A fork kept steps that followed the approval. They lead no further where the person now rejects.
            let after = graph.descendants(from);
            unvisited.retain(|at| !after.contains(at));
        }
        let undecided = dependents.iter().copied().filter(|at| {
            self.execution.steps[*at].status == StepStatus::Pending
                && matches!(self.arm_choice(*at), ArmChoice::Undecided)
        });
        unvisited.extend(graph.roots().chain(target).chain(undecided));
        let cancelled = self.find_cancelled_steps();
        let mut reachable = BTreeSet::new();
        while let Some(at) = unvisited.pop() {
            let is_kept_out = Some(at) != target
                && self.execution.steps[at].status == StepStatus::Pending
                && matches!(self.arm_choice(at), ArmChoice::NotTaken);
            if is_kept_out || !reachable.insert(at) || at == from || cancelled.contains(&at) {
                continue;
            }
            match self.find_jump_of_closed_step(at) {
                Some(next) => unvisited.extend(self.jump_target_position(&next)),
                None => unvisited.extend(graph.dependents(at)),
            }
        }
        reachable
    }

    /// The jump that a closed step made; `None` if its dependents follow it.
    pub(super) fn find_jump_of_closed_step(&self, at: usize) -> Option<JumpTarget> {
        let (step, state) = (self.step(at), &self.execution.steps[at]);
        if self.execution.failing.is_some() && step.run_when != RunWhen::Failing {
            return None;
        }
        let closed = state.latest_visit().and_then(|visit| visit.closed.as_ref());
        let closed = closed.filter(|_| !self.is_open(at))?;
        match (state.status, self.reaction_to_failure(at), &step.kind) {
            (StepStatus::Failed, OnError::Step(handler), _) => {
                Some(JumpTarget::Step(handler.clone()))
            }
            (StepStatus::Completed, _, StepKind::Branch { arms }) => {
                let mut arms = arms.iter().map(|arm| &arm.next).enumerate();
                let is_taken = |(at, next): &(usize, &JumpTarget)| {
                    let chosen = JsonText::from_value(&build_branch_output(Some(*at), Some(next)));
                    Some(chosen.digest()) == closed.output
                };
                let taken_target = arms.find(is_taken).map(|(_, next)| next);
                taken_target.or(step.next.as_ref()).cloned()
            }
            (StepStatus::Completed, ..) => step.next.clone(),
            _ => None,
        }
    }

    /// Makes the target and all steps that depend on it pending again, and voids the open visits among them.
    fn jump_back(&mut self, from: usize, target: usize) {
        let reset_positions = self.context.definition.graph().descendants(target);
        self.void_visits_of_steps(|position| reset_positions.contains(&position));
        let is_entered =
            |position: &&usize| self.execution.steps[**position].status != StepStatus::Pending;
        let steps = reset_positions.iter().filter(is_entered).map(|at| self.step(*at).id.clone());
        let steps = steps.collect();
        self.push_event(Event::StepsReset { steps });
        self.queue.retain(|position| !reset_positions.contains(position));
        self.targets.retain(|position| !reset_positions.contains(position));
        self.queue_decided_steps(target, &reset_positions);
        // The jumping step is outside of the loop, so the dependents that only it led to are skipped as in a forward
        // jump.
        if !reset_positions.contains(&from) {
            self.skip_bypassed_steps(from, Some(target));
        }
        // `run_to_quiescence` enters the target later. Entering it here would recurse without bound when steps of the
        // server jump in a cycle.
        self.targets.push_back(target);
    }

    /// Queues those of the steps that were reset that may be decided already by steps that were not: joins, and steps
    /// that a branch kept out. `target` is entered in any case.
    pub(super) fn queue_decided_steps(&mut self, target: usize, reset: &BTreeSet<usize>) {
        let steps = &self.context.definition.workflow.steps;
        let is_kept_out = |at: usize| matches!(self.arm_choice(at), ArmChoice::NotTaken);
        let may_be_decided =
            |at: &&usize| steps[**at].join != JoinRule::All || **at != target && is_kept_out(**at);
        let decided: Vec<_> = reset.iter().filter(may_be_decided).copied().collect();
        self.queue.extend(decided);
    }

    /// Ends the execution if nothing is open, or updates the pauses that depend on which steps are open. Returns true
    /// if there may be more to schedule.
    fn conclude_transition(&mut self) -> DecideResult<bool> {
        if self.continue_rewind()? {
            return Ok(true);
        }
        if self.execution.open_visits().next().is_none() {
            // Safety net: nothing is open, so enter any step that is still eligible. Scheduling should never have
            // missed one.
            let ready_steps: Vec<_> = self.find_decidable_steps().collect();
            if !ready_steps.is_empty() && self.execution.ending.is_none() {
                self.queue.extend(ready_steps);
                return Ok(true);
            }
            return self.run_end_phase();
        }
        let required_reasons = self.collect_wait_pause_reasons();
        let previous_reasons = self.execution.pauses.clone();
        for reason in required_reasons.iter().filter(|reason| !previous_reasons.contains(reason)) {
            self.add_pause_reason(*reason)?;
        }
        // Reasons are added before others are lifted, so an execution that changes its pause reason does not run in
        // between.
        for reason in previous_reasons {
            if reason.is_set_by_scheduler() && !required_reasons.contains(&reason) {
                self.lift_pause_reason(reason)?;
            }
        }
        Ok(false)
    }

    /// The pause reasons of the open visits; empty if any open visit can continue without a person.
    fn collect_wait_pause_reasons(&self) -> BTreeSet<PauseReason> {
        // A `foreach` visit waits for the same as its items, unless it can open another item now.
        let is_waiting_for_items = |(position, step, visit): &(usize, &StepState, &Visit)| {
            matches!(visit.awaiting, Some(WaitCondition::Items { .. }))
                && !step.has_room_for_item(self.step(*position))
        };
        let open_visits = self.execution.open_visits().filter(|open| !is_waiting_for_items(open));
        let reasons: Option<_> = open_visits.map(|(_, _, visit)| visit.pause_reason()).collect();
        reasons.unwrap_or_default()
    }

    /// The pending steps that need not wait: those that can be entered or skipped now.
    pub(super) fn find_decidable_steps(&self) -> impl Iterator<Item = usize> {
        let steps = self.execution.steps.iter().enumerate();
        let pending = steps.filter(|(_, step)| step.status == StepStatus::Pending);
        pending
            .map(|(at, _)| at)
            .filter(|at| !matches!(self.compute_readiness(*at), Ok(Readiness::Waits)))
    }
}
