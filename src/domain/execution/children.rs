//! Children: executions of other workflows that steps wait for. A parent passes pauses, resumes and its end down to
//! them by orders, which it keeps until the children have received them.

use std::collections::BTreeSet;

use super::{
    AttemptId, AttemptRequest, ChildOrder, Decision, Effect, Event, Execution, Failure,
    LifecycleAction, LifecycleChange, OrderKind, Parent, PauseReason, State, VisitId,
    WaitCondition, decision::DecideResult, effect::build_attempt_id, time::find_step_of_visit,
    transition::TransitionBuilder,
};
use crate::{
    FailureCode,
    definition::{ANY_WORKFLOW, Definition, Step, StepKind},
    document::Digest,
    id::ExecutionId,
    limits,
};

impl AttemptId {
    /// The id of the child that this attempt begins. It is derived from the attempt, so that beginning the child twice
    /// begins it once.
    pub fn child_execution_id(&self, parent: &ExecutionId) -> ExecutionId {
        let text = format!("{}\n{}", self.visit_id.unique_text(parent), self.attempt);
        let digest = Digest::compute(text.as_bytes()).to_string();
        let short: String = digest.chars().take(CHILD_ID_CHARS).collect();
        ExecutionId::parse(&format!("child_{short}")).expect("letters and digits")
    }
}

/// The number of hexadecimal digits in the id of a child.
const CHILD_ID_CHARS: usize = 32;

impl Execution {
    /// Its parent, if it is a child.
    pub fn parent(&self) -> Option<&Parent> {
        self.parent.as_deref()
    }

    /// The attempts that wait for a child and have no task in this process, which has those in `alive`. Each comes with
    /// its step kind and the digest of its input. After a restart or a resume the engine attaches to these children.
    pub fn child_attempts_without_task(
        &self,
        definition: &Definition,
        alive: &BTreeSet<AttemptId>,
    ) -> Vec<(AttemptId, StepKind, Option<Digest>)> {
        let waiting = self.open_visits().filter_map(|(at, step, visit)| {
            let is_child = matches!(visit.awaiting, Some(WaitCondition::Child { .. }));
            let attempt_id = is_child.then(|| build_attempt_id(step, visit))?;
            let acting = find_step_of_visit(definition, at, step, visit)?;
            Some((attempt_id, acting.kind.clone(), visit.input))
        });
        waiting.filter(|(attempt_id, ..)| !alive.contains(attempt_id)).collect()
    }

    /// Whether all its open visits wait for children. A client that looks for open work is then shown the children
    /// instead.
    pub fn waits_for_children(&self) -> bool {
        let waits = self.open_visits().filter_map(|(.., visit)| visit.awaiting.as_ref());
        let mut waits =
            waits.filter(|awaiting| !matches!(awaiting, WaitCondition::Items { .. })).peekable();
        waits.peek().is_some()
            && waits.all(|awaiting| matches!(awaiting, WaitCondition::Child { .. }))
    }

    /// Its failure, if it has failed.
    pub fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// The children that its visits began, each with that visit: one for every attempt.
    pub(crate) fn children<'a>(
        &'a self,
        definition: &'a Definition,
    ) -> impl Iterator<Item = (ExecutionId, VisitId)> + 'a {
        let steps = self.steps.iter().chain(&self.whole).enumerate();
        // Most workflows have no children, and every status call asks for them.
        let steps = steps.take_while(|_| definition.has_children());
        let visits = steps.flat_map(|(at, step)| {
            let step_visits = step.visits.iter().chain(&step.hook_visits).map(|visit| &**visit);
            let all = step_visits.chain(step.items.iter());
            all.map(move |visit| (at, &**step, visit))
        });
        // A visit without an input ended before it began a child: its `if` did not hold, or `with` could not be
        // evaluated.
        let visits_with_input = visits.filter(|(.., visit)| visit.input.is_some());
        let child_visits = visits_with_input.filter(|(at, step, visit)| {
            let acting = find_step_of_visit(definition, *at, step, visit);
            acting.is_some_and(|step| matches!(step.kind, StepKind::Workflow { .. }))
        });
        child_visits.flat_map(move |(_, step, visit)| {
            let visit_id = visit.visit_id(&step.id);
            (1..=visit.attempt).map(move |attempt| {
                let visit_id = visit_id.clone();
                let attempt_id = AttemptId { visit_id, attempt };
                (attempt_id.child_execution_id(&self.id), attempt_id.visit_id)
            })
        })
    }

    /// The ids of the children that its visits began.
    pub fn child_ids(&self, definition: &Definition) -> Vec<ExecutionId> {
        self.children(definition).map(|(child, _)| child).collect()
    }

    /// The orders that its children have not received yet.
    pub fn orders(&self) -> &[ChildOrder] {
        &self.orders
    }

    /// Whether nothing can change it any more: it has ended, and its children have received all orders, or it was imported. A
    /// requested end does not wait for the orders, so an execution in a final state may still have some.
    pub fn is_over(&self) -> bool {
        self.is_imported() || self.state.is_final() && self.orders.is_empty()
    }

    /// The oldest order of each child that can be delivered now: at most [`limits::ORDERS_AT_ONCE_MAX`]. `missing` are
    /// the children that were not found. If a visit waits for such a child, it is about to begin, and its orders wait.
    /// Orders to any other missing child stay due: that child never begins.
    pub fn find_due_orders(&self, missing: &BTreeSet<ExecutionId>) -> Vec<ChildOrder> {
        let awaited: BTreeSet<_> = self.awaited_children().collect();
        let is_about_to_begin =
            |child: &ExecutionId| missing.contains(child) && awaited.contains(child);
        let mut children = BTreeSet::new();
        let due = self.orders.iter().filter(|order| {
            !is_about_to_begin(&order.child) && children.insert(order.child.clone())
        });
        due.take(limits::ORDERS_AT_ONCE_MAX).cloned().collect()
    }

    /// The parent record for the child that this attempt begins.
    pub fn build_parent_record(&self, attempt_id: &AttemptId) -> Parent {
        let parent = self.parent();
        Parent {
            execution_id: self.id.clone(),
            visit_id: attempt_id.visit_id.clone(),
            attempt: attempt_id.attempt,
            root: parent.map_or_else(|| self.id.clone(), |above| above.root.clone()),
            depth: parent.map_or(0, |above| above.depth) + 1,
        }
    }

    pub(super) fn decide_orders_delivered(
        &self,
        mut builder: TransitionBuilder<'_>,
        orders: &[ChildOrder],
    ) -> DecideResult<Decision> {
        let pending_orders = orders.iter().filter(|order| self.orders.contains(order));
        let pending_orders: Vec<_> = pending_orders.cloned().collect();
        if !pending_orders.is_empty() {
            for order in pending_orders {
                builder.push_event(Event::ChildTold(order));
            }
            if self.state == State::Running {
                builder.run_to_quiescence()?;
            }
        }
        Ok(builder.into_decision(None))
    }

    /// Pauses a root below which no further execution may be opened. The children that could not begin do so after the
    /// resume.
    pub(super) fn decide_budget_pause(
        &self,
        mut builder: TransitionBuilder<'_>,
        open_max: usize,
    ) -> DecideResult<Decision> {
        // The children of this execution are being ended, which frees capacity without a pause.
        let is_ending_children = self.is_ending_unsuccessfully() && !self.orders.is_empty();
        if self.state.is_final() || is_ending_children || self.pauses.contains(&PauseReason::Budget)
        {
            return Ok(Decision::NoChange);
        }
        builder.add_pause_reason(PauseReason::Budget)?;
        let text = format!("{open_max} executions below it are open, and it began one more");
        builder.push_event(Event::ReasonGiven { text });
        Ok(builder.into_decision(None))
    }

    /// Whether the visit waits for this child. False once the visit is closed.
    pub fn waits_for_child(&self, visit_id: &VisitId, child: &ExecutionId) -> bool {
        let visit = self.find_visit(visit_id);
        let awaiting = visit.and_then(|(.., visit)| visit.awaiting.as_ref());
        matches!(awaiting, Some(WaitCondition::Child { execution_id }) if execution_id == child)
    }

    /// The children that its open visits wait for.
    pub fn awaited_children(&self) -> impl Iterator<Item = ExecutionId> + '_ {
        self.open_visits().filter_map(|(.., visit)| match visit.awaiting.as_ref()? {
            WaitCondition::Child { execution_id } => Some(execution_id.clone()),
            _ => None,
        })
    }

    /// Carries out an order of the parent. Idempotent, because an order may arrive twice.
    pub(super) fn decide_parent_order(
        &self,
        mut builder: TransitionBuilder<'_>,
        order_kind: OrderKind,
    ) -> DecideResult<Decision> {
        let is_paused = self.pauses.contains(&PauseReason::Person);
        let is_applied = match order_kind {
            OrderKind::Pause => is_paused,
            OrderKind::Resume => !is_paused,
            OrderKind::Abandon | OrderKind::Fail => self.is_ending_unsuccessfully(),
        };
        if is_applied || self.state.is_final() {
            return Ok(Decision::NoChange);
        }
        if order_kind == OrderKind::Fail {
            builder.lift_all_pauses()?;
            let message = "the execution that it is a child of failed";
            builder.fail_execution(Failure::new(FailureCode::ParentFailed, message, None))?;
            builder.run_to_quiescence()?;
            return Ok(builder.into_decision(None));
        }
        let change = LifecycleChange {
            action: order_kind.lifecycle_action(),
            reason: Some("its parent did".to_owned()),
        };
        self.decide_lifecycle_change(builder, &change)
    }
}

impl OrderKind {
    const fn lifecycle_action(self) -> LifecycleAction {
        match self {
            Self::Pause => LifecycleAction::Pause,
            Self::Resume => LifecycleAction::Resume,
            Self::Abandon => LifecycleAction::Abandon,
            Self::Fail => LifecycleAction::Fail,
        }
    }
}

impl TransitionBuilder<'_> {
    /// What a visit waits for while this attempt runs: the end of its child, or the server's work.
    pub(super) fn wait_condition_for_attempt(
        &self,
        step: &Step,
        attempt_id: &AttemptId,
    ) -> WaitCondition {
        match step.kind {
            StepKind::Workflow { .. } => WaitCondition::Child {
                execution_id: attempt_id.child_execution_id(&self.execution.id),
            },
            _ => WaitCondition::Operation { owner: self.context.owner },
        }
    }

    /// Adds an order to a child, which is sent once the transition is durable.
    pub(super) fn push_child_order(&mut self, child: ExecutionId, what: OrderKind) {
        let order = ChildOrder { child, what };
        self.effects.push(Effect::SendOrder(order.clone()));
        self.push_event(Event::ChildOrdered(order));
    }

    /// Adds the same order for every child that an open visit waits for.
    pub(super) fn order_all_children(&mut self, what: OrderKind) {
        let children: Vec<_> = self.execution.awaited_children().collect();
        for child in children {
            self.push_child_order(child, what);
        }
    }
}

impl AttemptRequest {
    /// The name of the workflow that the child runs, if the attempt begins a child.
    pub fn workflow(&self) -> Option<&str> {
        match &self.step_kind {
            StepKind::Workflow { .. } if self.step_kind.child_choices().is_some() => {
                self.input.value.get("workflow")?.as_str()
            }
            StepKind::Workflow { name, .. } => Some(name),
            _ => None,
        }
    }

    /// The workflows that may be chosen, if an expression has chosen one that is not among them.
    pub fn disallowed_choice(&self) -> Option<&[String]> {
        let allow = self.step_kind.child_choices()?;
        let is_allowed =
            |allowed: &String| allowed == ANY_WORKFLOW || self.workflow() == Some(allowed.as_str());
        (self.workflow().is_none() || !allow.iter().any(is_allowed)).then_some(allow)
    }
}
