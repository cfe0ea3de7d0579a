//! Everything that `midex show` prints of an execution, read at one revision.

use super::Engine;
use midex_domain::{
    ExecutionId,
    error::Result,
    view::{self, ExecutionView, GraphView},
};

impl Engine {
    /// The execution as a person is shown it: every part is of the same revision. Wakes no actor, and writes nothing.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND`.
    pub async fn execution_view(&self, id: &ExecutionId) -> Result<ExecutionView> {
        let durable = self.read_execution(id).await?;
        let mut rows = self.load_rows(id).await?;
        // The execution may have moved since `see`.
        rows.retain(|row| row.revision <= durable.execution.revision());
        let artifacts = view::artifact_views(rows.iter(), None);
        Ok(ExecutionView {
            status: self.build_status(&durable).await?,
            history: self.build_history(&rows).await?,
            artifacts: artifacts.into_iter().map(|(view, _)| view).collect(),
            current_step: self.build_view(&durable, None, view::current_step_for_people).await?,
            graph: Some(self.build_view(&durable, None, GraphView::from_execution).await?),
        })
    }
}
