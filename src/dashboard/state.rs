//! The state that the handlers of a dashboard share.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{access::Access, viewer::Viewer};

/// The state that each handler gets.
#[derive(Clone)]
pub(crate) struct Dashboard {
    pub(crate) access: Arc<Access>,
    pub(crate) viewer: Viewer,
    /// A permit for each stream that may be open.
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) stop: CancellationToken,
}
