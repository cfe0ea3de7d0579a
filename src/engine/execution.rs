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
        let seen = self.see_execution(id).await?;
        let mut rows = self.rows(id).await?;
        // The execution may have moved since `see`.
        rows.retain(|row| row.revision <= seen.execution.revision());
        let artifacts = view::artifacts(rows.iter(), None);
        Ok(ExecutionView {
            status: self.status_of(&seen).await?,
            history: self.history_of(&rows).await?,
            artifacts: artifacts.into_iter().map(|(view, _)| view).collect(),
            current_step: self.build_view(&seen, None, view::current_step_for_people).await?,
            graph: Some(self.build_view(&seen, None, GraphView::of_execution).await?),
        })
    }
}
