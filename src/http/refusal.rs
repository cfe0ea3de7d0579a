//! Requests that are refused before anybody looks at what they ask for.

use std::convert::Infallible;

use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::Bytes;

use midex_domain::error::{Code, Error};

/// The body of a reply.
pub type Reply = BoxBody<Bytes, Infallible>;

/// Why a request is refused, and the status that says so. What serves the requests writes the body.
#[derive(Debug)]
pub struct Refusal {
    pub(crate) status: StatusCode,
    /// What the body of the reply says.
    pub error: Error,
    /// For the header `Allow`, where the status is 405.
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
        Self::new(status, error)
    }
}

impl Refusal {
    /// With another status than the code's own.
    pub fn new(status: StatusCode, error: Error) -> Self {
        Self {
            status,
            error,
            allowed: "GET, POST, DELETE",
        }
    }

    /// Names the only methods that are allowed.
    #[must_use]
    pub fn allowing(mut self, allowed: &'static str) -> Self {
        self.allowed = allowed;
        self
    }

    /// The response with this body of JSON, and the header that the status asks for.
    pub fn response(&self, body: Vec<u8>) -> Response<Reply> {
        let mut response = json(self.status, body);
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

/// A response with a body of JSON.
pub fn json(status: StatusCode, body: Vec<u8>) -> Response<Reply> {
    let mut response = Response::new(Full::from(body).boxed());
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
