//! The order of steps as a graph of positions, so that finding what became ready costs only what
//! depends on the step that was done.

use std::collections::{BTreeSet, HashMap};

use super::{Join, RunWhen, Step};
use crate::id::StepId;

/// Positions of steps, and who waits for whom.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    position: HashMap<StepId, usize>,
    dependencies: Vec<Vec<usize>>,
    dependents: Vec<Vec<usize>>,
    has_aftermath: bool,
    has_joins: bool,
    /// Where the steps of `on_failure` begin.
    provisions: usize,
}

impl Graph {
    /// The graph of `steps`. Dependencies that name no step are left out: a checked workflow has none.
    pub fn of(steps: &[Step]) -> Self {
        let position: HashMap<_, _> = steps
            .iter()
            .enumerate()
            .map(|(at, step)| (step.id.clone(), at))
            .collect();
        let mut dependencies = vec![Vec::new(); steps.len()];
        let mut dependents = vec![Vec::new(); steps.len()];
        for (at, step) in steps.iter().enumerate() {
            for before in step
                .depends_on
                .iter()
                .filter_map(|id| position.get(id).copied())
            {
                dependencies[at].push(before);
                dependents[before].push(at);
            }
        }
        Self {
            position,
            dependencies,
            dependents,
            has_aftermath: steps.iter().any(|step| step.run_when != RunWhen::Succeeded),
            has_joins: steps.iter().any(|step| step.join != Join::All),
            provisions: steps
                .iter()
                .position(|step| step.run_when == RunWhen::Failing)
                .unwrap_or(steps.len()),
        }
    }

    /// Whether a step does not wait for all of those before it.
    pub const fn has_joins(&self) -> bool {
        self.has_joins
    }

    /// Whether a step runs although one before it failed.
    pub const fn has_aftermath(&self) -> bool {
        self.has_aftermath
    }

    /// The step at `position` and all that wait for it, directly or not.
    pub fn downstream(&self, position: usize) -> BTreeSet<usize> {
        reach(&self.dependents, position)
    }

    /// The step at `position` and all that it waits for, directly or not.
    pub fn ancestors(&self, position: usize) -> BTreeSet<usize> {
        reach(&self.dependencies, position)
    }

    /// All that wait for the step at `position`, each after what it waits for among them.
    pub fn in_order_after(&self, position: usize) -> Vec<usize> {
        let among = self.downstream(position);
        let waits = |at: &usize| {
            self.dependencies(*at)
                .iter()
                .filter(|before| among.contains(before))
                .count()
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

    /// Where the step stands in authoring order.
    pub fn position(&self, id: &StepId) -> Option<usize> {
        self.position.get(id).copied()
    }

    /// What must be done before the step at `position`.
    pub fn dependencies(&self, position: usize) -> &[usize] {
        self.dependencies.get(position).map_or(&[], Vec::as_slice)
    }

    /// What waits for the step at `position`, in authoring order.
    pub fn dependents(&self, position: usize) -> &[usize] {
        self.dependents.get(position).map_or(&[], Vec::as_slice)
    }

    /// The steps that wait for nothing, in authoring order.
    pub fn roots(&self) -> impl Iterator<Item = usize> {
        self.dependencies
            .iter()
            .enumerate()
            .filter(|(_, before)| before.is_empty())
            .map(|(at, _)| at)
    }

    /// The wave that each step comes in, from 1: one more than the latest of those that it waits for.
    pub fn waves(&self) -> Vec<usize> {
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

    /// The steps that nothing waits for, in authoring order, but for those of `on_failure`.
    pub fn leaves(&self) -> impl Iterator<Item = usize> {
        let ends = self.dependents.iter().enumerate().take(self.provisions);
        ends.filter(|(_, after)| after.iter().all(|at| *at >= self.provisions))
            .map(|(at, _)| at)
    }

    /// A cycle, as positions in the order in which each waits for the next; `None` where there is none.
    pub fn cycle(&self) -> Option<Vec<usize>> {
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
        // Whoever still waits is on a cycle or behind one: walking back along waiting dependencies from
        // any of them must meet a step twice.
        let mut path = vec![waiting.iter().position(|&count| count > 0)?];
        loop {
            let last = *path.last()?;
            let before = *self
                .dependencies(last)
                .iter()
                .find(|&&before| waiting[before] > 0)?;
            if let Some(start) = path.iter().position(|&at| at == before) {
                return Some(path.split_off(start));
            }
            path.push(before);
        }
    }
}

/// Everything that can be got to from `start`, itself included.
pub(crate) fn reach(next: &[Vec<usize>], start: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::from([start]);
    let mut open = vec![start];
    while let Some(at) = open.pop() {
        let further = next.get(at).into_iter().flatten();
        open.extend(further.filter(|at| reached.insert(**at)));
    }
    reached
}
