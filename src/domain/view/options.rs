//! The next calls that a client may make (`nextStepOptions`): options that steps offer, and continuing the workflow.

use super::ViewContext;
use crate::{
    definition::{JumpTarget, StepKind},
    id::StepId,
    offer::{OfferedOptions, OptionSource, StepOption},
    truncate::truncate_to_chars,
};

/// The longest condition that an option shows, in bytes.
const CONDITION_BYTES_MAX: usize = 500;

/// The options of a view, and those that could not be offered.
#[derive(Default)]
pub(super) struct NextSteps {
    pub(super) options: Vec<StepOption>,
    pub(super) omitted: Vec<String>,
}

impl NextSteps {
    /// The options, by descending priority. `next_step` is the step that continues the workflow, with its token.
    pub(super) fn collect_options(
        context: &ViewContext<'_>,
        next_step: Option<(&str, &str)>,
    ) -> Self {
        let mut next_steps = Self::default();
        for offer in context.execution.offers() {
            let offered =
                context.value(offer.options).map(|value| OfferedOptions::from_value(&value));
            let offered = offered.unwrap_or_default();
            next_steps.options.extend(offered.options);
            next_steps.omitted.extend(offered.left_out);
        }
        if let Some((step, token)) = next_step {
            let continue_option = StepOption::new_continue_option(token);
            match find_taken_arm_condition(context, step) {
                Some(condition) => next_steps.options.push(StepOption {
                    from: OptionSource::Arm,
                    condition,
                    ..continue_option
                }),
                None if next_steps.options.is_empty() => {}
                None => next_steps.options.push(continue_option),
            }
        }
        next_steps.options.sort_by_key(|option| -option.priority);
        next_steps
    }
}

/// Whether an arm of a `branch` led to the step when it was opened. `Some(None)` means that the arm has no condition,
/// or that several arms lead to the step.
#[expect(clippy::option_option, reason = "no arm, and an arm that always holds, are two things")]
fn find_taken_arm_condition(context: &ViewContext<'_>, next: &str) -> Option<Option<String>> {
    let branch_positions = context.definition.branch_positions();
    if branch_positions.is_empty() {
        return None;
    }
    let next = StepId::parse(next).ok()?;
    let opened_revision = context.execution.find_step(&next)?.1.latest_visit()?.opened_revision;
    let closed_revision = |at: usize| {
        let visit = context.execution.steps().get(at)?.latest_visit()?;
        Some(visit.closed.as_ref()?.revision)
    };
    let taken_branches =
        branch_positions.iter().filter(|at| closed_revision(**at) == Some(opened_revision));
    let arms = taken_branches.flat_map(|at| match &context.definition.workflow.steps[*at].kind {
        StepKind::Branch { arms } => arms.as_slice(),
        _ => &[],
    });
    let mut matching_arms = arms.filter(|arm| arm.next == JumpTarget::Step(next.clone()));
    let condition = matching_arms.next()?.condition.as_deref();
    let condition = condition.filter(|_| matching_arms.next().is_none());
    Some(condition.map(|text| truncate_to_chars(text, CONDITION_BYTES_MAX).into()))
}
