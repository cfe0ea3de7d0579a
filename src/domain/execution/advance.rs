//! Finishing a step: the token is recognised, the output judged, and what follows is opened.

use std::time::Duration;

use serde_json::Value;

use super::{
    Decision, Event, Execution, Facts, Failure, Outcome, Report, Site, Spent, State, StepState,
    Visit,
    content::payload,
    decision::Flow,
    draft::Draft,
    judged::{Accepted, AtLast, Judged},
};
use crate::{
    clock::Timestamp,
    domain::{
        FailureCode, document::meaning, event::Sequence, failure::cut, failure::cut_message,
        schema::over_budget, token::Token,
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
        draft: Draft<'_>,
        token: &Token,
        report: &Report,
    ) -> Flow<Decision> {
        token
            .check_not_from_future(draft.row.at)
            .map_err(|error| self.placed(error))?;
        match self.recognise(token) {
            Recognised::Open(position, step, visit) => {
                self.check_life(draft.facts, token, draft.row.at)?;
                self.check_running()?;
                if visit.is_held() {
                    return Err(self.held(step).into());
                }
                let report = &*draft.meant(position, report);
                let held = Held {
                    position,
                    step,
                    visit,
                    token,
                    is_of_user: matches!(report, Report::Answer(_)),
                };
                self.close(draft, &held, report)
            }
            Recognised::Spent(position, step, visit, used) => {
                let report = &*draft.meant(position, report);
                self.repeat(&draft, (position, step, visit), &used, report)
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
        let mut past = step.past.iter();
        if let Some(past) = past.find(|past| past.ended.spent.grant.matches(token)) {
            let (ended, was_accepted) = (&past.ended, past.was_accepted);
            let (spent, row) = (ended.spent, ended.row);
            return Recognised::Spent(
                position,
                step,
                None,
                Used {
                    spent,
                    row,
                    was_accepted,
                },
            );
        }
        // What is open first: of the items of a `foreach` there may be thousands that have ended.
        let mut open = step.visit().into_iter().chain(step.items.open());
        let is_live = |visit: &&Visit| visit.token().is_some_and(|grant| grant.matches(token));
        if let Some(visit) = open.find(is_live) {
            return Recognised::Open(position, step, visit);
        }
        let newest_first = step.visits.iter().rev().map(|visit| &**visit);
        for visit in newest_first.chain(step.items.iter()) {
            if let Some(used) = visit.used(token) {
                return Recognised::Spent(position, step, Some(visit), used);
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
        draft: &Draft<'_>,
        (position, step, visit): (usize, &StepState, Option<&Visit>),
        used: &Used,
        report: &Report,
    ) -> Flow<Decision> {
        if used.spent.call != report.call() {
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
            && let violations = draft.violations_then(position, visit, value)?
            && !violations.is_empty()
        {
            // The call that was refused for the last time: it gets the same refusal.
            let most = limits::OUTPUT_ATTEMPTS_MAX;
            let refusal = self.invalid(step, most, AtLast::Fails, violations);
            return Err(self.passed(refusal).into());
        }
        let row = used.row;
        Ok(row
            .map(Decision::Replay)
            .ok_or_else(|| Error::internal("a spent token has no journal row"))?)
    }

    fn close(&self, mut draft: Draft<'_>, held: &Held<'_>, report: &Report) -> Flow<Decision> {
        let Held {
            position,
            step,
            visit,
            token,
            ..
        } = *held;
        let site = held.site();
        let spent = Spent {
            grant: token.grant(),
            call: report.call(),
        };
        let (mut artifacts, mut references) = (Vec::new(), Vec::new());
        let (outcome, refusal) = match report {
            Report::Output(value) | Report::Answer(value) => {
                match self.judge(&mut draft, held, value, spent)? {
                    Judged::Accepted(accepted) => {
                        draft.contents.extend(accepted.contents);
                        draft.note(&accepted.payload, accepted.output);
                        (artifacts, references) = (accepted.artifacts, accepted.references);
                        (Outcome::Completed(accepted.payload), None)
                    }
                    Judged::Refused(refusal, output) => {
                        draft.push(Event::OutputRefused { site, output });
                        return Ok(draft.decision(Some(refusal)));
                    }
                    Judged::Held(refusal, output) => {
                        draft.hold(site, visit, token.grant(), output)?;
                        return Ok(draft.decision(Some(refusal)));
                    }
                    Judged::AskedAgain => return Ok(draft.decision(None)),
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
                    && Self::may_try_again(draft.facts, position, visit, &failure)
                {
                    draft.try_again_later(position, &site, visit, failure, spent)?;
                    return Ok(draft.decision(None));
                }
                (Outcome::Failed(failure), None)
            }
        };
        draft.close(&site, visit, outcome.clone(), Some(spent));
        draft.store(&site, artifacts, references);
        draft.after_close(position, &site, &outcome)?;
        draft.settle()?;
        let refusal = refusal.map(|refusal| draft.next.passed(refusal));
        Ok(draft.decision(refusal))
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
    fn may_try_again(facts: Facts<'_>, position: usize, visit: &Visit, failure: &Failure) -> bool {
        let step = facts.definition.workflow.steps[position].acting();
        step.retry.as_ref().is_some_and(|retry| {
            let covers = retry.on.is_empty() || retry.on.contains(&failure.code);
            covers && visit.failures + 1 < retry.max_attempts
        })
    }

    /// Whether an output is accepted, and what its refusal costs.
    fn judge(
        &self,
        draft: &mut Draft<'_>,
        held: &Held<'_>,
        value: &Value,
        spent: Spent,
    ) -> Flow<Judged> {
        let here = |error: Error| self.placed(error.with("step_id", held.step.id.as_str()));
        let whole = payload(value, limits::OUTPUT_BYTES_MAX, "output").map_err(here)?;
        let judged = self.judge_answers(draft, held, value, spent);
        if let Some(judged) = judged.map_err(|halt| halt.placed(here))? {
            return Ok(judged);
        }
        let violations = draft.violations(held.position, Some(held.visit), value)?;
        if violations.is_empty() {
            let accepted = Accepted::of(value, whole, self.artifacts).map_err(here)?;
            return Ok(Judged::Accepted(Box::new(accepted)));
        }
        Ok(self.refusal(draft, held, value, violations)?)
    }

    /// What it costs that an output is refused.
    pub(super) fn refusal(
        &self,
        draft: &Draft<'_>,
        held: &Held<'_>,
        value: &Value,
        violations: Vec<Violation>,
    ) -> Result<Judged> {
        let Held {
            position,
            step,
            visit,
            ..
        } = *held;
        let output = meaning(value);
        let seen = u32::try_from(visit.refused.len()).unwrap_or(u32::MAX);
        let at_last = draft.at_last(position);
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
    Spent(usize, &'a StepState, Option<&'a Visit>, Used),
    Superseded,
    Foreign,
}

/// An open visit and the token that was shown for it.
pub(super) struct Held<'a> {
    pub(super) position: usize,
    pub(super) step: &'a StepState,
    pub(super) visit: &'a Visit,
    token: &'a Token,
    /// Whether the user was asked by the client.
    pub(super) is_of_user: bool,
}

impl Held<'_> {
    pub(super) fn site(&self) -> Site {
        self.visit.site(&self.step.id)
    }
}

/// A call that used a token.
struct Used {
    spent: Spent,
    row: Option<Sequence>,
    was_accepted: bool,
}

impl Visit {
    /// The call that used this token.
    fn used(&self, token: &Token) -> Option<Used> {
        let mut ended = self
            .ended
            .iter()
            .filter(|ended| ended.spent.grant.matches(token));
        if let Some(ended) = ended.next() {
            return Some(Used {
                spent: ended.spent,
                row: ended.row,
                // The visit went on with what it brought.
                was_accepted: true,
            });
        }
        let closed = self.closed.as_ref()?;
        let spent = closed.spent.filter(|spent| spent.grant.matches(token))?;
        Some(Used {
            spent,
            row: closed.row,
            was_accepted: closed.output.is_some(),
        })
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
