//! Runs the attempts of server-side steps outside of the actors, so that an actor never waits for one. The outcome of
//! an attempt reaches the execution's actor as a command.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Shared,
    activity::Context,
    attempt::{self, Executors},
    children::{self, ChildWaitResult},
    descendants::Announcement,
    report::report_until_accepted,
    store::AttemptStage,
};
use midex_domain::{
    Command, ExecutionId,
    error::Result,
    execution::{AttemptId, AttemptRequest, Effect},
    limits,
    view::ProgressView,
};

/// Runs each attempt as a task, and cancels attempts.
pub(super) struct Runner {
    /// The activities, operations and secrets that attempts use.
    pub(super) executors: Executors,
    tasks_by_execution: Mutex<HashMap<ExecutionId, InFlightTasks>>,
    /// Limits how many attempts run at once. Further attempts wait in FIFO order.
    attempt_permits: Arc<Semaphore>,
    tasks: TaskTracker,
    /// Parent of every attempt's token. Cancelled at shutdown, after the grace period.
    shutdown: CancellationToken,
}

/// The tasks in flight for one execution.
#[derive(Default)]
struct InFlightTasks {
    /// Attempts in flight, each until its outcome is recorded.
    attempts: HashMap<AttemptId, InFlightAttempt>,
    /// Attempts of a transition whose commit failed, so that it is unknown whether the transition is durable. None of
    /// them was started.
    indeterminate: Vec<AttemptRequest>,
    /// Whether a task delivers the orders of this execution to its children. Only one task does so at a time: otherwise
    /// a child could receive a resume before the pause that precedes it.
    order_delivery: OrderDelivery,
}

struct InFlightAttempt {
    cancelled: CancellationToken,
    /// Cancelled when the attempt must not begin here, because another server is to own the execution.
    postponed: CancellationToken,
    /// `None` for an attempt that only waits for a child.
    stage: Option<AttemptStage>,
    /// What the activity last reported.
    progress: Option<ProgressView>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum OrderDelivery {
    #[default]
    Idle,
    /// A task is delivering orders.
    Running,
    /// A task is delivering orders, and must check for new ones before it ends.
    RunningOutdated,
}

impl InFlightTasks {
    fn is_empty(&self) -> bool {
        self.attempts.is_empty()
            && self.indeterminate.is_empty()
            && self.order_delivery == OrderDelivery::Idle
    }
}

impl Runner {
    pub(super) fn new(executors: Executors) -> Self {
        Self {
            executors,
            tasks_by_execution: Mutex::default(),
            attempt_permits: Arc::new(Semaphore::new(limits::ATTEMPTS_AT_ONCE_MAX)),
            tasks: TaskTracker::new(),
            shutdown: CancellationToken::new(),
        }
    }

    fn lock_tasks(&self) -> MutexGuard<'_, HashMap<ExecutionId, InFlightTasks>> {
        self.tasks_by_execution.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ids of the attempts in flight for an execution.
    pub(super) fn attempts_in_flight(&self, id: &ExecutionId) -> BTreeSet<AttemptId> {
        let all_tasks = self.lock_tasks();
        let attempts = all_tasks.get(id).into_iter().flat_map(|work| work.attempts.keys());
        attempts.cloned().collect()
    }

    /// The executions with attempts in flight, except those that only wait for children.
    pub(super) fn list_busy(&self) -> Vec<(ExecutionId, AttemptStage)> {
        let all = self.lock_tasks();
        let busy = all.iter().filter_map(|(id, tasks)| {
            let stages = tasks.attempts.values().filter_map(|attempt| attempt.stage);
            Some((id.clone(), stages.max()?))
        });
        busy.collect()
    }

    /// Postpones the attempts that wait to begin, of the executions that meet the condition: another server begins them.
    pub(super) fn postpone_attempts_of(&self, condition: impl Fn(&ExecutionId) -> bool) {
        let all = self.lock_tasks();
        for (_, tasks) in all.iter().filter(|(id, _)| condition(id)) {
            tasks.attempts.values().for_each(|attempt| attempt.postponed.cancel());
        }
    }

    /// Notes that an attempt runs now.
    fn begin_running(&self, id: &ExecutionId, attempt_id: &AttemptId) {
        let mut all = self.lock_tasks();
        if let Some(attempt) = all.get_mut(id).and_then(|it| it.attempts.get_mut(attempt_id)) {
            attempt.stage = Some(AttemptStage::Running);
        }
    }

    /// Cancels the attempts of the executions that meet the condition. Their outcomes are not recorded.
    pub(super) fn cancel_attempts_of(&self, condition: impl Fn(&ExecutionId) -> bool) {
        self.lock_tasks().retain(|id, tasks| {
            if condition(id) {
                tasks.attempts.drain().for_each(|(_, attempt)| attempt.cancelled.cancel());
                tasks.indeterminate.clear();
            }
            !tasks.is_empty()
        });
    }

    /// Keeps the attempts that a transition would have started, until it is known whether the transition is durable.
    pub(super) fn keep_indeterminate(&self, id: &ExecutionId, effects: Vec<Effect>) {
        let begins = effects.into_iter().filter_map(|effect| match effect {
            Effect::BeginAttempt(begin) => Some(*begin),
            // Orders are part of the execution's state, and loading the execution sends them. On loading, `reconcile`
            // cancels attempts that are no longer awaited.
            Effect::CancelAttempt(_) | Effect::SendOrder(_) => None,
        });
        let begins: Vec<_> = begins.collect();
        if !begins.is_empty() {
            self.lock_tasks().entry(id.clone()).or_default().indeterminate = begins;
        }
    }

    /// Called once an execution has been loaded from the store, so that `awaited` is certain. Cancels attempts in
    /// flight that are not awaited, and starts the indeterminate attempts that are.
    pub(super) fn reconcile(shared: &Arc<Shared>, id: &ExecutionId, awaited: &BTreeSet<AttemptId>) {
        let indeterminate = {
            let mut all = shared.runner.lock_tasks();
            let Some(in_flight) = all.get_mut(id) else {
                return;
            };
            in_flight.attempts.retain(|attempt_id, in_flight| {
                let is_awaited = awaited.contains(attempt_id);
                if !is_awaited {
                    in_flight.cancelled.cancel();
                }
                is_awaited
            });
            let indeterminate = std::mem::take(&mut in_flight.indeterminate);
            if in_flight.is_empty() {
                all.remove(id);
            }
            indeterminate
        };
        for begin in indeterminate {
            if awaited.contains(&begin.attempt_id) {
                Self::begin_attempt(shared, id, begin);
            }
        }
    }

    /// Carries out an effect: starts an attempt, cancels one, or delivers orders.
    pub(super) fn carry_out_effect(shared: &Arc<Shared>, id: &ExecutionId, effect: Effect) {
        match effect {
            Effect::BeginAttempt(begin) => Self::begin_attempt(shared, id, *begin),
            Effect::CancelAttempt(attempt_id) => shared.runner.cancel_attempt(id, &attempt_id),
            // The order itself is part of the execution's state.
            Effect::SendOrder(_) => shared.runner.start_order_delivery(shared, id),
        }
    }

    /// Starts a task that delivers the orders of an execution to its children. If one is running, it checks for new
    /// orders before it ends.
    pub(super) fn start_order_delivery(&self, shared: &Arc<Shared>, id: &ExecutionId) {
        let mut all = self.lock_tasks();
        let in_flight = all.entry(id.clone()).or_default();
        if in_flight.order_delivery == OrderDelivery::Idle {
            in_flight.order_delivery = OrderDelivery::Running;
            let delivery = children::deliver_orders(shared.clone(), id.clone());
            self.tasks.spawn(delivery);
        } else {
            in_flight.order_delivery = OrderDelivery::RunningOutdated;
        }
    }

    /// Marks the delivery of orders as finished and returns true. Returns false if `start_order_delivery` was called meanwhile: the
    /// task must then check for new orders.
    pub(super) fn end_order_delivery(&self, id: &ExecutionId) -> bool {
        let mut all = self.lock_tasks();
        let Some(in_flight) = all.get_mut(id) else {
            return true;
        };
        let is_finished = in_flight.order_delivery != OrderDelivery::RunningOutdated;
        in_flight.order_delivery =
            if is_finished { OrderDelivery::Idle } else { OrderDelivery::Running };
        if in_flight.is_empty() {
            all.remove(id);
        }
        is_finished
    }

    /// Lets these parents start the children that were held back while their root was over its budget.
    pub(super) fn release_held_back_children(shared: &Arc<Shared>, parents: BTreeSet<ExecutionId>) {
        if !parents.is_empty() {
            let release = children::release_held_back_children(shared.clone(), parents);
            shared.runner.tasks.spawn(release);
        }
    }

    fn begin_attempt(shared: &Arc<Shared>, id: &ExecutionId, begin: AttemptRequest) {
        let runner = &shared.runner;
        // Announce the child before the reply that names it is sent.
        let announcement = begin.workflow().map(|_| {
            let child = begin.attempt_id.child_execution_id(id);
            shared.descendants.announce(child)
        });
        let cancelled = runner.shutdown.child_token();
        let mut all_tasks = runner.lock_tasks();
        // The execution may have been given to another server while the transition was stored, which treats the attempt as cut
        // off. `cancel_attempts_of` finds those that are inserted here before that.
        if shared.store.owner(id).is_err() {
            return;
        }
        let attempts = &mut all_tasks.entry(id.clone()).or_default().attempts;
        let postponed = CancellationToken::new();
        if shared.store.is_leaving(id) {
            postponed.cancel();
        }
        let in_flight = InFlightAttempt {
            cancelled: cancelled.clone(),
            postponed: postponed.clone(),
            stage: announcement.is_none().then_some(AttemptStage::Waiting),
            progress: None,
        };
        attempts.insert(begin.attempt_id.clone(), in_flight);
        let task = run_attempt_task(
            shared.clone(),
            id.clone(),
            begin,
            announcement,
            [cancelled, postponed],
        );
        runner.tasks.spawn(task);
    }

    fn cancel_attempt(&self, id: &ExecutionId, attempt_id: &AttemptId) {
        if let Some(cancelled) = self.remove_attempt(id, attempt_id) {
            cancelled.cancel();
        }
    }

    fn remove_attempt(
        &self,
        id: &ExecutionId,
        attempt_id: &AttemptId,
    ) -> Option<CancellationToken> {
        let mut all = self.lock_tasks();
        let in_flight = all.get_mut(id)?;
        let removed = in_flight.attempts.remove(attempt_id);
        if in_flight.is_empty() {
            all.remove(id);
        }
        removed.map(|attempt| attempt.cancelled)
    }

    /// Notes how far an attempt has come. Ignored once the attempt is over.
    pub(super) fn set_progress(
        &self,
        id: &ExecutionId,
        attempt_id: &AttemptId,
        progress: ProgressView,
    ) {
        let mut all = self.lock_tasks();
        let attempt = all.get_mut(id).and_then(|tasks| tasks.attempts.get_mut(attempt_id));
        if let Some(attempt) = attempt {
            attempt.progress = Some(progress);
        }
    }

    /// How far the attempts in flight for an execution have come, of those that report it.
    pub(super) fn list_progress(&self, id: &ExecutionId) -> Vec<(AttemptId, ProgressView)> {
        let all = self.lock_tasks();
        let attempts = all.get(id).into_iter().flat_map(|tasks| &tasks.attempts);
        attempts.filter_map(|(id, attempt)| Some((id.clone(), attempt.progress.clone()?))).collect()
    }

    /// Waits for the tasks in flight, at most [`limits::ATTEMPTS_GRACE`], and then cancels them. Attempts that still
    /// wait for a permit are put off, because the server is stopping.
    pub(super) async fn stop(&self) {
        self.tasks.close();
        let ended = tokio::time::timeout(limits::ATTEMPTS_GRACE, self.tasks.wait()).await;
        if ended.is_err() {
            tracing::warn!(
                "some operations were still at work at the end; what may be done twice is begun again at the next start"
            );
            self.shutdown.cancel();
            // A cancelled task ends at its next await. A task that never awaits is not waited for any longer.
            let _ = tokio::time::timeout(limits::ATTEMPTS_GRACE, self.tasks.wait()).await;
        }
    }
}

/// Runs one attempt, from its wait for a permit until its outcome is recorded.
async fn run_attempt_task(
    shared: Arc<Shared>,
    id: ExecutionId,
    begin: AttemptRequest,
    announcement: Option<Announcement>,
    [cancelled, postponed]: [CancellationToken; 2],
) {
    let attempt_id = begin.attempt_id.clone();
    tokio::select! {
        biased;
        () = cancelled.cancelled() => {}
        () = attempt_and_report(&shared, &id, begin, announcement, [&cancelled, &postponed]) => {
            shared.runner.remove_attempt(&id, &attempt_id);
        }
    }
}

/// The context of an attempt, without its input; `None` if the execution is not in the store.
async fn build_attempt_context(
    shared: &Arc<Shared>,
    id: &ExecutionId,
    begin: &AttemptRequest,
    cancelled: &CancellationToken,
) -> Result<Option<Context>> {
    let Some(execution) = shared.find_durable_execution(id).await? else {
        return Ok(None);
    };
    let source = shared.add_definition(execution).await?;
    Ok(Some(attempt::build_context(&source, begin, cancelled.clone(), shared)))
}

async fn attempt_and_report(
    shared: &Arc<Shared>,
    id: &ExecutionId,
    begin: AttemptRequest,
    announcement: Option<Announcement>,
    [cancelled, postponed]: [&CancellationToken; 2],
) {
    let attempt_id = begin.attempt_id.clone();
    if let Some(announcement) = announcement {
        match children::wait_for_child(shared, id, begin, announcement).await {
            ChildWaitResult::Ended(outcome) => {
                let outcome = Arc::new(outcome);
                let command = Command::RecordOutcome { attempt_id, outcome, notes: Arc::default() };
                report_until_accepted(shared, id, command).await;
            }
            ChildWaitResult::HeldBack { root } => {
                // Remove the attempt first: a resume starts only attempts that are not in flight.
                shared.runner.remove_attempt(id, &attempt_id);
                children::hold_back_children(shared, &root, id).await;
            }
            ChildWaitResult::Abandoned => {}
        }
        // Settle the orders that are still pending, for example for a child that never started.
        shared.runner.start_order_delivery(shared, id);
        return;
    }
    let runner = &shared.runner;
    let permit = tokio::select! {
        biased;
        // This process does not run such steps, so another process must.
        () = std::future::ready(()), if runner.executors.cannot_run_step(&begin.step_kind) => None,
        () = shared.stopping.cancelled() => None,
        () = postponed.cancelled() => None,
        permit = runner.attempt_permits.acquire() => permit.ok(),
    };
    if permit.is_some() {
        runner.begin_running(id, &attempt_id);
    }
    let context = match permit {
        Some(_) => build_attempt_context(shared, id, &begin, cancelled).await,
        None => Ok(None),
    };
    let context = context.inspect_err(|error| {
        tracing::error!(execution = %id, %error, "an attempt is put off: its execution cannot be read");
    });
    let Ok(Some(context)) = context else {
        let command = Command::PostponeAttempt { attempt_id };
        report_until_accepted(shared, id, command).await;
        return;
    };
    let activity = runner.executors.find_activity(&begin.step_kind);
    let observed = activity.map(|activity| (activity, context.clone()));
    let (outcome, notes) = Box::pin(attempt::run(shared, context, begin)).await;
    drop(permit);
    let (outcome, notes) = (Arc::new(outcome), Arc::new(notes));
    let command = Command::RecordOutcome { attempt_id, outcome: outcome.clone(), notes };
    report_until_accepted(shared, id, command).await;
    if let Some((activity, context)) = observed {
        attempt::call_lifecycle_methods(activity.activity(), &context, &outcome).await;
    }
}
