//! Executions and journal rows as the second version of the stored form had them. They are read, never written.

use std::{collections::BTreeMap, sync::Arc};

use serde::Deserialize;

use super::{
    Awaiting, Closed, Event, Execution, Failure, JournalKey, Outcome, PauseReason, Retired, Row,
    Site, Spent, State, StepState, StepStatus, Visit,
};
use crate::{
    clock::Timestamp,
    domain::{
        artifact::Artifact,
        document::Digest,
        event::{Created, VisitClosed, VisitOpened},
        id::{AgentName, ExecutionId, StepId, WorkflowName},
        token::Grant,
    },
};

/// An execution of the second version.
#[derive(Debug, Deserialize)]
pub struct EarlierExecution {
    id: ExecutionId,
    workflow: WorkflowName,
    definition: Digest,
    project: Option<Arc<str>>,
    inputs: Option<Digest>,
    call: Digest,
    state: State,
    revision: u64,
    started_at: Timestamp,
    updated_at: Timestamp,
    completed_at: Option<Timestamp>,
    failure: Option<Failure>,
    row: Option<JournalKey>,
    steps: Vec<EarlierStep>,
    pauses: Vec<PauseReason>,
    reason: Option<String>,
    artifacts: u32,
}

#[derive(Debug, Deserialize)]
struct EarlierStep {
    id: StepId,
    status: StepStatus,
    visits: Vec<EarlierVisit>,
}

#[derive(Debug, Deserialize)]
struct EarlierVisit {
    number: u32,
    attempt: u32,
    opened_at: Timestamp,
    opened_revision: u64,
    awaiting: Option<Awaiting>,
    closed: Option<EarlierClosed>,
    refused: Vec<Digest>,
    superseded: Vec<Retired>,
}

#[derive(Debug, Deserialize)]
struct EarlierClosed {
    at: Timestamp,
    revision: u64,
    row: Option<JournalKey>,
    spent: Option<Spent>,
    output: Option<Digest>,
}

/// A journal row of the second version.
#[derive(Debug, Deserialize)]
pub struct EarlierRow {
    execution_id: ExecutionId,
    revision: u64,
    at: Timestamp,
    previous: Option<JournalKey>,
    events: Vec<EarlierEvent>,
}

#[derive(Debug, Deserialize)]
enum EarlierEvent {
    Created(Box<Created>),
    StateChanged {
        from: State,
        to: State,
        failure: Option<Failure>,
        steps_total: u32,
    },
    VisitOpened {
        step: StepId,
        visit: u32,
        #[expect(dead_code, reason = "it was always the first one")]
        attempt: u32,
        agent: Option<AgentName>,
        awaiting: Awaiting,
    },
    VisitClosed {
        step: StepId,
        visit: u32,
        agent: Option<AgentName>,
        outcome: Outcome,
        spent: Option<Spent>,
        duration_ms: u64,
    },
    OutputRefused {
        step: StepId,
        visit: u32,
        output: Digest,
    },
    TokenRenewed {
        step: StepId,
        visit: u32,
        grant: Grant,
    },
    PauseAdded {
        reason: PauseReason,
    },
    PauseLifted {
        reason: PauseReason,
    },
    ReasonGiven {
        text: String,
    },
    ArtifactStored {
        step: StepId,
        visit: u32,
        agent: Option<AgentName>,
        artifact: Box<Artifact>,
    },
}

impl From<EarlierExecution> for Execution {
    fn from(earlier: EarlierExecution) -> Self {
        let steps: Vec<_> = earlier.steps.into_iter().map(StepState::from).collect();
        let visits = steps.iter().map(|step| step.visits.len()).sum::<usize>();
        Self {
            id: earlier.id,
            workflow: earlier.workflow,
            definition: earlier.definition,
            project: earlier.project,
            inputs: earlier.inputs,
            call: earlier.call,
            state: earlier.state,
            revision: earlier.revision,
            started_at: earlier.started_at,
            updated_at: earlier.updated_at,
            completed_at: earlier.completed_at,
            failure: earlier.failure,
            row: earlier.row,
            steps: steps.into_iter().map(Arc::new).collect(),
            pauses: earlier.pauses,
            reason: earlier.reason,
            artifacts: earlier.artifacts,
            memory: BTreeMap::new(),
            signals: Vec::new(),
            failing: None,
            final_output: None,
            visits: u32::try_from(visits).unwrap_or(u32::MAX),
            // It had no time limit that a pause would hold up.
            paused_at: (earlier.state == State::Paused).then_some(earlier.updated_at),
            paused_ms: 0,
            given: earlier.inputs,
        }
    }
}

impl From<EarlierStep> for StepState {
    fn from(earlier: EarlierStep) -> Self {
        Self {
            id: earlier.id,
            status: earlier.status,
            visits: earlier
                .visits
                .into_iter()
                .map(|visit| Arc::new(visit.into()))
                .collect(),
            items: Vec::new(),
            past: Vec::new(),
            stale: None,
        }
    }
}

impl From<EarlierVisit> for Visit {
    fn from(earlier: EarlierVisit) -> Self {
        Self {
            number: earlier.number,
            item: None,
            attempt: earlier.attempt,
            opened_at: earlier.opened_at,
            opened_revision: earlier.opened_revision,
            awaiting: earlier.awaiting,
            closed: earlier.closed.map(Closed::from),
            refused: earlier.refused,
            superseded: earlier.superseded,
            input: None,
            past_inputs: Vec::new(),
            ended: Vec::new(),
            paused_ms: 0,
            failures: 0,
            repeats: 0,
        }
    }
}

impl From<EarlierClosed> for Closed {
    fn from(earlier: EarlierClosed) -> Self {
        Self {
            at: earlier.at,
            revision: earlier.revision,
            row: earlier.row,
            spent: earlier.spent,
            output: earlier.output,
            failure: None,
        }
    }
}

impl From<EarlierRow> for Row {
    fn from(earlier: EarlierRow) -> Self {
        Self {
            execution_id: earlier.execution_id,
            revision: earlier.revision,
            at: earlier.at,
            previous: earlier.previous,
            events: earlier.events.into_iter().map(Event::from).collect(),
        }
    }
}

const fn site(step: StepId, visit: u32) -> Site {
    Site {
        step,
        visit,
        item: None,
    }
}

impl From<EarlierEvent> for Event {
    fn from(earlier: EarlierEvent) -> Self {
        use EarlierEvent as Was;
        match earlier {
            Was::Created(created) => Self::Created(created),
            Was::StateChanged {
                from,
                to,
                failure,
                steps_total,
            } => Self::StateChanged {
                from,
                to,
                failure,
                steps_total,
            },
            Was::VisitOpened {
                step,
                visit,
                agent,
                awaiting,
                ..
            } => Self::VisitOpened(Box::new(VisitOpened {
                site: site(step, visit),
                agent,
                awaiting,
                input: None,
            })),
            Was::VisitClosed {
                step,
                visit,
                agent,
                outcome,
                spent,
                duration_ms,
            } => Self::VisitClosed(Box::new(VisitClosed {
                site: site(step, visit),
                agent,
                outcome,
                spent,
                duration_ms,
            })),
            Was::OutputRefused {
                step,
                visit,
                output,
            } => Self::OutputRefused {
                site: site(step, visit),
                output,
            },
            Was::TokenRenewed { step, visit, grant } => Self::TokenRenewed {
                site: site(step, visit),
                grant,
            },
            Was::PauseAdded { reason } => Self::PauseAdded { reason },
            Was::PauseLifted { reason } => Self::PauseLifted { reason },
            Was::ReasonGiven { text } => Self::ReasonGiven { text },
            Was::ArtifactStored {
                step,
                visit,
                agent,
                artifact,
            } => Self::ArtifactStored {
                site: site(step, visit),
                agent,
                artifact,
            },
        }
    }
}
