//! Hooks, what is taken back, and the end of the whole.

use midex_domain::{LifecycleAction, event::OrderKind};
use serde_json::{Value, json};

use super::{Interpreter, Open, Outcome, Part, Place, To, Waits, status};
use crate::model::flow::manifest::{COUNTERS, Does, Effect, Kind};

/// A visit whose effect can be taken back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::model::flow) struct Kept {
    pub(in crate::model::flow) step: usize,
    pub(in crate::model::flow) visit: u32,
    pub(in crate::model::flow) item: Option<usize>,
}

impl Interpreter<'_> {
    /// The state to come.
    pub(in crate::model::flow) fn ending(&self) -> Option<&'static str> {
        self.failing.map(|_| "failed").or(self.ending)
    }

    /// Whether its end began and is not a good one: that one stays.
    pub(super) fn ends_badly(&self) -> bool {
        self.ending().is_some_and(|to| to != "completed")
    }

    /// An effect of the server that was waited for came to something; during a pause that is noted.
    pub(in crate::model::flow) fn work(&mut self, place: Place, outcome: Outcome) {
        if self.state == "paused" {
            self.open.get_mut(&place).expect("it is open").waits = Waits::Deferred(outcome);
        } else {
            self.report(place, outcome);
        }
    }

    /// Somebody asks for another state: false where that is refused.
    pub(in crate::model::flow) fn change(&mut self, change: LifecycleAction) -> bool {
        let is_running = self.state == "running";
        match change {
            _ if self.has_ended() => return false,
            LifecycleAction::Pause if is_running => {
                self.order_all(OrderKind::Pause);
                self.state = "paused";
            }
            LifecycleAction::Resume if !is_running => {
                self.order_all(OrderKind::Resume);
                self.resume();
            }
            LifecycleAction::Abandon => self.give_up("abandoned"),
            LifecycleAction::Diverge if is_running => self.give_up("diverged"),
            LifecycleAction::Fail if self.ends_badly() => self.end_now("failed"),
            LifecycleAction::Fail if is_running => {
                self.fail("FAILED_ON_REQUEST", None);
                self.settle();
            }
            _ => return false,
        }
        true
    }

    /// The first time what is left to do is done; the second time nobody waits for that.
    fn give_up(&mut self, to: &'static str) {
        if self.ends_badly() {
            return self.end_now(to);
        }
        self.note_end();
        self.void(|_| true, OrderKind::Abandon);
        if !self.has_at_end(to) {
            return self.become_final(to);
        }
        self.back.clear();
        (self.state, self.ending) = ("running", Some(to));
        self.settle();
    }

    fn end_now(&mut self, to: &'static str) {
        let what = match to {
            "failed" => OrderKind::Fail,
            _ => OrderKind::Abandon,
        };
        self.void(|_| true, what);
        let to = self.ending().filter(|to| *to != "completed").unwrap_or(to);
        if self.takes_back(to) {
            self.not_compensated.extend(self.effects.iter().rev());
        }
        self.become_final(to);
    }

    pub(super) fn become_final(&mut self, to: &'static str) {
        (self.state, self.ending) = (to, None);
        self.failure = self.failing.take().filter(|_| to == "failed");
        self.effects.clear();
    }

    /// Nothing is open and no step is ready: the next thing that is left to do before the final state, else that, but not
    /// before its children were told. False where nothing more happens now.
    pub(super) fn come_to_end(&mut self) -> bool {
        if self.ending().is_none() {
            self.note_end();
            self.ending = self.has_at_end("completed").then_some("completed");
        }
        let to = self.ending().unwrap_or("completed");
        if self.takes_back(to) {
            let kept = *self.effects.last().expect("something to take back");
            let effect = self.compensation(kept.step, kept.item).expect("it has one");
            self.begin(kept.step, &effect, (kept.visit, kept.item));
            return true;
        }
        if let Some(hook) = self.hook_due(to) {
            self.had.push(hook.body);
            self.begin(self.steps.len(), &hook, (1, None));
            return true;
        }
        if !self.orders.is_empty() {
            return false;
        }
        if to == "completed" {
            for step in self.flow.provisions..self.steps.len() {
                self.skip(step);
            }
        }
        self.become_final(to);
        false
    }

    pub(super) fn has_at_end(&self, to: &str) -> bool {
        self.takes_back(to) || self.hook_due(to).is_some() || !self.orders.is_empty()
    }

    fn takes_back(&self, to: &str) -> bool {
        !self.effects.is_empty() && self.flow.taken_back.contains(&to)
    }

    /// The next hook of the workflow before it becomes `to`: each runs once.
    fn hook_due(&self, to: &str) -> Option<Effect> {
        let mut hooks = hooks_at(to).iter();
        let due = |body: &str| self.flow.hooks.iter().find(|hook| hook.body == body);
        let hook = hooks.find(|body| due(body).is_some() && !self.had.contains(body))?;
        due(hook).cloned()
    }

    fn compensation(&self, step: usize, item: Option<usize>) -> Option<Effect> {
        let spec = &self.flow.steps[step];
        let effects = match (&spec.kind, item) {
            (Kind::Foreach(foreach), Some(_)) => &foreach.beside,
            _ => &spec.beside,
        };
        effects.iter().find(|effect| effect.body == "compensate").cloned()
    }

    /// What was done can be taken back from now on, where it says how.
    pub(super) fn keep_effect(&mut self, step: usize, item: Option<usize>) {
        if self.compensation(step, item).is_some() {
            let visit = self.steps[step].visits;
            self.effects.push(Kept { step, visit, item });
        }
    }

    /// A step came to its end: its hooks come before what follows.
    pub(super) fn ended(&mut self, step: usize, to: Option<To>) {
        self.next_hook(step, None, to);
    }

    fn next_hook(&mut self, step: usize, after: Option<&str>, to: Option<To>) {
        let hooks = match after {
            None => hooks_at(self.steps[step].status),
            Some("on_complete") => &[],
            Some(_) => &["on_complete"],
        };
        let own = &self.flow.steps[step].beside;
        let find = |body: &&str| own.iter().find(|effect| effect.body == *body).cloned();
        match hooks.iter().find_map(find) {
            Some(hook) => self.begin(step, &hook, (self.steps[step].visits, None)),
            None => self.follow(step, to),
        }
    }

    /// Ours: one whose `if` does not hold counts as done.
    fn begin(&mut self, step: usize, effect: &Effect, (visit, item): (u32, Option<usize>)) {
        let holds = effect.condition.as_ref().map_or(Ok(true), |condition| self.holds(condition));
        let outcome = match (holds, effect.does) {
            (Err(code), _) => Err(code),
            (Ok(false), _) => Ok(Value::Null),
            (_, Does::Break) => Err("EXPRESSION_FAILED"),
            (_, Does::Count(counter)) => {
                self.count(counter, step);
                Ok(json!({ COUNTERS[counter]: self.memory[counter] }))
            }
            (_, Does::Act) => return self.wait_beside(step, effect, (visit, item), Waits::Act),
            (_, Does::Child(child)) => {
                return self.wait_beside(step, effect, (visit, item), Waits::Child(child));
            }
        };
        self.note(step, visit, item, status(&outcome), Some(effect.body));
        self.keep_hook_failure(step, visit, effect.body, &outcome);
        if !self.are_too_many_at_once(step) {
            self.beside_ended(step, effect.body, (visit, item), &outcome);
        }
    }

    fn wait_beside(
        &mut self,
        step: usize,
        effect: &Effect,
        (visit, item): (u32, Option<usize>),
        waits: Waits,
    ) {
        self.note(step, visit, item, "running", Some(effect.body));
        let place = (step, Part::Beside(effect.body, item));
        self.open.insert(place, Open { visit, waits });
    }

    /// A hook that failed is told of, whatever follows.
    pub(super) fn keep_hook_failure(
        &mut self,
        step: usize,
        visit: u32,
        body: &'static str,
        outcome: &Outcome,
    ) {
        if let Err(code) = outcome
            && body != "compensate"
        {
            self.hook_failures.push((step, visit, body, code));
        }
    }

    /// What is void while the server works on it may take effect all the same, and is not taken back.
    pub(super) fn note_cut_off(&mut self, (step, part): Place) {
        let open = &self.open[&(step, part)];
        let item = match part {
            Part::Work => None,
            Part::Item(item) => Some(item),
            Part::Beside(..) => return,
        };
        if open.waits == Waits::Act && self.compensation(step, item).is_some() {
            let visit = open.visit;
            self.not_compensated.push(Kept { step, visit, item });
        }
    }

    /// A hook or a compensation came to its end. The failure of a hook that is required is that of what it belongs to.
    pub(super) fn beside_ended(
        &mut self,
        step: usize,
        body: &'static str,
        (visit, item): (u32, Option<usize>),
        outcome: &Outcome,
    ) {
        if body == "compensate" {
            let kept = self.effects.pop().expect("it was to be taken back");
            assert_eq!(kept, Kept { step, visit, item }, "the newest first");
            if outcome.is_err() {
                self.not_compensated.push(kept);
            }
            return;
        }
        let is_own = step == self.steps.len();
        let hooks = if is_own { &self.flow.hooks } else { &self.flow.steps[step].beside };
        let is_required = hooks.iter().any(|hook| hook.body == body && hook.is_required);
        let failure = outcome.as_ref().err().copied().filter(|_| is_required);
        if is_own {
            if let Some(code) = failure {
                self.fail(code, None);
            }
            return;
        }
        if let Some(code) = failure.filter(|_| self.steps[step].status == "completed") {
            self.steps[step].status = "failed";
            (self.steps[step].output, self.steps[step].failure) = (None, Some(code));
            self.row(step, visit, None, None).status = "failed";
        }
        self.next_hook(step, Some(body), self.flow.steps[step].next);
    }
}

/// The hooks that run at an end, in order.
fn hooks_at(end: &str) -> &'static [&'static str] {
    match end {
        "completed" => &["on_success", "on_complete"],
        "failed" => &["on_failure", "on_complete"],
        _ => &["on_complete"],
    }
}
