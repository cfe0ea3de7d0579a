//! Refusals of requests: a status of HTTP, and a JSON-RPC error as every other surface has it.

use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use rmcp::{
    RoleServer,
    model::{JsonRpcError, JsonRpcMessage, RequestId},
    service::TxJsonRpcMessage,
};

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
    /// The methods that are, where this one is not.
    allowed: &'static str,
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
            allowed: "GET, POST, DELETE",
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

    /// Where only these methods are.
    #[must_use]
    pub(super) fn allowing(mut self, allowed: &'static str) -> Self {
        self.allowed = allowed;
        self
    }

    /// What the client is answered.
    pub(super) fn answer(self, ids: &dyn IdSource) -> Response<Reply> {
        let fault = answer::fault(&self.error, "http", ids);
        let mut response = message(self.status, &JsonRpcMessage::error(fault, self.id));
        let (name, value) = match self.status {
            StatusCode::UNAUTHORIZED => (header::WWW_AUTHENTICATE, "Bearer"),
            StatusCode::SERVICE_UNAVAILABLE => (header::RETRY_AFTER, "1"),
            StatusCode::METHOD_NOT_ALLOWED => (header::ALLOW, self.allowed),
            _ => return response,
        };
        let headers = response.headers_mut();
        headers.insert(name, HeaderValue::from_static(value));
        response
    }
}

/// An error in JSON-RPC that came without the payload that every error of midex has.
pub(super) fn completed(status: StatusCode, said: &[u8], ids: &dyn IdSource) -> Response<Reply> {
    match serde_json::from_slice(said) {
        Ok(TxJsonRpcMessage::<RoleServer>::Error(JsonRpcError { error, id, .. })) => {
            let error = answer::completed(error, ids);
            message(status, &JsonRpcMessage::error(error, id))
        }
        _ => json(status, said.to_owned()),
    }
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
