//! The next calls that a client may make (`nextStepOptions`): options that steps offer, and continuing the workflow.

use super::Subject;
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
    pub(super) left_out: Vec<String>,
}

impl NextSteps {
    /// The options, by descending priority. `next` is the step that continues the workflow, with its token.
    pub(super) fn collect_options(subject: &Subject<'_>, next: Option<(&str, &str)>) -> Self {
        let mut found = Self::default();
        for offer in subject.execution.offers() {
            let offered =
                subject.value(offer.options).map(|value| OfferedOptions::from_value(&value));
            let offered = offered.unwrap_or_default();
            found.options.extend(offered.options);
            found.left_out.extend(offered.left_out);
        }
        if let Some((step, token)) = next {
            let going_on = StepOption::new_continue_option(token);
            match condition_of_taken_arm(subject, step) {
                Some(condition) => found.options.push(StepOption {
                    from: OptionSource::Arm,
                    condition,
                    ..going_on
                }),
                None if found.options.is_empty() => {}
                None => found.options.push(going_on),
            }
        }
        found.options.sort_by_key(|option| -option.priority);
        found
    }
}

/// Whether an arm of a `branch` led to the step when it was opened. `Some(None)` means that the arm has no condition,
/// or that several arms lead to the step.
#[expect(clippy::option_option, reason = "no arm, and an arm that always holds, are two things")]
fn condition_of_taken_arm(subject: &Subject<'_>, next: &str) -> Option<Option<String>> {
    let branching = subject.definition.branch_positions();
    if branching.is_empty() {
        return None;
    }
    let next = StepId::parse(next).ok()?;
    let opened = subject.execution.step(&next)?.1.latest_visit()?.opened_revision;
    let ended = |at: usize| {
        let visit = subject.execution.steps().get(at)?.latest_visit()?;
        Some(visit.closed.as_ref()?.revision)
    };
    let taken = branching.iter().filter(|at| ended(**at) == Some(opened));
    let arms = taken.flat_map(|at| match &subject.definition.workflow.steps[*at].kind {
        StepKind::Branch { arms } => arms.as_slice(),
        _ => &[],
    });
    let mut leading = arms.filter(|arm| arm.next == JumpTarget::Step(next.clone()));
    let condition = leading.next()?.condition.as_deref();
    let condition = condition.filter(|_| leading.next().is_none());
    Some(condition.map(|text| truncate_to_chars(text, CONDITION_BYTES_MAX).into()))
}
