//! Streamable HTTP at `/mcp`, for protocol versions with and without handshakes, over `midex_http`. rmcp implements the
//! protocol. This module adds limits on sessions, and makes all errors midex errors.

mod endpoint;
mod fast_path;
mod refusal;
mod sessions;

use rmcp::ServerHandler;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::endpoint::Endpoint;
use midex_domain::error::{Error, Result};
use midex_http as http;
pub use midex_http::{BearerToken, Host, Options};

/// The only path that is served.
pub const ENDPOINT_PATH: &str = "/mcp";

/// Serves clients until `stop` is cancelled. Each session, and each request outside a session, gets its own handler.
///
/// # Errors
/// `INTERNAL` if the listener has no address, or the task that serves the clients panicked.
pub async fn serve_http<H: ServerHandler>(
    listener: TcpListener,
    handler: impl Fn() -> H + Send + Sync + 'static,
    options: Options,
    stop: CancellationToken,
) -> Result<()> {
    let address = listener
        .local_addr()
        .map_err(|error| Error::internal("the listener has no address").with_source(error))?;
    http::serve(listener, Endpoint::new(address, handler, options), stop).await
}
