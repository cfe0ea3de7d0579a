//! The `foreach` of random workflows, with its thresholds: how many items must succeed, and how many may fail.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Foreach, Has, List, OnError, beside, children, children::name, id, told_bodies};

/// What a `foreach` says of how its items end.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::model::flow) struct Thresholds {
    pub(in crate::model::flow) enough: Option<usize>,
    pub(in crate::model::flow) tolerate: Option<Tolerance>,
    /// Whether the numbers are expressions.
    pub(in crate::model::flow) are_computed: bool,
}

/// How many items may fail.
#[derive(Clone, Copy, Debug)]
pub(in crate::model::flow) enum Tolerance {
    Count(usize),
    /// Of a hundred.
    Share(usize),
}

fn thresholds() -> impl Strategy<Value = Thresholds> {
    let tolerance = prop_oneof![
        (0..3usize).prop_map(Tolerance::Count),
        (0..=100usize).prop_map(Tolerance::Share),
    ];
    let enough = prop::option::weighted(0.3, 1..4usize);
    let tolerate = prop::option::weighted(0.3, tolerance);
    (enough, tolerate, any::<bool>()).prop_map(|(enough, tolerate, are_computed)| Thresholds {
        enough,
        tolerate,
        are_computed,
    })
}

impl Thresholds {
    /// How many of `total` items may fail; `None` where any number may.
    pub(in crate::model::flow) fn failures_max(self, total: usize) -> Option<usize> {
        self.tolerate.map(|tolerate| match tolerate {
            Tolerance::Count(count) => count,
            Tolerance::Share(percent) => total * percent / 100,
        })
    }

    pub(in crate::model::flow) fn are_given(self) -> bool {
        self.enough.is_some() || self.tolerate.is_some()
    }

    fn tell(self, told: &mut Value) {
        let number = |number: usize| {
            if self.are_computed {
                json!(format!("${{{{ memory.n * 0 + {number} }}}}"))
            } else {
                json!(number)
            }
        };
        if let Some(enough) = self.enough {
            told["enough"] = number(enough);
        }
        match self.tolerate {
            None => {}
            Some(Tolerance::Count(count)) => told["tolerate"] = number(count),
            Some(Tolerance::Share(percent)) => told["tolerate"] = json!(format!("{percent}%")),
        }
    }
}

pub(super) fn foreach(has: Has) -> impl Strategy<Value = Foreach> {
    let list = prop_oneof![
        2 => prop::collection::vec(0..4i64, 0..5).prop_map(List::Literal),
        1 => (0..8usize).prop_map(List::Output),
    ];
    let forgives =
        prop_oneof![Just(OnError::Fail), Just(OnError::Optional), Just(OnError::Continue)];
    let above = prop_oneof![3 => Just(None), 1 => (0..3i64).prop_map(Some)];
    let child = prop_oneof![
        3 => Just(None),
        u32::from(has.children) * 2 => (0..children::COUNT).prop_map(Some),
    ];
    let rest = (list, 1..5usize, above, forgives, beside::compensations(has));
    (rest, child, thresholds()).prop_map(
        |((list, parallel, above, forgives, beside), child, thresholds)| Foreach {
            list,
            child,
            parallel,
            above,
            forgives,
            thresholds,
            beside,
        },
    )
}

impl Foreach {
    pub(super) fn fit(&mut self, position: usize, count: usize) {
        if let List::Output(step) = &mut self.list {
            *step %= position.max(1);
            // Only numbers can be compared with `above`, and an output may be anything.
            self.above = None;
        }
        if self.thresholds.tolerate.is_some() {
            self.forgives = OnError::Fail;
        }
        for effect in &mut self.beside {
            effect.fit(count);
        }
    }

    pub(super) fn told(&self) -> Value {
        let list = match &self.list {
            List::Literal(list) => json!(list),
            List::Output(step) => json!(format!("${{{{ steps.{} }}}}", id(*step))),
        };
        let mut body = match self.child {
            None => json!({ "guidance": "Do one.", "result": {} }),
            Some(child) => json!({ "workflow": name(child) }),
        };
        if let Some(above) = self.above {
            body["if"] = json!(format!("one > {above}"));
        }
        if let Some((key, value)) = self.forgives.told() {
            body[key] = value;
        }
        told_bodies(&mut body, &self.beside);
        let mut told = json!({ "in": list, "as": "one", "parallel": self.parallel, "do": body });
        self.thresholds.tell(&mut told);
        told
    }
}
