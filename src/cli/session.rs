//! What commands look at executions through: the server that owns the store where one runs, else one of their own
//! for as long as they last. Either way they are clients like any other.

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

/// Bytes on their way between a command and its own server.
const PIPE_BYTES: usize = 256 << 10;

/// A client, and the server that this process runs for it where nobody else runs one.
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
    /// Finds the server of the data directory, or opens the store.
    ///
    /// # Errors
    /// `STORE_BUSY` where another process owns the store and does not answer; what opening the store refuses with.
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
                // It went away before anything was asked of it.
                Err(error) if error.code() == Code::ServerStopping => {}
                Err(error) => return Err(error),
            }
            match app.open().await {
                Ok(()) => return Self::embed(app).await,
                // Its owner is just beginning, or just ending.
                Err(error) if error.code() == Code::StoreBusy => busy = Some(error),
                Err(error) => return Err(error),
            }
            tokio::time::sleep(limits::STORE_RETRY_EVERY / 4).await;
        }
        Err(busy.unwrap_or_else(|| {
            Error::internal("nobody owns the store, and it could not be opened")
        }))
    }

    /// Whether this process owns the store, so that a server finds it busy meanwhile.
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
        // Other commands find the store busy while this one lasts, so they must find the door.
        let socket = tokio::spawn(control::listen(app.clone(), stop.child_token()));
        let (input, output) = tokio::io::split(ours);
        let client = Client::connect(input, output).await?;
        Ok(Self {
            client,
            server: Some(Embedded { app, stop, socket }),
        })
    }

    /// Says good-bye, and closes the store where it is this process's.
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
