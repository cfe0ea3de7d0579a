//! Refusals of requests: a status of HTTP, and a JSON-RPC error as every other surface has it.

use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use rmcp::{
    RoleServer,
    model::{JsonRpcMessage, RequestId},
    service::TxJsonRpcMessage,
};

use serde_json::Value;

use super::body::Reply;
use crate::{
    clock::IdSource,
    error::{Code, Error},
    mcp::answer,
};

/// A request that is not passed on.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    error: Error,
    id: Option<RequestId>,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = match error.code() {
            Code::Unauthorized => StatusCode::UNAUTHORIZED,
            Code::Forbidden => StatusCode::FORBIDDEN,
            Code::SessionNotFound | Code::ResourceNotFound => StatusCode::NOT_FOUND,
            Code::LimitExceeded => StatusCode::PAYLOAD_TOO_LARGE,
            Code::ServerBusy | Code::ServerStopping => StatusCode::SERVICE_UNAVAILABLE,
            Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        };
        Self {
            status,
            error,
            id: None,
        }
    }
}

impl Refusal {
    /// With another status than the code's own.
    pub(super) fn new(status: StatusCode, error: Error) -> Self {
        Self {
            status,
            ..Self::from(error)
        }
    }

    /// For the call with this id.
    #[must_use]
    pub(super) fn of(mut self, id: Option<RequestId>) -> Self {
        self.id = id;
        self
    }

    /// What the client is answered.
    pub(super) fn answer(self, ids: &dyn IdSource) -> Response<Reply> {
        let fault = answer::fault(&self.error, "http", ids);
        let mut response = message(self.status, &JsonRpcMessage::error(fault, self.id));
        let (name, value) = match self.status {
            StatusCode::UNAUTHORIZED => (header::WWW_AUTHENTICATE, "Bearer"),
            StatusCode::SERVICE_UNAVAILABLE => (header::RETRY_AFTER, "1"),
            StatusCode::METHOD_NOT_ALLOWED => (header::ALLOW, "GET, POST, DELETE"),
            _ => return response,
        };
        let headers = response.headers_mut();
        headers.insert(name, HeaderValue::from_static(value));
        response
    }
}

/// An error in JSON-RPC that came without the payload that every error of midex has.
pub(super) fn completed(status: StatusCode, said: &[u8], ids: &dyn IdSource) -> Response<Reply> {
    let mut said: Value = serde_json::from_slice(said).unwrap_or_default();
    if let Some(error) = said
        .get_mut("error")
        .filter(|error| error["data"].is_null())
    {
        let message = error["message"].as_str().unwrap_or_default().to_owned();
        let ours = Error::new(Code::RequestInvalid, message);
        let ours = match error["code"].as_i64() {
            Some(-32700 | -32600) => ours,
            Some(-32601) => ours.with_action(
                "Send a method of what the answer to initialize or server/discover offers",
            ),
            _ => ours.with_action(
                "Correct the request: its headers and its `_meta` name one protocol version, \
                 and Mcp-Method and Mcp-Name say what the body says",
            ),
        };
        error["data"] = answer::fault(&ours, "http", ids).data.unwrap_or_default();
    }
    json(status, serde_json::to_vec(&said).unwrap_or_default())
}

/// A message as the whole of a response.
pub(super) fn message(
    status: StatusCode,
    message: &TxJsonRpcMessage<RoleServer>,
) -> Response<Reply> {
    // A message of ours has no keys that are no text: it can always be written.
    json(status, serde_json::to_vec(message).unwrap_or_default())
}

fn json(status: StatusCode, body: Vec<u8>) -> Response<Reply> {
    let mut response = Response::new(Full::from(body).boxed());
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
