//! Steps that are kept out: by a branch that chose another arm, or by a step that cancels them.

use std::collections::BTreeSet;

use midex_domain::event::OrderKind;

use super::Interpreter;
use crate::model::flow::manifest::{Kind, To};

/// What branches make of a step.
pub(super) enum Arm {
    /// None keeps it out.
    Open,
    /// One does, and a step that has not ended may still jump to it.
    Undecided,
    NotTaken,
}

impl Interpreter<'_> {
    /// Whether a branch before the step keeps it out: it took another arm, and no jump leads here.
    pub(super) fn arm(&self, step: usize) -> Arm {
        let sources: Vec<_> = (0..self.steps.len())
            .filter(|at| self.flow.steps[*at].jumps().contains(&step))
            .collect();
        let left_for = |at: usize| {
            let counts = self.failing.is_none() || at >= self.flow.provisions;
            self.steps[at].left_for.filter(|_| counts && self.is_over(at))
        };
        if sources.iter().any(|at| left_for(*at) == Some(To::Step(step))) {
            return Arm::Open;
        }
        let keeps_out = |at: &usize| {
            left_for(*at).is_some()
                && matches!(self.flow.steps[*at].kind, Kind::Branch(_))
                && self.downstream(*at).contains(&step)
        };
        if !sources.iter().any(keeps_out) {
            return Arm::Open;
        }
        let after = self.downstream(step);
        let may_jump = |at: &usize| !self.is_over(*at) && !after.contains(at);
        if sources.iter().any(may_jump) { Arm::Undecided } else { Arm::NotTaken }
    }

    pub(super) fn is_kept_out(&self, step: usize) -> bool {
        self.steps[step].status == "pending" && matches!(self.arm(step), Arm::NotTaken)
    }

    /// Whether a step that has not ended may still lead to this one, which a branch left.
    pub(super) fn is_undecided(&self, step: usize) -> bool {
        self.steps[step].status == "pending" && matches!(self.arm(step), Arm::Undecided)
    }

    /// Whether dependencies and jumps lead from the step `from` to the step `to`.
    pub(super) fn leads_to(&self, from: usize, to: usize) -> bool {
        let (mut reached, mut ahead) = (BTreeSet::new(), vec![from]);
        while let Some(at) = ahead.pop() {
            if reached.insert(at) {
                let after =
                    (0..self.steps.len()).filter(|step| self.flow.before[*step].contains(&at));
                ahead.extend(after.chain(self.flow.steps[at].jumps()));
            }
        }
        reached.contains(&to)
    }

    /// A step that completed cancels those that it names, unless they have ended.
    pub(super) fn cancel_named(&mut self, step: usize) {
        let named = self.flow.steps[step].cancel.iter().copied();
        let cancelled: Vec<_> = named.filter(|at| !self.is_over(*at)).collect();
        self.void(|(at, _)| cancelled.contains(&at), OrderKind::Abandon);
        for at in &cancelled {
            if self.steps[*at].status == "pending" {
                self.skip(*at);
            }
        }
        for at in cancelled {
            self.pass_by(at, None);
        }
    }

    /// Whether a step that is completed has cancelled this one.
    pub(super) fn is_cancelled(&self, step: usize) -> bool {
        let cancels = |at: usize| {
            self.steps[at].status == "completed" && self.flow.steps[at].cancel.contains(&step)
        };
        self.steps[step].status == "skipped" && (0..self.steps.len()).any(cancels)
    }

    /// The execution ends at once.
    pub(super) fn stop(&mut self) {
        self.void(|_| true, OrderKind::Abandon);
        self.back.clear();
        for step in 0..self.steps.len() {
            let is_order = step < self.flow.provisions || self.failing.is_some();
            if self.steps[step].status == "pending" && is_order {
                self.skip(step);
            }
        }
    }
}
