//! Signals: events from outside that steps wait for. A signal that no step waits for yet is kept.

use serde_json::{Value, json};

use super::{
    Decision, Event, Execution, Failure, Outcome, SignalContent, SignalRequest, State,
    ValueReference, VisitId, WaitCondition, decision::DecideResult, time::find_step_of_visit,
    transition::TransitionBuilder,
};
use crate::{
    FailureCode, StepId,
    definition::{StepKind, WaitTrigger},
    error::Error,
    failure::truncate_to_bytes,
    limits,
    span::HumanDuration,
};

impl Execution {
    pub(super) fn decide_signal(
        &self,
        mut builder: TransitionBuilder<'_>,
        signal: &SignalRequest,
    ) -> DecideResult<Decision> {
        self.check_not_ended()?;
        check_signal_name(&signal.name)?;
        let mut waiting_visits = self.visits_awaiting_signals().into_iter();
        let waiting_visit = waiting_visits.find(|(_, name)| *name == signal.name);
        let waiting_visit = waiting_visit.filter(|_| self.state == State::Running);
        let reported = match &signal.content {
            SignalContent::Payload(payload) => Ok(Value::clone(payload)),
            SignalContent::Error { code, message } => {
                Err(build_signal_failure(code.as_deref(), message))
            }
            SignalContent::Alive => {
                builder.put_off_silence(&signal.name);
                return Ok(builder.into_decision(None));
            }
        };
        match (reported, waiting_visit) {
            (reported, Some((visit_id, _))) => {
                let outcome = match reported {
                    Ok(payload) => {
                        let max_bytes = limits::SIGNAL_BYTES_MAX;
                        Outcome::Completed(builder.store_value(payload, max_bytes, "payload")?)
                    }
                    Err(failure) => {
                        Outcome::Failed(Failure { step: visit_id.step.clone(), ..failure })
                    }
                };
                builder.finish_visit(&visit_id, &outcome, None)?;
                builder.run_to_quiescence()?;
            }
            (reported, None) => {
                let max_signals = limits::SIGNALS_KEPT_MAX;
                if self.signals.len() >= max_signals {
                    let limit =
                        format!("an execution keeps {max_signals} signals that nothing waits for");
                    return Err(self.with_execution_context(Error::limit_exceeded(limit)).into());
                }
                builder.keep_signal(&signal.name, reported)?;
            }
        }
        Ok(builder.into_decision(None))
    }

    /// The open visits that wait for a signal, each with its name.
    fn visits_awaiting_signals(&self) -> Vec<(VisitId, String)> {
        self.visits_awaiting(|awaiting| awaiting.signal_name().map(str::to_owned))
    }
}

/// The failure that a signal reports, without the step.
fn build_signal_failure(code: Option<&str>, message: &str) -> Failure {
    let code = code.unwrap_or(FailureCode::SignalFailed.as_str());
    Failure::new(truncate_to_bytes(code, limits::FAILURE_CODE_BYTES_MAX), message, None::<&StepId>)
}

fn check_signal_name(name: &str) -> DecideResult<()> {
    let max_bytes = limits::SIGNAL_NAME_BYTES_MAX;
    if (1..=max_bytes).contains(&name.len()) {
        return Ok(());
    }
    Err(Error::limit_exceeded(format!("the name of a signal has 1 to {max_bytes} bytes")).into())
}

impl TransitionBuilder<'_> {
    /// Keeps a payload, or a failure, for the next step that waits for this signal.
    fn keep_signal(&mut self, name: &str, reported: Result<Value, Failure>) -> DecideResult<()> {
        let is_error = reported.is_err();
        let value = reported.unwrap_or_else(
            |Failure { code, message, .. }| json!({ "code": code, "message": message }),
        );
        let payload = self.store_value_by_digest(value, limits::SIGNAL_BYTES_MAX, "payload")?;
        let name = name.to_owned();
        self.push_event(if is_error {
            Event::SignalErrorKept { name, error: payload }
        } else {
            Event::SignalKept { name, payload }
        });
        Ok(())
    }

    /// Gives the steps that wait for the signal `name` another full interval until its sender must be heard of again.
    fn put_off_silence(&mut self, name: &str) {
        let definition = self.context.definition;
        let waiting = self.execution.open_visits().filter_map(|(position, state, visit)| {
            let is_named =
                visit.awaiting.as_ref().and_then(WaitCondition::signal_name) == Some(name);
            let step =
                is_named.then(|| find_step_of_visit(definition, position, state, visit))??;
            match &step.kind {
                StepKind::Wait(WaitTrigger::LiveSignal { alive, .. }) => {
                    Some((visit.visit_id(&state.id), visit.attempt, *alive))
                }
                _ => None,
            }
        });
        for (visit_id, attempt, alive) in waiting.collect::<Vec<_>>() {
            let awaiting = self.wait_condition_for_signal(name.to_owned(), Some(alive));
            self.change_wait(&visit_id, attempt, awaiting);
        }
    }

    fn wait_condition_for_signal(
        &self,
        name: String,
        alive: Option<HumanDuration>,
    ) -> WaitCondition {
        match alive {
            None => WaitCondition::Signal { name },
            Some(alive) => {
                WaitCondition::LiveSignal { name, due: self.row.at.plus(alive.duration()) }
            }
        }
    }

    /// Ends a step with a kept signal of this name, or else opens it to wait for one. With `alive` the step fails if its
    /// sender is silent for so long.
    pub(super) fn wait_for_signal(
        &mut self,
        position: usize,
        visit_id: &VisitId,
        name: String,
        alive: Option<HumanDuration>,
    ) -> DecideResult<()> {
        if let Some(outcome) = self.take_kept_signal(&name, visit_id)? {
            return self.record_instant_end(position, visit_id, &outcome);
        }
        let awaiting = self.wait_condition_for_signal(name, alive);
        self.open_visit(visit_id.clone(), awaiting, None);
        Ok(())
    }

    /// Gives kept signals to the steps that wait for them, after a pause.
    pub(super) fn deliver_kept_signals(&mut self) -> DecideResult<()> {
        for (visit_id, name) in self.execution.visits_awaiting_signals() {
            // An earlier signal of this loop may have closed the visit.
            let visit = self.execution.find_visit(&visit_id).map(|(_, _, visit)| visit);
            if visit.is_none_or(|visit| visit.awaiting.is_none()) {
                continue;
            }
            if let Some(outcome) = self.take_kept_signal(&name, &visit_id)? {
                self.finish_visit(&visit_id, &outcome, None)?;
            }
        }
        Ok(())
    }

    /// Removes the oldest kept signal of this name and returns how it ends the step that waited for it.
    fn take_kept_signal(
        &mut self,
        name: &str,
        visit_id: &VisitId,
    ) -> DecideResult<Option<Outcome>> {
        let mut signals = self.execution.signals.iter().enumerate();
        let Some((at, signal)) = signals.find(|(_, signal)| signal.name == name) else {
            return Ok(None);
        };
        let is_error = self.execution.signal_errors.get(at).copied().unwrap_or_default();
        let payload = self.require_value(ValueReference::by_digest(signal.payload))?;
        self.push_event(Event::SignalTaken { name: name.to_owned() });
        if is_error {
            let text = |key: &str| payload[key].as_str().unwrap_or_default();
            let failure = Failure::new(text("code"), text("message"), visit_id.step.as_ref());
            return Ok(Some(Outcome::Failed(failure)));
        }
        let max_bytes = limits::OUTPUT_BYTES_MAX;
        let output = self.store_value(Value::clone(&payload), max_bytes, "output")?;
        Ok(Some(Outcome::Completed(output)))
    }
}
