//! Refusals of HTTP requests, before their content is processed.

use axum::response::{IntoResponse as _, Response};
use http::{HeaderValue, StatusCode, header};

use midex_domain::error::{Code, Error};

/// The error of a refused request, with the status code of the reply. The service that refuses it encodes the body.
#[derive(Debug)]
pub struct HttpError {
    pub(crate) status: StatusCode,
    /// The error that the body of the reply reports.
    pub error: Error,
    /// The value of the header `Allow`, which a reply with status 405 has.
    allowed_methods: &'static str,
}

impl From<Error> for HttpError {
    fn from(error: Error) -> Self {
        Self::new(http_status(error.code()), error)
    }
}

impl HttpError {
    /// An error with another status code than the one that the error code implies.
    pub fn new(status: StatusCode, error: Error) -> Self {
        Self { status, error, allowed_methods: "GET, POST, DELETE" }
    }

    /// Sets the methods that the header `Allow` lists.
    #[must_use]
    pub fn with_allowed_methods(mut self, methods: &'static str) -> Self {
        self.allowed_methods = methods;
        self
    }

    /// The response with this JSON body, and with the header that its status code requires.
    pub fn build_response(&self, body: Vec<u8>) -> Response {
        let mut response = json_response(self.status, body);
        let (name, value) = match self.status {
            StatusCode::UNAUTHORIZED => (header::WWW_AUTHENTICATE, "Bearer"),
            StatusCode::SERVICE_UNAVAILABLE => (header::RETRY_AFTER, "1"),
            StatusCode::METHOD_NOT_ALLOWED => (header::ALLOW, self.allowed_methods),
            _ => return response,
        };
        let headers = response.headers_mut();
        headers.insert(name, HeaderValue::from_static(value));
        response
    }
}

/// The status code for an error.
pub fn http_status(code: Code) -> StatusCode {
    match code {
        Code::Unauthorized => StatusCode::UNAUTHORIZED,
        Code::Forbidden => StatusCode::FORBIDDEN,
        Code::SessionNotFound | Code::ResourceNotFound => StatusCode::NOT_FOUND,
        Code::LimitExceeded => StatusCode::PAYLOAD_TOO_LARGE,
        Code::ServerBusy | Code::ServerStopping => StatusCode::SERVICE_UNAVAILABLE,
        Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    }
}

/// A response with a JSON body.
pub fn json_response(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
