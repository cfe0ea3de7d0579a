//! Rewinds: a backward jump asked for by a person or a model. The step and everything after it are pending again, and
//! memory is as it was when the step was entered.

use std::collections::BTreeSet;

use super::{
    BodyKind, Decision, Event, Execution, OrderKind, PauseReason, RewindRequest, StepStatus, Visit,
    VisitId, WaitCondition, decision::DecideResult, lifecycle::check_reason,
    time::find_step_of_visit, transition::TransitionBuilder,
};
use crate::{
    definition::{Step, StepKind},
    error::{Error, NextCall, address, call_tool, read_resource},
    event::Rewound,
    id::StepId,
};

const FORK_NEXT_CALL: NextCall = call_tool(
    "execution.fork",
    &[("execution_id", "{execution_id}"), ("from_step", "{to_step}")],
    "an execution that has ended does not change; a fork does the step again in a new one",
);
const REWIND_PARENT_NEXT_CALL: NextCall = call_tool(
    "execution.rewind",
    &[("execution_id", "{parent}"), ("to_step", "{parent_step}")],
    "its parent began it; the parent's step begins it anew",
);
const RESOLVE_NEXT_CALL: NextCall = read_resource(
    address!("workflow_status/{execution_id}"),
    "`waits` shows the step; find out what came of it, with your user if in doubt, and say so with execution.resolve",
);

const WAIT_NEXT_CALL: NextCall = call_tool(
    "execution.wait",
    &[("execution_id", "{execution_id}")],
    "it returns when that is done",
);
const ANSWER_GATE_NEXT_CALL: NextCall = read_resource(
    address!("workflow_status/{execution_id}"),
    "`waits` shows the approval that must come first",
);

impl Execution {
    /// Whether a rewind must be told the values of the past: memory or inputs may have changed since.
    pub fn needs_past_to_rewind(&self) -> bool {
        !self.memory.is_empty() || self.inputs != self.given
    }

    /// The latest visit of a step since the last jump back that reset it.
    pub fn latest_visit_id(&self, step: &StepId) -> Option<VisitId> {
        let (_, state) = self.find_step(step)?;
        Some(state.visits_since_reset().last()?.visit_id(step))
    }

    pub(super) fn decide_rewind(
        &self,
        mut builder: TransitionBuilder<'_>,
        request: &RewindRequest,
    ) -> DecideResult<Decision> {
        check_reason(request.reason.as_deref())?;
        self.check_rewind(&request.to_step)?;
        let graph = builder.context.definition.graph();
        let target = graph.step_position(&request.to_step).unwrap_or_default();
        let reset_positions = graph.descendants(target);
        if builder.waits_for_approval(target) {
            let message = format!(
                "step '{}' waits for an approval that this fork asks again",
                request.to_step
            );
            return Err(self.state_refusal(message, ANSWER_GATE_NEXT_CALL).into());
        }
        builder.void_visits_of_steps(|position| reset_positions.contains(&position));
        let (mut memory, mut inputs) = (self.memory.clone(), self.inputs);
        request.past.restore(&mut memory, &mut inputs);
        let is_entered = |at: &&usize| builder.execution.steps[**at].status != StepStatus::Pending;
        let steps =
            reset_positions.iter().filter(is_entered).map(|at| builder.step(*at).id.clone());
        let visits = builder.visits_to_compensate(&reset_positions);
        let visits = if request.compensates { visits } else { Vec::new() };
        let compensates = !visits.is_empty();
        let rewound = Rewound {
            to_step: request.to_step.clone(),
            steps: steps.collect(),
            reason: request.reason.clone(),
            memory: memory.into_iter().collect(),
            inputs,
            not_undone: builder.effects_left_by(&reset_positions, &visits),
            compensates: visits,
        };
        builder.push_event(Event::Rewound(Box::new(rewound)));
        builder.withdraw_offers_of_pending_steps();
        if self.pauses.contains(&PauseReason::Person) {
            builder.order_all_children(OrderKind::Resume);
        }
        builder.lift_all_pauses()?;
        if !compensates {
            builder.queue_decided_steps(target, &reset_positions);
            builder.targets.push_back(target);
        }
        builder.apply_deferred_outcomes()?;
        builder.run_to_quiescence()?;
        Ok(builder.into_decision(None))
    }

    fn check_rewind(&self, to_step: &StepId) -> DecideResult<()> {
        if self.state.is_final() || self.ending_state().is_some() {
            let state = self.ending_state().unwrap_or(self.state);
            let message = format!(
                "execution '{}' is {state} or about to be, so it cannot be rewound",
                self.id
            );
            let error = self.state_refusal(message, FORK_NEXT_CALL);
            return Err(error.with_context("to_step", to_step.as_str()).into());
        }
        if let Some(parent) = self.parent() {
            let message = format!(
                "execution '{}' is a child of '{}': rewind that one",
                self.id, parent.execution_id
            );
            let error = self
                .state_refusal(message, REWIND_PARENT_NEXT_CALL)
                .with_context("parent", parent.execution_id.as_str())
                .with_context("parent_step", parent.visit_id.step().as_str());
            return Err(error.into());
        }
        if self.pauses.contains(&PauseReason::OutcomeUnknown) {
            let is_unknown = |visit: &Visit| visit.awaiting == Some(WaitCondition::Unknown);
            let unknown = self.open_visits().find(|(.., visit)| is_unknown(visit));
            let step = unknown.map_or_else(String::new, |(_, step, _)| step.id.to_string());
            let message =
                format!("the outcome of step '{step}' is unknown, and a rewind would hide that");
            let error = self.state_refusal(message, RESOLVE_NEXT_CALL);
            return Err(error.with_context("unknown_step", step).into());
        }
        if let Some(rewind) = &self.rewinding {
            let message = format!(
                "the execution is being rewound to '{}': compensations run first",
                rewind.step
            );
            let error = self.state_refusal(message, WAIT_NEXT_CALL);
            return Err(error.with_context("to_step", to_step.as_str()).into());
        }
        if self.latest_visit_id(to_step).is_none() {
            return Err(self.step_not_entered_error("/to_step", to_step).into());
        }
        Ok(())
    }

    /// The refusal of a step that this fork inherited, with values that only the journal of the forked execution tells.
    pub fn inherited_step_error(&self, step: &StepId) -> Error {
        const NEXT: NextCall = call_tool(
            "execution.fork",
            &[("execution_id", "{forked_from}"), ("from_step", "{to_step}")],
            "it has the values from before that step",
        );
        let origin = self
            .origin()
            .map_or_else(|| self.id.to_string(), |origin| origin.execution_id.to_string());
        let message = format!(
            "step '{step}', or one after it, was done by execution '{origin}', which this one continues, and wrote values: fork that one"
        );
        self.state_refusal(message, NEXT)
            .with_context("forked_from", origin)
            .with_context("to_step", step.as_str())
    }

    /// The refusal of a step that cannot be done again, because it was never entered.
    pub(super) fn step_not_entered_error(&self, argument: &str, step: &StepId) -> Error {
        let entered = self.steps.iter().filter(|state| !state.visits_since_reset().is_empty());
        let names: Vec<_> = entered.map(|state| format!("'{}'", state.id)).collect();
        let what = match self.find_step(step) {
            Some(_) => "was not entered yet",
            None => "is no step of this execution",
        };
        let message = format!("'{step}' {what}; these steps were entered: {}", names.join(", "));
        self.with_execution_context(Error::argument_rule(argument, "enum", &message))
    }
}

impl TransitionBuilder<'_> {
    /// The visits of these steps since they were last reset that a compensation can undo.
    fn visits_to_compensate(&self, positions: &BTreeSet<usize>) -> Vec<VisitId> {
        let compensations = self.execution.compensations.iter();
        let visits = compensations.map(|compensation| compensation.visit_id.clone());
        let is_current = |visit_id: &VisitId| {
            let (at, state) = self.execution.find_step(visit_id.step())?;
            let first = state.visits_since_reset().first()?.number;
            Some(positions.contains(&at) && visit_id.visit >= first)
        };
        visits.filter(|visit_id| is_current(visit_id) == Some(true)).collect()
    }

    /// The closed visits of these steps whose effects stay in the world: work of the server that changes something and
    /// is not compensated.
    fn effects_left_by(
        &self,
        positions: &BTreeSet<usize>,
        compensated: &[VisitId],
    ) -> Vec<VisitId> {
        let mut left = Vec::new();
        for &position in positions {
            let state = &self.execution.steps[position];
            let visits = state.visits_since_reset().iter().map(|visit| &**visit);
            for visit in visits.chain(state.items.iter()) {
                let visit_id = visit.visit_id(&state.id);
                let acting = find_step_of_visit(self.context.definition, position, state, visit);
                let is_undone = compensated.contains(&visit_id);
                if !is_undone
                    && visit.input.is_some()
                    && acting.is_some_and(|step| self.has_effect(step))
                {
                    left.push(visit_id);
                }
            }
        }
        left
    }

    /// Whether the work of the step changes something outside of midex.
    fn has_effect(&self, step: &Step) -> bool {
        match &step.kind {
            StepKind::Run { .. } => !self.context.work.is_safe_to_retry(&step.kind),
            StepKind::Activity { .. } | StepKind::Workflow { .. } => true,
            _ => false,
        }
    }

    /// Runs the next compensation that a rewind waits for, or else enters the step that it leads to. Returns false if
    /// there is no such rewind, or if it waits for a compensation.
    pub(super) fn continue_rewind(&mut self) -> DecideResult<bool> {
        let (Some(target), Some(rewind)) = (self.rewind_target(), &self.execution.rewinding) else {
            return Ok(false);
        };
        let is_compensation = |visit: &Visit| visit.body == BodyKind::Compensation;
        if self.execution.open_visits().any(|(.., visit)| is_compensation(visit)) {
            return Ok(false);
        }
        let mut newest_first = self.execution.compensations.iter().rev();
        let next = newest_first.find(|left| rewind.visits.contains(&left.visit_id)).cloned();
        if let Some(compensation) = next {
            self.begin_compensation(&compensation)?;
            return Ok(true);
        }
        self.push_event(Event::RewindCompensated);
        self.queue_decided_steps(target, &self.context.definition.graph().descendants(target));
        self.targets.push_back(target);
        Ok(true)
    }

    /// The position of the step that a rewind leads to, while compensations come first.
    pub(super) fn rewind_target(&self) -> Option<usize> {
        let target = &self.execution.rewinding.as_ref()?.step;
        if self.execution.ending_state().is_some() {
            return None;
        }
        self.context.definition.graph().step_position(target)
    }

    /// Whether the step at `position` waits for the compensations of a rewind.
    pub(super) fn waits_for_rewind(&self, position: usize) -> bool {
        let target = self.rewind_target();
        target.is_some_and(|target| {
            self.context.definition.graph().descendants(target).contains(&position)
        })
    }
}
