//! The steps of an execution and their visits.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    ConsumedCall, Failure, ItemVisits, Outcome, PauseReason, Payload, Row, ValueReference, VisitId,
    WaitCondition,
};
use crate::{
    clock::Timestamp,
    document::Digest,
    event::{AttemptEnded, BodyKind},
    id::StepId,
    limits,
    state::StepStatus,
    token::TokenGrant,
};

/// One step of an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepState {
    /// Its id.
    pub id: StepId,
    /// Its status.
    pub status: StepStatus,
    /// Its visits, oldest first. Copy-on-write: there may be thousands, and a transition changes few of them.
    pub visits: Vec<Arc<Visit>>,
    /// The items of its latest visit that were opened so far, in the order of the list.
    pub items: ItemVisits,
    /// Calls that ended items of earlier visits: the latest [`limits::PAST_CALLS_MAX`] of them.
    pub past: Vec<RecordedCall>,
    /// How many of its visits came before the last jump back that reset the step.
    pub past_visits: u32,
    /// The visits of its hooks and of its compensation, oldest first: only the latest may be open.
    pub hook_visits: Vec<Arc<Visit>>,
}

/// A call that ended a visit, or an attempt of it. A repeat of the call gets the reply of its revision.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedCall {
    /// The call.
    pub consumed: ConsumedCall,
    /// The revision that the call created.
    pub revision: u64,
    /// Whether its output was accepted.
    pub was_accepted: bool,
}

/// One entry into a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Visit {
    /// The body of the step that was entered: its work, a hook or its compensation.
    pub body: BodyKind,
    /// The number of the visit among those of that body, from 1.
    pub number: u32,
    /// The number of the item, from 0, if it is the visit of an item.
    pub item: Option<u32>,
    /// The number of its current attempt, from 1; 0 while its first attempt is postponed.
    pub attempt: u32,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// The revision that opened it.
    pub opened_revision: u64,
    /// What it waits for; `None` once it is closed.
    pub awaiting: Option<WaitCondition>,
    /// How it ended.
    pub closed: Option<VisitEnd>,
    /// The distinct outputs that broke its schema, over all its attempts, since the last resume that released it.
    pub refused: Vec<Digest>,
    /// Tokens that were replaced or voided, the latest [`limits::SUPERSEDED_TOKENS_MAX`] of them.
    pub superseded: Vec<SupersededToken>,
    /// Its rendered input, stored by digest.
    pub input: Option<Digest>,
    /// Calls that ended earlier attempts of this visit.
    pub ended: Vec<RecordedCall>,
    /// The total length of the execution's pauses when the visit was opened, in milliseconds.
    pub paused_ms: u64,
    /// The number of attempts that failed in a row, up to the latest.
    pub failures: u32,
    /// The number of successful attempts that are repeated because `until` did not hold yet.
    pub repeats: u32,
}

/// A token that was replaced or voided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SupersededToken {
    /// The token.
    pub grant: TokenGrant,
    /// The revision that replaced or voided it.
    pub revision: u64,
}

/// The end of a visit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VisitEnd {
    /// When.
    pub at: Timestamp,
    /// The revision that closed it.
    pub revision: u64,
    /// The call that closed it, if a call did.
    pub consumed: Option<ConsumedCall>,
    /// The digest of its output, if it has one.
    pub output: Option<Digest>,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}

impl StepState {
    /// A step that was never entered.
    pub fn pending(id: StepId) -> Self {
        Self {
            id,
            status: StepStatus::Pending,
            visits: Vec::new(),
            items: ItemVisits::default(),
            past: Vec::new(),
            past_visits: 0,
            hook_visits: Vec::new(),
        }
    }

    /// The open visit of one of its hooks or of its compensation.
    pub(super) fn open_hook_visit(&self) -> Option<&Visit> {
        let latest = self.hook_visits.last().map(|visit| &**visit);
        latest.filter(|visit| visit.awaiting.is_some())
    }

    /// The visit of this step with this id.
    pub(super) fn find_visit(&self, visit_id: &VisitId) -> Option<&Visit> {
        let is_same_visit = |visit: &&Visit| visit.has_id(visit_id);
        let visits = match (visit_id.body, visit_id.item) {
            (BodyKind::Work, None) => &self.visits,
            (BodyKind::Work, Some(item)) => return self.items.get(item).filter(is_same_visit),
            _ => &self.hook_visits,
        };
        let mut newest_first = visits.iter().rev().map(|visit| &**visit);
        newest_first.find(is_same_visit)
    }

    /// Its visits since the last jump back that reset it.
    pub fn visits_since_reset(&self) -> &[Arc<Visit>] {
        let reset_count = self.past_visits as usize;
        self.visits.get(reset_count..).unwrap_or_default()
    }

    pub(super) fn reset(&mut self) {
        self.status = StepStatus::Pending;
        self.past_visits = u32::try_from(self.visits.len()).unwrap_or(u32::MAX);
    }

    /// Removes the items before a new visit, and keeps the latest calls that ended them.
    pub(super) fn clear_items(&mut self) {
        let items = std::mem::take(&mut self.items);
        self.collect_superseded_tokens(&items);
        let recorded_calls = items.iter().filter_map(|item| item.closed.as_ref()?.recorded_call());
        self.past.extend(recorded_calls);
        self.past.sort_by_key(|past| past.revision);
        let excess_count = self.past.len().saturating_sub(limits::PAST_CALLS_MAX);
        self.past.drain(..excess_count);
    }

    /// Moves the superseded tokens of the items to the visit of their step, which has none of its own, together with
    /// those that the visit before had collected: the latest [`limits::PAST_CALLS_MAX`].
    fn collect_superseded_tokens(&mut self, items: &ItemVisits) {
        let Some((last, previous_visits)) =
            self.visits.split_last_mut().filter(|_| !items.is_empty())
        else {
            return;
        };
        let previous = previous_visits.last_mut().map(Arc::make_mut);
        let mut retired =
            previous.map_or_else(Vec::new, |visit| std::mem::take(&mut visit.superseded));
        retired.extend(items.iter().flat_map(|item| &item.superseded));
        retired.sort_by_key(|retired| retired.revision);
        retired.drain(..retired.len().saturating_sub(limits::PAST_CALLS_MAX));
        Arc::make_mut(last).superseded = retired;
    }

    /// The id of the next visit of its work.
    pub(super) fn next_visit_id(&self) -> VisitId {
        let number = self.latest_visit().map_or(1, |visit| visit.number + 1);
        VisitId::for_step_work(self.id.clone(), number, None)
    }

    /// Its latest visit.
    pub fn latest_visit(&self) -> Option<&Visit> {
        self.visits.last().map(|visit| &**visit)
    }

    /// The failure of its latest visit.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.latest_visit()?.closed.as_ref()?.failure.as_ref()
    }

    pub(super) fn update_visit(&mut self, visit_id: &VisitId, change: impl FnOnce(&mut Visit)) {
        let visits = match (visit_id.body, visit_id.item) {
            (BodyKind::Work, None) => &mut self.visits,
            (BodyKind::Work, Some(item)) => {
                if self.items.get(item).is_some_and(|visit| visit.has_id(visit_id)) {
                    self.items.update_item(item, change);
                }
                return;
            }
            _ => &mut self.hook_visits,
        };
        let mut newest_first = visits.iter_mut().rev();
        if let Some(visit) = newest_first.find(|visit| visit.has_id(visit_id)) {
            change(Arc::make_mut(visit));
        }
    }
}

impl VisitEnd {
    /// A reference to the output of the visit, if it has one.
    pub(crate) fn output_reference(&self) -> Option<ValueReference> {
        Some(ValueReference { digest: self.output?, revision: Some(self.revision) })
    }

    /// The call that ended the visit, if a call did.
    pub(super) fn recorded_call(&self) -> Option<RecordedCall> {
        Some(RecordedCall {
            consumed: self.consumed?,
            revision: self.revision,
            was_accepted: self.output.is_some(),
        })
    }
}

impl Outcome {
    pub(super) const fn status(&self) -> StepStatus {
        match self {
            Self::Completed(_) => StepStatus::Completed,
            Self::Failed(_) => StepStatus::Failed,
            Self::Voided => StepStatus::Skipped,
        }
    }
}

impl Visit {
    pub(super) fn open(row: &Row, visit_id: &VisitId, awaiting: Option<WaitCondition>) -> Self {
        Self {
            body: visit_id.body,
            number: visit_id.visit,
            item: visit_id.item,
            attempt: 1,
            opened_at: row.at,
            opened_revision: row.revision,
            awaiting,
            closed: None,
            refused: Vec::new(),
            superseded: Vec::new(),
            input: None,
            ended: Vec::new(),
            paused_ms: 0,
            failures: 0,
            repeats: 0,
        }
    }

    /// How many items it has, if it is an open visit of a `foreach`.
    pub fn items_total(&self) -> Option<usize> {
        match self.awaiting {
            Some(WaitCondition::Items { total, .. }) => usize::try_from(total).ok(),
            _ => None,
        }
    }

    /// The id of this visit, which belongs to `step`.
    pub fn visit_id(&self, step: &StepId) -> VisitId {
        VisitId {
            step: (step != StepId::workflow_pseudo_step()).then(|| step.clone()),
            body: self.body,
            visit: self.number,
            item: self.item,
        }
    }

    /// Whether `id` names this visit among those of its step.
    pub(super) fn has_id(&self, id: &VisitId) -> bool {
        (self.body, self.number, self.item) == (id.body, id.visit, id.item)
    }

    pub(super) fn was_opened_in_revision(&self, revision: u64) -> bool {
        self.opened_revision == revision
    }

    /// The live token, if it waits for a model.
    pub const fn live_token(&self) -> Option<TokenGrant> {
        match self.awaiting {
            Some(WaitCondition::Model(grant)) => Some(grant),
            _ => None,
        }
    }

    /// The token that was handed out last, even if the visit is held and does not accept it.
    pub(super) const fn last_token(&self) -> Option<TokenGrant> {
        match self.awaiting {
            Some(WaitCondition::Model(grant) | WaitCondition::OutputInvalid(grant)) => Some(grant),
            _ => None,
        }
    }

    /// Whether a token was ever handed out for it.
    pub(super) fn had_token(&self) -> bool {
        let was_consumed = self.closed.as_ref().is_some_and(|closed| closed.consumed.is_some());
        self.last_token().is_some()
            || was_consumed
            || !(self.superseded.is_empty() && self.ended.is_empty() && self.refused.is_empty())
    }

    /// Whether it waits for a resume, because too many of its outputs broke its schema.
    pub const fn is_held(&self) -> bool {
        matches!(self.awaiting, Some(WaitCondition::OutputInvalid(_)))
    }

    /// The pause reason if only a person or a resume can move this visit. The execution pauses when all open visits
    /// have one.
    pub(super) const fn pause_reason(&self) -> Option<PauseReason> {
        match self.awaiting {
            Some(WaitCondition::Gate { .. }) => Some(PauseReason::Gate),
            Some(WaitCondition::OutputInvalid(_)) => Some(PauseReason::OutputInvalid),
            Some(WaitCondition::Catalog { .. }) => Some(PauseReason::CatalogMissing),
            _ => None,
        }
    }

    pub(super) fn close(&mut self, row: &Row, outcome: &Outcome, consumed: Option<ConsumedCall>) {
        if consumed.is_none() {
            self.retire_token(row.revision);
        }
        self.awaiting = None;
        self.closed = Some(VisitEnd {
            at: row.at,
            revision: row.revision,
            consumed,
            output: match outcome {
                Outcome::Completed(Payload { digest, .. }) => Some(*digest),
                Outcome::Failed(_) | Outcome::Voided => None,
            },
            failure: match outcome {
                Outcome::Failed(failure) => Some(failure.clone()),
                Outcome::Completed(_) | Outcome::Voided => None,
            },
        });
    }

    /// Ends an attempt, but not the visit.
    pub(super) fn end_attempt(&mut self, revision: u64, ended: &AttemptEnded) {
        match ended.consumed {
            Some(consumed) => self.ended.push(RecordedCall {
                consumed,
                revision,
                // A repeat of this call is replayed, without checking its output again.
                was_accepted: true,
            }),
            None => self.retire_token(revision),
        }
        // An attempt that was cut off and is repeated is not counted as a failure, and one that brought a page of a list
        // is not counted as a repeat: both are followed by the next attempt at once.
        let is_continued = matches!(ended.awaiting, WaitCondition::Operation { .. });
        // The answer to a question leads to another question, under a new token.
        let is_question = matches!(ended.awaiting, WaitCondition::Model(_));
        if ended.failure.is_some() {
            self.failures += u32::from(!is_continued);
        } else if !is_question {
            (self.failures, self.repeats) = (0, self.repeats + u32::from(!is_continued));
        }
        self.awaiting = Some(ended.awaiting.clone());
    }

    /// Changes what it waits for. A visit that was held starts over with its count of malformed outputs.
    pub(super) fn change_wait(&mut self, attempt: u32, awaiting: &WaitCondition) {
        if self.is_held() {
            self.refused.clear();
        }
        self.attempt = attempt;
        self.awaiting = Some(awaiting.clone());
    }

    pub(super) fn retire_token(&mut self, revision: u64) {
        if let Some(grant) = self.last_token() {
            if self.superseded.len() == limits::SUPERSEDED_TOKENS_MAX {
                self.superseded.remove(0);
            }
            self.superseded.push(SupersededToken { grant, revision });
        }
    }
}
