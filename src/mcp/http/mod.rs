//! Streamable HTTP at `/mcp`, for both eras of the protocol, over `midex_http`. rmcp speaks it; here stands what
//! rmcp leaves open: sessions and their limits, and answers that are errors of ours throughout.

mod direct;
mod endpoint;
mod refusal;
mod sessions;

use rmcp::ServerHandler;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::endpoint::Endpoint;
use midex_domain::error::{Error, Result};
use midex_http as http;
pub use midex_http::{BearerToken, Host, Options};

/// The one path that is served.
pub const PATH: &str = "/mcp";

/// Serves whoever connects until `stop` is cancelled. Each session, and each request of the stateless era, has a
/// handler of its own.
///
/// # Errors
/// `INTERNAL` where the listener has no address, or looking after the clients panicked.
pub async fn serve<H: ServerHandler>(
    listener: TcpListener,
    handler: impl Fn() -> H + Send + Sync + 'static,
    options: Options,
    stop: CancellationToken,
) -> Result<()> {
    let address = listener
        .local_addr()
        .map_err(|error| Error::internal("the listener has no address").because(error))?;
    http::serve(listener, Endpoint::new(address, handler, options), stop).await
}
