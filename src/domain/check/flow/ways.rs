//! Finds control flow that is probably a mistake: endless loops, and failure handlers that also run without a failure.

use std::collections::BTreeSet;

use super::{
    super::super::{
        draft::StepDraft,
        finding::{Finding, Rule},
        grammar,
    },
    FlowGraph, Jump, branch_jumps, is_conditional, never_falls_through, parse_jump,
    reachable_positions, step_jumps,
};

/// The successors of a step, and whether the execution may end after it.
struct StepSuccessors {
    to: Vec<usize>,
    ends: bool,
}

impl FlowGraph<'_> {
    /// Adds a finding for each jump back that is always taken in a loop without an exit.
    pub(super) fn check_endless_loops(&self, found: &mut Vec<Finding>) {
        let mut told = BTreeSet::new();
        for (position, step) in
            self.steps.iter().enumerate().filter(|(_, step)| never_falls_through(step))
        {
            let Some(jump) = first_success_jump(step) else {
                continue;
            };
            let target = self.step_position(jump.to);
            let Some(target) =
                target.filter(|to| self.steps[*to].is_provision == step.is_provision)
            else {
                continue;
            };
            let within = reachable_positions(vec![target], |at| self.step_successors(at).to);
            let is_open = within.iter().any(|at| self.step_successors(*at).ends);
            if is_open || !within.contains(&position) || !told.insert(within) {
                continue;
            }
            let message = format!(
                "nothing leads out of this loop: `{}` always goes on with `{}`",
                self.step_id(position),
                jump.to
            );
            let hint = format!(
                "give the loop a way out: a `branch` with an arm such as `{{ if: …, next: {} }}`, or `if:` at this step",
                grammar::END_TARGET
            );
            let finding = Finding::new(Rule::EndlessLoop, &jump.path, jump.place, message);
            found.push(finding.suggest(hint));
        }
    }

    fn step_successors(&self, position: usize) -> StepSuccessors {
        let step = &self.steps[position];
        let jumps = step_jumps(step);
        let to = jumps.iter().filter_map(|jump| self.step_position(jump.to));
        let mut to: Vec<_> = to.collect();
        let leaves = |jump: &Jump<'_>| {
            jump.words.contains(&jump.to) || self.step_position(jump.to).is_none()
        };
        let mut is_end = jumps.iter().any(leaves) || step.field("fail").is_some();
        let on_error = step.field("on_error").and_then(|field| field.value.as_text());
        let forgives = step.field("optional").is_some() || on_error == Some("continue");
        // After a tolerated failure, or if its condition skips the step, control continues with its dependents.
        if forgives || !never_falls_through(step) {
            let after: Vec<_> = self.dependents(position).map(|(next, _)| next).collect();
            is_end |= after.is_empty();
            to.extend(after);
        }
        StepSuccessors { to, ends: is_end }
    }

    /// Adds a finding for each failure handler that control also reaches without a failure.
    pub(super) fn check_failure_handlers(&self, found: &mut Vec<Finding>) {
        let mut seen = BTreeSet::new();
        for (failing, step) in self.steps.iter().enumerate() {
            let handler =
                step.field("on_error").and_then(|field| self.step_position(field.value.as_text()?));
            let Some(handler) = handler.filter(|handler| {
                let is_other = *handler != failing && !self.steps[*handler].is_provision;
                is_other && !self.has_dependency(failing, *handler)
            }) else {
                continue;
            };
            if self.is_entered_unconditionally(handler) && seen.insert(handler) {
                found.push(self.handler_in_order_finding(failing, handler));
            }
        }
    }

    /// Whether the step at `then` is the `on_error` handler of the step at `failing`.
    pub(in super::super) fn is_on_error_handler(&self, then: usize, failing: usize) -> bool {
        let handler = self.steps[failing].field("on_error");
        handler.and_then(|field| self.step_position(field.value.as_text()?)) == Some(then)
    }

    /// Whether the step at `then` runs only after a failure of the step at `failing`.
    pub(in super::super) fn runs_on_failure(&self, then: usize, failing: usize) -> bool {
        let is_for_failures = run_when(&self.steps[then]) == Some("failed");
        // Dependencies that were added for references do not count: they delay the step but do not release it.
        let before = self.before[then].iter();
        let before = before.filter(|before| before.implied || before.stated.is_some());
        let before: Vec<_> = before.map(|before| before.position).collect();
        let goes_on = |at: &usize| !never_falls_through(&self.steps[*at]);
        let comes_in_order = before.is_empty() || before.iter().any(goes_on);
        let leads = |at: usize| {
            step_jumps(&self.steps[at])
                .into_iter()
                .filter(|jump| self.step_position(jump.to) == Some(then))
                .count()
        };
        if self.is_on_error_handler(then, failing) {
            let all: usize = (0..self.steps.len()).map(leads).sum();
            return all == 1 && (is_for_failures || !comes_in_order);
        }
        let may_be_passed = |at: usize| {
            ["optional", "on_error"].iter().any(|key| self.steps[at].field(key).is_some())
        };
        let has_passed =
            (0..self.steps.len()).any(|at| self.has_dependency(failing, at) && may_be_passed(at));
        is_for_failures && before == [failing] && !has_passed
    }

    /// Whether a step is entered unconditionally when its dependencies are done.
    fn is_entered_unconditionally(&self, position: usize) -> bool {
        let step = &self.steps[position];
        let run_when = run_when(step);
        let before = &self.before[position];
        let leads = before.iter().any(|before| !never_falls_through(&self.steps[before.position]));
        !is_conditional(step)
            && run_when.is_none_or(|when| when == "succeeded")
            && (leads || before.is_empty())
    }

    fn handler_in_order_finding(&self, failing: usize, handler: usize) -> Finding {
        let (failing, step) = (self.step_id(failing), &self.steps[handler]);
        let id = self.step_id(handler);
        let message = format!(
            "`{id}` handles the failure of `{failing}`, and is reached in order too, although nothing failed then"
        );
        let above = self.implied_predecessor(handler).filter(|above| self.can_add_next(*above));
        let hint = match above {
            Some(above) => format!(
                "end `{}` above it with `next: {}`, or write `run_when: failed` at `{id}`",
                self.step_id(above),
                grammar::END_TARGET
            ),
            None => format!("write `run_when: failed` at `{id}`"),
        };
        let (path, place) = match &step.id {
            Some(at) => (at.path.clone(), at.place),
            None => (step.path.clone(), step.place),
        };
        let finding = Finding::new(Rule::HandlerInOrder, path, place, message).suggest(hint);
        let is_last = handler + 1 == self.steps.len();
        let (at, key, value) = match above.filter(|_| is_last) {
            Some(above) => (self.steps[above].id.as_ref(), "next", grammar::END_TARGET),
            None => (step.id.as_ref(), "run_when", "failed"),
        };
        match at {
            Some(at) if step.field("run_when").is_none() => {
                finding.insert_key(at.place, &at.value, key, value)
            }
            _ => finding,
        }
    }

    /// Whether `next` could be added to the step.
    fn can_add_next(&self, position: usize) -> bool {
        let step = &self.steps[position];
        let next = grammar::STEP_SHAPE.find_key("next");
        let may = |kind: &str| next.is_some_and(|next| next.applies_to_kind(kind));
        !is_conditional(step)
            && step.field("next").is_none()
            && step.kind_fields().all(|field| may(field.key.name))
    }
}

/// The `run_when` of the step, as written.
pub(in super::super) fn run_when(step: &StepDraft) -> Option<&str> {
    step.field("run_when")?.value.as_text()
}

/// The first jump of the step after success.
fn first_success_jump(step: &StepDraft) -> Option<Jump<'_>> {
    if let Some(branch) = step.field("branch") {
        return branch_jumps(branch).into_iter().next();
    }
    let field = step.field("next")?;
    parse_jump(field.path.clone(), &field.value, &[grammar::END_TARGET])
}
