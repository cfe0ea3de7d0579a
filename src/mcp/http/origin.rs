//! By which name a request calls the server, and from which page it comes. A page elsewhere whose name is made to
//! lead to this machine is told apart by the one, a page in the user's own browser by the other.

use http::{HeaderMap, header, uri::Authority};

use crate::error::{Code, Error, Result};

/// The names that are let in.
#[derive(Debug)]
pub(super) struct Names {
    /// In small letters, addresses of version 6 without brackets.
    hosts: Vec<String>,
    port: u16,
}

impl Names {
    /// Those of the loopback, and `others`. A page may call from the same names at `port`.
    pub(super) fn new(others: impl IntoIterator<Item = String>, port: u16) -> Self {
        let loopback = ["localhost", "127.0.0.1", "::1"].map(String::from);
        let hosts = loopback.into_iter().chain(others);
        Self {
            hosts: hosts.map(|host| bare(&host)).collect(),
            port,
        }
    }

    /// Lets a request in by its headers.
    ///
    /// # Errors
    /// `FORBIDDEN` where it calls the server by another name, or comes from a page of another one.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<()> {
        let host = authority(headers.get(header::HOST).map(http::HeaderValue::as_bytes));
        if !host.is_some_and(|host| self.has(&host)) {
            let message = "the Host header names another server than this one";
            return Err(Error::new(Code::Forbidden, message));
        }
        let Some(origin) = headers.get(header::ORIGIN) else {
            return Ok(());
        };
        let page = origin.as_bytes().strip_prefix(b"http://");
        let is_own =
            |page: Authority| self.has(&page) && page.port_u16().unwrap_or(80) == self.port;
        if authority(page).is_some_and(is_own) {
            return Ok(());
        }
        let message = "the Origin header names a page that is not this server's own";
        Err(Error::new(Code::Forbidden, message)
            .with_action("Call the server from a program instead of a web page"))
    }

    fn has(&self, authority: &Authority) -> bool {
        self.hosts.contains(&bare(authority.host()))
    }
}

fn authority(text: Option<&[u8]>) -> Option<Authority> {
    let authority = Authority::try_from(text?).ok()?;
    // A user's name before it is no part of a Host or an Origin.
    (!authority.as_str().contains('@')).then_some(authority)
}

fn bare(host: &str) -> String {
    let inside = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    inside.unwrap_or(host).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, origin: Option<&str>) -> bool {
        let names = Names::new(["Build.Example".to_owned(), "10.1.2.3".to_owned()], 8123);
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().expect("a header"));
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().expect("a header"));
        }
        names.check(&headers).is_ok()
    }

    #[test]
    fn a_request_must_call_the_server_by_one_of_its_names() {
        for host in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:8123",
            "[::1]:8123",
            "build.example",
            "10.1.2.3:80",
        ] {
            assert!(check(host, None), "{host}");
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
            assert!(!check(host, None), "{host}");
        }
        let names = Names::new([], 1);
        assert!(names.check(&HeaderMap::new()).is_err(), "no name at all");
    }

    #[test]
    fn only_its_own_pages_may_call() {
        for origin in [
            "http://localhost:8123",
            "http://127.0.0.1:8123",
            "http://[::1]:8123",
            "http://BUILD.example:8123",
        ] {
            assert!(check("localhost", Some(origin)), "{origin}");
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
            assert!(!check("localhost", Some(origin)), "{origin}");
        }
    }
}
