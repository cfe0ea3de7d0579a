//! Removal of executions that have ended: on request, and by the retention of the program. Contents that no other execution
//! names are freed later, in the background.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Mutex, Notify, RwLock, RwLockWriteGuard};

use super::{
    DurableExecution, Engine, Shared,
    message::ActorMessage,
    prune::{PruneReport, PruneRule},
};
use crate::store::ContentSweep;
use midex_domain::{
    Execution, ExecutionId,
    error::{Code, Error, Result},
    limits,
};

/// Which executions a clean-up removes: those that meet one of these conditions. An open execution is never removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleanup {
    /// Those that ended longer ago than this.
    pub older_than: Option<Duration>,
    /// All but this number of those that ended last.
    pub keep: Option<usize>,
}

/// How long executions are kept after their end. The default keeps them for ever.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// The number of ended executions that are kept, children not counted.
    pub max_sessions: Option<usize>,
    /// How long an execution is kept after its end.
    pub ttl: Option<Duration>,
    /// Rules for executions of some workflows, or in some states.
    pub rules: Vec<PruneRule>,
}

impl Retention {
    async fn apply(&self, engine: &Engine) -> Result<()> {
        engine.clean_up(Cleanup { older_than: self.ttl, keep: self.max_sessions }).await?;
        if !self.rules.is_empty() {
            engine.apply_rules(&self.rules).await?;
        }
        Ok(())
    }
}

/// What removals, imports and exports wait for, and what the background work on removals is notified of.
#[derive(Debug, Default)]
pub(super) struct RemovalSignals {
    /// Whether there is a retention.
    has_retention: AtomicBool,
    /// The executions that ended since the retention last looked for those to remove.
    ended: AtomicUsize,
    /// Those that it kept.
    kept: AtomicUsize,
    /// Notified after the retention was applied.
    applied: Notify,
    /// Notified once so many executions ended that the retention is applied before its time.
    many_ended: Notify,
    /// Notified after deletions, so that contents are freed.
    sweep_requested: Notify,
    /// Held during a sweep and during an import, whose contents no row names at first.
    pub(super) sweeps: Mutex<()>,
    /// Held for reading during an export and an import, and for writing by a deletion or a purge.
    pub(super) bundles: RwLock<()>,
}

impl RemovalSignals {
    /// Counts an execution that has ended.
    pub(super) fn count_ended(&self) {
        if self.ended.fetch_add(1, Ordering::Relaxed) + 1 == self.ended_due() {
            self.many_ended.notify_one();
        }
    }

    /// The number of executions after whose end the retention is applied again.
    fn ended_due(&self) -> usize {
        (self.kept.load(Ordering::Relaxed) / RETENTION_SHARE).max(limits::RETENTION_ENDED_MIN)
    }

    /// Delays a start if executions end faster than the retention removes them: otherwise the store would grow beyond what
    /// the retention allows.
    pub(super) async fn wait_for_retention(&self) {
        let applied = self.applied.notified();
        let ended_max = self.ended_due() + limits::RETENTION_BACKLOG_MAX;
        if self.has_retention.load(Ordering::Relaxed)
            && self.ended.load(Ordering::Relaxed) > ended_max
        {
            // An old store may have much to remove at first, which must not stop the starts.
            let _ = tokio::time::timeout(limits::RETENTION_DELAYS_START_MAX, applied).await;
        }
    }

    /// Lets the contents that no row names be freed soon.
    pub(super) fn request_sweep(&self) {
        self.sweep_requested.notify_one();
    }

    fn set_kept(&self, kept: usize) {
        self.kept.store(kept, Ordering::Relaxed);
    }
}

/// The retention is applied again once this share of the executions that it kept has ended, one of so many: to look at all of
/// them costs time.
const RETENTION_SHARE: usize = 50;

impl Engine {
    /// Removes an execution that has ended, with its children. For seven days, calls that name it get `EXECUTION_DELETED`.
    /// Returns the ids of the removed executions.
    ///
    /// # Errors
    /// `EXECUTION_STILL_OPEN` if it, a child, its parent or a fork of it has not ended (nothing is removed);
    /// `EXECUTION_NOT_FOUND`, `EXECUTION_DELETED`, and those of the store. If the store fails in the midst, the execution is
    /// still there, and the same call removes the rest.
    pub async fn delete(&self, id: &ExecutionId) -> Result<Vec<ExecutionId>> {
        // No fork of the execution is being prepared, and no purge counts it among the holders of a content.
        let _turn = self.shared.lock_removals().await;
        self.delete_family(id).await
    }

    /// The execution and its children, which [`Engine::delete`] would remove now.
    ///
    /// # Errors
    /// As [`Engine::delete`].
    pub async fn load_deletable_family(&self, id: &ExecutionId) -> Result<Vec<DurableExecution>> {
        let family = self.read_family(id).await?;
        if let Some(parent) = family[0].execution.parent() {
            let parent = self.shared.find_durable_execution(&parent.execution_id).await?;
            check_ended(id, parent.as_deref(), "its parent")?;
        }
        for (position, DurableExecution { execution, .. }) in family.iter().enumerate() {
            let role = if position == 0 { "it" } else { "its child" };
            check_ended(id, Some(execution), role)?;
            for fork in self.shared.store.load_forks(execution.id(), usize::MAX).await? {
                let fork = self.shared.find_durable_execution(&fork).await?;
                check_ended(id, fork.as_deref(), "its fork")?;
            }
        }
        Ok(family)
    }

    /// The execution and all that are below it, each after its parent.
    pub(super) async fn read_family(&self, id: &ExecutionId) -> Result<Vec<DurableExecution>> {
        let mut family = vec![self.read_execution(id).await?];
        let mut next = 0;
        while let Some(DurableExecution { execution, definition }) = family.get(next).cloned() {
            for child in execution.child_ids(&definition) {
                if let Some(child) = self.shared.find_durable_execution(&child).await? {
                    family.push(self.shared.add_definition(child).await?);
                }
            }
            next += 1;
        }
        Ok(family)
    }

    /// Like [`Engine::delete`], for a caller who holds the turn of removals.
    pub(super) async fn delete_family(&self, id: &ExecutionId) -> Result<Vec<ExecutionId>> {
        let family = self.load_deletable_family(id).await?;
        // Children go first: as long as the execution is there, the call can be repeated.
        let mut removed = Vec::new();
        for DurableExecution { execution, .. } in family.into_iter().rev() {
            let id = execution.id().clone();
            match self.send_message(&id, |reply| ActorMessage::Delete { reply }).await {
                // An earlier delivery of the message removed it, and its answer was lost.
                Err(error) if error.code().is_missing_execution() => {}
                answer => drop(answer?),
            }
            self.shared.notifier.notify(&id);
            removed.push(id);
        }
        removed.reverse();
        self.shared.removal_signals.request_sweep();
        Ok(removed)
    }

    /// Removes executions that have ended, with their children. One that cannot be removed because a fork of it is open is
    /// passed over. Returns how many were removed, children not counted.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn clean_up(&self, cleanup: Cleanup) -> Result<usize> {
        let rules = [
            PruneRule { older_than: cleanup.older_than, ..PruneRule::default() },
            PruneRule { keep_total: cleanup.keep, ..PruneRule::default() },
        ];
        let mut removed = 0;
        for rule in rules.into_iter().filter(PruneRule::has_condition) {
            removed += self.apply_rules(&[rule]).await?.removed;
        }
        Ok(removed)
    }

    async fn apply_rules(&self, rules: &[PruneRule]) -> Result<PruneReport> {
        let plan = self.plan_prune(rules).await?;
        let ended_left = plan.ended.saturating_sub(plan.ids.len());
        let report = self.prune(plan.ids).await?;
        self.shared.removal_signals.set_kept(ended_left);
        Ok(report)
    }
}

/// Refuses the deletion of `id` if this relative has not ended.
fn check_ended(id: &ExecutionId, relative: Option<&Execution>, role: &str) -> Result<()> {
    let Some(open) = relative.filter(|execution| !execution.is_over()) else {
        return Ok(());
    };
    let name = if open.id() == id { String::new() } else { format!(" '{}'", open.id()) };
    let message = format!("execution '{id}' cannot be deleted: {role}{name} has not ended");
    Err(open
        .with_execution_context(Error::new(Code::ExecutionStillOpen, message))
        .with_context("execution_id", open.id().as_str()))
}

/// Starts the background work on removals and on the index.
pub(super) fn spawn_services(engine: &Engine, retention: Option<Retention>) {
    engine.shared.removal_signals.has_retention.store(retention.is_some(), Ordering::Relaxed);
    tokio::spawn(serve_removals(engine.clone(), retention));
    tokio::spawn(serve_index(engine.shared.clone()));
}

/// Frees contents after deletions, and applies the retention, until the engine stops.
async fn serve_removals(engine: Engine, retention: Option<Retention>) {
    let shared = engine.shared.clone();
    let mut ticks = tokio::time::interval(limits::RETENTION_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let is_due = tokio::select! {
            biased;
            () = shared.stopping.cancelled() => return,
            () = shared.removal_signals.many_ended.notified() => true,
            _ = ticks.tick() => true,
            () = shared.removal_signals.sweep_requested.notified() => {
                // More deletions may follow at once, and one sweep serves all of them.
                let many_ended = shared.removal_signals.many_ended.notified();
                tokio::time::timeout(limits::SWEEP_DELAY, many_ended).await.is_ok()
            }
        };
        if is_due {
            apply_retention(&engine, retention.as_ref()).await;
        }
        if let Err(error) = sweep_contents(&shared).await {
            tracing::warn!(code = error.code().as_str(), "unused contents cannot be freed now");
        }
    }
}

async fn apply_retention(engine: &Engine, retention: Option<&Retention>) {
    let Some(retention) = retention else {
        return;
    };
    let signals = &engine.shared.removal_signals;
    signals.ended.store(0, Ordering::Relaxed);
    if let Err(error) = retention.apply(engine).await {
        tracing::warn!(code = error.code().as_str(), "the retention cannot be applied now");
    }
    signals.applied.notify_waiters();
}

/// Keeps the index of executions up to date until the engine stops. Nothing waits for it.
async fn serve_index(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(limits::INDEX_CHECKED_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut completed_at = shared.clock.now();
    loop {
        tokio::select! {
            biased;
            () = shared.stopping.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let now = shared.clock.now();
        let is_complete = now.since(completed_at) < limits::INDEX_COMPLETED_EVERY;
        let rows_min = if is_complete { limits::INDEX_LAG_MAX } else { 1 };
        match update_index(&shared, rows_min).await {
            Ok(()) if !is_complete => completed_at = now,
            Ok(()) => {}
            Err(error) => {
                tracing::warn!(
                    code = error.code().as_str(),
                    "the index cannot follow the journal now"
                );
            }
        }
    }
}

/// Makes the index follow the journal as far as there are `rows_min` rows, with a pause after each step.
async fn update_index(shared: &Shared, rows_min: u64) -> Result<()> {
    while !shared.stopping.is_cancelled() && shared.store.update_index(rows_min).await? {
        tokio::time::sleep(limits::SWEEP_PAUSE).await;
    }
    Ok(())
}

/// Does a whole sweep, with a pause after each slice.
async fn sweep_contents(shared: &Arc<Shared>) -> Result<()> {
    let _turn = shared.removal_signals.sweeps.lock().await;
    let now = shared.clock.now();
    let mut sweep = ContentSweep::new(now.minus(limits::TOMBSTONE_KEPT));
    while !sweep.is_done() && !shared.stopping.is_cancelled() {
        sweep = shared.store.sweep(sweep).await?;
        tokio::time::sleep(limits::SWEEP_PAUSE).await;
    }
    if sweep.has_more() {
        shared.removal_signals.request_sweep();
    }
    Ok(())
}

impl Shared {
    /// Refuses to go on with long work while the engine stops.
    ///
    /// # Errors
    /// `SERVER_STOPPING`.
    pub(super) fn check_running(&self) -> Result<()> {
        if self.stopping.is_cancelled() { Err(super::server_stopping_error()) } else { Ok(()) }
    }

    /// The turn of a deletion or a purge. It waits for exports and imports before it asks for the turn that forks need too, so
    /// that they do not wait for an export.
    pub(super) async fn lock_removals(
        &self,
    ) -> (RwLockWriteGuard<'_, ()>, RwLockWriteGuard<'_, ()>) {
        let bundles = self.removal_signals.bundles.write().await;
        (bundles, self.removals.write().await)
    }

    /// The refusal of a call whose execution does not exist, or does not exist any more.
    pub(super) async fn not_found_error(&self, id: &ExecutionId) -> Error {
        match self.store.load_tombstone(id).await {
            Err(error) => error,
            Ok(Some(at)) if self.clock.now().since(at) <= limits::TOMBSTONE_KEPT => {
                let message = format!("Execution '{id}' was deleted at {at}");
                Error::new(Code::ExecutionDeleted, message).with_context("asked", id.as_str())
            }
            Ok(_) => super::execution_not_found(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// How long a start is delayed after so many executions have ended.
    #[expect(clippy::disallowed_methods, reason = "the paused clock of a test")]
    async fn measure_delay(has_retention: bool, ended: usize) -> Duration {
        let signals = RemovalSignals::default();
        signals.has_retention.store(has_retention, Ordering::Relaxed);
        for _ in 0..ended {
            signals.count_ended();
        }
        let begin = Instant::now();
        signals.wait_for_retention().await;
        begin.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn starts_wait_only_for_a_retention_that_is_far_behind() {
        let ended_max = limits::RETENTION_ENDED_MIN + limits::RETENTION_BACKLOG_MAX;
        assert_eq!(measure_delay(true, ended_max).await, Duration::ZERO);
        assert_eq!(measure_delay(false, ended_max + 1).await, Duration::ZERO);
        assert_eq!(measure_delay(true, ended_max + 1).await, limits::RETENTION_DELAYS_START_MAX);
    }

    #[tokio::test(start_paused = true)]
    #[expect(clippy::disallowed_methods, reason = "the paused clock of a test")]
    async fn starts_go_on_once_the_retention_was_applied() {
        let signals = Arc::new(RemovalSignals::default());
        signals.has_retention.store(true, Ordering::Relaxed);
        signals.ended.store(usize::MAX / 2, Ordering::Relaxed);
        let (begin, waiting) = (Instant::now(), signals.clone());
        let start = tokio::spawn(async move { waiting.wait_for_retention().await });
        tokio::task::yield_now().await;
        signals.applied.notify_waiters();
        start.await.expect("no panic");
        assert_eq!(begin.elapsed(), Duration::ZERO);
    }
}
