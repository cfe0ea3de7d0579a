//! The flags of a cluster in a midex that was built without the feature `postgres`: `--store` is refused.

use std::future::Ready;

use tokio_util::sync::CancellationToken;

use super::ClusterArgs;
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
        let message = "this midex was built without PostgreSQL, so --store cannot be used";
        Err(Error::new(Code::UsageInvalid, message)
            .with_action("Install one with it: `cargo install midex --features postgres`"))
    }
}

impl ClusterMember {
    /// Is never called.
    pub(crate) fn serve(self, _: App, _: CancellationToken) -> Ready<()> {
        match self {}
    }
}
