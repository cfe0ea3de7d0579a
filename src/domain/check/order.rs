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
    pub(super) is_implied: bool,
    /// The place of the declaration, if the dependency is declared.
    pub(super) declaration: Option<&'a LocatedValue<String>>,
}

/// The dependencies of each step, with a finding for each dependency that cannot be satisfied.
pub(super) fn resolve_dependencies<'a>(
    findings: &mut Vec<Finding>,
    steps: &'a [StepDraft],
    form: WorkflowFormat,
) -> Vec<Vec<StepDependency<'a>>> {
    let edges = build_edges(findings, steps, form);
    find_cycles(findings, steps, form, &edges);
    check_allow_parallel(findings, steps, form, &edges);
    edges
}

fn step_id(step: &StepDraft) -> Option<&str> {
    step.id.as_ref().map(|at| at.value.as_str())
}

fn build_edges<'a>(
    findings: &mut Vec<Finding>,
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
    let is_list_ordered =
        form == WorkflowFormat::Manifest || steps.iter().all(|step| step.depends_on.is_none());
    let resolve_step = |(position, step): (usize, &'a StepDraft)| match &step.depends_on {
        Some(list) => resolve_stated_dependencies(findings, (steps, position), list, &positions),
        None if is_list_ordered && position > 0 => {
            vec![StepDependency { position: position - 1, is_implied: true, declaration: None }]
        }
        None => Vec::new(),
    };
    let mut edges: Vec<_> = steps.iter().enumerate().map(resolve_step).collect();
    link_on_failure_steps(steps, &mut edges);
    edges
}

/// Makes the first `on_failure` step depend on all regular steps without dependents.
fn link_on_failure_steps(steps: &[StepDraft], edges: &mut [Vec<StepDependency<'_>>]) {
    let Some(first) = steps.iter().position(|step| step.is_failure_step) else {
        return;
    };
    let regular_edges = edges[..first].iter().flatten();
    let awaited: BTreeSet<_> = regular_edges.map(|edge| edge.position).collect();
    let has_no_dependency = |at: &usize| steps[*at].depends_on.as_ref().is_none_or(Vec::is_empty);
    let leaves = (0..first).filter(|at| !awaited.contains(at));
    let leaves: Vec<_> = leaves
        .map(|position| StepDependency { position, is_implied: false, declaration: None })
        .collect();
    // `on_failure` steps without declared dependencies follow each other in order.
    for at in (first..steps.len()).filter(has_no_dependency) {
        if at == first || steps[at].depends_on.is_some() {
            edges[at].clone_from(&leaves);
        }
    }
}

fn resolve_stated_dependencies<'a>(
    findings: &mut Vec<Finding>,
    (steps, position): (&[StepDraft], usize),
    list: &'a [LocatedValue<String>],
    positions: &BTreeMap<&str, usize>,
) -> Vec<StepDependency<'a>> {
    let mut edges = Vec::new();
    let mut resolved = BTreeSet::new();
    for reference in list {
        match positions.get(reference.value.as_str()) {
            None => {
                let candidates =
                    has_room_for_suggestions(findings).then_some((position, positions));
                findings.push(unknown_dependency_finding(reference, candidates));
            }
            Some(&before) if before == position => {
                let message = format!("`{}` depends on itself", reference.value);
                findings.push(reference.new_finding(Rule::SelfDependency, message));
            }
            Some(&before) if steps[before].is_failure_step && !steps[position].is_failure_step => {
                let message = format!(
                    "`{}` is a step of `on_failure`, which runs only once the execution is failing",
                    reference.value
                );
                findings.push(reference.new_finding(Rule::UnknownDependency, message));
            }
            Some(&before) if !resolved.insert(before) => {
                let message = format!("`{}` is named twice", reference.value);
                findings.push(reference.new_finding(Rule::DuplicateDependency, message));
            }
            Some(&position) => {
                edges.push(StepDependency {
                    position,
                    is_implied: false,
                    declaration: Some(reference),
                });
            }
        }
    }
    edges
}

/// The finding for a dependency on a step that does not exist. `candidates` allows a suggestion: the position of the
/// dependent step, and all ids.
fn unknown_dependency_finding(
    reference: &LocatedValue<String>,
    candidates: Option<(usize, &BTreeMap<&str, usize>)>,
) -> Finding {
    let message = format!("no step has the id `{}`", reference.value);
    let finding = reference.new_finding(Rule::UnknownDependency, message);
    let Some((position, positions)) = candidates else {
        return finding;
    };
    let others = positions.iter().filter(|(_, other)| **other != position);
    finding.did_you_mean(reference.place, &reference.value, others.map(|(id, _)| *id))
}

/// Adds one finding for each back edge of a depth-first search, which closes a cycle.
fn find_cycles(
    findings: &mut Vec<Finding>,
    steps: &[StepDraft],
    form: WorkflowFormat,
    edges: &[Vec<StepDependency<'_>>],
) {
    #[derive(Clone, Copy, PartialEq)]
    enum VisitMark {
        Unvisited,
        OnPath,
        Done,
    }
    let mut marks = vec![VisitMark::Unvisited; steps.len()];
    let findings_max = findings.len() + limits::FINDINGS_MAX;
    for start in 0..steps.len() {
        // The path from `start`: each position with the number of its edges that were followed.
        let mut path = vec![(start, 0)];
        if marks[start] != VisitMark::Unvisited {
            continue;
        }
        marks[start] = VisitMark::OnPath;
        while let Some((at, edge_index)) = path.last_mut() {
            let (position, edge) = (*at, edges[*at].get(*edge_index));
            *edge_index += 1;
            match edge.map(|edge| (edge.position, marks[edge.position])) {
                None => {
                    marks[position] = VisitMark::Done;
                    path.pop();
                }
                Some((before, VisitMark::Unvisited)) => {
                    marks[before] = VisitMark::OnPath;
                    path.push((before, 0));
                }
                Some((before, VisitMark::OnPath)) if findings.len() < findings_max => {
                    let from = path.iter().position(|(at, _)| *at == before).unwrap_or(0);
                    findings.push(cycle_finding(steps, form, edges, &path[from..]));
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
    let path_edges = || path.iter().map(|(at, edge_index)| (*at, edges[*at][edge_index - 1]));
    // Reported at the last declared dependency of the cycle, or at its first step if all are implied.
    let (finding_path, place): (String, Place) =
        path_edges().filter_map(|(_, edge)| edge.declaration).next_back().map_or_else(
            || (steps[path[0].0].path.clone(), steps[path[0].0].place),
            |stated| (stated.path.clone(), stated.place),
        );
    let message = format!("these {}s wait for each other: {}", form.step_noun(), names.join(" → "));
    let implied = path_edges()
        .find(|(_, edge)| edge.declaration.is_none())
        .map(|(position, edge)| {
            let (this, before) = (name(position), name(edge.position));
            format!("`{this}` follows `{before}` because it does not say otherwise: `depends_on: []` makes it independent")
        });
    Finding::new(Rule::CyclicDependency, finding_path, place, message).suggest(implied)
}

/// Checks `allowParallel: false`, which demands that no other phase runs at the same time. The dependencies alone must
/// guarantee that, since nothing delays a ready phase.
fn check_allow_parallel(
    findings: &mut Vec<Finding>,
    steps: &[StepDraft],
    form: WorkflowFormat,
    edges: &[Vec<StepDependency<'_>>],
) {
    let mut dependencies = vec![Vec::new(); steps.len()];
    let mut dependents = vec![Vec::new(); steps.len()];
    for (position, edge) in edges
        .iter()
        .enumerate()
        .flat_map(|(position, edges)| edges.iter().map(move |edge| (position, edge)))
    {
        dependencies[position].push(edge.position);
        dependents[edge.position].push(position);
    }
    for (position, step) in steps.iter().enumerate() {
        let field = step.find_field("allowParallel");
        let Some(field) = field.filter(|field| field.value.content == NodeContent::Bool(false))
        else {
            continue;
        };
        let (ancestors, descendants) =
            (reachable_from(&dependencies, position), reachable_from(&dependents, position));
        let concurrent =
            (0..steps.len()).find(|at| !ancestors.contains(at) && !descendants.contains(at));
        if let Some(other) = concurrent.and_then(|other| step_id(&steps[other])) {
            let message = format!("`{other}` may run beside this {}", form.step_noun());
            let hint = format!("put one after the other with `{}`", form.depends_on_key());
            let finding = field.value_finding(Rule::NotSupportedYet, message);
            findings.push(finding.suggest(hint));
        }
    }
}
