//! Corrections after a dry run, which assumes one order of steps and that each step completes: results that depend on
//! these assumptions become unknown.

use std::collections::BTreeSet;

use super::DryRunner;
use crate::{definition::OnError, execution::StepStatus};

impl DryRunner<'_> {
    /// Whether the steps at `positions` are entered is not known.
    fn mark_uncertain(&mut self, positions: impl IntoIterator<Item = usize>, why: &str) {
        for position in positions {
            if let Some(step) = self.steps[position].as_mut() {
                (step.will_run, step.why) = (None, why.to_owned());
            }
        }
    }

    /// A skipped step may be entered after all if a step that is still pending may jump back to it or to a step before
    /// it.
    pub(super) fn mark_skipped_steps_uncertain(&mut self) {
        let definition = self.builder.context.definition;
        let graph = definition.graph();
        let is_pending =
            |at: &usize| self.builder.execution.steps[*at].status == StepStatus::Pending;
        let pending = (0..self.steps.len()).filter(is_pending);
        let targets = pending.flat_map(|at| definition.workflow.steps[at].jump_targets());
        let targets = targets.filter_map(|id| graph.step_position(id));
        let resettable: BTreeSet<_> = targets.flat_map(|at| graph.descendants(at)).collect();
        for position in resettable {
            if let Some(step) =
                self.steps[position].as_mut().filter(|step| step.will_run == Some(false))
            {
                (step.will_run, step.why) =
                    (None, format!("{}, but may come back to it", step.why));
            }
        }
    }

    /// If two jumps may happen in either order, the steps that each of them skips are not known.
    pub(super) fn mark_crossing_jumps_uncertain(&mut self) {
        let definition = self.builder.context.definition;
        let graph = definition.graph();
        let steps = &definition.workflow.steps;
        let is_ordered = |a: usize, b: usize| {
            graph.descendants(a).contains(&b) || graph.descendants(b).contains(&a)
        };
        let jump_sources: Vec<_> =
            (0..steps.len()).filter(|at| steps[*at].has_success_jump()).collect();
        let mut uncertain = BTreeSet::new();
        for &from in &jump_sources {
            let targets = steps[from].jump_targets().filter_map(|id| graph.step_position(id));
            let targets: Vec<_> = targets.collect();
            let mut others = targets.iter().chain(&jump_sources);
            if others.any(|other| !is_ordered(from, *other)) {
                let descendants = graph.descendants(from).into_iter().filter(|at| *at != from);
                uncertain.extend(descendants);
                uncertain.extend(targets.iter().flat_map(|at| graph.descendants(*at)));
            }
        }
        self.mark_uncertain(uncertain, "it depends on which of several jumps comes first");
    }

    /// A step with a failure branch may fail, so it is not known whether its dependents or the steps of that branch are
    /// entered.
    pub(super) fn mark_failure_branches_uncertain(&mut self) {
        let definition = self.builder.context.definition;
        let graph = definition.graph();
        for (from, step) in definition.workflow.steps.iter().enumerate() {
            let OnError::Step(handler) = &step.on_error else {
                continue;
            };
            let handler =
                graph.step_position(handler).into_iter().flat_map(|at| graph.descendants(at));
            let uncertain = graph.descendants(from).into_iter().chain(handler);
            let uncertain = uncertain.filter(|at| *at != from);
            let why = format!("it depends on whether step `{}` fails", step.id);
            self.mark_uncertain(uncertain, &why);
        }
    }

    /// The order in which the dependencies of a join end is not known, so its losers may or may not be entered.
    pub(super) fn mark_losers_uncertain(&mut self) {
        self.mark_uncertain(self.losers.clone(), "a join may go on without it");
    }

    /// A step that another one cancels may be done before that, and so may the steps beside one that stops the execution.
    pub(super) fn mark_cancelled_steps_uncertain(&mut self) {
        let definition = self.builder.context.definition;
        let graph = definition.graph();
        let mut uncertain = BTreeSet::new();
        for (from, step) in definition.workflow.steps.iter().enumerate() {
            let ancestors = graph.ancestors(from);
            let named = step.cancel.iter().filter_map(|id| graph.step_position(id));
            let mut affected: BTreeSet<_> = named.flat_map(|at| graph.descendants(at)).collect();
            if step.may_stop_execution() {
                affected.extend(0..definition.workflow.steps.len());
            }
            uncertain.extend(affected.into_iter().filter(|at| !ancestors.contains(at)));
        }
        self.mark_uncertain(uncertain, "it depends on whether another step cancels it first");
    }

    /// A step that runs in parallel to a jump back may be entered before or after the jump, unless all its dependencies
    /// come before the jump.
    pub(super) fn mark_parallel_steps_uncertain(&mut self) {
        let definition = self.builder.context.definition;
        let graph = definition.graph();
        let steps = &definition.workflow.steps;
        let mut uncertain = BTreeSet::new();
        for from in (0..steps.len()).filter(|at| steps[*at].has_success_jump()) {
            let (ancestors, descendants) = (graph.ancestors(from), graph.descendants(from));
            let targets = steps[from].jump_targets().filter_map(|id| graph.step_position(id));
            let resettable =
                targets.filter(|at| ancestors.contains(at)).flat_map(|at| graph.descendants(at));
            let is_affected = |at: &usize| {
                let dependencies = graph.dependencies(*at);
                !ancestors.contains(at)
                    && !descendants.contains(at)
                    && dependencies.iter().any(|at| !ancestors.contains(at))
            };
            uncertain.extend(resettable.filter(is_affected));
        }
        let uncertain = uncertain.into_iter().flat_map(|at| graph.descendants(at));
        self.mark_uncertain(uncertain, "it depends on whether a jump back comes first");
    }
}
