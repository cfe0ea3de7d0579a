//! Which steps are ready, joins among them, and those that come too late for one.

use std::collections::BTreeSet;

use midex_domain::event::OrderKind;

use super::{Interpreter, Part, To, arms::Arm};
use crate::model::flow::manifest::{Join, RunWhen};

/// What becomes of a step that has waited long enough.
#[derive(Clone, Copy)]
pub(super) enum Verdict {
    Runs,
    IsPassed,
    /// A branch chose another arm.
    IsKeptOut,
    /// Too few of those before it count.
    IsMissed,
}

impl Interpreter<'_> {
    /// The first step, in authoring order, that has waited long enough.
    pub(super) fn ready(&self) -> Option<(usize, Verdict)> {
        // Of an execution that was given up no step is entered any more.
        if self.ends_badly() && self.failing.is_none() {
            return None;
        }
        let pending = |step: &usize| self.steps[*step].status == "pending";
        let mut pending = (0..self.steps.len()).filter(pending);
        pending.find_map(|step| Some((step, self.verdict(step)?)))
    }

    fn verdict(&self, step: usize) -> Option<Verdict> {
        if step >= self.flow.provisions && self.failing.is_none() {
            return None;
        }
        match self.arm(step) {
            Arm::Open => {}
            Arm::Undecided => return None,
            Arm::NotTaken => return Some(Verdict::IsKeptOut),
        }
        if let Some(join) = &self.flow.steps[step].join {
            return self.verdict_of(step, join);
        }
        let mut before = self.flow.before[step].iter();
        let runs = || {
            if self.may_run(step) { Verdict::Runs } else { Verdict::IsPassed }
        };
        before.all(|before| self.is_over(*before)).then(runs)
    }

    /// A step that waits for some of those before it. Ours: where too few count, that is found once all have ended; a
    /// step for failures is passed then.
    fn verdict_of(&self, step: usize, join: &Join) -> Option<Verdict> {
        let run_when = self.flow.steps[step].run_when;
        let counts = |before: usize| match run_when {
            RunWhen::Succeeded => self.steps[before].status == "completed",
            RunWhen::Failed => {
                self.steps[before].status == "failed" || self.has_failed_before(before)
            }
            RunWhen::Finished => true,
        };
        let before = &self.flow.before[step];
        let over: Vec<_> = before.iter().filter(|before| self.is_over(**before)).collect();
        let is_enough = over.iter().filter(|before| counts(***before)).count() >= join.wanted;
        if !is_enough && over.len() < before.len() {
            return None;
        }
        let is_provision = step >= self.flow.provisions;
        Some(match run_when {
            RunWhen::Succeeded if self.failing.is_some() && !is_provision => Verdict::IsPassed,
            RunWhen::Failed if !is_enough => Verdict::IsPassed,
            _ if !is_enough => Verdict::IsMissed,
            _ => Verdict::Runs,
        })
    }

    /// Whether a step and its hooks have come to an end.
    pub(super) fn is_over(&self, step: usize) -> bool {
        let is_open = matches!(self.steps[step].status, "pending" | "running");
        let mut open = self.open.keys();
        !is_open && !open.any(|(at, part)| *at == step && matches!(part, Part::Beside(..)))
    }

    pub(super) fn pass_judgement(&mut self, step: usize, verdict: Verdict) {
        match verdict {
            Verdict::Runs => {
                if self.flow.steps[step].join.as_ref().is_some_and(|join| join.cancels) {
                    self.cancel_losers(step);
                }
                self.enter(step);
            }
            Verdict::IsPassed => self.skip(step),
            Verdict::IsKeptOut => {
                self.skip(step);
                self.pass_by(step, None);
            }
            // Ours: this is a visit, whatever the `if` of the step says.
            Verdict::IsMissed => {
                self.steps[step].before = self.memory;
                self.end_at_once(step, Err("JOIN_MISSED"), None);
            }
        }
    }

    fn cancel_losers(&mut self, join: usize) {
        let mut losers = self.losers(join);
        losers.retain(|step| !self.is_over(*step));
        self.void(|(step, _)| losers.contains(&step), OrderKind::Abandon);
        for step in losers {
            if self.steps[step].status == "pending" {
                self.skip(step);
            }
        }
    }

    /// The steps that lead nowhere but to the join. Ours: another join that went on without them is nowhere.
    fn losers(&self, join: usize) -> BTreeSet<usize> {
        let all = 0..self.steps.len();
        let mut losers: BTreeSet<_> = all
            .clone()
            .filter(|step| *step != join && self.downstream(*step).contains(&join))
            .collect();
        loop {
            let leads_elsewhere = |step: &&usize| {
                all.clone().any(|next| {
                    let is_led = **step >= self.flow.provisions || next < self.flow.provisions;
                    let is_elsewhere = next != join && !losers.contains(&next);
                    is_led
                        && is_elsewhere
                        && self.flow.before[next].contains(step)
                        && !self.went_on(next)
                })
            };
            let Some(other) = losers.iter().find(leads_elsewhere).copied() else {
                return losers;
            };
            losers.remove(&other);
        }
    }

    fn went_on(&self, step: usize) -> bool {
        self.flow.steps[step].join.is_some() && self.steps[step].status != "pending"
    }

    /// Whether some join went on without the step.
    pub(super) fn is_late(&self, step: usize) -> bool {
        (0..self.steps.len()).any(|at| self.went_on(at) && self.losers(at).contains(&step))
    }

    /// A step came too late. It leads to others that come too late and are ahead, and nowhere else.
    pub(super) fn go_late(&mut self, from: usize, to: Option<To>) {
        let visit = self.steps[from].visits;
        self.row(from, visit, None, None).late = true;
        match to {
            None => {}
            Some(To::Step(target))
                if self.steps[target].status == "pending" && self.is_late(target) =>
            {
                self.pass_by(from, Some(target));
            }
            Some(_) => self.pass_by(from, None),
        }
    }
}
