//! Memory for requests and replies. If the byte budget is exhausted, the connection that holds a part of it and has
//! kept the server waiting longest is cut.

use std::sync::Arc;

use super::{
    budget::{Budget, BudgetKind, BudgetShare},
    connections::{Connection, Connections, Evictable},
};
use midex_domain::{error::Result, limits};

/// The byte budget, and the connections that may be cut to free a part of it.
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    /// The limits and their current use.
    pub budget: Arc<Budget>,
    /// The connections that hold shares of the budget.
    pub connections: Arc<Connections>,
}

impl MemoryBudget {
    /// Enlarges `share` by `amount` for a body that this connection sends. If the budget has no room, waits up to
    /// [`limits::HTTP_ROOM_MAX`].
    ///
    /// # Errors
    /// `SERVER_BUSY` if no room was freed in time.
    pub(crate) async fn grow_share(
        &self,
        share: &mut BudgetShare,
        amount: usize,
        connection: &Connection,
    ) -> Result<()> {
        if share.grow_share(amount).is_err() {
            // A client whose body waits for room waits for the server. So connections that wait for room do not cut
            // each other.
            connection.set_held_up(true);
            let wait = self.wait_for_memory(share, amount, connection);
            let wait_result = tokio::time::timeout(limits::HTTP_ROOM_MAX, wait).await;
            if wait_result.is_err() {
                share.grow_share(amount)?;
            }
            connection.set_held_up(false);
        }
        connection.count_received_bytes(amount);
        Ok(())
    }

    async fn wait_for_memory(
        &self,
        share: &mut BudgetShare,
        amount: usize,
        connection: &Connection,
    ) {
        loop {
            let released = self.budget.release_notification();
            tokio::pin!(released);
            // Enabled before the check, so that a release in between is not missed.
            released.as_mut().enable();
            if share.grow_share(amount).is_ok() {
                return;
            }
            // A connection that was cut releases its share only a moment later, and a client that has only just been
            // sent a reply may turn out not to read it. So the loop checks again soon.
            self.free_memory(connection);
            let _ = tokio::time::timeout(limits::HTTP_ROOM_LOOK_EVERY, released).await;
        }
    }

    /// Counts `amount` bytes of a reply to this connection. They are in memory already, so they count even past the
    /// limit. Past the limit another connection is cut.
    pub(crate) fn count_reply(&self, amount: usize, connection: &Connection) -> BudgetShare {
        let share = self.budget.count_share(BudgetKind::Bytes, amount);
        if self.budget.is_exceeded(BudgetKind::Bytes) {
            self.free_memory(connection);
        }
        share
    }

    fn free_memory(&self, connection: &Connection) -> bool {
        self.connections.cut_longest_waiting(Evictable::HoldingBytes(connection.number()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_budget() -> MemoryBudget {
        MemoryBudget {
            budget: Arc::default(),
            connections: Arc::new(Connections::new(limits::HTTP_CONNECTIONS_MAX)),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_senders_are_cut_for_room() {
        let room = test_budget();
        let [slow, idle, new] =
            [(); 3].map(|()| room.connections.register_connection().expect("room"));
        let _coming = slow.begin_receiving();
        slow.count_received_bytes(1);
        let mut held = room.budget.count_share(BudgetKind::Bytes, limits::HTTP_BYTES_MAX);
        let mut share = room.budget.count_share(BudgetKind::Bytes, 0);
        let leaving = tokio::spawn({
            let slow = slow.clone();
            async move {
                slow.cut_token().cancelled().await;
                held.release_share();
            }
        });
        room.grow_share(&mut share, 1, &new).await.expect("room was made");
        leaving.await.expect("no panic");
        assert!(!idle.cut_token().is_cancelled() && !new.cut_token().is_cancelled());
        let refused = room.grow_share(&mut share, limits::HTTP_BYTES_MAX, &new).await;
        assert!(refused.is_err(), "nobody else holds any");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_senders_do_not_cut_each_other() {
        let room = test_budget();
        let [one, other, silent] =
            [(); 3].map(|()| room.connections.register_connection().expect("room"));
        let _coming = [&one, &other, &silent].map(Connection::begin_receiving);
        let _all = room.budget.count_share(BudgetKind::Bytes, limits::HTTP_BYTES_MAX);
        let asks = async |connection: &Connection| {
            connection.count_received_bytes(1);
            let mut share = room.budget.count_share(BudgetKind::Bytes, 0);
            room.grow_share(&mut share, 1, connection).await
        };
        let (first, second) = tokio::join!(asks(&one), asks(&other));
        assert!(first.is_err() && second.is_err(), "there is no room");
        for connection in [one, other, silent] {
            assert!(!connection.cut_token().is_cancelled());
        }
    }

    #[test]
    fn unread_reply_is_cut_past_the_limit() {
        let room = test_budget();
        let [stalls, asks] =
            [(); 2].map(|()| room.connections.register_connection().expect("room"));
        let _coming = stalls.begin_receiving();
        stalls.count_received_bytes(1);
        drop(room.count_reply(limits::HTTP_BYTES_MAX, &asks));
        assert!(!stalls.cut_token().is_cancelled());
        drop(room.count_reply(limits::HTTP_BYTES_MAX + 1, &asks));
        assert!(stalls.cut_token().is_cancelled());
    }
}
