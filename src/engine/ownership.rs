//! Follows which executions this process owns, where several servers share a store.

use std::sync::Arc;

use super::{Shared, deadlines, supervisor::SupervisorMessage};

/// Stops the work on executions that another server may own now, and schedules the deadlines of those that this process has
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
        if let Some(supervisor) = shared.supervisor.get() {
            // Fails only where the supervisor has ended.
            let _ = supervisor.cast(SupervisorMessage::StopLost);
        }
        deadlines::schedule_stored_deadlines(shared.clone()).await;
    }
}
