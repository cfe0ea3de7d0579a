//! Finishing a step: the token is recognised, the output judged, and what follows is opened.

use std::time::Duration;

use serde_json::Value;

use super::{
    Closed, ConsumedCall, Decision, Event, Execution, Facts, Failure, Outcome, RecordedCall,
    Report, State, StepState, Visit, VisitId,
    content::payload,
    decision::DecideResult,
    judged::{Accepted, AtLast, Judged},
    transition::TransitionBuilder,
};
use crate::{
    clock::Timestamp,
    domain::{
        FailureCode, document::meaning, failure::cut, failure::cut_message, schema::over_budget,
        token::Token,
    },
    error::{Code, Error, NextCall, Result, Violation, address, call, read},
    limits,
};

/// The next call once a step has failed for good.
const FAILED_FOR_GOOD: NextCall = read(
    address!("workflow_status/{execution_id}"),
    "it says what came of the execution; workflow.start begins anew",
);

/// The next call where a step is held.
const HELD: NextCall = call(
    "execution.resume",
    &[("execution_id", "{execution_id}")],
    "the step goes on with the token that it has, and may bring as many malformed outputs again; correct every violation before",
);

/// The next call where a step failed for good and the execution goes on without it.
const FAILED_AND_PASSED: NextCall = read(
    address!("current_step/{execution_id}"),
    "the execution goes on without this step's output",
);

impl Execution {
    pub(super) fn decide_advance(
        &self,
        builder: TransitionBuilder<'_>,
        token: &Token,
        report: &Report,
    ) -> DecideResult<Decision> {
        token
            .check_not_from_future(builder.row.at)
            .map_err(|error| self.placed(error))?;
        match self.recognise(token) {
            Recognised::Open(position, step, visit) => {
                self.check_life(builder.facts, token, builder.row.at)?;
                self.check_running()?;
                if visit.is_held() {
                    return Err(self.held(step).into());
                }
                let report = &*builder.meant(position, report);
                let turn = OpenTurn {
                    position,
                    step,
                    visit,
                    token,
                    is_of_user: matches!(report, Report::Answer(_)),
                };
                self.close(builder, &turn, report)
            }
            Recognised::Consumed(position, step, visit, used) => {
                let report = &*builder.meant(position, report);
                self.repeat(&builder, (position, step, visit), &used, report)
            }
            Recognised::Superseded => Err(self
                .refuse(
                    token,
                    Code::TokenSuperseded,
                    "Token superseded: a newer one was issued, or its step was closed without it",
                )
                .into()),
            Recognised::Foreign => Err(self
                .refuse(
                    token,
                    Code::TokenMismatch,
                    "Token mismatch: this execution never issued it",
                )
                .into()),
        }
    }

    fn recognise(&self, token: &Token) -> Recognised<'_> {
        let Some((position, step)) = self
            .step(&token.step_name)
            .filter(|_| token.execution_id == self.id)
        else {
            return Recognised::Foreign;
        };
        let is_meant = |call: &&RecordedCall| call.consumed.grant.matches(token);
        if let Some(call) = step.past.iter().find(is_meant) {
            return Recognised::Consumed(position, step, None, *call);
        }
        // What is open first: of the items of a `foreach` there may be thousands that have ended.
        let mut open = step.visit().into_iter().chain(step.items.open());
        let is_live = |visit: &&Visit| visit.token().is_some_and(|grant| grant.matches(token));
        if let Some(visit) = open.find(is_live) {
            return Recognised::Open(position, step, visit);
        }
        let newest_first = step.visits.iter().rev().map(|visit| &**visit);
        for visit in newest_first.chain(step.items.iter()) {
            if let Some(call) = visit.calls().find(|call| is_meant(&call)) {
                return Recognised::Consumed(position, step, Some(visit), call);
            }
            let mut retired = visit.superseded.iter();
            if retired.any(|retired| retired.grant.matches(token)) {
                return Recognised::Superseded;
            }
        }
        Recognised::Foreign
    }

    fn check_life(&self, facts: Facts<'_>, token: &Token, now: Timestamp) -> Result<()> {
        let age = now.since(token.issued_at);
        if age < facts.token_ttl {
            return Ok(());
        }
        Err(self.refuse(
            token,
            Code::TokenExpired,
            &format!("Token expired (issued {} ago)", spell(age)),
        ))
    }

    fn check_running(&self) -> Result<()> {
        match self.state {
            State::Running => Ok(()),
            State::Paused => Err(self.paused()),
            state => {
                let message = format!("the execution is {state}");
                Err(self.placed(Error::new(Code::ExecutionFinished, message)))
            }
        }
    }

    fn repeat(
        &self,
        builder: &TransitionBuilder<'_>,
        (position, step, visit): (usize, &StepState, Option<&Visit>),
        used: &RecordedCall,
        report: &Report,
    ) -> DecideResult<Decision> {
        if used.consumed.call != report.call() {
            let stands = self.stands();
            let message = format!(
                "Token already used: step '{}' was closed with another output; {stands}",
                step.id
            );
            let error =
                Error::new(Code::TokenAlreadyUsed, message).with("step_id", step.id.as_str());
            return Err(self.placed(error).into());
        }
        if let Report::Output(value) | Report::Answer(value) = report
            && !used.was_accepted
            && let violations = builder.violations_then(position, visit, value)?
            && !violations.is_empty()
        {
            // The call that was refused for the last time: it gets the same refusal.
            let most = limits::OUTPUT_ATTEMPTS_MAX;
            let refusal = self.invalid(step, most, AtLast::Fails, violations);
            return Err(self.passed(refusal).into());
        }
        Ok(Decision::Replay(used.revision))
    }

    fn close(
        &self,
        mut builder: TransitionBuilder<'_>,
        turn: &OpenTurn<'_>,
        report: &Report,
    ) -> DecideResult<Decision> {
        let OpenTurn {
            position,
            step,
            visit,
            token,
            ..
        } = *turn;
        let visit_id = turn.visit_id();
        let consumed = ConsumedCall {
            grant: token.grant(),
            call: report.call(),
        };
        let (mut artifacts, mut references) = (Vec::new(), Vec::new());
        let (outcome, refusal) = match report {
            Report::Output(value) | Report::Answer(value) => {
                match self.judge(&mut builder, turn, value, consumed)? {
                    Judged::Accepted(accepted) => {
                        builder.contents.extend(accepted.contents);
                        builder.note(&accepted.payload, accepted.output);
                        (artifacts, references) = (accepted.artifacts, accepted.references);
                        (Outcome::Completed(accepted.payload), None)
                    }
                    Judged::Refused(refusal, output) => {
                        builder.push(Event::OutputRefused { visit_id, output });
                        return Ok(builder.decision(Some(refusal)));
                    }
                    Judged::Held(refusal, output) => {
                        builder.hold(visit_id, visit, token.grant(), output)?;
                        return Ok(builder.decision(Some(refusal)));
                    }
                    Judged::Reoffered => return Ok(builder.decision(None)),
                    Judged::Failed(failure) => (Outcome::Failed(failure), None),
                    Judged::RefusedForGood(refusal) => (
                        Outcome::Failed(Failure::of(&refusal, &step.id)),
                        Some(refusal),
                    ),
                }
            }
            Report::Error {
                message,
                code,
                retryable,
            } => {
                let failure = reported(step, message, code.as_deref());
                if *retryable != Some(false)
                    && Self::may_retry(builder.facts, position, visit, &failure)
                {
                    builder.reoffer_later(position, &visit_id, visit, failure, consumed)?;
                    return Ok(builder.decision(None));
                }
                (Outcome::Failed(failure), None)
            }
        };
        builder.close(&visit_id, visit, outcome.clone(), Some(consumed));
        builder.store(&visit_id, artifacts, references);
        builder.after_close(position, &visit_id, &outcome)?;
        builder.run_to_quiescence()?;
        let refusal = refusal.map(|refusal| builder.next.passed(refusal));
        Ok(builder.decision(refusal))
    }

    /// Whoever brought the last output that a step could have had is sent on where the execution goes on.
    fn passed(&self, refusal: Error) -> Error {
        if self.state.is_final() {
            refusal
        } else {
            refusal.with_next(FAILED_AND_PASSED)
        }
    }

    /// Whether a model that could not do its step is asked once more.
    fn may_retry(facts: Facts<'_>, position: usize, visit: &Visit, failure: &Failure) -> bool {
        let step = facts.definition.workflow.steps[position].acting();
        step.retry.as_ref().is_some_and(|retry| {
            let covers = retry.on.is_empty() || retry.on.contains(&failure.code);
            covers && visit.failures + 1 < retry.max_attempts
        })
    }

    /// Whether an output is accepted, and what its refusal costs.
    fn judge(
        &self,
        builder: &mut TransitionBuilder<'_>,
        turn: &OpenTurn<'_>,
        value: &Value,
        consumed: ConsumedCall,
    ) -> DecideResult<Judged> {
        let placed = |error: Error| self.placed(error.with("step_id", turn.step.id.as_str()));
        let whole = payload(value, limits::OUTPUT_BYTES_MAX, "output").map_err(placed)?;
        let judged = self.judge_answers(builder, turn, value, consumed);
        if let Some(judged) = judged.map_err(|interrupt| interrupt.placed(placed))? {
            return Ok(judged);
        }
        let violations = builder.violations(turn.position, Some(turn.visit), value)?;
        if violations.is_empty() {
            let accepted = Accepted::of(value, whole, self.artifacts).map_err(placed)?;
            return Ok(Judged::Accepted(Box::new(accepted)));
        }
        Ok(self.refusal(builder, turn, value, violations)?)
    }

    /// What it costs that an output is refused.
    pub(super) fn refusal(
        &self,
        builder: &TransitionBuilder<'_>,
        turn: &OpenTurn<'_>,
        value: &Value,
        violations: Vec<Violation>,
    ) -> Result<Judged> {
        let OpenTurn {
            position,
            step,
            visit,
            ..
        } = *turn;
        let output = meaning(value);
        let seen = u32::try_from(visit.refused.len()).unwrap_or(u32::MAX);
        let at_last = builder.at_last(position);
        if visit.refused.contains(&output) {
            return Err(self.invalid(step, seen, at_last, violations));
        }
        let refusal = self.invalid(step, seen + 1, at_last, violations);
        Ok(if seen + 1 < limits::OUTPUT_ATTEMPTS_MAX {
            Judged::Refused(refusal, output)
        } else if at_last == AtLast::Holds {
            Judged::Held(refusal, output)
        } else {
            Judged::RefusedForGood(refusal)
        })
    }

    /// The refusal of the malformed output number `seen` of a visit.
    fn invalid(
        &self,
        step: &StepState,
        seen: u32,
        at_last: AtLast,
        violations: Vec<Violation>,
    ) -> Error {
        let most = limits::OUTPUT_ATTEMPTS_MAX;
        let (what, action) = match at_last {
            _ if seen < most => ("the token stays valid", None),
            AtLast::Holds => (
                "that was the last one: the step is held until execution.resume",
                Some(HELD),
            ),
            AtLast::Fails => (
                "that was the last one: the step failed",
                Some(FAILED_FOR_GOOD),
            ),
        };
        let count = violations.len();
        let message = format!(
            "the output of step '{}' breaks its schema in {count} place(s) (malformed output {seen} of {most}; {what})",
            step.id
        );
        let whose = format!(
            "the output of step '{}' (malformed output {seen} of {most}; {what})",
            step.id
        );
        let error = over_budget(&whose, &violations)
            .unwrap_or_else(|| Error::new(Code::StepOutputInvalid, message))
            .with("step_id", step.id.as_str());
        let error = match action {
            Some(action) => error.with_next(action),
            None => error,
        };
        self.placed(error.with_violations(violations))
    }

    /// The refusal of anything for a step that is held.
    fn held(&self, step: &StepState) -> Error {
        let message = format!(
            "step '{}' is held (output_invalid): {} outputs in a row broke its schema",
            step.id,
            limits::OUTPUT_ATTEMPTS_MAX
        );
        let error = Error::new(Code::ExecutionPaused, message).with("step_id", step.id.as_str());
        self.placed(error.with_next(HELD))
    }

    fn refuse(&self, token: &Token, code: Code, message: &str) -> Error {
        let error = Error::new(code, message).with("step_id", token.step_name.as_str());
        self.placed(error)
    }

    fn stands(&self) -> String {
        let open: Vec<_> = self
            .open()
            .map(|(_, step, _)| format!("'{}'", step.id))
            .collect();
        if open.is_empty() {
            format!("the execution is {}", self.state)
        } else {
            format!("the execution is {}, at {}", self.state, open.join(", "))
        }
    }
}

enum Recognised<'a> {
    Open(usize, &'a StepState, &'a Visit),
    /// With the visit, where that is still remembered.
    Consumed(usize, &'a StepState, Option<&'a Visit>, RecordedCall),
    Superseded,
    Foreign,
}

/// An open visit and the token that was shown for it.
pub(super) struct OpenTurn<'a> {
    pub(super) position: usize,
    pub(super) step: &'a StepState,
    pub(super) visit: &'a Visit,
    token: &'a Token,
    /// Whether the user was asked by the client.
    pub(super) is_of_user: bool,
}

impl OpenTurn<'_> {
    pub(super) fn visit_id(&self) -> VisitId {
        self.visit.visit_id(&self.step.id)
    }
}

impl Visit {
    /// The calls that ended it, or an attempt of it.
    fn calls(&self) -> impl Iterator<Item = RecordedCall> {
        let closed = self.closed.as_ref().and_then(Closed::call);
        self.ended.iter().copied().chain(closed)
    }
}

fn reported(step: &StepState, message: &str, code: Option<&str>) -> Failure {
    Failure {
        code: cut(
            code.unwrap_or(FailureCode::StepFailed.as_str()),
            limits::FAILURE_CODE_BYTES_MAX,
        ),
        message: cut_message(message),
        step: Some(step.id.clone()),
        item: None,
    }
}

/// A duration as S0 spells it: `25 hours`, `10 minutes`.
fn spell(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (count, unit) = match seconds {
        0..60 => (seconds, "second"),
        60..3600 => (seconds / 60, "minute"),
        _ => (seconds / 3600, "hour"),
    };
    if count == 1 {
        format!("1 {unit}")
    } else {
        format!("{count} {unit}s")
    }
}
