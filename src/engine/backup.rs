//! Backups of the store of an engine.

use std::path::PathBuf;

use super::Engine;
use crate::store::BackupReport;
use midex_domain::error::Result;

impl Engine {
    /// Makes a backup at `target` with everything that was stored before the call.
    ///
    /// # Errors
    /// As [`Store::back_up`](crate::store::Store::back_up).
    pub async fn back_up(&self, target: PathBuf) -> Result<BackupReport> {
        self.shared.store.back_up(target).await
    }
}
