//! The items of a `foreach`: `parallel` limits how many are open at once, and the list of their outputs is its own
//! output.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    BodyKind, Event, Failure, Outcome, StepState, StepStatus, ValueReference, Visit, VisitEnd,
    VisitId, WaitCondition,
    decision::{DecideResult, Interrupt},
    scope::VisitScope,
    transition::TransitionBuilder,
};
use crate::{
    FailureCode,
    definition::{CompiledStep, OnError, Step, StepKind, parse_share},
    document::{Digest, to_plain_text},
    expression::ForeachItem,
    limits,
};

impl StepState {
    /// Whether another item of its open visit may be opened now.
    pub(super) fn has_room_for_item(&self, step: &Step) -> bool {
        let StepKind::Foreach { parallel, .. } = &step.kind else {
            return false;
        };
        let awaiting = self.latest_visit().and_then(|visit| visit.awaiting.as_ref());
        let Some(WaitCondition::Items { total, .. }) = awaiting else {
            return false;
        };
        self.status == StepStatus::Running
            && self.items.len() < *total as usize
            && self.items.open_count() < *parallel as usize
    }
}

impl TransitionBuilder<'_> {
    pub(super) fn open_foreach(
        &mut self,
        position: usize,
        visit_id: &VisitId,
        compiled: &CompiledStep,
        scope: &VisitScope<'_>,
    ) -> DecideResult<()> {
        let step = self.step(position);
        let list = match &compiled.items {
            Some(items) => self.render_template(items, scope)?,
            None => Value::Null,
        };
        let Value::Array(items) = &list else {
            let message = format!("`in` of step '{}' is no list", step.id);
            return Err(Interrupt::step_failure(step, FailureCode::NotAList, message));
        };
        let thresholds = self.evaluate_thresholds(step, compiled, scope, items.len())?;
        if items.is_empty() {
            return self.complete_at_once(position, visit_id, list);
        }
        if items.len() > limits::FOREACH_ITEMS_MAX {
            let message = format!(
                "`in` of step '{}' has {} items, the limit is {}",
                step.id,
                items.len(),
                limits::FOREACH_ITEMS_MAX
            );
            return Err(Interrupt::step_failure(step, FailureCode::LimitExceeded, message));
        }
        self.check_compensations(step.acting_step(), items.len())?;
        let total = u32::try_from(items.len()).unwrap_or(u32::MAX);
        let list = self.store_value_by_digest(list, limits::OUTPUT_BYTES_MAX, "list")?.digest;
        let input = thresholds.map(|thresholds| self.store_visit_input(json!(thresholds)));
        self.open_visit(visit_id.clone(), WaitCondition::Items { list, total }, input.transpose()?);
        self.open_items(position, visit_id)
    }

    /// `enough` and `tolerate` of a `foreach` with `total` items, as numbers; `None` if it has neither.
    fn evaluate_thresholds(
        &self,
        step: &Step,
        compiled: &CompiledStep,
        scope: &VisitScope<'_>,
        total: usize,
    ) -> DecideResult<Option<Thresholds>> {
        let Some(template) = &compiled.thresholds else {
            return Ok(None);
        };
        let values = self.render_template(template, scope)?;
        let max_items = limits::FOREACH_ITEMS_MAX;
        let enough = values.get("enough");
        let enough =
            enough.map(|value| parse_threshold(step, "enough", value, 1, max_items)).transpose()?;
        if let Some(enough) = enough.filter(|enough| *enough as usize > total) {
            let message =
                format!("`enough` of step '{}' is {enough}, and `in` has {total} items", step.id);
            return Err(Interrupt::step_failure(step, FailureCode::JoinMissed, message));
        }
        let tolerate =
            values.get("tolerate").map(|value| match value.as_str().and_then(parse_share) {
                Some(percent) => Ok(u32::try_from(total).unwrap_or(u32::MAX) * percent / 100),
                None => parse_threshold(step, "tolerate", value, 0, max_items),
            });
        Ok(Some(Thresholds { enough, tolerate: tolerate.transpose()? }))
    }

    /// The thresholds of an open `foreach`, as they were worked out when it was entered.
    fn load_thresholds(&self, foreach: &Visit) -> DecideResult<Thresholds> {
        let Some(input) = foreach.input else {
            return Ok(Thresholds::default());
        };
        let input = self.require_value(ValueReference::by_digest(input))?;
        Ok(Thresholds::deserialize(&*input).unwrap_or_default())
    }

    /// Opens the items that did not fit into an earlier transition.
    pub(super) fn open_remaining_items(&mut self) -> DecideResult<()> {
        let open = self.execution.open_visits();
        let with_room = open.filter(|(position, step, visit)| {
            let is_whole = visit.item.is_none() && visit.body == BodyKind::Work;
            is_whole && step.has_room_for_item(self.step(*position))
        });
        let visit_ids: Vec<_> =
            with_room.map(|(position, step, visit)| (position, visit.visit_id(&step.id))).collect();
        for (position, visit_id) in visit_ids {
            self.open_items(position, &visit_id)?;
        }
        Ok(())
    }

    /// Opens items up to the limit of open ones, and at most [`limits::ITEMS_AT_ONCE_MAX`] in one call. If items end
    /// when they are entered, a later transition opens the rest.
    fn open_items(&mut self, position: usize, visit_id: &VisitId) -> DecideResult<()> {
        let step = self.step(position);
        let StepKind::Foreach { body, .. } = &step.kind else {
            return Ok(());
        };
        let Some(compiled) = &self.context.definition.compiled_step(position).body else {
            return Ok(());
        };
        for _ in 0..limits::ITEMS_AT_ONCE_MAX {
            let state = &self.execution.steps[position];
            let is_current =
                state.latest_visit().is_some_and(|visit| visit.number == visit_id.visit);
            let is_full = self.row.events.len() >= limits::EVENTS_PER_ROW_MAX / 4;
            if !is_current || is_full || !state.has_room_for_item(step) {
                return Ok(());
            }
            let item = VisitId { item: u32::try_from(state.items.len()).ok(), ..visit_id.clone() };
            let result = self.enter_item(position, body, compiled, &item);
            self.fail_if_entry_failed(position, &item, result)?;
        }
        Ok(())
    }

    fn enter_item(
        &mut self,
        position: usize,
        body: &Step,
        compiled: &CompiledStep,
        visit_id: &VisitId,
    ) -> DecideResult<()> {
        let scope = self.visit_scope(visit_id)?;
        if !self.is_condition_met(body, compiled, &scope)? {
            return self.complete_skipped_item(visit_id);
        }
        self.execute_step_kind(position, body, compiled, visit_id, &scope)
    }

    /// An item whose condition does not hold is skipped: null stands in the list for its output.
    fn complete_skipped_item(&mut self, visit_id: &VisitId) -> DecideResult<()> {
        self.push_event(Event::StepDone { visit_id: visit_id.clone(), outcome: Outcome::Voided });
        self.complete_foreach(visit_id)
    }

    /// The scope of a visit, with the item if it is that of one.
    pub(super) fn visit_scope<'v>(&self, visit_id: &'v VisitId) -> DecideResult<VisitScope<'v>> {
        let item = match visit_id.item {
            Some(item) => {
                Some(ForeachItem { value: self.load_item_value(visit_id)?, index: item as usize })
            }
            None => None,
        };
        Ok(VisitScope { item, ..VisitScope::for_visit(visit_id) })
    }

    /// The list of the `foreach` that an item belongs to, and the number of its items.
    fn find_item_list(&self, visit_id: &VisitId) -> Option<(Digest, u32)> {
        let (_, _, visit) = self.execution.find_visit(&visit_id.foreach_visit())?;
        match visit.awaiting {
            Some(WaitCondition::Items { list, total }) => Some((list, total)),
            _ => None,
        }
    }

    /// The element of the list for an item.
    fn load_item_value(&self, visit_id: &VisitId) -> DecideResult<Value> {
        let Some((list, _)) = self.find_item_list(visit_id) else {
            return Ok(Value::Null);
        };
        let list = self.require_value(ValueReference::by_digest(list))?;
        let index = visit_id.item.unwrap_or_default() as usize;
        Ok(list.get(index).cloned().unwrap_or_default())
    }

    /// Called when an item ends: opens further items, or completes the `foreach` after the last one.
    pub(super) fn handle_item_end(
        &mut self,
        position: usize,
        visit_id: &VisitId,
        outcome: &Outcome,
    ) -> DecideResult<()> {
        self.apply_item_end(position, visit_id, outcome)?;
        self.open_items(position, &visit_id.foreach_visit())
    }

    /// Applies the end of an item to its `foreach`: a required item that failed fails it, and the last item completes
    /// it.
    pub(super) fn apply_item_end(
        &mut self,
        position: usize,
        visit_id: &VisitId,
        outcome: &Outcome,
    ) -> DecideResult<()> {
        let body = self.step(position).acting_step();
        if matches!(outcome, Outcome::Completed(_)) {
            let list = self.find_item_list(visit_id).map(|(list, _)| list);
            self.record_compensation(body, visit_id, list);
        }
        match outcome {
            Outcome::Failed(failure) if !self.is_item_failure_passed(visit_id, body)? => {
                let failure = self.build_foreach_failure(visit_id, failure)?;
                self.void_items(position);
                self.finish_visit(&visit_id.foreach_visit(), &Outcome::Failed(failure), None)
            }
            _ => self.complete_foreach(visit_id),
        }
    }

    /// Whether the `foreach` continues after an item failed.
    fn is_item_failure_passed(&self, visit_id: &VisitId, body: &Step) -> DecideResult<bool> {
        let foreach = self.execution.find_visit(&visit_id.foreach_visit());
        let Some((_, step, visit)) = foreach.filter(|(_, _, visit)| visit.input.is_some()) else {
            return Ok(body.optional || body.on_error == OnError::Continue);
        };
        let tolerate = self.load_thresholds(visit)?.tolerate;
        Ok(tolerate.is_none_or(|max| step.items.count_ends().failed <= max))
    }

    /// The failure of an item as the failure of its `foreach`, with the item in its message.
    fn build_foreach_failure(
        &self,
        visit_id: &VisitId,
        failure: &Failure,
    ) -> DecideResult<Failure> {
        let total = self.find_item_list(visit_id).map_or(0, |(_, total)| total);
        let number = visit_id.item.unwrap_or_default() + 1;
        let label = item_label(&self.load_item_value(visit_id)?);
        let message = format!("item {number} of {total} (`{label}`): {}", failure.message);
        Ok(Failure {
            item: visit_id.item,
            response: failure.response.clone(),
            is_retryable: failure.is_retryable,
            ..Failure::new(&failure.code, message, failure.step.as_ref())
        })
    }

    pub(super) fn void_items(&mut self, position: usize) {
        let step = self.execution.steps[position].clone();
        for item in step.items.open_items() {
            self.close_visit(&item.visit_id(&step.id), item, Outcome::Voided, None);
        }
    }

    /// Completes a `foreach` once all its items have ended.
    fn complete_foreach(&mut self, visit_id: &VisitId) -> DecideResult<()> {
        let parent = visit_id.foreach_visit();
        let Some((_, step, visit)) = self.execution.find_visit(&parent) else {
            return Ok(());
        };
        let Some(WaitCondition::Items { total, .. }) = visit.awaiting else {
            return Ok(());
        };
        let enough = self.load_thresholds(visit)?.enough;
        let has_enough = enough.is_some_and(|enough| step.items.count_ends().succeeded >= enough);
        if !has_enough && (step.items.len() < total as usize || step.items.open_count() > 0) {
            return Ok(());
        }
        if let Some(enough) = enough.filter(|_| !has_enough) {
            let succeeded = step.items.count_ends().succeeded;
            let message = format!(
                "`enough` of step '{}' is {enough}, and {succeeded} of {total} items succeeded",
                step.id
            );
            let failure = Failure::new(FailureCode::JoinMissed, message, Some(&step.id));
            return self.finish_visit(&parent, &Outcome::Failed(failure), None);
        }
        let (mut outputs, mut missing) = (Vec::with_capacity(step.items.len()), Vec::new());
        for item in step.items.iter() {
            let output = item.closed.as_ref().and_then(VisitEnd::output_reference);
            match output.map(|need| self.find_value(need)) {
                Some(Ok(output)) => outputs.push(Value::clone(&output)),
                Some(Err(need)) => missing.push(need),
                None => outputs.push(Value::Null),
            }
        }
        if !missing.is_empty() {
            return Err(Interrupt::MissingValues(missing));
        }
        outputs.resize(total as usize, Value::Null);
        if let Some(position) = self.execution.step_position(parent.step()) {
            self.void_items(position);
        }
        let output =
            self.store_value(Value::Array(outputs), limits::OUTPUT_BYTES_MAX, "list of outputs");
        let outcome = match output {
            Ok(output) => Outcome::Completed(output),
            Err(error) => Outcome::Failed(Failure::from_error(&error, parent.step())),
        };
        self.finish_visit(&parent, &outcome, None)
    }
}

/// The thresholds of a `foreach`: how many items must succeed, and how many may fail.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Thresholds {
    #[serde(skip_serializing_if = "Option::is_none")]
    enough: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tolerate: Option<u32>,
}

/// The whole number from `min` to `max` that the key `key` of a step yields.
pub(super) fn parse_threshold(
    step: &Step,
    key: &str,
    value: &Value,
    min: u32,
    max: usize,
) -> DecideResult<u32> {
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.filter(|number| *number >= min && *number as usize <= max).ok_or_else(|| {
        let shown: String = to_plain_text(value).chars().take(limits::ITEM_SHOWN_CHARS).collect();
        let message = format!(
            "`{key}` of step '{}' must be a whole number from {min} to {max}, it is `{shown}`",
            step.id
        );
        Interrupt::step_failure(step, FailureCode::ThresholdInvalid, message)
    })
}

/// A short name of an item for messages: its `id`, `key`, `name`, `title` or `path`, or else the item as text,
/// shortened.
fn item_label(item: &Value) -> String {
    const ITEM_LABEL_FIELDS: [&str; 5] = ["id", "key", "name", "title", "path"];
    let mut names = ITEM_LABEL_FIELDS.iter().filter_map(|name| item.get(name));
    let name = names.find(|name| name.is_string() || name.is_number());
    to_plain_text(name.unwrap_or(item)).chars().take(limits::ITEM_SHOWN_CHARS).collect()
}
