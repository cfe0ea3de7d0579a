//! Signals: events from outside that steps wait for. A signal that no step waits for yet is kept.

use serde_json::Value;

use super::{
    Decision, Event, Execution, Outcome, SignalRequest, State, ValueReference, VisitId,
    WaitCondition, decision::DecideResult, transition::TransitionBuilder,
};
use crate::{error::Error, limits};

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
        let payload = Value::clone(&signal.payload);
        if let Some((visit_id, _)) = waiting_visit.filter(|_| self.state == State::Running) {
            let payload = builder.store_value(payload, limits::SIGNAL_BYTES_MAX, "payload")?;
            builder.finish_visit(&visit_id, &Outcome::Completed(payload), None)?;
            builder.run_to_quiescence()?;
        } else {
            let max_signals = limits::SIGNALS_KEPT_MAX;
            if self.signals.len() >= max_signals {
                let limit =
                    format!("an execution keeps {max_signals} signals that nothing waits for");
                return Err(self.with_execution_context(Error::limit_exceeded(limit)).into());
            }
            let payload =
                builder.store_value_by_digest(payload, limits::SIGNAL_BYTES_MAX, "payload")?;
            let name = signal.name.clone();
            builder.push_event(Event::SignalKept { name, payload });
        }
        Ok(builder.into_decision(None))
    }

    /// The open visits that wait for a signal, each with its name.
    fn visits_awaiting_signals(&self) -> Vec<(VisitId, String)> {
        self.visits_awaiting(|awaiting| match awaiting {
            WaitCondition::Signal { name } => Some(name.clone()),
            _ => None,
        })
    }
}

fn check_signal_name(name: &str) -> DecideResult<()> {
    let max_bytes = limits::SIGNAL_NAME_BYTES_MAX;
    if (1..=max_bytes).contains(&name.len()) {
        return Ok(());
    }
    Err(Error::limit_exceeded(format!("the name of a signal has 1 to {max_bytes} bytes")).into())
}

impl TransitionBuilder<'_> {
    /// Completes a step with a kept signal of this name, or else opens it to wait for one.
    pub(super) fn wait_for_signal(
        &mut self,
        position: usize,
        visit_id: &VisitId,
        name: String,
    ) -> DecideResult<()> {
        if let Some(payload) = self.take_kept_signal(&name)? {
            return self.complete_at_once(position, visit_id, payload);
        }
        self.open_visit(visit_id.clone(), WaitCondition::Signal { name }, None);
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
            if let Some(payload) = self.take_kept_signal(&name)? {
                let output = self.store_value(payload, limits::OUTPUT_BYTES_MAX, "output")?;
                self.finish_visit(&visit_id, &Outcome::Completed(output), None)?;
            }
        }
        Ok(())
    }

    /// Removes the oldest kept signal of this name and returns its payload.
    fn take_kept_signal(&mut self, name: &str) -> DecideResult<Option<Value>> {
        let signal = self.execution.signals.iter().find(|signal| signal.name == name);
        let Some(digest) = signal.map(|signal| signal.payload) else {
            return Ok(None);
        };
        let payload = self.require_value(ValueReference::by_digest(digest))?;
        let name = name.to_owned();
        self.push_event(Event::SignalTaken { name });
        Ok(Some(Value::clone(&payload)))
    }
}
