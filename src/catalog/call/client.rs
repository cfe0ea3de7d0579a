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
    address_policy::{
        AddressPolicy, ConnectionRoute, get_host_and_port, redact_url, refused_address_error,
    },
    request::Request,
};
use crate::operation::{Method, OperationClass};
use midex_domain::{
    error::{Code, Error, Result, describe_causes},
    limits,
    operation::BoxFuture,
};

/// Resolves host names.
pub trait Resolver: fmt::Debug + Send + Sync {
    /// The addresses of a name.
    fn resolve_addresses(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The resolver of the operating system.
#[derive(Debug)]
pub(super) struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve_addresses(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let name = name.to_owned();
        Box::pin(async move {
            let lookup = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(lookup.map(|address| address.ip()).collect())
        })
    }
}

/// A resolver that drops the addresses that must not be called.
struct CheckedResolver {
    resolver: Arc<dyn Resolver>,
    route: ConnectionRoute,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (lookup, route) = (self.resolver.resolve_addresses(name.as_str()), self.route);
        Box::pin(async move {
            let mut addresses = lookup.await?;
            if route == ConnectionRoute::Public {
                let first_refusal = addresses.iter().copied().find_map(refused_address_error);
                addresses.retain(|address| address::find_refusal_rule(*address).is_none());
                if let (true, Some(first)) = (addresses.is_empty(), first_refusal) {
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
pub(super) struct ConnectionPools {
    resolver: Arc<dyn Resolver>,
    public: OnceLock<Client>,
    allowed: OnceLock<Client>,
}

/// The rule, in the context of an error, that forbids to follow a redirect.
pub(super) const REDIRECT: &str = "redirect";

/// The error for a connection that was not established, so that nothing was sent.
fn connection_error(message: String) -> Error {
    Error::new(Code::FetchFailed, message)
}

/// The error for an exchange that broke off. The service may have carried out the request, so only the caller knows
/// whether it may be sent again.
pub(super) fn exchange_error(message: String) -> Error {
    connection_error(message).with_retryable(false)
}

/// The error for a redirect that must not be followed.
pub(super) fn redirect_error(message: String) -> Error {
    exchange_error(message).with_context("rule", REDIRECT)
}

/// The answer to a request.
#[derive(Debug)]
pub(super) struct FinalResponse {
    pub(super) response: Response,
    /// The other origin that it was redirected to, if any, which received no headers of the catalog.
    pub(super) other_origin: Option<String>,
}

impl ConnectionPools {
    pub(super) fn new(resolver: Arc<dyn Resolver>) -> Self {
        Self { resolver, public: OnceLock::new(), allowed: OnceLock::new() }
    }

    fn client_for_route(&self, route: ConnectionRoute) -> Result<&Client> {
        let slot = match route {
            ConnectionRoute::Public => &self.public,
            ConnectionRoute::Allowed => &self.allowed,
        };
        if let Some(client) = slot.get() {
            return Ok(client);
        }
        let names = self.resolver.clone();
        let client =
            build_client(CheckedResolver { resolver: names, route }).map_err(connection_error)?;
        Ok(slot.get_or_init(|| client))
    }

    /// Sends an admitted request, and follows redirects. The target of each redirect must be admitted too.
    ///
    /// # Errors
    /// `ADDRESS_REFUSED`, `LIMIT_EXCEEDED`, or `FETCH_FAILED` as [`exchange_error`] and its neighbours make it.
    pub(super) async fn send(
        &self,
        mut request: Request,
        mut route: ConnectionRoute,
        address_policy: &AddressPolicy,
    ) -> Result<FinalResponse> {
        let mut other_origin = None;
        for _ in 0..=limits::CALL_REDIRECTS_MAX {
            let response = self.send_once(&request, route, address_policy).await?;
            let Some(target) = redirect_target(&request.url, &response, address_policy)? else {
                return Ok(FinalResponse { response, other_origin });
            };
            let new_origin = follow_redirect(&mut request, target, response.status().as_u16())?;
            other_origin = new_origin.or(other_origin);
            route = address_policy.admit(&request.url)?;
        }
        Err(redirect_error(format!(
            "it is redirected more than {} times",
            limits::CALL_REDIRECTS_MAX
        )))
    }

    async fn send_once(
        &self,
        request: &Request,
        route: ConnectionRoute,
        address_policy: &AddressPolicy,
    ) -> Result<Response> {
        let mut outgoing =
            reqwest::Request::new(convert_method(request.method), request.url.clone());
        *outgoing.headers_mut() = request.headers.clone();
        *outgoing.body_mut() = request.body.clone().map(Body::from);
        // Many services refuse a POST, PUT or PATCH without a length, and the client omits it if there is no body
        // (RFC 9110, 8.6).
        if request.body.is_none() && request.method.class() == OperationClass::Standard {
            let zero = HeaderValue::from_static("0");
            outgoing.headers_mut().insert(CONTENT_LENGTH, zero);
        }
        let response = self
            .client_for_route(route)?
            .execute(outgoing)
            .await
            .map_err(|error| classify_error(error, &request.url, address_policy))?;
        let header_bytes = |headers: &HeaderMap| -> usize {
            headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
        };
        match header_bytes(response.headers()) {
            bytes if bytes <= limits::CALL_HEADERS_BYTES_MAX => Ok(response),
            bytes => Err(Error::limit_exceeded(format!(
                "the headers of an answer may have {} bytes, these have {bytes}",
                limits::CALL_HEADERS_BYTES_MAX
            ))),
        }
    }
}

fn build_client(resolver: CheckedResolver) -> Result<Client, String> {
    let client = Client::builder()
        .tls_backend_preconfigured(build_tls_config().map_err(|error| error.to_string())?)
        .dns_resolver(resolver)
        .no_proxy()
        .redirect(Policy::none())
        .referer(false)
        .connect_timeout(limits::CALL_CONNECT_MAX)
        .pool_max_idle_per_host(limits::CALL_IDLE_CONNECTIONS_MAX)
        .user_agent(concat!("midex/", env!("CARGO_PKG_VERSION")))
        .build();
    client.map_err(format_causes)
}

/// The TLS configuration, with the certificate authorities of the operating system. If it has none, every https call
/// fails.
fn build_tls_config() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let verified_builder = builder.clone().with_platform_verifier();
    let verified_builder = verified_builder.unwrap_or_else(|error| {
        tracing::warn!(%error, "this machine has no certificate authorities: nothing can be called by https");
        builder.with_root_certificates(RootCertStore::empty())
    });
    Ok(verified_builder.with_no_client_auth())
}

fn convert_method(method: Method) -> reqwest::Method {
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
fn classify_error(error: reqwest::Error, url: &Url, address_policy: &AddressPolicy) -> Error {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(&error);
    while let Some(error) = cause {
        if let Some(refusal) = error.downcast_ref() {
            return address_policy
                .refused_host_error(get_host_and_port(url).unwrap_or_default(), refusal);
        }
        cause = error.source();
    }
    let is_unsent = error.is_connect() || error.is_builder();
    let message = format!("`{}`: {}", redact_url(url), format_causes(error));
    if is_unsent { connection_error(message) } else { exchange_error(message) }
}

/// The error and its causes, each once, without the URL.
pub(super) fn format_causes(error: reqwest::Error) -> String {
    describe_causes(&error.without_url())
}

/// The target of a redirect; `None` if the answer is not one.
fn redirect_target(
    from: &Url,
    response: &Response,
    address_policy: &AddressPolicy,
) -> Result<Option<Url>> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = response.headers().get(LOCATION) else {
        return Ok(None);
    };
    let location = String::from_utf8_lossy(location.as_bytes());
    let target = from.join(&location).map_err(|error| address_policy.not_a_url_error(error))?;
    Ok(Some(target))
}

/// Changes the request to follow a redirect (RFC 9110, 15.4). Returns the origin if it is another one. Another origin
/// receives no body and only the headers of [`keep_safe_headers`], and a request that changes something is not
/// redirected there.
fn follow_redirect(request: &mut Request, target: Url, status: u16) -> Result<Option<String>> {
    let is_safe =
        matches!(request.method, Method::Get | Method::Head | Method::Options | Method::Trace);
    let becomes_get =
        status == 303 || (matches!(status, 301 | 302) && request.method == Method::Post);
    if becomes_get && !is_safe {
        request.method = Method::Get;
        request.body = None;
        request.headers.remove(CONTENT_TYPE);
    }
    let is_other_origin = target.origin() != request.url.origin();
    if is_other_origin {
        if request.body.is_some() || !matches!(request.method, Method::Get | Method::Head) {
            let message = format!(
                "it is redirected to `{}`, and a call that changes something follows to its own origin alone",
                redact_url(&target)
            );
            return Err(redirect_error(message));
        }
        request.headers = keep_safe_headers(&request.headers);
    }
    request.url = target;
    Ok(is_other_origin.then(|| request.url.origin().ascii_serialization()))
}

/// The headers that another origin receives: only `Accept`, because the others may contain secrets.
fn keep_safe_headers(headers: &HeaderMap) -> HeaderMap {
    let accept = headers.get(ACCEPT).cloned();
    accept.map(|accept| (ACCEPT, accept)).into_iter().collect()
}
