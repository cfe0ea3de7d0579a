//! Exports and imports of executions. Only for commands of the user: no tool that an agent can call reaches this.

use std::path::PathBuf;

use super::App;
use midex_domain::{ExecutionId, error::Result};
use midex_engine::{ExportReport, ExportRequest, ImportedExecution};

impl App {
    /// Writes executions to a bundle: see [`Engine::export`](midex_engine::Engine::export).
    ///
    /// # Errors
    /// As [`Engine::export`](midex_engine::Engine::export).
    pub async fn export(&self, request: ExportRequest) -> Result<ExportReport> {
        self.engine().await?.export(request).await
    }

    /// Stores the executions of a bundle in the caller's project: see [`Engine::import`](midex_engine::Engine::import).
    ///
    /// # Errors
    /// As [`Engine::import`](midex_engine::Engine::import).
    pub async fn import(&self, path: PathBuf) -> Result<Vec<ImportedExecution>> {
        let mut imported = self.engine().await?.import(path, self.caller_project()).await?;
        for execution in &mut imported {
            let id = ExecutionId::parse(&execution.execution_id)?;
            execution.effects = self.execution_effects(&id).await?;
        }
        Ok(imported)
    }

    /// What the steps of an execution would call, in words.
    pub(super) async fn execution_effects(&self, id: &ExecutionId) -> Result<Vec<String>> {
        let definition = self.engine().await?.read_execution(id).await?.definition;
        self.describe_effects(definition).await
    }
}
