//! The endpoint: one request, from its head to its reply.

use std::{net::SocketAddr, sync::Arc};

use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use rmcp::{
    ServerHandler,
    model::RequestId,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::{
    Options, PATH,
    body::{self, Reply, Sent},
    budget::{Budget, Kind, Share},
    connections::{Connection, Connections},
    origin::Names,
    refusal::{self, Refusal},
    room::Room,
    sessions::{CallId, Place, Session, Sessions},
};
use crate::{
    error::{Code, Error},
    limits,
    mcp::frame,
};

const SESSION_ID: &str = "mcp-session-id";

/// What answers every request.
pub(super) struct Endpoint<H> {
    service: StreamableHttpService<H, LocalSessionManager>,
    sessions: Arc<Sessions>,
    room: Room,
    names: Names,
    options: Options,
    streams: CancellationToken,
}

/// What is known of a message before rmcp reads it.
#[derive(Debug, Default, Deserialize)]
struct Envelope {
    id: Option<RequestId>,
    method: Option<String>,
}

/// What a call holds until its handler is done with it and its client has taken the reply.
#[derive(Debug)]
struct Admission {
    _call: Share,
    _bytes: Share,
    _id: Option<CallId>,
}

/// A request on its way to rmcp.
struct Admitted {
    request: Request<Full<Bytes>>,
    body: Bytes,
    /// The session that it may begin.
    place: Option<Place>,
    admission: Arc<Admission>,
}

impl<H: ServerHandler> Endpoint<H> {
    pub(super) fn new(
        address: SocketAddr,
        handler: impl Fn() -> H + Send + Sync + 'static,
        options: Options,
    ) -> Self {
        let sessions = Arc::new(Sessions::new());
        let streams = CancellationToken::new();
        let others = [address.ip().to_string()].into_iter();
        let names = Names::new(others.chain(options.hosts.iter().cloned()), address.port());
        let config = StreamableHttpServerConfig::default()
            .with_json_response(true)
            // The endpoint has looked at both before it reads a body, and has read the body by then.
            .disable_allowed_hosts()
            .with_max_request_body_bytes(usize::MAX)
            .with_cancellation_token(streams.clone());
        let service = StreamableHttpService::new(move || Ok(handler()), sessions.manager(), config);
        let room = Room {
            budget: Arc::new(Budget::default()),
            connections: Arc::new(Connections::default()),
        };
        Self {
            service,
            sessions,
            room,
            names,
            options,
            streams,
        }
    }

    pub(super) fn room(&self) -> &Room {
        &self.room
    }

    pub(super) fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    /// Ends every stream and session.
    pub(super) fn end_streams(&self) {
        self.streams.cancel();
    }

    /// Answers one request.
    pub(super) async fn respond(
        &self,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Response<Reply> {
        let answered = match self.check(&request) {
            Ok(()) => match *request.method() {
                Method::POST => self.post(request, connection).await,
                Method::GET => self.stream(request, connection).await,
                Method::DELETE => self.end(request).await,
                _ => Err(Refusal::new(
                    StatusCode::METHOD_NOT_ALLOWED,
                    Error::new(
                        Code::RequestInvalid,
                        "the endpoint takes POST, GET and DELETE",
                    ),
                )),
            },
            Err(error) => Err(error.into()),
        };
        answered.unwrap_or_else(|refusal| refusal.answer(&*self.options.ids))
    }

    fn check(&self, request: &Request<Incoming>) -> Result<(), Error> {
        self.names.check(request.headers())?;
        if let Some(token) = &self.options.token {
            let given = text(request.headers(), header::AUTHORIZATION.as_str());
            if !token.admits(given) {
                let message =
                    "the request carries no bearer token, or another one than this server's";
                return Err(Error::new(Code::Unauthorized, message));
            }
        }
        if request.uri().path() != PATH {
            let message = format!("there is nothing here but {PATH}");
            return Err(Error::new(Code::ResourceNotFound, message)
                .with_action("Send MCP messages to /mcp of this server"));
        }
        Ok(())
    }

    async fn post(
        &self,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Result<Response<Reply>, Refusal> {
        let Admitted {
            request,
            body,
            place,
            admission,
        } = self.admit(request, connection).await?;
        let work = connection.work();
        let is_json = is_json(request.headers());
        let response = Box::pin(self.service.handle(request)).await;
        if let (Some(place), Some(id)) = (place, text(response.headers(), SESSION_ID)) {
            place.fill(id);
        }
        let response = match response.status() {
            // rmcp's word for a body it cannot read.
            StatusCode::UNSUPPORTED_MEDIA_TYPE if is_json => unreadable(&body),
            _ => mended(response).await?,
        };
        // Over a stream the size of a reply is not known before it is written, piece by piece.
        let bytes = response.body().size_hint().exact().unwrap_or_default();
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let bytes = self.room.budget.count(Kind::Bytes, bytes);
        Ok(response.map(|reply| body::holding(reply, (work, admission, bytes))))
    }

    async fn admit(
        &self,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Result<Admitted, Refusal> {
        let (mut parts, body) = request.into_parts();
        let sending = connection.sending();
        let (body, bytes) = match body::read(body, &self.room).await.map_err(late)? {
            Sent::Whole(body, bytes) => (body, bytes),
            Sent::Oversized(beginning) => return Err(oversized(&beginning)),
        };
        drop(sending);
        // What has none is refused by rmcp, and its refusal worded anew.
        let envelope: Envelope = serde_json::from_slice(&body).unwrap_or_default();
        let id = envelope.id.clone();
        let refused = |error: Error| Refusal::from(error).of(id.clone());
        let session = match text(&parts.headers, SESSION_ID) {
            Some(id) => self.sessions.find(id),
            None => None,
        };
        let is_new = session.is_none() && envelope.method.as_deref() == Some("initialize");
        let place = match is_new {
            true => Some(self.sessions.place().await.map_err(refused)?),
            false => None,
        };
        let admission = Arc::new(Admission {
            _call: self.room.budget.take(Kind::Calls, 1).map_err(refused)?,
            _bytes: bytes,
            _id: begin(session.as_ref(), &envelope).map_err(refused)?,
        });
        if let Some(session) = session.as_ref().or(place.as_ref().map(Place::session)) {
            parts.extensions.insert(session.reach());
        }
        // It goes with the call into its handler, which may outlive the connection.
        parts.extensions.insert(admission.clone());
        Ok(Admitted {
            request: Request::from_parts(parts, Full::new(body.clone())),
            body,
            place,
            admission,
        })
    }

    async fn stream(
        &self,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Result<Response<Reply>, Refusal> {
        let session = text(request.headers(), SESSION_ID).and_then(|id| self.sessions.find(id));
        let share = self.room.budget.take(Kind::Streams, 1)?;
        let response = self.service.handle(request).await;
        if !response.status().is_success() {
            return mended(response).await;
        }
        // From here on what the client did not ask for reaches it.
        let open = session.map(|session| session.stream());
        let held = (share, open, connection.work());
        Ok(response.map(|reply| body::holding(reply, held)))
    }

    async fn end(&self, request: Request<Incoming>) -> Result<Response<Reply>, Refusal> {
        let id = text(request.headers(), SESSION_ID).map(str::to_owned);
        let mut response = mended(self.service.handle(request).await).await?;
        if let Some(id) = id {
            self.sessions.forget(&id);
        }
        // Some clients take the 202 of a request that was merely taken for a failure.
        *response.status_mut() = StatusCode::NO_CONTENT;
        Ok(response)
    }
}

/// The id of a request of a session begins its work.
fn begin(session: Option<&Arc<Session>>, envelope: &Envelope) -> Result<Option<CallId>, Error> {
    let (Some(session), Some(id), Some(_)) = (session, &envelope.id, &envelope.method) else {
        return Ok(None);
    };
    let call = session.begin(id.clone()).ok_or_else(|| {
        let message = format!("a call with id {id} is still being answered");
        Error::new(Code::RequestInvalid, message)
            .with_action("Send the call again with another id, or wait for the first answer")
    });
    call.map(Some)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn is_json(headers: &HeaderMap) -> bool {
    let given = text(headers, header::CONTENT_TYPE.as_str()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

/// A body that did not come in time.
fn late(error: Error) -> Refusal {
    match error.code() {
        Code::RequestInvalid => Refusal::new(StatusCode::REQUEST_TIMEOUT, error),
        _ => error.into(),
    }
}

fn oversized(beginning: &[u8]) -> Refusal {
    let limit = format!("{} bytes in one message", limits::FRAME_BYTES_MAX);
    let message = format!("the body exceeds the limit of {limit}");
    let error = Error::new(Code::LimitExceeded, message).with("limit", limit);
    Refusal::from(error).of(frame::early_id(beginning))
}

/// The answer to a body that is no message: the same as over any other transport.
fn unreadable(body: &[u8]) -> Response<Reply> {
    match frame::parse(body) {
        Err(answer) => refusal::message(StatusCode::BAD_REQUEST, &answer),
        Ok(_) => Response::default(),
    }
}

/// rmcp refuses in plain text; what speaks JSON-RPC is told in JSON-RPC.
async fn mended(response: Response<Reply>) -> Result<Response<Reply>, Refusal> {
    let status = response.status();
    if status.is_success() || is_json(response.headers()) {
        return Ok(response);
    }
    let said = match response.into_body().collect().await {
        Ok(said) => String::from_utf8_lossy(&said.to_bytes()).into_owned(),
        Err(never) => match never {},
    };
    let code = match status {
        StatusCode::NOT_FOUND => Code::SessionNotFound,
        StatusCode::FORBIDDEN => Code::Forbidden,
        _ if said.ends_with("Session ID is required") => Code::SessionNotFound,
        status if status.is_server_error() => Code::Internal,
        _ => Code::RequestInvalid,
    };
    // It begins with the name of the status.
    let words = said
        .split_once(": ")
        .map_or(said.as_str(), |(_, words)| words);
    Err(Refusal::new(status, Error::new(code, words)))
}
