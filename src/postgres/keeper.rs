//! The task that renews the leases.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use crate::{connection::Connector, lease::Leases};
use midex_domain::error::{Code, Error, Result};

/// Renews the leases until the store is closed or dropped, and gives them back after the last write.
pub(crate) struct LeaseKeeper {
    /// Missing after a renewal that failed.
    client: Option<Client>,
    connector: Connector,
    leases: Arc<Leases>,
    address: String,
}

impl LeaseKeeper {
    pub(crate) fn new(
        client: Client,
        connector: Connector,
        leases: Arc<Leases>,
        address: String,
    ) -> Self {
        Self { client: Some(client), connector, leases, address }
    }

    /// Runs until `stop` is cancelled and `writer` has ended. Cancels `stopped` at the end.
    pub(crate) async fn run(
        mut self,
        mut writer: JoinHandle<()>,
        stop: CancellationToken,
        stopped: CancellationToken,
    ) {
        let _stopped = stopped.drop_guard();
        let pause = |keeper: &Self| tokio::time::sleep(keeper.leases.renew_every());
        while stop.run_until_cancelled(pause(&self)).await.is_some() {
            self.keep().await;
        }
        // The writer stores the accepted requests while the leases still hold.
        loop {
            tokio::select! {
                ended = &mut writer => {
                    if ended.is_err() {
                        tracing::error!("the store's writer panicked");
                    }
                    break;
                }
                () = pause(&self) => self.keep().await,
            }
        }
        let Some(client) = &self.client else {
            return;
        };
        if let Err(error) = self.leases.release(client).await {
            tracing::warn!(%error, "the shards were not given back: they are free once their leases end");
        }
    }

    /// Renews the leases, and takes shards that are free. A connection that does not answer in time is not used again.
    async fn keep(&mut self) {
        let client = self.client.take();
        let kept = tokio::time::timeout(self.leases.duration(), self.renew(client)).await;
        let error = match kept {
            Ok(Ok(client)) => {
                self.client = Some(client);
                return;
            }
            Ok(Err(error)) => error,
            Err(_) => Error::new(Code::StoreUnavailable, "the database did not answer in time"),
        };
        tracing::warn!(%error, "the leases of the shards were not renewed");
    }

    async fn renew(&self, client: Option<Client>) -> Result<Client> {
        let client = match client.filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.connector.connect().await?,
        };
        let lost = self.leases.renew(&client).await?;
        if lost > 0 {
            tracing::warn!("{lost} shards belong to other servers now");
        }
        self.leases.take_free_shards(&client, &self.address).await?;
        Ok(client)
    }
}
