//! Forks: a new execution that shares the past of another one. Completed steps are kept, with their outputs by digest;
//! the steps to do again are pending. Approvals, tokens and open work are never carried over.

mod base;
mod plan;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value};

pub use self::plan::{ForkPlan, PlannedStep, StepFate};
use self::{base::ForkBase, plan::plan_steps};
use super::{
    AttemptId, BodyKind, DecisionContext, Event, Execution, Outcome, Payload, Row, SkipReason,
    StartArguments, State, StepState, StepStatus, Transition, ValueReference, Visit, VisitId,
    decide::{check_event_count, failure_to_internal_error},
    decision::{DecideResult, Interrupt},
    purge::CommandArguments,
    transition::TransitionBuilder,
};
use crate::{
    clock::{IdSource, Timestamp},
    definition::{Definition, JumpTarget, Step},
    document::{Digest, JsonText},
    error::{Code, Error, NextCall, Result, Violation, call_tool},
    event::{ForkOrigin, Forked, InheritedCompensation, InheritedStep},
    id::{ExecutionId, StepId},
};

/// The execution to fork.
#[derive(Clone, Copy, Debug)]
pub struct ForkSource<'a> {
    /// Its definition.
    pub definition: &'a Definition,
    /// Its journal rows up to the revision to fork, oldest first.
    pub rows: &'a [Row],
    /// Its state after these rows, if the caller has it. Saves replaying them.
    pub latest: Option<&'a Execution>,
    /// Its present state. Steps whose effects were undone after the forked revision are done again.
    pub current: &'a Execution,
}

/// What a fork is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkPurpose {
    /// To do steps again, or with other values.
    Fork,
    /// To continue an execution that failed or was abandoned.
    Retry,
    /// To continue a child whose parent was forked. A completed child asks for its approvals again.
    ContinueChild,
}

/// The arguments of a fork.
#[derive(Clone, Debug)]
pub struct ForkArguments {
    /// The arguments of the new execution's start, without inputs.
    pub start: StartArguments,
    /// The step to do again, with everything that follows it. `None`: the step that failed, and those that were open.
    pub from_step: Option<StepId>,
    /// Inputs that replace those of the source with the same names.
    pub inputs: Map<String, Value>,
    /// Values that replace those in the memory of the source with the same names.
    pub memory: Map<String, Value>,
    /// The inputs of the source whose values were removed after its end.
    pub purged_inputs: BTreeSet<String>,
    /// Whether work is done again although its outcome is unknown and it may not be repeated.
    pub repeats_unknown: bool,
    /// Why the execution is forked.
    pub purpose: ForkPurpose,
    /// Whether child executions of steps that are done again continue where they failed.
    pub continues_children: bool,
    /// The steps of the source whose child executions hold an approval, which must be asked for again.
    pub approved_children: BTreeSet<StepId>,
    /// The digest of the call, by which a repeated call is recognised.
    pub call: Digest,
}

/// The result of [`Execution::fork`].
#[derive(Debug)]
pub enum ForkDecision {
    /// What the new execution does with each step, and its first transition. There is no transition if stored outputs
    /// break the schemas of the definition; the plan has the violations.
    Planned(ForkPlan, Option<Box<Transition>>),
    /// Look up these values in the source, add them to the context, and decide again.
    MissingValues(Vec<ValueReference>),
}

impl Execution {
    /// Decides a fork of `source`: what becomes of each step, and the first transition of the new execution, which
    /// follows the definition of `context`.
    ///
    /// # Errors
    /// `ARGUMENTS_INVALID` for a step that cannot be done again, `STATE_TRANSITION_REFUSED` for work whose outcome is
    /// unknown or a source that has nothing left to do, `INPUTS_INVALID`, `LIMIT_EXCEEDED`.
    pub fn fork(
        source: ForkSource<'_>,
        context: DecisionContext<'_>,
        arguments: &ForkArguments,
        now: Timestamp,
        ids: &dyn IdSource,
    ) -> Result<ForkDecision> {
        match decide_fork(source, context, arguments, (now, ids)) {
            Ok(decision) => Ok(decision),
            Err(Interrupt::MissingValues(values)) => Ok(ForkDecision::MissingValues(values)),
            Err(Interrupt::Refused(error)) => Err(error),
            Err(Interrupt::Failed(failure)) => Err(failure_to_internal_error(&failure)),
        }
    }

    /// The children of the latest visits of completed steps and of their items: those of the last attempts.
    pub fn completed_children(&self, definition: &Definition) -> BTreeMap<VisitId, ExecutionId> {
        let is_current = |visit_id: &VisitId| {
            let state = self.find_step(visit_id.step()).map(|(_, state)| state);
            let state = state.filter(|state| state.status == StepStatus::Completed);
            let latest = state.and_then(StepState::latest_visit);
            visit_id.body == BodyKind::Work
                && latest.is_some_and(|latest| latest.number == visit_id.visit)
        };
        // The attempts of a visit come in their order, so the last one remains.
        let children = self.children(definition).map(|(child, visit_id)| (visit_id, child));
        children.filter(|(visit_id, _)| is_current(visit_id)).collect()
    }

    /// Whether a person approved something in this execution. Its children are not looked at.
    pub fn holds_approval(&self, definition: &Definition) -> bool {
        self.steps.iter().any(|state| {
            let step = definition.step(&state.id);
            state.status == StepStatus::Completed && step.is_some_and(Step::asks_for_approval)
        })
    }

    /// The child of the forked execution that the child of this attempt continues.
    pub fn child_to_continue(&self, attempt_id: &AttemptId) -> Option<&ExecutionId> {
        let AttemptId { visit_id, attempt } = attempt_id;
        let is_first = (visit_id.body, visit_id.visit, visit_id.item, *attempt)
            == (BodyKind::Work, 1, None, 1);
        let children = self.origin.iter().filter(|_| is_first).flat_map(|origin| &origin.children);
        let mut children = children.filter(|inherited| inherited.step == *visit_id.step());
        children.next().map(|inherited| &inherited.child)
    }
}

fn decide_fork(
    source: ForkSource<'_>,
    context: DecisionContext<'_>,
    arguments: &ForkArguments,
    clock: (Timestamp, &dyn IdSource),
) -> DecideResult<ForkDecision> {
    let base = ForkBase::new(source, context, arguments)?;
    let payloads = Payloads::of_rows(source.rows);
    let plan = plan_steps(source, context, arguments, (&base, &payloads))?;
    if plan.has_invalid_outputs() {
        return Ok(ForkDecision::Planned(plan, None));
    }
    let inputs = merge_inputs(source, context, arguments, &base)?;
    let (start, call) = (arguments.start.clone(), arguments.call);
    let mut builder = TransitionBuilder::for_new_execution(context, start, call, inputs, clock)?;
    builder.inherit(source, arguments, (&base, &payloads), &plan);
    for (name, value) in &arguments.memory {
        builder.write_memory(name, value.clone())?;
    }
    builder.become_running()?;
    // The hooks of these steps are not run again, so what follows the steps comes now.
    for step in base.steps_with_open_hook().filter(|step| plan.keeps(&step.id)) {
        let found = builder.execution.find_step(&step.id);
        if let Some((position, _)) = found.filter(|_| !builder.execution.state.is_final()) {
            builder.schedule_after_step(position, None)?;
        }
    }
    let ready: Vec<_> = builder.find_decidable_steps().collect();
    builder.queue.extend(ready);
    builder.run_to_quiescence()?;
    let transition = builder.into_transition(None);
    check_event_count(&transition)?;
    Ok(ForkDecision::Planned(plan, Some(Box::new(transition))))
}

/// The inputs of the source, with those that the caller replaces. They are checked again if they or the definition
/// changed.
fn merge_inputs(
    source: ForkSource<'_>,
    context: DecisionContext<'_>,
    arguments: &ForkArguments,
    base: &ForkBase,
) -> DecideResult<Option<Value>> {
    let mut inputs = match base.inputs {
        Some(digest) => {
            let value = ValueReference::by_digest(digest);
            let found = context.values.get(&digest);
            let found = found.ok_or_else(|| Interrupt::MissingValues(vec![value]))?;
            Some(Value::clone(found))
        }
        None => None,
    };
    check_purged_inputs(source, context, arguments, base)?;
    for (name, value) in &arguments.inputs {
        inputs.get_or_insert_with(|| Map::new().into())[name] = value.clone();
    }
    let is_same = source.definition.digest() == context.definition.digest();
    if is_same && arguments.inputs.is_empty() && arguments.purged_inputs.is_empty() {
        return Ok(inputs);
    }
    let start = StartArguments { inputs, ..arguments.start.clone() };
    Ok(start.resolve_start_inputs(context.definition)?)
}

const GIVE_INPUT_CALL: NextCall = call_tool(
    "execution.fork",
    &[("execution_id", "{execution_id}")],
    "with `{input}` in `inputs`, which goes on where it stopped; ask your user for the value",
);

/// Refuses a fork without a value for an input that was purged and is required. A workflow that declares no inputs requires
/// all that it was given.
fn check_purged_inputs(
    source: ForkSource<'_>,
    context: DecisionContext<'_>,
    arguments: &ForkArguments,
    base: &ForkBase,
) -> DecideResult<()> {
    let declared = context.definition.workflow.inputs.as_ref();
    let call = CommandArguments::of_definition(source.definition);
    let is_required = |name: &&str| {
        declared.is_none_or(|inputs| {
            inputs.iter().any(|input| input.key.as_str() == *name && input.is_required())
        })
    };
    let purged = arguments.purged_inputs.iter();
    let mut inputs =
        purged.map(|name| call.as_ref().map_or(name.as_str(), |call| call.input(name)));
    let missing = inputs.find(|name| is_required(name) && !arguments.inputs.contains_key(*name));
    let Some(input) = missing else {
        return Ok(());
    };
    let message = format!(
        "the value of the input `{input}` of execution '{}' was purged, and must be given anew",
        base.latest.id
    );
    let path = format!("inputs.{input}");
    let error = Error::new(Code::InputsInvalid, &*message)
        .with_violations(vec![Violation::new(path, "required", message)])
        .with_context("execution_id", base.latest.id.as_str())
        .with_context("input", input)
        .with_next(GIVE_INPUT_CALL);
    Err(error.into())
}

impl TransitionBuilder<'_> {
    /// Records what the new execution takes over from the source.
    fn inherit(
        &mut self,
        source: ForkSource<'_>,
        arguments: &ForkArguments,
        (base, payloads): (&ForkBase, &Payloads<'_>),
        plan: &ForkPlan,
    ) {
        let kept: HashSet<_> = plan.kept_steps().collect();
        let is_inherited = |visit_id: &VisitId| kept.contains(visit_id.step());
        let approved: BTreeSet<_> =
            plan.gates().filter(|step| arguments.approved_children.contains(step)).collect();
        let children = base.children(source.definition, |step| {
            approved.contains(step)
                || arguments.continues_children && base.reopened.contains_key(step)
        });
        // A source that is open, or completed, undoes its effects itself or stands on them.
        let is_given_up = base.latest.state.is_final() && base.latest.state != State::Completed;
        let compensations = base.execution.compensations.iter().filter(|_| is_given_up);
        self.push_event(Event::Forked(Box::new(Forked {
            origin: ForkOrigin {
                execution_id: base.execution.id.clone(),
                revision: base.latest.revision,
                gates: plan.gates().collect(),
                children,
                has_new_definition: source.definition.digest() != self.context.definition.digest(),
                is_retry: arguments.purpose == ForkPurpose::Retry,
                repeats_unknown: arguments.repeats_unknown,
            },
            compensations: compensations
                .filter(|one| is_inherited(&one.visit_id) && !base.is_compensated(&one.visit_id))
                .map(|one| InheritedCompensation {
                    visit_id: one.visit_id.clone(),
                    output: one.output.map(|output| output.digest),
                    list: one.list,
                })
                .collect(),
        })));
        for output in base.execution.compensations.iter().filter_map(|one| one.output) {
            self.store_inline(payloads, output.digest);
        }
        self.row.events.reserve(kept.len());
        for step in base.execution.steps.iter().filter(|step| kept.contains(&step.id)) {
            let visit = step.latest_visit().filter(|_| step.status != StepStatus::Skipped);
            if let Some(visit) = visit {
                self.inherit_visit(payloads, step, visit);
                self.inherit_notes(&base.execution, visit.visit_id(&step.id));
            } else {
                let (step, why) = (step.id.clone(), payloads.skip_reason(&step.id));
                self.push_event(Event::StepSkipped { step, why });
            }
        }
        let artifacts = source.rows.iter().flat_map(|row| &row.events);
        for event in artifacts {
            if let Event::ArtifactStored { visit_id, .. } | Event::ArtifactNamed { visit_id, .. } =
                event
                && is_inherited(visit_id)
            {
                self.push_event(event.clone());
            }
        }
        for (name, digest) in &base.memory {
            if !arguments.memory.contains_key(name) {
                let (name, value) = (name.clone(), payloads.stored(*digest));
                self.push_event(Event::MemoryWritten { name, value });
            }
        }
    }

    /// Stores a value by digest that is small and so lies in a row of the source.
    fn store_inline(&mut self, payloads: &Payloads<'_>, digest: Digest) {
        let content = payloads.inline(digest).map(|document| (digest, document.as_bytes().into()));
        self.contents.extend(content);
    }

    /// Takes over the title of a visit and the counts of its items.
    fn inherit_notes(&mut self, source: &Execution, visit_id: VisitId) {
        let Some(notes) = source.notes.get(&visit_id) else {
            return;
        };
        if let Some(title) = notes.title.clone() {
            self.push_event(Event::VisitTitled { visit_id: visit_id.clone(), title });
        }
        if let Some(counts) = notes.items {
            self.push_event(Event::ItemsCounted { visit_id, counts });
        }
    }

    fn inherit_visit(&mut self, payloads: &Payloads<'_>, step: &StepState, visit: &Visit) {
        let Some(closed) = &visit.closed else {
            return;
        };
        let outcome = match (&closed.failure, closed.output) {
            (None, Some(digest)) => {
                self.store_inline(payloads, digest);
                Outcome::Completed(payloads.stored(digest))
            }
            (Some(failure), _) => Outcome::Failed(failure.clone()),
            (None, None) => Outcome::Voided,
        };
        let visit_id = visit.visit_id(&step.id);
        self.push_event(Event::StepInherited(Box::new(InheritedStep {
            agent: self.find_agent(&visit_id),
            visit_id,
            attempt: visit.attempt,
            opened_at: visit.opened_at,
            closed_at: closed.at,
            outcome,
        })));
    }

    /// Whether the step at `position` is an approval of the forked execution, or its child holds one, which is asked for
    /// again.
    pub(super) fn is_inherited_gate(&self, position: usize) -> bool {
        let origin = self.execution.origin.as_ref();
        origin.is_some_and(|origin| origin.gates.contains(&self.step(position).id))
    }

    /// Whether the step at `position` waits for an approval that is asked for again.
    pub(super) fn waits_for_approval(&self, position: usize) -> bool {
        let graph = self.context.definition.graph();
        let gates = self.execution.origin.iter().flat_map(|origin| &origin.gates);
        let mut open = gates
            .filter_map(|gate| graph.step_position(gate))
            .filter(|gate| *gate != position && self.is_open(*gate));
        open.any(|gate| graph.descendants(gate).contains(&position))
    }

    /// True if the inherited approval at `gate` was given again and its jump would lead to a step that is not pending, or
    /// to the end of the workflow.
    pub(super) fn is_approved_again(&self, gate: usize, jump: &JumpTarget) -> bool {
        let is_pending = |at: usize| self.execution.steps[at].status == StepStatus::Pending;
        self.is_inherited_gate(gate)
            && self.execution.steps[gate].status == StepStatus::Completed
            && !self.jump_target_position(jump).is_some_and(is_pending)
    }

    /// Queues the steps that waited for an approval: steps between it and them may be done already.
    pub(super) fn queue_steps_after_approval(&mut self, gate: usize) {
        self.queue.extend(self.context.definition.graph().descendants(gate));
    }
}

/// The values in the journal of the source, by digest, and why steps were skipped.
struct Payloads<'a> {
    values: HashMap<Digest, &'a Payload>,
    skipped: HashMap<&'a StepId, SkipReason>,
}

impl<'a> Payloads<'a> {
    fn of_rows(rows: &'a [Row]) -> Self {
        let (mut values, mut skipped) = (HashMap::new(), HashMap::new());
        for event in rows.iter().flat_map(|row| &row.events) {
            let payload = match event {
                Event::MemoryWritten { value, .. } => Some(value),
                Event::StepSkipped { step, why } => {
                    skipped.insert(step, *why);
                    None
                }
                event => event.output().map(|(_, payload)| payload),
            };
            if let Some(payload) = payload {
                // The same value may be inline in one row and stored by digest in another.
                let known = values.entry(payload.digest).or_insert(payload);
                if known.inline.is_none() {
                    *known = payload;
                }
            }
        }
        Self { values, skipped }
    }

    fn inline(&self, digest: Digest) -> Option<&'a str> {
        self.values.get(&digest)?.inline.as_ref().map(JsonText::as_str)
    }

    /// The payload of a value that the new execution finds by its digest alone.
    fn stored(&self, digest: Digest) -> Payload {
        let bytes = self.values.get(&digest).map_or(0, |payload| payload.bytes);
        Payload { digest, bytes, inline: None }
    }

    fn skip_reason(&self, step: &StepId) -> SkipReason {
        self.skipped.get(step).copied().unwrap_or(SkipReason::Bypassed)
    }
}
