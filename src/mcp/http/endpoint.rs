//! The HTTP endpoint: handles one request from its headers to its reply.

use std::{net::SocketAddr, sync::Arc};

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use rmcp::{
    Peer, RoleServer, ServerHandler,
    model::{ErrorData, JsonRpcError, JsonRpcMessage, ProtocolVersion, RequestId},
    service::TxJsonRpcMessage,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::{
    ENDPOINT_PATH, Options, direct,
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
    Service,
    access::{AccessRules, header_text},
    body::{self, RequestBody},
    budget::{Budget, BudgetKind, BudgetShare},
    connections::{Connection, Connections, RequestGuard},
    refusal::{HttpError, Reply},
    room::MemoryBudget,
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
    room: MemoryBudget,
    access: AccessRules,
    ids: Arc<dyn IdSource>,
    streams: CancellationToken,
}

/// The fields of a message that are needed before rmcp parses it.
#[derive(Debug, Default, Deserialize)]
struct Envelope {
    id: Option<RequestId>,
    method: Option<String>,
}

/// Resources that a call holds until its handler has finished and its reply is sent completely.
#[derive(Debug)]
struct AdmissionGuard {
    _call: BudgetShare,
    _bytes: BudgetShare,
    _id: Option<ActiveCallId>,
}

/// A request that passed admission, on its way to rmcp.
struct AdmittedRequest {
    request: Request<Full<Bytes>>,
    body: Bytes,
    id: Option<RequestId>,
    /// The slot for the session that the request may start.
    slot: Option<SessionSlot>,
    admission: Arc<AdmissionGuard>,
    work: RequestGuard,
}

impl<H: ServerHandler> Endpoint<H> {
    pub(super) fn new(
        address: SocketAddr,
        handler: impl Fn() -> H + Send + Sync + 'static,
        options: Options,
    ) -> Self {
        let sessions = Arc::new(HttpSessions::new());
        let streams = CancellationToken::new();
        let config = StreamableHttpServerConfig::default()
            .with_json_response(true)
            // Disable these checks of rmcp: the endpoint checks the host before it reads the body, and limits the body
            // itself.
            .disable_allowed_hosts()
            .with_max_request_body_bytes(usize::MAX)
            .with_cancellation_token(streams.clone());
        let handler: Arc<dyn Fn() -> H + Send + Sync> = Arc::new(handler);
        let peer = options.direct_calls.then(|| direct::detached_peer(handler()));
        let make = handler.clone();
        let service = StreamableHttpService::new(move || Ok(make()), sessions.manager(), config);
        let room = MemoryBudget {
            budget: Arc::new(Budget::new(options.bytes_max)),
            connections: Arc::new(Connections::new(options.connections_max)),
        };
        Self {
            service,
            handler,
            peer,
            sessions,
            room,
            access: AccessRules::new(address, options.hosts, options.token),
            ids: options.ids,
            streams,
        }
    }

    /// The checks before the body is read, which apply to every request.
    fn check_request_head(&self, request: &Request<Incoming>) -> Result<(), Error> {
        if request.uri().path().trim_end_matches('/') != ENDPOINT_PATH {
            let message = format!("there is nothing here but {ENDPOINT_PATH}");
            return Err(Error::new(Code::ResourceNotFound, message)
                .with_action("Send MCP messages to /mcp of this server"));
        }
        self.access.check_request(request, SINGLE_VALUE_HEADERS)
    }

    async fn handle_post(
        &self,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Result<Response<Reply>, RequestError> {
        check_content_encoding(request.headers())?;
        let AdmittedRequest { request, body, id, slot, admission, work } =
            self.admit_request(request, connection).await?;
        let is_json = has_json_content_type(request.headers());
        let response = if let Some(slot) = slot {
            self.begin_session(request, slot).await?
        } else {
            let answered = self.handle_without_new_session(request, &body).await;
            answered.map_err(|refusal| refusal.of(id.clone()))?
        };
        let response = match response.status() {
            // rmcp uses this status for a body that it cannot parse.
            StatusCode::UNSUPPORTED_MEDIA_TYPE if is_json => {
                unreadable_body_response(&body, &*self.ids)
            }
            _ => response,
        };
        let response =
            self.complete_rmcp_refusal(response).await.map_err(|refusal| refusal.of(id))?;
        Ok(response.map(|reply| body::count_reply_body(reply, admission, work, &self.room)))
    }

    /// Answers a request that does not start a session.
    async fn handle_without_new_session(
        &self,
        request: Request<Full<Bytes>>,
        body: &[u8],
    ) -> Result<Response<Reply>, RequestError> {
        if let Some(peer) = &self.peer
            && let Some(call) = direct::parse_fast_path_call(request.headers(), body)
        {
            let (parts, _) = request.into_parts();
            return Ok(
                direct::answer_fast_path_call((self.handler)(), peer.clone(), parts, call).await?
            );
        }
        Ok(Box::pin(self.service.handle(request)).await)
    }

    /// Runs in a separate task, so that a session that rmcp has started is registered even if its client disconnects.
    async fn begin_session(
        &self,
        request: Request<Full<Bytes>>,
        slot: SessionSlot,
    ) -> Result<Response<Reply>, RequestError> {
        let service = self.service.clone();
        let beginning = tokio::spawn(async move {
            let response = service.handle(request).await;
            if let Some(id) = header_text(response.headers(), SESSION_ID_HEADER) {
                slot.register_session(id);
            }
            response
        });
        let begun = beginning.await;
        begun.map_err(|error| {
            Error::internal("the session could not begin").with_source(error).into()
        })
    }

    async fn admit_request(
        &self,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Result<AdmittedRequest, RequestError> {
        let (mut parts, body) = request.into_parts();
        let (body, bytes) = match body::read_request_body(body, &self.room, connection).await? {
            RequestBody::Whole(body, _) if frame::has_too_many_values(&body) => {
                return Err(oversized_body_error(&body));
            }
            RequestBody::Whole(body, bytes) => {
                (frame::repair_surrogate_escapes(&body).map_or(body, Bytes::from), bytes)
            }
            RequestBody::Oversized(beginning) => return Err(oversized_body_error(&beginning)),
        };
        // From here on the client waits for the server, so the connection counts as busy.
        let work = connection.begin_work();
        // A body without these fields is refused by rmcp. The refusal then gets a midex payload.
        let envelope: Envelope = serde_json::from_slice(&body).unwrap_or_default();
        let id = envelope.id.clone();
        let refused = |error: Error| RequestError::from(error).of(id.clone());
        if id.is_some()
            && let Some(fault) = oversized_integer_message(&body)
        {
            return Err(refused(Error::new(Code::ParamsInvalid, fault)));
        }
        let session = match header_text(&parts.headers, SESSION_ID_HEADER) {
            Some(id) => self.sessions.find_session(id),
            None => None,
        };
        let is_new = session.is_none()
            && envelope.method.as_deref() == Some("initialize")
            && !has_stateless_version(&parts.headers);
        if is_new && frame::parse_message(&body).is_err() {
            let error = Error::new(Code::ParamsInvalid, frame::MALFORMED_INITIALIZE);
            return Err(refused(error));
        }
        let slot =
            if is_new { Some(self.sessions.reserve_slot().await.map_err(refused)?) } else { None };
        let admission = Arc::new(AdmissionGuard {
            _call: self.room.budget.acquire_share(BudgetKind::Calls, 1).map_err(refused)?,
            _bytes: bytes,
            _id: register_call_id(session.as_ref(), &envelope).map_err(refused)?,
        });
        if let Some(session) = session.as_ref().or(slot.as_ref().map(SessionSlot::session)) {
            parts.extensions.insert(session.notification_channel());
        }
        // The handler keeps the admission, since it may outlive the connection.
        parts.extensions.insert(admission.clone());
        Ok(AdmittedRequest {
            request: Request::from_parts(parts, Full::new(body.clone())),
            body,
            id,
            slot,
            admission,
            work,
        })
    }

    async fn open_event_stream(
        &self,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Result<Response<Reply>, RequestError> {
        let work = connection.begin_work();
        let session = header_text(request.headers(), SESSION_ID_HEADER)
            .and_then(|id| self.sessions.find_session(id));
        // A stream that resumes a pending call delivers only the answer of that call.
        let is_of_call =
            header_text(request.headers(), LAST_EVENT_ID_HEADER).is_some_and(|id| id.contains('/'));
        let share = self.room.budget.acquire_share(BudgetKind::Streams, 1)?;
        let open = session.filter(|_| !is_of_call).map(|session| session.register_stream());
        let response = Box::pin(self.service.handle(request)).await;
        if !response.status().is_success() {
            return self.complete_rmcp_refusal(response).await;
        }
        let turn = open.as_ref().map(OpenStream::end_token).unwrap_or_default();
        let held = (share, open);
        Ok(response.map(|reply| {
            body::count_reply_body(body::end_body_on_cancel(reply, turn), held, work, &self.room)
        }))
    }

    async fn end_session(
        &self,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Result<Response<Reply>, RequestError> {
        let _work = connection.begin_work();
        let id = header_text(request.headers(), SESSION_ID_HEADER).map(str::to_owned);
        let is_known = id.as_ref().is_none_or(|id| self.sessions.find_session(id).is_some());
        let mut response =
            self.complete_rmcp_refusal(Box::pin(self.service.handle(request)).await).await?;
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
    async fn complete_rmcp_refusal(
        &self,
        response: Response<Reply>,
    ) -> Result<Response<Reply>, RequestError> {
        if response.status().is_success() {
            return Ok(response);
        }
        if !has_json_content_type(response.headers()) {
            return Err(refusal_from_rmcp(response).await.into());
        }
        let status = response.status();
        let said = collect_body(response).await;
        Ok(refusal::complete_error_payload(status, &said, &*self.ids))
    }
}

impl<H: ServerHandler> Service for Endpoint<H> {
    fn memory_budget(&self) -> &MemoryBudget {
        &self.room
    }

    async fn respond(
        &self,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Response<Reply> {
        let request = normalize_accept_header(request);
        let answered = match self.check_request_head(&request) {
            Ok(()) => match *request.method() {
                Method::POST => self.handle_post(request, connection).await,
                Method::GET => self.open_event_stream(request, connection).await,
                Method::DELETE => self.end_session(request, connection).await,
                _ => Err(method_not_allowed()),
            },
            Err(error) => Err(error.into()),
        };
        answered.unwrap_or_else(|refusal| refusal.answer(&*self.ids))
    }

    fn end_streams(&self) {
        self.streams.cancel();
    }

    async fn free_unused(&self) {
        self.sessions.end_unused_sessions().await;
    }
}

fn method_not_allowed() -> RequestError {
    let error = Error::new(Code::RequestInvalid, "the endpoint takes POST, GET and DELETE");
    HttpError::new(StatusCode::METHOD_NOT_ALLOWED, error).into()
}

/// Whether the request uses a protocol version without handshakes, which has no method `initialize`.
fn has_stateless_version(headers: &HeaderMap) -> bool {
    let version = header_text(headers, PROTOCOL_VERSION_HEADER);
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
fn normalize_accept_header(mut request: Request<Incoming>) -> Request<Incoming> {
    let given = request.headers().get_all(header::ACCEPT).iter();
    let given: Vec<_> = given.filter_map(|value| value.to_str().ok()).collect();
    let accepts = |kind: &str, group: &str| {
        let matches = |range: &str| {
            let (range, weight) = range.split_once(';').unwrap_or((range, ""));
            let weight = weight.split(';').find_map(|one| one.trim().strip_prefix("q="));
            let is_refused = weight.is_some_and(|weight| weight.trim().parse() == Ok(0.0));
            let meant = [kind, group, "*/*"];
            !is_refused && meant.iter().any(|one| one.eq_ignore_ascii_case(range.trim()))
        };
        let mut ranges = given.iter().flat_map(|value| value.split(','));
        given.is_empty() || ranges.any(matches)
    };
    let json = accepts("application/json", "application/*");
    let words = match (request.method(), accepts("text/event-stream", "text/*")) {
        (&Method::GET, true) => "text/event-stream",
        (_, true) if json => "application/json, text/event-stream",
        _ => return request,
    };
    let words = HeaderValue::from_static(words);
    request.headers_mut().insert(header::ACCEPT, words);
    request
}

/// Refuses a compressed body, which would be reported as invalid JSON.
fn check_content_encoding(headers: &HeaderMap) -> Result<(), HttpError> {
    let given = header_text(headers, header::CONTENT_ENCODING.as_str()).unwrap_or("identity");
    if given.trim().eq_ignore_ascii_case("identity") || given.trim().is_empty() {
        return Ok(());
    }
    let shown: String = given.chars().take(limits::ADDRESS_SHOWN_CHARS).collect();
    let message =
        format!("the body has the Content-Encoding `{shown}`, which this server does not unpack");
    let error = Error::new(Code::RequestInvalid, message)
        .with_action("Send the body as it is, without Content-Encoding");
    Err(HttpError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error))
}

fn has_json_content_type(headers: &HeaderMap) -> bool {
    let given = header_text(headers, header::CONTENT_TYPE.as_str()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

fn oversized_body_error(beginning: &[u8]) -> RequestError {
    let (bytes, values) = (limits::FRAME_BYTES_MAX, limits::FRAME_VALUES_MAX);
    let limit = format!("{bytes} bytes, or {values} values, in one message");
    let message = format!("the body exceeds the limit of {limit}");
    RequestError::from(Error::limit_exceeded(limit).with_message(message))
        .of(frame::find_id_near_start(beginning))
}

/// The answer to a body that is not a message, the same as over other transports.
fn unreadable_body_response(body: &[u8], ids: &dyn IdSource) -> Response<Reply> {
    let refused = match frame::parse_message(body) {
        Err(answer) => *answer,
        // Unreachable: rmcp parsed the same bytes in the same way.
        Ok(_) => unknown_message_error(),
    };
    match refused {
        JsonRpcMessage::Error(JsonRpcError { error, id, .. }) => {
            let error = JsonRpcMessage::error(answer::add_error_payload(error, ids), id);
            refusal::message_response(StatusCode::BAD_REQUEST, &error)
        }
        other => refusal::message_response(StatusCode::BAD_REQUEST, &other),
    }
}

async fn collect_body(response: Response<Reply>) -> Bytes {
    match response.into_body().collect().await {
        Ok(said) => said.to_bytes(),
        Err(never) => match never {},
    }
}

/// Converts a plain-text refusal of rmcp.
async fn refusal_from_rmcp(response: Response<Reply>) -> HttpError {
    let mut status = response.status();
    let said = collect_body(response).await;
    let said = String::from_utf8_lossy(&said);
    // The session ended while a call of it was being sent.
    if said.ends_with("Session service terminated") || said.contains("Session not found") {
        status = StatusCode::NOT_FOUND;
    }
    let code = match status {
        StatusCode::NOT_FOUND => Code::SessionNotFound,
        StatusCode::FORBIDDEN => Code::Forbidden,
        _ if said.ends_with("Session ID is required") => Code::SessionNotFound,
        status if status.is_server_error() => Code::Internal,
        _ => Code::RequestInvalid,
    };
    // The text begins with the name of the status.
    let words = said.split_once(": ").map_or(&*said, |(_, words)| words);
    let error = Error::new(code, words.to_owned());
    let both = "Send the header `Accept: application/json, text/event-stream`; a GET, `Accept: text/event-stream`";
    match status {
        StatusCode::METHOD_NOT_ALLOWED => {
            let message =
                "this version of the protocol has no sessions, and so no GET and no DELETE";
            let error = Error::new(code, message);
            HttpError::new(status, error.with_action("Send every message in a POST of its own"))
                .allowing("POST")
        }
        StatusCode::NOT_ACCEPTABLE => HttpError::new(status, error.with_action(both)),
        _ if said.contains("Protocol-Version") => HttpError::new(
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
