//! Answers of people to gates, and decisions of people or models about attempts that were cut off.

use serde_json::{Value, json};

use super::{
    AttemptId, Decision, Event, Execution, Failure, GateAnswer, OperationFailure, PauseReason,
    ReportedOutcome, Resolution, State, StepState, Verdict, Visit, VisitId, WaitCondition,
    decision::{DecideResult, Interrupt},
    time::find_step_of_visit,
    transition::TransitionBuilder,
};
use crate::{
    FailureCode,
    clock::Timestamp,
    definition::Step,
    error::{Code, Error, Result, format_count, repeat_call},
    event::GateAnswered,
    limits,
    schema::budget_exceeded_error,
};

impl Execution {
    pub(super) fn decide_gate_answer(
        &self,
        mut builder: TransitionBuilder<'_>,
        answer: &GateAnswer,
    ) -> DecideResult<Decision> {
        self.check_not_ended()?;
        let (by, comment) = (&answer.person, answer.comment.as_deref().unwrap_or_default());
        check_text_length("the name of who answers", by, limits::PERSON_BYTES_MAX)
            .and_then(|()| check_text_length("a comment", comment, limits::COMMENT_BYTES_MAX))
            .map_err(|error| {
                self.with_execution_context(error.with_context("step_id", answer.step.as_str()))
            })?;
        let (step, visit) = self.find_answered_gate(answer, builder.row.at)?;
        let visit_id = visit.visit_id(&step.id);
        builder.push_event(Event::GateAnswered(Box::new(GateAnswered {
            visit_id: visit_id.clone(),
            shown: answer.question_digest,
            approved: answer.is_approved,
            by: answer.person.clone(),
            via: answer.channel,
            comment: answer.comment.clone(),
        })));
        builder.lift_open_visit_pauses()?;
        let reported = if answer.is_approved {
            let at = builder.row.at.to_string();
            let output = json!({
                "approved": true, "by": answer.person, "via": answer.channel, "comment": answer.comment, "at": at
            });
            ReportedOutcome::Output(builder.store_value(
                output,
                limits::OUTPUT_BYTES_MAX,
                "output",
            )?)
        } else {
            let why = answer.comment.as_deref().map(|why| format!(": {why}"));
            let why = why.unwrap_or_default();
            let message = format!("{} rejected '{}'{why}", answer.person, step.id);
            let code = FailureCode::GateRejected;
            ReportedOutcome::Failure(Failure::new(code, message, Some(&step.id)))
        };
        builder.conclude_visit(&visit_id, reported)?;
        builder.run_to_quiescence()?;
        Ok(builder.into_decision(None))
    }

    /// Finds the gate that is answered, which must ask the question that the person was shown.
    fn find_answered_gate(
        &self,
        answer: &GateAnswer,
        now: Timestamp,
    ) -> DecideResult<(&StepState, &Visit)> {
        let refuse = |code, message: String| {
            Interrupt::Refused(self.step_error(code, &answer.step, message))
        };
        let open_visits = || self.open_visits().filter(|(_, step, _)| step.id == answer.step);
        let is_gate = |visit: &Visit| matches!(visit.awaiting, Some(WaitCondition::Gate { .. }));
        let has_question = |visit: &Visit| matches!(visit.awaiting, Some(WaitCondition::Gate { shown, .. }) if shown == answer.question_digest);
        // A `foreach` may have several open gates: the digest of the question tells them apart.
        let candidate = open_visits()
            .find(|(_, _, visit)| has_question(visit))
            .or_else(|| open_visits().find(|(_, _, visit)| is_gate(visit)))
            .or_else(|| open_visits().next());
        let (_, step, visit) = candidate.ok_or_else(|| {
            let message = format!("step '{}' is not open", answer.step);
            refuse(Code::GateNotOpen, message)
        })?;
        let Some(WaitCondition::Gate { shown, due }) = &visit.awaiting else {
            let message = format!("step '{}' waits for nobody's approval", answer.step);
            return Err(refuse(Code::GateNotOpen, message));
        };
        if due.is_some_and(|due| due <= now) {
            let message = format!("gate '{}' has expired", answer.step);
            return Err(refuse(Code::GateNotOpen, message));
        }
        if *shown != answer.question_digest || visit.number != answer.visit {
            let message = format!(
                "gate '{}' asks something else than what was answered, or asks anew",
                answer.step
            );
            return Err(refuse(Code::GateChanged, message));
        }
        Ok((step, visit))
    }

    pub(super) fn decide_resolution(
        &self,
        mut builder: TransitionBuilder<'_>,
        resolution: &Resolution,
    ) -> DecideResult<Decision> {
        self.check_not_ended()?;
        let (position, step, visit) = self.find_visit_with_unknown_outcome(resolution)?;
        let visit_id = visit.visit_id(&step.id);
        let acting = find_step_of_visit(builder.context.definition, position, step, visit);
        let acting = acting.unwrap_or_else(|| builder.step(position));
        let reported = match &resolution.verdict {
            Verdict::Retry => None,
            Verdict::Failed(message) => Some(Err(OperationFailure::new("failed", message)
                .with_code(FailureCode::StepFailed)
                .as_retryable())),
            Verdict::Output(output) => {
                let split_output = builder.split_server_suggestions(position, &visit_id, output);
                let output = split_output.as_ref().map_or(&**output, |taken| &taken.output);
                builder.check_resolved_output(position, acting, &visit_id, output)?;
                builder.offer_server_step_options(
                    position,
                    &visit_id,
                    output,
                    split_output.as_ref(),
                )?;
                let output = output.clone();
                let output = builder.store_value(output, limits::OUTPUT_BYTES_MAX, "output")?;
                Some(Ok(ReportedOutcome::Output(output)))
            }
        };
        let attempt_id = AttemptId { visit_id: visit_id.clone(), attempt: visit.attempt };
        let is_last = self.visits_with_unknown_outcome().count() == 1;
        if is_last {
            builder.lift_pause_reason(PauseReason::OutcomeUnknown)?;
        }
        match reported {
            Some(Ok(output)) => builder.conclude_visit(&visit_id, output)?,
            Some(Err(failure)) => {
                builder.handle_failed_attempt(acting, &attempt_id, visit, &failure)?;
            }
            None => builder.repeat_interrupted(acting, &attempt_id, visit)?,
        }
        if builder.execution.state == State::Running {
            builder.apply_deferred_outcomes()?;
        }
        builder.run_to_quiescence()?;
        Ok(builder.into_decision(None))
    }

    /// The visits whose outcome is unknown.
    fn visits_with_unknown_outcome(&self) -> impl Iterator<Item = (usize, &StepState, &Visit)> {
        let is_unknown = |visit: &Visit| visit.awaiting == Some(WaitCondition::Unknown);
        self.open_visits().filter(move |(_, _, visit)| is_unknown(visit))
    }

    fn find_visit_with_unknown_outcome(
        &self,
        resolution: &Resolution,
    ) -> DecideResult<(usize, &StepState, &Visit)> {
        let is_match = |step: &StepState, visit: &Visit| {
            let is_item = resolution.item.is_none() || visit.item == resolution.item;
            let attempt = (visit.number, visit.attempt);
            let is_attempt = resolution.attempt.is_none_or(|meant| meant == attempt);
            step.id == resolution.step && is_item && is_attempt
        };
        let mut candidates =
            self.visits_with_unknown_outcome().filter(|(_, step, visit)| is_match(step, visit));
        let first = candidates.next();
        let refuse = |message: String| {
            Interrupt::Refused(self.step_error(Code::OutcomeKnown, &resolution.step, message))
        };
        let Some(first) = first else {
            return Err(refuse(format!(
                "nobody needs to say what came of step '{}'",
                resolution.step
            )));
        };
        if candidates.next().is_some() {
            return Err(refuse(format!(
                "what came of several items of step '{}' is not known: name one with item",
                resolution.step
            )));
        }
        Ok(first)
    }

    /// Refuses any change of an execution that has ended.
    pub(super) fn check_not_ended(&self) -> DecideResult<()> {
        if !self.state.is_final() {
            return Ok(());
        }
        let message = format!("the execution is {}", self.state);
        let error = Error::new(Code::ExecutionFinished, message);
        Err(self.with_execution_context(error).into())
    }
}

fn check_text_length(what: &str, text: &str, bytes_max: usize) -> Result<()> {
    if text.len() <= bytes_max {
        return Ok(());
    }
    let limit = format!("{what} may have {bytes_max} bytes");
    let message = format!("{limit}, this one has {}", text.len());
    Err(Error::limit_exceeded(limit).with_message(message))
}

impl TransitionBuilder<'_> {
    /// Refuses the output of a [`Resolution`] if it breaks the schema of the step.
    fn check_resolved_output(
        &self,
        position: usize,
        step: &Step,
        visit_id: &VisitId,
        output: &Value,
    ) -> DecideResult<()> {
        let violations = self.find_output_violations(position, step, output);
        if violations.is_empty() {
            return Ok(());
        }
        let message = format!(
            "the output breaks the schema of step '{}' in {}",
            visit_id.step(),
            format_count(violations.len(), "place")
        );
        let error = budget_exceeded_error(
            &format!("the output of step '{}'", visit_id.step()),
            &violations,
        )
        .unwrap_or_else(|| Error::new(Code::StepOutputInvalid, message))
        .with_context("step_id", visit_id.step().as_str())
        .with_next(repeat_call("correct every violation of the output"))
        .with_violations(violations);
        Err(self.execution.with_execution_context(error).into())
    }

    /// Postpones the next attempt until the execution runs and time is processed. `attempt` is the number of the
    /// attempt before it.
    pub(super) fn postpone_attempt(&mut self, visit_id: &VisitId, attempt: u32) {
        let due = self.row.at;
        self.change_wait(visit_id, attempt, WaitCondition::Retry { due });
    }
}
