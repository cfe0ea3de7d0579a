//! Random workflows: as data that the interpreter reads, and as the manifest that says the same.

mod beside;
mod children;
mod items;

use std::{
    collections::BTreeSet,
    fmt,
    ops::Range,
    sync::{Arc, LazyLock},
};

use midex_domain::{Definition, check::ServerCapabilities};
use midex_registry::{self as registry, Registry, Sources};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

pub(super) use self::beside::{Does, Effect, Join};
pub(super) use self::children::name;
pub(super) use self::items::Thresholds;
use self::{
    beside::{told_bodies, told_joins},
    children::children,
};

/// Ids of steps by position: authoring order is not the order of names, and one has a hyphen.
pub(super) const IDS: [&str; 11] =
    ["kiwi", "sour-fig", "pear", "apple", "plum", "lime", "date", "berry", "nut", "fig", "quince"];

/// A registry of nothing but what is shipped: reading that costs more than a case.
static NONE: LazyLock<Registry> = LazyLock::new(|| {
    let abilities = ServerCapabilities {
        activities: BTreeSet::from(["act".to_owned()]),
        ..ServerCapabilities::default()
    };
    Registry::load_with_abilities(&Sources::default(), &abilities)
});

/// Names of counters in memory.
pub(super) const COUNTERS: [&str; 2] = ["n", "m"];

/// Names of signals.
pub(in crate::model) const SIGNALS: [&str; 2] = ["go", "stop"];

/// A workflow that a check accepted.
#[derive(Clone)]
pub(in crate::model) struct Flow {
    pub(super) steps: Vec<Spec>,
    /// What each step waits for: what it says, what the list means, and what its expressions refer to.
    pub(super) before: Vec<Vec<usize>>,
    /// Where the steps of `on_failure` begin.
    pub(super) provisions: usize,
    /// Hooks of the workflow.
    pub(super) hooks: Vec<Effect>,
    /// The ends at which effects are taken back.
    pub(super) taken_back: Vec<&'static str>,
    /// The workflows that its children follow.
    pub(super) children: Vec<Flow>,
    pub(in crate::model) definition: Arc<Definition>,
    manifest: String,
}

/// A failing case shows what a person would read: the manifest.
impl fmt::Debug for Flow {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "\n{}", self.manifest)?;
        for (at, child) in self.children.iter().enumerate() {
            write!(out, "\n{}: {child:?}", name(at))?;
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
pub(super) struct Spec {
    pub(super) kind: Kind,
    pub(super) after: Option<Vec<usize>>,
    pub(super) condition: Option<Condition>,
    pub(super) next: Option<To>,
    pub(super) on_error: OnError,
    pub(super) run_when: RunWhen,
    pub(super) max_visits: Option<u32>,
    /// The steps that it cancels.
    pub(super) cancel: Vec<usize>,
    /// How many of the steps before are waited for, where not for all.
    pub(super) join: Option<Join>,
    /// Its hooks, and its compensation.
    pub(super) beside: Vec<Effect>,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Guidance,
    /// Adds one to a counter.
    Count(usize),
    Branch(Vec<(Option<Condition>, To)>),
    Foreach(Foreach),
    /// Waits for a signal.
    Signal(usize),
    /// Waits for so many units of time, or with exact times for a time that no other step waits for.
    Timer(u64),
    /// Waits for a child, which follows the workflow at this position.
    Child(usize),
    Fail,
}

#[derive(Clone, Debug)]
pub(super) struct Foreach {
    pub(super) list: List,
    /// The workflow that a child of each item follows; without one a model works on it.
    pub(super) child: Option<usize>,
    pub(super) parallel: usize,
    /// Only items above this are worked on.
    pub(super) above: Option<i64>,
    /// What the failure of one item does: see [`OnError`], without a step.
    pub(super) forgives: OnError,
    pub(super) thresholds: Thresholds,
    /// Its compensation, where it has one.
    pub(super) beside: Vec<Effect>,
}

#[derive(Clone, Debug)]
pub(super) enum List {
    Literal(Vec<i64>),
    Output(usize),
}

#[derive(Clone, Debug)]
pub(super) enum Condition {
    /// A counter is below this.
    Counted(usize, i64),
    /// The step's output is this.
    Output(usize, i64),
    /// The step was entered less often than this.
    Visits(usize, i64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum To {
    Step(usize),
    End,
    Stop,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum OnError {
    Fail,
    Optional,
    Continue,
    Step(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RunWhen {
    Succeeded,
    Finished,
    Failed,
}

/// What a random workflow may have besides what needs nobody and what a model does.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) struct Has {
    pub(in crate::model) timers: bool,
    /// Activities, in hooks and compensations.
    pub(in crate::model) activities: bool,
    pub(in crate::model) children: bool,
}

/// Workflows of three to eight steps, and up to three of `on_failure`, that the check accepts. `unit` makes of a timer's
/// position and units how long it waits, in milliseconds.
pub(in crate::model) fn flows(
    unit: fn(usize, u64) -> u64,
    has: Has,
) -> impl Strategy<Value = Flow> {
    let provisions = prop_oneof![3 => Just(0..=0), 2 => Just(1..=3usize)]
        .prop_flat_map(move |count| prop::collection::vec(spec(has), count));
    let steps = prop::collection::vec(spec(has), 3..=8);
    let hooks = beside::hooks(has);
    let taken_back = prop_oneof![
        2 => Just(vec!["failed"]),
        2 => Just(vec!["failed", "abandoned"]),
        1 => Just(vec!["abandoned"]),
    ];
    (steps, provisions, hooks, taken_back, children(has)).prop_filter_map(
        "the check finds fault",
        move |(mut steps, provided, hooks, taken_back, children)| {
            let provisions = steps.len();
            steps.extend(provided);
            let draft = Draft { steps, provisions, hooks, taken_back, children };
            draft.checked(unit)
        },
    )
}

/// In a box: the types of strategies within strategies outgrow a stack.
fn spec(has: Has) -> BoxedStrategy<Spec> {
    let after = prop_oneof![
        6 => Just(None),
        4 => prop::collection::vec(0..8usize, 0..3).prop_map(Some),
    ];
    let next = prop_oneof![5 => Just(None), 1 => to().prop_map(Some)];
    let on_error = prop_oneof![
        6 => Just(OnError::Fail),
        1 => Just(OnError::Optional),
        1 => Just(OnError::Continue),
        2 => (0..8usize).prop_map(OnError::Step),
    ];
    let run_when = prop_oneof![
        8 => Just(RunWhen::Succeeded),
        1 => Just(RunWhen::Finished),
        1 => Just(RunWhen::Failed),
    ];
    let max_visits = prop_oneof![1 => Just(None), 8 => (1..4u32).prop_map(Some)];
    let condition = prop_oneof![4 => Just(None), 1 => condition().prop_map(Some)];
    let beside = (beside::joins(), beside::bodies(has));
    let cancel = prop_oneof![6 => Just(Vec::new()), 1 => prop::collection::vec(0..8usize, 1..3)];
    let rest = (after, condition, next, on_error, run_when, max_visits, cancel);
    (kind(has), rest, beside)
        .prop_map(|(kind, rest, (join, beside))| {
            let (after, condition, next, on_error, run_when, max_visits, cancel) = rest;
            let spec = Spec::of(kind, after, condition, next);
            Spec { on_error, run_when, max_visits, cancel, join, beside, ..spec }
        })
        .boxed()
}

fn kind(has: Has) -> impl Strategy<Value = Kind> {
    let arm = (prop::option::weighted(0.8, condition()), to());
    prop_oneof![
        8 => Just(Kind::Guidance),
        3 => (0..2usize).prop_map(Kind::Count),
        3 => prop::collection::vec(arm, 1..4).prop_map(Kind::Branch),
        4 => items::foreach(has).prop_map(Kind::Foreach),
        2 => (0..2usize).prop_map(Kind::Signal),
        u32::from(has.timers) * 2 => (1..4u64).prop_map(Kind::Timer),
        u32::from(has.children) * 4 => (0..children::COUNT).prop_map(Kind::Child),
        1 => Just(Kind::Fail),
    ]
}

pub(super) fn condition() -> impl Strategy<Value = Condition> {
    prop_oneof![
        2 => (0..2usize, 1..4i64).prop_map(|(counter, below)| Condition::Counted(counter, below)),
        3 => (0..8usize, 0..3i64).prop_map(|(step, is)| Condition::Output(step, is)),
        2 => (0..8usize, 1..4i64).prop_map(|(step, below)| Condition::Visits(step, below)),
    ]
}

fn to() -> impl Strategy<Value = To> {
    prop_oneof![12 => (0..8usize).prop_map(To::Step), 2 => Just(To::End), 1 => Just(To::Stop)]
}

pub(super) fn id(step: usize) -> &'static str {
    IDS[step]
}

/// The definition of a manifest that has no finding, not even a warning.
pub(in crate::model) fn defined(manifest: &str) -> Option<Definition> {
    let (workflow, findings) = registry::check_text("w.json", manifest, &NONE);
    let workflow = workflow.filter(|_| findings.is_empty())?;
    let whole = json!({ "workflow": workflow, "personas": {} });
    Some(Definition::decode(whole.to_string().as_bytes()).expect("a definition"))
}

/// What nobody has checked.
#[derive(Clone, Debug)]
struct Draft {
    steps: Vec<Spec>,
    provisions: usize,
    hooks: Vec<Effect>,
    taken_back: Vec<&'static str>,
    children: Vec<Flow>,
}

impl Draft {
    /// The workflow, where its check finds no fault in it.
    fn checked(mut self, unit: fn(usize, u64) -> u64) -> Option<Flow> {
        let (count, all) = (self.provisions, self.steps.len());
        for (position, step) in self.steps.iter_mut().enumerate() {
            let own = if position < count { 0..count } else { count..all };
            step.fit(position, own);
            if let Kind::Timer(units) = &mut step.kind {
                *units = unit(position, *units);
            }
        }
        for hook in &mut self.hooks {
            hook.fit(count);
        }
        let told: Vec<_> = self.steps.iter().enumerate().map(|(at, step)| step.told(at)).collect();
        let memory = json!({ COUNTERS[0]: 0, COUNTERS[1]: 0 });
        let mut manifest = json!({
            "workflow": "w", "description": "d", "memory": memory, "steps": told[..count],
            "compensate_when": self.taken_back,
        });
        if count < all {
            manifest["on_failure"] = json!(told[count..]);
        }
        told_bodies(&mut manifest, &self.hooks);
        let manifest = serde_json::to_string_pretty(&manifest).expect("JSON");
        let definition = defined(&manifest)?;
        let workflow = &definition.workflow;
        let position = |name: &str| IDS.iter().position(|id| *id == name).expect("a step");
        let before = workflow.steps.iter();
        let before: Vec<Vec<_>> = before
            .map(|step| step.depends_on.iter().map(|id| position(id.as_str())).collect())
            .collect();
        for (at, step) in self.steps[..count].iter().enumerate() {
            step.check_before(at, &before[at]);
        }
        Some(Flow {
            steps: self.steps,
            before,
            provisions: self.provisions,
            hooks: self.hooks,
            taken_back: self.taken_back,
            children: self.children,
            definition: Arc::new(definition),
            manifest,
        })
    }
}

impl Spec {
    /// A step that succeeds or fails the execution.
    fn of(
        kind: Kind,
        after: Option<Vec<usize>>,
        condition: Option<Condition>,
        next: Option<To>,
    ) -> Self {
        Self {
            kind,
            after,
            condition,
            next,
            on_error: OnError::Fail,
            run_when: RunWhen::Succeeded,
            max_visits: None,
            cancel: Vec::new(),
            join: None,
            beside: Vec::new(),
        }
    }

    /// Makes every mention of a step one of a step that there is, and drops what the kind does not have.
    /// `own` are the steps that control may go to from it.
    fn fit(&mut self, position: usize, own: Range<usize>) {
        let count = own.end;
        let fit = |step: &mut usize| *step = own.start + *step % own.len();
        let fit_to = |to: &mut To| {
            if let To::Step(step) = to {
                fit(step);
            }
        };
        let fit_condition = |condition: &mut Condition| match condition {
            Condition::Counted(..) => {}
            // Of what comes later there is mostly no output.
            Condition::Output(step, _) => *step %= position.max(1),
            Condition::Visits(step, _) => *step %= count,
        };
        if let Some(after) = &mut self.after {
            // Mostly what stands above, now and then what stands below.
            for step in after.iter_mut() {
                *step %= if *step == 7 { count } else { position.max(1) };
            }
            after.retain(|step| *step != position);
            after.sort_unstable();
            after.dedup();
        }
        self.condition.iter_mut().for_each(fit_condition);
        self.next.iter_mut().for_each(fit_to);
        if let OnError::Step(step) = &mut self.on_error {
            fit(step);
        }
        self.cancel.iter_mut().for_each(|step| *step %= count);
        self.cancel.retain(|step| *step != position);
        self.cancel.sort_unstable();
        self.cancel.dedup();
        if own.start > 0 {
            self.run_when = RunWhen::Succeeded;
        }
        for effect in &mut self.beside {
            effect.fit(count);
        }
        match &mut self.kind {
            Kind::Branch(arms) => {
                self.next = None;
                // An arm without a condition is the last one.
                let always = arms.iter().position(|(condition, _)| condition.is_none());
                arms.truncate(always.map_or(arms.len(), |at| at + 1));
                for (condition, to) in arms {
                    condition.iter_mut().for_each(fit_condition);
                    fit_to(to);
                }
            }
            Kind::Fail => (self.next, self.on_error) = (None, OnError::Fail),
            Kind::Foreach(foreach) => foreach.fit(position, count),
            _ => {}
        }
        if matches!(self.kind, Kind::Branch(_) | Kind::Fail) {
            self.beside.clear();
            self.cancel.clear();
        }
    }

    /// The steps that it may jump to.
    pub(super) fn jumps(&self) -> Vec<usize> {
        let arms: &[_] = match &self.kind {
            Kind::Branch(arms) => arms,
            _ => &[],
        };
        let jumps = arms.iter().map(|(_, to)| to).chain(&self.next);
        let mut jumps: Vec<_> = jumps
            .filter_map(|to| match to {
                To::Step(step) => Some(*step),
                To::End | To::Stop => None,
            })
            .collect();
        if let OnError::Step(handler) = self.on_error {
            jumps.push(handler);
        }
        jumps
    }

    /// What the check says that the step waits for is what it said, or the step above; and what it refers to.
    fn check_before(&self, position: usize, before: &[usize]) {
        let above: Vec<_> = position.checked_sub(1).into_iter().collect();
        let said = self.after.as_ref().unwrap_or(&above);
        assert!(said.iter().all(|step| before.contains(step)), "{before:?}");
        let referred = self.referred();
        let fits = |step: &usize| said.contains(step) || referred.contains(step);
        assert!(before.iter().all(fits), "{before:?}");
    }

    /// The steps whose output it refers to.
    fn referred(&self) -> Vec<usize> {
        let arms: &[_] = match &self.kind {
            Kind::Branch(arms) => arms,
            _ => &[],
        };
        let conditions = self
            .condition
            .iter()
            .chain(arms.iter().filter_map(|(condition, _)| condition.as_ref()));
        let list = match &self.kind {
            Kind::Foreach(Foreach { list: List::Output(step), .. }) => Some(*step),
            _ => None,
        };
        let outputs = conditions.filter_map(|condition| match condition {
            Condition::Output(step, _) => Some(*step),
            _ => None,
        });
        outputs.chain(list).collect()
    }

    fn told(&self, position: usize) -> Value {
        let mut told = Map::new();
        let mut say = |key: &str, value: Value| drop(told.insert(key.to_owned(), value));
        say("id", json!(id(position)));
        let (key, body) = self.kind.told();
        say(key, body);
        if matches!(self.kind, Kind::Guidance) {
            say("result", json!({}));
            say(
                "with",
                COUNTERS
                    .iter()
                    .map(|name| (*name, json!(format!("${{{{ memory.{name} }}}}"))))
                    .collect(),
            );
        }
        if let Some(after) = &self.after {
            say("depends_on", after.iter().map(|step| id(*step)).collect());
        }
        if let Some(condition) = &self.condition {
            say("if", json!(condition.told()));
        }
        if let Some(next) = &self.next {
            say("next", next.told());
        }
        if let Some((key, value)) = self.on_error.told() {
            say(key, value);
        }
        match self.run_when {
            RunWhen::Succeeded => {}
            RunWhen::Finished => say("run_when", json!("finished")),
            RunWhen::Failed => say("run_when", json!("failed")),
        }
        if let Some(most) = self.max_visits {
            say("max_visits", json!(most));
        }
        if !self.cancel.is_empty() {
            say("cancel", self.cancel.iter().map(|step| id(*step)).collect());
        }
        let mut told = Value::Object(told);
        told_joins(&mut told, self.join.as_ref());
        told_bodies(&mut told, &self.beside);
        told
    }
}

impl Kind {
    fn told(&self) -> (&'static str, Value) {
        match self {
            Self::Guidance => ("guidance", json!("Do it after ${{ memory.n }} rounds.")),
            Self::Count(counter) => {
                let name = COUNTERS[*counter];
                ("set", json!({ name: format!("${{{{ memory.{name} + 1 }}}}") }))
            }
            Self::Branch(arms) => {
                let arm = |(condition, to): &(Option<Condition>, To)| match condition {
                    Some(condition) => json!({ "if": condition.told(), "next": to.told() }),
                    None => json!({ "next": to.told() }),
                };
                ("branch", arms.iter().map(arm).collect())
            }
            Self::Foreach(foreach) => ("foreach", foreach.told()),
            Self::Signal(name) => ("wait", json!({ "signal": SIGNALS[*name] })),
            Self::Timer(time) => ("wait", json!({ "for": format!("{time}ms") })),
            Self::Child(child) => ("workflow", json!(name(*child))),
            Self::Fail => ("fail", json!({ "code": "TOLD", "message": "told" })),
        }
    }
}

impl Condition {
    pub(super) fn told(&self) -> String {
        match self {
            Self::Counted(counter, below) => format!("memory.{} < {below}", COUNTERS[*counter]),
            Self::Output(step, is) => format!("steps.{} == {is}", id(*step)),
            Self::Visits(step, below) => format!("run.visits.{} < {below}", id(*step)),
        }
    }
}

impl To {
    fn told(self) -> Value {
        match self {
            Self::Step(step) => json!(id(step)),
            Self::End => json!("$end"),
            Self::Stop => json!("$stop"),
        }
    }
}

impl OnError {
    fn told(self) -> Option<(&'static str, Value)> {
        match self {
            Self::Fail => None,
            Self::Optional => Some(("optional", json!(true))),
            Self::Continue => Some(("on_error", json!("continue"))),
            Self::Step(step) => Some(("on_error", json!(id(step)))),
        }
    }
}
