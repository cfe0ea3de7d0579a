//! What an output comes to: accepted, refused, held, or the end of its step; and how a model is asked once more.

use std::{borrow::Cow, sync::Arc, time::Duration};

use serde_json::Value;

use super::{
    Awaiting, ConsumedCall, Event, Failure, Payload, Report, Visit, VisitId,
    content::{Content, payload},
    decision::DecideResult,
    transition::TransitionBuilder,
};
use crate::{
    domain::{
        artifact::{Artifact, ArtifactReference, extract},
        definition::{OnError, Step, StepKind},
        document::Digest,
        event::AttemptEnded,
        token::Grant,
    },
    error::{Error, Result, Violation},
    limits,
};

/// What becomes of a visit at the end of its malformed outputs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AtLast {
    /// It waits for a resume.
    Holds,
    /// It fails, which somebody provided for.
    Fails,
}

impl TransitionBuilder<'_> {
    /// A step whose failure leads on fails. One whose failure would end the execution, and the work of hours with it, is
    /// held; where that is failing already nothing is left to be lost.
    pub(super) fn at_last(&self, position: usize) -> AtLast {
        let step = self.step(position);
        let leads_on = |step: &Step| step.optional || step.on_error != OnError::Fail;
        let fails = leads_on(step) || leads_on(step.acting()) || self.next.failing.is_some();
        if fails { AtLast::Fails } else { AtLast::Holds }
    }

    /// The visit waits for a resume; whatever else is open goes on.
    pub(super) fn hold(
        &mut self,
        visit_id: VisitId,
        visit: &Visit,
        grant: Grant,
        output: Digest,
    ) -> DecideResult<()> {
        self.push(Event::OutputRefused {
            visit_id: visit_id.clone(),
            output,
        });
        self.push(Event::WaitingChanged {
            visit_id,
            attempt: visit.attempt,
            awaiting: Awaiting::OutputInvalid(grant),
        });
        self.run_to_quiescence()
    }

    /// The report as it was meant: a text that breaks the schema and holds JSON is taken as what it holds, so that text and
    /// value are one call.
    pub(super) fn meant<'a>(&self, position: usize, report: &'a Report) -> Cow<'a, Report> {
        let Report::Output(Value::String(text)) = report else {
            return Cow::Borrowed(report);
        };
        let step = self.step(position).acting();
        let fits = |value: &Value| {
            let schema = self.facts.definition.output_schema(position);
            schema.violations(value).is_empty()
        };
        let takes_text = match &step.kind {
            // The words of a user.
            StepKind::Input { reextract, .. } => *reextract,
            StepKind::Extract { .. } => false,
            _ => fits(&Value::String(text.clone())),
        };
        if takes_text || text.len() > limits::OUTPUT_BYTES_MAX {
            return Cow::Borrowed(report);
        }
        match serde_json::from_str(text) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => Cow::Owned(Report::Output(value)),
            Ok(value) if fits(&value) => Cow::Owned(Report::Output(value)),
            _ => Cow::Borrowed(report),
        }
    }

    /// The same of an output that ended a visit before.
    pub(super) fn violations_then(
        &self,
        position: usize,
        visit: Option<&Visit>,
        value: &Value,
    ) -> DecideResult<Vec<Violation>> {
        if let Some(visit) = visit
            && let Some(violations) = self.refused_for_good(position, visit, value)?
        {
            return Ok(violations);
        }
        self.violations(position, visit, value)
    }

    /// Every way in which an output breaks what its step asks for.
    pub(super) fn violations(
        &self,
        position: usize,
        visit: Option<&Visit>,
        value: &Value,
    ) -> DecideResult<Vec<Violation>> {
        let step = self.step(position).acting();
        let definition = self.facts.definition;
        Ok(match self.check_answers(step, visit, value)? {
            Some(check) => check.violations,
            None => definition.output_schema(position).violations(value),
        })
    }

    /// A model is asked once more, after the pause that its step says.
    pub(super) fn reoffer_later(
        &mut self,
        position: usize,
        visit_id: &VisitId,
        visit: &Visit,
        failure: Failure,
        consumed: ConsumedCall,
    ) -> DecideResult<()> {
        let retry = self.step(position).acting().retry.as_ref();
        let random = self.ids.random();
        let pause = retry.map_or(Duration::ZERO, |retry| {
            retry.pause(visit.failures + 1, random)
        });
        if pause.is_zero() {
            self.reoffer(visit_id, visit, Some(failure), consumed);
            return Ok(());
        }
        let due = self.row.at.after(pause);
        self.push(Event::AttemptEnded(Box::new(AttemptEnded {
            visit_id: visit_id.clone(),
            attempt: visit.attempt,
            failure: Some(failure),
            consumed: Some(consumed),
            awaiting: Awaiting::Retry { due },
        })));
        self.run_to_quiescence()
    }

    /// The next attempt of a model begins, with a new token.
    pub(super) fn reoffer_due(&mut self, visit_id: &VisitId, visit: &Visit) {
        let awaiting = Awaiting::Model(Grant::issue(self.row.at, self.ids));
        let (visit_id, attempt) = (visit_id.clone(), visit.attempt + 1);
        self.push(Event::WaitingChanged {
            visit_id,
            attempt,
            awaiting,
        });
    }

    /// A model is asked once more, with a new token.
    pub(super) fn reoffer(
        &mut self,
        visit_id: &VisitId,
        visit: &Visit,
        failure: Option<Failure>,
        consumed: ConsumedCall,
    ) {
        let awaiting = Awaiting::Model(Grant::issue(self.row.at, self.ids));
        self.push(Event::AttemptEnded(Box::new(AttemptEnded {
            visit_id: visit_id.clone(),
            attempt: visit.attempt,
            failure,
            consumed: Some(consumed),
            awaiting: awaiting.clone(),
        })));
        let (visit_id, attempt) = (visit_id.clone(), visit.attempt + 1);
        self.push(Event::WaitingChanged {
            visit_id,
            attempt,
            awaiting,
        });
    }
}

/// An output as it is kept.
pub(super) struct Accepted {
    pub(super) output: Value,
    pub(super) payload: Payload,
    pub(super) contents: Vec<(Digest, Arc<[u8]>)>,
    pub(super) artifacts: Vec<Artifact>,
    pub(super) references: Vec<ArtifactReference>,
}

impl Accepted {
    pub(super) fn of(value: &Value, whole: (Payload, Content), taken: u32) -> Result<Self> {
        let Some(extracted) = extract(value, taken)? else {
            let (payload, content) = whole;
            return Ok(Self {
                output: value.clone(),
                payload,
                contents: content.into_iter().collect(),
                artifacts: Vec::new(),
                references: Vec::new(),
            });
        };
        let (payload, content) = payload(&extracted.output, limits::OUTPUT_BYTES_MAX, "output")?;
        let mut contents: Vec<_> = content.into_iter().collect();
        let mut artifacts = Vec::with_capacity(extracted.artifacts.len());
        for (artifact, content) in extracted.artifacts {
            contents.push((artifact.digest, content));
            artifacts.push(artifact);
        }
        Ok(Self {
            output: extracted.output,
            payload,
            contents,
            artifacts,
            references: extracted.references,
        })
    }
}

/// What an output comes to.
pub(super) enum Judged {
    Accepted(Box<Accepted>),
    /// The token stays valid.
    Refused(Error, Digest),
    RefusedForGood(Error),
    /// The visit waits for a resume.
    Held(Error, Digest),
    /// The visit goes on with another question and another token.
    Reoffered,
    Failed(Failure),
}
