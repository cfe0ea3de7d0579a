//! Who looks at a page, and what the rendering of pages needs.

use std::sync::Arc;

use midex_domain::clock::{Clock, IdSource, Timestamp};

use crate::source::ServerConnection;

/// The person in front of the browser, and what pages are made with.
#[derive(Clone)]
pub(crate) struct Viewer {
    pub(crate) source: Arc<ServerConnection>,
    /// The name that is recorded with what this person does.
    pub(crate) person: Arc<str>,
    /// Must come back with every form.
    pub(crate) form_token: Arc<str>,
    /// Whether nothing can be changed.
    pub(crate) is_read_only: bool,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn IdSource>,
}

impl Viewer {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}
