//! Answers calls that other servers pass on.

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{CALLS_PATH, Credentials, PeerReply};
use midex_domain::{error::Result, limits, operation::BoxFuture};
use midex_engine::{PeerAnswer, PeerCall};
use midex_http::{
    Bytes, Router, serve, serve_with_handshake,
    web::{
        DefaultBodyLimit, HeaderMap, IntoResponse as _, Response, State, StatusCode, header, post,
    },
};

/// Answers a call of another server.
pub type AnswerCall = dyn Fn(PeerCall) -> BoxFuture<'static, Result<PeerAnswer>> + Send + Sync;

struct PeerEndpoint {
    credentials: Credentials,
    answer: Box<AnswerCall>,
}

/// Answers the calls of other servers until `stop` is cancelled. Only callers with the token of the cluster are heard and, over
/// TLS, only those with a certificate of its authority.
pub async fn serve_peers(
    listener: TcpListener,
    credentials: Credentials,
    answer: Box<AnswerCall>,
    stop: CancellationToken,
) {
    let tls = credentials.tls_server.clone().map(TlsAcceptor::from);
    let endpoint = Arc::new(PeerEndpoint { credentials, answer });
    let router = Router::new()
        .route(CALLS_PATH, post(answer_call))
        .layer(DefaultBodyLimit::disable())
        .with_state(endpoint);
    let connections_max = limits::PEER_CONNECTIONS_MAX;
    match tls {
        None => serve(listener, router, connections_max, stop).await,
        Some(tls) => {
            let handshake = move |stream| {
                let accepting = tls.accept(stream);
                async { accepting.await.ok() }
            };
            serve_with_handshake(listener, router, connections_max, stop, handshake).await;
        }
    }
}

async fn answer_call(
    State(endpoint): State<Arc<PeerEndpoint>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if !endpoint.credentials.token.is_authorized(authorization) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let Ok(call) = serde_json::from_slice(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let reply = match (endpoint.answer)(call).await {
        Ok(answer) => PeerReply::Answer(answer),
        Err(error) => PeerReply::Error(error.to_payload("")),
    };
    match serde_json::to_vec(&reply) {
        Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
