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
    positions: Vec<usize>,
    can_end: bool,
}

impl FlowGraph<'_> {
    /// Adds a finding for each jump back that is always taken in a loop without an exit.
    pub(super) fn check_endless_loops(&self, findings: &mut Vec<Finding>) {
        let mut reported = BTreeSet::new();
        for (position, step) in
            self.steps.iter().enumerate().filter(|(_, step)| never_falls_through(step))
        {
            let Some(jump) = first_success_jump(step) else {
                continue;
            };
            let target = self.step_position(jump.to);
            let Some(target) =
                target.filter(|to| self.steps[*to].is_failure_step == step.is_failure_step)
            else {
                continue;
            };
            let loop_steps =
                reachable_positions(vec![target], |at| self.step_successors(at).positions);
            let has_exit = loop_steps.iter().any(|at| self.step_successors(*at).can_end);
            if has_exit || !loop_steps.contains(&position) || !reported.insert(loop_steps) {
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
            findings.push(finding.suggest(hint));
        }
    }

    fn step_successors(&self, position: usize) -> StepSuccessors {
        let step = &self.steps[position];
        let jumps = step_jumps(step);
        let targets = jumps.iter().filter_map(|jump| self.step_position(jump.to));
        let mut targets: Vec<_> = targets.collect();
        let is_exit = |jump: &Jump<'_>| {
            jump.keywords.contains(&jump.to) || self.step_position(jump.to).is_none()
        };
        let mut can_end = jumps.iter().any(is_exit) || step.find_field("fail").is_some();
        let on_error = step.find_field("on_error").and_then(|field| field.value.as_text());
        let continues_on_error =
            step.find_field("optional").is_some() || on_error == Some("continue");
        // After a tolerated failure, or if its condition skips the step, control continues with its dependents.
        if continues_on_error || !never_falls_through(step) {
            let dependents: Vec<_> = self.dependents(position).map(|(next, _)| next).collect();
            can_end |= dependents.is_empty();
            targets.extend(dependents);
        }
        StepSuccessors { positions: targets, can_end }
    }

    /// Adds a finding for each failure handler that control also reaches without a failure.
    pub(super) fn check_failure_handlers(&self, findings: &mut Vec<Finding>) {
        let mut checked = BTreeSet::new();
        for (failing, step) in self.steps.iter().enumerate() {
            let handler = step
                .find_field("on_error")
                .and_then(|field| self.step_position(field.value.as_text()?));
            let Some(handler) = handler.filter(|handler| {
                let is_other = *handler != failing && !self.steps[*handler].is_failure_step;
                is_other && !self.has_dependency(failing, *handler)
            }) else {
                continue;
            };
            if self.is_entered_unconditionally(handler) && checked.insert(handler) {
                findings.push(self.handler_in_order_finding(failing, handler));
            }
        }
    }

    /// Whether the step at `position` is the `on_error` handler of the step at `failing`.
    pub(in super::super) fn is_on_error_handler(&self, position: usize, failing: usize) -> bool {
        let handler = self.steps[failing].find_field("on_error");
        handler.and_then(|field| self.step_position(field.value.as_text()?)) == Some(position)
    }

    /// Whether the step at `position` runs only after a failure of the step at `failing`.
    pub(in super::super) fn runs_on_failure(&self, position: usize, failing: usize) -> bool {
        let is_for_failures = run_when(&self.steps[position]) == Some("failed");
        // Dependencies that were added for references do not count: they delay the step but do not release it.
        let predecessors = self.dependencies[position].iter();
        let predecessors =
            predecessors.filter(|before| before.is_implied || before.declaration.is_some());
        let predecessors: Vec<_> = predecessors.map(|before| before.position).collect();
        let can_fall_through = |at: &usize| !never_falls_through(&self.steps[*at]);
        let is_reached_in_order =
            predecessors.is_empty() || predecessors.iter().any(can_fall_through);
        let count_jumps = |at: usize| {
            step_jumps(&self.steps[at])
                .into_iter()
                .filter(|jump| self.step_position(jump.to) == Some(position))
                .count()
        };
        if self.is_on_error_handler(position, failing) {
            let jump_count: usize = (0..self.steps.len()).map(count_jumps).sum();
            return jump_count == 1 && (is_for_failures || !is_reached_in_order);
        }
        let is_failure_tolerated = |at: usize| {
            ["optional", "on_error"].iter().any(|key| self.steps[at].find_field(key).is_some())
        };
        let has_tolerated_failure = (0..self.steps.len())
            .any(|at| self.has_dependency(failing, at) && is_failure_tolerated(at));
        is_for_failures && predecessors == [failing] && !has_tolerated_failure
    }

    /// Whether a step is entered unconditionally when its dependencies are done.
    fn is_entered_unconditionally(&self, position: usize) -> bool {
        let step = &self.steps[position];
        let run_when = run_when(step);
        let dependencies = &self.dependencies[position];
        let has_fallthrough =
            dependencies.iter().any(|before| !never_falls_through(&self.steps[before.position]));
        !is_conditional(step)
            && run_when.is_none_or(|when| when == "succeeded")
            && (has_fallthrough || dependencies.is_empty())
    }

    fn handler_in_order_finding(&self, failing: usize, handler: usize) -> Finding {
        let (failing, step) = (self.step_id(failing), &self.steps[handler]);
        let id = self.step_id(handler);
        let message = format!(
            "`{id}` handles the failure of `{failing}`, and is reached in order too, although nothing failed then"
        );
        let predecessor =
            self.implied_predecessor(handler).filter(|above| self.can_add_next(*above));
        let hint = match predecessor {
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
        let (at, key, value) = match predecessor.filter(|_| is_last) {
            Some(above) => (self.steps[above].id.as_ref(), "next", grammar::END_TARGET),
            None => (step.id.as_ref(), "run_when", "failed"),
        };
        match at {
            Some(at) if step.find_field("run_when").is_none() => {
                finding.insert_key(at.place, &at.value, key, value)
            }
            _ => finding,
        }
    }

    /// Whether `next` could be added to the step.
    fn can_add_next(&self, position: usize) -> bool {
        let step = &self.steps[position];
        let next = grammar::STEP_SHAPE.find_key("next");
        let applies_to = |kind: &str| next.is_some_and(|next| next.applies_to_kind(kind));
        !is_conditional(step)
            && step.find_field("next").is_none()
            && step.kind_fields().all(|field| applies_to(field.key.name))
    }
}

/// The `run_when` of the step, as written.
pub(in super::super) fn run_when(step: &StepDraft) -> Option<&str> {
    step.find_field("run_when")?.value.as_text()
}

/// The first jump of the step after success.
fn first_success_jump(step: &StepDraft) -> Option<Jump<'_>> {
    if let Some(branch) = step.find_field("branch") {
        return branch_jumps(branch).into_iter().next();
    }
    let field = step.find_field("next")?;
    parse_jump(field.path.clone(), &field.value, grammar::NEXT_WORDS)
}
