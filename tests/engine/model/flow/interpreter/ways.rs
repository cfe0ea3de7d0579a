//! Where control goes from a step that came to its end: on, elsewhere, back, or to the failure of the whole.

use std::collections::BTreeSet;

use midex_domain::{event::OrderKind, limits};

use super::Interpreter;
use crate::model::flow::manifest::{OnError, RunWhen, To};

impl Interpreter<'_> {
    /// What follows the end of a step: a jump, a failure, or what depends on it. Ours: `next` is the way of a step that was
    /// done; one that failed and is passed, or was skipped, goes on to what depends on it.
    pub(super) fn follow(&mut self, step: usize, to: Option<To>) {
        match (self.steps[step].failure, self.reaction(step)) {
            (None, _) => {
                // What only the cancelled steps lead to is skipped, and this step leads where it goes.
                self.steps[step].left_for = self.choose_way(step, to);
                self.cancel_named(step);
                self.go(step, to);
            }
            (Some(_), OnError::Step(target)) => self.go(step, Some(To::Step(target))),
            (Some(code), OnError::Fail) if !self.is_late(step) => {
                // A handler that would lead back does not run after the failure either.
                if let OnError::Step(handler) = self.flow.steps[step].on_error
                    && self.steps[handler].status == "pending"
                {
                    self.skip(handler);
                }
                self.fail(code, Some(step));
            }
            (Some(_), _) => self.go(step, None),
        }
    }

    /// What follows the failure of a step. One that was entered too often is not handed to a step that leads back to it.
    fn reaction(&self, step: usize) -> OnError {
        let spec = &self.flow.steps[step];
        let visits = self.steps[step].visits - self.steps[step].forgiven;
        match spec.on_error {
            OnError::Step(handler)
                if visits > spec.max_visits.unwrap_or(limits::VISITS_DEFAULT)
                    && self.leads_to(handler, step) =>
            {
                OnError::Fail
            }
            on_error => on_error,
        }
    }

    /// An execution that is failing goes nowhere but to its end, which the steps of `on_failure` are a part of.
    fn choose_way(&self, from: usize, to: Option<To>) -> Option<To> {
        to.filter(|_| from >= self.flow.provisions || self.failing.is_none())
    }

    pub(super) fn go(&mut self, from: usize, to: Option<To>) {
        let to = self.choose_way(from, to);
        self.steps[from].left_for = to;
        match to {
            _ if self.is_late(from) => self.go_late(from, to),
            None => {}
            Some(To::End) => self.pass_by(from, None),
            Some(To::Stop) => self.stop(),
            Some(To::Step(target)) => {
                let reached = self.downstream(target);
                let goes_back = self.steps[target].status != "pending";
                if goes_back {
                    self.reset(&reached);
                }
                if !reached.contains(&from) || !goes_back {
                    self.pass_by(from, Some(target));
                }
                if goes_back {
                    self.back.push(target);
                }
            }
        }
    }

    /// Control went back to a step that was entered or passed before: it and what depends on it will be done again.
    pub(super) fn reset(&mut self, again: &BTreeSet<usize>) {
        self.void(|(step, _)| again.contains(&step), OrderKind::Abandon);
        for step in again {
            (self.steps[*step].status, self.steps[*step].output) = ("pending", None);
            (self.steps[*step].failure, self.steps[*step].left_for) = (None, None);
            self.steps[*step].is_entered = false;
        }
        self.back.retain(|step| !again.contains(step));
    }

    /// Skips what waits behind `from`, which was left for `to`, and to which no way leads any more: none in order from a step
    /// that was not left for another one, and none from a step that was left for it.
    pub(super) fn pass_by(&mut self, from: usize, to: Option<usize>) {
        let all = 0..self.steps.len();
        let was_entered = |step: usize| !matches!(self.steps[step].status, "pending" | "skipped");
        let mut behind = self.downstream(from);
        let begins = |step: &usize| {
            self.flow.before[*step].is_empty()
                || was_entered(*step)
                || to == Some(*step)
                || *step != from && behind.contains(step) && self.is_undecided(*step)
        };
        let is_open = |step: &usize| to == Some(*step) || !self.is_kept_out(*step);
        let mut led_to: BTreeSet<_> = all.clone().filter(begins).filter(is_open).collect();
        let leads = |at: usize, step: usize| match self.steps[at].left_for {
            _ if at == from || self.is_cancelled(at) => false,
            // An execution that is failing goes nowhere else.
            _ if self.failing.is_some() && at < self.flow.provisions => {
                self.flow.before[step].contains(&at)
            }
            Some(To::Step(target)) => target == step,
            Some(To::End | To::Stop) => false,
            None => self.flow.before[step].contains(&at),
        };
        loop {
            let more =
                |step: &usize| !led_to.contains(step) && led_to.iter().any(|at| leads(*at, *step));
            let Some(step) = all.clone().filter(is_open).find(more) else {
                break;
            };
            led_to.insert(step);
        }
        // Each after those before it, and else in authoring order.
        behind.remove(&from);
        let flow = self.flow;
        let next = |behind: &BTreeSet<usize>| {
            let is_next = |step: &&usize| flow.before[**step].iter().all(|at| !behind.contains(at));
            behind.iter().find(is_next).copied()
        };
        while let Some(step) = next(&behind) {
            behind.remove(&step);
            let is_order = step < self.flow.provisions || self.failing.is_some();
            if self.steps[step].status == "pending" && is_order && !led_to.contains(&step) {
                self.skip(step);
            }
        }
    }

    /// A required step failed: what is open is void, and the execution fails once what is to run nevertheless has run. Ours:
    /// what was open is void also where it is of those, and is not begun again.
    pub(super) fn fail(&mut self, code: &'static str, step: Option<usize>) {
        if self.ends_badly() || self.has_ended() {
            return;
        }
        self.note_end();
        self.culprit = step.filter(|step| *step < self.steps.len()).map(|step| (step, code));
        self.void(|_| true, OrderKind::Fail);
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
