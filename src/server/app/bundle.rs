//! Exports and imports of executions. Only for commands of the user: no tool that an agent can call reaches this.

use std::path::PathBuf;

use super::App;
use midex_domain::{ExecutionId, State, WorkflowName, error::Result};
use midex_engine::{ExportReport, ExportRequest, ImportedExecution};

/// An imported execution, with what a fork of it would do outside of midex.
#[derive(Clone, Debug)]
pub struct ImportedView {
    /// Its id.
    pub execution_id: ExecutionId,
    /// Its workflow.
    pub workflow: WorkflowName,
    /// Its state in the bundle, which it keeps.
    pub state: State,
    /// Whether it is a child of another one.
    pub is_child: bool,
    /// What its steps would call, in words.
    pub effects: Vec<String>,
}

impl App {
    /// Writes executions to a bundle: see [`Engine::export`](midex_engine::Engine::export).
    ///
    /// # Errors
    /// As [`Engine::export`](midex_engine::Engine::export).
    pub async fn export(&self, request: ExportRequest) -> Result<ExportReport> {
        self.engine().await?.export(request).await
    }

    /// Stores the executions of a bundle: see [`Engine::import`](midex_engine::Engine::import).
    ///
    /// # Errors
    /// As [`Engine::import`](midex_engine::Engine::import).
    pub async fn import(&self, path: PathBuf) -> Result<Vec<ImportedView>> {
        let mut imported = Vec::new();
        for execution in self.engine().await?.import(path).await? {
            let ImportedExecution { execution_id, workflow, state, is_child } = execution;
            let effects = self.execution_effects(&execution_id).await?;
            imported.push(ImportedView { execution_id, workflow, state, is_child, effects });
        }
        Ok(imported)
    }

    /// What the steps of an execution would call, in words.
    pub(super) async fn execution_effects(&self, id: &ExecutionId) -> Result<Vec<String>> {
        let definition = self.engine().await?.read_execution(id).await?.definition;
        self.describe_effects(definition).await
    }
}
