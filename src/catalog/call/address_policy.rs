//! Which addresses may be called: the same rule for fetched documents, for calls and for redirects.
//!
//! A URL is checked before anything is sent. The addresses of a host name are checked when it is resolved for a
//! connection (`client`), so a name that later resolves to another address gains nothing.

use std::{collections::BTreeSet, fmt, net::IpAddr};

use reqwest::Url;
use serde_json::Value;

use super::address;
use midex_domain::error::{Code, Error, Result};

/// The addresses that a catalog may call: public ones over https, and those that its user allowed.
#[derive(Clone, Debug, Default)]
pub struct AddressPolicy {
    catalog: String,
    allowed_hosts: BTreeSet<String>,
}

/// Which addresses an admitted URL may be connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionRoute {
    /// Public addresses only.
    Public,
    /// Any address, because the user allowed the host by name.
    Allowed,
}

/// The host and port of a URL, which is the unit that a user allows.
pub(super) fn get_host_and_port(url: &Url) -> Option<String> {
    let port = url.port_or_known_default()?;
    Some(format!("{}:{port}", url.host_str()?))
}

/// The origin of a URL: scheme, host and port. Secrets are bound to it. `None` if the text is no http or https URL.
pub fn parse_origin(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    matches!(url.scheme(), "http" | "https").then(|| url.origin().ascii_serialization())
}

impl AddressPolicy {
    /// The reach of `catalog`, whose user allowed these hosts of the form `HOST:PORT`.
    ///
    /// # Errors
    /// The first entry of another form.
    pub fn new<'a>(
        catalog: impl Into<String>,
        allowed: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, String> {
        let normalize = |text: &str| normalize_allowed_host(text).ok_or_else(|| text.to_owned());
        Ok(Self {
            catalog: catalog.into(),
            allowed_hosts: allowed.into_iter().map(normalize).collect::<Result<_, _>>()?,
        })
    }

    /// The reach for imports of documents, from the sources that the user allowed. Entries that are not `HOST:PORT`,
    /// for example directories, allow no fetch.
    pub fn for_imports(sources: &[String]) -> Self {
        Self {
            catalog: String::new(),
            allowed_hosts: sources.iter().filter_map(|from| normalize_allowed_host(from)).collect(),
        }
    }

    /// Why `base_url` cannot be called, with the command that allows it. Only the text of the URL is checked. `None`
    /// if it may be called, or if the text is no URL.
    pub fn explain_refusal(&self, base_url: &str) -> Option<String> {
        let url = Url::parse(base_url).ok()?;
        let refusal = self.admit(&url).err()?;
        Some(refusal.message().to_owned())
    }

    /// Checks whether `url` may be called, as far as its text shows.
    pub(super) fn admit(&self, url: &Url) -> Result<ConnectionRoute> {
        let make_refusal = |rule, message: String| Err(self.refusal_error(rule, &message, None));
        if !matches!(url.scheme(), "http" | "https") {
            let message = format!("`{}:` is no scheme that midex calls", url.scheme());
            return make_refusal("scheme", message);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return make_refusal(
                "userinfo",
                format!("`{}` has a user or password in it", redact_url(url)),
            );
        }
        let Some(host) = get_host_and_port(url) else {
            return make_refusal("url", format!("`{}` names no host", redact_url(url)));
        };
        if self.allowed_hosts.contains(&host) {
            return Ok(ConnectionRoute::Allowed);
        }
        if let Some(refusal) = parse_literal_ip(url).and_then(refused_address_error) {
            return Err(self.refused_host_error(host, &refusal));
        }
        if url.scheme() == "http" {
            let message = format!("`{}` is not https", redact_url(url));
            return Err(self.refusal_error("plain_http", &message, Some(host)));
        }
        Ok(ConnectionRoute::Public)
    }

    /// The refusal of `host`, because it is, or resolves to, an address with this refusal.
    pub(super) fn refused_host_error(&self, host: String, address_error: &Error) -> Error {
        let rule = address_error.context("rule").and_then(Value::as_str);
        let message = format!("`{host}` {address_error}");
        self.refusal_error(rule.unwrap_or_default(), &message, Some(host))
    }

    /// The refusal of a text that is no URL.
    pub(super) fn not_a_url_error(&self, why: impl fmt::Display) -> Error {
        self.refusal_error("url", &format!("this is no URL: {why}"), None)
    }

    /// The error whose context has the rule and, if the user may allow it for this catalog, the `HOST:PORT`.
    fn refusal_error(&self, rule: &str, message: &str, allowable_host: Option<String>) -> Error {
        let catalog = &self.catalog;
        let message = format!("{message} (rule `{rule}`)");
        let error = Error::new(Code::AddressRefused, &*message)
            .with_context("rule", rule)
            .with_context("catalog_id", catalog.as_str());
        let Some(host) = allowable_host else { return error };
        let command = format!("`midex catalog allow {catalog} {host}`");
        let error = error.with_context("host", host);
        // A document that is imported from a URL has no catalog yet.
        if catalog.is_empty() {
            return error;
        }
        error.with_message(format!("{message}; {command} allows it"))
    }
}

/// The refusal of an address that is not public, for [`AddressPolicy::refused_host_error`].
pub(super) fn refused_address_error(address: IpAddr) -> Option<Error> {
    let rule = address::find_refusal_rule(address)?;
    let message = format!("leads to {address}, which is not public");
    Some(Error::new(Code::AddressRefused, message).with_context("rule", rule))
}

/// Parses `HOST` or `HOST:PORT`, with the host in the spelling of [`get_host_and_port`].
fn parse_host(text: &str) -> Option<(String, Option<u16>)> {
    let url = Url::parse(&format!("http://{text}/")).ok()?;
    let is_bare = url.path() == "/" && url.username().is_empty() && url.password().is_none();
    let is_bare = is_bare && url.query().is_none() && url.fragment().is_none();
    let host = url.host_str().filter(|_| is_bare)?;
    // The URL parser drops a default port, so the port is read from the text.
    let port = text.rsplit_once(':').map(|(_, port)| port.parse());
    Some((host.to_owned(), port.and_then(Result::ok)))
}

/// The normalized `HOST:PORT` that a user allows; `None` if the text has another form.
pub fn normalize_allowed_host(text: &str) -> Option<String> {
    let (host, port) = parse_host(text)?;
    Some(format!("{host}:{}", port?))
}

/// The normalized `HOST` or `HOST:PORT` that a secret may be sent to; `None` if the text has another form.
pub fn normalize_secret_host(text: &str) -> Option<String> {
    let (host, port) = parse_host(text)?;
    Some(port.map_or_else(|| host.clone(), |port| format!("{host}:{port}")))
}

/// The IP address in a URL without a host name. The URL parser has normalized every spelling of it: decimal, octal,
/// hexadecimal, short.
fn parse_literal_ip(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// The URL for messages: without user, password, query and fragment, which may contain secrets.
pub(super) fn redact_url(url: &Url) -> String {
    let host = get_host_and_port(url).unwrap_or_default();
    format!("{}://{host}{}", url.scheme(), url.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule_of(reach: &AddressPolicy, url: &str) -> Option<String> {
        let Ok(url) = Url::parse(url) else {
            return Some("url".into());
        };
        let rule = reach.admit(&url).err()?.context("rule")?.as_str()?.to_owned();
        Some(rule)
    }

    /// Known spellings of addresses that must not be called.
    const REFUSED: &[(&str, &str)] = &[
        ("https://127.0.0.1/", "loopback"),
        ("https://127.1/", "loopback"),
        ("https://127.0.1/", "loopback"),
        ("https://2130706433/", "loopback"),
        ("https://0x7f000001/", "loopback"),
        ("https://0x7f.0.0.1/", "loopback"),
        ("https://0x7f.1/", "loopback"),
        ("https://0177.0.0.1/", "loopback"),
        ("https://0177.0.0.01/", "loopback"),
        ("https://017700000001/", "loopback"),
        ("https://127.0.0.1./", "loopback"),
        ("https://127.000.000.001/", "loopback"),
        ("https://%31%32%37.0.0.1/", "loopback"),
        ("https://１２７.０.０.１/", "loopback"),
        ("https://①②⑦.0.0.1/", "loopback"),
        ("https://127。0。0。1/", "loopback"),
        ("https:127.0.0.1", "loopback"),
        ("https:\\\\127.0.0.1\\", "loopback"),
        ("https:////127.0.0.1/", "loopback"),
        ("https://0/", "unspecified"),
        ("https://0.0.0.0/", "unspecified"),
        ("https://0x0/", "unspecified"),
        ("https://10.1.2.3/", "private"),
        ("https://167772161/", "private"),
        ("https://012.1.2.3/", "private"),
        ("https://0xa.1.2.3/", "private"),
        ("https://172.16.0.1/", "private"),
        ("https://192.168.0.1/", "private"),
        ("https://0xc0a80001/", "private"),
        ("https://3232235521/", "private"),
        ("https://192.168.1/", "private"),
        ("https://100.64.0.1/", "shared"),
        ("https://169.254.1.1/", "link_local"),
        ("https://169.254.169.254/latest/meta-data/", "metadata"),
        ("https://2852039166/", "metadata"),
        ("https://0xa9fea9fe/", "metadata"),
        ("https://0251.0376.0251.0376/", "metadata"),
        ("https://169.254.43518/", "metadata"),
        ("https://[fd00:ec2::254]/", "metadata"),
        ("https://224.0.0.1/", "multicast"),
        ("https://255.255.255.255/", "broadcast"),
        ("https://198.18.0.1/", "benchmarking"),
        ("https://203.0.113.1/", "documentation"),
        ("https://240.0.0.1/", "reserved"),
        ("https://[::]/", "unspecified"),
        ("https://[::1]/", "loopback"),
        ("https://[0:0:0:0:0:0:0:1]/", "loopback"),
        ("https://[::ffff:127.0.0.1]/", "v4_mapped"),
        ("https://[::ffff:7f00:1]/", "v4_mapped"),
        ("https://[0:0:0:0:0:ffff:a9fe:a9fe]/", "v4_mapped"),
        ("https://[::127.0.0.1]/", "v4_compatible"),
        ("https://[64:ff9b::7f00:1]/", "nat64"),
        ("https://[64:ff9b:1::a00:1]/", "nat64"),
        ("https://[2002:7f00:1::]/", "6to4"),
        ("https://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/", "teredo"),
        ("https://[fe80::1]/", "link_local"),
        ("https://[fc00::1]/", "unique_local"),
        ("https://[ff02::1]/", "multicast"),
        ("https://[fe80::1%25eth0]/", "url"),
        ("https://user@1.1.1.1/", "userinfo"),
        ("https://user:pass@1.1.1.1/", "userinfo"),
        ("https://1.1.1.1@127.0.0.1/", "userinfo"),
        ("https://:pass@1.1.1.1/", "userinfo"),
        ("https://1.1.1.1%00.example/", "url"),
        ("https://127.0.0.1%00/", "url"),
        ("https://exa\u{0}mple/", "url"),
        ("https://exa mple/", "url"),
        ("https://256.1.1.1/", "url"),
        ("https://1.1.1.1:99999/", "url"),
        ("https:///", "url"),
        ("http://1.1.1.1/", "plain_http"),
        ("http://example.com/", "plain_http"),
        ("file:///etc/passwd", "scheme"),
        ("ftp://example.com/", "scheme"),
        ("gopher://127.0.0.1:6379/_", "scheme"),
        ("data:text/plain,x", "scheme"),
        ("unix:/run/docker.sock", "scheme"),
        ("javascript:1", "scheme"),
        ("//example.com/", "url"),
        ("example.com", "url"),
    ];

    #[test]
    fn no_spelling_of_an_address_that_is_not_public_is_admitted() {
        let reach = AddressPolicy::new("shop", ["127.0.0.1:8080"]).expect("a reach");
        assert!(REFUSED.len() >= 60);
        for (url, rule) in REFUSED {
            assert_eq!(rule_of(&reach, url).as_deref(), Some(*rule), "{url}");
        }
        assert_eq!(rule_of(&reach, "https://api.example.com/v1"), None);
        assert_eq!(rule_of(&reach, "https://1.1.1.1:8443/"), None);
    }

    #[test]
    fn what_the_user_allowed_is_admitted_and_nothing_beside_it() {
        let reach = AddressPolicy::new(
            "shop",
            ["127.0.0.1:8080", "LocalHost:80", "[::1]:9000", "10.0.0.1:443"],
        );
        let reach = reach.expect("a reach");
        for url in [
            "http://127.0.0.1:8080/a",
            "https://127.1:8080/",
            "http://localhost/",
            "http://[::1]:9000/",
            "https://10.0.0.1/",
        ] {
            assert_eq!(rule_of(&reach, url), None, "{url}");
        }
        for url in [
            "http://127.0.0.1:8081/",
            "https://localhost:443@10.0.0.1/",
            "https://[::1]/",
            "http://10.0.0.1/",
        ] {
            assert!(rule_of(&reach, url).is_some(), "{url}");
        }
        for text in [
            "",
            "localhost",
            "localhost:",
            "a:b@localhost:1",
            "localhost:1/x",
            "localhost:1?x",
            "[::1]",
        ] {
            assert_eq!(AddressPolicy::new("shop", [text]).err().as_deref(), Some(text));
        }
    }

    #[test]
    fn a_malformed_source_of_imports_leaves_the_others_in_force() {
        let sources = ["no host:80", "/a/directory", "127.0.0.1:8080", "a:99999"];
        let reach = AddressPolicy::for_imports(&sources.map(str::to_owned));
        assert_eq!(rule_of(&reach, "http://127.0.0.1:8080/a.yaml"), None);
        assert!(rule_of(&reach, "http://127.0.0.1:80/a.yaml").is_some());
    }

    #[test]
    fn a_refusal_names_its_rule_and_the_command_that_allows_it() {
        let url = Url::parse("https://10.0.0.1/x?key=secret").expect("a URL");
        let refusal = AddressPolicy::new("shop", [])
            .expect("a reach")
            .admit(&url)
            .expect_err("it is private");
        assert_eq!(
            refusal.to_string(),
            "`10.0.0.1:443` leads to 10.0.0.1, which is not public (rule `private`); `midex catalog allow shop 10.0.0.1:443` allows it"
        );
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        assert_eq!(
            parse_origin("https://API.example.com:443/v1?x").as_deref(),
            Some("https://api.example.com")
        );
        assert_eq!(
            parse_origin("http://127.0.0.1:8080/").as_deref(),
            Some("http://127.0.0.1:8080")
        );
        assert_eq!(parse_origin("file:///etc/passwd"), None);
    }
}
