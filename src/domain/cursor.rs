//! The position in a paginated list that an operation returns.

use serde::{Deserialize, Serialize};

use crate::document::JsonText;

/// A position in a paginated list. Each page is a separate call, which returns the cursor of the next page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageCursor {
    /// How the next page is requested. Only the implementation of [`Operations`](crate::operation::Operations) reads it.
    pub next: JsonText,
    /// Marks by which the implementation recognises a page that the service repeats. Each page returns its own marks;
    /// each call gets the marks of all earlier pages.
    pub seen: Vec<u64>,
}

impl PageCursor {
    /// Replaces the position by that after a further page.
    pub fn advance(&mut self, next: Self) {
        self.next = next.next;
        self.seen.extend(next.seen);
    }
}
