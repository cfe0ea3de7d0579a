//! The connection of a command to a server: the one that owns the store, or else a server embedded in this process for as
//! long as the command lasts. Either way the command is an MCP client like any other.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    app::App,
    clock::{SteadyClock, SystemIds},
    config::Config,
    error::{Code, Error, Result},
    limits,
    mcp::{self, LineTransport, client::Client, control},
};

/// The buffer between a command and its embedded server.
const PIPE_BYTES: usize = 256 << 10;

/// A client, and the embedded server if no other process runs one.
pub(super) struct Session {
    pub(super) client: Client,
    server: Option<Embedded>,
}

struct Embedded {
    app: App,
    stop: CancellationToken,
    socket: JoinHandle<()>,
}

impl Session {
    /// Connects to the server of the data directory, or opens the store and embeds a server.
    ///
    /// # Errors
    /// `STORE_BUSY` if another process owns the store and does not answer; the errors of opening the store.
    pub(super) async fn open(config: &Config) -> Result<Self> {
        let app = App::new(
            config.clone(),
            Arc::new(SteadyClock::default()),
            Arc::new(SystemIds),
        );
        let mut busy = None;
        for _ in 0..limits::CONTROL_ATTEMPTS_MAX {
            match control::connect(config).await {
                Ok(Some(client)) => {
                    return Ok(Self {
                        client,
                        server: None,
                    });
                }
                Ok(None) => {}
                // The server went away before it was asked anything.
                Err(error) if error.code() == Code::ServerStopping => {}
                Err(error) => return Err(error),
            }
            match app.open().await {
                Ok(()) => return Self::embed(app).await,
                // The owner of the store is just starting, or just stopping.
                Err(error) if error.code() == Code::StoreBusy => busy = Some(error),
                Err(error) => return Err(error),
            }
            tokio::time::sleep(limits::STORE_RETRY_EVERY / 4).await;
        }
        Err(busy.unwrap_or_else(|| {
            Error::internal("nobody owns the store, and it could not be opened")
        }))
    }

    /// Whether this process owns the store, so that other servers find it busy.
    pub(super) fn is_embedded(&self) -> bool {
        self.server.is_some()
    }

    async fn embed(app: App) -> Result<Self> {
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        let stop = CancellationToken::new();
        let (input, output) = tokio::io::split(theirs);
        let served = mcp::serve(
            mcp::Server::for_commands(Arc::new(app.clone())),
            LineTransport::new(input, output),
            stop.child_token(),
        );
        tokio::spawn(served);
        // Other commands find the store busy while this one lasts, so they need its control socket.
        let socket = tokio::spawn(control::listen(app.clone(), stop.child_token()));
        let (input, output) = tokio::io::split(ours);
        let client = Client::connect(input, output).await?;
        Ok(Self {
            client,
            server: Some(Embedded { app, stop, socket }),
        })
    }

    /// Ends the session, and closes the store of an embedded server.
    pub(super) async fn close(self) -> Result<()> {
        let ended = self.client.stop().await;
        if let Some(Embedded { app, stop, socket }) = self.server {
            stop.cancel();
            // The socket is removed before the store is let go.
            let _ = socket.await;
            app.stop().await?;
        }
        ended
    }
}
