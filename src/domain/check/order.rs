//! Determines the dependencies of each step: the declared ones, or the previous step of the list.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{
    definition::reachable_from,
    draft::{StepDraft, WorkflowFormat},
    finding::{Finding, Place, Rule, has_room_for_suggestions},
    node::{LocatedValue, NodeContent},
};
use crate::limits;

/// A dependency of a step on another step.
#[derive(Clone, Copy)]
pub(super) struct StepDependency<'a> {
    /// The position of the step that must be done first.
    pub(super) position: usize,
    /// Whether the dependency is implied by the order of the list.
    pub(super) implied: bool,
    /// The place of the declaration, if the dependency is declared.
    pub(super) stated: Option<&'a LocatedValue<String>>,
}

/// The dependencies of each step, with a finding for each dependency that cannot be satisfied.
pub(super) fn resolve_dependencies<'a>(
    found: &mut Vec<Finding>,
    steps: &'a [StepDraft],
    form: WorkflowFormat,
) -> Vec<Vec<StepDependency<'a>>> {
    let edges = build_edges(found, steps, form);
    find_cycles(found, steps, form, &edges);
    check_allow_parallel(found, steps, form, &edges);
    edges
}

fn step_id(step: &StepDraft) -> Option<&str> {
    step.id.as_ref().map(|at| at.value.as_str())
}

fn build_edges<'a>(
    found: &mut Vec<Finding>,
    steps: &'a [StepDraft],
    form: WorkflowFormat,
) -> Vec<Vec<StepDependency<'a>>> {
    let mut positions = BTreeMap::new();
    for (position, step) in steps.iter().enumerate() {
        if let Some(id) = step_id(step) {
            positions.entry(id).or_insert(position);
        }
    }
    // In front matter, a single `dependsOn` turns off the implied order for the whole list.
    let list_is_order =
        form == WorkflowFormat::Manifest || steps.iter().all(|step| step.depends_on.is_none());
    let of = |(position, step): (usize, &'a StepDraft)| match &step.depends_on {
        Some(list) => resolve_stated_dependencies(found, (steps, position), list, &positions),
        None if list_is_order && position > 0 => {
            vec![StepDependency { position: position - 1, implied: true, stated: None }]
        }
        None => Vec::new(),
    };
    let mut edges: Vec<_> = steps.iter().enumerate().map(of).collect();
    link_on_failure_steps(steps, &mut edges);
    edges
}

/// Makes the first `on_failure` step depend on all regular steps without dependents.
fn link_on_failure_steps(steps: &[StepDraft], edges: &mut [Vec<StepDependency<'_>>]) {
    let Some(first) = steps.iter().position(|step| step.is_provision) else {
        return;
    };
    let own = edges[..first].iter().flatten();
    let waited: BTreeSet<_> = own.map(|edge| edge.position).collect();
    let is_first = |at: &usize| steps[*at].depends_on.as_ref().is_none_or(Vec::is_empty);
    let leaves = (0..first).filter(|at| !waited.contains(at));
    let leaves: Vec<_> =
        leaves.map(|position| StepDependency { position, implied: false, stated: None }).collect();
    // `on_failure` steps without declared dependencies follow each other in order.
    for at in (first..steps.len()).filter(is_first) {
        if at == first || steps[at].depends_on.is_some() {
            edges[at].clone_from(&leaves);
        }
    }
}

fn resolve_stated_dependencies<'a>(
    found: &mut Vec<Finding>,
    (steps, position): (&[StepDraft], usize),
    list: &'a [LocatedValue<String>],
    positions: &BTreeMap<&str, usize>,
) -> Vec<StepDependency<'a>> {
    let mut edges = Vec::new();
    let mut seen = BTreeSet::new();
    for at in list {
        match positions.get(at.value.as_str()) {
            None => {
                let meant = has_room_for_suggestions(found).then_some((position, positions));
                found.push(unknown_dependency_finding(at, meant));
            }
            Some(&before) if before == position => {
                let message = format!("`{}` depends on itself", at.value);
                found.push(at.finding(Rule::SelfDependency, message));
            }
            Some(&before) if steps[before].is_provision && !steps[position].is_provision => {
                let message = format!(
                    "`{}` is a step of `on_failure`, which runs only once the execution is failing",
                    at.value
                );
                found.push(at.finding(Rule::UnknownDependency, message));
            }
            Some(&before) if !seen.insert(before) => {
                let message = format!("`{}` is named twice", at.value);
                found.push(at.finding(Rule::DuplicateDependency, message));
            }
            Some(&position) => {
                edges.push(StepDependency { position, implied: false, stated: Some(at) });
            }
        }
    }
    edges
}

/// The finding for a dependency on a step that does not exist. `meant` allows a suggestion: the position of the
/// dependent step, and all ids.
fn unknown_dependency_finding(
    at: &LocatedValue<String>,
    meant: Option<(usize, &BTreeMap<&str, usize>)>,
) -> Finding {
    let message = format!("no step has the id `{}`", at.value);
    let finding = at.finding(Rule::UnknownDependency, message);
    let Some((position, positions)) = meant else {
        return finding;
    };
    let others = positions.iter().filter(|(_, other)| **other != position);
    finding.did_you_mean(at.place, &at.value, others.map(|(id, _)| *id))
}

/// Adds one finding for each back edge of a depth-first search, which closes a cycle.
fn find_cycles(
    found: &mut Vec<Finding>,
    steps: &[StepDraft],
    form: WorkflowFormat,
    edges: &[Vec<StepDependency<'_>>],
) {
    #[derive(Clone, Copy, PartialEq)]
    enum VisitMark {
        Not,
        OnPath,
        Done,
    }
    let mut seen = vec![VisitMark::Not; steps.len()];
    let findings_max = found.len() + limits::FINDINGS_MAX;
    for start in 0..steps.len() {
        // The path from `start`: each position with the number of its edges that were followed.
        let mut path = vec![(start, 0)];
        if seen[start] != VisitMark::Not {
            continue;
        }
        seen[start] = VisitMark::OnPath;
        while let Some((at, followed)) = path.last_mut() {
            let (position, edge) = (*at, edges[*at].get(*followed));
            *followed += 1;
            match edge.map(|edge| (edge.position, seen[edge.position])) {
                None => {
                    seen[position] = VisitMark::Done;
                    path.pop();
                }
                Some((before, VisitMark::Not)) => {
                    seen[before] = VisitMark::OnPath;
                    path.push((before, 0));
                }
                Some((before, VisitMark::OnPath)) if found.len() < findings_max => {
                    let from = path.iter().position(|(at, _)| *at == before).unwrap_or(0);
                    found.push(cycle_finding(steps, form, edges, &path[from..]));
                }
                Some(_) => {}
            }
        }
    }
}

/// The finding for a cycle. `path` has positions with the number of edges followed: the last of those leads to the next
/// position.
fn cycle_finding(
    steps: &[StepDraft],
    form: WorkflowFormat,
    edges: &[Vec<StepDependency<'_>>],
    path: &[(usize, usize)],
) -> Finding {
    let name = |position: usize| step_id(&steps[position]).unwrap_or("?");
    let mut names: Vec<_> = path.iter().map(|(at, _)| name(*at)).collect();
    names.push(names[0]);
    let taken = || path.iter().map(|(at, followed)| (*at, edges[*at][followed - 1]));
    // Reported at the last declared dependency of the cycle, or at its first step if all are implied.
    let (at, place): (String, Place) =
        taken().filter_map(|(_, edge)| edge.stated).next_back().map_or_else(
            || (steps[path[0].0].path.clone(), steps[path[0].0].place),
            |stated| (stated.path.clone(), stated.place),
        );
    let message = format!("these {}s wait for each other: {}", form.step_noun(), names.join(" → "));
    let implied = taken()
        .find(|(_, edge)| edge.stated.is_none())
        .map(|(position, edge)| {
            let (this, before) = (name(position), name(edge.position));
            format!("`{this}` follows `{before}` because it does not say otherwise: `depends_on: []` makes it independent")
        });
    Finding::new(Rule::CyclicDependency, at, place, message).suggest(implied)
}

/// Checks `allowParallel: false`, which demands that no other phase runs at the same time. The dependencies alone must
/// guarantee that, since nothing delays a ready phase.
fn check_allow_parallel(
    found: &mut Vec<Finding>,
    steps: &[StepDraft],
    form: WorkflowFormat,
    edges: &[Vec<StepDependency<'_>>],
) {
    let mut before = vec![Vec::new(); steps.len()];
    let mut after = vec![Vec::new(); steps.len()];
    for (position, edge) in edges
        .iter()
        .enumerate()
        .flat_map(|(position, edges)| edges.iter().map(move |edge| (position, edge)))
    {
        before[position].push(edge.position);
        after[edge.position].push(position);
    }
    for (position, step) in steps.iter().enumerate() {
        let field = step.field("allowParallel");
        let Some(field) = field.filter(|field| field.value.content == NodeContent::Bool(false))
        else {
            continue;
        };
        let (before, after) = (reachable_from(&before, position), reachable_from(&after, position));
        let beside = (0..steps.len()).find(|at| !before.contains(at) && !after.contains(at));
        if let Some(other) = beside.and_then(|other| step_id(&steps[other])) {
            let message = format!("`{other}` may run beside this {}", form.step_noun());
            let hint = format!("put one after the other with `{}`", form.depends_on_key());
            let finding = field.value_finding(Rule::NotSupportedYet, message);
            found.push(finding.suggest(hint));
        }
    }
}
