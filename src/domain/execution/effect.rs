//! What the server does itself: begun only once its intent is durable, and what came of it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::Value;

use super::{
    Awaiting, Decision, Event, Execution, Failure, Fence, Need, OperationFailure, Outcome,
    PauseReason, Reported, Site, State, StepState, Visit,
    decision::{Flow, Halt},
    draft::Draft,
    scope::Here,
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
    pub fn operations(&self) -> impl Iterator<Item = Fence> {
        self.open().filter_map(|(_, step, visit)| {
            let is_operation = matches!(visit.awaiting, Some(Awaiting::Operation));
            is_operation.then(|| fence(step, visit))
        })
    }

    pub(super) fn decide_outcome(
        &self,
        mut draft: Draft<'_>,
        fence: &Fence,
        outcome: &Result<Value, OperationFailure>,
    ) -> Flow<Decision> {
        let Some((position, _, visit)) = self.visit(&fence.site) else {
            return Ok(Decision::Stay);
        };
        if visit.attempt != fence.attempt || visit.awaiting != Some(Awaiting::Operation) {
            return Ok(Decision::Stay);
        }
        let step = draft.step(position).acting();
        match outcome {
            Err(failure) => draft.attempt_failed(step, fence, visit, failure)?,
            Ok(output) => draft.attempt_succeeded(position, step, fence, visit, output)?,
        }
        draft.settle()?;
        Ok(draft.decision(None))
    }

    /// An attempt that never began is put off until time asks for it, as the attempt that it was.
    pub(super) fn decide_put_off(&self, mut draft: Draft<'_>, fence: &Fence) -> Decision {
        if self.operations().any(|waits| waits == *fence) {
            draft.put_off(&fence.site, fence.attempt - 1);
        }
        draft.decision(None)
    }

    /// What the server was doing when its process ended is begun again where that is safe; else a person must find out.
    pub(super) fn decide_recovery(
        &self,
        mut draft: Draft<'_>,
        alive: &BTreeSet<Fence>,
    ) -> Flow<Decision> {
        let lost = self.operations().filter(|fence| !alive.contains(fence));
        let mut lost: Vec<_> = lost
            .filter_map(|fence| {
                let (position, _, visit) = self.visit(&fence.site)?;
                let step = draft.step(position).acting();
                let said = step.kind.idempotent();
                let is_safe = said.unwrap_or_else(|| draft.facts.safety.is_safe(&step.kind));
                Some((is_safe, fence, step, visit))
            })
            .collect();
        // What may not be done twice comes first: where it pauses the execution nothing else is begun.
        lost.sort_by_key(|(is_safe, ..)| *is_safe);
        for (is_safe, fence, step, visit) in lost {
            if is_safe {
                if draft.next.state == State::Running {
                    draft.begin_again(step, &fence.site, visit)?;
                }
            } else {
                let (site, attempt) = (fence.site, fence.attempt);
                draft.push(Event::WaitingChanged {
                    site,
                    attempt,
                    awaiting: Awaiting::Unknown,
                });
                if !draft.next.pauses.contains(&PauseReason::OutcomeUnknown) {
                    draft.pause(PauseReason::OutcomeUnknown)?;
                }
            }
        }
        Ok(draft.decision(None))
    }
}

pub(super) fn fence(step: &StepState, visit: &Visit) -> Fence {
    Fence {
        site: visit.site(&step.id),
        attempt: visit.attempt,
    }
}

impl Draft<'_> {
    /// The next attempt begins.
    pub(super) fn begin_again(&mut self, step: &Step, site: &Site, visit: &Visit) -> Flow<()> {
        let input = match visit.input {
            Some(digest) => self.wanted(Need { digest, row: None })?,
            None => Arc::default(),
        };
        let input = serde_json::from_value(Value::clone(&input)).map_err(|error| {
            Error::internal("the input of a step cannot be read").because(error)
        })?;
        let attempt = visit.attempt + 1;
        let awaiting = Awaiting::Operation;
        self.push(Event::WaitingChanged {
            site: site.clone(),
            attempt,
            awaiting,
        });
        let fence = Fence {
            site: site.clone(),
            attempt,
        };
        self.begin_work(step, fence, input);
        Ok(())
    }

    fn attempt_failed(
        &mut self,
        step: &Step,
        fence: &Fence,
        visit: &Visit,
        failure: &OperationFailure,
    ) -> Flow<()> {
        let told = Failure {
            code: failure
                .code
                .clone()
                .unwrap_or_else(|| failure.class.to_uppercase()),
            message: cut_message(&failure.message),
            step: Some(fence.site.step.clone()),
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
            self.attempt_ended(fence, Some(told), due);
            return Ok(());
        }
        self.conclude_visit(&fence.site, Reported::Failure(told))
    }

    fn attempt_ended(&mut self, fence: &Fence, failure: Option<Failure>, due: Timestamp) {
        self.push(Event::AttemptEnded(Box::new(AttemptEnded {
            site: fence.site.clone(),
            attempt: fence.attempt,
            failure,
            spent: None,
            awaiting: Awaiting::Retry { due },
        })));
    }

    fn attempt_succeeded(
        &mut self,
        position: usize,
        step: &Step,
        fence: &Fence,
        visit: &Visit,
        output: &Value,
    ) -> Flow<()> {
        let site = &fence.site;
        match self.judged(position, step, site, output) {
            Err(Halt::Fails(failure)) => {
                return self.conclude_visit(site, Reported::Failure(failure));
            }
            Err(halt) => return Err(halt),
            Ok(()) => {}
        }
        let again = match &step.repeat {
            Some(repeat) => match self.again(position, step, fence, visit, repeat, output) {
                Err(Halt::Fails(failure)) => {
                    return self.conclude_visit(site, Reported::Failure(failure));
                }
                decided => decided?,
            },
            None => None,
        };
        if let Some(due) = again {
            self.attempt_ended(fence, None, due);
            return Ok(());
        }
        let reported = match self.keep(output.clone(), limits::OUTPUT_BYTES_MAX, "output") {
            Ok(payload) => Reported::Output(payload),
            Err(error) => Reported::Failure(Failure::of(&error, &site.step)),
        };
        self.conclude_visit(site, reported)
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
    fn judged(&self, position: usize, step: &Step, site: &Site, output: &Value) -> Flow<()> {
        let violations = self.breaks(position, step, output);
        let Some(first) = violations.first() else {
            return Ok(());
        };
        if let Some(error) = over_budget(&format!("what step '{}' brought", site.step), &violations)
        {
            let message = error.message().to_owned();
            return Err(Halt::fails(step, FailureCode::LimitExceeded, message));
        }
        let message = format!(
            "what step '{}' brought breaks its schema in {} place(s): {}: {}",
            site.step,
            violations.len(),
            first.path,
            first.message
        );
        Err(Halt::fails(step, FailureCode::OutputInvalid, message))
    }

    /// When the step is done again: `None` once what it is repeated for holds.
    fn again(
        &self,
        position: usize,
        step: &Step,
        fence: &Fence,
        visit: &Visit,
        repeat: &Repeat,
        output: &Value,
    ) -> Flow<Option<Timestamp>> {
        let plan = self.facts.definition.plan(position);
        let plan = plan.body.as_deref().unwrap_or(plan);
        let here = Here {
            own: Some(output),
            ..Here::of(&fence.site)
        };
        if let Some(until) = &plan.until
            && self.holds(until, &here)?
        {
            return Ok(None);
        }
        if visit.repeats + 1 >= repeat.max_attempts {
            let message = format!(
                "`{}` did not hold after {} attempts",
                repeat.until, repeat.max_attempts
            );
            return Err(Halt::fails(step, FailureCode::RepeatExhausted, message));
        }
        let due = self.row.at.after(repeat.every.duration());
        match repeat.timeout {
            Some(most) if due > visit.opened_at.after(most.duration()) => {
                let message = format!("`{}` did not hold within {most}", repeat.until);
                Err(Halt::fails(step, FailureCode::RepeatTimedOut, message))
            }
            _ => Ok(Some(due)),
        }
    }

    /// A visit of the server's comes to its end; while the execution is paused that is only noted.
    pub(super) fn conclude_visit(&mut self, site: &Site, reported: Reported) -> Flow<()> {
        if self.next.state == State::Paused {
            let attempt = self
                .next
                .visit(site)
                .map_or(1, |(_, _, visit)| visit.attempt);
            let (site, awaiting) = (site.clone(), Awaiting::Held(Box::new(reported)));
            self.push(Event::WaitingChanged {
                site,
                attempt,
                awaiting,
            });
            return Ok(());
        }
        let outcome = match reported {
            Reported::Output(payload) => Outcome::Completed(payload),
            Reported::Failure(failure) => Outcome::Failed(failure),
        };
        self.finish(site, &outcome, None)
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
