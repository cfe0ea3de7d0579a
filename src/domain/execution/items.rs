//! The items of a `foreach`: as many are open at once as it says, and their outputs make its own.

use std::sync::Arc;

use serde_json::Value;

use super::{
    Awaiting, Event, Failure, Need, Outcome, Site, StepStatus,
    decide::{Flow, Halt},
    draft::Draft,
    plan::Plan,
    scope::Here,
};
use crate::{
    domain::{
        Digest, FailureCode,
        definition::{OnError, Step, StepKind},
        expression::Item,
    },
    limits,
};

impl Draft<'_> {
    pub(super) fn fan_out(
        &mut self,
        position: usize,
        site: &Site,
        plan: &Plan,
        here: &Here<'_>,
    ) -> Flow<()> {
        let step = self.step(position);
        let list = match &plan.items {
            Some(items) => self.render(items, here)?,
            None => Value::Null,
        };
        let Value::Array(items) = &list else {
            let message = format!("`in` of step '{}' is no list", step.id);
            return Err(Halt::fails(step, FailureCode::NotAList, message));
        };
        if items.is_empty() {
            return self.done_with(position, site, list);
        }
        if items.len() > limits::FOREACH_ITEMS_MAX {
            let message = format!(
                "`in` of step '{}' has {} items, the limit is {}",
                step.id,
                items.len(),
                limits::FOREACH_ITEMS_MAX
            );
            return Err(Halt::fails(step, FailureCode::LimitExceeded, message));
        }
        let total = u32::try_from(items.len()).unwrap_or(u32::MAX);
        let list = self
            .keep_apart(list, limits::OUTPUT_BYTES_MAX, "list")?
            .digest;
        self.open(site.clone(), Awaiting::Items { list, total }, None);
        self.open_items(position, site, list, total)
    }

    /// Opens as many items as may be open at once.
    fn open_items(&mut self, position: usize, site: &Site, list: Digest, total: u32) -> Flow<()> {
        let StepKind::Foreach { parallel, body, .. } = &self.step(position).kind else {
            return Ok(());
        };
        let Some(plan) = &self.facts.definition.plan(position).body else {
            return Ok(());
        };
        let list = self.wanted(Need {
            digest: list,
            row: None,
        })?;
        loop {
            let state = &self.next.steps[position];
            let is_current = state.status == StepStatus::Running
                && state
                    .visit()
                    .is_some_and(|visit| visit.number == site.visit);
            let opened = u32::try_from(state.items.len()).unwrap_or(u32::MAX);
            // The open ones are mostly the last ones: as soon as they are enough the others need no look.
            let newest_first = state.items.iter().rev();
            let open = newest_first.filter(|item| item.awaiting.is_some());
            let room = *parallel as usize;
            if !is_current || opened >= total || open.take(room).count() == room {
                return Ok(());
            }
            let item = Site {
                item: Some(opened),
                ..site.clone()
            };
            self.enter_item(position, body, plan, &item, &list)?;
        }
    }

    fn enter_item(
        &mut self,
        position: usize,
        body: &Step,
        plan: &Plan,
        site: &Site,
        list: &Value,
    ) -> Flow<()> {
        let entered = self.try_enter_item(body, plan, site, list);
        match entered.map_err(|halt| halt.within(site)) {
            Err(Halt::Fails(failure)) => {
                let outcome = Outcome::Failed(failure);
                self.push(Event::StepDone {
                    site: site.clone(),
                    outcome: outcome.clone(),
                });
                self.item_done(position, site, &outcome)
            }
            entered => entered,
        }
    }

    fn try_enter_item(&mut self, body: &Step, plan: &Plan, site: &Site, list: &Value) -> Flow<()> {
        let index = site.item.unwrap_or_default() as usize;
        let value = list.get(index).cloned().unwrap_or_default();
        let here = Here {
            item: Some(Item { value, index }),
            ..Here::of(site)
        };
        plan.check(body)?;
        if let Some(condition) = &plan.condition
            && !self.holds(condition, &here)?
        {
            let output = self.keep(Value::Null, limits::OUTPUT_BYTES_MAX, "output")?;
            let outcome = Outcome::Completed(output);
            self.push(Event::StepDone {
                site: site.clone(),
                outcome,
            });
            return self.gather(site);
        }
        let brief = self.render_marked(&plan.brief, &here)?;
        self.open_work(body, plan, site, brief)
    }

    /// An item came to its end: the next one is opened, or the list of outputs is whole.
    pub(super) fn item_ended(
        &mut self,
        position: usize,
        site: &Site,
        outcome: &Outcome,
    ) -> Flow<()> {
        self.item_done(position, site, outcome)?;
        let parent = site.whole();
        let awaiting = self
            .next
            .visit(&parent)
            .and_then(|(_, _, visit)| visit.awaiting.clone());
        match awaiting {
            Some(Awaiting::Items { list, total }) => {
                self.open_items(position, &parent, list, total)
            }
            _ => Ok(()),
        }
    }

    fn item_done(&mut self, position: usize, site: &Site, outcome: &Outcome) -> Flow<()> {
        let StepKind::Foreach { body, .. } = &self.step(position).kind else {
            return Ok(());
        };
        match outcome {
            Outcome::Failed(failure) if !body.optional && body.on_error != OnError::Continue => {
                let parent = site.whole();
                self.void_items(position);
                self.finish(&parent, &Outcome::Failed(failure.clone()), None)
            }
            _ => self.gather(site),
        }
    }

    pub(super) fn void_items(&mut self, position: usize) {
        let step = self.next.steps[position].clone();
        for item in step.items.iter().filter(|item| item.awaiting.is_some()) {
            self.close(&item.site(&step.id), item, Outcome::Voided, None);
        }
    }

    /// Ends a `foreach` whose items have all come to their end.
    fn gather(&mut self, site: &Site) -> Flow<()> {
        let parent = site.whole();
        let Some((_, step, visit)) = self.next.visit(&parent) else {
            return Ok(());
        };
        let Some(Awaiting::Items { total, .. }) = visit.awaiting else {
            return Ok(());
        };
        if step.items.len() < total as usize {
            return Ok(());
        }
        // The last ones are the likeliest to be open still.
        if step.items.iter().rev().any(|item| item.closed.is_none()) {
            return Ok(());
        }
        let ended = step.items.iter().filter_map(|item| item.closed.as_ref());
        let needs = ended.map(|closed| {
            closed.output.map(|digest| Need {
                digest,
                row: closed.row,
            })
        });
        let found: Vec<_> = needs
            .map(|need| need.map(|need| self.value(need)).transpose())
            .collect();
        let missing: Vec<_> = found
            .iter()
            .filter_map(|value| value.as_ref().err().copied())
            .collect();
        if !missing.is_empty() {
            return Err(Halt::Needs(missing));
        }
        let value =
            |value: Option<Arc<Value>>| value.map_or(Value::Null, |value| Value::clone(&value));
        let outputs = found.into_iter().flatten().map(value).collect();
        let output = self.keep(
            Value::Array(outputs),
            limits::OUTPUT_BYTES_MAX,
            "list of outputs",
        );
        let outcome = match output {
            Ok(output) => Outcome::Completed(output),
            Err(error) => Outcome::Failed(Failure::of(&error, &parent.step)),
        };
        self.finish(&parent, &outcome, None)
    }
}
