//! Access control by the head of a request.

use std::{net::SocketAddr, sync::Arc};

use axum::{Router, extract::Request, middleware, response::Response};
use http::{HeaderMap, header};

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
    accepted_hosts: AcceptedHosts,
    /// Further headers that may occur only once.
    unrepeated_headers: &'static [&'static str],
}

impl AccessRules {
    /// The rules of a server that listens on `address`. `unrepeated_headers` lists further headers that may occur only
    /// once.
    pub fn new(
        address: SocketAddr,
        hosts: Vec<Host>,
        token: Option<BearerToken>,
        unrepeated_headers: &'static [&'static str],
    ) -> Self {
        let accepted_hosts = AcceptedHosts::new(address, hosts);
        Self { token, accepted_hosts, unrepeated_headers }
    }

    /// Also accepts this host name, with the port of the address alone.
    #[must_use]
    pub fn with_own_name(mut self, name: Host) -> Self {
        self.accepted_hosts.add_own_name(name);
        self
    }

    /// Puts these rules before every route of `router`; its fallback stays open to all. `refuse` makes the reply to a
    /// request that breaks them, whose body is not read.
    pub fn protect_routes(
        self,
        router: Router,
        refuse: impl Fn(Error) -> Response + Clone + Send + Sync + 'static,
    ) -> Router {
        let rules = Arc::new(self);
        router.route_layer(middleware::from_fn(move |request: Request, next: middleware::Next| {
            let refusal = rules.check_request(&request).err().map(&refuse);
            async move {
                match refusal {
                    Some(refusal) => refusal,
                    None => next.run(request).await,
                }
            }
        }))
    }

    /// Checks the head of a request.
    ///
    /// # Errors
    /// `REQUEST_INVALID` for a repeated header, `UNAUTHORIZED` without the token, `FORBIDDEN` as
    /// [`AcceptedHosts::check_host_and_origin`].
    fn check_request(&self, request: &Request) -> Result<()> {
        check_unrepeated_headers(request.headers(), self.unrepeated_headers)?;
        if let Some(token) = &self.token {
            let authorization = get_header_text(request.headers(), header::AUTHORIZATION.as_str());
            if !token.is_authorized(authorization) {
                let message =
                    "the request carries no bearer token, or another one than this server's";
                return Err(Error::new(Code::Unauthorized, message));
            }
        }
        self.accepted_hosts.check_host_and_origin(request.uri(), request.headers())
    }
}

fn check_unrepeated_headers(headers: &HeaderMap, extra_headers: &[&'static str]) -> Result<()> {
    let is_repeated = |name: &&&str| headers.get_all(**name).iter().nth(1).is_some();
    let Some(name) = UNREPEATABLE_HEADERS.iter().chain(extra_headers).find(is_repeated) else {
        return Ok(());
    };
    let message = format!("the header `{name}` comes more than once");
    Err(Error::new(Code::RequestInvalid, message)
        .with_context("header", *name)
        .with_action("Send the header `{header}` once"))
}

/// The value of a header, if it is text.
pub fn get_header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
