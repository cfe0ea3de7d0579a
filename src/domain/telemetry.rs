//! Telemetry events, derived from the journal by a pure function of a row. They are written in the same commit as the
//! transition and cannot disagree with it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    artifact::Artifact,
    event::{
        AttemptEnded, BodyKind, ConsumedCall, Event, Failure, ForkOrigin, Outcome, Row, VisitId,
    },
    id::{AgentName, StepId},
    state::State,
};

macro_rules! event_types {
    ($($name:ident = $text:literal,)*) => {
        /// The type of a telemetry event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[allow(missing_docs, reason = "the names are the documentation")]
        pub enum EventType { $(#[serde(rename = $text)] $name,)* }

        impl EventType {
            /// Every type, in the order in which they are documented.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name on the wire.
            pub const fn as_str(self) -> &'static str { match self { $(Self::$name => $text,)* } }
        }
    };
}

event_types! {
    WorkflowCreated = "workflow_created",
    WorkflowStarted = "workflow_started",
    WorkflowCompleted = "workflow_completed",
    WorkflowFailed = "workflow_failed",
    WorkflowStateTransition = "workflow_state_transition",
    StepStarted = "step_started",
    StepCompleted = "step_completed",
    StepFailed = "step_failed",
    TokenGenerated = "token_generated",
    TokenValidated = "token_validated",
    TokenExpired = "token_expired",
    ArtifactStored = "artifact_stored",
    Error = "error",
    ExecutionForked = "execution_forked",
    ExecutionRewound = "execution_rewound",
    StepRetried = "step_retried",
}

impl EventType {
    /// The type with this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == text)
    }
}

/// One telemetry event, without its id and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct TelemetryRecord {
    /// Its type.
    pub event_type: EventType,
    /// The step it is about.
    pub step: Option<StepId>,
    /// The agent that works or worked on the step.
    pub agent: Option<AgentName>,
    /// More data about it; null if there is none.
    pub metadata: Value,
}

/// The telemetry of one transition, in the order of its events.
pub fn build_row_telemetry(row: &Row) -> Vec<TelemetryRecord> {
    let mut telemetry = Vec::new();
    let workflow = row.events.iter().find_map(|event| match event {
        Event::Created(created) => Some(&created.workflow),
        _ => None,
    });
    for event in &row.events {
        push_event_telemetry(event, workflow.map(AsRef::as_ref), &mut telemetry);
    }
    telemetry
}

fn fork_telemetry(origin: &ForkOrigin) -> TelemetryRecord {
    let metadata = json!({ "forked_from": origin.execution_id, "revision": origin.revision });
    execution_telemetry(EventType::ExecutionForked, metadata)
}

fn push_event_telemetry(
    event: &Event,
    workflow: Option<&str>,
    telemetry: &mut Vec<TelemetryRecord>,
) {
    match event {
        Event::Created(created) => {
            let metadata = json!({ "workflow_name": created.workflow });
            telemetry.push(execution_telemetry(EventType::WorkflowCreated, metadata));
        }
        Event::StateChanged { from, to, failure, steps_total } => {
            let change = json!({ "old_state": from.as_str(), "new_state": to.as_str() });
            telemetry.push(execution_telemetry(EventType::WorkflowStateTransition, change));
            let failure = failure.as_ref();
            telemetry.extend(state_entry_telemetry(*from, *to, failure, *steps_total, workflow));
        }
        Event::VisitOpened(opened) => {
            let (visit_id, agent) = (&opened.visit_id, opened.agent.as_ref());
            let step = visit_id.step();
            let started = step_telemetry(EventType::StepStarted, step, agent, Value::Null);
            telemetry.push(started.with_visit(visit_id));
            telemetry.extend(token_generated_telemetry(event));
        }
        Event::WaitingChanged { .. } => telemetry.extend(token_generated_telemetry(event)),
        Event::VisitClosed(closed) => {
            let visit_id = &closed.visit_id;
            telemetry.extend(token_validated_telemetry(visit_id.step(), closed.consumed));
            let (agent, duration_ms) = (closed.agent.as_ref(), closed.duration_ms);
            let outcome = outcome_telemetry(visit_id.step(), agent, &closed.outcome, duration_ms);
            telemetry.extend(outcome.map(|outcome| outcome.with_visit(visit_id)));
        }
        Event::StepDone { visit_id, outcome } => {
            let step = visit_id.step();
            let started = step_telemetry(EventType::StepStarted, step, None, Value::Null);
            telemetry.push(started.with_visit(visit_id));
            let outcome = outcome_telemetry(step, None, outcome, 0);
            telemetry.extend(outcome.map(|outcome| outcome.with_visit(visit_id)));
        }
        Event::StepFailed { visit_id, failure } => {
            let outcome = Outcome::Failed(failure.clone());
            let outcome = outcome_telemetry(visit_id.step(), None, &outcome, 0);
            telemetry.extend(outcome.map(|outcome| outcome.with_visit(visit_id)));
        }
        Event::AttemptEnded(ended) => {
            telemetry.extend(token_validated_telemetry(ended.visit_id.step(), ended.consumed));
            telemetry.extend(retry_telemetry(ended));
        }
        Event::OutputRefused { visit_id, .. } => {
            let step = visit_id.step();
            let metadata = json!({ "type": "step_output_invalid", "step_name": step });
            telemetry.push(step_telemetry(EventType::Error, step, None, metadata));
        }
        Event::ArtifactStored { visit_id, agent, artifact } => {
            telemetry.push(artifact_telemetry(visit_id.step(), agent.as_ref(), artifact));
        }
        Event::Forked(forked) => telemetry.push(fork_telemetry(&forked.origin)),
        Event::Rewound(rewound) => {
            let metadata = json!({ "steps": rewound.steps, "reason": rewound.reason });
            let step = &rewound.to_step;
            telemetry.push(step_telemetry(EventType::ExecutionRewound, step, None, metadata));
        }
        // These events have no telemetry. The state change that comes with some of them has; reasons that people give
        // are shown in the status.
        Event::PauseAdded { .. }
        | Event::PauseLifted { .. }
        | Event::ReasonGiven { .. }
        | Event::StepSkipped { .. }
        | Event::StepsReset { .. }
        | Event::StepInherited(_)
        | Event::RewindCompensated
        | Event::InputsForgotten { .. }
        | Event::MetadataReported { .. }
        | Event::PaceSet
        | Event::Imported { .. }
        | Event::VisitTitled { .. }
        | Event::ItemsCounted { .. }
        | Event::PollKept { .. }
        | Event::SignalErrorKept { .. }
        | Event::Labeled { .. }
        | Event::MemoryWritten { .. }
        | Event::InputsChanged { .. }
        | Event::TaskChanged { .. }
        | Event::PageKept { .. }
        | Event::SignalKept { .. }
        | Event::SignalTaken { .. }
        | Event::FailureBegan { .. }
        | Event::FinalOutput { .. }
        | Event::CameLate { .. }
        | Event::ChildOrdered(_)
        | Event::ChildTold(_)
        | Event::CompensationKept { .. }
        | Event::EndingBegan { .. }
        | Event::CompensationsGivenUp { .. }
        | Event::GateAnswered(_)
        | Event::ArtifactNamed { .. }
        | Event::OptionsOffered { .. }
        | Event::OptionsWithdrawn { .. }
        | Event::OptionChosen(_) => {}
        Event::TokenRenewed { visit_id, .. } => {
            let step = visit_id.step();
            let metadata = json!({ "step_name": step, "renewed": true });
            telemetry.push(step_telemetry(EventType::TokenGenerated, step, None, metadata));
        }
    }
}

impl TelemetryRecord {
    /// Adds to the metadata the number of the item, from 0, and the body if it is a hook or a compensation. Adds
    /// nothing for the work of a whole step.
    fn with_visit(mut self, visit_id: &VisitId) -> Self {
        if let Some(item) = visit_id.item {
            self.metadata["item"] = json!(item);
        }
        if visit_id.body != BodyKind::Work {
            self.metadata["body"] = json!(visit_id.body.as_str());
        }
        self.step = self.step.filter(|_| visit_id.step.is_some());
        self
    }
}

fn artifact_telemetry(
    step: &StepId,
    agent: Option<&AgentName>,
    artifact: &Artifact,
) -> TelemetryRecord {
    let metadata = json!({
        "artifact_id": artifact.id, "artifact_type": artifact.kind, "name": artifact.name,
        "size_bytes": artifact.bytes
    });
    step_telemetry(EventType::ArtifactStored, step, agent, metadata)
}

/// The telemetry of an attempt that is followed by another one, after a failure or because `until` does not hold yet.
fn retry_telemetry(ended: &AttemptEnded) -> Option<TelemetryRecord> {
    let failure = ended.failure.as_ref();
    let metadata = json!({
        "attempt": ended.attempt, "code": failure.map(|failure| &failure.code),
        "error": failure.map(|failure| &failure.message)
    });
    let retried = step_telemetry(EventType::StepRetried, ended.visit_id.step(), None, metadata);
    ended.is_retried().then(|| retried.with_visit(&ended.visit_id))
}

/// The telemetry of a token that an event issues to a model.
fn token_generated_telemetry(event: &Event) -> Option<TelemetryRecord> {
    let (visit, _) = event.issued_token()?;
    Some(token_telemetry(EventType::TokenGenerated, visit.step()))
}

fn token_validated_telemetry(
    step: &StepId,
    consumed: Option<ConsumedCall>,
) -> Option<TelemetryRecord> {
    consumed.map(|_| token_telemetry(EventType::TokenValidated, step))
}

fn token_telemetry(event_type: EventType, step: &StepId) -> TelemetryRecord {
    step_telemetry(event_type, step, None, json!({ "step_name": step }))
}

/// The telemetry of entering a state, in addition to that of the transition.
fn state_entry_telemetry(
    from: State,
    to: State,
    failure: Option<&Failure>,
    steps_total: u32,
    workflow: Option<&str>,
) -> Option<TelemetryRecord> {
    match (from, to) {
        (State::Idle, State::Running) => Some(execution_telemetry(
            EventType::WorkflowStarted,
            json!({ "workflow_name": workflow }),
        )),
        (_, State::Completed) => Some(execution_telemetry(
            EventType::WorkflowCompleted,
            json!({ "total_steps": steps_total }),
        )),
        (_, State::Failed) => {
            let metadata =
                json!({ "error": failure.map(|f| &f.message), "code": failure.map(|f| &f.code) });
            let step = failure.and_then(|failure| failure.step.clone());
            Some(TelemetryRecord {
                step,
                ..execution_telemetry(EventType::WorkflowFailed, metadata)
            })
        }
        _ => None,
    }
}

fn outcome_telemetry(
    step: &StepId,
    agent: Option<&AgentName>,
    outcome: &Outcome,
    duration_ms: u64,
) -> Option<TelemetryRecord> {
    match outcome {
        Outcome::Completed(_) => Some(step_telemetry(
            EventType::StepCompleted,
            step,
            agent,
            json!({ "duration_ms": duration_ms }),
        )),
        Outcome::Failed(Failure { code, message, .. }) => {
            let metadata = json!({ "error": message, "code": code, "duration_ms": duration_ms });
            Some(step_telemetry(EventType::StepFailed, step, agent, metadata))
        }
        Outcome::Voided => None,
    }
}

fn execution_telemetry(event_type: EventType, metadata: Value) -> TelemetryRecord {
    TelemetryRecord { event_type, step: None, agent: None, metadata }
}

fn step_telemetry(
    event_type: EventType,
    step: &StepId,
    agent: Option<&AgentName>,
    metadata: Value,
) -> TelemetryRecord {
    TelemetryRecord { event_type, step: Some(step.clone()), agent: agent.cloned(), metadata }
}

/// The telemetry of a refused call.
pub fn refusal_telemetry(code: &str, message: &str, step: Option<&StepId>) -> TelemetryRecord {
    let expired = code == crate::error::Code::TokenExpired.as_str();
    let (event_type, metadata) = if expired {
        (EventType::TokenExpired, json!({ "error": message }))
    } else {
        (EventType::Error, json!({ "type": code, "error": message }))
    };
    TelemetryRecord { step: step.cloned(), ..execution_telemetry(event_type, metadata) }
}
