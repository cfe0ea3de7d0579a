//! Warnings about steps with side effects that no gate and no read-only call precede. The class of an operation comes
//! from the catalog, including changes that the user made to it.

use std::collections::BTreeSet;

use super::{
    super::{
        class::OperationClass,
        draft::{RawField, StepDraft},
        finding::{Finding, Rule},
    },
    ServerCapabilities,
    commands::OperationCalls,
    flow::FlowGraph,
};

/// A step, or the body of a `foreach`, that has side effects.
struct SideEffectStep<'a> {
    position: usize,
    /// The field that determines its kind.
    field: &'a RawField,
    class: OperationClass,
    /// The steps that may have run before it.
    predecessors: BTreeSet<usize>,
}

/// Warns of side effects without a gate before them, and of a first call that changes data before any call has read it.
pub(super) fn check_side_effects(
    findings: &mut Vec<Finding>,
    steps: &[StepDraft],
    (calls, abilities): (&OperationCalls, &ServerCapabilities),
    flow: &FlowGraph<'_>,
) {
    let changing = steps.iter().enumerate().flat_map(|(position, step)| {
        let bodies = step.step_and_foreach_body();
        let class = |body| side_effect_field(body, calls, abilities);
        bodies.filter_map(move |body| class(body).map(|(field, class)| (position, field, class)))
    });
    let changes: Vec<_> = changing
        .map(|(position, field, class)| SideEffectStep {
            position,
            field,
            class,
            predecessors: flow.possible_predecessors(position),
        })
        .collect();
    warn_ungated_changes(findings, steps, &changes);
    warn_change_before_read(findings, steps, calls, &changes);
}

/// The field and the class of a step with side effects; `None` if the step only reads, or if its class is unknown.
fn side_effect_field<'a>(
    step: &'a StepDraft,
    calls: &OperationCalls,
    abilities: &ServerCapabilities,
) -> Option<(&'a RawField, OperationClass)> {
    if let Some(field) = step.find_field("run") {
        let class = calls.operation_of_step(step)?.class;
        return (class > OperationClass::Safe).then_some((field, class));
    }
    let field = step.find_field("activity")?;
    let is_known = abilities.activities.contains(field.value.as_text()?);
    let may_repeat = step.read_value("idempotent") == Some(true);
    (is_known && !may_repeat).then_some((field, OperationClass::Standard))
}

fn has_kind(step: &StepDraft, kind: &str) -> bool {
    step.step_and_foreach_body().any(|body| body.find_field(kind).is_some())
}

/// Warns once for each chain of changes: a gate before the first also covers the later ones, so a step is skipped if an
/// earlier step with the same or a higher class was reported.
fn warn_ungated_changes(
    findings: &mut Vec<Finding>,
    steps: &[StepDraft],
    changes: &[SideEffectStep<'_>],
) {
    let mut reported: Vec<&SideEffectStep<'_>> = Vec::new();
    for change in changes {
        let is_gated = change.predecessors.iter().any(|at| has_kind(&steps[*at], "gate"));
        let is_reported = reported
            .iter()
            .any(|one| one.class >= change.class && change.predecessors.contains(&one.position));
        if !is_gated && !is_reported {
            reported.push(change);
            findings.push(change.missing_gate_finding());
        }
    }
}

impl SideEffectStep<'_> {
    fn missing_gate_finding(&self) -> Finding {
        let name = self.field.value.as_text().unwrap_or_default();
        let (effect, hint) = match (self.field.key.name, self.class) {
            ("run", OperationClass::Destructive) => ("takes something away", ADD_GATE_HINT),
            ("run", _) => ("changes something", ADD_GATE_HINT),
            _ => ("may not be done twice", GATE_OR_IDEMPOTENT_HINT),
        };
        let message = format!("`{name}` {effect}, and no `gate` comes before it");
        let finding = self.field.value_finding(Rule::MutationWithoutGate, message);
        finding.suggest(hint.to_owned())
    }
}

const ADD_GATE_HINT: &str = "put a step before it that a person answers: `gate: May this be done?`";
const GATE_OR_IDEMPOTENT_HINT: &str = "put a step before it that a person answers, `gate: May this be done?`, or write `idempotent: true` where doing it twice is doing it once";

/// Warns of the first call with side effects if no read-only call may precede it. A workflow with a single call gets no
/// warning, since starting it amounts to making that call. An unknown operation may be read-only, so it suppresses the
/// warning.
fn warn_change_before_read(
    findings: &mut Vec<Finding>,
    steps: &[StepDraft],
    calls: &OperationCalls,
    changes: &[SideEffectStep<'_>],
) {
    let count_run_bodies = |step: &StepDraft| {
        step.step_and_foreach_body().filter(|body| body.find_field("run").is_some()).count()
    };
    let changes = || changes.iter().filter(|change| change.field.key.name == "run");
    let is_first = |change: &&SideEffectStep<'_>| {
        changes().all(|other| !change.predecessors.contains(&other.position))
    };
    let Some(first) = changes().find(is_first) else {
        return;
    };
    let mut earlier_bodies =
        first.predecessors.iter().flat_map(|at| steps[*at].step_and_foreach_body());
    let may_only_read = |step: &StepDraft| {
        step.find_field("run").is_some()
            && calls
                .operation_of_step(step)
                .is_none_or(|callable| callable.class == OperationClass::Safe)
    };
    if steps.iter().map(count_run_bodies).sum::<usize>() < 2 || earlier_bodies.any(may_only_read) {
        return;
    }
    let name = first.field.value.as_text().unwrap_or_default();
    let message = format!(
        "`{name}` is the first call that changes something, and no call before it looks at what is there"
    );
    let hint = "begin with a `run` step whose operation only reads: where it fails, nothing has been changed yet";
    let rule = Rule::WorkflowMutationBeforePreflight;
    findings.push(first.field.value_finding(rule, message).suggest(hint.to_owned()));
}
