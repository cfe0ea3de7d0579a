//! Hooks, compensations and joins of random workflows.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    COUNTERS, Condition, Has,
    children::{self, name},
    condition,
};

/// What stands beside the work of a step: a hook, or a compensation.
#[derive(Clone, Debug)]
pub(in crate::model::flow) struct Effect {
    /// `on_success`, `on_failure`, `on_complete` or `compensate`.
    pub(in crate::model::flow) body: &'static str,
    pub(in crate::model::flow) condition: Option<Condition>,
    pub(in crate::model::flow) is_required: bool,
    pub(in crate::model::flow) does: Does,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::model::flow) enum Does {
    /// Adds one to a counter.
    Count(usize),
    /// Fails as it is entered.
    Break,
    /// Works until it is told what came of it.
    Act,
    /// Waits for a child, which follows the workflow at this position.
    Child(usize),
}

/// A join that does not wait for all before it.
#[derive(Clone, Debug)]
pub(in crate::model::flow) struct Join {
    pub(in crate::model::flow) wanted: usize,
    pub(in crate::model::flow) cancels: bool,
}

pub(super) fn joins() -> impl Strategy<Value = Option<Join>> {
    let join = (1..3usize, any::<bool>()).prop_map(|(wanted, cancels)| Join { wanted, cancels });
    prop_oneof![4 => Just(None), 1 => join.prop_map(Some)]
}

/// The hooks and the compensation of a step.
pub(super) fn bodies(has: Has) -> impl Strategy<Value = Vec<Effect>> {
    (hooks(has), compensations(has)).prop_map(|(hooks, more)| [hooks, more].concat())
}

pub(super) fn hooks(has: Has) -> impl Strategy<Value = Vec<Effect>> {
    let hook = |body| prop::option::weighted(0.15, effect(body, has));
    let hooks = (hook("on_success"), hook("on_failure"), hook("on_complete"));
    hooks.prop_map(|(good, bad, either)| [good, bad, either].into_iter().flatten().collect())
}

pub(super) fn compensations(has: Has) -> impl Strategy<Value = Vec<Effect>> {
    let one = prop::option::weighted(0.25, effect("compensate", has));
    one.prop_map(|one| one.into_iter().collect())
}

fn effect(body: &'static str, has: Has) -> BoxedStrategy<Effect> {
    let acts = u32::from(has.activities) * 6;
    let has_children = u32::from(has.children) * 2;
    let does = prop_oneof![
        5 => (0..2usize).prop_map(Does::Count),
        1 => Just(Does::Break),
        acts => Just(Does::Act),
        has_children => (0..children::COUNT).prop_map(Does::Child),
    ];
    let condition = prop::option::weighted(0.2, condition());
    let required = prop::bool::weighted(0.3);
    (does, condition, required)
        .prop_map(move |(does, condition, required)| Effect {
            body,
            condition,
            is_required: required && body != "compensate",
            does,
        })
        .boxed()
}

impl Effect {
    /// Makes its condition one of what there is: of the outputs of steps it sees none, for those would be waited for.
    pub(super) fn fit(&mut self, count: usize) {
        match &mut self.condition {
            Some(Condition::Output(..)) => self.condition = None,
            Some(Condition::Visits(step, _)) => *step %= count,
            Some(Condition::Counted(..)) | None => {}
        }
    }

    fn told(&self) -> Value {
        let mut told = match self.does {
            Does::Count(counter) => {
                let name = COUNTERS[counter];
                json!({ "set": { name: format!("${{{{ memory.{name} + 1 }}}}") } })
            }
            Does::Break => json!({ "set": { COUNTERS[0]: "${{ memory.n < 'x' }}" } }),
            Does::Act => json!({ "activity": "act" }),
            Does::Child(child) => json!({ "workflow": name(child) }),
        };
        if let Some(condition) = &self.condition {
            told["if"] = json!(condition.told());
        }
        if self.is_required {
            told["required"] = json!(true);
        }
        told
    }
}

/// Adds what stands beside the work of a step, or of the workflow.
pub(super) fn told_bodies(told: &mut Value, effects: &[Effect]) {
    for effect in effects {
        match effect.body {
            "compensate" => told["compensate"] = effect.told(),
            hook => told["hooks"][hook] = effect.told(),
        }
    }
}

/// Adds how many of those before a step waits for.
pub(super) fn told_joins(told: &mut Value, join: Option<&Join>) {
    let Some(join) = join else { return };
    told["join"] = match join.wanted {
        1 => json!("any"),
        wanted => json!(format!("quorum({wanted})")),
    };
    if join.cancels {
        told["losers"] = json!("cancel");
    }
}
