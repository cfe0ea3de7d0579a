//! Runs one attempt of a server-side step.

use std::{
    any::Any,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use serde_json::Value;
use tokio::task::AbortHandle;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    DurableExecution, Shared,
    secrets::{AttemptResult, Secrets, mask_outcome},
    value_lookup::ValueLookup,
};
use crate::activity::{
    Activities, Activity, AttemptHandle, AttemptHost, BoxFuture, Context, Middleware,
    RegisteredActivity, RetryPolicy,
};
use midex_domain::{
    Definition, Digest, Execution, ExecutionId, FailureCode, StepId, StepKind,
    error::Error,
    event::VisitId,
    execution::{
        AttemptId, AttemptNotes, AttemptRequest, EffectOutput, OperationFailure, WorkPolicy,
    },
    limits,
    operation::{OperationCall, Operations},
    view::{LoadedValues, ProgressView, ValueRequest},
};

/// What attempts are run with.
#[derive(Debug)]
pub(super) struct Executors {
    pub(super) activities: Activities,
    pub(super) middleware: Vec<Arc<dyn Middleware>>,
    pub(super) operations: Arc<dyn Operations>,
    pub(super) secrets: Secrets,
    pub(super) is_worker: bool,
}

impl Executors {
    /// The name of an activity that a workflow names and this process lacks.
    pub(super) fn missing_capability<'a>(&self, definition: &'a Definition) -> Option<&'a str> {
        let mut names = definition.activities().iter();
        let missing_name = names.find(|name| self.activities.find(name).is_none());
        missing_name.map(String::as_str)
    }

    /// The activity of a step; `None` for other kinds of steps.
    pub(super) fn find_activity(&self, kind: &StepKind) -> Option<&RegisteredActivity> {
        match kind {
            StepKind::Activity { name, .. } => self.activities.find(name),
            _ => None,
        }
    }

    /// Whether another process must run a step: this one is no worker, or lacks the activity.
    pub(super) fn cannot_run_step(&self, kind: &StepKind) -> bool {
        !self.is_worker
            || matches!(kind, StepKind::Activity { .. }) && self.find_activity(kind).is_none()
    }
}

impl WorkPolicy for Executors {
    fn is_safe_to_retry(&self, kind: &StepKind) -> bool {
        match kind {
            StepKind::Activity { .. } => {
                let registered = self.find_activity(kind);
                registered.is_some_and(|registered| registered.activity().is_idempotent())
            }
            StepKind::Run { catalog, operation, .. } => self.operations.is_safe(catalog, operation),
            _ => false,
        }
    }

    fn default_retry(&self, kind: &StepKind) -> Option<RetryPolicy> {
        self.find_activity(kind)?.activity().retry()
    }

    fn default_timeout(&self, kind: &StepKind) -> Option<Duration> {
        self.find_activity(kind)?.activity().timeout()
    }

    fn is_catalog_missing(&self, kind: &StepKind) -> bool {
        matches!(kind, StepKind::Run { catalog, .. } if !self.operations.has_catalog(catalog))
    }
}

/// Runs the attempt within its time limit. Every end, including a panic, becomes a result.
pub(super) async fn run(
    shared: &Arc<Shared>,
    context: Context,
    begin: AttemptRequest,
) -> (AttemptResult, AttemptNotes) {
    // Cancelled when this function ends, so that work which an activity passed to another task learns that the attempt
    // is over or that its time is up.
    let context = Context { cancelled: context.cancelled.child_token(), ..context };
    let _cancel_guard = context.cancelled.clone().drop_guard();
    let limit = context.timeout;
    let (input, mask) = match shared.runner.executors.secrets.fill_secrets(&begin.input) {
        Ok(filled) => filled,
        Err(failure) => return (Err(failure), AttemptNotes::default()),
    };
    let secrets = begin.input.secrets.iter().map(|place| place.name.clone());
    let input = FilledInput { secrets: secrets.collect(), input };
    let is_activity = matches!(begin.step_kind, StepKind::Activity { .. });
    let (handle, subject) = (context.handle.clone(), AttemptSubject::new(&context));
    let work = perform_attempt(shared.clone(), context, begin, input);
    let outcome = if is_activity {
        run_in_task(work, limit, subject).await
    } else {
        run_within(limit, catch_attempt_panic(work)).await
    };
    let notes = if is_activity { handle.take_notes() } else { AttemptNotes::default() };
    (mask_outcome(outcome, &mask), notes.with_secrets_masked(&mask))
}

async fn run_within(
    limit: Option<Duration>,
    work: impl Future<Output = AttemptResult>,
) -> AttemptResult {
    let Some(limit) = limit else {
        return work.await;
    };
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let message = format!("timed out: no outcome within {limit:?}");
        let failure = OperationFailure::new("timeout", message);
        Err(failure.with_code(FailureCode::StepTimedOut).as_retryable())
    })
}

/// Runs an activity in a separate task, so that its time limit holds even if it never awaits, and so that a panic in the
/// destructor of its future ends only that task.
async fn run_in_task(
    work: impl Future<Output = AttemptResult> + Send + 'static,
    limit: Option<Duration>,
    subject: AttemptSubject,
) -> AttemptResult {
    let task = AbortOnDropHandle::new(tokio::spawn(work));
    let abort = task.abort_handle();
    let finished = async {
        match task.await {
            Ok(outcome) => outcome,
            Err(error) => Err(error.try_into_panic().map_or_else(
                |_| OperationFailure::new("cancelled", "the activity was cancelled"),
                |panic| panic_to_failure(&*panic),
            )),
        }
    };
    let outcome = run_within(limit, finished).await;
    if !abort.is_finished() {
        tokio::spawn(subject.watch_end(abort));
    }
    outcome
}

/// What a log entry about an attempt names.
struct AttemptSubject {
    execution_id: ExecutionId,
    step: StepId,
}

impl AttemptSubject {
    fn new(context: &Context) -> Self {
        Self { execution_id: context.execution_id.clone(), step: context.step.clone() }
    }

    /// Logs an activity that still runs after its attempt has ended.
    async fn watch_end(self, task: AbortHandle) {
        tokio::time::sleep(limits::ACTIVITY_STOP_MAX).await;
        if !task.is_finished() {
            let Self { execution_id, step } = self;
            tracing::error!(execution = %execution_id, %step, "an activity goes on after its time limit, because it never awaits: it occupies a thread");
        }
    }
}

/// The input of an attempt, with its secrets filled in.
struct FilledInput {
    input: Value,
    /// The names of the secrets.
    secrets: Vec<String>,
}

/// The context of an attempt, without its input.
pub(super) fn build_context(
    source: &DurableExecution,
    begin: &AttemptRequest,
    cancelled: CancellationToken,
    shared: &Arc<Shared>,
) -> Context {
    let DurableExecution { execution, definition } = source;
    let AttemptId { visit_id, attempt } = &begin.attempt_id;
    let step = visit_id.step();
    let steps = &definition.workflow.steps;
    let position = steps.iter().position(|other| other.id == *step);
    Context {
        execution_id: execution.id().clone(),
        workflow: execution.workflow().clone(),
        started_at: execution.started_at(),
        step: step.clone(),
        step_number: position.map_or(0, |at| at + 1),
        step_count: steps.len(),
        visit: visit_id.visit,
        item: visit_id.item,
        attempt: *attempt,
        input: Value::Null,
        idempotency_key: idempotency_key(execution.id(), visit_id),
        timeout: begin.timeout,
        cancelled,
        handle: AttemptHandle::new(RunningAttempt {
            shared: shared.clone(),
            execution: execution.clone(),
            attempt_id: begin.attempt_id.clone(),
        }),
    }
}

/// An attempt and its execution when it began.
struct RunningAttempt {
    shared: Arc<Shared>,
    execution: Arc<Execution>,
    attempt_id: AttemptId,
}

impl AttemptHost for RunningAttempt {
    fn load_memory<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Value>, Error>> {
        Box::pin(async move {
            let Self { shared, execution, .. } = self;
            let Some(need) = execution.find_memory_reference(name) else {
                return Ok(None);
            };
            let known = LoadedValues::default();
            let mut lookup = ValueLookup::new(shared, execution.id(), None, known);
            lookup.look_up([ValueRequest::from(need)].into()).await?;
            let value = lookup.found_values.values.remove(&need.digest);
            Ok(value.map(Arc::unwrap_or_clone))
        })
    }

    fn set_progress(&self, progress: ProgressView) {
        self.shared.runner.set_progress(self.execution.id(), &self.attempt_id, progress);
    }
}

async fn perform_attempt(
    shared: Arc<Shared>,
    context: Context,
    begin: AttemptRequest,
    FilledInput { mut input, secrets }: FilledInput,
) -> AttemptResult {
    let executors = &shared.runner.executors;
    let with = input["with"].take();
    let context = Context { input: with, ..context };
    let AttemptRequest { step_kind: kind, cursor, .. } = begin;
    match kind {
        StepKind::Activity { name, .. } => {
            let Some(activity) = executors.activities.find(&name) else {
                return Err(activity_not_found(&name));
            };
            activity.run(&executors.middleware, context).await.map(EffectOutput::Output)
        }
        StepKind::Run { catalog, operation, paginate, whole, idempotent, .. } => {
            let call = OperationCall {
                catalog,
                operation,
                with: context.input,
                body: input.get_mut("body").map(Value::take),
                secrets,
                paginate,
                cursor,
                whole,
                timeout: context.timeout,
                idempotency_key: context.idempotency_key,
                is_idempotent: idempotent,
            };
            executors.operations.call(call).await
        }
        kind => {
            let message = format!("this server cannot do a `{}` step", kind.as_str());
            Err(OperationFailure::new("not_supported", message))
        }
    }
}

fn activity_not_found(name: &str) -> OperationFailure {
    OperationFailure::new("not_found", format!("this server has no activity '{name}'"))
}

/// The idempotency key: the same for every attempt of a visit, and different for every other visit.
fn idempotency_key(id: &ExecutionId, visit_id: &VisitId) -> String {
    Digest::compute(visit_id.unique_text(id).as_bytes()).to_string()
}

/// Turns a panic into a failure of the attempt.
async fn catch_attempt_panic(work: impl Future<Output = AttemptResult>) -> AttemptResult {
    catch_panic(work).await.unwrap_or_else(|panic| Err(panic_to_failure(&*panic)))
}

/// The output of `work`, or the payload of its panic.
async fn catch_panic<T>(work: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    let mut work = pin!(work);
    poll_fn(move |context| {
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        polled.map_or_else(|panic| Poll::Ready(Err(panic)), |polled| polled.map(Ok))
    })
    .await
}

fn panic_to_failure(panic: &(dyn Any + Send)) -> OperationFailure {
    let panic_text = panic.downcast_ref::<&str>().copied();
    let panic_text = panic_text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = match panic_text {
        Some(panic_text) => format!("it panicked: {panic_text}"),
        None => "it panicked".to_owned(),
    };
    OperationFailure::new("panic", message).as_retryable()
}

/// Calls the lifecycle methods of an activity after an attempt whose outcome was recorded.
pub(super) async fn call_lifecycle_methods(
    activity: &dyn Activity,
    context: &Context,
    outcome: &AttemptResult,
) {
    // The methods are called in the futures, so that a panic outside of an await is caught too.
    let first = async {
        match outcome {
            Ok(EffectOutput::Output(output)) => activity.on_success(context, output).await,
            Ok(_) => {}
            Err(failure) => activity.on_failure(context, failure).await,
        }
    };
    watch_lifecycle_method(context, first).await;
    watch_lifecycle_method(context, async { activity.on_complete(context).await }).await;
}

/// Awaits a call of a lifecycle method within its time limit, and logs a panic.
async fn watch_lifecycle_method(context: &Context, call: impl Future<Output = ()>) {
    let problem = match tokio::time::timeout(limits::ACTIVITY_HOOK_MAX, catch_panic(call)).await {
        Ok(Ok(())) => return,
        Ok(Err(_)) => "it panicked",
        Err(_) => "it took too long and was dropped",
    };
    let Context { execution_id, step, .. } = context;
    tracing::error!(execution = %execution_id, %step, problem, "a lifecycle method of an activity failed");
}
