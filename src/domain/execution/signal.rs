//! Signals: something happened elsewhere. One that comes before its wait is kept.

use serde_json::Value;

use super::{
    Awaiting, Decision, Event, Execution, Outcome, SignalRequest, State, decision::Flow,
    draft::Draft,
};
use crate::{
    error::{Code, Error},
    limits,
};

impl Execution {
    pub(super) fn decide_signal(
        &self,
        mut draft: Draft<'_>,
        signal: &SignalRequest,
    ) -> Flow<Decision> {
        self.check_open()?;
        check_name(&signal.name)?;
        let waits = self
            .open()
            .find_map(|(_, step, visit)| match &visit.awaiting {
                Some(Awaiting::Signal { name }) if *name == signal.name => {
                    Some(visit.site(&step.id))
                }
                _ => None,
            });
        let payload = Value::clone(&signal.payload);
        if let Some(site) = waits.filter(|_| self.state == State::Running) {
            let payload = draft.keep(payload, limits::SIGNAL_BYTES_MAX, "payload")?;
            draft.finish(&site, &Outcome::Completed(payload), None)?;
            draft.settle()?;
        } else {
            if self.signals.len() >= limits::SIGNALS_KEPT_MAX {
                let limit = format!(
                    "an execution keeps {} signals that nothing waits for",
                    limits::SIGNALS_KEPT_MAX
                );
                return Err(self
                    .placed(Error::new(Code::LimitExceeded, limit.clone()).with("limit", limit))
                    .into());
            }
            let payload = draft.keep_apart(payload, limits::SIGNAL_BYTES_MAX, "payload")?;
            let name = signal.name.clone();
            draft.push(Event::SignalKept { name, payload });
        }
        Ok(draft.decision(None))
    }
}

fn check_name(name: &str) -> Flow<()> {
    if !name.is_empty() && name.len() <= limits::SIGNAL_NAME_BYTES_MAX {
        return Ok(());
    }
    let limit = format!(
        "the name of a signal has 1 to {} bytes",
        limits::SIGNAL_NAME_BYTES_MAX
    );
    Err(Error::new(Code::LimitExceeded, limit.clone())
        .with("limit", limit)
        .into())
}
