//! The real binary serving over HTTP, and clients of it: raw ones, where bytes matter, and one for each era of the
//! protocol.

use std::{
    fmt::Write as _,
    io::{self, BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    path::Path,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

pub use super::Client;
use super::{PATIENCE, serve_alone, wait};
use crate::{door::until, reader::stateless};

/// The versions of the protocol that have sessions.
pub const SESSION_VERSIONS: &[&str] = &["2025-03-26", "2025-06-18", "2025-11-25"];
/// The version that has none.
pub const STATELESS_VERSION: &str = "2026-07-28";
/// What a client takes.
pub const ACCEPT: (&str, &str) = ("Accept", "application/json, text/event-stream");
/// What a client sends.
pub const JSON: (&str, &str) = ("Content-Type", "application/json");

/// The real binary, serving over HTTP on a free port.
pub struct HttpServer {
    child: Child,
    stdin: Option<ChildStdin>,
    pub address: SocketAddr,
    stderr: Arc<Mutex<String>>,
    stdout: Arc<Mutex<String>>,
    /// Where it keeps what it knows, if that goes with it.
    home: Option<TempDir>,
}

impl HttpServer {
    /// Serves on a free port in this directory.
    pub fn start(home: &Path) -> Self {
        Self::with(home, &[])
    }

    /// The same in a directory that goes with it.
    pub fn alone() -> Self {
        Self::alone_with(&[])
    }

    /// The same with further flags.
    pub fn alone_with(flags: &[&str]) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let mut server = Self::with(home.path(), flags);
        server.home = Some(home);
        server
    }

    /// Serves on a free port in this directory, with further flags.
    pub fn with(home: &Path, flags: &[&str]) -> Self {
        let flags = [&["--http", "127.0.0.1:0"], flags].concat();
        Self::run(serve_alone(home, &flags))
    }

    /// Starts a command that serves over HTTP, and waits until it says where.
    pub fn run(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let stderr = kept(child.stderr.take().expect("a pipe"));
        let stdout = kept(child.stdout.take().expect("a pipe"));
        let stdin = child.stdin.take();
        let address = until("an address", || {
            let said = stderr.lock().expect("no panic");
            let (_, rest) = said.split_once("http://")?;
            let (address, _) = rest.split_once("/mcp")?;
            Some(address.parse().expect("an address"))
        });
        Self { child, stdin, address, stderr, stdout, home: None }
    }

    /// Another way to reach it over the loopback.
    pub fn loopback(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.address.port()).into()
    }

    pub fn connect(&self) -> Http {
        Http::connect(self.loopback())
    }

    pub fn session(&self) -> Session {
        Session::open(self.loopback(), SESSION_VERSIONS[2])
    }

    pub fn stateless(&self) -> Stateless {
        Stateless::new(self.loopback())
    }

    /// What it has written to stderr so far.
    pub fn stderr(&self) -> String {
        self.stderr.lock().expect("no panic").clone()
    }

    /// What it has written to stdout so far.
    pub fn stdout(&self) -> String {
        self.stdout.lock().expect("no panic").clone()
    }

    /// Its standard input, to write to or to close.
    pub fn stdin(&mut self) -> &mut Option<ChildStdin> {
        &mut self.stdin
    }

    /// Its memory, in bytes.
    pub fn memory(&self) -> usize {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("it lives");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
        let kilobytes = line.trim().trim_end_matches(" kB");
        kilobytes.trim().parse::<usize>().expect("a number") << 10
    }

    /// The files and sockets that it has open.
    pub fn descriptors(&self) -> usize {
        let path = format!("/proc/{}/fd", self.child.id());
        std::fs::read_dir(path).expect("it lives").count()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal)
            .expect("it runs");
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("its end");
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        super::terminate(&self.child);
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        wait(&mut self.child)
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn kept(mut stream: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let text = Arc::new(Mutex::new(String::new()));
    let kept = text.clone();
    std::thread::spawn(move || {
        let mut piece = [0; 8192];
        while let Ok(read @ 1..) = stream.read(&mut piece) {
            let piece = String::from_utf8_lossy(&piece[..read]);
            kept.lock().expect("no panic").push_str(&piece);
        }
    });
    text
}

/// What a server answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let named = |(key, _): &&(String, String)| key.eq_ignore_ascii_case(name);
        self.headers.iter().find(named).map(|(_, value)| value.as_str())
    }

    /// Its body, which must be JSON or a stream that ends with JSON.
    pub fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        if self.header("content-type") == Some("text/event-stream") {
            let mut data = text.lines().filter_map(|line| line.strip_prefix("data:"));
            let last = data.rfind(|data| !data.trim().is_empty());
            return serde_json::from_str(last.expect("an event")).expect("JSON");
        }
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// A refusal: this status, and a JSON-RPC error with this code of ours. Its payload.
    #[track_caller]
    pub fn refuses(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/json"));
        let said = self.json();
        assert_eq!(said["jsonrpc"], "2.0", "{said}");
        let payload = said["error"]["data"].clone();
        assert_eq!(payload["error_code"], code, "{said}");
        for field in ["message", "suggested_action", "correlation_id"] {
            let words = payload[field].as_str().unwrap_or_default();
            assert!(!words.is_empty(), "{field}: {said}");
        }
        payload
    }
}

/// A connection, and what is written and read on it.
pub struct Http {
    pub address: SocketAddr,
    stream: BufReader<TcpStream>,
    /// The head of an answer whose body is still to be read.
    begun: Option<Answer>,
}

impl Http {
    /// Connects, as soon as somebody listens.
    pub fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address).expect("somebody listens")
    }

    /// Connects; an error if nothing listens on the address.
    pub fn try_connect(address: SocketAddr) -> io::Result<Self> {
        Self::connect_within(address, PATIENCE)
    }

    /// Connects, and waits so long at most for that and for each answer.
    pub fn connect_within(address: SocketAddr, timeout: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        stream.set_nodelay(true)?;
        Ok(Self { address, stream: BufReader::new(stream), begun: None })
    }

    /// Writes bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Says that nothing more will be written.
    pub fn half_close(&self) {
        // Where the server has ended the connection there is nothing left to say it to.
        let _ = self.stream.get_ref().shutdown(Shutdown::Write);
    }

    /// Sends a request, with a `Host` that is right unless `headers` name another, and reads the answer.
    pub fn ask(&mut self, method: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.send(method, "/mcp", headers, body).expect("it reads");
        self.answer().expect("an answer")
    }

    /// Sends a request.
    pub fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<()> {
        let mut bytes = head(method, path, self.address, headers, body.len()).into_bytes();
        bytes.extend_from_slice(body);
        self.write(&bytes)
    }

    /// Reads an answer to its end.
    pub fn answer(&mut self) -> io::Result<Answer> {
        let mut answer = match self.begun.take() {
            Some(answer) => answer,
            None => self.answer_head()?,
        };
        if answer.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk()? {
                answer.body.extend(chunk);
            }
        } else if let Some(length) = answer.header("content-length") {
            answer.body = vec![0; length.parse().expect("a length")];
            self.stream.read_exact(&mut answer.body)?;
        }
        Ok(answer)
    }

    /// Reads the head of an answer.
    pub fn answer_head(&mut self) -> io::Result<Answer> {
        let status = self.line()?;
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
        Ok(Answer {
            status: status.ok_or_else(|| io::Error::other("no status"))?,
            headers,
            body: Vec::new(),
        })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }

    /// The next piece of a body that comes in pieces; `None` at its end.
    pub fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = self.line()?;
        let size = usize::from_str_radix(&line, 16).map_err(io::Error::other)?;
        let mut chunk = vec![0; size];
        self.stream.read_exact(&mut chunk)?;
        self.line()?;
        Ok((size > 0).then_some(chunk))
    }

    /// The next message of a stream of events.
    pub fn event(&mut self) -> Value {
        loop {
            let chunk = self.chunk().expect("a stream").expect("an event");
            let text = String::from_utf8(chunk).expect("text");
            let mut data = text.lines().filter_map(|line| line.strip_prefix("data:"));
            let message = data.find_map(|data| serde_json::from_str::<Value>(data).ok());
            if let Some(message) = message {
                return message;
            }
        }
    }

    /// Whether the server has ended the connection, waiting for that.
    pub fn is_closed(&mut self) -> bool {
        loop {
            match self.stream.fill_buf() {
                Ok([]) => return true,
                Ok(bytes) => {
                    let read = bytes.len();
                    self.stream.consume(read);
                }
                Err(error) => return error.kind() == io::ErrorKind::ConnectionReset,
            }
        }
    }

    /// Whether the server has said or ended anything by now.
    pub fn is_quiet(&mut self) -> bool {
        let stream = self.stream.get_ref();
        stream.set_read_timeout(Some(Duration::from_millis(1))).expect("a time limit");
        let quiet = self.stream.fill_buf().is_err_and(|error| {
            matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
        });
        let stream = self.stream.get_ref();
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        quiet
    }
}

/// The head of a request.
pub fn head(
    method: &str,
    path: &str,
    address: SocketAddr,
    headers: &[(&str, &str)],
    length: usize,
) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\n");
    let given = |name: &str| headers.iter().any(|(key, _)| key.eq_ignore_ascii_case(name));
    if !given("host") {
        let _ = write!(head, "Host: {address}\r\n");
    }
    if !given("content-length") && !given("transfer-encoding") {
        let _ = write!(head, "Content-Length: {length}\r\n");
    }
    for (name, value) in headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head + "\r\n"
}

/// A well-behaved client of either era.
pub trait HttpClient {
    /// Sends a request; the whole answer of HTTP.
    fn exchange(&mut self, method: &str, params: Value) -> Answer;
}

/// A client of the era of sessions, on one connection that it renews when it is closed.
pub struct Session {
    pub http: Http,
    pub id: String,
    pub version: &'static str,
    next_id: u64,
}

impl Session {
    /// Shakes hands.
    pub fn open(address: SocketAddr, version: &'static str) -> Self {
        Self::try_open(address, version).expect("a session")
    }

    /// Shakes hands as a client that can ask its user.
    pub fn open_asking(address: SocketAddr, version: &'static str) -> Self {
        let body = initialize_with(version, &json!({ "elicitation": {} }));
        Self::shake_hands(address, version, &body).expect("a session")
    }

    /// Shakes hands; what was answered where the handshake is refused.
    pub fn try_open(address: SocketAddr, version: &'static str) -> Result<Self, Answer> {
        Self::shake_hands(address, version, &initialize(version))
    }

    fn shake_hands(
        address: SocketAddr,
        version: &'static str,
        body: &[u8],
    ) -> Result<Self, Answer> {
        let mut http = Http::connect(address);
        let answer = http.ask("POST", &[ACCEPT, JSON], body);
        let Some(id) = answer.header("mcp-session-id").map(str::to_owned) else {
            return Err(answer);
        };
        assert_eq!(answer.json()["result"]["protocolVersion"], version);
        let mut session = Self { http, id, version, next_id: 1 };
        let told = session.tell("notifications/initialized");
        assert_eq!((told.status, told.body.len()), (202, 0), "{told:?}");
        Ok(session)
    }

    /// The headers of every message.
    pub fn headers(&self) -> Vec<(&str, &str)> {
        vec![ACCEPT, JSON, ("Mcp-Session-Id", &self.id), ("MCP-Protocol-Version", self.version)]
    }

    /// Sends a message as it is, on a connection of its own; the answer.
    pub fn post(&self, message: &Value) -> Answer {
        let body = message.to_string();
        Http::connect(self.http.address).ask("POST", &self.headers(), body.as_bytes())
    }

    /// Sends a call, on a connection of its own, and reads the head of its answer: events follow.
    pub fn follow(&self, message: &Value) -> Http {
        self.head(message).0
    }

    /// The same, and waits until it is in work: its answer has begun.
    pub fn in_work(&self, message: &Value) -> Http {
        let (mut http, answer) = self.head(message);
        http.chunk().expect("an event");
        http.begun = Some(answer);
        http
    }

    fn head(&self, message: &Value) -> (Http, Answer) {
        let mut http = Http::connect(self.http.address);
        let body = message.to_string();
        http.send("POST", "/mcp", &self.headers(), body.as_bytes()).expect("it reads");
        let answer = http.answer_head().expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
        (http, answer)
    }

    /// Sends a notification.
    pub fn tell(&mut self, method: &str) -> Answer {
        self.post(&json!({ "jsonrpc": "2.0", "method": method }))
    }

    /// Sends a request with no body on a connection of its own.
    pub fn plain(&self, method: &str) -> Answer {
        Http::connect(self.http.address).ask(method, &self.headers(), b"")
    }

    /// Opens the stream of what the client did not ask for, as far as its head and its first event.
    pub fn stream(&self) -> Result<Http, Answer> {
        let mut http = Http::connect(self.http.address);
        http.send("GET", "/mcp", &self.headers(), b"").expect("it reads");
        let mut answer = http.answer_head().expect("an answer");
        if answer.status == 200 {
            http.chunk().expect("an event");
            return Ok(http);
        }
        let length = answer.header("content-length").expect("a length").parse();
        answer.body = vec![0; length.expect("a length")];
        http.stream.read_exact(&mut answer.body).expect("a body");
        Err(answer)
    }
}

/// What begins a session.
pub fn initialize(version: &str) -> Vec<u8> {
    initialize_with(version, &json!({}))
}

/// The same of a client with these capabilities.
fn initialize_with(version: &str, capabilities: &Value) -> Vec<u8> {
    let client = json!({ "name": "test", "version": "0" });
    let params =
        json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": client });
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    message.to_string().into_bytes()
}

impl Client for Session {
    fn request(&mut self, method: &str, params: Value) -> Value {
        self.exchange(method, params).json()
    }
}

impl HttpClient for Session {
    fn exchange(&mut self, method: &str, params: Value) -> Answer {
        let id = self.next_id;
        self.next_id += 1;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let body = message.to_string();
        let headers: Vec<_> = self
            .headers()
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let answer = self.http.ask("POST", &headers, body.as_bytes());
        if answer.status == 200 {
            assert_eq!(answer.header("content-type"), Some("text/event-stream"));
            assert_eq!(answer.json()["id"], id);
        }
        answer
    }
}

/// A client of the era without sessions.
pub struct Stateless {
    pub http: Http,
    next_id: u64,
}

impl Stateless {
    pub fn new(address: SocketAddr) -> Self {
        Self { http: Http::connect(address), next_id: 0 }
    }

    /// A call with what the protocol wants beside it: its headers, and its message.
    pub fn message(id: u64, method: &str, mut params: Value) -> (Headers, Value) {
        let names = ["name", "uri", "taskId"];
        let name = names.iter().find_map(|key| params[*key].as_str()).map(str::to_owned);
        if params["_meta"].is_null() {
            params["_meta"] = stateless(Some("test"));
        }
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let mut headers = vec![
            ("MCP-Protocol-Version", STATELESS_VERSION.to_owned()),
            ("Mcp-Method", method.to_owned()),
        ];
        headers.extend(name.map(|name| ("Mcp-Name", name)));
        (Headers(headers), message)
    }

    /// Sends a call and does not wait for the answer.
    pub fn begin(address: SocketAddr, method: &str, params: Value) -> Http {
        let mut http = Http::connect(address);
        let (headers, message) = Self::message(1, method, params);
        http.send("POST", "/mcp", &headers.all(), message.to_string().as_bytes())
            .expect("it reads");
        http
    }
}

/// Headers of the era without sessions.
pub struct Headers(pub Vec<(&'static str, String)>);

impl Headers {
    /// With those of every message.
    pub fn all(&self) -> Vec<(&str, &str)> {
        let own = self.0.iter().map(|(name, value)| (*name, value.as_str()));
        [ACCEPT, JSON].into_iter().chain(own).collect()
    }
}

impl Client for Stateless {
    fn request(&mut self, method: &str, params: Value) -> Value {
        self.exchange(method, params).json()
    }
}

impl HttpClient for Stateless {
    fn exchange(&mut self, method: &str, params: Value) -> Answer {
        self.next_id += 1;
        let (headers, message) = Self::message(self.next_id, method, params);
        let answer = self.http.ask("POST", &headers.all(), message.to_string().as_bytes());
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.json()["id"], self.next_id);
        answer
    }
}
