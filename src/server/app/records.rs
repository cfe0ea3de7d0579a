//! Removal of executions that have ended, and figures of the store.

use std::time::Duration;

use super::App;
use midex_domain::{ExecutionId, error::Result, limits};
use midex_engine::{
    Cleanup, DurableExecution, PruneReport, PruneRule, StoreStats, store::ClusterStatus,
};
use serde::{Deserialize, Serialize};

/// The progress of a prune that several calls may make.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct PruneProgress {
    /// The executions that the rule is about and its conditions select, children not counted.
    pub selected: usize,
    /// The executions of the rule's project that have ended, children not counted.
    pub ended: usize,
    /// The executions that this call removed.
    pub removed: usize,
    /// Those that it kept, because something that depends on them has not ended, or because they cannot be read.
    pub kept: usize,
    /// Whether the same call has more to remove.
    pub has_more: bool,
}

impl App {
    /// Removes an execution that has ended: see [`Engine::delete`](midex_engine::Engine::delete).
    ///
    /// # Errors
    /// As [`Engine::delete`](midex_engine::Engine::delete).
    pub async fn delete(&self, id: &ExecutionId) -> Result<Vec<ExecutionId>> {
        self.engine().await?.delete(id).await
    }

    /// The execution that [`App::delete`] would remove, and then its children.
    ///
    /// # Errors
    /// As [`App::delete`].
    pub async fn load_deletable_family(&self, id: &ExecutionId) -> Result<Vec<DurableExecution>> {
        self.engine().await?.load_deletable_family(id).await
    }

    /// Removes executions that have ended: see [`Engine::clean_up`](midex_engine::Engine::clean_up).
    ///
    /// # Errors
    /// Those of the store.
    pub async fn clean_up(&self, cleanup: Cleanup) -> Result<usize> {
        self.engine().await?.clean_up(cleanup).await
    }

    /// Removes the executions that a rule selects, for at most [`limits::PRUNE_CALL_MAX`]. Removes nothing if `is_dry_run`.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn prune(&self, rule: PruneRule, is_dry_run: bool) -> Result<PruneProgress> {
        let engine = self.engine().await?;
        let plan = engine.plan_prune(&[rule]).await?;
        let mut progress = PruneProgress {
            selected: plan.ids.len(),
            ended: plan.ended,
            ..PruneProgress::default()
        };
        if is_dry_run {
            return Ok(progress);
        }
        let began_at = self.now();
        let mut portions = plan.ids.chunks(limits::LIST_LIMIT_MAX);
        for ids in portions.by_ref() {
            let PruneReport { removed, kept } = engine.prune(ids.to_vec()).await?;
            progress.removed += removed;
            progress.kept += kept;
            if self.now().since(began_at) >= limits::PRUNE_CALL_MAX {
                break;
            }
        }
        progress.has_more = portions.next().is_some() && progress.removed > 0;
        Ok(progress)
    }

    /// The servers that share the store; `None` if it belongs to this process alone.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn cluster_status(&self) -> Result<Option<ClusterStatus>> {
        self.engine().await?.cluster_status().await
    }

    /// The figures of the store, and how many executions ended longer ago than `age`.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn stats(&self, age: Option<Duration>) -> Result<StoreStats> {
        self.engine().await?.stats(age).await
    }
}
