//! The deadlines of executions, awake or asleep. One timer serves them all, and wakes each execution that is due.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    sync::{Notify, Semaphore},
    time::{Instant, sleep_until},
};

use super::{Shared, message::MessageOrigin};
use midex_domain::{
    Command, ExecutionId,
    clock::Timestamp,
    error::{Code, Error, Result},
    limits,
    span::compute_backoff,
};

/// The next deadline of each execution that has one, ordered by instant and id.
#[derive(Default)]
pub(super) struct Deadlines {
    schedule: Mutex<Schedule>,
    /// Notified when there is a new earliest deadline.
    changed: Notify,
}

#[derive(Default)]
struct Schedule {
    by_due: BTreeSet<(Timestamp, ExecutionId)>,
    due_by_execution: HashMap<ExecutionId, Timestamp>,
    /// How many ticks of an execution failed in a row.
    failure_counts: HashMap<ExecutionId, u32>,
}

impl Schedule {
    fn set(&mut self, id: &ExecutionId, due: Option<Timestamp>) {
        if self.due_by_execution.get(id).copied() == due {
            return;
        }
        if let Some(previous_due) = self.due_by_execution.remove(id) {
            self.by_due.remove(&(previous_due, id.clone()));
        }
        if let Some(due) = due {
            self.due_by_execution.insert(id.clone(), due);
            self.by_due.insert((due, id.clone()));
        }
    }

    fn pop_due(&mut self, now: Timestamp) -> Option<ExecutionId> {
        let (due, _) = self.by_due.first()?;
        if *due > now {
            return None;
        }
        let (_, id) = self.by_due.pop_first()?;
        self.due_by_execution.remove(&id);
        Some(id)
    }
}

impl Deadlines {
    fn lock_schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the next deadline of an execution, or removes it (`None`). Resets the count of its failures.
    pub(super) fn set(&self, id: &ExecutionId, due: Option<Timestamp>) {
        let mut schedule = self.lock_schedule();
        schedule.failure_counts.remove(id);
        self.change_deadline(&mut schedule, id, due);
    }

    fn change_deadline(&self, schedule: &mut Schedule, id: &ExecutionId, due: Option<Timestamp>) {
        let first = schedule.by_due.first().map(|(due, _)| *due);
        schedule.set(id, due);
        if due.is_some_and(|due| first.is_none_or(|first| due < first)) {
            self.changed.notify_one();
        }
    }

    /// Adds a deadline that the store names, unless an earlier one is known.
    fn add_stored_deadline(&self, id: &ExecutionId, due: Timestamp) {
        let mut schedule = self.lock_schedule();
        if schedule.due_by_execution.get(id).is_none_or(|known| due < *known) {
            self.change_deadline(&mut schedule, id, Some(due));
        }
    }

    /// Schedules another tick for an execution whose durable state is unknown, or whose tick failed or changed nothing.
    /// The delay grows with each failure in a row.
    pub(super) fn retry_later(&self, id: &ExecutionId, now: Timestamp) {
        let mut schedule = self.lock_schedule();
        let count = schedule.failure_counts.entry(id.clone()).or_default();
        *count += 1;
        let due = now.plus(compute_backoff(*count, limits::TICK_RETRY_MIN, limits::TICK_RETRY_MAX));
        if schedule.due_by_execution.get(id).is_none_or(|known| due < *known) {
            self.change_deadline(&mut schedule, id, Some(due));
        }
    }

    fn has_deadline(&self, id: &ExecutionId) -> bool {
        self.lock_schedule().due_by_execution.contains_key(id)
    }

    fn reset_failures(&self, id: &ExecutionId) {
        self.lock_schedule().failure_counts.remove(id);
    }

    fn earliest_deadline(&self) -> Option<Timestamp> {
        self.lock_schedule().by_due.first().map(|(due, _)| *due)
    }
}

/// Serves deadlines until the server stops.
pub(super) async fn serve_deadlines(shared: Arc<Shared>) {
    let permits = Arc::new(Semaphore::new(limits::TICKS_AT_ONCE_MAX));
    loop {
        tokio::select! {
            () = shared.stopping.cancelled() => return,
            () = wait_for_next_deadline(&shared) => {}
        }
        loop {
            let Ok(permit) = permits.clone().acquire_owned().await else {
                return;
            };
            let due = shared.deadlines.lock_schedule().pop_due(shared.clock.now());
            let Some(id) = due else { break };
            let shared = shared.clone();
            tokio::spawn(async move {
                send_tick(&shared, id).await;
                drop(permit);
            });
        }
    }
}

/// Waits for the earliest deadline, or until there is an earlier one. The clock may be set and the machine may sleep,
/// so it waits at most [`limits::CLOCK_LOOK_EVERY`] before it returns to look at the clock.
#[expect(clippy::disallowed_methods, reason = "the timer counts from tokio's present")]
async fn wait_for_next_deadline(shared: &Shared) {
    let Some(first) = shared.deadlines.earliest_deadline() else {
        return shared.deadlines.changed.notified().await;
    };
    let pause = first.since(shared.clock.now()).min(limits::CLOCK_LOOK_EVERY);
    tokio::select! {
        () = sleep_until(Instant::now() + pause) => {}
        () = shared.deadlines.changed.notified() => {}
    }
}

async fn send_tick(shared: &Shared, id: ExecutionId) {
    if shared.store.is_leaving(&id) {
        // The next owner of the execution processes this deadline.
        return shared.deadlines.retry_later(&id, shared.clock.now());
    }
    match shared.send(&id, MessageOrigin::External, Command::Tick).await {
        // The actor has scheduled the next deadline.
        Ok(_) => {}
        Err(error) if is_not_worth_retrying(&error) => shared.deadlines.reset_failures(&id),
        Err(error) => {
            tracing::warn!(execution = %id, code = error.code().as_str(), "what is due cannot be done now; it is tried again");
            // The actor may have scheduled a retry already.
            if !shared.deadlines.has_deadline(&id) {
                shared.deadlines.retry_later(&id, shared.clock.now());
            }
        }
    }
}

/// Whether a retry is of no use: the execution does not exist or belongs to another server, a person must act, or the server is
/// stopping.
fn is_not_worth_retrying(error: &Error) -> bool {
    error.code().is_missing_execution()
        || matches!(error.code(), Code::EngineFault | Code::ServerStopping | Code::ShardLost)
}

/// Schedules the executions that wait for a catalog, which may exist now. The store lists them as due.
pub(super) async fn schedule_catalog_waiters(shared: &Shared) -> Result<()> {
    for (id, due) in shared.store.due_executions(shared.clock.now(), usize::MAX).await? {
        shared.deadlines.add_stored_deadline(&id, due);
    }
    Ok(())
}

/// Schedules the open executions that have a deadline, and those whose work was cut off by the end of a process.
/// Nothing waits for this task: an execution that is called meanwhile schedules its own deadline.
pub(super) async fn schedule_stored_deadlines(shared: Arc<Shared>) {
    let mut failures = 0;
    loop {
        let due_executions = tokio::select! {
            () = shared.stopping.cancelled() => return,
            due_executions = shared.store.due_executions(Timestamp::MAX, usize::MAX) => due_executions,
        };
        match due_executions {
            Ok(due_executions) => {
                // A live execution has scheduled its own deadline, and may have moved since the store was read.
                for (id, due) in due_executions {
                    if shared.directory.last_durable_state(&id, &*shared.store).is_none() {
                        shared.deadlines.add_stored_deadline(&id, due);
                    }
                }
                return;
            }
            Err(error) => {
                failures += 1;
                tracing::warn!(
                    code = error.code().as_str(),
                    "open executions cannot be looked for now; it is tried again"
                );
                let pause =
                    compute_backoff(failures, limits::TICK_RETRY_MIN, limits::TICK_RETRY_MAX);
                tokio::select! {
                    () = shared.stopping.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
            }
        }
    }
}
