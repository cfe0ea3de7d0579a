//! The builder of a transition, and how events store values: small ones inline, others by digest.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use serde_json::Value;

use super::{
    AttemptId, ConsumedCall, Decision, DecisionContext, Effect, Event, Execution, Failure,
    ItemCounts, OrderKind, Outcome, PauseReason, Payload, Row, State, Transition, ValueReference,
    Values, Visit, VisitId, WaitCondition,
    decision::{DecideResult, Interrupt},
};
use crate::{
    artifact::{Artifact, ArtifactReference},
    clock::{IdSource, Timestamp},
    definition::{CompiledStep, Step},
    document::{Digest, JsonText, nesting_depth},
    error::{Error, Result},
    event::{AttemptEnded, BodyKind, VisitClosed, VisitOpened},
    id::AgentName,
    limits,
    token::TokenGrant,
};

/// A transition under construction. Every event is applied when it is added, so the next state and the row cannot
/// disagree.
pub(super) struct TransitionBuilder<'a> {
    pub(super) execution: Execution,
    pub(super) row: Row,
    pub(super) contents: Vec<(Digest, Arc<[u8]>)>,
    pub(super) effects: Vec<Effect>,
    /// Values that this transition created, by digest.
    new_values: Values,
    /// The digests of those values that are small enough to be kept in memory afterwards.
    inline_digests: BTreeSet<Digest>,
    pub(super) context: DecisionContext<'a>,
    pub(super) ids: &'a dyn IdSource,
    /// Positions of steps that may have become ready.
    pub(super) queue: BTreeSet<usize>,
    /// Targets of jumps back, which are entered without regard to their dependencies.
    pub(super) targets: VecDeque<usize>,
    /// The number of steps that ended when they were entered.
    pub(super) instant_step_count: usize,
    /// True while steps of the server wait for a resume before they begin, because a step of the server has just ended.
    pub(super) holds_server_work: bool,
    /// True in a dry run. Hooks are skipped then, because they do not change which steps follow a completed step.
    pub(super) is_dry_run: bool,
    /// True while visits are voided because the execution fails: their children are ordered to fail instead of being
    /// abandoned.
    pub(super) should_fail_children: bool,
}

impl<'a> TransitionBuilder<'a> {
    pub(super) fn new(
        execution: Execution,
        row: Row,
        context: DecisionContext<'a>,
        ids: &'a dyn IdSource,
    ) -> Self {
        Self {
            execution,
            row,
            contents: Vec::new(),
            effects: Vec::new(),
            new_values: Values::new(),
            inline_digests: BTreeSet::new(),
            context,
            ids,
            queue: BTreeSet::new(),
            targets: VecDeque::new(),
            instant_step_count: 0,
            holds_server_work: false,
            is_dry_run: false,
            should_fail_children: false,
        }
    }

    pub(super) fn from_execution(
        execution: &Execution,
        now: Timestamp,
        context: DecisionContext<'a>,
        ids: &'a dyn IdSource,
    ) -> Self {
        let revision = execution.revision + 1;
        let row = Row { execution_id: execution.id.clone(), revision, at: now, events: Vec::new() };
        let mut next = execution.clone();
        (next.revision, next.updated_at) = (revision, now);
        Self::new(next, row, context, ids)
    }

    pub(super) fn push_event(&mut self, event: Event) {
        self.execution.apply_event(&self.row, &event);
        self.row.events.push(event);
    }

    pub(super) fn into_transition(mut self, refusal: Option<Error>) -> Transition {
        if cfg!(debug_assertions) {
            self.execution.assert_invariants();
        }
        self.new_values.retain(|digest, _| self.inline_digests.contains(digest));
        Transition {
            execution: self.execution,
            row: self.row,
            contents: self.contents,
            refusal,
            effects: self.effects,
            new_values: self.new_values,
        }
    }

    /// The transition, or [`Decision::NoChange`] if no event was added.
    pub(super) fn into_decision(self, refusal: Option<Error>) -> Decision {
        if self.row.events.is_empty() {
            Decision::NoChange
        } else {
            Decision::Transition(Box::new(self.into_transition(refusal)))
        }
    }

    pub(super) fn become_state(&mut self, to: State, failure: Option<Failure>) -> Result<()> {
        let from = self.execution.state;
        from.check_transition(to).map_err(|error| self.execution.with_execution_context(error))?;
        let steps_total = u32::try_from(self.execution.steps.len()).unwrap_or(u32::MAX);
        self.push_event(Event::StateChanged { from, to, failure, steps_total });
        Ok(())
    }

    /// Adds a pause reason, and pauses the execution if it is running.
    pub(super) fn add_pause_reason(&mut self, reason: PauseReason) -> Result<()> {
        if self.execution.state != State::Paused {
            self.become_state(State::Paused, None)?;
        }
        self.push_event(Event::PauseAdded { reason });
        Ok(())
    }

    /// Removes a pause reason. The execution runs again when the last one is removed.
    pub(super) fn lift_pause_reason(&mut self, reason: PauseReason) -> Result<()> {
        if !self.execution.pauses.contains(&reason) {
            return Ok(());
        }
        self.push_event(Event::PauseLifted { reason });
        if self.execution.pauses.is_empty() {
            self.become_state(State::Running, None)?;
        }
        Ok(())
    }

    /// Lifts the pauses that depend on which visits are open. The scheduler computes them again at the end of the
    /// transition.
    pub(super) fn lift_open_visit_pauses(&mut self) -> Result<()> {
        for reason in self.execution.pauses.clone() {
            if reason.is_set_by_scheduler() {
                self.lift_pause_reason(reason)?;
            }
        }
        Ok(())
    }

    pub(super) fn open_visit(
        &mut self,
        visit_id: VisitId,
        awaiting: WaitCondition,
        input: Option<Payload>,
    ) {
        let agent = self.find_agent(&visit_id);
        self.push_event(Event::VisitOpened(Box::new(VisitOpened {
            visit_id,
            agent,
            awaiting,
            input,
        })));
    }

    pub(super) fn close_visit(
        &mut self,
        visit_id: &VisitId,
        visit: &Visit,
        outcome: Outcome,
        consumed: Option<ConsumedCall>,
    ) {
        let duration = self.row.at.since(visit.opened_at);
        if let Some(total) = visit.items_total().filter(|_| outcome != Outcome::Voided) {
            self.count_items(visit_id, total);
        }
        if outcome == Outcome::Voided {
            self.cancel_attempt(visit_id, visit);
        }
        self.push_event(Event::VisitClosed(Box::new(VisitClosed {
            visit_id: visit_id.clone(),
            agent: self.find_agent(visit_id),
            outcome,
            consumed,
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        })));
        self.record_step_compensation(visit_id);
    }

    /// Records how the items of a `foreach` with `total` items ended.
    fn count_items(&mut self, visit_id: &VisitId, total: usize) {
        let step = self.execution.find_step(visit_id.step());
        let counts = step.map_or_else(ItemCounts::default, |(_, step)| step.items.count_ends());
        let total = u32::try_from(total).unwrap_or(u32::MAX);
        let counts = ItemCounts { skipped: total - counts.succeeded - counts.failed, ..counts };
        self.push_event(Event::ItemsCounted { visit_id: visit_id.clone(), counts });
    }

    /// Cancels the attempt of the server or of a child that this visit waits for, if any.
    pub(super) fn cancel_attempt(&mut self, visit_id: &VisitId, visit: &Visit) {
        let Some(awaiting) = visit.awaiting.as_ref().filter(|one| one.is_attempt()) else {
            return;
        };
        let (visit_id, attempt) = (visit_id.clone(), visit.attempt);
        let cancel = Effect::CancelAttempt(AttemptId { visit_id, attempt });
        self.effects.push(cancel);
        // Only after the cancellation: the attempt may be about to begin the child, and is stopped before the order is
        // sent.
        if let WaitCondition::Child { execution_id } = awaiting {
            let what = if self.should_fail_children { OrderKind::Fail } else { OrderKind::Abandon };
            self.push_child_order(execution_id.clone(), what);
        }
    }

    /// The step that a visit executes, and its compiled expressions.
    pub(super) fn find_step_and_expressions(
        &self,
        visit_id: &VisitId,
    ) -> Option<(&'a Step, &'a CompiledStep)> {
        let is_item = visit_id.item.is_some();
        let definition = self.context.definition;
        definition.find_body(visit_id.step.as_ref(), visit_id.body, is_item)
    }

    /// The agent that works in a visit, if the step has one.
    pub(super) fn find_agent(&self, visit_id: &VisitId) -> Option<AgentName> {
        let is_work = visit_id.body == BodyKind::Work;
        let step = is_work.then(|| self.context.definition.step(visit_id.step()))?;
        step?.agent_name().cloned()
    }

    /// Waiting for a model, with a new token.
    pub(super) fn wait_for_new_token(&self) -> WaitCondition {
        WaitCondition::Model(TokenGrant::issue(self.row.at, self.ids))
    }

    /// The number of the visit's current attempt.
    pub(super) fn attempt_number(&self, visit_id: &VisitId) -> u32 {
        let visit = self.execution.find_visit(visit_id);
        visit.map_or(1, |(_, _, visit)| visit.attempt)
    }

    /// Changes what an open visit waits for.
    pub(super) fn change_wait(
        &mut self,
        visit_id: &VisitId,
        attempt: u32,
        awaiting: WaitCondition,
    ) {
        self.push_event(Event::WaitingChanged { visit_id: visit_id.clone(), attempt, awaiting });
    }

    /// Ends an attempt, but not its visit.
    pub(super) fn end_attempt(
        &mut self,
        visit_id: &VisitId,
        attempt: u32,
        failure: Option<Failure>,
        consumed: Option<ConsumedCall>,
        awaiting: WaitCondition,
    ) {
        self.push_event(Event::AttemptEnded(Box::new(AttemptEnded {
            visit_id: visit_id.clone(),
            attempt,
            failure,
            consumed,
            awaiting,
        })));
    }

    /// Records the artifacts in the output of a visit, and the texts that refer to artifacts.
    pub(super) fn store_artifacts(
        &mut self,
        visit_id: &VisitId,
        artifacts: Vec<Artifact>,
        references: Vec<ArtifactReference>,
    ) {
        for artifact in artifacts {
            self.push_event(Event::ArtifactStored {
                visit_id: visit_id.clone(),
                agent: self.find_agent(visit_id),
                artifact: Box::new(artifact),
            });
        }
        for reference in references {
            self.push_event(Event::ArtifactNamed {
                visit_id: visit_id.clone(),
                agent: self.find_agent(visit_id),
                reference,
            });
        }
    }

    /// Voids all open visits.
    pub(super) fn void_all_visits(&mut self) {
        self.void_visits_of_steps(|_| true);
    }

    /// Voids the open visits of the steps for whose position `is_selected` returns true.
    pub(super) fn void_visits_of_steps(&mut self, is_selected: impl Fn(usize) -> bool) {
        let open_visits = self.execution.open_visits().filter(|(at, ..)| is_selected(*at));
        let open_visits: Vec<_> =
            open_visits.map(|(_, step, visit)| (visit.visit_id(&step.id), visit.clone())).collect();
        for (visit_id, visit) in open_visits {
            self.close_visit(&visit_id, &visit, Outcome::Voided, None);
        }
    }

    /// Stores a value of this transition: inline in the event up to [`limits::INLINE_BYTES_MAX`], else by digest.
    pub(super) fn store_value(
        &mut self,
        value: Value,
        bytes_max: usize,
        what: &str,
    ) -> Result<Payload> {
        let (payload, content) = make_payload(&value, bytes_max, what)?;
        self.contents.extend(content);
        self.remember_value(&payload, value);
        Ok(payload)
    }

    /// Like [`Self::store_value`], but by digest even if the value is small. So it can be read without its journal row.
    pub(super) fn store_value_by_digest(
        &mut self,
        value: Value,
        bytes_max: usize,
        what: &str,
    ) -> Result<Payload> {
        let payload = move_to_contents(make_payload(&value, bytes_max, what)?, &mut self.contents);
        self.remember_value(&payload, value);
        Ok(payload)
    }

    /// Remembers a value, so that later parts of this transition find it.
    pub(super) fn remember_value(&mut self, payload: &Payload, value: Value) {
        if payload.bytes <= limits::INLINE_BYTES_MAX as u64 {
            self.inline_digests.insert(payload.digest);
        }
        self.new_values.insert(payload.digest, Arc::new(value));
    }

    /// A value by reference: created in this transition, or looked up before. Else the missing reference.
    pub(super) fn find_value(
        &self,
        need: ValueReference,
    ) -> std::result::Result<Arc<Value>, ValueReference> {
        let value =
            self.new_values.get(&need.digest).or_else(|| self.context.values.get(&need.digest));
        value.cloned().ok_or(need)
    }

    /// Like [`Self::find_value`], but interrupts the decision if the value is missing. For callers that need only one value
    /// at a time.
    pub(super) fn require_value(&self, need: ValueReference) -> DecideResult<Arc<Value>> {
        self.find_value(need).map_err(|need| Interrupt::MissingValues(vec![need]))
    }
}

/// Content that is stored beside the row, with its digest; `None` if the value is inline.
pub(super) type Content = Option<(Digest, Arc<[u8]>)>;

/// The payload of a value for an event, and its content if it is not inline.
pub(super) fn make_payload(
    value: &Value,
    bytes_max: usize,
    what: &str,
) -> Result<(Payload, Content)> {
    if nesting_depth(value) > limits::JSON_DEPTH_MAX {
        let max_depth = limits::JSON_DEPTH_MAX;
        return Err(Error::limit_exceeded(format!(
            "the {what} may be nested {max_depth} levels deep"
        )));
    }
    let document = JsonText::from_value(value);
    let bytes = document.as_str().len();
    if bytes > bytes_max {
        let limit = format!("the {what} may have {bytes_max} bytes");
        let message = format!("the {what} has {bytes} bytes of JSON, the limit is {bytes_max}");
        return Err(Error::limit_exceeded(limit).with_message(message));
    }
    let digest = document.digest();
    let inline = bytes <= limits::INLINE_BYTES_MAX;
    let content = (!inline).then(|| (digest, document.as_str().as_bytes().into()));
    Ok((Payload { digest, bytes: bytes as u64, inline: inline.then_some(document) }, content))
}

/// Moves an inline value of a payload to `contents`, so that it is read by digest, without the journal.
pub(super) fn move_to_contents(
    (payload, content): (Payload, Content),
    contents: &mut Vec<(Digest, Arc<[u8]>)>,
) -> Payload {
    let inline = payload
        .inline
        .as_ref()
        .map(|document| (payload.digest, document.as_str().as_bytes().into()));
    contents.extend(content.or(inline));
    Payload { inline: None, ..payload }
}
