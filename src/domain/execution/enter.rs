//! Entering a step, by its kind.

use serde_json::{Value, json};

use super::{
    AttemptId, AttemptRequest, BodyKind, Effect, Event, Failure, Outcome, PauseReason, Payload,
    SkipReason, VisitId, WaitCondition,
    decision::{DecideResult, Interrupt},
    scope::VisitScope,
    transition::TransitionBuilder,
};
use crate::{
    FailureCode,
    clock::Timestamp,
    definition::{BranchArm, CompiledStep, JumpTarget, Step, StepKind, WaitTrigger},
    document::to_plain_text,
    error::Error,
    expression::RenderedValue,
    limits,
    span::HumanDuration,
};

impl TransitionBuilder<'_> {
    /// Enters a step. An error in entering it is a failure of the step itself.
    pub(super) fn enter_step(&mut self, position: usize) -> DecideResult<()> {
        let visit_id = self.execution.steps[position].next_visit_id();
        let result = self.try_enter_step(position, &visit_id);
        self.fail_if_entry_failed(position, &visit_id, result)
    }

    /// Turns an error in entering a step or an item into its own failure.
    pub(super) fn fail_if_entry_failed(
        &mut self,
        position: usize,
        visit_id: &VisitId,
        result: DecideResult<()>,
    ) -> DecideResult<()> {
        match result.map_err(|interrupt| interrupt.into_step_failure(visit_id)) {
            Err(Interrupt::Failed(failure)) => {
                self.record_instant_end(position, visit_id, &Outcome::Failed(failure))
            }
            entered => entered,
        }
    }

    fn try_enter_step(&mut self, position: usize, visit_id: &VisitId) -> DecideResult<()> {
        if self.admit_step(position, visit_id)? {
            self.execute_step(position, visit_id)?;
        }
        Ok(())
    }

    /// Whether the step may be entered: its condition holds, and it has visits left. If its condition does not hold, it
    /// is skipped.
    pub(super) fn admit_step(&mut self, position: usize, visit_id: &VisitId) -> DecideResult<bool> {
        let step = self.step(position);
        let compiled = self.context.definition.compiled_step(position);
        let is_met = self.is_condition_met(step, compiled, &VisitScope::for_visit(visit_id))?;
        if is_met {
            self.check_visit_limits(step, visit_id)?;
        } else {
            self.skip_step(position, SkipReason::Condition);
        }
        Ok(is_met)
    }

    /// Whether the condition of a step or an item holds. Fails the step if one of its expressions does not compile.
    pub(super) fn is_condition_met(
        &self,
        step: &Step,
        compiled: &CompiledStep,
        scope: &VisitScope<'_>,
    ) -> DecideResult<bool> {
        if let Some(text) = &compiled.invalid_expression {
            let message = format!("`{text}` is not an expression");
            let code = FailureCode::ExpressionFailed;
            return Err(Interrupt::step_failure(step, code, message));
        }
        match &compiled.condition {
            Some(condition) => self.evaluate_condition(condition, scope),
            None => Ok(true),
        }
    }

    /// Executes a step.
    pub(super) fn execute_step(&mut self, position: usize, visit_id: &VisitId) -> DecideResult<()> {
        let step = self.step(position);
        let compiled = self.context.definition.compiled_step(position);
        let scope = VisitScope::for_visit(visit_id);
        self.execute_step_kind(position, step, compiled, visit_id, &scope)
    }

    /// Executes a step, or the body of a `foreach` for an item.
    pub(super) fn execute_step_kind(
        &mut self,
        position: usize,
        step: &Step,
        compiled: &CompiledStep,
        visit_id: &VisitId,
        scope: &VisitScope<'_>,
    ) -> DecideResult<()> {
        self.set_visit_title(compiled, visit_id, scope)?;
        let input = self.render_with_secret_places(&compiled.input, scope)?;
        match &step.kind {
            StepKind::Set { .. } => self.execute_set(position, visit_id, input.value),
            StepKind::Branch { arms } => {
                self.execute_branch(position, visit_id, arms, compiled, scope)
            }
            StepKind::Fail { code, .. } => {
                self.execute_fail(position, visit_id, code, &input.value)
            }
            StepKind::Wait(wait) => self.execute_wait(position, visit_id, wait, &input.value),
            StepKind::Gate { expires, .. } => self.open_gate(visit_id, *expires, input.value),
            StepKind::Foreach { .. } => self.open_foreach(position, visit_id, compiled, scope),
            StepKind::Input { .. } | StepKind::Extract { .. } => {
                self.open_question(position, step, visit_id, input.value)
            }
            StepKind::Agent { .. } | StepKind::Guidance { .. } | StepKind::Tool { .. } => {
                self.offer_to_model(step, compiled, visit_id, input.value)
            }
            StepKind::Run { .. } | StepKind::Activity { .. } | StepKind::Workflow { .. } => {
                self.open_work_visit(step, visit_id, input)
            }
        }
    }

    /// Works the title of a visit out. A title that cannot be worked out is left out: it is only shown.
    fn set_visit_title(
        &mut self,
        compiled: &CompiledStep,
        visit_id: &VisitId,
        scope: &VisitScope<'_>,
    ) -> DecideResult<()> {
        let Some(template) = &compiled.title else {
            return Ok(());
        };
        let title = match self.render_template(template, scope) {
            Ok(title) => to_plain_text(&title),
            Err(Interrupt::Failed(_)) => return Ok(()),
            Err(interrupt) => return Err(interrupt),
        };
        let words: Vec<_> = title.split_whitespace().collect();
        let title: String = words.join(" ").chars().take(limits::TITLE_CHARS_MAX).collect();
        if !title.is_empty() {
            self.push_event(Event::VisitTitled { visit_id: visit_id.clone(), title });
        }
        Ok(())
    }

    /// The visit limit of the step, if this visit is beyond it. Visits before a rewind do not count.
    pub(super) fn exceeded_max_visits(&self, step: &Step, visit: u32) -> Option<u32> {
        let workflow = &self.context.definition.workflow;
        let max_visits = step.max_visits.or(workflow.max_visits).unwrap_or(limits::VISITS_DEFAULT);
        let uncounted = self.execution.uncounted_visits.get(&step.id).copied().unwrap_or_default();
        (visit.saturating_sub(uncounted) > max_visits).then_some(max_visits)
    }

    fn check_visit_limits(&self, step: &Step, visit_id: &VisitId) -> DecideResult<()> {
        self.check_compensations(step, 1)?;
        let workflow = &self.context.definition.workflow;
        if let Some(max_visits) = self.exceeded_max_visits(step, visit_id.visit) {
            let message = format!(
                "step '{}' may be entered {max_visits} times and was to be entered once more",
                step.id
            );
            return Err(Interrupt::step_failure(step, FailureCode::MaxVisits, message));
        }
        let max_steps = workflow.max_steps.unwrap_or(limits::EXECUTION_VISITS_DEFAULT);
        if self.execution.visits >= max_steps {
            let message =
                format!("the steps of an execution may be entered {max_steps} times together");
            return Err(Interrupt::step_failure(step, FailureCode::MaxSteps, message));
        }
        Ok(())
    }

    pub(super) fn complete_at_once(
        &mut self,
        position: usize,
        visit_id: &VisitId,
        output: Value,
    ) -> DecideResult<()> {
        let payload = self.store_value(output, limits::OUTPUT_BYTES_MAX, "output")?;
        self.record_instant_end(position, visit_id, &Outcome::Completed(payload))
    }

    fn execute_set(
        &mut self,
        position: usize,
        visit_id: &VisitId,
        mut input: Value,
    ) -> DecideResult<()> {
        let entries = input["set"].take();
        for (name, value) in entries.as_object().into_iter().flatten() {
            self.write_memory(name, value.clone())?;
        }
        self.complete_at_once(position, visit_id, entries)
    }

    /// Writes a value to memory. Adds no event if memory holds the same value already.
    pub(super) fn write_memory(&mut self, name: &str, value: Value) -> DecideResult<()> {
        let value =
            self.store_value_by_digest(value, limits::MEMORY_VALUE_BYTES_MAX, "value for memory")?;
        if self.execution.memory.get(name) != Some(&value.digest) {
            let name = name.to_owned();
            self.push_event(Event::MemoryWritten { name, value });
        }
        Ok(())
    }

    /// Fills memory with the initial values of the workflow, except for the names that a fork took over.
    pub(super) fn initialize_memory(&mut self) -> DecideResult<()> {
        let template = &self.context.definition.compiled_workflow().memory;
        let memory = self.render_template(template, &VisitScope::default())?;
        for (name, value) in memory.as_object().into_iter().flatten() {
            if !self.execution.memory.contains_key(name) {
                self.write_memory(name, value.clone())?;
            }
        }
        Ok(())
    }

    fn execute_branch(
        &mut self,
        position: usize,
        visit_id: &VisitId,
        arms: &[BranchArm],
        compiled: &CompiledStep,
        scope: &VisitScope<'_>,
    ) -> DecideResult<()> {
        let mut taken_arm = None;
        for (at, (arm, condition)) in arms.iter().zip(&compiled.arms).enumerate() {
            let holds = match condition {
                Some(condition) => self.evaluate_condition(condition, scope)?,
                None => true,
            };
            if holds {
                taken_arm = Some((at, &arm.next));
                break;
            }
        }
        let next = taken_arm.map(|(_, next)| next).or(self.step(position).next.as_ref());
        let output = build_branch_output(taken_arm.map(|(at, _)| at), next);
        let output = self.store_value(output, limits::OUTPUT_BYTES_MAX, "output")?;
        self.push_event(Event::StepDone {
            visit_id: visit_id.clone(),
            outcome: Outcome::Completed(output),
        });
        if self.count_instant_step(visit_id)? {
            self.pass_control(position, next);
        }
        Ok(())
    }

    fn execute_fail(
        &mut self,
        position: usize,
        visit_id: &VisitId,
        code: &str,
        input: &Value,
    ) -> DecideResult<()> {
        let message = to_plain_text(&input["message"]);
        let failure = Failure::new(code, message, visit_id.step.as_ref());
        let outcome = Outcome::Failed(failure.clone());
        if visit_id.item.is_some() {
            return self.record_instant_end(position, visit_id, &outcome);
        }
        let visit_id = visit_id.clone();
        self.push_event(Event::StepDone { visit_id, outcome });
        if self.is_late_loser(position) {
            self.pass_control(position, None);
            return Ok(());
        }
        self.queue_dependents(position);
        self.fail_execution(failure)
    }

    fn execute_wait(
        &mut self,
        position: usize,
        visit_id: &VisitId,
        wait: &WaitTrigger,
        input: &Value,
    ) -> DecideResult<()> {
        let step = self.step(position);
        let text = to_plain_text(&input["wait"]);
        let due = match wait {
            WaitTrigger::Signal(_) => {
                return self.wait_for_signal(position, visit_id, text, None);
            }
            WaitTrigger::LiveSignal { alive, .. } => {
                return self.wait_for_signal(position, visit_id, text, Some(*alive));
            }
            WaitTrigger::For(_) => {
                text.parse().map(|span: HumanDuration| self.row.at.plus(span.duration()))
            }
            WaitTrigger::Until(_) => text.parse::<Timestamp>().map_err(|_| {
                format!(
                    "`{}` is not an instant: write one like 2030-01-31T09:00:00Z",
                    shorten_span_text(&text)
                )
            }),
        };
        let due =
            due.map_err(|fault| Interrupt::step_failure(step, FailureCode::WaitInvalid, fault))?;
        if due <= self.row.at {
            return self.complete_at_once(position, visit_id, build_timer_output(due));
        }
        self.open_visit(visit_id.clone(), WaitCondition::Timer { due }, None);
        Ok(())
    }

    fn open_gate(
        &mut self,
        visit_id: &VisitId,
        expires: Option<HumanDuration>,
        mut input: Value,
    ) -> DecideResult<()> {
        // Two items may ask the same question. The item's number makes their digests differ, so that an answer belongs
        // to one of them.
        if let Some(item) = visit_id.item {
            input["item"] = json!(item);
        }
        let input = self.store_value_by_digest(input, limits::INPUTS_BYTES_MAX, "question")?;
        let due = expires.map(|span| self.row.at.plus(span.duration()));
        let shown = input.digest;
        self.open_visit(visit_id.clone(), WaitCondition::Gate { shown, due }, Some(input));
        Ok(())
    }

    /// Opens a step or an item for a model.
    fn offer_to_model(
        &mut self,
        step: &Step,
        compiled: &CompiledStep,
        visit_id: &VisitId,
        input: Value,
    ) -> DecideResult<()> {
        check_input(step, compiled, &input)?;
        // A constant input is not stored; views read it from the definition.
        let is_constant = compiled.input.is_constant();
        let input = (!is_constant).then(|| self.store_visit_input(input)).transpose()?;
        self.open_visit(visit_id.clone(), self.wait_for_new_token(), input);
        Ok(())
    }

    /// Opens a step or an item for the server or a child, and begins its first attempt, unless it cannot begin now.
    fn open_work_visit(
        &mut self,
        step: &Step,
        visit_id: &VisitId,
        mut input: RenderedValue,
    ) -> DecideResult<()> {
        if matches!(step.kind, StepKind::Activity { .. }) && input.value.get("with").is_none() {
            input.value["with"] = self.build_default_activity_input(visit_id)?;
        }
        let stored_input = self.store_work_input(&input)?;
        if let Some(awaiting) = self.wait_before_work(step) {
            self.open_visit(visit_id.clone(), awaiting.clone(), Some(stored_input));
            self.change_wait(visit_id, 0, awaiting);
            return Ok(());
        }
        if self.holds_server_work && visit_id.body == BodyKind::Work && visit_id.item.is_none() {
            // The attempt begins at the resume, which lets the time of the visit come.
            let awaiting = WaitCondition::Retry { due: self.row.at };
            self.open_visit(visit_id.clone(), awaiting.clone(), Some(stored_input));
            self.change_wait(visit_id, 0, awaiting);
            if !self.execution.pauses.contains(&PauseReason::Pace) {
                self.add_pause_reason(PauseReason::Pace)?;
            }
            return Ok(());
        }
        let attempt_id = AttemptId { visit_id: visit_id.clone(), attempt: 1 };
        let awaiting = self.wait_condition_for_attempt(step, &attempt_id);
        self.open_visit(visit_id.clone(), awaiting, Some(stored_input));
        self.begin_work(step, attempt_id, input);
        Ok(())
    }

    /// Stores the input of a visit of the server.
    pub(super) fn store_work_input(&mut self, input: &RenderedValue) -> DecideResult<Payload> {
        let input = serde_json::to_value(input)
            .map_err(|error| Error::internal("an input cannot be written").with_source(error))?;
        self.store_visit_input(input)
    }

    pub(super) fn store_visit_input(&mut self, input: Value) -> DecideResult<Payload> {
        Ok(self.store_value_by_digest(input, limits::INPUTS_BYTES_MAX, "input of a step")?)
    }

    pub(super) fn begin_work(&mut self, step: &Step, attempt_id: AttemptId, input: RenderedValue) {
        let pages = self.execution.pages.get(&attempt_id.visit_id);
        self.effects.push(Effect::BeginAttempt(Box::new(AttemptRequest {
            cursor: pages.map(|pages| pages.cursor.clone()),
            attempt_id,
            step_kind: step.kind.clone(),
            input,
            timeout: step
                .timeout
                .map(HumanDuration::duration)
                .or_else(|| self.context.work.default_timeout(&step.kind)),
        })));
    }
}

/// The output of a branch that took `arm` (`None` for the default) and jumped to `next`.
pub(super) fn build_branch_output(arm: Option<usize>, next: Option<&JumpTarget>) -> Value {
    json!({ "arm": arm, "next": next.map(JumpTarget::as_str) })
}

/// The output of a timer.
pub(super) fn build_timer_output(due: Timestamp) -> Value {
    json!({ "due": due.to_string() })
}

fn shorten_span_text(text: &str) -> String {
    text.chars().take(limits::SPAN_SHOWN_CHARS).collect()
}

/// Checks the `with` of a step against its `input_schema`.
pub(super) fn check_input(step: &Step, compiled: &CompiledStep, input: &Value) -> DecideResult<()> {
    let Some(schema) = &compiled.input_schema else {
        return Ok(());
    };
    let values = input.get("with").cloned().unwrap_or_else(|| json!({}));
    let violations = schema.find_violations_named(&values, "`with`");
    let Some(first) = violations.first() else {
        return Ok(());
    };
    let message = format!("`with` breaks `input_schema` at '{}': {}", first.path, first.message);
    Err(Interrupt::step_failure(step, FailureCode::ArgumentsInvalid, message))
}
