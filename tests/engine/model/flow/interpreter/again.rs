//! Forks and rewinds: which steps are done again, and with what memory.

use std::collections::BTreeSet;

use midex_domain::{error::Code, event::OrderKind};

use super::{Interpreter, Part, Standing};
use crate::model::flow::manifest::{COUNTERS, Does, Effect, Kind};

impl Interpreter<'_> {
    /// Keeps the execution as it was before its end began: a fork continues from there.
    pub(super) fn note_end(&mut self) {
        if self.before_end.is_none() {
            self.before_end = Some(Box::new(self.clone()));
        }
    }

    /// A counter goes up, in the work or a hook of a step.
    pub(super) fn count(&mut self, counter: usize, step: usize) {
        self.memory[counter] += 1;
        self.writers[counter] = Some(step);
    }

    /// The fork of this execution: finished steps are kept. The named step and all steps after it are done again, and so are
    /// open steps, the step that failed the execution, and compensated steps.
    pub(in crate::model::flow) fn fork(&self, from: Option<usize>) -> Result<Self, Code> {
        let base = self.before_end.as_deref().unwrap_or(self);
        if from.is_some_and(|step| !base.steps[step].is_entered) {
            return Err(Code::ArgumentsInvalid);
        }
        let all = 0..self.steps.len();
        let has_hook_open = |step: usize| {
            base.open.keys().any(|(at, part)| *at == step && matches!(part, Part::Beside(..)))
        };
        let was_open = |step: &usize| base.open.contains_key(&(*step, Part::Work));
        let mut again: BTreeSet<_> = all.clone().filter(was_open).collect();
        let undone = self.undone.iter();
        let undone = undone.filter(|kept| kept.visit == self.steps[kept.step].visits);
        let sources: BTreeSet<_> = undone.map(|kept| kept.step).chain(from).collect();
        again.extend(self.culprits(base));
        // Ours: whether a failure whose hooks are cut off is passed is not known, so the step is done again.
        again.extend(
            all.clone().filter(|at| base.steps[*at].status == "failed" && has_hook_open(*at)),
        );
        if from.is_none() && self.state == "completed" && again.is_empty() && sources.is_empty() {
            return Err(Code::ArgumentsInvalid);
        }
        again.extend(sources.iter().flat_map(|step| base.downstream(*step)));
        let entered = sources.iter().filter(|step| base.steps[**step].is_entered);
        let first = entered.min_by_key(|step| base.steps[**step].opened);
        let memory = first.map_or(Ok(base.memory), |first| base.memory_before(*first, &again))?;
        let mut fork = Self { memory, ..Self::blank(self.flow, self.now) };
        let is_kept = |step: &usize| {
            let has_ended = !matches!(base.steps[*step].status, "pending" | "running");
            has_ended && !again.contains(step)
        };
        let kept: Vec<_> = (0..self.flow.provisions).filter(is_kept).collect();
        for step in kept.iter().copied() {
            fork.inherit(step, &base.steps[step]);
        }
        if self.has_ended() && self.state != "completed" {
            let effects = base.effects.iter();
            let effects =
                effects.filter(|one| kept.contains(&one.step) && !self.undone.contains(one));
            fork.effects = effects.copied().collect();
        }
        // Hooks that were cut off are not run again: what follows them comes now.
        for step in kept.into_iter().filter(|step| has_hook_open(*step)) {
            fork.follow(step, self.flow.steps[step].next);
        }
        fork.settle();
        Ok(fork)
    }

    /// The step that failed the execution. A join that missed would miss again without those that it waited for.
    fn culprits(&self, base: &Self) -> Vec<usize> {
        let Some((culprit, code)) = self.culprit else { return Vec::new() };
        let before = if code == "JOIN_MISSED" { &self.flow.before[culprit][..] } else { &[] };
        let suspects = before.iter().copied().chain([culprit]);
        suspects.filter(|step| base.steps[*step].status == "failed").collect()
    }

    fn inherit(&mut self, step: usize, done: &Standing) {
        let is_entered = done.status != "skipped";
        let visits = if is_entered { done.visits } else { 0 };
        self.steps[step] = Standing {
            visits,
            is_entered,
            is_inherited: is_entered,
            forgiven: 0,
            opened: 0,
            ..done.clone()
        };
        self.note(step, visits, None, done.status, None);
    }

    /// Rewinds the execution to a step: that step and all steps after it are done again.
    pub(in crate::model::flow) fn rewind(&mut self, to: usize) -> Result<(), Code> {
        let again = self.downstream(to);
        let is_entered = self.steps[to].is_entered;
        let memory = if is_entered { self.memory_before(to, &again)? } else { self.memory };
        if self.has_ended() || self.ending().is_some() {
            return Err(Code::StateTransitionRefused);
        }
        if !is_entered {
            return Err(Code::ArgumentsInvalid);
        }
        self.void(|(step, _)| again.contains(&step), OrderKind::Abandon);
        for step in &again {
            let step = &mut self.steps[*step];
            if step.status != "pending" {
                step.forgiven = step.visits;
            }
        }
        self.reset(&again);
        self.memory = memory;
        self.back.push(to);
        self.resume();
        Ok(())
    }

    /// Memory where `again` is done again from the visit of `first` on: what those steps wrote last is as it was before that
    /// visit. What a fork took over tells nothing of the time before.
    fn memory_before(
        &self,
        first: usize,
        again: &BTreeSet<usize>,
    ) -> Result<[i64; COUNTERS.len()], Code> {
        let has_unknown =
            again.iter().any(|step| self.steps[*step].is_inherited && self.writes(*step));
        let wrote = |writer: &Option<usize>| writer.is_some_and(|step| again.contains(&step));
        let is_unknown = self.steps[first].is_inherited && self.writers.iter().any(wrote);
        if has_unknown || is_unknown {
            return Err(Code::StateTransitionRefused);
        }
        let before = self.steps[first].before;
        let then = |at: usize| if wrote(&self.writers[at]) { before[at] } else { self.memory[at] };
        Ok(std::array::from_fn(then))
    }

    /// Whether the step or a hook of it may write to memory.
    fn writes(&self, step: usize) -> bool {
        let spec = &self.flow.steps[step];
        let counts = |hook: &Effect| {
            hook.body != "compensate" && matches!(hook.does, Does::Count(_) | Does::Break)
        };
        matches!(spec.kind, Kind::Count(_)) || spec.beside.iter().any(counts)
    }
}
