//! Back-pressure for one client: it may have so many calls unanswered and so many bytes of replies
//! untaken; past that, its next call is not read. Nobody is refused, nobody else is slowed.

use std::{
    collections::HashSet,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use rmcp::model::RequestId;
use tokio::sync::Notify;

use crate::limits;

/// What one client has outstanding.
#[derive(Debug, Default)]
pub(super) struct Gate {
    calls: Mutex<HashSet<RequestId>>,
    unsent_bytes: AtomicUsize,
    changed: Notify,
}

impl Gate {
    fn calls(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call was read; false where one with this id is still unanswered.
    pub(super) fn admit(&self, id: RequestId) -> bool {
        self.calls().insert(id)
    }

    /// A call needs no answer any more: it was answered and the answer taken, or it was cancelled.
    pub(super) fn settle(&self, id: &RequestId) {
        self.calls().remove(id);
        self.changed.notify_waiters();
    }

    /// A reply waits to be taken.
    pub(super) fn queue(&self, bytes: usize) {
        self.unsent_bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    /// A reply was taken.
    pub(super) fn sent(&self, bytes: usize) {
        self.unsent_bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    /// Waits until the next call may be read.
    pub(super) async fn open(&self) {
        self.wait(|gate| {
            gate.calls().len() < limits::CLIENT_CALLS_MAX
                && gate.unsent_bytes.load(Ordering::Acquire) < limits::CLIENT_UNSENT_BYTES_MAX
        })
        .await;
    }

    /// Waits until everything is answered and taken.
    pub(super) async fn idle(&self) {
        self.wait(|gate| gate.calls().is_empty() && gate.unsent_bytes.load(Ordering::Acquire) == 0)
            .await;
    }

    async fn wait(&self, done: impl Fn(&Self) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before looking, so that no change between is missed.
            changed.as_mut().enable();
            if done(self) {
                return;
            }
            changed.await;
        }
    }
}
