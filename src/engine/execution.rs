//! Everything that `midex show` prints of an execution, read at one revision.

use super::Engine;
use midex_domain::{
    ExecutionId,
    error::Result,
    view::{self, ExecutionView, GraphView, PastPoint},
};

impl Engine {
    /// The execution as a person is shown it, now or at a point in the past: every part is of the same revision. Wakes no
    /// actor, and writes nothing.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND`.
    pub async fn execution_view(
        &self,
        id: &ExecutionId,
        point: Option<PastPoint>,
    ) -> Result<ExecutionView> {
        let (durable, rows) = if let Some(point) = point {
            self.read_past_execution(id, point).await?
        } else {
            let durable = self.read_execution(id).await?;
            let mut rows = self.load_rows(id).await?;
            // The execution may have moved since it was read.
            rows.retain(|row| row.revision <= durable.execution.revision());
            (durable, rows)
        };
        let artifacts = view::artifact_views(rows.iter(), None);
        let mut current_step =
            self.build_view(&durable, None, view::current_step_for_people).await?;
        if point.is_some() || durable.execution.is_imported() {
            current_step.remove_tokens();
        }
        let status = self.build_status(&durable).await?;
        let final_output = if status.final_output_truncated {
            self.build_view(&durable, None, view::full_output).await?
        } else {
            None
        };
        Ok(ExecutionView {
            final_output,
            status,
            effects: Vec::new(),
            history: self.build_history(&durable.definition, &rows).await?,
            artifacts: artifacts.into_iter().map(|(view, _)| view).collect(),
            current_step,
            graph: Some(self.build_view(&durable, None, GraphView::from_execution).await?),
        })
    }
}
