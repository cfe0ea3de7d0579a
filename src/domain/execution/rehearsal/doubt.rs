//! Corrections after a dry run, which assumes one order of steps and that each step completes: results that depend on
//! these assumptions become unknown.

use std::collections::BTreeSet;

use super::RehearsalRun;
use crate::{definition::OnError, execution::StepStatus};

impl RehearsalRun<'_> {
    /// Whether the steps at `positions` are entered is not known.
    fn mark_doubtful(&mut self, positions: impl IntoIterator<Item = usize>, why: &str) {
        for position in positions {
            if let Some(step) = self.steps[position].as_mut() {
                (step.will_run, step.why) = (None, why.to_owned());
            }
        }
    }

    /// A skipped step may be entered after all if a step that is still pending may jump back to it or to a step before
    /// it.
    pub(super) fn doubt_skipped_steps(&mut self) {
        let definition = self.builder.facts.definition;
        let graph = definition.graph();
        let is_open = |at: &usize| self.builder.next.steps[*at].status == StepStatus::Pending;
        let open = (0..self.steps.len()).filter(is_open);
        let targets = open.flat_map(|at| definition.workflow.steps[at].jump_targets());
        let targets = targets.filter_map(|id| graph.step_position(id));
        let again: BTreeSet<_> = targets.flat_map(|at| graph.downstream(at)).collect();
        for position in again {
            if let Some(step) =
                self.steps[position].as_mut().filter(|step| step.will_run == Some(false))
            {
                (step.will_run, step.why) =
                    (None, format!("{}, but may come back to it", step.why));
            }
        }
    }

    /// If two jumps may happen in either order, the steps that each of them skips are not known.
    pub(super) fn doubt_crossing_jumps(&mut self) {
        let definition = self.builder.facts.definition;
        let graph = definition.graph();
        let steps = &definition.workflow.steps;
        let is_ordered = |a: usize, b: usize| {
            graph.downstream(a).contains(&b) || graph.downstream(b).contains(&a)
        };
        let jumping: Vec<_> = (0..steps.len()).filter(|at| steps[*at].has_success_jump()).collect();
        let mut doubted = BTreeSet::new();
        for &from in &jumping {
            let targets = steps[from].jump_targets().filter_map(|id| graph.step_position(id));
            let targets: Vec<_> = targets.collect();
            let mut others = targets.iter().chain(&jumping);
            if others.any(|other| !is_ordered(from, *other)) {
                let after = graph.downstream(from).into_iter().filter(|at| *at != from);
                doubted.extend(after);
                doubted.extend(targets.iter().flat_map(|at| graph.downstream(*at)));
            }
        }
        self.mark_doubtful(doubted, "it depends on which of several jumps comes first");
    }

    /// A step with a failure branch may fail, so it is not known whether its dependents or the steps of that branch are
    /// entered.
    pub(super) fn doubt_failure_branches(&mut self) {
        let definition = self.builder.facts.definition;
        let graph = definition.graph();
        for (from, step) in definition.workflow.steps.iter().enumerate() {
            let OnError::Step(handler) = &step.on_error else {
                continue;
            };
            let handler =
                graph.step_position(handler).into_iter().flat_map(|at| graph.downstream(at));
            let doubted = graph.downstream(from).into_iter().chain(handler);
            let doubted = doubted.filter(|at| *at != from);
            let why = format!("it depends on whether step `{}` fails", step.id);
            self.mark_doubtful(doubted, &why);
        }
    }

    /// The order in which the dependencies of a join end is not known, so its losers may or may not be entered.
    pub(super) fn doubt_losers(&mut self) {
        self.mark_doubtful(self.losers.clone(), "a join may go on without it");
    }

    /// A step that runs in parallel to a jump back may be entered before or after the jump, unless all its dependencies
    /// come before the jump.
    pub(super) fn doubt_steps_parallel_to_jumps(&mut self) {
        let definition = self.builder.facts.definition;
        let graph = definition.graph();
        let steps = &definition.workflow.steps;
        let mut doubted = BTreeSet::new();
        for from in (0..steps.len()).filter(|at| steps[*at].has_success_jump()) {
            let (before, after) = (graph.ancestors(from), graph.downstream(from));
            let targets = steps[from].jump_targets().filter_map(|id| graph.step_position(id));
            let again =
                targets.filter(|at| before.contains(at)).flat_map(|at| graph.downstream(at));
            let is_late = |at: &usize| {
                let waits_for = graph.dependencies(*at);
                !before.contains(at)
                    && !after.contains(at)
                    && waits_for.iter().any(|at| !before.contains(at))
            };
            doubted.extend(again.filter(is_late));
        }
        let doubted = doubted.into_iter().flat_map(|at| graph.downstream(at));
        self.mark_doubtful(doubted, "it depends on whether a jump back comes first");
    }
}
