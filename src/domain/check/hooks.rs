//! Checks hooks, compensations, joins and `on_failure` steps.

use std::collections::BTreeMap;

use super::{
    super::{
        body::BodyKind,
        definition::{JoinRule, RunWhen, Step},
        draft::{StepDraft, WorkflowDraft},
        finding::{Finding, Rule},
        id::StepId,
        node::DocumentNode,
        state::State,
    },
    KnownNames,
    flow::FlowGraph,
    step,
};
use crate::definition::default_compensate_when;

/// Checks the hooks of the workflow.
pub(super) fn check_hooks(
    findings: &mut Vec<Finding>,
    draft: &WorkflowDraft,
    known: KnownNames<'_>,
) -> BTreeMap<BodyKind, Step> {
    step::check_hooks_and_compensation(
        findings,
        &draft.hooks,
        StepId::workflow_pseudo_step(),
        known,
    )
}

/// The final states that trigger compensation.
pub(super) fn read_compensate_when(draft: &WorkflowDraft) -> Vec<State> {
    let Some(field) = draft.field("compensate_when") else {
        return default_compensate_when();
    };
    let states = field.value.items().unwrap_or_default().iter();
    states.filter_map(DocumentNode::deserialize_as).collect()
}

/// Sets [`RunWhen::Failing`] on a step of the workflow's `on_failure`.
pub(super) fn set_run_when_failing(step: Step, draft: &StepDraft) -> Step {
    if !draft.is_failure_step {
        return step;
    }
    Step { run_when: RunWhen::Failing, ..step }
}

/// Adds a finding for each join that can never be satisfied, and for each key that another key makes ineffective.
pub(super) fn check_joins_and_run_when(
    findings: &mut Vec<Finding>,
    steps: &[StepDraft],
    flow: &FlowGraph<'_>,
) {
    for (position, step) in steps.iter().enumerate() {
        let join = step.read_value::<String>("join");
        let join = join.and_then(|text| JoinRule::parse(&text)).unwrap_or_default();
        check_quorum(findings, step, &join, flow.dependencies()[position].len());
        if let Some(field) = step.find_field("losers").filter(|_| join == JoinRule::All) {
            let message = "`losers` has no effect on a step that waits for all before it";
            let finding = field.key_finding(Rule::NoEffect, message);
            findings.push(finding.suggest("write `join: any` or `join: quorum(N)` too".to_owned()));
        }
        if let Some(field) = step.find_field("run_when").filter(|_| step.is_failure_step) {
            let message = "`run_when` has no effect in `on_failure`, whose steps run once the execution is failing";
            findings.push(field.key_finding(Rule::NoEffect, message));
        }
    }
}

fn check_quorum(
    findings: &mut Vec<Finding>,
    step: &StepDraft,
    join: &JoinRule,
    dependency_count: usize,
) {
    let (JoinRule::Quorum(quorum), Some(field)) = (join, step.find_field("join")) else {
        return;
    };
    if *quorum as usize <= dependency_count {
        return;
    }
    let message =
        format!("the join asks for {quorum} of the steps before, and there are {dependency_count}");
    let finding = field.value_finding(Rule::OutOfRange, message);
    findings.push(finding.suggest("name the steps that are waited for in `depends_on`".to_owned()));
}
