//! Child executions. The attempt of a step starts a child and waits until it has ended. The parent's orders are
//! delivered to its children.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use serde::Deserialize;
use serde_json::Value;
use tokio::task::JoinSet;

use super::{
    DurableExecution, Engine, Shared, StartRequest, Topic,
    descendants::{Announcement, is_over_budget},
    message::MessageOrigin,
    report::report_until_accepted,
};
use midex_domain::{
    Command, Definition, Execution, ExecutionId, FailureCode, State, WorkflowLookup,
    error::{Code, Error, Result},
    event::{ChildOrder, Parent},
    execution::{AttemptRequest, EffectOutput, OperationFailure},
    limits,
    operation::BoxFuture,
    span::compute_backoff,
    view,
};

/// Finds the definitions that child executions follow.
pub trait Workflows: fmt::Debug + Send + Sync {
    /// The definition that an execution of this workflow would follow now, for an execution that looks it up with
    /// `lookup`; among the workflows of this process if `None`.
    ///
    /// # Errors
    /// `WORKFLOW_NOT_FOUND`, `WORKFLOW_VALIDATION_FAILED`.
    fn find<'a>(
        &'a self,
        lookup: Option<&'a WorkflowLookup>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Arc<Definition>>>;

    /// Checks that the present file of a workflow has no errors, whether or not an earlier version of it is kept.
    ///
    /// # Errors
    /// `WORKFLOW_VALIDATION_FAILED`.
    fn check_file<'a>(
        &'a self,
        _lookup: &'a WorkflowLookup,
        _name: &'a str,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

/// No workflows.
#[derive(Clone, Copy, Debug)]
pub struct NoWorkflows;

impl Workflows for NoWorkflows {
    fn find<'a>(
        &'a self,
        _: Option<&'a WorkflowLookup>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Arc<Definition>>> {
        let message = format!("this server knows no workflow '{name}'");
        Box::pin(async move { Err(Error::new(Code::WorkflowNotFound, message)) })
    }
}

/// The result of an attempt's wait for a child.
pub(super) enum ChildWaitResult {
    /// The child ended, or could not begin.
    Ended(AttemptOutcome),
    /// The child may not begin before the root of its family is resumed.
    HeldBack {
        /// The root.
        root: ExecutionId,
    },
    /// The server is stopping, or an execution above no longer waits for the child.
    Abandoned,
}

/// Starts the child of an attempt, unless it exists, and waits until it has ended.
pub(super) async fn wait_for_child(
    shared: &Arc<Shared>,
    parent: &ExecutionId,
    begin: AttemptRequest,
    mut announcement: Announcement,
) -> ChildWaitResult {
    let engine = Engine::from_shared(shared.clone());
    let mut failures = 0;
    loop {
        let result = tokio::select! {
            biased;
            () = shared.stopping.cancelled() => return ChildWaitResult::Abandoned,
            result = engine.run_child(parent, &begin, &mut announcement) => result,
        };
        match result {
            Ok(result) => return result,
            Err(error) if error.code() == Code::ServerStopping => {
                return ChildWaitResult::Abandoned;
            }
            Err(error) => {
                tracing::warn!(execution = %parent, code = error.code().as_str(), "a child cannot be waited for now; it is tried again");
                failures += 1;
                tokio::time::sleep(compute_retry_delay(failures)).await;
            }
        }
    }
}

fn compute_retry_delay(failures: u32) -> Duration {
    compute_backoff(failures, limits::OUTCOME_RETRY_MIN, limits::OUTCOME_RETRY_MAX)
}

/// Delivers the orders of `parent` to its children, and reports each delivery to the parent, until no order is left
/// that can be delivered now.
pub(super) async fn deliver_orders(shared: Arc<Shared>, parent: ExecutionId) {
    loop {
        let mut missing_children = BTreeSet::new();
        loop {
            let due_orders = load_due_orders(&shared, &parent, &missing_children).await;
            if due_orders.is_empty() {
                break;
            }
            let mut deliveries = JoinSet::new();
            for order in due_orders {
                let shared = shared.clone();
                deliveries.spawn(async move {
                    let command = Command::ApplyParentOrder(order.what);
                    let child_exists = report_until_accepted(&shared, &order.child, command).await;
                    (order, child_exists)
                });
            }
            let mut delivered = deliveries.join_all().await;
            // An order whose child is found missing for the first time is looked at again: the child of a visit that
            // still waits has yet to begin.
            delivered.retain(|(order, child_exists)| {
                *child_exists || !missing_children.insert(order.child.clone())
            });
            if !delivered.is_empty() {
                let delivered_orders = delivered.into_iter().map(|(order, _)| order).collect();
                report_until_accepted(
                    &shared,
                    &parent,
                    Command::MarkOrdersDelivered(delivered_orders),
                )
                .await;
            }
        }
        if shared.runner.end_order_delivery(&parent) {
            return;
        }
    }
}

async fn load_due_orders(
    shared: &Arc<Shared>,
    parent: &ExecutionId,
    missing_children: &BTreeSet<ExecutionId>,
) -> Vec<ChildOrder> {
    let engine = Engine::from_shared(shared.clone());
    let mut failures = 0;
    loop {
        match engine.read_execution(parent).await {
            Ok(durable) => return durable.execution.find_due_orders(missing_children),
            Err(error) if error.code().is_missing_execution() => return Vec::new(),
            Err(error) => {
                tracing::warn!(execution = %parent, code = error.code().as_str(), "its children cannot be told now; it is tried again");
                failures += 1;
                tokio::time::sleep(compute_retry_delay(failures)).await;
            }
        }
    }
}

/// Holds back the children that `parent` would start, and pauses the root of its family.
pub(super) async fn hold_back_children(
    shared: &Arc<Shared>,
    root: &ExecutionId,
    parent: &ExecutionId,
) {
    let descendants = &shared.descendants;
    descendants.hold_back_children(root, parent);
    let engine = Engine::from_shared(shared.clone());
    // Check the root after the parent was registered: a resume before that has not released this parent.
    let is_root_over_budget =
        async || matches!(engine.load_execution(root).await, Ok(root) if is_over_budget(&root));
    if is_root_over_budget().await {
        return;
    }
    let open_max = descendants.open_max;
    report_until_accepted(shared, root, Command::PauseForBudget { open_max }).await;
    if !is_root_over_budget().await {
        tokio::time::sleep(limits::OUTCOME_RETRY_MAX).await;
        release_held_back_children(shared.clone(), BTreeSet::from([parent.clone()])).await;
    }
}

/// Lets these parents start the children that were held back.
pub(super) async fn release_held_back_children(
    shared: Arc<Shared>,
    parents: BTreeSet<ExecutionId>,
) {
    for id in parents {
        let alive = Arc::new(shared.runner.attempts_in_flight(&id));
        let recover = Command::RecoverAttempts { live_attempts: alive };
        if let Err(error) = shared.send(&id, MessageOrigin::External, recover).await {
            tracing::debug!(execution = %id, code = error.code().as_str(), "what was held back is begun when the execution is next woken");
        }
    }
}

type AttemptOutcome = std::result::Result<EffectOutput, OperationFailure>;

impl Engine {
    /// Starts the child of an attempt, unless it exists, waits until it has ended, and returns its outcome.
    ///
    /// # Errors
    /// Errors that may be retried: nothing is known of the child then.
    async fn run_child(
        &self,
        parent: &ExecutionId,
        begin: &AttemptRequest,
        announcement: &mut Announcement,
    ) -> Result<ChildWaitResult> {
        let id = begin.attempt_id.child_execution_id(parent);
        let listener = self.shared.notifier.new_listener();
        listener.subscribe(&id.as_str().into(), Some(Topic::Execution(id.clone())));
        if self.shared.find_durable_execution(&id).await?.is_none() {
            if let Some(result) = self.begin_child(parent, &id, begin, announcement).await? {
                return Ok(result);
            }
            // Deliver the orders that the parent gave before the child existed.
            self.shared.runner.start_order_delivery(&self.shared, parent);
        }
        announcement.end_announcement();
        let mut durable = self.read_execution(&id).await?;
        while !durable.execution.has_ended() {
            self.shared.wait_for_change(&listener).await;
            listener.take_marked_name();
            durable = self.read_execution(&id).await?;
        }
        self.build_child_outcome(&durable).await.map(ChildWaitResult::Ended)
    }

    /// Starts the child. Returns the result of the attempt's wait if the child may not begin. A fault of the child's
    /// arguments or of its definition is a failure of the attempt.
    async fn begin_child(
        &self,
        parent: &ExecutionId,
        id: &ExecutionId,
        begin: &AttemptRequest,
        announcement: &mut Announcement,
    ) -> Result<Option<ChildWaitResult>> {
        let parent_execution = self.load_execution(parent).await?;
        let parent_link = parent_execution.build_parent_record(&begin.attempt_id);
        let descendants = &self.shared.descendants;
        let failure = if let Err(failure) = check_child_allowed(&parent_link, begin) {
            failure
        } else {
            let refusal =
                self.admit_child(parent_execution.clone(), &parent_link, id, announcement);
            if let Some(refusal) = refusal.await? {
                return Ok(Some(refusal));
            }
            match self.start_child(id, &parent_execution, parent_link, begin).await {
                Ok(()) => return Ok(None),
                Err(error) if error.code().retryable() => return Err(error),
                Err(error) => start_error_to_failure(&error),
            }
        };
        descendants.note_not_begun(id, parent, &failure.message);
        Ok(Some(ChildWaitResult::Ended(Err(failure))))
    }

    async fn start_child(
        &self,
        id: &ExecutionId,
        parent_execution: &Execution,
        parent_link: Parent,
        begin: &AttemptRequest,
    ) -> Result<()> {
        if self.continue_child(id, parent_execution, &parent_link, begin).await? {
            return Ok(());
        }
        let name = begin.workflow().unwrap_or_default();
        let lookup = self.load_workflow_lookup(parent_execution).await?;
        let definition = self.find_workflow(lookup.as_ref(), name).await?;
        let request = StartRequest {
            execution_id: Some(id.clone()),
            project: parent_execution.project().map(str::to_owned),
            inputs: begin.input.value.get("with").cloned(),
            lookup,
            ..StartRequest::new(definition)
        };
        self.start_as_child(request, Some(parent_link)).await.map(drop)
    }

    /// Reserves room for the child. Returns the result of the attempt's wait if the child may not begin: each execution
    /// above must still wait for the one below it, otherwise the family is ending; and only so many executions may be
    /// open below the root.
    async fn admit_child(
        &self,
        mut ancestor: Arc<Execution>,
        parent_link: &Parent,
        child: &ExecutionId,
        announcement: &mut Announcement,
    ) -> Result<Option<ChildWaitResult>> {
        let descendants = &self.shared.descendants;
        descendants.count_open_executions(&*self.shared.store).await?;
        let (mut visit_id, mut current_child) = (parent_link.visit_id.clone(), child.clone());
        loop {
            if !ancestor.waits_for_child(&visit_id, &current_child) {
                return Ok(Some(ChildWaitResult::Abandoned));
            }
            let Some(parent) = ancestor.parent().cloned() else {
                break;
            };
            (visit_id, current_child) = (parent.visit_id, ancestor.id().clone());
            ancestor = self.load_execution(&parent.execution_id).await?;
        }
        let root = ancestor.id().clone();
        if !is_over_budget(&ancestor) && descendants.reserve_room(&root, announcement) {
            return Ok(None);
        }
        let reason =
            format!("its root '{root}' is paused, for too many executions below it are open");
        descendants.note_not_begun(child, &root, &reason);
        Ok(Some(ChildWaitResult::HeldBack { root }))
    }

    /// Where an execution looks up workflows.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn load_workflow_lookup(
        &self,
        execution: &Execution,
    ) -> Result<Option<WorkflowLookup>> {
        let Some(digest) = execution.lookup() else {
            return Ok(None);
        };
        let value = self.shared.contents.value(digest).await?;
        let lookup = value.map(|value| WorkflowLookup::deserialize(&*value));
        lookup.transpose().map_err(|error| {
            Error::internal("what an execution keeps for look-ups cannot be read")
                .with_source(error)
        })
    }

    /// The workflow of this name: from its present file, else as it was when the execution that names it started.
    pub(super) async fn find_workflow(
        &self,
        lookup: Option<&WorkflowLookup>,
        name: &str,
    ) -> Result<Arc<Definition>> {
        let error = match self.shared.workflows.find(lookup, name).await {
            Ok(definition) => return Ok(definition),
            Err(error) => error,
        };
        let stored_digest = lookup.and_then(|lookup| lookup.kept.get(name));
        match (error.code(), stored_digest) {
            (Code::WorkflowNotFound | Code::WorkflowValidationFailed, Some(stored_digest)) => {
                self.shared.definitions.get(*stored_digest).await
            }
            _ => Err(error),
        }
    }

    /// The lookup that an execution of this definition keeps, and the present definitions of the workflows that it
    /// names. A workflow that cannot be found now is looked up again when the child is to begin.
    pub(super) async fn resolve_named_definitions(
        &self,
        definition: &Definition,
        lookup: Option<WorkflowLookup>,
    ) -> (Option<Box<WorkflowLookup>>, Vec<Arc<Definition>>) {
        let Some(mut lookup) = lookup.filter(|_| definition.has_children()) else {
            return (None, Vec::new());
        };
        lookup.kept.clear();
        lookup.is_of_project |= definition.is_from_project();
        let (mut digests, mut definitions) = (BTreeMap::new(), Vec::new());
        for name in definition.child_workflow_names() {
            if let Ok(child) = self.shared.workflows.find(Some(&lookup), name).await {
                digests.insert(name.to_owned(), child.digest());
                definitions.push(child);
            }
        }
        let lookup = WorkflowLookup { kept: digests, ..lookup };
        (Some(Box::new(lookup)), definitions)
    }

    async fn build_child_outcome(&self, durable: &DurableExecution) -> Result<AttemptOutcome> {
        let execution = &durable.execution;
        let (id, name) = (execution.id(), execution.workflow());
        if execution.state() == State::Completed {
            let output = self.build_view(durable, None, view::full_output).await?;
            return Ok(Ok(EffectOutput::Output(output.unwrap_or(Value::Null))));
        }
        let failure = if let Some(failure) = execution.failure() {
            let reason = &failure.message;
            let message = format!("child '{id}' of workflow '{name}' failed: {reason}");
            OperationFailure {
                code: Some(failure.code.clone()),
                ..OperationFailure::new("child", message)
            }
        } else {
            let state = execution.state();
            let message = format!("child '{id}' of workflow '{name}' is {state}");
            OperationFailure::new("child", message).with_code(FailureCode::ChildEnded)
        };
        Ok(Err(failure.as_retryable()))
    }
}

/// Refuses a child that is too deep or would be given a secret, before anything is looked up for it.
fn check_child_allowed(
    parent_link: &Parent,
    begin: &AttemptRequest,
) -> std::result::Result<(), OperationFailure> {
    if parent_link.depth > limits::CHILD_DEPTH_MAX {
        let max_depth = limits::CHILD_DEPTH_MAX;
        let message =
            format!("an execution may be {max_depth} below its root, and this would be one more");
        return Err(OperationFailure::new("child", message).with_code(FailureCode::ChildTooDeep));
    }
    if let Some(allowed) = begin.disallowed_choice() {
        let chosen = begin.input.value.get("workflow").unwrap_or(&Value::Null);
        let message = format!("the step chose the workflow {chosen}; it may choose {allowed:?}");
        return Err(OperationFailure::new("child", message).with_code(FailureCode::ChildNotAllowed));
    }
    if let Some(place) = begin.input.secrets.first() {
        let message =
            format!("a child cannot be given the secret `{}`: its inputs are stored", place.name);
        return Err(
            OperationFailure::new("child", message).with_code(FailureCode::SecretNotAllowed)
        );
    }
    Ok(())
}

/// Turns the refusal of a start into a failure of the attempt. If the project is not trusted, the failure is not
/// retryable, because only the user can change that.
fn start_error_to_failure(error: &Error) -> OperationFailure {
    let project = error.context("project_word").and_then(Value::as_str);
    let trust_hint =
        project.map(|project| format!("; if you trust it, run `midex trust {project}`"));
    let message = error.message().to_owned() + &trust_hint.unwrap_or_default();
    let failure = OperationFailure {
        code: Some(error.code().as_str().to_owned()),
        ..OperationFailure::new("child", message)
    };
    if project.is_some() {
        return failure;
    }
    failure.as_retryable()
}
