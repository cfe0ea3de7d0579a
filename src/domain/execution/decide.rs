//! Deciding: the transition that a command would cause. Deciding changes nothing: the actor makes the transition
//! durable first, and then replaces its state by `next`.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{
    Command, Decision, DecisionContext, Event, Execution, Failure, Row, StartArguments, Transition,
    VisitId,
    decision::Interrupt,
    transition::{TransitionBuilder, make_payload, move_to_contents},
};
use crate::{
    clock::{IdSource, Timestamp},
    definition::Definition,
    document::{Digest, canonical_digest},
    error::{Code, Error, NextCall, Result, Violation, format_count},
    event::ExecutionCreated,
    id::StepId,
    limits,
    schema::budget_exceeded_error,
    token::TokenGrant,
};

impl StartArguments {
    /// The digest by which a repeated start is recognised: of the arguments as they were given, without the id.
    /// Defaults are left out, because they may differ when the start is repeated.
    pub fn call_digest(&self, definition: &Definition) -> Digest {
        if self.labels.is_empty() {
            return Self::call_digest_of(definition, self.inputs.as_ref());
        }
        canonical_digest(&json!([definition.workflow.name, self.inputs, self.labels]))
    }

    /// The digest of a start of this definition with these inputs.
    pub fn call_digest_of(definition: &Definition, inputs: Option<&Value>) -> Digest {
        canonical_digest(&json!([definition.workflow.name, inputs]))
    }

    /// The inputs of the execution: those that the workflow declares, with their defaults; if it declares none, the
    /// given value.
    ///
    /// # Errors
    /// `INPUTS_INVALID` with every violation.
    pub(super) fn resolve_start_inputs(&self, definition: &Definition) -> Result<Option<Value>> {
        let Some(declared) = &definition.workflow.inputs else {
            return Ok(self.inputs.clone());
        };
        let no_inputs = Map::new();
        let resolved = match &self.inputs {
            None | Some(Value::Null) => declared.resolve(&no_inputs, &self.defaults),
            Some(inputs @ Value::Object(map)) => {
                // The size is checked before the rules are evaluated.
                make_payload(inputs, limits::INPUTS_BYTES_MAX, "inputs")?;
                declared.resolve(map, &self.defaults)
            }
            Some(_) => Err(vec![not_an_object_violation("inputs", "the inputs")]),
        };
        resolved
            .map(|inputs| Some(Value::Object(inputs)))
            .map_err(|violations| invalid_inputs_error(definition, violations))
    }
}

/// The violation that the value at `path` is not an object.
pub(super) fn not_an_object_violation(path: &str, what: &str) -> Violation {
    Violation::new(path, "type", format!("{what} must be an object")).with_expected("an object")
}

fn invalid_inputs_error(definition: &Definition, violations: Vec<Violation>) -> Error {
    let name = &definition.workflow.name;
    let what = format!("the inputs of workflow '{name}'");
    let message = format!(
        "the inputs of workflow '{name}' break its rules in {}; nothing was started",
        format_count(violations.len(), "place")
    );
    budget_exceeded_error(&what, &violations)
        .unwrap_or_else(|| Error::new(Code::InputsInvalid, message))
        .with_context("workflow", name.as_str())
        .with_violations(violations)
}

/// Checks the number of events in a row. Loops over items and steps stop at a part of the limit, so this is a safety
/// net.
pub(super) fn check_event_count(transition: &Transition) -> Result<()> {
    let (events, max_events) = (transition.row.events.len(), limits::EVENTS_PER_ROW_MAX);
    if events <= max_events {
        return Ok(());
    }
    let limit = format!("a transition may have {max_events} events");
    let message = format!("{limit}, this one has {events}");
    Err(Error::limit_exceeded(limit).with_message(message))
}

/// A failure outside of any step fails the call as an internal error.
pub(super) fn failure_to_internal_error(failure: &Failure) -> Error {
    Error::internal(format!("{}: {}", failure.code, failure.message))
}

impl<'a> TransitionBuilder<'a> {
    /// The builder of the first transition, with a new execution to which nothing but its creation has happened.
    pub(super) fn for_new_execution(
        context: DecisionContext<'a>,
        start: StartArguments,
        call: Digest,
        inputs: Option<Value>,
        (now, ids): (Timestamp, &'a dyn IdSource),
    ) -> Result<Self> {
        let mut contents = Vec::new();
        let inputs_payload = inputs.as_ref().map(|inputs| {
            let payload = make_payload(inputs, limits::INPUTS_BYTES_MAX, "inputs")?;
            Ok::<_, Error>(move_to_contents(payload, &mut contents))
        });
        let inputs_payload = inputs_payload.transpose()?;
        // A path that is not Unicode cannot be serialised: the execution then uses the server's definitions.
        let lookup = start.lookup.and_then(|lookup| serde_json::to_vec(&lookup).ok());
        let lookup = lookup.map(|bytes| {
            let digest = Digest::compute(&bytes);
            contents.push((digest, bytes.into()));
            digest
        });
        let workflow = &context.definition.workflow;
        let created = Event::Created(Box::new(ExecutionCreated {
            workflow: workflow.name.clone(),
            definition: context.definition.digest(),
            complexity: workflow.complexity,
            project: start.project,
            inputs: inputs_payload.clone(),
            call,
            steps: workflow.steps.iter().map(|step| step.id.clone()).collect(),
            parent: start.parent.map(|parent| *parent),
            lookup,
        }));
        let row = Row { execution_id: start.id, revision: 1, at: now, events: vec![created] };
        let Some(execution) = Execution::apply_row(None, &row) else {
            return Err(Error::internal("an execution cannot be made of its first event"));
        };
        let mut builder = Self::new(execution, row, context, ids);
        builder.contents = contents;
        if let Some((kept, inputs)) = inputs_payload.zip(inputs) {
            builder.remember_value(&kept, inputs);
        }
        if start.is_paced {
            builder.push_event(Event::PaceSet);
        }
        let mut labels = workflow.labels.clone();
        labels.extend(start.labels);
        if !labels.is_empty() {
            builder.push_event(Event::Labeled { labels });
        }
        Ok(builder)
    }
}

impl Execution {
    /// The first transition of a new execution: it is created and started, and every ready step is entered.
    ///
    /// # Errors
    /// `INPUTS_INVALID`, `LIMIT_EXCEEDED`.
    pub fn start(
        context: DecisionContext<'_>,
        start: StartArguments,
        now: Timestamp,
        ids: &dyn IdSource,
    ) -> Result<Transition> {
        let inputs = start.resolve_start_inputs(context.definition)?;
        let call = start.call_digest(context.definition);
        let mut builder =
            TransitionBuilder::for_new_execution(context, start, call, inputs, (now, ids))?;
        match builder.begin_execution() {
            Ok(()) => {
                let transition = builder.into_transition(None);
                check_event_count(&transition)?;
                Ok(transition)
            }
            Err(Interrupt::Refused(error)) => Err(error),
            Err(Interrupt::Failed(failure)) => Err(failure_to_internal_error(&failure)),
            // All values that a start may need are created in its own transition.
            Err(Interrupt::MissingValues(_)) => {
                Err(Error::internal("a start asks for what there is not yet"))
            }
        }
    }

    /// The revision to reply with if `call` is the digest of the call that created this execution.
    ///
    /// # Errors
    /// `EXECUTION_ID_TAKEN` where the arguments differ or something has happened since.
    pub fn check_repeated_start(&self, call: Digest) -> Result<u64> {
        let is_same_call = self.call == call;
        if is_same_call && self.revision == 1 {
            return Ok(1);
        }
        let why =
            if is_same_call { "and has moved on since its start" } else { "with other arguments" };
        let message = format!("Execution ID '{}' already exists {why}", self.id);
        Err(self.with_execution_context(Error::new(Code::ExecutionIdTaken, message)))
    }

    /// Decides `command` at `now`, without changing anything.
    ///
    /// # Errors
    /// Every refusal has its own code. A call that is refused with an error changes nothing. A malformed output is
    /// counted, so it is refused by a transition with [`Transition::refusal`].
    pub fn decide(
        &self,
        context: DecisionContext<'_>,
        command: &Command,
        now: Timestamp,
        ids: &dyn IdSource,
    ) -> Result<Decision> {
        if self.ignores_command(command)? {
            return Ok(Decision::NoChange);
        }
        let now = self.compute_transition_time(now);
        let builder = TransitionBuilder::from_execution(self, now, context, ids);
        let decision = match command {
            Command::Rewind(request) => self.decide_rewind(builder, request),
            Command::Advance { token, submission } => {
                self.decide_advance(builder, token, submission)
            }
            Command::RenewTokens => Ok(self.decide_token_renewal(builder)),
            Command::ChangeState(change) => self.decide_lifecycle_change(builder, change),
            Command::LiftPace { revision } => self.decide_pace_lift(builder, *revision),
            Command::Tick => self.decide_tick(builder),
            Command::RecordOutcome { attempt_id, outcome, notes } => {
                self.decide_outcome(builder, attempt_id, outcome, notes)
            }
            Command::PostponeAttempt { attempt_id } => {
                Ok(self.decide_postponed_attempt(builder, attempt_id))
            }
            Command::RecoverAttempts { live_attempts: alive } => {
                self.decide_recovery(builder, alive)
            }
            Command::ReceiveSignal(signal) => self.decide_signal(builder, signal),
            Command::AnswerGate(answer) => self.decide_gate_answer(builder, answer),
            Command::ResolveAttempt(resolution) => self.decide_resolution(builder, resolution),
            Command::ApplyParentOrder(order_kind) => self.decide_parent_order(builder, *order_kind),
            Command::MarkOrdersDelivered(orders) => self.decide_orders_delivered(builder, orders),
            Command::PauseForBudget { open_max } => self.decide_budget_pause(builder, *open_max),
        };
        match decision {
            Ok(Decision::Transition(transition)) => {
                check_event_count(&transition)
                    .map_err(|error| self.with_execution_context(error))?;
                Ok(Decision::Transition(transition))
            }
            Ok(decision) => Ok(decision),
            Err(Interrupt::Refused(error)) => Err(error),
            Err(Interrupt::Failed(failure)) => {
                Err(self.with_execution_context(failure_to_internal_error(&failure)))
            }
            Err(Interrupt::MissingValues(needs)) => Ok(Decision::MissingValues(needs)),
        }
    }

    /// The time of a transition at `now`. The machine's clock may step back, but the time of an execution does not,
    /// unless its last transition is more than [`limits::CLOCK_JUMP_MAX`] ahead of `now`.
    pub(super) fn compute_transition_time(&self, now: Timestamp) -> Timestamp {
        if self.updated_at.since(now) > limits::CLOCK_JUMP_MAX {
            return now;
        }
        now.max(self.updated_at)
    }

    fn decide_token_renewal(&self, mut builder: TransitionBuilder<'_>) -> Decision {
        let (now, ttl) = (builder.row.at, builder.context.token_ttl);
        for visit_id in self.visits_with_expired_token(ttl, now) {
            let grant = TokenGrant::issue(now, builder.ids);
            builder.push_event(Event::TokenRenewed { visit_id, grant });
        }
        builder.into_decision(None)
    }

    /// The open visits whose token has outlived `token_ttl` at `now`.
    fn visits_with_expired_token(
        &self,
        token_ttl: Duration,
        now: Timestamp,
    ) -> impl Iterator<Item = VisitId> {
        self.open_visits().filter_map(move |(_, step, visit)| {
            let age = now.since(visit.live_token()?.issued_at);
            (age >= token_ttl).then(|| visit.visit_id(&step.id))
        })
    }

    /// Whether an open token has outlived `token_ttl` at `now`.
    pub fn has_expired_token(&self, token_ttl: Duration, now: Timestamp) -> bool {
        let now = self.compute_transition_time(now);
        !self.has_ended() && self.visits_with_expired_token(token_ttl, now).next().is_some()
    }

    /// A refusal with the context of this execution and of `step`.
    pub(super) fn step_error(
        &self,
        code: Code,
        step: &StepId,
        message: impl Into<String>,
    ) -> Error {
        self.with_execution_context(
            Error::new(code, message).with_context("step_id", step.as_str()),
        )
    }

    /// The refusal of a call that this execution does not allow in its present state.
    pub fn state_refusal(&self, message: impl Into<String>, next: NextCall) -> Error {
        let error = Error::new(Code::StateTransitionRefused, message).with_next(next);
        self.with_execution_context(error)
    }

    /// Adds the id, the state and the pause reasons of this execution to an error.
    pub fn with_execution_context(&self, error: Error) -> Error {
        let error = error
            .with_context("execution_id", self.id.as_str())
            .with_context("workflow_state", self.state.as_str());
        if self.pauses.is_empty() {
            return error;
        }
        let reasons: Vec<_> = self.pauses.iter().map(|reason| reason.as_str()).collect();
        error.with_context("pause_reasons", reasons)
    }
}
