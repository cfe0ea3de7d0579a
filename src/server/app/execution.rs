//! An execution as `midex show` prints it.

use super::App;
use midex_domain::{ExecutionId, error::Result, view::ExecutionView};

impl App {
    /// The execution as a person is shown it, read at one revision. Writes nothing: expired tokens stay expired.
    ///
    /// # Errors
    /// `EXECUTION_NOT_FOUND`.
    pub async fn execution_view(&self, id: &ExecutionId) -> Result<ExecutionView> {
        let mut view = self.engine().await?.execution_view(id).await?;
        view.status = self.add_newer_definition(view.status).await;
        #[cfg(feature = "catalog")]
        let shown = ExecutionView { status: self.add_disabled_catalog_hints(view.status), ..view };
        Ok(shown)
    }
}
