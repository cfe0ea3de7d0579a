//! Removal of executions that have ended.

use super::App;
use midex_domain::{ExecutionId, error::Result};
use midex_engine::{Cleanup, store::StoreStats};

impl App {
    /// Removes an execution that has ended: see [`Engine::delete`](midex_engine::Engine::delete).
    ///
    /// # Errors
    /// As [`Engine::delete`](midex_engine::Engine::delete).
    pub async fn delete(&self, id: &ExecutionId) -> Result<Vec<ExecutionId>> {
        self.engine().await?.delete(id).await
    }

    /// Removes executions that have ended: see [`Engine::clean_up`](midex_engine::Engine::clean_up).
    ///
    /// # Errors
    /// Those of the store.
    pub async fn clean_up(&self, cleanup: Cleanup) -> Result<usize> {
        self.engine().await?.clean_up(cleanup).await
    }

    /// How many executions there are, by workflow and state.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn stats(&self) -> Result<StoreStats> {
        self.engine().await?.stats().await
    }
}
