//! What time brings: timers, attempts after a pause, expiries and time limits.

use std::time::Duration;

use super::{
    Awaiting, Decision, Event, Execution, Failure, Need, Outcome, PauseReason, Reported, State,
    Visit, VisitId,
    decision::{DecideResult, Interrupt},
    enter::waited,
    transition::TransitionBuilder,
};
use crate::{
    clock::Timestamp,
    domain::{
        Definition, FailureCode,
        definition::{Step, StepKind},
        span::Span,
    },
    error::{Code, Error},
    limits,
};

impl Execution {
    /// The next instant at which something is to happen without anybody's asking: `None` where nothing is.
    pub fn deadline(&self, definition: &Definition) -> Option<Timestamp> {
        if self.stands_still() || self.state.is_final() {
            return None;
        }
        let dues = self.open().filter_map(|(position, state, visit)| {
            let step = definition.workflow.steps.get(position)?;
            if state.has_room(step) {
                return Some(self.updated_at);
            }
            self.due(definition, position, visit)
        });
        dues.chain(self.expires(definition)).min()
    }

    /// The same for whoever takes the execution up: work that is still in progress when a process ends is looked after at
    /// once by the next one.
    pub fn wake_at(&self, definition: &Definition) -> Option<Timestamp> {
        if self.state == State::Running && self.operations().next().is_some() {
            return Some(self.updated_at);
        }
        self.deadline(definition)
    }

    /// Whether it waits for a person to let it go on: time brings nothing then.
    fn stands_still(&self) -> bool {
        self.pauses
            .iter()
            .any(|reason| !matches!(reason, PauseReason::Gate | PauseReason::OutputInvalid))
    }

    /// When the execution as a whole has taken too long.
    fn expires(&self, definition: &Definition) -> Option<Timestamp> {
        let most = definition
            .workflow
            .timeout
            // One that is failing already cannot take too long once more.
            .filter(|_| self.state == State::Running && self.failing.is_none())?;
        Some(self.ends_at(most))
    }

    pub(super) fn decide_tick(&self, mut builder: TransitionBuilder<'_>) -> DecideResult<Decision> {
        if !self.state.is_final() && !self.stands_still() {
            builder.process_due()?;
        }
        Ok(builder.decision(None))
    }
}

impl Execution {
    /// When the visit is to move by itself.
    fn due(&self, definition: &Definition, position: usize, visit: &Visit) -> Option<Timestamp> {
        let step = acting_on(definition.workflow.steps.get(position)?, visit);
        let paused = self.paused_ms.saturating_sub(visit.paused_ms);
        let opened_at = visit.opened_at.after(Duration::from_millis(paused));
        let limit = match step.timeout {
            Some(most) => Some(opened_at.after(most.duration())),
            None => self.aftermath_until(definition, opened_at),
        };
        match visit.awaiting.as_ref()? {
            Awaiting::Timer { due } | Awaiting::Retry { due } => Some(*due),
            Awaiting::Gate { due, .. } => [*due, limit].into_iter().flatten().min(),
            Awaiting::Model(_) | Awaiting::Signal { .. } | Awaiting::Items { .. } => limit,
            // An attempt of the server has its limit in whoever works on it. One that is held nobody may work on.
            Awaiting::Operation { .. }
            | Awaiting::Unknown
            | Awaiting::Deferred(_)
            | Awaiting::OutputInvalid(_) => None,
        }
    }

    /// Until when a step that runs although the execution fails may stay open, where it says nothing and the workflow has a
    /// `timeout`: that no longer ends an execution which fails anyway, and it is not to run without bound.
    fn aftermath_until(&self, definition: &Definition, opened_at: Timestamp) -> Option<Timestamp> {
        let most = definition
            .workflow
            .timeout
            .filter(|_| self.failing.is_some())?;
        let least = opened_at.after(limits::AFTERMATH_STEP_MAX);
        Some(self.ends_at(most).max(least))
    }

    fn ends_at(&self, timeout: Span) -> Timestamp {
        let paused = Duration::from_millis(self.paused_ms);
        self.started_at.after(timeout.duration()).after(paused)
    }
}

fn acting_on<'a>(step: &'a Step, visit: &Visit) -> &'a Step {
    if visit.item.is_some() {
        step.acting()
    } else {
        step
    }
}

impl TransitionBuilder<'_> {
    /// Does whatever is due by now, in the order in which it became due.
    pub(super) fn process_due(&mut self) -> DecideResult<()> {
        let now = self.row.at;
        if self
            .next
            .expires(self.facts.definition)
            .is_some_and(|expires| expires <= now)
        {
            self.expire()?;
        }
        // What is due at the same instant keeps authoring order.
        let mut due = self.due_by(now);
        due.sort_by_key(|(due, _)| *due);
        for (_, visit_id) in due {
            if !self.next.state.is_final() {
                self.on_timer(&visit_id)?;
            }
        }
        self.go_on_with_items()?;
        self.run_to_quiescence()
    }

    fn due_by(&self, now: Timestamp) -> Vec<(Timestamp, VisitId)> {
        let definition = self.facts.definition;
        let due = self.next.open().filter_map(|(position, step, visit)| {
            let due = self.next.due(definition, position, visit)?;
            (due <= now).then(|| (due, visit.visit_id(&step.id)))
        });
        due.collect()
    }

    /// The execution as a whole has taken too long.
    fn expire(&mut self) -> DecideResult<()> {
        let most = self
            .facts
            .definition
            .workflow
            .timeout
            .unwrap_or(Span::of(limits::SPAN_MAX));
        self.fail(Failure {
            code: FailureCode::WorkflowTimedOut.into(),
            message: format!("the execution did not end within {most}"),
            step: None,
            item: None,
        })
    }

    fn on_timer(&mut self, visit_id: &VisitId) -> DecideResult<()> {
        // What fired before may have closed it.
        let Some((position, _, visit)) = self.next.visit(visit_id) else {
            return Ok(());
        };
        let visit = visit.clone();
        let step = acting_on(self.step(position), &visit);
        match visit.awaiting {
            Some(Awaiting::Timer { due }) => {
                let output = self.keep(waited(due), limits::OUTPUT_BYTES_MAX, "output")?;
                self.finish(visit_id, &Outcome::Completed(output), None)
            }
            Some(Awaiting::Retry { .. }) if step.kind.is_of_model() => {
                self.reoffer_due(visit_id, &visit);
                Ok(())
            }
            Some(Awaiting::Retry { .. }) => self.retry_work(step, visit_id, &visit),
            Some(Awaiting::Gate { .. }) => {
                self.go_on()?;
                let failure = timed_out(
                    visit_id,
                    FailureCode::GateExpired,
                    format!("nobody answered gate '{}' in time", visit_id.step()),
                );
                self.finish(visit_id, &Outcome::Failed(failure), None)
            }
            Some(_) => {
                let within = match step.timeout {
                    Some(most) => format!("within {most}"),
                    None => "in the time that an execution which fails leaves it".to_owned(),
                };
                self.void_items_of(position, visit_id);
                let failure = timed_out(
                    visit_id,
                    FailureCode::StepTimedOut,
                    format!("step '{}' did not end {within}", visit_id.step()),
                );
                self.finish(visit_id, &Outcome::Failed(failure), None)
            }
            None => Ok(()),
        }
    }

    fn void_items_of(&mut self, position: usize, visit_id: &VisitId) {
        if visit_id.item.is_none() && matches!(self.step(position).kind, StepKind::Foreach { .. }) {
            self.void_items(position);
        }
    }

    /// What came while the execution was paused takes its effect.
    pub(super) fn drain_deferred(&mut self) -> DecideResult<()> {
        let held: Vec<_> = self
            .next
            .open()
            .filter_map(|(_, step, visit)| match &visit.awaiting {
                Some(Awaiting::Deferred(reported)) => {
                    Some((visit.visit_id(&step.id), Reported::clone(reported)))
                }
                _ => None,
            })
            .collect();
        for (visit_id, reported) in held {
            if !self.next.state.is_final() {
                // It is in no row yet under which what follows could ask for it.
                if let Reported::Output(payload) = &reported
                    && let Some(document) = &payload.inline
                {
                    self.note(payload, document.value());
                }
                self.conclude_visit(&visit_id, reported)?;
            }
        }
        self.match_signals()?;
        self.process_due()
    }

    /// Kept signals find the waits that were open while the execution was paused.
    fn match_signals(&mut self) -> DecideResult<()> {
        let waits: Vec<_> = self
            .next
            .open()
            .filter_map(|(_, step, visit)| match &visit.awaiting {
                Some(Awaiting::Signal { name }) => Some((visit.visit_id(&step.id), name.clone())),
                _ => None,
            })
            .collect();
        for (visit_id, name) in waits {
            // The signal before may have ended it.
            let visit = self.next.visit(&visit_id).map(|(_, _, visit)| visit);
            if visit.is_none_or(|visit| visit.awaiting.is_none()) {
                continue;
            }
            let kept = self.next.signals.iter().find(|signal| signal.name == name);
            let Some(digest) = kept.map(|signal| signal.payload) else {
                continue;
            };
            let payload = self.wanted(Need::stored(digest))?;
            self.push(Event::SignalTaken { name });
            let output = self.keep((*payload).clone(), limits::OUTPUT_BYTES_MAX, "output")?;
            self.finish(&visit_id, &Outcome::Completed(output), None)?;
        }
        Ok(())
    }
}

fn timed_out(visit_id: &VisitId, code: FailureCode, message: String) -> Failure {
    Failure {
        code: code.into(),
        message,
        step: visit_id.step.clone(),
        item: None,
    }
}

impl Interrupt {
    /// What is too much for a step is the failure of that step, not of the call or the instant that led to it.
    pub(super) fn within(self, visit_id: &VisitId) -> Self {
        match self {
            Self::Refused(error) if error.code() == Code::LimitExceeded => {
                Self::Fails(Failure::of(&error, visit_id.step()))
            }
            interrupt => interrupt,
        }
    }

    /// A refusal says where it arose.
    pub(super) fn placed(self, place: impl FnOnce(Error) -> Error) -> Self {
        match self {
            Self::Refused(error) if error.context("execution_id").is_none() => {
                Self::Refused(place(error))
            }
            interrupt => interrupt,
        }
    }

    /// The step fails.
    pub(super) fn fails(step: &Step, code: FailureCode, message: String) -> Self {
        Self::Fails(Failure {
            code: code.into(),
            message,
            step: Some(step.id.clone()),
            item: None,
        })
    }
}
