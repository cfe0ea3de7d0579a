//! The dependency graph of the steps, by position. After a step ends, finding the steps that became ready costs only as
//! much as it has dependents.

use std::collections::{BTreeSet, HashMap};

use super::{JoinRule, OnError, RunWhen, Step};
use crate::id::StepId;

/// The positions of the steps, with the dependency edges in both directions.
#[derive(Clone, Debug, Default)]
pub struct StepGraph {
    positions: HashMap<StepId, usize>,
    dependencies: Vec<Vec<usize>>,
    dependents: Vec<Vec<usize>>,
    /// The targets of the jumps of each step: `next`, arms and `on_error`.
    jumps: Vec<Vec<usize>>,
    /// The steps that jump to each step.
    jump_sources: Vec<Vec<usize>>,
    has_steps_after_failure: bool,
    has_joins: bool,
    /// The position of the first `on_failure` step, or the number of steps if there is none. Those steps come last.
    first_failure_step: usize,
}

impl StepGraph {
    /// Builds the graph of `steps`. Dependencies that name no step are ignored; a checked workflow has none.
    pub fn from_steps(steps: &[Step]) -> Self {
        let positions: HashMap<_, _> =
            steps.iter().enumerate().map(|(at, step)| (step.id.clone(), at)).collect();
        let mut dependencies = vec![Vec::new(); steps.len()];
        let mut dependents = vec![Vec::new(); steps.len()];
        for (at, step) in steps.iter().enumerate() {
            for dependency in step.depends_on.iter().filter_map(|id| positions.get(id).copied()) {
                dependencies[at].push(dependency);
                dependents[dependency].push(at);
            }
        }
        let mut jumps = vec![Vec::new(); steps.len()];
        let mut jump_sources = vec![Vec::new(); steps.len()];
        for (at, step) in steps.iter().enumerate() {
            let handler = match &step.on_error {
                OnError::Step(handler) => Some(handler),
                OnError::Fail | OnError::Continue => None,
            };
            let targets = step.jump_targets().chain(handler);
            for target in targets.filter_map(|id| positions.get(id).copied()) {
                jumps[at].push(target);
                jump_sources[target].push(at);
            }
        }
        Self {
            positions,
            dependencies,
            dependents,
            jumps,
            jump_sources,
            has_steps_after_failure: steps.iter().any(|step| step.run_when != RunWhen::Succeeded),
            has_joins: steps.iter().any(|step| step.join != JoinRule::All),
            first_failure_step: steps
                .iter()
                .position(|step| step.run_when == RunWhen::Failing)
                .unwrap_or(steps.len()),
        }
    }

    /// Whether any step has a `join` other than `all`.
    pub const fn has_joins(&self) -> bool {
        self.has_joins
    }

    /// Whether any step has a `run_when` other than `succeeded`, and so may run after a failure.
    pub const fn has_steps_after_failure(&self) -> bool {
        self.has_steps_after_failure
    }

    /// The step at `position` and its transitive dependents.
    pub fn descendants(&self, position: usize) -> BTreeSet<usize> {
        reachable_from(&self.dependents, position)
    }

    /// The step at `position` and its transitive dependencies.
    pub fn ancestors(&self, position: usize) -> BTreeSet<usize> {
        reachable_from(&self.dependencies, position)
    }

    /// The targets of the jumps of the step at `position`: `next`, arms and `on_error`.
    pub fn jumps(&self, position: usize) -> &[usize] {
        self.jumps.get(position).map_or(&[], Vec::as_slice)
    }

    /// The steps that jump to the step at `position`.
    pub fn jump_sources(&self, position: usize) -> &[usize] {
        self.jump_sources.get(position).map_or(&[], Vec::as_slice)
    }

    /// Whether dependencies and jumps lead from the step at `from` to the step at `to`.
    pub fn leads_to(&self, from: usize, to: usize) -> bool {
        let mut reached = BTreeSet::new();
        let mut pending = vec![from];
        while let Some(at) = pending.pop() {
            if reached.insert(at) {
                pending.extend(self.dependents(at).iter().chain(self.jumps(at)));
            }
        }
        reached.contains(&to)
    }

    /// The transitive dependents of the step at `position` in topological order, without the step itself.
    pub fn ordered_dependents(&self, position: usize) -> Vec<usize> {
        let descendants = self.descendants(position);
        let count_awaited = |at: &usize| {
            self.dependencies(*at).iter().filter(|before| descendants.contains(before)).count()
        };
        let mut awaited_counts: HashMap<usize, usize> =
            descendants.iter().map(|at| (*at, count_awaited(at))).collect();
        let (mut ready, mut order) = (BTreeSet::from([position]), Vec::new());
        while let Some(at) = ready.pop_first() {
            order.push(at);
            for dependent in self.dependents(at) {
                if let Some(count) = awaited_counts.get_mut(dependent) {
                    *count -= 1;
                    if *count == 0 {
                        ready.insert(*dependent);
                    }
                }
            }
        }
        order.split_off(1)
    }

    /// The position of the step with this id in authoring order.
    pub fn step_position(&self, id: &StepId) -> Option<usize> {
        self.positions.get(id).copied()
    }

    /// The direct dependencies of the step at `position`.
    pub fn dependencies(&self, position: usize) -> &[usize] {
        self.dependencies.get(position).map_or(&[], Vec::as_slice)
    }

    /// The direct dependents of the step at `position`, in authoring order.
    pub fn dependents(&self, position: usize) -> &[usize] {
        self.dependents.get(position).map_or(&[], Vec::as_slice)
    }

    /// The steps without dependencies, in authoring order.
    pub fn roots(&self) -> impl Iterator<Item = usize> {
        self.dependencies
            .iter()
            .enumerate()
            .filter(|(_, before)| before.is_empty())
            .map(|(at, _)| at)
    }

    /// The wave of each step, from 1: one more than the highest wave among its dependencies.
    pub fn wave_numbers(&self) -> Vec<usize> {
        let mut waves = vec![1; self.dependencies.len()];
        let mut awaited_counts: Vec<usize> = self.dependencies.iter().map(Vec::len).collect();
        let mut ready: Vec<usize> = self.roots().collect();
        while let Some(at) = ready.pop() {
            for &dependent in self.dependents(at) {
                waves[dependent] = waves[dependent].max(waves[at] + 1);
                awaited_counts[dependent] -= 1;
                if awaited_counts[dependent] == 0 {
                    ready.push(dependent);
                }
            }
        }
        waves
    }

    /// The steps on which no regular step depends, in authoring order. `on_failure` steps are neither returned nor
    /// counted as dependents.
    pub fn leaves(&self) -> impl Iterator<Item = usize> {
        let candidates = self.dependents.iter().enumerate().take(self.first_failure_step);
        candidates
            .filter(|(_, after)| after.iter().all(|at| *at >= self.first_failure_step))
            .map(|(at, _)| at)
    }

    /// A dependency cycle, as positions in the order in which each step waits for the next; `None` if there is none.
    pub fn find_cycle(&self) -> Option<Vec<usize>> {
        let mut awaited_counts: Vec<usize> = self.dependencies.iter().map(Vec::len).collect();
        let mut ready: Vec<usize> = self.roots().collect();
        while let Some(at) = ready.pop() {
            for &dependent in self.dependents(at) {
                awaited_counts[dependent] -= 1;
                if awaited_counts[dependent] == 0 {
                    ready.push(dependent);
                }
            }
        }
        // Every step that is still waiting is on a cycle or downstream of one, so following waiting dependencies from
        // any of them must visit a step twice.
        let mut path = vec![awaited_counts.iter().position(|&count| count > 0)?];
        loop {
            let last = *path.last()?;
            let dependency =
                *self.dependencies(last).iter().find(|&&before| awaited_counts[before] > 0)?;
            if let Some(start) = path.iter().position(|&at| at == dependency) {
                return Some(path.split_off(start));
            }
            path.push(dependency);
        }
    }
}

/// All nodes that are reachable from `start`, including `start`.
pub(crate) fn reachable_from(successors: &[Vec<usize>], start: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::from([start]);
    let mut pending = vec![start];
    while let Some(at) = pending.pop() {
        let neighbors = successors.get(at).into_iter().flatten();
        pending.extend(neighbors.filter(|at| reached.insert(**at)));
    }
    reached
}
