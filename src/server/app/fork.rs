//! Forks, retries and rewinds, and the past of an execution.

use std::sync::Arc;

use super::App;
use midex_domain::{
    Definition, ExecutionId,
    error::Result,
    execution::{Execution, ForkPlan, RewindRequest},
    view::{
        AdvanceReply, CurrentStep, DefinitionView, DiffView, ForkView, PastPoint, RewindView,
        StatusView,
    },
};
use midex_engine::ForkRequest;

impl App {
    /// Forks or retries an execution. `follows_current`: the new execution follows the present file of its workflow,
    /// else the definition of the source.
    ///
    /// # Errors
    /// As [`midex_engine::Engine::fork`], and those of a start.
    pub async fn fork(
        &self,
        request: ForkRequest,
        follows_current: bool,
    ) -> Result<(ForkView, AdvanceReply)> {
        let engine = self.engine().await?;
        let source = engine.read_execution(&request.execution_id).await?;
        let request = self.with_definition(request, follows_current, &source.execution).await?;
        let definition = request.definition.as_ref().unwrap_or(&source.definition);
        let project = source.execution.project().map(str::to_owned);
        self.prepare_start(definition, project).await?;
        engine.fork(request).await
    }

    /// What [`App::fork`] would do with each step.
    ///
    /// # Errors
    /// As [`midex_engine::Engine::plan_fork`].
    pub async fn plan_fork(&self, request: ForkRequest, follows_current: bool) -> Result<ForkPlan> {
        let engine = self.engine().await?;
        let source = engine.read_execution(&request.execution_id).await?.execution;
        let request = self.with_definition(request, follows_current, &source).await?;
        engine.plan_fork(&request).await
    }

    async fn with_definition(
        &self,
        request: ForkRequest,
        follows_current: bool,
        source: &Execution,
    ) -> Result<ForkRequest> {
        if !follows_current {
            return Ok(request);
        }
        let definition = Some(self.current_definition(source, true).await?);
        Ok(ForkRequest { definition, ..request })
    }

    /// The definition that a new execution of the same workflow would follow: from the directories that the execution
    /// keeps, else from those of the caller. `is_strict`: a file with errors is refused, also where its last good version
    /// is kept.
    async fn current_definition(
        &self,
        execution: &Execution,
        is_strict: bool,
    ) -> Result<Arc<Definition>> {
        let engine = self.engine().await?;
        if let Some(definition) = engine.current_definition(execution, is_strict).await? {
            return Ok(definition);
        }
        let name = execution.workflow().as_str();
        if is_strict {
            self.definitions.check_current_file(name).await?;
        }
        self.definition(name).await
    }

    /// Rewinds an execution to a step.
    ///
    /// # Errors
    /// As [`midex_engine::Engine::rewind`].
    pub async fn rewind(&self, id: &ExecutionId, request: RewindRequest) -> Result<RewindView> {
        self.engine().await?.rewind(id, request).await
    }

    /// What differs between two executions, in pages.
    ///
    /// # Errors
    /// As [`midex_engine::Engine::diff`].
    pub async fn diff(
        &self,
        before: &ExecutionId,
        after: &ExecutionId,
        offset: usize,
    ) -> Result<DiffView> {
        self.engine().await?.diff(before, after, offset).await
    }

    /// The status of an execution at a point in the past.
    ///
    /// # Errors
    /// As [`midex_engine::Engine::read_past_execution`].
    pub async fn past_status(&self, id: &ExecutionId, point: PastPoint) -> Result<StatusView> {
        self.engine().await?.past_status(id, point).await
    }

    /// The current step of an execution at a point in the past, without tokens.
    ///
    /// # Errors
    /// As [`midex_engine::Engine::read_past_execution`].
    pub async fn past_step(&self, id: &ExecutionId, point: PastPoint) -> Result<CurrentStep> {
        self.engine().await?.past_step(id, point).await
    }

    /// Adds the definition of the present file to a status, if it is another one. A file that is gone or broken adds
    /// nothing.
    pub(super) async fn add_newer_definition(&self, mut status: StatusView) -> StatusView {
        let definition = async {
            let id = ExecutionId::parse(&status.execution_id)?;
            let durable = self.engine().await?.read_execution(&id).await?;
            self.current_definition(&durable.execution, false).await
        };
        if let Ok(definition) = definition.await {
            let newer = DefinitionView::new(&definition);
            let is_other = newer.digest != status.definition.digest;
            status.definition.newer = is_other.then(|| Box::new(newer));
        }
        status
    }
}
