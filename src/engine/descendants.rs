//! Counts the open executions below each root, whose number is bounded, and tracks the children that parents announced:
//! a reply may name a child before it has begun.
//!
//! Invariant: no child begins before the open executions of the store have been counted, so the bound also holds after
//! a restart.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{OnceCell, watch};

use crate::store::{ListQuery, Store};
use midex_domain::{
    Execution, ExecutionId, PauseReason,
    error::{Code, Error, Result, address, read_resource},
    limits,
};

/// The families of one engine. A family is a root and the executions below it.
pub(super) struct Descendants {
    families: Mutex<Families>,
    counted: OnceCell<()>,
    pub(super) open_max: usize,
}

#[derive(Default)]
struct Families {
    /// Families by their root.
    by_root: HashMap<ExecutionId, Family>,
    /// The executions that ended while the store is being counted: a page that was read earlier may still list them as
    /// open.
    ended: Option<HashSet<ExecutionId>>,
    /// Children that are about to begin. The sender is dropped once the child has begun, or will not begin.
    announcements: HashMap<ExecutionId, watch::Sender<()>>,
    /// Why children have not begun, the latest last.
    not_begun: VecDeque<(ExecutionId, Error)>,
}

#[derive(Default)]
struct Family {
    /// Executions that are open or about to begin. The value says whether the execution is durable.
    open: HashMap<ExecutionId, bool>,
    /// Parents that may start no more children before the root is resumed.
    held_back: BTreeSet<ExecutionId>,
}

impl Families {
    /// Changes a family, and removes it once it is empty.
    fn change_family<T>(&mut self, root: &ExecutionId, change: impl FnOnce(&mut Family) -> T) -> T {
        let family = self.by_root.entry(root.clone()).or_default();
        let result = change(family);
        if family.open.is_empty() && family.held_back.is_empty() {
            self.by_root.remove(root);
        }
        result
    }

    /// Counts an execution that the store holds as open.
    fn count_execution(&mut self, execution: &Execution) {
        let has_ended = |id: &ExecutionId| self.ended.as_ref().is_some_and(|all| all.contains(id));
        if has_ended(execution.id()) {
            return;
        }
        for child in execution.awaited_children() {
            if !has_ended(&child) {
                self.announcements.entry(child).or_default();
            }
        }
        if let Some(parent) = execution.parent() {
            let id = execution.id().clone();
            self.change_family(&parent.root, |family| family.open.insert(id, true));
        }
    }
}

impl Descendants {
    pub(super) fn new(open_max: usize) -> Self {
        Self { families: Mutex::default(), counted: OnceCell::new(), open_max }
    }

    fn lock_families(&self) -> MutexGuard<'_, Families> {
        self.families.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the open executions of the store, once.
    ///
    /// # Errors
    /// Those of the store; the next caller counts again.
    pub(super) async fn count_open_executions(&self, store: &dyn Store) -> Result<()> {
        let counted = self.counted.get_or_try_init(async || {
            self.lock_families().ended = Some(HashSet::new());
            let mut query = ListQuery {
                open_only: true,
                limit: limits::LIST_LIMIT_MAX,
                ..ListQuery::default()
            };
            loop {
                let page = store.list(query.clone()).await?;
                let mut families = self.lock_families();
                page.executions.iter().for_each(|(_, one)| families.count_execution(one));
                query.before = page.next_key;
                if query.before.is_none() {
                    families.ended = None;
                    return Ok(());
                }
            }
        });
        counted.await.copied()
    }

    /// Records the durable state of an execution. If it is a root that is not over its budget, returns the parents
    /// below it whose children were held back.
    pub(super) fn record_execution(&self, execution: &Execution) -> BTreeSet<ExecutionId> {
        let (id, is_final) = (execution.id(), execution.has_ended());
        let mut families = self.lock_families();
        if let Some(parent) = execution.parent() {
            if is_final && let Some(ended) = &mut families.ended {
                ended.insert(id.clone());
            }
            families.change_family(&parent.root, |family| {
                if is_final { family.open.remove(id) } else { family.open.insert(id.clone(), true) }
            });
        } else if families.by_root.contains_key(id) && !is_over_budget(execution) {
            return families.change_family(id, |family| mem::take(&mut family.held_back));
        }
        BTreeSet::new()
    }

    /// Reserves room below the root for an announced child. Returns false if the maximum number of executions is open.
    pub(super) fn reserve_room(&self, root: &ExecutionId, announcement: &mut Announcement) -> bool {
        let is_admitted = self.lock_families().change_family(root, |family| {
            let has_room = family.open.len() < self.open_max;
            if has_room {
                family.open.entry(announcement.child.clone()).or_insert(false);
            }
            has_room
        });
        announcement.root = is_admitted.then(|| root.clone());
        is_admitted
    }

    /// Records that the parent is to start children as soon as the root is resumed.
    pub(super) fn hold_back_children(&self, root: &ExecutionId, parent: &ExecutionId) {
        let parent = parent.clone();
        self.lock_families().change_family(root, |family| family.held_back.insert(parent));
    }

    /// Announces a child. Readers of the child wait until the announcement ends.
    pub(super) fn announce(self: &Arc<Self>, child: ExecutionId) -> Announcement {
        self.lock_families().announcements.entry(child.clone()).or_default();
        Announcement { descendants: self.clone(), child, root: None }
    }

    /// Records why a child of `parent` has not begun, for readers of the child.
    pub(super) fn note_not_begun(&self, child: &ExecutionId, parent: &ExecutionId, reason: &str) {
        let message = format!("execution '{child}' has not begun: {reason}");
        let error = Error::new(Code::ExecutionNotFound, message)
            .with_context("execution_id", parent.as_str())
            .with_next(read_resource(
                address!("workflow_status/{execution_id}"),
                "it tells how the execution stands that it would be a child of",
            ));
        let all = &mut self.lock_families().not_begun;
        if all.len() >= limits::CHILDREN_NOT_BEGUN_KEPT_MAX {
            all.pop_front();
        }
        all.push_back((child.clone(), error));
    }

    /// Waits until an announced child has begun, or will not begin.
    ///
    /// # Errors
    /// Why it has not begun, where that is known; `SERVER_BUSY` where it takes too long.
    pub(super) async fn wait_until_begun(&self, child: &ExecutionId) -> Result<()> {
        let announcement_end =
            self.lock_families().announcements.get(child).map(watch::Sender::subscribe);
        if let Some(mut announcement_end) = announcement_end {
            // Nothing is ever sent: the sender is dropped.
            let ended =
                tokio::time::timeout(limits::CHILD_BEGIN_WAIT_MAX, announcement_end.changed());
            if ended.await.is_err() {
                let seconds = limits::CHILD_BEGIN_WAIT_MAX.as_secs();
                let message = format!(
                    "execution '{child}' was announced and has not begun within {seconds} s"
                );
                return Err(Error::new(Code::ServerBusy, message));
            }
        }
        let families = self.lock_families();
        let reason = families.not_begun.iter().rev().find(|(id, _)| id == child);
        reason.map_or(Ok(()), |(_, error)| Err(error.clone()))
    }
}

/// Whether an execution is paused because the maximum number of executions is open below it.
pub(super) fn is_over_budget(root: &Execution) -> bool {
    root.pauses().contains(&PauseReason::Budget)
}

/// Announces that a child is about to begin, and keeps its room below the root, until the child is durable or will not
/// begin.
pub(super) struct Announcement {
    descendants: Arc<Descendants>,
    child: ExecutionId,
    root: Option<ExecutionId>,
}

impl Announcement {
    /// Ends the waits of readers, and frees the room of a child that has not become durable.
    pub(super) fn end_announcement(&mut self) {
        let mut families = self.descendants.lock_families();
        families.announcements.remove(&self.child);
        if let Some(root) = self.root.take() {
            families.change_family(&root, |family| {
                if family.open.get(&self.child) == Some(&false) {
                    family.open.remove(&self.child);
                }
            });
        }
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        self.end_announcement();
    }
}
