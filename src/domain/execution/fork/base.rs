//! The state that a fork continues from, and which steps of the source are done again.

use std::collections::{BTreeMap, BTreeSet};

use super::{ForkArguments, ForkPurpose, ForkSource};
use crate::{
    definition::{Definition, StepKind},
    document::Digest,
    error::{Code, Error, FailureCode, NextCall, address, call_tool, read_resource},
    event::{BodyKind, Event, InheritedChild, Outcome, Row, VisitId, WaitCondition},
    execution::{
        AttemptId, DecisionContext, Execution, PastSearch, StepState, Visit,
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
}

impl ForkBase {
    pub(super) fn new(
        source: ForkSource<'_>,
        context: DecisionContext<'_>,
        arguments: &ForkArguments,
    ) -> DecideResult<Self> {
        let gone = || Interrupt::Refused(Error::internal("an execution has no journal"));
        let rows = DividedRows::new(source.rows);
        let known = source.latest.and_then(|latest| rows.find_states(latest));
        let (execution, latest) = known.or_else(|| rows.replay()).ok_or_else(gone)?;
        let mut base = Self {
            memory: execution.memory.clone(),
            inputs: execution.inputs,
            execution,
            latest,
            reopened: BTreeMap::new(),
            sources: Vec::new(),
        };
        base.reopen_open_steps(source.definition);
        base.reopen_compensated_steps(source.current);
        base.reopen_failed_steps(source.definition);
        match &arguments.from_step {
            Some(step) => base.reopen_named_step(step)?,
            None if base.latest.state == State::Completed
                && base.reopened.is_empty()
                && arguments.purpose != ForkPurpose::ContinueChild =>
            {
                return Err(base.completed_error().into());
            }
            None => {}
        }
        if !base.sources.is_empty() {
            base.restore_past_values(source.definition, &rows.before_end())?;
        }
        if !arguments.repeats_unknown {
            base.check_known_outcomes(source.definition, context)?;
        }
        Ok(base)
    }

    fn reopen(&mut self, step: &StepId, why: &str) {
        self.reopened.entry(step.clone()).or_insert_with(|| why.to_owned());
    }

    fn reopen_open_steps(&mut self, definition: &Definition) {
        let open = self.execution.open_visits();
        let open = open.filter(|(.., visit)| visit.body == BodyKind::Work);
        let open: Vec<_> = open.map(|(_, step, _)| step.id.clone()).collect();
        for step in open.iter().filter(|step| definition.step(step).is_some()) {
            self.reopen(step, "it was open");
        }
    }

    /// Steps whose effect was taken back, be it after the revision that is forked, are done again, and so is everything that was
    /// built on it.
    fn reopen_compensated_steps(&mut self, current: &Execution) {
        let is_latest = |step: &StepId, number: u32| {
            let visit = self.latest.find_step(step).and_then(|(_, step)| step.latest_visit());
            visit.is_some_and(|visit| visit.number == number)
        };
        // Few steps have such visits, and only these are looked up: there may be many steps.
        let steps = current.steps.iter().filter(|step| {
            let mut undoing = step.hook_visits.iter().filter(|visit| visit.undid_effect());
            undoing.any(|visit| is_latest(&step.id, visit.number))
        });
        let steps: Vec<_> = steps.map(|step| step.id.clone()).collect();
        for step in steps {
            self.reopen(&step, "its effect was taken back");
            self.sources.push(step);
        }
    }

    fn reopen_named_step(&mut self, step: &StepId) -> DecideResult<()> {
        if self.execution.latest_visit_id(step).is_none() {
            return Err(self.execution.step_not_entered_error("/from_step", step).into());
        }
        self.reopened.insert(step.clone(), "it was asked for".to_owned());
        self.sources.push(step.clone());
        Ok(())
    }

    /// Restores the memory and inputs from before the first of `sources` was entered.
    fn restore_past_values(&mut self, definition: &Definition, rows: &[&Row]) -> DecideResult<()> {
        let after = self.sources.iter().flat_map(|step| definition.steps_after(step));
        let mut reset: BTreeSet<_> = after.collect();
        reset.extend(self.reopened.keys().cloned());
        let visits = self.sources.iter().filter_map(|step| {
            let visit = self.execution.find_step(step)?.1.visits_since_reset().last()?;
            Some((visit.opened_revision, visit.visit_id(step)))
        });
        let Some((_, first)) = visits.min() else {
            return Ok(());
        };
        match self.execution.find_past_values(definition, rows, &first, &reset) {
            PastSearch::Found(past) => past.restore(&mut self.memory, &mut self.inputs),
            PastSearch::Inherited | PastSearch::NeedsOlderRows => {
                return Err(self.execution.inherited_step_error(first.step()).into());
            }
        }
        Ok(())
    }

    /// Steps whose failure the workflow did not handle are done again, wherever the fork begins: what follows them must not
    /// go on without them.
    fn reopen_failed_steps(&mut self, definition: &Definition) {
        let failure = self.latest.failure.as_ref().or(self.latest.failing.as_ref());
        let step = failure.and_then(|failure| definition.step(failure.step.as_ref()?));
        let mut failed: Vec<_> = step.map(|step| step.id.clone()).into_iter().collect();
        let has_missed =
            failure.is_some_and(|failure| failure.code == FailureCode::JoinMissed.as_str());
        if let Some(step) = step.filter(|_| has_missed) {
            // The join would miss again without the steps that it waited for.
            failed.extend(step.depends_on.iter().cloned());
        }
        // What follows a failure is decided only after its hooks, which were cut off.
        failed.extend(self.steps_with_open_hook().map(|step| step.id.clone()));
        for step in failed {
            let state = self.execution.find_step(&step);
            if state.is_some_and(|(_, state)| state.status == StepStatus::Failed) {
                let kind = definition.step(&step).map(|step| &step.kind);
                let is_foreach = matches!(kind, Some(StepKind::Foreach { .. }));
                let why = if is_foreach {
                    "it failed; all its items are done again"
                } else {
                    "it failed"
                };
                self.reopen(&step, why);
            }
        }
    }

    /// The steps that ended and whose hooks were cut off.
    pub(super) fn steps_with_open_hook(&self) -> impl Iterator<Item = &StepState> {
        let steps = self.execution.steps.iter().map(|step| &**step);
        steps.filter(|step| step.open_hook_visit().is_some())
    }

    /// Refuses to repeat work that may have been done, unless it is safe to repeat.
    fn check_known_outcomes(
        &self,
        definition: &Definition,
        context: DecisionContext<'_>,
    ) -> DecideResult<()> {
        for (at, step, visit) in self.execution.open_visits() {
            let Some(acting) = find_step_of_visit(definition, at, step, visit) else {
                continue;
            };
            let is_server_work =
                matches!(acting.kind, StepKind::Run { .. } | StepKind::Activity { .. });
            let is_unknown = match visit.awaiting {
                Some(WaitCondition::Unknown | WaitCondition::Operation { .. }) => true,
                // Its outcome came during a pause, and is not kept by the fork.
                Some(WaitCondition::Deferred(_)) => is_server_work,
                _ => false,
            };
            if !is_unknown || visit.body != BodyKind::Work {
                continue;
            }
            let declared = acting.kind.declared_idempotence();
            if !declared.unwrap_or_else(|| context.work.is_safe_to_retry(&acting.kind)) {
                let is_at_work = matches!(visit.awaiting, Some(WaitCondition::Operation { .. }))
                    && self.latest.state == State::Running
                    && !self.latest.is_imported();
                let error = if is_at_work {
                    self.work_in_progress_error(&step.id)
                } else {
                    self.unknown_outcome_error(&step.id)
                };
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// The children of these steps, which the new execution lets continue.
    pub(super) fn children(
        &self,
        definition: &Definition,
        is_continued: impl Fn(&StepId) -> bool,
    ) -> Vec<InheritedChild> {
        let steps = self.latest.steps.iter().filter(|step| is_continued(&step.id));
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
        let error = Error::argument_rule("/from_step", "required", &message);
        self.latest.with_execution_context(error)
    }

    /// The refusal of a fork while the server works on a step that may not be done twice.
    fn work_in_progress_error(&self, step: &StepId) -> Error {
        const WAIT: NextCall = call_tool(
            "execution.wait",
            &[("execution_id", "{execution_id}")],
            "it returns when the step has ended; then repeat this call",
        );
        let message = format!(
            "the server works on step '{step}', which may not be done twice, and its outcome is not known yet"
        );
        let error = self.latest.step_error(Code::StateTransitionRefused, step, message);
        error.with_context("busy_step", step.as_str()).with_next(WAIT)
    }

    fn unknown_outcome_error(&self, step: &StepId) -> Error {
        const READ: NextCall = read_resource(
            address!("workflow_status/{execution_id}"),
            "find out with your user whether its effect happened",
        );
        let message = format!(
            "the outcome of step '{step}' is unknown: it was cut off while the server worked on it, and may not be done twice"
        );
        let next = if self.latest.has_ended() {
            READ.after_person_does(
                "run `midex retry {execution_id} --again` if it may be done twice",
            )
        } else {
            READ
        };
        let mut error = self.latest.step_error(Code::StateTransitionRefused, step, message);
        if self.latest.has_ended() {
            error = error.with_context("cut_off_step", step.as_str());
        }
        error.with_next(next)
    }

    /// Whether a compensation took the effect of this visit back.
    pub(super) fn is_compensated(&self, visit_id: &VisitId) -> bool {
        let step = self.latest.find_step(visit_id.step());
        step.is_some_and(|(_, step)| {
            step.hook_visits.iter().any(|visit| {
                visit.undid_effect()
                    && (visit.number, visit.item) == (visit_id.visit, visit_id.item)
            })
        })
    }
}

impl Visit {
    /// Whether this is a compensation that took an effect back.
    fn undid_effect(&self) -> bool {
        self.body == BodyKind::Compensation
            && self.input.is_some()
            && self.closed.as_ref().is_some_and(|closed| closed.output.is_some())
    }
}

/// The rows of an execution, divided where its end began.
struct DividedRows<'a> {
    /// The rows before the one in which the end began; all rows if the execution has not begun to end.
    before: &'a [Row],
    /// The row in which the end began: the part before it, with the visits open that the end voided and the outcomes of
    /// the same transition applied, and the rest.
    divided: Option<[Row; 2]>,
    after: &'a [Row],
}

impl<'a> DividedRows<'a> {
    fn new(rows: &'a [Row]) -> Self {
        let Some(at) = rows.iter().position(|row| row.events.iter().any(begins_end)) else {
            return Self { before: rows, divided: None, after: &[] };
        };
        let events = &rows[at].events;
        let begins = events.iter().position(begins_end).unwrap_or_default();
        // An execution completes only when no visit is open, so a step cancelled the visits that are voided before that.
        let voided = if begins_completion(&events[begins]) {
            0
        } else {
            events[..begins].iter().rev().take_while(|event| prepares_end(event)).count()
        };
        let (first, rest) = events.split_at(begins - voided);
        let part = |events: &[Event]| Row { events: events.to_vec(), ..rows[at].clone() };
        Self {
            before: &rows[..at],
            divided: Some([part(first), part(rest)]),
            after: &rows[at + 1..],
        }
    }

    /// The state before the end began, and the latest one. Each row is applied once: there may be many.
    fn replay(&self) -> Option<(Execution, Execution)> {
        let before = Execution::replay(self.before);
        let Some([first, rest]) = &self.divided else {
            return before.map(|execution| (execution.clone(), execution));
        };
        let before_end = Execution::apply_row(before, first)?;
        let latest = Execution::apply_row(Some(before_end.clone()), rest);
        let latest = self
            .after
            .iter()
            .try_fold(latest?, |latest, row| Execution::apply_row(Some(latest), row));
        Some((before_end, latest?))
    }

    /// The same states, without a replay. `None` if `latest` is another state, or if the end of the execution changed more
    /// than its state: the caller must replay the rows then.
    fn find_states(&self, latest: &Execution) -> Option<(Execution, Execution)> {
        let last = self.after.last().or(self.divided.as_ref().map(|[first, _]| first));
        if last.or(self.before.last())?.revision != latest.revision() {
            return None;
        }
        if let Some([_, rest]) = &self.divided {
            let events = self.before_end().into_iter().flat_map(|row| &row.events);
            // The end of an execution clears its list of compensations.
            let has_compensations = events.into_iter().any(|event| match event {
                Event::CompensationKept { .. } => true,
                Event::Forked(forked) => !forked.compensations.is_empty(),
                _ => false,
            });
            let only_ends = rest.events.iter().all(|event| {
                matches!(
                    event,
                    Event::FailureBegan { .. }
                        | Event::FinalOutput { .. }
                        | Event::StateChanged { .. }
                )
            });
            if has_compensations || !only_ends || !self.after.is_empty() {
                return None;
            }
        }
        debug_assert!(
            self.replay().is_some_and(|(before_end, _)| before_end.steps == latest.steps
                && before_end.memory == latest.memory
                && before_end.inputs == latest.inputs
                && before_end.compensations == latest.compensations),
            "a replay leads to other values"
        );
        Some((latest.clone(), latest.clone()))
    }

    fn before_end(&self) -> Vec<&Row> {
        let first = self.divided.iter().map(|[first, _]| first);
        self.before.iter().chain(first).collect()
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

/// Whether the end that begins with this event is the completion of the execution.
fn begins_completion(event: &Event) -> bool {
    match event {
        Event::FinalOutput { .. } => true,
        Event::EndingBegan { to } | Event::StateChanged { to, .. } => *to == State::Completed,
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
