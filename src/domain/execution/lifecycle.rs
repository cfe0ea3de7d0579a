//! Requested changes of state: pause, resume, abandon, diverge, fail (see [`State`]).

use super::{
    Decision, Event, Execution, Failure, LifecycleAction, LifecycleChange, OrderKind, State,
    WaitCondition, decision::DecideResult, transition::TransitionBuilder,
};
use crate::{
    FailureCode,
    error::{Code, Error, Result},
    event::PauseReason,
    limits,
};

impl Execution {
    pub(super) fn decide_lifecycle_change(
        &self,
        mut builder: TransitionBuilder<'_>,
        change: &LifecycleChange,
    ) -> DecideResult<Decision> {
        check_reason(change.reason.as_deref())?;
        match change.action {
            LifecycleAction::Pause => self.decide_pause(&mut builder)?,
            LifecycleAction::Resume => self.decide_resume(&mut builder)?,
            LifecycleAction::Fail => self.decide_fail(&mut builder, change)?,
            LifecycleAction::Abandon | LifecycleAction::Diverge => {
                builder.abandon_or_diverge(change.action.target_state())?;
            }
        }
        if let Some(text) = &change.reason {
            builder.push_event(Event::ReasonGiven { text: text.clone() });
        }
        Ok(builder.into_decision(None))
    }

    /// Lifts the pause between two steps of the server. Does nothing if the execution has moved since the caller saw it, so
    /// that of two equal calls one alone begins a step.
    pub(super) fn decide_pace_lift(
        &self,
        mut builder: TransitionBuilder<'_>,
        revision: u64,
    ) -> DecideResult<Decision> {
        if self.revision != revision || !self.pauses.contains(&PauseReason::Pace) {
            return Ok(Decision::NoChange);
        }
        builder.lift_pause_reason(PauseReason::Pace)?;
        if builder.execution.state == State::Running {
            builder.apply_deferred_outcomes()?;
        }
        Ok(builder.into_decision(None))
    }

    fn decide_fail(
        &self,
        builder: &mut TransitionBuilder<'_>,
        change: &LifecycleChange,
    ) -> DecideResult<()> {
        if self.state != State::Running || self.is_ending_unsuccessfully() {
            return builder.end_execution_now(State::Failed, Some(build_requested_failure(change)));
        }
        builder.fail_execution(build_requested_failure(change))?;
        builder.run_to_quiescence()
    }

    /// Adds the pause reason `person`, also to an execution that is paused for another reason.
    fn decide_pause(&self, builder: &mut TransitionBuilder<'_>) -> Result<()> {
        if self.pauses.contains(&PauseReason::Person) {
            builder.become_state(State::Paused, None)?;
        }
        builder.order_all_children(OrderKind::Pause);
        builder.add_pause_reason(PauseReason::Person)
    }

    /// Lifts the pause reasons that a resume lifts, and releases held visits. Other reasons stay until they are
    /// resolved.
    fn decide_resume(&self, builder: &mut TransitionBuilder<'_>) -> DecideResult<()> {
        let has_held_visit = self.open_visits().any(|(_, _, visit)| visit.is_held());
        if !has_held_visit {
            self.state
                .check_transition(State::Running)
                .map_err(|error| self.with_execution_context(error))?;
        }
        let mut lifted_reasons = self.pauses.clone();
        lifted_reasons.retain(|reason| reason.is_lifted_by_resume());
        if lifted_reasons.is_empty() && !has_held_visit {
            return Err(self.execution_paused_error().into());
        }
        if lifted_reasons.contains(&PauseReason::Person) {
            builder.order_all_children(OrderKind::Resume);
        }
        for reason in lifted_reasons {
            builder.lift_pause_reason(reason)?;
        }
        if has_held_visit {
            builder.release_held_visits();
            builder.lift_open_visit_pauses()?;
        }
        if builder.execution.state == State::Running {
            builder.apply_deferred_outcomes()?;
        }
        Ok(())
    }

    /// The refusal of a call that is not allowed while the execution is paused.
    pub(super) fn execution_paused_error(&self) -> Error {
        let why = self.reason_suffix();
        let message = format!("the execution is paused ({}{why})", self.pause_names());
        self.with_execution_context(Error::new(Code::ExecutionPaused, message))
    }
}

impl TransitionBuilder<'_> {
    /// Releases the held visits: their tokens are accepted again, and their malformed outputs are counted anew.
    fn release_held_visits(&mut self) {
        let held_visits = self.execution.visits_awaiting(|awaiting| match awaiting {
            WaitCondition::OutputInvalid(grant) => Some(WaitCondition::Model(*grant)),
            _ => None,
        });
        for (visit_id, awaiting) in held_visits {
            let attempt = self.attempt_number(&visit_id);
            self.change_wait(&visit_id, attempt, awaiting);
        }
    }
}

pub(super) fn check_reason(reason: Option<&str>) -> Result<()> {
    let length = reason.map_or(0, |reason| reason.chars().count());
    if length <= limits::REASON_CHARS_MAX {
        return Ok(());
    }
    let limit = format!("a reason may have {} characters", limits::REASON_CHARS_MAX);
    let message = format!("{limit}, this one has {length}");
    Err(Error::limit_exceeded(limit).with_message(message))
}

fn build_requested_failure(change: &LifecycleChange) -> Failure {
    let reason = change.reason.as_deref();
    let message = reason.unwrap_or("somebody asked for it to fail");
    Failure::new(FailureCode::FailedOnRequest, message, None)
}
