//! Follows which executions this process owns, where several servers share a store.

use std::{collections::HashMap, sync::Arc};

use super::{Shared, deadlines, notifier::Listener, supervisor::SupervisorMessage};
use midex_domain::{ExecutionId, Sequence, limits};

/// Stops the work on executions that another server may own now or is to own, and schedules the deadlines of those that this process has
/// begun to own, until the engine stops.
pub(super) async fn follow_ownership(shared: Arc<Shared>) {
    let list_busy = {
        let shared = Arc::downgrade(&shared);
        Box::new(move || shared.upgrade().map(|it| it.runner.list_busy()).unwrap_or_default())
    };
    let Some(mut changes) = shared.store.watch_ownership(list_busy) else {
        return;
    };
    loop {
        tokio::select! {
            biased;
            () = shared.stopping.cancelled() => return,
            changed = changes.changed() => if changed.is_err() {
                return;
            },
        }
        shared.runner.cancel_attempts_of(|id| shared.store.owner(id).is_err());
        shared.runner.postpone_attempts_of(|id| shared.store.is_leaving(id));
        if let Some(supervisor) = shared.supervisor.get() {
            // Fails only where the supervisor has ended.
            let _ = supervisor.cast(SupervisorMessage::StopLost);
        }
        // The database may not answer for long. A change meanwhile is handled at once, and schedules the deadlines anew.
        tokio::select! {
            () = deadlines::schedule_stored_deadlines(shared.clone()) => {}
            changed = changes.changed() => if changed.is_ok() {
                changes.mark_changed();
            },
        }
    }
}

impl Shared {
    /// Waits until something that the listener follows has changed. Where several servers share the store, it returns after
    /// [`limits::OTHER_SERVERS_READ_EVERY`] in any case: a change may have been missed while its shard went from one server to another.
    pub(super) async fn wait_for_change(&self, listener: &Listener) {
        let changed = listener.wait_for_change();
        if self.peers.is_some() {
            let _ = tokio::time::timeout(limits::OTHER_SERVERS_READ_EVERY, changed).await;
        } else {
            changed.await;
        }
    }
}

/// Notifies the listeners of executions that other servers have moved, until the engine stops. Asks nothing while there are no
/// listeners.
pub(super) async fn follow_other_servers(shared: Arc<Shared>) {
    if shared.peers.is_none() {
        return;
    }
    let mut known: HashMap<ExecutionId, Sequence> = HashMap::new();
    loop {
        tokio::select! {
            biased;
            () = shared.stopping.cancelled() => return,
            () = tokio::time::sleep(limits::OTHER_SERVERS_FOLLOWED_EVERY) => {}
        }
        if !shared.notifier.has_subscriptions() {
            known.clear();
            continue;
        }
        let since = known.values().max().copied();
        let moved = match shared.store.list_moved_elsewhere(since).await {
            Ok(moved) => moved,
            Err(error) => {
                tracing::debug!(%error, "other servers cannot be followed now");
                continue;
            }
        };
        for (key, id) in &moved {
            if known.get(id) != Some(key) {
                shared.notifier.notify(id);
            }
        }
        if !moved.is_empty() {
            known = moved.into_iter().map(|(key, id)| (id, key)).collect();
        }
    }
}
