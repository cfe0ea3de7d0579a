//! Time: timers, retries, expiries and time limits.

use std::time::Duration;

use super::{
    BodyKind, Decision, Execution, Failure, Outcome, ReportedOutcome, State, StepState, Visit,
    VisitId, WaitCondition, decision::DecideResult, enter::build_timer_output,
    transition::TransitionBuilder,
};
use crate::{
    Definition, FailureCode, StepId, clock::Timestamp, definition::Step, limits,
    span::HumanDuration,
};

impl Execution {
    /// The next instant at which the execution moves without a call; `None` if there is none.
    pub fn deadline(&self, definition: &Definition) -> Option<Timestamp> {
        if self.is_timer_stopped() || self.has_ended() {
            return None;
        }
        // The end has more to do than fitted into the last transition.
        let has_unfinished_end =
            self.open_visits().next().is_none() && self.ending_state().is_some();
        if has_unfinished_end && self.orders.is_empty() {
            return Some(self.updated_at);
        }
        let visit_deadlines = self.open_visits().filter_map(|(position, state, visit)| {
            let step = find_step_of_visit(definition, position, state, visit)?;
            let foreach_step = definition.workflow.steps.get(position);
            if foreach_step.is_some_and(|whole| state.has_room_for_item(whole)) {
                return Some(self.updated_at);
            }
            self.visit_deadline(definition, step, visit)
        });
        visit_deadlines.chain(self.workflow_deadline(definition)).min()
    }

    /// When an execution must be woken after it was loaded or after the catalogs changed. At once if the server was
    /// working on it, if children have orders to receive, or if a step waits for a catalog; else at its
    /// [`Self::deadline`].
    pub fn wake_at(&self, definition: &Definition) -> Option<Timestamp> {
        if self.is_imported() {
            return None;
        }
        let is_running = self.state == State::Running && self.open_attempts().next().is_some();
        if is_running || !self.orders.is_empty() || self.is_catalog_missing() {
            return Some(self.updated_at);
        }
        self.deadline(definition)
    }

    /// The name of the first catalog that one of its steps waits for.
    pub fn missing_catalog_name(&self) -> Option<&str> {
        self.open_visits().find_map(|(_, _, visit)| match &visit.awaiting {
            Some(WaitCondition::Catalog { catalog }) => Some(catalog.as_str()),
            _ => None,
        })
    }

    /// Whether a step waits for a catalog, which may have been added since.
    fn is_catalog_missing(&self) -> bool {
        let is_waiting_for_catalog =
            |visit: &Visit| matches!(visit.awaiting, Some(WaitCondition::Catalog { .. }));
        !self.state.is_final()
            && !self.is_timer_stopped()
            && self.open_visits().any(|(_, _, visit)| is_waiting_for_catalog(visit))
    }

    /// Whether it has a pause reason that stops its timers.
    fn is_timer_stopped(&self) -> bool {
        self.pauses.iter().any(|reason| !reason.is_set_by_scheduler())
    }

    /// The instant of the workflow's `timeout`.
    fn workflow_deadline(&self, definition: &Definition) -> Option<Timestamp> {
        let timeout = definition
            .workflow
            .timeout
            // An execution that is ending already cannot time out any more.
            .filter(|_| self.state == State::Running && self.ending_state().is_none())?;
        Some(self.timeout_end(timeout))
    }

    pub(super) fn decide_tick(&self, mut builder: TransitionBuilder<'_>) -> DecideResult<Decision> {
        if !self.state.is_final() && !self.is_timer_stopped() {
            builder.process_due_timers()?;
        }
        Ok(builder.into_decision(None))
    }
}

impl Execution {
    /// The instant at which a timer or a time limit moves the visit.
    fn visit_deadline(
        &self,
        definition: &Definition,
        step: &Step,
        visit: &Visit,
    ) -> Option<Timestamp> {
        let opened_at = self.opened_at_without_pauses(visit);
        // The time limit of a model's step applies to each attempt. From the second attempt on it is counted from the
        // issue of the token, so a renewed token starts the limit anew.
        let began_at = match visit.live_token() {
            Some(grant) if visit.attempt > 1 => opened_at.max(grant.issued_at),
            _ => opened_at,
        };
        let limit = match step.timeout {
            Some(timeout) => Some(began_at.plus(timeout.duration())),
            None => self.failure_step_deadline(definition, opened_at),
        };
        let polls_end = self.polls_end(step, visit);
        match visit.awaiting.as_ref()? {
            WaitCondition::Timer { due } | WaitCondition::Retry { due } => Some(*due),
            WaitCondition::Gate { due, .. } => [*due, limit].into_iter().flatten().min(),
            WaitCondition::LiveSignal { due, .. } => {
                Some(limit.map_or(*due, |limit| limit.min(*due)))
            }
            WaitCondition::Model(_) | WaitCondition::Child { .. } => {
                [polls_end, limit].into_iter().flatten().min()
            }
            WaitCondition::Signal { .. }
            | WaitCondition::Items { .. }
            | WaitCondition::Catalog { .. } => limit,
            // The runner enforces the limit of an attempt of the server. A held visit has no limit, because nobody may
            // work on it.
            WaitCondition::Operation { .. }
            | WaitCondition::Unknown
            | WaitCondition::Deferred(_)
            | WaitCondition::OutputInvalid(_) => None,
        }
    }

    /// The instant at which a visit was opened, put off by the pauses since.
    fn opened_at_without_pauses(&self, visit: &Visit) -> Timestamp {
        let paused = self.paused_ms.saturating_sub(visit.paused_ms);
        visit.opened_at.plus(Duration::from_millis(paused))
    }

    /// When the time of all attempts of a step with `repeat` is over.
    fn polls_end(&self, step: &Step, visit: &Visit) -> Option<Timestamp> {
        let timeout = step.repeat.as_ref()?.timeout?;
        Some(self.opened_at_without_pauses(visit).plus(timeout.duration()))
    }

    /// The time limit of a step without a `timeout` that runs although the execution is failing, if the workflow has a
    /// `timeout`: the workflow's limit, but at least [`limits::AFTERMATH_STEP_MAX`] after the visit opened. The
    /// workflow's `timeout` no longer ends a failing execution, so without this the step could stay open forever.
    fn failure_step_deadline(
        &self,
        definition: &Definition,
        opened_at: Timestamp,
    ) -> Option<Timestamp> {
        let timeout = definition.workflow.timeout.filter(|_| self.failing.is_some())?;
        let earliest_deadline = opened_at.plus(limits::AFTERMATH_STEP_MAX);
        Some(self.timeout_end(timeout).max(earliest_deadline))
    }

    fn timeout_end(&self, timeout: HumanDuration) -> Timestamp {
        let paused = Duration::from_millis(self.paused_ms);
        self.started_at.plus(timeout.duration()).plus(paused)
    }
}

/// The step that an open visit executes: the step at `position`, the body of a `foreach`, a hook or a compensation.
pub(super) fn find_step_of_visit<'a>(
    definition: &'a Definition,
    position: usize,
    state: &StepState,
    visit: &Visit,
) -> Option<&'a Step> {
    if visit.body != BodyKind::Work {
        let step = (state.id != *StepId::workflow_pseudo_step()).then_some(&state.id);
        let body = definition.find_body(step, visit.body, visit.item.is_some());
        return body.map(|(step, _)| step);
    }
    let step = definition.workflow.steps.get(position)?;
    Some(if visit.item.is_some() { step.acting_step() } else { step })
}

impl TransitionBuilder<'_> {
    /// Processes everything that is due, in the order of the due times.
    pub(super) fn process_due_timers(&mut self) -> DecideResult<()> {
        let now = self.row.at;
        let deadline = self.execution.workflow_deadline(self.context.definition);
        if deadline.is_some_and(|expires| expires <= now) {
            self.fail_timed_out_execution()?;
        }
        let definition = self.context.definition;
        let due = self.execution.open_visits().filter_map(|(position, step, visit)| {
            let acting = find_step_of_visit(definition, position, step, visit)?;
            let due = self.execution.visit_deadline(definition, acting, visit)?;
            (due <= now).then(|| (due, visit.visit_id(&step.id)))
        });
        let mut due: Vec<_> = due.collect();
        // The sort is stable: visits that are due at the same instant keep authoring order.
        due.sort_by_key(|(due, _)| *due);
        for (_, visit_id) in due {
            if !self.execution.state.is_final() {
                self.handle_due_visit(&visit_id)?;
            }
        }
        self.begin_visits_with_catalogs()?;
        self.open_remaining_items()?;
        self.run_to_quiescence()
    }

    /// Fails the execution because its `timeout` has passed.
    fn fail_timed_out_execution(&mut self) -> DecideResult<()> {
        let timeout = self
            .context
            .definition
            .workflow
            .timeout
            .unwrap_or(HumanDuration::from_duration(limits::SPAN_MAX));
        let message = format!("the execution did not end within {timeout}");
        self.fail_execution(Failure::new(FailureCode::WorkflowTimedOut, message, None))
    }

    fn handle_due_visit(&mut self, visit_id: &VisitId) -> DecideResult<()> {
        // An earlier timer of this transition may have closed the visit.
        let Some((position, state, visit)) = self.execution.find_visit(visit_id) else {
            return Ok(());
        };
        let Some(step) = find_step_of_visit(self.context.definition, position, state, visit) else {
            return Ok(());
        };
        let visit = visit.clone();
        match visit.awaiting {
            Some(WaitCondition::Timer { due }) => {
                let output =
                    self.store_value(build_timer_output(due), limits::OUTPUT_BYTES_MAX, "output")?;
                self.finish_visit(visit_id, &Outcome::Completed(output), None)
            }
            Some(WaitCondition::Retry { .. }) if step.kind.is_answered_by_model() => {
                let awaiting = self.wait_for_new_token();
                self.change_wait(visit_id, visit.attempt + 1, awaiting);
                Ok(())
            }
            Some(WaitCondition::Retry { .. }) => self.retry_work(step, visit_id, &visit),
            Some(WaitCondition::Gate { .. }) => {
                self.lift_open_visit_pauses()?;
                let message = format!("nobody answered gate '{}' in time", visit_id.step());
                self.time_out_visit(visit_id, FailureCode::GateExpired, &message)
            }
            Some(WaitCondition::LiveSignal { due, name }) if due <= self.row.at => {
                let message = format!("the sender of signal '{name}' gave no sign of life in time");
                self.time_out_visit(visit_id, FailureCode::HeartbeatMissed, &message)
            }
            Some(_) => {
                let within = match step.timeout {
                    Some(timeout) => format!("within {timeout}"),
                    None => "in the time that an execution which fails leaves it".to_owned(),
                };
                match visit.awaiting {
                    Some(WaitCondition::Items { .. }) => self.void_items(position),
                    Some(WaitCondition::Catalog { .. }) => self.lift_open_visit_pauses()?,
                    Some(WaitCondition::Child { .. }) => self.cancel_attempt(visit_id, &visit),
                    _ => {}
                }
                let polls_end = self.execution.polls_end(step, &visit);
                if let Some(repeat) = &step.repeat
                    && polls_end.is_some_and(|end| end <= self.row.at)
                {
                    let message = format!("`{}` did not hold in time", repeat.until);
                    return self.time_out_visit(visit_id, FailureCode::RepeatTimedOut, &message);
                }
                let message = format!("step '{}' did not end {within}", visit_id.step());
                let code = FailureCode::StepTimedOut;
                let failure = Failure::new(code, &message, visit_id.step.as_ref());
                let retry_delay = visit
                    .live_token()
                    .and_then(|_| self.compute_retry_delay(step, &visit, &failure));
                let Some(delay) = retry_delay else {
                    return self.time_out_visit(visit_id, code, &message);
                };
                self.reoffer_after_delay(visit_id, visit.attempt, (Some(failure), None), delay);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Begins the visits that waited for a catalog which is available now.
    fn begin_visits_with_catalogs(&mut self) -> DecideResult<()> {
        let definition = self.context.definition;
        let waiting = self.execution.open_visits().filter_map(|(position, state, visit)| {
            let waits = matches!(visit.awaiting, Some(WaitCondition::Catalog { .. }));
            let step = waits.then(|| find_step_of_visit(definition, position, state, visit))??;
            let is_catalog_available = !self.context.work.is_catalog_missing(&step.kind);
            is_catalog_available.then(|| (step, visit.visit_id(&state.id), visit.clone()))
        });
        let waiting: Vec<_> = waiting.collect();
        for (step, visit_id, visit) in waiting {
            self.lift_open_visit_pauses()?;
            self.retry_work(step, &visit_id, &visit)?;
        }
        Ok(())
    }

    fn time_out_visit(
        &mut self,
        visit_id: &VisitId,
        code: FailureCode,
        message: &str,
    ) -> DecideResult<()> {
        let failure = Failure::new(code, message, visit_id.step.as_ref());
        self.finish_visit(visit_id, &Outcome::Failed(failure), None)
    }

    /// Applies the outcomes and signals that arrived while the execution was paused.
    pub(super) fn apply_deferred_outcomes(&mut self) -> DecideResult<()> {
        let deferred = self.execution.visits_awaiting(|awaiting| match awaiting {
            WaitCondition::Deferred(reported) => Some(ReportedOutcome::clone(reported)),
            _ => None,
        });
        for (visit_id, reported) in deferred {
            if !self.execution.state.is_final() {
                // An inline output has no row yet that later parts of this transition could read it from.
                if let ReportedOutcome::Output(payload) = &reported
                    && let Some(document) = &payload.inline
                {
                    self.remember_value(payload, document.value());
                }
                self.conclude_visit(&visit_id, reported)?;
            }
        }
        self.deliver_kept_signals()?;
        self.process_due_timers()
    }
}
