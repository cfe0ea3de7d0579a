//! What a fork does with each step.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{ForkArguments, ForkSource, Payloads, SkipReason, base::ForkBase};
use crate::{
    definition::{RunWhen, Step, StepKind},
    error::Violation,
    execution::{
        DecisionContext, StepState, ValueReference,
        decision::{DecideResult, Interrupt},
    },
    id::StepId,
    state::StepStatus,
};

/// What a fork does with the steps of its source and of its definition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ForkPlan {
    /// Every step: those of the definition in authoring order, then those that only the source has.
    pub steps: Vec<PlannedStep>,
    /// The steps of the source whose effects a compensation should have undone and did not.
    pub not_compensated: Vec<String>,
}

/// What a fork does with one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PlannedStep {
    /// The step.
    #[schemars(with = "String")]
    pub step: StepId,
    /// What becomes of it.
    pub fate: StepFate,
    /// Why it is done again, or that it was skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Where its stored output breaks the schema of the definition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<serde_json::Value>")]
    pub violations: Vec<Violation>,
    /// Whether it is an approval of the source, or its child holds one, which must be asked for again.
    #[serde(skip)]
    is_gate: bool,
}

/// What becomes of a step in a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepFate {
    /// It has ended and is not done again.
    Kept,
    /// It is done again.
    OpenAgain,
    /// It was not reached, and is still to be done.
    Pending,
    /// Only the new definition has it.
    New,
    /// The new definition lacks it.
    Removed,
    /// Its stored output breaks the schema of the new definition.
    OutputInvalid,
}

impl ForkPlan {
    pub(super) fn kept_steps(&self) -> impl Iterator<Item = &StepId> {
        let kept = self.steps.iter().filter(|planned| planned.fate == StepFate::Kept);
        kept.map(|planned| &planned.step)
    }

    pub(super) fn keeps(&self, step: &StepId) -> bool {
        self.kept_steps().any(|kept| kept == step)
    }

    /// The approvals of the source that must be asked for again.
    pub(super) fn gates(&self) -> impl Iterator<Item = StepId> {
        self.steps.iter().filter(|planned| planned.is_gate).map(|planned| planned.step.clone())
    }

    pub(super) fn has_invalid_outputs(&self) -> bool {
        self.steps.iter().any(|planned| planned.fate == StepFate::OutputInvalid)
    }

    /// The violations of all outputs that break the definition, each below its step.
    pub fn violations(&self) -> Vec<Violation> {
        let steps = self.steps.iter().flat_map(|planned| {
            planned.violations.iter().map(|violation| Violation {
                path: format!("steps.{}.output.{}", planned.step, violation.path),
                ..violation.clone()
            })
        });
        steps.collect()
    }
}

impl PlannedStep {
    fn new(step: &StepId, fate: StepFate) -> Self {
        Self { step: step.clone(), fate, why: None, violations: Vec::new(), is_gate: false }
    }

    fn open_again(&mut self, why: impl Into<String>) {
        (self.fate, self.why) = (StepFate::OpenAgain, Some(why.into()));
    }
}

/// What becomes of each step. Asks for the outputs that must be checked against another definition.
pub(super) fn plan_steps(
    source: ForkSource<'_>,
    context: DecisionContext<'_>,
    arguments: &ForkArguments,
    (base, payloads): (&ForkBase, &Payloads<'_>),
) -> DecideResult<ForkPlan> {
    let steps = &context.definition.workflow.steps;
    let has_changes = source.definition.digest() != context.definition.digest()
        || !arguments.inputs.is_empty()
        || !arguments.memory.is_empty();
    let is_unasked = |step: &StepId| {
        let was_gate = source.definition.step(step).is_some_and(Step::asks_for_approval);
        has_changes && was_gate && payloads.skip_reason(step) == SkipReason::Condition
    };
    let approvals = Approvals { children: &arguments.approved_children, is_unasked: &is_unasked };
    let planned = steps.iter().enumerate();
    let mut planned: Vec<_> =
        planned.map(|(position, step)| plan_step(base, &approvals, position, step)).collect();
    let graph = context.definition.graph();
    for (position, step) in steps.iter().enumerate() {
        if !base.sources.contains(&step.id) && planned[position].fate != StepFate::New {
            continue;
        }
        for after in graph.descendants(position) {
            let follows = &mut planned[after];
            // Everything after this gate is done again too, so it is asked for in the usual order.
            follows.is_gate = false;
            if follows.fate == StepFate::Kept {
                follows.open_again(format!("it follows '{}'", step.id));
            }
        }
    }
    if source.definition.digest() != context.definition.digest() {
        check_kept_outputs(context, base, &mut planned)?;
    }
    let removed =
        base.execution.steps.iter().filter(|state| graph.step_position(&state.id).is_none());
    planned.extend(removed.map(|state| PlannedStep::new(&state.id, StepFate::Removed)));
    let not_compensated = base.latest.not_compensated.iter();
    let not_compensated =
        not_compensated.map(|left| format!("{}: {}", left.visit_id.step(), left.why));
    Ok(ForkPlan { steps: planned, not_compensated: not_compensated.collect() })
}

/// What decides whether an approval must be asked for again.
struct Approvals<'a> {
    /// The steps whose child executions hold an approval.
    children: &'a BTreeSet<StepId>,
    /// Whether a skipped gate is to be checked again: its condition did not hold, and inputs, memory or the definition
    /// differ.
    is_unasked: &'a dyn Fn(&StepId) -> bool,
}

fn plan_step(
    base: &ForkBase,
    approvals: &Approvals<'_>,
    position: usize,
    step: &Step,
) -> PlannedStep {
    let Some(state) = base.find_step(position, &step.id) else {
        return PlannedStep::new(&step.id, StepFate::New);
    };
    let mut planned = PlannedStep::new(&step.id, StepFate::Pending);
    let is_completed = state.status == StepStatus::Completed;
    let is_gate = step.asks_for_approval();
    let has_approved_child = is_completed && approvals.children.contains(&step.id);
    let is_unasked =
        is_gate && state.status == StepStatus::Skipped && (approvals.is_unasked)(&step.id);
    if let Some(why) = base.reopened.get(&step.id) {
        planned.open_again(why);
    } else if is_completed && is_gate {
        planned.open_again("an approval is never inherited");
    } else if has_approved_child {
        planned.open_again("its child holds an approval, which is never inherited");
    } else if is_unasked {
        planned.open_again("its condition is checked with the new values");
    } else if is_ended(state) && step.run_when != RunWhen::Failing {
        planned.fate = StepFate::Kept;
        let is_skipped = state.status == StepStatus::Skipped;
        planned.why = is_skipped.then(|| "it was skipped".to_owned());
    }
    // Steps after an approval may be done, also where the source is a fork that asked for it again.
    let origin = base.latest.origin.as_ref();
    let was_approved = is_completed && (is_gate || has_approved_child)
        || is_unasked
        || origin.is_some_and(|origin| origin.gates.contains(&step.id));
    planned.is_gate = was_approved && planned.fate != StepFate::Kept;
    planned
}

fn is_ended(state: &StepState) -> bool {
    matches!(state.status, StepStatus::Completed | StepStatus::Failed | StepStatus::Skipped)
}

/// Checks the outputs of kept steps against the schemas of the definition.
fn check_kept_outputs(
    context: DecisionContext<'_>,
    base: &ForkBase,
    planned: &mut [PlannedStep],
) -> DecideResult<()> {
    let mut missing = Vec::new();
    for (position, step) in context.definition.workflow.steps.iter().enumerate() {
        let planned = &mut planned[position];
        let output = base.kept_output(&step.id).filter(|_| planned.fate == StepFate::Kept);
        let is_foreach = matches!(step.kind, StepKind::Foreach { .. });
        // Without a declared schema the output fits: it was checked when the step ended.
        let Some(output) = output.filter(|_| step.result.is_some() && !is_foreach) else {
            continue;
        };
        match context.values.get(&output.digest) {
            None => missing.push(output),
            Some(value) => {
                planned.violations =
                    context.definition.output_schema(position).find_violations(value);
                // Stored artifacts have ids in place of their contents, which were checked before.
                planned.violations.retain(|one| !one.path.starts_with("/artifacts/"));
                if !planned.violations.is_empty() {
                    planned.fate = StepFate::OutputInvalid;
                }
            }
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(Interrupt::MissingValues(missing)) }
}

impl ForkBase {
    /// The state of a step of the source. In most forks it has the position of the same step in the definition.
    fn find_step(&self, position: usize, id: &StepId) -> Option<&StepState> {
        let same = self.execution.steps.get(position).filter(|state| state.id == *id);
        let found = || self.execution.find_step(id).map(|(_, state)| state);
        same.map(|state| &**state).or_else(found)
    }

    fn kept_output(&self, step: &StepId) -> Option<ValueReference> {
        let (_, state) = self.execution.find_step(step)?;
        let completed = state.status == StepStatus::Completed;
        state.latest_visit()?.closed.as_ref()?.output_reference().filter(|_| completed)
    }
}
