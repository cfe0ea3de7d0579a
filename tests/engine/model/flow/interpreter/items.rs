//! The items of a `foreach`.

use midex_domain::event::OrderKind;
use serde_json::{Value, json};

use super::{Interpreter, Open, Outcome, Part, Place, Waits};
use crate::model::flow::manifest::{Foreach, Kind, List, OnError};

/// The items of the open visit of a `foreach`.
#[derive(Clone, Debug)]
pub(super) struct Fan {
    /// True until the execution first waits for something after the `foreach` was entered.
    pub(super) is_fresh: bool,
    list: Vec<Value>,
    /// One for each that was begun, in order: its output once it has ended.
    outputs: Vec<Option<Value>>,
    succeeded: usize,
    failed: usize,
}

impl Interpreter<'_> {
    pub(super) fn fan_out(&mut self, step: usize, foreach: &Foreach) {
        let list = match &foreach.list {
            List::Literal(list) => Ok(json!(list)),
            List::Output(of) => self.output(*of).cloned(),
        };
        let list = match list {
            Ok(Value::Array(list)) => list,
            Ok(_) => return self.end_at_once(step, Err("NOT_A_LIST"), None),
            Err(code) => return self.end_at_once(step, Err(code), None),
        };
        if foreach.thresholds.enough.is_some_and(|enough| enough > list.len()) {
            return self.end_at_once(step, Err("JOIN_MISSED"), None);
        }
        if list.is_empty() {
            return self.end_at_once(step, Ok(json!([])), self.flow.steps[step].next);
        }
        let outputs = Vec::new();
        self.fans.insert(step, Fan { is_fresh: true, list, outputs, succeeded: 0, failed: 0 });
        self.open(step, Waits::Items);
        self.open_items(step, foreach);
    }

    /// Opens items in order, as many at once as `parallel` says. An item whose `if` is false is skipped.
    pub(super) fn open_items(&mut self, step: usize, foreach: &Foreach) {
        let visit = self.steps[step].visits;
        while let Some(fan) = self.fans.get_mut(&step) {
            let is_open = |(at, part): &Place| *at == step && matches!(part, Part::Item(_));
            let open = self.open.keys().filter(|place| is_open(place)).count();
            let begun = fan.outputs.len();
            if begun == fan.list.len() || open == foreach.parallel {
                return;
            }
            fan.outputs.push(None);
            let is_passed =
                foreach.above.is_some_and(|above| fan.list[begun].as_i64() <= Some(above));
            let status = if is_passed { "skipped" } else { "running" };
            self.note(step, visit, Some(begun), status, None);
            if is_passed {
                self.item_ended(step, begun, Value::Null);
            } else {
                let waits = foreach.child.map_or(Waits::Model, Waits::Child);
                let place = (step, Part::Item(begun));
                self.open.insert(place, Open { visit, waits });
            }
        }
    }

    pub(super) fn finish_item(&mut self, step: usize, item: usize, outcome: Outcome) {
        let Kind::Foreach(foreach) = &self.flow.steps[step].kind else {
            panic!("only a foreach has items");
        };
        let fan = self.fans.get_mut(&step).expect("an open foreach");
        let total = fan.list.len();
        match outcome {
            Ok(output) => {
                fan.succeeded += 1;
                self.keep_effect(step, Some(item));
                self.item_ended(step, item, output);
            }
            Err(code) => {
                fan.failed += 1;
                let failures_max = foreach.thresholds.failures_max(total);
                let is_passed = if foreach.thresholds.are_given() {
                    failures_max.is_none_or(|max| fan.failed <= max)
                } else {
                    foreach.forgives != OnError::Fail
                };
                if is_passed {
                    self.item_ended(step, item, Value::Null);
                } else {
                    self.void_items(step);
                    self.finish((step, Part::Work), Err(code));
                }
            }
        }
        self.open_items(step, foreach);
    }

    fn void_items(&mut self, step: usize) {
        self.void(|(at, part)| at == step && matches!(part, Part::Item(_)), OrderKind::Abandon);
    }

    /// The `foreach` is done once enough items have succeeded, or all have ended. Ours: that too few did is found once all
    /// have ended.
    fn item_ended(&mut self, step: usize, item: usize, output: Value) {
        let Kind::Foreach(foreach) = &self.flow.steps[step].kind else {
            panic!("only a foreach has items");
        };
        let fan = self.fans.get_mut(&step).expect("an open foreach");
        fan.outputs[item] = Some(output);
        let enough = foreach.thresholds.enough;
        let has_enough = enough.is_some_and(|enough| fan.succeeded >= enough);
        let ended = fan.outputs.iter().flatten().count();
        if !has_enough && ended < fan.list.len() {
            return;
        }
        let mut outputs: Vec<_> =
            fan.outputs.iter().map(|output| output.clone().unwrap_or_default()).collect();
        outputs.resize(fan.list.len(), Value::Null);
        let outcome =
            if enough.is_some() && !has_enough { Err("JOIN_MISSED") } else { Ok(json!(outputs)) };
        self.void_items(step);
        self.finish((step, Part::Work), outcome);
    }
}
