//! The fast path for tool calls of clients without a session, which are most requests: the handler is called directly.
//! rmcp would create a service with channels and tasks for each, and copy the request to compare it with its headers.
//!
//! Only calls without special features are answered here. rmcp handles all others, including every refusal.

use http::{HeaderMap, StatusCode, header, request::Parts};
use rmcp::{
    Peer, RoleServer, ServerHandler, Service,
    model::{
        ClientCapabilities, ClientRequest, GetExtensions, GetMeta, Implementation,
        InitializeRequestParams, JsonRpcMessage, JsonRpcRequest, ProtocolVersion,
    },
    service::{RequestContext, serve_directly},
};

use super::refusal;
use crate::{LineTransport, frame, splice::SplicedResult};
use midex_domain::error::Error;
use midex_http::{Response, access::get_header_text};

/// A call that the fast path answers.
pub(super) type ClientCall = JsonRpcRequest<ClientRequest>;

/// Prefixes of headers that need rmcp: a session, or tool parameters that are repeated as headers.
const SLOW_PATH_HEADER_PREFIXES: [&str; 2] = ["mcp-session-id", "mcp-param-"];

/// The peer for handlers. It contains nothing about the client except the protocol version, and messages sent to it are
/// discarded.
pub(super) fn build_detached_peer(handler: impl ServerHandler) -> Peer<RoleServer> {
    let client =
        InitializeRequestParams::new(ClientCapabilities::default(), Implementation::default())
            .with_protocol_version(ProtocolVersion::V_2026_07_28);
    let unused_transport = LineTransport::new(tokio::io::empty(), tokio::io::sink());
    serve_directly(handler, unused_transport, Some(client)).peer().clone()
}

/// The call in `body`, if the fast path can answer it.
pub(super) fn parse_fast_path_call(headers: &HeaderMap, body: &[u8]) -> Option<ClientCall> {
    if !has_fast_path_headers(headers) {
        return None;
    }
    let call = frame::parse_tool_call(body)?;
    let ClientRequest::CallToolRequest(request) = &call.request else {
        return None;
    };
    let meta = call.request.get_meta();
    let is_supported = get_header_text(headers, "mcp-name") == Some(&request.params.name)
        && meta.protocol_version() == Some(ProtocolVersion::V_2026_07_28)
        && meta.client_capabilities().is_some()
        && meta.get_progress_token().is_none();
    is_supported.then_some(call)
}

fn has_fast_path_headers(headers: &HeaderMap) -> bool {
    let accept_header = get_header_text(headers, header::ACCEPT.as_str()).unwrap_or_default();
    let accepts_type = |kind| accept_header.split(',').any(|each| each.trim() == kind);
    let has_value = |name, value| get_header_text(headers, name) == Some(value);
    let is_slow_path_header = |name: &header::HeaderName| {
        let mut slow_path_headers = SLOW_PATH_HEADER_PREFIXES.iter();
        slow_path_headers.any(|strange| name.as_str().starts_with(strange))
    };
    has_value("mcp-protocol-version", ProtocolVersion::V_2026_07_28.as_str())
        && has_value("mcp-method", "tools/call")
        && has_value(header::CONTENT_TYPE.as_str(), "application/json")
        && headers.get_all(header::ACCEPT).iter().count() == 1
        && accepts_type("application/json")
        && accepts_type("text/event-stream")
        && !headers.keys().any(is_slow_path_header)
}

/// Answers a call. If the client disconnects, the handler's cancellation token is cancelled, and it ends in its own
/// time.
pub(super) async fn answer_fast_path_call(
    handler: impl ServerHandler,
    peer: Peer<RoleServer>,
    parts: Parts,
    mut call: ClientCall,
) -> Result<Response, Error> {
    let id = call.id;
    let mut context = RequestContext::new(id.clone(), peer);
    std::mem::swap(&mut context.meta, call.request.get_meta_mut());
    std::mem::swap(&mut context.extensions, call.request.extensions_mut());
    context.extensions.insert(parts);
    context.extensions.insert(SplicedResult);
    let _cancel_on_drop = context.ct.clone().drop_guard();
    let work = tokio::spawn(async move { handler.handle_request(call.request, context).await });
    let outcome = work
        .await
        .map_err(|error| Error::internal("the call was not finished").with_source(error))?;
    let message = match outcome {
        Ok(result) => JsonRpcMessage::response(result, id),
        Err(error) => JsonRpcMessage::error(error, Some(id)),
    };
    Ok(refusal::build_message_response(StatusCode::OK, &message))
}
