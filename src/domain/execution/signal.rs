//! Signals: something happened elsewhere. One that comes before its wait is kept.

use serde_json::Value;

use super::{
    Awaiting, Decision, Event, Execution, Outcome, SignalRequest, State, decision::DecideResult,
    transition::TransitionBuilder,
};
use crate::{error::Error, limits};

impl Execution {
    pub(super) fn decide_signal(
        &self,
        mut builder: TransitionBuilder<'_>,
        signal: &SignalRequest,
    ) -> DecideResult<Decision> {
        self.check_open()?;
        check_name(&signal.name)?;
        let waits = self
            .open()
            .find_map(|(_, step, visit)| match &visit.awaiting {
                Some(Awaiting::Signal { name }) if *name == signal.name => {
                    Some(visit.visit_id(&step.id))
                }
                _ => None,
            });
        let payload = Value::clone(&signal.payload);
        if let Some(visit_id) = waits.filter(|_| self.state == State::Running) {
            let payload = builder.keep(payload, limits::SIGNAL_BYTES_MAX, "payload")?;
            builder.finish(&visit_id, &Outcome::Completed(payload), None)?;
            builder.run_to_quiescence()?;
        } else {
            if self.signals.len() >= limits::SIGNALS_KEPT_MAX {
                let most = limits::SIGNALS_KEPT_MAX;
                let limit = format!("an execution keeps {most} signals that nothing waits for");
                return Err(self.placed(Error::limit(limit)).into());
            }
            let payload = builder.keep_apart(payload, limits::SIGNAL_BYTES_MAX, "payload")?;
            let name = signal.name.clone();
            builder.push(Event::SignalKept { name, payload });
        }
        Ok(builder.decision(None))
    }
}

fn check_name(name: &str) -> DecideResult<()> {
    if !name.is_empty() && name.len() <= limits::SIGNAL_NAME_BYTES_MAX {
        return Ok(());
    }
    let most = limits::SIGNAL_NAME_BYTES_MAX;
    Err(Error::limit(format!("the name of a signal has 1 to {most} bytes")).into())
}
