//! Children of executions: begun by the attempt of a step, waited for until they have ended, and told what became of
//! their parent.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use serde::Deserialize;
use serde_json::Value;

use super::{Engine, Seen, Shared, StartRequest, Topic, report::report};
use crate::{
    catalog::BoxFuture,
    domain::{
        Command, Definition, Execution, ExecutionId, FailureCode, Lookup, State,
        event::Order,
        execution::{Begin, Brought, OperationFailure},
        span::backoff,
        view,
    },
    error::{Code, Error, Result},
    limits,
};

/// Where the definitions come from that children follow.
pub trait Workflows: fmt::Debug + Send + Sync {
    /// What an execution of this workflow would follow now, for an execution that looks it up there; among the workflows of
    /// this process where `lookup` is `None`.
    ///
    /// # Errors
    /// `WORKFLOW_NOT_FOUND`, `WORKFLOW_VALIDATION_FAILED`.
    fn find<'a>(
        &'a self,
        lookup: Option<&'a Lookup>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Arc<Definition>>>;
}

/// No workflows.
#[derive(Clone, Copy, Debug)]
pub struct NoWorkflows;

impl Workflows for NoWorkflows {
    fn find<'a>(
        &'a self,
        _: Option<&'a Lookup>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Arc<Definition>>> {
        let message = format!("this server knows no workflow '{name}'");
        Box::pin(async move { Err(Error::new(Code::WorkflowNotFound, message)) })
    }
}

/// Begins the child of an attempt where it is not there yet, waits for its end, and answers what the parent is told;
/// `None` where the server stops before.
pub(super) async fn attend(
    shared: &Arc<Shared>,
    parent: &ExecutionId,
    begin: Begin,
) -> Option<Command> {
    let engine = Engine::of(shared.clone());
    let attempt_id = begin.attempt_id.clone();
    let mut failures = 0;
    loop {
        let came = tokio::select! {
            biased;
            () = shared.stopping.cancelled() => return None,
            came = engine.child(parent, &begin) => came,
        };
        let outcome = match came {
            Ok(outcome) => Arc::new(outcome),
            Err(error) if error.code() == Code::ServerStopping => return None,
            Err(error) => {
                tracing::warn!(execution = %parent, code = error.code().as_str(), "a child cannot be waited for now; it is tried again");
                failures += 1;
                tokio::time::sleep(pause(failures)).await;
                continue;
            }
        };
        return Some(Command::Outcome {
            attempt_id,
            outcome,
        });
    }
}

fn pause(failures: u32) -> Duration {
    backoff(
        failures,
        limits::OUTCOME_RETRY_MIN,
        limits::OUTCOME_RETRY_MAX,
    )
}

/// Tells children what became of their parent, and the parent that they were told, until nothing is left that can be told
/// now.
pub(super) async fn tell(shared: Arc<Shared>, parent: ExecutionId) {
    loop {
        let mut missing = BTreeSet::new();
        while let Some(order) = order_due(&shared, &parent, &missing).await {
            let (child, what) = (order.child.clone(), order.what);
            let is_there = report(&shared, &child, Command::FromParent(what)).await;
            let is_new = !is_there && missing.insert(child);
            // Looked at once more: the child of a visit that is waited for is still to begin.
            if !is_new {
                report(&shared, &parent, Command::Told(order)).await;
            }
        }
        if shared.runner.end_telling(&parent) {
            return;
        }
    }
}

async fn order_due(
    shared: &Arc<Shared>,
    parent: &ExecutionId,
    missing: &BTreeSet<ExecutionId>,
) -> Option<Order> {
    let engine = Engine::of(shared.clone());
    let mut failures = 0;
    loop {
        match engine.see(parent).await {
            Ok(seen) => return seen.execution.order_due(missing).cloned(),
            Err(error) if error.code() == Code::ExecutionNotFound => return None,
            Err(error) => {
                tracing::warn!(execution = %parent, code = error.code().as_str(), "its children cannot be told now; it is tried again");
                failures += 1;
                tokio::time::sleep(pause(failures)).await;
            }
        }
    }
}

type Outcome = std::result::Result<Brought, OperationFailure>;

impl Engine {
    /// What came of the child of an attempt.
    ///
    /// # Errors
    /// What may be tried again: nothing is known of the child then.
    async fn child(&self, parent: &ExecutionId, begin: &Begin) -> Result<Outcome> {
        let id = begin.attempt_id.child(parent);
        let listener = self.shared.notifier.listener();
        listener.add(&id.as_str().into(), Some(Topic::Execution(id.clone())));
        let mut seen = match self.see(&id).await {
            Err(error) if error.code() == Code::ExecutionNotFound => {
                if let Err(failure) = self.begin_child(parent, &id, begin).await? {
                    return Ok(Err(failure));
                }
                // What its parent did before it was there.
                self.shared.runner.tell(&self.shared, parent);
                self.see(&id).await?
            }
            seen => seen?,
        };
        while !seen.execution.state().is_final() {
            listener.heard().await;
            listener.take();
            seen = self.see(&id).await?;
        }
        self.came_of(&seen).await
    }

    /// Starts the child. What its own arguments and its definition are at fault for is a failure of the attempt.
    async fn begin_child(
        &self,
        parent: &ExecutionId,
        id: &ExecutionId,
        begin: &Begin,
    ) -> Result<std::result::Result<(), OperationFailure>> {
        let above = self.see(parent).await?.execution;
        let as_parent = above.as_parent_of(&begin.attempt_id);
        if as_parent.depth > limits::CHILD_DEPTH_MAX {
            let most = limits::CHILD_DEPTH_MAX;
            let message =
                format!("an execution may be {most} below its root, and this would be one more");
            let failure = OperationFailure::new("child", message);
            return Ok(Err(failure.coded(FailureCode::ChildTooDeep)));
        }
        if let Some(place) = begin.input.secrets.first() {
            let message = format!(
                "a child cannot be given the secret `{}`: its inputs are stored",
                place.name
            );
            let failure = OperationFailure::new("child", message);
            return Ok(Err(failure.coded(FailureCode::SecretNotAllowed)));
        }
        let project = above.project().map(str::to_owned);
        let name = begin.workflow().unwrap_or_default();
        let lookup = self.lookup_of(&above).await?;
        let started = match self.named(lookup.as_ref(), name).await {
            Err(error) => Err(error),
            Ok(definition) => {
                let request = StartRequest {
                    definition,
                    execution_id: Some(id.clone()),
                    project,
                    inputs: begin.input.value.get("with").cloned(),
                    lookup,
                };
                self.start_below(request, Some(as_parent)).await.map(drop)
            }
        };
        match started {
            Ok(()) => Ok(Ok(())),
            Err(error) if error.code().retryable() => Err(error),
            Err(error) => Ok(Err(refused(&error))),
        }
    }

    /// Where an execution looks up workflows.
    async fn lookup_of(&self, execution: &Execution) -> Result<Option<Lookup>> {
        let Some(digest) = execution.lookup() else {
            return Ok(None);
        };
        let value = self.shared.contents.value(digest).await?;
        let lookup = value.map(|value| Lookup::deserialize(&*value));
        lookup.transpose().map_err(|error| {
            Error::internal("what an execution keeps for look-ups cannot be read").because(error)
        })
    }

    /// The workflow of this name: as its file has it now, else as it was when the execution that names it started.
    async fn named(&self, lookup: Option<&Lookup>, name: &str) -> Result<Arc<Definition>> {
        let error = match self.shared.workflows.find(lookup, name).await {
            Ok(definition) => return Ok(definition),
            Err(error) => error,
        };
        let kept = lookup.and_then(|lookup| lookup.kept.get(name));
        match (error.code(), kept) {
            (Code::WorkflowNotFound | Code::WorkflowValidationFailed, Some(kept)) => {
                self.shared.definitions.get(*kept).await
            }
            _ => Err(error),
        }
    }

    /// What an execution of this definition keeps for look-ups, with the workflows that it names as they are now. One that
    /// cannot be found now is looked for again when it is to begin.
    pub(super) async fn with_named(
        &self,
        definition: &Definition,
        lookup: Option<Lookup>,
    ) -> (Option<Box<Lookup>>, Vec<Arc<Definition>>) {
        let Some(mut lookup) = lookup.filter(|_| definition.has_children()) else {
            return (None, Vec::new());
        };
        lookup.kept.clear();
        lookup.is_of_project |= definition.is_of_project();
        let (mut kept, mut named) = (BTreeMap::new(), Vec::new());
        for name in definition.children() {
            if let Ok(child) = self.shared.workflows.find(Some(&lookup), name).await {
                kept.insert(name.to_owned(), child.digest());
                named.push(child);
            }
        }
        let lookup = Lookup { kept, ..lookup };
        (Some(Box::new(lookup)), named)
    }

    async fn came_of(&self, seen: &Seen) -> Result<Outcome> {
        let execution = &seen.execution;
        let (id, name) = (execution.id(), execution.workflow());
        if execution.state() == State::Completed {
            let output = self.view(seen, None, view::whole_output).await?;
            return Ok(Ok(Brought::Output(output.unwrap_or(Value::Null))));
        }
        let failure = if let Some(failure) = execution.failure() {
            let why = &failure.message;
            let message = format!("child '{id}' of workflow '{name}' failed: {why}");
            OperationFailure {
                code: Some(failure.code.clone()),
                ..OperationFailure::new("child", message)
            }
        } else {
            let state = execution.state();
            let message = format!("child '{id}' of workflow '{name}' is {state}");
            OperationFailure::new("child", message).coded(FailureCode::ChildEnded)
        };
        Ok(Err(failure.retryable()))
    }
}

/// The refusal of a start as the failure of an attempt. Only the user lifts that a project is not trusted: it is not retried.
fn refused(error: &Error) -> OperationFailure {
    let project = error.context("project_word").and_then(Value::as_str);
    let trust = project.map(|project| format!("; if you trust it, run `midex trust {project}`"));
    let message = error.message().to_owned() + &trust.unwrap_or_default();
    let failure = OperationFailure {
        code: Some(error.code().as_str().to_owned()),
        ..OperationFailure::new("child", message)
    };
    if project.is_some() {
        return failure;
    }
    failure.retryable()
}
