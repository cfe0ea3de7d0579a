//! The address under which the other servers reach a server.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use reqwest::Url;

use midex_domain::error::{Code, Error, Result};

/// The address under which the other servers of a cluster reach a server: `https://HOST:PORT`, or `http://` on the loopback
/// interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvertisedAddress {
    url: Url,
    port: u16,
}

impl AdvertisedAddress {
    /// Reads an address.
    ///
    /// # Errors
    /// `USAGE_INVALID` for other texts, and for `http://` with a host that is not the loopback interface.
    pub fn parse(text: &str) -> Result<Self> {
        let invalid = |why: &str| {
            let message = format!("`{text}` is not an address for other servers: {why}");
            Error::new(Code::UsageInvalid, message)
                .with_action("Give --advertise the form https://HOST:PORT")
        };
        let url: Url = text.parse().map_err(|_| invalid("it is not a URL"))?;
        let has_more = url.path() != "/" || url.query().is_some() || url.fragment().is_some();
        if has_more || !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("it has more than a host and a port"));
        }
        let port = url.port().ok_or_else(|| invalid("it has no port"))?;
        let address = Self { url, port };
        match address.url.scheme() {
            "https" => Ok(address),
            "http" if address.is_loopback() => Ok(address),
            "http" => Err(invalid("calls between machines are encrypted")),
            _ => Err(invalid("it does not begin with `https://`")),
        }
    }

    /// The address as text, without a slash at its end.
    pub fn as_str(&self) -> &str {
        self.url.as_str().trim_end_matches('/')
    }

    /// Whether calls to it are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// What the server listens on if nothing else is said: the address itself, or its port on all interfaces if its host is a
    /// name.
    pub fn listen_address(&self) -> SocketAddr {
        let ip = self.ip().unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        SocketAddr::new(ip, self.port)
    }

    /// The name or IP address of its machine.
    pub(crate) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default().trim_matches(['[', ']'])
    }

    fn ip(&self) -> Option<IpAddr> {
        self.host().parse().ok()
    }

    fn is_loopback(&self) -> bool {
        self.ip().is_some_and(|ip| ip.is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_encrypted_addresses_lead_to_other_machines() {
        for (text, listen) in [
            ("https://midex-1.internal:7400", "[::]:7400"),
            ("https://10.0.0.7:7400/", "10.0.0.7:7400"),
            ("http://127.0.0.1:7400", "127.0.0.1:7400"),
            ("http://[::1]:7400", "[::1]:7400"),
        ] {
            let address = AdvertisedAddress::parse(text).expect(text);
            assert_eq!(address.listen_address().to_string(), listen);
            assert_eq!(address.as_str(), text.trim_end_matches('/'));
        }
        for text in [
            "http://10.0.0.7:7400",
            "http://localhost.example:7400",
            "https://midex-1.internal",
            "https://user@midex-1:7400",
            "https://midex-1:7400/path",
            "ftp://midex-1:7400",
            "midex-1:7400",
            "",
        ] {
            let error = AdvertisedAddress::parse(text).expect_err(text);
            assert_eq!(error.code(), Code::UsageInvalid, "{text}");
        }
    }
}
