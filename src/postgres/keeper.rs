//! The task that renews the leases.

use std::sync::Arc;

use tokio::{task::JoinHandle, time::Instant};
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use crate::{
    connection::Connector,
    error::no_answer_error,
    lease::{Leases, now},
};
use midex_domain::error::Result;

/// Renews the leases until the store is closed or dropped, and gives them back after the last write.
pub(crate) struct LeaseKeeper {
    /// Missing after a renewal that failed.
    client: Option<Client>,
    connector: Connector,
    leases: Arc<Leases>,
    renewed_at: Instant,
}

impl LeaseKeeper {
    /// Renews the leases for the first time, and takes shards. If there is no free one, waits for up to twice the time of a
    /// lease: a server that ended just now may not have given its shards back.
    ///
    /// # Errors
    /// Those of the database.
    pub(crate) async fn start(
        client: Client,
        connector: Connector,
        leases: Arc<Leases>,
    ) -> Result<Self> {
        let begin = now();
        let options = leases.options();
        leases.check_address(&client).await?;
        leases.renew(&client).await?;
        leases.remove_old_servers(&client).await?;
        let mut keeper = Self { client: Some(client), connector, leases, renewed_at: begin };
        loop {
            keeper.keep().await?;
            if !keeper.leases.list().is_empty() || begin.elapsed() >= options.duration * 2 {
                return Ok(keeper);
            }
            tokio::time::sleep(options.look_every()).await;
        }
    }

    /// Runs until `stop` is cancelled and `writer` has ended. Cancels `stopped` at the end.
    pub(crate) async fn run(
        mut self,
        mut writer: JoinHandle<()>,
        stop: CancellationToken,
        stopped: CancellationToken,
    ) {
        let _stopped = stopped.drop_guard();
        let leases = self.leases.clone();
        let pause = || tokio::time::sleep(leases.options().look_every());
        let keep = async {
            while stop.run_until_cancelled(pause()).await.is_some() {
                self.keep_or_warn().await;
            }
        };
        tokio::select! {
            () = keep => {}
            () = leases.watch_end() => {}
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
                () = pause() => self.keep_or_warn().await,
            }
        }
        let Some(client) = &self.client else {
            return;
        };
        if let Err(error) = self.leases.release(client).await {
            tracing::warn!(%error, "the shards were not given back: they are free once their leases end");
        }
    }

    async fn keep_or_warn(&mut self) {
        if let Err(error) = self.keep().await {
            tracing::warn!(%error, "the leases of the shards are not kept");
        }
    }

    /// Renews the leases if that is due, and shares the shards with the other servers. A connection that does not answer in
    /// time is not used again.
    async fn keep(&mut self) -> Result<()> {
        let options = self.leases.options();
        let kept = tokio::time::timeout(options.renew_every, self.renew_and_share());
        kept.await.unwrap_or_else(|_| Err(no_answer_error()))
    }

    async fn renew_and_share(&mut self) -> Result<()> {
        let client = match self.client.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.connector.connect().await?,
        };
        if self.renewed_at.elapsed() >= self.leases.options().renew_every {
            let begin = now();
            self.leases.renew(&client).await?;
            self.renewed_at = begin;
        }
        self.leases.share(&client).await?;
        self.client = Some(client);
        Ok(())
    }
}
