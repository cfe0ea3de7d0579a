//! Doubts about a finished rehearsal: it assumes an order of steps and that each one succeeds.

use std::collections::BTreeSet;

use super::Rehearsing;
use crate::{definition::OnError, execution::StepStatus};

impl Rehearsing<'_> {
    /// What was passed may be entered all the same, where a step of which the end is not known may send control back.
    pub(super) fn doubt_passed(&mut self) {
        let definition = self.builder.facts.definition;
        let graph = definition.graph();
        let is_open = |at: &usize| self.builder.next.steps[*at].status == StepStatus::Pending;
        let open = (0..self.steps.len()).filter(is_open);
        let targets = open.flat_map(|at| definition.workflow.steps[at].jumps());
        let targets = targets.filter_map(|id| graph.position(id));
        let again: BTreeSet<_> = targets.flat_map(|at| graph.downstream(at)).collect();
        for position in again {
            if let Some(step) = self.steps[position]
                .as_mut()
                .filter(|step| step.will_run == Some(false))
            {
                (step.will_run, step.why) =
                    (None, format!("{}, but may come back to it", step.why));
            }
        }
    }

    /// Of jumps that may happen in either order nobody knows what they go past.
    pub(super) fn doubt_crossing(&mut self) {
        let definition = self.builder.facts.definition;
        let graph = definition.graph();
        let steps = &definition.workflow.steps;
        let is_ordered = |a: usize, b: usize| {
            graph.downstream(a).contains(&b) || graph.downstream(b).contains(&a)
        };
        let jumping: Vec<_> = (0..steps.len())
            .filter(|at| steps[*at].is_jumping())
            .collect();
        let mut doubted = BTreeSet::new();
        for &from in &jumping {
            let targets = steps[from].jumps().filter_map(|id| graph.position(id));
            let targets: Vec<_> = targets.collect();
            let mut others = targets.iter().chain(&jumping);
            if others.any(|other| !is_ordered(from, *other)) {
                let after = graph.downstream(from).into_iter().filter(|at| *at != from);
                doubted.extend(after);
                doubted.extend(targets.iter().flat_map(|at| graph.downstream(*at)));
            }
        }
        for position in doubted {
            let why = "it depends on which of several jumps comes first";
            if let Some(step) = self.steps[position].as_mut() {
                (step.will_run, step.why) = (None, why.to_owned());
            }
        }
    }

    /// A step whose failure leads elsewhere may fail: nobody knows whether what follows it is entered, or what handles that.
    pub(super) fn doubt_handled(&mut self) {
        let definition = self.builder.facts.definition;
        let graph = definition.graph();
        for (from, step) in definition.workflow.steps.iter().enumerate() {
            let OnError::Step(handler) = &step.on_error else {
                continue;
            };
            let handler = graph
                .position(handler)
                .into_iter()
                .flat_map(|at| graph.downstream(at));
            for at in graph.downstream(from).into_iter().chain(handler) {
                if let Some(known) = self.steps[at].as_mut().filter(|_| at != from) {
                    let why = format!("it depends on whether step `{}` fails", step.id);
                    (known.will_run, known.why) = (None, why);
                }
            }
        }
    }

    /// Nobody knows which of the steps before a join are done first.
    pub(super) fn doubt_losers(&mut self) {
        for position in &self.losers {
            if let Some(step) = self.steps[*position].as_mut() {
                let why = "a join may go on without it";
                (step.will_run, step.why) = (None, why.to_owned());
            }
        }
    }

    /// Of a step beside a jump back nobody knows whether it is entered first, unless it waits for nothing but what comes
    /// before the jump.
    pub(super) fn doubt_beside(&mut self) {
        let definition = self.builder.facts.definition;
        let graph = definition.graph();
        let steps = &definition.workflow.steps;
        let mut doubted = BTreeSet::new();
        for from in (0..steps.len()).filter(|at| steps[*at].is_jumping()) {
            let (before, after) = (graph.ancestors(from), graph.downstream(from));
            let targets = steps[from].jumps().filter_map(|id| graph.position(id));
            let again = targets
                .filter(|at| before.contains(at))
                .flat_map(|at| graph.downstream(at));
            let is_late = |at: &usize| {
                let waits_for = graph.dependencies(*at);
                !before.contains(at)
                    && !after.contains(at)
                    && waits_for.iter().any(|at| !before.contains(at))
            };
            doubted.extend(again.filter(is_late));
        }
        let doubted: BTreeSet<_> = doubted
            .into_iter()
            .flat_map(|at| graph.downstream(at))
            .collect();
        for position in doubted {
            if let Some(step) = self.steps[position].as_mut() {
                let why = "it depends on whether a jump back comes first";
                (step.will_run, step.why) = (None, why.to_owned());
            }
        }
    }
}
