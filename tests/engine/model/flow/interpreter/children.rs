//! Children: what an execution does to them, and what its parent does to it. Who begins them, tells them and listens for
//! their end is the engine, which is not of this room.

use midex_domain::{LifecycleAction, event::OrderKind};
use serde_json::{Map, Value};

use super::{Interpreter, Outcome, Place, Waits};
use crate::model::flow::manifest::{Flow, id};

/// Which child: the place and the number of the visit that waits for it.
pub(in crate::model::flow) type Key = (Place, u32);

/// What a child is to be told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::model::flow) struct Order {
    pub(in crate::model::flow) key: Key,
    pub(in crate::model::flow) what: OrderKind,
}

impl<'a> Interpreter<'a> {
    /// The children that are waited for, each with the workflow that it follows.
    pub(in crate::model::flow) fn awaited(&self) -> Vec<(Key, &'a Flow)> {
        let flow = self.flow;
        let awaited = self.open.iter().filter_map(|(place, open)| match open.waits {
            Waits::Child(child) => Some(((*place, open.visit), &flow.children[child])),
            _ => None,
        });
        awaited.collect()
    }
}

impl Interpreter<'_> {
    /// Tells the child that is waited for at a place, where one is.
    pub(super) fn order(&mut self, place: Place, what: OrderKind) {
        let open = &self.open[&place];
        if matches!(open.waits, Waits::Child(_)) {
            let key = (place, open.visit);
            self.orders.push(Order { key, what });
        }
    }

    pub(super) fn order_all(&mut self, what: OrderKind) {
        let places: Vec<_> = self.open.keys().copied().collect();
        for place in places {
            self.order(place, what);
        }
    }

    /// A child was told. The same may be left to tell it later, after something else.
    pub(in crate::model::flow) fn told(&mut self, order: Order) {
        if let Some(at) = self.orders.iter().position(|left| *left == order) {
            self.orders.remove(at);
        }
        if self.state == "running" {
            self.settle();
        }
    }

    /// Its parent did that; where it has done so already, or has ended, nothing happens.
    pub(in crate::model::flow) fn obey(&mut self, what: OrderKind) {
        match what {
            OrderKind::Pause => drop(self.change(LifecycleAction::Pause)),
            OrderKind::Resume => drop(self.change(LifecycleAction::Resume)),
            OrderKind::Abandon | OrderKind::Fail if self.ends_badly() => {}
            OrderKind::Abandon => drop(self.change(LifecycleAction::Abandon)),
            OrderKind::Fail if self.has_ended() => {}
            OrderKind::Fail => {
                self.state = "running";
                self.fail("PARENT_FAILED", None);
                self.settle();
            }
        }
    }

    /// What its parent is told once it has ended: its failure, or what the step brought that nothing follows, else what all
    /// of those did.
    pub(in crate::model::flow) fn came_of(&self) -> Outcome {
        match (self.state, self.failure) {
            ("completed", _) => Ok(self.last_output()),
            (_, Some(code)) => Err(code),
            _ => Err("CHILD_ENDED"),
        }
    }

    fn last_output(&self) -> Value {
        let is_followed = |step: usize| self.flow.before.iter().any(|all| all.contains(&step));
        let last = (0..self.steps.len()).filter(|step| !is_followed(*step));
        let brought: Vec<_> =
            last.filter_map(|step| Some((step, self.steps[step].output.clone()?))).collect();
        match brought.as_slice() {
            [(_, output)] => output.clone(),
            all => {
                let named = all.iter().map(|(step, output)| (id(*step).to_owned(), output.clone()));
                Value::Object(named.collect::<Map<_, _>>())
            }
        }
    }
}
