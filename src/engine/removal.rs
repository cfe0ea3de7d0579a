//! Removal of executions that have ended: on request, and by the retention of the program. Contents that no other execution
//! names are freed later, in the background.

use std::{sync::Arc, time::Duration};

use super::{DurableExecution, Engine, Shared, message::ActorMessage};
use crate::store::{ContentSweep, ListQuery, StoreStats};
use midex_domain::{
    Execution, ExecutionId,
    clock::Timestamp,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// The number of ended executions that are kept, children not counted.
    pub max_sessions: Option<usize>,
    /// How long an execution is kept after its end.
    pub ttl: Option<Duration>,
}

impl From<Retention> for Cleanup {
    fn from(retention: Retention) -> Self {
        Self { older_than: retention.ttl, keep: retention.max_sessions }
    }
}

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
        let _turn = self.shared.removals.write().await;
        let mut family = vec![self.read_execution(id).await?];
        if let Some(parent) = family[0].execution.parent() {
            let parent = self.shared.find_durable_execution(&parent.execution_id).await?;
            check_ended(id, parent.as_deref(), "its parent")?;
        }
        let mut next = 0;
        while let Some(DurableExecution { execution, definition }) = family.get(next).cloned() {
            check_ended(id, Some(&execution), if next == 0 { "it" } else { "its child" })?;
            for fork in self.shared.store.load_forks(execution.id(), usize::MAX).await? {
                let fork = self.shared.find_durable_execution(&fork).await?;
                check_ended(id, fork.as_deref(), "its fork")?;
            }
            for child in execution.child_ids(&definition) {
                if let Some(child) = self.shared.find_durable_execution(&child).await? {
                    family.push(self.shared.add_definition(child).await?);
                }
            }
            next += 1;
        }
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
        self.shared.sweep_requested.notify_one();
        Ok(removed)
    }

    /// Removes executions that have ended, with their children. One that cannot be removed because a fork of it is open is
    /// passed over. Returns how many were removed, children not counted.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn clean_up(&self, cleanup: Cleanup) -> Result<usize> {
        let mut removed = 0;
        if cleanup == Cleanup::default() {
            return Ok(removed);
        }
        for id in self.find_expired_executions(cleanup).await? {
            match self.delete(&id).await {
                Ok(_) => removed += 1,
                Err(error) if is_passed_over(error.code()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(removed)
    }

    /// How many executions there are, by workflow and state.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn stats(&self) -> Result<StoreStats> {
        self.shared.store.stats().await
    }

    /// The roots that a clean-up removes, the one that ended first in front.
    async fn find_expired_executions(&self, cleanup: Cleanup) -> Result<Vec<ExecutionId>> {
        let now = self.shared.clock.now();
        let mut ended: Vec<(Timestamp, ExecutionId)> = Vec::new();
        let mut query =
            ListQuery { roots_only: true, limit: limits::LIST_LIMIT_MAX, ..ListQuery::default() };
        loop {
            let page = self.shared.store.list(query.clone()).await?;
            let executions = page.executions.iter().filter(|(_, execution)| execution.is_over());
            ended.extend(executions.filter_map(|(_, execution)| {
                Some((execution.completed_at()?, execution.id().clone()))
            }));
            query.before = page.next_key;
            if query.before.is_none() {
                break;
            }
        }
        ended.sort_unstable();
        let excess = cleanup.keep.map_or(0, |keep| ended.len().saturating_sub(keep));
        let is_old = |at: &Timestamp| cleanup.older_than.is_some_and(|age| now.since(*at) > age);
        let expired = ended.into_iter().enumerate();
        let expired = expired.filter(|(index, (at, _))| *index < excess || is_old(at));
        Ok(expired.map(|(_, (_, id))| id).collect())
    }
}

fn is_passed_over(code: Code) -> bool {
    code == Code::ExecutionStillOpen || code.is_missing_execution()
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

/// Frees contents after deletions, and applies the retention, until the engine stops.
pub(super) async fn serve_removals(engine: Engine, retention: Option<Retention>) {
    let shared = engine.shared.clone();
    let mut ticks = tokio::time::interval(limits::RETENTION_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = shared.stopping.cancelled() => return,
            () = shared.sweep_requested.notified() => {
                // More deletions may follow at once, and one sweep serves all of them.
                tokio::time::sleep(limits::SWEEP_DELAY).await;
            }
            _ = ticks.tick() => {
                let cleanup = retention.unwrap_or_default().into();
                if let Err(error) = engine.clean_up(cleanup).await {
                    tracing::warn!(code = error.code().as_str(), "the retention cannot be applied now");
                }
            }
        }
        if let Err(error) = sweep_contents(&shared).await {
            tracing::warn!(code = error.code().as_str(), "unused contents cannot be freed now");
        }
    }
}

/// Does a whole sweep, with a pause after each slice.
async fn sweep_contents(shared: &Arc<Shared>) -> Result<()> {
    let now = shared.clock.now();
    let mut sweep = ContentSweep::new(now.minus(limits::TOMBSTONE_KEPT));
    while !sweep.is_done() && !shared.stopping.is_cancelled() {
        sweep = shared.store.sweep(sweep).await?;
        tokio::time::sleep(limits::SWEEP_PAUSE).await;
    }
    Ok(())
}

impl Shared {
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
