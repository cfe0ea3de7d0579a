//! Room for what clients send: where there is none, whoever keeps the server waiting longest makes some.

use std::sync::Arc;

use super::{
    budget::{Budget, Kind, Share},
    connections::Connections,
};
use crate::error::Result;

/// The budget, and those who may have to give some of it back.
#[derive(Clone, Debug)]
pub(super) struct Room {
    pub(super) budget: Arc<Budget>,
    pub(super) connections: Arc<Connections>,
}

impl Room {
    /// Takes a share.
    ///
    /// # Errors
    /// `SERVER_BUSY` where there is none and nobody who could give some back in time.
    pub(super) async fn take(&self, kind: Kind, amount: usize) -> Result<Share> {
        let mut share = self.budget.take(kind, 0)?;
        self.grow_by(&mut share, amount).await.map(|()| share)
    }

    /// Takes more of the same.
    ///
    /// # Errors
    /// As [`Room::take`].
    pub(super) async fn grow(&self, share: &mut Share, amount: usize) -> Result<()> {
        self.grow_by(share, amount).await
    }

    async fn grow_by(&self, share: &mut Share, amount: usize) -> Result<()> {
        loop {
            match share.grow(amount) {
                Err(error) if !self.connections.make_room() => return Err(error),
                // What was cut gives back what it had.
                Err(_) => self.budget.freed().await,
                Ok(()) => return Ok(()),
            }
        }
    }
}
