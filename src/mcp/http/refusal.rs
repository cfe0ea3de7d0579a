//! Refusals of requests: a status of HTTP, and a JSON-RPC error as every other surface has it.

use http::{Response, StatusCode};
use rmcp::{
    RoleServer,
    model::{JsonRpcError, JsonRpcMessage, RequestId},
    service::TxJsonRpcMessage,
};

use crate::{answer, splice};
use midex_domain::clock::IdSource;
use midex_http::refusal::{Refusal, Reply, json};

/// A request that is not passed on, and the id of the call that it holds.
#[derive(Debug)]
pub(super) struct Refused {
    refusal: Refusal,
    id: Option<RequestId>,
}

impl<T: Into<Refusal>> From<T> for Refused {
    fn from(refusal: T) -> Self {
        let refusal = refusal.into();
        Self { refusal, id: None }
    }
}

impl Refused {
    /// For the call with this id.
    #[must_use]
    pub(super) fn of(mut self, id: Option<RequestId>) -> Self {
        self.id = id;
        self
    }

    /// What the client is answered.
    pub(super) fn answer(self, ids: &dyn IdSource) -> Response<Reply> {
        let fault = answer::fault(&self.refusal.error, "http", ids);
        let message = JsonRpcMessage::error(fault, self.id);
        self.refusal.response(written(&message))
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
    json(status, written(message))
}

fn written(message: &TxJsonRpcMessage<RoleServer>) -> Vec<u8> {
    // A message of ours has no keys that are no text: it can always be written.
    splice::encoded(message).unwrap_or_default()
}
