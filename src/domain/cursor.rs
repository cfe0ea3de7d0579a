//! The position in a list of an operation that comes in pages.

use serde::{Deserialize, Serialize};

use crate::document::Document;

/// A position in a paginated list, each page of which is a call of its own. A page returns the cursor of the next one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// How the next page is requested. Only the implementation of [`Operations`](crate::operation::Operations) reads it.
    pub next: Document,
    /// Marks by which the implementation recognises a page that the service repeats. A page returns the new ones; a call
    /// is given those of all pages before it.
    pub seen: Vec<u64>,
}

impl Cursor {
    /// Replaces the position by that after a further page.
    pub fn advance(&mut self, next: Self) {
        self.next = next.next;
        self.seen.extend(next.seen);
    }
}
