//! Work of the server: begun only once the transition that asks for it is durable. Also the outcomes and the recovery
//! of that work.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::{Number, Value, json};

use super::{
    Attachment, AttemptId, AttemptNotes, Decision, EffectOutput, Event, Execution, Failure,
    OperationFailure, Outcome, OwnerEpoch, PauseReason, ReportedOutcome, State, StepState,
    ValueReference, Visit, VisitId, WaitCondition,
    decision::{DecideResult, Interrupt},
    enter::check_input,
    scope::VisitScope,
    time::find_step_of_visit,
    transition::TransitionBuilder,
};
use crate::{
    FailureCode,
    artifact::{self, Artifact},
    clock::Timestamp,
    definition::{InterruptPolicy, RetryPolicy, Step, StepKind},
    error::{Result, Violation, class_of_failure, format_count},
    expression::{Reference, RenderedValue},
    id::ExecutionId,
    limits,
    schema::budget_exceeded_error,
    span::compute_backoff_with_factor,
};

impl StepKind {
    /// Whether the author declares the work idempotent; `None` if nothing is declared.
    pub(super) const fn declared_idempotence(&self) -> Option<bool> {
        match self {
            Self::Run { idempotent, .. } | Self::Activity { idempotent, .. } => *idempotent,
            _ => None,
        }
    }
}

impl Execution {
    /// The open attempts of the server and of children.
    pub fn open_attempts(&self) -> impl Iterator<Item = AttemptId> {
        self.open_visits().filter_map(|(_, step, visit)| {
            let is_operation = visit.awaiting.as_ref().is_some_and(WaitCondition::is_attempt);
            is_operation.then(|| build_attempt_id(step, visit))
        })
    }

    /// The visit that waits for this attempt, with its step and the step's position.
    fn find_open_attempt(&self, attempt_id: &AttemptId) -> Option<(usize, &StepState, &Visit)> {
        let found = self.find_visit(&attempt_id.visit_id);
        found.filter(|(_, _, visit)| {
            visit.attempt == attempt_id.attempt
                && visit.awaiting.as_ref().is_some_and(WaitCondition::is_attempt)
        })
    }

    /// The attempts of the server that no process works on any more, as seen by the present `owner`, whose process works
    /// on `alive`: all others that this owner or an earlier one began.
    pub fn find_lost_attempts(
        &self,
        owner: OwnerEpoch,
        alive: &BTreeSet<AttemptId>,
    ) -> impl Iterator<Item = AttemptId> {
        self.open_visits().filter_map(move |(_, step, visit)| {
            let Some(WaitCondition::Operation { owner: attempt_owner }) = visit.awaiting else {
                return None;
            };
            let id = build_attempt_id(step, visit);
            (attempt_owner <= owner && !alive.contains(&id)).then_some(id)
        })
    }

    pub(super) fn decide_outcome(
        &self,
        mut builder: TransitionBuilder<'_>,
        attempt_id: &AttemptId,
        outcome: &Result<EffectOutput, OperationFailure>,
        notes: &AttemptNotes,
    ) -> DecideResult<Decision> {
        let Some((position, state, visit)) = self.find_open_attempt(attempt_id) else {
            return Ok(Decision::NoChange);
        };
        let definition = builder.context.definition;
        let Some(step) = find_step_of_visit(definition, position, state, visit) else {
            return Ok(Decision::NoChange);
        };
        builder.holds_server_work = self.is_paced;
        if let Some(metadata) = &notes.metadata {
            let visit_id = attempt_id.visit_id.clone();
            builder.push_event(Event::MetadataReported { visit_id, metadata: metadata.clone() });
        }
        match outcome {
            Err(failure) => builder.handle_failed_attempt(step, attempt_id, visit, failure)?,
            Ok(EffectOutput::Output(output)) => {
                let extras =
                    OutputExtras { memory: Some(&notes.memory), ..OutputExtras::default() };
                builder
                    .handle_successful_attempt(position, step, attempt_id, visit, output, extras)?;
            }
            Ok(EffectOutput::Attachment(attachment)) => {
                builder.store_attachment(position, step, attempt_id, visit, attachment)?;
            }
            Ok(EffectOutput::Page(page)) => {
                builder.handle_page(position, step, attempt_id, visit, page)?;
            }
        }
        builder.run_to_quiescence()?;
        Ok(builder.into_decision(None))
    }

    /// Postpones an attempt that never began until the next tick, which begins it under the same number.
    pub(super) fn decide_postponed_attempt(
        &self,
        mut builder: TransitionBuilder<'_>,
        attempt_id: &AttemptId,
    ) -> Decision {
        if self.find_open_attempt(attempt_id).is_some() {
            builder.postpone_attempt(&attempt_id.visit_id, attempt_id.attempt - 1);
        }
        builder.into_decision(None)
    }

    /// Recovers attempts whose process ended: those that are safe to repeat are begun again. For the others the
    /// execution is paused until a person or a model says what their outcome was.
    pub(super) fn decide_recovery(
        &self,
        mut builder: TransitionBuilder<'_>,
        alive: &BTreeSet<AttemptId>,
    ) -> DecideResult<Decision> {
        let mut lost: Vec<_> = self
            .find_lost_attempts(builder.context.owner, alive)
            .filter_map(|attempt_id| {
                let (position, state, visit) = self.find_visit(&attempt_id.visit_id)?;
                let step = find_step_of_visit(builder.context.definition, position, state, visit)?;
                Some((builder.interrupt_policy(step), attempt_id, step, visit))
            })
            .collect();
        // Work whose outcome is asked for comes first: it pauses the execution, and then nothing else is begun.
        lost.sort_by_key(|(policy, ..)| *policy != InterruptPolicy::Ask);
        for (policy, attempt_id, step, visit) in lost {
            // The failure of another attempt may have voided the visit.
            match policy {
                _ if builder.execution.find_open_attempt(&attempt_id).is_none() => {}
                InterruptPolicy::Again => builder.repeat_interrupted(step, &attempt_id, visit)?,
                InterruptPolicy::Fail => {
                    let failure = OperationFailure::new("interrupted", INTERRUPTED_MESSAGE)
                        .with_code(FailureCode::Interrupted)
                        .as_retryable();
                    builder.handle_failed_attempt(step, &attempt_id, visit, &failure)?;
                }
                InterruptPolicy::Ask => {
                    let AttemptId { visit_id, attempt } = attempt_id;
                    builder.change_wait(&visit_id, attempt, WaitCondition::Unknown);
                    if !builder.execution.pauses.contains(&PauseReason::OutcomeUnknown) {
                        builder.add_pause_reason(PauseReason::OutcomeUnknown)?;
                    }
                }
            }
        }
        builder.run_to_quiescence()?;
        Ok(builder.into_decision(None))
    }
}

/// Why an attempt that a crash cut off failed.
const INTERRUPTED_MESSAGE: &str = "the server was stopped in the middle of the attempt";

/// Values that are stored together with the output of an attempt.
#[derive(Default)]
pub(super) struct OutputExtras<'a> {
    /// The artifact that the output refers to. It is kept only if the visit completes.
    pub(super) artifact: Option<(Artifact, Arc<[u8]>)>,
    /// Values for memory. They are written also if the step repeats.
    pub(super) memory: Option<&'a BTreeMap<String, Value>>,
}

pub(super) fn build_attempt_id(step: &StepState, visit: &Visit) -> AttemptId {
    AttemptId { visit_id: visit.visit_id(&step.id), attempt: visit.attempt }
}

impl TransitionBuilder<'_> {
    /// What happens to an attempt of the step that a crash cut off.
    fn interrupt_policy(&self, step: &Step) -> InterruptPolicy {
        step.interrupted.unwrap_or_else(|| {
            let declared = step.kind.declared_idempotence();
            let is_safe =
                declared.unwrap_or_else(|| self.context.work.is_safe_to_retry(&step.kind));
            if is_safe { InterruptPolicy::Again } else { InterruptPolicy::Ask }
        })
    }

    /// Ends an attempt that was cut off, and begins the next one: at once if the execution runs, else at the resume.
    pub(super) fn repeat_interrupted(
        &mut self,
        step: &Step,
        attempt_id: &AttemptId,
        visit: &Visit,
    ) -> DecideResult<()> {
        let AttemptId { visit_id, attempt } = attempt_id;
        let failure =
            Failure::new(FailureCode::Interrupted, INTERRUPTED_MESSAGE, visit_id.step.as_ref());
        // Not a wait for a retry: the attempt does not count as a failure.
        let awaiting = WaitCondition::Operation { owner: self.context.owner };
        self.end_attempt(visit_id, *attempt, Some(failure), None, awaiting);
        if self.execution.state == State::Running {
            return self.retry_work(step, visit_id, visit);
        }
        self.postpone_attempt(visit_id, *attempt);
        Ok(())
    }

    /// Begins the next attempt, unless it cannot begin now.
    pub(super) fn retry_work(
        &mut self,
        step: &Step,
        visit_id: &VisitId,
        visit: &Visit,
    ) -> DecideResult<()> {
        if let Some(awaiting) = self.wait_before_work(step) {
            self.change_wait(visit_id, visit.attempt, awaiting);
            return Ok(());
        }
        let mut input = self.read_work_input(visit)?;
        self.migrate_pages_from_input(visit_id, &mut input)?;
        let attempt = visit.attempt + 1;
        let visit_id = visit_id.clone();
        let attempt_id = AttemptId { visit_id, attempt };
        let awaiting = self.wait_condition_for_attempt(step, &attempt_id);
        self.change_wait(&attempt_id.visit_id, attempt, awaiting);
        self.begin_work(step, attempt_id, input);
        Ok(())
    }

    /// The input of a visit of the server.
    pub(super) fn read_work_input(&self, visit: &Visit) -> DecideResult<RenderedValue> {
        let input = match visit.input {
            Some(digest) => self.require_value(ValueReference::by_digest(digest))?,
            None => Arc::default(),
        };
        Ok(RenderedValue::from_stored_json(&input)?)
    }

    /// What the step has to wait for before its work can begin: its catalog if that is missing or disabled, or a tick.
    pub(super) fn wait_before_work(&self, step: &Step) -> Option<WaitCondition> {
        match &step.kind {
            StepKind::Run { catalog, .. } if self.context.work.is_catalog_missing(&step.kind) => {
                let catalog = catalog.clone();
                Some(WaitCondition::Catalog { catalog })
            }
            _ if self.context.postpones_work => Some(WaitCondition::Retry { due: self.row.at }),
            _ => None,
        }
    }

    pub(super) fn handle_failed_attempt(
        &mut self,
        step: &Step,
        attempt_id: &AttemptId,
        visit: &Visit,
        failure: &OperationFailure,
    ) -> DecideResult<()> {
        // No request was sent, so the same attempt is postponed.
        if failure.code.as_deref() == Some(FailureCode::CatalogMissing.as_str()) {
            self.postpone_attempt(&attempt_id.visit_id, attempt_id.attempt - 1);
            return Ok(());
        }
        let code = failure.code.clone();
        let code = code.unwrap_or_else(|| failure.class.to_uppercase());
        let step_failure = Failure {
            response: failure.response.clone(),
            is_retryable: failure.is_retryable,
            ..Failure::new(code, &failure.message, attempt_id.visit_id.step.as_ref())
        };
        let default_retry = || self.context.work.default_retry(&step.kind);
        if let Some(retry) = step.retry.clone().or_else(default_retry)
            && visit.failures + 1 < retry.max_attempts
            && retry.is_retryable_failure(failure)
        {
            let delay = retry
                .compute_retry_delay(visit.failures + 1, self.ids.random())
                .max(failure.retry_after.unwrap_or_default());
            let due = self.row.at.plus(delay.min(limits::SPAN_MAX));
            self.schedule_next_attempt(attempt_id, Some(step_failure), due);
            return Ok(());
        }
        self.conclude_visit(&attempt_id.visit_id, ReportedOutcome::Failure(step_failure))
    }

    /// Ends an attempt and schedules the next one for `due`.
    fn schedule_next_attempt(
        &mut self,
        attempt_id: &AttemptId,
        failure: Option<Failure>,
        due: Timestamp,
    ) {
        let AttemptId { visit_id, attempt } = attempt_id;
        self.end_attempt(visit_id, *attempt, failure, None, WaitCondition::Retry { due });
    }

    /// Stores a response body as an artifact, in the same transition as the output that refers to it.
    pub(super) fn store_attachment(
        &mut self,
        position: usize,
        step: &Step,
        attempt_id: &AttemptId,
        visit: &Visit,
        attachment: &Attachment,
    ) -> DecideResult<()> {
        match attachment.build_artifact(self.execution.artifacts) {
            Ok(stored) => {
                let output = attachment.build_output_with_artifact(&stored.0, &self.execution.id);
                self.handle_successful_attempt(
                    position,
                    step,
                    attempt_id,
                    visit,
                    &output,
                    OutputExtras { artifact: Some(stored), ..OutputExtras::default() },
                )
            }
            Err(error) => {
                let failure = OperationFailure::new("too_large", error.message())
                    .with_code(FailureCode::LimitExceeded);
                self.handle_failed_attempt(step, attempt_id, visit, &failure)
            }
        }
    }

    /// Takes a successful output: checks its schema, then repeats the step if `until` does not hold yet, or else
    /// completes the visit.
    pub(super) fn handle_successful_attempt(
        &mut self,
        position: usize,
        step: &Step,
        attempt_id: &AttemptId,
        visit: &Visit,
        output: &Value,
        extras: OutputExtras<'_>,
    ) -> DecideResult<()> {
        let visit_id = &attempt_id.visit_id;
        let split_output = self.split_server_suggestions(position, visit_id, output);
        let output = split_output.as_ref().map_or(output, |taken| &taken.output);
        if let Err(interrupt) = self.check_output_schema(position, step, visit_id, output) {
            let Interrupt::Failed(Failure { code, message, .. }) = interrupt else {
                return Err(interrupt);
            };
            // The call was carried out, so it is retried only if it is safe to repeat.
            let retryable = code == FailureCode::OutputInvalid.as_str() && self.can_repeat(step);
            let failure = OperationFailure {
                code: Some(code),
                is_retryable: retryable,
                ..OperationFailure::new("output_invalid", message)
            };
            return self.handle_failed_attempt(step, attempt_id, visit, &failure);
        }
        for (name, value) in extras.memory.into_iter().flatten() {
            self.write_memory(name, value.clone())?;
        }
        let next_poll = self
            .compute_next_repeat_time(step, visit_id, visit, output)
            .and_then(|due| self.keep_poll(step, visit_id, (output, due)));
        let reported = match next_poll {
            Ok(Some(due)) => {
                self.schedule_next_attempt(attempt_id, None, due);
                return Ok(());
            }
            Ok(None) => {
                match self.store_value(output.clone(), limits::OUTPUT_BYTES_MAX, "output") {
                    Ok(payload) => {
                        if let Some((artifact, content)) = extras.artifact {
                            self.contents.push((artifact.digest, content));
                            self.store_artifacts(visit_id, vec![artifact], Vec::new());
                        }
                        self.offer_server_step_options(
                            position,
                            visit_id,
                            output,
                            split_output.as_ref(),
                        )?;
                        ReportedOutcome::Output(payload)
                    }
                    Err(error) => {
                        ReportedOutcome::Failure(Failure::from_error(&error, visit_id.step()))
                    }
                }
            }
            Err(Interrupt::Failed(failure)) => ReportedOutcome::Failure(failure),
            Err(interrupt) => return Err(interrupt),
        };
        self.conclude_visit(visit_id, reported)
    }

    /// Whether a step that was carried out may be retried. The author of an activity or a child decides that by declaring `retry`.
    fn can_repeat(&self, step: &Step) -> bool {
        let default_for_kind = || match &step.kind {
            StepKind::Run { .. } => self.context.work.is_safe_to_retry(&step.kind),
            _ => true,
        };
        step.kind.declared_idempotence().unwrap_or_else(default_for_kind)
    }

    /// The violations of an output of the server. A step without a schema accepts anything.
    pub(super) fn find_output_violations(
        &self,
        position: usize,
        step: &Step,
        output: &Value,
    ) -> Vec<Violation> {
        let schema = self.context.definition.output_schema(position);
        match step.result {
            Some(_) => schema.find_violations(output),
            None => Vec::new(),
        }
    }

    /// Fails with `OUTPUT_INVALID`, or `LIMIT_EXCEEDED` if the check exceeds its budget, unless the output satisfies
    /// the schema of the step.
    fn check_output_schema(
        &self,
        position: usize,
        step: &Step,
        visit_id: &VisitId,
        output: &Value,
    ) -> DecideResult<()> {
        let violations = self.find_output_violations(position, step, output);
        let Some(first) = violations.first() else {
            return Ok(());
        };
        let what = format!("what step '{}' brought", visit_id.step());
        if let Some(error) = budget_exceeded_error(&what, &violations) {
            let message = error.message();
            return Err(Interrupt::step_failure(step, FailureCode::LimitExceeded, message));
        }
        let message = format!(
            "{what} breaks its schema in {}: {}: {}",
            format_count(violations.len(), "place"),
            first.path,
            first.message
        );
        Err(Interrupt::step_failure(step, FailureCode::OutputInvalid, message))
    }

    /// Keeps the output of a step with `repeat` whose `until` does not hold yet, and renders its input anew if that
    /// reads `run.last`. Returns when the next attempt is due, if there is one.
    pub(super) fn keep_poll(
        &mut self,
        step: &Step,
        visit_id: &VisitId,
        (output, due): (&Value, Option<Timestamp>),
    ) -> DecideResult<Option<Timestamp>> {
        if due.is_none() {
            return Ok(None);
        }
        let output = self
            .store_value_by_digest(output.clone(), limits::OUTPUT_BYTES_MAX, "output")
            .map_err(|error| Interrupt::Failed(Failure::from_error(&error, visit_id.step())))?;
        self.push_event(Event::PollKept { visit_id: visit_id.clone(), output });
        if let Some((_, compiled)) = self.find_step_and_expressions(visit_id)
            && compiled.input.references().iter().any(Reference::is_last_output)
        {
            let input =
                self.render_with_secret_places(&compiled.input, &self.visit_scope(visit_id)?)?;
            let input = if step.kind.is_answered_by_model() {
                check_input(step, compiled, &input.value)?;
                self.store_visit_input(input.value)?
            } else {
                self.store_work_input(&input)?
            };
            self.push_event(Event::TaskChanged { visit_id: visit_id.clone(), input });
        }
        Ok(due)
    }

    /// When a step with `repeat` is to be executed again; `None` once its `until` holds.
    pub(super) fn compute_next_repeat_time(
        &self,
        step: &Step,
        visit_id: &VisitId,
        visit: &Visit,
        output: &Value,
    ) -> DecideResult<Option<Timestamp>> {
        let Some(repeat) = &step.repeat else {
            return Ok(None);
        };
        let compiled = self.find_step_and_expressions(visit_id).map(|(_, compiled)| compiled);
        let scope = VisitScope { own_output: Some(output), ..self.visit_scope(visit_id)? };
        if let Some(until) = compiled.and_then(|compiled| compiled.until.as_ref())
            && self.evaluate_condition(until, &scope)?
        {
            return Ok(None);
        }
        if visit.repeats + 1 >= repeat.max_attempts {
            let message =
                format!("`{}` did not hold after {} attempts", repeat.until, repeat.max_attempts);
            let code = FailureCode::RepeatExhausted;
            return Err(Interrupt::step_failure(step, code, message));
        }
        let due = self.row.at.plus(repeat.every.duration());
        match repeat.timeout {
            Some(timeout) if due > visit.opened_at.plus(timeout.duration()) => {
                let message = format!("`{}` did not hold within {timeout}", repeat.until);
                Err(Interrupt::step_failure(step, FailureCode::RepeatTimedOut, message))
            }
            _ => Ok(Some(due)),
        }
    }

    /// Closes a visit with its outcome. While the execution is paused the outcome is stored and applied when the pause
    /// ends.
    pub(super) fn conclude_visit(
        &mut self,
        visit_id: &VisitId,
        reported: ReportedOutcome,
    ) -> DecideResult<()> {
        if self.execution.state == State::Paused {
            let attempt = self.attempt_number(visit_id);
            self.change_wait(visit_id, attempt, WaitCondition::Deferred(Box::new(reported)));
            return Ok(());
        }
        let outcome = match reported {
            ReportedOutcome::Output(payload) => Outcome::Completed(payload),
            ReportedOutcome::Failure(failure) => Outcome::Failed(failure),
        };
        self.finish_visit(visit_id, &outcome, None)
    }
}

impl Attachment {
    fn build_artifact(&self, artifact_count: u32) -> Result<(Artifact, Arc<[u8]>)> {
        artifact::artifact_from_response(
            (&self.name, &self.content_type),
            &self.content,
            artifact_count,
        )
    }

    /// The output: the artifact alone, or together with the rest of the response.
    fn build_output_with_artifact(&self, artifact: &Artifact, execution: &ExecutionId) -> Value {
        let mut output = self.envelope.clone().unwrap_or_else(|| json!({}));
        if let Some(output) = output.as_object_mut() {
            output.remove("payload");
            let reference = artifact::build_reference_with_uri(artifact, execution);
            output.insert("artifact".to_owned(), reference);
        }
        output
    }
}

impl RetryPolicy {
    /// Whether this failure of the server's work is retried.
    fn is_retryable_failure(&self, failure: &OperationFailure) -> bool {
        if self.on.is_empty() {
            return failure.is_retryable;
        }
        let code = failure.code.as_deref().unwrap_or(&failure.class);
        self.on.contains(&failure.class) || self.has_failure_code(code)
    }

    /// Whether `on` lists this failure code or its class.
    pub(super) fn has_failure_code(&self, code: &str) -> bool {
        let class = class_of_failure(code);
        let is_meant =
            |name: &String| name.eq_ignore_ascii_case(code) || Some(name) == class.as_ref();
        self.on.iter().any(is_meant)
    }

    /// The pause after this number of failures in a row. It grows by `factor` each time, up to `max_backoff`. With jitter it is
    /// spread by `random` between half of its length and the whole.
    pub fn compute_retry_delay(&self, failures: u32, random: u128) -> Duration {
        let default_factor = f64::from(limits::RETRY_FACTOR_DEFAULT);
        let factor = self.factor.as_ref().and_then(Number::as_f64).unwrap_or(default_factor);
        let (backoff, max_backoff) = (self.backoff.duration(), self.max_backoff.duration());
        let max_delay = compute_backoff_with_factor(failures, backoff, max_backoff, factor);
        if !self.jitter {
            return max_delay;
        }
        let half = max_delay.as_millis() / 2;
        let delay_ms = half + random % (half + 1);
        Duration::from_millis(u64::try_from(delay_ms).unwrap_or(u64::MAX))
    }
}
