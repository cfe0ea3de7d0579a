//! Checks control flow: jump targets (`next`, branch arms, `on_error`) exist, arms do not fall through into each other,
//! and every step is reachable.

mod loops;

pub(super) use self::loops::run_when;

use std::collections::{BTreeMap, BTreeSet};

use super::super::{
    draft::{RawField, StepDraft},
    finding::{Finding, Place, Rule, has_room_for_suggestions},
    grammar,
    node::DocumentNode,
};
use super::{order::StepDependency, shape::suggest_word};

/// The control flow graph of the steps.
pub(super) struct FlowGraph<'a> {
    steps: &'a [StepDraft],
    ids: BTreeMap<&'a str, usize>,
    /// The dependencies of each step.
    dependencies: Vec<Vec<StepDependency<'a>>>,
    /// The jumps of each step.
    jumps: Vec<Vec<usize>>,
    /// What [`FlowGraph::try_add_dependency`] answered for these pairs.
    order_results: BTreeMap<(usize, usize), Option<bool>>,
}

/// A jump that a step states.
struct Jump<'a> {
    path: String,
    place: Place,
    to: &'a str,
    keywords: &'static [&'static str],
}

impl<'a> FlowGraph<'a> {
    /// Builds the graph of `steps`, with a finding for each jump to no step.
    pub(super) fn from_steps(
        findings: &mut Vec<Finding>,
        steps: &'a [StepDraft],
        dependencies: Vec<Vec<StepDependency<'a>>>,
    ) -> Self {
        let mut ids = BTreeMap::new();
        for (position, step) in steps.iter().enumerate() {
            if let Some(at) = step.id.as_ref() {
                ids.entry(at.value.as_str()).or_insert(position);
            }
        }
        let mut jump_targets = |step: &'a StepDraft| {
            let jumps = step_jumps(step).into_iter();
            let target = |jump: Jump<'_>| {
                let position = ids.get(jump.to).copied();
                let crossing =
                    position.filter(|to| steps[*to].is_failure_step != step.is_failure_step);
                findings.extend(crossing.map(|_| cross_list_jump_finding(&jump)));
                if position.is_none() {
                    let has_room = has_room_for_suggestions(findings);
                    findings.extend(unknown_target_finding(&jump, &ids, has_room));
                }
                position.filter(|_| !jump.keywords.contains(&jump.to))
            };
            jumps.filter_map(target).collect()
        };
        Self {
            jumps: steps.iter().map(&mut jump_targets).collect(),
            order_results: BTreeMap::new(),
            steps,
            ids,
            dependencies,
        }
    }

    /// The position of the step with this id.
    pub(super) fn step_position(&self, id: &str) -> Option<usize> {
        self.ids.get(id).copied()
    }

    /// The ids of all steps.
    pub(super) fn step_ids(&self) -> impl Iterator<Item = &'a str> {
        self.ids.keys().copied()
    }

    /// What each step waits for.
    pub(super) fn dependencies(&self) -> &[Vec<StepDependency<'a>>] {
        &self.dependencies
    }

    /// Whether some path enters `then` after `first` is done.
    pub(super) fn has_path(&self, first: usize, then: usize) -> bool {
        let successors = |at: usize| {
            let dependents = self.dependents(at).map(|(next, _)| next);
            dependents.chain(self.jumps[at].iter().copied()).collect()
        };
        reachable_positions(successors(first), successors).contains(&then)
    }

    /// Whether a jump leads back to the step.
    pub(super) fn is_loop_target(&self, position: usize) -> bool {
        let jumps = self.jumps.iter().enumerate();
        let mut from = jumps.filter(|(_, to)| to.contains(&position));
        from.any(|(from, _)| from == position || self.has_path(position, from))
    }

    /// Whether `then` depends on `first`, directly or not.
    pub(super) fn has_dependency(&self, then: usize, first: usize) -> bool {
        let is_direct = |before: &StepDependency<'_>| before.position == first;
        let (mut pending, mut visited) = (vec![then], vec![false; self.steps.len()]);
        while let Some(at) = pending.pop() {
            if self.dependencies[at].iter().any(is_direct) {
                return true;
            }
            for before in &self.dependencies[at] {
                if !std::mem::replace(&mut visited[before.position], true) {
                    pending.push(before.position);
                }
            }
        }
        false
    }

    /// Makes `then` depend on `first`, whose output it refers to. Returns `None` if the dependency exists or was added,
    /// else whether control may return to `then` after `first`. The answer is cached, because a list may refer to one
    /// output thousands of times.
    pub(super) fn try_add_dependency(
        &mut self,
        first: usize,
        then: usize,
        has_room: bool,
    ) -> Option<bool> {
        if let Some(order) = self.order_results.get(&(first, then)) {
            return *order;
        }
        let has_order = self.has_dependency(then, first);
        let is_addable = !has_order && first != then && !self.has_dependency(first, then);
        if is_addable {
            self.add_dependency(first, then);
        }
        let is_loop = || has_room && self.has_path(first, then);
        let order = (!has_order && !is_addable).then(is_loop);
        self.order_results.insert((first, then), order);
        order
    }

    /// The steps that may have run when the step is entered for the first time.
    pub(super) fn possible_predecessors(&self, position: usize) -> BTreeSet<usize> {
        let mut successors = self.jumps.clone();
        let mut predecessors = vec![Vec::new(); self.steps.len()];
        for (at, dependencies) in self.dependencies.iter().enumerate() {
            for first in dependencies {
                successors[first.position].push(at);
            }
        }
        for (at, next) in successors.iter().enumerate() {
            for next in next {
                predecessors[*next].push(at);
            }
        }
        let entry_steps = (0..self.steps.len()).filter(|at| self.dependencies[*at].is_empty());
        // Steps that are reachable only through this step run after it, even if a loop leads back.
        successors[position].clear();
        let reachable = reachable_positions(entry_steps.collect(), |at| successors[at].clone());
        let mut ancestors =
            reachable_positions(predecessors[position].clone(), |at| predecessors[at].clone());
        ancestors.retain(|at| *at != position && reachable.contains(at));
        ancestors
    }

    /// The next step of the list, if control always continues with it.
    pub(super) fn implied_successor(&self, position: usize) -> Option<&'a StepDraft> {
        let step = self.steps.get(position + 1)?;
        (self.implied_predecessor(position + 1) == Some(position)
            && !never_falls_through(&self.steps[position]))
        .then_some(step)
    }

    /// Makes `then` depend on `first`, because it refers to its output.
    pub(super) fn add_dependency(&mut self, first: usize, then: usize) {
        self.dependencies[then].push(StepDependency {
            position: first,
            is_implied: false,
            declaration: None,
        });
        self.dependencies[then].sort_by_key(|before| before.position);
    }

    /// The steps that depend on the step, and whether the dependency is only implied by the order of the list.
    fn dependents(&self, position: usize) -> impl Iterator<Item = (usize, bool)> {
        let waiting = self.dependencies.iter().enumerate();
        waiting.filter_map(move |(at, before)| {
            let edge = before.iter().find(|before| before.position == position)?;
            Some((at, edge.is_implied))
        })
    }

    /// Adds a finding for each arm that falls through into another one or is never taken, and for each unreachable step.
    pub(super) fn check_arms_and_reachability(&self, findings: &mut Vec<Finding>) {
        for step in self.steps {
            let Some(branch) = step.find_field("branch") else {
                continue;
            };
            check_untaken_arms(findings, branch);
            self.check_arms(findings, branch);
        }
        self.check_unreachable_steps(findings);
        self.check_cancelled_steps(findings);
        self.check_endless_loops(findings);
        self.check_failure_handlers(findings);
    }

    fn check_arms(&self, findings: &mut Vec<Finding>, branch: &RawField) {
        let arms = branch_jumps(branch);
        let targets: BTreeSet<usize> =
            arms.iter().filter_map(|arm| self.step_position(arm.to)).collect();
        let mut checked = BTreeSet::new();
        for arm in &arms {
            let Some(start) = self.step_position(arm.to).filter(|start| checked.insert(*start))
            else {
                continue;
            };
            if let Some((last, into)) = self.find_fallthrough_arm(start, &targets) {
                let (last, into) = (self.step_id(last), self.step_id(into));
                let message =
                    format!("arm `{}` runs on into `{into}`, which is another arm", arm.to);
                let hint = format!(
                    "end `{last}` with `next: {}`, or with the step where both go on",
                    grammar::END_TARGET
                );
                let finding = Finding::new(Rule::ArmsRunTogether, &arm.path, arm.place, message);
                findings.push(finding.suggest(hint));
            }
        }
    }

    /// The other arm that control falls through into from `start` because of the order of the list, and the step before
    /// it.
    fn find_fallthrough_arm(&self, start: usize, arms: &BTreeSet<usize>) -> Option<(usize, usize)> {
        let successors = |at: usize| {
            let can_fall_through = !never_falls_through(&self.steps[at]);
            self.dependents(at).filter(move |_| can_fall_through)
        };
        let successors_outside_arms = |at| {
            let next = successors(at).map(|(next, _)| next);
            next.filter(|next| !arms.contains(next)).collect()
        };
        reachable_positions(vec![start], successors_outside_arms).into_iter().find_map(|at| {
            let mut next = successors(at).filter(|(next, implied)| *implied && *next != start);
            let (into, _) = next.find(|(next, _)| arms.contains(next))?;
            Some((at, into))
        })
    }

    /// Adds a finding for each step that `cancel` names and that does not exist or is the step itself.
    fn check_cancelled_steps(&self, findings: &mut Vec<Finding>) {
        for (position, step) in self.steps.iter().enumerate() {
            let Some(field) = step.find_field("cancel") else {
                continue;
            };
            for (at, node) in field.value.items().unwrap_or_default().iter().enumerate() {
                let path = format!("{}[{at}]", field.path);
                let Some(id) = node.as_text() else { continue };
                if self.step_position(id) == Some(position) {
                    let message = format!("`{id}` cannot cancel itself: it has completed then");
                    findings.push(node.new_finding(Rule::NoEffect, &path, message));
                } else if self.step_position(id).is_none() {
                    let jump = Jump { path, place: node.place, to: id, keywords: &[] };
                    let has_room = has_room_for_suggestions(findings);
                    findings.extend(unknown_target_finding(&jump, &self.ids, has_room));
                }
            }
        }
    }

    fn check_unreachable_steps(&self, findings: &mut Vec<Finding>) {
        // A step that declares its dependencies is reachable through them.
        let is_root = |at: &usize| self.implied_predecessor(*at).is_none();
        let roots = (0..self.steps.len()).filter(is_root).collect();
        let reached = reachable_positions(roots, |at| {
            let successor = self.implied_successor(at).map(|_| at + 1);
            successor.into_iter().chain(self.jumps[at].clone()).collect()
        });
        for (at, step) in self.steps.iter().enumerate() {
            // Only the first unreachable step of a chain is reported: the same correction fixes the rest.
            let is_first_unreachable =
                |above: &usize| !reached.contains(&at) && reached.contains(above);
            let Some(above) = self.implied_predecessor(at).filter(is_first_unreachable) else {
                continue;
            };
            let message = format!(
                "nothing leads to this step: control never goes on after `{}`",
                self.step_id(above)
            );
            let finding = Finding::new(Rule::Unreachable, &step.path, step.place, message);
            let hint =
                "name it in a `next`, in a branch or in `on_error`, or say what it depends on";
            findings.push(finding.suggest(hint.to_owned()));
        }
    }

    /// The previous step of the list, if it is the only dependency and is implied by the order of the list.
    fn implied_predecessor(&self, position: usize) -> Option<usize> {
        match self.dependencies[position].as_slice() {
            [before] if before.is_implied => Some(before.position),
            _ => None,
        }
    }

    /// The id of a step.
    pub(super) fn step_id(&self, position: usize) -> &str {
        let id = self.steps.get(position).and_then(|step| step.id.as_ref());
        id.map_or("?", |at| at.value.as_str())
    }
}

/// All positions that are reachable from `pending`, including those; `successors` returns the successors of a step.
fn reachable_positions(
    mut pending: Vec<usize>,
    successors: impl Fn(usize) -> Vec<usize>,
) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    while let Some(at) = pending.pop() {
        if reached.insert(at) {
            pending.extend(successors(at));
        }
    }
    reached
}

fn step_jumps(step: &StepDraft) -> Vec<Jump<'_>> {
    let parse_field_jump = |key: &str, words| {
        let field = step.find_field(key)?;
        parse_jump(field.path.clone(), &field.value, words)
    };
    let branch = step.find_field("branch").map(branch_jumps).unwrap_or_default();
    let fields = [
        parse_field_jump("next", grammar::NEXT_WORDS),
        parse_field_jump("on_error", grammar::ON_ERROR_WORDS),
    ];
    fields.into_iter().flatten().chain(branch).collect()
}

fn parse_jump<'a>(
    path: String,
    node: &'a DocumentNode,
    words: &'static [&'static str],
) -> Option<Jump<'a>> {
    Some(Jump { path, place: node.place, to: node.as_text()?, keywords: words })
}

fn branch_jumps(branch: &RawField) -> Vec<Jump<'_>> {
    let arms = branch.value.items().unwrap_or_default().iter().enumerate();
    arms.filter_map(|(at, arm)| {
        let path = format!("{}[{at}].next", branch.path);
        parse_jump(path, arm.get("next")?, grammar::NEXT_WORDS)
    })
    .collect()
}

/// The finding for a jump to a step that does not exist. A malformed id has its own finding.
fn unknown_target_finding(
    jump: &Jump<'_>,
    ids: &BTreeMap<&str, usize>,
    has_room: bool,
) -> Option<Finding> {
    if jump.keywords.contains(&jump.to) || super::super::id::StepId::parse(jump.to).is_err() {
        return None;
    }
    let known = ids.keys().copied().chain(jump.keywords.iter().copied());
    let message = format!("no step has the id `{}`", jump.to);
    let finding = Finding::new(Rule::UnknownStep, &jump.path, jump.place, message);
    if !has_room {
        return Some(finding);
    }
    Some(suggest_word(finding, &jump.path, jump.place, jump.to, known))
}

/// The finding for a jump between regular steps and `on_failure` steps.
fn cross_list_jump_finding(jump: &Jump<'_>) -> Finding {
    let message = format!(
        "control cannot go to `{}`: steps of `on_failure` run once the execution is failing, and lead to no others",
        jump.to
    );
    Finding::new(Rule::UnknownStep, &jump.path, jump.place, message)
}

/// Whether control never continues with the next step of the list.
fn never_falls_through(step: &StepDraft) -> bool {
    let branch = step.find_field("branch").and_then(|field| field.value.items());
    let has_default_arm = branch.is_some_and(|arms| arms.iter().any(|arm| arm.get("if").is_none()));
    let has_jump = step.find_field("next").is_some() || step.find_field("fail").is_some();
    !is_conditional(step) && (has_jump || has_default_arm)
}

/// Whether the step has a condition, and so may be skipped.
pub(super) fn is_conditional(step: &StepDraft) -> bool {
    ["if", "when"].iter().any(|key| step.find_field(key).is_some())
}

fn check_untaken_arms(findings: &mut Vec<Finding>, branch: &RawField) {
    let arms = branch.value.items().unwrap_or_default();
    let default_arm =
        arms.iter().position(|arm| arm.entries().is_some() && arm.get("if").is_none());
    let Some(default_arm) = default_arm else { return };
    for (at, arm) in arms.iter().enumerate().skip(default_arm + 1) {
        let message = format!("this arm can never be taken: arm {} always is", default_arm + 1);
        let path = format!("{}[{at}]", branch.path);
        let finding = Finding::new(Rule::Unreachable, path, arm.place, message);
        findings.push(finding.suggest("put the arm without `if` last".to_owned()));
    }
}
