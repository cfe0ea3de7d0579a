//! What the server does itself: begun only once its intent is durable, and what came of it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::Value;

use super::{
    AttemptId, Awaiting, Decision, Event, Execution, Failure, Need, OperationFailure, Outcome,
    Owner, PauseReason, Reported, State, StepState, Visit, VisitId,
    decision::{DecideResult, Interrupt},
    scope::EvalContext,
    transition::TransitionBuilder,
};
use crate::{
    clock::Timestamp,
    domain::{
        FailureCode,
        definition::{Repeat, Retry, Step, StepKind},
        event::AttemptEnded,
        failure::cut_message,
        schema::over_budget,
        span::backoff,
    },
    error::{Error, Violation},
    limits,
};

impl StepKind {
    /// Whether its author says that doing it twice is doing it once.
    const fn idempotent(&self) -> Option<bool> {
        match self {
            Self::Run { idempotent, .. } | Self::Activity { idempotent, .. } => *idempotent,
            _ => None,
        }
    }
}

impl Execution {
    /// The attempts that the server is working on.
    pub fn operations(&self) -> impl Iterator<Item = AttemptId> {
        self.open().filter_map(|(_, step, visit)| {
            let is_operation = matches!(visit.awaiting, Some(Awaiting::Operation { .. }));
            is_operation.then(|| attempt_id(step, visit))
        })
    }

    /// Those among them that nobody works on, as `owner` knows who works on `alive`: its own others, and all that were begun
    /// on an earlier opening of the store, whose process is gone.
    pub fn lost_operations(
        &self,
        owner: Owner,
        alive: &BTreeSet<AttemptId>,
    ) -> impl Iterator<Item = AttemptId> {
        self.open().filter_map(move |(_, step, visit)| {
            let Some(Awaiting::Operation { owner: of }) = visit.awaiting else {
                return None;
            };
            let id = attempt_id(step, visit);
            (of < owner || of == owner && !alive.contains(&id)).then_some(id)
        })
    }

    pub(super) fn decide_outcome(
        &self,
        mut builder: TransitionBuilder<'_>,
        attempt_id: &AttemptId,
        outcome: &Result<Value, OperationFailure>,
    ) -> DecideResult<Decision> {
        let Some((position, _, visit)) = self.visit(&attempt_id.visit_id) else {
            return Ok(Decision::Stay);
        };
        let is_awaited = matches!(visit.awaiting, Some(Awaiting::Operation { .. }));
        if visit.attempt != attempt_id.attempt || !is_awaited {
            return Ok(Decision::Stay);
        }
        let step = builder.step(position).acting();
        match outcome {
            Err(failure) => builder.attempt_failed(step, attempt_id, visit, failure)?,
            Ok(output) => builder.attempt_succeeded(position, step, attempt_id, visit, output)?,
        }
        builder.run_to_quiescence()?;
        Ok(builder.decision(None))
    }

    /// An attempt that never began is put off until time asks for it, as the attempt that it was.
    pub(super) fn decide_put_off(
        &self,
        mut builder: TransitionBuilder<'_>,
        attempt_id: &AttemptId,
    ) -> Decision {
        if self.operations().any(|waits| waits == *attempt_id) {
            builder.put_off(&attempt_id.visit_id, attempt_id.attempt - 1);
        }
        builder.decision(None)
    }

    /// What the server was doing when its process ended is begun again where that is safe; else a person must find out.
    pub(super) fn decide_recovery(
        &self,
        mut builder: TransitionBuilder<'_>,
        alive: &BTreeSet<AttemptId>,
    ) -> DecideResult<Decision> {
        let mut lost: Vec<_> = self
            .lost_operations(builder.facts.owner, alive)
            .filter_map(|attempt_id| {
                let (position, _, visit) = self.visit(&attempt_id.visit_id)?;
                let step = builder.step(position).acting();
                let said = step.kind.idempotent();
                let is_safe = said.unwrap_or_else(|| builder.facts.safety.is_safe(&step.kind));
                Some((is_safe, attempt_id, step, visit))
            })
            .collect();
        // What may not be done twice comes first: where it pauses the execution nothing else is begun.
        lost.sort_by_key(|(is_safe, ..)| *is_safe);
        for (is_safe, attempt_id, step, visit) in lost {
            if is_safe {
                if builder.next.state == State::Running {
                    builder.retry_work(step, &attempt_id.visit_id, visit)?;
                }
            } else {
                let (visit_id, attempt) = (attempt_id.visit_id, attempt_id.attempt);
                builder.push(Event::WaitingChanged {
                    visit_id,
                    attempt,
                    awaiting: Awaiting::Unknown,
                });
                if !builder.next.pauses.contains(&PauseReason::OutcomeUnknown) {
                    builder.pause(PauseReason::OutcomeUnknown)?;
                }
            }
        }
        Ok(builder.decision(None))
    }
}

pub(super) fn attempt_id(step: &StepState, visit: &Visit) -> AttemptId {
    AttemptId {
        visit_id: visit.visit_id(&step.id),
        attempt: visit.attempt,
    }
}

impl TransitionBuilder<'_> {
    /// The next attempt begins.
    pub(super) fn retry_work(
        &mut self,
        step: &Step,
        visit_id: &VisitId,
        visit: &Visit,
    ) -> DecideResult<()> {
        let input = match visit.input {
            Some(digest) => self.wanted(Need::stored(digest))?,
            None => Arc::default(),
        };
        let input = serde_json::from_value(Value::clone(&input)).map_err(|error| {
            Error::internal("the input of a step cannot be read").because(error)
        })?;
        let attempt = visit.attempt + 1;
        let owner = self.facts.owner;
        let awaiting = Awaiting::Operation { owner };
        self.push(Event::WaitingChanged {
            visit_id: visit_id.clone(),
            attempt,
            awaiting,
        });
        let attempt_id = AttemptId {
            visit_id: visit_id.clone(),
            attempt,
        };
        self.begin_work(step, attempt_id, input);
        Ok(())
    }

    fn attempt_failed(
        &mut self,
        step: &Step,
        attempt_id: &AttemptId,
        visit: &Visit,
        failure: &OperationFailure,
    ) -> DecideResult<()> {
        let told = Failure {
            code: failure
                .code
                .clone()
                .unwrap_or_else(|| failure.class.to_uppercase()),
            message: cut_message(&failure.message),
            step: attempt_id.visit_id.step.clone(),
            item: None,
        };
        if let Some(retry) = &step.retry
            && visit.failures + 1 < retry.max_attempts
            && retry.covers(failure)
        {
            let pause = retry
                .pause(visit.failures + 1, self.ids.random())
                .max(failure.retry_after.unwrap_or_default());
            let due = self.row.at.after(pause.min(limits::SPAN_MAX));
            self.attempt_ended(attempt_id, Some(told), due);
            return Ok(());
        }
        self.conclude_visit(&attempt_id.visit_id, Reported::Failure(told))
    }

    fn attempt_ended(&mut self, attempt_id: &AttemptId, failure: Option<Failure>, due: Timestamp) {
        self.push(Event::AttemptEnded(Box::new(AttemptEnded {
            visit_id: attempt_id.visit_id.clone(),
            attempt: attempt_id.attempt,
            failure,
            consumed: None,
            awaiting: Awaiting::Retry { due },
        })));
    }

    fn attempt_succeeded(
        &mut self,
        position: usize,
        step: &Step,
        attempt_id: &AttemptId,
        visit: &Visit,
        output: &Value,
    ) -> DecideResult<()> {
        let visit_id = &attempt_id.visit_id;
        match self.judged(position, step, visit_id, output) {
            Err(Interrupt::Fails(failure)) => {
                return self.conclude_visit(visit_id, Reported::Failure(failure));
            }
            Err(interrupt) => return Err(interrupt),
            Ok(()) => {}
        }
        let due = match &step.repeat {
            Some(repeat) => {
                match self.repeat_due(position, step, attempt_id, visit, repeat, output) {
                    Err(Interrupt::Fails(failure)) => {
                        return self.conclude_visit(visit_id, Reported::Failure(failure));
                    }
                    decided => decided?,
                }
            }
            None => None,
        };
        if let Some(due) = due {
            self.attempt_ended(attempt_id, None, due);
            return Ok(());
        }
        let reported = match self.keep(output.clone(), limits::OUTPUT_BYTES_MAX, "output") {
            Ok(payload) => Reported::Output(payload),
            Err(error) => Reported::Failure(Failure::of(&error, visit_id.step())),
        };
        self.conclude_visit(visit_id, reported)
    }

    /// Every way in which an output breaks the schema of a server's step; one that declares none takes anything.
    pub(super) fn breaks(&self, position: usize, step: &Step, output: &Value) -> Vec<Violation> {
        let schema = self.facts.definition.output_schema(position);
        match step.result {
            Some(_) => schema.violations(output),
            None => Vec::new(),
        }
    }

    /// Whether the output satisfies the schema of the step.
    fn judged(
        &self,
        position: usize,
        step: &Step,
        visit_id: &VisitId,
        output: &Value,
    ) -> DecideResult<()> {
        let violations = self.breaks(position, step, output);
        let Some(first) = violations.first() else {
            return Ok(());
        };
        if let Some(error) = over_budget(
            &format!("what step '{}' brought", visit_id.step()),
            &violations,
        ) {
            let message = error.message().to_owned();
            return Err(Interrupt::fails(step, FailureCode::LimitExceeded, message));
        }
        let message = format!(
            "what step '{}' brought breaks its schema in {} place(s): {}: {}",
            visit_id.step(),
            violations.len(),
            first.path,
            first.message
        );
        Err(Interrupt::fails(step, FailureCode::OutputInvalid, message))
    }

    /// When the step is done again: `None` once what it is repeated for holds.
    fn repeat_due(
        &self,
        position: usize,
        step: &Step,
        attempt_id: &AttemptId,
        visit: &Visit,
        repeat: &Repeat,
        output: &Value,
    ) -> DecideResult<Option<Timestamp>> {
        let compiled = self.facts.definition.compiled_step(position);
        let compiled = compiled.body.as_deref().unwrap_or(compiled);
        let here = EvalContext {
            own: Some(output),
            ..EvalContext::of(&attempt_id.visit_id)
        };
        if let Some(until) = &compiled.until
            && self.holds(until, &here)?
        {
            return Ok(None);
        }
        if visit.repeats + 1 >= repeat.max_attempts {
            let message = format!(
                "`{}` did not hold after {} attempts",
                repeat.until, repeat.max_attempts
            );
            return Err(Interrupt::fails(
                step,
                FailureCode::RepeatExhausted,
                message,
            ));
        }
        let due = self.row.at.after(repeat.every.duration());
        match repeat.timeout {
            Some(most) if due > visit.opened_at.after(most.duration()) => {
                let message = format!("`{}` did not hold within {most}", repeat.until);
                Err(Interrupt::fails(step, FailureCode::RepeatTimedOut, message))
            }
            _ => Ok(Some(due)),
        }
    }

    /// A visit of the server's comes to its end; while the execution is paused that is only noted.
    pub(super) fn conclude_visit(
        &mut self,
        visit_id: &VisitId,
        reported: Reported,
    ) -> DecideResult<()> {
        if self.next.state == State::Paused {
            let attempt = self
                .next
                .visit(visit_id)
                .map_or(1, |(_, _, visit)| visit.attempt);
            let (visit_id, awaiting) = (visit_id.clone(), Awaiting::Deferred(Box::new(reported)));
            self.push(Event::WaitingChanged {
                visit_id,
                attempt,
                awaiting,
            });
            return Ok(());
        }
        let outcome = match reported {
            Reported::Output(payload) => Outcome::Completed(payload),
            Reported::Failure(failure) => Outcome::Failed(failure),
        };
        self.finish(visit_id, &outcome, None)
    }
}

impl Retry {
    /// Whether another attempt is made after this failure.
    fn covers(&self, failure: &OperationFailure) -> bool {
        if self.on.is_empty() {
            return failure.retryable;
        }
        let named = |name: &String| *name == failure.class || Some(name) == failure.code.as_ref();
        self.on.iter().any(named)
    }

    /// The pause after so many failures in a row: doubled each time, capped, and with jitter spread between half of
    /// it and the whole by `random`.
    pub fn pause(&self, failures: u32, random: u128) -> Duration {
        let whole = backoff(
            failures,
            self.backoff.duration(),
            self.max_backoff.duration(),
        );
        if !self.jitter {
            return whole;
        }
        let half = whole.as_millis() / 2;
        let spread = half + random % (half + 1);
        Duration::from_millis(u64::try_from(spread).unwrap_or(u64::MAX))
    }
}

impl Failure {
    pub(super) fn of(error: &Error, step: &crate::domain::StepId) -> Self {
        Self {
            code: error.code().as_str().into(),
            message: error.message().into(),
            step: Some(step.clone()),
            item: None,
        }
    }
}
