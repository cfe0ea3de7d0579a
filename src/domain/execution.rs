//! An execution: its state, what it would do at a command ([`Execution::decide`]), and how events make
//! its next state ([`Execution::advance`]).
//!
//! Nothing here reads a clock, draws randomness, waits or fails for reasons outside its arguments.

mod advance;
mod decide;
mod draft;
mod lifecycle;
mod state;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::{
    decide::{Command, Decision, Facts, Report, Start, Transition},
    lifecycle::{Change, Lifecycle},
    state::State,
};
use super::{
    document::Digest,
    event::{Awaiting, Event, Failure, JournalKey, Outcome, PauseReason, Payload, Row, Spent},
    id::{ExecutionId, StepId, WorkflowName},
    token::Grant,
};
use crate::{clock::Timestamp, limits};

/// An execution as it stands after its last transition.
///
/// Invariant: it is what [`Execution::advance`] makes of its journal rows, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    pub(super) id: ExecutionId,
    pub(super) workflow: WorkflowName,
    pub(super) definition: Digest,
    pub(super) project: Option<Arc<str>>,
    pub(super) inputs: Option<Digest>,
    pub(super) call: Digest,
    pub(super) state: State,
    pub(super) revision: u64,
    pub(super) started_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) completed_at: Option<Timestamp>,
    pub(super) failure: Option<Failure>,
    /// The key of its last journal row; `None` only until its first row is stored.
    pub(super) row: Option<JournalKey>,
    /// Each step is shared with the predecessor until it changes.
    pub(super) steps: Vec<Arc<StepState>>,
    // What follows was added in the second version of the stored form, each empty where a state of the
    // first is read (`store/record`).
    /// What keeps it from going on: a set, in order.
    pub(super) pauses: Vec<PauseReason>,
    /// Why its state was last changed, in somebody's words.
    pub(super) reason: Option<String>,
    /// How many artifacts it has.
    pub(super) artifacts: u32,
}

/// One step of an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepState {
    /// Its id.
    pub id: StepId,
    /// Where it stands.
    pub status: StepStatus,
    /// Its visits, oldest first.
    pub visits: Vec<Visit>,
}

/// Where a step stands (S0, and `skipped`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not entered yet.
    Pending,
    /// Entered; its token is out.
    Running,
    /// Done, with an output.
    Completed,
    /// Ended without an output.
    Failed,
    /// Passed by, or open when the execution ended.
    Skipped,
}

impl StepStatus {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// One entry into a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Visit {
    /// Counts the visits of the step, from 1.
    pub number: u32,
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
    /// Distinct outputs that its schema refused.
    pub refused: Vec<Digest>,
    /// Tokens that were replaced or voided, the latest [`limits::SUPERSEDED_TOKENS_MAX`] of them.
    pub superseded: Vec<Retired>,
}

/// A token that was replaced or voided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retired {
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
    /// The journal row of that revision; `None` only until that row is stored.
    pub row: Option<JournalKey>,
    /// The call that closed it, where one did.
    pub spent: Option<Spent>,
    /// The digest of its output, where it has one.
    pub output: Option<Digest>,
}

impl Execution {
    /// Its id.
    pub fn id(&self) -> &ExecutionId {
        &self.id
    }

    /// The name of its workflow.
    pub fn workflow(&self) -> &WorkflowName {
        &self.workflow
    }

    /// The digest of the definition it keeps.
    pub fn definition(&self) -> Digest {
        self.definition
    }

    /// The project it was started for.
    pub fn project(&self) -> Option<&str> {
        self.project.as_deref()
    }

    /// The digest of the inputs it was started with.
    pub fn inputs(&self) -> Option<Digest> {
        self.inputs
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// The number of its last transition, from 1.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// When it was started.
    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// When it last moved.
    pub fn updated_at(&self) -> Timestamp {
        self.updated_at
    }

    /// When it ended.
    pub fn completed_at(&self) -> Option<Timestamp> {
        self.completed_at
    }

    /// Why it failed.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// What keeps it from going on: empty unless it is paused.
    pub fn pauses(&self) -> &[PauseReason] {
        &self.pauses
    }

    /// Why its state was last changed, in the words of whoever asked for it.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// How many artifacts it has.
    pub fn artifacts(&self) -> u32 {
        self.artifacts
    }

    /// Its steps, in authoring order.
    pub fn steps(&self) -> &[Arc<StepState>] {
        &self.steps
    }

    /// The key of its last journal row.
    pub fn row(&self) -> Option<JournalKey> {
        self.row
    }

    /// The step with this id and its position.
    pub fn step(&self, id: &StepId) -> Option<(usize, &StepState)> {
        self.steps
            .iter()
            .enumerate()
            .find(|(_, step)| step.id == *id)
            .map(|(at, step)| (at, &**step))
    }

    /// The open visits, in authoring order.
    pub fn open(&self) -> impl Iterator<Item = (usize, &StepState, &Visit)> {
        self.steps.iter().enumerate().filter_map(|(at, step)| {
            let visit = step
                .visits
                .last()
                .filter(|visit| visit.awaiting.is_some())?;
            Some((at, &**step, visit))
        })
    }

    /// The state that `rows`, oldest first, rebuild; `None` for no rows or a first row that creates nothing.
    pub fn replay<'a>(rows: impl IntoIterator<Item = (JournalKey, &'a Row)>) -> Option<Self> {
        let mut execution = None;
        for (key, row) in rows {
            execution = Self::advance(execution, row);
            execution.as_mut()?.settle(key);
        }
        execution
    }

    /// The state after `row`, whose journal key is not known yet.
    pub fn advance(before: Option<Self>, row: &Row) -> Option<Self> {
        let mut execution = before.or_else(|| Self::create(row))?;
        execution.revision = row.revision;
        execution.updated_at = row.at;
        for event in &row.events {
            execution.apply(row, event);
        }
        Some(execution)
    }

    /// Records the key under which the row of the present revision was stored.
    pub fn settle(&mut self, key: JournalKey) {
        self.row = Some(key);
        let revision = self.revision;
        for step in &mut self.steps {
            let unsettled = |visit: &Visit| {
                visit
                    .closed
                    .as_ref()
                    .is_some_and(|closed| closed.revision == revision && closed.row.is_none())
            };
            if step.visits.last().is_some_and(unsettled)
                && let Some(closed) = Arc::make_mut(step)
                    .visits
                    .last_mut()
                    .and_then(|visit| visit.closed.as_mut())
            {
                closed.row = Some(key);
            }
        }
    }

    fn create(row: &Row) -> Option<Self> {
        let Some(Event::Created(created)) = row.events.first() else {
            return None;
        };
        let pending = |id: &StepId| {
            Arc::new(StepState {
                id: id.clone(),
                status: StepStatus::Pending,
                visits: Vec::new(),
            })
        };
        Some(Self {
            id: row.execution_id.clone(),
            workflow: created.workflow.clone(),
            definition: created.definition,
            project: created.project.as_deref().map(Into::into),
            inputs: created.inputs.as_ref().map(|payload| payload.digest),
            call: created.call,
            state: State::Idle,
            revision: 0,
            started_at: row.at,
            updated_at: row.at,
            completed_at: None,
            failure: None,
            row: None,
            steps: created.steps.iter().map(pending).collect(),
            pauses: Vec::new(),
            reason: None,
            artifacts: 0,
        })
    }

    fn apply(&mut self, row: &Row, event: &Event) {
        match event {
            Event::Created(_) => {}
            Event::StateChanged { to, failure, .. } => {
                self.state = *to;
                self.failure.clone_from(failure);
                self.completed_at = to.is_final().then_some(row.at);
                self.reason = None;
                if to.is_final() {
                    self.pauses.clear();
                }
            }
            Event::PauseAdded { reason } => {
                if let Err(at) = self.pauses.binary_search(reason) {
                    self.pauses.insert(at, *reason);
                }
            }
            Event::PauseLifted { reason } => self.pauses.retain(|pause| pause != reason),
            Event::ReasonGiven { text } => self.reason = Some(text.clone()),
            Event::ArtifactStored { artifact, .. } => self.artifacts = artifact.id,
            Event::VisitOpened {
                step,
                visit,
                attempt,
                awaiting,
                ..
            } => self.change(step, |state| {
                state.status = StepStatus::Running;
                state.visits.push(Visit {
                    number: *visit,
                    attempt: *attempt,
                    opened_at: row.at,
                    opened_revision: row.revision,
                    awaiting: Some(awaiting.clone()),
                    closed: None,
                    refused: Vec::new(),
                    superseded: Vec::new(),
                });
            }),
            Event::VisitClosed {
                step,
                visit,
                outcome,
                spent,
                ..
            } => self.change(step, |state| {
                state.status = match outcome {
                    Outcome::Completed(_) => StepStatus::Completed,
                    Outcome::Failed(_) => StepStatus::Failed,
                    Outcome::Voided => StepStatus::Skipped,
                };
                state.visit_mut(*visit, |visit| visit.close(row, outcome, *spent));
            }),
            Event::OutputRefused {
                step,
                visit,
                output,
            } => self.change(step, |state| {
                state.visit_mut(*visit, |visit| visit.refused.push(*output));
            }),
            Event::TokenRenewed { step, visit, grant } => self.change(step, |state| {
                state.visit_mut(*visit, |visit| {
                    visit.retire_token(row.revision);
                    visit.awaiting = Some(Awaiting::Model(*grant));
                });
            }),
        }
    }

    fn change(&mut self, id: &StepId, change: impl FnOnce(&mut StepState)) {
        if let Some(step) = self.steps.iter_mut().find(|step| step.id == *id) {
            change(Arc::make_mut(step));
        }
    }
}

impl StepState {
    /// Its latest visit.
    pub fn visit(&self) -> Option<&Visit> {
        self.visits.last()
    }

    fn visit_mut(&mut self, number: u32, change: impl FnOnce(&mut Visit)) {
        if let Some(visit) = self
            .visits
            .iter_mut()
            .rev()
            .find(|visit| visit.number == number)
        {
            change(visit);
        }
    }
}

impl Visit {
    /// The token that was live right after `revision`; `None` where the visit was not open then.
    pub fn token_at(&self, revision: u64) -> Option<Grant> {
        let open = self.opened_revision <= revision
            && self
                .closed
                .as_ref()
                .is_none_or(|closed| closed.revision > revision);
        let retired = self
            .superseded
            .iter()
            .find(|retired| retired.revision > revision);
        let retired = retired.map(|retired| retired.grant);
        let live = self.awaiting.as_ref().map(|Awaiting::Model(grant)| *grant);
        let spent = self
            .closed
            .as_ref()
            .and_then(|closed| closed.spent)
            .map(|spent| spent.grant);
        retired.or(live).or(spent).filter(|_| open)
    }

    fn close(&mut self, row: &Row, outcome: &Outcome, spent: Option<Spent>) {
        if spent.is_none() {
            self.retire_token(row.revision);
        }
        self.awaiting = None;
        self.closed = Some(Closed {
            at: row.at,
            revision: row.revision,
            row: None,
            spent,
            output: match outcome {
                Outcome::Completed(Payload { digest, .. }) => Some(*digest),
                Outcome::Failed(_) | Outcome::Voided => None,
            },
        });
    }

    fn retire_token(&mut self, revision: u64) {
        if let Some(Awaiting::Model(grant)) = self.awaiting {
            if self.superseded.len() == limits::SUPERSEDED_TOKENS_MAX {
                self.superseded.remove(0);
            }
            self.superseded.push(Retired { grant, revision });
        }
    }
}
