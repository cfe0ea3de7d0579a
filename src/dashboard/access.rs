//! Who may come in. A browser comes in by a link that is valid once and for a short time, and gets a cookie; a script sends the
//! bearer token. Both are kept in a file that only its owner may read, so that open pages work again after a restart.

use std::{
    collections::VecDeque,
    fmt,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use midex_domain::{
    Digest,
    clock::{Clock, IdSource, Timestamp},
    error::{Code, Error, Result, describe_io_error},
    limits,
};
use midex_folder::{is_accessible_to_others, read_regular};
use midex_http::{
    BearerToken, Host,
    access::get_header_text,
    web::{HeaderMap, HeaderValue, Response, header},
};

/// The file in the data directory that says where the dashboard is, and has its secrets.
const FILE_NAME: &str = "dashboard.json";
/// Much longer than the file ever is.
const FILE_BYTES_MAX: u64 = 4_096;
const COOKIE_NAME: &str = "midex_dashboard";
/// What every page may load: only what this server has, and no script or style within the page.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Where a dashboard is, and its secrets.
#[derive(Clone, Deserialize, Serialize)]
pub struct Address {
    /// The address that it listens on.
    pub listen: SocketAddr,
    /// Its host name. It is random, because a browser sends a cookie to every port of the same host name.
    pub host: String,
    /// Admits scripts.
    pub token: String,
    /// The value of the cookie.
    cookie: String,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").field("listen", &self.listen).finish_non_exhaustive()
    }
}

impl Address {
    /// Reads where the last dashboard of a data directory was, or is. `None` if there was none, or if others than the owner may
    /// read the file.
    pub fn read(data_dir: &Path) -> Option<Self> {
        let (bytes, metadata) = read_regular(&data_dir.join(FILE_NAME), FILE_BYTES_MAX).ok()?;
        serde_json::from_slice(&bytes).ok().filter(|_| !is_accessible_to_others(&metadata))
    }

    /// The address of a dashboard that listens on `listen`, with the secrets of the last one, and writes it down.
    ///
    /// # Errors
    /// `FILE_UNUSABLE` if the file cannot be written.
    pub(crate) fn write(data_dir: &Path, listen: SocketAddr, ids: &dyn IdSource) -> Result<Self> {
        let secret = || format!("{:032x}{:032x}", ids.random(), ids.random());
        let new = || Self {
            listen,
            host: format!("midex-{:016x}.localhost", ids.random() >> 64),
            token: secret(),
            cookie: secret(),
        };
        let address = Self { listen, ..Self::read(data_dir).unwrap_or_else(new) };
        let bytes = serde_json::to_vec(&address)
            .map_err(|error| Error::internal("the address cannot be encoded").with_source(error))?;
        let path = data_dir.join(FILE_NAME);
        write_private_file(&path, &bytes).map(|()| address).map_err(|error| {
            let path = path.display().to_string();
            let problem = describe_io_error(&error);
            Error::new(Code::FileUnusable, format!("{path} cannot be written: {problem}"))
                .with_context("path", path)
        })
    }

    /// Its base, such as `http://midex-0123.localhost:7333`.
    pub fn origin(&self) -> String {
        format!("http://{}:{}", self.host, self.listen.port())
    }

    pub(crate) fn host_name(&self) -> Result<Host> {
        self.host.parse().map_err(Error::internal)
    }
}

/// Writes a file that only its owner may read, in the place of an earlier one.
fn write_private_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new_path = path.with_extension("new");
    // One that a killed process left behind may have other permissions.
    let _ = fs::remove_file(&new_path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new_path)?;
    file.write_all(bytes)?;
    fs::rename(new_path, path)
}

/// Checks who comes in.
pub(crate) struct Access {
    address: Address,
    token: BearerToken,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    /// The keys of links that were not used yet, each with its end, the oldest first.
    links: Mutex<VecDeque<(String, Timestamp)>>,
}

/// How a request proved that it may come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    Cookie,
    Token,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Access {
    pub(crate) fn new(
        address: Address,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdSource>,
    ) -> Result<Self> {
        let token = BearerToken::new(&address.token)?;
        Ok(Self { address, token, clock, ids, links: Mutex::default() })
    }

    /// What every form of a page carries, so that no other page can send it.
    pub(crate) fn form_token(&self) -> String {
        Digest::compute(format!("form {}", self.address.cookie).as_bytes()).to_string()
    }

    /// The key of a new link, valid once and for [`limits::DASHBOARD_LINK_KEPT`].
    pub(crate) fn add_link(&self) -> String {
        let key = format!("{:032x}", self.ids.random());
        let end = self.clock.now().plus(limits::DASHBOARD_LINK_KEPT);
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.push_back((key.clone(), end));
        if links.len() > limits::DASHBOARD_LINKS_MAX {
            links.pop_front();
        }
        key
    }

    /// Uses up a link. True if it is valid.
    pub(crate) fn use_link(&self, key: &str) -> bool {
        let now = self.clock.now();
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|(_, end)| *end > now);
        let count = links.len();
        links.retain(|(known, _)| !is_equal(known, key));
        links.len() < count
    }

    /// The header that gives a browser the cookie.
    pub(crate) fn set_cookie_header(&self) -> String {
        format!("{COOKIE_NAME}={}; HttpOnly; SameSite=Strict; Path=/", self.address.cookie)
    }

    /// How the request proves that it may come in. `None` if it does not.
    pub(crate) fn find_proof(&self, headers: &HeaderMap) -> Option<Proof> {
        let authorization = get_header_text(headers, header::AUTHORIZATION.as_str());
        if authorization.is_some() {
            return self.token.is_authorized(authorization).then_some(Proof::Token);
        }
        let cookies =
            headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut values = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|cookie| {
            let (name, value) = cookie.trim().split_once('=')?;
            (name == COOKIE_NAME).then_some(value)
        });
        let is_valid = values.any(|value| is_equal(value, &self.address.cookie));
        is_valid.then_some(Proof::Cookie)
    }
}

/// Whether two secrets are equal, in a time that does not tell where they differ.
pub(crate) fn is_equal(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

/// The headers of every reply.
pub(crate) fn add_security_headers(response: &mut Response) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    // With `no-referrer`, a browser would send the forms of the page with `Origin: null`.
    let policy = HeaderValue::from_static("same-origin");
    response.headers_mut().entry(header::REFERRER_POLICY).or_insert(policy);
}
