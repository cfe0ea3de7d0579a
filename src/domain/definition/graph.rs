//! The dependency graph of the steps, by position. After a step ends, finding the steps that became ready costs only as
//! much as it has dependents.

use std::collections::{BTreeSet, HashMap};

use super::{JoinRule, RunWhen, Step};
use crate::id::StepId;

/// The positions of the steps, with the dependency edges in both directions.
#[derive(Clone, Debug, Default)]
pub struct StepGraph {
    position: HashMap<StepId, usize>,
    dependencies: Vec<Vec<usize>>,
    dependents: Vec<Vec<usize>>,
    has_aftermath: bool,
    has_joins: bool,
    /// The position of the first `on_failure` step, or the number of steps if there is none. Those steps come last.
    provisions: usize,
}

impl StepGraph {
    /// Builds the graph of `steps`. Dependencies that name no step are ignored; a checked workflow has none.
    pub fn from_steps(steps: &[Step]) -> Self {
        let position: HashMap<_, _> =
            steps.iter().enumerate().map(|(at, step)| (step.id.clone(), at)).collect();
        let mut dependencies = vec![Vec::new(); steps.len()];
        let mut dependents = vec![Vec::new(); steps.len()];
        for (at, step) in steps.iter().enumerate() {
            for before in step.depends_on.iter().filter_map(|id| position.get(id).copied()) {
                dependencies[at].push(before);
                dependents[before].push(at);
            }
        }
        Self {
            position,
            dependencies,
            dependents,
            has_aftermath: steps.iter().any(|step| step.run_when != RunWhen::Succeeded),
            has_joins: steps.iter().any(|step| step.join != JoinRule::All),
            provisions: steps
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
        self.has_aftermath
    }

    /// The step at `position` and its transitive dependents.
    pub fn downstream(&self, position: usize) -> BTreeSet<usize> {
        reachable_from(&self.dependents, position)
    }

    /// The step at `position` and its transitive dependencies.
    pub fn ancestors(&self, position: usize) -> BTreeSet<usize> {
        reachable_from(&self.dependencies, position)
    }

    /// The transitive dependents of the step at `position` in topological order, without the step itself.
    pub fn ordered_dependents(&self, position: usize) -> Vec<usize> {
        let among = self.downstream(position);
        let waits = |at: &usize| {
            self.dependencies(*at).iter().filter(|before| among.contains(before)).count()
        };
        let mut waiting: HashMap<usize, usize> = among.iter().map(|at| (*at, waits(at))).collect();
        let (mut ready, mut order) = (BTreeSet::from([position]), Vec::new());
        while let Some(at) = ready.pop_first() {
            order.push(at);
            for next in self.dependents(at) {
                if let Some(count) = waiting.get_mut(next) {
                    *count -= 1;
                    if *count == 0 {
                        ready.insert(*next);
                    }
                }
            }
        }
        order.split_off(1)
    }

    /// The position of the step with this id in authoring order.
    pub fn step_position(&self, id: &StepId) -> Option<usize> {
        self.position.get(id).copied()
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
        let mut waiting: Vec<usize> = self.dependencies.iter().map(Vec::len).collect();
        let mut ready: Vec<usize> = self.roots().collect();
        while let Some(at) = ready.pop() {
            for &next in self.dependents(at) {
                waves[next] = waves[next].max(waves[at] + 1);
                waiting[next] -= 1;
                if waiting[next] == 0 {
                    ready.push(next);
                }
            }
        }
        waves
    }

    /// The steps on which no regular step depends, in authoring order. `on_failure` steps are neither returned nor
    /// counted as dependents.
    pub fn leaves(&self) -> impl Iterator<Item = usize> {
        let ends = self.dependents.iter().enumerate().take(self.provisions);
        ends.filter(|(_, after)| after.iter().all(|at| *at >= self.provisions)).map(|(at, _)| at)
    }

    /// A dependency cycle, as positions in the order in which each step waits for the next; `None` if there is none.
    pub fn find_cycle(&self) -> Option<Vec<usize>> {
        let mut waiting: Vec<usize> = self.dependencies.iter().map(Vec::len).collect();
        let mut ready: Vec<usize> = self.roots().collect();
        while let Some(at) = ready.pop() {
            for &next in self.dependents(at) {
                waiting[next] -= 1;
                if waiting[next] == 0 {
                    ready.push(next);
                }
            }
        }
        // Every step that is still waiting is on a cycle or downstream of one, so following waiting dependencies from
        // any of them must visit a step twice.
        let mut path = vec![waiting.iter().position(|&count| count > 0)?];
        loop {
            let last = *path.last()?;
            let before = *self.dependencies(last).iter().find(|&&before| waiting[before] > 0)?;
            if let Some(start) = path.iter().position(|&at| at == before) {
                return Some(path.split_off(start));
            }
            path.push(before);
        }
    }
}

/// All nodes that are reachable from `start`, including `start`.
pub(crate) fn reachable_from(next: &[Vec<usize>], start: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::from([start]);
    let mut open = vec![start];
    while let Some(at) = open.pop() {
        let further = next.get(at).into_iter().flatten();
        open.extend(further.filter(|at| reached.insert(**at)));
    }
    reached
}
