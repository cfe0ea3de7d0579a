//! The connection of a command to a server: the owner of the store, or else a server embedded in this process until the
//! command ends. In both cases the command is an ordinary MCP client.

use std::sync::Arc;

use midex_domain::{
    clock::{SteadyClock, SystemIds},
    error::{Code, Error, Result},
    limits,
};
use midex_mcp::{Process, client::Client, process::LinkCloser};
use midex_server::{
    app::{self, Options},
    config::Config,
};

/// A client of the store's owner, which is another process or this one.
pub(super) struct Session {
    pub(super) client: Client,
    closer: LinkCloser,
}

impl Session {
    /// Connects to the server of the data directory, or opens the store and embeds a server. The embedded server works
    /// on executions only if `is_worker`: a command that ends after one call would interrupt that work.
    ///
    /// # Errors
    /// `STORE_BUSY` if another process owns the store and does not answer; the errors of opening the store.
    pub(super) async fn open(config: &Config, is_worker: bool) -> Result<Self> {
        let (clock, ids) = (Arc::new(SteadyClock::default()), Arc::new(SystemIds));
        let options = Options { is_worker, ..Options::new(config.clone(), clock, ids) };
        let process = Process::for_command(options);
        let mut last_error = Error::internal("no server was asked");
        for _ in 0..limits::LINK_ATTEMPTS_MAX {
            let (input, output, closer) = process.find_owner().await?.into_streams();
            let connect = Client::connect(input, output);
            match tokio::time::timeout(limits::CONTROL_PREAMBLE_MAX, connect).await {
                Ok(Ok(client)) => return Ok(Self { client, closer }),
                // The server went away before any call.
                Ok(Err(error)) if error.code() == Code::ServerStopping => last_error = error,
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(app::store_busy_error(&config.data_dir)),
            }
        }
        Err(last_error)
    }

    /// Whether this process owns the store, so that other processes connect to it.
    pub(super) fn is_embedded(&self) -> bool {
        self.closer.is_directory_owner()
    }

    /// Ends the session, and closes the store if this process owns it.
    pub(super) async fn close(self) -> Result<()> {
        let result = self.client.stop().await;
        self.closer.close().await?;
        result
    }
}
