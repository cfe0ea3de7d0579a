//! The state that a fork continues from, and which steps of the source are done again.

use std::collections::BTreeMap;

use super::{ForkArguments, ForkSource};
use crate::{
    definition::{Definition, Step, StepKind},
    document::Digest,
    error::{Code, Error, NextCall, Violation, address, read_resource},
    event::{BodyKind, Event, InheritedChild, Outcome, Row, VisitId, WaitCondition},
    execution::{
        AttemptId, DecisionContext, Execution, PastValues, StepState,
        decision::{DecideResult, Interrupt},
        time::find_step_of_visit,
    },
    id::StepId,
    state::{State, StepStatus},
};

/// The state that a fork continues from.
pub(super) struct ForkBase {
    /// The source before its end began.
    pub(super) execution: Execution,
    /// The source as it is.
    pub(super) latest: Execution,
    /// The memory to continue with.
    pub(super) memory: BTreeMap<String, Digest>,
    /// The inputs to continue with.
    pub(super) inputs: Option<Digest>,
    /// The steps of the source that are done again, each with the reason.
    pub(super) reopened: BTreeMap<StepId, String>,
    /// Those of them that make every step after them be done again.
    pub(super) sources: Vec<StepId>,
    /// Those of them that are entered at once, unless they wait for another one.
    pub(super) entered: Vec<StepId>,
}

impl ForkBase {
    pub(super) fn new(
        source: ForkSource<'_>,
        context: DecisionContext<'_>,
        arguments: &ForkArguments,
    ) -> DecideResult<Self> {
        let gone = || Interrupt::Refused(Error::internal("an execution has no journal"));
        let latest = Execution::replay(source.rows).ok_or_else(gone)?;
        let execution = Execution::replay_before_end(source.rows).ok_or_else(gone)?;
        let mut base = Self {
            memory: execution.memory.clone(),
            inputs: execution.inputs,
            execution,
            latest,
            reopened: BTreeMap::new(),
            sources: Vec::new(),
            entered: Vec::new(),
        };
        base.reopen_open_steps(source.definition);
        base.reopen_compensated_steps();
        match &arguments.from_step {
            Some(step) => base.reopen_named_step(source, step)?,
            None => base.reopen_failed_step()?,
        }
        if !arguments.repeats_unknown {
            base.check_known_outcomes(source.definition, context)?;
        }
        Ok(base)
    }

    fn reopen(&mut self, step: &StepId, why: &str) {
        self.reopened.entry(step.clone()).or_insert_with(|| why.to_owned());
        self.entered.push(step.clone());
    }

    fn reopen_open_steps(&mut self, definition: &Definition) {
        let open = self.execution.open_visits();
        let open = open.filter(|(.., visit)| visit.body == BodyKind::Work);
        let open: Vec<_> = open.map(|(_, step, _)| step.id.clone()).collect();
        for step in open.iter().filter(|step| definition.step(step).is_some()) {
            self.reopen(step, "it was open");
        }
    }

    /// Steps whose effect was taken back are done again, and so is everything that was built on it.
    fn reopen_compensated_steps(&mut self) {
        let steps = self.latest.steps.iter().filter(|step| step.was_compensated());
        let steps: Vec<_> = steps.map(|step| step.id.clone()).collect();
        for step in steps {
            self.reopen(&step, "its effect was taken back");
            self.sources.push(step);
        }
    }

    fn reopen_named_step(&mut self, source: ForkSource<'_>, step: &StepId) -> DecideResult<()> {
        let visit = self.execution.find_step(step).map(|(_, state)| state);
        let visit = visit.and_then(|state| state.visits_since_reset().last());
        let Some(visit) = visit else {
            return Err(self.execution.step_not_entered_error("from_step", step).into());
        };
        let visit_id = visit.visit_id(step);
        if let Some(before) = Execution::replay_before_visit(source, &visit_id) {
            (self.memory, self.inputs) = (before.memory, before.inputs);
        }
        self.reopened.remove(step);
        self.reopen(step, "it was asked for");
        self.sources.push(step.clone());
        Ok(())
    }

    fn reopen_failed_step(&mut self) -> DecideResult<()> {
        let failure = self.latest.failure.as_ref().or(self.latest.failing.as_ref());
        let failed = failure.and_then(|failure| failure.step.clone());
        let failed = failed.filter(|step| {
            let state = self.execution.find_step(step);
            state.is_some_and(|(_, state)| state.status == StepStatus::Failed)
        });
        if let Some(step) = failed {
            self.reopen(&step, "it failed");
        }
        if self.latest.state == State::Completed && self.reopened.is_empty() {
            return Err(self.completed_error().into());
        }
        Ok(())
    }

    /// Refuses to repeat work that may have been done, unless it is safe to repeat.
    fn check_known_outcomes(
        &self,
        definition: &Definition,
        context: DecisionContext<'_>,
    ) -> DecideResult<()> {
        for (at, step, visit) in self.execution.open_visits() {
            let is_unknown = matches!(
                visit.awaiting,
                Some(
                    WaitCondition::Unknown
                        | WaitCondition::Operation { .. }
                        | WaitCondition::Deferred(_)
                )
            );
            let acting = find_step_of_visit(definition, at, step, visit);
            let Some(acting) = acting.filter(|_| is_unknown) else {
                continue;
            };
            let declared = acting.kind.declared_idempotence();
            if !declared.unwrap_or_else(|| context.safety.is_safe_to_retry(&acting.kind)) {
                return Err(self.unknown_outcome_error(&step.id).into());
            }
        }
        Ok(())
    }

    /// The children of the steps that are done again, which the new execution lets continue.
    pub(super) fn children(&self, definition: &Definition) -> Vec<InheritedChild> {
        let steps = self.latest.steps.iter().filter(|step| self.reopened.contains_key(&step.id));
        let children = steps.filter_map(|step| {
            let kind = &definition.step(&step.id)?.kind;
            let visit = step.latest_visit().filter(|visit| visit.input.is_some())?;
            let attempt_id =
                AttemptId { visit_id: visit.visit_id(&step.id), attempt: visit.attempt };
            matches!(kind, StepKind::Workflow { .. }).then(|| InheritedChild {
                step: step.id.clone(),
                child: attempt_id.child_execution_id(&self.latest.id),
            })
        });
        children.collect()
    }

    fn completed_error(&self) -> Error {
        let message =
            format!("execution '{}' is completed: name the step to do again", self.latest.id);
        let violation = Violation::new("from_step", "required", message.clone());
        let error = Error::new(Code::ArgumentsInvalid, message).with_violations(vec![violation]);
        self.latest.with_execution_context(error)
    }

    fn unknown_outcome_error(&self, step: &StepId) -> Error {
        const NEXT: NextCall = read_resource(
            address!("workflow_status/{execution_id}"),
            "find out with your user whether its effect happened",
        )
        .after_person_does("run `midex retry {execution_id} --again` if it may be done twice");
        let message = format!(
            "the outcome of step '{step}' is unknown: it was cut off while the server worked on it, and may not be done twice"
        );
        self.latest.step_error(Code::StateTransitionRefused, step, message).with_next(NEXT)
    }
}

impl PastValues {
    /// The values just before a visit of `source` was opened; `None` if the journal does not tell.
    pub fn before_visit(source: ForkSource<'_>, visit_id: &VisitId) -> Option<Self> {
        let then = Execution::replay_before_visit(source, visit_id)?;
        Some(Self { memory: then.memory, inputs: then.inputs })
    }
}

impl StepState {
    /// Whether the effect of its latest visit, or of an item of it, was taken back.
    fn was_compensated(&self) -> bool {
        let Some(number) = self.latest_visit().map(|visit| visit.number) else {
            return false;
        };
        self.hook_visits.iter().any(|visit| {
            visit.body == BodyKind::Compensation
                && visit.number == number
                && visit.input.is_some()
                && visit.closed.as_ref().is_some_and(|closed| closed.output.is_some())
        })
    }
}

impl Execution {
    /// The state before the end of the execution began: with the visits open that its end voided, and the outcomes of
    /// the same transition applied.
    fn replay_before_end(rows: &[Row]) -> Option<Self> {
        let end = rows.iter().position(|row| row.events.iter().any(begins_end));
        let Some((before, row)) = end.map(|at| (&rows[..at], &rows[at])) else {
            return Self::replay(rows);
        };
        let begins = row.events.iter().position(begins_end).unwrap_or_default();
        let voided = row.events[..begins].iter().rev().take_while(|event| prepares_end(event));
        Self::replay_with_part(before, row, begins - voided.count())
    }

    /// The state just before a visit was opened; `None` if the journal does not tell.
    fn replay_before_visit(source: ForkSource<'_>, visit_id: &VisitId) -> Option<Self> {
        let opens = |event: &Event| match event {
            Event::VisitOpened(opened) => opened.visit_id == *visit_id,
            Event::StepDone { visit_id: done, .. } => done == visit_id,
            _ => false,
        };
        let at = source.rows.iter().position(|row| row.events.iter().any(opens))?;
        let row = &source.rows[at];
        let opened = row.events.iter().position(opens)?;
        let is_set = |step: &Step| matches!(step.kind, StepKind::Set { .. });
        let is_set = source.definition.step(visit_id.step()).is_some_and(is_set);
        // A `set` step writes to memory before its end is recorded.
        let writes = row.events[..opened].iter().rev();
        let writes =
            writes.take_while(|event| is_set && matches!(event, Event::MemoryWritten { .. }));
        Self::replay_with_part(&source.rows[..at], row, opened - writes.count())
    }

    /// The state after `rows` and the first `events` events of `row`.
    fn replay_with_part(rows: &[Row], row: &Row, events: usize) -> Option<Self> {
        let part = Row { events: row.events[..events].to_vec(), ..row.clone() };
        Self::apply_row(Self::replay(rows), &part)
    }
}

/// Whether the end of an execution begins with this event.
fn begins_end(event: &Event) -> bool {
    match event {
        Event::FailureBegan { .. } | Event::EndingBegan { .. } | Event::FinalOutput { .. } => true,
        Event::StateChanged { to, .. } => to.is_final(),
        _ => false,
    }
}

/// Whether this event, directly before the end, belongs to it: open visits are voided and pauses lifted first.
fn prepares_end(event: &Event) -> bool {
    match event {
        Event::VisitClosed(closed) => closed.outcome == Outcome::Voided,
        Event::StateChanged { to, .. } => *to == State::Running,
        Event::ChildOrdered(_) | Event::PauseLifted { .. } | Event::CompensationsGivenUp { .. } => {
            true
        }
        _ => false,
    }
}
