//! Why a value is not known in a dry run.

use std::collections::BTreeSet;

use super::DryRunner;
use crate::{
    definition::{Step, StepKind},
    execution::StepStatus,
    expression::{ALL_INPUTS_MEMORY_KEY, Expression, Reference, ReferenceRoot},
};

const STEP_NOT_RUN_REASON: &str = "the step has not run yet";

impl DryRunner<'_> {
    pub(super) fn explain_unknown_expression(
        &self,
        expression: Option<&Expression>,
        position: usize,
    ) -> Option<String> {
        let mut references = expression?.references().iter();
        references.find_map(|reference| self.explain_unknown_reference(reference, position))
    }

    /// Why the value that `reference` names is not known when the step at `position` is entered; `None` if it is known.
    pub(super) fn explain_unknown_reference(
        &self,
        reference: &Reference,
        position: usize,
    ) -> Option<String> {
        let first = reference.path.first().map(|segment| segment.as_key());
        let why = match (reference.root, first.as_deref()) {
            (ReferenceRoot::Env | ReferenceRoot::Secrets, _) => None,
            (ReferenceRoot::Run, _) => Some("it is known once the execution runs".to_owned()),
            (ReferenceRoot::Item | ReferenceRoot::Index, _) => {
                Some("it is another one for each item".to_owned())
            }
            (ReferenceRoot::Inputs, Some(name)) => self.explain_unknown_input(name, position),
            (ReferenceRoot::Inputs, None) => self.explain_unknown_inputs(position),
            (ReferenceRoot::Steps, Some(id)) => self.explain_unknown_output(id, position),
            (ReferenceRoot::Steps, None) => self.find_first_step_reason(|step| {
                self.explain_unknown_output(step.id.as_str(), position)
            }),
            (ReferenceRoot::Memory, Some(name)) => self.explain_unknown_memory(name, position),
            (ReferenceRoot::Memory, None) if !self.memory_set_by_hooks.is_empty() => {
                Some("a hook may change it".to_owned())
            }
            (ReferenceRoot::Memory, None) => self.find_first_step_reason(|step| {
                matches!(step.kind, StepKind::Set { .. }).then(|| STEP_NOT_RUN_REASON.to_owned())
            }),
        };
        why.map(|why| format!("`{reference}`: {why}"))
    }

    fn find_first_step_reason(&self, why: impl Fn(&Step) -> Option<String>) -> Option<String> {
        self.builder.context.definition.workflow.steps.iter().find_map(why)
    }

    fn explain_unknown_inputs(&self, position: usize) -> Option<String> {
        let requests_inputs = |step: &Step| step.kind.requested_inputs().is_some();
        let reason = self.unknown_inputs.values().next().cloned();
        reason.or_else(|| self.explain_unordered_change(position, requests_inputs))
    }

    fn explain_unknown_input(&self, name: &str, position: usize) -> Option<String> {
        let requests_input = |step: &Step| {
            step.kind
                .requested_inputs()
                .is_some_and(|names| names.iter().any(|asked| asked == name))
        };
        let reason = self.unknown_inputs.get(name).cloned();
        reason.or_else(|| self.explain_unordered_change(position, requests_input))
    }

    fn explain_unknown_memory(&self, name: &str, position: usize) -> Option<String> {
        let sets = |step: &Step| matches!(&step.kind, StepKind::Set { entries } if entries.contains_key(name));
        if self.memory_set_by_hooks.contains(name) {
            return Some("a hook may change it".to_owned());
        }
        let reason = self.unknown_memory.get(name).cloned();
        reason.or_else(|| self.explain_unordered_change(position, sets)).or_else(|| match name {
            ALL_INPUTS_MEMORY_KEY => self.explain_unknown_inputs(position),
            _ if self.builder.execution.memory.contains_key(name) => None,
            // `memory` also finds the output of a step under its id.
            _ => self.find_position(name).and_then(|_| self.explain_unknown_output(name, position)),
        })
    }

    /// A message if a step that `changes` the value is not ordered with the step at `position`, and so may run before
    /// or after it.
    fn explain_unordered_change(
        &self,
        position: usize,
        changes: impl Fn(&Step) -> bool,
    ) -> Option<String> {
        let definition = self.builder.context.definition;
        let graph = definition.graph();
        if position >= definition.workflow.steps.len() {
            return None;
        }
        let reset_steps = self.find_steps_reset_in_parallel(position);
        let (ancestors, descendants) = (graph.ancestors(position), graph.descendants(position));
        let is_ordered = |at: usize| {
            (ancestors.contains(&at) || descendants.contains(&at))
                && !reset_steps.contains(&at)
                && !self.losers.contains(&at)
        };
        let mut steps = definition.workflow.steps.iter().enumerate();
        let unordered_step = steps.find(|(at, step)| changes(step) && !is_ordered(*at));
        unordered_step.map(|(_, step)| format!("step `{}` may change it before or after", step.id))
    }

    /// The steps that jumps may reset in parallel to the step at `position`: jumps of steps that are not ordered with
    /// it, and of the steps that are entered again after those jumps.
    fn find_steps_reset_in_parallel(&self, position: usize) -> BTreeSet<usize> {
        let definition = self.builder.context.definition;
        let (graph, steps) = (definition.graph(), &definition.workflow.steps);
        let targets = |at: usize| steps[at].jump_targets().filter_map(|id| graph.step_position(id));
        let (ancestors, descendants) = (graph.ancestors(position), graph.descendants(position));
        let parallel_steps =
            (0..steps.len()).filter(|at| !ancestors.contains(at) && !descendants.contains(at));
        let mut unvisited: Vec<usize> = parallel_steps.flat_map(targets).collect();
        let mut reset_steps = BTreeSet::new();
        while let Some(at) = unvisited.pop() {
            if reset_steps.insert(at) {
                unvisited.extend(graph.dependents(at).iter().copied().chain(targets(at)));
            }
        }
        reset_steps
    }

    fn explain_unknown_output(&self, id: &str, position: usize) -> Option<String> {
        let source = self.find_position(id)?;
        match self.builder.execution.steps[source].status {
            StepStatus::Completed if self.unknown_outputs.contains(&source) => {
                Some(STEP_NOT_RUN_REASON.to_owned())
            }
            StepStatus::Skipped | StepStatus::Failed | StepStatus::Completed => {
                self.explain_unordered_change(position, |step| step.id.as_str() == id)
            }
            _ => Some(STEP_NOT_RUN_REASON.to_owned()),
        }
    }
}
