//! A transition being made, and how values are held in it.

use std::sync::Arc;

use serde_json::Value;

use super::{
    Awaiting, Event, Execution, Failure, Outcome, Payload, Row, Spent, State, StepState,
    Transition, Visit,
};
use crate::{
    clock::{IdSource, Timestamp},
    domain::{
        artifact::Artifact,
        definition::{Definition, Step},
        document::{Digest, Document, depth},
        token::Grant,
    },
    error::{Code, Error, Result},
    limits,
};

/// Content that lies elsewhere than in the row, under its digest.
pub(super) type Content = Option<(Digest, Arc<[u8]>)>;

/// A transition being made: every event is applied as it is added, so the next state and the row
/// cannot disagree.
pub(super) struct Draft {
    pub(super) next: Execution,
    pub(super) row: Row,
    pub(super) contents: Vec<(Digest, Arc<[u8]>)>,
}

impl Draft {
    pub(super) fn after(execution: &Execution, now: Timestamp) -> Self {
        let revision = execution.revision + 1;
        let row = Row {
            execution_id: execution.id.clone(),
            revision,
            at: now,
            previous: execution.row,
            events: Vec::new(),
        };
        let mut next = execution.clone();
        (next.revision, next.updated_at) = (revision, now);
        Self {
            next,
            row,
            contents: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, event: Event) {
        self.next.apply(&self.row, &event);
        self.row.events.push(event);
    }

    pub(super) fn transition(self, refusal: Option<Error>) -> Transition {
        Transition {
            next: self.next,
            row: self.row,
            contents: self.contents,
            refusal,
        }
    }

    pub(super) fn become_state(&mut self, to: State, failure: Option<Failure>) -> Result<()> {
        let from = self.next.state;
        from.check(to).map_err(|error| self.next.placed(error))?;
        let steps_total = u32::try_from(self.next.steps.len()).unwrap_or(u32::MAX);
        self.push(Event::StateChanged {
            from,
            to,
            failure,
            steps_total,
        });
        Ok(())
    }

    pub(super) fn close(
        &mut self,
        definition: &Definition,
        step: &StepState,
        visit: &Visit,
        outcome: Outcome,
        spent: Option<Spent>,
    ) {
        let duration = self.row.at.since(visit.opened_at);
        self.push(Event::VisitClosed {
            step: step.id.clone(),
            visit: visit.number,
            agent: definition
                .step(&step.id)
                .and_then(|step| step.agent().cloned()),
            outcome,
            spent,
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        });
    }

    /// The artifacts that came with the output of a visit.
    pub(super) fn store(
        &mut self,
        definition: &Definition,
        step: &StepState,
        visit: &Visit,
        artifacts: Vec<Artifact>,
    ) {
        let agent = definition.step(&step.id).and_then(Step::agent);
        for artifact in artifacts {
            self.push(Event::ArtifactStored {
                step: step.id.clone(),
                visit: visit.number,
                agent: agent.cloned(),
                artifact: Box::new(artifact),
            });
        }
    }

    /// A step is done: opens what waited for it alone, or ends the execution where nothing is left.
    pub(super) fn follow(
        &mut self,
        definition: &Definition,
        step: &StepState,
        ids: &dyn IdSource,
    ) -> Result<()> {
        if let Some(position) = definition.graph().position(&step.id) {
            self.open_ready(
                definition,
                definition.graph().dependents(position).iter().copied(),
                ids,
            );
        }
        self.finish_if_done()
    }

    /// A required step failed: whatever else is open is void, and the execution fails.
    pub(super) fn fail(&mut self, definition: &Definition, failure: Failure) -> Result<()> {
        self.void(definition);
        self.become_state(State::Failed, Some(failure))
    }

    pub(super) fn open_ready(
        &mut self,
        definition: &Definition,
        candidates: impl Iterator<Item = usize>,
        ids: &dyn IdSource,
    ) {
        use super::StepStatus::{Completed, Pending, Skipped};
        for position in candidates {
            let done = |at: &usize| matches!(self.next.steps[*at].status, Completed | Skipped);
            let state = &self.next.steps[position];
            if state.status == Pending && definition.graph().dependencies(position).iter().all(done)
            {
                let step = &definition.workflow.steps[position];
                let visit = state.visits.last().map_or(1, |visit| visit.number + 1);
                self.push(Event::VisitOpened {
                    step: step.id.clone(),
                    visit,
                    attempt: 1,
                    agent: step.agent().cloned(),
                    awaiting: Awaiting::Model(Grant::issue(self.row.at, ids)),
                });
            }
        }
    }

    pub(super) fn finish_if_done(&mut self) -> Result<()> {
        if self.next.open().next().is_some() {
            return Ok(());
        }
        self.become_state(State::Completed, None)
    }
}

/// A value as an event holds it, and its content where that lies elsewhere.
pub(super) fn payload(value: &Value, bytes_max: usize, what: &str) -> Result<(Payload, Content)> {
    if depth(value) > limits::JSON_DEPTH_MAX {
        let limit = format!(
            "the {what} may be nested {} levels deep",
            limits::JSON_DEPTH_MAX
        );
        return Err(Error::new(Code::LimitExceeded, limit.clone()).with("limit", limit));
    }
    let document = Document::of(value);
    let bytes = document.as_str().len();
    if bytes > bytes_max {
        let limit = format!("the {what} may have {bytes_max} bytes");
        let message = format!("the {what} has {bytes} bytes of JSON, the limit is {bytes_max}");
        return Err(Error::new(Code::LimitExceeded, message).with("limit", limit));
    }
    let digest = document.digest();
    let inline = bytes <= limits::INLINE_BYTES_MAX;
    let content = (!inline).then(|| (digest, document.as_str().as_bytes().into()));
    Ok((
        Payload {
            digest,
            bytes: bytes as u64,
            inline: inline.then_some(document),
        },
        content,
    ))
}

/// The payload with its value stored by digest whatever its size, so that it is read without the journal.
pub(super) fn stored(
    (payload, content): (Payload, Content),
    contents: &mut Vec<(Digest, Arc<[u8]>)>,
) -> Payload {
    let inline = payload
        .inline
        .as_ref()
        .map(|document| (payload.digest, document.as_str().as_bytes().into()));
    contents.extend(content.or(inline));
    Payload {
        inline: None,
        ..payload
    }
}
