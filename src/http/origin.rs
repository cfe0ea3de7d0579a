//! Checks of the headers `Host` and `Origin`. The check of `Host` stops DNS rebinding, where the name of a foreign
//! page resolves to this machine. The check of `Origin` stops foreign pages in the user's own browser.

use std::net::{Ipv6Addr, SocketAddr};

use http::{HeaderMap, Uri, header, uri::Authority};

use midex_domain::error::{Code, Error, Result};

/// A host name by which requests may address the server: in lower case, and an IPv6 address without brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host(String);

impl std::str::FromStr for Host {
    type Err = String;

    /// Parses a host name without scheme and port.
    fn from_str(text: &str) -> Result<Self, String> {
        let host = normalize_host(text);
        let is_name = || Authority::try_from(host.as_str()).is_ok_and(|name| name.host() == host);
        if host.parse::<Ipv6Addr>().is_ok() || is_name() {
            return Ok(Self(host));
        }
        Err("expected a host name without scheme and port, such as build.example".into())
    }
}

/// The accepted host names.
#[derive(Debug)]
pub(super) struct AcceptedHosts {
    own_names: Vec<Host>,
    /// Additional names from the configuration, for example the name of a reverse proxy in front of this server.
    extra_names: Vec<Host>,
    port: u16,
}

impl AcceptedHosts {
    /// Accepts the loopback names and `address`, and their pages over `http` at `port`. Also accepts `extra_names`, and
    /// their pages over `http` or `https` at any port.
    pub(super) fn new(address: SocketAddr, extra_names: Vec<Host>) -> Self {
        let own_names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into_iter();
        Self {
            own_names: own_names.chain([address.ip().to_string()]).map(Host).collect(),
            extra_names,
            port: address.port(),
        }
    }

    /// Also accepts this name, and its pages over `http` at the port of the address.
    pub(super) fn add_own_name(&mut self, name: Host) {
        self.own_names.push(name);
    }

    /// Checks the target and the headers of a request.
    ///
    /// # Errors
    /// `FORBIDDEN` if the request addresses another host, or comes from a page of a foreign origin.
    pub(super) fn check_host_and_origin(&self, target: &Uri, headers: &HeaderMap) -> Result<()> {
        let host = parse_authority(headers.get(header::HOST).map(http::HeaderValue::as_bytes));
        let is_accepted =
            |host: &Authority| has_host(&self.own_names, host) || has_host(&self.extra_names, host);
        if !host.as_ref().is_some_and(is_accepted) {
            let message = "the Host header names another server than this one";
            return Err(Error::new(Code::Forbidden, message));
        }
        // A target in absolute form, as clients send it to proxies, takes precedence over the Host header. So the two
        // must agree.
        let target_authority = target.authority();
        if target_authority
            .is_some_and(|named| host.is_none_or(|host| !is_same_authority(named, &host)))
        {
            let message = "the target of the request names another server than the Host header";
            return Err(Error::new(Code::Forbidden, message)
                .with_action("Send POST /mcp with the name of this server as Host"));
        }
        let Some(origin) = headers.get(header::ORIGIN) else {
            return Ok(());
        };
        let text = origin.as_bytes();
        let http_page = text.strip_prefix(b"http://");
        let is_own_page = |page: &Authority| {
            has_host(&self.own_names, page) && page.port_u16().unwrap_or(80) == self.port
        };
        let page = parse_authority(http_page.or_else(|| text.strip_prefix(b"https://")));
        let is_accepted_page = |page: Authority| {
            http_page.is_some() && is_own_page(&page) || has_host(&self.extra_names, &page)
        };
        if page.is_some_and(is_accepted_page) {
            return Ok(());
        }
        let message = "the Origin header names a page that is not this server's own";
        Err(Error::new(Code::Forbidden, message)
            .with_action("Call the server from a program instead of a web page"))
    }
}

fn has_host(hosts: &[Host], authority: &Authority) -> bool {
    let requested_name = normalize_host(authority.host());
    hosts.iter().any(|host| host.0 == requested_name)
}

/// Whether both name the same host and port, where the default port is 80. A target with user information never
/// matches.
fn is_same_authority(target: &Authority, host: &Authority) -> bool {
    let port = |authority: &Authority| authority.port_u16().unwrap_or(80);
    !target.as_str().contains('@')
        && normalize_host(target.host()) == normalize_host(host.host())
        && port(target) == port(host)
}

fn parse_authority(text: Option<&[u8]>) -> Option<Authority> {
    let authority = Authority::try_from(text?).ok()?;
    // Host and Origin headers have no user information.
    (!authority.as_str().contains('@')).then_some(authority)
}

fn normalize_host(host: &str) -> String {
    let unbracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    unbracketed.unwrap_or(host).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_request_allowed(host: &str, origin: Option<&str>) -> bool {
        let others = ["Build.Example".parse().expect("a name")];
        let address = "10.1.2.3:8123".parse().expect("an address");
        let names = AcceptedHosts::new(address, others.to_vec());
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().expect("a header"));
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().expect("a header"));
        }
        names.check_host_and_origin(&Uri::from_static("/mcp"), &headers).is_ok()
    }

    #[test]
    fn requests_must_name_an_accepted_host() {
        for host in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:8123",
            "[::1]:8123",
            "build.example",
            "10.1.2.3:80",
        ] {
            assert!(is_request_allowed(host, None), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "localhost@evil.example",
            "evil.example@localhost",
            "evil.example:8123",
            "[::2]",
            "",
            "a b",
        ] {
            assert!(!is_request_allowed(host, None), "{host}");
        }
        let names = AcceptedHosts::new("127.0.0.1:1".parse().expect("an address"), Vec::new());
        assert!(
            names.check_host_and_origin(&Uri::from_static("/mcp"), &HeaderMap::new()).is_err(),
            "no name at all"
        );
    }

    #[test]
    fn target_host_must_match_the_host_header() {
        let names = AcceptedHosts::new("127.0.0.1:8123".parse().expect("an address"), Vec::new());
        let check = |target: &str, host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().expect("a header"));
            let target = target.parse().expect("a target");
            names.check_host_and_origin(&target, &headers).is_ok()
        };
        for (target, host) in [
            ("http://localhost:8123/mcp", "localhost:8123"),
            ("http://LOCALHOST:8123/mcp", "localhost:8123"),
            ("http://[::1]/mcp", "[::1]:80"),
        ] {
            assert!(check(target, host), "{target} {host}");
        }
        for (target, host) in [
            ("http://evil.example/mcp", "localhost:8123"),
            ("http://evil.example:8123/mcp", "localhost:8123"),
            ("http://evil.example/mcp", "evil.example"),
            ("http://localhost/mcp", "localhost:8123"),
            ("http://127.0.0.1:8123/mcp", "localhost:8123"),
            ("http://evil@localhost:8123/mcp", "localhost:8123"),
            ("http://localhost:8123@evil.example/mcp", "localhost:8123"),
        ] {
            assert!(!check(target, host), "{target} {host}");
        }
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        for origin in [
            "http://localhost:8123",
            "http://127.0.0.1:8123",
            "http://[::1]:8123",
            "http://10.1.2.3:8123",
            "http://BUILD.example:8123",
            "https://build.example",
        ] {
            assert!(is_request_allowed("localhost", Some(origin)), "{origin}");
        }
        for origin in [
            "http://localhost",
            "http://localhost:3000",
            "https://localhost:8123",
            "http://evil.example:8123",
            "http://localhost:8123@evil.example",
            "null",
            "",
            "localhost:8123",
        ] {
            assert!(!is_request_allowed("localhost", Some(origin)), "{origin}");
        }
    }

    #[test]
    fn host_has_neither_scheme_nor_port() {
        for good in ["build.example", "BUILD.example", "10.0.0.1", "::1", "[::1]"] {
            assert!(good.parse::<Host>().is_ok(), "{good}");
        }
        for bad in ["", "http://a", "a:1", "a/b", "a@b", "a b", "[::1]:80"] {
            assert!(bad.parse::<Host>().is_err(), "{bad}");
        }
    }
}
