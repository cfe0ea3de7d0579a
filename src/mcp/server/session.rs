//! Serving one client over a pair of streams.

use std::collections::BTreeSet;

use rmcp::{
    ServerHandler,
    service::{QuitReason, ServerInitializeError, serve_server_with_ct},
};
use tokio_util::sync::CancellationToken;

use crate::{profile::ToolProfile, resources, transport::LineTransport};
use midex_domain::{
    error::{Error, Result},
    limits,
};

/// Serves the process's own standard streams until the client disconnects or `stop` is cancelled.
pub async fn serve_stdio(handler: impl ServerHandler, stop: CancellationToken) -> Result<()> {
    let (input, output) = rmcp::transport::stdio_pipes();
    serve(handler, LineTransport::new(input, output), stop).await
}

/// Serves one client until it disconnects or `stop` is cancelled. Pending replies are sent first.
pub async fn serve(
    handler: impl ServerHandler,
    transport: LineTransport,
    stop: CancellationToken,
) -> Result<()> {
    let closed_token = transport.closed_token();
    match Box::pin(serve_server_with_ct(handler, transport, stop)).await {
        Ok(running) => tokio::select! {
            quit = running.waiting() => match quit {
                Ok(QuitReason::JoinError(error)) | Err(error) => {
                    Err(Error::internal("the client's session broke off").with_source(error))
                }
                Ok(_) => Ok(()),
            },
            // Do not wait longer: rmcp would wait for calls whose client has disconnected.
            () = async { closed_token.cancelled().await; tokio::time::sleep(limits::LAST_FLUSH_MAX).await } => Ok(()),
        },
        // The client only checked whether a server is listening, or disconnected before the handshake.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            Ok(())
        }
        // Do not log the error, since it contains the client's message.
        Err(_) => {
            Err(Error::internal("the handshake failed: the client did not keep to the protocol"))
        }
    }
}

/// The lines that are logged at start-up: where the server runs, and what it offers.
pub fn format_startup_lines(places: &[String], profile: ToolProfile) -> [String; 3] {
    let templates = resources::list_resource_templates(profile.toolsets);
    let static_resources = resources::list_static_resources(profile.toolsets);
    let names = static_resources.into_iter().map(|resource| resource.name);
    let names: BTreeSet<_> =
        names.chain(templates.into_iter().map(|template| template.name)).collect();
    let resource_names: Vec<_> = names.iter().map(String::as_str).collect();
    let tools = profile.tool_names();
    [
        format!("midex v{} running on {}", env!("CARGO_PKG_VERSION"), places.join(" and ")),
        format!("Resources: {} ({})", resource_names.len(), resource_names.join(", ")),
        format!("Tools: {} ({})", tools.len(), tools.join(", ")),
    ]
}
