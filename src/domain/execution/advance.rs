//! Finishing a step: the token is recognised, the output judged, and what follows is opened.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use super::{
    Awaiting, Closed, Decision, Event, Execution, Facts, Failure, Outcome, Payload, Report, Spent,
    State, StepState, Transition, Visit,
    draft::{Content, Draft, payload},
};
use crate::{
    clock::{IdSource, Timestamp},
    domain::{
        artifact::{Artifact, extract},
        document::{Digest, meaning},
        token::Token,
    },
    error::{Code, Error, Result, Violation},
    limits,
};

/// The next call where nothing is open any more.
const NOTHING_OPEN: &str = "Read midex://workflow/step_history/{execution_id} for what came of it, or call workflow.start to begin anew";
/// The next call once a step has failed for good.
const FAILED_FOR_GOOD: &str =
    "Read midex://workflow/workflow_status/{execution_id}, and call workflow.start to begin again";

impl Execution {
    pub(super) fn decide_advance(
        &self,
        facts: Facts<'_>,
        token: &Token,
        report: &Report,
        now: Timestamp,
        ids: &dyn IdSource,
    ) -> Result<Decision> {
        token
            .check_not_from_future(now)
            .map_err(|error| self.placed(error))?;
        match self.recognise(token) {
            Recognised::Open(step, visit) => {
                self.check_life(facts, token, now)?;
                self.check_running()?;
                self.close(facts, step, visit, token, report, now, ids)
                    .map(|moved| Decision::Move(Box::new(moved)))
            }
            Recognised::Spent(step, closed, spent) => {
                self.repeat(facts, step, closed, spent, report)
            }
            Recognised::Superseded => Err(self.refuse(
                token,
                Code::TokenSuperseded,
                "Token superseded: a newer one was issued, or its step was closed without it",
            )),
            Recognised::Foreign => Err(self.refuse(
                token,
                Code::TokenMismatch,
                "Token mismatch: this execution never issued it",
            )),
        }
    }

    fn recognise(&self, token: &Token) -> Recognised<'_> {
        let Some((_, step)) = self
            .step(&token.step_name)
            .filter(|_| token.execution_id == self.id)
        else {
            return Recognised::Foreign;
        };
        for visit in step.visits.iter().rev() {
            if let Some(Awaiting::Model(grant)) = &visit.awaiting
                && grant.matches(token)
            {
                return Recognised::Open(step, visit);
            }
            if let Some(closed) = &visit.closed
                && let Some(spent) = &closed.spent
                && spent.grant.matches(token)
            {
                return Recognised::Spent(step, closed, spent);
            }
            if visit
                .superseded
                .iter()
                .any(|retired| retired.grant.matches(token))
            {
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
        facts: Facts<'_>,
        step: &StepState,
        closed: &Closed,
        spent: &Spent,
        report: &Report,
    ) -> Result<Decision> {
        if spent.call != report.call() {
            let stands = self.stands();
            let message = format!(
                "Token already used: step '{}' was closed with another output; {stands}",
                step.id
            );
            let error =
                Error::new(Code::TokenAlreadyUsed, message).with("step_id", step.id.as_str());
            return Err(self.placed(self.acted(error)));
        }
        if let Report::Output(value) = report
            && closed.output.is_none()
            && let violations = Self::violations(facts, step, value)
            && !violations.is_empty()
        {
            // The call that was refused for the last time: it gets the same refusal.
            return Err(self.invalid(step, limits::OUTPUT_ATTEMPTS_MAX, violations));
        }
        closed
            .row
            .map(Decision::Replay)
            .ok_or_else(|| Error::internal("a spent token has no journal row"))
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the facts of one decision, each used here"
    )]
    fn close(
        &self,
        facts: Facts<'_>,
        step: &StepState,
        visit: &Visit,
        token: &Token,
        report: &Report,
        now: Timestamp,
        ids: &dyn IdSource,
    ) -> Result<Transition> {
        let mut draft = Draft::after(self, now);
        let mut artifacts = Vec::new();
        let (outcome, refusal) = match report {
            Report::Output(value) => match self.judge(facts, step, visit, value)? {
                Judged::Accepted(accepted) => {
                    draft.contents.extend(accepted.contents);
                    artifacts = accepted.artifacts;
                    (Outcome::Completed(accepted.payload), None)
                }
                Judged::Refused(refusal, output) => {
                    let (step, visit) = (step.id.clone(), visit.number);
                    draft.push(Event::OutputRefused {
                        step,
                        visit,
                        output,
                    });
                    return Ok(draft.transition(Some(refusal)));
                }
                Judged::RefusedForGood(refusal) => {
                    (Outcome::Failed(failure(step, &refusal)), Some(refusal))
                }
            },
            Report::Error { message, code, .. } => (
                Outcome::Failed(reported(step, message, code.as_deref())),
                None,
            ),
        };
        let spent = Spent {
            grant: token.grant(),
            call: report.call(),
        };
        draft.close(facts.definition, step, visit, outcome.clone(), Some(spent));
        draft.store(facts.definition, step, visit, artifacts);
        match outcome {
            Outcome::Failed(failure) => draft.fail(facts.definition, failure)?,
            _ => draft.follow(facts.definition, step, ids)?,
        }
        Ok(draft.transition(refusal))
    }

    /// Whether an output is accepted, and what its refusal costs.
    fn judge(
        &self,
        facts: Facts<'_>,
        step: &StepState,
        visit: &Visit,
        value: &Value,
    ) -> Result<Judged> {
        let here = |error: Error| self.placed(error.with("step_id", step.id.as_str()));
        let whole = payload(value, limits::OUTPUT_BYTES_MAX, "output").map_err(here)?;
        let violations = Self::violations(facts, step, value);
        if violations.is_empty() {
            let accepted = Accepted::of(value, whole, self.artifacts).map_err(here)?;
            return Ok(Judged::Accepted(Box::new(accepted)));
        }
        let output = meaning(value);
        let seen = u32::try_from(visit.refused.len()).unwrap_or(u32::MAX);
        if visit.refused.contains(&output) {
            return Err(self.invalid(step, seen, violations));
        }
        let refusal = self.invalid(step, seen + 1, violations);
        if seen + 1 < limits::OUTPUT_ATTEMPTS_MAX {
            Ok(Judged::Refused(refusal, output))
        } else {
            Ok(Judged::RefusedForGood(refusal))
        }
    }

    fn violations(facts: Facts<'_>, step: &StepState, value: &Value) -> Vec<Violation> {
        let position = facts
            .definition
            .graph()
            .position(&step.id)
            .unwrap_or(usize::MAX);
        facts.definition.output_schema(position).violations(value)
    }

    fn invalid(&self, step: &StepState, attempt: u32, violations: Vec<Violation>) -> Error {
        let most = limits::OUTPUT_ATTEMPTS_MAX;
        let what = if attempt < most {
            "the token stays valid"
        } else {
            "that was the last attempt: the step failed"
        };
        let count = violations.len();
        let message = format!(
            "the output of step '{}' breaks its schema in {count} place(s) (attempt {attempt} of {most}; {what})",
            step.id
        );
        let error = Error::new(Code::StepOutputInvalid, message).with("step_id", step.id.as_str());
        let error = if attempt < most {
            error
        } else {
            error.with_action(FAILED_FOR_GOOD)
        };
        self.placed(error.with_violations(violations))
    }

    fn refuse(&self, token: &Token, code: Code, message: &str) -> Error {
        let error = Error::new(code, message).with("step_id", token.step_name.as_str());
        self.placed(self.acted(error))
    }

    /// Of an execution that has ended there is no current step to be sent to.
    fn acted(&self, error: Error) -> Error {
        if self.state.is_final() {
            error.with_action(NOTHING_OPEN)
        } else {
            error
        }
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
    Open(&'a StepState, &'a Visit),
    Spent(&'a StepState, &'a Closed, &'a Spent),
    Superseded,
    Foreign,
}

/// An output as it is kept.
struct Accepted {
    payload: Payload,
    contents: Vec<(Digest, Arc<[u8]>)>,
    artifacts: Vec<Artifact>,
}

impl Accepted {
    fn of(value: &Value, whole: (Payload, Content), taken: u32) -> Result<Self> {
        let Some(extracted) = extract(value, taken)? else {
            let (payload, content) = whole;
            return Ok(Self {
                payload,
                contents: content.into_iter().collect(),
                artifacts: Vec::new(),
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
            payload,
            contents,
            artifacts,
        })
    }
}

enum Judged {
    Accepted(Box<Accepted>),
    Refused(Error, Digest),
    RefusedForGood(Error),
}

fn failure(step: &StepState, refusal: &Error) -> Failure {
    Failure {
        code: refusal.code().as_str().into(),
        message: refusal.message().into(),
        step: Some(step.id.clone()),
    }
}

fn reported(step: &StepState, message: &str, code: Option<&str>) -> Failure {
    Failure {
        code: cut(
            code.unwrap_or("STEP_FAILED"),
            limits::FAILURE_CODE_BYTES_MAX,
        ),
        message: cut(message, limits::FAILURE_MESSAGE_BYTES_MAX),
        step: Some(step.id.clone()),
    }
}

/// At most `bytes_max` bytes of `text`, cut between characters.
fn cut(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
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
