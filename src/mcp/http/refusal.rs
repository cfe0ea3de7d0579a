//! Refused requests: an HTTP status, with the same JSON-RPC error that other transports send.

use http::StatusCode;
use rmcp::{
    RoleServer,
    model::{JsonRpcError, JsonRpcMessage, RequestId},
    service::TxJsonRpcMessage,
};

use crate::{answer, splice};
use midex_domain::clock::IdSource;
use midex_http::{
    Response,
    refusal::{HttpError, json_response},
};

/// The error of a refused request, with the id of its call if it is known.
#[derive(Debug)]
pub(super) struct RequestError {
    error: HttpError,
    id: Option<RequestId>,
}

impl<T: Into<HttpError>> From<T> for RequestError {
    fn from(error: T) -> Self {
        let error = error.into();
        Self { error, id: None }
    }
}

impl RequestError {
    /// Sets the id of the call.
    #[must_use]
    pub(super) fn with_call_id(mut self, id: Option<RequestId>) -> Self {
        self.id = id;
        self
    }

    /// The HTTP response.
    pub(super) fn into_response(self, ids: &dyn IdSource) -> Response {
        let fault = answer::build_error_data(&self.error.error, "http", ids);
        let message = JsonRpcMessage::error(fault, self.id);
        self.error.build_response(serialize_message(&message))
    }
}

/// Adds the midex error payload to a JSON-RPC error that lacks it.
pub(super) fn complete_error_payload(
    status: StatusCode,
    body: &[u8],
    ids: &dyn IdSource,
) -> Response {
    match serde_json::from_slice(body) {
        Ok(TxJsonRpcMessage::<RoleServer>::Error(JsonRpcError { error, id, .. })) => {
            let error = answer::add_error_payload(error, ids);
            build_message_response(status, &JsonRpcMessage::error(error, id))
        }
        _ => json_response(status, body.to_owned()),
    }
}

/// A response that consists of one message.
pub(super) fn build_message_response(
    status: StatusCode,
    message: &TxJsonRpcMessage<RoleServer>,
) -> Response {
    json_response(status, serialize_message(message))
}

fn serialize_message(message: &TxJsonRpcMessage<RoleServer>) -> Vec<u8> {
    // Serializing cannot fail, since messages contain no maps with keys other than strings.
    splice::encode_message(message).unwrap_or_default()
}
