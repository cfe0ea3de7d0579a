//! The HTTP endpoint: handles one request from its headers to its reply.

use std::{net::SocketAddr, sync::Arc};

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use rmcp::{
    Peer, RoleServer, ServerHandler,
    model::{ErrorData, JsonRpcError, JsonRpcMessage, ProtocolVersion, RequestId},
    service::TxJsonRpcMessage,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use serde::Deserialize;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::{
    ENDPOINT_PATH, Options, fast_path,
    refusal::{self, RequestError},
    sessions::{ActiveCallId, HttpSession, HttpSessions, OpenStream, SessionSlot},
};
use crate::{answer, frame};
use midex_domain::{
    clock::IdSource,
    document::oversized_integer_message,
    error::{Code, Error},
    limits,
};
use midex_http::{
    Body, Bytes, Request, Response, Router,
    access::{AccessRules, get_header_text},
    any,
    body::{RequestBody, hold_reply, read_request_body, read_whole_reply},
    budget::{Budget, BudgetShare},
    refusal::HttpError,
};

const SESSION_ID_HEADER: &str = "mcp-session-id";
const LAST_EVENT_ID_HEADER: &str = "last-event-id";
const PROTOCOL_VERSION_HEADER: &str = "mcp-protocol-version";
/// Protocol headers that may occur only once per request.
const SINGLE_VALUE_HEADERS: &[&str] =
    &[SESSION_ID_HEADER, LAST_EVENT_ID_HEADER, PROTOCOL_VERSION_HEADER, "mcp-method", "mcp-name"];

/// The service that answers every request.
pub(super) struct Endpoint<H> {
    service: StreamableHttpService<H, LocalSessionManager>,
    handler: Arc<dyn Fn() -> H + Send + Sync>,
    /// The peer for handlers on the fast path. `None` if the fast path is disabled.
    peer: Option<Peer<RoleServer>>,
    sessions: Arc<HttpSessions>,
    budget: Budget,
    ids: Arc<dyn IdSource>,
    stream_token: CancellationToken,
}

/// The fields of a message that are needed before rmcp parses it.
#[derive(Debug, Default, Deserialize)]
struct Envelope {
    id: Option<RequestId>,
    method: Option<String>,
}

/// Resources that a call holds until its handler has finished, and its reply has ended if that is a stream.
#[derive(Debug)]
struct AdmissionGuard {
    _call: BudgetShare,
    _bytes: BudgetShare,
    _id: Option<ActiveCallId>,
}

/// A request that passed admission, on its way to rmcp.
struct AdmittedRequest {
    request: Request,
    body: Bytes,
    id: Option<RequestId>,
    /// The slot for the session that the request may start.
    slot: Option<SessionSlot>,
    admission: Arc<AdmissionGuard>,
}

impl<H: ServerHandler> Endpoint<H> {
    pub(super) fn new(handler: impl Fn() -> H + Send + Sync + 'static, options: &Options) -> Self {
        let sessions = Arc::new(HttpSessions::new());
        let stream_token = CancellationToken::new();
        let config = StreamableHttpServerConfig::default()
            .with_json_response(true)
            // Disable these checks of rmcp: the endpoint checks the host before it reads the body, and limits the body
            // itself.
            .disable_allowed_hosts()
            .with_max_request_body_bytes(usize::MAX)
            .with_cancellation_token(stream_token.clone());
        let handler: Arc<dyn Fn() -> H + Send + Sync> = Arc::new(handler);
        let peer = options.direct_calls.then(|| fast_path::build_detached_peer(handler()));
        let make_handler = handler.clone();
        let service =
            StreamableHttpService::new(move || Ok(make_handler()), sessions.manager(), config);
        Self {
            service,
            handler,
            peer,
            sessions,
            budget: Budget::new(options.bytes_max),
            ids: options.ids.clone(),
            stream_token,
        }
    }

    /// The routes of a server that listens on `address`.
    pub(super) fn router(self: &Arc<Self>, address: SocketAddr, options: Options) -> Router {
        let ids = options.ids;
        let refuse = move |error: Error| RequestError::from(error).into_response(&*ids);
        let refuse_path = refuse.clone();
        let endpoint = self.clone();
        let respond = any(async move |request: Request| endpoint.respond(request).await);
        let router = Router::new()
            .route(ENDPOINT_PATH, respond.clone())
            .route(&format!("{ENDPOINT_PATH}/"), respond)
            .fallback(async move || refuse_path(unknown_path_error()));
        AccessRules::new(address, options.hosts, options.token, SINGLE_VALUE_HEADERS)
            .protect_routes(router, refuse)
    }

    async fn respond(&self, request: Request) -> Response {
        let request = normalize_accept_header(request);
        let result = match *request.method() {
            Method::POST => self.handle_post(request).await,
            Method::GET => self.open_event_stream(request).await,
            Method::DELETE => self.end_session(request).await,
            _ => Err(method_not_allowed_error()),
        };
        result.unwrap_or_else(|refusal| refusal.into_response(&*self.ids))
    }

    /// Ends idle sessions until `stop` is cancelled. Then ends the event streams, once calls in progress are answered
    /// or [`limits::HTTP_GRACE`] has passed.
    pub(super) async fn look_after_clients(self: Arc<Self>, stop: CancellationToken) {
        let mut interval = tokio::time::interval(limits::HTTP_SWEEP_EVERY);
        // After the process was suspended, sweep once instead of catching up: the clients did not have the time that
        // has passed.
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(interval.tick()).await.is_some() {
            self.sessions.end_unused_sessions().await;
        }
        let _ = tokio::time::timeout(limits::HTTP_GRACE, self.budget.wait_until_idle()).await;
        self.stream_token.cancel();
    }

    async fn handle_post(&self, request: Request) -> Result<Response, RequestError> {
        check_content_encoding(request.headers())?;
        let AdmittedRequest { request, body, id, slot, admission } =
            self.admit_request(request).await?;
        let is_json = has_json_content_type(request.headers());
        let response = if let Some(slot) = slot {
            self.begin_session(request, slot).await?
        } else {
            let result = self.handle_without_new_session(request, &body).await;
            result.map_err(|refusal| refusal.with_call_id(id.clone()))?
        };
        let response = match response.status() {
            // rmcp uses this status for a body that it cannot parse.
            StatusCode::UNSUPPORTED_MEDIA_TYPE if is_json => {
                build_unreadable_response(&body, &*self.ids)
            }
            _ => response,
        };
        let response = self
            .complete_rmcp_refusal(response)
            .await
            .map_err(|refusal| refusal.with_call_id(id.clone()))?;
        let reply = hold_reply(response, admission, CancellationToken::new(), &self.budget).await;
        reply.map_err(|error| RequestError::from(error).with_call_id(id))
    }

    /// Answers a request that does not start a session.
    async fn handle_without_new_session(
        &self,
        request: Request,
        body: &[u8],
    ) -> Result<Response, RequestError> {
        if let Some(peer) = &self.peer
            && let Some(call) = fast_path::parse_fast_path_call(request.headers(), body)
        {
            let (parts, _) = request.into_parts();
            return Ok(fast_path::answer_fast_path_call(
                (self.handler)(),
                peer.clone(),
                parts,
                call,
            )
            .await?);
        }
        Ok(Box::pin(self.service.handle(request)).await.map(Body::new))
    }

    /// Runs in a separate task, so that a session that rmcp has started is registered even if its client disconnects.
    async fn begin_session(
        &self,
        request: Request,
        slot: SessionSlot,
    ) -> Result<Response, RequestError> {
        let service = self.service.clone();
        let session_task = tokio::spawn(async move {
            let response = service.handle(request).await.map(Body::new);
            if let Some(id) = get_header_text(response.headers(), SESSION_ID_HEADER) {
                slot.register_session(id);
            }
            response
        });
        let task_result = session_task.await;
        task_result.map_err(|error| {
            Error::internal("the session could not begin").with_source(error).into()
        })
    }

    async fn admit_request(&self, request: Request) -> Result<AdmittedRequest, RequestError> {
        let (mut parts, body) = request.into_parts();
        let (body, bytes) = match read_request_body(body, &self.budget).await? {
            RequestBody::Whole(body, _) if frame::has_too_many_values(&body) => {
                return Err(oversized_body_error(&body));
            }
            RequestBody::Whole(body, bytes) => {
                (frame::repair_surrogate_escapes(&body).map_or(body, Bytes::from), bytes)
            }
            RequestBody::Oversized(beginning) => return Err(oversized_body_error(&beginning)),
        };
        // A body without these fields is refused by rmcp. The refusal then gets a midex payload.
        let envelope: Envelope = serde_json::from_slice(&body).unwrap_or_default();
        let id = envelope.id.clone();
        let to_refusal = |error: Error| RequestError::from(error).with_call_id(id.clone());
        if id.is_some()
            && let Some(fault) = oversized_integer_message(&body)
        {
            return Err(to_refusal(Error::new(Code::ParamsInvalid, fault)));
        }
        let session = match get_header_text(&parts.headers, SESSION_ID_HEADER) {
            Some(id) => self.sessions.find_session(id),
            None => None,
        };
        let is_new = session.is_none()
            && envelope.method.as_deref() == Some("initialize")
            && !has_stateless_version(&parts.headers);
        if is_new && frame::parse_message(&body).is_err() {
            let error = Error::new(Code::ParamsInvalid, frame::MALFORMED_INITIALIZE);
            return Err(to_refusal(error));
        }
        let slot = if is_new {
            Some(self.sessions.reserve_slot().await.map_err(to_refusal)?)
        } else {
            None
        };
        let admission = Arc::new(AdmissionGuard {
            _call: self.budget.admit_call().map_err(to_refusal)?,
            _bytes: bytes,
            _id: register_call_id(session.as_ref(), &envelope).map_err(to_refusal)?,
        });
        if let Some(session) = session.as_ref().or(slot.as_ref().map(SessionSlot::session)) {
            parts.extensions.insert(session.notification_channel());
        }
        // The handler keeps the admission, since it may outlive the connection.
        parts.extensions.insert(admission.clone());
        Ok(AdmittedRequest {
            request: Request::from_parts(parts, Body::from(body.clone())),
            body,
            id,
            slot,
            admission,
        })
    }

    async fn open_event_stream(&self, request: Request) -> Result<Response, RequestError> {
        let session = get_header_text(request.headers(), SESSION_ID_HEADER)
            .and_then(|id| self.sessions.find_session(id));
        // A stream that resumes a pending call delivers only the answer of that call.
        let is_call_stream = get_header_text(request.headers(), LAST_EVENT_ID_HEADER)
            .is_some_and(|id| id.contains('/'));
        let share = self.budget.admit_stream()?;
        let open_stream =
            session.filter(|_| !is_call_stream).map(|session| session.register_stream());
        let response = Box::pin(self.service.handle(request)).await.map(Body::new);
        if !response.status().is_success() {
            return self.complete_rmcp_refusal(response).await;
        }
        let end_token = open_stream.as_ref().map(OpenStream::end_token).unwrap_or_default();
        Ok(hold_reply(response, (share, open_stream), end_token, &self.budget).await?)
    }

    async fn end_session(&self, request: Request) -> Result<Response, RequestError> {
        let id = get_header_text(request.headers(), SESSION_ID_HEADER).map(str::to_owned);
        let is_known = id.as_ref().is_none_or(|id| self.sessions.find_session(id).is_some());
        let response = Box::pin(self.service.handle(request)).await.map(Body::new);
        let mut response = self.complete_rmcp_refusal(response).await?;
        if !is_known {
            return Err(Error::new(Code::SessionNotFound, "Session not found").into());
        }
        if let Some(id) = id {
            self.sessions.forget_session(&id);
        }
        // Some clients treat 202 as a failure, so use 204.
        *response.status_mut() = StatusCode::NO_CONTENT;
        Ok(response)
    }

    /// Adds the midex payload to refusals of rmcp, which are plain text or lack it.
    async fn complete_rmcp_refusal(&self, response: Response) -> Result<Response, RequestError> {
        if response.status().is_success() {
            return Ok(response);
        }
        let (status, is_json) = (response.status(), has_json_content_type(response.headers()));
        let refusal_body = read_whole_reply(response).await?;
        if !is_json {
            return Err(convert_rmcp_refusal(status, &refusal_body).into());
        }
        Ok(refusal::complete_error_payload(status, &refusal_body, &*self.ids))
    }
}

fn unknown_path_error() -> Error {
    let message = format!("there is nothing here but {ENDPOINT_PATH}");
    Error::new(Code::ResourceNotFound, message)
        .with_action("Send MCP messages to /mcp of this server")
}

fn method_not_allowed_error() -> RequestError {
    let error = Error::new(Code::RequestInvalid, "the endpoint takes POST, GET and DELETE");
    HttpError::new(StatusCode::METHOD_NOT_ALLOWED, error).into()
}

/// Whether the request uses a protocol version without handshakes, which has no method `initialize`.
fn has_stateless_version(headers: &HeaderMap) -> bool {
    let version = get_header_text(headers, PROTOCOL_VERSION_HEADER);
    version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28.as_str())
}

/// Registers the request id in its session, if there is one.
fn register_call_id(
    session: Option<&Arc<HttpSession>>,
    envelope: &Envelope,
) -> Result<Option<ActiveCallId>, Error> {
    let (Some(session), Some(id), Some(_)) = (session, &envelope.id, &envelope.method) else {
        return Ok(None);
    };
    session.register_call(id.clone()).map(Some)
}

/// Rewrites `Accept` to the exact values that rmcp requires, if the request accepts them by the rules of HTTP: a
/// missing header accepts anything, and a media range accepts everything that it matches.
fn normalize_accept_header(mut request: Request) -> Request {
    let accept_values = request.headers().get_all(header::ACCEPT).iter();
    let accept_values: Vec<_> = accept_values.filter_map(|value| value.to_str().ok()).collect();
    let is_accepted = |kind: &str, group: &str| {
        let is_match = |range: &str| {
            let (range, weight) = range.split_once(';').unwrap_or((range, ""));
            let weight = weight.split(';').find_map(|one| one.trim().strip_prefix("q="));
            let is_refused = weight.is_some_and(|weight| weight.trim().parse() == Ok(0.0));
            let accepted_ranges = [kind, group, "*/*"];
            !is_refused && accepted_ranges.iter().any(|one| one.eq_ignore_ascii_case(range.trim()))
        };
        let mut ranges = accept_values.iter().flat_map(|value| value.split(','));
        accept_values.is_empty() || ranges.any(is_match)
    };
    let accepts_json = is_accepted("application/json", "application/*");
    let accept_value = match (request.method(), is_accepted("text/event-stream", "text/*")) {
        (&Method::GET, true) => "text/event-stream",
        (_, true) if accepts_json => "application/json, text/event-stream",
        _ => return request,
    };
    let header_value = HeaderValue::from_static(accept_value);
    request.headers_mut().insert(header::ACCEPT, header_value);
    request
}

/// Refuses a compressed body, which would be reported as invalid JSON.
fn check_content_encoding(headers: &HeaderMap) -> Result<(), HttpError> {
    let encoding =
        get_header_text(headers, header::CONTENT_ENCODING.as_str()).unwrap_or("identity");
    if encoding.trim().eq_ignore_ascii_case("identity") || encoding.trim().is_empty() {
        return Ok(());
    }
    let short_encoding: String = encoding.chars().take(limits::ADDRESS_SHOWN_CHARS).collect();
    let message = format!(
        "the body has the Content-Encoding `{short_encoding}`, which this server does not unpack"
    );
    let error = Error::new(Code::RequestInvalid, message)
        .with_action("Send the body as it is, without Content-Encoding");
    Err(HttpError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error))
}

fn has_json_content_type(headers: &HeaderMap) -> bool {
    let content_type = get_header_text(headers, header::CONTENT_TYPE.as_str()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

fn oversized_body_error(beginning: &[u8]) -> RequestError {
    let (bytes, values) = (limits::FRAME_BYTES_MAX, limits::FRAME_VALUES_MAX);
    let limit = format!("{bytes} bytes, or {values} values, in one message");
    let message = format!("the body exceeds the limit of {limit}");
    RequestError::from(Error::limit_exceeded(limit).with_message(message))
        .with_call_id(frame::find_id_near_start(beginning))
}

/// The answer to a body that is not a message, the same as over other transports.
fn build_unreadable_response(body: &[u8], ids: &dyn IdSource) -> Response {
    let refusal = match frame::parse_message(body) {
        Err(answer) => *answer,
        // Unreachable: rmcp parsed the same bytes in the same way.
        Ok(_) => unknown_message_error(),
    };
    match refusal {
        JsonRpcMessage::Error(JsonRpcError { error, id, .. }) => {
            let error = JsonRpcMessage::error(answer::add_error_payload(error, ids), id);
            refusal::build_message_response(StatusCode::BAD_REQUEST, &error)
        }
        other => refusal::build_message_response(StatusCode::BAD_REQUEST, &other),
    }
}

/// Converts a plain-text refusal of rmcp.
fn convert_rmcp_refusal(mut status: StatusCode, body: &[u8]) -> HttpError {
    let text = String::from_utf8_lossy(body);
    // The session ended while a call of it was being sent.
    if text.ends_with("Session service terminated") || text.contains("Session not found") {
        status = StatusCode::NOT_FOUND;
    }
    let code = match status {
        StatusCode::NOT_FOUND => Code::SessionNotFound,
        StatusCode::FORBIDDEN => Code::Forbidden,
        _ if text.ends_with("Session ID is required") => Code::SessionNotFound,
        status if status.is_server_error() => Code::Internal,
        _ => Code::RequestInvalid,
    };
    // The text begins with the name of the status.
    let reason = text.split_once(": ").map_or(&*text, |(_, words)| words);
    let error = Error::new(code, reason.to_owned());
    let accept_advice = "Send the header `Accept: application/json, text/event-stream`; a GET, `Accept: text/event-stream`";
    match status {
        StatusCode::METHOD_NOT_ALLOWED => {
            let message =
                "this version of the protocol has no sessions, and so no GET and no DELETE";
            let error = Error::new(code, message);
            HttpError::new(status, error.with_action("Send every message in a POST of its own"))
                .with_allowed_methods("POST")
        }
        StatusCode::NOT_ACCEPTABLE => HttpError::new(status, error.with_action(accept_advice)),
        _ if text.contains("Protocol-Version") => HttpError::new(
            status,
            error.with_action("Send a version that the answer to server/discover lists"),
        ),
        _ => HttpError::new(status, error),
    }
}

fn unknown_message_error() -> TxJsonRpcMessage<RoleServer> {
    let error = ErrorData::invalid_request("the body is not a message that can be answered", None);
    JsonRpcMessage::error(error, None)
}
