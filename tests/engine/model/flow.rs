//! The model test of control flow: random manifests and what may happen to an execution of them, against an interpreter that was
//! written from the contract. Besides, what must hold whatever the interpreter says: the journal rebuilds the execution, a spent
//! token gets the same answer, and nothing that goes on waits for nobody.
//!
//! A failing case prints the manifests and what was done.

mod family;
mod forks;
mod interpreter;
pub(super) mod manifest;
mod pair;

use midex_domain::{LifecycleAction, execution::Report};
use midex_test::{EPOCH, TokioClock};
use proptest::prelude::*;
use serde_json::json;

use self::{
    family::Family,
    manifest::{Has, SIGNALS, flows, name},
};
use super::{
    cases,
    driven::{Pure, Whole},
    paused_runtime,
};

/// Something happens to one execution of the family, and then whoever sees to children does so much.
#[derive(Clone, Debug)]
struct Deed {
    /// Counted from the root, which the others are children of, or of those.
    who: usize,
    action: Action,
    /// How many of the things that are to be done for children are done, at most. An engine does all of them.
    sees_to: usize,
}

/// What happens. Indices are taken modulo what there is.
#[derive(Clone, Debug)]
enum Action {
    /// A model reports: with an open turn's token, counted from the first.
    Report {
        turn: usize,
        brings: Brings,
    },
    /// Somebody uses any token that was ever seen, counted from the latest.
    Again {
        token: usize,
        same: bool,
    },
    Signal {
        name: usize,
        /// None reports a failure.
        payload: Option<i64>,
    },
    /// Time passes; where it is late, nobody looks before its end.
    Pass {
        time: u64,
        late: bool,
    },
    /// What the server works on comes to something.
    Work {
        which: usize,
        good: bool,
    },
    Change(LifecycleAction),
    /// Everything in memory is lost.
    Restart,
}

#[derive(Clone, Debug, PartialEq)]
enum Brings {
    Number(i64),
    List(Vec<i64>),
    Error,
}

impl Brings {
    fn report(&self) -> Report {
        match self {
            Self::Number(number) => Report::Output(json!(number)),
            Self::List(list) => Report::Output(json!(list)),
            Self::Error => Report::Error {
                message: "it could not be done".into(),
                code: Some("BROKEN".into()),
                retryable: None,
            },
        }
    }

    fn outcome(&self) -> interpreter::Outcome {
        match self.report() {
            Report::Output(output) | Report::Answer(output) => Ok(output),
            Report::Error { .. } => Err("BROKEN"),
        }
    }
}

fn deeds(time: impl Strategy<Value = u64> + 'static) -> impl Strategy<Value = Vec<Deed>> {
    let who = prop_oneof![2 => Just(0), 3 => 0..12usize];
    let sees_to = prop_oneof![1 => Just(0), 1 => Just(1), 2 => Just(usize::MAX)];
    let deed = (who, action(time), sees_to).prop_map(|(who, action, sees_to)| Deed {
        who,
        action,
        sees_to,
    });
    prop::collection::vec(deed, 1..40)
}

fn action(time: impl Strategy<Value = u64> + 'static) -> impl Strategy<Value = Action> {
    let brings = prop_oneof![
        6 => (0..3i64).prop_map(Brings::Number),
        2 => prop::collection::vec(0..4i64, 0..4).prop_map(Brings::List),
        2 => Just(Brings::Error),
    ];
    prop_oneof![
        20 => (0..4usize, brings).prop_map(|(turn, brings)| Action::Report { turn, brings }),
        4 => (0..20usize, any::<bool>()).prop_map(|(token, same)| Action::Again { token, same }),
        3 => (0..SIGNALS.len(), prop::option::weighted(0.8, 0..3i64)).prop_map(|(name, payload)| Action::Signal { name, payload }),
        4 => (time, any::<bool>()).prop_map(|(time, late)| Action::Pass { time, late }),
        5 => (0..4usize, prop::bool::weighted(0.7)).prop_map(|(which, good)| Action::Work { which, good }),
        4 => prop_oneof![
            2 => Just(LifecycleAction::Pause),
            6 => Just(LifecycleAction::Resume),
            1 => Just(LifecycleAction::Abandon),
            1 => Just(LifecycleAction::Diverge),
            1 => Just(LifecycleAction::Fail),
        ].prop_map(Action::Change),
        1 => Just(Action::Restart),
    ]
}

const ALL: Has = Has { timers: true, activities: true, children: true };

/// The engine works on activities by itself, and time passes while it sees to children.
const ALONE: Has = Has { activities: false, children: false, ..ALL };
const TIMELESS: Has = Has { timers: false, activities: false, ..ALL };

/// Timers that often become due together.
fn coarse(_: usize, units: u64) -> u64 {
    units * 1000
}

/// Timers that never do, whatever follows what: each may be entered three times at most. Those of `on_failure` begin anew,
/// half a unit beside the others: tokens do not live as long as the tenth power.
fn distinct(position: usize, _: u64) -> u64 {
    let power = u32::try_from(position % 8).expect("a small number");
    100 * 4_u64.pow(power) + if position < 8 { 0 } else { 50 }
}

proptest! {
    #![proptest_config(cases(80, 2000))]

    #[test]
    fn the_domain_follows_a_manifest_as_the_interpreter_does(flow in flows(coarse, ALL), deeds in deeds((0..4u64).prop_map(|units| units * 1000))) {
        paused_runtime().block_on(async {
            let root = Pure::new(flow.definition.clone(), TokioClock::starting_at(EPOCH));
            Family::run(&flow, &deeds, root).await;
        });
    }
}

proptest! {
    #![proptest_config(cases(30, 500))]

    #[test]
    // Each time is odd in its own way, so that nothing is due at the very instant at which somebody looks.
    fn the_engine_follows_a_manifest_as_the_interpreter_does(flow in flows(distinct, ALONE), deeds in deeds((0..8u32).prop_map(|power| 100 * 4_u64.pow(power) + 17))) {
        paused_runtime().block_on(async {
            let root = Whole::new(flow.definition.clone(), []).await;
            Family::run(&flow, &deeds, root).await;
        });
    }
}

proptest! {
    #![proptest_config(cases(40, 2000))]

    #[test]
    fn the_engine_sees_to_children_as_the_interpreter_does(flow in flows(coarse, TIMELESS), deeds in deeds(Just(1000))) {
        paused_runtime().block_on(async {
            let children = flow.children.iter().enumerate();
            let children = children.map(|(at, child)| (name(at), child.definition.clone()));
            let root = Whole::new(flow.definition.clone(), children).await;
            Family::run(&flow, &deeds, root).await;
        });
    }
}
