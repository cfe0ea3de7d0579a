//! The live actors. Every call reads the directory, and only the supervisor writes to it.

use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicI64, Ordering},
    },
};

use ractor::{ActorId, ActorRef};
use tokio::sync::watch;

use super::{DurableExecution, message::ActorMessage};
use crate::store::Store;
use midex_domain::{ExecutionId, clock::Timestamp, event::OwnerEpoch};

/// A live actor.
#[derive(Clone)]
pub(super) struct LiveActor {
    pub(super) id: ExecutionId,
    pub(super) actor: ActorRef<ActorMessage>,
    owner: OwnerEpoch,
    durable_receiver: watch::Receiver<Option<DurableExecution>>,
    last_used_at: Arc<AtomicI64>,
}

impl LiveActor {
    pub(super) fn new(
        id: ExecutionId,
        actor: ActorRef<ActorMessage>,
        owner: OwnerEpoch,
        durable_receiver: watch::Receiver<Option<DurableExecution>>,
        now: Timestamp,
    ) -> Self {
        Self {
            id,
            actor,
            owner,
            durable_receiver,
            last_used_at: Arc::new(AtomicI64::new(now.milliseconds())),
        }
    }

    fn record_use(&self, now: Timestamp) {
        self.last_used_at.store(now.milliseconds(), Ordering::Relaxed);
    }

    /// Whether this process has owned the execution since the actor began.
    pub(super) fn is_owned(&self, store: &dyn Store) -> bool {
        store.owner(&self.id).is_ok_and(|owner| owner == self.owner)
    }

    /// When the actor was last asked for.
    pub(super) fn last_used_at(&self) -> Timestamp {
        Timestamp::from_milliseconds(self.last_used_at.load(Ordering::Relaxed))
    }

    /// Whether the actor has ever published a state.
    pub(super) fn has_state(&self) -> bool {
        self.durable_receiver.borrow().is_some()
    }

    /// Whether its execution has ended.
    pub(super) fn is_finished(&self) -> bool {
        self.durable_receiver.borrow().as_ref().is_some_and(|seen| seen.execution.has_ended())
    }
}

/// Live actors by execution.
#[derive(Default)]
pub(super) struct ActorDirectory(RwLock<HashMap<ExecutionId, LiveActor>>);

impl ActorDirectory {
    fn read(&self) -> RwLockReadGuard<'_, HashMap<ExecutionId, LiveActor>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The live actor of an execution, unless another process may have owned the execution since it began. Records the time of
    /// this use.
    pub(super) fn find_actor(
        &self,
        id: &ExecutionId,
        now: Timestamp,
        store: &dyn Store,
    ) -> Option<ActorRef<ActorMessage>> {
        let entries = self.read();
        let entry = entries.get(id).filter(|entry| entry.is_owned(store))?;
        entry.record_use(now);
        Some(entry.actor.clone())
    }

    /// The live actor of an execution that this process does not own, or owns again after another process may have owned it: its
    /// state may be stale.
    pub(super) fn find_stale_actor(&self, id: &ExecutionId, store: &dyn Store) -> Option<ActorId> {
        let entries = self.read();
        let entry = entries.get(id).filter(|entry| !entry.is_owned(store))?;
        Some(entry.actor.get_id())
    }

    /// The state that the live actor of an execution last made durable; `None` if there is no actor, if it has made none durable
    /// yet, or if another process may have owned the execution since it began.
    pub(super) fn last_durable_state(
        &self,
        id: &ExecutionId,
        store: &dyn Store,
    ) -> Option<DurableExecution> {
        let entries = self.read();
        let entry = entries.get(id).filter(|entry| entry.is_owned(store))?;
        entry.durable_receiver.borrow().clone()
    }

    /// How many actors are awake.
    pub(super) fn len(&self) -> usize {
        self.read().len()
    }

    /// Every live actor.
    pub(super) fn entries(&self) -> Vec<LiveActor> {
        self.read().values().cloned().collect()
    }

    pub(super) fn insert(&self, entry: LiveActor) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(entry.id.clone(), entry);
    }

    /// Removes the entry of an execution, if it is this actor's.
    pub(super) fn remove(&self, id: &ExecutionId, actor: ActorId) -> Option<LiveActor> {
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        entries.get(id).filter(|entry| entry.actor.get_id() == actor)?;
        entries.remove(id)
    }
}
