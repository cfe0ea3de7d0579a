//! Access control by the head of a request.

use std::net::SocketAddr;

use http::{HeaderMap, Request, header};

use super::{BearerToken, Host, origin::AcceptedHosts};
use midex_domain::error::{Code, Error, Result};

/// Headers that may occur only once. If one occurs twice, a proxy in front of this server may have checked the other
/// value.
const UNREPEATABLE_HEADERS: &[&str] =
    &["host", "origin", "authorization", "content-type", "content-length", "transfer-encoding"];

/// The access rules of a server: a request must name one of its hosts, come from none but its own pages, and carry
/// its token if it has one.
#[derive(Debug)]
pub struct AccessRules {
    token: Option<BearerToken>,
    names: AcceptedHosts,
}

impl AccessRules {
    /// The rules of a server that listens on `address`.
    pub fn new(address: SocketAddr, hosts: Vec<Host>, token: Option<BearerToken>) -> Self {
        let names = AcceptedHosts::new(address, hosts);
        Self { token, names }
    }

    /// Checks the head of a request before its body is read. `single` lists further headers that may occur only once.
    ///
    /// # Errors
    /// `REQUEST_INVALID` for a repeated header, `UNAUTHORIZED` without the token, `FORBIDDEN` as `Names::check_request`.
    pub fn check_request<T>(&self, request: &Request<T>, single: &[&'static str]) -> Result<()> {
        check_unrepeated_headers(request.headers(), single)?;
        if let Some(token) = &self.token {
            let given = header_text(request.headers(), header::AUTHORIZATION.as_str());
            if !token.is_authorized(given) {
                let message =
                    "the request carries no bearer token, or another one than this server's";
                return Err(Error::new(Code::Unauthorized, message));
            }
        }
        self.names.check_host_and_origin(request.uri(), request.headers())
    }
}

fn check_unrepeated_headers(headers: &HeaderMap, more: &[&'static str]) -> Result<()> {
    let is_double = |name: &&&str| headers.get_all(**name).iter().nth(1).is_some();
    let Some(name) = UNREPEATABLE_HEADERS.iter().chain(more).find(is_double) else {
        return Ok(());
    };
    let message = format!("the header `{name}` comes more than once");
    Err(Error::new(Code::RequestInvalid, message)
        .with_context("header", *name)
        .with_action("Send the header `{header}` once"))
}

/// The value of a header, if it is text.
pub fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
