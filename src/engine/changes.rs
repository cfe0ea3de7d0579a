//! Who waits for an execution to move, whether it is awake or not.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use crate::domain::ExecutionId;

type Listeners = HashMap<ExecutionId, watch::Sender<u64>>;

/// Revisions as they become durable, to whoever listens. Holds nothing of executions nobody listens to.
#[derive(Clone, Default)]
pub(super) struct Changes(Arc<Mutex<Listeners>>);

impl Changes {
    fn lock(&self) -> MutexGuard<'_, Listeners> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to listen.
    pub(super) fn listen(&self, id: &ExecutionId) -> Listening {
        let mut listeners = self.lock();
        let sender = listeners
            .entry(id.clone())
            .or_insert_with(|| watch::channel(0).0);
        Listening {
            id: id.clone(),
            changes: self.clone(),
            revisions: Some(sender.subscribe()),
        }
    }

    /// The execution stands at `revision`, and the disk knows.
    pub(super) fn tell(&self, id: &ExecutionId, revision: u64) {
        if let Some(sender) = self.lock().get(id) {
            sender.send_replace(revision);
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.lock().len()
    }
}

/// Somebody who listens to one execution.
pub(super) struct Listening {
    id: ExecutionId,
    changes: Changes,
    /// Gone only while this is being dropped.
    revisions: Option<watch::Receiver<u64>>,
}

impl Listening {
    /// Waits until the execution stands past `revision`.
    pub(super) async fn past(&mut self, revision: u64) {
        if let Some(revisions) = &mut self.revisions {
            // The sender lives as long as somebody listens.
            let _ = revisions.wait_for(|now| *now > revision).await;
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut listeners = self.changes.lock();
        // Under the lock, so that of two who leave at once the second finds nobody.
        drop(self.revisions.take());
        if listeners
            .get(&self.id)
            .is_some_and(|sender| sender.receiver_count() == 0)
        {
            listeners.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_listens_is_told_and_nothing_is_left_behind() {
        let changes = Changes::default();
        let id = ExecutionId::parse("one").expect("an id");
        changes.tell(&id, 1);
        let (mut one, two) = (changes.listen(&id), changes.listen(&id));
        changes.tell(&id, 2);
        one.past(1).await;
        assert_eq!(changes.len(), 1);
        drop(two);
        assert_eq!(changes.len(), 1);
        drop(one);
        assert_eq!(changes.len(), 0);
    }
}
