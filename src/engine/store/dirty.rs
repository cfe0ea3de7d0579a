//! Tracks the executions with journal rows that no snapshot covers yet.

use std::collections::{BTreeSet, HashMap};

use midex_domain::ExecutionId;

/// The last row of an execution that is ahead of its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UncoveredHead {
    /// Its revision.
    pub(super) revision: u64,
    /// The key of its last row.
    pub(super) last_key: u64,
    /// The key of its first row that no snapshot covers.
    pub(super) first_key: u64,
}

/// The heads of all executions that are ahead of their snapshots.
#[derive(Debug, Default)]
pub(super) struct DirtySet {
    by_id: HashMap<ExecutionId, UncoveredHead>,
    first_keys: BTreeSet<u64>,
}

impl DirtySet {
    /// The head of an execution; `None` where its snapshot is current.
    pub(super) fn get(&self, id: &ExecutionId) -> Option<UncoveredHead> {
        self.by_id.get(id).copied()
    }

    /// Records a new row that no snapshot covers.
    pub(super) fn record_row(&mut self, id: &ExecutionId, revision: u64, key: u64) {
        if let Some(head) = self.by_id.get_mut(id) {
            (head.revision, head.last_key) = (revision, key);
            return;
        }
        let head = UncoveredHead { revision, last_key: key, first_key: key };
        self.by_id.insert(id.clone(), head);
        self.first_keys.insert(key);
    }

    /// Records that a current snapshot was written. Returns whether the execution was ahead of its snapshot before.
    pub(super) fn record_snapshot(&mut self, id: &ExecutionId) -> bool {
        let head = self.by_id.remove(id);
        if let Some(head) = head {
            self.first_keys.remove(&head.first_key);
        }
        head.is_some()
    }

    /// The smallest key that no snapshot covers.
    pub(super) fn replay_from(&self) -> Option<u64> {
        self.first_keys.first().copied()
    }

    /// Every head.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&ExecutionId, UncoveredHead)> {
        self.by_id.iter().map(|(id, head)| (id, *head))
    }
}
