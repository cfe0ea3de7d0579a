//! The steps of an execution and their visits.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    Awaiting, ConsumedCall, Failure, Items, Need, Outcome, PauseReason, Payload, Row, VisitId,
};
use crate::{
    clock::Timestamp,
    document::Digest,
    event::{AttemptEnded, Body},
    id::StepId,
    limits,
    state::StepStatus,
    token::Grant,
};

/// One step of an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepState {
    /// Its id.
    pub id: StepId,
    /// Where it stands.
    pub status: StepStatus,
    /// Its visits, oldest first; each is shared with the predecessor until it changes, for there may be thousands.
    pub visits: Vec<Arc<Visit>>,
    /// The items of its latest visit, in the order of the list, as far as they were opened.
    pub items: Items,
    /// Calls that ended items of visits before, the latest [`limits::PAST_CALLS_MAX`] of them.
    pub past: Vec<RecordedCall>,
    /// How many of its visits are those of an earlier round: control went back past the step.
    pub past_visits: u32,
    /// The visits of its hooks and of its compensation, oldest first: only the latest may be open.
    pub beside: Vec<Arc<Visit>>,
}

/// A call that ended a visit, or an attempt of it: a repeat is answered as its revision answered it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedCall {
    /// The call.
    pub consumed: ConsumedCall,
    /// The revision that it made.
    pub revision: u64,
    /// Whether it brought an output that was accepted.
    pub was_accepted: bool,
}

/// One entry into a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Visit {
    /// What of the step was entered.
    pub body: Body,
    /// Counts the visits of that body, from 1.
    pub number: u32,
    /// Which item of a `foreach`, from 0.
    pub item: Option<u32>,
    /// Counts the attempts of this visit, from 1.
    pub attempt: u32,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// The revision that opened it.
    pub opened_revision: u64,
    /// What it waits for; `None` once it is closed.
    pub awaiting: Option<Awaiting>,
    /// How it ended.
    pub closed: Option<Closed>,
    /// Distinct outputs that broke its schema, over all its attempts, since a resume last let it go on.
    pub refused: Vec<Digest>,
    /// Tokens that were replaced or voided, the latest [`limits::SUPERSEDED_TOKENS_MAX`] of them.
    pub superseded: Vec<SupersededToken>,
    /// What it works on, rendered and stored by digest.
    pub input: Option<Digest>,
    /// Calls that ended earlier attempts of this visit.
    pub ended: Vec<RecordedCall>,
    /// How long the execution had been paused when it was opened, in milliseconds.
    pub paused_ms: u64,
    /// Attempts that failed since the last one that did not.
    pub failures: u32,
    /// Attempts that came to something and are repeated until something holds.
    pub repeats: u32,
}

/// A token that was replaced or voided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SupersededToken {
    /// The token.
    pub grant: Grant,
    /// The revision that did so.
    pub revision: u64,
}

/// The end of a visit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Closed {
    /// When.
    pub at: Timestamp,
    /// The revision that closed it.
    pub revision: u64,
    /// The call that closed it, where one did.
    pub consumed: Option<ConsumedCall>,
    /// The digest of its output, where it has one.
    pub output: Option<Digest>,
    /// Why it failed, where it did.
    pub failure: Option<Failure>,
}

impl StepState {
    /// A step that was never entered.
    pub fn pending(id: StepId) -> Self {
        Self {
            id,
            status: StepStatus::Pending,
            visits: Vec::new(),
            items: Items::default(),
            past: Vec::new(),
            past_visits: 0,
            beside: Vec::new(),
        }
    }

    /// The open visit of a hook, or of its compensation.
    pub(super) fn beside(&self) -> Option<&Visit> {
        let latest = self.beside.last().map(|visit| &**visit);
        latest.filter(|visit| visit.awaiting.is_some())
    }

    /// The visit that is meant, where there is one.
    pub(super) fn visit_of(&self, visit_id: &VisitId) -> Option<&Visit> {
        let is_meant = |visit: &&Visit| visit.is(visit_id);
        let visits = match (visit_id.body, visit_id.item) {
            (Body::Work, None) => &self.visits,
            (Body::Work, Some(item)) => return self.items.get(item).filter(is_meant),
            _ => &self.beside,
        };
        let mut newest_first = visits.iter().rev().map(|visit| &**visit);
        newest_first.find(is_meant)
    }

    /// Its visits of the present round.
    pub fn round(&self) -> &[Arc<Visit>] {
        let past = self.past_visits as usize;
        self.visits.get(past..).unwrap_or_default()
    }

    pub(super) fn reset(&mut self) {
        self.status = StepStatus::Pending;
        self.past_visits = u32::try_from(self.visits.len()).unwrap_or(u32::MAX);
    }

    /// The items make room for those of another visit; of the calls that ended them the latest are remembered.
    pub(super) fn clear_items(&mut self) {
        let items = std::mem::take(&mut self.items);
        self.keep_retired(&items);
        let past = items.iter().filter_map(|item| item.closed.as_ref()?.call());
        self.past.extend(past);
        self.past.sort_by_key(|past| past.revision);
        let too_many = self.past.len().saturating_sub(limits::PAST_CALLS_MAX);
        self.past.drain(..too_many);
    }

    /// Tokens of items that were taken back go to the visit of their step, which has none of its own, with those of the visit
    /// before it: the latest [`limits::PAST_CALLS_MAX`].
    fn keep_retired(&mut self, items: &Items) {
        let Some((last, before)) = self.visits.split_last_mut().filter(|_| !items.is_empty())
        else {
            return;
        };
        let before = before.last_mut().map(Arc::make_mut);
        let mut retired =
            before.map_or_else(Vec::new, |visit| std::mem::take(&mut visit.superseded));
        retired.extend(items.iter().flat_map(|item| &item.superseded));
        retired.sort_by_key(|retired| retired.revision);
        retired.drain(..retired.len().saturating_sub(limits::PAST_CALLS_MAX));
        Arc::make_mut(last).superseded = retired;
    }

    /// The next visit of its work.
    pub(super) fn next_visit(&self) -> VisitId {
        let number = self.visit().map_or(1, |visit| visit.number + 1);
        VisitId::of_work(self.id.clone(), number, None)
    }

    /// Its latest visit.
    pub fn visit(&self) -> Option<&Visit> {
        self.visits.last().map(|visit| &**visit)
    }

    /// What its latest visit failed with.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.visit()?.closed.as_ref()?.failure.as_ref()
    }

    pub(super) fn visit_mut(&mut self, visit_id: &VisitId, change: impl FnOnce(&mut Visit)) {
        let visits = match (visit_id.body, visit_id.item) {
            (Body::Work, None) => &mut self.visits,
            (Body::Work, Some(item)) => {
                if self.items.get(item).is_some_and(|visit| visit.is(visit_id)) {
                    self.items.change(item, change);
                }
                return;
            }
            _ => &mut self.beside,
        };
        let mut newest_first = visits.iter_mut().rev();
        if let Some(visit) = newest_first.find(|visit| visit.is(visit_id)) {
            change(Arc::make_mut(visit));
        }
    }
}

impl Closed {
    /// Where the output of the visit lies, where it has one.
    pub(super) fn need(&self) -> Option<Need> {
        Some(Need {
            digest: self.output?,
            revision: Some(self.revision),
        })
    }

    /// The call that ended the visit, where one did.
    pub(super) fn call(&self) -> Option<RecordedCall> {
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
    pub(super) fn open(row: &Row, visit_id: &VisitId, awaiting: Option<Awaiting>) -> Self {
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

    /// How many items it has, where it is that of a fan-out and open.
    pub fn items_total(&self) -> Option<usize> {
        match self.awaiting {
            Some(Awaiting::Items { total, .. }) => usize::try_from(total).ok(),
            _ => None,
        }
    }

    /// Which visit it is, of this step.
    pub fn visit_id(&self, step: &StepId) -> VisitId {
        VisitId {
            step: (step != StepId::of_workflow()).then(|| step.clone()),
            body: self.body,
            visit: self.number,
            item: self.item,
        }
    }

    /// Whether it is the visit of its step that is meant.
    pub(super) fn is(&self, id: &VisitId) -> bool {
        (self.body, self.number, self.item) == (id.body, id.visit, id.item)
    }

    pub(super) fn is_of(&self, revision: u64) -> bool {
        self.opened_revision == revision
    }

    /// The live token, where a model is waited for.
    pub const fn grant(&self) -> Option<Grant> {
        match self.awaiting {
            Some(Awaiting::Model(grant)) => Some(grant),
            _ => None,
        }
    }

    /// The token that is out, though it counts for nothing while the visit is held.
    pub(super) const fn token(&self) -> Option<Grant> {
        match self.awaiting {
            Some(Awaiting::Model(grant) | Awaiting::OutputInvalid(grant)) => Some(grant),
            _ => None,
        }
    }

    /// Whether it waits for a resume, because too many of its outputs broke its schema.
    pub const fn is_held(&self) -> bool {
        matches!(self.awaiting, Some(Awaiting::OutputInvalid(_)))
    }

    /// What the execution pauses for where nothing is open but such visits: nobody but a person, or whoever resumes it, can
    /// make this one go on.
    pub(super) const fn pauses_for(&self) -> Option<PauseReason> {
        match self.awaiting {
            Some(Awaiting::Gate { .. }) => Some(PauseReason::Gate),
            Some(Awaiting::OutputInvalid(_)) => Some(PauseReason::OutputInvalid),
            Some(Awaiting::Catalog { .. }) => Some(PauseReason::CatalogMissing),
            _ => None,
        }
    }

    pub(super) fn close(&mut self, row: &Row, outcome: &Outcome, consumed: Option<ConsumedCall>) {
        if consumed.is_none() {
            self.retire_token(row.revision);
        }
        self.awaiting = None;
        self.closed = Some(Closed {
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

    /// An attempt ended, and the visit goes on.
    pub(super) fn end_attempt(&mut self, revision: u64, ended: &AttemptEnded) {
        match ended.consumed {
            Some(consumed) => self.ended.push(RecordedCall {
                consumed,
                revision,
                // The visit goes on with what it brought.
                was_accepted: true,
            }),
            None => self.retire_token(revision),
        }
        if ended.failure.is_some() {
            self.failures += 1;
        } else if ended.consumed.is_none() {
            // A page of a list is followed by the next one, and only what waits is repeated.
            let is_repeated = !matches!(ended.awaiting, Awaiting::Operation { .. });
            (self.failures, self.repeats) = (0, self.repeats + u32::from(is_repeated));
        }
        self.awaiting = Some(ended.awaiting.clone());
    }

    /// It waits for something else. One that was held may bring as many malformed outputs again.
    pub(super) fn wait_for(&mut self, attempt: u32, awaiting: &Awaiting) {
        if self.is_held() {
            self.refused.clear();
        }
        self.attempt = attempt;
        self.awaiting = Some(awaiting.clone());
    }

    pub(super) fn retire_token(&mut self, revision: u64) {
        if let Some(grant) = self.token() {
            if self.superseded.len() == limits::SUPERSEDED_TOKENS_MAX {
                self.superseded.remove(0);
            }
            self.superseded.push(SupersededToken { grant, revision });
        }
    }
}
