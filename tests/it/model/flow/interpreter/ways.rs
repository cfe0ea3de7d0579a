//! Where control goes from a step that came to its end: on, elsewhere, back, or to the failure of the whole.

use std::collections::BTreeSet;

use midex::domain::event::Ordered;

use super::Interpreter;
use crate::model::flow::manifest::{OnError, RunWhen, To};

impl Interpreter<'_> {
    /// What follows the end of a step: a jump, a failure, or what depends on it. Ours: `next` is the way of a step that was
    /// done; one that failed and is passed, or was skipped, goes on to what depends on it.
    pub(super) fn follow(&mut self, step: usize, to: Option<To>) {
        match (self.steps[step].failure, self.flow.steps[step].on_error) {
            (None, _) => self.go(step, to),
            (Some(_), OnError::Step(target)) => self.go(step, Some(To::Step(target))),
            (Some(code), OnError::Fail) if !self.is_late(step) => self.fail(code),
            (Some(_), _) => self.go(step, None),
        }
    }

    pub(super) fn go(&mut self, from: usize, to: Option<To>) {
        // An execution that is failing goes nowhere but to its end, which the steps of `on_failure` are a part of.
        let is_provision = from >= self.flow.provisions;
        let to = to.filter(|_| is_provision || self.failing.is_none());
        match to {
            _ if self.is_late(from) => self.go_late(from, to),
            None => {}
            Some(To::End) => self.pass_by(from, &BTreeSet::new()),
            Some(To::Step(target)) => {
                let reached = self.downstream(target);
                let goes_back = self.steps[target].status != "pending";
                if goes_back {
                    self.reset(&reached);
                }
                if !reached.contains(&from) || !goes_back {
                    self.pass_by(from, &reached);
                }
                if goes_back {
                    self.back.push(target);
                }
            }
        }
    }

    /// Control went back to a step that was entered or passed before: it and what depends on it will be done again.
    pub(super) fn reset(&mut self, again: &BTreeSet<usize>) {
        self.void(|(step, _)| again.contains(&step), Ordered::Abandon);
        for step in again {
            (self.steps[*step].status, self.steps[*step].output) = ("pending", None);
            self.steps[*step].failure = None;
        }
        self.back.retain(|step| !again.contains(step));
    }

    /// Skips what can be reached only through `from` and what is so skipped, except for what the jump reaches.
    pub(super) fn pass_by(&mut self, from: usize, reached: &BTreeSet<usize>) {
        let mut past = BTreeSet::from([from]);
        loop {
            let is_past = |step: &usize| {
                let before = &self.flow.before[*step];
                let is_order = *step < self.flow.provisions || self.failing.is_some();
                self.steps[*step].status == "pending"
                    && is_order
                    && !reached.contains(step)
                    && !before.is_empty()
                    && before.iter().all(|before| past.contains(before))
            };
            let Some(step) = (0..self.steps.len()).find(is_past) else {
                return;
            };
            past.insert(step);
            self.skip(step);
        }
    }

    /// A required step failed: what is open is void, and the execution fails once what is to run nevertheless has run. Ours:
    /// what was open is void also where it is of those, and is not begun again.
    pub(super) fn fail(&mut self, code: &'static str) {
        if self.ends_badly() || self.has_ended() {
            return;
        }
        self.void(|_| true, Ordered::Fail);
        self.back.clear();
        let steps = self.flow.steps.iter();
        let mut nevertheless = steps.filter(|step| step.run_when != RunWhen::Succeeded);
        let provides = self.flow.provisions < self.flow.steps.len();
        if nevertheless.next().is_some() || provides || self.has_at_end("failed") {
            self.failing = Some(code);
        } else {
            self.failing = Some(code);
            self.become_final("failed");
        }
    }
}
