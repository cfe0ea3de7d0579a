//! What the replies of a dashboard have in common.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{access::Access, viewer::Viewer};
use midex_domain::limits;

/// What every reply needs.
#[derive(Clone, Debug)]
pub(crate) struct Dashboard {
    pub(crate) access: Arc<Access>,
    pub(crate) viewer: Viewer,
    pub(crate) streams: StreamSlots,
    pub(crate) stop: CancellationToken,
}

/// Limits the number of open streams.
#[derive(Clone, Debug)]
pub(crate) struct StreamSlots(pub(crate) Arc<Semaphore>);

impl Default for StreamSlots {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(limits::DASHBOARD_STREAMS_MAX)))
    }
}
