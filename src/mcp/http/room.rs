//! Room for what clients send: where there is none, whoever keeps the server waiting with what it has sent or not
//! taken makes some.

use std::sync::Arc;

use super::{
    budget::{Budget, Share},
    connections::{Connections, Of},
};
use crate::error::Result;

/// The budget, and those who may have to give some of it back.
#[derive(Clone, Debug)]
pub(super) struct Room {
    pub(super) budget: Arc<Budget>,
    pub(super) connections: Arc<Connections>,
}

impl Room {
    /// Takes more of what a share is of.
    ///
    /// # Errors
    /// `SERVER_BUSY` where there is no more and nobody who could give some back.
    pub(super) async fn grow(&self, share: &mut Share, bytes: usize) -> Result<()> {
        loop {
            match share.grow(bytes) {
                Err(error) if !self.connections.make_room(Of::Bytes) => return Err(error),
                // What was cut gives back what it had.
                Err(_) => self.budget.freed().await,
                Ok(()) => return Ok(()),
            }
        }
    }
}
