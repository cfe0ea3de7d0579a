//! Judging a report: it is accepted or refused, holds the step, or ends it. Also asks a model for another attempt.

use std::{borrow::Cow, sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{
    ConsumedCall, Event, Execution, Failure, Payload, Report, StepState, Submission, Visit,
    VisitId, WaitCondition,
    decision::{DecideResult, Interrupt},
    transition::{Content, TransitionBuilder, make_payload},
};
use crate::{
    FailureCode,
    artifact::{Artifact, ArtifactReference, extract_artifacts},
    definition::{OnError, Step, StepKind},
    document::{Digest, canonical_digest},
    error::{
        Code, Error, NextCall, Result, Violation, address, call_tool, format_count, read_resource,
    },
    failure::truncate_to_bytes,
    limits,
    offer::SuggestedCall,
    orchestrator::UtilityCall,
    schema::budget_exceeded_error,
};

/// The next call to suggest after a step failed for good.
const STEP_FAILED_NEXT_CALL: NextCall = read_resource(
    address!("workflow_status/{execution_id}"),
    "it says what came of the execution; execution.retry continues one that failed",
);

/// The next call to suggest for a held step.
pub(super) const HELD_STEP_NEXT_CALL: NextCall = call_tool(
    "execution.resume",
    &[("execution_id", "{execution_id}")],
    "the step goes on with the token that it has, and may bring as many malformed outputs again; correct every violation before",
);

/// What happens to a visit after [`limits::OUTPUT_ATTEMPTS_MAX`] malformed outputs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ExhaustionAction {
    /// It is held until a resume.
    Hold,
    /// It fails, because the workflow handles the failure or is failing already.
    Fail,
}

impl Execution {
    /// Judges a report by the kind of its step.
    pub(super) fn judge_report(
        &self,
        builder: &mut TransitionBuilder<'_>,
        turn: &OpenTurn<'_>,
        report: &Report,
    ) -> DecideResult<ReportJudgement> {
        let value = match report {
            Report::Output(value) | Report::Answer(value) => value,
            Report::Error { message, code, retryable } => {
                let code = code.as_deref().unwrap_or(FailureCode::StepFailed.as_str());
                let code = truncate_to_bytes(code, limits::FAILURE_CODE_BYTES_MAX);
                let failure = Failure::new(code, message, Some(&turn.step.id));
                return builder.judge_failure(turn, failure, *retryable);
            }
        };
        let with_step_context = |error: Error| {
            self.with_execution_context(error.with_context("step_id", turn.step.id.as_str()))
        };
        let payload =
            make_payload(value, limits::OUTPUT_BYTES_MAX, "output").map_err(with_step_context)?;
        if builder.step(turn.position).acting_step().kind.requested_inputs().is_some() {
            let judgement = self.judge_answers(builder, turn, value);
            return judgement.map_err(|interrupt| interrupt.with_error_context(with_step_context));
        }
        let split_output = builder.split_suggestions(turn.position, value);
        let mut violations =
            builder.find_model_output_violations(turn.position, value, split_output.as_ref());
        if violations.is_empty()
            && let Some(call) = builder.find_utility_call(turn.position, Some(turn.visit))?
        {
            match call.check_result(value) {
                Ok(output) => {
                    let payload = make_payload(&output, limits::OUTPUT_BYTES_MAX, "output")
                        .map_err(with_step_context)?;
                    let accepted = AcceptedOutput::without_artifacts(output, payload);
                    return Ok(ReportJudgement::Accepted(Box::new(accepted)));
                }
                Err(refused) => violations = refused,
            }
        }
        if !violations.is_empty() {
            return Ok(self.judge_malformed_output(builder, turn, value, violations)?);
        }
        let Some(split_output) = split_output else {
            let accepted = AcceptedOutput::from_output(value, payload, self.artifacts)
                .map_err(with_step_context)?;
            return Ok(ReportJudgement::Accepted(Box::new(accepted)));
        };
        let payload = make_payload(&split_output.output, limits::OUTPUT_BYTES_MAX, "output")
            .map_err(with_step_context)?;
        let mut accepted =
            AcceptedOutput::from_output(&split_output.output, payload, self.artifacts)
                .map_err(with_step_context)?;
        accepted.suggestions = split_output.suggestions.ok();
        Ok(ReportJudgement::Accepted(Box::new(accepted)))
    }

    /// Judges a malformed output. An output that was refused before in this visit is refused again without being
    /// counted.
    pub(super) fn judge_malformed_output(
        &self,
        builder: &TransitionBuilder<'_>,
        turn: &OpenTurn<'_>,
        value: &Value,
        violations: Vec<Violation>,
    ) -> Result<ReportJudgement> {
        let (step, refused) = (turn.step, &turn.visit.refused);
        let output = canonical_digest(value);
        let refusal_count = u32::try_from(refused.len()).unwrap_or(u32::MAX);
        let exhaustion_action = builder.action_on_attempts_exhausted(turn.position);
        if refused.contains(&output) {
            return Err(self.invalid_output_error(
                step,
                refusal_count,
                exhaustion_action,
                violations,
            ));
        }
        let refusal =
            self.invalid_output_error(step, refusal_count + 1, exhaustion_action, violations);
        Ok(if refusal_count + 1 < limits::OUTPUT_ATTEMPTS_MAX {
            ReportJudgement::Refused(refusal, output)
        } else if exhaustion_action == ExhaustionAction::Hold {
            ReportJudgement::Held(refusal, output)
        } else {
            ReportJudgement::RefusedFinally(refusal)
        })
    }

    /// The refusal of the malformed output number `refusal_count` of a visit.
    pub(super) fn invalid_output_error(
        &self,
        step: &StepState,
        refusal_count: u32,
        exhaustion_action: ExhaustionAction,
        violations: Vec<Violation>,
    ) -> Error {
        let max_outputs = limits::OUTPUT_ATTEMPTS_MAX;
        let (what, action) = match exhaustion_action {
            _ if refusal_count < max_outputs => ("the token stays valid", None),
            ExhaustionAction::Hold => (
                "that was the last one: the step is held until execution.resume",
                Some(HELD_STEP_NEXT_CALL),
            ),
            ExhaustionAction::Fail => {
                ("that was the last one: the step failed", Some(STEP_FAILED_NEXT_CALL))
            }
        };
        let count = format_count(violations.len(), "place");
        let message = format!(
            "the output of step '{}' breaks its schema in {count} (malformed output {refusal_count} of {max_outputs}; {what})",
            step.id
        );
        let subject = format!(
            "the output of step '{}' (malformed output {refusal_count} of {max_outputs}; {what})",
            step.id
        );
        let error = budget_exceeded_error(&subject, &violations)
            .unwrap_or_else(|| Error::new(Code::StepOutputInvalid, message))
            .with_context("step_id", step.id.as_str());
        let error = match action {
            Some(action) => error.with_next(action),
            None => error,
        };
        self.with_execution_context(error.with_violations(violations))
    }
}

impl TransitionBuilder<'_> {
    /// The call of a utility tool that a step asks for, if it asks for one.
    pub(super) fn find_utility_call(
        &self,
        position: usize,
        visit: Option<&Visit>,
    ) -> DecideResult<Option<UtilityCall>> {
        let workflow = &self.context.definition.workflow;
        let step = self.step(position).acting_step();
        let StepKind::Tool { name } = &step.kind else {
            return Ok(None);
        };
        if workflow.orchestrator.is_none() {
            return Ok(None);
        }
        let input = visit.map(|visit| self.load_visit_input(visit)).transpose()?;
        let constant = step.with.as_ref().map(|with| json!(with)).unwrap_or_default();
        let with = input.as_ref().and_then(|input| input.get("with")).unwrap_or(&constant);
        Ok(UtilityCall::from_step(workflow, name, with))
    }

    /// A step with a failure branch, and an optional one, fails. Without one, its failure would end the execution, so
    /// it is held for a person, unless the execution is failing already.
    pub(super) fn action_on_attempts_exhausted(&self, position: usize) -> ExhaustionAction {
        let step = self.step(position);
        let can_continue = |step: &Step| {
            let has_thresholds = step.declared_thresholds().is_some();
            step.optional || step.on_error != OnError::Fail || has_thresholds
        };
        let should_fail = can_continue(step)
            || can_continue(step.acting_step())
            || self.execution.failing.is_some();
        if should_fail { ExhaustionAction::Fail } else { ExhaustionAction::Hold }
    }

    /// Holds the visit until a resume. Other open visits are not affected.
    pub(super) fn hold_visit(&mut self, turn: &OpenTurn<'_>, output: Digest) -> DecideResult<()> {
        let visit_id = turn.visit_id();
        let awaiting = WaitCondition::OutputInvalid(turn.consumed.grant);
        self.push_event(Event::OutputRefused { visit_id: visit_id.clone(), output });
        self.change_wait(&visit_id, turn.visit.attempt, awaiting);
        self.run_to_quiescence()
    }

    /// The report of a submission, with text parsed as JSON where [`Self::parse_text_report`] does so.
    pub(super) fn parse_submission_report<'a>(
        &self,
        position: usize,
        submission: &'a Submission,
    ) -> Option<Cow<'a, Report>> {
        let report = submission.report.as_ref();
        report.map(|report| self.parse_text_report(position, report))
    }

    /// Replaces a text by the JSON value that it holds, if the step does not accept the text itself. So the text and
    /// the value are the same call.
    fn parse_text_report<'a>(&self, position: usize, report: &'a Report) -> Cow<'a, Report> {
        let Report::Output(Value::String(text)) = report else {
            return Cow::Borrowed(report);
        };
        let definition = self.context.definition;
        let is_valid =
            |value: &Value| definition.output_schema(position).find_violations(value).is_empty();
        if text.len() > limits::OUTPUT_BYTES_MAX
            || definition.accepts_text(&self.step(position).id, text)
        {
            return Cow::Borrowed(report);
        }
        match serde_json::from_str(text) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => Cow::Owned(Report::Output(value)),
            Ok(value) if is_valid(&value) => Cow::Owned(Report::Output(value)),
            _ => Cow::Borrowed(report),
        }
    }

    /// Judges the report that a model could not do its step: retries it, or fails it.
    fn judge_failure(
        &mut self,
        turn: &OpenTurn<'_>,
        failure: Failure,
        retryable: Option<bool>,
    ) -> DecideResult<ReportJudgement> {
        let step = self.step(turn.position).acting_step();
        let delay = self.compute_retry_delay(step, turn.visit, &failure);
        let Some(delay) = delay.filter(|_| retryable != Some(false)) else {
            return Ok(ReportJudgement::Failed(failure));
        };
        let ended_attempt = (Some(failure), Some(turn.consumed));
        self.reoffer_after_delay(&turn.visit_id(), turn.visit.attempt, ended_attempt, delay);
        if !delay.is_zero() {
            self.run_to_quiescence()?;
        }
        Ok(ReportJudgement::Reoffered)
    }

    /// Keeps an accepted output of a step with `repeat` whose `until` does not hold yet, and offers the step again.
    pub(super) fn judge_poll(
        &mut self,
        turn: &OpenTurn<'_>,
        judgement: ReportJudgement,
    ) -> DecideResult<ReportJudgement> {
        let step = self.step(turn.position).acting_step();
        let ReportJudgement::Accepted(accepted) = judgement else {
            return Ok(judgement);
        };
        let visit_id = turn.visit_id();
        let due = self
            .compute_next_repeat_time(step, &visit_id, turn.visit, &accepted.output)
            .and_then(|due| self.keep_poll(step, &visit_id, (&accepted.output, due)));
        let due = match due {
            Ok(Some(due)) => due,
            Ok(None) => return Ok(ReportJudgement::Accepted(accepted)),
            Err(Interrupt::Failed(failure)) => return Ok(ReportJudgement::Failed(failure)),
            Err(interrupt) => return Err(interrupt),
        };
        self.contents.extend(accepted.contents);
        self.store_artifacts(&visit_id, accepted.artifacts, accepted.references);
        let (attempt, consumed) = (turn.visit.attempt, Some(turn.consumed));
        self.end_attempt(&visit_id, attempt, None, consumed, WaitCondition::Retry { due });
        if due > self.row.at {
            self.run_to_quiescence()?;
        } else {
            let awaiting = self.wait_for_new_token();
            self.change_wait(&visit_id, attempt + 1, awaiting);
        }
        Ok(ReportJudgement::Reoffered)
    }

    /// The pause before the next attempt of a model's step; `None` if `retry` does not cover the failure or has no
    /// attempt left.
    pub(super) fn compute_retry_delay(
        &self,
        step: &Step,
        visit: &Visit,
        failure: &Failure,
    ) -> Option<Duration> {
        let retry = step.retry.as_ref()?;
        let is_covered = retry.on.is_empty() || retry.has_failure_code(&failure.code);
        let can_retry = is_covered && visit.failures + 1 < retry.max_attempts;
        can_retry.then(|| retry.compute_retry_delay(visit.failures + 1, self.ids.random()))
    }

    /// Ends the attempt and begins the next one at once, with a new token.
    pub(super) fn reoffer_turn(&mut self, turn: &OpenTurn<'_>, failure: Option<Failure>) {
        let ended_attempt = (failure, Some(turn.consumed));
        self.reoffer_after_delay(
            &turn.visit_id(),
            turn.visit.attempt,
            ended_attempt,
            Duration::ZERO,
        );
    }

    /// Ends an attempt of a model and begins the next one after `delay`, with a new token.
    pub(super) fn reoffer_after_delay(
        &mut self,
        visit_id: &VisitId,
        attempt: u32,
        (failure, consumed): (Option<Failure>, Option<ConsumedCall>),
        delay: Duration,
    ) {
        let due = self.row.at.plus(delay);
        let awaiting =
            if delay.is_zero() { self.wait_for_new_token() } else { WaitCondition::Retry { due } };
        self.end_attempt(visit_id, attempt, failure, consumed, awaiting.clone());
        if delay.is_zero() {
            self.change_wait(visit_id, attempt + 1, awaiting);
        }
    }
}

/// An open visit and the call that used its token.
pub(super) struct OpenTurn<'a> {
    pub(super) position: usize,
    pub(super) step: &'a StepState,
    pub(super) visit: &'a Visit,
    pub(super) consumed: ConsumedCall,
    /// Whether the report is an answer that the client got from the user.
    pub(super) is_user_answer: bool,
}

impl OpenTurn<'_> {
    pub(super) fn visit_id(&self) -> VisitId {
        self.visit.visit_id(&self.step.id)
    }
}

/// An accepted output in the form in which it is stored.
pub(super) struct AcceptedOutput {
    pub(super) output: Value,
    pub(super) payload: Payload,
    pub(super) contents: Vec<(Digest, Arc<[u8]>)>,
    pub(super) artifacts: Vec<Artifact>,
    pub(super) references: Vec<ArtifactReference>,
    /// The calls that it suggests, if it has any.
    pub(super) suggestions: Option<Vec<SuggestedCall>>,
}

impl AcceptedOutput {
    /// An output without artifacts.
    pub(super) fn without_artifacts(output: Value, (payload, content): (Payload, Content)) -> Self {
        Self {
            output,
            payload,
            contents: content.into_iter().collect(),
            artifacts: Vec::new(),
            references: Vec::new(),
            suggestions: None,
        }
    }

    fn from_output(
        value: &Value,
        payload: (Payload, Content),
        artifact_count: u32,
    ) -> Result<Self> {
        let Some(extracted) = extract_artifacts(value, artifact_count)? else {
            return Ok(Self::without_artifacts(value.clone(), payload));
        };
        let payload = make_payload(&extracted.output, limits::OUTPUT_BYTES_MAX, "output")?;
        let mut accepted = Self::without_artifacts(extracted.output, payload);
        accepted.references = extracted.references;
        for (artifact, content) in extracted.artifacts {
            accepted.contents.push((artifact.digest, content));
            accepted.artifacts.push(artifact);
        }
        Ok(accepted)
    }
}

/// The result of judging a report.
pub(super) enum ReportJudgement {
    Accepted(Box<AcceptedOutput>),
    /// Malformed; the token stays valid.
    Refused(Error, Digest),
    RefusedFinally(Error),
    /// Malformed for the last time; the visit is held until a resume.
    Held(Error, Digest),
    /// The visit continues with a new attempt, under a new token or after a pause.
    Reoffered,
    Failed(Failure),
}
