//! Room for what clients send and are sent: where there is none, whoever holds some of it and keeps the server
//! waiting longest makes some.

use std::sync::Arc;

use super::{
    budget::{Budget, Kind, Share},
    connections::{Connection, Connections, Evictable},
};
use midex_domain::{error::Result, limits};

/// The budget, and those who may have to give some of it back.
#[derive(Clone, Debug)]
pub struct Room {
    /// The limits, and what is taken of them.
    pub budget: Arc<Budget>,
    /// The connections that may have to give some of it back.
    pub connections: Arc<Connections>,
}

impl Room {
    /// Takes so many bytes more for what this connection sends, and waits for room where there is none.
    ///
    /// # Errors
    /// `SERVER_BUSY` where there is none in time.
    pub(crate) async fn grow(
        &self,
        share: &mut Share,
        amount: usize,
        connection: &Connection,
    ) -> Result<()> {
        if share.grow(amount).is_err() {
            // It waits for the server meanwhile, as others do: none of them goes for another.
            connection.hold_up(true);
            let waited = self.wait_to_grow(share, amount, connection);
            let waited = tokio::time::timeout(limits::HTTP_ROOM_MAX, waited).await;
            if waited.is_err() {
                share.grow(amount)?;
            }
            connection.hold_up(false);
        }
        connection.received(amount);
        Ok(())
    }

    async fn wait_to_grow(&self, share: &mut Share, amount: usize, connection: &Connection) {
        loop {
            let freed = self.budget.freed();
            tokio::pin!(freed);
            // Enabled before the look, so that what is given back in between is not missed.
            freed.as_mut().enable();
            if share.grow(amount).is_ok() {
                return;
            }
            // What is cut gives back what it had in a moment; who has only just been given a reply may turn out to
            // take none of it.
            self.make(connection);
            let _ = tokio::time::timeout(limits::HTTP_ROOM_LOOK_EVERY, freed).await;
        }
    }

    /// Counts so many bytes that this connection is to be sent. They are there already; past the limit somebody else
    /// goes for them.
    pub(crate) fn count(&self, amount: usize, connection: &Connection) -> Share {
        let share = self.budget.count(Kind::Bytes, amount);
        if self.budget.is_over(Kind::Bytes) {
            self.make(connection);
        }
        share
    }

    fn make(&self, connection: &Connection) -> bool {
        self.connections
            .make_room(Evictable::ThoseWithBytes(connection.number()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room() -> Room {
        Room {
            budget: Arc::default(),
            connections: Arc::new(Connections::new(limits::HTTP_CONNECTIONS_MAX)),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_sends_slowly_goes_for_who_needs_the_room_and_the_idle_stay() {
        let room = room();
        let [slow, idle, new] = [(); 3].map(|()| room.connections.enter().expect("room"));
        let _coming = slow.receive();
        slow.received(1);
        let mut held = room.budget.count(Kind::Bytes, limits::HTTP_BYTES_MAX);
        let mut share = room.budget.count(Kind::Bytes, 0);
        let leaving = tokio::spawn({
            let slow = slow.clone();
            async move {
                slow.cut().cancelled().await;
                held.release();
            }
        });
        room.grow(&mut share, 1, &new).await.expect("room was made");
        leaving.await.expect("no panic");
        assert!(!idle.cut().is_cancelled() && !new.cut().is_cancelled());
        let refused = room.grow(&mut share, limits::HTTP_BYTES_MAX, &new).await;
        assert!(refused.is_err(), "nobody else holds any");
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_for_room_do_not_cut_each_other_nor_who_has_sent_nothing() {
        let room = room();
        let [one, other, silent] = [(); 3].map(|()| room.connections.enter().expect("room"));
        let _coming = [&one, &other, &silent].map(Connection::receive);
        let _all = room.budget.count(Kind::Bytes, limits::HTTP_BYTES_MAX);
        let asks = async |connection: &Connection| {
            connection.received(1);
            let mut share = room.budget.count(Kind::Bytes, 0);
            room.grow(&mut share, 1, connection).await
        };
        let (first, second) = tokio::join!(asks(&one), asks(&other));
        assert!(first.is_err() && second.is_err(), "there is no room");
        for connection in [one, other, silent] {
            assert!(!connection.cut().is_cancelled());
        }
    }

    #[test]
    fn a_reply_past_the_limit_is_at_the_cost_of_one_that_is_not_taken() {
        let room = room();
        let [stalls, asks] = [(); 2].map(|()| room.connections.enter().expect("room"));
        let _coming = stalls.receive();
        stalls.received(1);
        drop(room.count(limits::HTTP_BYTES_MAX, &asks));
        assert!(!stalls.cut().is_cancelled());
        drop(room.count(limits::HTTP_BYTES_MAX + 1, &asks));
        assert!(stalls.cut().is_cancelled());
    }
}
