//! A cluster in a midex that was built without the feature `postgres`: `--store`, `migrate-store` and `publish` are refused.

use std::future::{Ready, ready};

use tokio_util::sync::CancellationToken;

use super::{ClusterArgs, MigrateStoreArgs};
use crate::{Output, publish::Files};
use midex_domain::error::{Code, Error, Result};
use midex_server::app::{App, Options};

/// Has no values: a server without PostgreSQL is never part of a cluster.
pub(crate) enum ClusterMember {}

impl ClusterArgs {
    /// Refuses `--store`.
    ///
    /// # Errors
    /// `USAGE_INVALID`.
    pub(crate) fn join(&self, _: &mut Options) -> Result<Option<ClusterMember>> {
        if self.store.is_none() {
            return Ok(None);
        }
        Err(absent_error("--store"))
    }
}

/// Refuses `midex migrate-store`.
///
/// # Errors
/// `USAGE_INVALID`.
pub(crate) async fn migrate_store(_: MigrateStoreArgs, _: Output<'_>) -> Result<u8> {
    Err(absent_error("migrate-store"))
}

/// Refuses `midex publish`.
///
/// # Errors
/// `USAGE_INVALID`.
pub(crate) fn publish_files(_: &str, _: &Files) -> Ready<Result<(u64, Files)>> {
    ready(Err(absent_error("publish")))
}

fn absent_error(what: &str) -> Error {
    let message = format!("this midex was built without PostgreSQL, so {what} cannot be used");
    Error::new(Code::UsageInvalid, message)
        .with_action("Install one with it, from its sources: `cargo install --path . --locked --features postgres`")
}

impl ClusterMember {
    /// Is never called.
    pub(crate) fn serve(self, _: App, _: CancellationToken) -> Ready<()> {
        match self {}
    }
}
