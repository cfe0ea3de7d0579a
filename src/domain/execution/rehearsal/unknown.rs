//! Why a value is not known in a dry run.

use std::collections::BTreeSet;

use super::RehearsalRun;
use crate::{
    definition::{Step, StepKind},
    execution::{StepStatus, scope::ALL_INPUTS_MEMORY_KEY},
    expression::{Expression, Reference, ReferenceRoot},
};

const STEP_NOT_RUN_REASON: &str = "the step has not run yet";

impl RehearsalRun<'_> {
    pub(super) fn why_unknown(
        &self,
        expression: Option<&Expression>,
        position: usize,
    ) -> Option<String> {
        let mut references = expression?.references().iter();
        references.find_map(|reference| self.why_reference(reference, position))
    }

    /// Why the value that `reference` names is not known when the step at `position` is entered; `None` if it is known.
    pub(super) fn why_reference(&self, reference: &Reference, position: usize) -> Option<String> {
        let first = reference.path.first().map(|segment| segment.as_key());
        let why = match (reference.root, first.as_deref()) {
            (ReferenceRoot::Env | ReferenceRoot::Secrets, _) => None,
            (ReferenceRoot::Run, _) => Some("it is known once the execution runs".to_owned()),
            (ReferenceRoot::Item | ReferenceRoot::Index, _) => {
                Some("it is another one for each item".to_owned())
            }
            (ReferenceRoot::Inputs, Some(name)) => self.why_input(name, position),
            (ReferenceRoot::Inputs, None) => self.why_inputs(position),
            (ReferenceRoot::Steps, Some(id)) => self.why_output(id, position),
            (ReferenceRoot::Steps, None) => {
                self.first_step_reason(|step| self.why_output(step.id.as_str(), position))
            }
            (ReferenceRoot::Memory, Some(name)) => self.why_memory(name, position),
            (ReferenceRoot::Memory, None) if !self.set_beside.is_empty() => {
                Some("a hook may change it".to_owned())
            }
            (ReferenceRoot::Memory, None) => self.first_step_reason(|step| {
                matches!(step.kind, StepKind::Set { .. }).then(|| STEP_NOT_RUN_REASON.to_owned())
            }),
        };
        why.map(|why| format!("`{reference}`: {why}"))
    }

    fn first_step_reason(&self, why: impl Fn(&Step) -> Option<String>) -> Option<String> {
        self.builder.facts.definition.workflow.steps.iter().find_map(why)
    }

    fn why_inputs(&self, position: usize) -> Option<String> {
        let asks = |step: &Step| step.kind.requested_inputs().is_some();
        let known = self.inputs.values().next().cloned();
        known.or_else(|| self.unordered_change_reason(position, asks))
    }

    fn why_input(&self, name: &str, position: usize) -> Option<String> {
        let asks = |step: &Step| {
            step.kind
                .requested_inputs()
                .is_some_and(|names| names.iter().any(|asked| asked == name))
        };
        let known = self.inputs.get(name).cloned();
        known.or_else(|| self.unordered_change_reason(position, asks))
    }

    fn why_memory(&self, name: &str, position: usize) -> Option<String> {
        let sets = |step: &Step| matches!(&step.kind, StepKind::Set { entries } if entries.contains_key(name));
        if self.set_beside.contains(name) {
            return Some("a hook may change it".to_owned());
        }
        let unknown = self.memory.get(name).cloned();
        unknown.or_else(|| self.unordered_change_reason(position, sets)).or_else(|| match name {
            ALL_INPUTS_MEMORY_KEY => self.why_inputs(position),
            _ if self.builder.next.memory.contains_key(name) => None,
            // `memory` also finds the output of a step under its id.
            _ => self.position(name).and_then(|_| self.why_output(name, position)),
        })
    }

    /// A message if a step that `changes` the value is not ordered with the step at `position`, and so may run before
    /// or after it.
    fn unordered_change_reason(
        &self,
        position: usize,
        changes: impl Fn(&Step) -> bool,
    ) -> Option<String> {
        let definition = self.builder.facts.definition;
        let graph = definition.graph();
        if position >= definition.workflow.steps.len() {
            return None;
        }
        let again = self.steps_reset_in_parallel(position);
        let (before, after) = (graph.ancestors(position), graph.downstream(position));
        let is_ordered = |at: usize| {
            (before.contains(&at) || after.contains(&at))
                && !again.contains(&at)
                && !self.losers.contains(&at)
        };
        let mut steps = definition.workflow.steps.iter().enumerate();
        let found = steps.find(|(at, step)| changes(step) && !is_ordered(*at));
        found.map(|(_, step)| format!("step `{}` may change it before or after", step.id))
    }

    /// The steps that jumps may reset in parallel to the step at `position`: jumps of steps that are not ordered with
    /// it, and of the steps that are entered again after those jumps.
    fn steps_reset_in_parallel(&self, position: usize) -> BTreeSet<usize> {
        let definition = self.builder.facts.definition;
        let (graph, steps) = (definition.graph(), &definition.workflow.steps);
        let targets = |at: usize| steps[at].jump_targets().filter_map(|id| graph.step_position(id));
        let (before, after) = (graph.ancestors(position), graph.downstream(position));
        let beside = (0..steps.len()).filter(|at| !before.contains(at) && !after.contains(at));
        let mut left: Vec<usize> = beside.flat_map(targets).collect();
        let mut found = BTreeSet::new();
        while let Some(at) = left.pop() {
            if found.insert(at) {
                left.extend(graph.dependents(at).iter().copied().chain(targets(at)));
            }
        }
        found
    }

    fn why_output(&self, id: &str, position: usize) -> Option<String> {
        let of = self.position(id)?;
        match self.builder.next.steps[of].status {
            StepStatus::Completed if self.opaque.contains(&of) => {
                Some(STEP_NOT_RUN_REASON.to_owned())
            }
            StepStatus::Skipped | StepStatus::Failed | StepStatus::Completed => {
                self.unordered_change_reason(position, |step| step.id.as_str() == id)
            }
            _ => Some(STEP_NOT_RUN_REASON.to_owned()),
        }
    }
}
