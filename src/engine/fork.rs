//! Forks and retries: new executions that continue from the journal of another one. Their first transition is decided
//! here from the stored rows of the source; the actor of the new execution stores it.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use serde_json::Value;

use super::{
    ActorAnswer, DurableExecution, Engine, ForkRequest,
    message::{
        ActorMessage,
        MessageOrigin::{self, External},
        PreparedFork,
    },
};
use midex_domain::{
    Definition, Digest, ExecutionId, Row, State, StepId,
    document::JsonText,
    error::{
        Code, Error, NextCall, Result, address, call_tool, format_count, read_resource, repeat_call,
    },
    event::Parent,
    execution::{
        AttemptRequest, Execution, ForkArguments, ForkDecision, ForkPlan, ForkPurpose, ForkSource,
        PastSearch, PastValues, RewindRequest, StartArguments, ValueReference, Values,
    },
    limits,
    view::{AdvanceReply, ForkView, RewindView},
};

const RETRY_ROOT_NEXT_CALL: NextCall = call_tool(
    "execution.retry",
    &[("execution_id", "{root}")],
    "its retry continues this child too",
);
const RESUME_RETRY_NEXT_CALL: NextCall = call_tool(
    "execution.resume",
    &[("execution_id", "{open_retry}")],
    "it is the retry, and still open",
);
const READ_RETRY_NEXT_CALL: NextCall = read_resource(
    address!("workflow_status/{completed_retry}"),
    "it has the result; execution.fork with from_step does it once more",
);
const RETRY_AGAIN_NEXT_CALL: NextCall =
    call_tool("execution.retry", &[("execution_id", "{failed_retry}")], "it keeps what it did");
const WAIT_FOR_END_NEXT_CALL: NextCall = call_tool(
    "execution.resume",
    &[("execution_id", "{execution_id}")],
    "it has not failed, so it goes on; execution.rewind takes it back to a step",
);
const NAME_STEP_NEXT_CALL: NextCall = read_resource(
    address!("step_history/{execution_id}"),
    "it shows the result of every step; execution.fork with from_step does one, and all after it, again",
);
const OTHER_ID_NEXT_CALL: NextCall =
    repeat_call("an execution with that id exists already, and was made by another call")
        .with_arguments(&[("new_execution_id", "{execution_id}-2")]);
const PINNED_NEXT_CALL: NextCall =
    repeat_call("it keeps the definition that the execution started with")
        .with_arguments(&[("definition", "pinned")]);

impl Engine {
    /// Forks an execution, and answers with what becomes of each step and with the first open step.
    ///
    /// # Errors
    /// Those of [`Execution::fork`]; `STEP_OUTPUT_INVALID` where stored outputs break the definition;
    /// `STATE_TRANSITION_REFUSED` for a retry of an execution that has not failed; `EXECUTION_ID_TAKEN`.
    pub async fn fork(&self, request: ForkRequest) -> Result<(ForkView, AdvanceReply)> {
        // The source is not deleted meanwhile.
        let _turn = self.shared.removals.read().await;
        let source = self.read_execution(&request.execution_id).await?;
        if request.is_retry {
            check_retry(&source.execution)?;
        }
        let definition = request.definition.clone().unwrap_or_else(|| source.definition.clone());
        let call = request.call_digest(&definition);
        if let Some(answer) = self.find_repeated_fork(&request, call).await? {
            let view = ForkView::new(&answer.durable.execution, None);
            return Ok((view, self.build_advanced_reply(answer).await?));
        }
        let id = match &request.new_execution_id {
            Some(id) => id.clone(),
            None if request.is_retry => self.next_retry_id(&request.execution_id).await?,
            None => self.shared.generate_id(),
        };
        let (plan, answer) =
            self.create_fork(&source, &request, definition, (id, call, None), External).await?;
        let view = ForkView::new(&answer.durable.execution, Some(plan));
        Ok((view, self.build_advanced_reply(answer).await?))
    }

    /// What [`Self::fork`] would do with each step. Changes nothing.
    ///
    /// # Errors
    /// Those of [`Self::fork`], except that outputs which break the definition are part of the plan.
    pub async fn plan_fork(&self, request: &ForkRequest) -> Result<ForkPlan> {
        let source = self.read_execution(&request.execution_id).await?;
        let definition = request.definition.clone().unwrap_or_else(|| source.definition.clone());
        let id = ExecutionId::generate(self.shared.clock.now(), &*self.shared.ids);
        let call = request.call_digest(&definition);
        if request.new_execution_id.is_some() {
            self.find_repeated_fork(request, call).await?;
        }
        let decided = self.decide_fork(&source, request, definition, (id, call, None)).await?;
        Ok(decided.0)
    }

    /// Continues the child that the parent's forked execution began: the new child is a fork of it. Returns false if
    /// there is none, if it is completed, or if it has other inputs: the child then starts from its beginning.
    ///
    /// # Errors
    /// `SERVER_BUSY` while that child has not ended, and those of [`Execution::fork`].
    pub(super) async fn continue_child(
        &self,
        id: &ExecutionId,
        above: &Execution,
        parent: &Parent,
        begin: &AttemptRequest,
    ) -> Result<bool> {
        let Some(child) = above.child_to_continue(&begin.attempt_id) else {
            return Ok(false);
        };
        let _turn = self.shared.removals.read().await;
        let Some(execution) = self.shared.find_durable_execution(child).await? else {
            return Ok(false);
        };
        if !execution.has_ended() {
            // The order of the parent's end is on its way to it.
            let message = format!("child '{child}' has not ended yet");
            return Err(Error::new(Code::ServerBusy, message));
        }
        let source = self.shared.add_definition(execution).await?;
        let execution = &source.execution;
        // A completed child is continued only to ask for its approvals again.
        if execution.state() == State::Completed && !self.holds_approval(&source).await? {
            return Ok(false);
        }
        let mut definition = source.definition.clone();
        if above.origin().is_some_and(|origin| origin.has_new_definition) {
            let lookup = self.load_workflow_lookup(above).await?;
            let name = begin.workflow().unwrap_or_default();
            definition = self.find_workflow(lookup.as_ref(), name).await?;
        }
        let inputs = begin.input.value.get("with").cloned();
        let call = StartArguments::call_digest_of(&definition, inputs.as_ref());
        if execution.call() != call {
            return Ok(false);
        }
        let repeats_unknown = above.origin().is_some_and(|origin| origin.repeats_unknown);
        // The parent has the values of inputs that were purged from the child.
        let given = inputs.as_ref().and_then(Value::as_object).into_iter().flatten();
        let given = given.filter(|(name, _)| execution.purged_inputs().contains(*name));
        let request = ForkRequest {
            inputs: given.map(|(name, value)| (name.clone(), value.clone())).collect(),
            repeats_unknown,
            ..ForkRequest::new(child.clone())
        };
        let parent = Some(Box::new(parent.clone()));
        // If the fork is refused, the attempt fails. A new start of the child would repeat its work.
        self.create_fork(&source, &request, definition, (id.clone(), call, parent), External)
            .await?;
        Ok(true)
    }

    /// The answer of an equal call: one with the same new id, or a retry that is still open.
    async fn find_repeated_fork(
        &self,
        request: &ForkRequest,
        call: Digest,
    ) -> Result<Option<ActorAnswer>> {
        if let Some(id) = &request.new_execution_id {
            let Some(execution) = self.shared.find_durable_execution(id).await? else {
                return Ok(None);
            };
            if execution.call() != call {
                let taken = execution.check_repeated_start(call).map(|_| None);
                return taken.map_err(|error| error.with_next(OTHER_ID_NEXT_CALL));
            }
            return self.first_answer(id).await.map(Some);
        }
        if !request.is_retry {
            return Ok(None);
        }
        // Without a limit: the forks come in the order of their ids, and an open retry may be the last of them.
        for id in self.shared.store.load_forks(&request.execution_id, usize::MAX).await? {
            let fork = self.shared.find_durable_execution(&id).await?;
            let is_retry = |fork: &Arc<Execution>| fork.origin().is_some_and(|it| it.is_retry);
            let Some(fork) = fork.filter(is_retry) else {
                continue;
            };
            if fork.revision() == 1 && fork.call() == call && !fork.state().is_final() {
                return self.first_answer(&id).await.map(Some);
            }
            check_other_retry(request, &fork)?;
        }
        Ok(None)
    }

    /// The answer of the call that created an execution.
    async fn first_answer(&self, id: &ExecutionId) -> Result<ActorAnswer> {
        let row = self.load_row(id, 1).await?.map(Arc::new);
        let durable = self.read_execution(id).await?;
        Ok(ActorAnswer { durable, row, new_values: Values::new(), is_replayed: true })
    }

    /// The id of the next retry: that of the source with `~2`, `~3` and so on.
    async fn next_retry_id(&self, source: &ExecutionId) -> Result<ExecutionId> {
        let (base, number) = match source.as_str().rsplit_once('~') {
            Some((base, number)) => (base, number.parse().ok()),
            None => (source.as_str(), None),
        };
        let base = if number.is_some() { base } else { source.as_str() };
        for number in number.unwrap_or(1_u32) + 1.. {
            let id = ExecutionId::parse(&format!("{base}~{number}"))?;
            if self.shared.find_durable_execution(&id).await?.is_none() {
                return Ok(id);
            }
        }
        Err(Error::internal("every number of a retry is taken"))
    }

    /// Decides a fork, and stores it; where another server owns the new execution, that server does.
    pub(super) async fn create_fork(
        &self,
        source: &DurableExecution,
        request: &ForkRequest,
        definition: Arc<Definition>,
        identity: (ExecutionId, Digest, Option<Box<Parent>>),
        origin: MessageOrigin,
    ) -> Result<(ForkPlan, ActorAnswer)> {
        let id = identity.0.clone();
        let (plan, fork) = self.decide_fork(source, request, definition, identity).await?;
        let fork = Arc::new(fork.ok_or_else(|| invalid_outputs_error(source, &plan))?);
        let message = |reply| ActorMessage::Fork { fork: fork.clone(), reply };
        Ok((plan, self.shared.dispatch(&id, origin, message).await?))
    }

    /// Decides a fork, after looking up the values that the decision needs.
    async fn decide_fork(
        &self,
        source: &DurableExecution,
        request: &ForkRequest,
        definition: Arc<Definition>,
        (id, call, parent): (ExecutionId, Digest, Option<Box<Parent>>),
    ) -> Result<(ForkPlan, Option<PreparedFork>)> {
        // Where another server owns the new execution, only the plan counts.
        let owner = self.shared.store.owner(&id).unwrap_or_default();
        let rows = self.rows_to_fork(&request.execution_id, request.revision).await?;
        let execution = &source.execution;
        let project = execution.project().map(str::to_owned);
        let workflow = &definition.workflow;
        let defaults = self.load_default_sources(workflow, None, project.as_deref()).await?;
        let lookup = self.load_workflow_lookup(execution).await?;
        let (lookup, named) = self.resolve_named_definitions(&definition, lookup).await;
        let env = self.shared.environments.environment_of_project(project.as_deref());
        let continues_children = request.from_step.is_none() && execution.has_ended();
        if let Some(step) = &request.from_step
            && definition.step(step).is_none()
            && source.definition.step(step).is_some()
        {
            return Err(removed_step_error(execution, step));
        }
        let past = request.revision.and_then(|_| Execution::replay(&rows)).map(Arc::new);
        let approved_children = self
            .find_approved_children(past.as_ref().unwrap_or(execution), &source.definition)
            .await?;
        let purpose = match &parent {
            Some(_) => ForkPurpose::ContinueChild,
            None if request.is_retry => ForkPurpose::Retry,
            None => ForkPurpose::Fork,
        };
        let arguments = ForkArguments {
            start: StartArguments {
                id,
                project,
                inputs: None,
                defaults,
                parent: parent.clone(),
                lookup,
                is_paced: execution.is_paced(),
                labels: execution.labels().clone(),
            },
            from_step: request.from_step.clone(),
            inputs: request.inputs.clone(),
            memory: request.memory.clone(),
            purged_inputs: execution.purged_inputs().clone(),
            repeats_unknown: request.repeats_unknown,
            purpose,
            continues_children,
            approved_children,
            call,
        };
        let inline: HashMap<_, _> = rows.iter().flat_map(Row::outputs).collect();
        let mut values = Values::new();
        let inputs = execution.inputs().map(ValueReference::by_digest);
        self.look_up_fork_values(&inline, inputs.into_iter().collect(), &mut values).await?;
        for _ in 0..limits::LOOKUPS_MAX {
            let new = (&arguments.start.id, owner);
            let context = self.shared.build_context(new, &definition, &values, &env);
            let source = ForkSource {
                definition: &source.definition,
                rows: &rows,
                latest: request.revision.is_none().then_some(&**execution),
                current: execution,
            };
            let (now, ids) = (self.shared.clock.now(), &*self.shared.ids);
            match Execution::fork(source, context, &arguments, now, ids)? {
                ForkDecision::Planned(plan, transition) => {
                    let fork = transition.map(|transition| PreparedFork {
                        call,
                        request: request.clone(),
                        parent: parent.clone(),
                        transition: *transition,
                        definition: definition.clone(),
                        named_workflows: named,
                    });
                    return Ok((plan, fork));
                }
                ForkDecision::MissingValues(missing) => {
                    self.look_up_fork_values(&inline, missing, &mut values).await?;
                }
            }
        }
        Err(Error::internal("a fork asks for values without end"))
    }

    /// The completed steps whose child executions, or executions below them, hold an approval.
    async fn find_approved_children(
        &self,
        execution: &Execution,
        definition: &Definition,
    ) -> Result<BTreeSet<StepId>> {
        let mut approved = BTreeSet::new();
        for (visit_id, child) in execution.completed_children(definition) {
            if approved.contains(visit_id.step()) {
                continue;
            }
            // A child that the store does not hold belongs to the execution that did the step, from which it was inherited.
            if let Some(child) = self.shared.find_durable_execution(&child).await?
                && self.holds_approval(&self.shared.add_definition(child).await?).await?
            {
                approved.insert(visit_id.step().clone());
            }
        }
        Ok(approved)
    }

    /// Whether a person approved something in the execution or below it.
    async fn holds_approval(&self, source: &DurableExecution) -> Result<bool> {
        let DurableExecution { execution, definition } = source;
        if execution.holds_approval(definition) {
            return Ok(true);
        }
        let approved = Box::pin(self.find_approved_children(execution, definition)).await?;
        Ok(!approved.is_empty())
    }

    /// Adds values of the source: small ones from `inline`, the values in its rows, the others from the store.
    async fn look_up_fork_values(
        &self,
        inline: &HashMap<Digest, &JsonText>,
        missing: Vec<ValueReference>,
        values: &mut Values,
    ) -> Result<()> {
        for reference in missing {
            let digest = reference.digest;
            let value = match inline.get(&digest) {
                Some(document) => Some(Arc::new(document.value())),
                None => self.shared.contents.value(digest).await?,
            };
            let gone = || Error::internal("a value that the execution names is gone");
            values.insert(digest, value.ok_or_else(gone)?);
        }
        Ok(())
    }

    async fn rows_to_fork(&self, id: &ExecutionId, revision: Option<u64>) -> Result<Vec<Row>> {
        let mut rows = self.load_rows(id).await?;
        let last = rows.last().map_or(0, |row| row.revision);
        let Some(revision) = revision else {
            return Ok(rows);
        };
        if !(1..=last).contains(&revision) {
            return Err(unknown_revision_error(id, last));
        }
        rows.retain(|row| row.revision <= revision);
        Ok(rows)
    }

    /// The definition that a new execution of the same workflow would follow, from the directories that the execution
    /// keeps; `None` if it keeps none. `is_strict`: a file with errors is refused, also where an earlier version of it
    /// is kept.
    ///
    /// # Errors
    /// `WORKFLOW_NOT_FOUND`, `WORKFLOW_VALIDATION_FAILED`.
    pub async fn current_definition(
        &self,
        execution: &Execution,
        is_strict: bool,
    ) -> Result<Option<Arc<Definition>>> {
        let Some(lookup) = self.load_workflow_lookup(execution).await? else {
            return Ok(None);
        };
        let (name, workflows) = (execution.workflow().as_str(), &self.shared.workflows);
        if is_strict {
            workflows.check_file(&lookup, name).await?;
        }
        workflows.find(Some(&lookup), name).await.map(Some)
    }

    /// Rewinds an execution to a step.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND`; `STATE_TRANSITION_REFUSED` for a child, an execution that has ended or is ending, and while
    /// an outcome is unknown; `ARGUMENTS_INVALID` for a step that was not entered.
    pub async fn rewind(&self, id: &ExecutionId, mut request: RewindRequest) -> Result<RewindView> {
        let durable = self.read_execution(id).await?;
        request.past = self.find_past_values(&durable, &request.to_step).await?;
        let answer = self.send_command(id, request.into()).await?;
        let status = self.build_status(&answer.durable).await?;
        Ok(RewindView::new(status, answer.row.as_deref()))
    }

    /// The values that a rewind to this step restores. Reads the rows since the step was entered, and older ones as far as
    /// these values were written earlier.
    async fn find_past_values(
        &self,
        durable: &DurableExecution,
        to_step: &StepId,
    ) -> Result<PastValues> {
        let execution = &durable.execution;
        let visit_id = execution.latest_visit_id(to_step);
        let Some(visit_id) = visit_id.filter(|_| execution.needs_past_to_rewind()) else {
            return Ok(PastValues::default());
        };
        let reset = durable.definition.steps_after(to_step);
        let opened = execution.find_visit(&visit_id).map(|(.., visit)| visit.opened_revision);
        let (mut from, last) = (opened.unwrap_or(1), execution.revision());
        loop {
            let mut rows = self.load_row_range(execution.id(), from..=last).await?;
            rows.reverse();
            let rows: Vec<_> = rows.iter().collect();
            match execution.find_past_values(&durable.definition, &rows, &visit_id, &reset) {
                PastSearch::Found(past) => return Ok(past),
                PastSearch::NeedsOlderRows if from > 1 => {
                    from = last.saturating_sub(4 * (last - from + 1)).max(1);
                }
                _ => return Err(execution.inherited_step_error(to_step)),
            }
        }
    }
}

/// Refuses a retry beside another one that is open, that did the work, or that failed further on. A retry from a named
/// step, or with another definition, is refused only beside an open one.
fn check_other_retry(request: &ForkRequest, other: &Execution) -> Result<()> {
    let is_plain = request.from_step.is_none() && request.definition.is_none();
    let (source, id, state) = (&request.execution_id, other.id(), other.state());
    let (what, name, next) = match state {
        State::Running | State::Paused | State::Idle => {
            ("is being retried", "open_retry", RESUME_RETRY_NEXT_CALL)
        }
        State::Completed if is_plain => ("was retried", "completed_retry", READ_RETRY_NEXT_CALL),
        State::Failed if is_plain => ("was retried", "failed_retry", RETRY_AGAIN_NEXT_CALL),
        _ => return Ok(()),
    };
    let message = format!("execution '{source}' {what} already: '{id}' is {state}");
    Err(Error::new(Code::StateTransitionRefused, message)
        .with_context("execution_id", source.as_str())
        .with_context(name, id.as_str())
        .with_next(next))
}

/// Refuses a retry of an execution that has not failed, and of a child.
fn check_retry(execution: &Execution) -> Result<()> {
    let (id, state) = (execution.id(), execution.state());
    match state {
        state if state.can_be_retried() => {}
        _ if execution.is_imported() => return Err(execution.imported_error()),
        State::Completed => {
            let message = format!("execution '{id}' is completed: there is nothing to retry");
            return Err(execution.state_refusal(message, NAME_STEP_NEXT_CALL));
        }
        _ => {
            let message = format!("execution '{id}' is {state}: there is nothing to retry yet");
            return Err(execution.state_refusal(message, WAIT_FOR_END_NEXT_CALL));
        }
    }
    let Some(parent) = execution.parent() else {
        return Ok(());
    };
    let message = format!("execution '{id}' is a child of '{}': retry that one", parent.root);
    let error = execution.state_refusal(message, RETRY_ROOT_NEXT_CALL);
    Err(error.with_context("root", parent.root.as_str()))
}

fn removed_step_error(execution: &Execution, step: &StepId) -> Error {
    let message = format!("the current definition has no step '{step}' to begin at");
    execution.with_execution_context(Error::argument_rule("/from_step", "enum", &message))
}

fn invalid_outputs_error(source: &DurableExecution, plan: &ForkPlan) -> Error {
    let violations = plan.violations();
    let message = format!(
        "outputs that execution '{}' stored break the current definition in {}; nothing was started",
        source.execution.id(),
        format_count(violations.len(), "place"),
    );
    let error = Error::new(Code::StepOutputInvalid, message)
        .with_violations(violations)
        .with_context("definition", "current");
    source.execution.with_execution_context(error.with_next(PINNED_NEXT_CALL))
}

/// The refusal of a revision that the execution does not have.
pub(super) fn unknown_revision_error(id: &ExecutionId, last: u64) -> Error {
    let message = format!("execution '{id}' has the revisions 1 to {last}");
    Error::argument_rule("/revision", "range", &message).with_context("execution_id", id.as_str())
}
