//! The HTTP client. It checks each address that a host name resolves to, and follows redirects itself.

use std::{
    error::Error as StdError,
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
};

use reqwest::{
    Body, Client, Response, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION},
    redirect::Policy,
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use rustls_platform_verifier::BuilderVerifierExt as _;

use super::{
    address,
    reach::{ConnectionRoute, Reach, host_and_port, refused_address, shown},
    request::Request,
};
use crate::operation::{Class, Method};
use midex_domain::{
    error::{Code, Error, Result},
    limits,
    operation::BoxFuture,
};

/// Resolves host names.
pub trait Resolver: fmt::Debug + Send + Sync {
    /// The addresses of a name.
    fn addresses(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The resolver of the operating system.
#[derive(Debug)]
pub(super) struct SystemResolver;

impl Resolver for SystemResolver {
    fn addresses(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let name = name.to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// A resolver that drops the addresses that must not be called.
struct Checked {
    names: Arc<dyn Resolver>,
    way: ConnectionRoute,
}

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let (found, way) = (self.names.addresses(name.as_str()), self.way);
        Box::pin(async move {
            let mut addresses = found.await?;
            if way == ConnectionRoute::Public {
                let first = addresses.iter().copied().find_map(refused_address);
                addresses.retain(|address| address::refusal_rule(*address).is_none());
                if let (true, Some(first)) = (addresses.is_empty(), first) {
                    return Err(first.into());
                }
            }
            let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}

/// Two connection pools: a connection to an address that a user allowed is never used for a catalog that may not call
/// it.
#[derive(Debug)]
pub(super) struct Clients {
    names: Arc<dyn Resolver>,
    public: OnceLock<Client>,
    allowed: OnceLock<Client>,
}

/// The rule, in the context of an error, that forbids to follow a redirect.
pub(super) const REDIRECT: &str = "redirect";

/// The error for a connection that was not established, so that nothing was sent.
fn not_connected(message: String) -> Error {
    Error::new(Code::FetchFailed, message)
}

/// The error for an exchange that broke off. The service may have carried out the request, so only the caller knows
/// whether it may be sent again.
pub(super) fn broken(message: String) -> Error {
    not_connected(message).with_retryable(false)
}

/// The error for a redirect that must not be followed.
pub(super) fn unfollowed(message: String) -> Error {
    broken(message).with_context("rule", REDIRECT)
}

/// The answer to a request.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) response: Response,
    /// The other origin that it was redirected to, if any, which received no headers of the catalog.
    pub(super) other_origin: Option<String>,
}

impl Clients {
    pub(super) fn new(names: Arc<dyn Resolver>) -> Self {
        Self { names, public: OnceLock::new(), allowed: OnceLock::new() }
    }

    fn of(&self, way: ConnectionRoute) -> Result<&Client> {
        let place = match way {
            ConnectionRoute::Public => &self.public,
            ConnectionRoute::Allowed => &self.allowed,
        };
        if let Some(client) = place.get() {
            return Ok(client);
        }
        let names = self.names.clone();
        let client = client(Checked { names, way }).map_err(not_connected)?;
        Ok(place.get_or_init(|| client))
    }

    /// Sends an admitted request, and follows redirects. The target of each redirect must be admitted too.
    ///
    /// # Errors
    /// `ADDRESS_REFUSED`, `LIMIT_EXCEEDED`, or `FETCH_FAILED` as [`broken`] and its neighbours make it.
    pub(super) async fn send(
        &self,
        mut request: Request,
        mut way: ConnectionRoute,
        reach: &Reach,
    ) -> Result<Answered> {
        let mut other_origin = None;
        for _ in 0..=limits::CALL_REDIRECTS_MAX {
            let response = self.send_once(&request, way, reach).await?;
            let Some(next) = redirected(&request.url, &response, reach)? else {
                return Ok(Answered { response, other_origin });
            };
            let changed = follow(&mut request, next, response.status().as_u16())?;
            other_origin = changed.or(other_origin);
            way = reach.admit(&request.url)?;
        }
        Err(unfollowed(format!("it is redirected more than {} times", limits::CALL_REDIRECTS_MAX)))
    }

    async fn send_once(
        &self,
        request: &Request,
        way: ConnectionRoute,
        reach: &Reach,
    ) -> Result<Response> {
        let mut sent = reqwest::Request::new(method(request.method), request.url.clone());
        *sent.headers_mut() = request.headers.clone();
        *sent.body_mut() = request.body.clone().map(Body::from);
        // Many services refuse a POST, PUT or PATCH without a length, and the client omits it if there is no body
        // (RFC 9110, 8.6).
        if request.body.is_none() && request.method.class() == Class::Standard {
            let none = HeaderValue::from_static("0");
            sent.headers_mut().insert(CONTENT_LENGTH, none);
        }
        let response =
            self.of(way)?.execute(sent).await.map_err(|error| fault(error, &request.url, reach))?;
        let bytes = |headers: &HeaderMap| -> usize {
            headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
        };
        match bytes(response.headers()) {
            bytes if bytes <= limits::CALL_HEADERS_BYTES_MAX => Ok(response),
            bytes => Err(Error::limit_exceeded(format!(
                "the headers of an answer may have {} bytes, these have {bytes}",
                limits::CALL_HEADERS_BYTES_MAX
            ))),
        }
    }
}

fn client(names: Checked) -> Result<Client, String> {
    let client = Client::builder()
        .tls_backend_preconfigured(encryption().map_err(|error| error.to_string())?)
        .dns_resolver(names)
        .no_proxy()
        .redirect(Policy::none())
        .referer(false)
        .connect_timeout(limits::CALL_CONNECT_MAX)
        .pool_max_idle_per_host(limits::CALL_IDLE_CONNECTIONS_MAX)
        .user_agent(concat!("midex/", env!("CARGO_PKG_VERSION")))
        .build();
    client.map_err(causes)
}

/// The TLS configuration, with the certificate authorities of the operating system. If it has none, every https call
/// fails.
fn encryption() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let trusting = builder.clone().with_platform_verifier();
    let trusting = trusting.unwrap_or_else(|error| {
        tracing::warn!(%error, "this machine has no certificate authorities: nothing can be called by https");
        builder.with_root_certificates(RootCertStore::empty())
    });
    Ok(trusting.with_no_client_auth())
}

fn method(method: Method) -> reqwest::Method {
    match method {
        Method::Get => reqwest::Method::GET,
        Method::Head => reqwest::Method::HEAD,
        Method::Options => reqwest::Method::OPTIONS,
        Method::Trace => reqwest::Method::TRACE,
        Method::Post => reqwest::Method::POST,
        Method::Put => reqwest::Method::PUT,
        Method::Patch => reqwest::Method::PATCH,
        Method::Delete => reqwest::Method::DELETE,
    }
}

/// Classifies the error of a request. The message omits the URL, which may contain a secret.
fn fault(error: reqwest::Error, url: &Url, reach: &Reach) -> Error {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(&error);
    while let Some(error) = cause {
        if let Some(refusal) = error.downcast_ref() {
            return reach.refused_host(host_and_port(url).unwrap_or_default(), refusal);
        }
        cause = error.source();
    }
    let is_before = error.is_connect() || error.is_builder();
    let message = format!("`{}`: {}", shown(url), causes(error));
    if is_before { not_connected(message) } else { broken(message) }
}

/// The error and its causes, each once, without the URL.
pub(super) fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}

/// The target of a redirect; `None` if the answer is not one.
fn redirected(from: &Url, response: &Response, reach: &Reach) -> Result<Option<Url>> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = response.headers().get(LOCATION) else {
        return Ok(None);
    };
    let location = String::from_utf8_lossy(location.as_bytes());
    let next = from.join(&location).map_err(|error| reach.no_url(error))?;
    Ok(Some(next))
}

/// Changes the request to follow a redirect (RFC 9110, 15.4). Returns the origin if it is another one. Another origin
/// receives no body and only the headers of [`without_secrets`], and a request that changes something is not
/// redirected there.
fn follow(request: &mut Request, next: Url, status: u16) -> Result<Option<String>> {
    let is_safe =
        matches!(request.method, Method::Get | Method::Head | Method::Options | Method::Trace);
    let becomes_get =
        status == 303 || (matches!(status, 301 | 302) && request.method == Method::Post);
    if becomes_get && !is_safe {
        request.method = Method::Get;
        request.body = None;
        request.headers.remove(CONTENT_TYPE);
    }
    let is_other = next.origin() != request.url.origin();
    if is_other {
        if request.body.is_some() || !matches!(request.method, Method::Get | Method::Head) {
            let message = format!(
                "it is redirected to `{}`, and a call that changes something follows to its own origin alone",
                shown(&next)
            );
            return Err(unfollowed(message));
        }
        request.headers = without_secrets(&request.headers);
    }
    request.url = next;
    Ok(is_other.then(|| request.url.origin().ascii_serialization()))
}

/// The headers that another origin receives: only `Accept`, because the others may contain secrets.
fn without_secrets(headers: &HeaderMap) -> HeaderMap {
    let accept = headers.get(ACCEPT).cloned();
    accept.map(|accept| (ACCEPT, accept)).into_iter().collect()
}
