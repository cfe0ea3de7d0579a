//! An execution as `midex show` prints it.

use std::sync::Arc;

use serde_json::Value;

use super::App;
use midex_domain::{
    Definition, ExecutionId,
    error::Result,
    view::{ExecutionView, PastPoint, StatusView},
};

impl App {
    /// The execution as a person is shown it, now or at a point in the past, read at one revision. Writes nothing: expired
    /// tokens stay expired.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND`.
    pub async fn execution_view(
        &self,
        id: &ExecutionId,
        point: Option<PastPoint>,
    ) -> Result<ExecutionView> {
        let mut view = self.engine().await?.execution_view(id, point).await?;
        view.status = self.complete_status(view.status).await;
        if view.status.imported {
            view.effects = self.execution_effects(id).await?;
        }
        Ok(view)
    }

    /// The definition that an execution follows: the file as it was at the start.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND`.
    pub async fn execution_definition(&self, id: &ExecutionId) -> Result<Arc<Definition>> {
        Ok(self.engine().await?.read_execution(id).await?.definition)
    }

    /// The final output of an execution in full; null if it is not completed.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND`.
    pub async fn final_output(&self, id: &ExecutionId) -> Result<Value> {
        Ok(self.engine().await?.final_output(id).await?.unwrap_or_default())
    }

    /// Adds to a status what the engine does not know: a newer definition, and disabled catalogs.
    pub(super) async fn complete_status(&self, status: StatusView) -> StatusView {
        let status = self.add_newer_definition(status).await;
        #[cfg(feature = "catalog")]
        let status = self.add_disabled_catalog_hints(status);
        status
    }
}
