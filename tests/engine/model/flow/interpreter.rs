//! The reference: control flow as a reader of the contract would do it with pencil and paper. It looks at all steps again and
//! again instead of keeping a queue, and knows neither events nor tokens.
//!
//! Where the contract is silent a rule is marked *ours*: it is the machine's way, found reasonable.

mod again;
mod arms;
mod children;
mod ending;
mod items;
mod joins;
mod rows;
mod ways;

use std::collections::{BTreeMap, BTreeSet};

use midex_domain::{event::OrderKind, limits};
use serde_json::{Value, json};

pub(super) use self::{
    children::{Key, Order},
    rows::Entry,
};
use self::{ending::Kept, items::Fan};
use super::manifest::{COUNTERS, Condition, Flow, Kind, RunWhen, To};

/// What of a step is open, in the order in which it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Work,
    Item(usize),
    /// A hook or a compensation by its key; the latter may be of an item.
    Beside(&'static str, Option<usize>),
}

/// An open visit: the step, and what of it. In authoring order; the workflow's own stand where the next step would.
pub(super) type Place = (usize, Part);

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Waits {
    Model,
    /// Until this instant, in milliseconds since the start.
    Timer(u64),
    Signal(usize),
    Items,
    /// Work of the server.
    Act,
    /// The end of a child, which follows the workflow at this position.
    Child(usize),
    /// The end of a pause: this came meanwhile.
    Deferred(Outcome),
}

#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) visit: u32,
    pub(super) waits: Waits,
}

/// Where a step stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    pub(super) status: &'static str,
    pub(super) visits: u32,
    output: Option<Value>,
    failure: Option<&'static str>,
    /// Where it was left for, where that is not what depends on it.
    left_for: Option<To>,
    /// Whether it was entered since control last went back to it or before it.
    is_entered: bool,
    /// Memory before its latest visit, and how many visits of all steps came before that one.
    before: [i64; COUNTERS.len()],
    opened: usize,
    /// The visits that do not count, since a rewind.
    pub(super) forgiven: u32,
    /// Whether another execution did it.
    is_inherited: bool,
}

/// What a step comes to: an output, or the code of a failure.
pub(super) type Outcome = Result<Value, &'static str>;

#[derive(Clone)]
pub(super) struct Interpreter<'a> {
    flow: &'a Flow,
    pub(super) now: u64,
    pub(super) state: &'static str,
    pub(super) steps: Vec<Standing>,
    pub(super) open: BTreeMap<Place, Open>,
    fans: BTreeMap<usize, Fan>,
    pub(super) memory: [i64; COUNTERS.len()],
    /// Signals that came before their wait.
    pub(super) kept: Vec<(usize, Outcome)>,
    /// The failure that what is open now was let run after.
    pub(super) failing: Option<&'static str>,
    pub(super) failure: Option<&'static str>,
    pub(super) history: Vec<Entry<'static>>,
    /// Steps that control went back to and that are entered next.
    back: Vec<usize>,
    /// Steps that needed nobody since somebody was last waited for.
    at_once: usize,
    /// The end that began without a failure.
    ending: Option<&'static str>,
    /// What can be taken back, in the order in which it was done.
    effects: Vec<Kept>,
    pub(super) not_compensated: Vec<Kept>,
    /// The step, or the workflow, with its visit, the hook, and what that failed with.
    pub(super) hook_failures: Vec<(usize, u32, &'static str, &'static str)>,
    /// Hooks of the workflow that were entered.
    had: Vec<&'static str>,
    /// What its children are still to be told.
    pub(super) orders: Vec<Order>,
    /// The steps that wrote the counters last, where they did.
    writers: [Option<usize>; COUNTERS.len()],
    /// The step that it failed at, and why.
    culprit: Option<(usize, &'static str)>,
    /// What an effect of the server took back.
    undone: Vec<Kept>,
    /// How often its steps were entered.
    entered: usize,
    /// How it stood before its end began.
    before_end: Option<Box<Self>>,
}

impl<'a> Interpreter<'a> {
    /// Begins at an instant, in milliseconds.
    pub(super) fn start(flow: &'a Flow, now: u64) -> Self {
        let mut begun = Self::blank(flow, now);
        begun.settle();
        begun
    }

    /// One of which nothing is done.
    fn blank(flow: &'a Flow, now: u64) -> Self {
        let pending = Standing { status: "pending", ..Standing::default() };
        Self {
            flow,
            now,
            state: "running",
            steps: vec![pending; flow.steps.len()],
            open: BTreeMap::new(),
            fans: BTreeMap::new(),
            memory: [0; COUNTERS.len()],
            kept: Vec::new(),
            failing: None,
            failure: None,
            history: Vec::new(),
            back: Vec::new(),
            at_once: 0,
            ending: None,
            effects: Vec::new(),
            not_compensated: Vec::new(),
            hook_failures: Vec::new(),
            had: Vec::new(),
            orders: Vec::new(),
            writers: [None; COUNTERS.len()],
            culprit: None,
            undone: Vec::new(),
            entered: 0,
            before_end: None,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        !matches!(self.state, "running" | "paused")
    }

    /// A model brought the output of a turn, or said that it could not do it.
    pub(super) fn report(&mut self, place: Place, outcome: Outcome) {
        self.finish(place, outcome);
        self.settle();
    }

    /// A signal goes to the first wait for it, in authoring order; where there is none, and during a pause, it is kept.
    pub(super) fn signal(&mut self, name: usize, outcome: Outcome) {
        let wait = self.waiting_for(name).filter(|_| self.state == "running");
        match wait {
            Some(place) => {
                self.finish(place, outcome);
                self.settle();
            }
            None => self.kept.push((name, outcome)),
        }
    }

    fn waiting_for(&self, name: usize) -> Option<Place> {
        let mut open = self.open.iter();
        let found = open.find(|(_, open)| open.waits == Waits::Signal(name));
        found.map(|(place, _)| *place)
    }

    /// What came during the pause takes its effect: work of the server and signals, in the order of the waits, then timers.
    /// Ours: a timer counts on during a pause; all that came is taken in before anything new is entered.
    fn resume(&mut self) {
        self.state = "running";
        let came = self.open.iter().filter_map(|(place, open)| match &open.waits {
            Waits::Deferred(outcome) => Some((*place, outcome.clone())),
            _ => None,
        });
        for (place, outcome) in came.collect::<Vec<_>>() {
            if self.open.contains_key(&place) {
                self.finish(place, outcome);
            }
        }
        let waits: Vec<_> =
            self.open.iter().map(|(place, open)| (*place, open.waits.clone())).collect();
        for (place, waits) in waits {
            let Waits::Signal(name) = waits else { continue };
            let kept = self.kept.iter().position(|(kept, _)| *kept == name);
            if let Some(at) = kept.filter(|_| self.open.contains_key(&place)) {
                let (_, outcome) = self.kept.remove(at);
                self.finish(place, outcome);
            }
        }
        self.fire();
        self.settle();
    }

    /// When something will happen by itself.
    pub(super) fn due(&self) -> Option<u64> {
        let running = self.state == "running";
        self.timers().map(|(due, _)| due).min().filter(|_| running)
    }

    fn timers(&self) -> impl Iterator<Item = (u64, Place)> {
        self.open.iter().filter_map(|(place, open)| match open.waits {
            Waits::Timer(due) => Some((due, *place)),
            _ => None,
        })
    }

    /// It is now `now`, and the execution is told so.
    pub(super) fn tick(&mut self, now: u64) {
        self.now = now;
        if self.state == "running" {
            self.fire();
            self.settle();
        }
    }

    /// Timers end in the order in which they became due. Ours: of two at once in authoring order; what is due together is
    /// taken in together, before anything new is entered.
    fn fire(&mut self) {
        let mut due: Vec<_> = self.timers().filter(|(due, _)| *due <= self.now).collect();
        due.sort_unstable();
        for (due, place) in due {
            if self.open.contains_key(&place) {
                self.finish(place, Ok(json!({ "due": due })));
            }
        }
    }

    /// Enters or passes what has become ready until somebody is waited for; where nobody is, the end comes.
    fn settle(&mut self) {
        loop {
            self.run_steps();
            self.at_once = 0;
            self.fans.values_mut().for_each(|fan| fan.is_fresh = false);
            if self.has_ended() || !self.open.is_empty() || !self.come_to_end() {
                return;
            }
        }
    }

    fn run_steps(&mut self) {
        while !self.has_ended() {
            if !self.back.is_empty() {
                let step = self.back.remove(0);
                if self.steps[step].status == "pending" {
                    self.enter(step);
                }
            } else if let Some((step, verdict)) = self.ready() {
                self.pass_judgement(step, verdict);
            } else {
                return;
            }
        }
    }

    /// Whether a step whose predecessors have come to an end is entered.
    fn may_run(&self, step: usize) -> bool {
        match self.flow.steps[step].run_when {
            _ if step >= self.flow.provisions => true,
            RunWhen::Succeeded => self.failing.is_none(),
            RunWhen::Finished => true,
            // Ours: a failure anywhere before it counts, also one that was passed.
            RunWhen::Failed => self.failing.is_some() || self.has_failed_before(step),
        }
    }

    fn has_failed_before(&self, step: usize) -> bool {
        let before = &self.flow.before[step];
        before
            .iter()
            .any(|before| self.steps[*before].status == "failed" || self.has_failed_before(*before))
    }

    /// The step and all that depends on it, directly or not.
    fn downstream(&self, step: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::from([step]);
        let after = |found: &BTreeSet<usize>| {
            (0..self.steps.len()).find(|step| {
                !found.contains(step)
                    && self.flow.before[*step].iter().any(|before| found.contains(before))
            })
        };
        while let Some(step) = after(&found) {
            found.insert(step);
        }
        found
    }

    fn skip(&mut self, step: usize) {
        self.steps[step].status = "skipped";
        self.note(step, 0, None, "skipped", None);
    }

    /// Ours: a step whose `if` does not hold is not entered at all, so this counts as no visit; an entry that may not or
    /// cannot be made is a visit, which fails.
    fn enter(&mut self, step: usize) {
        let spec = &self.flow.steps[step];
        self.steps[step].before = self.memory;
        match spec.condition.as_ref().map(|condition| self.holds(condition)) {
            Some(Err(code)) => return self.end_at_once(step, Err(code), None),
            Some(Ok(false)) => return self.skip(step),
            Some(Ok(true)) | None => {}
        }
        let visits = self.steps[step].visits - self.steps[step].forgiven;
        if visits >= spec.max_visits.unwrap_or(limits::VISITS_DEFAULT) {
            return self.end_at_once(step, Err("MAX_VISITS"), None);
        }
        match &spec.kind {
            Kind::Guidance => self.open(step, Waits::Model),
            Kind::Timer(time) => self.open(step, Waits::Timer(self.now + time)),
            Kind::Child(child) => self.open(step, Waits::Child(*child)),
            Kind::Signal(name) => match self.kept.iter().position(|(kept, _)| kept == name) {
                Some(at) => {
                    let (_, outcome) = self.kept.remove(at);
                    self.end_at_once(step, outcome, spec.next);
                }
                None => self.open(step, Waits::Signal(*name)),
            },
            Kind::Count(counter) => {
                self.count(*counter, step);
                self.end_at_once(
                    step,
                    Ok(json!({ COUNTERS[*counter]: self.memory[*counter] })),
                    spec.next,
                );
            }
            Kind::Branch(arms) => self.choose(step, arms),
            Kind::Foreach(foreach) => self.fan_out(step, foreach),
            // It fails the execution, whatever is said of the failures of steps.
            Kind::Fail => {
                self.visited(step, "failed");
                if self.is_late(step) {
                    self.go_late(step, None);
                } else {
                    self.fail("TOLD", Some(step));
                }
            }
        }
    }

    fn holds(&self, condition: &Condition) -> Result<bool, &'static str> {
        match condition {
            Condition::Counted(counter, below) => Ok(self.memory[*counter] < *below),
            Condition::Visits(step, below) => Ok(i64::from(self.steps[*step].visits) < *below),
            Condition::Output(step, is) => Ok(*self.output(*step)? == json!(is)),
        }
    }

    /// What the step brought when it was last entered; there is nothing to read where it was passed by, failed, or is to be
    /// done again.
    fn output(&self, step: usize) -> Result<&Value, &'static str> {
        self.steps[step].output.as_ref().ok_or("EXPRESSION_FAILED")
    }

    fn choose(&mut self, step: usize, arms: &[(Option<Condition>, To)]) {
        for (at, (condition, to)) in arms.iter().enumerate() {
            match condition.as_ref().map_or(Ok(true), |condition| self.holds(condition)) {
                Err(code) => return self.end_at_once(step, Err(code), None),
                Ok(true) => return self.end_at_once(step, Ok(json!({ "arm": at })), Some(*to)),
                Ok(false) => {}
            }
        }
        self.end_at_once(step, Ok(json!({ "arm": null })), None);
    }

    fn open(&mut self, step: usize, waits: Waits) {
        self.visited(step, "running");
        let visit = self.steps[step].visits;
        self.open.insert((step, Part::Work), Open { visit, waits });
    }

    fn visited(&mut self, step: usize, status: &'static str) {
        self.entered += 1;
        let standing = &mut self.steps[step];
        standing.visits += 1;
        (standing.is_entered, standing.is_inherited) = (true, false);
        standing.opened = self.entered;
        standing.status = status;
        standing.left_for = None;
        let visit = standing.visits;
        self.note(step, visit, None, status, None);
    }

    /// A step needed nobody. There is a limit to how many of those follow each other.
    fn end_at_once(&mut self, step: usize, outcome: Outcome, to: Option<To>) {
        self.visited(step, status(&outcome));
        self.keep(step, &outcome);
        if !self.are_too_many_at_once(step) {
            self.ended(step, to);
        }
    }

    fn keep(&mut self, step: usize, outcome: &Outcome) {
        self.steps[step].output = outcome.clone().ok();
        self.steps[step].failure = outcome.as_ref().err().copied();
        if outcome.is_ok() {
            self.keep_effect(step, None);
        }
    }

    fn are_too_many_at_once(&mut self, step: usize) -> bool {
        self.at_once += 1;
        let are_too_many = self.at_once > limits::STEPS_AT_ONCE_MAX;
        if are_too_many {
            self.fail("STEPS_AT_ONCE", Some(step));
            self.at_once = 0;
        }
        are_too_many
    }

    /// An open visit came to its end.
    fn finish(&mut self, place: Place, outcome: Outcome) {
        let (step, part) = place;
        let is_at_once = self.fans.get(&step).is_some_and(|fan| fan.is_fresh);
        let visit = self.close(place, status(&outcome));
        match part {
            Part::Work => {
                self.keep(step, &outcome);
                if !is_at_once || !self.are_too_many_at_once(step) {
                    self.ended(step, self.flow.steps[step].next);
                }
            }
            Part::Item(item) => self.finish_item(step, item, outcome),
            Part::Beside(body, item) => {
                if body == "compensate" && outcome.is_ok() {
                    self.undone.push(Kept { step, visit, item });
                }
                self.keep_hook_failure(step, visit, body, &outcome);
                self.beside_ended(step, body, (visit, item), &outcome);
            }
        }
    }

    /// Gives the number of the visit.
    fn close(&mut self, place: Place, status: &'static str) -> u32 {
        let closed = self.open.remove(&place).expect("an open visit");
        let (step, part) = place;
        let (item, body) = match part {
            Part::Work => (None, None),
            Part::Item(item) => (Some(item), None),
            Part::Beside(body, item) => (item, Some(body)),
        };
        self.row(step, closed.visit, item, body).status = status;
        if part == Part::Work {
            self.steps[step].status = status;
            self.fans.remove(&step);
        }
        closed.visit
    }

    /// Nobody waits any more for what is meant: its children are told `what`.
    fn void(&mut self, is_meant: impl Fn(Place) -> bool, what: OrderKind) {
        let places: Vec<_> = self.open.keys().copied().filter(|place| is_meant(*place)).collect();
        for place in places {
            self.order(place, what);
            self.note_cut_off(place);
            self.close(place, "skipped");
        }
    }
}

fn status(outcome: &Outcome) -> &'static str {
    if outcome.is_ok() { "completed" } else { "failed" }
}
