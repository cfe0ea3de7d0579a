//! Answers calls that other servers pass on.

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{CALLS_PATH, Credentials, PeerReply};
use midex_domain::{error::Result, limits, operation::BoxFuture};
use midex_engine::{PeerAnswer, PeerCall};
use midex_http::{
    Bytes, Router,
    refusal::json_response,
    serve, serve_with_handshake,
    web::{
        DefaultBodyLimit, IntoResponse as _, Next, Request, Response, State, StatusCode,
        from_fn_with_state, header, post,
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
        .layer(from_fn_with_state(endpoint.clone(), admit))
        .with_state(endpoint);
    let connections_max = limits::PEER_CONNECTIONS_MAX;
    match tls {
        None => serve(listener, router, connections_max, stop).await,
        Some(tls) => {
            let handshake = move |stream| {
                let accepting = tls.accept(stream);
                async {
                    match tokio::time::timeout(limits::PEER_CONNECT_MAX, accepting).await {
                        Ok(Ok(stream)) => Some(stream),
                        Ok(Err(error)) => {
                            tracing::warn!(%error, "a connection to the port for other servers was refused: it does not use TLS, or its certificate is not signed by the authority of --cluster-ca");
                            None
                        }
                        Err(_) => None,
                    }
                }
            };
            serve_with_handshake(listener, router, connections_max, stop, handshake).await;
        }
    }
}

/// Refuses callers without the token of the cluster before their body is read: a call may be large.
async fn admit(
    State(endpoint): State<Arc<PeerEndpoint>>,
    request: Request,
    next: Next,
) -> Response {
    let authorization = request.headers().get(header::AUTHORIZATION);
    let authorization = authorization.and_then(|value| value.to_str().ok());
    if endpoint.credentials.token.is_authorized(authorization) {
        next.run(request).await
    } else {
        StatusCode::UNAUTHORIZED.into_response()
    }
}

async fn answer_call(State(endpoint): State<Arc<PeerEndpoint>>, body: Bytes) -> Response {
    let Ok(call) = serde_json::from_slice(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let reply = match (endpoint.answer)(call).await {
        Ok(answer) => PeerReply::Answer(answer),
        Err(error) => PeerReply::Error(error.to_payload("")),
    };
    match serde_json::to_vec(&reply) {
        Ok(body) => json_response(StatusCode::OK, body),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
