//! Builds the HTTP request of an operation with its arguments, as the document specifies. Pure.

use std::fmt::Write as _;

use reqwest::{
    Url,
    header::{ACCEPT, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::Value;

use super::{
    arguments::{self, BoundArguments, PreparedOperation},
    body,
    serialize::{
        Encoding, escape_pointer_key, is_json, serialize_content, serialize_pairs,
        serialize_segment,
    },
};
use crate::operation::{BodyContent, Method, Operation, Parameter, ParameterLocation, ValueStyle};
use midex_domain::{document::to_plain_text, error::Violation, limits, uri};

/// Headers of the connection. A call that could set them could smuggle a second request (RFC 9110, 7.6).
const CONNECTION_HEADERS: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether a header belongs to the connection, so that no caller may set it.
pub fn is_connection_header(name: &str) -> bool {
    CONNECTION_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// The input of a call.
#[derive(Clone, Copy, Debug)]
pub struct CallArguments<'a> {
    /// The arguments by name: an object, or null.
    pub with: &'a Value,
    /// The body.
    pub body: Option<&'a Value>,
    /// The idempotency key: the value of the idempotency header, unless an argument sets that.
    pub idempotency_key: Option<&'a str>,
}

/// A request, before the headers and credentials of its catalog are added.
#[derive(Clone)]
pub struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Vec<u8>>,
    /// Whether several schemas of a `oneOf` match a part of what is sent.
    pub(super) has_several_matches: bool,
}

/// Shows method and path only, because the rest may contain secrets.
impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Request({} {})", self.method.as_str(), self.url.path())
    }
}

impl Request {
    /// Builds the request of an operation at `base_url`.
    ///
    /// # Errors
    /// Every violation: arguments that are missing, unknown or not serializable; a body that violates its schema; an
    /// invalid base URL. An argument in the path that is empty, `.` or `..` is refused too, because it would lead to
    /// another path.
    pub fn build(
        prepared: &PreparedOperation,
        base_url: &str,
        arguments: CallArguments<'_>,
    ) -> Result<Self, Vec<Violation>> {
        let CallArguments { with, body, idempotency_key } = arguments;
        let operation = prepared.operation();
        let bound = arguments::bind_arguments(prepared, with, body, idempotency_key.is_some())?;
        let url = build_url(operation, base_url, &bound).map_err(|violation| vec![*violation])?;
        let headers = build_headers(operation, &bound, idempotency_key)?;
        let mut request = Self {
            method: operation.method,
            url,
            headers,
            body: None,
            has_several_matches: bound.has_several_matches,
        };
        if let Some((content, body)) = &bound.body {
            request.write_body(content, body).map_err(|violation| vec![*violation])?;
        }
        Ok(request)
    }

    fn write_body(&mut self, content: &BodyContent, value: &Value) -> Result<(), Box<Violation>> {
        let (content_type, body) = body::encode_body(content, value)?;
        if body.len() > limits::CALL_REQUEST_BYTES_MAX {
            let message = format!(
                "a request may have {} bytes, this body has {}",
                limits::CALL_REQUEST_BYTES_MAX,
                body.len()
            );
            return Err(Violation::new("/body", "limit", message).into());
        }
        let content_type = HeaderValue::from_str(&content_type);
        let content_type = content_type
            .map_err(|_| Box::new(Violation::new("/body", "header", "its media type is none")))?;
        self.headers.insert(CONTENT_TYPE, content_type);
        self.body = Some(body);
        Ok(())
    }

    /// The method.
    pub fn method(&self) -> Method {
        self.method
    }

    /// The URL.
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body.
    pub fn body(&self) -> Option<&[u8]> {
        self.body.as_deref()
    }

    /// Adds a pair to the query.
    pub(super) fn add_query(&mut self, name: &str, value: &str) {
        let pair = format!("{}={}", uri::encode_segment(name), uri::encode_segment(value));
        let query = self.url.query().filter(|query| !query.is_empty());
        let query = query.map_or_else(|| pair.clone(), |query| format!("{query}&{pair}"));
        self.url.set_query(Some(&query));
    }

    /// Adds a cookie.
    pub(super) fn add_cookie(&mut self, name: &str, value: &str) -> Result<(), String> {
        let other_cookies = self.header(COOKIE.as_str()).map(|others| format!("{others}; "));
        let cookie = format!(
            "{}{}={}",
            other_cookies.unwrap_or_default(),
            uri::encode_segment(name),
            uri::encode_segment(value)
        );
        self.set_header(COOKIE.as_str(), &cookie)
    }

    /// Sets a header. The error says why the header is invalid.
    pub(super) fn set_header(&mut self, name: &str, value: &str) -> Result<(), String> {
        let (name, value) = validate_header(name, value)?;
        self.headers.insert(name, value);
        Ok(())
    }
}

/// Validates a header. The error says why it is invalid.
fn validate_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let header_name =
        HeaderName::try_from(name).map_err(|_| format!("`{name}` is no name of a header"))?;
    if is_connection_header(name) {
        return Err(format!("the header `{name}` is midex's own"));
    }
    let is_plain = value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
    let value = HeaderValue::from_str(value).ok().filter(|_| is_plain);
    let value = value.ok_or_else(|| {
        format!("the header `{name}` may have printable ASCII alone, on one line")
    })?;
    Ok((header_name, value))
}

/// The violation of an argument.
fn argument_violation(parameter: &Parameter, rule: &str, message: String) -> Box<Violation> {
    let path = format!("/with/{}", escape_pointer_key(&parameter.argument));
    Box::new(Violation::new(path, rule, message))
}

fn build_url(
    operation: &Operation,
    base_url: &str,
    bound: &BoundArguments<'_>,
) -> Result<Url, Box<Violation>> {
    check_request_base_url(base_url)?;
    // Some documents distinguish operations of one path by a `#fragment`, which is never sent.
    let path = operation.path.split('#').next().unwrap_or_default();
    let (path, fixed_query) = path.split_once('?').unwrap_or((path, ""));
    let path = fill_path(path, bound)?;
    let text = match path.trim_start_matches('/') {
        "" if !operation.path.starts_with('/') => base_url.to_owned(),
        path => format!("{}/{path}", base_url.trim_end_matches('/')),
    };
    let mut url = Url::parse(&text)
        .map_err(|error| base_url_violation(base_url, &format!("is none: {error}")))?;
    let query = build_query(fixed_query, bound);
    url.set_query((!query.is_empty()).then_some(query.as_str()));
    let (bytes, max_bytes) = (url.as_str().len(), limits::CALL_URL_BYTES_MAX);
    if bytes > max_bytes {
        let message = format!("a URL may have {max_bytes} bytes, this one has {bytes}");
        return Err(Violation::new("/with", "limit", message).into());
    }
    Ok(url)
}

/// The rule of violations that are about the base URL.
pub(super) const BASE_URL_RULE: &str = "base_url";

/// Checks that a request can begin with this base URL.
pub(super) fn check_request_base_url(base_url: &str) -> Result<(), Box<Violation>> {
    let fault = match Url::parse(base_url) {
        _ if base_url.is_empty() => {
            let message = "the catalog has no base URL: its document names no server";
            return Err(Box::new(Violation::new("", BASE_URL_RULE, message)));
        }
        _ if base_url.contains(['?', '#']) => "has a query or a fragment",
        _ if base_url.contains(['{', '}']) => "has a variable without a value",
        Ok(url) if url.has_host() => return Ok(()),
        _ => "names no host",
    };
    Err(base_url_violation(base_url, fault))
}

fn base_url_violation(base_url: &str, why: &str) -> Box<Violation> {
    let message = format!("the base URL `{base_url}` {why}");
    Box::new(Violation::new("", BASE_URL_RULE, message))
}

/// The query: the fixed part in the path, then the arguments.
fn build_query(fixed_query: &str, bound: &BoundArguments<'_>) -> String {
    let mut query = Vec::new();
    if !fixed_query.is_empty() {
        query.push(fixed_query.to_owned());
    }
    for (parameter, value) in &bound.parameters {
        if parameter.location == ParameterLocation::Query {
            let pairs = serialize_pairs(&parameter.name, value, &parameter.written).into_iter();
            query.extend(pairs.map(|(name, value)| format!("{name}={value}")));
        }
    }
    query.join("&")
}

/// Fills the arguments into the path. Fails if a `{NAME}` is left, or if a segment is `.` or `..`.
fn fill_path(template: &str, bound: &BoundArguments<'_>) -> Result<String, Box<Violation>> {
    let mut path = template.to_owned();
    for (parameter, value) in &bound.parameters {
        if parameter.location != ParameterLocation::Path {
            continue;
        }
        let name = &parameter.argument;
        let text = to_plain_text(value);
        let segment =
            serialize_segment(&parameter.name, value, &parameter.written, Encoding::Percent);
        if segment.is_empty() || matches!(text.as_str(), "" | "." | "..") {
            let message = format!(
                "the argument `{name}` stands in the path: it cannot be empty, `.` or `..`"
            );
            return Err(argument_violation(parameter, "path", message));
        }
        path = path.replace(&format!("{{{}}}", parameter.name), &segment);
    }
    if path.contains(['{', '}']) {
        let message = format!("the path `{template}` has places that no argument fills");
        return Err(Violation::new("/with", "path", message).into());
    }
    let has_dot_segment =
        |segment: &str| matches!(uri::decode_segment(segment).as_deref(), Some("." | ".."));
    if path.split('/').any(has_dot_segment) {
        let message = format!("the path `{template}` would lead elsewhere with these arguments");
        return Err(Violation::new("/with", "path", message).into());
    }
    Ok(path)
}

fn build_headers(
    operation: &Operation,
    bound: &BoundArguments<'_>,
    idempotency_key: Option<&str>,
) -> Result<HeaderMap, Vec<Violation>> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*;q=0.8"));
    if let Some(key) = idempotency_key {
        let name = operation.idempotency_header.as_deref().unwrap_or("Idempotency-Key");
        if let Ok((name, value)) = validate_header(name, key) {
            headers.insert(name, value);
        }
    }
    let mut violations = Vec::new();
    let mut cookies = Vec::new();
    for (parameter, value) in &bound.parameters {
        match parameter.location {
            ParameterLocation::Header => {
                match validate_header(&parameter.name, &encode_header_value(parameter, value)) {
                    Ok((name, value)) => drop(headers.insert(name, value)),
                    Err(why) => violations.push(*argument_violation(parameter, "header", why)),
                }
            }
            ParameterLocation::Cookie => {
                let pairs = serialize_pairs(&parameter.name, value, &parameter.written).into_iter();
                cookies.extend(pairs.map(|(name, value)| format!("{name}={value}")));
            }
            ParameterLocation::Path | ParameterLocation::Query => {}
        }
    }
    if let Ok(cookies) = HeaderValue::from_str(&cookies.join("; "))
        && !cookies.is_empty()
    {
        headers.insert(COOKIE, cookies);
    }
    if violations.is_empty() { Ok(headers) } else { Err(violations) }
}

/// The value of a header. JSON in it is escaped to ASCII.
fn encode_header_value(parameter: &Parameter, value: &Value) -> String {
    match &parameter.written {
        ValueStyle::Content(media_type) => {
            let text = serialize_content(media_type, value);
            if !is_json(media_type) {
                return text;
            }
            let mut escaped = String::new();
            for letter in text.chars() {
                match letter {
                    letter if letter.is_ascii() => escaped.push(letter),
                    letter => letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                        // Writing to a `String` cannot fail.
                        let _ = write!(escaped, "\\u{unit:04x}");
                    }),
                }
            }
            escaped
        }
        written @ ValueStyle::Styled { .. } => {
            serialize_segment(&parameter.name, value, written, Encoding::Plain)
        }
    }
}
