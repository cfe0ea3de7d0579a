//! The connection of a command to a server: the owner of the store, or else a server embedded in this process until the
//! command ends. In both cases the command is an ordinary MCP client.

use crate::{Process, client::Client, process::LinkCloser};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
};

/// A client of the store's owner, which is another process or this one.
#[derive(Debug)]
pub struct Session {
    /// The client.
    pub client: Client,
    closer: LinkCloser,
}

impl Session {
    /// Connects to the server of the data directory of `process`, or opens the store and embeds a server.
    ///
    /// # Errors
    /// `STORE_BUSY` if another process owns the store and does not answer; the errors of opening the store.
    pub async fn open(process: &Process) -> Result<Self> {
        let mut last_error = Error::internal("no server was asked");
        for _ in 0..limits::LINK_ATTEMPTS_MAX {
            let (input, output, closer) = process.find_owner().await?.into_streams();
            let connect = Client::connect(input, output);
            match tokio::time::timeout(limits::CONTROL_PREAMBLE_MAX, connect).await {
                Ok(Ok(client)) => return Ok(Self { client, closer }),
                // The server went away before any call.
                Ok(Err(error)) if error.code() == Code::ServerStopping => last_error = error,
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(process.suspended_owner_error()),
            }
        }
        Err(last_error)
    }

    /// Whether this process owns the store, so that other processes connect to it.
    pub fn is_embedded(&self) -> bool {
        self.closer.is_directory_owner()
    }

    /// Ends the session, and closes the store if this process owns it.
    ///
    /// # Errors
    /// Those of closing the store, and `INTERNAL` if the session does not end.
    pub async fn close(self) -> Result<()> {
        let result = self.client.stop().await;
        self.closer.close().await?;
        result
    }
}
