//! Streamable HTTP at `/mcp`, for protocol versions with and without handshakes, over `midex_http`. rmcp implements the
//! protocol. This module adds limits on sessions, and makes all errors midex errors.

mod endpoint;
mod fast_path;
mod refusal;
mod sessions;

use std::sync::Arc;

use rmcp::ServerHandler;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::endpoint::Endpoint;
use midex_domain::{
    clock::{IdSource, SystemIds},
    error::{Error, Result},
    limits,
};
pub use midex_http::{BearerToken, Host};

/// The only path that is served.
pub const ENDPOINT_PATH: &str = "/mcp";

/// Access control and limits of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The bearer token that every request must carry; `None` admits every client that can connect.
    pub token: Option<BearerToken>,
    /// Additional host names of this server, besides the loopback names and the address it listens on.
    pub hosts: Vec<Host>,
    /// The maximum number of open connections: [`limits::HTTP_CONNECTIONS_MAX`], or less if the process may not open
    /// so many files.
    pub connections_max: usize,
    /// The maximum number of bytes of calls in progress and of replies that clients have not received yet; by default
    /// [`limits::HTTP_BYTES_MAX`].
    pub bytes_max: usize,
    /// Whether the handler answers tool calls outside of a session directly, without a service for each request.
    /// Requires a handler that sends its client nothing else during a call, except progress that the client asked
    /// for, and whose tools take no parameters from headers.
    pub direct_calls: bool,
    /// The source of randomness for correlation ids.
    pub ids: Arc<dyn IdSource>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            token: None,
            hosts: Vec::new(),
            connections_max: limits::HTTP_CONNECTIONS_MAX,
            bytes_max: limits::HTTP_BYTES_MAX,
            direct_calls: false,
            ids: Arc::new(SystemIds),
        }
    }
}

/// Serves clients until `stop` is cancelled. Then calls in progress are answered, and after that open streams end. Each
/// session, and each request outside a session, gets its own handler.
///
/// # Errors
/// `INTERNAL` if the listener has no address, or the task that looks after sessions panicked.
pub async fn serve_http<H: ServerHandler>(
    listener: TcpListener,
    handler: impl Fn() -> H + Send + Sync + 'static,
    options: Options,
    stop: CancellationToken,
) -> Result<()> {
    let address = listener
        .local_addr()
        .map_err(|error| Error::internal("the listener has no address").with_source(error))?;
    let connections_max = options.connections_max;
    let endpoint = Arc::new(Endpoint::new(handler, &options));
    let router = endpoint.router(address, options);
    let upkeep = tokio::spawn(endpoint.look_after_clients(stop.clone()));
    midex_http::serve(listener, router, connections_max, stop).await;
    upkeep.await.map_err(|error| {
        Error::internal("looking after the sessions of HTTP clients panicked").with_source(error)
    })
}
